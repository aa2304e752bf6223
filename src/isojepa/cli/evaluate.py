"""The command `evaluate`: how often controllers that plan in a latent succeed in the simulator."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from isojepa.arguments import check_count
from isojepa.cli.controlled import Controlled, check_planners
from isojepa.cli.printing import out, print_json, progress_bar
from isojepa.cli.tables import Column, print_table
from isojepa.names import choose
from isojepa.plan.closed_loop import (
    PROTOCOLS,
    Controller,
    Evaluation,
    ReacherPlant,
    Rules,
    Tasks,
    chance,
    drawn_tasks,
    evaluate,
    film,
    oracle,
    rest,
    tasks_from_episodes,
    write_film,
)
from isojepa.worlds.episodes import Episodes

_GOALS = ("gaussian", "uniform", "episodes")


@dataclass
class Evaluate(Controlled):
    """How often does planning in a latent reach its goal? Closed loop in the Reacher, with intervals.

    ENCODERS are one or more, each one of

    records:  of an encoder of frames; goals are then images

    file.py:function:  an encoder of your own, from pictures (n, 3, size, size) to rows

    angles, seen, rotated, warped, random:  the true angles, what a frame can tell of them (modulo 2 pi), a
    rotation of them, a map of them that is not linear, and an untrained network of frames

    A transition is fitted on recorded episodes in each encoder's latent, and each planner plans in it. Beside
    them stand random actions, none, and an oracle that knows the true state and the arm's equations.

    The protocol published takes goals 25 rows ahead in an episode and counts |qpos - goal| < 0.05 at any of
    50 steps. The fair one leaves out what is solved at the start, compares angles modulo 2 pi, and counts
    what is within 0.05 during all of the last 10 of 100 steps; goals are drawn from N(0, I), or --goals.

    isojepa evaluate angles --planner mpc cem

    isojepa evaluate runs/gaussian runs/trajectory --goals uniform --seeds 0 1 2 --report control.html

    isojepa evaluate angles rotated warped --protocol published --planner cem --json

    isojepa evaluate runs/b --head runs/a                # one agent's plan in another's head
    """

    encoders: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="ENCODERS")]]
    """Records, file.py:function, or angles, seen, rotated, warped, random."""
    protocol: str = "fair"
    """fair or published."""
    goals: str = ""
    """gaussian, uniform, or episodes, 25 rows ahead in held-out ones; by default as the protocol says."""
    planner: tuple[str, ...] = ("mpc",)
    """cem, icem, mppi, gradient, mpc (a quadratic programme), or inverse (a policy, without search)."""
    tasks: int = 50
    """Starts and goals of each seed."""
    seeds: tuple[int, ...] = (0,)
    """Each draws tasks of its own."""
    streams: int = 1
    """How often each task is run, with other noise of the planner."""
    budget: int | None = None
    """Steps, other than the protocol's."""
    confidence: float = 0.95
    """Of the intervals, by bootstrap over tasks."""

    def run(self) -> int:
        check_planners(self.planner)
        if not self.encoders or not self.planner or not self.seeds:
            raise ValueError("encoders, planner and seeds must each be one at least")
        rules = choose("protocol", self.protocol, PROTOCOLS)
        goals = self.goals or ("episodes" if self.protocol == "published" else "gaussian")
        choose("goals", goals, dict.fromkeys(_GOALS))
        if self.budget is not None:
            rules = replace(rules, budget=check_count("budget", self.budget, max(1, rules.hold)))
        plant = ReacherPlant()
        with progress_bar("controlling") as progress:
            parts = self.learn_from(plant, "gaussian" if goals == "gaussian" else "uniform")
            found = evaluate(
                plant,
                self._controllers(plant, parts, progress),
                lambda source: self._tasks(goals, rules, parts[1], source),
                rules,
                seeds=self.seeds,
                streams=self.streams,
                confidence=self.confidence,
                progress=progress,
            )
        if self.json:
            print_json({"protocol": self.protocol, **found.to_dict()})
        else:
            print_evaluation(found)
        self._show(plant, found)
        return 0

    def _controllers(self, plant: ReacherPlant, parts: Any, progress: Any) -> dict[str, Controller]:
        setting = self.chosen("published" if self.protocol == "published" else "receding")
        found: dict[str, Controller] = {}
        for place, source in enumerate(self.encoders):
            progress(place, len(self.encoders), f"learning the transition of {source}")
            make = self.learned(plant, source, parts)
            found |= {f"{source}, {planner}": make(planner, setting) for planner in self.planner}
        return {**found, "oracle": oracle(plant, setting), "random actions": chance(), "no action": rest()}

    def _tasks(self, goals: str, rules: Rules, held_out: Episodes, source: torch.Generator) -> Tasks:
        if goals == "episodes":
            return tasks_from_episodes(held_out, self.tasks, rules, source)
        return drawn_tasks(goals, self.tasks, rules, source)

    def _show(self, plant: ReacherPlant, found: Evaluation) -> None:
        """Write the film of the first task, and the page."""
        if self.gif is None and self.report is None:
            return
        seed, first = self.seeds[0], next(iter(found.outcomes))
        films = {
            name: film(plant, outcomes[0].qpos[0], found.tasks[seed].goals[0])
            for name, outcomes in found.outcomes.items()
        }
        if self.gif is not None:
            write_film(self.gif, films[first])
        if self.report is not None:
            from isojepa.report.controlling import write_control  # only for those who draw

            asked = {
                "encoders": ", ".join(map(str, self.encoders)),
                "planner": ", ".join(self.planner),
                "protocol": self.protocol,
                "goals": self.goals,
                "seeds": ", ".join(map(str, self.seeds)),
            }
            write_control(self.report, found, films, seconds=plant.seconds, config=asked)
            if not self.json:
                out.print(f"\nOpen {self.report} in a browser.", markup=False)


def print_evaluation(found: Evaluation) -> None:
    """Print how often each controller succeeded."""
    columns = [Column("controller")]
    columns += [Column(name, right=True) for name in ("success", "interval", "runs", "error", "ms per plan")]
    rows = [
        (
            row["controller"],
            f"{row['success']:.3f}",
            f"[{row['low']:.3f}, {row['high']:.3f}]",
            str(row["runs"]),
            f"{row['median_error']:.3f} rad",
            f"{row['ms_per_plan']:.2f}" if row["plans"] else "",
        )
        for row in found.rows()
    ]
    print_table(columns, rows)
    rules = found.rules
    when = f"during all of the last {rules.hold}" if rules.hold else "at any"
    out.print(
        f"Success: within {rules.tolerance:g} rad of the goal {when} of {rules.budget} steps. Error: median "
        f"at the end. {found.removed} tasks left out.",
        style="dim",
    )

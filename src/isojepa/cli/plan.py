"""The command `plan`: from one pose of the arm to another, by planning in a latent."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from isojepa.cli.controlled import Controlled, check_planners, pair_of
from isojepa.cli.printing import out, print_json, progress_bar
from isojepa.cli.tables import Column, print_table
from isojepa.plan.closed_loop import (
    FAIR,
    ReacherPlant,
    Runs,
    Setting,
    film,
    given_tasks,
    run,
    write_film,
)
from isojepa.plan.closed_loop.results import Evaluation, Outcome
from isojepa.seeds import generator


@dataclass
class Plan(Controlled):
    """Plan from one pose of the Reacher to another in a latent, and let the arm go there.

    ENCODER is a record of an encoder of frames, file.py:function, or angles, seen, rotated, warped, random,
    as of `isojepa evaluate`. Poses are two angles in rad, of the shoulder, which turns freely, and of the
    wrist, within 2.79 on both sides; the goal is shown to the encoder as an image. What was done is printed,
    and whether the arm stays within 0.05 rad of the goal for the last 10 of 100 steps of 0.02 s; the exit
    code is 1 if it does not.

    isojepa plan angles --start 0,0 --goal 1.5,-1 --gif arm.gif

    isojepa plan runs/gaussian --start 0.3,2 --goal -1,-2 --planner cem --report plan.html
    """

    encoder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="ENCODER")]]
    """Record, file.py:function, or angles, seen, rotated, warped, random."""
    start: str
    """Two angles, e.g. 0,0; where the first is negative, --start=-1,0."""
    goal: str
    """Two angles, e.g. 1.5,-1."""
    planner: str = "mpc"
    """cem, icem, mppi, gradient, mpc or inverse."""

    def run(self) -> int:
        check_planners((self.planner,))
        tasks = given_tasks(pair_of("start", self.start), pair_of("goal", self.goal))
        setting = self.chosen("receding")
        plant = ReacherPlant()
        with progress_bar("learning the transition"):
            make = self.learned(plant, self.encoder, self.learn_from(plant))
        controller = make(self.planner, setting)
        done = run(plant, controller, tasks, FAIR.budget, generator(self.seed, "planner"))
        errors = FAIR.errors(done.qpos, tasks.goals[:, None])
        reached = bool(FAIR.succeeded(errors)[0])
        self._tell(done, errors[0], reached, setting, plant.seconds)
        if self.gif is not None or self.report is not None:
            moving = film(plant, done.qpos[0], tasks.goals[0])
            if self.gif is not None:
                write_film(self.gif, moving)
            if self.report is not None:
                from isojepa.report.controlling import write_control  # only for those who draw

                name = f"{self.encoder}, {self.planner}"
                outcome = Outcome(
                    self.seed,
                    0,
                    FAIR.succeeded(errors),
                    done.qpos,
                    errors,
                    done.spent,
                    done.spent.seconds,
                )
                found = Evaluation(FAIR, {self.seed: tasks}, {name: [outcome]})
                asked = {"encoder": str(self.encoder), "start": self.start, "goal": self.goal}
                write_control(
                    self.report,
                    found,
                    {name: moving},
                    seconds=plant.seconds,
                    config=asked | {"planner": self.planner, "setting": asdict(setting)},
                )
                if not self.json:
                    out.print(f"\nOpen {self.report} in a browser.", markup=False)
        return 0 if reached else 1

    def _tell(self, done: Runs, errors: np.ndarray, reached: bool, setting: Setting, seconds: float) -> None:
        within = np.flatnonzero(errors < FAIR.tolerance)
        arrived = float(within[0] * seconds) if len(within) else None
        if self.json:
            value: dict[str, Any] = {
                "reached": reached,
                "arrived": arrived,
                "error": float(errors[-1]),
                "plans": done.spent.plans,
                "ms_per_plan": 1e3 * done.spent.seconds / done.spent.plans,
                "qpos": done.qpos[0].tolist(),
                "actions": done.actions[0].tolist(),
            }
            print_json(value)
            return
        names = ("seconds", "shoulder", "wrist", "error", "torque of shoulder", "of wrist")
        steps = range(0, len(errors) - 1, setting.block)
        rows = [
            tuple(
                f"{value:.3f}"
                for value in (
                    step * seconds,
                    *done.qpos[0, step],
                    errors[step],
                    *done.actions[0, step : step + setting.block].mean(0),
                )
            )
            for step in steps
        ]
        print_table([Column(name, right=True) for name in names], rows)
        when = "never within 0.05 rad" if arrived is None else f"within 0.05 rad after {arrived:.2f} s"
        verdict = "Reached, and held" if reached else "Not reached"
        out.print(
            f"{verdict}: {when}, {errors[-1]:.4f} rad at the end; {done.spent.plans} plans of "
            f"{1e3 * done.spent.seconds / done.spent.plans:.1f} ms.",
            style="bold green" if reached else "bold red",
        )

"""Command `certify`: certificates of runs, encoders, embedding files, transitions and world models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro
from rich.cells import cell_len
from rich.text import Text

from isojepa import runs
from isojepa.certificates import (
    Certificate,
    DynamicsCertificate,
    IdentifiedLatents,
    WorldModelCertificate,
    certify,
    certify_dynamics,
    format_value,
)
from isojepa.certificates.grades import satisfies
from isojepa.cli.printing import Column, out, print_json, print_notes, print_table, progress_bar, width_of
from isojepa.cli.sources import embed_array, load_callable
from isojepa.data.array_files import read_actions, read_array, read_named
from isojepa.data.source import Source
from isojepa.data.world import WorldSpec
from isojepa.importing import is_callable_name
from isojepa.registry import Context, Spec, flatten
from isojepa.report.points import points_in_world, points_of_arrays
from isojepa.training.run_directory import RunDirectory

if TYPE_CHECKING:
    from isojepa.unmixing import Component

_NUMBERS = (
    Column("component", right=True),
    Column("identified"),
    Column("rad", right=True),
    Column("pair", right=True),
    Column("departure", right=True),
    Column("world's", right=True),
    Column("dependence", right=True),
    Column("linearized by"),
)
_LATENTS = (Column("latent", right=True), Column("rank", right=True), Column("linear", right=True))
_WORDS = (
    *("", "", "error in rad", "correlation across a pair", "departure from normal", "of it the world's"),
    "dependence",
    *("linearized by", "latent", "rank correlation", "linear correlation"),
)
_PHRASES = {"alone": "alone"}
_NONE = "-"
_GAP = 1  # between columns at least
_LEGEND = (
    "rad: standard error of the direction; pair: correlation across a pair; departure: from a normal law; "
    "world's: what of that no encoder adds to; dependence: of a function of it on another component, 0 for "
    "independent ones"
)


def print_named(named: IdentifiedLatents) -> None:
    """Print the verdict, a line for each component, every number and what is assumed."""
    out.print(named.verdict, style=_tone(named))
    if named.components:
        _print_components(named)
    lines = named.lines()
    print_table(
        (Column(), Column(), Column(prose=True)),
        [(line.name, format_value(line), line.sentence) for line in lines],
        indent=1,
    )
    for note in named.notes():
        out.print(note)


def _print_components(named: IdentifiedLatents) -> None:
    """A line for each component; where that is too wide, the same in words."""
    matched = named.match is not None
    columns = (*_NUMBERS, *(_LATENTS if matched else ()))
    rows = [_cells(named, component, matched) for component in named.components]
    widths = [
        max(cell_len(text) for text in (column.title, *cells))
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    if sum(widths) + _GAP * len(columns) < width_of():
        print_table(columns, rows, indent=1)
        legend = _LEGEND + ("; rank, linear: correlation with its latent." if matched else ".")
        out.print(legend, style="dim")
    else:
        lines = [(row[0], _listed(_WORDS[1 : len(columns)], row[1:])) for row in rows]
        print_table((Column("component"), Column(prose=True)), lines, indent=1)


def _cells(named: IdentifiedLatents, one: "Component", matched: bool) -> tuple[str, ...]:
    block = f"block {one.block[0]}-{one.block[-1]}" if len(one.block) > 1 else "by nothing"
    numbers = (
        str(one.number),
        _PHRASES.get(one.identified_by, f"by {one.identified_by}") if one.identified else block,
        _number(one.error if one.identified else None, ".2g"),
        _number(one.correlation, ".3f"),
        _number(one.departure, ".2g"),
        _number(one.world_departure, ".2g"),
        _number(one.dependence, ".2f"),
        _NONE if one.to_latent is None else one.to_latent.method,
    )
    if not matched:
        return numbers
    partner = named.partner(one)
    if partner is None:
        return (*numbers, _NONE, _NONE, _NONE)
    return (*numbers, str(partner.latent), f"{partner.rank:.4f}", f"{partner.linear:.4f}")


def _listed(words: Sequence[str], cells: Sequence[str]) -> str:
    return ", ".join(
        f"{word} {cell}".lstrip() for word, cell in zip(words, cells, strict=True) if cell != _NONE
    )


def _number(value: float | None, form: str) -> str:
    return _NONE if value is None else format(value, form)


def _tone(named: IdentifiedLatents) -> str:
    return "bold green" if named.components and named.count == len(named.components) else "bold yellow"


_TRANSITION_STYLES = {
    **dict.fromkeys(("collapsed", "uninformative", "static"), "bold red"),
    "short": "bold yellow",
    "predictive": "bold green",
    "true": "bold green",
    "linear": "bold green",
    "unclear": "bold yellow",
    "nonlinear": "bold red",
    "other": "bold red",
    "unidentifiable": "bold red",
}


def certify_transition(
    arrays: Mapping[str, Any], actions: Any, history: int, confidence: float, seed: int
) -> DynamicsCertificate:
    """Certify the transition of the arrays of a file under actions.

    Args:
        arrays: h, and where they are known h_next, z, z_next and episodes.
        actions: in the form of h.
        history: embeddings in a state.
        confidence: of the intervals.
        seed: draws what they are made of.
    """
    whole = {name: np.asarray(value) for name, value in arrays.items()}
    episodes = whole.get("episodes")
    return certify_dynamics(
        whole["h"],
        np.asarray(actions),
        whole.get("h_next"),
        whole.get("z"),
        whole.get("z_next"),
        None if episodes is None else episodes.reshape(-1),
        history=history,
        confidence=confidence,
        seed=seed,
    )


def print_transition(found: DynamicsCertificate) -> None:
    """Print verdict, reasons and numbers as text."""
    _print_dynamics(found, [reason.sentence for reason in found.reasons])


def print_world_model(certificate: WorldModelCertificate) -> None:
    """Print verdict, warnings and every number with what it says and what it does not say."""
    _print_dynamics(certificate, certificate.warnings)


def _print_dynamics(certificate: DynamicsCertificate | WorldModelCertificate, remarks: Sequence[str]) -> None:
    out.print()
    out.print(certificate.sentence, style=_TRANSITION_STYLES[certificate.verdict])
    for remark in remarks:
        out.print(f"- {remark}")
    print_table(
        (Column(), Column(f"value [{100 * certificate.confidence:g} % interval]"), Column(prose=True)),
        [(line.name, format_value(line), line.sentence) for line in certificate.lines()],
        indent=1,
    )


@dataclass
class Certify:
    """Certify that a representation is a world model.

    PATH is one of

    a record:  isojepa certify runs/demo

    embeddings:  npy (samples, dim); or npz, pt, safetensors, HDF5, Parquet or CSV with arrays h, h_next and z

    trajectories:  embeddings of shape (steps, paths, dim), or (steps, dim) with --trajectory

    a world model:  the run directory of one; on the episodes that it held out, or --data FILE

    an encoder:  file.py:function, with a world (--world.mixing ...) or with --data

    Latents allow the comparison with the truth. Second views and rho allow Theorem 3's bound, trajectories
    the spectrum of nonlinearity: both without latents. An array of another name is FILE::NAME.

    isojepa certify embeddings.npz --rho 0.95 --report certificate.html

    isojepa certify h.npy --next h_next.npy --latents z.npy --rho 0.95 --json

    isojepa certify run.h5::encoder/h --next run.h5::encoder/h_next --rho 0.95

    isojepa certify my_encoder.py:encode --world.mixing spiral --world.rho 0.95

    isojepa certify my_encoder.py:encode --data pairs.npz --rho 0.95

    isojepa certify episodes.npz --actions episodes.npz::a --history 2

    isojepa certify pairs.npz --unmix    # which components are single latents? see isojepa unmix
    """

    source: tyro.conf.Positional[Path]
    """Run directory, file of embeddings, or encoder."""
    next: Path | None = None
    """File with embeddings of the second view of each pair."""
    latents: Path | None = None
    """File with the true latents."""
    latents_next: Path | None = None
    """File with the true latents of the second views."""
    data: Path | None = None
    """For an encoder: file with observations x, and where known x_next and z. For a world model: file of
    episodes that it was not trained on; by default those that its run held out."""
    angles: tuple[int, ...] = ()
    """For a world model: numbers of the recorded state dimensions that are angles."""
    allow_train: bool = False
    """For a world model: accept episodes that it was trained on, and say so."""
    trust: tuple[str, ...] = ()
    """For a world model: Python modules that may be imported to make it: those of your own classes."""
    world: Spec = field(default_factory=WorldSpec)
    """For an encoder: the world to try it in."""
    actions: Path | None = None
    """File with the actions that led from each row of h to h_next, or from each step of a trajectory to the
    next: certifies the transition under them."""
    history: int = 1
    """With --actions: embeddings of a trajectory that make a state."""
    rho: float | None = None
    """Correlation of the latents across a pair, or across one step of a trajectory. Without it, it is
    estimated from the embeddings, and what rests on that is at most conditional."""
    rho_from: str | None = None
    """Where rho or the rate comes from: design (of the pairs), states (true ones) or rate (of a known
    process). Without it nothing is more than conditional: it might be the embedding's own."""
    rate: float | None = None
    """Decorrelation rate of the latents per step, in place of rho: rho = exp(-rate)."""
    require: str | None = None
    """Exit with status 1 unless the grade is at least this: rotation, bounded, linear, conditional or
    partial."""
    trajectory: bool = False
    """The rows are successive steps of one path."""
    drop_bad_rows: bool = False
    """Leave out rows with NaN or Inf instead of refusing them."""
    checks: bool = True
    """Also measure spectrum and assumptions."""
    unmix: bool = False
    """Also say which axes of the embedding are latents of their own, and how straight."""
    samples: int | None = None
    """Fresh pairs to draw, in a world; by default 100,000, fewer above 32 latents."""
    seed: int = 1
    """Draws them."""
    confidence: float = 0.95
    """Of the intervals."""
    report: Path | None = None
    """Write the certificate as one interactive, self-contained HTML page."""
    json: bool = False
    """Print the certificate as JSON."""

    def run(self) -> int:
        if self.require is not None:
            satisfies("none", self.require)  # reject an unknown grade before the work
        if self.actions is not None:
            return self._run_transition(self.actions)
        if self.source.is_dir() and is_world_model(self.source):
            return self._run_world_model()
        with print_notes(), progress_bar("certifying") as self._progress:
            certificate, points = self._certify()
        if self.json:
            print_json(certificate.to_dict())
        else:
            print_certificate(certificate)
        if self.report is not None:  # print the numbers even if the page cannot be written
            self._write_page(self.report, certificate, points)
            if not self.json:
                out.print(f"\nOpen {self.report} in a browser.")
        if self.require is None or satisfies(certificate.grade, self.require):
            return 0
        if not self.json:
            needed = f"The grade is {certificate.grade}, and {self.require} is required."
            out.print(f"\n{needed}", style="bold red")
        return 1

    def _run_world_model(self) -> int:
        """Certify the world model of a run directory on held-out episodes."""
        self._refuse_arrays("a world model", data=True)
        if self.require is not None or self.report is not None:
            raise ValueError("require and report are for embeddings: leave them out, or use --json")
        run, episodes = runs.load_world_model(self.source, self.data, trust=self.trust)
        with print_notes(), progress_bar("certifying") as progress:
            certificate = certify(
                run,
                episodes,
                angles=self.angles,
                allow_train=self.allow_train,
                seed=self.seed,
                confidence=self.confidence,
                progress=progress,
            )
        if self.json:
            print_json(certificate.to_dict())
        else:
            print_world_model(certificate)
        return 0

    def _run_transition(self, actions: Path) -> int:
        """Certify the transition under actions; a page has it below the certificate of the embedding."""
        if self.require is not None or self.source.is_dir() or is_callable_name(str(self.source)):
            raise ValueError("actions go with a file of embeddings, and without --require")
        arrays = self._read(read_named(self.source, _MORE))
        transition = certify_transition(
            arrays, read_actions(actions), self.history, self.confidence, self.seed
        )
        if self.json:
            print_json(transition.to_dict())
        else:
            print_transition(transition)
        if self.report is not None:
            with print_notes(), progress_bar("certifying") as self._progress:
                certificate, points = self._of_arrays(arrays)
            self._write_page(self.report, certificate, points | {"transition": transition})
            if not self.json:
                out.print(f"\nOpen {self.report} in a browser.")
        return 0

    def _write_page(self, path: Path, certificate: Certificate, points: dict[str, Any]) -> None:
        from isojepa.report import write_page  # imported to draw only

        write_page(
            path,
            title=str(self.source),
            config=self._settings(),
            metrics=(),
            certificate=certificate,
            seconds=None,
            status="",
            reason="",
            **points,
        )

    def _settings(self) -> dict[str, Any]:
        """Flags that differ from their defaults, for the page."""
        flags = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name not in _NOT_IN_REPORT
        }
        flags = {name: value for name, value in flags.items() if value not in (None, False)}
        if is_callable_name(str(self.source)) and self.data is None:
            flags["world"] = flatten(self.world)
        return {name: str(value) if isinstance(value, Path) else value for name, value in flags.items()}

    def _certify(self) -> tuple[Certificate, dict[str, Any]]:
        """The certificate, and the points that a page shows."""
        if is_callable_name(str(self.source)):
            return self._of_encoder(load_callable(str(self.source)))
        if self.data is not None or self.world != WorldSpec():
            raise ValueError(f"data and world go with an encoder, file.py:function, got source {self.source}")
        if self.source.is_dir():
            return self._of_record()
        text = str(self.source)
        if ":" in text and "::" not in text and not self.source.exists():
            raise ValueError(
                f"{text} does not exist: an encoder is named file.py:function, an array of a file FILE::NAME"
            )
        return self._of_files()

    def _options(self) -> dict[str, Any]:
        return {
            "drop": self.drop_bad_rows,
            "checks": self.checks,
            "unmix": self.unmix,
            "seed": self.seed,
            "confidence": self.confidence,
            "progress": self._progress,
        }

    def _of_record(self) -> tuple[Certificate, dict[str, Any]]:
        self._refuse_arrays("a record")
        encoder, world, _ = runs.load_run(self.source)
        return self._in_world(encoder, world)

    def _of_encoder(self, encoder: Callable[[Any], Any]) -> tuple[Certificate, dict[str, Any]]:
        if self.data is None:
            self._refuse_arrays("an encoder in a world")
            return self._in_world(encoder, self.world.build(Context()))
        if self.world != WorldSpec():
            raise ValueError("an encoder is certified in a world or on data, not both: leave one out")
        arrays = read_named(self.data, _MORE)
        if "x" not in arrays:
            raise ValueError(f"{self.data} must hold observations 'x' to embed, got {', '.join(arrays)}")
        arrays["h"] = embed_array(encoder, arrays["x"])
        if "x_next" in arrays:
            arrays["h_next"] = embed_array(encoder, arrays["x_next"])
        return self._of_arrays(arrays)

    def _in_world(self, encoder: Callable[[Any], Any], world: Source) -> tuple[Certificate, dict[str, Any]]:
        certificate = certify(encoder, world, samples=self.samples, **self._options())
        return certificate, points_in_world(encoder, world) if self.report else {}

    def _of_files(self) -> tuple[Certificate, dict[str, Any]]:
        return self._of_arrays(read_named(self.source, _MORE))

    def _read(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """The arrays of the file, with those of the other files that were named."""
        if self.samples is not None:
            raise ValueError("samples are drawn in a world; a file has those it has")
        for name in ("next", "latents", "latents_next"):
            path = getattr(self, name)
            if path is not None:
                key = {"next": "h_next", "latents": "z", "latents_next": "z_next"}[name]
                arrays[key] = read_array(path)
        if "h" not in arrays:
            raise ValueError(f"{self.source} must hold embeddings 'h', got {', '.join(arrays)}")
        return arrays

    def _of_arrays(self, arrays: dict[str, Any]) -> tuple[Certificate, dict[str, Any]]:
        arrays = self._read(arrays)
        certificate = certify(
            arrays["h"],
            next=arrays.get("h_next"),
            latents=arrays.get("z"),
            latents_next=arrays.get("z_next"),
            rho=self.rho,
            rho_from=self.rho_from,
            rate=self.rate,
            trajectory=self.trajectory,
            **self._options(),
        )
        return certificate, points_of_arrays(arrays) if self.report else {}

    def _refuse_arrays(self, what: str, data: bool = False) -> None:
        flags = (self.next, self.latents, self.latents_next, self.rho, self.rho_from, self.rate)
        if any(one is not None for one in flags) or self.trajectory:
            raise ValueError(f"{what} brings its own next, latents and rho")
        if self.data is not None and not data:
            raise ValueError(f"{what} draws its own data")


def is_world_model(path: Path) -> bool:
    """Whether a run directory is of a world model, by its config."""
    config = RunDirectory.open(path).config
    if config.get("made_from") != "python":
        return (config.get("encoder") or {}).get("name") == "world-model"
    recipe = (config.get("models") or {}).get("encoder") or {}
    return str(recipe.get("class", "")).endswith(":WorldModel")


_MORE = " (and --next, --latents likewise)"
_NOT_IN_REPORT = ("world", "report", "json")
_GRADE_STYLES = {
    "rotation": "bold green",
    "bounded": "bold green",
    "refuted": "bold red",
    "collapsed": "bold red",
}
_VERDICT_STYLES = {"holds": "green", "fails": "bold red", "unclear": "yellow"}


def print_certificate(certificate: Certificate) -> None:
    """Print verdict, numbers and assumptions as text."""
    out.print()
    out.print(certificate.verdict, style=_GRADE_STYLES.get(certificate.grade, "bold yellow"))
    interval = f"value [{100 * certificate.confidence:g} % interval]"
    print_table(
        (Column(), Column(interval), Column(prose=True)),
        [
            (line.name, format_value(line), line.sentence)
            for line in certificate.lines()
            if line.section != "named"
        ],
        indent=1,
    )
    for note in certificate.notes():
        out.print(note)
    if certificate.assumptions:
        _print_assumptions(certificate)
    if certificate.named is not None:
        out.print(Text("Named latents", style="bold"))
        print_named(certificate.named)
    out.print(f"\nNext: {certificate.next_step}")


def _print_assumptions(certificate: Certificate) -> None:
    print_table(
        (Column(), Column(), Column(prose=True)),
        [
            (
                item.name,
                Text(item.verdict, style=_VERDICT_STYLES[item.verdict]),
                f"{item.sentence} {item.advice}".rstrip(),
            )
            for item in certificate.assumptions
        ],
        title="Assumptions",
        indent=1,
    )

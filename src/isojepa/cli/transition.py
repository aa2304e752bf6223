"""What `certify` computes and prints of dynamics: transitions under actions, and world models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from isojepa.certificates import DynamicsCertificate, WorldModelCertificate, certify_dynamics, format_value
from isojepa.cli.printing import out
from isojepa.cli.tables import Column, print_table

_TONES = {
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
    """Print verdict, reasons and numbers for a person."""
    _print(found, [reason.sentence for reason in found.reasons])


def print_world_model(certificate: WorldModelCertificate) -> None:
    """Print verdict, warnings and every number with what it says and what it does not say."""
    _print(certificate, certificate.warnings)


def _print(certificate: DynamicsCertificate | WorldModelCertificate, remarks: Sequence[str]) -> None:
    out.print()
    out.print(certificate.sentence, style=_TONES[certificate.verdict])
    for remark in remarks:
        out.print(f"- {remark}")
    print_table(
        (Column(), Column(f"value [{100 * certificate.confidence:g} % interval]"), Column(prose=True)),
        [(line.name, format_value(line), line.sentence) for line in certificate.lines()],
        indent=1,
    )

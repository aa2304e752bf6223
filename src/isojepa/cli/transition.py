"""What `certify --actions` computes and prints: the transition of embeddings under actions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from isojepa.certificates import DynamicsCertificate, certify_dynamics, format_value
from isojepa.cli.printing import out
from isojepa.cli.tables import Column, print_table

_TONES = {
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
    out.print()
    out.print(found.sentence, style=_TONES[found.verdict])
    for reason in found.reasons:
        out.print(f"- {reason.sentence}")
    print_table(
        (Column(), Column(f"value [{100 * found.confidence:g} % interval]"), Column(prose=True)),
        [(line.name, format_value(line), line.sentence) for line in found.lines()],
        indent=1,
    )

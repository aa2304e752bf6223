"""Names and numbers with their signs."""

import pytest

from isojepa.report.lines import signs


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("R2 h -> z", "R² h → z"),
        ("bound D + (eps + D)^2", "bound D + (ε + D)²"),
        ("two steps at rho = 0.9", "two steps at ρ = 0.9"),
        ("it is -0.5 [-1e-05, 2]", "it is −0.5 [−1e−05, 2]"),
        ("a held-out half of 3-dimensional latents", "a held-out half of 3-dimensional latents"),
        ("the latents' law", "the latents’ law"),
    ],
)
def test_only_whole_names_and_minus_signs_are_replaced(plain: str, shown: str) -> None:
    assert signs(plain) == shown

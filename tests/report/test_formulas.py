"""Equations: well formed, and there for every number of a certificate."""

import xml.etree.ElementTree as ET

import pytest

from isojepa.report.formulas import ASSUMPTIONS, LINES
from tests.report.cases import CASES

ELEMENTS = {
    "math",
    "mrow",
    "mi",
    "mn",
    "mo",
    "msup",
    "msub",
    "msubsup",
    "munder",
    "mover",
    "mfrac",
    "msqrt",
    "mspace",
}
CHILDREN = {"msup": 2, "msub": 2, "msubsup": 3, "munder": 2, "mover": 2, "mfrac": 2}


@pytest.mark.parametrize("name", [*LINES, *ASSUMPTIONS])
def test_formulas_are_mathml(name: str) -> None:
    equation = (LINES | ASSUMPTIONS)[name]
    assert equation.words.endswith(".")
    for text in equation.formulas:
        tree = ET.fromstring(text)
        assert tree.tag == "math"
        for node in tree.iter():
            assert node.tag in ELEMENTS
            assert len(node) == CHILDREN.get(node.tag, len(node)), ET.tostring(node)
            if node.tag in ("mi", "mn", "mo"):
                assert node.text


def test_every_number_of_a_certificate_has_its_equation() -> None:
    certificate = CASES["labelled"]().certificate
    assert {line.name for line in certificate.lines()} <= set(LINES)
    assert {item.name for item in certificate.assumptions} <= set(ASSUMPTIONS)
    assert len(certificate.lines()) >= 15
    assert len(certificate.assumptions) == 7

"""Equations in MathML, which browsers draw by themselves.

Formulas are written as text, `"δ = E", norm("h′ − h", 2)`, and cut into identifiers, numbers and operators:
one letter is a variable, several are a name that stands upright.
"""

import re
from dataclasses import dataclass
from html import escape

_TOKENS = re.compile(r"[A-Za-zα-ωΣ]+′?|\d+(?:\.\d+)?|\S")
_UPRIGHT = {"E", "I"}
_SPACED = {"min", "max", "tr", "log", "Var", "E", "Cov", "mean"}


@dataclass(frozen=True)
class Equation:
    """Formulas, one below the other, and a sentence on what is in them."""

    formulas: tuple[str, ...]
    words: str

    def html(self) -> str:
        """The formulas and the sentence; both are ours, so nothing is escaped twice."""
        return "".join(f'<div class="formula">{one}</div>' for one in self.formulas) + f"<p>{self.words}</p>"


def formula(*parts: str) -> str:
    """A displayed formula of text and of parts that are MathML already."""
    return f'<math display="block">{row(*parts)}</math>'


def row(*parts: str) -> str:
    """Parts beside each other."""
    return "<mrow>" + "".join(part if part.startswith("<m") else _text(part) for part in parts) + "</mrow>"


def power(base: str, exponent: str) -> str:
    """With something above on the right."""
    return f"<msup>{row(base)}{row(exponent)}</msup>"


def index(base: str, below: str) -> str:
    """With something below on the right."""
    return f"<msub>{row(base)}{row(below)}</msub>"


def both(base: str, below: str, above: str) -> str:
    """With both."""
    return f"<msubsup>{row(base)}{row(below)}{row(above)}</msubsup>"


def total(below: str) -> str:
    """A sum over something."""
    return f'<munder><mo movablelimits="false">∑</mo>{row(below)}</munder>'


def under(name: str, below: str) -> str:
    """With something straight below."""
    return f"<munder>{row(name)}{row(below)}</munder>"


def hat(letter: str, mark: str = "^") -> str:
    """With a mark above: an estimate, or with a tilde a copy."""
    return f'<mover accent="true">{row(letter)}<mo stretchy="false">{mark}</mo></mover>'


def ratio(above: str, below: str) -> str:
    """A fraction."""
    return f"<mfrac>{row(above)}{row(below)}</mfrac>"


def root(inside: str) -> str:
    """A square root."""
    return f"<msqrt>{row(inside)}</msqrt>"


def norm(inside: str, exponent: str = "2") -> str:
    """The squared norm."""
    return f"<msup>{row('‖', inside, '‖')}{row(exponent)}</msup>"


def frobenius(inside: str) -> str:
    """The root of the sum of squares of a matrix."""
    return f"<msub>{row('‖', inside, '‖')}{row('F')}</msub>"


def _text(text: str) -> str:
    return "".join(_token(token) for token in _TOKENS.findall(text))


def _token(token: str) -> str:
    if token[0].isdigit():
        return f"<mn>{token}</mn>"
    if token[0].isalpha():
        upright = len(token.rstrip("′")) > 1 or token in _UPRIGHT
        mark = ' mathvariant="normal"' if upright else ""
        space = '<mspace width="0.18em"/>' if token in _SPACED else ""
        return f"<mi{mark}>{escape(token)}</mi>{space}"
    stretch = ' stretchy="false"' if token in "()[]‖|⟨⟩" else ""
    return f"<mo{stretch}>{escape(token)}</mo>"

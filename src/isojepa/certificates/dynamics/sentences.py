"""The numbers of a transition certificate in words, a line each."""

from typing import TYPE_CHECKING

from isojepa.certificates.dynamics.agreement import Agreement, Perturbation
from isojepa.certificates.dynamics.eigenvalues import Eigenvalue
from isojepa.certificates.dynamics.excitation import Excitation
from isojepa.certificates.dynamics.invariants import Invariants
from isojepa.certificates.dynamics.linearity import Linearity
from isojepa.certificates.sentences import Line
from isojepa.statistics.intervals import Interval

if TYPE_CHECKING:
    from isojepa.certificates.dynamics.certificate import DynamicsCertificate


def lines(certificate: "DynamicsCertificate") -> list[Line]:
    """Every number that was measured."""
    found = _excitation(certificate.excitation)
    if certificate.linearity is not None:
        found += _linearity(certificate.linearity)
    if certificate.invariants is not None:
        found += _invariants(certificate.invariants)
    if certificate.agreement is not None:
        found += _agreement(certificate.agreement)
    if certificate.perturbation is not None:
        found += _perturbation(certificate.perturbation)
    return found


def _line(name: str, value: Interval | float, sentence: str) -> Line:
    if isinstance(value, Interval):
        return Line(name, value.estimate, value, sentence, "transition")
    return Line(name, value, None, sentence, "transition")


def _excitation(excitation: Excitation) -> list[Line]:
    least = excitation.smallest
    return [
        _line("min Cov(a | s)", least, "What the state leaves of the actions, in the weakest direction."),
        _line("share left", excitation.share, "The same as a share of that direction's variance."),
    ]


def _linearity(linearity: Linearity) -> list[Line]:
    test = f"Predicted beyond A and B by {linearity.features} features, held out; p = {linearity.p:.2g}."
    near = f"Share of the variance that rows of near states share beyond A and B; p = {linearity.fast_p:.2g}."
    found = [
        _line("R2 of one step", linearity.r2, "Of the next embedding, by A and B, held out."),
        _line("nonlinear gain", linearity.gain, test),
        _line("fast gain", linearity.fast, near),
    ]
    if linearity.memory is not None:
        past = f"Correlation of what A and B leave of successive steps; p = {linearity.memory_p:.2g}."
        found.append(_line("memory", linearity.memory, past))
    return found


def _invariants(invariants: Invariants) -> list[Line]:
    found = [_eigenvalue(i, one) for i, one in enumerate(invariants.eigenvalues)]
    found += [
        _line(f"B singular {i}", one, "A singular value of B.")
        for i, one in enumerate(invariants.singular_values)
    ]
    ahead = f"over {invariants.horizon} steps" if invariants.horizon else "without end"
    found += [
        _line(f"Gramian {i}", one, f"An eigenvalue of the controllability Gramian {ahead}.")
        for i, one in enumerate(invariants.gramian)
    ]
    size = len(invariants.reach)
    found.append(
        _line("rank [B, AB, ...]", invariants.rank, f"Directions of {size} that actions surely reach.")
    )
    return found


def _eigenvalue(place: int, one: Eigenvalue) -> Line:
    if one.imag == Interval(0.0, 0.0, 0.0):
        return _line(f"A eigenvalue {place}", one.real, "Real.")
    return _line(f"A |eigenvalue {place}|", one.modulus, f"The modulus of {one.estimate:.3g}.")


def _agreement(agreement: Agreement) -> list[Line]:
    return [
        _line("error of A", agreement.a, "Relative to the true one, in one common rotation."),
        _line("error of B", agreement.b, "Likewise."),
        _line("further turn", agreement.turn, "Radians that transitions ask for beyond that rotation."),
        _line("recovery error", agreement.recovery_error, "E |h - Q z|^2, held out."),
    ]


def _perturbation(found: Perturbation) -> list[Line]:
    constants = (
        f"eta {found.eta:.3g}, eta' {found.eta_next:.3g}, |A_h| {found.norm:.3g}, |A| at most "
        f"{found.norm_true:.3g}, min Cov(s | a) {found.state_left:.3g}, min Cov(a | s) "
        f"{found.action_left:.3g}; |Cov(h) - I| is {found.epsilon:.3g}."
    )
    return [
        _line("bound of A", found.a, f"What the recovery error can do to A, Frobenius: {constants}"),
        _line("bound of B", found.b, "Likewise to B, with the same constants."),
    ]

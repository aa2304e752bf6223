"""What cannot be compared is refused in one line that says what is wanted, what came, and what to do."""

import numpy as np
import pytest
import torch

from isojepa.align import metrics as m
from tests.align.metrics.test_scores import SCORES

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 4))


def broken(rows, value, at=(3, 1)):
    rows = rows.copy()
    rows[at] = value
    return rows


BAD = {
    "rows": (X, Y[:39], "40 and 39 rows"),
    "nan": (broken(X, np.nan), Y, "first must be finite, got nan in row 3, column 1"),
    "inf": (X, broken(Y, -np.inf), "second must be finite, got -inf in row 3"),
    "constant": (
        broken(X, 2.0, (slice(None), 1)),
        Y,
        r"first must vary in every column.*1.*drop_constant=True",
    ),
    "flat": (X[:, 0], Y, r"first must be rows \(n, dim\), got shape \(40,\)"),
    "empty": (X[:, :0], Y, "got shape"),
    "none": (X[:0], Y[:0], "got shape"),
    "words": (X.astype(str), Y, "first must hold numbers"),
    "few": (X[:3], Y[:3], "at least"),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("case", BAD)
def test_arrays_that_cannot_be_compared_are_refused(name, case):
    first, second, words = BAD[case]
    with pytest.raises(ValueError, match=words) as raised:
        SCORES[name](first, second)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("case", BAD)
def test_all_at_once_refuse_the_same(case):
    first, second, words = BAD[case]
    with pytest.raises(ValueError, match=words):
        m.compare(first, second, ks=(1,), k=1)


@pytest.mark.parametrize("name", SCORES)
def test_constant_columns_are_left_out_when_asked_and_that_is_said(name):
    found = SCORES[name](np.c_[np.ones(40), X, np.zeros(40)], Y, drop_constant=True)
    plain = SCORES[name](X, Y)
    assert found.value == plain.value
    assert found.note == "constant columns of first left out: 0, 4"


def test_all_columns_constant_is_refused_even_then():
    with pytest.raises(ValueError, match="first must have a column that varies"):
        m.cka(np.ones((40, 2)), Y, drop_constant=True)


@pytest.mark.parametrize("k", [0, 40, 2.5, -1])
@pytest.mark.parametrize("score", [m.neighbour_overlap, m.mutual_knn, m.cycle_knn])
def test_neighbours_that_there_are_not_are_refused(score, k):
    with pytest.raises(ValueError, match=r"k must"):
        score(X, Y, k=k)


def test_fewer_rows_than_dimensions_need_a_ridge_which_is_said():
    wide = RNG.normal(size=(40, 30))
    with pytest.raises(ValueError, match=r"got 20 and 30.*ridge"):
        m.r2(wide, Y)
    assert np.isfinite(m.r2(wide, Y, ridge=10.0).p)
    with pytest.raises(
        ValueError, match="mean CCA must have at least 2 rows more than dimensions, got 40 rows and 39"
    ):
        m.mean_cca(RNG.normal(size=(40, 60)), Y)


def test_ids_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="ids must be as many as rows, 40, got 3"):
        m.r2(X, Y, ids=[1, 2, 3])
    with pytest.raises(ValueError, match="at least two states"):
        m.mse(X, Y, ids=np.zeros(40, dtype=int))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"confidence": 1.0}, "confidence must lie between 0 and 1, got 1.0"),
        ({"confidence": "high"}, "confidence must be a number"),
        ({"null": 3}, "null must be True or False"),
        ({"seed": 0.5}, "seed must be an integer"),
    ],
)
@pytest.mark.parametrize("score", [m.cka, m.mean_cca, m.dsc, m.r2, m.angular_procrustes, m.cycle_knn])
def test_options_that_are_not_are_refused(score, options, words):
    with pytest.raises(ValueError, match=words):
        score(X, Y, **options)


def test_other_options_are_refused():
    with pytest.raises(ValueError, match="draws must be an integer of at least 9, got 3"):
        m.mean_cca(X, Y, draws=3)
    with pytest.raises(ValueError, match="did you mean 'cosine'"):
        m.rsa(X, Y, dissimilarity="cosin")
    with pytest.raises(ValueError, match=r"variance must lie in \(0, 1\]"):
        m.svcca(X, Y, variance=0.0)
    with pytest.raises(ValueError, match="weights must be one of first, second"):
        m.pwcca(X, Y, weights="both")
    with pytest.raises(ValueError, match="ridge must be at least 0"):
        m.r2(X, Y, ridge=-1.0)


def test_rows_without_a_direction_are_refused_where_one_is_needed():
    x = broken(X, 0.0, (5, slice(None)))
    with pytest.raises(ValueError, match="zeros in row 5"):
        m.mutual_knn(x, Y)
    with pytest.raises(ValueError, match="row 5"):
        m.rsa(x, Y)
    with pytest.raises(ValueError, match="at least 3 columns"):
        m.rsa(X[:, :2], Y)


def test_layers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="all layers must have the same rows"):
        m.layer_cka([X], [Y[:30]])
    with pytest.raises(ValueError, match="must be added"):
        m.LayerCKA().matrix()
    with pytest.raises(ValueError, match="at least 4 rows"):
        m.LayerCKA().add([X[:3]], [Y[:3]])
    with pytest.raises(ValueError, match="every batch must have the same layers"):
        m.LayerCKA().add([X], [Y]).add([X, X], [Y])


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="first must hold numbers"):
        m.cka(torch.zeros(40, 3, dtype=torch.complex64), Y)

"""Named latents as a part of a certificate: what is said, what is refused, and that nothing else changes."""

from dataclasses import replace

import numpy as np
import pytest

import isojepa as ij
from isojepa.certificates.named import IdentifiedLatents, describe_components
from isojepa.data import Identity, OrnsteinUhlenbeck, World
from isojepa.io import to_jsonable
from tests.unmixing.rows import bent, normal


def certified(rows, latents=True, **options):
    z = rows["z"] if latents else None
    return ij.certify(rows["h"], next=rows["h_next"], latents=z, checks=False, unmix=True, **options)


@pytest.fixture(scope="module")
def named():
    return certified(bent())


def test_a_certificate_says_which_axes_are_latents_and_how_straight(named):
    found = named.named
    assert (found.count, len(found.components), found.unmixing.blocks_) == (2, 2, ())
    assert found.identified_by == {"shape": 2}
    assert found.linearized == 2
    assert found.agreement > 0.999
    assert found.match.rank.estimate > 0.999
    assert found.match.linear.low > found.match_before.linear.high
    assert found.match.linear_r2 > 0.999 > found.match_before.linear_r2
    assert sorted(found.partner(one).latent for one in found.components) == [0, 1]
    assert all(abs(found.partner(one).linear) > 0.999 for one in found.components)


def test_nothing_else_of_the_certificate_changes(named):
    rows = bent()
    without = ij.certify(rows["h"], next=rows["h_next"], latents=rows["z"], checks=False)
    assert without.named is None
    assert to_jsonable(replace(named, named=None).to_dict()) == to_jsonable(without.to_dict())
    assert (named.grade, named.verdict, named.next_step) == (
        without.grade,
        without.verdict,
        without.next_step,
    )
    assert [line for line in named.lines() if line.section != "named"] == without.lines()
    assert "Identified latents" not in str(without)


def test_normal_latents_of_one_rate_are_refused_without_labels():
    found = certified(normal(), latents=False).named
    assert found.count == 0
    assert found.unmixing.blocks_ == ((0, 1, 2),)
    assert found.verdict.startswith("No component is identified")
    assert found.match is None
    assert found.agreement is None
    assert found.assumptions == ()
    assert [axis["error"] for axis in found.to_dict()["axes"]] == [None] * 3
    assert any(note.startswith("Components 0 to 2: ") for note in found.notes())


def test_rates_name_some_axes_and_leave_a_block():
    found = certified(normal(rates=(0.95, 0.6, 0.6))).named
    assert found.identified_by == {"rate": 1}
    assert found.unmixing.blocks_ == ((1, 2),)
    assert found.sentence(found.components[1]).startswith("in a block with component 2: ")


def test_a_collapsed_embedding_keeps_its_certificate_and_says_why_no_axis_is_named():
    rows = bent()
    wide = {name: np.column_stack((rows[name], rows[name][:, 0])) for name in ("h", "h_next")}
    found = certified({**rows, **wide})
    assert found.named.components == ()
    assert "vary in every direction" in found.named.missing
    assert "No component is identified: h must vary" in str(found)
    assert found.recovery is not None


def test_latents_that_cannot_be_compared_leave_the_axes():
    rows = bent()
    z = rows["z"].copy()
    z[:, 1] = 0.0
    found = certified({**rows, "z": z}).named
    assert found.count == 2
    assert found.match is None
    assert any("Not compared with the latents" in note for note in found.notes())


def test_an_encoder_is_unmixed_on_the_pairs_that_are_drawn():
    world = World(OrnsteinUhlenbeck(2, [0.95, 0.6]), Identity())
    found = ij.certify(lambda x: x, world, samples=4000, checks=False, unmix=True)
    assert found.named.rows == found.samples == 4000
    assert found.named.identified_by == {"rate": 2}
    assert found.named.match.rank.estimate > 0.99


def test_bad_rows_are_left_out_of_both():
    rows = {name: value.copy() for name, value in bent().items()}
    rows["h"][7] = np.nan
    found = certified(rows, drop=True)
    assert found.named.rows == found.samples == len(rows["h"]) - 1


def test_without_rows_to_compare_there_is_no_match():
    rows = bent()
    found = describe_components(ij.unmix(rows["h"]), None)
    assert isinstance(found, IdentifiedLatents)
    assert found.match is None
    assert {one.to_latent.method for one in found.components} == {"eigenfunction"}
    assert found.notes()[-1].startswith("Assumed, not shown: the component is the slowest eigenfunction")


def test_the_keys_of_json_are_those_of_committed_results(named):
    values = to_jsonable(named.named.to_dict())
    assert set(values) == {
        *("rows", "verdict", "axes", "blocks", "assumptions", "agreement", "match", "missing"),
        *("count", "straightened", "cues"),
    }
    assert set(values["match"]) == {
        *("rank", "linear", "linear_before", "disentanglement", "completeness", "r2_before", "r2"),
    }
    assert set(values["match"]["rank"]) == {"estimate", "low", "high"}
    assert set(values["axes"][0]) == {
        *("number", "named", "cue", "block", "error", "correlation", "departure", "dependence", "method"),
        *("agreement", "sentence", "note", "latent", "rank", "linear", "world_departure"),
    }

"""Closed loop in the simulator: oracle, rotations, warps, and one agent's plan in another's head."""

import io

import numpy as np
import pytest
import torch

from isojepa.alignment.maps import AlignmentMap
from isojepa.data.episodes import Episodes
from isojepa.seeds import generator
from isojepa_lab.environments.closed_loop import evaluate, film
from isojepa_lab.environments.latent_control import (
    SETTINGS,
    Angles,
    FittedEncoder,
    MappedEncoder,
    PlanningSetting,
    chance,
    encode,
    fit_model,
    oracle,
    rest,
    rotated,
    translated,
    warped,
)
from isojepa_lab.environments.plants import FAIR, PUBLISHED, drawn_tasks, record, tasks_from_episodes
from tests.lab.environments.rendering import plant_or_skip, rendering_or_skip

SETTING = SETTINGS["receding"]
TASKS = 12


@pytest.fixture(scope="module")
def plant():
    return plant_or_skip()


@pytest.fixture(scope="module")
def episodes(plant):
    return record(plant, 60, 100, generator(0, "episodes")).split(0.7, 0)


def learned(plant, encoder, episodes, **options):
    return FittedEncoder(plant, encoder, *episodes, **{"kind": "linear", **options})


def drawn(source):
    return drawn_tasks("gaussian", TASKS, FAIR, source)


def test_the_oracle_always_succeeds_and_doing_nothing_or_anything_does_not(plant):
    controllers = {"oracle": oracle(plant, SETTING), "rest": rest(), "chance": chance()}
    for law in ("gaussian", "uniform"):
        found = evaluate(
            plant, controllers, lambda source, law=law: drawn_tasks(law, TASKS, FAIR, source), FAIR
        )
        assert found.success("oracle").estimate == 1
        assert found.success("rest").estimate == found.success("chance").estimate == 0
    assert "oracle        1.000" in str(found)
    row = found.rows()[0]
    assert row["runs"] == row["tasks"] == TASKS
    assert row["plans"] == 20


def test_true_angles_and_a_rotation_of_them_do_alike_and_a_warp_no_better(plant, episodes):
    encoders = {"angles": Angles(), "rotated": rotated(Angles(), 2, seed=3), "warped": warped(Angles())}
    controllers = {
        name: learned(plant, encoder, episodes).controller("mpc", SETTING)
        for name, encoder in encoders.items()
    }
    found = evaluate(plant, controllers, drawn, FAIR)
    assert found.success("angles").estimate > 0.9
    assert found.difference("angles", "rotated").estimate == 0
    true, turned, bent = (found.outcomes[name][0].errors for name in encoders)
    np.testing.assert_allclose(true, turned, atol=1e-3)
    assert found.success("warped").estimate <= found.success("angles").estimate
    assert bent.mean() > 1.1 * true.mean()  # it is longer on its way at least


def test_the_published_protocol_is_easy_and_its_setting_is_met(plant, episodes):
    controller = learned(plant, Angles(), episodes).controller("icem", SETTINGS["published"])
    assert (controller.block, controller.execute, controller.planner.horizon) == (5, 5, 5)
    controllers = {"angles": controller, "chance": chance()}
    found = evaluate(
        plant, controllers, lambda source: tasks_from_episodes(episodes[1], 24, PUBLISHED, source), PUBLISHED
    )
    assert found.success("angles").estimate > 0.8
    assert found.success("chance").estimate > 0  # it counts whoever flies past
    assert found.rows()[0]["plans"] == 2


def test_seeds_draw_tasks_and_streams_noise(plant):
    found = evaluate(plant, {"chance": chance()}, drawn, FAIR, seeds=(0, 1), streams=2)
    a, b, c, _ = found.outcomes["chance"]
    assert np.array_equal(a.qpos[:, 0], b.qpos[:, 0])
    assert not np.array_equal(a.qpos[:, -1], b.qpos[:, -1])
    assert not np.array_equal(a.qpos[:, 0], c.qpos[:, 0])
    again = evaluate(plant, {"chance": chance()}, drawn, FAIR, seeds=(0, 1), streams=2)
    assert np.array_equal(again.outcomes["chance"][1].qpos, b.qpos)


def linear_encoder(seed):
    matrix = torch.randn(3, 2, generator=generator(seed, "encoder"))
    return MappedEncoder(Angles(), lambda h: h @ matrix.T)


def test_one_agent_plans_in_anothers_head_through_the_map_between_them(plant, episodes):
    first, second = linear_encoder(0), linear_encoder(1)
    head = learned(plant, first, episodes)
    poses = np.concatenate(episodes[0].vectors("qpos"))[::7]
    h1, h2 = (one(plant, poses).double().numpy() for one in (first, second))
    map = AlignmentMap("ridge").fit(h2, h1)
    wrong = AlignmentMap("ridge").fit(np.roll(h2, 1, 0)[::-1] @ np.diag([1, -1, 1]), h1)
    controllers = {
        "own eyes": head.controller("mpc", SETTING),
        "the other's": head.controller("mpc", SETTING, translated(second, map)),
        "mismatched": head.controller("mpc", SETTING, translated(second, wrong)),
    }
    found = evaluate(plant, controllers, drawn, FAIR)
    assert found.success("own eyes").estimate > 0.9
    assert found.difference("own eyes", "the other's").estimate == 0
    assert found.success("mismatched").estimate < 0.2


def test_a_policy_by_inverse_dynamics_needs_a_hundredth_of_the_search(plant, episodes):
    known = learned(plant, Angles(), episodes)
    controllers = {name: known.controller(name, SETTING) for name in ("inverse", "cem")}
    found = evaluate(plant, {"inverse": controllers["inverse"]}, drawn, FAIR)
    assert found.success("inverse").estimate > 0.8
    assert controllers["inverse"].planner.horizon == 1
    cem = controllers["cem"].planner
    assert sum(cem.populations) * cem.horizon > 100 * 2 * (5 / 2)  # model steps against passes, per block


def test_a_network_explains_what_a_linear_transition_leaves(plant, episodes):
    parts = [encode(plant, Angles(), part) for part in episodes]
    fits = {kind: fit_model(*parts, block=5, kind=kind, steps=300) for kind in ("linear", "network")}
    assert 0.9 < fits["linear"].r2 < fits["network"].r2 < 1
    before, acted, after = parts[1].rows(5)
    assert acted.shape == (len(before), 10)
    np.testing.assert_array_equal(before[5], after[0])
    np.testing.assert_array_equal(acted[0], parts[1].actions[0][:5].ravel())


def test_rows_across_a_jump_are_left_out_of_the_fit_and_counted(plant, episodes):
    wrapped = learned(plant, Angles(wrapped=True), episodes).transition(5)
    whole = learned(plant, Angles(), episodes).transition(5)
    turns = [np.round(np.asarray(q)[:, 0] / (2 * np.pi)) for q in episodes[0].vectors("qpos")]
    jumps = sum(int((turn[6:] != turn[1:-5]).sum()) for turn in turns)
    assert 0 < jumps <= wrapped.outliers - whole.outliers + 20
    torch.testing.assert_close(wrapped.linear.a, whole.linear.a, atol=0.03, rtol=0)
    torch.testing.assert_close(wrapped.linear.b, whole.linear.b, atol=0.003, rtol=0)


def test_a_film_is_small_and_moves(plant):
    rendering_or_skip()
    image = pytest.importorskip("PIL.Image")
    found = evaluate(plant, {"oracle": oracle(plant, SETTING)}, drawn, FAIR)
    outcome = found.outcomes["oracle"][0]
    content = film(plant, outcome.qpos[0], found.tasks[0].goals[0])
    opened = image.open(io.BytesIO(content))
    assert opened.n_frames > 5
    assert opened.size == (160, 160)
    assert len(content) < 300_000


def test_an_encoder_that_collapsed_or_actions_of_another_width_are_told(plant, episodes):
    with pytest.raises(ValueError, match="collapsed"):
        learned(plant, MappedEncoder(Angles(), lambda h: 0 * h), episodes)
    fitted, held = episodes
    columns = {name: fitted.values(name) for name in fitted.names}
    wide = Episodes.of(columns | {"action": [np.repeat(a, 2, 1) for a in columns["action"]]})
    with pytest.raises(ValueError, match="recorded actions must have 2 numbers"):
        learned(plant, Angles(), (wide, held))
    with pytest.raises(ValueError, match="planner must be one of"):
        learned(plant, Angles(), episodes).controller("cme", SETTING)
    with pytest.raises(ValueError, match="execute"):
        PlanningSetting(horizon=2, execute=3)
    with pytest.raises(ValueError, match="strength"):
        warped(Angles(), 1.5)

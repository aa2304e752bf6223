"""What a transition certificate says of worlds whose transition is known."""

import re
from dataclasses import replace

import numpy as np
import pytest

import isojepa as ij
from isojepa.certificates.dynamics import certify_dynamics
from isojepa.seeds import generator
from tests.certificates.dynamics.worlds import normal, random_world

WORLD = random_world(5, 3, 2)


@pytest.fixture(scope="module")
def paths():
    return WORLD.paths(60, 20, generator(0, "paths"))


def rows(z, a):
    """Rows of paths: z, a, z' and the path of each."""
    steps, count = a.shape[:2]
    ids = np.tile(np.arange(count), steps)
    return z[:-1].reshape(-1, z.shape[2]), a.reshape(-1, a.shape[2]), z[1:].reshape(-1, z.shape[2]), ids


def codes(found):
    return [reason.code for reason in found.reasons]


def test_a_rotated_world_has_the_rotated_transition_and_the_verdict_true(paths):
    z, a = paths
    found = ij.certify_dynamics(z @ WORLD.q.T, a, z=z)
    assert found.verdict == "true"
    assert found.agreement.a.high < 1e-9
    assert found.agreement.turn.high < 1e-9
    np.testing.assert_allclose(found.agreement.rotation, WORLD.q, atol=1e-9)
    true_a, true_b = WORLD.turned
    np.testing.assert_allclose(found.transition.A, true_a, atol=0.1)
    np.testing.assert_allclose(found.transition.B, true_b, atol=0.1)


def test_invariants_do_not_depend_on_the_rotation_nor_reasons_on_units(paths):
    z, a = paths
    plain_world, turned = (certify_dynamics(h, a) for h in (z, z @ WORLD.q.T))
    for name in ("singular_values", "gramian", "reach"):
        ends = [[(one.low, one.high) for one in getattr(f.invariants, name)] for f in (plain_world, turned)]
        np.testing.assert_allclose(*ends, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        plain_world.invariants.responses_low, turned.invariants.responses_low, atol=1e-9
    )
    small = certify_dynamics(z, a @ [[1e-6, 1.0], [0.0, 1.0]])  # other units, and correlated
    assert small.excitation.share == pytest.approx(plain_world.excitation.share)
    assert small.verdict == plain_world.verdict == "linear"


def test_rows_paths_and_lists_say_the_same(paths):
    z, a = paths
    h, taken, after, ids = rows(z, a)
    by_rows = certify_dynamics(h, taken, after, episodes=ids)
    listed = certify_dynamics([z[:, i] for i in range(60)], [a[:, i] for i in range(60)])
    block = certify_dynamics(z, np.concatenate((a, np.full((1, 60, 2), np.nan))))  # the last leads nowhere
    for found in (listed, block):
        assert found.groups == by_rows.groups == "episodes"
        assert found.rows == by_rows.rows == 1200
        np.testing.assert_allclose(found.transition.A, by_rows.transition.A)
        assert found.invariants.radius.high == pytest.approx(by_rows.invariants.radius.high)


def test_an_affine_world_that_is_not_rotated_is_told_from_the_true_one(paths):
    z, a = paths
    stretched = certify_dynamics(z * [2.0, 1.0, 0.5], a, z=z)
    assert stretched.verdict == "other"
    assert "differs" in codes(stretched)


def test_transitions_that_turn_otherwise_than_states_are_told():
    # h = Q z, but B acts through another rotation: states agree, transitions do not
    world = random_world(5, 3, 2)
    z, a = world.paths(60, 20, generator(0, "paths"))
    turn = np.array([[np.cos(0.3), -np.sin(0.3), 0], [np.sin(0.3), np.cos(0.3), 0], [0, 0, 1]])
    h, taken, after, ids = rows(z, a)
    noise = after - h @ world.a.T - taken @ world.b.T
    other = h @ (turn @ world.a @ turn.T).T + taken @ (turn @ world.b).T + noise
    found = certify_dynamics(h, taken, other, h, after, ids)
    assert found.agreement.turn.low > 0
    assert "turned" in codes(found)


def test_a_bent_transition_is_nonlinear_and_a_linear_one_of_odd_noise_is_not(paths):
    z, a = paths
    h, taken, after, ids = rows(z, a)
    bent = after + 0.3 * (h[:, :1] ** 2 - 1)
    found = certify_dynamics(h, taken, bent, episodes=ids)
    assert found.verdict == "nonlinear"
    assert found.linearity.p < 1e-4
    assert found.linearity.gain.low > 0
    source = generator(1, "noise")
    noisy = (
        h @ WORLD.a.T + taken @ WORLD.b.T + 0.3 * np.abs(h[:, :1]) * (np.exp(normal(source, *h.shape)) - 1.65)
    )
    assert certify_dynamics(h, taken, noisy, episodes=ids).verdict == "linear"


def test_an_action_that_interacts_with_the_state_is_nonlinear(paths):
    z, a = paths
    h, taken, after, ids = rows(z, a)
    found = certify_dynamics(h, taken, after + 0.5 * h * taken[:, :1], episodes=ids)
    assert found.verdict == "nonlinear"


def test_feedback_without_noise_is_not_identifiable_and_the_direction_is_named(paths):
    z, a = paths
    h, taken, after, ids = rows(z, a)
    gain = np.array([1.0, -2.0, 0.5])
    closed = np.column_stack((taken[:, 0], h @ gain))
    found = certify_dynamics(h, closed, after, episodes=ids)
    assert found.verdict == "unidentifiable"
    assert found.transition is None
    (lost,) = found.excitation.unidentified
    assert lost.kind == "feedback"
    assert np.abs(lost.action) == pytest.approx([0, 1], abs=1e-6)
    # u^T s + v^T a never varies
    assert np.std(h @ np.array(lost.state) + closed @ np.array(lost.action)) < 1e-6
    assert "a[1] is a linear function of the state" in str(found)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda a: np.column_stack((a[:, 0], np.full(len(a), 3.0))), "constant", r"a\[1\] never varies"),
        (lambda a: np.column_stack((a[:, 0], 2 * a[:, 0] + 1)), "collinear", "actions determine each other"),
        (lambda a: np.zeros_like(a), "constant", r"a\[0\] never varies"),
    ],
)
def test_actions_that_never_vary_or_determine_each_other_are_named(paths, change, kind, words):
    h, taken, after, ids = rows(*paths)
    found = certify_dynamics(h, change(taken), after, episodes=ids)
    assert found.verdict == "unidentifiable"
    assert found.excitation.unidentified[0].kind == kind
    assert codes(found)[0] == "unexcited"
    assert re.search(words, found.reasons[0].sentence)


def test_states_that_determine_each_other_are_named(paths):
    h, taken, after, ids = rows(*paths)
    doubled, doubled_next = (np.column_stack((part, part[:, 0] + part[:, 1])) for part in (h, after))
    found = certify_dynamics(doubled, taken, doubled_next, episodes=ids)
    assert [one.kind for one in found.excitation.unidentified] == ["state"]


def test_weak_excitation_is_called_weak(paths):
    h, taken, after, ids = rows(*paths)
    loop = h[:, :2] + 0.01 * taken
    found = certify_dynamics(h, loop, h @ WORLD.a.T + loop @ WORLD.b.T + 0.1 * after, episodes=ids)
    assert "weak" in codes(found)


def test_what_actions_cannot_reach_is_told():
    world = random_world(2, 4, 1)
    a = np.diag([0.9, 0.5, 0.3, -0.4])
    b = np.array([[1.0], [0.7], [0.0], [0.0]])
    world = replace(world, a=a, b=b, gain=np.zeros((1, 4)), q=np.eye(4))
    z, actions = world.paths(100, 30, generator(0, "paths"))
    found = certify_dynamics(z, actions)
    assert found.invariants.rank == 2
    assert "unreached" in codes(found)
    reached = np.abs(np.array(found.invariants.unreached)[:, :2])
    assert reached.max() < 0.2  # the directions that are not reached are the last two


def test_an_unstable_world_has_a_gramian_of_finite_horizon():
    world = replace(random_world(1, 2, 1), a=np.array([[1.02, 0.1], [0.0, 0.6]]), gain=np.zeros((1, 2)))
    source = generator(0, "unstable")
    z, latents, taken = normal(source, 50, 2), [], []
    for _ in range(30):
        action = normal(source, 50, 1)
        latents.append(z)
        taken.append(action)
        z = z @ world.a.T + action @ world.b.T + 0.3 * normal(source, 50, 2)
    found = certify_dynamics(np.stack([*latents, z]), np.stack(taken))
    assert found.invariants.horizon == 4
    assert "unstable" in codes(found)
    assert certify_dynamics(np.stack([*latents, z]), np.stack(taken), horizon=7).invariants.horizon == 7


def test_a_recovery_error_moves_the_transition_by_less_than_its_bound(paths):
    z, a = paths
    for size, bend in ((0.02, np.tanh), (0.1, np.sin), (0.3, np.square)):
        h = (z + size * bend(z)) @ WORLD.q.T
        found = certify_dynamics(h, a, z=z)
        truth_a, truth_b = (np.linalg.norm(part) for part in (WORLD.a, WORLD.b))
        assert found.agreement.a.low * truth_a <= found.perturbation.a
        assert found.agreement.b.low * truth_b <= found.perturbation.b
    told = certify_dynamics(z @ WORLD.q.T, a, recovery_error=0.01).perturbation
    assert told.eta == told.eta_next == pytest.approx(0.1)
    assert np.isfinite(told.a)
    assert certify_dynamics(z, a, recovery_error=100.0).perturbation.a == np.inf  # more error than signal


def test_positions_alone_need_a_history_of_two():
    # a mass: position and velocity, of which only positions are seen
    source = generator(0, "mass")
    position, speed, seen, taken = normal(source, 80, 1), normal(source, 80, 1), [], []
    for _ in range(40):
        action = normal(source, 80, 1)
        seen.append(position)
        taken.append(action)
        speed = 0.9 * speed + 0.3 * action
        position = 0.95 * position + 0.2 * speed + 0.01 * normal(source, 80, 1)
    h, a = np.stack([*seen, position]), np.stack(taken)
    one, two = (certify_dynamics(h, a, history=k) for k in (1, 2))
    assert two.linearity.r2.estimate > one.linearity.r2.estimate
    moduli = sorted(value.modulus.estimate for value in two.invariants.eigenvalues)
    assert moduli == pytest.approx([0.9, 0.95], abs=0.06)
    assert len(two.invariants.reach) == 2


def test_one_seed_gives_one_certificate(paths):
    z, a = paths
    first, again, other = (str(certify_dynamics(z, a, seed=seed)) for seed in (0, 0, 1))
    assert first == again != other


H, A = normal(generator(0, "bad"), 200, 3), normal(generator(1, "bad"), 200, 2)
NAN = A.copy()
NAN[7, 1] = np.nan


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: certify_dynamics(H, None, H), "actions must be recorded, got None"),
        (lambda: certify_dynamics(H, A[:-1], H), "a must have as many rows as h, 200, got 199"),
        (lambda: certify_dynamics(H, NAN, H), "NaN or Inf in column 1, first at row 7"),
        (lambda: certify_dynamics(H, NAN), "column 1, first at path 0, step 7"),
        (lambda: certify_dynamics(H[:20], A[:20], H[:20]), "more rows than 4 times .* 24, got 20"),
        (
            lambda: certify_dynamics(H * [1, 0, 1], A, H),
            "h must vary in every column, got a constant in column 1",
        ),
        (lambda: certify_dynamics(H, A, H, z=H), "z and z_next must be given together"),
        (lambda: certify_dynamics(H, A, H, history=2), "history must be 1 for rows"),
        (lambda: certify_dynamics([H, H], [A]), "a must have as many paths as h, 2, got 1"),
        (lambda: certify_dynamics([H[:2]] * 3, [A[:2]] * 3, history=2), "a path of more than 2 steps, got 2"),
        (lambda: certify_dynamics(H, A, H, confidence=1.0), r"confidence must lie in \(0, 1\)"),
        (lambda: certify_dynamics(H, A, episodes=np.zeros(200)), "z_next and episodes go with rows"),
    ],
)
def test_bad_input_is_told_with_its_name_and_value(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_sine_too_fast_for_the_features_is_found_in_near_rows():
    source = generator(0, "fast")
    state, found = normal(source, 60, 2), []
    states, taken = [state], []
    for _ in range(100):
        action = normal(source, 60, 1)
        state = 0.7 * state + action + np.sin(25 * state) + 0.3 * normal(source, 60, 2)
        states.append(state)
        taken.append(action)
    found = certify_dynamics(np.stack(states), np.stack(taken))
    assert found.verdict == "nonlinear"
    assert "fast" in codes(found)
    assert found.linearity.p > 0.05  # smooth features do not see it


def test_a_hidden_velocity_is_found_in_successive_steps():
    source = generator(0, "hidden")
    position, speed, seen, taken = normal(source, 80, 2), np.zeros((80, 2)), [], []
    for _ in range(40):
        action = normal(source, 80, 1)
        seen.append(position)
        taken.append(action)
        speed = 0.9 * speed + 0.3 * action
        position = 0.95 * position + 0.2 * speed + 0.05 * normal(source, 80, 2)
    h, a = np.stack([*seen, position]), np.stack(taken)
    found = certify_dynamics(h, a)
    assert found.verdict == "nonlinear"
    assert "memory" in codes(found)


def test_tests_of_near_rows_and_successive_steps_keep_their_level():
    chances = []
    for seed in range(40):
        source = generator(seed, "level")
        state, states, taken = normal(source, 30, 2), [], []
        for _ in range(30):
            action = normal(source, 30, 1)
            states.append(state)
            taken.append(action)
            state = 0.7 * state + action + 0.3 * np.abs(state) * normal(source, 30, 2)
        found = certify_dynamics(np.stack([*states, state]), np.stack(taken)).linearity
        chances.append((found.fast_p, found.memory_p))
    assert (np.array(chances) < 0.05).mean(0).max() <= 0.125

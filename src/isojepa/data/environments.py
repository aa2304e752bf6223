"""Gymnasium environments behind one interface: action rows, checked observations, states to restore.

An action is a row (width,) of float32, as the column `action` of `isojepa.collect` stores it: the flattened
array of a Box, or the one-hot code of a Discrete action. A state is a row (k,) of float64 from which a
simulation resumes. It is taken from, in this order,

    get_state(), set_state(state)                 methods of the environment
    data.qpos, data.qvel, set_state(qpos, qvel)   environments of MuJoCo
    state                                         an attribute of numbers, as in classic control

Counters of wrappers, such as a time limit, are not part of the state; neither are actuator activations and
the solver's warm start of MuJoCo.

Collection of episodes from Gymnasium environments.

The seeds of episode i, of its reset and of its random policy, are drawn from (seed, "collect", i): an episode
depends neither on the number of workers, nor on interruptions, nor on the number of episodes. In a
deterministic environment `reset(seed)` and the actions of an episode reproduce its observations.
"""

import functools
import hashlib
import inspect
import multiprocessing
import pickle
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from isojepa.data.episodes import Episodes
from isojepa.data.files import Joined, import_h5py, read_episodes, read_npz, write_episodes
from isojepa.data.images.cache import bar
from isojepa.importing import entry_object, import_object, install_hint, is_callable_name, lab_hint, program
from isojepa.io import make_folder, plain_file, read_json, write_json, write_whole
from isojepa.seeds import borrowed, generator
from isojepa.validation import check_count, short_repr, validate_types

GROUP = "isojepa.environments"  # entry points: factories of a gymnasium.Env, by name
LAB = ("reacher",)  # environments of isojepa-lab
TOLERANCE = 1e-5  # of an action beyond its bounds, relative to them: float32 rounding of a policy
_SOURCES = "a Gymnasium id such as Pendulum-v1, reacher, file.py:function, an Env class or a factory"


class Step(NamedTuple):
    """Outcome of an action: what Gymnasium's `step` returns, with the observation converted."""

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def open_environment(environment: Any, *, limit: bool = True) -> "GymEnvironment":
    """Open a Gymnasium environment.

    Args:
        environment: a Gymnasium id, "reacher", "file.py:function", an Env class, a factory without arguments,
            an Env, or a GymEnvironment, which is returned as it is.
        limit: keep the time limit; without it the outer TimeLimit wrapper is left out.

    Raises:
        ValueError: it cannot be opened, or its spaces are not supported.
        ImportError: gymnasium or a package of the environment is not installed.

    Example:
        >>> pendulum = open_environment("Pendulum-v1")
        >>> pendulum.reset(seed=0).shape, pendulum.step([0.5]).observation.dtype, pendulum.restorable
        ((3,), dtype('float32'), True)
    """
    if isinstance(environment, GymEnvironment):
        return environment
    gymnasium, version = _import_gymnasium(), ""
    if isinstance(environment, gymnasium.Env):
        env = environment
        name = env.spec.id if env.spec is not None else qualified_name(type(env.unwrapped))
    elif isinstance(environment, str):
        name = environment
        factory = entry_object(GROUP, name)
        if factory is not None:
            env = _made(gymnasium, factory, name)
        elif name in LAB:
            raise ValueError(
                f"environment {name!r} is part of isojepa-lab, which is not installed: {lab_hint()}"
            )
        elif is_callable_name(name):
            env = _made(gymnasium, import_object(name), name)
            file = Path(name.rpartition(":")[0])
            version = f"{file.name} {file_digest(file)}"
        else:
            env = _from_registry(gymnasium, name, limit)
    elif callable(environment):
        name = qualified_name(environment)
        env = _made(gymnasium, environment, name)
    else:
        raise ValueError(f"environment must be {_SOURCES}, got {short_repr(environment)}")
    if not limit and isinstance(env, gymnasium.wrappers.TimeLimit):
        env = env.env
    return GymEnvironment(env, name, ", ".join(filter(None, (_versions(env), version))))


class GymEnvironment:
    """A Gymnasium environment; made by `open_environment`.

    Args:
        env: the environment.
        name: for protocols: id, file.py:function, or qualified name of a class or factory.
        version: of gymnasium, of the package that defines the environment, and of MuJoCo.

    Attributes:
        actions: how actions are rows.
        observation_shape: of one observation.
        limit: steps after which a TimeLimit wrapper truncates an episode, or None.
        restorable: whether states can be restored.

    Raises:
        ValueError: observations are not a Box, or actions neither a bounded Box nor Discrete.
    """

    def __init__(self, env: Any, name: str, version: str) -> None:
        gymnasium = _import_gymnasium()
        self.env, self.name, self.version = env, name, version
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise ValueError(
                f"{name}: observation space must be a Box, got {short_repr(space)}: wrap the environment in "
                "gymnasium.wrappers.FlattenObservation, or choose one key in an ObservationWrapper"
            )
        self.observation_shape = tuple(space.shape)
        self.observation_dtype = np.dtype(np.uint8 if space.dtype == np.uint8 else np.float32)
        self.actions = ActionCode(env.action_space, name)
        inner, self._steps = env.unwrapped, 0
        limit = "_max_episode_steps"  # of TimeLimit
        self.limit = env.get_wrapper_attr(limit) if env.has_wrapper_attr(limit) else None
        arguments = _required_arguments(inner, "set_state")
        self._accessors = _required_arguments(inner, "get_state") == 0 and arguments == 1
        self._mujoco = _is_mujoco(inner) and arguments == 2
        self.reset(seed=0)  # some environments have no state before their first reset
        state = self._native_state()
        self.restorable = state is not None
        try:
            self._state_shape = np.array(state, np.float64).shape
        except (TypeError, ValueError):  # not numbers
            self.restorable = False

    def reset(self, seed: int) -> np.ndarray:
        """Start an episode; the first observation, `observation_shape`.

        Raises:
            ValueError: it is not finite or has another shape.
            RuntimeError: the environment raised an error.
        """
        self._steps = 0
        observation, _ = guarded(f"{self.name}: reset", self.env.reset, seed=seed)
        return self._observation(observation)

    def step(self, action_row: Any) -> Step:
        """Take an action.

        Args:
            action_row: (width,) as of `ActionCode`.

        Raises:
            ValueError: the action is out of bounds, or the observation not finite.
            RuntimeError: the environment raised an error.
        """
        action = self.actions.decode(action_row)
        self._steps += 1
        native, reward, terminated, truncated, info = guarded(f"{self.name}: step", self.env.step, action)
        return Step(self._observation(native), float(reward), bool(terminated), bool(truncated), info)

    def get_state(self) -> np.ndarray | None:
        """The state (k,), float64; None where the environment cannot restore one."""
        if not self.restorable:
            return None
        return np.array(self._native_state(), np.float64).reshape(-1)

    def set_state(self, state: Any) -> None:
        """Resume from a state (k,) of `get_state`.

        Raises:
            ValueError: the environment cannot restore states, or the state has another shape.
        """
        if not self.restorable:
            raise ValueError(
                f"{self.name} cannot restore a state: define get_state() and set_state(state) in its class"
            )
        row, inner = np.array(state, np.float64), self.env.unwrapped
        shape = (int(np.prod(self._state_shape)),)
        if row.shape != shape:
            raise ValueError(f"{self.name}: state must have shape {shape}, got {row.shape}")
        if self._accessors:
            guarded(f"{self.name}: set_state", inner.set_state, row.reshape(self._state_shape))
        elif self._mujoco:
            inner.set_state(row[: len(inner.data.qpos)], row[len(inner.data.qpos) :])
        else:
            values = row.reshape(self._state_shape)
            kind = type(inner.state)
            inner.state = kind(values.tolist()) if kind in (tuple, list, int, float) else values
            if hasattr(inner, "steps_beyond_terminated"):  # CartPole warns of steps after the end
                inner.steps_beyond_terminated = None

    def success(self, info: dict[str, Any]) -> bool | None:
        """`info["success"]` or `info["is_success"]` of a step; None where neither is reported."""
        value = info.get("success", info.get("is_success"))
        return None if value is None else bool(value)

    def close(self) -> None:
        """Release windows and simulators."""
        self.env.close()

    def _native_state(self) -> Any:
        inner = self.env.unwrapped
        if self._accessors:
            return guarded(f"{self.name}: get_state", inner.get_state)
        if self._mujoco:
            return np.concatenate((inner.data.qpos, inner.data.qvel))
        return getattr(inner, "state", None)

    def _observation(self, native: Any) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            observation = np.array(native, self.observation_dtype)
        shape = self.observation_shape
        if observation.shape != shape:
            raise ValueError(f"{self.name}: observation must have shape {shape}, got {observation.shape}")
        if not np.isfinite(observation).all():
            raise ValueError(
                f"{self.name}: observation must be finite, got NaN or Inf at step {self._steps}: terminate "
                "the episode before"
            )
        return observation


class ActionCode:
    """Native actions as rows of numbers (width,), float32.

    Args:
        space: a Box with finite bounds, whose actions are flattened, or Discrete, whose actions are one-hot.
        name: of the environment, for messages.

    Attributes:
        width: numbers of a row.
        discrete: rows are one-hot.
        start: the first discrete action; else 0.
        low, high: (width,) bounds of the numbers of a row, float64.

    Raises:
        ValueError: the space is another one, or has no bounds.

    Example:
        >>> import gymnasium
        >>> code = ActionCode(gymnasium.spaces.Discrete(3, start=5))
        >>> code.encode(6), int(code.decode([0.1, 0.2, 0.7]))
        (array([0., 1., 0.], dtype=float32), 7)
    """

    def __init__(self, space: Any, name: str = "environment") -> None:
        spaces = _import_gymnasium().spaces
        self.space, self._name, self.start = space, name, 0
        self.discrete = isinstance(space, spaces.Discrete)
        if self.discrete:
            self.width, self.start = int(space.n), int(space.start)
            self.low, self.high = np.zeros(self.width), np.ones(self.width)
        elif isinstance(space, spaces.Box):
            self.width = int(np.prod(space.shape))
            self.low, self.high = (np.float64(bound).reshape(-1) for bound in (space.low, space.high))
        else:
            raise ValueError(
                f"{name}: action space must be Box or Discrete, got {short_repr(space)}: convert its actions "
                "in a gymnasium.ActionWrapper"
            )
        infinite = np.flatnonzero(~(np.isfinite(self.low) & np.isfinite(self.high)))
        if len(infinite):
            at = infinite[0]
            raise ValueError(
                f"{name}: action space must be bounded, got [{self.low[at]}, {self.high[at]}] in dimension "
                f"{at}: wrap the environment in gymnasium.wrappers.RescaleAction or clip it"
            )

    def encode(self, native: Any) -> np.ndarray:
        """A native action as a row (width,).

        Raises:
            ValueError: it lies outside of the space; what rounding puts beyond a bound is clipped.
        """
        if not self.discrete:
            return self._within_bounds(native).astype(np.float32)
        value = np.asarray(native)
        index = value.item() - self.start if value.size == 1 and value.dtype.kind in "iub" else -1
        if not 0 <= index < self.width:
            span = f"[{self.start}, {self.start + self.width})"
            raise ValueError(f"{self._name}: action must be an integer in {span}, got {short_repr(native)}")
        row = np.zeros(self.width, np.float32)
        row[index] = 1
        return row

    def decode(self, row: Any) -> Any:
        """The native action of a row (width,); of a discrete one that of the largest number.

        Raises:
            ValueError: the row has another width, or is out of bounds.
        """
        values = self._within_bounds(row)
        if self.discrete:
            return self.space.dtype.type(self.start + int(values.argmax()))
        values = values.round() if self.space.dtype.kind in "iu" else values
        return values.reshape(self.space.shape).astype(self.space.dtype)

    def _within_bounds(self, row: Any) -> np.ndarray:
        try:
            values: np.ndarray = np.array(row, np.float64).reshape(-1)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self._name}: action must be numbers, got {short_repr(row)}") from error
        if values.shape != (self.width,):
            raise ValueError(f"{self._name}: action must have shape ({self.width},), got {values.shape}")
        if self.discrete:
            return values
        slack = TOLERANCE * np.maximum(1, np.maximum(abs(self.low), abs(self.high)))
        outside = np.flatnonzero(~((values >= self.low - slack) & (values <= self.high + slack)))  # also NaN
        if len(outside):
            at = outside[0]
            raise ValueError(
                f"{self._name}: action must lie in [{self.low[at]:g}, {self.high[at]:g}], got "
                f"{values[at]:g} in dimension {at}: clip it in the policy"
            )
        clipped: np.ndarray = np.clip(values, self.low, self.high)
        return clipped


def guarded(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call code of the user; its errors become one line that names what raised them.

    Raises:
        RuntimeError: the function raised an error, which is the cause of this one.
    """
    try:
        return function(*args, **kwargs)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise RuntimeError(f"{what} raised {reason}") from error


def file_digest(path: str | Path) -> str:
    """Twelve hexadecimal digits that identify the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:12]


def _import_gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError(f"environments need gymnasium: {install_hint('environments')}") from error
    return gymnasium


def _from_registry(gymnasium: Any, name: str, limit: bool) -> Any:
    steps = {} if limit else {"max_episode_steps": -1}
    try:
        return gymnasium.make(name, disable_env_checker=True, **steps)
    except Exception as error:  # gymnasium's own errors, and whatever the environment's constructor raises
        reason = " ".join(str(error).split()).rstrip(".")
        text = f"environment {name!r} cannot be opened: {reason}"
        if isinstance(error, ImportError | gymnasium.error.DependencyNotInstalled):
            raise ImportError(text) from error
        raise ValueError(f"{text}; it must be {_SOURCES}") from error


def _made(gymnasium: Any, factory: Callable[[], Any], name: str) -> Any:
    env = guarded(f"{name}()", factory)
    if not isinstance(env, gymnasium.Env):
        raise ValueError(f"{name}() must return a gymnasium.Env, got {short_repr(env)}")
    return env


def qualified_name(thing: Any) -> str:
    """Module and name of a class or function, or of the class of an object."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


def _versions(env: Any) -> str:
    """Versions of gymnasium, of the environment's package and of MuJoCo, as far as they are installed."""
    packages = ["gymnasium", type(env.unwrapped).__module__.partition(".")[0]]
    packages += ["mujoco"] if _is_mujoco(env.unwrapped) else []
    versions = []
    for package in dict.fromkeys(packages):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue  # a module of the user's own
    return ", ".join(versions)


def _is_mujoco(inner: Any) -> bool:
    data = getattr(inner, "data", None)
    return hasattr(inner, "model") and hasattr(data, "qpos") and hasattr(data, "qvel")


def _required_arguments(inner: Any, name: str) -> int | None:
    """Arguments that a method must be called with; None without the method. MuJoCo's set_state has two."""
    method = getattr(inner, name, None)
    if not callable(method):
        return None
    return sum(one.default is one.empty for one in inspect.signature(method).parameters.values())


MAX_STEPS = 10_000  # of an episode in an environment without a time limit
CHUNK_BYTES, CHUNK_SECONDS = 64 << 20, 5.0  # of finished episodes that a killed process loses at most
_ALGORITHMS = ("a2c", "ddpg", "dqn", "ppo", "sac", "td3")  # of stable-baselines3
_MODEL = re.compile(rf"({'|'.join(_ALGORITHMS)}):(.+)", re.DOTALL)

Policy = Callable[[np.ndarray], Any]  # observation -> native action
Columns = Mapping[str, Any]


@validate_types
def collect(
    environment: Any,
    policy: Any = "random",
    episodes: int = 100,
    *,
    steps: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    workers: int = 1,
    trust: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Episodes:
    """Collect episodes of a Gymnasium environment under a policy.

    Args:
        environment: a Gymnasium id, "reacher", "file.py:function", an Env class, a factory, or an Env.
        policy: "random", "expert" (the method `expert(observation)` of the environment), "file.py:function",
            "ALGO:file.zip" of stable-baselines3 (ppo, a2c, dqn, sac, td3, ddpg), a callable from an
            observation to a native action, or a class that makes one. `predict(observation)[0]` is used where
            a policy has `predict`; `reset()`, if it has one, is called at the start of each episode. torch's
            global generator, which policies of stable-baselines3 draw from, is seeded for each episode and
            restored.
        episodes: number of episodes.
        steps: actions after which an episode is cut; by default it ends by termination or truncation.
        seed: of resets and policies.
        out: HDF5 file to write. Finished episodes are stored in `OUT.parts` meanwhile, from which the same
            call resumes; policies that are objects are identified by name. A file that holds the same
            collection is returned as it is; another one is replaced when the new one is complete.
        workers: processes; with more than one, the environment must be named by a string, and a script must
            call this under `if __name__ == "__main__":`, as Python's multiprocessing asks.
        trust: load files of stable-baselines3, which are pickles and can run any code.
        progress: called with the number of episodes finished since the last call; by default a progress bar
            on a terminal.

    Returns:
        Columns with one row for each observation: `observation` float32 or uint8, `action` (width,) float32,
        `reward` float32, `terminated`, `seed` of the reset; `state` float64 if the environment can restore
        one, and `success` if it reports one. Action, reward, terminated and success of a row belong to the
        action that leaves its state; in the last row of an episode they are NaN and False. `meta` describes
        the collection.

    Raises:
        ValueError: an argument, an observation or an action is invalid.
        RuntimeError: the environment or the policy raised an error.
        ImportError: gymnasium, h5py or another package is not installed.

    Example:
        >>> episodes = collect("Pendulum-v1", episodes=3, steps=20)
        >>> len(episodes), episodes.steps, episodes.shape("observation")
        (3, 63, (3,))
    """
    check_count("episodes", episodes)
    check_count("workers", workers)
    if steps is not None:
        check_count("steps", steps)
    if out is not None:
        out = Path(out)
        import_h5py(out)
    task = _Task(environment, policy, steps, seed, trust)
    payload = task.pickled() if workers > 1 else b""
    env, start = task.open()
    store = _Store(out, task.describe(env))
    if out is not None and out.exists():
        existing = read_episodes(out)
        if existing.meta == store.meta and len(existing) == episodes:
            return existing
    finished = store.resume()
    numbers = range(finished, episodes)
    alone = (task.run(env, start, number) for number in numbers)
    results = _parallel(payload, numbers, workers) if workers > 1 else alone
    show = progress is None and sys.stderr.isatty()
    with (
        bar("collecting", episodes) if show else nullcontext(progress or (lambda done: None)) as advance,
        closing(results),
    ):
        advance(min(finished, episodes))
        try:
            for columns in results:
                store.add(columns)
                advance(1)
        finally:
            store.flush()
    if isinstance(environment, str) or callable(environment):
        env.close()
    return store.finish(episodes)


@dataclass(frozen=True)
class _Task:
    """What determines each episode by its number."""

    environment: Any
    policy: Any
    steps: int | None
    seed: int
    trust: bool

    def open(self) -> tuple[GymEnvironment, Callable[[int], Policy]]:
        """The environment, and a function from the seed of an episode to its policy."""
        env = open_environment(self.environment)
        return env, _open_policy(self.policy, env, self.trust)

    def describe(self, env: GymEnvironment) -> dict[str, Any]:
        """The meta of the collection."""
        policy, code = self.policy, env.actions
        name = policy if isinstance(policy, str) else qualified_name(policy)
        meta = {"environment": env.name, "version": env.version, "policy": name}
        if isinstance(policy, str) and ":" in policy:
            model = _MODEL.fullmatch(policy)
            meta["policy_version"] = file_digest(model[2] if model else policy.rpartition(":")[0])
        bounds = {name: (getattr(code, name) + code.start).tolist() for name in ("low", "high")}
        return {**meta, "seed": self.seed, "steps": self.steps, "discrete": code.discrete, **bounds}

    def pickled(self) -> bytes:
        """The task for another process."""
        try:
            if isinstance(self.environment, str):
                return pickle.dumps(self)
        except Exception as error:  # pickle and the policy's own methods raise many kinds
            raise ValueError(
                f"workers > 1 needs a policy that can be pickled, got {short_repr(self.policy)}: define it "
                "at the top of a module, or name it file.py:function"
            ) from error
        raise ValueError(
            "workers > 1 needs an environment named by a Gymnasium id or file.py:function, got "
            f"{short_repr(self.environment)}"
        )

    def run(self, env: GymEnvironment, start: Callable[[int], Policy], number: int) -> Columns:
        """Columns of one episode, each (rows, ...)."""
        try:
            with borrowed(self.seed, "collect", "policy", number):
                return self._episode(env, start, number)
        except (ValueError, RuntimeError) as error:
            kind = RuntimeError if isinstance(error, RuntimeError) else ValueError
            raise kind(f"episode {number}: {error}") from error

    def _episode(self, env: GymEnvironment, start: Callable[[int], Policy], number: int) -> Columns:
        source = generator(self.seed, "collect", number)
        reset_seed, policy_seed = torch.randint(1 << 31, (2,), generator=source).tolist()
        observations, states, outcomes = [env.reset(reset_seed)], [env.get_state()], []
        actions: list[np.ndarray] = []
        policy, ended = start(policy_seed), False
        while not ended:
            actions.append(env.actions.encode(guarded("policy", policy, observations[-1])))
            step = env.step(actions[-1])
            success = env.success(step.info)
            observations.append(step.observation)
            states.append(env.get_state())
            outcomes.append((step.reward, step.terminated, -1 if success is None else success))
            ended = step.terminated or step.truncated or len(actions) == self.steps
            if not ended and len(actions) >= MAX_STEPS and self.steps is None and env.limit is None:
                raise ValueError(f"{env.name} has no time limit and ran for {MAX_STEPS} steps: pass steps=")
        rewards, terminated, successes = zip(*outcomes, (np.nan, False, -1), strict=True)
        columns = {
            "observation": np.stack(observations),
            "action": np.stack([*actions, np.full_like(actions[0], np.nan)]),
            "reward": np.array(rewards, np.float32),
            "terminated": np.array(terminated),
            "seed": np.full(len(observations), reset_seed, np.int64),
            "success": np.array(successes, np.int8),  # -1: not reported
        }
        return {**columns, "state": np.array(states)} if env.restorable else columns


def _parallel(payload: bytes, numbers: range, workers: int) -> Generator[Columns]:
    """Episodes from other processes, in order."""
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(functools.partial(_work, payload), numbers)


def _work(payload: bytes, number: int) -> Columns:
    task, env, start = _unpickled(payload)
    return task.run(env, start, number)


@functools.lru_cache(maxsize=1)
def _unpickled(payload: bytes) -> tuple[_Task, GymEnvironment, Callable[[int], Policy]]:
    """The task of a worker, opened once."""
    torch.set_num_threads(1)
    task: _Task = pickle.loads(payload)  # from the parent process
    return task, *task.open()


def _open_policy(policy: Any, env: GymEnvironment, trust: bool) -> Callable[[int], Policy]:
    if isinstance(policy, str) and policy == "random":
        return functools.partial(_random, env.actions.space)
    if isinstance(policy, str) and policy == "expert":
        policy = getattr(env.env.unwrapped, "expert", None)
        if policy is None:
            raise ValueError(f"{env.name} has no expert: define expert(self, observation) in its class")
    elif isinstance(policy, str):
        policy = _load_policy(policy, trust)
    if isinstance(policy, type):
        policy = guarded(f"{policy.__name__}()", policy)
    act = getattr(policy, "predict", policy)
    if not callable(act):
        raise ValueError(f"policy must be callable or have predict(observation), got {short_repr(policy)}")

    def start(seed: int) -> Policy:
        if callable(getattr(policy, "reset", None)):
            guarded("reset() of the policy", policy.reset)
        return act if act is policy else lambda observation: act(observation)[0]

    return start


def _random(space: Any, seed: int) -> Policy:
    space = deepcopy(space)  # the environment's own generator stays
    space.seed(seed)
    return lambda observation: space.sample()


def _load_policy(name: str, trust: bool) -> Any:
    """A policy of file.py:name, or of stable-baselines3."""
    if is_callable_name(name):
        return import_object(name)
    model = _MODEL.fullmatch(name)
    if model is None:
        raise ValueError(
            "policy must be random, expert, file.py:function or ALGO:file.zip with ALGO one of "
            f"{', '.join(_ALGORITHMS)}, got {short_repr(name)}"
        )
    path = plain_file(Path(model[2]))
    if not trust:
        raise ValueError(
            f"{path} is a pickle, which can run any code when it is loaded: pass trust=True (--trust) if you "
            "trust its origin"
        )
    try:
        import stable_baselines3
    except ImportError as error:
        raise ImportError(f"{name} needs {program('pip')} install stable-baselines3") from error
    policy = guarded(f"loading {path}", getattr(stable_baselines3, model[1].upper()).load, path, device="cpu")
    if model[1] == "dqn":
        policy.exploration_rate = 0.0  # its exploration draws from numpy's global generator
    return policy


class _Store:
    """Finished episodes, in memory or in a folder beside the file to write."""

    def __init__(self, out: Path | None, meta: dict[str, Any]) -> None:
        self.out, self.meta = out, meta
        self._folder = None if out is None else out.with_name(f"{out.name}.parts")
        self._parts: list[Columns] = []
        self._pending: list[Columns] = []
        self._episodes, self._bytes, self._flushed = 0, 0, time.monotonic()

    def resume(self) -> int:
        """The number of episodes that an interrupted call finished."""
        if self._folder is None:
            return 0
        header = make_folder(self._folder) / "collection.json"
        if not any(self._folder.iterdir()):
            write_json(header, self.meta)
        if not header.exists() or read_json(header) != self.meta:
            raise ValueError(f"{self._folder} holds another collection: delete it or choose another out")
        for path in sorted(self._folder.glob("part-*.npz")):
            part = _read(path)
            if path.name != _part_name(self._episodes):
                raise ValueError(f"{self._folder} lacks {_part_name(self._episodes)}: delete the folder")
            self._parts.append(part)
            self._episodes += len(part["ep_len"])
        return self._episodes

    def add(self, columns: Columns) -> None:
        self._pending.append(columns)
        self._bytes += sum(column.nbytes for column in columns.values())
        if self._bytes >= CHUNK_BYTES or time.monotonic() - self._flushed >= CHUNK_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Make a part of the pending episodes."""
        if self._pending:
            part: dict[str, Any] = {
                name: np.concatenate([one[name] for one in self._pending]) for name in self._pending[0]
            }
            part["ep_len"] = np.array([len(one["seed"]) for one in self._pending])
            if self._folder is not None:
                path = self._folder / _part_name(self._episodes)
                write_whole(path, functools.partial(_save, part))
                part = dict(_read(path))
            self._parts.append(part)
            self._episodes += len(self._pending)
        self._pending, self._bytes, self._flushed = [], 0, time.monotonic()

    def finish(self, episodes: int) -> Episodes:
        """All episodes, written into the file if there is one."""
        names = [name for name in self._parts[0] if name not in ("ep_len", "success")]
        columns: dict[str, Any] = {name: Joined(name, [part[name] for part in self._parts]) for name in names}
        lengths = np.concatenate([part["ep_len"] for part in self._parts])[:episodes]
        success = np.concatenate([part["success"] for part in self._parts])
        if (success[: lengths.sum()] >= 0).any():
            columns["success"] = success == 1
        if self.out is None or self._folder is None:
            columns = {name: column[0 : len(success)] for name, column in columns.items()}
            return Episodes(columns, lengths, source=self.meta["environment"], meta=self.meta)
        write_episodes(self.out, Episodes(columns, lengths, source=str(self.out), meta=self.meta))
        shutil.rmtree(self._folder)
        return read_episodes(self.out)


def _part_name(first: int) -> str:
    return f"part-{first:09d}.npz"


def _read(path: Path) -> Columns:
    try:
        return read_npz(path, in_memory=0)
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}; delete {path.parent}") from error


def _save(part: Columns, path: Path) -> None:
    with open(path, "wb") as file:  # savez appends .npz to a path
        np.savez(file, **part)

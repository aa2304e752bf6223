"""Gymnasium environments behind one interface: action rows, checked observations, states to restore.

An action is a row (width,) of float32, as the column `action` of `isojepa.collect` stores it: the flattened
array of a Box, or the one-hot code of a Discrete action. A state is a row (k,) of float64 from which a
simulation resumes. It is taken from, in this order,

    get_state(), set_state(state)                 methods of the environment
    data.qpos, data.qvel, set_state(qpos, qvel)   environments of MuJoCo
    state                                         an attribute of numbers, as in classic control

Counters of wrappers, such as a time limit, are not part of the state; neither are actuator activations and
the solver's warm start of MuJoCo.
"""

import hashlib
import inspect
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isojepa.importing import import_object, install_hint, is_callable_name
from isojepa.names import shown

REACHER_STEPS = 200
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
        if name == "reacher":
            from isojepa.worlds.control.environment import Reacher

            env = gymnasium.wrappers.TimeLimit(Reacher(), REACHER_STEPS)
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
        raise ValueError(f"environment must be {_SOURCES}, got {shown(environment)}")
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
                f"{name}: observation space must be a Box, got {shown(space)}: wrap the environment in "
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
                f"{name}: action space must be Box or Discrete, got {shown(space)}: convert its actions in a "
                "gymnasium.ActionWrapper"
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
            raise ValueError(f"{self._name}: action must be an integer in {span}, got {shown(native)}")
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
            raise ValueError(f"{self._name}: action must be numbers, got {shown(row)}") from error
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
        raise ValueError(f"{name}() must return a gymnasium.Env, got {shown(env)}")
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

"""Collection of episodes from Gymnasium environments.

The seeds of episode i, of its reset and of its random policy, are drawn from (seed, "collect", i): an episode
depends neither on the number of workers, nor on interruptions, nor on the number of episodes. In a
deterministic environment `reset(seed)` and the actions of an episode reproduce its observations.
"""

import functools
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
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.arguments import check_count, checked
from isojepa.files import make_folder, read_json, write_json, write_whole
from isojepa.importing import import_object, is_callable_name, program
from isojepa.names import shown
from isojepa.opening import plain_file
from isojepa.seeds import borrowed, generator
from isojepa.worlds.archives import read_npz
from isojepa.worlds.episodes import Episodes, read_episodes, write_episodes
from isojepa.worlds.episodes.files import Joined, import_h5py
from isojepa.worlds.gymnasium_environment import (
    GymEnvironment,
    file_digest,
    guarded,
    open_environment,
    qualified_name,
)
from isojepa.worlds.images.cache import bar

MAX_STEPS = 10_000  # of an episode in an environment without a time limit
CHUNK_BYTES, CHUNK_SECONDS = 64 << 20, 5.0  # of finished episodes that a killed process loses at most
ALGORITHMS = ("a2c", "ddpg", "dqn", "ppo", "sac", "td3")  # of stable-baselines3
_MODEL = re.compile(rf"({'|'.join(ALGORITHMS)}):(.+)", re.DOTALL)

Policy = Callable[[np.ndarray], Any]  # observation -> native action
Columns = Mapping[str, Any]


@checked
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
                f"workers > 1 needs a policy that can be pickled, got {shown(self.policy)}: define it at the "
                "top of a module, or name it file.py:function"
            ) from error
        raise ValueError(
            "workers > 1 needs an environment named by a Gymnasium id or file.py:function, got "
            f"{shown(self.environment)}"
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
        raise ValueError(f"policy must be callable or have predict(observation), got {shown(policy)}")

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
            f"{', '.join(ALGORITHMS)}, got {shown(name)}"
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

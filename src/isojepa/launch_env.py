"""The rank of this process, read from the environment that its launcher set.

Known before the processes have met, and without torch:

    torchrun      RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    copies        the same, set by `isojepa.training.distributed` for those it starts
    srun          SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE, ...
    none of them  the only process
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

PARENT = "ISOJEPA_PARENT"  # process id of the first rank, for the copies that it started
_PORTS = range(15_000, 30_000)  # where the ranks of a Slurm job meet, by its number


@dataclass(frozen=True)
class RankInfo:
    """One process of a job.

    Attributes:
        rank: which of all.
        size: how many there are.
        local_rank: which of those on its node.
        local_size: how many there are on its node.
        address, port: where ranks meet.
        agent: whether the launcher keeps the meeting place, not the first rank.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    address: str = "127.0.0.1"
    port: int = 0
    agent: bool = False

    @property
    def first(self) -> bool:
        """Whether this rank writes, evaluates and speaks."""
        return self.rank == 0


def rank_info(variables: Mapping[str, str] | None = None) -> RankInfo:
    """The place of this process.

    Args:
        variables: the environment, this process's by default.

    Raises:
        ValueError: what the environment says is no number.

    Example:
        >>> rank_info({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}).rank
        1
    """
    environment = os.environ if variables is None else variables
    if "RANK" in environment and "WORLD_SIZE" in environment:
        rank, size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
        return RankInfo(
            rank,
            size,
            _number(environment, "LOCAL_RANK", rank),
            _number(environment, "LOCAL_WORLD_SIZE", size),
            environment.get("MASTER_ADDR", "127.0.0.1"),
            _number(environment, "MASTER_PORT", 29_500),
            environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        )
    # a batch script sees the tasks of its job too, but only srun makes them: a step has more than one then
    if _number(environment, "SLURM_STEP_NUM_TASKS", 1) > 1 and "SLURM_PROCID" in environment:
        size = _number(environment, "SLURM_STEP_NUM_TASKS")
        number = 10 * _number(environment, "SLURM_JOB_ID", 0) + _number(environment, "SLURM_STEP_ID", 0)
        return RankInfo(
            _number(environment, "SLURM_PROCID"),
            size,
            _number(environment, "SLURM_LOCALID"),
            _tasks(
                environment.get("SLURM_STEP_TASKS_PER_NODE", str(size)),
                _number(environment, "SLURM_NODEID", 0),
            ),
            environment.get("MASTER_ADDR")
            or _first_node(environment.get("SLURM_STEP_NODELIST", "127.0.0.1")),
            _number(environment, "MASTER_PORT", _PORTS[number % len(_PORTS)]),
        )
    return RankInfo()


def _number(given: Mapping[str, str], name: str, default: int | None = None) -> int:
    value = given.get(name)
    if value is None and default is not None:
        return default
    try:
        return int(value or "")
    except ValueError:
        raise ValueError(f"{name} must be an integer in the environment of a rank, got {value!r}") from None


def _tasks(text: str, node: int) -> int:
    """Tasks on one node: "4(x2),3" says 4, 4 and 3."""
    counts: list[int] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(count)] * int(times or 1)
    return counts[node] if node < len(counts) else counts[0]


def _first_node(names: str) -> str:
    """The first of Slurm's list of nodes: "node[5-9,12],gpu1" begins with node5."""
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", names, count=1).split(",")[0]

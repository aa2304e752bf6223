"""How much memory a process has had at most."""

import resource
from pathlib import Path


def peak() -> int:
    """Megabytes that this process has had at most.

    What getrusage tells is no less than the memory of the process that started this one: it is kept when a
    program is started. What Linux tells of the program itself is not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["VmHWM"].split()[0]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

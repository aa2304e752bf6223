"""What the processes of a sweep find in their environment, on this machine and in a job.

One thread for every library, since each process has one core. And where the sweep itself does not look for
modules in the folder it stands in, its processes must not either: a random.py there would replace Python's.
"""

import os
import sys

from isojepa.threads import one_thread


def environment() -> dict[str, str]:
    """The variables to set."""
    variables = one_thread()
    if not {"", os.getcwd()} & set(sys.path):
        variables["PYTHONSAFEPATH"] = "1"
    return variables

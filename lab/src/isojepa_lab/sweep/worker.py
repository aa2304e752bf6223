"""A worker process of a local sweep: takes runs from its standard input, one after another.

It is started as `python -m isojepa_lab.sweep.worker FOLDER` with one thread for every library. Each line that
comes in is a JSON object, {"run": config, "study": name} or {"measure": config}; each that goes out reports
how that ended. The end of the input is the end of the sweep, also when the parent was killed: then the run
saves a checkpoint and stops. What a run prints goes to its own log.
"""

import contextlib
import faulthandler
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isojepa.io import make_folder, open_new

_GRACE = 60.0  # seconds in which a run whose parent is gone must have saved


def main() -> None:
    """Serve runs until the input ends."""
    folder = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints must not garble the answers
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    requests: queue.Queue[str] = queue.Queue()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        threading.Thread(target=_listen, args=(requests,), daemon=True).start()
        import torch

        torch.set_num_threads(1)
        _tell(answers, {"ready": os.getpid()})
        while True:  # until the listener interrupts
            _tell(answers, _answer(json.loads(requests.get()), folder))


def _answer(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    from isojepa.config import config_from
    from isojepa_lab.studies.cells import asked_from, record_of
    from isojepa_lab.sweep.measure import measure
    from isojepa_lab.sweep.record_state import is_held
    from isojepa_lab.sweep.work import attempt, notes_path

    if "measure" in request:
        try:
            return {"cost": measure(config_from(request["measure"]), float(request["seconds"])).to_dict()}
        except Exception as error:  # told when the run itself is tried
            return {"cost": None, "error": str(error)}
    config = asked_from(request["run"])
    path = record_of(config, folder)
    if is_held(path):  # the log is the holder's
        return {"state": "held", "error": ""}
    with _logged(notes_path(folder, path.name, "log")):
        ending = attempt(config, folder, request.get("study", ""))
    return {"state": ending.state, "error": ending.error}


@contextlib.contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Send what is printed to a log; one that stays empty is removed."""
    make_folder(path.parent)
    before = os.dup(1), os.dup(2)
    with open(open_new(path), "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        faulthandler.enable(log)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            faulthandler.enable()
            os.dup2(before[0], 1)
            os.dup2(before[1], 2)
            os.close(before[0])
            os.close(before[1])
            with contextlib.suppress(FileNotFoundError):
                if not path.stat().st_size:
                    path.unlink()


def _listen(requests: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        requests.put(line)
    os.kill(os.getpid(), signal.SIGTERM)  # a run that is under way saves and stops, an idle worker ends
    time.sleep(_GRACE)
    os._exit(1)


def _tell(answers: Any, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()

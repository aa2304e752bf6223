"""Code in a process of its own, forked from one that has imported numpy and torch and nothing else.

Their import takes seconds, and is paid once for all tests of a worker. Whoever claims something of the start
itself, of torch's import or of variables that it or the interpreter reads, starts a new process instead.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

# A child leaves the loop and runs its code at the top of the module, so that it ends as any script does.
_PARENT = """
import gc, json, os, sys
import numpy, torch
gc.freeze()  # nothing of theirs is looked through when a child ends
answers = os.fdopen(os.dup(1), "w")
print(0, file=answers, flush=True)
for line in sys.stdin:
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
else:
    sys.exit()
answers.close()
asked = json.loads(line)
for number, name in enumerate((os.devnull, *asked["files"])):
    opened = os.open(name, os.O_RDWR | os.O_CREAT)
    os.dup2(opened, number)
    os.close(opened)
sys.stdin = open(0, closefd=False)
os.environ.clear()
os.environ.update(asked["env"])
os.chdir(asked["cwd"])
sys.argv[1:] = asked["arguments"]
sys.path[1:1] = asked["path"]
code = compile(asked["code"], "<string>", "exec")
for name in set(globals()) - {"code", "__name__", "__builtins__"}:
    del globals()[name]
exec(code)
"""


def run(
    code: str,
    *arguments: object,
    cwd: str | Path = ".",
    env: Mapping[str, str] | None = None,
    path: Sequence[str | Path] = (),
) -> subprocess.CompletedProcess[str]:
    """What `python -c code arguments...` does, with its output; `path` is what PYTHONPATH would add."""
    parent = _parent()
    assert parent.stdin is not None
    assert parent.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("out", "err")]
        asked = {
            "code": code,
            "arguments": [os.fspath(one) if isinstance(one, Path) else str(one) for one in arguments],
            "cwd": str(Path(cwd).resolve()),
            "env": dict(os.environ if env is None else env),
            "path": [str(one) for one in path],
            "files": [str(file) for file in files],
        }
        try:
            parent.stdin.write(json.dumps(asked) + "\n")
            parent.stdin.flush()
            ended = int(parent.stdout.readline())
        except BaseException:  # a test that waited too long: its answer must not be the next one's
            parent.kill()
            _parent.cache_clear()
            raise
        out, err = (file.read_text(encoding="utf-8") if file.exists() else "" for file in files)
    return subprocess.CompletedProcess([code, *asked["arguments"]], ended, out, err)


@cache
def _parent() -> "subprocess.Popen[str]":
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "0\n"
    return parent

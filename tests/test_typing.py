"""The package's types reach those who use it: mypy, strict, on a file outside of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import isojepa

ROOT = Path(__file__).parent.parent
USER = '''
import numpy as np
import torch

import isojepa as ij
from isojepa.certificates import Certificate
from isojepa.objectives import LeJEPA, SIGReg
from isojepa.data import OrnsteinUhlenbeck, Spiral, World


def trained(dim: int) -> Certificate:
    """The ten lines of the README."""
    world = World(OrnsteinUhlenbeck(dim=dim, rho=0.95), Spiral())
    encoder = ij.encoders.MLP(in_dim=dim, out_dim=dim)
    run = ij.fit(encoder, world, LeJEPA(), seed=0)
    reached: float | None = run.r2
    print(reached)
    return ij.certify(encoder, world, seed=1)


def regularized(h: torch.Tensor) -> torch.Tensor:
    """Only the regularizer."""
    return SIGReg(seed=0).forward(h)


certificate: Certificate = ij.certify(np.zeros((100, 2)), next=np.zeros((100, 2)), rho=0.95)
ij.encoders.MLP(in_dim="two", out_dim=2)  # wrong: arg-type
ij.encoders.MLP(in_dim=2, out_dim=2, depth=3)  # wrong: call-arg
ij.fit(ij.encoders.MLP(in_dim=2, out_dim=2))  # wrong: call-arg
trained(2).no_such_number  # wrong: attr-defined
ij.no_such_name  # wrong: attr-defined
print(len(trained(2).grade), trained(2).grade + 1)  # wrong: operator
'''


@pytest.mark.slow
def test_mypy_sees_our_types_from_outside(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    cache = ROOT / ".mypy_cache/outside"  # kept: the first run reads torch's types for half a minute
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", cache, "user.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(isojepa.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = {
        (number, line.partition("# wrong: ")[2])
        for number, line in enumerate(USER.splitlines(), 1)
        if "# wrong: " in line
    }
    told = re.findall(r"^user\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, flags=re.MULTILINE)
    assert {(int(number), code) for number, code in told} == wrong, done.stdout + done.stderr

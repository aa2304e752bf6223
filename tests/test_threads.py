"""What is set before torch is imported, and how many threads a step gets."""

import json
import os
import subprocess
import sys

import pytest
import torch

from isojepa.encoders import MLP
from isojepa.threads import CHOICES, short_waits, suited, threads_for


@pytest.fixture
def unchosen(monkeypatch):
    """A user who has chosen nothing."""
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("chosen", [{}, {"OMP_NUM_THREADS": "2"}, {"OMP_WAIT_POLICY": "active"}], ids=str)
def test_the_command_line_sets_how_threads_wait_before_torch_is_imported(chosen):
    code = """
import builtins, json, os, sys
real = builtins.__import__
def spy(name, *arguments, **options):
    if name.partition(".")[0] == "torch":
        print(json.dumps(os.environ.get("GOMP_SPINCOUNT")), flush=True)
        os._exit(7)  # what comes afterwards takes seconds, and says no more
    return real(name, *arguments, **options)
builtins.__import__ = spy
from isojepa.cli import main
main(["list", "encoders", "--json"])
"""
    clean = {key: value for key, value in os.environ.items() if key not in CHOICES}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=clean | chosen
    )
    assert done.returncode == 7, done.stderr  # torch was imported
    expected = None if chosen else short_waits({})["GOMP_SPINCOUNT"]
    assert json.loads(done.stdout) == expected


def test_small_steps_get_one_thread_and_large_ones_all(two_threads):
    encoder = MLP(2, 2)  # 17,000 weights
    assert threads_for(encoder, 2 * 512) == 1
    assert threads_for(encoder, 2 * 2048) == 2
    assert threads_for(MLP(2, 2, width=1024), 2 * 64) == 2


def test_the_number_of_threads_is_put_back_and_the_users_own_is_kept(two_threads, unchosen):
    small = MLP(2, 2, width=4, layers=2)
    with suited(small, 8):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    unchosen.setenv("OMP_NUM_THREADS", "2")
    with suited(small, 8):
        assert torch.get_num_threads() == 2

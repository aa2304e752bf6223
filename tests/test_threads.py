"""What is set before torch is imported, and how many threads a step gets."""

import json
import os
import subprocess
import sys

import pytest
import torch

from isojepa.encoders import MLP
from isojepa.threads import CHOICES, cores, one_thread, prepare, short_waits, suited, threads_for
from isojepa_lab.sweep.environment import environment


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


@pytest.mark.parametrize("name", CHOICES)
def test_what_the_user_has_chosen_stays(name):
    assert set(short_waits({"PATH": "/bin"})) == {"GOMP_SPINCOUNT", "OPENBLAS_NUM_THREADS"}
    assert "GOMP_SPINCOUNT" not in short_waits({"PATH": "/bin", name: "2"})


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
def test_products_of_small_matrices_leave_half_of_the_cores_to_others(name):
    assert int(short_waits({})["OPENBLAS_NUM_THREADS"]) == max(1, cores() // 2)
    assert "OPENBLAS_NUM_THREADS" not in short_waits({name: "2"})


def test_nothing_is_set_once_torch_is_there(unchosen):
    prepare()
    assert not set(CHOICES) & set(os.environ)


@pytest.mark.parametrize("chosen", [{}, {"OMP_NUM_THREADS": "2"}, {"OMP_WAIT_POLICY": "active"}], ids=str)
def test_the_command_line_sets_how_threads_wait_before_torch_is_imported(chosen):
    code = """
import builtins, json, os, sys
real = builtins.__import__
def spy(name, *arguments):
    if name.partition(".")[0] == "torch":
        print(json.dumps(os.environ.get("GOMP_SPINCOUNT")), flush=True)
        os._exit(7)  # what comes afterwards takes seconds, and says no more
    return real(name, *arguments)
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


def test_processes_of_a_sweep_have_one_thread_in_every_library():
    assert one_thread().items() <= environment().items()
    assert {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"} <= set(one_thread())

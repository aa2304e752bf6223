"""Programs of this environment are named as they can be typed."""

import os
import sysconfig

from isojepa.importing import program


def test_a_program_off_the_path_is_named_by_its_place(monkeypatch):
    folder = sysconfig.get_path("scripts")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir("/")
    assert program("python") == os.path.join(folder, "python").lstrip("/")
    monkeypatch.chdir(folder)
    assert program("python") == os.path.join(folder, "python")
    assert program("no-such-program") == "no-such-program"


def test_a_program_on_the_path_is_named_by_its_name(monkeypatch):
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"))
    assert program("python") == "python"

"""What `make` installs, and what the package asks for."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
GATHERED = ("dev", "all")  # tools, and all others together


def plan(target: str, environment: Path) -> str:
    """What `make target` would run."""
    command = ["make", "-n", "-C", str(ROOT), target, f"VENV={environment}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_the_demo_installs_the_package_alone_and_the_tests_add_the_tools(tmp_path):
    package, tools = "--editable .\n", "--editable '.[dev]'\n"
    assert package in plan("demo", tmp_path)
    assert tools not in plan("demo", tmp_path)
    for target in ("test", "lint", "bench", "setup", "test-slow"):
        fresh = plan(target, tmp_path)
        assert 0 < fresh.index(package) < fresh.index(tools), target
    (tmp_path / ".ready").touch()  # demo, then test
    assert package not in plan("test", tmp_path)
    assert tools in plan("test", tmp_path)
    (tmp_path / ".tools").touch()  # test, then demo
    assert "pip install" not in plan("test", tmp_path) + plan("demo", tmp_path)


def test_every_extra_is_used_by_something_and_pinned():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    for extra, packages in EXTRAS.items():
        for name in (re.split(r"[<>=\[]", package)[0] for package in packages):
            if extra not in GATHERED:
                assert re.search(rf"(import|from) \S*{name.replace('-', '_')}\b", source), f"{extra}: {name}"
            if name != "isojepa":
                assert re.search(rf"^{name.lower().replace('-', '[-_]')}==", pins, re.MULTILINE), name


def test_all_extras_are_in_all():
    (gathered,) = EXTRAS["all"]
    assert set(re.findall(r"\w+", gathered)) - {"isojepa"} == set(EXTRAS) - set(GATHERED)

"""What `make` installs, and what the package asks for."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from isojepa.importing import import_file

ROOT = Path(__file__).parents[1]
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LAB = tomllib.loads((ROOT / "lab/pyproject.toml").read_text(encoding="utf-8"))["project"]
PROJECT, BUILD = WHOLE["project"], WHOLE["build-system"]
EXTRAS = PROJECT["optional-dependencies"]
GATHERED = ("dev", "all")  # tools, and all others together
MODULES = {"Pillow": "PIL", "scikit-learn": "sklearn"}  # imported by another name
AHEAD: set[str] = set()  # declared before what uses them; whoever writes that takes them out
hashes = import_file(ROOT / "tools/hashes.py")


def plan(target: str, environment: Path) -> str:
    """What `make target` would run."""
    command = ["make", "-n", "-C", str(ROOT), target, f"VENV={environment}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_the_demo_installs_the_package_alone_and_the_tests_add_the_tools(tmp_path):
    package = "--editable . --editable lab\n"
    tools = "--editable '.[dev]' --editable 'lab[mujoco,peers,slurm]'\n"
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
    source = "\n".join(
        path.read_text(encoding="utf-8") for part in ("src", "lab") for path in (ROOT / part).rglob("*.py")
    )
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    for extra, packages in (EXTRAS | LAB["optional-dependencies"]).items():
        for name in (re.split(r"[<>=\[]", package)[0] for package in packages):
            module = MODULES.get(name, name.replace("-", "_"))
            used = re.search(rf"(import|from) \S*{module}\b|_imported\(f?\"{module}\b", source)
            if extra not in GATHERED:
                assert bool(used) is (extra not in AHEAD), f"{extra}: {name}"
            if name != "isojepa":
                assert re.search(rf"^{name.lower().replace('-', '[-_]')}==", pins, re.MULTILINE), name


def test_the_pinned_versions_are_ones_that_the_package_allows():
    pinned = hashes.pins(ROOT / "constraints.txt")
    asked = [*PROJECT["dependencies"], *LAB["dependencies"], *BUILD["requires"]]
    extras = [*EXTRAS.values(), *LAB["optional-dependencies"].values()]
    asked += [each for packages in extras for each in packages]
    asked = [each for each in asked if not each.startswith("isojepa")]
    for each in map(Requirement, asked):
        assert each.specifier.contains(pinned[hashes.normalised(each.name)]), each


def test_the_hashed_versions_are_the_pinned_ones_but_for_torch():
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = hashes.pins(ROOT / "constraints.txt")
    assert hashes.pins(ROOT / "requirements.lock") == {
        name: version for name, version in pinned.items() if name != "torch"
    }
    entries = re.split(r"\n(?=\S)", text.rstrip("\n"))
    for entry in entries:
        if not entry.startswith("#"):
            assert re.fullmatch(r"\S+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", entry), entry.split()[0]
    assert "://" not in text  # whoever installs says from where


def test_the_hashes_are_those_of_all_files_of_one_version():
    files = {
        "a_b-1.0-py3-none-any.whl": "1",
        "a_b-1.0-cp311-cp311-win_amd64.whl": "2",
        "a-b-1.0.tar.gz": "3",
        "a_b-1.0.1-py3-none-any.whl": "4",
        "a_b-1.0.post1.tar.gz": "5",
        "a_b_c-1.0-py3-none-any.whl": "6",
    }
    page = "".join(f'<a href="../x/{name}#sha256={digit * 64}">{name}</a>\n' for name, digit in files.items())
    assert hashes.hashes(page, "a-b", "1.0") == ["1" * 64, "2" * 64, "3" * 64]
    with_build = page.replace("1.0-py3", "1.0%2Bcpu-py3")
    assert hashes.hashes(with_build, "a-b", "1.0+cpu") == ["1" * 64]


def test_the_lab_is_of_the_version_of_the_library():
    from isojepa.version import __version__

    assert LAB["version"] == __version__
    assert f"isojepa=={__version__}" in LAB["dependencies"]

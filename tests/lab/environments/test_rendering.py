"""Drawing without a screen: which way is taken, and what is said where there is none."""

import ast
import os
from pathlib import Path

import numpy as np
import pytest

import isojepa_lab
from isojepa_lab.environments import rendering
from isojepa_lab.environments.rendering import NoRendering, Renderer, backend, import_mujoco
from tests.lab.environments.rendering import rendering_or_skip
from tests.processes import run

SPHERE = (
    '<mujoco><visual><global offwidth="40" offheight="30"/></visual><worldbody>'
    '<geom size="0.5" rgba="1 0 0 1"/><camera name="above" pos="0 0 3"/></worldbody></mujoco>'
)


@pytest.fixture
def unknown_backend():
    backend.cache_clear()
    yield
    backend.cache_clear()


def test_a_red_sphere_is_red_in_the_middle_and_not_at_the_edge():
    rendering_or_skip()
    mujoco = import_mujoco()
    model = mujoco.MjModel.from_xml_string(SPHERE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    with Renderer(model, 30, 40) as renderer:
        picture, again = (renderer.render(data, "above").copy() for _ in range(2))
    assert picture.shape == (30, 40, 3)
    assert picture.dtype == np.uint8
    assert picture[15, 20, 0] > 100 > picture[15, 20, 1]
    assert picture[1, 1].max() == 0
    assert np.array_equal(picture, again)
    with pytest.raises(ValueError, match="height must be a positive integer, got 0"):
        Renderer(model, 0, 10)


def test_importing_changes_nothing_and_brings_no_mujoco():
    code = (
        "import os, sys; before = dict(os.environ)\n"
        "import isojepa_lab.environments.rendering, isojepa_lab.environments.reacher\n"
        "assert dict(os.environ) == before, 'environment'; assert 'mujoco' not in sys.modules"
    )
    run(code).check_returncode()


def test_drawing_leaves_the_variable_as_it_was():
    rendering_or_skip()
    before = os.environ.get("MUJOCO_GL")
    import_mujoco()
    assert os.environ.get("MUJOCO_GL") == before


def test_the_first_way_that_works_is_taken(monkeypatch, unknown_backend):
    monkeypatch.setattr(rendering, "_check_installed", lambda: None)
    monkeypatch.setattr(rendering.platform, "system", lambda: "Linux")
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    tried = []

    def attempt(name):
        tried.append(name)
        return "" if name == "osmesa" else "ImportError: no library"

    monkeypatch.setattr(rendering, "_tried", attempt)
    assert backend() == "osmesa"
    assert tried == ["egl", "osmesa"]


def test_where_nothing_draws_one_sentence_says_what_to_install(monkeypatch, unknown_backend):
    monkeypatch.setattr(rendering, "_check_installed", lambda: None)
    monkeypatch.setattr(rendering.platform, "system", lambda: "Linux")
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(rendering, "_tried", lambda name: f"no {name}")
    with pytest.raises(NoRendering, match="apt-get install libegl1 libgl1-mesa-dri, or libosmesa6") as caught:
        backend()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)  # the command line tells those in one line


def test_the_users_own_choice_is_taken(monkeypatch, unknown_backend):
    monkeypatch.setattr(rendering, "_check_installed", lambda: None)
    monkeypatch.setenv("MUJOCO_GL", "glx")
    assert backend() == "glx"


def test_without_mujoco_the_pip_command_is_named(monkeypatch, unknown_backend):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install -c constraints.txt '\./lab\[mujoco\]'"):
        backend()


def test_no_module_imports_the_simulator_when_it_is_imported_itself():
    # whoever imports it first decides how it draws, also the one who only looks for doctests
    package = Path(isojepa_lab.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    named = {path: text for path, text in texts.items() if "mujoco" in text or "dm_control" in text}
    assert package / "environments/rendering.py" in named
    for path, text in named.items():
        for node in ast.parse(text).body:
            imports = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imports += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in imports} & {"mujoco", "dm_control"}, path

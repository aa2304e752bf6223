"""The documents say what the tree and the records say."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readmes_numbers_are_those_of_the_records():
    done = subprocess.run(
        [sys.executable, ROOT / "docs/fill.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_readmes_tree_has_every_module_and_no_other():
    tree = README.partition("## The tree")[2].partition("```\n")[2].partition("```")[0]
    listed = set(re.findall(r"^ +([a-z_]+\.py)\b", tree, flags=re.MULTILINE))
    modules = {path.name for path in (ROOT / "src/isojepa").rglob("*.py")}
    assert listed == modules
    comments = [line.split(maxsplit=1) for line in tree.splitlines() if line.strip()]
    assert all(len(parts) == 2 for parts in comments), "every line of the tree has a comment"


def test_every_link_of_the_documents_leads_somewhere():
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_settings_in_the_readmes_python_exist():
    import isojepa as ij

    for name in set(re.findall(r"\bij\.([a-z_.A-Z]+)", README)):
        thing = ij
        for part in name.rstrip(".").split("."):
            assert hasattr(thing, part), f"README.md names ij.{name}"
            thing = getattr(thing, part)

"""The documents say what the tree and the records say."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (ROOT / "src/isojepa", ROOT / "lab/src/isojepa_lab")
READMES = [page for package in PACKAGES for page in package.glob("*/README.md")]
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("lab/docs/*.md")]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(900)  # it makes every table anew, on whatever machine
def test_the_readmes_numbers_are_those_of_the_records():
    done = subprocess.run(
        [sys.executable, ROOT / "docs/fill.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_link_of_the_documents_leads_somewhere():
    for page in (*PAGES, *ROOT.glob("*.md"), *ROOT.glob("lab/*.md"), *READMES):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                path, _, anchor = target.partition("#")
                linked = page.parent / path if path else page
                assert linked.exists(), f"{page.name} links to {target}"
                assert not anchor or anchor in headings(linked), f"{page.name} links to {target}"


def headings(page):
    """Anchors of a page's headings, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


def test_the_citation_is_of_a_release_in_the_changelog():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)
    released = re.findall(r"^## (\d\S*) \((.*)\)$", CHANGELOG, flags=re.MULTILINE)
    assert (citation["version"], str(citation["date-released"])) == released[0]
    listed = README.partition("## References")[2]
    for paper in citation["references"]:
        (identifier,) = paper["identifiers"]
        assert re.fullmatch(r"arXiv:\d{4}\.\d{5}(v\d+)?", identifier["value"])
        assert paper["url"].endswith(identifier["value"].removeprefix("arXiv:"))
        assert paper["title"] in " ".join(listed.split())
        assert identifier["value"] in listed
    assert len(citation["references"]) == listed.count("arXiv:")


def test_every_page_of_the_documents_is_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = re.findall(r"\]\(([^)#]+\.md)", page.read_text(encoding="utf-8"))
            waiting += [(page.parent / target).resolve() for target in targets if "://" not in target]
    assert {*PAGES, *READMES} - reached == set()


def test_the_names_in_the_documents_python_exist():
    import isojepa as ij

    for page in PAGES:
        for name in set(re.findall(r"\bij\.([a-z_.A-Z]+)", page.read_text(encoding="utf-8"))):
            thing = ij
            for part in name.rstrip(".").split("."):
                assert hasattr(thing, part), f"{page.name} names ij.{name}"
                thing = getattr(thing, part)


def test_what_the_documents_python_imports_exists():
    for page in PAGES:
        for block in re.findall(
            r"^```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        ):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and node.module.startswith("isojepa"):
                    module = importlib.import_module(node.module)
                    for name in node.names:
                        assert hasattr(module, name.name), f"{page.name}: {node.module}.{name.name}"

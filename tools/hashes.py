"""Write requirements.lock: the versions of constraints.txt, each with the SHA-256 of all its files.

    python tools/hashes.py            write it, from the index that pip uses here
    python tools/hashes.py --check    see that it has the names and versions of constraints.txt; no network

Hashes are those of every file of a version, for all systems and Python versions, as the index lists them.
torch is left out: its builds for the processor alone, and for accelerators, come from indexes of their own,
with files that have other hashes. CONTRIBUTING.md says how to install from it.
"""

import html
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINS, LOCK = ROOT / "constraints.txt", ROOT / "requirements.lock"
APART = ("torch",)  # whose builds come from several indexes
_LINK = re.compile(r'href="([^"]*)#sha256=([0-9a-f]{64})"')
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9._+!-]+)")


def pins(path: Path) -> dict[str, str]:
    """The pinned versions of a file of requirements, by normalised name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = (_PIN.match(line) for line in lines if line and not line.startswith(("#", " ")))
    return {normalised(pin[1]): pin[2] for pin in found if pin}


def normalised(name: str) -> str:
    """A project's name as an index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def hashes(page: str, name: str, version: str) -> list[str]:
    """The hashes of all files of a version on a project's page of links.

    Example:
        >>> page = f'<a href="../a_b-1.0-py3-none-any.whl#sha256={"0" * 64}">a_b-1.0-py3-none-any.whl</a>'
        >>> len(hashes(page, "a-b", "1.0")), len(hashes(page, "a-b", "1.0.1"))
        (1, 0)
    """
    found = set()
    for link, digest in _LINK.findall(html.unescape(page)):
        file = urllib.parse.unquote(link.rpartition("/")[2])
        stem = re.sub(r"\.(tar\.gz|zip|tar\.bz2)$", "", file)
        parts = stem.split("-")
        whole = file.endswith(".whl") and (normalised(parts[0]), parts[1]) == (name, version)
        if whole or (stem != file and normalised(stem) == normalised(f"{name}-{version}")):
            found.add(digest)
    return sorted(found)


def index() -> str:
    """The address of the index that pip uses."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if told:
        return told.rstrip("/")
    from pip._internal.models.index import PyPI  # pip's own default, which it tells nobody

    return PyPI.simple_url.rstrip("/")


def read(address: str) -> str:
    """A page of the index as HTML."""
    request = urllib.request.Request(address, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def locked(pinned: dict[str, str], base: str) -> str:
    """The text of requirements.lock.

    Raises:
        ValueError: the index has no hashes of a version.
    """
    lines = [
        "# Made by tools/hashes.py from constraints.txt: pip install --require-hashes -r requirements.lock",
        f"# Not here: {', '.join(APART)}, whose builds come from several indexes; install it first.",
    ]
    for name, version in sorted(pinned.items()):
        if name in APART:
            continue
        digests = hashes(read(f"{base}/{name}/"), name, version)
        if not digests:
            raise ValueError(f"the index must have hashes of {name}=={version}, got none")
        lines += [f"{name}=={version} \\", " \\\n".join(f"    --hash=sha256:{digest}" for digest in digests)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the file, or check it."""
    pinned = pins(PINS)
    if sys.argv[1:] == ["--check"]:
        wanted = {name: version for name, version in pinned.items() if name not in APART}
        if pins(LOCK) != wanted:
            odd = sorted(name for name, _ in pins(LOCK).items() ^ wanted.items())
            sys.exit(f"{LOCK.name} must agree with {PINS.name}, got others of {', '.join(odd)}: make lock")
        return
    LOCK.write_text(locked(pinned, index()), encoding="utf-8")


if __name__ == "__main__":
    main()

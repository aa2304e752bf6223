"""How commands speak: text for people, JSON for programs."""

import json
from typing import Any

from rich.console import Console

from isojepa.files import plain

out = Console(highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print plain values as JSON; NaN and Inf as strings."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))

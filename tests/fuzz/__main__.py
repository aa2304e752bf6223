"""python -m tests.fuzz: thousands of inputs; the counts as JSON, what failed on standard error."""

import argparse
import json
import sys
from pathlib import Path

from tests.fuzz.runner import Tally, run, tell


def main() -> int:
    """Returns 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=5_000, help="how many inputs")
    parser.add_argument("--seed", type=int, default=0, help="draws them")
    parser.add_argument("--start", type=int, default=0, help="number of the first, to give one again")
    parser.add_argument("--out", type=Path, help="file for the counts, e.g. docs/results/fuzz.json")
    options = parser.parse_args()

    def keep(tally: Tally) -> None:
        if options.out is not None:
            options.out.write_text(json.dumps(tally.to_dict(), indent=2) + "\n", encoding="utf-8")

    tally = run(options.count, options.seed, tell, options.start, keep)
    keep(tally)
    sys.stdout.write(json.dumps(tally.to_dict(), indent=2) + "\n")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())

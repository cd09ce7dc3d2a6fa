"""What the benchmarks of reading share: their options, one case in a process of its own, one core."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path


def given(description: str | None, case: Callable[[str, str], None], *, rows: int) -> argparse.Namespace | None:
    """Return rows, rounds and quick, and stay on one core; None after `--case`, which was the whole work.

    rows: how many are usual.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="20,000 rows: does it run? Shown, not judged")
    parser.add_argument("--case", nargs=2)
    found = parser.parse_args()
    if found.case:
        case(*found.case)
        return None
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    found.rows = found.rows or (20_000 if found.quick else rows)
    found.rounds = found.rounds or (2 if found.quick else 5)
    return found

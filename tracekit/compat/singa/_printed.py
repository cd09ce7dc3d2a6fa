"""Profiles that SINGA printed, from TOTALS."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tracekit.index.trace_index import TraceIndex


@dataclass(slots=True)
class Printed:
    """One `Time Profiling:`. phases, operators: rows of TOTALS, `args` a dict. several: its input has more of them."""

    source: int
    run: int
    rank: int | None
    several: bool = False
    below_blank: bool = False
    dist_only: bool = False
    phases: list[dict[str, Any]] = field(default_factory=list)
    operators: list[dict[str, Any]] = field(default_factory=list)


def printed_profiles(index: TraceIndex) -> list[Printed]:
    """Return the profiles in the order of the files."""
    table = index.totals
    if not table.num_rows:
        return []
    made: dict[tuple[int, int], Printed] = {}
    for row in table.sort_by([("source", "ascending"), ("order", "ascending")]).to_pylist():
        name, section = row["name"], row["section"]
        verbosity = section == "header" and name == "Verbosity"
        if not verbosity and section != "Propagation" and section != "Operators":
            continue
        row["args"] = _args(row["args"])
        if section == "Operators" and not isinstance(row["args"].get("op_id"), int):
            continue
        found = made.setdefault((row["source"], row["run"]), Printed(row["source"], row["run"], row["rank"]))
        if verbosity:
            found.below_blank = bool(row["args"].get("below_blank"))
            found.dist_only = row["value_text"] == "2 or 3"
        elif section == "Propagation":
            found.phases.append(row)
        else:
            found.operators.append(row)
    profiles = [p for p in made.values() if p.phases or p.operators]
    for profile in profiles:
        profile.several = sum((p.source, p.rank) == (profile.source, profile.rank) for p in profiles) > 1
    return sorted(profiles, key=lambda p: (p.source, p.run))


def _args(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

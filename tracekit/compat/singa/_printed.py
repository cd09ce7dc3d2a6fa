"""Profiles that SINGA printed, from TOTALS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracekit.index.trace_index import TraceIndex
from tracekit.views.totals import TotalsRow, totals_rows


@dataclass(slots=True)
class Printed:
    """One `Time Profiling:`. phases, operators: rows of TOTALS, `args` a dict. several: its input has more of them.

    divided: (measured iterations, all iterations, divisor), where the profile names them, as tracekit's face does.
    """

    source: int
    run: int
    rank: int | None
    several: bool = False
    below_blank: bool = False
    dist_only: bool = False
    divided: tuple[int, int, int] | None = None
    phases: list[TotalsRow] = field(default_factory=list)
    operators: list[TotalsRow] = field(default_factory=list)


def printed_profiles(index: TraceIndex) -> list[Printed]:
    """Return the profiles in the order of the files."""
    made: dict[tuple[int, int], Printed] = {}
    for row in sorted(totals_rows(index), key=lambda row: (row["source"], row["order"])):
        name, section = row["name"], row["section"]
        verbosity = section == "header" and name == "Verbosity"
        if not verbosity and section != "Propagation" and section != "Operators":
            continue
        if section == "Operators" and not isinstance(row["args"].get("op_id"), int):
            continue
        found = made.setdefault((row["source"], row["run"]), Printed(row["source"], row["run"], row["rank"]))
        if verbosity:
            found.below_blank = bool(row["args"].get("below_blank"))
            found.dist_only = row["value_text"] == "2 or 3"
            found.divided = _divided(row["args"])
        elif section == "Propagation":
            found.phases.append(row)
        else:
            found.operators.append(row)
    profiles = [p for p in made.values() if p.phases or p.operators]
    for profile in profiles:
        profile.several = sum((p.source, p.rank) == (profile.source, profile.rank) for p in profiles) > 1
    return sorted(profiles, key=lambda p: (p.source, p.run))


def _divided(args: Mapping[str, object]) -> tuple[int, int, int] | None:
    measured, iterations, divisor = (args.get(key) for key in ("measured", "iterations", "divisor"))
    if isinstance(measured, int) and isinstance(iterations, int) and isinstance(divisor, int) and measured > 0:
        return measured, iterations, divisor
    return None

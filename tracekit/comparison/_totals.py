"""Totals that a profiler summed: device work by name, and the other tables to compare one by one."""

from __future__ import annotations

import json

from tracekit.comparison._amount import Amount, Key
from tracekit.comparison._device_work import NO_NAME
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.model.trace import Trace

TotalRows = dict[tuple[str, str, str], Amount]
"""Amounts by section, kind and name."""
_COMPARED_AS_EVENTS = DEVICE_WORK | API_CALLS | {Kind.SYNC}


def rows_of_totals(trace: Trace) -> TotalRows:
    """Return the rows of TOTALS with a time: (section, kind, name) -> amount."""
    found: TotalRows = {}
    table = trace.totals
    if not table.num_rows:
        return found
    for row in table.select(["section", "kind", "name", "calls", "total_ns", "args"]).to_pylist():
        if row["total_ns"] is None or row["section"] == "header":
            continue
        section = " · ".join(filter(None, (row["section"], _nvtx_range(row["args"]))))
        key = (section, row["kind"] or "other", row["name"] or NO_NAME)
        old = found.get(key, Amount(0, 0))
        found[key] = Amount(old.calls + (row["calls"] or 0), old.total + row["total_ns"])
    return found


def _nvtx_range(args: str | None) -> str:
    """Return the NVTX range of a row of nvprof, "" for none. Rows of ranges repeat time of other rows."""
    if not args or '"range"' not in args.lower():
        return ""
    try:
        members = json.loads(args)
    except ValueError:
        return ""
    found = {str(k).lower(): v for k, v in members.items()} if isinstance(members, dict) else {}
    return " / ".join(str(found[part]) for part in ("domain", "thread", "range") if found.get(part))


def device_totals(totals: TotalRows) -> dict[Key, Amount]:
    """Return device work by name. Rows of NVTX ranges count only where no row is of the whole run."""
    rows = {key: amount for key, amount in totals.items() if key[1] in DEVICE_WORK}
    whole = {key: amount for key, amount in rows.items() if " · " not in key[0]}
    found: dict[Key, Amount] = {}
    for (_, kind, name), amount in (whole or rows).items():
        old = found.get((kind, name), Amount(0, 0))
        found[kind, name] = Amount(old.calls + amount.calls, old.total + amount.total)
    return found


def totals_by_section(totals: TotalRows) -> dict[tuple[str, str], Amount]:
    """Return the totals to compare table by table: all but device work and API calls, which are compared as events."""
    found: dict[tuple[str, str], Amount] = {}
    for (section, kind, name), amount in totals.items():
        if kind in _COMPARED_AS_EVENTS:
            continue
        key = (section or str(Kind(kind)), name)
        old = found.get(key, Amount(0, 0))
        found[key] = Amount(old.calls + amount.calls, old.total + amount.total)
    return found

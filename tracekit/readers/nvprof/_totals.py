"""Rows of tables that nvprof had already summed -> TOTALS: summaries, metrics and events, unified memory.

Cells come by column name from CSV or text; a cell may carry its own unit ("542.36ms", "47.79%", "12.3GB/s").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson

from tracekit.readers.nvprof._lines import DEVICE_CALLS, HOST_CALLS, Table
from tracekit.readers.nvprof._names import api_kind, device_kind, strip_suffix
from tracekit.readers.nvprof._row import plain_number, size_bytes, time_ns, whole
from tracekit.readers.nvprof._state import OpenTable, RowError, State
from tracekit.schema import Kind
from tracekit.units import BYTE_FACTOR, TIME_EXPONENT, split_quantity

GPU, API = "GPU activities", "API calls"
_LEVEL = re.compile(r"^(Idle|Low|Mid|High|Max) \((\d+)\)$")
_CALL_COLUMNS = frozenset(("Device", "Context", "Stream", "Kernel", "Name", "Correlation_ID"))
_EXACT = 1 << 53
"""Integers beyond lose digits as doubles: value_min, value_max and value_avg round them, args keeps them as printed."""
_ABSENT = frozenset(("", "-"))
_PLACES = {HOST_CALLS: "calls_host", DEVICE_CALLS: "calls_device"}
_BYTES = re.compile(r"^(\d{1,18})B$", re.ASCII)
_NO_UNIT = re.compile(r"^\d+(?:[.,]\d+)?$", re.ASCII)
NO_TOTAL_TIME = (
    "nvprof --csv gives no unit to the Total Time of unified memory: these times are left out (a trace has them, and "
    "so has the summary without --csv)"
)


def total_rows(cells: Mapping[str, str], table: OpenTable, state: State) -> list[dict[str, Any]]:
    """Return the rows of TOTALS of one line: one, or one for each counter where a line has several.

    Raises: RowError, with the reason to drop the row.
    """
    base = {"source": state.source, "run": table.run.number}
    rows = _ROWS[table.header.table](cells, table, state)
    for row in rows:
        row |= base
        row["order"] = state.order
        state.order += 1
        if args := row.get("args"):
            row["args"] = orjson.dumps(args).decode()
        else:
            row.pop("args", None)
        if row.get("name") is not None:
            row["name"], row["raw_name"] = state.names.one(row["name"])
    return rows


def _time(cells: Mapping[str, str], table: OpenTable, column: str) -> int | None:
    cell = cells.get(column, "")
    return None if cell in _ABSENT else time_ns(cell, table.unit(column), table.decimal)


def _average_ns(cell: str, unit: str, decimal: str) -> float | None:
    """Return an average in ns as it is printed: averages have fractions of a ns."""
    if cell in _ABSENT:
        return None
    time_ns(cell, unit, decimal)
    number, own = split_quantity(plain_number(cell, decimal))
    return float(number.scaleb(TIME_EXPONENT[own or unit]))


def _summary(cells: Mapping[str, str], table: OpenTable, _state: State) -> list[dict[str, Any]]:
    kind = cells.get("Type", "").rstrip(":") or table.kind or table.section
    table.kind = kind if "Type" in table.header.columns else ""
    name = cells["Name"]
    total = _time(cells, table, "Time")
    if total is None:
        raise RowError("no-duration", "the row has no time")
    printed = [(c, cells[c]) for c in ("Calls", HOST_CALLS, DEVICE_CALLS) if cells.get(c, "") not in _ABSENT]
    calls = [whole(cell, table.decimal, 1 << 61) for _, cell in printed]
    if not calls:
        raise RowError("bad-number", "the row has no number of calls")
    row: dict[str, Any] = {
        "section": kind,
        "name": name,
        "total_ns": total,
        "calls": sum(calls),
        "avg_ns": _average_ns(cells.get("Avg", ""), table.unit("Avg"), table.decimal),
        "min_ns": _time(cells, table, "Min"),
        "max_ns": _time(cells, table, "Max"),
    }
    if kind == GPU:
        row["name"], _ = strip_suffix(name)
        row["kind"] = str(device_kind(name)[0])
    elif kind == API:
        row["kind"] = str(api_kind(name))
    elif kind == "Range":
        row["kind"] = str(Kind.USER_RANGE)
    else:
        row["kind"] = str(Kind.OTHER)
    args: dict[str, Any] = {"percent": plain_number(cells["Time(%)"], table.decimal).rstrip("%")}
    args |= {_PLACES[c]: n for (c, _), n in zip(printed, calls, strict=True) if c in _PLACES}
    if table.nvtx:
        # The same work stands in the table of the whole run: another section, so that nothing is summed twice.
        row["section"] = f"NVTX {kind}"
        args |= table.nvtx
    row["args"] = args
    return [row]


def _counters(cells: Mapping[str, str], table: OpenTable, state: State) -> list[dict[str, Any]]:
    is_metric = "Metric Name" in table.header.columns
    calls = whole(cells["Invocations"], table.decimal, 1 << 62)
    args: dict[str, Any] = {"metric" if is_metric else "event": cells["Metric Name" if is_metric else "Event Name"]}
    if cells.get("Metric Description"):
        args["description"] = cells["Metric Description"]
    row: dict[str, Any] = {
        "section": "metrics" if is_metric else "events",
        "kind": str(Kind.KERNEL),
        "calls": calls,
        "name": strip_suffix(cells.get("Kernel") or table.kernel)[0] or None,
        "device": state.device(cells.get("Device") or table.device),
    }
    printed = {key: cells.get(key.title(), "") for key in ("min", "max", "avg", "total")}
    _values(row, args, printed, table.decimal)
    row["args"] = args
    return [row]


def _values(row: dict[str, Any], args: dict[str, Any], printed: Mapping[str, str], decimal: str) -> None:
    """Fill value_min, value_max, value_avg, unit and value_text, and `total` of args.

    Values of unlike units (7.1B/s, 12.3GB/s) go to the smallest, and args keeps them as printed. A level, `Low (2)`,
    is its number, unit "level", and value_text has the average's word. Text that is no number is value_text.
    """
    found: dict[str, tuple[Decimal, str]] = {}
    for key, cell in printed.items():
        if cell in _ABSENT:
            continue
        if level := _LEVEL.match(cell):
            found[key] = Decimal(level[2]), "level"
            continue
        try:
            number, unit = split_quantity(plain_number(cell, decimal))
        except ValueError:
            row["value_text"] = cell
            continue
        found[key] = number, unit
    units = {unit for _, unit in found.values()}
    if len(units) > 1:
        if not all(u.removesuffix("/s") in BYTE_FACTOR for u in units) or len({u.endswith("/s") for u in units}) > 1:
            raise RowError("unlike-units", f"values of unlike units in one row: {', '.join(sorted(units))[:60]}")
        args["printed"] = {key: cell for key, cell in printed.items() if cell not in _ABSENT}
        found = {
            k: (v * BYTE_FACTOR[u.removesuffix("/s")], "B" + u[u.find("/") :] if "/" in u else "B")
            for k, (v, u) in found.items()
        }
        units = {unit for _, unit in found.values()}
    for key in ("min", "max", "avg"):
        if key in found:
            row[f"value_{key}"] = float(found[key][0])
    if any(abs(value) > _EXACT for value, _ in found.values()):
        args["printed"] = {key: cell for key, cell in printed.items() if cell not in _ABSENT}
    if "total" in found:
        args["total"] = _exact(found["total"][0])
    unit = next(iter(units), "")
    if unit:
        row["unit"] = unit
    if unit == "level":
        row["value_text"] = printed.get("avg") or printed.get("min")


def _exact(number: Decimal) -> int | float | str:
    """Return a number as JSON can hold it: integers with all digits, beyond int64 as text."""
    if number.adjusted() > 40 or number != number.to_integral_value():
        return float(number) if abs(number) < _EXACT else str(number)
    return int(number) if -(1 << 63) <= number < 1 << 63 else str(int(number))


def _per_call(cells: Mapping[str, str], table: OpenTable, state: State) -> list[dict[str, Any]]:
    """Return a row for each counter of one kernel call (`--print-gpu-trace --metrics`): no times stand there."""
    rows = []
    name, correlation = strip_suffix(cells["Kernel"])
    for column in table.header.columns:
        if not column or column in _CALL_COLUMNS or cells.get(column, "") in _ABSENT:
            continue
        args: dict[str, Any] = {"metric": column}
        for key in ("Context", "Stream", "Correlation_ID"):
            if cells.get(key):
                args[key.lower()] = cells[key]
        if correlation is not None:
            args.setdefault("correlation_id", str(correlation))
        row: dict[str, Any] = {
            "section": "counters of each call",
            "kind": str(Kind.KERNEL),
            "calls": 1,
            "name": name,
            "device": state.device(cells["Device"]),
        }
        cell = cells[column] + table.unit(column)
        _values(row, args, {"min": cell, "max": cell, "avg": cell}, table.decimal)
        row["args"] = args
        rows.append(row)
    if not rows:
        raise RowError("no-value", "the row has no value of a counter")
    return rows


def _unified(cells: Mapping[str, str], table: OpenTable, state: State) -> list[dict[str, Any]]:
    """Return the row of one kind of migration or fault.

    nvprof 9 with --csv prints no unit behind Total Time, which is 0.000000, and the count of page fault groups, as
    `21B`, in the column Total Size; without --csv the same run has the time, and the count in its place.
    """
    name, args = cells.get("Name") or cells.get("", ""), {}
    count, total = cells["Count"], cells.get("Total Size", "")
    if count in _ABSENT and (misplaced := _BYTES.match(total)):
        count, total, args["total_size"] = misplaced[1], "", total
    time = cells.get("Total Time", "")
    if not table.unit("Total Time") and _NO_UNIT.match(time):
        if time.strip("0.,"):
            args["total_time"] = time
        state.ledger.note("no-total-time", NO_TOTAL_TIME)
        cells = {**cells, "Total Time": ""}
    row: dict[str, Any] = {
        "section": "Unified Memory",
        "name": name,
        "calls": whole(count, table.decimal, 1 << 62),
        "kind": str(Kind.MEMCPY if " To " in name else Kind.OVERHEAD),
        "args": args,
        "device": state.device(cells.get("Device") or table.device),
        "total_ns": _time(cells, table, "Total Time"),
    }
    for column, target in (("Min Size", "value_min"), ("Max Size", "value_max"), ("Avg Size", "value_avg")):
        cell = cells.get(column, "")
        if cell not in _ABSENT:
            size_bytes(cell, table.unit(column), table.decimal)
            number, own = split_quantity(plain_number(cell, table.decimal))
            row[target] = float(number * BYTE_FACTOR.get(own or table.unit(column), 1))
            row["unit"] = "B"
    if total not in _ABSENT:
        row["bytes"] = size_bytes(total, table.unit("Total Size"), table.decimal)
    return [row]


_ROWS = {
    Table.SUMMARY: _summary,
    Table.COUNTERS: _counters,
    Table.PER_CALL: _per_call,
    Table.UNIFIED: _unified,
}

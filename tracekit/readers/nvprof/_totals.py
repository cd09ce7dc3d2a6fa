"""Rows of TOTALS from tables that nvprof has summed: summaries, metrics and events, unified memory.

Cells come by column name from CSV or text. A cell may carry its own unit ("542.36ms", "47.79%", "12.3GB/s").

Unlike traces they are not declared: calls may be the sum of two columns, one line may have many counters, and the unit
of a value (a size, a rate, a level, none) is known by its cell alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from functools import partial

import orjson

from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.schema import Kind
from tracekit.model.units import BYTE_FACTOR, TIME_EXPONENT, split_quantity
from tracekit.readers.engine.cells import RowError
from tracekit.readers.nvprof._lines import DEVICE_CALLS, HOST_CALLS, Table
from tracekit.readers.nvprof._names import api_kind, device_kind, strip_suffix
from tracekit.readers.nvprof._state import NvprofState, OpenTable
from tracekit.readers.nvprof._tables import integer, plain_number, size_bytes, time_ns

GPU, API = "GPU activities", "API calls"
_LEVEL = lazy_pattern(r"^(Idle|Low|Mid|High|Max) \((\d+)\)$")
_CALL_COLUMNS = frozenset(("Device", "Context", "Stream", "Kernel", "Name", "Correlation_ID"))
_EXACT = 1 << 53
"""A double rounds larger integers: value_min, value_max and value_avg are rounded, and args has them as printed."""
_EMPTY = frozenset(("", "-"))
_CALLS_KEYS = {HOST_CALLS: "calls_host", DEVICE_CALLS: "calls_device"}
_BYTES = lazy_pattern(r"^(\d{1,18})B$", re.ASCII)
_NO_UNIT = lazy_pattern(r"^\d+(?:[.,]\d+)?$", re.ASCII)
NO_TOTAL_TIME = (
    "nvprof --csv prints no unit for the Total Time of unified memory: these times are empty (a trace has them, and so "
    "has the summary without --csv)"
)


@dataclass(slots=True)
class Total:
    """One row of TOTALS: its name, args, and further columns."""

    name: str | None
    columns: dict[str, object]
    args: dict[str, object] = field(default_factory=dict)


def total_rows(cells: Mapping[str, str], table: OpenTable, state: NvprofState) -> list[dict[str, object]]:
    """Return the rows of TOTALS of one line: one, or one for each counter if a line has several.

    Raises: RowError, with the reason to drop the row.
    """
    rows: list[dict[str, object]] = []
    for total in _TOTALS_OF[table.header.table](cells, table, state):
        row = {**total.columns, "source": state.source, "run": table.run.number, "order": state.order}
        state.order += 1
        if total.args:
            row["args"] = orjson.dumps(total.args).decode()
        if total.name is not None:
            row["name"], row["raw_name"] = state.names.one(total.name)
        rows.append(row)
    return rows


def _time(cells: Mapping[str, str], table: OpenTable, column: str) -> int | None:
    cell = cells.get(column, "")
    return None if cell in _EMPTY else time_ns(cell, table.unit(column), table.decimal)


def _average_ns(cell: str, unit: str, decimal: str) -> float | None:
    """Return an average in ns as it is printed: averages have fractions of a ns."""
    if cell in _EMPTY:
        return None
    time_ns(cell, unit, decimal)
    number, own = split_quantity(plain_number(cell, decimal))
    return float(number.scaleb(TIME_EXPONENT[own or unit]))


def _percent(cell: str, decimal: str) -> str:
    """Return a percentage as printed. Raises: RowError for one that was cut."""
    if cell.rstrip("%").endswith(("…", "..")):
        raise RowError(f"{cell[:30]!r} is not a number", "bad-number")
    return plain_number(cell, decimal)


def _summary(cells: Mapping[str, str], table: OpenTable, state: NvprofState) -> list[Total]:
    group = cells.get("Type", "").rstrip(":") or table.kind or table.section
    table.kind = group if "Type" in table.header.columns else ""
    name = cells["Name"]
    total_ns = _time(cells, table, "Time")
    if total_ns is None:
        raise RowError("the row has no time", "no-duration")
    printed = [(c, cells[c]) for c in ("Calls", HOST_CALLS, DEVICE_CALLS) if cells.get(c, "") not in _EMPTY]
    if not printed:
        raise RowError("the row has no number of calls", "bad-number")
    calls = [state.read_optional(partial(integer, cell, table.decimal, 1 << 61), column) for column, cell in printed]
    average = partial(_average_ns, cells.get("Avg", ""), table.unit("Avg"), table.decimal)
    columns: dict[str, object] = {
        "section": group,
        "total_ns": total_ns,
        "calls": None if None in calls else sum(count for count in calls if count is not None),
        "avg_ns": state.read_optional(average, "Avg"),
        "min_ns": state.read_optional(partial(_time, cells, table, "Min"), "Min"),
        "max_ns": state.read_optional(partial(_time, cells, table, "Max"), "Max"),
    }
    if group == GPU:
        name, _ = strip_suffix(name)
        columns["kind"] = str(device_kind(cells["Name"])[0])
    elif group == API:
        columns["kind"] = str(api_kind(name))
    else:
        columns["kind"] = str(Kind.USER_RANGE if group == "Range" else Kind.OTHER)
    percent = state.read_optional(partial(_percent, cells["Time(%)"], table.decimal), "Time(%)")
    args: dict[str, object] = {} if percent is None else {"percent": percent.rstrip("%")}
    args |= {_CALLS_KEYS[c]: n for (c, _), n in zip(printed, calls, strict=True) if c in _CALLS_KEYS}
    if table.nvtx:
        # The table of the whole run has the same work: in a section of its own, nothing is summed twice.
        columns["section"] = f"NVTX {group}"
        args |= table.nvtx
    return [Total(name, columns, args)]


def _counters(cells: Mapping[str, str], table: OpenTable, state: NvprofState) -> list[Total]:
    is_metric = "Metric Name" in table.header.columns
    calls = state.read_optional(partial(integer, cells["Invocations"], table.decimal, 1 << 62), "Invocations")
    args: dict[str, object] = {"metric" if is_metric else "event": cells["Metric Name" if is_metric else "Event Name"]}
    if cells.get("Metric Description"):
        args["description"] = cells["Metric Description"]
    columns: dict[str, object] = {
        "section": "metrics" if is_metric else "events",
        "kind": str(Kind.KERNEL),
        "calls": calls,
        "device": state.device(cells.get("Device") or table.device),
    }
    total = Total(strip_suffix(cells.get("Kernel") or table.kernel)[0] or None, columns, args)
    _fill_values(total, {key: cells.get(key.title(), "") for key in ("min", "max", "avg", "total")}, table.decimal)
    return [total]


def _fill_values(total: Total, printed: Mapping[str, str], decimal: str) -> None:
    """Fill value_min, value_max, value_avg, unit and value_text, and `total` of args.

    Values of unlike units (7.1B/s, 12.3GB/s) become bytes, and args keeps them as printed. A level, `Low (2)`, is its
    number, the unit is "level", and value_text has the word of the average. Text that is not a number is value_text.
    """
    columns, args = total.columns, total.args
    values: dict[str, tuple[Decimal, str]] = {}
    for key, cell in printed.items():
        if cell in _EMPTY:
            continue
        if level := _LEVEL.match(cell):
            values[key] = Decimal(level[2]), "level"
            continue
        try:
            number, unit = split_quantity(plain_number(cell, decimal))
        except ValueError:
            columns["value_text"] = cell
            continue
        values[key] = number, unit
    units = {unit for _, unit in values.values()}
    if len(units) > 1:
        if not all(u.removesuffix("/s") in BYTE_FACTOR for u in units) or len({u.endswith("/s") for u in units}) > 1:
            raise RowError(f"values of unlike units in one row: {', '.join(sorted(units))[:60]}", "unlike-units")
        args["printed"] = {key: cell for key, cell in printed.items() if cell not in _EMPTY}
        values = {
            key: (value * BYTE_FACTOR[unit.removesuffix("/s")], "B/s" if "/" in unit else "B")
            for key, (value, unit) in values.items()
        }
        units = {unit for _, unit in values.values()}
    for key in ("min", "max", "avg"):
        if key in values:
            columns[f"value_{key}"] = float(values[key][0])
    if any(abs(value) > _EXACT for value, _ in values.values()):
        args["printed"] = {key: cell for key, cell in printed.items() if cell not in _EMPTY}
    if "total" in values:
        args["total"] = _json_number(values["total"][0])
    unit = next(iter(units), "")
    if unit:
        columns["unit"] = unit
    if unit == "level":
        columns["value_text"] = printed.get("avg") or printed.get("min")


def _json_number(number: Decimal) -> int | float | str:
    """Return a number for JSON: an integer has all its digits, and is text beyond int64."""
    if number.adjusted() > 40 or number != number.to_integral_value():
        return float(number) if abs(number) < _EXACT else str(number)
    return int(number) if -(1 << 63) <= number < 1 << 63 else str(int(number))


def _per_call(cells: Mapping[str, str], table: OpenTable, state: NvprofState) -> list[Total]:
    """Return a row for each counter of one kernel call (`--print-gpu-trace --metrics`). Such tables have no times."""
    totals: list[Total] = []
    name, correlation = strip_suffix(cells["Kernel"])
    for column in table.header.columns:
        if not column or column in _CALL_COLUMNS or cells.get(column, "") in _EMPTY:
            continue
        args: dict[str, object] = {"metric": column}
        for key in ("Context", "Stream", "Correlation_ID"):
            if cells.get(key):
                args[key.lower()] = cells[key]
        if correlation is not None:
            args.setdefault("correlation_id", str(correlation))
        columns: dict[str, object] = {
            "section": "counters of each call",
            "kind": str(Kind.KERNEL),
            "calls": 1,
            "device": state.device(cells["Device"]),
        }
        total = Total(name, columns, args)
        cell = cells[column] + table.unit(column)
        _fill_values(total, {"min": cell, "max": cell, "avg": cell}, table.decimal)
        totals.append(total)
    if not totals:
        raise RowError("the row has no value of a counter", "no-value")
    return totals


def _unified(cells: Mapping[str, str], table: OpenTable, state: NvprofState) -> list[Total]:
    """Return the row of one kind of migration or fault.

    nvprof 9 with --csv prints no unit for Total Time, which is 0.000000, and prints the count of page fault groups, as
    `21B`, in the column Total Size. Without --csv the same run has the time, and the count in its own column.
    """
    name = cells.get("Name") or cells.get("", "")
    args: dict[str, object] = {}
    count, total_size = cells["Count"], cells.get("Total Size", "")
    if count in _EMPTY and (misplaced := _BYTES.match(total_size)):
        count, total_size, args["total_size"] = misplaced[1], "", total_size
    time = cells.get("Total Time", "")
    if not table.unit("Total Time") and _NO_UNIT.match(time):
        if time.strip("0.,"):
            args["total_time"] = time
        state.ledger.note("no-total-time", NO_TOTAL_TIME)
        cells = {**cells, "Total Time": ""}
    columns: dict[str, object] = {
        "section": "Unified Memory",
        "calls": state.read_optional(partial(integer, count, table.decimal, 1 << 62), "Count"),
        "kind": str(Kind.MEMCPY if " To " in name else Kind.OVERHEAD),
        "device": state.device(cells.get("Device") or table.device),
        "total_ns": state.read_optional(partial(_time, cells, table, "Total Time"), "Total Time"),
    }
    for column, target in (("Min Size", "value_min"), ("Max Size", "value_max"), ("Avg Size", "value_avg")):
        cell = cells.get(column, "")
        unit = table.unit(column)
        if cell not in _EMPTY and (
            state.read_optional(partial(size_bytes, cell, unit, table.decimal), column) is not None
        ):
            number, own = split_quantity(plain_number(cell, table.decimal))
            columns[target] = float(number * BYTE_FACTOR.get(own or unit, 1))
            columns["unit"] = "B"
    if total_size not in _EMPTY:
        size = partial(size_bytes, total_size, table.unit("Total Size"), table.decimal)
        columns["bytes"] = state.read_optional(size, "Total Size")
    return [Total(name, columns, args)]


_TOTALS_OF = {
    Table.SUMMARY: _summary,
    Table.COUNTERS: _counters,
    Table.PER_CALL: _per_call,
    Table.UNIFIED: _unified,
}

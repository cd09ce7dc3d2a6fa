"""mxnet: a report made with `--compat mxnet`, as the table of MXNet's `profiler.dumps()`.

Times are ms with four decimals, of single floats, as MXNet makes them; names are padded, never cut.
Source: aggregate_stats.cc of MXNet 1.9, held against the tables that it printed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tracekit.compat.fixed_width import fixed_width, padded, rows_of, time_unit
from tracekit.render.base import Renderer, RenderOptions
from tracekit.report import Cell, Report, ReportTable
from tracekit.units import TIME_EXPONENT

_NAME, _CELL = 25, 16
_LARGEST_SINGLE = 3.4028234663852886e38


def render(report: Report, options: RenderOptions) -> str:
    """Return the text. Raises: UsageError for an unknown unit of time."""
    unit = time_unit(options)
    lines: list[str] = []
    for section in report.sections:
        if section.view == "mxnet":
            for number, table in enumerate(section.tables):
                if table.name == "run" or not number:
                    lines += ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
                if table.name != "run":
                    lines += _table(table, unit)
    return "".join(f"{line}\n" for line in lines)


def _table(table: ReportTable, unit: str) -> Iterator[str]:
    names = [column.name for column in table.columns]
    is_memory = "total" not in names
    if is_memory:
        unit_of_size = table.column("min").title.partition("(")[2].rstrip(")")
        heads = [f"{word} Use  ({unit_of_size})" for word in ("Min", "Max", "Avg")]
    else:
        heads = [f"Time ({unit})", *(f"{word} Time ({unit})" for word in ("Min", "Max", "Avg"))]
    rules = [*([] if is_memory else ["---------"]), *["-------------"] * 3]
    yield from (
        table.title,
        "=================",
        _line("Name", "Total Count", heads),
        _line("----", "-----------", rules),
    )
    for cells in rows_of(table):
        figures = [
            _figure(cells[name], None if is_memory else unit)
            for name in ("total", "min", "max", "avg")
            if name in cells
        ]
        yield _line(str(cells["name"]), str(cells["count"]), figures)
    yield ""


def _line(name: str, count: str, cells: list[str]) -> str:
    figures = [count, *cells]
    return padded(name, _NAME) + fixed_width(figures, [_CELL] * len(figures), ">" * len(figures), " ")


def _figure(value: Cell, unit: str | None) -> str:
    """Return a number as a single float with four decimals."""
    if not isinstance(value, (int, float)):
        return "-"
    number = value if unit is None else value / 10.0 ** TIME_EXPONENT[unit]
    if abs(number) > _LARGEST_SINGLE:
        return f"{number:.4f}"
    return f"{struct.unpack('f', struct.pack('f', number))[0]:.4f}"


LAYOUT = Renderer(name="mxnet", suffixes=(), render=render)

"""Columns of the tables of this folder."""

from __future__ import annotations

from tracekit.units import Unit
from tracekit.views import specs
from tracekit.views.base import ColumnSpec

SHOWS = (
    ColumnSpec("name", "Name", Unit.TEXT, "The name of the phase or operator."),
    ColumnSpec("of", "Of", Unit.TEXT, "The profile of the row, where there are several."),
    ColumnSpec("op_id", "Id", Unit.ID, "The number of the operator in the graph."),
    specs.KIND,
    specs.CALLS,
    ColumnSpec("avg", "Per iteration", Unit.NS, "The mean time of an iteration."),
    specs.MIN,
    specs.MAX,
    *specs.PERCENTILES,
    specs.STD,
    specs.RATIO,
    ColumnSpec("text", "As printed", Unit.TEXT, "The value as printed, where it is not a number."),
    ColumnSpec("s", "Time (s)", Unit.NUMBER, "The time that SINGA prints, in seconds."),
    ColumnSpec(
        "below_blank", "Below blank", Unit.COUNT, "The number of empty lines that SINGA prints above the table: 1 or 0."
    ),
)

"""Columns of the tables of this folder."""

from __future__ import annotations

from tracekit.units import Unit
from tracekit.views import specs
from tracekit.views.base import ColumnSpec

SHOWS = (
    specs.NAME,
    *specs.STATISTICS,
    specs.RUN,
    ColumnSpec("category", "Category", Unit.TEXT, "The category of the events."),
    ColumnSpec("source", "Source", Unit.ID, "The number of the input."),
    ColumnSpec("last", "Last", Unit.NUMBER, "The last value of the counter."),
    ColumnSpec("last", "Last", Unit.BYTES, "The bytes that were held at the end."),
    ColumnSpec("avg", "Mean", Unit.NUMBER, "The mean of the samples."),
    ColumnSpec("avg", "Mean", Unit.BYTES, "The mean of the samples."),
    ColumnSpec("min", "Min", Unit.NUMBER, "The smallest sample."),
    ColumnSpec("min", "Min", Unit.BYTES, "The smallest number of bytes that were held."),
    ColumnSpec("max", "Max", Unit.NUMBER, "The largest sample."),
    ColumnSpec("max", "Peak", Unit.BYTES, "The largest number of bytes that were held."),
    ColumnSpec("count", "Total Count", Unit.COUNT, "The number of events, as MXNet prints it."),
)

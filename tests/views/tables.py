"""What the tests of views share: traces made by hand or at random, tables as dicts, statistics in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from tracekit.index.trace_index import TraceIndex
from tracekit.model import schema
from tracekit.model.report import ReportTable, Section
from tracekit.model.trace import Ledger, Run, SourceFacts, Trace, concat
from tracekit.readers.builder import RowBuilder
from tracekit.views.base import View, ViewOptions

Row = dict[str, Any]

NAMES = ("gemm<float, 128>", "relu(int)", "核心", None, "<b>&", "=1+1", "z")
KINDS = ("kernel", "memcpy", "memset", "runtime", "driver", "sync", "operator", "mark")


def trace(
    *events: Row, totals: tuple[Row, ...] = (), run: Run | None = None, ledgers: tuple[Ledger, ...] = ()
) -> Trace:
    """Return a trace of these rows; ts_ns, event_id, source and kind have defaults."""
    made, summed = RowBuilder("events"), RowBuilder("totals")
    for number, row in enumerate(events):
        made.add(**{"ts_ns": 0, "event_id": number, "source": 0, "kind": "kernel", **row})
    for number, row in enumerate(totals):
        summed.add(**{"source": 0, "run": 0, "section": "GPU activities", "order": number, "kind": "kernel", **row})
    return Trace(
        concat([made.take()] if events else [], schema.EVENTS),
        concat([summed.take()] if totals else [], schema.TOTALS),
        run or Run(origin_ns=0, sources=[SourceFacts("a.csv", "nvprof-csv")]),
        ledgers,
    )


def on_trace(view: View) -> Callable[[Trace, ViewOptions], Section]:
    """Return the view as a function of a trace, with an index of its own each time."""
    return lambda trace, options: view.compute(TraceIndex(trace), options)


def dicts(found: Section | ReportTable) -> list[Row]:
    """Return the rows of a table, or of a section's first, as dicts."""
    table = found.tables[0] if isinstance(found, Section) else found
    return [dict(zip([c.name for c in table.columns], row, strict=True)) for row in table.rows()]


def rank(values: list[int], percent: int) -> int:
    """The nearest rank, from its definition."""
    return sorted(values)[math.ceil(percent * len(values) / 100) - 1]


def mean(values: list[int]) -> int:
    """The mean rounded half to even, by way of exact halves."""
    double = 2 * sum(values) // len(values)
    exact = 2 * sum(values) % len(values) == 0
    half = exact and double % 2 == 1
    whole = double // 2
    if half:
        return whole + whole % 2
    return whole + (double % 2)


def deviation(values: list[int]) -> int:
    """The deviation of the population, rounded half to even: by trying integers, since halves squared are exact."""
    middle = Fraction(sum(values), len(values))
    variance = sum((v - middle) ** 2 for v in values) / len(values)
    below = math.isqrt(math.floor(variance))
    half = (below + Fraction(1, 2)) ** 2
    return below + 1 if variance > half or (variance == half and below % 2) else below


def union(ranges: list[tuple[int, int]]) -> int:
    """The time covered, instant by instant."""
    return len({t for a, b in ranges for t in range(a, b)})


def statistics(values: list[int]) -> Row:
    """The columns of statistics of one group but the ratio."""
    return {
        "calls": len(values), "total": sum(values), "avg": mean(values), "min": min(values), "max": max(values),
        "std": deviation(values), **{f"p{percent}": rank(values, percent) for percent in (50, 95, 99)},
    }  # fmt: skip


@st.composite
def event_rows(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> list[Row]:
    """Rows of events on short times, so that the slow oracles can walk them; any column may be null."""
    row = st.fixed_dictionaries(
        {
            "ts_ns": st.integers(0, 60),
            "dur_ns": st.none() | st.integers(-3, 30),
            "kind": st.sampled_from(kinds),
            "name": st.sampled_from(NAMES),
            "source": st.integers(0, 2),
            "rank": st.none() | st.integers(0, 1),
            "device": st.none() | st.integers(0, 1),
            "pid": st.none() | st.integers(1, 2),
            "tid": st.none() | st.integers(7, 8),
            "bytes": st.none() | st.integers(0, 1 << 40),
            "copy_kind": st.none() | st.sampled_from(("HtoD", "DtoH")),
        }
    )
    return draw(st.lists(row, max_size=25))

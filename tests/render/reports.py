"""What the tests of renderers share: one report by hand, and random ones with hostile text."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from timelines import a_timeline

from tracekit.model.report import Bar, Column, Report, ReportTable, Section
from tracekit.model.trace import Ledger
from tracekit.model.units import Unit

HOSTILE = (
    "<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "a|b", "a\\|b", "`tick`", "x``y", "\\",
    "a\nb\r\nc", "\x1b[31mred\x1b[0m", "\x9b31m", "\u202egnp.exe", "\u2028", "核心<float>", "🙂🙂", "❤\ufe0f",
    "e\u0301", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\x00", "\x7f",
    "=1+1", "@SUM(A1)", '"quoted", name', " lead", "trail ", "", "&amp;", "*bold* _em_ ~no~ $x$", "[a](javascript:b)",
    "\ud800", "\U000e0041", "\x00", "\u200b", "\ufeff", "# title", "https://example.org", "-", "a\tb",
)  # fmt: skip


def ledger(path: str = "a.csv", **counts: Any) -> dict[str, Any]:
    return Ledger(path=path, format="nvprof-csv", **counts).to_json()


def sample() -> Report:
    """A report with every unit, nulls, cut rows, an empty view, figures, notes and a ledger."""
    kernels = ReportTable(
        "kernels",
        "Kernels",
        (
            Column("name", "Name", Unit.TEXT, ["void gemm<float, 128>(float*, int)", "核心 | `x`", None], 0),
            Column("calls", "Calls", Unit.COUNT, [12000, 3, None], 1),
            Column("total", "Total", Unit.NS, [1234567890, 7, None], 0),
            Column("avg", "Avg", Unit.NS, [102880, 2, None], 2),
            Column("p99", "P99", Unit.NS, [-5, 4, None], 4),
            Column("ratio", "Ratio", Unit.RATIO, [0.99999, 0.5, None], 1),
            Column("bytes", "Bytes", Unit.BYTES, [40000, 7, None], 3),
            Column("bandwidth", "Bandwidth", Unit.BYTES_PER_S, [4.85e9, float("nan"), None], 3),
            Column("value", "Value", Unit.NUMBER, [0.1, float("inf"), 602621702.0], 5),
            Column("stream", "Stream", Unit.ID, [7, 13, None], 5),
        ),
        omitted=2,
    )
    second = ReportTable("threads", "By thread", (Column("tid", "Tid", Unit.ID, ["main", 7], 0),))
    timeline = a_timeline(("k",))
    bar = Bar("Device time", Unit.NS, (("compute", 750), ("idle", 250)))
    return Report(
        "run.csv",
        "0.0.0",
        (("format", "nvprof CSV"), ("command", "python train.py --lr 0.1 --steps 3 --data /data/a-long-path/imagenet")),
        (
            Section("kernel", "Kernels", (kernels, second), notes=("p50 is by nearest rank", "a <b>note</b>")),
            Section("timeline", "Timeline", (), (timeline, bar), ("p50 is by nearest rank",)),
            Section("api", "API calls", (), notes=("needs API call events; this trace has none",)),
        ),
        (ledger("run.csv", read=76, kept=61, facts=3, ignored={"header": 1, "preamble": 10}, dropped={"torn-row": 1}),),
        ("the last row is cut (first at line 76)",),
    )


_TEXT = st.sampled_from(HOSTILE) | st.text(max_size=60)
_INT = st.integers(-(1 << 63), (1 << 63) - 1)
_FLOAT = st.floats()
_CELLS: dict[Unit, st.SearchStrategy[Any]] = {
    Unit.TEXT: _TEXT, Unit.COUNT: _INT, Unit.ID: _INT | _TEXT, Unit.NS: _INT, Unit.BYTES: _INT, Unit.RATIO: _FLOAT,
    Unit.BYTES_PER_S: _FLOAT, Unit.NUMBER: _FLOAT | _INT,
}  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> ReportTable:
    rows = draw(st.integers(0, 4))
    columns = []
    for number in range(draw(st.integers(0, 6))):
        unit = draw(st.sampled_from(list(Unit)))
        cells = draw(st.lists(st.none() | _CELLS[unit], min_size=rows, max_size=rows))
        columns.append(Column(f"c{number}", draw(_TEXT), unit, cells, draw(st.integers(0, 3))))
    return ReportTable("t", draw(_TEXT), tuple(columns), draw(st.integers(0, 3)))


@st.composite
def reports(draw: st.DrawFn) -> Report:
    sections = draw(
        st.lists(
            st.builds(
                Section,
                view=st.just("kernel"),
                title=_TEXT,
                tables=st.lists(tables(), max_size=2).map(tuple),
                notes=st.lists(_TEXT, max_size=2).map(tuple),
            ),
            max_size=3,
        )
    )
    counts = {"read": 5, "kept": 3, "ignored": {draw(_TEXT): 1}, "dropped": {draw(_TEXT): 1}}
    ledgers = tuple(ledger(draw(_TEXT), **counts) for _ in range(draw(st.integers(0, 7))))
    facts = draw(st.lists(st.tuples(_TEXT, _TEXT), max_size=3))
    return Report(draw(_TEXT), "0.0.0", tuple(facts), tuple(sections), ledgers, draw(st.lists(_TEXT, max_size=2)))  # type: ignore[arg-type]

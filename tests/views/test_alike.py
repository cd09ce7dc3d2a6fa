"""Rows that would look alike on a narrow terminal keep the column that tells them apart."""

from __future__ import annotations

from views.tables import on_trace, trace

from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.pipeline import render, summary
from tracekit.render.base import RenderOptions
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

LONG = "void a_kernel_of_a_long_name_that_needs_the_width_of_the_terminal<float>(float const*)"


def shown(of: Trace, view: str, width: int = 80) -> list[str]:
    text = render(summary(of, views=(view,)), "text", RenderOptions(width=width))
    return text.splitlines()


def test_the_same_kernel_of_two_tables_of_a_file_shows_which_table() -> None:
    same = {"name": LONG, "calls": 2, "total_ns": 1000, "avg_ns": 500, "min_ns": 4, "max_ns": 900}
    of = trace(totals=({**same, "section": "cuda_gpu_kern_sum"}, {**same, "section": "cuda_gpu_sum"}))
    lines = shown(of, "kernel")
    assert any("kern_sum" in line for line in lines)
    assert "  a ratio is of the rows of the same section: two sections may count the same" in lines


def test_one_device_of_two_processes_shows_the_process() -> None:
    runs = SourceFacts("a.txt", "nvprof-text", facts={"runs": [{"pid": 18797}, {"pid": 19104}]})
    rows = [{"ts_ns": 5, "dur_ns": 10, "pid": pid, "device": 0} for pid in (18797, 19104)]
    lines = shown(trace(*rows, run=Run(sources=[runs], devices={(0, 0): "Quadro M4000"})), "breakdown")
    table = lines[: next(n for n, line in enumerate(lines) if " hidden" in line)]
    assert any("18797" in line for line in table)
    assert any("19104" in line for line in table)


def test_kinds_stay_hidden_where_names_tell_rows_apart() -> None:
    for names, hidden in ((("a", "b"), True), (("a", "a"), False)):
        kinds = zip(("user_range", "user_range_native"), names, strict=True)
        of = trace(*({"kind": kind, "name": name, "dur_ns": 1} for kind, name in kinds))
        table = on_trace(VIEWS["user_defined"])(of, ViewOptions()).tables[0]
        assert (table.column("kind").priority > 0) is hidden

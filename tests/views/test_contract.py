"""What each view promises: it needs the columns that it names, changes nothing, and an empty trace is no error."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import traces
from support import SAMPLE_FILES, SAMPLES, read_sample, sample
from views.hosts import call, op, work
from views.tables import dicts, event_rows, on_trace, trace

from tracekit import compat, pipeline
from tracekit.errors import TracekitError, UsageError
from tracekit.formats import READERS
from tracekit.index.trace_index import index_of
from tracekit.model.display import cell_width
from tracekit.model.report import Section
from tracekit.model.schema import KINDS
from tracekit.model.trace import Trace
from tracekit.pipeline import render, report_of, summary
from tracekit.render.base import RenderOptions
from tracekit.views import VIEWS, specs, work_columns
from tracekit.views.base import View, ViewOptions

EVERY = {name: pipeline.view_named(name) for name in (*VIEWS, *compat.VIEWS)}
"""The common views, and those of the upstreams' own."""
TABLES = tuple(name for name in EVERY if name != "timeline")
SOME = ("overview", "device", "kernel", "memory_manipulation", "api", "metrics")
FILES = SAMPLE_FILES
FORMS = ("text", "json", "csv", "markdown")


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_trace_gives_a_note_and_no_table(name: str) -> None:
    section = on_trace(EVERY[name])(trace(), ViewOptions())
    assert section.view == name
    assert section.tables == ()
    assert section.notes[0].startswith("needs ")


@settings(max_examples=15)
@given(rows=event_rows())
@pytest.mark.parametrize("name", TABLES)
def test_the_columns_that_a_view_names_are_enough(name: str, rows: list[dict[str, Any]]) -> None:
    whole = trace(*rows)
    keep = [c for c in whole.events.schema.names if c in EVERY[name].columns | {"ts_ns", "dur_ns"}]
    narrow = Trace(whole.events.select(keep), whole.totals, whole.run)
    assert on_trace(EVERY[name])(narrow, ViewOptions()) == on_trace(EVERY[name])(whole, ViewOptions())


@pytest.mark.parametrize("name", [n for n in TABLES if EVERY[n].columns - {"ts_ns", "dur_ns"}])
def test_a_trace_read_without_a_needed_column_is_refused_by_name(name: str) -> None:
    whole = trace({"dur_ns": 1})
    narrow = Trace(whole.events.select(["ts_ns", "dur_ns"]), whole.totals, whole.run)
    with pytest.raises(UsageError, match=f"view {name}.* needs the column"):
        on_trace(EVERY[name])(narrow, ViewOptions())


@pytest.mark.parametrize("name", TABLES)
def test_another_tools_figures_that_do_not_exist_are_told(name: str) -> None:
    notes = on_trace(EVERY[name])(trace(), ViewOptions(compat="no such")).notes
    assert "--compat no such has no effect here" in notes


def judge(made: Trace, options: ViewOptions) -> list[Section]:
    """What each view says of a trace: never another exception than one of ours, never a silent blank."""
    sections = []
    for name, view in EVERY.items():
        try:
            section = on_trace(view)(made, options)
        except TracekitError:  # times that add up to more than int64 holds
            continue
        assert any(map(len, section.tables)) or section.figures or section.notes, f"{name} says nothing"
        assert not undeclared(view, section), name
        sections.append(section)
    return sections


CASES = {
    "nothing": trace(),
    "kernels only": trace(*({"name": "k", "ts_ns": i, "dur_ns": 1, "device": 0, "stream": 7} for i in range(3))),
    "no steps": trace(op("a", 0, 50), call(1, 10, 12), work("k", 1, 20, 40), op("f", 60, 70, "forward")),
    "steps only": trace(op("ProfileStep#0", 0, 50, "step", step=0), op("ProfileStep#1", 50, 90, "step", step=1)),
    "marks only": trace({"name": "m", "kind": "mark"}, {"name": "c", "kind": "counter", "value": 1.0}),
    "all at one instant": trace(op("s", 5, 5, "step"), op("f", 5, 5, "forward"), work("k", None, 5, 5)),
    "totals only": trace(
        totals=tuple(
            {"name": kind, "kind": kind, "calls": 2, "total_ns": 10, "order": i} for i, kind in enumerate(sorted(KINDS))
        )
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_view_of_an_odd_trace_says_something_in_every_form(name: str) -> None:
    made = CASES[name]
    for options in (
        ViewOptions(),
        ViewOptions(sorted_by="calls", top=1, thread_sep=True),
        ViewOptions(compat="paddle"),
    ):
        sections = judge(made, options)
        assert len(sections) == len(EVERY)
        report = report_of(made, sections)
        for form in (*FORMS, "html"):
            text = render(report, form, RenderOptions(width=80))
            if form != "csv":  # figures alone are no rows
                assert all(section.view in text or section.title in text for section in sections)


@settings(max_examples=25)
@given(made=traces(), options=st.sampled_from((ViewOptions(), ViewOptions(thread_sep=True, top=2, sorted_by="name"))))
def test_every_view_of_any_rows_that_the_schema_allows_says_something(made: Trace, options: ViewOptions) -> None:
    sections = judge(made, options)
    for form in FORMS:
        assert render(report_of(made, sections), form, RenderOptions(width=80)).endswith("\n")


@pytest.mark.parametrize("begin", [0, -1])
@pytest.mark.parametrize("length", [1 << 62, (1 << 63) - 1])
def test_every_view_of_rows_that_reach_the_ends_of_int64_says_something(begin: int, length: int) -> None:
    rows = ({"ts_ns": begin, "dur_ns": 0, "name": "a"}, {"ts_ns": 1 << 62, "dur_ns": length, "name": "b"})
    for kind in ("kernel", "operator", "step", "runtime"):
        judge(trace(*({**row, "kind": kind, "tid": 1} for row in rows)), ViewOptions())


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_view_of_every_sample_says_something_in_every_form(path: Path) -> None:
    made = read_sample(f"{path.parent.name}/{path.name}")
    report = report_of(made, judge(made, ViewOptions()))
    assert len(report.sections) == len(EVERY)
    for form in FORMS:
        text = render(report, form, RenderOptions(width=80))
        if form == "text":
            assert max(map(cell_width, text.split("\n"))) <= 80
        if form == "json":
            assert [section["view"] for section in json.loads(text)["sections"]] == list(EVERY)


def undeclared(view: View, section: Section) -> set[tuple[str, str]]:
    """Columns of a section, with their units, that its view does not declare."""
    declared = {(spec.key, spec.unit) for spec in view.shows}
    return {(c.name, c.unit) for table in section.tables for c in table.columns} - declared


EVERYTHING = (
    "kineto/gpu.pt.trace.json", "nsys-sqlite/two-processes.sqlite", "theano/theano-1.0.5.txt",
    "recorder-log/killed.jsonl", "paddle-summary/gpu.txt", "nvprof-csv/metrics.csv",
    "nvprof-csv/mpirun-tag-output.csv", "nsys-stats-csv/sums.csv", "mxnet-table/mxnet19.json",
    "singa/verbosity-3-two-ranks.txt", "nvprof-csv/summary-unified-memory.csv", "theano/two-functions-scan-and-sum.txt",
    "fluid-pb/gpu.prof", "nsys-sqlite/nvtx-v2.sqlite", "torch-table/cuda.txt", "torch-table/pytorch-1.4.txt",
    "torch-table/cpu-stacks-and-flops.txt", "torch-memory/two-gpus.pickle",
    "ncu/details.csv", "folded/py-spy.folded", "speedscope/py-spy.speedscope.json",
    "flight-recorder/nccl_batch_rank_0.pkl", "tensorrt-log/net.log", "vtune-csv/two-groupings.csv",
    "tensorrt-layers/net.layers.json",
)  # fmt: skip
"""Samples that have, all together, the columns of every view."""
SOMETIMES = {spec.key for spec in (*specs.PLACED, *specs.THREADS, *specs.OWNER, *specs.DEVICE, specs.MEDIAN)}
"""Columns that tables have only where their rows would look alike."""
BY_TIME = {"device_by_time", "device_self_by_time"}
WORK = {spec.key for spec in work_columns.SHOWS}
ELSEWHERE = {
    "steps": {"said", "host_time", "samples_per_s"}, "distributed": {"group", "link", "of_link"},
    "operator": {"known", *WORK, *BY_TIME}, "kernel": WORK | {"measured_bytes", "measured_rate", "of_bandwidth"},
    "graphs": {
        *("name", "source", "calls", "nodes", "device_events", "device_total", "device_ratio", "attributed"),
        *("attributed_ratio", "how"),
    },
    "memory": {"category", "rule"}, "ranks": {"late_group", "members"},
    "hang": {"differs", "side", "seq", "waiting", "unknown", "timed_out"},
    "modules": {
        *("flops", "floor", "floor_of", "path", "allocated"),
        *("device_forward", "device_backward", "device_recompute", "device_ratio"),
    },
    "model": {
        *("device_total", "device_avg", "device_ratio", "device_by_time", "device_events", "device_busy", "busy_ratio"),
    },
    "metrics": {"precision", "time", "flops", "moved", "intensity", "rate", "peak_flops", "peak_bytes"},
    "user_defined": BY_TIME, "other": {"bytes"},
    "theano": {"function_ratio", "ops_ratio"}, "torch": {"flop_rate"},
    **{
        name: {spec.key for spec in EVERY[name].shows}
        for name in ("efficiency", "gemm", "convolution", "attention", "compiled")
    },
}  # fmt: skip
"""Columns that no sample has, but the tests of the view do."""


def test_views_make_the_columns_that_they_declare_and_no_others() -> None:
    seen: dict[str, set[tuple[str, str]]] = {name: set() for name in EVERY}
    wrong = {}
    for sample_name in EVERYTHING:
        made = read_sample(sample_name)
        for name, other in [(n, c) for n in EVERY for c in ("", *compat.COMPATS)]:
            view = pipeline.view_named(name, other)
            if other not in ("", name) and view is EVERY[name]:
                continue
            for options in (ViewOptions(compat=other), ViewOptions(compat=other, thread_sep=True)):
                section = view.compute(index_of(made), options)
                if strange := undeclared(view, section):
                    wrong[name, other] = strange
                if view is EVERY[name]:
                    seen[name] |= {(c.name, c.unit) for table in section.tables for c in table.columns}
    assert not wrong
    never = {
        name: {key for key in missing if key not in ELSEWHERE.get(name, ())}
        for name, view in EVERY.items()
        if (missing := {spec.key for spec in view.shows if (spec.key, spec.unit) not in seen[name]} - SOMETIMES)
    }
    assert not {name: keys for name, keys in never.items() if keys}


@pytest.mark.parametrize("name", TABLES)
def test_a_view_declares_columns_and_options_in_whole_sentences(name: str) -> None:
    view = EVERY[name]
    assert view.shows
    assert len({(spec.key, spec.title, spec.unit) for spec in view.shows}) == len(view.shows)
    sentences = [spec.meaning for spec in view.shows] + [spec.help for spec in view.options]
    assert all(text[0].isupper() and text.endswith(".") for text in sentences)


class Recording(dict[str, object]):
    """Options of which none is given, and the keys that were looked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return False


def test_each_option_of_a_view_is_used_by_it() -> None:
    for view in EVERY.values():
        values = Recording()
        for name in ("kineto/gpu.pt.trace.json", "singa/verbosity-3-two-ranks.txt"):
            made = pipeline.read(sample(name))  # its joins are not made yet
            for other in ("", view.name):
                view.compute(index_of(made), ViewOptions(compat=other, values=values))
        assert values.asked == {spec.key for spec in view.options}


@pytest.mark.parametrize("name", TABLES)
def test_a_view_declares_kinds_of_the_schema(name: str) -> None:
    assert EVERY[name].name == name
    assert set(EVERY[name].kinds) <= KINDS


@settings(max_examples=15)
@given(rows=event_rows())
@pytest.mark.parametrize("name", TABLES)
def test_tables_become_data_frames(name: str, rows: list[dict[str, Any]]) -> None:
    section = on_trace(EVERY[name])(trace(*rows), ViewOptions())
    frame = section.to_pandas()
    assert len(frame) == (len(section.tables[0]) if section.tables else 0)


@given(rows=event_rows())
@pytest.mark.parametrize("form", ["text", "json", "csv", "markdown"])
def test_every_view_of_any_trace_is_rendered_and_json_holds_its_cells(form: str, rows: list[dict[str, Any]]) -> None:
    made = summary(trace(*rows), views=SOME)
    text = render(made, form, RenderOptions(width=80))
    assert text.endswith("\n")
    if form == "json":
        found = json.loads(text)["sections"]
        assert [s["view"] for s in found] == list(SOME)
        for section, wanted in zip(found, made.sections, strict=True):
            assert [t["rows"] for t in section["tables"]] == [t.rows() for t in wanted.tables]
            assert section["notes"] == list(wanted.notes)
    if form == "csv":
        read = csv.reader(io.StringIO(text, newline=""), strict=True)
        blocks = sum(max(1, len(section.tables)) for section in made.sections)
        assert sum(row[:2] == ["view", "table"] for row in read) == blocks


EXPECTED = {
    name: found
    for name, found in json.loads((SAMPLES / "expected.json").read_text(encoding="utf-8")).items()
    if found["reader"] in READERS
}


def sums(name: str, *views: str) -> tuple[int, int]:
    """Calls and total of all rows of these views, but for those of unified memory."""
    made = read_sample(name)
    sections = [on_trace(EVERY[view])(made, ViewOptions()) for view in views]
    rows = [row for section in sections if section.tables for row in dicts(section)]
    rows = [r for r in rows if "Unified" not in f"{r['name']} {r.get('section')}"]
    return sum(r["calls"] for r in rows), sum(r["total"] for r in rows)


@pytest.mark.parametrize("name", sorted(n for n, e in EXPECTED.items() if e.get("sum_dur_ns_by_kind")))
def test_the_views_of_a_sample_hold_the_sums_that_its_generator_wrote(name: str) -> None:
    calls, total = EXPECTED[name], EXPECTED[name]["sum_dur_ns_by_kind"]
    assert sums(name, "kernel") == (calls["kernels"], total.get("kernels", 0))
    copies = calls["copies"] + calls["memsets"], total.get("copies", 0) + total.get("memsets", 0)
    assert sums(name, "memory_manipulation") == copies
    assert sums(name, "api") == (calls["api"], total.get("api", 0))


@pytest.mark.parametrize("name", sorted(n for n, e in EXPECTED.items() if "api_calls_total_ns" in e.get("totals", {})))
def test_the_views_of_a_summed_sample_hold_the_sums_of_its_tables(name: str) -> None:
    totals = EXPECTED[name]["totals"]
    gpu = totals.get("gpu_activities_calls", 0), totals.get("gpu_activities_total_ns", 0)
    assert sums(name, "kernel", "memory_manipulation") == gpu
    assert sums(name, "api") == (totals["api_calls_calls"], totals["api_calls_total_ns"])

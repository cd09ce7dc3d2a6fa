"""Views made batch by batch are those of a whole trace: figures, order, ties, facts, notes and ledgers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SAMPLES, run_command, sample
from views.tables import Row, trace

import tracekit
from tracekit import pipeline
from tracekit.index.trace_index import TraceIndex
from tracekit.inputs import USUAL
from tracekit.model.schema import Kind
from tracekit.model.trace import Run, SourceFacts
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

STREAMED = ("kernel", "api", "other", "memory_manipulation", "overview", "device")
OF_TRACES_WITHOUT_STEPS = ("breakdown",)
NAMES = [str(path.relative_to(SAMPLES)) for path in sorted(SAMPLES.rglob("*")) if path.is_file()]
MADE_OF_BATCHES = (
    "kineto/linear.pt.trace.json",
    "nvprof-csv/gpu-trace-22-columns.csv",
    "nsys-sqlite/two-processes.sqlite",
    "nvprof-sqlite/version-8.nvvp",
)
WITHOUT_STEPS = ("nvprof-csv/gpu-trace-22-columns.csv", "nvprof-sqlite/version-8.nvvp")


def whole(paths: Sequence[Path], shown: ViewOptions, views: Sequence[str] = STREAMED) -> str:
    trace = pipeline.read(paths, pipeline.for_summary(USUAL, "", views, by_ranks=bool(shown.by)))
    return pipeline.render(pipeline.summary(trace, views=views, options=shown), "json")


def by_batches(paths: Sequence[Path], shown: ViewOptions, views: Sequence[str] = STREAMED) -> tuple[str, bool]:
    """Return the summary, and whether its rows were let go: what stands for them are marks."""
    how = pipeline.for_summary(USUAL, "", views, by_ranks=bool(shown.by))
    trace, made = pipeline.summary_of(paths, how, views=views, options=shown)
    return pipeline.render(made, "json"), set(trace.events.column("kind").unique().to_pylist()) <= {str(Kind.MARK)}


def same(paths: Sequence[Path], shown: ViewOptions, views: Sequence[str] = STREAMED) -> bool:
    """Hold both ways against each other. Return whether rows were let go."""
    try:
        wanted = whole(paths, shown, views)
    except tracekit.TracekitError as err:  # a file beside the profiles
        with pytest.raises(tracekit.TracekitError, match=re.escape(str(err))):
            by_batches(paths, shown, views)
        return False
    text, streamed = by_batches(paths, shown, views)
    assert text == wanted
    return streamed


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in NAMES if "/" in name}))
def test_samples_have_the_same_tables_both_ways(folder: str) -> None:
    of_folder = [name for name in NAMES if name.startswith(f"{folder}/")]
    found = [name for name in of_folder if same([sample(name)], ViewOptions(sorted_by="-name"))]
    assert [name for name in MADE_OF_BATCHES if name.startswith(f"{folder}/") and name not in found] == []
    found = [name for name in of_folder if same([sample(name)], ViewOptions(), OF_TRACES_WITHOUT_STEPS)]
    assert [name for name in WITHOUT_STEPS if name.startswith(f"{folder}/") and name not in found] == []


def rows_in_any_order(folder: Path, seed: int) -> Path:
    """Write events in any order: few names, starts and lengths, so that most rows have one like them."""
    draw = random.Random(seed)
    rows = [
        {
            "ts_ns": draw.randrange(-4, 4),
            "dur_ns": draw.choice([None, -3, 0, 1, 1, 2, 1 << 33]),
            "event_id": number,
            "name": draw.choice([None, "", "a", "b", "c", "gemm"]),
            "kind": draw.choice([str(kind) for kind in (Kind.KERNEL, Kind.RUNTIME, Kind.DRIVER, Kind.SYNC, Kind.MARK)]),
            "source": 0,
        }
        for number in range(draw.randrange(40))
    ]
    path = folder / f"{seed}.jsonl"
    tracekit.write(tracekit.read(sample("recorder-log/rank0.jsonl")).filter(kind="mark"), path)
    head, *_, end = path.read_text().splitlines()
    end = json.dumps({**json.loads(end), "events": len(rows)})
    lines = [json.dumps({key: value for key, value in row.items() if value is not None}) for row in rows]
    path.write_text("\n".join([head, *lines, end]) + "\n")
    return path


def test_rows_in_any_order_have_the_tables_of_a_sorted_trace(tmp_path: Path) -> None:
    paths = [rows_in_any_order(tmp_path, seed) for seed in range(20)]
    assert sum(same([path], ViewOptions()) for path in paths) > 15


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts_ns": st.integers(0, 12),
            "dur_ns": st.sampled_from([None, -5, 0, 1, 2, 2, 7, 1 << 40]),
            "name": st.sampled_from([None, "", "a", "gemm", "ncclDevKernel_AllReduce"]),
            "kind": st.sampled_from([Kind.KERNEL, Kind.RUNTIME, Kind.SYNC, Kind.OTHER, Kind.MEMCPY, Kind.MEMSET]),
            "bytes": st.sampled_from([None, 0, 1, 3, 1 << 40]),
            "copy_kind": st.sampled_from([None, "HtoD", "DtoH"]),
            "source": st.integers(0, 2),
            "pid": st.sampled_from([None, 7, 9]),
            "rank": st.sampled_from([None, 0, 1]),
            "device": st.sampled_from([None, 0, 1]),
        }
    ),
    max_size=30,
)
ONE_CLOCK = Run(origin_ns=0, sources=[SourceFacts(name, "f") for name in "abc"])
RUNS = {"runs": [{"pid": 7}, {"pid": 9}]}
RUNS_OF_TRACES = st.sampled_from(
    [
        ONE_CLOCK,
        Run(sources=ONE_CLOCK.sources),
        Run(sources=[SourceFacts(name, "f", facts={"clock": {"group": name == "c"}}) for name in "abc"]),
        Run(sources=[SourceFacts("a", "f", facts=RUNS), SourceFacts("b", "f"), SourceFacts("c", "f", facts=RUNS)]),
        Run(sources=[SourceFacts("a", "f", synthetic_time=True), *ONE_CLOCK.sources[1:]]),
    ]
)


def marks_of(rows: Sequence[Row]) -> list[Row]:
    """Return what stands for rows: a mark of each process of an input, from its first start to its last end."""
    spans: dict[tuple[object, object], tuple[int, int]] = {}
    for row in rows:
        begin, end = row["ts_ns"], row["ts_ns"] + max(row["dur_ns"] or 0, 0)
        known = spans.get((row["source"], row["pid"]), (begin, end))
        spans[row["source"], row["pid"]] = min(known[0], begin), max(known[1], end)
    return [
        {"ts_ns": begin, "dur_ns": end - begin, "kind": Kind.MARK, "source": source, "pid": pid}
        for (source, pid), (begin, end) in spans.items()
    ]


@given(ROWS, st.lists(st.integers(0, 30), max_size=5), RUNS_OF_TRACES, st.sampled_from(["", "-calls", "busy_time"]))
def test_wherever_batches_are_cut_the_sections_are_those_of_the_table(
    rows: list[Row], cuts: list[int], run: Run, sorted_by: str
) -> None:
    in_order = sorted(rows, key=lambda row: (row["ts_ns"], -(row["dur_ns"] or 0)))
    few, whole, shown = trace(*marks_of(rows), run=run), trace(*in_order, run=run), ViewOptions(sorted_by=sorted_by)
    index, table = TraceIndex(few), trace(*rows, run=run).events
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for name in (*STREAMED, *OF_TRACES_WITHOUT_STEPS):
        make = VIEWS[name].sums
        assert make is not None
        for each in make():
            for begin, end in pairwise(places):
                for batch in table.slice(begin, end - begin).combine_chunks().to_batches():
                    assert each.take(batch)
            each.give(index)
        assert VIEWS[name].compute(index, shown) == VIEWS[name].compute(TraceIndex(whole), shown)


def test_several_inputs_a_torn_file_and_filters_have_the_same_tables(tmp_path: Path) -> None:
    one, other = sample("nsys-sqlite/two-processes.sqlite"), sample("nvprof-sqlite/version-8.nvvp")
    assert same([one, other], ViewOptions())
    torn = tmp_path / "torn.csv"
    csv = sample("nvprof-csv/gpu-trace-22-columns.csv").read_bytes()
    torn.write_bytes(csv[: len(csv) - 31])
    assert same([torn], ViewOptions())
    filtered = [["--name", "gemm"], ["--kind", "memcpy"]]
    for words in filtered:
        alone = run_command("summary", one, "--view", "kernel", *words, "--format", "json").stdout
        with_another = run_command("summary", one, "--view", "kernel", "--view", "findings", *words, "--format", "json")
        assert json.loads(alone)["sections"] == json.loads(with_another.stdout)["sections"][:1]


def test_options_and_views_that_need_events_get_them() -> None:
    path = [sample("nsys-sqlite/two-processes.sqlite")]
    for shown in (ViewOptions(thread_sep=True), ViewOptions(by="rank")):
        assert not same(path, shown)
    assert not same(path, ViewOptions(), ["kernel", "steps"])
    assert same(path, ViewOptions(sorted_by="-avg", top=1))


def test_parts_of_devices_are_added_up_without_steps_and_without_collectives_of_two_rows() -> None:
    with_steps = [sample("nsys-sqlite/two-processes.sqlite")], [sample("kineto/gpu.pt.trace.json")]
    assert not any(same(paths, ViewOptions(), OF_TRACES_WITHOUT_STEPS) for paths in with_steps)
    make = VIEWS["breakdown"].sums
    assert make is not None
    (parts,) = make()
    rows = [{"dur_ns": 5, "name": name} for name in ("gemm", "all-reduce.1", "all-reduce-start.1")]
    taken = [parts.take(batch) for row in rows for batch in trace(row).events.to_batches()]
    assert taken == [True, True, False]
    assert (parts.fits({"nvprof-csv"}), parts.fits({"kineto"})) == (True, False)


def test_work_whose_duration_cannot_be_is_not_added_up(tmp_path: Path) -> None:
    rows = [(0, 10), (10, 900_000), (20, 5), (30, 5), *((1_000_000 + 10 * n, 5) for n in range(60))]
    events = [
        {"ph": "X", "cat": "kernel", "name": f"k{n % 3}", "ts": ts, "dur": dur, "pid": 0, "tid": 7,
         "args": {"device": 0, "stream": 7, "correlation": n}}
        for n, (ts, dur) in enumerate(rows)
    ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    assert "impossible" in whole([path], ViewOptions())
    assert not same([path], ViewOptions())

"""Paddle's tables under compat: its own printed text line by line, from its own traces and from ours that it printed.

The goldens were printed by paddlepaddle 2.6.2 from the files that these tests write: `load_profiler_result`, then
`_build_table(StatisticData(...))` of paddle.profiler.profiler_statistic, trailing blanks taken off.
"""

from __future__ import annotations

import math
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import paddle_case
import pytest
from doors.compat import forest
from doors.compat import paddle_order as _order
from doors.profiler import BenchmarkTiming
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small
from support import GOLDENS, SAMPLES, corpus, corpus_root
from views.tables import dicts, event_rows, on_trace, trace

import tracekit
from tracekit import pipeline
from tracekit.errors import UsageError
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Section
from tracekit.model.trace import SourceFacts, Trace
from tracekit.recorder import log_format as lf
from tracekit.render.base import RenderOptions
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

VIEW_OF = {
    "DeviceView": "device", "OverView": "overview", "ModelView": "model", "DistributedView": "distributed",
    "KernelView": "kernel", "OperatorView": "operator", "MemoryView": "memory",
    "MemoryManipulationView": "memory_manipulation", "UDFView": "user_defined",
}  # fmt: skip
GENERATED = ("paddle26/range", "paddle26/workers", "paddle3/all", "paddle3/shapes_mem")
MS = 1_000_000


@cache
def read(path: Path) -> Trace:
    """A trace with the columns that the command would read, and no others."""
    return tracekit.read(path, columns=pipeline.columns_of(pipeline.views_of("paddle"), "paddle"))


def printed(made: Trace, name: str) -> list[str]:
    """What we print for the arguments that the name of a printed text holds."""
    views: list[str] = []
    options: dict[str, Any] = {}
    unit = ""
    if found := re.search(r"(?:summary|\.\w+)\.(s|ms|us|ns)\.op(\d)\.thr(\d)", name):
        unit, options = found[1], {"op_detail": found[2] == "1", "thread_sep": found[3] == "1"}
    if found := re.search(r"\.([CG]PU(?:Total|Avg|Max|Min))\.", name):
        options["sorted_by"] = found[1]
    if found := re.search(r"\.view\.(\w+)", name):
        views = [VIEW_OF[found[1]]]
    made_report = pipeline.summary(made, views=views, options=ViewOptions(compat="paddle", **options))
    return lines(pipeline.render(made_report, "text", RenderOptions(time_unit=unit), compat="paddle"))


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n")]


def without_flops(text: list[str]) -> list[str]:
    """Leave out what Profiler(with_flops=True) adds: no file says that it was on."""
    at = next((i for i, line in enumerate(text) if "Flops Profiler Begin" in line), len(text))
    return text if at == len(text) else [*text[:at], ""]


def texts_of(stem: str) -> list[str]:
    folder, _, name = stem.partition("/")
    found = sorted((corpus_root() / "generated" / folder).glob(f"{name}.*.txt"))
    return [f"generated/{folder}/{path.name}" for path in found] or [f"generated/{stem}.summary.ms.op1.thr0.txt"]


@pytest.mark.parametrize("name", [name for stem in GENERATED for name in texts_of(stem)])
@pytest.mark.parametrize("suffix", ["pb", "json"])
def test_paddles_own_traces_print_what_paddle_printed(suffix: str, name: str) -> None:
    wanted = without_flops(lines(corpus(name).read_text(encoding="utf-8")))
    stem = re.match(r"(generated/\w+/[a-z_]+)\.", name)
    assert stem is not None
    found = printed(read(corpus(f"{stem[1]}.0.{suffix}")), name)
    blur = 16 if ".ns." in name else 0.02
    if suffix == "json" and re.search(r"\.(ns|us)\.", name):
        # Its JSON has times beyond 16 ms as 32-bit floats: their last ns are not in the file.
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert near(one.split(), other.split(), blur), (one, other)
    else:
        assert found == wanted


def near(words: list[str], wanted: list[str], blur: float) -> bool:
    numbers = re.compile(r"-?\d+\.\d\d")
    return len(words) == len(wanted) and all(
        a == b or (numbers.fullmatch(a) and numbers.fullmatch(b) and abs(float(a) - float(b)) <= blur)
        for a, b in zip(words, wanted, strict=True)
    )


def test_the_summaries_that_one_run_printed_in_all_units_and_keys() -> None:
    """One log of the corpus has four summaries of the run that the JSON beside it holds."""
    log = corpus("paddle_profiler/paddle_2.6.2_summary.txt").read_text(encoding="utf-8")
    made = read(corpus("paddle_profiler/paddle_2.6.2.paddle_trace.json"))
    parts = re.split(r"^#### (.*)\n", log, flags=re.MULTILINE)[1:]
    tried = 0
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        key = re.search(r"summary (\w+)", title)
        if key is None:
            continue
        unit = re.search(r"\b(s|us|ms|ns)\b", title.partition(key[1])[2])
        detail, apart = int("\n  conv2d infer_meta" in text), int("thread_sep" in title)
        name = f"x.{key[1]}.{unit[1] if unit else 'ms'}.op{detail}.thr{apart}.txt"
        wanted = lines(text)
        found = printed(made, name)
        size = min(len(wanted), len(found))
        assert found[: size - 3] == wanted[: size - 3], title
        assert not any(found[size:]), title
        assert not any(wanted[size:]), title
        tried += 1
    assert tried


def test_a_run_with_shapes_and_memory_prints_the_log_beside_it_but_for_the_timer() -> None:
    made = read(corpus("paddle_profiler/paddle_2.6.2_shapes_memory.paddle_trace.json"))
    log = lines(corpus("paddle_profiler/paddle_2.6.2_memory_summary.txt").read_text(encoding="utf-8"))
    until = next(i for i, line in enumerate(log) if line.startswith(" batch_cost"))
    found = printed(made, "x")
    assert found[:until] == log[:until]
    assert not any(found[until:])


@pytest.mark.parametrize("path", sorted((GOLDENS / "paddle").glob("random-*.txt")), ids=lambda path: path.name)
def test_devices_copies_collectives_and_memory_on_several_threads_as_paddle_prints_them(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The trace is random: kernels last over others of their stream, as no program's do. Paddle counts them all.
    small(monkeypatch, Limit.COVERED_LEAST_RANGES, 1 << 30)
    seed = re.match(r"random-(\d+)\.", path.name)
    assert seed is not None
    tracekit.write(paddle_case.random_trace(int(seed[1])), tmp_path / "random.pb")
    found = printed(tracekit.read(tmp_path / "random.pb"), path.name)
    assert found == lines(path.read_text(encoding="utf-8"))


def section(made: Trace, view: str, **options: Any) -> Section:
    return tracekit.view(made, view, ViewOptions(compat="paddle", **options))


def model_rows(path: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in dicts(section(tracekit.read(path), "model"))}


def test_the_case_study_gives_its_published_model_summary(tmp_path: Path) -> None:
    found = model_rows(paddle_case.write_case_study(tmp_path / "before.paddle_trace.json"))
    assert [f"{row['cpu_ratio']:.2%}" for row in found.values()] == [
        "100.00%", "49.11%", "17.13%", "6.99%", "11.77%", "15.01%",
    ]  # fmt: skip
    text = printed(tracekit.read(tmp_path / "before.paddle_trace.json"), "x.view.ModelView")
    wanted = "Dataloader 11 144.09 / 13.10 / 15.09 / 12.05 / 49.11 0.00 / 0.00 / 0.00 / 0.00 / 0.00"
    assert wanted in [" ".join(line.split()) for line in text]
    assert found["Others"]["cpu_total"] / MS == pytest.approx(44.03, abs=0.005)
    after = model_rows(paddle_case.write_case_study(tmp_path / "after.paddle_trace.json", paddle_case.AFTER))
    assert [f"{row['cpu_ratio']:.2%}" for row in after.values()] == [
        "100.00%", "1.82%", "34.51%", "16.51%", "18.78%", "28.38%",
    ]  # fmt: skip


def recorded(tmp_path: Path, costs: list[tuple[int, int]]) -> Trace:
    """A recorder's log of iterations (ns in the loader, ns after it), one after the other."""
    log = [lf.head_line(tracekit="0", pid=9, perf_ns=1, epoch_ns=10**18), lf.thread_line(index=0, tid=9, name="main")]
    log += [lf.name_line(name_id=i, name=kind, kind=kind) for i, kind in enumerate(("step", "dataloader"), 1)]
    now, items = 1000, []
    for reader, rest in costs:
        items += [1, now, 2, now, -2, now + reader, -1, now + reader + rest]
        now += reader + rest
    log.append(lf.range_line(thread=0, items=items))
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(map(lf.encode, log)))
    return tracekit.read(path)


def perf(made: Trace) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in dicts(section(made, "benchmark"))}


def test_the_case_study_gives_its_published_perf_summary_under_compat_and_only_there(tmp_path: Path) -> None:
    batches = [26_238_800, 25_444_000, 25_800_000, 25_800_000, 25_825_200]
    readers = [11_950_000, 12_150_000, 12_570_000, 12_770_000]
    costs = [(9_000_000, 20_000_000)] * 9 + [(11_000_000, batches[0] - 11_000_000)]
    costs += [(reader, batch - reader) for reader, batch in zip(readers, batches[1:], strict=True)]
    made = recorded(tmp_path, costs)
    report = pipeline.summary(made, views=["benchmark"], options=ViewOptions(compat="paddle"))
    assert lines(pipeline.render(report, "text", compat="paddle"))[:6] == [
        "============================================Perf Summary============================================",
        "Reader Ratio: 38.294%",
        "Time Unit: s, IPS Unit: steps/s",
        "|                 |       avg       |       max       |       min       |",
        "|   reader_cost   |     0.01236     |     0.01277     |       inf       |",
        "|    batch_cost   |     0.03228     |     0.02624     |     0.02544     |",
    ]
    assert f"{perf(made)['ips']['avg']:.3f}" == "30.982"
    right = on_trace(VIEWS["benchmark"])(made, ViewOptions())
    costs_table = {row["name"]: row for row in dicts(right)}
    assert costs_table["batch_cost"]["avg"] == round(sum(batches[1:]) / 4)
    assert costs_table["reader_cost"]["min"] == readers[0]


@given(costs=st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=11, max_size=30))
def test_the_perf_summary_is_that_of_the_timer(tmp_path: Path, costs: list[tuple[int, int]]) -> None:
    timing = BenchmarkTiming()
    for reader, rest in costs:
        timing.read(reader)
        timing.step(reader + rest, None)
    wanted = timing.perf("paddle")
    assert wanted is not None
    assert wanted.reader is not None
    found = perf(recorded(tmp_path, costs))
    for name, of in (("reader_cost", wanted.reader), ("batch_cost", wanted.batch), ("ips", wanted.ips)):
        assert [found[name][key] for key in ("avg", "max", "min")] == [of.avg, of.max, of.min]


def test_ten_steps_are_too_few_and_paddles_traces_have_no_timer(tmp_path: Path) -> None:
    few = section(recorded(tmp_path, [(1, 1)] * 10), "benchmark")
    assert few.tables == ()
    assert "10 steps: Paddle prints its figures for more than 10" in few.notes
    own = section(tracekit.read(SAMPLES / "paddle-pb" / "paddle26.paddle_trace.pb"), "benchmark")
    assert own.tables == ()
    assert any("do not hold its timer" in note for note in own.notes)


def test_a_printed_perf_summary_prints_itself_again(tmp_path: Path) -> None:
    text = (
        f"{'Perf Summary':=^100}\nReader Ratio: 38.304%\nTime Unit: s, IPS Unit: steps/s\n"
        "|                 |       avg       |       max       |       min       |\n"
        "|   reader_cost   |     0.01236     |     0.01277     |       inf       |\n"
        "|    batch_cost   |     0.03228     |     0.02624     |     0.02544     |\n"
        "|       ips       |     30.98171    |     39.30185    |     38.11149    |\n"
    )
    (tmp_path / "perf.txt").write_text(text, encoding="utf-8")
    report = pipeline.summary(tracekit.read(tmp_path / "perf.txt"), options=ViewOptions(compat="paddle"))
    assert text in pipeline.render(report, "text", compat="paddle")


def event(kind: str, start: int, end: int, **cells: Any) -> dict[str, Any]:
    return {"kind": kind, "name": kind, "ts_ns": start, "dur_ns": end - start, "pid": 1, "tid": 1, **cells}


def test_without_steps_the_summary_ends_after_the_first_table_and_says_so() -> None:
    made = trace(event("forward", 0, 10), event("user_range", 2, 5), event("operator", 3, 4))
    assert "Operator Summary" not in "\n".join(printed(made, "x"))
    assert any("no time in ProfileStep" in note for note in section(made, "device").notes)
    [row] = dicts(section(made, "operator"))[:1]
    assert row["cpu_ratio"] == 1.0
    [row] = dicts(section(made, "user_defined"))
    assert row["cpu_ratio"] is None


def test_what_paddle_drops_or_dies_of_is_told() -> None:
    made = trace(
        event("step", 0, 100), event("operator", 10, 50), event("operator", 40, 60),
        event("kernel", 5, 9, tid=None, device=0, correlation=7), event("operator", 1, 2, tid=None),
    )  # fmt: skip
    notes = " ".join(section(made, "operator").notes)
    assert "1 range crossing another" in notes
    assert "1 row of device work without a launch" in notes
    assert "1 host row without a thread" in notes


def test_of_two_calls_with_one_id_the_last_has_the_work_and_work_outside_of_ranges_is_a_kernel_alone() -> None:
    made = trace(
        event("step", 0, 100), event("operator", 0, 20, name="a"), event("operator", 20, 40, name="b"),
        event("runtime", 1, 2, correlation=7), event("runtime", 21, 22, correlation=7),
        event("runtime", 200, 201, correlation=8),
        event("kernel", 50, 60, tid=None, device=0, correlation=7),
        event("kernel", 300, 301, tid=None, device=0, correlation=8),
    )  # fmt: skip
    of = {row["name"]: row["gpu_total"] for row in dicts(section(made, "operator", op_detail=False))}
    assert of == {"a": 0, "b": 10}
    assert dicts(section(made, "kernel"))[0]["calls"] == 2
    assert dicts(section(made, "device"))[2]["utilization"] == 0.1
    assert dicts(section(made, "overview").tables[1])[0]["calls"] == 1


def test_a_key_that_paddle_does_not_know_is_refused_and_ours_are_understood() -> None:
    made = trace(event("step", 0, 100), event("operator", 0, 20, name="a"), event("operator", 20, 60, name="b"))
    with pytest.raises(UsageError, match="sorts by no such key"):
        section(made, "operator", sorted_by="calls")
    for key, first in (("CPUMin", "a"), ("cpu_min", "a"), ("min", "a"), ("total", "b"), ("CPUMax", "b")):
        assert dicts(section(made, "operator", sorted_by=key))[0]["name"] == first
    table = section(made, "operator", top=1).tables[0]
    assert (len(table), table.omitted) == (1, 1)


def test_flops_are_counted_from_shapes_and_unknown_where_attributes_decide() -> None:
    def shaped(name: str, start: int, shapes: str) -> dict[str, Any]:
        return event("operator", start, start + 5, name=name, args=f'{{"input_shapes":{{{shapes}}}}}')

    made = trace(
        shaped("elementwise_add dygraph", 0, '"X":[[2,3]],"Y":[[3]]'), shaped("gelu", 10, '"X":[[4,4]]'),
        shaped("matmul", 20, '"x":[[2,3]],"y":[[3,4]]'), shaped("relu dygraph", 30, '"x":[[2]]'),
        run=tracekit.model.trace.Run(0, [SourceFacts("a", "paddle-pb")]),
    )  # fmt: skip
    found = section(made, "operator")
    assert {row["name"]: row["flops"] for row in dicts(found)} == {
        "elementwise_add dygraph": 6, "gelu": 80, "matmul": None, "relu dygraph": 0,
    }  # fmt: skip
    assert any("depend on attributes" in note for note in found.notes)


@given(rows=event_rows(kinds=("operator", "operator_inner", "step", "forward", "runtime", "kernel", "communication")))
def test_any_trace_has_tables_that_every_form_renders(rows: list[dict[str, Any]]) -> None:
    made = trace(*rows)
    report = pipeline.summary(made, options=ViewOptions(compat="paddle", thread_sep=True))
    for form in ("text", "json", "csv", "markdown"):
        assert pipeline.render(report, form, compat="paddle").endswith("\n")
    hosts = forest(TraceIndex(made)).hosts
    assert sorted(hosts.seen.tolist()) == list(range(hosts.rows.size))


def nested(seed: int, count: int) -> tuple[list[list[int]], list[int], list[int]]:
    """Children, starts and ends of a tree at random: node 0 is the root; ranges of 2 us at least, 1 us apart."""
    chance = random.Random(seed)
    children: list[list[int]] = [[]]
    for node in range(1, count):
        children.append([])
        children[chance.randrange(node)].append(node)
    start, end, now = [0] * count, [0] * count, 0
    todo: list[tuple[int, bool]] = [(0, True)]
    while todo:
        node, opens = todo.pop()
        now += chance.randint(1000, 3000)
        if opens:
            start[node] = now
            todo.append((node, False))
            todo += [(child, True) for child in reversed(children[node])]
        else:
            end[node] = now
    return children, start, end


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), off=st.integers(0, 400))
def test_the_order_of_a_file_gives_the_tree_that_blurred_times_do_not(seed: int, count: int, off: int) -> None:
    children, start, end = nested(seed, count + 1)
    order = [0]
    for node in order:
        order += children[node]
    order = order[1:]
    chance = random.Random(seed)
    shift = [chance.randint(-off, off) for _ in order]
    starts = np.array([start[n] + s for n, s in zip(order, shift, strict=True)], np.int64)
    ends = np.array([end[n] + s for n, s in zip(order, shift, strict=True)], np.int64)
    found = _order.by_levels(starts, ends, np.full(len(order), 2 * off + 1))
    assert found is not None
    above = {child: node for node, below in enumerate(children) for child in below}
    place = {node: i for i, node in enumerate(order)} | {0: -1}
    assert found[0].tolist() == [place[above[node]] for node in order]


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60))
def test_nodes_are_visited_from_the_root_the_last_child_first(seed: int, count: int) -> None:
    children, start, end = nested(seed, count + 1)
    made = trace(*(event("operator", start[n], end[n], name=str(n)) for n in range(1, count + 1)))
    trees = forest(TraceIndex(made))
    visited, stack = [], [0]
    while stack:
        node = stack.pop()
        visited.append(node)
        stack += children[node]
    names = [int(trees.names[code]) for code in trees.hosts.name.tolist()]
    assert [names[i] for i in np.argsort(trees.hosts.seen).tolist()] == visited[1:]


def test_a_minimum_of_nothing_is_infinite_as_published() -> None:
    rising = [(10 + i, 1) for i in range(12)]
    timing = BenchmarkTiming()
    for reader, rest in rising:
        timing.read(reader)
        timing.step(reader + rest, None)
    made = timing.perf("paddle")
    assert made is not None
    assert made.reader is not None
    assert made.reader.min == math.inf

"""The view fluid: Paddle's printed reports print themselves, its profiles give their names, calls, order and layout."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from doors.compat import FluidRole, descending, numbered, role_of
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, run_command, sample
from views.tables import Row, dicts, event_rows, on_trace, statistics, trace

import tracekit
from tracekit import pipeline
from tracekit.compat.fluid.view import VIEW
from tracekit.errors import UsageError
from tracekit.model.report import Report, ReportTable
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.views.base import ViewOptions

PADDLE18 = "generated/paddle18_fluid"
REPORTS = (
    "paddle_fluid/fluid_report_all_default.txt", "paddle_fluid/fluid_report_cpu_total.txt",
    f"{PADDLE18}/cpu_calls_opdetail.txt", f"{PADDLE18}/cpu_max_allopdetail.txt", f"{PADDLE18}/cpu_total_default.txt",
)  # fmt: skip
PROFILES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        f"{PADDLE18}/cpu_total_default.pb",
        f"{PADDLE18}/cpu_total_default.txt",
        {"sorted_by": "total", "op_detail": False},
    ),
    (f"{PADDLE18}/cpu_calls_opdetail.pb", f"{PADDLE18}/cpu_calls_opdetail.txt", {"sorted_by": "calls"}),
    (f"{PADDLE18}/cpu_max_allopdetail.pb", f"{PADDLE18}/cpu_max_allopdetail.txt", {"sorted_by": "max"}),
    ("paddle_fluid/fluid_profile_all.prof", "paddle_fluid/fluid_report_all_default.txt", {"op_detail": False}),
)
ROW = re.compile(r"( *)(\S+) +(\d+) +(\d.*)")


def printed(path: Path, **options: Any) -> str:
    """What `summary --compat fluid` prints of a file."""
    return text(tracekit.read(path), **options)


def made(of: Trace, **options: Any) -> Report:
    return pipeline.summary(of, options=ViewOptions(compat="fluid", **options))


def text(of: Trace, **options: Any) -> str:
    return pipeline.render(made(of, **options), compat="fluid")


def tables(of: Trace, **options: Any) -> dict[str, ReportTable]:
    return {table.name: table for table in made(of, **options).sections[0].tables}


def rows(report: str) -> list[tuple[int, str, int, list[float]]]:
    """Level, name, calls and figures of each line of events."""
    found = []
    for line in report.splitlines():
        if row := ROW.fullmatch(line):
            figures = [float(cell) for cell in re.findall(r"[\d.e+-]+", row[4])]
            found.append((len(row[1]) // 2, row[2], int(row[3]), figures))
    return found


@pytest.mark.corpus
@pytest.mark.parametrize("name", REPORTS)
def test_a_printed_report_prints_itself(name: str) -> None:
    assert printed(corpus(name)) == corpus(name).read_text(encoding="utf-8")


def test_the_sample_of_paddle_18_prints_itself_also_from_parquet(tmp_path: Path) -> None:
    path = sample("fluid-report/paddle18-alloc.txt")
    assert printed(path) == path.read_text(encoding="utf-8")
    tracekit.convert(path, tmp_path / "report.parquet")
    assert printed(tmp_path / "report.parquet") == path.read_text(encoding="utf-8")


@pytest.mark.corpus
@pytest.mark.parametrize(("profile", "report", "options"), PROFILES)
def test_a_profile_gives_names_calls_levels_and_layout_of_its_report(
    profile: str, report: str, options: dict[str, Any]
) -> None:
    """All lines but those with times are equal, and in these all that is no time; the order of times may differ."""
    want = corpus(report).read_text(encoding="utf-8")
    got = printed(corpus(profile), **options)
    number = re.compile(r"\d[\d.e-]*")
    shapes = [
        [number.sub("N", " ".join(line.split())) for line in each.splitlines() if not ROW.fullmatch(line)]
        for each in (want, got)
    ]
    assert shapes[1] == shapes[0]
    assert sorted(row[:3] for row in rows(got)) == sorted(row[:3] for row in rows(want))
    heads = [re.sub(r"\S.*", "", line) + line.strip() for line in want.splitlines() if line.startswith("Event ")]
    assert [line.strip() for line in got.splitlines() if line.startswith("Event ")] == heads


@pytest.mark.corpus
@pytest.mark.parametrize(("profile", "report", "options"), [PROFILES[1], PROFILES[3]])
def test_the_order_by_calls_and_that_of_the_first_end_are_the_report_s(
    profile: str, report: str, options: dict[str, Any]
) -> None:
    want = corpus(report).read_text(encoding="utf-8")
    assert [row[:3] for row in rows(printed(corpus(profile), **options))] == [row[:3] for row in rows(want)]


@pytest.mark.corpus
@pytest.mark.parametrize(("profile", "report", "options"), PROFILES)
def test_the_times_of_a_profile_are_those_of_the_report_by_another_clock(
    profile: str, report: str, options: dict[str, Any]
) -> None:
    """Paddle times its two outputs one after the other: most averages agree to 1 us."""
    want = {row[1]: row for row in rows(corpus(report).read_text(encoding="utf-8"))}
    close = [abs(row[3][-2] - want[row[1]][3][-2]) <= 1e-3 for row in rows(printed(corpus(profile), **options))]
    assert sum(close) >= 0.8 * len(close)


@pytest.mark.corpus
@pytest.mark.parametrize("key", ["calls", "total", "max", "min", "ave"])
@pytest.mark.parametrize("name", REPORTS)
def test_a_report_in_another_order_keeps_its_rows_and_descends(name: str, key: str) -> None:
    want = corpus(name).read_text(encoding="utf-8")
    got = printed(corpus(name), sorted_by=key)
    assert sorted(map(str, rows(got))) == sorted(map(str, rows(want)))
    for report in got.split(">     Profiling Report     <")[1:]:
        threads: dict[str, list[float]] = {}
        for level, event, calls, figures in rows(report):
            if not level:
                thread = event.partition("::")[0] if event.startswith("thread") else ""
                figure = {
                    "calls": calls,
                    "total": figures[0],
                    "min": figures[-4],
                    "max": figures[-3],
                    "ave": figures[-2],
                }
                threads.setdefault(thread, []).append(float(figure[key]))
        assert threads
        assert all(values == sorted(values, reverse=True) for values in threads.values())


@pytest.mark.corpus
def test_a_state_that_is_said_gives_its_columns_and_place() -> None:
    path = corpus(f"{PADDLE18}/cpu_calls_opdetail.pb")
    for state, place in (("CPU", "CPU"), ("All", "All"), ("GPU", "CUDA")):
        of = tracekit.read(path, options={"state": state})
        assert f"Place: {place}\n" in text(of)
        assert ("CPU Time (Ratio)" in text(of)) is (state == "All")
    with pytest.raises(UsageError, match="state=cpu"):
        tracekit.read(path, options={"state": "cpu"})


def test_the_command_prints_the_report_alone_and_notes_on_stderr() -> None:
    path = sample("fluid-pb/paddle18-alloc.pb")
    found = run_command("summary", path, "--compat", "fluid", "--sort", "max")
    assert found.stdout == printed(path, sorted_by="max")
    assert "note: Paddle 1.8 rounded the times of this profile to whole us" in found.stderr
    found = run_command("summary", path, "--compat", "fluid", "--format", "json")
    sections = json.loads(found.stdout)["sections"]
    assert [table["name"] for table in sections[0]["tables"]] == ["header", "overhead", "copies", "events"]


def test_another_order_than_upstreams_is_refused() -> None:
    with pytest.raises(UsageError, match="fluid has no such order"):
        text(trace({"dur_ns": 1, "kind": "operator"}), sorted_by="name")


def test_an_empty_trace_and_one_of_kernels_alone_say_what_is_needed() -> None:
    for of in (trace(), trace({"dur_ns": 5})):
        for options in (ViewOptions(), ViewOptions(compat="fluid")):
            section = on_trace(VIEW)(of, options)
            assert section.tables == ()
            assert section.notes[0].startswith("needs ")
        assert text(of) == ""


def host(name: str, begin: int, end: int, **more: Any) -> Row:
    return {"name": name, "ts_ns": begin, "dur_ns": end - begin, "kind": "operator", "pid": 1, "tid": 7, **more}


def fluid_run(**facts: Any) -> Run:
    return Run(origin_ns=0, sources=[SourceFacts("p", "fluid-pb", facts={"tool": "fluid.profiler", **facts})])


def test_names_have_the_roles_of_their_last_part() -> None:
    assert role_of("a/compute/GpuMemcpySync:GPU->CPU") is FluidRole.ORDINARY
    assert role_of("ParallelExecutor::Run") is FluidRole.SPECIAL
    assert role_of("mul/mul%x%") is FluidRole.UNIQUE


def test_outputs_become_numbers_in_the_order_in_which_they_are_met() -> None:
    names = ["mul/mul%b%", "mul/mul%a%", "mul/mul%b%/compute", "mul/mul%a%/compute", "relu/relu%a%", "50%"]
    assert [numbered(names)[name] for name in names] == [
        "mul/mul0", "mul/mul1", "mul/mul0/compute", "mul/mul1/compute", "relu/relu0", "50%",
    ]  # fmt: skip


def test_equal_figures_stand_as_the_sort_of_cpp_leaves_them() -> None:
    """40 rows of five figures, and what std::sort of libstdc++ makes of them."""
    keys = [2, 1, 3, 4, 1, 3, 4, 0, 0, 1, 3, 1, 0, 2, 2, 2, 0, 4, 3, 3, 0, 2, 4, 1, 1, 4, 4, 1, 2, 3, 1, 0, 3, 3, 3, 0]
    keys += [3, 0, 2, 1]
    assert descending(keys) == [
        26, 17, 3, 25, 6, 22, 18, 19, 29, 32, 33, 10, 34, 36, 5, 2, 21, 28, 13, 15, 14, 38, 0, 30, 1, 27, 39, 24, 23,
        11, 9, 4, 20, 16, 31, 12, 35, 8, 37, 7,
    ]  # fmt: skip


@given(keys=st.lists(st.integers(0, 9), max_size=200))
def test_the_order_descends_holds_all_rows_and_is_stable_up_to_sixteen(keys: list[int]) -> None:
    order = descending(keys)
    assert sorted(order) == list(range(len(keys)))
    assert [keys[row] for row in order] == sorted(keys, reverse=True)
    assert descending(keys[:16]) == sorted(range(len(keys[:16])), key=lambda row: -keys[row])


COPIES = (
    host("mul", 0, 1000), host("mul/prepare_data", 10, 410), host("mul/prepare_data/GpuMemcpySync:CPU->GPU", 20, 320),
    host("mul/compute", 500, 700), host("mul/compute/GpuMemcpyAsync:GPU->CPU", 510, 560), host("adam", 2000, 2500),
)  # fmt: skip


def test_by_default_copies_alone_stand_below_their_operator() -> None:
    found = rows(text(trace(*COPIES), op_detail=False))
    assert [row[:3] for row in found] == [
        (0, "thread0::mul", 1), (1, "GpuMemcpyAsync:GPU->CPU", 1), (1, "GpuMemcpySync:CPU->GPU", 1),
        (0, "thread0::adam", 1),
    ]  # fmt: skip
    detailed = rows(text(trace(*COPIES)))
    assert [row[:2] for row in detailed][:3] == [
        (0, "thread0::mul"), (1, "thread0::mul/prepare_data"), (2, "GpuMemcpySync:CPU->GPU"),
    ]  # fmt: skip


def test_overhead_and_copies_are_upstreams() -> None:
    lines = text(trace(*COPIES)).splitlines()
    assert "Total time: 0.0015" in lines
    assert "  Computation time       Total: 0.0002      Ratio: 13.3333%" in lines
    assert "  Framework overhead     Total: 0.0013      Ratio: 86.6667%" in lines
    assert "GpuMemcpy                Calls: 2           Total: 0.00035     Ratio: 23.3333%" in lines
    assert "  GpuMemcpySync          Calls: 1           Total: 0.0003      Ratio: 20%" in lines


def test_the_old_layout_has_no_heading_of_overhead_and_no_memory() -> None:
    whole_us = [row | {"ts_ns": row["ts_ns"] * 1000, "dur_ns": row["dur_ns"] * 1000} for row in COPIES]
    old, new = text(trace(*whole_us, run=fluid_run())), text(trace(*COPIES, run=fluid_run()))
    assert "Overhead Summary" not in old
    assert "Memory Profiling Report" not in old
    assert "Place: CPU\n" in old
    assert "Overhead Summary" in new
    assert "Memory Profiling Report" in new
    assert "Place: All\n" in new


def test_a_total_of_nothing_is_minus_nan_as_in_cpp() -> None:
    report = text(trace(host("nothing", 5, 5), run=fluid_run(state="All")))
    assert "Ratio: -nan%" in report
    assert "0.000000 (-nan)" in report
    assert report.count("\nthread0::nothing") == 0  # the number of the thread is fluid's own
    assert "thread7::nothing" in report


def test_work_of_other_threads_below_the_parallel_executor() -> None:
    """Merged, they are its parts, and their time adds up beside its own; by thread it is left out."""
    of = trace(
        host("ParallelExecutor::Run", 0, 1000), host("ParallelExecutor::Run/mul", 10, 710, tid=8),
        host("ParallelExecutor::Run/mul/compute", 20, 620, tid=8),
    )  # fmt: skip
    merged, single = text(of).split(">     Profiling Report     <")[1:]
    assert "Elapsed time of events: 0.001\n" in merged
    assert "Accumulated time of events: 0.0007\n" in merged
    assert "OP1.time + OP2.time > ParallelExecutor::Run.time\n\n" in merged
    assert [row[:2] for row in rows(merged)] == [(0, "ParallelExecutor::Run"), (1, "mul"), (2, "mul/compute")]
    assert [row[:2] for row in rows(single)] == [(0, "thread1::mul"), (1, "thread1::mul/compute")]


def test_threads_stand_newest_first_and_alone_they_have_one_report() -> None:
    of = trace(host("a", 0, 10), host("b", 5, 9, tid=8), host("a", 20, 25, tid=9))
    merged, single = text(of).split(">     Profiling Report     <")[1:]
    assert [row[1:3] for row in rows(merged)] == [("a", 2), ("b", 1)]
    assert [row[1] for row in rows(single)] == ["thread2::a", "thread1::b", "thread0::a"]
    assert "Overhead Summary" in merged
    assert "Overhead Summary" not in single


def test_gpu_time_is_of_the_ranges_around_the_launch() -> None:
    call = {"kind": "runtime", "pid": 1, "tid": 7, "dur_ns": 2, "name": "launch"}
    of = trace(
        host("mul", 0, 100), host("mul/compute", 10, 50), call | {"ts_ns": 20, "correlation": 1},
        call | {"ts_ns": 60, "correlation": 2}, call | {"ts_ns": 200, "correlation": 3},
        *({"name": "k", "ts_ns": 300 + n, "dur_ns": 10 * n, "correlation": n, "pid": 1} for n in (1, 2, 3)),
        {"name": "orphan", "ts_ns": 400, "dur_ns": 7, "device": 0},
    )  # fmt: skip
    found = {row["name"]: row for row in dicts(tables(of)["events"])}
    assert {name: row["gpu_time"] for name, row in found.items()} == {"thread0::mul": 30, "thread0::mul/compute": 10}
    assert found["thread0::mul"]["total"] == 130
    assert "1 device row of no known range: in no GPU time here" in made(of).sections[0].notes
    assert {r["name"]: r["gpu_time"] for r in dicts(on_trace(VIEW)(of, ViewOptions()))} == {
        "mul": 30,
        "mul/compute": 10,
    }


@pytest.mark.parametrize("by", ["name", "operator"])
def test_device_work_of_a_profile_goes_to_the_ranges_of_its_name_in_order(by: str) -> None:
    """fluid's profile names device work by the range that launched it; the k-th share is that of the k-th range."""

    def kernel(begin: int, ns: int) -> Row:
        named = {"name": "mul/compute"} if by == "name" else {"args": '{"operator":"mul/compute"}', "name": "gemm"}
        return {"ts_ns": begin, "dur_ns": ns, "kind": "kernel", "device": 0, **named}

    ranges = [host(name, 100 * n + at, 100 * n + 50) for n in (0, 1) for at, name in ((0, "mul"), (1, "mul/compute"))]
    of = trace(*ranges, *(kernel(150 + n, 10**n) for n in range(4)), run=fluid_run(state="GPU"))
    found = {row["name"]: row for row in dicts(tables(of)["events"])}
    for name in ("thread7::mul", "thread7::mul/compute"):
        assert (found[name]["total"], found[name]["min"], found[name]["max"]) == (1111, 11, 1100)


def test_allocations_stand_by_place_and_event() -> None:
    def memory(size: int, place: str, event: str, **more: Any) -> Row:
        word = "alloc_in" if size > 0 else "free_in"
        args = json.dumps({"allocation": 1, "place": place, word: event}, separators=(",", ":"))
        return {"kind": "memory", "bytes": size, "args": args, **more}

    of = trace(
        host("mul", 0, 1), memory(3 << 20, "CUDAPlace", "mul/compute", device=1), memory(1 << 20, "CPUPlace", "mul"),
        memory(-(1 << 19), "CPUPlace", "mul"), memory(1 << 20, "CPUPlace", "mul"), run=fluid_run(),
    )  # fmt: skip
    found = text(of).partition("Memory Profiling Report")[2].splitlines()[2:]
    assert [line.split() for line in found if line] == [
        ["Event", "Alloc", "Calls", "Size(MB)", "Free", "Calls", "Size(MB)"],
        ["Place(cpu):mul", "2", "2", "1", "0.5"],
        ["Place(gpu:1):mul/compute", "1", "3", "0", "0"],
    ]


def test_blocks_are_no_events_and_ranges_without_an_end_are_left_out() -> None:
    of = trace(
        host("block_0", 0, 100, kind="user_range_native"), host("mul", 10, 60),
        host("open", 10, 90, args='{"unfinished":true}'),
    )  # fmt: skip
    section = on_trace(VIEW)(of, ViewOptions())
    assert [(row["name"], row["ratio"]) for row in dicts(section)] == [("mul", 1.0)]
    assert "skipped, as they contain the events of others: 1 range named block_..." in section.notes
    assert "skipped: 1 range without an end" in section.notes


def test_nested_ranges_are_in_the_whole_once_and_have_percentiles() -> None:
    of = trace(*(host("mul", 100 * n, 100 * n + 10 + n) for n in range(20)), host("all", 0, 2000))
    found = {row["name"]: row for row in dicts(on_trace(VIEW)(of, ViewOptions()))}
    values = [10 + n for n in range(20)]
    assert {key: found["mul"][key] for key in statistics(values)} == statistics(values)
    assert found["all"]["ratio"] == 1.0
    assert found["mul"]["ratio"] == sum(values) / 2000


def test_a_printed_report_is_one_table_of_all_threads_or_one_by_thread() -> None:
    of = tracekit.read(sample("fluid-report/all.txt"))
    merged = dicts(on_trace(VIEW)(of, ViewOptions()))
    assert [(row["name"], row["total"], row["gpu_time"]) for row in merged] == [
        ("conv2d", 4_300_100, 3_050_099), ("conv2d/compute", 3_800_100, 3_050_099), ("fetch", 1234, 0),
    ]  # fmt: skip
    assert [row["ratio"] for row in merged if "/" not in row["name"]] == [4_300_100 / 4_301_334, 1234 / 4_301_334]
    assert len(dicts(on_trace(VIEW)(of, ViewOptions(thread_sep=True)))) == 3
    assert [row["name"] for row in dicts(on_trace(VIEW)(of, ViewOptions(op_detail=False, sorted_by="-ave")))] == [
        "fetch", "conv2d",
    ]  # fmt: skip


def test_a_report_beside_another_is_left_out_only_where_both_tell_the_same_calls(tmp_path: Path) -> None:
    text = sample("fluid-report/all.txt").read_text(encoding="utf-8")
    same = on_trace(VIEW)(tracekit.read(sample("fluid-report/all.txt")), ViewOptions())
    assert "the same calls are in 1 report by thread too: --thread-sep shows them" in same.notes
    log = tmp_path / "two_runs.txt"
    log.write_text(
        text.replace("thread0::fetch                      3", "thread0::fetch                      4"), "utf-8"
    )
    for options in (ViewOptions(), ViewOptions(thread_sep=True)):
        section = on_trace(VIEW)(tracekit.read(log), options)
        assert [(row["name"], row["run"], row["thread"]) for row in dicts(section)] == [
            ("conv2d", 0, None), ("conv2d/compute", 0, None), ("fetch", 0, None),
            ("conv2d", 1, 0), ("conv2d/compute", 1, 0), ("fetch", 1, 0),
        ]  # fmt: skip
        assert not [note for note in section.notes if "the same calls" in note]


def test_parts_are_in_the_whole_once_also_where_the_text_lost_their_indent(tmp_path: Path) -> None:
    text = sample("fluid-report/all.txt").read_text(encoding="utf-8").split("----->     Profiling Report")[1]
    flat = tmp_path / "flat.txt"
    flat.write_text("------------------------->     Profiling Report" + text.replace("  conv2d/", "conv2d/"), "utf-8")
    rows = {row["name"]: row["ratio"] for row in dicts(on_trace(VIEW)(tracekit.read(flat), ViewOptions()))}
    assert (rows["conv2d"], rows["conv2d/compute"]) == (4_300_100 / 4_301_334, 3_800_100 / 4_301_334)


@given(rows_=event_rows(("operator", "user_range", "kernel", "runtime")))
def test_totals_and_calls_are_those_of_the_ranges_however_they_are_grouped(rows_: list[Row]) -> None:
    timed = [r for r in rows_ if r["dur_ns"] is not None and r["kind"] in ("operator", "user_range")]
    want = len(timed), sum(max(r["dur_ns"], 0) for r in timed)
    of = trace(*rows_)
    for options in (ViewOptions(), ViewOptions(thread_sep=True)):
        section = on_trace(VIEW)(of, options)
        found = dicts(section) if section.tables else []
        assert (sum(r["calls"] for r in found), sum(r["total"] for r in found)) == want
        assert all(r["ratio"] is None or r["ratio"] >= 0 for r in found)
    upstream = tables(of)
    if timed:
        last = [name for name in upstream if name.startswith("events")][-1]
        assert sum(row["calls"] for row in dicts(upstream[last])) == len(timed)
    assert text(of).endswith("\n") or not timed


def test_printed_rows_without_a_total_are_left_out() -> None:
    """No report has such; a file of our own form that someone changed may."""
    of = tracekit.read(sample("fluid-report/all.txt"))
    place = of.totals.column("name").to_pylist().index("fetch")
    totals = [None if at == place else ns for at, ns in enumerate(of.totals.column("total_ns").to_pylist())]
    column = of.totals.schema.get_field_index("total_ns")
    changed = of.totals.set_column(column, of.totals.schema.field(column), pa.array(totals, pa.int64()))
    for options in (ViewOptions(), ViewOptions(compat="fluid")):
        section = on_trace(VIEW)(replace(of, totals=changed), options)
        assert section.tables

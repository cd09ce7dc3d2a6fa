"""The headline: every figure of it is one that a table has too, exactly."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES, read_sample, run_command, sample
from views.tables import trace as trace_of
from views.test_step_extents import program

import tracekit
from tracekit import pipeline
from tracekit.inputs.selection import Selection
from tracekit.model.report import Headline, Report, ReportTable, TopNames
from tracekit.model.schema import Kind
from tracekit.model.trace import Run, SourceFacts
from tracekit.model.units import Unit, format_bytes
from tracekit.render.base import RenderOptions
from tracekit.views.base import ViewOptions

EVERY = sorted(
    path.relative_to(SAMPLES).as_posix() for path in SAMPLES.glob("*/*.*") if not path.name.startswith("_")
)  # fmt: skip
ms = 1_000_000


def headline(made: Report) -> Headline:
    assert made.headline is not None
    return made.headline


def of(*rows: dict[str, Any]) -> Headline:
    return headline(tracekit.summary(trace_of(*rows)))


def work(kind: str, start: int, duration: int, **more: Any) -> dict[str, Any]:
    return {"ts_ns": start, "dur_ns": duration, "kind": kind, "name": kind, "device": 0, "stream": 7, **more}


class TestSteps:
    def steps(self, *durations: int, **more: Any) -> Iterator[dict[str, Any]]:
        start = 0
        for number, duration in enumerate(durations):
            row = {"ts_ns": start, "dur_ns": duration, "kind": "step", "name": f"s{number}", "step": number, "tid": 1}
            yield {**row, **more}
            start += duration

    def test_the_median_and_its_spread_are_of_the_steps_after_warm_up(self) -> None:
        step = of(*self.steps(90 * ms, 10 * ms, 11 * ms, 12 * ms, 10 * ms, 11 * ms, 13 * ms)).step
        assert step is not None
        assert (step.steps, step.warm_up, step.owners) == (6, 1, 1)
        assert (step.p5_ns, step.median_ns, step.p95_ns) == (10 * ms, 11 * ms, 13 * ms)

    def test_the_medians_of_ranks_are_told_apart(self) -> None:
        rows = [*self.steps(10, 10, 10, rank=0, pid=1), *self.steps(20, 22, 24, rank=1, pid=2)]
        step = of(*rows).step
        assert step is not None
        assert (step.owners, step.low_ns, step.high_ns, step.steps) == (2, 10, 22, 6)

    @pytest.mark.parametrize("ahead", [True, False])
    def test_where_the_host_runs_ahead_the_steps_of_device_and_host_are_both_said(self, *, ahead: bool) -> None:
        made = tracekit.summary(trace_of(*(program() if ahead else program(wait_each=1))))
        step = headline(made).step
        assert step is not None
        assert (step.host_ns is not None) == ahead
        assert not ahead or (step.host_ns or 0) < 0.95 * step.median_ns
        said = "on the device; the host runs ahead: it launches a step in "
        assert (said in pipeline.first_screen(made).replace("\n  ", " ")) == ahead

    def test_without_steps_the_time_of_the_run_counts(self) -> None:
        found = of(work("kernel", 5, 10), work("kernel", 25, 10))
        assert (found.step, found.run_ns, found.run_note) == (None, 30, "")


class TestDevices:
    def test_parts_are_of_the_steps_where_there_are_any(self) -> None:
        rows = [
            {"ts_ns": 100, "dur_ns": 100, "kind": "step", "name": "s", "step": 0, "tid": 1},
            work("kernel", 0, 50),
            work("kernel", 100, 30),
            work("kernel", 120, 20, name="ncclDevKernel_AllReduce_Sum_f32", stream=9),
            work("memcpy", 150, 5),
        ]
        (device,) = of(*rows).devices
        assert (device.window, device.window_ns, device.devices) == ("steps", 100, 1)
        assert [(part.name, part.ns) for part in device.parts] == [
            ("compute", 30), ("exposed_comm", 10), ("exposed_copies", 5), ("idle", 55),
        ]  # fmt: skip

    def test_devices_are_one_group_with_least_median_and_greatest(self) -> None:
        rows = [work("kernel", 0, ns, device=number) for number, ns in enumerate((10, 20, 60, 100))]
        (group,) = of(*rows).devices
        assert (group.label, group.devices, group.window, group.window_ns) == ("4 devices", 4, "run", 400)
        compute = group.parts[0]
        assert (compute.ns, compute.low, compute.middle, compute.high) == (190, 0.1, 0.2, 1.0)

    def test_two_processes_with_steps_on_one_device_count_its_time_once(self) -> None:
        rows = []
        for pid in (1, 2):
            rows += [
                {"ts_ns": 0, "dur_ns": 100, "kind": "step", "name": "s", "step": 0, "tid": 1, "pid": pid},
                {
                    "ts_ns": 10,
                    "dur_ns": 1,
                    "kind": "runtime",
                    "name": "launch",
                    "tid": 1,
                    "pid": pid,
                    "correlation": pid,
                },
                work("kernel", 20 + 30 * (pid - 1), 40, pid=pid, correlation=pid),
            ]
        (device,) = of(*rows).devices
        assert (device.window, device.window_ns) == ("steps", 100)
        assert device.parts[0].ns == 70

    def test_what_is_not_known_is_not_zero(self) -> None:
        found = headline(tracekit.summary(read_sample("nsys-stats-csv/sums.csv")))
        assert found.devices == ()
        assert found.devices_note == "totals do not say when work ran"
        assert (found.step, found.run_ns) == (None, None)


class TestNames:
    def top(self, name: str) -> TopNames:
        found = headline(tracekit.summary(read_sample(name))).top
        assert found is not None
        return found

    def test_of_several_tables_of_one_file_the_one_with_most_names_counts(self) -> None:
        top = self.top("caffe-time/gpu.log")
        assert (top.view, top.part, top.count) == ("model", "section Average time per layer", 20)
        assert [each.name for each in top.names[:2]] == ["ip2, backward", "ip2, forward"]  # one name, two kinds

    def test_a_name_of_several_ranks_says_whose_it_is(self) -> None:
        made = tracekit.summary([sample(f"recorder-log/rank{rank}.jsonl") for rank in (0, 1)]).headline
        assert made is not None
        assert made.top is not None
        assert [each.name for each in made.top.names[:2]] == ["Backward, rank 1", "Backward, rank 0"]

    def test_phases_that_overlap_the_steps_are_no_parts_of_them(self) -> None:
        top = self.top("recorder-log/killed.jsonl")
        assert "Dataloader, without a thread" not in [each.name for each in top.names]
        assert top.total_ns == sum(each.ns for each in top.names) == 661_694

    def test_operators_count_their_own_time(self) -> None:
        assert self.top("kineto/cpu.pt.trace.json").column == "self"

    def test_kernels_without_a_name_count(self) -> None:
        top = of(work("kernel", 0, 10), work("kernel", 20, 30, name=None), work("kernel", 60, 40, name=None)).top
        assert top is not None
        assert (top.total_ns, top.count) == (80, 2)
        assert [(each.name, each.ns, each.calls) for each in top.names] == [("(no name)", 70, 2), ("kernel", 10, 1)]

    @pytest.mark.parametrize("blank", ["", " ", "\u3000\t"])
    def test_a_blank_name_has_a_placeholder(self, blank: str) -> None:
        top = of(work("kernel", 0, 10), work("kernel", 20, 30, name=blank)).top
        assert top is not None
        assert [each.name for each in top.names] == ["(no name)", "kernel"]

    def test_kernels_of_which_none_has_a_name_are_the_time_of_kernels(self) -> None:
        top = of(*(work("kernel", 20 * n, 10, name=None) for n in range(3))).top
        assert top is not None
        assert (top.view, top.total_ns, top.names[0].name, top.names[0].calls) == ("kernel", 30, "(no name)", 3)


def on(kind: str, start: int, duration: int, name: str = "", tid: int = 1) -> dict[str, Any]:
    return {"ts_ns": start * ms, "dur_ns": duration * ms, "kind": kind, "name": name or kind, "tid": tid, "pid": 1}


class TestContent:
    """The first names say where the time of this trace is."""

    def names(self, top: TopNames | None) -> dict[str, float]:
        assert top is not None
        return {each.name: round(each.share or 0, 4) for each in top.names}

    def test_a_step_never_stands_beside_its_own_parts(self) -> None:
        rows = [on("dataloader", 0, 1), on("step", 1, 99), on("forward", 2, 40), on("backward", 42, 50)]
        made = tracekit.summary(trace_of(*rows), views=["model"])
        top = of(*rows).top
        assert self.names(top) == {"Backward": 0.5, "Forward": 0.4, "Others": 0.09, "Dataloader": 0.01}
        (table,) = made.sections[0].tables
        ratios = dict(zip(table.column("name").values, table.column("ratio").values, strict=True))
        assert {name: ratios[name] for name in self.names(top)} == self.names(top)
        assert top is not None
        assert (top.total_ns, top.of) == (100 * ms, "the time in steps and phases")

    def test_steps_and_the_phases_between_them_are_not_parts_of_each_other_either(self) -> None:
        rows = [row for n in range(3) for row in (on("dataloader", 20 * n, 12), on("step", 20 * n + 12, 8))]
        assert self.names(of(*rows).top) == {"Dataloader": 0.6, "Others": 0.4}

    def test_phases_on_two_threads_have_the_shares_of_their_table(self) -> None:
        rows = [on("step", 0, 100), on("forward", 0, 80), on("backward", 20, 80, tid=2), on("backward", 0, 100, tid=3)]
        assert self.names(of(*rows).top) == {"Backward": 1.0, "Forward": 0.8, "Others": 0.0}

    def test_ranges_of_the_program_are_shown_where_no_phase_covers_most_of_the_steps(self) -> None:
        rows = [
            on("step", 0, 100),
            on("dataloader", 0, 1),
            on("user_range", 1, 69, "sync"),
            on("user_range", 70, 30, "bwd"),
        ]
        found = of(*rows)
        assert self.names(found.top) == {"sync": round(69 / 99, 4), "bwd": round(30 / 99, 4)}
        assert found.below is None

    def test_operators_are_shown_where_no_phase_covers_most_of_the_steps_and_ranges_below_them(self) -> None:
        rows = [
            on("step", 0, 100),
            on("optimizer", 0, 1),
            on("operator", 1, 60, "aten::copy_"),
            on("user_range", 61, 9, "f"),
        ]
        found = of(*rows)
        assert found.top is not None
        assert (found.top.view, found.top.names[0].name) == ("operator", "aten::copy_")
        assert found.below is not None
        assert (found.below.view, found.below.names[0].name) == ("user_defined", "f")

    def test_phases_that_cover_most_of_the_steps_have_operators_below_them(self) -> None:
        found = of(on("step", 0, 100), on("forward", 0, 60), on("operator", 1, 50, "aten::mm"))
        assert found.top is not None
        assert (found.top.view, self.names(found.top)) == ("model", {"Forward": 0.6, "Others": 0.4})
        assert found.below is not None
        assert found.below.view == "operator"

    def test_a_loader_counts_without_steps(self) -> None:
        rows = [on("dataloader", 0, 62), on("operator", 62, 10, "aten::mm"), on("optimizer", 80, 20)]
        found = of(*rows)
        assert found.top is not None
        assert (found.top.of, found.top.total_ns) == ("the run", 100 * ms)
        assert self.names(found.top) == {"Dataloader": 0.62, "Optimization": 0.2, "Others": 0.18}
        assert found.below is not None
        assert found.below.view == "operator"

    def test_without_steps_the_operators_say_more_than_phases_that_are_no_loading(self) -> None:
        found = of(on("forward", 0, 70), on("operator", 0, 70, "aten::mm"), on("dataloader", 90, 10))
        assert found.top is not None
        assert found.top.view == "operator"

    def test_kernels_come_before_all_phases(self) -> None:
        found = of(on("step", 0, 100), on("forward", 0, 100), work("kernel", 0, 10))
        assert found.top is not None
        assert (found.top.view, found.below) == ("kernel", None)


class TestOtherThanTime:
    """A trace of memory, samples or metrics shows these."""

    def first(self, made: Report, width: int = 80) -> list[str]:
        return pipeline.first_screen(made, RenderOptions(width=width)).splitlines()

    @pytest.mark.parametrize("name", ["two-gpus.pickle", "frees-requested-only.pickle"])
    def test_a_snapshot_of_memory_shows_the_peak_and_who_held_it(self, name: str) -> None:
        trace = read_sample(f"torch-memory/{name}")
        made = tracekit.summary(trace)
        found = headline(made)
        tables = {table.name: table for table in tracekit.view(trace, "memory").tables}
        places = tables["memory"].rows()
        peak = max(row[2] for row in places if row[1] == "allocated")
        assert found.figure is not None
        assert (found.figure.value, found.figure.unit) == (peak, Unit.BYTES)
        first = f"Memory peaked at {format_bytes(peak)} allocated on GPU 0"
        assert any(line.startswith(first) for line in self.first(made))
        (quoted,) = found.quoted
        assert quoted.table == "at_peak"
        assert sum(tables["at_peak"].column("held").values) == peak  # what the peak is made of adds up to it

    def test_memory_beside_a_program_is_not_what_its_trace_is_about(self) -> None:
        rows = [on("operator", 0, 10, "aten::mm"), {**on("memory", 5, 0, "[memory]"), "bytes": 64, "device": 0}]
        found = of(*rows)
        assert (found.figure, found.quoted) == (None, ())

    def test_samples_without_times_show_the_functions_sampled_most(self) -> None:
        made = tracekit.summary(read_sample("folded/py-spy.folded"))
        found = headline(made)
        assert found.figure is not None
        (quoted,) = found.quoted
        assert (quoted.view, found.figure.after.split()[0]) == ("samples", "samples")
        assert quoted.columns[-1].name == "name"
        assert [f"{found.figure.value:,}", "samples"] in [line.split()[:2] for line in self.first(made)]

    def test_kernels_of_nsight_compute_show_how_near_they_came_to_the_peak_of_the_device(self, tmp_path: Path) -> None:
        lines = [
            "ID,Process ID,Process Name,Kernel Name,Context,Stream,Section Name,Metric Name,Metric Unit,Metric Value"
        ]
        for number, (name, ns, share) in enumerate([("small", 10, 80.0), ("large", 90, 20.0)]):
            for metric, unit, value in (
                ("gpu__time_duration.sum", "ns", ns),
                ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", share),
            ):
                lines.append(f"{number},42,train,{name},1,7,Command line profiler metrics,{metric},{unit},{value}")
        path = tmp_path / "ncu.csv"
        path.write_text("\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in lines) + "\n")
        made = tracekit.summary(tracekit.read(path))
        found = headline(made)
        assert found.top is not None
        assert [each.name for each in found.top.names] == ["large", "small"]
        (quoted,) = found.quoted
        assert (quoted.table, quoted.columns[0].name, list(quoted.columns[0].values)) == ("peak", "compute", [0.2, 0.8])

    def test_a_function_with_all_samples_is_shown(self, tmp_path: Path) -> None:
        path = tmp_path / "one.speedscope.json"
        frames = [{"name": "main"}, {"name": "inner"}]
        profile = {"type": "sampled", "name": "t", "unit": "milliseconds", "startValue": 0, "endValue": 9}
        path.write_text(
            json.dumps(
                {
                    "$schema": "https://www.speedscope.app/file-format-schema.json",
                    "shared": {"frames": frames},
                    "profiles": [{**profile, "samples": [[0, 1]], "weights": [9]}],
                }
            )
        )
        top = headline(tracekit.summary(tracekit.read(path))).top
        assert top is not None
        assert [(each.name, each.ns) for each in top.names[:1]] == [("inner", 9 * ms)]

    def test_metrics_alone_are_of_kernels(self) -> None:
        found = headline(tracekit.summary(read_sample("nvprof-csv/metrics.csv")))
        assert found.figure is not None
        assert found.figure.after in ("kernel with metrics", "kernels with metrics")
        assert found.quoted[0].view == "metrics"


class TestReservations:
    def test_a_cut_file_says_so(self) -> None:
        found = headline(tracekit.summary(read_sample("nvprof-csv/truncated.csv")))
        assert found.reservations == (
            "The file ends in the middle: all later events are missing.",
            "1 record could not be read, so times and counts may be too low: the last line is cut (first at line 67)",
        )

    def test_so_do_filters_and_inputs_that_failed(self, tmp_path: Any) -> None:
        bad = tmp_path / "bad.csv"
        bad.write_text("nothing\n")
        trace = tracekit.read(
            [sample("nvprof-csv/gpu-trace-20-columns.csv"), bad], selection=Selection(kinds=frozenset({Kind.KERNEL})),
            partial=True,
        )  # fmt: skip
        first, second = headline(tracekit.summary(trace)).reservations
        assert first.startswith("not read: ")
        assert second.endswith("filtered: every figure is of the other records")

    def test_inputs_without_a_common_clock_say_so_on_the_first_screen(self) -> None:
        names = ["nvprof-csv/gpu-and-api-trace.csv", "nsys-sqlite/nvtx-v2.sqlite"]
        [said] = headline(tracekit.summary([sample(name) for name in names])).reservations
        assert "shares no clock with the others" in said
        screen = " ".join(run_command("summary", *map(sample, names)).stdout.split())
        assert ("shares no clock with the others" in screen, "clocks several" in screen) == (True, False)

    def test_a_trace_that_lost_records_has_no_shares(self, tmp_path: Any) -> None:
        base = {"ph": "X", "dur": 5, "pid": 0, "tid": 2, "cat": "kernel", "args": {"device": 0, "stream": 7}}
        events = [*(base | {"name": "gemm", "ts": 9 * i} for i in range(40)), *([{"ph": "Q", "ts": 1}] * 2)]
        head = {"schemaVersion": 1, "deviceProperties": []}
        (tmp_path / "run.json").write_text(json.dumps({**head, "traceEvents": events}))
        made = tracekit.summary(tmp_path / "run.json")
        assert made.incomplete
        found = headline(made)
        assert (found.devices, found.findings) == ((), ())
        assert found.devices_note == "Device time unknown: too many records could not be read."
        assert found.top is not None
        assert {each.share for each in found.top.names} == {None}


def test_sorting_and_cutting_tables_does_not_change_it() -> None:
    trace = read_sample("kineto/gpu.pt.trace.json")
    whole = tracekit.summary(trace).headline
    assert tracekit.summary(trace, options=ViewOptions(sorted_by="-name", top=1)).headline == whole
    assert tracekit.summary(trace, options=ViewOptions(op_detail=False, thread_sep=True)).headline == whole
    assert pipeline.report(trace).headline == whole


def test_single_views_have_none() -> None:
    assert tracekit.summary(read_sample("kineto/gpu.pt.trace.json"), views=["kernel"]).headline is None


def cells(made: dict[str, Any], view: str, table: str) -> list[dict[str, Any]]:
    for section in made["sections"]:
        for each in section["tables"]:
            if (section["view"], each["name"]) == (view, table):
                keys = [column["name"] for column in each["columns"]]
                return [dict(zip(keys, row, strict=True)) for row in each["rows"]]
    return []


@pytest.mark.parametrize("name", EVERY)
def test_every_figure_is_one_of_the_tables(name: str) -> None:
    """In the JSON that users get: bars, step times, names and findings against the cells of the views."""
    made = json.loads(run_command("summary", sample(name), "--format", "json").stdout)
    found = made["headline"]
    devices = cells(made, "breakdown", "devices")
    steps = cells(made, "breakdown", "steps")
    assert sum(each["devices"] for each in found["devices"]) == len([row for row in devices if row["span"]])
    for bar in found["devices"]:
        assert sum(part["ns"] for part in bar["parts"]) == bar["window_ns"]
        assert all(0 <= part["low"] <= part["middle"] <= part["high"] <= 1 for part in bar["parts"])
    for column in ("compute", "exposed_comm", "exposed_copies", "idle", "span"):
        stepped = {row["name"] for row in steps}
        one_process = len({row.get("pid") for row in steps}) < 2
        rows = [*steps, *(row for row in devices if row["name"] not in stepped)]
        told = [part["ns"] for bar in found["devices"] for part in bar["parts"] if part["name"] == column]
        told = told or [bar["window_ns"] for bar in found["devices"]]
        assert not one_process or sum(told) == sum(row[column] for row in rows)
    step = found["step"]
    rows = cells(made, "steps", "step_times")
    assert (step is None) == (not rows)
    if step is not None and step["owners"] == 1:
        (row,) = [each for each in rows if each["which"] == ("after warm-up" if step["warm_up"] else "all")]
        assert (step["median_ns"], step["p95_ns"], step["steps"]) == (row["p50"], row["p95"], row["steps"])
    if found["top"] is not None:
        quoted = [row for s in made["sections"] if s["view"] == found["top"]["view"] for t in s["tables"]
                  for row in cells(made, s["view"], t["name"])]  # fmt: skip
        for each in found["top"]["names"]:
            names = (each["name"], each["name"].rpartition(", ")[0])
            mine = [row for row in quoted if str(row.get("name") or row.get("kind") or "(no name)") in names]
            assert (each["ns"], each["calls"]) in [(row[found["top"]["column"]], row.get("calls")) for row in mine]
    listed = [row for s in made["sections"] if s["view"] == "findings" for row in s.get("findings", [])]
    assert [(row["rule"], row["saving_ns"]) for row in found["findings"]] == [
        (row["rule"], row["saving_ns"]) for row in listed[:3]
    ]  # fmt: skip
    assert found["findings_count"] == len(listed)
    assert listed or found["findings_note"]


def test_ties_and_empty_tables_make_no_names() -> None:
    assert of({"ts_ns": 0, "dur_ns": None, "kind": "mark", "name": "m"}).top is None
    assert ReportTable("t", "T", ()).columns == ()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("runtime", "Device time unknown: the trace has 2 GPU API calls, but no GPU activity."),
        ("communication", "Device time unknown: the trace has 2 calls of NCCL or RCCL, but no GPU activity."),
        ("operator", "This trace has no GPU activity."),
    ],
)
def test_a_program_that_calls_the_gpu_is_not_said_to_run_without_it(kind: str, said: str) -> None:
    name = {"communication": "ncclAllReduce"}.get(kind, "x")
    made = trace_of(*({**work(kind, at, 5), "name": name} for at in (0, 10)))
    found = headline(tracekit.summary(dataclasses.replace(made, run=Run(sources=[SourceFacts("a.json", "kineto")]))))
    assert found.devices_note == said
    assert found.opening is not None
    assert found.opening.sentence.startswith("CPU only") == (kind == "operator")


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_range_of_a_printed_tree_has_no_time_of_the_ranges_below_it(part: float, tmp_path: Path) -> None:
    rows = [("main", 0, 10.0), ("|_load", 1, 10 * part), ("  |_read", 2, 2.5)]
    path = tmp_path / "wall.txt"
    path.write_text(timemory(rows))
    top = headline(tracekit.summary(tracekit.read(path))).top
    assert top is not None
    assert (top.column, top.total_ns) == ("self", 10_000 * ms)
    own = {"load": round(10 * part - 2.5, 3), "read": 2.5, "main": round(10 - 10 * part, 3)}
    assert {each.name: each.ns / 1e9 for each in top.names} == own


def test_rows_below_that_take_longer_together_are_no_tree_of_times(tmp_path: Path) -> None:
    path = tmp_path / "cpu.txt"
    path.write_text(timemory([("main", 0, 10.0), ("|_load", 1, 8.0), ("|_work", 1, 9.0)]))
    top = headline(tracekit.summary(tracekit.read(path))).top
    assert top is not None
    assert (top.column, top.names[0].name) == ("total", "main")


def test_names_without_any_time_are_not_among_the_top_names() -> None:
    top = of(work("kernel", 0, 10, name="gemm"), work("kernel", 10, 0, name="tuple")).top
    assert top is not None
    assert [each.name for each in top.names] == ["gemm"]


def test_metrics_that_show_how_near_the_peak_a_kernel_is_come_first(tmp_path: Path) -> None:
    metrics = ["inst_per_warp", "branch_efficiency", "ipc", "achieved_occupancy", "sm_efficiency"]
    (quoted,) = headline(tracekit.summary(tracekit.read(counted(tmp_path, {"k": metrics})))).quoted
    assert next(c for c in quoted.columns if c.name == "metric").values == [
        "sm_efficiency", "achieved_occupancy", "ipc", "inst_per_warp", "branch_efficiency",
    ]  # fmt: skip


def test_of_one_metric_the_largest_values_come_first(tmp_path: Path) -> None:
    path = counted(tmp_path, {f"k{n}": ["inst_executed"] for n in range(12)})
    (quoted,) = headline(tracekit.summary(tracekit.read(path))).quoted
    assert list(quoted.columns[-1].values) == [f"k{n}" for n in range(11, 3, -1)]


def timemory(rows: list[tuple[str, int, float]]) -> str:
    """Return a table of timemory with these labels, depths and seconds."""
    lines = ["| LABEL | COUNT | DEPTH | METRIC | UNITS | SUM |"]
    lines += [f"| |0>>> {label} | 1 | {depth} | wall_clock | sec | {s:.3f} |" for label, depth, s in rows]
    return "\n".join(lines) + "\n"


def counted(folder: Path, metrics: dict[str, list[str]]) -> Path:
    """Write the metrics of some kernels as nvprof does; the values ascend."""
    lines = ["==1== NVPROF is profiling process 1, command: ./a", "==1== Profiling application: ./a",
             "==1== Profiling result:", "==1== Metric result:",
             '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"']  # fmt: skip
    value = 0
    for kernel, names in metrics.items():
        for name in names:
            value += 1
            lines.append(f'"Tesla (0)","{kernel}",1,"{name}","words",{value}.0,{value}.0,{value}.0')
    path = folder / "metrics.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_of_allocations_without_a_peak_has_no_peak(tmp_path: Path) -> None:
    whole = (SAMPLES / "paddle-summary/paddle3-memory.txt").read_text(encoding="utf-8")
    (tmp_path / "memory.txt").write_text(whole[whole.index("-----Memory Summary") :], encoding="utf-8")
    found = headline(tracekit.summary(tracekit.read(tmp_path / "memory.txt")))
    assert found.figure is None
    assert [table.view for table in found.quoted] == ["memory"]
    assert found.opening is not None
    assert "eak" not in found.opening.sentence


def chrome(path: Path, *events: dict[str, Any]) -> Headline:
    path.write_text(json.dumps({"traceEvents": [{"pid": 1, **event} for event in events]}))
    return headline(tracekit.summary(tracekit.read(path)))


def asynchronous(name: str, number: int, start: int, end: int) -> list[dict[str, Any]]:
    return [
        {"ph": ph, "cat": "io", "name": name, "id": hex(number), "tid": 1, "ts": us}
        for ph, us in (("b", start), ("e", end))
    ]


def listed(top: TopNames | None) -> list[tuple[str, int, int | None]]:
    return [(each.name, each.ns, each.calls) for each in top.names] if top is not None else []


REQUESTS = [
    *asynchronous("request", 1, 0, 3000),
    *asynchronous("request", 2, 500, 4000),
    *asynchronous("read", 3, 1, 9),
]
IN_NS = [("request", 6_500_000, 2), ("read", 8_000, 1)]


def test_asynchronous_ranges_alone_are_the_top_names_by_their_total(tmp_path: Path) -> None:
    found = chrome(tmp_path / "run.json", *REQUESTS)
    assert listed(found.top) == IN_NS
    assert found.top is not None
    assert (found.top.column, found.top.total_ns) == ("total", 6_508_000)
    shown = run_command("summary", tmp_path / "run.json", width=80).stdout
    assert "Where the time goes is not known" not in shown
    assert "Top ranges without a thread (2 of 2, 6.508 ms in total)" in shown


def test_asynchronous_ranges_are_never_summed_with_ranges_of_threads(tmp_path: Path) -> None:
    inner = [{"ph": "X", "name": name, "tid": 2, "ts": us, "dur": us * 10} for name, us in (("parse", 20), ("lex", 25))]
    found = chrome(tmp_path / "run.json", *REQUESTS, {**inner[0], "dur": 400}, {**inner[1], "dur": 100})
    assert listed(found.top) == [("parse", 300_000, 1), ("lex", 100_000, 1)]
    assert listed(found.below) == IN_NS
    assert found.top is not None
    assert found.top.total_ns == 400_000
    shown = run_command("summary", tmp_path / "run.json", width=80).stdout
    assert "the time of all ranges of threads." in shown
    assert len(shown.splitlines()) <= 30


def test_asynchronous_ranges_follow_operators_and_take_no_place_of_kernels() -> None:
    request = {"ts_ns": 0, "dur_ns": 900, "kind": "user_range", "name": "request", "pid": 1}
    operator = {"ts_ns": 0, "dur_ns": 70, "kind": "operator", "name": "aten::mm", "pid": 1, "tid": 2}
    found = of(request, operator)
    assert listed(found.top) == [("aten::mm", 70, 1)]
    assert listed(found.below) == [("request", 900, 1)]
    found = of(request, operator, work("kernel", 10, 50))
    assert listed(found.top) == [("kernel", 50, 1)]
    assert found.below is None


def test_ranges_of_threads_alone_keep_their_title(tmp_path: Path) -> None:
    found = chrome(tmp_path / "run.json", {"ph": "X", "name": "parse", "tid": 2, "ts": 0, "dur": 5})
    assert found.top is not None
    assert (found.top.title, found.top.column, found.below) == ("user ranges", "self", None)


def test_kinds_come_first_where_nothing_else_has_a_name_and_a_time() -> None:
    """A simulation of a cluster has nodes without threads: what they are is known, and how long they take."""
    found = headline(tracekit.summary(read_sample("chakra/simulated.et")))
    assert listed(found.top) == [("communication", 590_000, 3), ("operator", 100_000, 1)]
    assert found.opening is not None
    assert "communication takes 86 % of the time of all kinds." in found.opening.sentence


def test_sizes_without_times_are_shown_with_their_largest() -> None:
    made = headline(tracekit.summary(read_sample("nsys-recipe-csv/cuda_gpu_mem_size_sum.rank_stats_by_device.csv")))
    (table,) = made.quoted
    assert table.view == "memory_manipulation"
    sizes = next(column.values for column in table.columns if column.unit is Unit.BYTES)
    assert list(sizes) == sorted(sizes, reverse=True)


def test_one_table_of_a_profiler_for_devices_does_not_say_that_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "marker_api_trace.csv"
    head = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"'
    path.write_text(f'{head}\n"MARKER_CORE_API","load",1,1,1,10,20\n"MARKER_CORE_API","load",1,1,2,30,50\n')
    found = headline(tracekit.summary(tracekit.read(path))).opening
    assert found is not None
    assert found.sentence.startswith("The only range, load, takes 30 ns")
    assert found.meaning == "This trace has no GPU activity."


def test_sums_of_domains_alone_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "domain_stats.csv"
    head = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"'
    path.write_text(f'{head}\n"HIP_API",3,600,200.0,75.0,1,500,2.0\n"KERNEL_DISPATCH",2,200,100.0,25.0,90,110,1.0\n')
    found = headline(tracekit.summary(tracekit.read(path)))
    assert listed(found.top) == [("HIP_API", 600, 3), ("KERNEL_DISPATCH", 200, 2)]
    assert found.opening is not None
    assert found.opening.sentence == "HIP_API takes 75 % of the time of all kinds."

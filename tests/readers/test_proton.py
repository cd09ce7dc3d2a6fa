"""Trees of Triton's Proton: every figure is the file's, and cycles are never taken for ns."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import run_command, sample, sure_readers

import tracekit
from tracekit.analysis.efficiency.devices import find_device, unnamed_device
from tracekit.errors import ParseError
from tracekit.index.device_peaks import device_peaks
from tracekit.index.trace_index import index_of
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

TREES = ("h100-two-steps.hatchet", "two-devices.hatchet", "two-devices.hatchet_msgpack", "hip-cycles.hatchet")


def tree_of(path: Path) -> list[Any]:
    data = path.read_bytes()
    found: list[Any] = msgspec.msgpack.decode(data) if path.suffix == ".hatchet_msgpack" else json.loads(data)
    return found


def nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    """A node and all below it."""
    return [node, *(each for child in node["children"] for each in nodes(child))]


def time_of(node: dict[str, Any]) -> int:
    """The time of a node and of all below it, as the viewer of Proton adds it up."""
    return sum(each["metrics"].get("time (ns)", 0) for each in nodes(node))


def rows(trace: Trace, section: str) -> list[dict[str, Any]]:
    found = [row for row in trace.totals.to_pylist() if row["section"] == section]
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in found]


def stated(trace: Trace) -> dict[str, dict[str, Any]]:
    (table,) = VIEWS["efficiency"].compute(index_of(trace), ViewOptions()).tables
    return {
        f"{table.column('stated_for').values[at]} {table.column('stated_time').values[at]}": {
            column.name: column.values[at] for column in table.columns
        }
        for at in range(len(table))
    }


def write(path: Path, *children: dict[str, Any], devices: object = None) -> Path:
    root = {"children": list(children), "frame": {"name": "ROOT", "type": "function"}, "metrics": {"time (ns)": 0}}
    path.write_text(json.dumps([root, devices or {}]))
    return path


def leaf(name: str, **metrics: Any) -> dict[str, Any]:
    return {"children": [], "frame": {"name": name, "type": "function"}, "metrics": metrics}


def kernel(name: str, ns: object, **more: Any) -> dict[str, Any]:
    return leaf(name, **{"count": 1, "device_id": "0", "device_type": "CUDA", "time (ns)": ns, **more})


@pytest.mark.parametrize("name", TREES)
def test_times_and_counts_are_those_of_the_file(name: str) -> None:
    path = sample(f"proton/{name}")
    root, _ = tree_of(path)
    trace = tracekit.read(path)
    assert sure_readers(path) == ["proton"]
    every = nodes(root)
    timed = [each["metrics"] for each in every[1:] if "time (ns)" in each["metrics"]]
    kernels = rows(trace, "kernels")
    assert [row["total_ns"] for row in kernels] == [each["time (ns)"] for each in timed]
    assert [row["calls"] for row in kernels] == [each["count"] for each in timed]
    assert [str(row["device"]) for row in kernels] == [each["device_id"] for each in timed]
    scopes = [each for each in every[1:] if "time (ns)" not in each["metrics"] and time_of(each)]
    assert [(row["name"], row["total_ns"]) for row in rows(trace, "scopes")] == [
        (each["frame"]["name"], time_of(each)) for each in scopes
    ]
    assert trace.ledgers[0].read == len(every) + 1


def test_both_forms_of_a_tree_give_the_same_rows() -> None:
    first, second = (tracekit.read(sample(f"proton/{name}")).totals for name in TREES[1:3])
    assert first.equals(second)


def test_a_scope_with_stated_work_has_the_time_of_the_kernels_below_it() -> None:
    (row,) = stated(tracekit.read(sample("proton/h100-two-steps.hatchet"))).values()
    assert (row["stated_for"], row["stated_time"], row["stated_bytes"]) == ("gemm", 24_737, 25_165_824)
    assert row["stated_flops"] == 2 * 2048**3
    assert row["stated_tflops"] == pytest.approx(2 * 2048**3 / 24_737e-9 / 1e12)
    assert row["stated_of_bandwidth"] == pytest.approx(25_165_824 / 24_737e-9 / 3350e9)
    # The file does not say what numbers were multiplied: there is no peak, no floor and no limit.
    assert not {"stated_of_peak", "stated_floor", "stated_bound"} & row.keys()


def test_a_width_whose_datatypes_have_different_peaks_has_no_share_of_one() -> None:
    found = stated(tracekit.read(sample("proton/two-devices.hatchet")))
    half, single, plain = (
        found["matmul_kernel 149048"],
        found["matmul_kernel 64000"],
        found["add(float*, float*, int) 31204"],
    )
    assert half["stated_of_peak"] == pytest.approx(2 * 68_719_476_736 / 149_048e-9 / 989.4e12)
    assert (half["stated_bound"], half["stated_floor"]) == ("compute", round(2 * 68_719_476_736 / 989.4e3))
    assert (single["stated_precision"], single["stated_of_peak"], single["stated_floor"]) == ("32 bit", None, None)
    assert (plain["stated_bound"], plain["stated_floor"]) == ("memory", round(50_331_648 / 3350))


def test_cycles_are_metrics_and_no_time() -> None:
    trace = tracekit.read(sample("proton/hip-cycles.hatchet"))
    units = {row["args"]["metric"]: row["unit"] for row in rows(trace, "metrics")}
    assert units["cycles"] == units["normalized_cycles"] == "cycles"
    assert "not ns" in str(trace.ledgers[0].notes["cycles-not-ns"])
    assert sum(row["total_ns"] for row in rows(trace, "kernels")) == 30_720


def test_a_device_without_a_name_has_the_peaks_in_which_all_such_devices_agree(tmp_path: Path) -> None:
    def of(**facts: Any) -> Any:
        trace = tracekit.read(write(tmp_path / "a.hatchet", kernel("k", 5), devices={"CUDA": {"0": facts}}))
        return device_peaks(index_of(trace))[0, 0]

    h100 = of(arch="90", bus_width=5120, clock_rate=1_980_000, memory_clock_rate=2_619_000, num_sms=132)
    peaks = find_device("NVIDIA H100 80GB HBM3").peaks
    assert peaks is not None
    assert (h100.peaks.rates["bf16"], h100.peaks.memory_gbps) == (peaks.rates["bf16"], 3350)
    assert "fp64" not in h100.peaks.rates  # an H800 has the same numbers, and a thirtieth of its fp64
    # A part of the multiprocessors of an H100: nobody knows which part of the memory it has.
    assert of(arch="90", bus_width=5120, clock_rate=1, memory_clock_rate=2_619_000, num_sms=60).peaks is None
    # A device that the table does not have: its bandwidth is stated, its matrix units are not known.
    laptop = of(arch="86", bus_width=128, clock_rate=1_140_000, memory_clock_rate=5_501_000, num_sms=16).peaks
    assert (round(laptop.memory_gbps), set(laptop.rates)) == (176, {"fp32"})
    assert of(arch="90", bus_width="wide", num_sms=None).peaks is None


def test_the_memory_of_an_mi300x_transfers_four_times_a_stated_clock() -> None:
    found = unnamed_device(units=304, arch="gfx942", clock_hz=2.1e9, memory_hz=1.3e9, bus_bits=8192)
    assert found.peaks is not None
    assert (found.peaks.name, found.peaks.memory_gbps) == ("AMD Instinct MI300X", 5300)
    assert unnamed_device(units=99, arch="gfx942", clock_hz=2.1e9, memory_hz=1.3e9, bus_bits=8192).peaks is None
    assert unnamed_device(units=7, arch="gfx999", clock_hz=2.1e9, memory_hz=1.3e9, bus_bits=8192).peaks is None


def test_the_first_screen_says_that_these_are_sums() -> None:
    out = run_command("summary", sample("proton/two-devices.hatchet")).stdout
    assert "These are sums: when the GPU was idle is not known." in out
    assert "read 15 records, nothing dropped" in out


@pytest.mark.parametrize(
    ("ns", "kept"),
    [(0, True), (7.0, True), ("9", False), (-1, False), (1.5, False), (10**22, False), (True, False), (None, False)],
)
def test_a_time_that_is_no_number_of_ns_costs_its_node(ns: object, kept: bool, tmp_path: Path) -> None:
    trace = tracekit.read(write(tmp_path / "a.hatchet", kernel("odd", ns), kernel("good", 12)))
    assert [row["name"] for row in rows(trace, "kernels")] == ["odd", "good"][not kept :]
    assert trace.ledgers[0].dropped == ({} if kept else {"no-times": 1})


def test_a_node_without_a_name_costs_only_itself(tmp_path: Path) -> None:
    nameless = {"children": [kernel("below", 40), 7], "frame": 3, "metrics": {"time (ns)": 5}}
    trace = tracekit.read(write(tmp_path / "a.hatchet", nameless))
    assert [(row["name"], row["total_ns"]) for row in rows(trace, "kernels")] == [("below", 40)]
    assert trace.ledgers[0].dropped == {"no-name": 1, "bad-node": 1}


def test_a_session_in_which_nothing_ran_is_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("\n" + json.dumps([leaf("ROOT"), {}], indent=4) + "\n")
    assert sure_readers(path) == ["proton"]
    assert tracekit.read(path).totals.num_rows == 0


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    rng = random.Random(4)
    for name in TREES[1:3]:
        data = sample(f"proton/{name}").read_bytes()
        for _ in range(8):
            path = tmp_path / "cut"
            path.write_bytes(data[: rng.randrange(60, len(data) - 2)])
            with pytest.raises(ParseError, match="damaged or cut"):
                tracekit.read(path, format="proton")


def test_long_paths_and_names_stay_small(tmp_path: Path) -> None:
    """A long name above many nodes is written once for each of them, so only its beginning is."""
    deep: dict[str, Any] = leaf("x" * 100_000)
    deep["children"] = [kernel(f"k{number}", number) for number in range(500)]
    for depth in range(200):
        deep = {**leaf(f"frame {depth} " * 9), "children": [deep]}
    trace = tracekit.read(write(tmp_path / "a.hatchet", deep))
    assert max(len(args) for args in trace.totals.column("args").to_pylist() if args) < 3_000
    assert sum(row["total_ns"] for row in rows(trace, "kernels")) == sum(range(500))


def test_figures_of_any_form_are_metrics(tmp_path: Path) -> None:
    """Found by fuzzing: values within one another, and keys of MessagePack that are not texts."""
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    values = {"deep": deep, "vector": [1, 2.5], "word": "fast", "object": {}, 7: 8}
    root = {"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": [leaf("scope")]}
    root["children"][0]["metrics"] = values
    path = tmp_path / "a.hatchet_msgpack"
    path.write_bytes(msgspec.msgpack.encode([root, {}]))
    found = {row["args"]["metric"]: row["value_text"] for row in rows(tracekit.read(path), "metrics")}
    assert found == {"deep": "?", "vector": "[1, 2.5]", "word": "fast", "object": "?"}


# The Chrome trace of the same profiler.


def test_a_trace_has_kernels_on_their_streams() -> None:
    path = sample("chrome-trace/proton-lanes.chrome_trace")
    wanted = [each for each in json.loads(path.read_bytes())["traceEvents"] if each.get("cat") == "kernel"]
    trace = tracekit.read(path)
    found = [row for row in trace.events.to_pylist() if row["kind"] == "kernel"]
    assert [(row["ts_ns"], row["dur_ns"]) for row in found] == [
        (round(each["ts"] * 1000), round(each["dur"] * 1000)) for each in wanted
    ]
    assert {row["name"] for row in found} == {"matmul(float*)"}
    assert [row["stream"] for row in found] == [7, 13] * 3
    assert [row["stream"] for row in trace.events.to_pylist() if row["kind"] == "flow"][1::2].count(None) < 6
    assert trace.run.origin_ns == 1_758_000_000_000_000_000


def test_a_trace_without_names_of_lanes_has_the_stream_as_thread() -> None:
    trace = tracekit.read(sample("chrome-trace/proton-h100.chrome_trace"))
    assert trace.events.column("kind").to_pylist() == ["kernel"] * 60
    assert set(trace.events.column("stream").to_pylist()) == {7}


def test_ranges_within_kernels_are_never_kernels_and_the_first_screen_says_cycles(tmp_path: Path) -> None:
    path = sample("chrome-trace/proton-cycles.chrome_trace")
    # A kernel may have any name, and its category is its name; older versions wrote the unit instead of a call stack.
    text = path.read_text()
    other = tmp_path / "a.json"
    other.write_text(text.replace('"cat":"add_kernel"', '"cat":"kernel"'))
    older = tmp_path / "b.json"
    older.write_text(
        '[{"name":"r","cat":"k","ph":"X","pid":"k CTA0","tid":"w0","ts":1,"dur":2,"args":{"Unit":"GPU cycle"}}]'
    )
    for each in (path, other, older):
        trace = tracekit.read(each)
        assert set(trace.events.column("kind").to_pylist()) == {"other"}
        assert trace.ledgers[0].notes["cycles-not-ns"].count == trace.events.num_rows
    out = run_command("summary", path).stdout
    assert "CPU only" not in out
    assert "GPU cycles" in out.split("\n\n")[0]

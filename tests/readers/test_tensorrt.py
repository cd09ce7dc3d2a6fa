"""Outputs of TensorRT's trtexec: times are the file's digits, and layers are joined by their names."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support import sample, sure_readers

import tracekit
from tracekit import pipeline
from tracekit.errors import ParseError
from tracekit.index.trace_index import index_of
from tracekit.model.trace import Trace
from tracekit.render.base import RenderOptions
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

PROFILE, LAYERS = "tensorrt-profile/net.profile.json", "tensorrt-layers/net.layers.json"
TIMES, NAMES = "tensorrt-times/net.times.json", "tensorrt-layers/names-alone.json"
LOGS = ("tensorrt-log/net.log", "tensorrt-log/names-first.log")
MS = 1_000_000


def rows(trace: Trace, section: str) -> list[dict[str, Any]]:
    found = [row for row in trace.totals.to_pylist() if row["section"] == section]
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in found]


def tables(trace: Trace) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables of the view inference."""
    section = VIEWS["inference"].compute(index_of(trace), ViewOptions())
    return {
        table.name: [{column.name: column.values[at] for column in table.columns} for at in range(len(table))]
        for table in section.tables
    }


def figures(text: str, key: str) -> list[int]:
    """The ms of a member, as ns."""
    return [int(Decimal(value) * MS) for value in re.findall(rf'"{key}" : ([^,}} ]+)', text)]


def test_a_profile_has_the_digits_of_the_file() -> None:
    text = sample(PROFILE).read_text()
    assert sure_readers(sample(PROFILE)) == ["tensorrt-profile"]
    found = rows(tracekit.read(sample(PROFILE)), "layers")
    assert [row["total_ns"] for row in found] == figures(text, "timeMs")
    assert [row["median_ns"] for row in found] == figures(text, "medianMs")
    assert [row["avg_ns"] for row in found] == [
        float(Decimal(v) * MS) for v in re.findall(r'"averageMs" : (\S+),', text)
    ]
    assert [row["args"]["percentage"] for row in found] == [
        float(v) for v in re.findall(r'"percentage" : (\S+) ', text)
    ]
    assert {row["calls"] for row in found} == {180}


def test_names_that_json_cannot_hold_and_shares_of_nothing_are_read_by_line(tmp_path: Path) -> None:
    """trtexec escapes nothing, and divides by the time of all layers, which may be zero."""
    path = tmp_path / "profile.json"
    path.write_text(
        '[\n  { "count" : 3 }\n'
        ', { "name" : "a "quoted" \\name, "timeMs" : 9", "timeMs" : 1e-05, "averageMs" : 3e-06, "percentage" : -nan }\n'
        ', { "name" : "inf", "timeMs" : inf, "averageMs" : inf, "medianMs" : inf, "percentage" : nan }\n'
        ', { "name" : "cut", "timeMs" : 0.0'
    )
    trace = tracekit.read(path)
    (row,) = rows(trace, "layers")
    assert (row["name"], row["total_ns"], row["calls"]) == ('a "quoted" \\name, "timeMs" : 9', 10, 3)
    assert row["args"] == {}
    assert trace.ledgers[0].dropped == {"torn-row": 1, "bad-time": 1}


@pytest.mark.parametrize("value", ["true", "null", '"x"', "-4", "1e40", "[1]", "9" * 30])
def test_a_time_that_is_none_costs_its_layer(value: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    text = f'[{{"count": 2}}, {{"name": "a", "timeMs": {value}, "averageMs": 1}}, {{"name": "b", "timeMs": 0.5}}, 7]'
    path.write_text(text)
    trace = tracekit.read(path, format="tensorrt-profile")
    assert [row["name"] for row in rows(trace, "layers")] == ["b"]
    assert sum(trace.ledgers[0].dropped.values()) == 2


def test_layers_of_any_verbosity_are_facts_of_their_names(tmp_path: Path) -> None:
    whole = json.loads(sample(LAYERS).read_bytes())["Layers"]
    found = rows(tracekit.read(sample(LAYERS)), "layer info")
    assert [{"Name": row["name"], **row["args"]} for row in found] == whole
    assert [row["name"] for row in rows(tracekit.read(sample(NAMES)), "layer info")] == [each["Name"] for each in whole]
    assert sure_readers(sample(LAYERS)) == sure_readers(sample(NAMES)) == ["tensorrt-layers"]
    path = tmp_path / "cut.json"
    path.write_bytes(sample(LAYERS).read_bytes()[:900])
    with pytest.raises(ParseError, match="damaged or cut"):
        tracekit.read(path)


def test_a_layer_with_members_within_one_another_keeps_its_name(tmp_path: Path) -> None:
    """Found by fuzzing: orjson reads more levels than it writes."""
    path = tmp_path / "deep.json"
    deep = "[" * 400 + "]" * 400
    path.write_text(f'{{"Layers": [{{"Name": "a", "LayerType": "Reformat", "Inputs": {deep}}}], "Bindings": []}}')
    trace = tracekit.read(path)
    assert [(row["name"], row["args"]) for row in rows(trace, "layer info")] == [("a", {"LayerType": "Reformat"})]
    assert "value-too-deep" in trace.ledgers[0].notes


def test_a_folder_joins_profile_and_layers_by_name(tmp_path: Path) -> None:
    for name in (PROFILE, LAYERS, TIMES):
        (tmp_path / Path(name).name).write_bytes(sample(name).read_bytes())
    found = tables(tracekit.read(tmp_path))["layers"]
    whole = {each["Name"]: each for each in json.loads(sample(LAYERS).read_bytes())["Layers"]}
    assert [row["type"] for row in found] == [whole[row["layer"]]["LayerType"] for row in found]
    assert sum(row["ratio"] for row in found) == pytest.approx(1)
    conv = next(row for row in found if row["layer"] == "conv1 + relu1")
    assert conv["tactic"] == "sm80_xmma_fprop_implicit_gemm_1"
    assert conv["inputs"] == "8x64x112x112 Thirty-two wide channel vectorized row major Int8 format"


def test_two_engines_with_a_layer_of_one_name_keep_their_own(tmp_path: Path) -> None:
    """Where the names of files do not show which belong together, the layer has no type."""
    text = sample(LAYERS).read_text()
    for engine, kind in (("fp16", "CaskConvolution"), ("int8", "CudaDepthwiseConvolution")):
        (tmp_path / f"{engine}.profile.json").write_bytes(sample(PROFILE).read_bytes())
        (tmp_path / f"{engine}.layers.json").write_text(text.replace("CaskConvolution", kind))
    found = tables(tracekit.read(tmp_path))["layers"]
    kinds = {row["source"]: row["type"] for row in found if row["layer"] == "conv1 + relu1"}
    assert kinds == {"fp16.profile.json": "CaskConvolution", "int8.profile.json": "CudaDepthwiseConvolution"}
    for engine in ("fp16", "int8"):
        (tmp_path / f"{engine}.profile.json").rename(tmp_path / f"z{engine}.json")
    found = tables(tracekit.read(tmp_path))["layers"]
    assert {row["type"] for row in found if row["layer"] == "conv1 + relu1"} == {None}
    assert {row["type"] for row in found if row["layer"] == "fc"} == {"CaskGemmConvolution"}


def test_queries_are_a_timeline_with_exact_durations() -> None:
    text = sample(TIMES).read_text()
    trace = tracekit.read(sample(TIMES))
    events = trace.events.to_pylist()
    found = {kind: [row for row in events if row["kind"] == kind] for kind in ("kernel", "memcpy", "runtime")}
    assert [row["dur_ns"] for row in found["kernel"]] == figures(text, "computeMs")
    assert [row["ts_ns"] for row in found["kernel"]] == figures(text, "startComputeMs")
    assert sum(row["dur_ns"] for row in found["memcpy"]) == sum(figures(text, "h2dMs")) + sum(figures(text, "d2hMs"))
    latencies = [json.loads(row["args"])["latency_ns"] for row in found["kernel"]]
    assert latencies == figures(text, "latencyMs")
    enqueued = zip(figures(text, "startEnqMs"), figures(text, "endEnqMs"), strict=True)
    assert [row["dur_ns"] for row in found["runtime"]] == [end - start for start, end in enqueued]
    assert "starts-rounded" in trace.ledgers[0].notes


def test_a_copy_that_was_not_made_has_no_row_and_old_names_of_copies_are_read(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text(
        '[{"startInMs": 1, "endInMs": 1, "startComputeMs": 1, "endComputeMs": 1.25, "startOutMs": 1.25,'
        ' "endOutMs": 1.5, "inMs": 0, "computeMs": 0.25, "outMs": 0.25}, {"startComputeMs": 2}, 3,'
        ' {"startComputeMs": 3, "endComputeMs": 3.5}]'
    )
    trace = tracekit.read(path)
    assert [(row["name"], row["ts_ns"], row["dur_ns"]) for row in trace.events.to_pylist()] == [
        ("compute", 1_000_000, 250_000), ("Memcpy DtoH", 1_250_000, 250_000), ("compute", 3_000_000, 500_000)
    ]  # fmt: skip
    assert trace.ledgers[0].dropped == {"bad-time": 2}


def test_a_cut_file_of_queries_keeps_the_whole_ones(tmp_path: Path) -> None:
    data = sample(TIMES).read_bytes()
    path = tmp_path / "cut.json"
    path.write_bytes(data[:4000])
    trace = tracekit.read(path)
    assert trace.ledgers[0].kept == data[:4000].count(b"}")
    assert trace.ledgers[0].dropped == {"torn-row": 1}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_has_the_figures_that_it_prints(name: str) -> None:
    text = re.sub(r"(?m)^\[[^\]]*\] \[.\] ", "", sample(name).read_text())
    trace = tracekit.read(sample(name))
    assert sure_readers(sample(name)) == ["tensorrt-log"]
    found = tables(trace)
    printed = re.findall(r"(?m)^([\w ]+): min = (\S+) ms, max = (\S+) ms, mean = (\S+) ms, median = (\S+) ms", text)
    for row, (part, *values) in zip(found["latency"], printed, strict=True):
        least, most, mean, median = (round(Decimal(value) * MS) for value in values)
        assert (row["part"], row["least"], row["most"], row["mean"], row["median"]) == (part, least, most, mean, median)
        (tail,) = re.findall(rf"(?m)^{part}: min.*percentile\(99%\) = (\S+) ms", text)
        assert row["percentile_99"] == round(Decimal(tail) * MS)
    (whole,) = found["throughput"]
    assert whole["qps"] == float(re.findall(r"Throughput: (\S+) qps", text)[0])
    assert whole["walltime"] == int(Decimal(re.findall(r"Total Host Walltime: (\S+) s", text)[0]) * 10**9)
    # The sum of the table is beside its rows, not one of them.
    layers = found["layers"]
    assert {row["calls"] for row in layers} == {180}
    assert len(layers) == 6
    (total,) = [row for row in rows(trace, "header") if row["name"] == "Total"]
    assert abs(sum(row["total"] for row in layers) - total["total_ns"]) <= 5_000 * len(layers)
    assert trace.run.devices == {(0, 0): "NVIDIA A100-SXM4-40GB"}


def test_both_orders_of_a_table_give_the_same_layers() -> None:
    first, second = (tables(tracekit.read(sample(name)))["layers"] for name in LOGS)
    assert first == second


def test_names_with_blanks_and_numbers_and_tables_without_a_median(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        "12:00 | [03/14/2025-09:26:53] [I] === Profile (10 iterations ) ===\n"
        "12:00 | [03/14/2025-09:26:53] [I]               Layer   Time (ms)   Avg. Time (ms)   Time %\n"
        "12:00 | [03/14/2025-09:26:53] [I]          12 conv 34.5       10.50           1.0500     70.0\n"
        "12:00 | [03/14/2025-09:26:53] [I]  Total        4.50           0.4500     30.0\n"
        "12:00 | [03/14/2025-09:26:53] [I]                 Total       15.00           1.5000    100.0\n"
        "=== Profile (5 iterations ) ===\n"
        "   Time(ms)     Avg.(ms)   Time(%)   Layer\n"
        "       3.00       0.6000     100.0   528 0.5\n"
    )
    trace = tracekit.read(path)
    found = [(row["run"], row["name"], row["calls"], row["total_ns"]) for row in rows(trace, "layers")]
    assert found == [(0, "12 conv 34.5", 10, 10_500_000), (0, "Total", 10, 4_500_000), (1, "528 0.5", 5, 3_000_000)]
    assert "table-cut" in trace.ledgers[0].notes


def test_a_log_between_other_output_cut_anywhere_keeps_its_count(tmp_path: Path) -> None:
    data = b"noise\n" * 20_000 + sample(LOGS[0]).read_bytes()
    rng = random.Random(8)
    path = tmp_path / "long.log"
    path.write_bytes(data)
    whole = tracekit.read(path)
    assert sure_readers(path) == ["tensorrt-log"] or whole.run.sources[0].format == "tensorrt-log"
    assert whole.totals.num_rows == 15
    for _ in range(5):
        path.write_bytes(data[: rng.randrange(len(data) - 2600, len(data))])
        ledger = tracekit.read(path, format="tensorrt-log").ledgers[0]
        ledger.check()


@pytest.mark.parametrize(
    ("names", "first", "shown"),
    [
        ((LOGS[0],), "takes 54 % of the time of all layers.", "Latency of a query"),
        ((PROFILE,), "takes 54 % of the time of all layers.", "Top layers (6 of 7"),
        ((LAYERS,), "7 layers, without times.", "  CaskGemmConvolution  fc"),
        ((NAMES,), "7 layers, without times.", "Layers (7 of 7)"),
        ((TIMES, PROFILE, LOGS[0]), "The GPU waits", "Latency of a query"),
    ],
)
def test_the_first_screen_is_about_queries_and_layers(names: tuple[str, ...], first: str, shown: str) -> None:
    summary = pipeline.summary(tracekit.read([str(sample(name)) for name in names]))
    assert summary.sections[0].view == "inference"
    text = pipeline.first_screen(summary, RenderOptions(width=80))
    assert first in text.splitlines()[0]
    assert shown in text
    assert len(text.splitlines()) <= 30

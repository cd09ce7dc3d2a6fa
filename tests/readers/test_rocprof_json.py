"""rocprofv3's JSON: ours against the database of the same run, odd records, damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import run_command, sample, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.model.trace import Trace

ONE = "rocprof-json/4242_results.json"
DATABASE = "rocpd/4242_results.db"
Document = dict[str, Any]


def rows_of(trace: Trace, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [row for row in trace.events.to_pylist() if row["kind"] == kind]
    return [row | {"args": json.loads(row["args"] or "{}"), "event_id": 0} for row in found]


@pytest.mark.parametrize("kind", ["kernel", "memcpy", "runtime", "driver", "communication", "user_range"])
def test_the_json_has_the_rows_of_the_database_of_the_same_run_in_every_column(kind: str) -> None:
    assert sure_readers(sample(ONE)) == ["rocprof-json"]
    found = [sorted(rows_of(tracekit.read(sample(path)), kind), key=str) for path in (ONE, DATABASE)]
    assert found[0] == found[1]


def test_allocations_have_the_bytes_of_the_database_of_the_same_run() -> None:
    keys = ("ts_ns", "dur_ns", "bytes", "device", "correlation")
    found = [
        sorted(str([row[key] for key in keys]) for row in rows_of(tracekit.read(sample(path)), "memory"))
        for path in (ONE, DATABASE)
    ]
    assert found[0] == [text.replace("65536", "None") for text in found[1]]  # scratch memory has no size here
    rows = rows_of(tracekit.read(sample(ONE)), "memory")
    assert {row["args"].get("address") for row in rows} == {0x7F00_0000_0000, 0x7F00_0900_0000, None}


def test_counters_are_those_of_the_database_with_instances_added_up() -> None:
    keys = ("name", "calls", "value_min", "value_max", "value_avg", "device")
    found = [
        sorted((*(row[key] for key in keys), json.loads(row["args"])["metric"]) for row in trace.totals.to_pylist())
        for trace in (tracekit.read(sample(path)) for path in (ONE, DATABASE))
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 4


def test_the_run_has_its_command_host_and_gpus() -> None:
    run = tracekit.read(sample(ONE)).run
    assert run.sources[0].facts == {"tool": "ROCprofiler-SDK", "command": "./multiply --rank 0", "host": "mi300"}
    assert run.devices == {(0, 0): "AMD Instinct MI300X", (0, 1): "AMD Instinct MI300X"}


def changed(tmp_path: Path, change: Callable[[Document], None]) -> Path:
    document = json.loads(sample(ONE).read_bytes())
    change(document)
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


def test_processes_stay_apart(tmp_path: Path) -> None:
    def twice(document: Document) -> None:
        other = json.loads(json.dumps(document["rocprofiler-sdk-tool"][0]))
        other["metadata"]["pid"] = 4300
        document["rocprofiler-sdk-tool"].append(other)

    trace = tracekit.read(changed(tmp_path, twice))
    trace.ledgers[0].check()
    assert sorted({row["pid"] for row in rows_of(trace, "kernel")}) == [4242, 4300]
    assert [row["calls"] for row in trace.totals.to_pylist()] == [6, 6, 6, 6]
    assert len(set(trace.events["event_id"].to_pylist())) == len(trace.events)


def test_odd_records_cost_themselves_alone(tmp_path: Path) -> None:
    def spoil(document: Document) -> None:
        records = document["rocprofiler-sdk-tool"][0]["buffer_records"]
        kernels, calls = records["kernel_dispatch"], records["hip_api"]
        kernels[0]["end_timestamp"] = 5
        kernels[1]["dispatch_info"]["kernel_id"] = 99
        kernels[2]["start_timestamp"] = "soon"
        kernels[3] |= {"start_timestamp": 0, "end_timestamp": 0}
        kernels[4]["correlation_id"]["internal"] = 1 << 70
        calls[0] |= {"kind": 77, "operation": 5}
        calls[1]["operation"] = 99
        del calls[2]["start_timestamp"]
        records["pc_sample_host_trap"] = [{"timestamp": 5}, {"timestamp": 6}]
        records["new_api"] = [{"kind": 0, "start_timestamp": 1, "end_timestamp": 2}]

    trace = tracekit.read(changed(tmp_path, spoil))
    ledger = trace.ledgers[0]
    ledger.check()
    assert ledger.dropped == {"bad-record": 1, "ends-before-start": 1, "no-time": 2}
    assert ledger.ignored == {"pc_sample_host_trap": 2}
    names = trace.events["name"].to_pylist()
    assert {"kernel 99", "kind 77 operation 5", "HIP_RUNTIME_API_EXT operation 99"} <= set(names)


@pytest.mark.parametrize("key", ["metadata", "agents", "counters", "strings", "kernel_symbols"])
def test_a_file_without_names_keeps_its_events(key: str, tmp_path: Path) -> None:
    path = changed(tmp_path, lambda document: document["rocprofiler-sdk-tool"][0].pop(key))
    trace = tracekit.read(path)
    trace.ledgers[0].check()
    assert len(trace.events) == len(tracekit.read(sample(ONE)).events)


def test_what_is_damaged_or_foreign_gets_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ('{"rocprofiler-sdk-tool": [{"metadata": {"pid"', '{"rocprofiler-sdk-tool": 7}', "{}", "7"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ParseError):
            tracekit.read(path, format="rocprof-json")
    path.write_text('{"rocprofiler-sdk-tool": [{"buffer_records": {"hip_api": {}}}]}', encoding="utf-8")
    with pytest.raises(ParseError, match="a list of records is no list"):
        tracekit.read(path)
    assert run_command("summary", path, code=1).output.startswith("error: ")

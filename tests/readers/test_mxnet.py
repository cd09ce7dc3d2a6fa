"""MXNet's own trace, held against json and against the totals that the same run printed; Mini-Caffe's beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import corpus, sample, sure_readers
from trace_event_cases import args_of, ledger_adds_up, plain, rows

import tracekit

REAL = ["mxnet/mxnet_1.9.1_profile.json", "generated/mxnet/mxnet_profile.json"]


@pytest.mark.parametrize("name", REAL)
def test_every_record_is_accounted_for_and_sums_are_those_of_the_pairs(name: str, tmp_path: Path) -> None:
    (tmp_path / "unknown").write_bytes(corpus(name).read_bytes())
    assert sure_readers(tmp_path / "unknown") == ["mxnet"]
    events, _ = plain(corpus(name))
    ledger = ledger_adds_up(corpus(name), "mxnet")
    phases = [e["ph"] for e in events]
    assert ledger["read"] == len(events)
    assert ledger["merged"] == sum(p in ("E", "e", ")") for p in phases)
    assert ledger["facts"] == phases.count("M")
    assert not ledger["dropped"]
    sign = {"B": -1, "b": -1, "(": -1, "E": 1, "e": 1, ")": 1}
    want: dict[str, int] = {}
    for event in events:
        if event["ph"] in sign:
            want[event["name"]] = want.get(event["name"], 0) + sign[event["ph"]] * event["ts"] * 1000
    found: dict[str, int] = {}
    for row in rows(tracekit.read(corpus(name))):
        if row["dur_ns"] is not None:
            assert row["dur_ns"] >= 0
            found[row["name"]] = found.get(row["name"], 0) + row["dur_ns"]
    assert found == want


def test_totals_are_those_that_the_same_run_printed() -> None:
    printed = json.loads(corpus("generated/mxnet/mxnet_stats.total.json").read_text(encoding="utf-8"))
    found: dict[str, list[int]] = {}
    for row in rows(tracekit.read(corpus("generated/mxnet/mxnet_profile.json"))):
        if row["kind"] == "operator" and row["tid"] is not None:
            found.setdefault(row["name"], []).append(row["dur_ns"])
    compared = 0
    for name, stats in printed["Time"]["operator"].items():
        if name in found and stats["Count"] == len(found[name]):
            assert abs(sum(found[name]) / 1e6 - stats["Total"]) < 1e-3 * len(found[name]) + 1e-3
            compared += 1
    assert compared


def test_ids_of_64_bits_are_kept_as_text_and_frames_are_ranges() -> None:
    trace = tracekit.read(corpus(REAL[0]))
    assert ("tid", "13327046024300444231") in {(k[0], v) for k, v in trace.run.ids.items()}
    frame = next(r for r in rows(trace) if r["name"] == "frame1")
    assert (frame["dur_ns"], frame["tid"]) == ((1795226718600822 - 1795226718545661) * 1000, None)
    assert args_of(frame)["cat"] == "mydomain,frame"
    assert trace.run.origin_ns == 0
    assert trace.run.processes[0, 0] == "cpu/0"


def test_a_quote_in_a_name_costs_nothing(tmp_path: Path) -> None:
    text = corpus(REAL[1]).read_text(encoding="utf-8").replace('"name": "mytask"', '"name": "my "best" task"')
    (tmp_path / "x").write_text(text, encoding="utf-8")
    trace = tracekit.read(tmp_path / "x")
    assert [r["dur_ns"] for r in rows(trace) if r["name"] == 'my "best" task'] == [1431000]
    assert len(trace.events) == len(tracekit.read(corpus(REAL[1])).events)
    assert "mended-json" in trace.ledgers[0].notes


@pytest.mark.parametrize("order", [["ph", "args", "pid", "name"], ["args", "name", "ph", "pid"]])
def test_profiles_before_1_2_count_from_no_stated_clock_and_hold_operators(order: list[str], tmp_path: Path) -> None:
    """Emitted by src/engine/profiler.cc of MXNet 0.8 to 1.1; the second order is that of forks that print sorted."""
    process = {"ph": "M", "args": {"name": "gpu/0"}, "pid": 1, "name": "process_name"}

    def event(name: str, phase: str, ts: int) -> dict[str, Any]:
        return {"name": name, "cat": "category", "ph": phase, "ts": ts, "pid": 1, "tid": 3401725696}

    listed = [
        {key: process[key] for key in order},
        event("[Convolution,Activation]", "B", 2_893_612), event("[Convolution,Activation]", "E", 2_893_712),
        event("CopyCPU2GPU", "B", 2_893_012), event("CopyCPU2GPU", "E", 2_893_512),
    ]  # fmt: skip
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"traceEvents": listed, "displayTimeUnit": "ms"}, indent=4), encoding="utf-8")
    assert sure_readers(path) == ["mxnet"]
    trace = tracekit.read(path)
    assert [(r["name"], r["kind"], r["dur_ns"]) for r in rows(trace)] == [
        ("CopyCPU2GPU", "operator", 500_000), ("[Convolution,Activation]", "operator", 100_000)
    ]  # fmt: skip
    assert trace.run.origin_ns is None
    assert trace.run.processes == {(0, 1): "gpu/0"}


def test_mini_caffe_scopes_in_order_of_their_ends() -> None:
    path = sample("mini-caffe/three-steps.json")
    assert sure_readers(path) == ["mini-caffe"]
    trace = tracekit.read(path)
    found = {r["name"]: (r["ts_ns"], r["dur_ns"]) for r in rows(trace)}
    assert found["step0"] == (100_000, 321_000)
    assert found["step1:forward:relu1"] == (638_000, 0)
    assert found["step2:forward:fc"] == (997_000, 77_000)
    assert len(found) == 18
    assert trace.ledgers[0].merged == 18
    assert trace.run.origin_ns is None


def test_mini_caffe_cut_anywhere_keeps_its_whole_pairs(tmp_path: Path) -> None:
    data = sample("mini-caffe/three-steps.json").read_bytes()
    whole = {r["name"]: r["dur_ns"] for r in rows(tracekit.read(sample("mini-caffe/three-steps.json")))}
    for cut in range(400, len(data), 61):
        (tmp_path / "x").write_bytes(data[:cut])
        found = [r for r in rows(tracekit.read(tmp_path / "x", format="mini-caffe")) if r["dur_ns"] is not None]
        assert all(whole[r["name"]] == r["dur_ns"] for r in found)
        assert len(found) >= data[:cut].count(b"}") // 2 - 1


@pytest.mark.parametrize("begin", [",\n", " \n , ", "", "\n,\r\n,"])
@pytest.mark.parametrize("end", ["", ",", "\n]", '\n    ],\n    "displayTimeUnit": "ms"\n}\n'])
def test_a_piece_of_a_trace_that_was_dumped_bit_by_bit_is_read(begin: str, end: str, tmp_path: Path) -> None:
    """A program that dumps without finishing appends to the file; pieces of it begin with the comma between events."""
    events = [
        {"name": "Convolution", "cat": "operator", "ph": phase, "ts": 1000 + 20 * n, "pid": 1, "tid": 7}
        for n, phase in enumerate("BE" * 20)
    ]
    path = tmp_path / "x.json"
    path.write_text(begin + ",\n".join(json.dumps(event, indent=4) for event in events) + end, encoding="utf-8")
    assert sure_readers(path) == ["mxnet"]
    assert ledger_adds_up(path, "mxnet")["merged"] == 20
    found = rows(tracekit.read(path))
    assert [(r["kind"], r["dur_ns"]) for r in found] == [("operator", 20_000)] * 20


def test_a_text_that_begins_with_a_comma_is_not_a_trace_for_that(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in (",", ',{"a": 1}', ", 1, 2", ',{"ph": 7}'):
        path.write_text(text, encoding="utf-8")
        assert sure_readers(path) == []

"""The doctor on small odd traces, beside what Perfetto's engine does with them, before and after the repair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from doctor_cases import CASES
from support import corpus
from viewers import perfetto

import tracekit
from tracekit.doctor import Repair, diagnose, repair

QUIET = {
    "loose-json", "bad-escape", "wide-id", "negative-duration", "second-list", "bad-encoding", "flow-backwards",
    "unmatched-begin", "unmatched-end", "unmatched-flow", "unknown-phase", "clock-reset", "unknown-number", "bad-json",
    "torn-tail",
}  # fmt: skip
"""Defects that Perfetto takes without an error, always or in some of the cases."""


def codes(path: Path) -> set[str]:
    found = diagnose(str(path))
    remarks = {each.defect.code for each in found.remarks} - {"remark"}
    return {each.defect.code for each in found.findings} | {f"~{code}" for code in remarks}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, set[str]]:
    data, named = CASES[request.param]
    path = tmp_path / request.param
    path.write_bytes(data)
    return path, set(named.split())


def adds_up(done: Repair) -> bool:
    parts = done.kept + done.changed + done.merged + done.facts + sum(done.ignored.values())
    return done.read == parts + sum(done.dropped.values()) and min(done.kept, done.changed) >= 0


def test_each_oddity_is_named(case: tuple[Path, set[str]]) -> None:
    path, named = case
    assert codes(path) == named


@pytest.mark.viewer
def test_perfetto_counts_errors_only_where_the_doctor_names_something(case: tuple[Path, set[str]]) -> None:
    path, named = case
    seen = perfetto(path)
    troubled = not seen["accepted"] or bool(seen["errors"])
    assert not troubled or named
    assert troubled or not {code for code in named if code[0] != "~"} - QUIET


@pytest.mark.viewer
@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".pftrace"])
def test_a_repaired_trace_opens_without_an_error(case: tuple[Path, set[str]], tmp_path: Path, suffix: str) -> None:
    path, _ = case
    target = tmp_path / f"repaired{suffix}"
    done = repair(str(path), target)
    assert adds_up(done)
    assert done.after is None or done.after.is_clean
    seen = perfetto(target)
    assert seen["accepted"]
    assert seen["errors"] == {}
    lines = [json.loads(line) for line in done.ledger.read_text(encoding="utf-8").splitlines()]
    assert lines.pop()["summary"]["read"] == done.read
    listed = {line["record"] for line in lines if line["defect"] != "arrow" and "count" not in line}
    assert len(listed) == done.changed


def test_a_trace_without_defects_comes_back_as_it_is(case: tuple[Path, set[str]], tmp_path: Path) -> None:
    path, named = case
    if not named and path.suffix == ".json":
        target = tmp_path / "same.json"
        done = repair(str(path), target)
        assert target.read_bytes() == path.read_bytes()
        assert (done.changed, done.changes) == (0, {})


def test_a_packed_trace_without_defects_comes_back_equal(tmp_path: Path) -> None:
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(CASES["packed.json.gz"][0])
    repair(str(packed), tmp_path / "plain.json")
    repair(str(tmp_path / "plain.json"), tmp_path / "again.json.gz")
    assert tracekit.read(tmp_path / "again.json.gz").events == tracekit.read(packed).events


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        ("kineto/hta_alexnet.json.gz", 8),
        ("jax/jax_trace.json.gz", 5),
        ("generated/torch/sched1.pt.trace.json", 21),
        ("generated/paddle26/workers.0.json", 60),
        ("generated/paddle3/all.0.json", 39),
        ("generated/torch/plain.pt.trace.json", 0),
        ("kineto/hta_event_sync_multi_stream.json.gz", 0),
    ],
)
@pytest.mark.viewer
def test_as_many_slices_cross_as_perfetto_drops(name: str, dropped: int) -> None:
    path = corpus(name)
    found = {each.defect.code: each.count for each in diagnose(str(path)).findings}
    assert found.get("overlapping-slices", 0) == dropped
    assert perfetto(path)["errors"].get("slice_drop_overlapping_complete_event", 0) == dropped

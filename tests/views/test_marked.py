"""Findings as rows of a converted trace: each mark lies over its event, and the events themselves stay as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pftrace import decode
from support import run_command, sample

import tracekit
from tracekit.errors import UsageError

SAMPLES = ["nvprof-csv/gpu-and-api-trace.csv", "kineto/gpu.pt.trace.json", "nsys-sqlite/nvtx-v2.sqlite"]


@pytest.mark.parametrize("name", SAMPLES)
def test_marks_lie_over_the_events_that_findings_name(name: str, tmp_path: Path) -> None:
    trace = tracekit.read(sample(name))
    findings = tracekit.view(trace, "findings").findings
    assert findings
    done = tracekit.convert(sample(name), tmp_path / "out.json", findings=True)
    back = tracekit.read(tmp_path / "out.json")
    rows = back.events.select(["name", "ts_ns", "dur_ns", "args"]).to_pylist()
    marks = [row for row in rows if str(row["name"]).startswith("finding ")]
    first = min(trace.events.column("ts_ns").to_pylist()) - min(row["ts_ns"] for row in rows)
    at = {row["event_id"]: (row["ts_ns"] - first, row["dur_ns"]) for row in trace.events.to_pylist()}
    expected = sorted(
        (f"finding {number}: {finding.rule}", *at[event])
        for number, finding in enumerate(findings, 1)
        for event in finding.events
        if at[event][1] is not None
    )
    assert sorted((row["name"], row["ts_ns"], row["dur_ns"]) for row in marks) == expected
    said = {str(row["name"]): json.loads(row["args"]) for row in marks}
    for number, finding in enumerate(findings, 1):
        if facts := said.get(f"finding {number}: {finding.rule}"):
            assert facts["claim"] == finding.claim
            assert facts["could_save_ns"] == finding.saving_ns
    assert done.written.events == len(trace.events) + len(marks)
    assert any(note.startswith(f"{len(marks):,} of the events are marks") for note in done.written.notes)


def test_without_the_marks_the_trace_is_the_same(tmp_path: Path) -> None:
    source = sample("kineto/gpu.pt.trace.json")
    tracekit.convert(source, tmp_path / "plain.json")
    tracekit.convert(source, tmp_path / "marked.json", findings=True)

    def events(name: str) -> list[str]:
        found = json.loads((tmp_path / name).read_bytes())["traceEvents"]
        kept = [each for each in found if each["ph"] in "XCi" and not str(each.get("name")).startswith("finding ")]
        return sorted(
            json.dumps({key: each[key] for key in ("name", "ts", "dur", "args") if key in each}) for each in kept
        )

    assert events("plain.json") == events("marked.json")


def test_a_finding_of_one_rank_is_marked_in_its_process(tmp_path: Path) -> None:
    source = [sample(f"recorder-log/rank{rank}.jsonl") for rank in (0, 1)]
    findings = [each for each in tracekit.view(source, "findings").findings if each.events]
    tracekit.convert(source, tmp_path / "out.json", findings=True)
    marks = [
        row
        for row in tracekit.read(tmp_path / "out.json").events.to_pylist()
        if str(row["name"]).startswith("finding ")
    ]
    assert {row["name"].split(": ")[1] for row in marks} <= {each.rule for each in findings}


def test_perfetto_has_the_marks(tmp_path: Path) -> None:
    run_command("convert", sample(SAMPLES[0]), "-o", tmp_path / "out.pftrace", "--findings")
    found = decode(tmp_path / "out.pftrace")
    marks = [each for each in found.slices if (each.name or "").startswith("finding 1: ")]
    assert marks
    assert all("claim" in each.args and "finding 1: " in found.tracks[each.track]["name"] for each in marks)


def test_findings_need_a_timeline_and_a_whole_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not for a viewer"):
        tracekit.convert(sample(SAMPLES[0]), tmp_path / "out.parquet", findings=True)
    with pytest.raises(UsageError, match="not with split"):
        tracekit.convert(sample(SAMPLES[0]), tmp_path / "out.json", findings=True, split="events=10")
    said = run_command(
        "convert", sample(SAMPLES[0]), "-o", tmp_path / "x.json", "--findings", "--max-events", "5", code=2
    )
    assert "--findings" in said.stderr
    assert not any(tmp_path.iterdir())

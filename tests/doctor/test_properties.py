"""Properties of the doctor over random traces: crossing slices counted one by one, arrows, and repairs that add up."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tracekit.doctor import diagnose, repair

Slice = tuple[int, int, int]
"""Track, start and duration in µs."""
SLICES = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 30), st.integers(0, 15)), max_size=14)
POINTS = st.lists(
    st.tuples(st.sampled_from("sft"), st.integers(1, 3), st.integers(1, 2), st.integers(0, 45), st.booleans()),
    max_size=8,
)


def crossing(slices: list[Slice]) -> int:
    """Count the slices that start in the innermost open slice of their track and end after it."""
    open_: dict[int, list[int]] = {}
    count = 0
    for track, start, duration in sorted(slices, key=lambda one: (one[1], -one[2])):
        ends = open_.setdefault(track, [])
        while ends and ends[-1] <= start:
            ends.pop()
        if ends and start + duration > ends[-1]:
            count += 1
        elif duration:
            ends.append(start + duration)
    return count


def written(folder: str, slices: list[Slice], more: list[dict[str, object]]) -> Path:
    events = [
        {"ph": "X", "name": f"n{at}", "pid": 1, "tid": tid, "ts": ts, "dur": dur}
        for at, (tid, ts, dur) in enumerate(slices)
    ]
    path = Path(folder) / "trace.json"
    path.write_text(json.dumps({"traceEvents": events + more}), encoding="utf-8")
    return path


@given(SLICES)
def test_each_slice_that_crosses_is_counted(slices: list[Slice]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = {each.defect.code: each for each in diagnose(str(written(folder, slices, []))).findings}
    assert set(found) <= {"overlapping-slices"}
    assert (found["overlapping-slices"].count if found else 0) == crossing(slices)


@given(SLICES, POINTS)
def test_a_repair_leaves_no_defect_and_accounts_for_every_record(
    slices: list[Slice], points: list[tuple[str, int, int, int, bool]]
) -> None:
    more: list[dict[str, object]] = [
        {"ph": ph, "id": number, "name": "go", "cat": "c", "pid": 1, "tid": tid, "ts": ts}
        | ({"bp": "e"} if ph == "f" and bound else {})
        for ph, number, tid, ts, bound in points
    ]
    with tempfile.TemporaryDirectory() as folder:
        done = repair(str(written(folder, slices, more)), Path(folder) / "repaired.json")
    assert done.after is not None
    assert [each.defect.code for each in done.after.findings] == []
    parts = done.kept + done.changed + done.merged + done.facts + sum(done.ignored.values())
    assert done.read == len(slices) + len(points) == parts + sum(done.dropped.values())
    assert done.written + sum(done.dropped.values()) == done.read

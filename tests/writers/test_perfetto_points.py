"""The slice that a point of an arrow belongs to, found for all points of a batch at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from doors.writers import POINTS, Points
from hypothesis import given
from support import run_command
from writing import dense_tables

from tracekit.inputs.order import in_order
from tracekit.model.trace import Run
from tracekit.writers.base import Written
from tracekit.writers.tracks.batch import END, SLICE, Loader


def slice_of(points: Points, row: int, before: Points | None) -> tuple[Points, int] | None:
    """Return the innermost slice around the point, else the last one before it; for phase END the next one."""
    batch = points.batch
    track, time = int(batch.track[row]), int(batch.ts[row])

    def slices(each: Points) -> list[int]:
        return np.flatnonzero((each.batch.track == track) & (each.batch.phase == SLICE)).tolist()

    earlier, later = [at for at in slices(points) if at < row], [at for at in slices(points) if at > row]
    if int(batch.phase[row]) == END:
        return (points, later[0]) if later else None
    if earlier and batch.ts[earlier[-1]] == time and batch.dur[earlier[-1]] == 0:
        return points, earlier[-1]
    candidates = [(points, at) for at in reversed(earlier)]
    candidates += [(before, at) for at in reversed(slices(before))] if before is not None else []
    for holder, at in candidates:
        if holder.batch.ts[at] + holder.batch.dur[at] > time:
            return holder, at
    return candidates[0] if candidates else None


@given(dense_tables())
def test_points_are_on_the_slices_around_them(table: pa.Table) -> None:
    ordered = pa.Table.from_batches(list(in_order(iter(table.to_batches()))), table.schema).combine_chunks()
    loader = Loader(Run(), Written(Path("x")), asynchronous=False)
    before: Points | None = None
    half = ordered.num_rows // 2
    for part in (ordered.slice(0, half), ordered.slice(half)):
        batch = loader.load(part.combine_chunks()) if part.num_rows else None
        if batch is None:
            continue
        loader.carry(batch)
        points = Points(batch, 0, np.empty(0, np.int64))
        rows = batch.points.row[np.isin(batch.phase[batch.points.row], list(POINTS))].tolist()
        for known in (None, before):
            expected = {row: slice_of(points, row, known) for row in rows}
            found = points.slices_of(known)
            columns = zip(batch.points.row.tolist(), found.row.tolist(), found.in_before.tolist(), strict=True)
            slices = {row: None if at < 0 else (known if earlier else points, at) for row, at, earlier in columns}
            assert {row: slices[row] for row in rows} == expected
        before = points


@pytest.mark.parametrize("target", ["t.pftrace", "t.json"])
def test_rows_that_are_left_out_are_one_note_in_words(tmp_path: Path, target: str) -> None:
    source = tmp_path / "in.json"
    source.write_text(
        '[{"ph":"X","name":"a","ts":1,"dur":1,"pid":1,"tid":1},\n'
        '{"ph":"f","name":"x","cat":"c","id":7,"ts":1.5,"pid":1,"tid":1}]\n'
    )
    notes = [
        line for line in run_command("convert", source, "-o", tmp_path / target).stderr.splitlines() if "1 " in line
    ]
    assert not [line for line in notes if "arrow-points-that" in line]
    assert len([line for line in notes if "flow events" in line]) == 1

"""CSV as Python's own csv module and pandas read it."""

from __future__ import annotations

import csv
import gzip
import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from strategies import tables
from writing import check_full_disk, peak_kilobytes

from tracekit.errors import OutputExistsError
from tracekit.model import schema
from tracekit.model.trace import Run
from tracekit.readers.builder import event_batch, totals_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions, Written

TOTALS = totals_batch(2, {"source": 0, "run": 0, "section": "gpu", "order": np.arange(2), "calls": 5})


def events(rows: int = 2, **columns: object) -> pa.RecordBatch:
    base = {"ts_ns": np.arange(rows), "event_id": np.arange(rows), "kind": "kernel", "source": 0}
    return event_batch(rows, base | columns)


def write(target: Path, *batches: pa.RecordBatch, force: bool = False) -> Written:
    return WRITERS["csv"].write(RowStream(Run(), iter(batches)), target, WriteOptions(force=force))


def test_a_row_is_the_columns_of_the_schema(tmp_path: Path) -> None:
    batch = events(1, name='void a<"x">(int, int)', dur_ns=35, args='{"x":1}')
    write(tmp_path / "a.csv", batch)
    assert (tmp_path / "a.csv").read_bytes() == (
        ",".join(schema.EVENTS.names).encode()
        + b'\n0,35,0,"void a<""x"">(int, int)",,"kernel",0' + b"," * 21 + b'"{""x"":1}"\n'
    )  # fmt: skip


def _parsed(text: str, kind: pa.DataType, *, quoted: bool) -> object:
    if text == "" and not quoted:
        return None
    if pa.types.is_integer(kind):
        return int(text)
    return repr(float(text)) if kind == pa.float64() else text


def _cells(data: str) -> list[list[tuple[str, bool]]]:
    """The cells with whether they stood in quotes, which csv does not tell."""
    rows, row, place = [], [], 0
    while place < len(data):
        quoted = data[place] == '"'
        if quoted:
            end = place + 1
            while data[end] != '"' or data[end + 1 : end + 2] == '"':
                end += 2 if data[end] == '"' else 1
            row.append((data[place + 1 : end].replace('""', '"'), True))
            place = end + 1
        else:
            end = min(at for at in (data.find(",", place), data.find("\n", place)) if at >= 0)
            row.append((data[place:end], False))
            place = end
        if data[place] == "\n":
            rows.append(row)
            row = []
        place += 1
    return rows


@pytest.mark.parametrize("table", ["events", "totals"])
def test_every_value_stands_in_its_cell(table: str, tmp_path: Path) -> None:
    want = schema.EVENTS if table == "events" else schema.TOTALS

    @given(tables(table))
    def check(rows: pa.Table) -> None:
        write(tmp_path / "a.csv", *rows.to_batches(), force=True)
        text = (tmp_path / "a.csv").read_bytes().decode()
        found = _cells(text)
        assert list(csv.reader(io.StringIO(text, newline="")))[1:] == [[c for c, _ in row] for row in found[1:]]
        if not rows.num_rows:
            return
        assert [c for c, _ in found[0]] == want.names
        for row, cells in zip(rows.to_pylist(), found[1:], strict=True):
            for field, (cell, quoted) in zip(want, cells, strict=True):
                value = row[field.name]
                value = repr(value) if isinstance(value, float) else value
                assert _parsed(cell, field.type, quoted=quoted) == value

    check()


def test_pandas_reads_it(tmp_path: Path) -> None:
    write(
        tmp_path / "a.csv",
        events(3, name="gemm", value=np.array([math.nan, math.inf, 0.1]), dur_ns=pa.array([1, None, 1 << 60])),
    )
    frame = pd.read_csv(tmp_path / "a.csv", dtype={"dur_ns": "Int64"})
    assert frame["dur_ns"].tolist() == [1, pd.NA, 1 << 60]
    assert frame["value"].tolist()[1:] == [math.inf, 0.1]


def test_totals_alone_are_the_table(tmp_path: Path) -> None:
    done = write(tmp_path / "a.csv", TOTALS)
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [(row["section"], row["calls"]) for row in rows] == [("gpu", "5")] * 2
    assert (done.events, done.totals, done.left_out) == (0, 2, {})


def test_totals_beside_events_are_counted_and_noted(tmp_path: Path) -> None:
    done = write(tmp_path / "a.csv", TOTALS, events())
    assert (done.events, done.totals, done.left_out) == (2, 0, {"totals-beside-events": 2})
    assert "--to parquet" in done.notes[0]


def test_nothing_to_write_is_a_header(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == ",".join(schema.EVENTS.names) + "\n"


def test_packed_holds_the_same_and_repeats(tmp_path: Path) -> None:
    for name in ("a.csv", "a.csv.gz", "b.csv.gz"):
        write(tmp_path / name, events())
    packed = (tmp_path / "a.csv.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "a.csv").read_bytes()
    assert packed == (tmp_path / "b.csv.gz").read_bytes()


def test_an_existing_file_stays_without_force(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(OutputExistsError):
        write(tmp_path / "a.csv", events())
    assert (tmp_path / "a.csv").read_text() == "old"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.csv.zst"])
def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, name: str) -> None:
    check_full_disk(tmp_path / name, "csv")


def test_memory_stays_flat(tmp_path: Path) -> None:
    peaks = [peak_kilobytes(tmp_path / f"{n}.csv.gz", "csv", batches=n) for n in (4, 24)]
    assert peaks[1] < 1.2 * peaks[0]

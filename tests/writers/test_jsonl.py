"""JSON Lines as other programs see them: every line JSON, exact numbers, the same bytes each time."""

from __future__ import annotations

import gzip
import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from doors.writers import jsonl_cut
from hypothesis import given
from small_limits import Limit, small
from strategies import rows_of, traces
from support import run_command, sample
from writing import check_full_disk, peak_kilobytes

from tracekit import pipeline
from tracekit.errors import OutputExistsError
from tracekit.model import schema
from tracekit.model.trace import Ledger, Run, SourceFacts, Trace
from tracekit.readers.builder import event_batch, totals_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions


def events(**columns: object) -> pa.RecordBatch:
    base = {"ts_ns": np.arange(2) * 10, "event_id": np.arange(2), "kind": "kernel", "source": 0}
    return event_batch(2, base | columns)


def written(target: Path, *batches: pa.RecordBatch) -> list[str]:
    run = Run(sources=[SourceFacts("x.csv", "nvprof-csv")])
    WRITERS["jsonl"].write(
        RowStream(run, iter(batches), (Ledger(path="x.csv", read=2, kept=2),)), target, WriteOptions()
    )
    return target.read_text(encoding="utf-8").split("\n")


def lines_of(batch: pa.RecordBatch) -> list[bytes]:
    """Return the lines of the rows of a batch."""
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder) / "a.jsonl", batch)
        return (Path(folder) / "a.jsonl").read_bytes().splitlines()[1:-1]


def test_a_file_is_header_totals_events_end(tmp_path: Path) -> None:
    totals = totals_batch(1, {"source": 0, "run": 0, "section": "gpu", "order": 0, "name": "gemm", "calls": 4})
    lines = written(tmp_path / "a.jsonl", totals, events(name="gemm", dur_ns=pa.array([1, None])))
    head, end = json.loads(lines[0]), json.loads(lines[-2])
    assert lines[0].startswith('{"tracekit":"events-jsonl","schema":1,')
    assert head["run"]["sources"][0]["path"] == "x.csv"
    assert lines[1:-2] == [
        '{"table":"totals","source":0,"run":0,"section":"gpu","order":0,"name":"gemm","calls":4}',
        '{"ts_ns":0,"dur_ns":1,"event_id":0,"name":"gemm","kind":"kernel","source":0}',
        '{"ts_ns":10,"event_id":1,"name":"gemm","kind":"kernel","source":0}',
    ]
    assert (end["tracekit"], end["events"], end["totals"], end["ledger"][0]["kept"]) == ("end", 2, 1, 2)
    assert lines[-1] == ""


def test_text_is_escaped_as_json_and_not_beyond(tmp_path: Path) -> None:
    names = ['a"b\\c\n\0\x1f', "é🚀\u2028</script>"]
    lines = written(tmp_path / "a.jsonl", events(name=pa.array(names)))
    assert [json.loads(line)["name"] for line in lines[1:3]] == names
    assert "é🚀\u2028</script>" in lines[2]


def test_numbers_that_json_lacks_are_named() -> None:
    values = np.array([math.nan, math.inf, -math.inf, -0.0, 0.1, 1e22])
    batch = event_batch(6, {"ts_ns": 0, "event_id": 0, "kind": "counter", "source": 0, "value": values})
    found = [json.loads(line)["value"] for line in lines_of(batch)]
    assert [repr(v) for v in found] == ["'NaN'", "'Infinity'", "'-Infinity'", "-0.0", "0.1", "1e+22"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ("{}", {}),
        ('{"a":\n1}', '{"a":\n1}'),
        ("[1]", "[1]"),
        ("{broken", "{broken"),
        ('{"a":1},{"b":2}', '{"a":1},{"b":2}'),
        ("", ""),
        ('{"a":"\\ud800"}', '{"a":"\\ud800"}'),
    ],
)
def test_args_are_an_object_or_the_text_that_is_none(text: str, value: object) -> None:
    for others in ([], ['{"z":0}']):
        texts = [text, *others]
        batch = event_batch(
            len(texts), {"ts_ns": 0, "event_id": 0, "kind": "mark", "source": 0, "args": pa.array(texts)}
        )
        lines = lines_of(batch)
        assert len(lines) == len(texts)
        assert json.loads(lines[0])["args"] == value


def test_halves_that_only_together_are_json_stay_text() -> None:
    texts = ['{"a":1', '"b":2}']
    batch = event_batch(2, {"ts_ns": 0, "event_id": 0, "kind": "mark", "source": 0, "args": pa.array(texts)})
    assert [json.loads(line)["args"] for line in lines_of(batch)] == texts


@given(trace=traces())
def test_each_line_is_one_json_object_with_the_values_of_its_row(trace: Trace, tmp_path: Path) -> None:
    pipeline.write(trace, tmp_path / "a.jsonl", force=True)
    lines = (tmp_path / "a.jsonl").read_bytes().split(b"\n")[1:-2]
    want = rows_of(trace.totals) + rows_of(trace.events)
    assert len(lines) == len(want)
    for line, row in zip(lines, want, strict=True):
        found = json.loads(line)
        found.pop("table", None)
        assert found.keys() == {key for key, value in row.items() if value is not None}
        for key, value in found.items():
            if isinstance(row[key], int):
                assert value == row[key]


def test_packed_forms_hold_the_same_text_and_repeat(tmp_path: Path) -> None:
    batch = events(name="gemm")
    for name in ("a.jsonl", "a.jsonl.gz", "b.jsonl.gz", "a.jsonl.zst"):
        WRITERS["jsonl"].write(RowStream(Run(), iter([batch])), tmp_path / name, WriteOptions())
    plain = (tmp_path / "a.jsonl").read_bytes()
    packed = (tmp_path / "a.jsonl.gz").read_bytes()
    assert gzip.decompress(packed) == plain
    assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
    with (tmp_path / "a.jsonl.zst").open("rb") as file:
        assert zstandard.ZstdDecompressor().stream_reader(file).read() == plain


def test_long_texts_are_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [json.dumps({"a": "x" * 700}), None, "{}"] * 5
    columns = {"ts_ns": np.arange(15), "event_id": 0, "kind": "mark", "source": 0, "name": "n" * 500}
    batch = event_batch(15, columns | {"args": pa.array(texts)})
    whole = lines_of(batch)
    small(monkeypatch, Limit.JSONL_BYTES_AT_ONCE, 1 << 12)
    assert len(list(jsonl_cut(batch))) > 3
    assert lines_of(batch) == whole


def test_an_existing_file_stays_without_force(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("old")
    with pytest.raises(OutputExistsError):
        written(tmp_path / "a.jsonl", events())
    assert (tmp_path / "a.jsonl").read_text() == "old"


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, name: str) -> None:
    check_full_disk(tmp_path / name, "jsonl")


def test_memory_stays_flat(tmp_path: Path) -> None:
    peaks = [peak_kilobytes(tmp_path / f"{n}.jsonl.gz", "jsonl", batches=n) for n in (4, 24)]
    assert peaks[1] < 1.2 * peaks[0]


def test_nothing_to_write_is_a_header_and_an_end(tmp_path: Path) -> None:
    empty = pa.RecordBatch.from_pylist([], schema=schema.EVENTS)
    lines = written(tmp_path / "a.jsonl", empty)
    assert [json.loads(line)["tracekit"] for line in lines[:-1]] == ["events-jsonl", "end"]


def test_plain_rows_have_no_header_and_no_last_line(tmp_path: Path) -> None:
    whole, plain = tmp_path / "whole.jsonl", tmp_path / "plain.jsonl"
    run_command("convert", sample("nvprof-csv/gpu-and-api-trace.csv"), "-o", whole)
    run_command("convert", sample("nvprof-csv/gpu-and-api-trace.csv"), "-o", plain, "--plain")
    assert plain.read_bytes().splitlines() == whole.read_bytes().splitlines()[1:-1]
    refused = run_command("convert", sample("nvprof-csv/gpu-and-api-trace.csv"), "-o", "x.json", "--plain", code=2)
    assert "chrome cannot be written as plain rows" in refused.stderr
    assert "these can: jsonl" in refused.stderr

"""A query of an archive that a stranger made refuses what reading refuses, and says what was not checked."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_limits import Limit, small
from support import run_command, sample

from tracekit import archive
from tracekit.errors import TracekitError
from tracekit.inputs import InputOptions
from tracekit.queries import ask, query

pytest.importorskip("duckdb")
CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
COUNT = "SELECT count(*) AS n FROM events"
FACTS = ("schema", "table", "version", "run", "ledger", "totals", "archive")
Change = Callable[[pa.Table], pa.Table]


def remade(path: Path, change: Change, **check: Any) -> Path:
    """Change an archived file as somebody who knows the format: its checksums are right unless `check` has others."""
    table = change(pq.read_table(path))
    facts = {k.decode(): v for k, v in pq.read_metadata(path).metadata.items() if k.startswith(b"tracekit.")}
    facts["tracekit.check"] = b""
    for _ in range(2):
        with pq.ParquetWriter(path, table.schema.remove_metadata(), compression="zstd") as out:
            out.write_table(table)
            out.add_key_value_metadata(facts)  # type: ignore[arg-type]
        data = path.read_bytes()
        size = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
        joined = b"".join(facts[f"tracekit.{n}"] + b"\n" for n in FACTS if f"tracekit.{n}" in facts)
        found = {
            "data_bytes": size,
            "data_crc32": zlib.crc32(data[:size]),
            "facts_crc32": zlib.crc32(joined),
            "rows": table.num_rows,
        }
        facts["tracekit.check"] = json.dumps(found | check).encode()
    return path


def put(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def not_text(count: int) -> Any:
    raw = pa.array([b"ab\xff\xfe"] * count, pa.binary())
    return pa.Array.from_buffers(pa.string(), count, raw.buffers())


def same(table: pa.Table) -> pa.Table:
    return table


REFUSED: dict[str, tuple[Change, dict[str, Any]]] = {
    "fewer rows than its ledgers count": (lambda t: t.slice(0, 50), {}),
    "more rows than its ledgers count": (lambda t: pa.concat_tables([t, t]), {}),
    "another number of rows in the footer": (same, {"rows": 5}),
    "a wrong checksum of the data": (same, {"data_crc32": 5}),
    "a wrong checksum of the facts": (same, {"facts_crc32": 5}),
    "no checksums": (same, {"rows": None}),
    "a column less": (lambda t: t.drop_columns(["dur_ns"]), {}),
    "a column more": (lambda t: t.append_column("secret", t["ts_ns"]), {}),
    "a column of another type": (lambda t: put(t, "dur_ns", pa.array(["x"] * t.num_rows)), {}),
    "a null where none may be": (lambda t: put(t, "ts_ns", pa.nulls(t.num_rows, pa.int64())), {}),
    "a kind that is none": (lambda t: put(t, "kind", pa.array(["evil"] * t.num_rows).dictionary_encode()), {}),
    "a name that is no text": (lambda t: put(t, "name", not_text(t.num_rows).dictionary_encode()), {}),
    "args that are no text": (lambda t: put(t, "args", not_text(t.num_rows)), {}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_query_refuses_what_reading_refuses(what: str, tmp_path: Path) -> None:
    change, check = REFUSED[what]
    path = remade(Path(archive.add(tmp_path / "a", CSV, run="r").path), change, **check)
    for named in (path, tmp_path / "a"):
        with pytest.raises(TracekitError) as refused:
            query(named, COUNT)
        assert path.name in str(refused.value), str(refused.value)
    shown = run_command("query", tmp_path / "a", "SELECT max(name) FROM events", code=1)
    assert path.name in shown.stderr
    assert "bug" not in shown.stderr


def test_a_changed_file_that_is_sound_is_read(tmp_path: Path) -> None:
    path = remade(Path(archive.add(tmp_path / "a", CSV, run="r").path), same)
    assert query(path, COUNT).to_pylist() == [{"n": 137}]


def test_a_stranger_among_good_files_costs_that_file_only(tmp_path: Path) -> None:
    archive.add(tmp_path / "a", CSV, run="good")
    bad = remade(Path(archive.add(tmp_path / "a", CSV, run="bad").path), lambda t: t.slice(0, 50))
    with ask(tmp_path / "a", COUNT, InputOptions(partial=True)) as found:
        assert found.reader.read_all().to_pylist() == [{"n": 137}]
        assert [failure.name for failure in found.failures] == [str(bad)]


def test_the_answer_says_when_rows_were_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive.add(tmp_path / "a", CSV, run="r").path
    assert run_command("query", tmp_path / "a", COUNT).stderr == ""
    small(monkeypatch, Limit.QUERY_CHECKED_ROWS, 100)
    shown = run_command("query", tmp_path / "a", COUNT)
    assert f"note: {path}: checksums and rows were not checked" in shown.stderr


def test_rows_that_another_program_wrote_are_said_to_be_unchecked(tmp_path: Path) -> None:
    path = archive.add(tmp_path, CSV, run="r").path
    pq.write_table(pq.ParquetFile(path).read(), path)
    with ask(tmp_path, COUNT) as found:
        assert found.unchecked == (str(path),)


LISTED = "SELECT list(name) AS x FROM events"


@pytest.mark.parametrize(
    ("form", "sql"),
    [
        *((form, "SELECT name FROM events") for form in ("text", "csv", "json", "markdown", "parquet")),
        *((form, LISTED) for form in ("text", "csv", "json", "markdown")),  # Parquet of a list decodes no text
    ],
)
def test_bytes_that_are_no_text_among_unchecked_rows_end_in_a_sentence(
    form: str, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, check = REFUSED["a name that is no text"]
    remade(Path(archive.add(tmp_path / "a", CSV, run="r").path), change, **check)
    small(monkeypatch, Limit.QUERY_CHECKED_ROWS, 100)
    shown = run_command("query", tmp_path / "a", sql, "--format", form, "-o", tmp_path / "out", code=1)
    assert "not UTF-8" in shown.stderr
    assert not (tmp_path / "out").exists()


def test_the_rows_of_totals_are_checked_too(tmp_path: Path) -> None:
    summed = sample("nvprof-csv/summary-new.csv")
    path = remade(
        Path(archive.add(tmp_path, summed, run="r").path),
        lambda t: put(t, "unit", not_text(t.num_rows).dictionary_encode()),
    )
    with pytest.raises(TracekitError) as refused:
        query(tmp_path, "SELECT count(*) FROM totals")
    assert path.name in str(refused.value)

"""Exports of Nsight Systems as Arrow and Parquet: every figure is that of the database they were made from."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import _arrow_exports as made
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import sample

import tracekit
from tracekit.api import inspect
from tracekit.errors import InputError, ParseError, TracekitError, UnknownFormatError
from tracekit.inputs.paths import expand
from tracekit.model.trace import Trace

DATABASES = ("two-processes.sqlite", "schema-of-2021.sqlite", "nvtx-v2.sqlite")
FORMS = {"parquet": "_pqtdir", "arrow": "_arwdir", "arrow file": "_arwdir"}


def database(name: str) -> Path:
    return sample(f"nsys-sqlite/{name}")


def same(first: Trace, second: Trace) -> None:
    assert first.events.equals(second.events)
    left, right = first.ledgers[0].to_json(), second.ledgers[0].to_json()
    assert {**left, "path": "", "format": ""} == {**right, "path": "", "format": ""}
    for part in ("devices", "streams", "threads", "processes", "ids", "origin_ns"):
        old = getattr(first.run, part)
        assert getattr(second.run, part) == old, part
    assert first.run.sources[0].facts == second.run.sources[0].facts


@pytest.mark.parametrize("name", DATABASES)
@pytest.mark.parametrize("form", FORMS)
def test_a_folder_of_tables_is_read_as_its_database(name: str, form: str, tmp_path: Path) -> None:
    folder = tmp_path / f"run{FORMS[form]}"
    made.folder(database(name), folder, form)
    same(tracekit.read(database(name)), tracekit.read(folder))


@pytest.mark.parametrize("ends", [True, False])
def test_streams_behind_each_other_are_read_as_their_database(ends: bool, tmp_path: Path) -> None:
    path = tmp_path / "unnamed"
    made.streams(database(DATABASES[0]), path, ends=ends)
    same(tracekit.read(database(DATABASES[0])), tracekit.read(path))


def test_an_export_is_one_input_however_it_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run_pqtdir"
    made.folder(database(DATABASES[0]), folder)
    whole = inspect(folder)
    assert len(whole.inputs) == 1
    assert whole.inputs[0]["path"].endswith("/run_pqtdir")
    assert not [note for note in whole.inputs[0]["ledger"]["notes"] if note["code"] == "not-profiles"]
    tables = sorted(folder.iterdir())
    for words in (tables, [folder / "NVTX_EVENTS.parquet"], [str(folder / "*.parquet")], [tmp_path]):
        assert [item.name for item in expand(words)] == [str(folder / "StringIds.parquet")], words


def test_two_exports_with_the_same_texts_are_two_inputs(tmp_path: Path) -> None:
    for rank in range(2):
        made.folder(database(DATABASES[0]), tmp_path / f"rank{rank}_pqtdir")
    found = inspect([tmp_path / "rank0_pqtdir", tmp_path / "rank1_pqtdir"])
    assert len(found.inputs) == 2


@pytest.mark.parametrize("export", ["run.arrows", "run_pqtdir/StringIds.parquet", "run_arwdir/StringIds.arrow"])
def test_the_report_beside_its_export_is_not_read(export: str, tmp_path: Path) -> None:
    shutil.copy(sample("nsys-report/two-processes.nsys-rep"), tmp_path / "run.nsys-rep")
    if export == "run.arrows":
        made.streams(database(DATABASES[0]), tmp_path / export)
    else:
        made.folder(database(DATABASES[0]), (tmp_path / export).parent, export.rpartition(".")[2])
    assert [item.name for item in expand(tmp_path)] == [str(tmp_path / export)]


def test_an_archive_of_ours_beside_the_tables_is_an_input_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "run_pqtdir"
    made.folder(database(DATABASES[0]), folder)
    tracekit.convert(sample("nsys-sqlite/nvtx-v2.sqlite"), folder / "other.parquet")
    assert [Path(item.name).name for item in expand(folder)] == ["StringIds.parquet", "other.parquet"]
    # and a name that begins with a capital letter does not make it a table
    (folder / "other.parquet").rename(tmp_path / "Other.parquet")
    assert [Path(item.name).name for item in expand(tmp_path / "Other.parquet")] == ["Other.parquet"]


def test_other_widths_of_numbers_and_texts_give_the_same_rows(tmp_path: Path) -> None:
    """Another version may store narrower numbers, large texts, dictionaries, or unsigned ids."""
    folder = tmp_path / "run_pqtdir"
    made.folder(database(DATABASES[0]), folder)
    for path in folder.iterdir():
        table = pq.read_table(path)
        for place, column in enumerate(table.schema):
            values = table.column(place)
            wide = pa.types.is_integer(column.type) and column.name in ("globalTid", "globalPid")
            kind = pa.uint64() if wide else pa.int32() if column.name in ("deviceId", "gridX", "nameId") else None
            if pa.types.is_string(column.type):
                kind = pa.dictionary(pa.int32(), pa.string()) if place % 2 else pa.large_string()
            if kind is not None:
                table = table.set_column(place, column.name, values.cast(kind))
        pq.write_table(table, path)
    same(tracekit.read(database(DATABASES[0])), tracekit.read(folder))


def test_many_small_batches_give_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "run.arrows"
    with path.open("wb") as file:
        for _, table in made.tables(database(DATABASES[0])):
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=3)
    same(tracekit.read(database(DATABASES[0])), tracekit.read(path))


def test_text_that_is_no_utf_8_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "run_pqtdir"
    made.folder(database(DATABASES[0]), folder)
    texts = pq.read_table(folder / "StringIds.parquet")
    raw = [each.encode().replace(b"void", b"v\xffid") for each in texts.column("value").to_pylist()]
    column = pa.chunked_array([pa.array(raw, pa.binary()).view(pa.string())])
    pq.write_table(texts.set_column(1, "value", column), folder / "StringIds.parquet")
    names = tracekit.read(folder).events.column("name").to_pylist()
    assert any("v\ufffdid" in name for name in names if name)


DAMAGED = {
    "cut table": lambda folder: (folder / "NVTX_EVENTS.parquet").write_bytes(b"PAR1cut"),
    "no texts": lambda folder: (folder / "StringIds.parquet").write_bytes(b"PAR1"),
    "empty table": lambda folder: (folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet").write_bytes(b""),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_table_is_named(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "run_pqtdir"
    made.folder(database(DATABASES[0]), folder)
    DAMAGED[damage](folder)
    with pytest.raises(ParseError, match=r"table (NVTX_EVENTS|StringIds|CUPTI_ACTIVITY_KIND_KERNEL)"):
        tracekit.read(folder)


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "StringIds", "TARGET_INFO_SYSTEM_ENV"])
def test_texts_outside_of_their_table_are_refused(table: str, tmp_path: Path) -> None:
    """The ends of texts in a stream of Arrow are numbers of the file, and nothing of Arrow checks them when reading."""
    folder = tmp_path / "run_arwdir"
    made.folder(database(DATABASES[0]), folder, "arrow")
    path = folder / f"{table}.arrow"
    whole = pa.ipc.open_stream(path).read_all()
    texts = next(column for column in whole.columns if column.type == pa.string() and column.null_count < len(whole))
    ends = texts.combine_chunks().buffers()[1].to_pybytes()[: 4 * (len(whole) + 1)]
    data = path.read_bytes()
    middle = data.index(ends) + 4 * (len(whole) // 2)
    path.write_bytes(data[:middle] + struct.pack("<i", 1 << 24) + data[middle + 4 :])
    with pytest.raises(ParseError, match=f"table {table}"):
        tracekit.read(folder)


def test_a_folder_without_its_texts_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "run_pqtdir"
    made.folder(database(DATABASES[0]), folder)
    (folder / "StringIds.parquet").unlink()
    with pytest.raises(InputError):
        tracekit.read(folder)


def test_streams_without_texts_say_so(tmp_path: Path) -> None:
    path = tmp_path / "run.arrows"
    with path.open("wb") as file:
        for name, table in made.tables(database(DATABASES[0])):
            if name != "StringIds":
                with pa.ipc.new_stream(file, table.schema) as writer:
                    writer.write_table(table)
    with pytest.raises(ParseError, match="StringIds"):
        tracekit.read(path)


def test_an_arrow_file_of_others_is_refused(tmp_path: Path) -> None:
    for new in (pa.ipc.new_stream, pa.ipc.new_file):
        table = pa.table({"a": [1, 2]})
        with new(str(tmp_path / "x.arrow"), table.schema) as writer:
            writer.write_table(table)
        with pytest.raises(TracekitError):
            tracekit.read(tmp_path / "x.arrow")


def test_hdf_has_its_advice(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(UnknownFormatError) as caught:
        tracekit.read(path)
    assert "--type sqlite or parquetdir" in str(caught.value.hint)

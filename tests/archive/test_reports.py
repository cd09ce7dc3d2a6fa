"""A report made from an archive is the report of its sources, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support import SAMPLES, read_sample, sample
from typer.testing import CliRunner

import tracekit
from tracekit import archive, pipeline
from tracekit.cli import app
from tracekit.errors import TracekitError
from tracekit.formats import READERS
from tracekit.inputs import stored_name

FILES = sorted(
    f"{folder.name}/{p.name}"
    for folder in SAMPLES.iterdir()
    if folder.name in READERS
    for p in folder.iterdir()
    if not p.name.startswith(("_", "."))
)


@pytest.mark.parametrize("name", FILES)
def test_the_report_of_every_sample_is_the_same(name: str, tmp_path: Path) -> None:
    path = archive.add(tmp_path, sample(name), run="r", date="2026-01-01").path
    source, archived = pipeline.report(read_sample(name)), pipeline.report(tracekit.read(path))
    for form in ("text", "json"):
        assert pipeline.render(archived, form) == pipeline.render(source, form)
    assert archived == source


@pytest.mark.parametrize(
    "names",
    [
        ["nvprof-csv/gpu-and-api-trace.csv"],
        ["nvprof-csv/truncated.csv"],
        ["kineto/gpu.pt.trace.json"],
        ["a=recorder-log/rank0.jsonl", "b=recorder-log/rank1.jsonl"],
        ["recorder-log/rank0.jsonl", "nvprof-csv/gpu-and-api-trace.csv", "paddle-summary/gpu.txt"],
    ],
)
def test_the_page_is_the_same(names: list[str], tmp_path: Path) -> None:
    words = []
    for name in names:
        label, equals, rest = name.rpartition("=")
        words.append(f"{label}{equals}{sample(rest)}")
    path = archive.add(tmp_path / "a", words, run="r", date="2026-01-01").path
    for number, inputs in enumerate((words, [path])):
        done = CliRunner().invoke(app, ["report", *inputs, "-o", str(tmp_path / f"{number}.html")])
        assert done.exit_code == 0, done.stderr
    assert (tmp_path / "0.html").read_bytes() == (tmp_path / "1.html").read_bytes()


def test_the_same_rows_are_the_same_trace_whatever_the_dictionaries() -> None:
    """Views number things by dictionary code: a reader's order, and words that no row uses, must not be seen."""
    trace = tracekit.read(sample("nvprof-csv/gpu-and-api-trace.csv"))
    columns = []
    for column in trace.events.columns:
        array = column.combine_chunks()
        if pa.types.is_dictionary(array.type) and array.null_count < len(array):
            words = ["kernel", *reversed(array.dictionary.to_pylist())]
            words = list(dict.fromkeys(words))
            codes = [None if v is None else words.index(v) for v in array.to_pylist()]
            array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words))
        columns.append(array)
    shuffled = tracekit.Trace(pa.Table.from_arrays(columns, schema=trace.events.schema), run=trace.run)
    for name, column in zip(trace.events.schema.names, trace.events.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            assert shuffled.events.column(name).chunk(0).equals(column.chunk(0)), name


def test_two_archived_files_read_as_their_sources_side_by_side(tmp_path: Path) -> None:
    names = [sample("recorder-log/rank0.jsonl"), sample("recorder-log/rank1.jsonl")]
    paths = [archive.add(tmp_path, name, run="r").path for name in names]
    source, archived = (pipeline.report(tracekit.read(p)) for p in (names, paths))
    assert pipeline.render(archived, "text") == pipeline.render(source, "text")


def test_the_archive_keeps_the_dropped_records_of_a_source(tmp_path: Path) -> None:
    torn = sample("nvprof-csv/truncated.csv")
    path = archive.add(tmp_path, torn, run="r").path
    assert tracekit.read(path).ledgers[0].to_json() == tracekit.read(torn).ledgers[0].to_json()
    assert tracekit.read(path).ledgers[0].dropped
    with pytest.raises(TracekitError, match="truncated"):
        tracekit.read(path, strict=True)


def test_a_filter_is_counted_on_the_rows_of_the_archive(tmp_path: Path) -> None:
    from tracekit.inputs.selection import Selection

    path = archive.add(tmp_path, sample("nvprof-csv/gpu-and-api-trace.csv"), run="r").path
    (ledger,) = tracekit.read(path, selection=Selection(kinds=frozenset({"kernel"}))).ledgers
    assert (ledger.format, ledger.read, ledger.kept, ledger.filtered) == ("parquet", 137, 48, 89)


def test_inspect_shows_the_file_and_the_ledgers_of_its_sources(tmp_path: Path) -> None:
    source = sample("nvprof-csv/truncated.csv")
    path = archive.add(tmp_path, source, run="r").path
    found = tracekit.inspect(path).inputs[0]
    assert (found["path"], found["format"]) == (stored_name(str(path)), "parquet")
    assert [ledger["path"] for ledger in found["archived_ledgers"]] == [stored_name(str(source))]


def test_a_file_that_another_program_wrote_anew_does_not_pass_for_its_source(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = Path(archive.add(tmp_path, sample("nvprof-csv/gpu-and-api-trace.csv"), run="r").path)
    table = pq.ParquetFile(path).read()
    pq.write_table(table.slice(0, 10), path)
    trace = tracekit.read(path)
    assert (trace.ledgers[0].format, trace.ledgers[0].read) == ("parquet", 10)
    assert "written-anew" in trace.ledgers[0].notes
    assert not archive.entries(tmp_path)[0].as_written
    assert [p.code for p in archive.verify(tmp_path).problems] == ["damaged"]

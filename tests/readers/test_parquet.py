"""The archive read back: every value, the facts, and nothing but an error where the file is not what we wrote."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from strategies import rows_of, traces
from support import SHARE, sample
from writing import Columns, newer_schema

import tracekit
from tracekit import pipeline
from tracekit.errors import InputError, ParseError, TracekitError, UnknownFormatError, UnsupportedVersionError
from tracekit.model import schema
from tracekit.model.trace import Ledger, Run, SourceFacts, Trace, concat
from tracekit.readers.archive.parquet import sniff
from tracekit.readers.base import Confidence
from tracekit.readers.builder import event_batch, totals_batch
from tracekit.readers.head import Head
from tracekit.readers.source import Source, open_source

COLUMNS = {
    "ts_ns": np.array([-5, 0, 7]), "dur_ns": pa.array([1, None, 0]), "event_id": np.arange(3),
    "name": pa.array(["a", "b\0", None]), "kind": pa.array(["kernel", "mark", "counter"]), "source": 0,
    "value": pa.array([None, None, 2.5]), "args": pa.array([None, '{"x": 1}', None]),
}  # fmt: skip


def small(**changes: object) -> Trace:
    run = Run(
        origin_ns=1_767_225_600_000_000_000,
        sources=[SourceFacts("run.log", "recorder-log", size_bytes=99, sha256="00")],
    )
    run.threads[(0, 1, 2)] = "main"
    run.devices[(0, 0)] = "GPU"
    run.streams[(0, 0, 7)] = "copies"
    run.processes[(0, 1)] = "train.py"
    run.ids[("tid", 0, 1 << 40)] = "worker"
    ledger = Ledger(source=0, path="run.log", format="recorder-log", read=4, kept=3)
    ledger.drop("torn-row", where="line 9", text="the last line was cut")
    events = pa.Table.from_batches([event_batch(3, COLUMNS | changes)])
    return Trace(events, run=run, ledgers=(ledger,))


def write(trace: Trace, path: Path) -> Path:
    pipeline.write(trace, path, force=True)
    return path


@given(trace=traces())
def test_what_is_read_is_what_was_written(trace: Trace, tmp_path: Path) -> None:
    back = tracekit.read(write(trace, tmp_path / "a.parquet"))
    assert rows_of(back.events) == rows_of(trace.events)
    assert rows_of(back.totals) == rows_of(trace.totals)
    assert back.ledgers[0].kept == trace.events.num_rows + trace.totals.num_rows


def test_facts_come_back_and_the_ledger_of_the_conversion_is_kept_as_a_fact(tmp_path: Path) -> None:
    trace = small()
    stored = trace.ledgers[0].to_json()
    back = tracekit.read(write(trace, tmp_path / "a.parquet"))
    assert back.run.sources[0].facts == {"archived_ledgers": [stored]}
    back.run.sources[0].facts = {}
    assert back.run == trace.run
    assert (back.ledgers[0].read, back.ledgers[0].kept, back.ledgers[0].events_out) == (3, 3, 3)
    assert not back.ledgers[0].notes


def test_ledgers_of_a_second_archive_come_after_the_first(tmp_path: Path) -> None:
    first = write(small(), tmp_path / "a.parquet")
    tracekit.convert(first, tmp_path / "b.parquet")
    stored = tracekit.read(tmp_path / "b.parquet").run.sources[0].facts["archived_ledgers"]
    assert [ledger["format"] for ledger in stored] == ["recorder-log", "parquet"]


def test_the_fingerprint_is_that_of_the_original(tmp_path: Path) -> None:
    first = write(small(), tmp_path / "a.parquet")
    tracekit.convert(first, tmp_path / "b.parquet")
    assert tracekit.read(tmp_path / "b.parquet").run.sources[0].sha256 == "00"


def test_sources_of_several_archives_are_numbered_apart(tmp_path: Path) -> None:
    for name in "ab":
        write(small(), tmp_path / f"{name}.parquet")
    tracekit.convert([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "ab.parquet")
    write(small(), tmp_path / "c.parquet")
    trace = tracekit.read([tmp_path / "ab.parquet", tmp_path / "c.parquet"])
    assert sorted(trace.events.column("source").to_pylist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert sorted(trace.run.threads) == [(0, 1, 2), (1, 1, 2), (2, 1, 2)]
    assert sorted(trace.run.ids) == [("tid", n, 1 << 40) for n in range(3)]
    assert [Path(s.path).name for s in trace.run.sources] == ["run.log"] * 3
    stored = [[ledger["source"] for ledger in source.facts["archived_ledgers"]] for source in trace.run.sources]
    assert stored == [[0, 0], [0, 1], [0]]


def test_totals_beside_events_and_alone(tmp_path: Path) -> None:
    totals = concat(
        [totals_batch(2, {"source": 0, "run": 0, "section": "gpu", "order": np.arange(2), "calls": 5})], schema.TOTALS
    )
    both = tracekit.read(write(Trace(small().events, totals), tmp_path / "both.parquet"))
    assert (both.events.num_rows, both.totals.to_pylist()) == (3, totals.to_pylist())
    alone = tracekit.read(write(Trace(schema.EVENTS.empty_table(), totals), tmp_path / "alone.parquet"))
    assert (alone.events.num_rows, alone.totals.to_pylist()) == (0, totals.to_pylist())


def test_many_row_groups_stream_in_batches(tmp_path: Path) -> None:
    rows = 1_200_000
    batch = event_batch(rows, {"ts_ns": np.arange(rows), "event_id": np.arange(rows), "kind": "mark", "source": 0})
    trace = Trace(pa.Table.from_batches([batch]))
    back = tracekit.read(write(trace, tmp_path / "a.parquet"))
    assert back.events.equals(trace.events)
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 3


# --- what is not ours, or not any more


def test_each_byte_that_flips_is_found_or_harmless(tmp_path: Path) -> None:
    path = write(small(), tmp_path / "a.parquet")
    whole = path.read_bytes()
    want = rows_of(tracekit.read(path).events)
    broken = tmp_path / "broken.parquet"
    for place in range(random.randrange(SHARE), len(whole), SHARE):
        broken.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            trace = tracekit.read(broken, format="parquet")
        except (ParseError, UnsupportedVersionError):
            continue
        assert rows_of(trace.events) == want, f"byte {place}"


@given(traces())
@settings(max_examples=5)
def test_cut_anywhere_it_is_refused(trace: Trace) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = write(trace, Path(folder) / "a.parquet")
        whole = path.read_bytes()
        for place in {*range(4, len(whole), max(1, len(whole) // 40)), len(whole) - 1}:
            path.write_bytes(whole[:place])
            with pytest.raises(ParseError, match=r"a\.parquet"):
                tracekit.read(path, format="parquet")


def test_parquet_of_others_is_not_ours(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(UnknownFormatError):
        tracekit.read(tmp_path / "a.parquet")
    with pytest.raises(ParseError, match="no archive of tracekit") as caught:
        tracekit.read(tmp_path / "a.parquet", format="parquet")
    assert "tracekit convert" in caught.value.hint


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1", b"ts_ns,kind\n", b"PAR1\xff\xff\xff\x7fPAR1"]
)
def test_what_is_no_parquet_is_refused_in_one_sentence(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(ParseError):
        tracekit.read(tmp_path / "a.parquet", format="parquet")


def test_sniffer() -> None:
    assert sniff(Head("a", b"PAR1...tracekit.schema...PAR1", complete=True)) is Confidence.YES
    assert sniff(Head("a", b"PAR1" + b"x" * 99, complete=False)) is Confidence.YES
    assert sniff(Head("a", b"PAR1...PAR1", complete=True)) is Confidence.NO
    assert sniff(Head("a.parquet", b"tracekit.schema", complete=True)) is Confidence.NO


def texts_of(path: Path) -> dict[bytes, bytes]:
    return {k: v for k, v in pq.read_metadata(path).metadata.items() if k.startswith(b"tracekit.")}


def rewritten(path: Path, change) -> Path:  # type: ignore[no-untyped-def]
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(texts_of(path)), path)
    return path


def test_an_archive_that_another_program_wrote_anew_is_read_with_a_note(tmp_path: Path) -> None:
    path = rewritten(write(small(), tmp_path / "a.parquet"), lambda t: t.slice(1))
    trace = tracekit.read(path)
    assert trace.events.column("ts_ns").to_pylist() == [0, 7]
    assert set(trace.ledgers[0].notes) == {"written-anew"}


@pytest.mark.parametrize("by", ["pandas", "duckdb"])
@pytest.mark.parametrize("name", ["kineto/gpu.pt.trace.json", "nvprof-csv/gpu-and-api-trace.csv"])
def test_an_archive_that_lost_our_metadata_is_known_by_its_columns(by: str, name: str, tmp_path: Path) -> None:
    whole = tracekit.read(sample(name))
    write(whole, tmp_path / "a.parquet")
    bare = tmp_path / "bare"
    if by == "pandas":
        frame = pq.read_table(tmp_path / "a.parquet").replace_schema_metadata().to_pandas()
        frame[frame["ts_ns"] >= 0].to_parquet(bare)
    else:
        duckdb.sql(f"copy (select * from '{tmp_path / 'a.parquet'}') to '{bare}' (format parquet)")
    trace = tracekit.read(bare)
    assert [f.format for f in trace.run.sources] == ["parquet"]
    assert rows_of(trace.events) == rows_of(whole.events)
    assert trace.run.origin_ns is None
    assert set(trace.ledgers[0].notes) == {"facts-lost"}
    assert "clock, names of devices" in trace.ledgers[0].notes["facts-lost"].text


def test_a_few_columns_of_an_archive_are_read_and_numbered_anew(tmp_path: Path) -> None:
    write(small(), tmp_path / "a.parquet")
    duckdb.sql(
        f"copy (select kind, ts_ns, dur_ns, name, 1 as more from '{tmp_path / 'a.parquet'}') to '{tmp_path / 'b'}' "
        "(format parquet)"
    )
    trace = tracekit.read(tmp_path / "b")
    assert [trace.events.column(n).to_pylist() for n in ("ts_ns", "event_id", "source")] == [
        [-5, 0, 7], [0, 1, 2], [0, 0, 0],
    ]  # fmt: skip
    assert set(trace.ledgers[0].notes) == {"facts-lost", "columns-lost", "columns-not-ours"}
    assert "event_id, source: numbered anew" in trace.ledgers[0].notes["columns-lost"].text


def test_totals_that_lost_our_metadata_are_totals(tmp_path: Path) -> None:
    trace = tracekit.read(sample("nvprof-csv/summary-new.csv"))
    write(trace, tmp_path / "a.parquet")
    pq.write_table(pq.read_table(tmp_path / "a.parquet").replace_schema_metadata(), tmp_path / "b")
    again = tracekit.read(tmp_path / "b")
    assert again.totals.to_pylist() == trace.totals.to_pylist()


def test_sources_of_an_archive_without_facts_are_counted_and_hostile_numbers_refused(tmp_path: Path) -> None:
    path = write(small(source=np.array([2, 0, 1])), tmp_path / "a.parquet")
    table = pq.read_table(path).replace_schema_metadata()
    pq.write_table(table, path)
    assert len(tracekit.read(path).run.sources) == 3
    for bad in ([1 << 40, 0, 0], [1 << 30, 0, 0]):
        pq.write_table(table.set_column(table.schema.get_field_index("source"), "source", pa.array(bad)), path)
        with pytest.raises(ParseError, match="not the number of a source"):
            tracekit.read(path)


def test_columns_that_another_program_changed_are_told(tmp_path: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        table = table.drop_columns(["args"]).append_column("mine", pa.array([1, 2, 3]))
        at = table.schema.get_field_index("dur_ns")
        return table.set_column(at, "dur_ns", pa.array([1.0, None, 0.0]))

    trace = tracekit.read(rewritten(write(small(), tmp_path / "a.parquet"), change))
    assert trace.events.column("dur_ns").to_pylist() == [1, None, 0]
    assert trace.events.column("args").null_count == 3
    assert set(trace.ledgers[0].notes) == {"written-anew", "columns-lost", "columns-not-ours"}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("kind", ["kernel", "gibberish", "mark"]),
        ("ts_ns", ["a", "b", "c"]),
        ("ts_ns", [1.5, 2.0, 3.0]),
        ("kind", ["kernel", None, "mark"]),
        ("name", [1, 2, 3]),
        ("source", [1 << 40, 0, 0]),
    ],
)
def test_rows_that_the_schema_cannot_hold_are_refused(tmp_path: Path, column: str, values: list[object]) -> None:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index(column), column, pa.array(values))

    path = rewritten(write(small(), tmp_path / "a.parquet"), change)
    if column == "name":  # numbers can be read as names
        assert tracekit.read(path).events.column("name").to_pylist() == ["1", "2", "3"]
        return
    with pytest.raises(ParseError, match="after row 0"):
        tracekit.read(path)


def test_an_archive_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    path = rewritten(write(small(), tmp_path / "a.parquet"), lambda t: t.drop_columns(["kind"]))
    with pytest.raises(ParseError, match="column kind is missing"):
        tracekit.read(path)


def with_metadata(path: Path, **changes: str) -> Path:
    table = pq.read_table(path)
    metadata = texts_of(path) | {f"tracekit.{k}".encode(): v.encode() for k, v in changes.items()}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


def test_a_newer_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = with_metadata(write(small(), tmp_path / "a.parquet"), schema="99")
    with pytest.raises(UnsupportedVersionError, match="version 99") as caught:
        tracekit.read(path)
    assert "upgrade" in caught.value.hint


def test_facts_that_were_changed_are_refused(tmp_path: Path) -> None:
    path = with_metadata(write(small(), tmp_path / "a.parquet"), run='{"origin_ns": 17}')
    with pytest.raises(ParseError, match="do not match their checksum"):
        tracekit.read(path)


def test_an_older_version_is_read_through_the_upgrades_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(small(), tmp_path / "a.parquet")
    seen: list[tuple[str, str]] = []

    def one(table: str, columns: Columns) -> Columns:
        seen.append(("1 to 2", table))
        return {("steps" if key == "step" else key): column for key, column in columns.items()}

    def three(table: str, columns: Columns) -> Columns:
        seen.append(("3 to 4", table))
        return columns | {"step": pa.array([8] * len(columns.pop("steps")))}

    newer_schema(monkeypatch, 4, {1: one, 3: three})
    assert tracekit.read(path).events.column("step").to_pylist() == [8, 8, 8]
    assert seen == [("1 to 2", "events"), ("3 to 4", "events")]


def test_a_good_archive_among_bad_inputs_is_read(tmp_path: Path) -> None:
    good = write(small(), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(good.read_bytes()[:-9])
    trace = tracekit.read([good, tmp_path / "b.parquet"], format="parquet", partial=True)
    assert trace.events.num_rows == 3
    assert [Path(f.name).name for f in trace.failures] == ["b.parquet"]
    assert isinstance(trace.failures[0].error, TracekitError)


def test_compressed_from_outside_it_is_read_too(tmp_path: Path) -> None:
    import gzip

    path = write(small(), tmp_path / "a.parquet")
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert tracekit.read(tmp_path / "a.parquet.gz").events.num_rows == 3


def test_a_file_that_another_process_removes_meanwhile_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(small(), tmp_path / "x.parquet")
    plain_path = Source.plain_path

    def and_removed(self: Source) -> Path:
        found = plain_path(self)
        path.unlink()
        return found

    with open_source(str(write(small(), tmp_path / "y.parquet"))) as source:
        source.path.unlink()
        with pytest.raises(InputError, match=r"y\.parquet"):
            source.size_bytes()
    monkeypatch.setattr(Source, "plain_path", and_removed)
    with pytest.raises(InputError, match=r"x\.parquet"):
        tracekit.read(path)

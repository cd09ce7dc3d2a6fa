"""events-jsonl read back exactly, from our own files and from those of others, whole or damaged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import assume, given
from strategies import rows_of, tables, traces
from support import SAMPLES
from writing import newer_schema

import tracekit
from tracekit import pipeline
from tracekit.errors import ParseError, UnknownFormatError, UnsupportedVersionError
from tracekit.formats import READERS
from tracekit.model import schema
from tracekit.model.trace import Ledger, Run, SourceFacts, Trace
from tracekit.readers.archive.events_jsonl import sniff
from tracekit.readers.base import Confidence
from tracekit.readers.builder import event_batch
from tracekit.readers.head import Head

ROW = {"ts_ns": 5, "dur_ns": 2, "event_id": 9, "name": "gemm", "kind": "kernel", "source": 0}


def small(rows: int = 3) -> Trace:
    run = Run(origin_ns=77, sources=[SourceFacts("run.log \udcff", "recorder-log", size_bytes=9)])
    run.threads[(0, 1, 2)] = "main"
    ids = np.arange(rows)
    batch = event_batch(
        rows, {"ts_ns": ids, "event_id": ids + 50, "name": "a", "kind": "mark", "source": 0, "args": '{"a": [1]}'}
    )
    return Trace(pa.Table.from_batches([batch]), run=run, ledgers=(Ledger(read=rows, kept=rows),))


def write(trace: Trace, path: Path) -> Path:
    pipeline.write(trace, path, force=True)
    return path


def lines_file(path: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def notes(trace: Trace) -> dict[str, int]:
    return {code: note.count for code, note in trace.ledgers[0].notes.items()}


@given(trace=traces())
def test_what_is_read_is_what_was_written(trace: Trace, tmp_path: Path) -> None:
    back = tracekit.read(write(trace, tmp_path / "a.jsonl"))
    assert rows_of(back.events) == rows_of(trace.events)
    assert rows_of(back.totals) == rows_of(trace.totals)
    assert not back.ledgers[0].notes
    assert back.ledgers[0].read == trace.events.num_rows + trace.totals.num_rows + 2


@given(table=tables())
def test_key_order_blanks_and_strange_keys_lose_nothing(table: pa.Table, tmp_path: Path) -> None:
    assume(table.num_rows)
    trace = Trace(table)
    path = write(trace, tmp_path / "a.jsonl")
    lines = path.read_text(encoding="utf-8").split("\n")[1:-2]
    turned = [dict(reversed(json.loads(line).items())) for line in lines]
    back = tracekit.read(lines_file(path, *[json.dumps(row, indent=None, separators=(", ", " : ")) for row in turned]))
    want, found = rows_of(trace.events), rows_of(back.events)
    assert [{k: v for k, v in row.items() if k != "args"} for row in found] == [
        {k: v for k, v in row.items() if k != "args"} for row in want
    ]


def test_facts_and_the_ledger_of_the_conversion_come_back(tmp_path: Path) -> None:
    trace = small()
    stored = trace.ledgers[0].to_json()
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst"):
        back = tracekit.read(write(trace, tmp_path / name))
        assert back.run.sources[0].facts == {"archived_ledgers": [stored]}
        back.run.sources[0].facts = {}
        assert back.run == trace.run
        trace.ledgers[0].written = 0


def test_names_that_the_run_learned_late_are_read(tmp_path: Path) -> None:
    from tracekit.writers import WRITERS
    from tracekit.writers.base import RowStream, WriteOptions

    run = Run(origin_ns=0)

    def batches():  # type: ignore[no-untyped-def]
        yield small().events.to_batches()[0]
        run.threads[(0, 7, 8)] = "late"

    WRITERS["jsonl"].write(RowStream(run, batches()), tmp_path / "a.jsonl", WriteOptions())
    back = tracekit.read([tmp_path / "a.jsonl", write(small(), tmp_path / "b.jsonl")])
    assert back.run.threads == {(0, 7, 8): "late", (1, 1, 2): "main"}
    assert sorted(set(back.events.column("source").to_pylist())) == [0, 1]


def test_parquet_and_events_jsonl_keep_every_value_of_each_other(tmp_path: Path) -> None:
    @given(traces())
    def check(trace: Trace) -> None:
        write(trace, tmp_path / "1.parquet")
        tracekit.convert(tmp_path / "1.parquet", tmp_path / "2.jsonl", force=True)
        tracekit.convert(tmp_path / "2.jsonl", tmp_path / "3.parquet", force=True)
        back = tracekit.read(tmp_path / "3.parquet")
        assert rows_of(back.events) == rows_of(trace.events)
        assert rows_of(back.totals) == rows_of(trace.totals)

    check()


def test_the_fast_and_the_slow_path_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @given(tables())
    def check(table: pa.Table) -> None:
        path = write(Trace(table), tmp_path / "a.jsonl")
        fast = rows_of(tracekit.read(path).events)
        with monkeypatch.context() as patch:
            broken = "tracekit.readers.archive.events_jsonl._columns"
            patch.setattr(broken, lambda *_: (_ for _ in ()).throw(ValueError))
            assert rows_of(tracekit.read(path).events) == fast

    check()


# --- lines of others


def test_two_columns_are_enough(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "a.jsonl", '{"ts_ns":5,"kind":"mark"}', "", '{"ts_ns":6,"kind":"mark","dur_ns":null}')
    trace = tracekit.read(path)
    assert trace.events.select(["ts_ns", "event_id", "source", "dur_ns"]).to_pylist() == [
        {"ts_ns": 5, "event_id": 1, "source": 0, "dur_ns": None},
        {"ts_ns": 6, "event_id": 3, "source": 0, "dur_ns": None},
    ]
    assert (trace.run.origin_ns, [s.format for s in trace.run.sources]) == (None, ["events-jsonl"])
    assert trace.ledgers[0].read == 2


def test_an_event_without_its_own_number_has_that_of_its_line(tmp_path: Path) -> None:
    lines = ['{"ts_ns":5,"kind":"mark"}'] * 3 + ['{"ts_ns":6,"kind":"mark","event_id":77}']
    trace = tracekit.read(lines_file(tmp_path / "a.jsonl", *lines))
    assert trace.events.column("event_id").to_pylist() == [1, 2, 3, 77]


def test_padding_before_the_first_line_does_no_harm(tmp_path: Path) -> None:
    assert tracekit.read(lines_file(tmp_path / "a.jsonl", "\0" * 9, ROW)).events.num_rows == 1


def test_keys_and_kinds_that_are_none_of_ours_go_into_args(tmp_path: Path) -> None:
    odd = ROW | {"kind": "gibberish", "user": {"id": 12345678901234567890123}, "args": {"user": 1}}
    trace = tracekit.read(lines_file(tmp_path / "a.jsonl", ROW | {"node": "n7"}, odd))
    kinds, args = trace.events.column("kind").to_pylist(), trace.events.column("args").to_pylist()
    assert kinds == ["kernel", "other"]
    assert [json.loads(text) for text in args] == [
        {"node": "n7"},
        {"user": 1, "user_": {"id": 12345678901234567890123}, "kind": "gibberish"},
    ]
    assert notes(trace) == {"unknown-kind": 1}


def test_integers_that_pandas_wrote_as_floats_are_integers(tmp_path: Path) -> None:
    trace = tracekit.read(lines_file(tmp_path / "a.jsonl", ROW | {"dur_ns": 35.0, "stream": 7.0}))
    assert trace.events.select(["dur_ns", "stream"]).to_pylist() == [{"dur_ns": 35, "stream": 7}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "not-json"),
        ("[1, 2]", "not-json"),
        ('{"ts_ns":1,"kind":"mark"}{"ts_ns":2,"kind":"mark"}', "not-json"),
        ("[" * 5000, "not-json"),
        ('{"kind":"mark"}', "bad-value"),
        ('{"ts_ns":1}', "bad-value"),
        ('{"ts_ns":1.5,"kind":"mark"}', "bad-value"),
        ('{"ts_ns":true,"kind":"mark"}', "bad-value"),
        ('{"ts_ns":9223372036854775808,"kind":"mark"}', "bad-value"),
        ('{"ts_ns":1,"kind":"mark","step":4294967296}', "bad-value"),
        ('{"ts_ns":1,"kind":"mark","name":5}', "bad-value"),
        ('{"ts_ns":1,"kind":"counter","value":"much"}', "bad-value"),
        ('{"ts_ns":1,"kind":5}', "bad-value"),
        ('{"table":"totals","source":0}', "bad-value"),
    ],
)
def test_a_bad_line_costs_itself_and_is_told(tmp_path: Path, line: str, reason: str) -> None:
    trace = tracekit.read(lines_file(tmp_path / "a.jsonl", ROW, line, ROW))
    assert trace.events.num_rows == 2
    assert trace.ledgers[0].dropped == {reason: 1}
    assert trace.ledgers[0].notes[reason].places == ["line 2"]


def test_nuls_and_empty_lines_are_no_events(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "a.jsonl", ROW, "", "\0" * 50, json.dumps(ROW) + "\0\0")
    trace = tracekit.read(path)
    assert trace.events.num_rows == 2
    assert trace.ledgers[0].ignored == {"padding": 1}


def test_a_torn_last_line_costs_one_line_and_the_missing_end_is_told(tmp_path: Path) -> None:
    path = write(small(3), tmp_path / "a.jsonl")
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b'{"tracekit":"end"') - 10])
    trace = tracekit.read(path)
    assert trace.events.num_rows == 2
    assert trace.ledgers[0].dropped == {"torn-row": 1}
    assert set(notes(trace)) == {"torn-row", "no-end-line"}
    assert trace.run.origin_ns == 77


def test_rows_that_are_missing_in_the_middle_make_it_incomplete(tmp_path: Path) -> None:
    path = write(small(400), tmp_path / "a.jsonl")
    lines = path.read_bytes().split(b"\n")
    for gone, incomplete in ((2, False), (20, True)):
        path.write_bytes(b"\n".join(lines[:50] + lines[50 + gone :]))
        trace = tracekit.read(path)
        assert trace.events.num_rows == 400 - gone
        assert "rows-missing" in notes(trace)
        assert bool(trace.incomplete) == incomplete


def test_cut_anywhere_it_gives_whole_rows_or_one_sentence(tmp_path: Path) -> None:
    data = write(small(20), tmp_path / "a.jsonl").read_bytes()
    for place in range(0, len(data) - 1, 7):
        (tmp_path / "cut").write_bytes(data[:place])
        try:
            trace = tracekit.read(tmp_path / "cut")
        except (ParseError, UnknownFormatError):
            continue
        whole = [line for line in data[:place].split(b"\n") if line.startswith(b'{"ts_ns"') and line.endswith(b"}}")]
        assert trace.ledgers[0].kept == len(whole)
        assert trace.ledgers[0].notes, "the end line is not whole"


def test_a_lost_line_is_noticed_by_the_count_of_the_end_line(tmp_path: Path) -> None:
    path = write(small(3), tmp_path / "a.jsonl")
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], *lines[2:]]))
    assert notes(tracekit.read(path)) == {"rows-missing": 1}


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path, end: bytes) -> None:
    path = write(small(3), tmp_path / "a.jsonl")
    want = tracekit.read(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", end))
    back = tracekit.read(path)
    assert back.events.equals(want.events)
    assert not back.ledgers[0].notes


def test_many_blocks_are_read_in_order(tmp_path: Path) -> None:
    trace = small(60_000)
    path = write(trace, tmp_path / "a.jsonl")
    assert path.stat().st_size > 4 << 20
    assert tracekit.read(path).events.equals(trace.events)


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_damaged_packed_file_gives_what_came_before(tmp_path: Path, packed) -> None:  # type: ignore[no-untyped-def]
    data = packed(write(small(60_000), tmp_path / "a.jsonl").read_bytes())
    (tmp_path / "b.jsonl.gz").write_bytes(data[: len(data) // 2])
    trace = tracekit.read(tmp_path / "b.jsonl.gz")
    assert 0 < trace.events.num_rows < 60_000
    assert notes(trace)["no-end-line"] == 1


def test_files_joined_by_cat_are_refused_with_the_way_out(tmp_path: Path) -> None:
    data = write(small(2), tmp_path / "a.jsonl").read_bytes()
    (tmp_path / "b.jsonl").write_bytes(data + data)
    with pytest.raises(ParseError, match="line 5: a second file begins here") as caught:
        tracekit.read(tmp_path / "b.jsonl")
    assert "one by one" in caught.value.hint


def test_a_newer_version_is_refused_and_an_older_one_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(small(2), tmp_path / "a.jsonl")
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"schema":1', b'"schema":2', 1))
    with pytest.raises(UnsupportedVersionError, match="version 2"):
        tracekit.read(path)
    path.write_bytes(data)
    newer_schema(monkeypatch, 2, {1: lambda table, columns: columns | {"step": pa.array([8, 9])}})
    assert tracekit.read(path).events.column("step").to_pylist() == [8, 9]


@pytest.mark.parametrize("run", ["[]", '{"origin_ns":"x"}', '{"sources":[{"path":1,"format":2}]}', '{"threads":[[1]]}'])
def test_facts_that_are_none_are_refused(tmp_path: Path, run: str) -> None:
    path = lines_file(tmp_path / "a.jsonl", f'{{"tracekit":"events-jsonl","schema":1,"run":{run}}}', ROW)
    with pytest.raises(ParseError, match="line 1"):
        tracekit.read(path)


def test_sniffer() -> None:
    yes = [
        b'{"tracekit":"events-jsonl","schema":1}\n',
        b'\n\0\0\n{"ts_ns":1,"kind":"mark"}\n',
        b'{"kind":"mark", "x":1, "ts_ns":1}',
    ]
    no = [
        b'{"format":"tracekit-log","version":1}',
        b'{"Type":"String"}',
        b"ts_ns,kind",
        b'{"a":{"ts_ns":1,"kind":2}}',
        b"",
    ]
    assert {sniff(Head("a", data)) for data in yes} == {Confidence.YES}
    assert Confidence.YES not in {sniff(Head("a.jsonl", data)) for data in no}


def test_from_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("Start,Duration\n")
    with pytest.raises(ParseError, match="no JSON object"):
        tracekit.read(tmp_path / "a", format="events-jsonl")


@pytest.mark.parametrize(
    "facts",
    ['"run":{"devices":[[]]}', '"run":{},"ledger":[{"kept":1e999}]',
     '"run":{},"ledger":[{"notes":[{"code":"a","text":"b","count":1e999,"places":[]}]}]'],
)  # fmt: skip
def test_facts_that_are_no_facts_of_a_run_are_an_error(facts: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"tracekit":"events-jsonl","schema":1,"version":"0",{facts}}}\n', encoding="utf-8")
    with pytest.raises(ParseError, match="line 1"):
        tracekit.read(path, format="events-jsonl")


@pytest.mark.parametrize(
    "name", sorted(p.relative_to(SAMPLES).as_posix() for p in SAMPLES.glob("*/*") if p.parent.name in READERS)
)
def test_every_sample_as_such_a_file_is_known_as_one(name: str, tmp_path: Path) -> None:
    """Its first line and its args hold words by which other readers know their files."""
    made = tracekit.read(SAMPLES / name)
    path = write(made, tmp_path / "x.jsonl").rename(tmp_path / "unknown")
    back = tracekit.read(path)
    assert back.ledgers[0].format == "events-jsonl"
    assert back.events.num_rows == made.events.num_rows


def test_sources_whose_facts_have_wrong_types_are_refused(tmp_path: Path) -> None:
    for wrong in ({"format": ["x"]}, {"label": 3}, {"sha256": 7}, {"facts": []}):
        facts = {"path": "a", "format": "kineto", "facts": {}} | wrong
        head = {"tracekit": "events-jsonl", "schema": schema.VERSION, "run": {"sources": [facts]}}
        with pytest.raises(ParseError, match="run"):
            tracekit.read(lines_file(tmp_path / "x.jsonl", json.dumps(head, separators=(",", ":")), ROW))

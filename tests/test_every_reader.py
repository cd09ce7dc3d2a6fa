"""What every reader owes for every sample: one YES, exact rows, a ledger that adds up, and no fear of damage."""

from __future__ import annotations

import codecs
import random
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from support import SAMPLES, corpus_root, read_sample, sample, sure_readers

import tracekit
from tracekit.api import inspect
from tracekit.errors import ParseError, UnknownFormatError, UnsupportedVersionError
from tracekit.formats import READERS
from tracekit.model.trace import Trace
from tracekit.readers.base import Confidence, Reader, ReadOptions
from tracekit.readers.sniff import votes
from tracekit.readers.source import open_source

FOLDERS = sorted(p.name for p in SAMPLES.iterdir() if p.is_dir() and p.name in READERS)
FILES = sorted(
    f"{folder}/{p.name}"
    for folder in FOLDERS
    for p in (SAMPLES / folder).iterdir()
    if not p.name.startswith(("_", "."))
)
EXPECTED = orjson.loads((SAMPLES / "expected.json").read_bytes())


def rows(trace: Trace) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    return trace.events.to_pylist(), trace.totals.to_pylist()


def is_text(path: Path) -> bool:
    data = path.read_bytes()
    return b"\0" not in data and not data.startswith(b"\x1f\x8b")


def is_document(path: Path) -> bool:
    """Whether a text is one JSON or XML document: its lines mean nothing."""
    return (
        path.read_bytes().removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[", b"<") and "jsonl" not in path.name
    )


def test_every_registered_reader_has_samples_or_is_written_by_us() -> None:
    assert set(READERS) - set(FOLDERS) <= {"parquet", "events-jsonl"}


@pytest.mark.parametrize("reader", READERS.values(), ids=lambda reader: reader.name)
def test_a_declaration_is_complete(reader: Reader) -> None:
    assert reader.sniff is not None or reader.marks.json
    assert reader.title
    assert reader.suffixes
    assert reader.gives in ("events", "totals", "both")
    for option in reader.options:
        assert option.help.endswith(".")
        assert option.help[0].isupper()
        assert ReadOptions().value(option) == option.default
        for choice in option.choices:
            assert ReadOptions(values={option.key: choice}).value(option) == choice


def test_a_head_that_a_sniffer_knows_has_the_marks_of_its_format() -> None:
    """Else the sniffer is not asked. Here each is asked about the beginning of each sample and corpus file."""
    paths = [SAMPLES / name for name in FILES] + [p for p in sorted(corpus_root().rglob("*")) if p.is_file()]
    with_words = {reader.name for reader in READERS.values() if reader.marks.words}
    marked = [r for r in READERS.values() if r.name in with_words or r.marks.begins or r.marks.tables]
    known = set()
    for path in paths:
        with open_source(str(path)) as source:
            head = replace(source.head(), data=source.head().data[:4096])
        for reader, answer in votes(head, marked):
            if reader.sniff is not None and not reader.marks.json:
                assert answer is reader.sniff(head), path
            if answer is not Confidence.NO:
                known.add(reader.name)
    assert with_words - known == {"parquet", "events-jsonl"}


@pytest.mark.parametrize("name", FILES)
def test_exactly_one_reader_says_yes_whatever_the_name(name: str, tmp_path: Path) -> None:
    shutil.copy(sample(name), tmp_path / "unknown")
    for path in (sample(name), tmp_path / "unknown"):
        assert sure_readers(path) == [name.split("/")[0]]


@pytest.mark.parametrize("name", FILES)
def test_the_ledger_adds_up_and_counts_what_the_generator_wrote(name: str) -> None:
    found = inspect(sample(name)).inputs[0]
    ledger = found["ledger"]
    parts = [ledger[k] for k in ("kept", "merged", "facts", "filtered")]
    assert ledger["read"] == sum(parts) + sum(ledger["ignored"].values()) + sum(ledger["dropped"].values())
    want = EXPECTED.get(name)
    if want and want["data_rows"]:
        assert found["events"] + found["totals"] == want["data_rows"] + want.get("totals_rows", 0)
        if "sum_dur_ns" in want and found["events"]:
            assert sum(k["dur_ns"] for k in found["by_kind"].values()) == want["sum_dur_ns"]


@pytest.mark.parametrize("name", FILES)
def test_a_cut_anywhere_keeps_whole_rows_or_says_why_not(name: str, tmp_path: Path) -> None:
    data = sample(name).read_bytes()
    whole = read_sample(name)
    most_dropped = sum(whole.ledgers[0].dropped.values()) + 1
    random_places = random.Random(name)
    for cut in sorted(random_places.randrange(len(data)) for _ in range(10)):
        path = tmp_path / f"cut{cut}"
        path.write_bytes(data[:cut])
        try:
            trace = tracekit.read(path)
        except (ParseError, UnknownFormatError):
            continue
        assert len(trace.events) <= len(whole.events)
        assert sum(trace.ledgers[0].dropped.values()) <= most_dropped


PASTED = {"ncu", "nsys-stats-csv", "nvprof-csv", "nvprof-text", "theano"}
"""Tables that people paste without the end of the last line: a last row that has all its cells is kept."""
LINES = [
    name
    for name in FILES
    if is_text(SAMPLES / name) and not is_document(SAMPLES / name) and name.split("/")[0] not in PASTED
]


@pytest.mark.parametrize("name", LINES)
def test_a_last_line_that_is_cut_within_a_field_is_not_a_row(name: str, tmp_path: Path) -> None:
    """A name or number that was cut looks whole: the rows are those of the whole lines before it."""
    lines = sample(name).read_bytes().rstrip().splitlines(keepends=True)
    last = max((at for at, line in enumerate(lines) if len(line.strip()) > 4), default=0)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.write_bytes(b"".join(lines[:last]))
    cut.write_bytes(b"".join([*lines[:last], lines[last].rstrip()[:-2]]))
    try:
        wanted = rows(tracekit.read(whole))
    except (ParseError, UnknownFormatError):
        pytest.skip("the lines before the last one are no trace")
    assert rows(tracekit.read(cut)) == wanted, lines[last]


@pytest.mark.parametrize("name", [name for name in FILES if is_text(SAMPLES / name)])
def test_a_number_of_23_digits_is_no_bug(name: str, tmp_path: Path) -> None:
    """No column has room for it: what has it is dropped, ignored or kept as text, or the file is refused."""
    data = sample(name).read_bytes()
    places = [found.span() for found in re.finditer(rb"(?<![\w.])\d+(?![\w.])", data)]
    random_places = random.Random(name)
    for start, end in random_places.sample(places, min(6, len(places))):
        path = tmp_path / f"at{start}"
        path.write_bytes(data[:start] + b"9" * 23 + data[end:])
        with suppress(ParseError, UnknownFormatError, UnsupportedVersionError):
            assert len(tracekit.read(path).events) <= len(read_sample(name).events) + 1


@pytest.mark.parametrize("name", [name for name in FILES if is_text(SAMPLES / name)])
def test_line_ends_and_a_byte_order_mark_change_nothing(name: str, tmp_path: Path) -> None:
    data = sample(name).read_bytes().replace(b"\r\n", b"\n").removeprefix(codecs.BOM_UTF8)
    plain, changed = tmp_path / "plain", tmp_path / "changed"
    plain.write_bytes(data)
    changed.write_bytes(codecs.BOM_UTF8 + data.replace(b"\n", b"\r\n"))
    assert rows(tracekit.read(changed)) == rows(tracekit.read(plain))


@pytest.mark.parametrize("name", FILES)
def test_parquet_and_back_is_equal(name: str, tmp_path: Path) -> None:
    trace = read_sample(name)
    tracekit.write(trace, tmp_path / "x.parquet")
    again = tracekit.read(tmp_path / "x.parquet")
    assert rows(again) == rows(trace)
    assert again.run.devices == trace.run.devices
    assert again.run.origin_ns == trace.run.origin_ns
    for column in (*trace.events.columns, *trace.totals.columns):
        for chunk in column.chunks:
            if pa.types.is_dictionary(chunk.type):  # else rows of one text are two groups
                assert len(chunk.dictionary.unique()) == len(chunk.dictionary)


@pytest.mark.parametrize("name", FILES)
def test_a_packed_copy_reads_the_same(name: str, tmp_path: Path) -> None:
    import gzip

    # A dump of the Flight Recorder has its rank in the name of the file alone.
    path = tmp_path / f"{Path(name).name}.gz"
    path.write_bytes(gzip.compress(sample(name).read_bytes()))
    assert rows(tracekit.read(path)) == rows(read_sample(name))


@pytest.mark.parametrize(
    "junk", [b"", b"\0" * 100, b"\xff\xfe", b"hello world\n", b"\x89PNG\r\n\x1a\n" + bytes(range(256))]
)
def test_what_is_no_trace_is_refused_kindly(junk: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(junk)
    with pytest.raises(UnknownFormatError) as caught:
        tracekit.read(path)
    assert caught.value.hint


def test_sniffers_are_pure_and_never_raise_on_any_bytes() -> None:
    from hypothesis import given
    from hypothesis import strategies as st

    from tracekit.readers.head import Head

    @given(st.binary(max_size=300), st.text(max_size=20))
    def check(data: bytes, name: str) -> None:
        for _, answer in votes(Head(name, data), READERS.values()):
            assert answer in Confidence

    check()


def test_an_empty_event_table_is_of_the_schema() -> None:
    assert isinstance(Trace(pa.Table.from_batches([], tracekit.read(sample(FILES[0])).events.schema)), Trace)

"""What tracekit cannot read is named, with the command that makes something readable of it."""

from __future__ import annotations

import contextlib
import gzip
import re
import shlex
import sqlite3
from pathlib import Path
from typing import NoReturn

import pytest
from support import sample

import tracekit
from tracekit.errors import AmbiguousFormatError, UnknownFormatError
from tracekit.formats import READERS
from tracekit.plugins import PluginWarning
from tracekit.readers.base import Confidence, Mark, Marks, Reader, Strength
from tracekit.readers.head import Head
from tracekit.readers.sniff import identify, votes
from tracekit.readers.source import open_source

BINARY = bytes(range(256)) * 3


def xspace() -> bytes:
    """An XSpace with a plane of the host, as TensorFlow and JAX write it."""
    name = b"/host:CPU"
    plane = b"\x08\x01\x12" + bytes([len(name)]) + name + b"\x22\x06\x08\x01\x12\x02\x08\xff"
    return b"\x0a" + bytes([len(plane)]) + plane


def refused(path: Path, data: bytes) -> UnknownFormatError:
    path.write_bytes(data)
    head = Head(path.name, data, text=b"\0" not in data)
    assert Confidence.YES not in [answer for _, answer in votes(head, READERS.values())]
    with pytest.raises(UnknownFormatError) as caught:
        tracekit.read(path)
    return caught.value


@pytest.mark.parametrize("name", ["run 1.nsys-rep", "run.qdrep", "RUN.QDREP"])
def test_what_is_a_report_of_nsight_systems_in_name_only_is_said_to_be_so(name: str, tmp_path: Path) -> None:
    err = refused(tmp_path / name, BINARY)
    assert "it has the name of a Nsight Systems report, but not its first line" in str(err)
    told, _, command = err.hint.partition(": ")
    stem = str(tmp_path / name).rsplit(".", 1)[0]
    assert told == "copy it again, or export it where nsys is installed"
    assert shlex.split(command) == ["nsys", "export", "--type", "sqlite", "-o", f"{stem}.sqlite", str(tmp_path / name)]


@pytest.mark.parametrize("name", ["run.nsys-rep", "run.sqlite", "trace.json"])
def test_a_pointer_of_git_lfs_comes_with_the_command_that_fetches_the_file(name: str, tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 + b"\nsize 1048576\n"
    err = refused(tmp_path / name, pointer)
    assert "a Git LFS pointer" in str(err)
    assert shlex.split(err.hint.partition(": ")[2]) == ["git", "lfs", "pull", "--include", str(tmp_path / name)]


def test_a_raw_stream_must_be_imported_first(tmp_path: Path) -> None:
    err = refused(tmp_path / "run.qdstrm", BINARY)
    assert f"QdstrmImporter --input-file {tmp_path / 'run.qdstrm'}" in err.hint


@pytest.mark.parametrize(("name", "tool"), [("run 1.ncu-rep", "ncu"), ("run.nsight-cuprof-report", "nv-nsight-cu-cli")])
def test_a_closed_report_of_nsight_compute_comes_with_its_export(name: str, tool: str, tmp_path: Path) -> None:
    err = refused(tmp_path / name, BINARY)
    assert "no timeline" in str(err)
    told, _, command = err.hint.partition(": ")
    stem = str(tmp_path / name).rsplit(".", 1)[0]
    assert told == "export it"
    words = [tool, "--import", str(tmp_path / name), "--csv", "--page", "raw", ">", f"{stem}.csv"]
    assert shlex.split(command) == words


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("name", ["session.nvvp", "unknown"])
def test_a_session_of_the_visual_profiler_in_xml_is_no_profile(version: str, name: str, tmp_path: Path) -> None:
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<session version="{version}"><executable path="a.out"/></session>\n'
    )
    err = refused(tmp_path / name, text.encode())
    assert "without a timeline" in str(err)
    assert err.hint == "give the database that it was made from, or make one: nvprof -o run.nvprof PROGRAM"


def test_an_xplane_file_without_its_beginning_is_named(tmp_path: Path) -> None:
    err = refused(tmp_path / "host.xplane.pb", xspace()[2:])
    assert "does not begin with a plane" in str(err)
    assert "binary mode" in err.hint


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"SQLite format 3\0" + b"\0" * 200, "SQLite database in which no table can be read"),
        (b"PK\x03\x04" + BINARY, "zip archive"),
        (BINARY, "a binary file"),
        (b"", "the file is empty"),
        (b" \n\0", "the file begins with zero bytes and blanks alone"),
        (b"\n  Dear diary,\n", "text that begins with 'Dear diary,'"),
    ],
)
def test_what_is_foreign_is_named(data: bytes, reason: str, tmp_path: Path) -> None:
    err = refused(tmp_path / "x", data)
    assert reason in str(err)
    assert err.hint


def test_a_database_of_another_program_and_a_cut_one_differ(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.executescript("pragma page_size = 512; create table notes (text); create table more (n integer);")
        made.executemany("insert into more values (?)", [(n,) for n in range(1000)])
        made.commit()
    whole = path.read_bytes()
    assert "without the tables of nvprof or Nsight Systems" in str(refused(path, whole))
    cut = refused(tmp_path / "cut.db", whole[:512])
    assert "in which no table can be read" in str(cut)
    assert ".recover" in cut.hint


TALK = b"epoch 7 loss 0.125 accuracy 0.9375\n" * 4000


@pytest.mark.parametrize(
    "name",
    [
        "theano/two-functions-scan-and-sum.txt",
        "singa/verbosity-2.txt",
        "caffe-time/gpu.log",
        "fluid-report/all.txt",
        "paddle-summary/gpu.txt",
        "mxnet-table/mxnet19.txt",
        "torch-table/cuda.txt",
        "nvprof-text/summary.txt",
    ],
)
def test_a_profile_printed_at_the_end_of_a_long_log_is_known(name: str, tmp_path: Path) -> None:
    whole = tracekit.read(sample(name))
    for path, pack in ((tmp_path / "x", bytes), (tmp_path / "x.gz", gzip.compress)):
        path.write_bytes(pack(TALK + sample(name).read_bytes()))
        trace = tracekit.read(path)
        assert trace.run.sources[0].format == name.split("/")[0]
        assert trace.totals.num_rows == whole.totals.num_rows


def test_a_long_log_without_a_profile_and_one_with_two_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(TALK)
    with pytest.raises(UnknownFormatError):
        tracekit.read(tmp_path / "x")
    both = sample("singa/verbosity-2.txt").read_bytes() + sample("caffe-time/gpu.log").read_bytes()
    (tmp_path / "y").write_bytes(TALK + both)
    with pytest.raises(AmbiguousFormatError):
        tracekit.read(tmp_path / "y")


def read_nothing(*_: object) -> NoReturn:
    raise NotImplementedError


def dialect(name: str, word: bytes, strength: Strength = Strength.EVENTS) -> Reader:
    """A reader from outside, whose trace-event files hold a word."""
    return Reader(
        name, name, (".json",), None, read_nothing, marks=Marks(json=(Mark(re.compile(word).search, strength),))
    )


ACME = b'{"traceEvents":[{"ph":"X","name":"f","cat":"acme","ts":1,"dur":1,"pid":1,"tid":1}]}'


def test_a_dialect_from_outside_needs_no_change_here(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(ACME)
    with open_source(str(path)) as source:
        assert identify(source, READERS.values()).name == "chrome-trace"
        acme = dialect("acme", b'"cat":"acme"')
        assert identify(source, (*READERS.values(), acme)).name == "acme"
        assert identify(source, (acme, *READERS.values())).name == "acme"


def test_two_dialects_that_are_equally_sure_are_ambiguous(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(ACME)
    both = dialect("acme", b"acme"), dialect("other", b"cat")
    with open_source(str(path)) as source:
        with pytest.raises(AmbiguousFormatError, match="acme or other"):
            identify(source, (*READERS.values(), *both))
        stronger = dialect("third", b"traceEvents", Strength.HEADER)
        assert identify(source, (*READERS.values(), *both, stronger)).name == "third"


def fails(_: object) -> NoReturn:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (
            Reader("toy", "Toy", (), fails, read_nothing, marks=Marks(in_logs=True)),
            "its sniffer failed with ZeroDivisionError: division by zero",
        ),
        (
            Reader("toy", "Toy", (), lambda _: None, read_nothing),
            "its sniffer failed with ValueError: None is not a valid Confidence",
        ),
        (
            Reader("toy", "Toy", (), None, read_nothing, marks=Marks(json=(Mark(fails),))),
            "a mark raised ZeroDivisionError: division by zero",
        ),
    ],
)
def test_a_reader_from_outside_that_fails_is_named_and_skipped(broken: Reader, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(ACME)
    acme = dialect("acme", b'"cat":"acme"')
    with open_source(str(path)) as source, pytest.warns(PluginWarning) as warned:
        assert identify(source, (broken, *READERS.values(), acme)).name == "acme"
    assert [str(each.message) for each in warned] == [f"reader toy skipped ({reason})"]


def test_a_table_printed_at_the_end_of_a_log_is_found_by_a_reader_from_outside(tmp_path: Path) -> None:
    def sniff(head: Head) -> Confidence:
        return Confidence.YES if b"ACME PROFILE" in head.data else Confidence.NO

    path = tmp_path / "x.log"
    path.write_bytes(b"training\n" * 20_000 + b"ACME PROFILE\n")
    with open_source(str(path)) as source:
        with pytest.raises(UnknownFormatError):
            identify(source, (*READERS.values(), Reader("acme", "", (), sniff, read_nothing)))
        printed = Reader("acme", "", (), sniff, read_nothing, marks=Marks(in_logs=True))
        assert identify(source, (*READERS.values(), printed)).name == "acme"


@pytest.mark.parametrize("first", [b"SQLite format 3\0", b"PAR1"])
def test_the_words_of_a_packed_file_count_although_it_has_bytes_of_any_value(first: bytes) -> None:
    asked: list[str] = []

    def reader(name: str, marks: Marks) -> Reader:
        def sniff(_: Head) -> Confidence:
            asked.append(name)
            return Confidence.NO

        return Reader(name, "", (), sniff, read_nothing, marks=marks)

    head = Head("a", first + b"\x1b[0m create table start(here)", text=False, tables=frozenset({"start"}))
    readers = [
        reader("other words", Marks(words=("elsewhere",))),
        reader("its words", Marks(words=("create table start",))),
        reader("printed", Marks(in_logs=True, words=("start",))),
        reader("database", Marks(tables=True)),
        reader("without marks", Marks()),
    ]
    votes(head, readers)
    printed = [] if first.startswith(b"SQLite") else ["printed"]
    assert asked == ["its words", *printed, "database", "without marks"]
    assert {answer for _, answer in votes(Head("a", b"\x1b[0m no words"), readers[:1])} == {Confidence.NO}
    assert asked[-1] == "other words"

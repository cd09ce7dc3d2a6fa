"""Bombs of every kind (bombs.py): each ends within the limits, with one sentence.

What holds them is the system: a child reads them with a limit on its memory and on the processor time of each file, and
one that goes beyond ends the child. `python tests/bombs.py OUT` does the same under the usual limits, with larger ones.
"""

from __future__ import annotations

import gzip
import re
import sys
import zipfile
from pathlib import Path

import bombs
import pytest
from bombs import EACH, KB, KINDS, MB

import tracekit
from tracekit.errors import TracekitError, UnknownFormatError
from tracekit.readers.sqlite.database import repeated_page

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the limits of the system that hold a child are its own"
)

PACKED = ("gzip", "zstd", "nested", "zip", "sqlite", "parquet")
"""Kinds whose cost is in what they unpack to; the others are as large as their cost."""
ALLOWED = (
    "no events in it",
    "(--max-read-bytes",
    "not a known profile format",
    "no record of it can be read",
    "could not be read: times and counts cover the others only",
    "the compressed data is damaged",
    "of memory to be unpacked",
    "the database cannot be read",
    "without its table StringIds",
    "is in the trees of the database more than once",
    'neither a JSON array nor an object with "traceEvents"',
    "no readable Parquet file",
    "after row",
    "footer",
    "a pickle",
    "the pickle",
    "that no snapshot has",
    "a table header without rows",
    "a profile without samples",
    "byte ",
)
"""What a bomb may end with: a limit and its option, or the reason why there is nothing to read in it."""
LEAST_LIMITED = {"gzip": 10, "zstd": 10, "zip": 8, "sqlite": 5, "parquet": 8}
"""Bombs that end at a limit, at least; others cost nothing, or are refused before."""


def checked(each: dict[str, object]) -> str:
    """Return the sentence that a file ended with, "" for one that was read as a whole."""
    assert each["code"] in (0, 1), each
    said = each["said"]
    assert isinstance(said, list)
    inside = each["code"] and ".zip" in str(said)  # each file in an archive is an input
    assert len(said) == each["code"] or (inside and len(set(said)) == len(said)), each
    text = str(said[0]) if said else ""
    assert not text or any(words in text for words in ALLOWED), each
    return text


@pytest.mark.parametrize("kind", KINDS)
def test_bombs_end_within_the_usual_limits_with_one_sentence(kind: str, tmp_path: Path) -> None:
    size = 3 * MB if kind in PACKED else 300 * KB
    paths = list(bombs.write(tmp_path, kind, range(EACH), size))
    assert len(paths) == EACH
    found = list(bombs.results(paths, ["inspect", "FILE"], seconds=30, memory=1 << 30, unpacked=MB))
    said = [checked(each) for each in found]
    assert [Path(str(each["file"])) for each in found] == paths
    assert sum("--max-read-bytes" in text for text in said) >= LEAST_LIMITED.get(kind, 0), said


@pytest.mark.parametrize("kind", ["json-width", "lanes", "names", "columns", "stacks"])
def test_bombs_that_are_as_large_as_they_cost_end_at_a_limit_of_bytes(kind: str, tmp_path: Path) -> None:
    paths = list(bombs.write(tmp_path, kind, range(0, EACH, 3), 600 * KB))
    words = ["summary", "FILE", "--max-read-bytes", "40KiB"]
    for each in bombs.results(paths, words, seconds=30, memory=1 << 30):
        assert checked(each)


def test_the_list_of_a_zip_archive_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(50):
            archive.writestr(f"{number}.txt", b"no profile")
    lists: list[object] = []
    usual = zipfile.ZipFile.infolist
    monkeypatch.setattr(zipfile.ZipFile, "infolist", lambda self: lists.append(self) or usual(self))
    with pytest.raises(UnknownFormatError):
        tracekit.read(path)
    assert len(lists) == 1


@pytest.mark.parametrize(
    ("kind", "number", "said"),
    [
        ("zip", 9, "needs 4 GiB of memory to be unpacked, more than 64 MiB"),
        ("zstd", 13, "needs more than 128 MiB of memory to be unpacked (a zstd window)"),
        ("nested", 12, "a compressed file within a compressed one"),
        ("sqlite", 7, "it is in the trees of the database more than once"),
    ],
)
def test_a_bomb_is_refused_with_its_reason(kind: str, number: int, said: str, tmp_path: Path) -> None:
    (path,) = bombs.write(tmp_path, kind, [number], MB)
    with pytest.raises(TracekitError, match=re.escape(said)):
        tracekit.read(path)


def test_a_gzip_file_with_a_huge_name_is_read(tmp_path: Path) -> None:
    text = bombs.TEXTS["events"](10 * KB)[:-2] + b"]}"
    path = tmp_path / "a.gz"
    path.write_bytes(b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * MB + b"\0" + gzip.compress(text, mtime=0)[10:])
    trace = tracekit.read(path)
    assert trace.events.num_rows == text.count(b'"ph"')


@pytest.mark.parametrize("name", ["nvprof-sqlite/version-8.nvvp", "nsys-sqlite/two-processes.sqlite"])
def test_pages_of_whole_databases_are_there_once(name: str) -> None:
    assert repeated_page(bombs.SAMPLES / name) is None


def test_a_child_that_is_ended_is_a_result() -> None:
    """The limits of the system hold: a test that cannot fail would prove nothing."""
    path = bombs.SAMPLES / "nvprof-csv" / "gpu-and-api-trace.csv"
    (ended,) = bombs.results([path], ["inspect", "FILE"], seconds=30, memory=40 << 20)
    assert ended["code"] != 0

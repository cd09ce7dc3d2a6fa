"""Gzip in blocks: every reader opens it, and the bytes depend on the text alone."""

from __future__ import annotations

import gzip
import io
import itertools
import threading
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import igzip
from writing import check_full_disk

from tracekit.writers import gzipped
from tracekit.writers.gzipped import BLOCK


def packed(pieces: list[bytes], cores: int = 2) -> bytes:
    out = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gzipped, "cpus", lambda: cores)
        with gzipped.gzipped(out) as file:
            for piece in pieces:
                assert file.write(memoryview(piece)) == len(piece)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tracekit-gzip")]
    return out.getvalue()


TEXT = b"".join(b'{"ts":%d},\n' % n for n in range(130_000))


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, len(TEXT)])
def test_every_reader_finds_the_text_in_one_member(size: int) -> None:
    data = packed([TEXT[:size]])
    assert gzip.decompress(data) == igzip.decompress(data) == TEXT[:size]
    one = zlib.decompressobj(wbits=31)  # a reader that stops after the first member
    assert one.decompress(data) == TEXT[:size]
    assert one.eof
    assert not one.unused_data


@given(st.lists(st.integers(0, len(TEXT)), max_size=5), st.sampled_from([1, 2, 8]))
def test_the_bytes_depend_on_the_text_alone(cuts: list[int], cores: int) -> None:
    bounds = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[start:end] for start, end in itertools.pairwise(bounds)]
    assert packed(pieces, cores) == packed([TEXT], 1)


@pytest.mark.parametrize("to", ["chrome", "perfetto", "jsonl"])
def test_a_full_disk_is_one_sentence(to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzipped, "cpus", lambda: 2)
    check_full_disk(tmp_path / "a.gz", to)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tracekit-gzip")]


def test_an_error_leaves_no_thread_and_no_end() -> None:
    out = io.BytesIO()

    def broken() -> None:
        with gzipped.gzipped(out) as file:
            file.write(TEXT)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tracekit-gzip")]
    with pytest.raises(EOFError):
        gzip.decompress(out.getvalue())

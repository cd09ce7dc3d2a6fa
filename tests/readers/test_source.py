from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small

from tracekit.errors import InputError, MissingExtraError, ParseError
from tracekit.model.trace import Ledger
from tracekit.readers.source import Source, open_source


def text_of(path: Path, ledger: Ledger | None = None, size: int = 64) -> bytes:
    with open_source(str(path)) as source:
        return b"".join(block.data for block in source.line_blocks(ledger or Ledger(), size))


@given(
    st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), max_size=30),
    st.integers(1, 50),
    st.booleans(),
)
def test_blocks_hold_whole_lines_with_true_offsets(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], size: int, end: bool
) -> None:
    text = b"\n".join(line.decode("latin-1").encode("ascii", "ignore") for line in lines) + (b"\n" if end else b"")
    path = tmp_path_factory.mktemp("s") / "x"
    path.write_bytes(b"." + text)
    text = b"." + text
    with open_source(str(path)) as source:
        blocks = list(source.line_blocks(Ledger(), size))
    assert b"".join(b.data for b in blocks) == text
    for block in blocks:
        assert text[block.offset :].startswith(block.data)
        assert block.line == 1 + text[: block.offset].count(b"\n")
        assert block.torn == (not block.data.endswith(b"\n"))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress, bytes])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_compression_and_encoding_are_seen_through(tmp_path: Path, pack: object, encoding: str) -> None:
    text = "Zeile ünö\n名前\n" * 50
    path = tmp_path / "x"
    path.write_bytes(pack(("A long ascii line first\n" * 50 + text).encode(encoding)))  # type: ignore[operator]
    ledger = Ledger()
    got = text_of(path, ledger)
    assert got.decode() == "A long ascii line first\n" * 50 + text
    assert ("utf-16" in ledger.notes) == encoding.startswith("utf-16")
    with open_source(str(path)) as source:
        assert source.head().data.startswith(b"A long ascii")


@pytest.mark.parametrize(
    "pack", [lambda data: gzip.compress(data, 6), zstandard.ZstdCompressor(level=1, write_checksum=True).compress]
)
def test_packed_data_damaged_anywhere_gives_what_came_before_or_is_refused(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    text = b"".join(b"line %d %s\n" % (i, hashlib.sha256(b"%d" % i).hexdigest().encode()) for i in range(3000))
    packed = pack(text)
    path = tmp_path / "x"
    refused = 0
    for at in range(11, len(packed), len(packed) // 150):
        path.write_bytes(packed[:at] + bytes((packed[at] ^ 0xFF,)) + packed[at + 1 :])
        ledger = Ledger()
        try:
            with open_source(str(path)) as source:
                source.head()
                got = b"".join(source.chunks(ledger))
        except InputError:
            refused += 1
            continue
        assert got == text or ledger.notes
        with open_source(str(path)) as source:
            try:
                source.plain_path()
            except InputError:
                refused += 1
    assert refused


def test_zstd_blocks_before_the_damage_are_read(tmp_path: Path) -> None:
    text = b"".join(b"line %d %s\n" % (i, hashlib.sha256(b"%d" % i).hexdigest().encode()) for i in range(20_000))
    packed = bytearray(zstandard.ZstdCompressor(level=1, write_checksum=True).compress(text))
    packed[-3000:-2000] = b"\xff" * 1000
    (tmp_path / "x").write_bytes(packed)
    ledger = Ledger()
    got = text_of(tmp_path / "x", ledger, 1 << 20)
    assert "compressed-file-damaged" in ledger.notes
    assert len(got) > len(text) // 2
    assert text.startswith(got[: len(got) // 2])


def test_a_cut_gzip_gives_what_came_before_and_a_note(tmp_path: Path) -> None:
    whole = b"".join(b"line %d\n" % i for i in range(20000))
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(whole)[:-2000])
    ledger = Ledger()
    got = text_of(path, ledger, 1 << 16)
    assert got
    assert whole.startswith(got)
    assert "compressed-file-damaged" in ledger.notes


def test_bytes_that_are_not_utf8_are_replaced_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"good\nb\xffd\n")
    ledger = Ledger()
    assert text_of(path, ledger).decode() == "good\nb\ufffdd\n"
    assert ledger.notes["not-utf-8"].places == ["byte 6"]


def test_a_line_beyond_the_limit_costs_that_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.LINE_BYTES, 100)
    path = tmp_path / "x"
    path.write_bytes(b"a\n" + b"x" * 1000 + b"\nb\nc")
    ledger = Ledger()
    with open_source(str(path)) as source:
        blocks = list(source.line_blocks(ledger, 10))
    assert b"".join(b.data for b in blocks) == b"a\nb\nc"
    assert [b.line for b in blocks if b.data.startswith(b"b")] == [3]
    assert ledger.dropped == {"line-too-long": 1}
    assert ledger.read == 1


def test_a_line_of_100_mb_takes_bounded_memory_and_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"y" * 1_000_000)
        file.write(b"\nlast\n")
    ledger = Ledger()
    assert text_of(path, ledger, 1 << 20) == b"last\n"
    assert ledger.dropped == {"line-too-long": 1}


def test_what_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_source(str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="is a folder"):
        open_source(str(tmp_path))


def test_stdin_is_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", type("In", (), {"buffer": io.BytesIO(b"hello\n")}))
    with open_source("-") as source:
        assert source.head().data == b"hello\n"
        copy = source.path
    assert not copy.exists()


def test_a_url_without_fsspec_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError) as caught:
        open_source("s3://bucket/x")
    assert caught.value.hint == "pip install 'tracekit-gpu[remote]'"


def test_read_whole_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"0" * 5000))
    with open_source(str(path)) as source:
        assert source.read_whole() == b"0" * 5000
        with pytest.raises(ParseError, match="larger than"):
            source.read_whole(100)


def test_the_head_of_a_database_lists_its_tables_also_when_packed(tmp_path: Path) -> None:
    plain = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(plain)) as db, db:
        db.execute("create table StringTable(a)")
    packed = tmp_path / "x.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        with open_source(str(path)) as source:
            assert source.head().tables == {"StringTable"}
            assert source.plain_path().read_bytes() == plain.read_bytes()


def test_fingerprint_is_of_the_file_as_it_lies_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert Source("x", path).sha256() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_what_stands_before_the_cut_of_a_gzip_file_is_given(tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % n for n in range(5000))
    packed = gzip.compress(text)
    for cut in (len(packed) - 3, len(packed) // 2, 200):
        path = tmp_path / f"x{cut}.gz"
        path.write_bytes(packed[:cut])
        ledger = Ledger()
        with open_source(str(path)) as source:
            assert text.startswith(source.head().data)
            found = b"".join(source.chunks(ledger))
        assert found
        assert text.startswith(found)
        assert len(found) > 0.9 * len(text) * cut / len(packed) - 6000
        assert "compressed-file-damaged" in ledger.notes


def test_rubbish_behind_a_gzip_file_costs_nothing_but_a_note(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n") + b"rubbish")
    ledger = Ledger()
    assert text_of(path, ledger) == b"one\ntwo\n"
    assert "compressed-file-damaged" in ledger.notes


def test_a_cut_zstd_file_is_noticed(tmp_path: Path) -> None:
    whole = b"".join(b"%d line\n" % (i * 7919) for i in range(100_000))
    packed = zstandard.ZstdCompressor().compress(whole)
    path = tmp_path / "x.zst"
    path.write_bytes(packed[: len(packed) // 2])
    ledger = Ledger()
    got = text_of(path, ledger, 1 << 16)
    assert whole.startswith(got)
    assert "compressed-file-damaged" in ledger.notes
    path.write_bytes(packed + packed)
    assert text_of(path, size=1 << 16) == whole + whole


def test_carriage_returns_alone_end_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a\rb\rc")
    ledger = Ledger()
    assert text_of(path, ledger) == b"a\nb\nc"
    assert "cr-line-ends" in ledger.notes


def test_a_pipe_is_read_and_a_device_refused(tmp_path: Path) -> None:
    import os
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(b"hello\n")).start()
    with open_source(str(pipe)) as source:
        assert source.head().data == b"hello\n"
    with pytest.raises(InputError, match="is a device"):
        open_source("/dev/zero")


def test_the_tail_is_the_end_of_what_is_packed_and_nothing_where_it_is_damaged(tmp_path: Path) -> None:
    text = b"".join(b"%d\n" % i for i in range(50_000))
    path = tmp_path / "x"
    for packed in (text, gzip.compress(text), zstandard.ZstdCompressor().compress(text)):
        path.write_bytes(packed)
        with open_source(str(path)) as source:
            assert source.tail(1000) == text[-1000:]
            assert source.tail(1 << 30) == text
        path.write_bytes(packed + b"junk")
        with open_source(str(path)) as source:
            assert source.tail(1000) == (b"" if packed is not text else (text + b"junk")[-1000:])


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (type("NoCredentialsError", (Exception,), {})("Unable to locate credentials"), "Unable to locate credentials"),
        (type("Refused", (Exception,), {})(), "Refused"),
    ],
)
def test_what_an_object_store_raises_is_told_in_a_sentence(
    raised: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    def refuse(*_: object) -> None:
        raise raised

    monkeypatch.setattr(fsspec, "open", refuse)
    with pytest.raises(InputError, match=rf"s3://bucket/run.csv: cannot be opened \({told}\)"):
        open_source("s3://bucket/run.csv")


@pytest.fixture
def server() -> Iterator[str]:
    """Return the address of a server that answers /NUMBER with that status, and /WORD with what goes wrong there."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            word = self.path.strip("/").partition(".")[0]
            headers = {
                "circle": {"Location": self.path},
                "file": {"Location": "file:///etc/passwd"},
                "cut": {"Content-Length": "300"},
                "packed": {"Content-Encoding": "gzip", "Content-Length": "200"},
            }.get(word, {})
            if word == "odd":
                self.wfile.write(b"no status\r\n\r\n")
                return
            if word != "closed":
                self.send_response(int(word) if word.isdigit() else 302 if "Location" in headers else 200)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"" if word.isdigit() else b"{}" * 100)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("{server}/404.json", "no such file on the server: HTTP 404"),
        ("{server}/403.json", "the server refuses access: HTTP 403"),
        ("{server}/503.json", "the server failed: HTTP 503"),
        ("{server}/418.json", "the server refuses: HTTP 418"),
        ("{server}/circle.json", "the server redirects in a circle"),
        ("{server}/file.json", "the server redirects to an address that is not of the web"),
        ("{server}/cut.json", "the connection ended before the file did"),
        ("{server}/packed.json", "its content is not compressed as the server says"),
        ("{server}/odd.json", "the answer is not HTTP"),
        ("{server}/closed.json", "the server closed the connection without an answer"),
        ("http://localhost:99999/x.json", "the address is not valid: Port out of range"),
        ("http:///x.json", "the address is not valid: it has no host"),
        ("http://[::1/x.json", "the address is not valid: Invalid IPv6 URL"),
        ("zz://x/y.json", "no known kind of address: zz"),
        ("https://{host}/x.json", "no secure connection"),
        ("http://127.0.0.1:{free}/x.json", "the host refuses the connection"),
        ("http://nonexistent.invalid/x.json", "its host has no address in the network"),
        ("memory://nothing/here.json", "no such file"),
    ],
)
def test_each_failure_of_a_url_has_its_own_sentence(address: str, why: str, server: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, not listening: nobody else takes the port
        url = address.format(server=server, host=server.removeprefix("http://"), free=unused.getsockname()[1])
        with pytest.raises(InputError) as caught:
            open_source(url)
    assert why in str(caught.value)
    assert caught.value.hint


def test_a_store_without_its_package_names_that_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    def missing(*_: object) -> None:
        raise ImportError("Please install gcsfs to access Google Storage")

    monkeypatch.setattr(fsspec, "open", missing)
    with pytest.raises(InputError, match="Please install gcsfs"):
        open_source("gs://bucket/x.json")
    with pytest.raises(MissingExtraError):
        open_source("s3://bucket/x.json")


def test_what_a_reader_left_open_is_closed(tmp_path: Path) -> None:
    """A reader that ends with an error stays alive in its traceback, and so does its generator."""
    (tmp_path / "x.txt").write_bytes(b"line\n" * 100)
    with open_source(str(tmp_path / "x.txt")) as source:
        left = source.chunks(Ledger(), 16)
        next(left)
        again = source.chunks(Ledger(), 16)
        next(again)
    for each in (left, again):
        with pytest.raises(ValueError, match="closed"):
            next(each)

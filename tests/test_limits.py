"""Files of strangers: each limit ends the reading, what was read is kept, and every output says that it is not all."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from small_limits import Limit, small
from support import LONG_S, sample
from support import run_command as run

import tracekit
from tracekit.errors import LimitError
from tracekit.model.trace import Ledger
from tracekit.readers.source import open_source
from tracekit.safety import limits
from tracekit.safety.limits import Limits, applied, size_of, size_text

MB = 1 << 20
CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
EVENT = b'{"ph":"X","name":"k","ts":1,"dur":1,"pid":1,"tid":1},\n'


def events(size: int) -> bytes:
    return b'{"traceEvents":[\n' + EVENT * (size // len(EVENT))


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def squeezed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(data)


def in_zeros(head: bytes) -> bytes:
    """A zstd frame that gives a head and then a gibibyte of newlines, in RLE blocks of 128 KiB."""
    frame = bytearray(b"\x28\xb5\x2f\xfd\x00\x58")  # no size, a window of 2 MiB
    frame += ((len(head) << 3) | 0).to_bytes(3, "little") + head
    for number in range(8192):
        frame += ((131072 << 3) | (1 << 1) | (number == 8191)).to_bytes(3, "little") + b"\n"
    return bytes(frame)


def database(folder: Path) -> bytes:
    """A database of nvprof's tables, most of which is empty pages."""
    path = folder / "a.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (_id_, start, end)")
        db.execute("create table pad (x)")
        db.execute("insert into pad values (zeroblob(?))", (6 * MB,))
    return path.read_bytes()


PACKED: dict[str, Callable[[Path], bytes]] = {
    "events.gz": lambda _: zipped(events(6 * MB)),
    "events.zst": lambda _: squeezed(events(6 * MB)),
    "one-line.gz": lambda _: zipped(b'{"traceEvents":[{"name":"' + b"k" * 6 * MB),
    "one-line.zst": lambda _: squeezed(b'{"traceEvents":[{"name":"' + b"k" * 6 * MB),
    "blanks.gz": lambda _: zipped(b'{"traceEvents":[' + b" " * 6 * MB),
    "blanks.zst": lambda _: squeezed(b'{"traceEvents":[' + b" " * 6 * MB),
    "a-gibibyte.zst": lambda _: in_zeros(b'{"traceEvents":[\n' + EVENT),
    "zeros.gz": lambda _: zipped(bytes(6 * MB)),
    "zeros.zst": lambda _: squeezed(bytes(6 * MB)),
    "members.gz": lambda _: zipped(events(MB // 4)) + zipped(EVENT * 20_000) * 6,
    "frames.zst": lambda _: squeezed(events(MB // 4)) + squeezed(EVENT * 20_000) * 6,
    "depth.gz": lambda _: zipped(b'{"traceEvents":[{"args":' + b"[" * 6 * MB),
    "depth.zst": lambda _: squeezed(b'{"traceEvents":[{"args":' + b'{"a":' * (5 * MB // 4)),
    "width.gz": lambda _: zipped(b'{"traceEvents":[{"args":{' + b'"a":1,' * MB),
    "csv.gz": lambda _: zipped(CSV.read_bytes() + CSV.read_bytes().splitlines(True)[-1] * 50_000),
    "csv.zst": lambda _: squeezed(CSV.read_bytes() + CSV.read_bytes().splitlines(True)[-1] * 50_000),
    "columns.gz": lambda _: zipped(CSV.read_bytes() + b'"x",' * (3 * MB // 2)),
    "utf-16.gz": lambda _: zipped(b"\xff\xfe" + events(3 * MB).decode().encode("utf-16-le")),
    "database.gz": lambda folder: zipped(database(folder)),
    "database.zst": lambda folder: squeezed(database(folder)),
    "folded.gz": lambda _: zipped(b"main;a;b 1\n" * 500_000),
    "recorder.gz": lambda _: zipped(sample("recorder-log/rank0.jsonl").read_bytes() + b"\n" * 6 * MB),
    "protobuf.gz": lambda _: zipped(sample("paddle-pb/gpu.paddle_trace.pb").read_bytes() + b"\x0a\x00" * 3 * MB),
}


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed input may have 1 MiB by default, or 20 times its size."""
    small(monkeypatch, Limit.UNPACKED_BYTES, MB)
    small(monkeypatch, Limit.EXPANSION, 20)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("name", PACKED)
def test_a_packed_bomb_ends_at_the_default_with_a_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(PACKED[name](tmp_path))
    assert path.stat().st_size < 200_000
    done = run("inspect", path, code=1)
    text = done.stdout + done.stderr
    told = [line for line in text.splitlines() if line.startswith(("INCOMPLETE", "error:"))]
    assert len(told) == 1, text
    unpacked = "unpacks from" in told[0] and "to more than 1 MiB (--max-read-bytes allows more)" in told[0]
    unknown = "not a known profile format" in told[0]  # nothing but the head of it was read
    damaged = "no record of it can be read" in told[0]
    assert unpacked or unknown or damaged, text


def test_a_stream_gives_no_byte_more_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(zipped(events(3 * MB)))
    for most in (1, 1000, MB, MB + 1, 5 * MB):
        with applied(Limits(read_bytes=most)), open_source(str(path)) as source:
            data = b"".join(source.chunks(Ledger()))
            whole = gzip.decompress(path.read_bytes())
            assert data == whole[:most]
            assert (source.stopped is None) == (len(whole) <= most)


def test_an_input_as_large_as_the_limit_is_whole(tmp_path: Path) -> None:
    size = CSV.stat().st_size
    whole = run("inspect", CSV, "--max-read-bytes", size)
    assert "INCOMPLETE" not in whole.stdout
    cut = run("inspect", CSV, "--max-read-bytes", size - 1, code=1)
    assert "has more than" in cut.stdout
    assert "(--max-read-bytes): the rest was not read" in cut.stdout


@pytest.mark.parametrize("command", ["summary", "inspect", "convert", "report", "query", "explain"])
def test_events_before_the_limit_are_kept_and_every_output_says_so(command: str, tmp_path: Path) -> None:
    more = {
        "convert": ["-o", tmp_path / "a.json"],
        "report": ["-o", tmp_path / "a.html"],
        "query": ["SELECT count(*) AS n FROM events", "--format", "csv"],
        "explain": ["kernel.total", "device.kernel_time"],
    }.get(command, [])
    done = run(command, CSV, *more, "--max-read-events", 20, code=1)
    said = "has more than 20 events (--max-read-events): the rest was not read"
    assert f"INCOMPLETE: {CSV.name} {said}" in done.stdout + done.stderr
    if command == "convert":
        assert len(tracekit.read(tmp_path / "a.json").events) == 20
    if command == "report":
        assert said in (tmp_path / "a.html").read_text()
    if command == "query":
        assert done.stdout.split() == ["n", "20"]


@pytest.mark.parametrize(
    "name",
    [
        "nvprof-csv/gpu-and-api-trace.csv",
        "nvprof-sqlite/version-8.nvvp",
        "kineto/gpu.pt.trace.json",
        "paddle-pb/gpu.paddle_trace.pb",
        "recorder-log/rank0.jsonl",
        "xplane/gpu.xplane.pb",
        "torch-table/plain.txt",
    ],
)
def test_a_limit_of_events_is_exact_in_every_kind_of_reader(name: str) -> None:
    path = sample(name)
    if not path.exists():
        path = next(each for each in sorted(path.parent.iterdir()) if each.is_file() and each.suffix != ".md")
    rows = len(tracekit.read(path).events) + len(tracekit.read(path).totals)
    for most in (1, rows - 1, rows, rows + 1):
        with tracekit.limits(read_events=most):
            trace = tracekit.read(path)
        assert len(trace.events) + len(trace.totals) == min(most, rows)
        assert bool(trace.incomplete) == (most < rows), (path, most, rows)


def archive_of(path: Path, rows: int, groups: int) -> None:
    """An archive of events that are all the same: a few bytes for any number of rows."""
    run("convert", CSV, "-o", path)
    schema = pq.read_schema(path).remove_metadata()
    first = pq.read_table(path).slice(0, 1).replace_schema_metadata(None).cast(schema)
    many = pa.concat_tables([first] * 1000).combine_chunks()
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        for _ in range(groups):
            out.write_table(pa.concat_tables([many] * (rows // groups // 1000)).combine_chunks())


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("groups", [1, 8])
def test_a_parquet_bomb_ends_at_the_default(groups: int, tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    archive_of(path, 160_000, groups)
    assert path.stat().st_size < 300_000
    done = run("inspect", path, code=1)
    assert "INCOMPLETE: bomb.parquet unpacks from" in done.stdout
    assert 0 < tracekit.inspect(path).inputs[0]["events"] < 160_000


def test_a_database_view_that_never_ends_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "create view CUPTI_ACTIVITY_KIND_KERNEL as with recursive c(start) as "
            "(select 1 union all select start + 1 from c) select start, start as end from c"
        )
    assert "error:" in run("inspect", path, code=1).stderr


def test_stdin_without_an_end_ends_at_the_limit() -> None:
    begin, more = events(1000).decode(), EVENT.decode() * 1000
    script = f"import sys\nsys.stdout.write({begin!r})\nwhile True: sys.stdout.write({more!r})"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as endless:
        words = [sys.executable, "-m", "tracekit", "inspect", "-", "--max-read-bytes", "1MiB"]
        done = subprocess.run(words, stdin=endless.stdout, capture_output=True, text=True, timeout=LONG_S, check=False)
        endless.kill()
    assert done.returncode == 1
    assert "INCOMPLETE: - has more than 1 MiB (--max-read-bytes)" in done.stdout


def test_reading_ends_before_the_time_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(events(9 * MB)[:-2] + b"]}")
    clock = iter([1.0] * 20 + [8.5] * 10_000)  # the producer is searched for first, in the whole file
    monkeypatch.setattr(limits.time, "monotonic", lambda: next(clock))
    with applied(Limits(seconds=10, began=0.0)):
        trace = tracekit.read(path)
    assert 0 < len(trace.events) < 9 * MB // len(EVENT)
    assert "was read for 80% of 10 s (--max-time): the rest was not read" in trace.incomplete[0]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--max-memory", "24MiB"], "it held more memory than 24 MiB (--max-memory)"),
        (["--max-time", "1ms"], "it took longer than 0.001 s (--max-time)"),
    ],
)
def test_a_command_beyond_memory_or_time_is_ended_with_a_sentence(option: list[str], said: str, tmp_path: Path) -> None:
    if "--max-memory" in option and sys.platform not in ("linux", "darwin"):
        pytest.skip("no limit of memory here")
    words = [sys.executable, "-m", "tracekit", "convert", str(CSV), "-o", str(tmp_path / "a.json"), *option]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error: the command was ended: {said}" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_watched_command_gives_its_output_and_its_code(tmp_path: Path) -> None:
    limit = ["--max-memory", "8GiB", "--max-time", "1h"]
    words = [sys.executable, "-m", "tracekit"]
    plain, held = (
        subprocess.run([*words, "inspect", str(CSV), *more], capture_output=True, text=True, timeout=LONG_S, check=True)
        for more in ([], limit)
    )
    assert plain.stdout == held.stdout
    bad = subprocess.run([*words, "inspect", "missing.csv", *limit], capture_output=True, timeout=LONG_S, check=False)
    assert bad.returncode == 1
    assert b"no such file" in bad.stderr


@pytest.mark.parametrize("option", ["--max-read-bytes", "--max-memory", "--max-time"])
@pytest.mark.parametrize("value", ["", "x", "-1", "0", "1e5x", "nan", "5 parsecs"])
def test_a_limit_that_is_none_is_refused(option: str, value: str) -> None:
    done = run("inspect", CSV, f"{option}={value}", code=None)
    assert done.exit_code == (0 if not value else 2), done.stderr
    assert bool(value) == (f"{option} {value}: not a" in done.stderr)


@pytest.mark.parametrize(("option", "said"), [("bytes", "1 byte "), ("events", "1 event ")])
def test_a_limit_of_one_is_said_in_the_singular(option: str, said: str) -> None:
    done = run("inspect", CSV, f"--max-read-{option}", 1, code=1)
    assert f"has more than {said}(--max-read-{option})" in done.stdout + done.stderr


def test_sizes() -> None:
    assert [size_of(text) for text in ("1", "2kB", "2KiB", "1.5MiB", "1 gb")] == [1, 2000, 2048, 3 * MB // 2, 10**9]
    assert [size_text(size) for size in (5, 2048, 3 * MB // 2)] == ["5 bytes", "2 KiB", "1.5 MiB"]


def test_a_format_that_is_read_as_a_whole_is_refused_beyond_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.speedscope.json.gz"
    profile = {"type": "sampled", "unit": "seconds", "startValue": 0, "endValue": 1, "samples": [], "weights": []}
    text = {"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": [profile]}
    path.write_bytes(zipped(json.dumps(text | {"shared": {"frames": []}, "pad": "x" * MB}).encode()))
    with applied(Limits(read_bytes=MB)), pytest.raises(LimitError, match=r"because it can only be read as a whole"):
        tracekit.read(path, format="speedscope")

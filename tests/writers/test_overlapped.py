"""Writing in a second thread: the same bytes, the same errors, and no thread left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from small_limits import Limit, small
from support import LONG_S, files_limited, sample
from writing import _crossing

import tracekit
from tracekit.errors import OutputError, ParseError
from tracekit.model.trace import Run, SourceFacts
from tracekit.readers.builder import event_batch
from tracekit.writers import WRITERS, overlapped
from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.overlapped import write_overlapped

BESIDE = [name for name, writer in WRITERS.items() if writer.names_only]


@pytest.fixture(autouse=True)
def two_cores_and_no_thread_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(overlapped, "cpus", lambda: 2)
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "tracekit-write"]


def batch(number: int) -> pa.RecordBatch:
    columns = {"ts_ns": [number], "dur_ns": [1], "event_id": [number], "source": [0], "kind": "operator"}
    return event_batch(1, columns | {"name": f"op {number}", "pid": [number], "tid": [number]})


def slow_writer(to: str, first: threading.Event) -> object:
    """Return a writer that begins when all batches have been made but the waiting ones."""

    def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
        assert first.wait(LONG_S)
        return WRITERS[to].write(stream, target, options)

    return replace(WRITERS[to], write=write)


def test_the_targets_for_large_traces_are_written_beside_the_reader() -> None:
    assert {"chrome", "perfetto", "parquet"} <= set(BESIDE)


@pytest.mark.parametrize("to", BESIDE)
@pytest.mark.parametrize(
    "name",
    [
        "nvprof-csv/appended-runs.csv",
        "kineto/gpu.pt.trace.json",
        "nsys-sqlite/two-processes.sqlite",
        "recorder-log/rank0.jsonl",
    ],
)
def test_the_bytes_do_not_depend_on_threads(
    to: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = sample(name)
    suffix = WRITERS[to].suffixes[0]
    both, alone = tmp_path / f"both{suffix}", tmp_path / f"alone{suffix}"
    first = tracekit.convert(source, both)
    monkeypatch.setattr(overlapped, "cpus", lambda: 1)
    second = tracekit.convert(source, alone)
    assert both.read_bytes() == alone.read_bytes()
    assert replace(first.written, path=alone) == second.written
    assert first.run == second.run


def growing(run: Run, made: list[int]) -> Iterator[pa.RecordBatch]:
    """Yield batches; names of processes and threads become known, and change, on the way."""
    for number in range(1, 7):
        run.threads[(0, number, number)] = f"worker {number}"
        run.processes[(0, 1)] = f"name {number}"
        made.append(number)
        yield batch(number)
    run.processes[(0, 1)] = "last name"
    run.sources[0].facts["end"] = 7
    run.origin_ns = 5


@pytest.mark.parametrize("to", BESIDE)
def test_the_writer_sees_names_as_they_were_when_its_batch_was_made(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, Limit.CHROME_BATCH_ROWS, 1)
    small(monkeypatch, Limit.PERFETTO_BATCH_ROWS, 1)
    begin = threading.Event()
    made: list[int] = []

    class Watched(list[int]):
        def append(self, number: int) -> None:
            super().append(number)
            if number == overlapped.AHEAD + 1:
                begin.set()  # the next batch has to wait for the writer

    files = []
    for name, writer in (("late", slow_writer(to, begin)), ("inline", replace(WRITERS[to], names_only=False))):
        run = Run(sources=[SourceFacts("x", "test")])
        target = tmp_path / name
        made = Watched()
        written = write_overlapped(writer, RowStream(run, growing(run, made)), target, WriteOptions())  # type: ignore[arg-type]
        assert written.events == 6
        files.append(target.read_bytes())
    assert files[0] == files[1]


def failing(after: int, error: BaseException) -> Iterator[pa.RecordBatch]:
    for number in range(after):
        yield batch(number)
    raise error


@pytest.mark.parametrize("to", BESIDE)
@pytest.mark.parametrize("after", [0, 1, 9])
@pytest.mark.parametrize("error", [ParseError("x", "line 3", "bad"), KeyboardInterrupt(), MemoryError()])
def test_an_error_of_the_reader_comes_out_as_it_is(to: str, after: int, error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as raised:
        write_overlapped(WRITERS[to], RowStream(Run(), failing(after, error)), tmp_path / "out", WriteOptions())
    assert raised.value is error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("to", BESIDE)
def test_a_full_disk_ends_the_reader_too(to: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"the old output")
    made = []

    def batches() -> Iterator[pa.RecordBatch]:
        for each in _crossing(99):
            made.append(1)
            yield each

    stream = RowStream(Run(), batches())
    with files_limited(0x1000), pytest.raises(OutputError) as raised:
        write_overlapped(WRITERS[to], stream, target, WriteOptions(force=True))
    assert str(raised.value).startswith(str(target))
    assert target.read_bytes() == b"the old output"
    assert list(tmp_path.iterdir()) == [target]
    assert len(made) < 99


def test_a_writer_that_takes_no_more_batches_ends_the_reader() -> None:
    def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
        return Written(target, events=next(stream.batches).num_rows)

    made: list[int] = []
    endless = iter(lambda: made.append(1) or batch(len(made)), None)
    writer = replace(WRITERS["chrome"], write=write)
    assert write_overlapped(writer, RowStream(Run(), endless), Path("x"), WriteOptions()).events == 1
    assert len(made) <= overlapped.AHEAD + 3


def test_one_core_means_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlapped, "cpus", lambda: 1)
    threads = set()

    def batches() -> Iterator[pa.RecordBatch]:
        threads.update(threading.enumerate())
        yield batch(1)

    write_overlapped(WRITERS["chrome"], RowStream(Run(), batches()), tmp_path / "out", WriteOptions())
    assert not [thread for thread in threads if thread.name == "tracekit-write"]


_ENDLESS = """
import itertools, sys
from tracekit import inputs
from tracekit.cli import main
from tracekit.writers import overlapped
overlapped.cpus = lambda: 2
ended = inputs.Inputs.stream
def endless(self, **how):
    stream = ended(self, **how)
    batches = list(stream.batches)
    stream.batches = (print("more", flush=True) or batch for batch in itertools.cycle(batches))
    return stream
inputs.Inputs.stream = endless
sys.argv = ["tracekit", "convert", sys.argv[1], "-o", sys.argv[2], "--to", sys.argv[3]]
main()
"""


@pytest.mark.parametrize("to", BESIDE)
def test_ctrl_c_leaves_nothing(to: str, tmp_path: Path) -> None:
    source, target = sample("nvprof-csv/gpu-trace-17-columns.csv"), tmp_path / "out"
    words = [sys.executable, "-c", _ENDLESS, str(source), str(target), to]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as child:
        try:
            assert child.stdout is not None
            for _ in range(9):
                assert child.stdout.readline() == b"more\n"
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=LONG_S)
        finally:
            child.kill()
    assert child.returncode == 130, err
    assert b"Traceback" not in err
    assert not list(tmp_path.iterdir())

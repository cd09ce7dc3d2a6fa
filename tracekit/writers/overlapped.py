"""Reading and writing at the same time: the batches are made in the calling thread, a second thread writes them.

Both spend most of their time in pyarrow, numpy and the file system, which release the interpreter lock. The reader
keeps the calling thread: Ctrl-C then ends even a long first pass at once. The writer never works long on one batch.
The writer sees the names of the run as they were when its batch was made, so the bytes of a file do not depend on
which thread was faster.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from queue import Empty, Queue

import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import NAME_TABLES, Run
from tracekit.safety.limits import cpus
from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

__all__ = ["AHEAD", "write_overlapped"]

AHEAD = 2
"""Most batches that wait for the writer."""
_NAMES = ("origin_ns", *NAME_TABLES)


def write_overlapped(writer: Writer, stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write a stream as `writer.write` does, in a second thread while the next batches are made in this one.

    All is done in this thread where there is no second core, or where the writer needs more of the run than its names.
    Raises: what the stream or the writer raises; the second thread has ended by then.
    """
    if not writer.names_only or cpus() < 2:
        return writer.write(stream, target, options)
    second = _SecondThread(writer, stream, target, options)
    try:
        second.start()
        for batch in stream.batches:
            second.send(batch)
            if second.ended:  # the writer takes no more
                break
        else:
            second.send(None)
        second.wait()
    except BaseException as err:
        second.stop(err)
        raise
    return second.result()


@dataclass(frozen=True, slots=True)
class _Parcel:
    """One batch, and the names that have changed since the one before. Without a batch it ends the stream."""

    batch: pa.RecordBatch | None
    changed: dict[str, object]


class _SecondThread:
    """The thread that writes, and the way of the batches from the thread that makes them."""

    def __init__(self, writer: Writer, stream: RowStream, target: Path, options: WriteOptions) -> None:
        self._run = stream.run
        self._seen = Run(sources=deepcopy(stream.run.sources))
        self._parcels: Queue[_Parcel] = Queue(AHEAD)
        self._ended = threading.Event()
        self._stop: BaseException | None = None
        self._written: Written | None = None
        self._failed: BaseException | None = None
        copy = RowStream(self._seen, self._received(), stream.ledgers)
        self._thread = threading.Thread(target=self._write, args=(writer, copy, target, options), name="tracekit-write")
        for name, value in self._changed(self._seen).items():
            setattr(self._seen, name, value)
        self._sent = Run(**{name: getattr(self._seen, name) for name in _NAMES})

    @property
    def ended(self) -> bool:
        """Return whether the writer has ended, or failed."""
        return self._ended.is_set()

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def send(self, batch: pa.RecordBatch | None) -> None:
        """Hand a batch to the writer, None after the last one; wait while it has enough of them."""
        changed = self._changed(self._sent) if batch is not None else {}
        for name, value in changed.items():
            setattr(self._sent, name, value)
        if not self._ended.is_set():
            self._parcels.put(_Parcel(batch, changed))

    def wait(self) -> None:
        """Wait until the writer has ended."""
        self._ended.wait()

    def stop(self, err: BaseException) -> None:
        """End writing: the writer gets the error from its batches, as in one thread, and cleans up."""
        self._stop = err
        self.send(None)
        if self._thread.is_alive():
            # Not `join`: one that a signal has interrupted takes the thread for ended (Python 3.11).
            self._ended.wait()

    def result(self) -> Written:
        """Return the result of the writer. Raises: what it has raised."""
        self._thread.join()
        if self._written is None:
            raise self._failed or RuntimeError("the writer has neither ended nor failed")
        return self._written

    def _changed(self, known: Run) -> dict[str, object]:
        """Return copies of the names of the run that differ from the known ones."""
        now = {name: getattr(self._run, name) for name in _NAMES}
        return {
            name: dict(value) if isinstance(value, dict) else value
            for name, value in now.items()
            if value != getattr(known, name)
        }

    # ---- in the second thread

    def _write(self, writer: Writer, stream: RowStream, target: Path, options: WriteOptions) -> None:
        try:
            self._written = writer.write(stream, target, options)
        except BaseException as err:  # noqa: BLE001 - the other thread raises it
            self._failed = err
        finally:
            self._ended.set()
            # The other thread may wait for a place in the queue: after this it finds one, and sends no more.
            with suppress(Empty):
                while True:
                    self._parcels.get_nowait()

    def _received(self) -> Iterator[pa.RecordBatch]:
        while True:
            parcel = self._parcels.get()
            if self._stop is not None:
                raise self._stop
            for name, value in parcel.changed.items():
                setattr(self._seen, name, value)
            if parcel.batch is None:
                break
            yield parcel.batch
        self._seen.sources = self._run.sources
        for name in _NAMES:
            setattr(self._seen, name, getattr(self._run, name))

"""The log file: items of batches become whole lines, with one write call for a flush."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tracekit.recorder import _process, log_format
from tracekit.recorder import _process as _clock
from tracekit.recorder._process import orjson
from tracekit.recorder.descriptors import LostFileError, OwnFile

ITEMS_A_LINE: Final = 4096
"""Items that are copied, encoded and freed at a time: few enough for the processor's cache and for reused memory."""
BYTES_AN_ITEM: Final = 18
"""Above this an offset is worth its time: it keeps a range under 40 bytes on a host that is up for months."""
OFFSET_UNIT: Final = 1_000_000_000


Attributed = tuple[str, str | None, str | None, int | None]
"""A name with its kind, category and color."""

Key = str | Attributed
"""A name, with its attributes if it has any."""
Extra = tuple[int, int, str | None]
"""An addition to an item of a thread's batch: (signed id, time, payload as JSON), None for an end that the recorder
wrote. A plain tuple, because a named one costs as much as a range."""


class AsyncItem(NamedTuple):
    """Begin (id > 0) or end (id < 0) of a range that may overlap."""

    signed_id: int
    t: int
    handle: int
    thread: int
    payload: str | None
    forced: bool = False


class MarkItem(NamedTuple):
    """A mark."""

    name_id: int
    t: int
    thread: int
    payload: str | None


class CounterItem(NamedTuple):
    """A counter's value, as `log_format.counter_value` gives it."""

    name_id: int
    t: int
    thread: int
    value: float | str


class StepItem(NamedTuple):
    """The step number from `t` on."""

    number: int
    t: int
    thread: int


Event = AsyncItem | MarkItem | CounterItem | StepItem


class LogFile:
    """A log of this process: appended lines, and the reserved line after the header, which is written over.

    items: number of items in the log. has_items: any was ever written, perhaps to a part that was cut away.
    flushed_ns: all that was recorded until then is in the log.
    """

    def __init__(self, target: str | os.PathLike[str], *, rank: int | None) -> None:
        """Create the file, its folders too. Raises: OSError."""
        self.items = 0
        self.has_items = False
        self.flushed_ns = 0
        self._flushes = self._longest_wait_ns = 0
        attempt = 0
        while True:
            # Process ids are used again (in a container it is always the same): an older log is never touched.
            self.path = _process.log_path(target, rank=rank, pid=os.getpid(), attempt=attempt).absolute()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._file = OwnFile(self.path)
                break
            except FileExistsError:
                attempt += 1
        self._length = self._reserved_at = 0

    @property
    def was_removed(self) -> bool:
        """True if the file had no name any more when it was last used: nobody can read what is written from now on."""
        return self._file.was_removed

    def begin(self, header: log_format.Line, perf_ns: int) -> None:
        """Write the header and the reserved line. Raises: OSError, and then there is no file."""
        self.flushed_ns = perf_ns
        try:
            self._write_head(header)
        except OSError:
            self.close()
            with contextlib.suppress(OSError):
                self.path.unlink()
            raise

    def _write_head(self, header: log_format.Line) -> None:
        first = log_format.filled(encode_line(header))
        self._reserved_at = self._length + len(first)
        self.write(first + self._beat())

    def begin_again(self, header: log_format.Line, perf_ns: int) -> None:
        """Begin a new log behind the lines that are left: it defines all that it uses. Raises: OSError."""
        self._length = self._file.size()
        if self._file.begins_with_hole():
            self._length = 0
            self._file.cut(0)
        self._file.go_to(self._length)
        self.flushed_ns, self.items, self._flushes = perf_ns, 0, 0
        if self._length:  # the reserved line never lies on two pages
            self.write(b"\n" + b" " * (-(self._length + 2) % log_format.RESERVED_BYTES) + b"\n")
        self._write_head(header)

    def write(self, data: bytes) -> bool:
        """Append whole lines; return false, and write nothing, where somebody has taken lines away.

        Tools that rotate logs do so ("copytruncate"). Raises: OSError; `end_early` then takes back what was written.
        """
        if not self._file.write(data, least=self._length):
            return False
        self._length += len(data)
        return True

    def flushed(self, begun_ns: int, items: int) -> bool:
        """Say in the reserved line that all until `begun_ns` is written, with so many more items.

        Return false where somebody has taken lines away. Raises: LostFileError.
        """
        self._longest_wait_ns = max(self._longest_wait_ns, _clock.now() - self.flushed_ns)
        self.flushed_ns = begun_ns
        self.items += items
        self.has_items = self.has_items or items > 0
        self._flushes += 1
        return self._overwrite(self._beat())

    def end_early(self, how: str, error: str, lost: int) -> None:
        """Take back the flush that failed, and say in the reserved line how the log ended.

        how: a key of `log_format.ENDINGS`. lost: events that were recorded and not written.
        """
        while True:
            line = log_format.end_line(perf_ns=self.flushed_ns, items=self.items, how=how, error=error, lost=lost)
            data = log_format.filled(encode_line(line))
            if len(data) == log_format.RESERVED_BYTES or not error:
                break
            error = error[: len(error) // 2]
        with contextlib.suppress(OSError):  # the last beat is true too
            self._file.cut(self._length)
            self._overwrite(data)

    def _beat(self) -> bytes:
        line = log_format.beat_line(
            perf_ns=self.flushed_ns, items=self.items, flushes=self._flushes, wait_ns=self._longest_wait_ns
        )
        return log_format.filled(encode_line(line))

    def _overwrite(self, line: bytes) -> bool:
        try:
            return self._file.write_at(self._reserved_at, line, least=self._length)
        except LostFileError:
            raise
        except OSError:  # an older beat is true too
            return True

    def close(self) -> None:
        """Close; the file stays as it is."""
        self._file.close()


def encode_line(line: log_format.Line) -> bytes:
    """Return a line of the log, by orjson where it can, else by the slower and more tolerant `log_format.encode`."""
    try:
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return log_format.encode(line)


def name_lines(names: Sequence[Any]) -> bytes:
    """Return the lines that define names. names: id, `Key`, id, `Key` ..."""
    keys = names[1::2]
    plain = [key for key in keys if type(key) is str]
    # All are encoded at once where that can be taken apart: where no name has a quote, `","` is between two names only.
    if '"' in "".join(plain):
        texts = iter([orjson.dumps(key).decode()[1:-1] for key in plain])
    else:
        texts = iter(orjson.dumps(plain).decode()[2:-2].split('","'))
    return "".join(
        [
            f'{{"k":"name","id":{name_id},"name":"{next(texts)}"}}\n' if type(key) is str else _name_line(name_id, key)
            for name_id, key in zip(names[::2], keys, strict=True)
        ]
    ).encode()


def _name_line(name_id: int, key: Attributed) -> str:
    name, kind, category, color = key
    shown = None if color is None else f"#{color:06X}"
    line = log_format.name_line(name_id=name_id, name=name, kind=kind, category=category, color=shown)
    return encode_line(line).decode()


def range_lines(thread: int, items: list[int], extras: list[Extra]) -> Iterator[bytes]:
    """Give the lines of one thread's batch, and remove its extras from `extras`.

    items: [+-id, t]*. An extra is left for the next batch when its item is not in this one.
    """
    for at in range(0, len(items), 2 * ITEMS_A_LINE):
        chunk = items if len(items) <= 2 * ITEMS_A_LINE else items[at : at + 2 * ITEMS_A_LINE]
        payloads, unfinished = _placed(chunk, extras) if extras else ((), ())
        offset, data = _shortened(orjson.dumps(chunk), chunk)
        yield _joined(b'{"k":"r","t":%d' % thread, offset, data, payloads, unfinished)


def _placed(items: Sequence[int], extras: list[Extra]) -> tuple[list[tuple[int, str]], list[int]]:
    payloads: list[tuple[int, str]] = []
    unfinished: list[int] = []
    after = 0
    used = 0
    for signed_id, t, payload in list(extras):
        try:
            place = items.index(t, after)
            while items[place - 1] != signed_id or not place & 1:
                place = items.index(t, place + 1)
        except ValueError:
            break  # its item comes in a later batch
        number = place // 2
        if payload is None:
            unfinished.append(number)
        else:
            payloads.append((number, payload))
        after = place + 1
        used += 1
    del extras[:used]
    return payloads, unfinished


def _shortened(data: bytes, items: Sequence[int]) -> tuple[int, bytes]:
    """Return (offset, items as JSON): the leading digits that all the times share become a 1, where that pays."""
    if len(data) <= BYTES_AN_ITEM * (len(items) // 2):
        return 0, data
    shared = items[1] // OFFSET_UNIT
    prefix = b",%d" % shared
    if shared != items[-1] // OFFSET_UNIT or len(prefix) < 7:
        return 0, data
    # A time follows a comma, and so does an id; an id never has as many digits as the prefix. Each replacement
    # removes the same number of bytes: if there are as many replacements as times, they are the times.
    shorter = data.replace(prefix, b",1")
    if len(data) - len(shorter) != (len(prefix) - 2) * (len(items) // 2):
        return 0, data
    if max(items[1::2]) >= (shared + 1) * OFFSET_UNIT:
        return 0, data
    return (shared - 1) * OFFSET_UNIT, shorter


def _joined(
    head: bytes, offset: int, data: bytes, payloads: Iterable[tuple[int, str]], unfinished: Iterable[int]
) -> bytes:
    parts = [head]
    if offset:
        parts.append(b',"o":%d' % offset)
    parts += [b',"x":', data]
    placed = ",".join([f"[{number},{payload}]" for number, payload in payloads])
    if placed:
        parts += [b',"p":[', placed.encode(), b"]"]
    ends = b",".join(b"%d" % number for number in unfinished)
    if ends:
        parts += [b',"u":[', ends, b"]"]
    parts.append(b"}\n")
    return b"".join(parts)


def event_lines(events: Sequence[Event]) -> Iterator[bytes]:
    """Give the lines of the events that do not nest, one for each kind, in the order of the events."""
    steps = [value for event in events if isinstance(event, StepItem) for value in event]
    if steps:
        yield _joined(b'{"k":"s"', 0, orjson.dumps(steps), (), ())
    overlapping = [event for event in events if isinstance(event, AsyncItem)]
    if overlapping:
        data = orjson.dumps([value for event in overlapping for value in event[:4]])
        forced = [number for number, event in enumerate(overlapping) if event.forced]
        yield _joined(b'{"k":"a"', 0, data, _payloads(overlapping), forced)
    marks = [event for event in events if isinstance(event, MarkItem)]
    if marks:
        data = orjson.dumps([value for event in marks for value in event[:3]])
        yield _joined(b'{"k":"m"', 0, data, _payloads(marks), ())
    counters = [event for event in events if isinstance(event, CounterItem)]
    if counters:
        items = [value for event in counters for value in event[:3]]
        yield encode_line(log_format.counter_line(items=items, values=[event.value for event in counters]))


def _payloads(events: Sequence[AsyncItem | MarkItem]) -> list[tuple[int, str]]:
    return [(number, event.payload) for number, event in enumerate(events) if event.payload is not None]


def events_in(lines: bytes) -> int:
    """Return the number of ranges, marks and counters that begin in lines of a log."""
    count = 0
    for line in lines.splitlines():
        found = orjson.loads(line)
        stride = log_format.ITEM_LENGTH.get(found["k"])
        if stride is not None and found["k"] != log_format.STEPS:
            count += sum(signed_id > 0 for signed_id in found["x"][::stride])
    return count

"""Limits on what the reading of an input may cost: bytes, events, time. Files of strangers can be small and cost a lot.

They hold for all that is read within `applied`, whatever reads it: the byte source that every reader reads through
counts and looks at the clock. What was read up to a limit is kept, and each output says that it is not the whole.
Memory, and time between two blocks, are watched from outside the process (`guard`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace

from tracekit.errors import Option, StopReading, sentence
from tracekit.lazy_dataclass import dataclass

__all__ = [
    "EXPANSION",
    "MOST_BYTES",
    "READING_SHARE",
    "UNPACKED_BYTES",
    "Limits",
    "applied",
    "cpus",
    "in_force",
    "size_of",
    "size_text",
]

UNPACKED_BYTES = 256 << 20
EXPANSION = 250
"""A compressed input unpacks to at most so many bytes, or to so many times its size if that is more, unless a limit is
given. Traces shrink to a tenth, regular ones to a fortieth; a bomb of gzip to a thousandth, one of zstd further."""
MOST_BYTES = (1 << 62) - 1
READING_SHARE = 0.8
"""Part of the time after which reading ends, so that the answer on what was read is ready in time."""


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of each input; 0 for none. began: the reading of `time.monotonic` at the start of the command.

    read_bytes: unpacked. Without it a compressed input may have UNPACKED_BYTES, or EXPANSION times its size.
    read_events: rows. seconds: of the whole command. memory: bytes of its process, which another process watches.
    """

    read_bytes: int = 0
    read_events: int = 0
    seconds: float = 0
    began: float = field(default_factory=time.monotonic)
    memory: int = 0

    def sent(self) -> Limits:
        """Return these limits for another process, whose clock may differ: `began` is the time that is over."""
        return replace(self, began=time.monotonic() - self.began)

    def received(self) -> Limits:
        """Return the limits that another process sent, on the clock of this one."""
        return self.sent()  # what is over and when it began are each the clock less the other

    def without_size(self) -> Limits:
        """Return these limits for a file of our own, made of an input that was read within them."""
        return replace(self, read_bytes=MOST_BYTES, read_events=0)

    def begun_now(self) -> Limits:
        """Return these limits for work that begins now."""
        return replace(self, began=time.monotonic())

    def most_bytes(self, size: int, *, packed: bool) -> int | None:
        """Return the most bytes that an input of that size gives, None for any number."""
        if self.read_bytes:
            return self.read_bytes
        return max(UNPACKED_BYTES, EXPANSION * size) if packed else None

    def at_most_bytes(self, size: int, most: int) -> StopReading:
        """Return the reason for an input of that size that gives more bytes than it may."""
        if self.read_bytes:
            text = sentence(f"has more than {size_text(most)} (", Option("max-read-bytes"), ")")
            return StopReading("limit-of-bytes", text, _MORE_BYTES)
        sizes = f"unpacks from {size_text(size)} to more than {size_text(most)} ("
        text = sentence(sizes, Option("max-read-bytes"), " allows more)")
        return StopReading("limit-of-bytes", text, _MORE_BYTES)

    def at_most_events(self) -> StopReading:
        """Return the reason for an input with more rows than it may have."""
        number = "1 event" if self.read_events == 1 else f"{self.read_events:,} events"
        most = Option("max-read-events")
        text = sentence(f"has more than {number} (", most, ")")
        return StopReading("limit-of-events", text, sentence("a larger ", most, " reads more"))

    def late(self, share: float = READING_SHARE) -> StopReading | None:
        """Return the reason to stop reading once most of the time is over, or this share of it."""
        if not self.seconds or time.monotonic() - self.began < self.seconds * share:
            return None
        most = Option("max-time")
        text = sentence(f"was read for {share:.0%} of {self.seconds:g} s (", most, ")")
        return StopReading("limit-of-time", text, sentence("a larger ", most, " reads more"))


_MORE_BYTES = sentence(
    Option("max-read-bytes", takes="SIZE"), " allows more, such as 8GiB, if you know where the file comes from"
)
_IN_FORCE: ContextVar[Limits | None] = ContextVar("tracekit.safety.limits", default=None)


def in_force() -> Limits:
    """Return the limits of what is read now."""
    return _IN_FORCE.get() or Limits()


@contextmanager
def applied(limits: Limits) -> Iterator[None]:
    """Apply limits to all that is read within the block.

    >>> with applied(Limits(read_events=1000)):
    ...     in_force().read_events
    1000
    """
    token = _IN_FORCE.set(limits)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}{end}": 1000**power for power, letter in enumerate("kmgt", 1) for end in ("", "b")}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}


def size_of(text: str) -> int:
    """Return the bytes of a size: MB counts in thousands, MiB in 1024. Raises: ValueError.

    >>> size_of("1.5 GiB")
    1610612736
    """
    word = text.strip().lower()
    number = word.rstrip("abcdefghijklmnopqrstuvwxyz ")
    factor = _UNITS.get(word[len(number) :].strip())
    if factor is None or not number.replace(".", "", 1).isdigit() or not number.isascii():
        raise ValueError(f"{text!r} is not a size")
    size = int(float(number) * factor)
    if not 0 < size <= MOST_BYTES:
        raise ValueError(f"{text!r} is not a size")
    return size


def size_text(size: int) -> str:
    """Return a size for people.

    >>> size_text(1)
    '1 byte'
    >>> size_text(28_000), size_text(1 << 30)
    ('27.3 KiB', '1 GiB')
    """
    if size == 1:
        return "1 byte"
    value, unit = float(size), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"

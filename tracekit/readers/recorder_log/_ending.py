"""The end of a log: how it says that it ended, until when it is whole, and what is known to be missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracekit.readers.recorder_log._lines import Beat, End
from tracekit.recorder import log_format as log
from tracekit.trace import MOST_DROPPED
from tracekit.units import format_span

MARGIN = 2
"""The loss at a kill is bounded by so many times the longest wait until then: the last wait may be longer than all
before. Of 133 kills on a machine with six to twelve processes a processor the worst lost 1.8 times the longest wait."""
FEWEST_FLUSHES = 10
"""With fewer flushes the longest wait says too little of the next one."""
MOST_TEXT = 200
MS = 1_000_000

_CLEAN = {log.STOP: "stopped by the program", log.EXIT: "stopped when its process ended"}
_EARLY = {log.DISK_FULL: "a full disk", log.WRITE_ERROR: "a write error", log.FAILED: "an error of the recorder"}
_NO_END = (
    "the log has no end: its process was killed, crashed, was left by os._exit, could write no more, or still runs"
)


@dataclass(frozen=True, slots=True)
class Ending:
    """The last words of one log.

    end, beat: its end line and its latest sign of life, if it has them. items: items that were found in it. events:
    ranges, marks and counters that were kept. begin_ns: the begin of the recording, None without a header.
    """

    end: End | None
    beat: Beat | None
    items: int
    events: int
    begin_ns: int | None

    @property
    def is_clean(self) -> bool:
        """Return whether the recording was stopped, so that nothing is missing at its end."""
        return self.end is not None and self.end.how in _CLEAN

    @property
    def missing_items(self) -> int:
        """Return how many items had been written, by the log's own count, and are not in it."""
        return max(0, self._written() - self.items)

    def _written(self) -> int:
        return max(line.items if line is not None else 0 for line in (self.end, self.beat))

    def facts(self) -> dict[str, object]:
        """Return the facts of the end. whole_for_ns: the time from the begin in which nothing is missing at the end."""
        out: dict[str, object] = {"clean_stop": self.is_clean, "ended": self._how()}
        last = self.end or self.beat
        if last is not None and self.begin_ns is not None:
            out["whole_for_ns"] = last.t - self.begin_ns
        if self.beat is not None:
            out |= {"flushes": self.beat.flushes, "longest_wait_ns": self.beat.wait}
        if self.end is None and (bound := self.loss_bound_ns) is not None:
            out["loss_bound_ns"] = bound
        return out

    @property
    def loss_bound_ns(self) -> int | None:
        """Return the longest time whose events are probably missing after a kill, None where too little is known."""
        if self.beat is None or self.beat.flushes < FEWEST_FLUSHES:
            return None
        return MARGIN * self.beat.wait

    def _how(self) -> str:
        if self.end is None:
            return "not known: the log has no end"
        return _CLEAN.get(self.end.how) or f"ended by {self._cause(self.end)}"

    def _cause(self, end: End) -> str:
        error = f" ({end.error[:MOST_TEXT]})" if end.error and end.how != log.DISK_FULL else ""
        return _EARLY.get(end.how, end.how[:MOST_TEXT]) + error

    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield code and text of each note on what is missing."""
        if self.end is None:
            yield "log-cut", f"{_NO_END}. {self._until()}"
        elif not self.is_clean:
            yield "ended-early", self._early(self.end)
        if missing := self.missing_items:
            yield "items-missing", f"{missing:,} of the {self._written():,} items that were written are not in the log"

    def _until(self) -> str:
        if self.beat is None or self.begin_ns is None:
            return "It does not say until when it is whole: how much is missing is not known"
        whole = f"Nothing of its first {format_span((self.beat.t - self.begin_ns) // MS * MS)} is missing"
        bound = self.loss_bound_ns
        if bound is None:
            return f"{whole}; how much came later is not known, since it was flushed fewer than {FEWEST_FLUSHES} times"
        return (
            f"{whole}; what came later may be: usually at most {format_span(-(-bound // MS) * MS)}, twice the longest "
            "time that events had waited to be written"
        )

    def _early(self, end: End) -> str:
        of = f"{self.events:,} of at least {self.events + end.lost:,} events"
        return f"ended by {self._cause(end)} after {of}; what came later is missing"

    def reservation(self) -> str:
        """Return what makes the log no whole result, "" for nothing: the program went on without it, or lines are lost.

        A log that was cut with its process is whole but for its last moment, and has a note alone.
        """
        if self.end is not None and not self.is_clean:
            return self._early(self.end)
        if self.missing_items > MOST_DROPPED * self._written():
            return f"has lost {self.missing_items:,} of the {self._written():,} items that were written to it"
        return ""

"""Traces that were read, and answers, kept for the next question until their files change: a few, up to a size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from typing import Any

from tracekit.agents.folders import Fingerprint
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Trace

__all__ = ["MOST_ANSWERS", "MOST_BYTES", "MOST_TRACES", "AnswerCache", "TraceCache"]

MOST_ANSWERS = 32

MOST_TRACES = 4
MOST_BYTES = 1 << 30
"""Bytes of the tables of all traces that are kept. One that is larger is read for each question."""


@dataclass(slots=True)
class TraceCache:
    """The traces of the last questions, the oldest first."""

    _kept: OrderedDict[Fingerprint, Trace] = field(default_factory=OrderedDict)

    def trace(self, key: Fingerprint, read: Callable[[], Trace]) -> Trace:
        """Return the trace of files that have this fingerprint. read: reads it, where it is not kept."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        found = read()
        if _size(found) <= MOST_BYTES:
            self._kept[key] = found
            while len(self._kept) > MOST_TRACES or sum(map(_size, self._kept.values())) > MOST_BYTES:
                self._kept.popitem(last=False)
        return found


def _size(trace: Trace) -> int:
    return int(trace.events.nbytes + trace.totals.nbytes)


@dataclass(slots=True)
class AnswerCache:
    """The last answers, the oldest first, by tool, arguments and the fingerprints of the files."""

    _kept: OrderedDict[tuple[str, str, Fingerprint], dict[str, Any]] = field(default_factory=OrderedDict)

    def answer(self, key: tuple[str, str, Fingerprint], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the answer that is kept for the question. make: answers it, where none is kept."""
        if key not in self._kept:
            self._kept[key] = make()
            while len(self._kept) > MOST_ANSWERS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

"""Lines of a recorder's log: the recognition, the first pass for facts and steps, and the batches."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracekit.columns.arrays import I64
from tracekit.errors import ParseError, UnsupportedVersionError
from tracekit.readers.base import Confidence, Head, Opened, ReadOptions
from tracekit.readers.engine.torn import LAST_LINE, TORN
from tracekit.readers.recorder_log._lines import BadLineError, Header, Items, Line, Steps, parse
from tracekit.readers.recorder_log._state import Log
from tracekit.readers.source import Source
from tracekit.recorder import log_format as log
from tracekit.trace import Ledger, Run, SourceFacts

BLANK = b"\0 \t\r"
_STEP_LINES = (b'{"k":"s"', b'{"k": "s"')
_REASONS = {
    TORN: f"dropped: {LAST_LINE}",
    "not-json": "dropped: lines that are no JSON object",
    "unknown-line-kind": "dropped: lines of a kind that is not in the log's version",
    "bad-line": "dropped: lines whose fields or types are not those of the log",
    "too-many-threads": "dropped: lines of more threads than can be kept apart",
}


def sniff(head: Head) -> Confidence:
    lines = head.lines()
    if any(line.strip(BLANK).startswith(log.HEAD_PREFIX) for line in lines):
        return Confidence.YES
    first = next((line.strip(BLANK) for line in lines if line.strip(BLANK)), b"")
    if first.startswith(b'{"format"') and b'"tracekit-log"' in first[:60]:
        return Confidence.YES
    return Confidence.MAYBE if log.HEAD_PREFIX in head.data else Confidence.NO


@dataclass(slots=True)
class _Steps:
    """The step numbers of one log, as they come."""

    times: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))

    def sorted(self) -> tuple[I64, I64]:
        times, numbers = np.array(self.times, np.int64), np.array(self.numbers, np.int64)
        order = np.argsort(times, kind="stable")
        return times[order], np.clip(numbers[order], log.NO_STEP, (1 << 31) - 1)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    heads, steps, lines = _first_pass(source)
    if not heads and not lines:
        raise ParseError(
            source.name, "", "no line of a recorder's log was found", hint="`tracekit formats` lists what can be read"
        )
    for head in heads:
        if head.version != log.VERSION:
            raise UnsupportedVersionError(
                source.name, str(head.version), str(log.VERSION), hint="pip install --upgrade tracekit-gpu"
            )
    anchored = [head.epoch_ns - head.perf_ns for head in heads if head.epoch_ns is not None]
    run = Run(origin_ns=anchored[0] if anchored else None, sources=[SourceFacts(source.name, "recorder-log")])
    return Opened(run, _Reading(source, options, ledger, run, steps).batches(), False, (ledger,))


def _first_pass(source: Source) -> tuple[list[Header], list[_Steps], int]:
    """Return the headers, the steps before the first header and after each, and how many lines are of a log."""
    heads: list[Header] = []
    steps = [_Steps()]
    lines = 0
    for block in source.line_blocks(Ledger()):
        for raw in block.data.split(b"\n"):
            line = raw.strip(BLANK)
            if b'"tracekit-log"' in line:
                found = _parsed(line)
                if found is None and (at := line.find(log.HEAD_PREFIX)) > 0:
                    found = _parsed(line[at:])
                if isinstance(found, Header):
                    heads.append(found)
                    steps.append(_Steps())
            elif line.startswith(_STEP_LINES):
                found = _parsed(line)
                if isinstance(found, Steps):
                    _take_steps(found, steps[-1])
            elif not heads and not lines:
                lines += _parsed(line) is not None
    return heads, steps, lines


def _parsed(line: bytes) -> Line | Header | None:
    try:
        return parse(line)
    except BadLineError:
        return None


def _take_steps(line: Steps, into: _Steps) -> None:
    for number, time in zip(line.x[0::3], line.x[1::3], strict=True):
        if line.o + time > 0:
            into.times.append(line.o + time)
            into.numbers.append(number)


class _Reading:
    """One pass over a file, which holds one log or several."""

    def __init__(self, source: Source, options: ReadOptions, ledger: Ledger, run: Run, steps: list[_Steps]) -> None:
        self._source, self._options, self._ledger, self._run = source, options, ledger, run
        self._steps = iter(steps)
        self._logs: list[Log] = []
        self._log = self._begin(None)

    def _begin(self, head: Header | None) -> Log:
        shift = 0
        if head is not None and head.epoch_ns is not None and self._run.origin_ns is not None:
            shift = head.epoch_ns - head.perf_ns - self._run.origin_ns
        steps = next(self._steps, _Steps()).sorted()
        return Log(head, self._options.source, shift, steps, self._run, self._ledger)

    def batches(self) -> Iterator[pa.RecordBatch]:
        started = False
        ledger = self._ledger
        for block in self._source.line_blocks(ledger):
            lines = block.data.split(b"\n")
            if not block.torn:
                lines.pop()
            for place, raw in enumerate(lines):
                line = raw.strip(BLANK)
                if not line:
                    if b"\0" in raw:
                        ledger.read += 1
                        ledger.ignore("padding")
                    continue
                torn = block.torn and place == len(lines) - 1
                found = self._line(line, f"line {block.line + place}", torn=torn)
                if isinstance(found, Header):
                    if started:
                        yield from self._close()
                    ledger.read += 1
                    ledger.facts += 1
                    self._log = self._begin(found)
                elif found is not None:
                    self._take(found, f"line {block.line + place}")
                started = started or found is not None
            yield from self._log.rows()
        yield from self._close()

    def _line(self, line: bytes, where: str, *, torn: bool) -> Line | Header | None:
        """Return the parsed line; a damaged one is dropped, but for the header that it may end with."""
        try:
            return parse(line)
        except BadLineError as err:
            reason = str(err)
        at = line.find(log.HEAD_PREFIX)
        head = _parsed(line[at:]) if at > 0 else None
        if torn and head is None and reason == "not-json":
            reason = TORN
        self._ledger.read += 1
        self._ledger.drop(reason, where=where, text=_REASONS[reason])
        return head

    def _take(self, line: Line, where: str) -> None:
        ledger = self._ledger
        record = ledger.read + 1
        count = line.count() if isinstance(line, Items) else 1
        ledger.read += count
        if not self._log.add(line, record):
            ledger.drop("too-many-threads", count, where=where, text=_REASONS["too-many-threads"])
        elif not isinstance(line, Items):
            ledger.facts += 1

    def _close(self) -> Iterator[pa.RecordBatch]:
        yield from self._log.close()
        self._logs.append(self._log)
        mine = self._run.sources[0].facts
        facts = self._log.facts()
        if len(self._logs) == 1:
            mine.update(facts)
        else:
            mine.setdefault("logs", []).append(facts)

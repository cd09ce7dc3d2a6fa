"""tensorrt-log: what `trtexec` prints: its performance summary, and the table of layers of `--dumpProfile`.

    [08/20/2024-19:31:57] [I] === Performance summary ===
    [08/20/2024-19:31:57] [I] Throughput: 7329.45 qps
    [08/20/2024-19:31:57] [I] Latency: min = 0.133057 ms, max = 0.690186 ms, mean = 0.134851 ms, median = 0.134155 ms
    [08/20/2024-19:32:01] [I] === Profile (7477 iterations ) ===
    [08/20/2024-19:32:01] [I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer

A record is a line. Section `layers` has the rows of the table, of kind kernel, with its count as `calls`; times have
the digits that were printed (10 us for the sum). TensorRT up to 8.5 put the names first, and 7 had no median. Section
`performance summary` has the times of a query by part: minimum, maximum, mean and median, the percentiles in `args`.
The sum of the table, `Throughput`, `Total Host Walltime` and `Total GPU Compute Time` are in section `header`. The
device that was selected names device 0. An engine that is timed again in the same log is another run.

Sources: printEpilog and Profiler::print in samples/common/sampleReporting.cpp of NVIDIA/TensorRT, 8.0 to 11, and public
logs of 8.4 to 10. Not supported: the averages of single runs (`Average on 10 runs`), and `--dumpLayerInfo`:
`--exportLayerInfo` writes it as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracekit.model.schema import Kind
from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.printed.lines import TextLine, TotalRows, batches_of_lines, first_lines
from tracekit.readers.tensorrt.figures import NUMBER, exact_ns, ns_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger, Run
    from tracekit.readers.source import Source

__all__ = ["message_of", "read", "sniff"]

_MOST_LINE = 1 << 15
_PREFIX = re.compile(r".{0,200}?\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[[A-Z]\](?: |$)", re.ASCII)
_PLACE = re.compile(r".{0,80}?(?==== (?:Performance|Profile))", re.ASCII)
_PROFILE = re.compile(r"=== Profile \((\d{1,18}) iterations ?\) ===", re.ASCII)
_SUMMARY = "=== Performance summary ==="
_COLUMNS = r"Time ?\(ms\)\s+Avg\. ?(?:Time ?)?\(ms\)(\s+Median ?(?:Time ?)?\(ms\))?\s+Time ?\(?%\)?"
_HEADS = ((re.compile(rf"\s*{_COLUMNS}\s+Layer"), False), (re.compile(rf"\s*Layer\s+{_COLUMNS}"), True))
"""Heads, and whether the names are first."""
_CELL = re.compile(NUMBER, re.ASCII)
_PART = re.compile(
    rf"(Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency|End-to-End Host Latency): min = ({NUMBER}) ms, "
    rf"max = ({NUMBER}) ms, mean = ({NUMBER}) ms, median = ({NUMBER}) ms"
    rf"((?:, percentile\({NUMBER}%\) = {NUMBER} ms)*)\s*",
    re.ASCII,
)
_PERCENTILE = re.compile(rf"percentile\(({NUMBER})%\) = ({NUMBER}) ms", re.ASCII)
_THROUGHPUT = re.compile(rf"Throughput: ({NUMBER}) qps", re.ASCII)
_WHOLE = re.compile(rf"(Total Host Walltime|Total GPU Compute Time): ({NUMBER}) s", re.ASCII)
_QUERIES = re.compile(rf"Timing trace has (\d{{1,18}}) queries over {NUMBER} s", re.ASCII)
_FACTS = re.compile(
    r"(Selected Device|Compute Capability|SMs|Compute Clock Rate|Memory Bus Width|Memory Clock Rate"
    r"|TensorRT version): (\S.{0,200})"
)
_ROW_STARTS = ("Latency: min", "Enqueue Time: min", "H2D Latency: min", "GPU Compute Time: min", "D2H Latency: min")


def message_of(text: str) -> str:
    """Return a line without the prefix of trtexec, and of what wrote it on.

    >>> message_of("[08/20/2024-19:31:57] [I] Throughput: 3 qps")
    'Throughput: 3 qps'
    """
    matched = _PREFIX.match(text[:400])
    if matched is None:
        matched = _PLACE.match(text[:400])
    return text[matched.end() :] if matched else text


def sniff(head: Head) -> Confidence:
    """Return YES for the title of a summary or of a table of layers."""
    if head.tables or not head.text or b"=== P" not in head.data:
        return Confidence.NO
    for text in first_lines(head.data):
        if "=== P" in text:
            message = message_of(text[:_MOST_LINE]).strip()
            if message == _SUMMARY or _PROFILE.fullmatch(message):
                return Confidence.YES
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the rows of the summaries and tables in a log."""
    from tracekit.model.trace import Run, SourceFacts

    run = Run(sources=[SourceFacts(source.name, "tensorrt-log", facts={"tool": "TensorRT (trtexec)"})])
    reading = _TrtexecReading(options, ledger, run)
    return ReadResult(run, _batches(source, ledger, reading), True, (ledger,))


def _batches(source: Source, ledger: Ledger, reading: _TrtexecReading) -> Iterator[pa.RecordBatch]:
    from tracekit.readers.builder import bounded_names

    for batch in batches_of_lines(source, ledger, reading):
        yield bounded_names(batch, ledger)


class _TrtexecReading:
    """The state of a reading. _head: of the table that is open, None outside. _seen: what came once in the run."""

    def __init__(self, options: ReadOptions, ledger: Ledger, run: Run) -> None:
        self.rows = TotalRows(options.source, ledger)
        self._ledger, self._run, self._source = ledger, run, options.source
        self._number = 0
        self._seen: set[str] = set()
        self._calls: int | None = None
        self._queries: int | None = None
        self._names_first: bool | None = None
        self._numbers = 4
        self._in_profile = self._in_summary = False

    def line(self, line: TextLine) -> None:
        """Take a line."""
        text = line.text[:_MOST_LINE]
        message = message_of(text)
        if not message.strip():
            self._ledger.ignore("blank lines")
            self._names_first = None
        elif not self._take(message, message.strip(), line):
            self._ledger.ignore("other output")

    def finish(self) -> None:
        """Note a table that had no last row."""
        if self._in_profile:
            self._ledger.note("table-cut", "a table of layers has no last row: layers may be missing")

    def _take(self, message: str, words: str, line: TextLine) -> bool:
        """Take a line of a summary or a table; False for others."""
        if matched := _PROFILE.fullmatch(words):
            self.finish()
            self._once("profile")
            self._calls, self._in_profile, self._in_summary, self._names_first = int(matched[1]), True, False, None
            self._ledger.ignore("headings")
        elif words == _SUMMARY:
            self._once("summary")
            self._in_summary = True
            self._ledger.ignore("headings")
        elif self._in_profile and self._names_first is None and self._is_head(message):
            self._ledger.ignore("headings")
        elif self._in_profile and self._names_first is not None:
            return self._layer(message, line)
        elif self._in_summary:
            return self._part(words, line)
        elif matched := _QUERIES.fullmatch(words):
            self._queries = int(matched[1])
            self._ledger.facts += 1
        elif matched := _FACTS.fullmatch(words):
            self._fact(matched[1], matched[2].strip())
            self._ledger.facts += 1
        else:
            return False
        return True

    def _once(self, what: str) -> None:
        """Begin another run where a title comes again."""
        if what in self._seen:
            self._number += 1
            self._seen.clear()
            self._queries = None
        self._seen.add(what)

    def _fact(self, key: str, value: str) -> None:
        facts = self._run.sources[0].facts
        facts.setdefault(key, value)
        if key == "Selected Device":
            self._run.devices.setdefault((self._source, 0), value)

    def _is_head(self, message: str) -> bool:
        for pattern, names_first in _HEADS:
            if matched := pattern.fullmatch(message.rstrip()):
                self._names_first, self._numbers = names_first, 4 if matched[1] else 3
                return True
        return False

    def _layer(self, message: str, line: TextLine) -> bool:
        if line.torn:
            drop_torn(self._ledger, line.where)
            return True
        # A name may have blanks and numbers: the other cells are counted from the side that they are on.
        if self._names_first:
            name, *cells = message.rsplit(None, self._numbers)
        else:
            *cells, name = message.split(None, self._numbers)
        name = name.strip()
        if len(cells) != self._numbers or not name or not all(_CELL.fullmatch(each) for each in cells):
            return False
        total, average, share = cells[0], cells[1], cells[-1]
        median = cells[2] if self._numbers > 3 else None
        ns = exact_ns(total)
        if ns is None:
            self._ledger.drop("no-times", where=line.where, text="dropped: layers whose time is not a number")
            return True
        is_whole = name == "Total" and (_finite(share) or 0.0) >= 99.5
        args: dict[str, object] = {"percentage": _finite(share)}
        if is_whole:
            self._in_profile, self._names_first = False, None
        self.rows.add(
            self._number, "header" if is_whole else "layers", "Total" if is_whole else name, Kind.KERNEL, args,
            calls=self._calls, total_ns=ns, avg_ns=ns_of(average), median_ns=exact_ns(median), device=0,
        )  # fmt: skip
        self._ledger.kept += 1
        return True

    def _part(self, words: str, line: TextLine) -> bool:
        """Take a line of the summary."""
        if line.torn:
            drop_torn(self._ledger, line.where)
            return True
        if matched := _PART.fullmatch(words):
            shares = {name: exact_ns(value) for name, value in _PERCENTILE.findall(matched[6])}
            args = {"percentiles_ns": shares} if shares else None
            self.rows.add(
                self._number, "performance summary", matched[1], None, args, calls=self._queries,
                min_ns=exact_ns(matched[2]), max_ns=exact_ns(matched[3]), avg_ns=ns_of(matched[4]),
                median_ns=exact_ns(matched[5]),
            )  # fmt: skip
        elif matched := _THROUGHPUT.fullmatch(words):
            value = _finite(matched[1])
            self.rows.add(
                self._number, "header", "Throughput", None, value_min=value, value_max=value, value_avg=value,
                unit="qps",
            )  # fmt: skip
        elif matched := _WHOLE.fullmatch(words):
            ns = _seconds(matched[2])
            self.rows.add(self._number, "header", matched[1], None, {"seconds": matched[2]}, total_ns=ns)
            self._in_summary = matched[1] != "Total GPU Compute Time"
        elif words.startswith(_ROW_STARTS):
            self._ledger.drop(
                "bad-row", where=line.where, text="dropped: lines that begin as a row and do not end as one"
            )
            return True
        else:
            # Warnings, and lines of other threads, may stand between two lines of a summary.
            self._in_summary = not words.startswith("===")
            return False
        self._ledger.kept += 1
        return True


def _finite(text: str) -> float | None:
    value = float(text) if text[-1].isdigit() or text[-1] == "." else None
    return value if value is not None and abs(value) < 1e300 else None


def _seconds(text: str) -> int | None:
    from tracekit.model.units import to_ns

    try:
        return to_ns(text, "s")
    except ValueError:
        return None

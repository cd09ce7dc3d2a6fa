"""Tables of `nsys stats`: the recognition, and the reading by `readers/engine/`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine import text
from tracekit.readers.engine.layout import places, split, titles
from tracekit.readers.engine.rows import has_numbers
from tracekit.readers.engine.spec import TableHeader
from tracekit.readers.head import Head
from tracekit.readers.nsys._tables import EMPTY, LONGEST_MESSAGE, MESSAGE, NSYS, REPORT, heading
from tracekit.readers.printed.prefix import untagged_line
from tracekit.readers.printed.starts import with_order
from tracekit.readers.source import Source

_LOG_TAG = re.compile(rb"\[[^]\[{}\"]{1,60}\](?:[\s<:]|$)")
"""`[3/8] `, `[1,0]<stdout>:`, `[2026-01-01 10:00:00] `: no JSON, though it begins as JSON may."""
_REPORT_WORDS = (b"Processing [", b"Executing '", b"Running [", b"Exporting [")


def sniff(head: Head) -> Confidence:
    """Return YES for a header of such a table, or for the line that names a report."""
    if not head.text:
        return Confidence.NO
    if head.data.lstrip()[:1] in (b"{", b"["):
        first = next((line for line in head.lines() if line.strip()), b"").strip()
        if not _LOG_TAG.match(first):
            return Confidence.NO
    before, unit, named, header, delimiter, sentences, lines = "", "", False, None, "", 0, 0
    for raw in head.lines():
        line = raw.decode("utf-8", "replace").rstrip("\r")
        if (tagged := untagged_line(line)) is not None:
            line = tagged.text
        if not line.strip():
            continue
        lines += 1
        if header is not None and _is_first_row(header, line, delimiter):
            return Confidence.YES
        if (b"Start" in raw or b"Total" in raw) and (headed := text.headed(NSYS, line)) is not None:
            header, delimiter = headed
            continue
        if b"--" in raw and (columns := places(line)) is not None and NSYS.header(titles(before, columns), unit):
            return Confidence.YES
        is_message = _is_message(raw, line)
        named |= is_message
        sentences += not is_message and MESSAGE.match(line) is None and _is_sentence(line)
        if b"Statistics" in raw and (title := heading(line)) is not None and title.weak:
            unit = title.unit
        before = line
    # A page about nsys has its words among sentences.
    has_words = named or header is not None
    return Confidence.YES if has_words and 3 * sentences < lines else Confidence.NO


def _is_first_row(header: TableHeader, line: str, delimiter: str) -> bool:
    """Return whether a line below a header is a row of its table."""
    cells = split(line, delimiter, len(header.columns))
    return len(cells) == len(header.columns) and has_numbers(header, cells)


def _is_message(raw: bytes, line: str) -> bool:
    """Return whether a line names a report, or says that one has no rows."""
    if text.unread(NSYS, line) or (any(word in raw for word in _REPORT_WORDS) and REPORT.match(line)):
        return True
    is_short = b" contain " in raw and len(raw) < LONGEST_MESSAGE
    return is_short and (b"SKIPPED: " in raw or b".sqlite " in raw) and EMPTY.match(line) is not None


def _is_sentence(line: str) -> bool:
    """Return whether a line is of a text for people: five words or more, most of them of letters alone."""
    words = line.split()
    return len(words) > 4 and 2 * sum(word.strip("`'\"*_,.;:!?()").isalpha() for word in words) > len(words)


def read(source: Source, options: ReadOptions, ledger: Ledger, patterns: Sequence[bytes]) -> ReadResult:
    """Return the events and totals. patterns: of lines of a report."""
    run = Run(sources=[SourceFacts(path=source.name, format=NSYS.reader, facts={"tool": "Nsight Systems"})])
    batches = text.read(NSYS, source, run, options, ledger, patterns)
    return ReadResult(run, with_order(batches, run, ledger), True, (ledger,))

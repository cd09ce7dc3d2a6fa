"""nsys stats: its reports as CSV or as columns, one or many in a file.

    Processing [report1.sqlite] with [/opt/nvidia/nsight-systems/2024.5.1/host-linux-x64/reports/cuda_gpu_trace.py]...
    Start (ns),Duration (ns),CorrId,GrdX,...,Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name
    1540178479,1632,171,,,,,,,,,,0.000,0.002,Device,Pinned,NVIDIA GeForce RTX 3080 (0),1,7,[CUDA memcpy Device-to-Host]

A record is a line, and `event_id` is its number. Traces (cuda_gpu_trace, cuda_api_trace, nvtx_pushpop_trace and all
others with Start, Duration and Name) become EVENTS. Sums (cuda_gpu_kern_sum, cuda_api_sum, nvtx_sum,
cuda_gpu_mem_time_sum ...) become TOTALS; those of cuda_gpu_mem_size_sum have `bytes`, and value_min, value_max and
value_avg in bytes. `section` is the name of the report, from the line before the table, else by its columns. The header
names columns and units, in all versions. In 2019 and 2020 the unit is in the title ("CUDA API Statistics
(nanoseconds)").

Console output is read as it is pasted or logged: with other output around the tables, with an indent or a prefix before
each line. Tags of several ranks (`[1,0]<stdout>:`) keep their tables apart and fill `rank`. Without tags the lines of
several processes may be mixed: a call among kernels, or a kernel among calls, goes to the table that it belongs to. A
row that is shifted against the dashes is divided at its blanks, or not read. A name in quotes may have line ends: it
is one row, and its further lines count as merged.

Times are ns from the start of the session, whose wall clock time is not printed: `Run.origin_ns` is None. Device rows
name no process. Sizes in KiB or MiB (older versions: KB, MB) are rounded in print: a note says so. `args` has the
columns without a place in the schema, as printed, under the names of the header. nvtx_gpu_proj_trace has ranges at
their projected times, nvtx_gpu_proj_sum their projected total, cuda_kern_exec_trace kernels (with their calls in
`args`).

The numbers of a table are in the locale's style: `1,234.5` or `1.234,5`. The table decides which:
each cell must be a number in it, counts and ns must be whole, and calls x average must be the total. If its numbers may
still mean either of two, other tables of the file decide; else it is not read (`--option decimal=,` decides).

A cell beside start, duration and total that cannot be read (`552.9…`) is not known, and its row is kept. Starts that
are all the same, or too coarse for the work of one stream, hold no order: only durations and counts are used.

Tables with bars (--format table, Markdown) and with tabs (--format tsv) are read too.

Not supported: HTML and JSON forms; reports without Start or Total Time (cuda_kern_exec_sum, um_sum; their lines
are ignored, with a note).
Sources: output of 2019.5 to 2026.3 that forums, teaching and NVIDIA's documentation quote, the SQL of the reports of
2020 to 2024.
"""

from __future__ import annotations

import re

from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine import text
from tracekit.readers.engine.layout import places, split, titles
from tracekit.readers.engine.rows import has_numbers
from tracekit.readers.engine.spec import TableHeader
from tracekit.readers.head import Head
from tracekit.readers.nsys._tables import EMPTY, LONGEST_MESSAGE, MESSAGE, NSYS, REPORT, heading
from tracekit.readers.nsys.recognition import STATS_LATE
from tracekit.readers.printed.prefix import untagged_line
from tracekit.readers.printed.starts import with_order
from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

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


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events and totals."""
    run = Run(sources=[SourceFacts(path=source.name, format=NSYS.reader, facts={"tool": "Nsight Systems"})])
    batches = text.read(NSYS, source, run, options, ledger, STATS_LATE)
    return ReadResult(run, with_order(batches, run, ledger), True, (ledger,))

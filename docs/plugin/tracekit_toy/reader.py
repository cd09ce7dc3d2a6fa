"""toy-log: the log of an invented profiler, one kernel a line.

    #toy 1
    10 5 gemm
    20 7 copy to host

A record is a line: start, duration, name. Times are microseconds unless the option `unit` says `ns`. Source: invented.
Not supported: anything but kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracekit.options import OptionSpec
from tracekit.readers.base import Confidence, Marks, Reader, ReadOptions, ReadResult
from tracekit.readers.head import Head

if TYPE_CHECKING:  # each command imports this module: what reading needs waits inside the functions
    import pyarrow as pa

    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

UNIT = OptionSpec("unit", str, "us", "The unit of the times in a toy log.", choices=("us", "ns"))


def sniff(head: Head) -> Confidence:
    """Return YES for a toy log: its first line says so, whatever the file is called."""
    return Confidence.YES if head.data.startswith(b"#toy 1") else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the kernels, block by block: memory does not grow with the file."""
    from tracekit.model.trace import Run, SourceFacts

    run = Run(sources=[SourceFacts(source.name, "toy-log", facts={"tool": "Toy 1"})])
    return ReadResult(run, _batches(source, options, ledger), ordered=True, ledgers=(ledger,))


def _batches(source: Source, options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    from tracekit.model.schema import Kind
    from tracekit.model.units import to_ns
    from tracekit.readers.builder import event_batch
    from tracekit.readers.engine.torn import drop_torn

    unit = options.value(UNIT)
    for block in source.line_blocks(ledger):
        # Columns, not rows: one batch is made of each block, however many lines it has.
        lines, starts, durations, names = [], [], [], []
        texts = block.data.splitlines()  # of bytes: text has more ends of lines than "\n"
        for number, text in enumerate(texts, block.line):
            # Each line is counted once as read, and once as what became of it: tracekit checks that the sums agree.
            ledger.read += 1
            # The file ends in this line: "20 7 copy to ho" may have been "20 7 copy to host", and both look whole.
            if block.torn and number == block.line + len(texts) - 1:
                drop_torn(ledger, f"line {number}")
                continue
            line = text.decode("utf-8", "replace")
            if line.startswith("#") or not line.strip():
                ledger.ignore("comment")
                continue
            # A file of a stranger may hold anything: no number, or one of 23 digits, which fits no column.
            try:
                start, duration, name = line.split(maxsplit=2)
                start_ns, duration_ns = to_ns(start, unit), to_ns(duration, unit)
            except ValueError:
                ledger.drop("no-times", where=f"line {number}", text="lines without start, duration and name")
                continue
            lines.append(number)
            starts.append(start_ns)
            durations.append(duration_ns)
            names.append(name)
            ledger.kept += 1
        if names:
            ledger.events_out += len(names)  # rows, apart from records: one line may make several
            columns = {"event_id": lines, "ts_ns": starts, "dur_ns": durations, "name": names}
            same = {"source": options.source, "kind": Kind.KERNEL, "device": 0, "stream": 0}
            yield event_batch(len(names), {**columns, **same})


READER = Reader(
    "toy-log",
    "Log of the Toy profiler",
    (".toy",),
    sniff,
    read,
    options=(UNIT,),
    marks=Marks(words=("#toy 1",)),
    record="line",
)

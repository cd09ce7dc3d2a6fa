"""Events of an XSpace: the lines of a plane together, some ten thousand events at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.readers.base import Opened, ReadOptions
from tracekit.readers.builder import FIRST_TEXT_ID, IdTable
from tracekit.readers.engine.protobuf import What, tell_cut, walk
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.readers.xplane._batch import Batch
from tracekit.readers.xplane._cells import Cells
from tracekit.readers.xplane._kinds import Role
from tracekit.readers.xplane._lines import Line, Lines, Taken
from tracekit.readers.xplane._members import TooLongError
from tracekit.readers.xplane._planes import ENTER, MOST_BYTES, Plane, Space, is_changed, look
from tracekit.trace import Ledger, Run, SourceFacts


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events. Raises: ParseError for a file that was changed as if it were text, and without planes."""
    if is_changed(source.head()):
        raise ParseError(
            source.name,
            "byte 0",
            "the file was changed as if it were text: each byte above 0x7f became U+FFFD",
            hint="copy it again, in binary mode",
        )
    space = look(source)
    if not any(plane.name for plane in space.planes):
        raise ParseError(source.name, "byte 0", "no plane of an XSpace can be read")
    run = Run(sources=[SourceFacts(source.name, "xplane", facts={"tool": "XPlane profiler"})])
    space.describe(run, options.source, ledger)
    return Opened(run, _Reading(source, options, ledger, run, space).batches(), ordered=False, ledgers=(ledger,))


class _Reading:
    """One reading of one file."""

    def __init__(self, source: Source, options: ReadOptions, ledger: Ledger, run: Run, space: Space) -> None:
        self.source, self.options, self.ledger, self.run, self.space = source, options, ledger, run, space
        self.names = Demangler(ledger, enabled=options.demangle)
        self.tids = IdTable(run, "tid", options.source)
        self.streams = IdTable(run, "stream", options.source)
        self.order = 0
        self.cells = Cells(Plane(), ledger)

    def batches(self) -> Iterator[pa.RecordBatch]:
        planes = iter(self.space.planes)
        lines = Lines(Plane(), self.ledger)
        try:
            for met in walk(self.source.chunks(self.ledger), ENTER, MOST_BYTES):
                if met.what in (What.DAMAGE, What.CUT):
                    tell_cut(self.ledger, met)
                elif met.what is What.OPEN:
                    lines = Lines(next(planes, Plane()), self.ledger)
                    self.cells = Cells(lines.plane, self.ledger)
                elif met.what is What.CLOSE:
                    yield from self._of(lines.take())
                elif met.what is What.FIELD and met.level == "plane" and met.number == 3:
                    for _ in lines.add(met.value if isinstance(met.value, bytes) else b"\0", f"byte {met.at}"):
                        yield from self._of(lines.take())
        finally:
            self.names.close()

    def _of(self, taken: Taken) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some lines of a plane."""
        if taken.events:
            try:
                batch = Batch(taken, self.cells, self.ledger)
            except TooLongError:
                for half in taken.halves():
                    yield from self._of(half)
                return
            batch.count_rows()
            for totals in batch.totals(self.order, self.options.source):
                self.order += totals.num_rows
                yield totals
            yield from batch.events(lambda line: self._lane(taken.plane, line), self.names, self.options.source)

    def _lane(self, plane: Plane, line: Line) -> int:
        """Return the number of the thread or stream of a line, and name it."""
        source, text = self.options.source, line.name
        if plane.device is None:
            own = plane.name == "/host:CPU" and line.number < FIRST_TEXT_ID
            tid = self.tids.number(line.number if own else f"{plane.name} {line.number}")
            self.run.threads[source, None, tid] = text if line.role is Role.HOST else f"{plane.name} {text}"
            return tid
        own = not plane.part and line.number < FIRST_TEXT_ID
        stream = self.streams.number(line.number if own else f"{plane.name} {line.number}")
        self.run.streams[source, plane.device, stream] = f"{text} ({plane.name})" if plane.part else text
        return stream

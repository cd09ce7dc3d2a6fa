"""unitrace: the summaries that Intel's unitrace, onetrace, ze_tracer and cl_tracer print: sums of kernels and calls.

    === Device Timing Summary ===
    == L0 Backend ==
                         Kernel,        Calls,     Time (ns),     Time (%),  Average (ns),   Min (ns),   Max (ns)
    "gemm[SIMD16 {20; 1; 1} {64; 8; 1}]",  20,  7443743, 61.830002, 372187, 355208, 401666

A record is a line. Each table has a section: its summary and its backend (`Device, L0 Backend`). All times are ns.
`avg_ns` is the printed average, which unitrace rounds down. A summary that comes again is another run.

Kernels lose what unitrace puts behind their name: `simd`, `group_count` and `group_size` are in args, `raw_name` has
the whole text. Rows of the same kernel with other shapes stay apart. `Tile #0:` is `tile` in args.
zeCommandListAppendMemoryCopy and other copies are `memcpy`, fills `memset`: args has `direction` as printed (D2M: from
the device to memory of the system) and the size of one copy, `bytes` that of all. Other commands of a queue are of kind
other. Functions of Level Zero are driver calls, those of OpenCL runtime calls, those of oneCCL and MPI communication.

Kernel Properties (compiled ahead of time or not, memory of a thread, spills) go into the args of their kernels. Of the
Kernel Submission Summary append_ns, submit_ns and execute_ns are in args: the last is the time of the device, which has
its own table.

Tables are found in logs. Sources: tracer.h and ze_collector.h of tools/unitrace in intel/pti-gpu, Intel's oneAPI GPU
Optimization Guide. Not supported: metrics (`-q`, `-k`, `--stall-sampling`), lines of single calls (`-t`, `-c`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from tracekit.lazy_dataclass import dataclass
from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult
from tracekit.readers.printed.lines import first_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.schema import Kind
    from tracekit.model.trace import Ledger
    from tracekit.readers.printed.lines import TextLine
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_B = r"[ \t]{0,2000}"
_HEADER = re.compile(
    rf"(Kernel|Function){_B},{_B}Calls{_B},{_B}Time ?\(ns\){_B},{_B}Time ?\(%\){_B},{_B}Average ?\(ns\){_B},"
    rf"{_B}Min ?\(ns\){_B},{_B}Max ?\(ns\){_B}$"
)
_SUBMISSION = re.compile(
    rf"Kernel{_B},{_B}Calls{_B},{_B}Append ?\(ns\){_B},{_B}Append ?\(%\){_B},{_B}Submit ?\(ns\){_B},"
    rf"{_B}Submit ?\(%\){_B},{_B}Execute ?\(ns\){_B},{_B}Execute ?\(%\){_B}$"
)
_PROPERTIES = re.compile(rf"Kernel{_B},(?:{_B}[A-Z][A-Za-z ]{{0,60}},)*{_B}[A-Z][A-Za-z ]{{0,60}}{_B}$")
_SUMMARY = re.compile(r"=== (\w[\w ]{0,60}?)(?: Timing)? (?:Summary|Properties) ===|=== Kernel Properties ===")
_BACKEND = re.compile(r"(?<!=)== (\w[\w ]{0,40} Backend) ==(?!=)")
_TOTAL = re.compile(r"Total [\w ]{1,60} \(ns\): *\d")
_SHAPE = re.compile(r"\[(?:SIMD(_ANY|\d{1,4}))? ?\{([\d; ]{1,60})\} ?\{([\d; ]{1,60})\}\]$", re.ASCII)
_COPY = re.compile(r"(ze\w{1,80}?)(?:\(([A-Z](?:2[A-Z])?)\))?(?:\[(\d{1,18})(?: bytes)?\])?", re.ASCII)
_TILE = re.compile(r"Tile #(\d{1,6}): ", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_SHARE = re.compile(r"-?(?:\d{1,20}(?:\.\d{1,20})?|nan|inf)", re.ASCII)
_PROPERTY_KEYS = {
    "Compiled": "compiled",
    "SIMD": "simd",
    "Number of Arguments": "arguments",
    "SLM Per Work Group": "shared_bytes",
    "Private Memory Per Thread": "private_bytes",
    "Spill Memory Per Thread": "spill_bytes",
    "Register File Size Per Thread": "register_file",
}
_MOST = 1 << 62


@dataclass(slots=True)
class _SummedRow:
    """A row of a table, until the properties of its kernel are known."""

    run: int
    section: str
    name: str
    raw_name: str | None
    kind: Kind
    args: dict[str, object]
    more: dict[str, object]


@dataclass(slots=True)
class _Summaries:
    """The state of reading at a line. form: of the rows that follow, "" for none. columns: of properties."""

    run: int = 0
    summary: str = ""
    backend: str = ""
    form: str = ""
    of_kernels: bool = False
    columns: tuple[str, ...] = ()
    seen: set[str] = field(default_factory=set)
    rows: list[_SummedRow] = field(default_factory=list)
    kernels: dict[tuple[int, str], list[_SummedRow]] = field(default_factory=dict)

    @property
    def section(self) -> str:
        """The name of the table."""
        return ", ".join(each for each in (self.summary, self.backend) if each) or "Timing"


def sniff(head: Head) -> Confidence:
    """Return YES for the header of a table."""
    if head.tables or not head.text:
        return Confidence.NO
    lines = (line.rstrip()[-4096:] for line in first_lines(head.data) if "Calls" in line and "(ns)" in line)
    return Confidence.YES if any(_HEADER.search(line) or _SUBMISSION.search(line) for line in lines) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError where there is no table."""
    from tracekit.model.trace import Run, SourceFacts

    run = Run(sources=[SourceFacts(source.name, "unitrace", facts={"tool": "unitrace"})])
    return ReadResult(run, _batches(source, options, ledger), True, (ledger,))


def _batches(source: Source, options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    from tracekit.errors import ParseError
    from tracekit.readers.printed.lines import TotalRows, text_lines

    rows = TotalRows(options.source, ledger)
    state = _Summaries()
    for line in text_lines(source, ledger):
        _line(state, line, ledger)
    if not state.rows and not ledger.dropped:
        raise ParseError(source.name, "", "no row of a table of unitrace, with its calls and times in ns")
    for row in state.rows:
        rows.add(
            row.run, row.section, row.name, str(row.kind), row.args, raw_name=row.raw_name, **row.more
        )  # fmt: skip
        yield from rows.take()
    yield from rows.take(everything=True)


def _line(state: _Summaries, line: TextLine, ledger: Ledger) -> None:
    """Take a line: a heading, the header of a table, or a row of it."""
    from tracekit.readers.engine.torn import drop_torn

    text = line.text.rstrip()
    if (summary := _SUMMARY.search(text)) is not None:
        state.summary, state.backend, state.form = summary[1] or "Kernel", "", ""
        if "Properties" not in text:
            if state.summary in state.seen:
                state.run += 1
                state.seen.clear()
            state.seen.add(state.summary)
        ledger.ignore("headings")
    elif (backend := _BACKEND.search(text)) is not None:
        state.backend, state.form = backend[1], ""
        ledger.ignore("headings")
    elif (header := _HEADER.search(text[-4096:])) is not None:
        state.form, state.of_kernels = "times", header[1] == "Kernel"
        ledger.ignore("headings")
    elif _SUBMISSION.search(text[-4096:]):
        state.form = "submission"
        ledger.ignore("headings")
    elif len(text) < 4096 and state.summary == "Kernel" and _PROPERTIES.search(text):
        state.form, state.columns = "properties", tuple(each.strip() for each in text.split(",")[1:])
        ledger.ignore("headings")
    elif _TOTAL.search(text[-4096:]):
        ledger.ignore("sums of tables")
    elif not text:
        ledger.ignore("blank lines")
    elif not state.form or "," not in text:
        state.form = ""
        ledger.ignore("other output")
    elif line.torn:  # its last number may go on
        drop_torn(ledger, line.where)
    else:
        _row(state, text, line, ledger)


def _row(state: _Summaries, text: str, line: TextLine, ledger: Ledger) -> None:
    """Take a row of the table: names may have commas, so numbers are counted from the right."""
    count = {"times": 6, "submission": 7}.get(state.form, len(state.columns))
    name, *cells = (cell.strip() for cell in text.rsplit(",", count))
    at = name.find('"')
    name = name[at:].strip('"') if at >= 0 else name
    if len(cells) != count or not name:
        ledger.ignore("other output")
        state.form = ""
    elif state.form == "properties":
        _properties(state, name, cells, ledger)
    elif not all((_SHARE if at in _SHARES[state.form] else _WHOLE).fullmatch(cell) for at, cell in enumerate(cells)):
        ledger.drop("bad-row", where=line.where, text="dropped: a row of a table with a cell that is not a number")
    else:
        _add(state, name, cells, ledger)


_SHARES = {"times": (2,), "submission": (2, 4, 6)}
"""The cells that are shares, of each form."""


def _add(state: _Summaries, shown: str, cells: list[str], ledger: Ledger) -> None:
    from tracekit.model.schema import Kind

    tile = _TILE.search(shown)
    name = shown[tile.end() :].strip('"') if tile is not None else shown
    args: dict[str, object] = {"tile": int(tile[1])} if tile is not None else {}
    more: dict[str, object] = {"calls": int(cells[0])}
    kind = _call_kind(state.summary, name)
    if state.form == "submission":
        keys = ("append_ns", "submit_ns", "execute_ns")
        args |= dict(zip(keys, map(int, cells[1::2]), strict=True))
        kind = Kind.OTHER
    else:
        total, least, most = int(cells[1]), int(cells[4]), int(cells[5])
        more |= {"total_ns": total, "min_ns": least, "max_ns": most, "avg_ns": float(cells[3])}
    if state.of_kernels and state.form == "times":
        kind = Kind.KERNEL
        if (shape := _SHAPE.search(name)) is not None:
            if shape[1]:
                args["simd"] = int(shape[1]) if shape[1].isdigit() else "any"
            args |= {"group_count": _numbers(shape[2]), "group_size": _numbers(shape[3])}
            name = name[: shape.start()].rstrip()
        elif (copy := _COPY.fullmatch(name)) is not None:
            kind = _command_kind(copy[1])
            args |= {"direction": copy[2]} if copy[2] else {}
            size = int(copy[3]) if copy[3] else 0
            if size:
                args["size"] = size
                more["bytes"] = size * int(cells[0]) if size * int(cells[0]) < _MOST else None
            name = copy[1]
    row = _SummedRow(state.run, state.section, name, shown if shown != name else None, kind, args, more)
    state.rows.append(row)
    if kind is Kind.KERNEL:
        state.kernels.setdefault((state.run, shown), []).append(row)
    ledger.kept += 1


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.replace(" ", "").split(";") if each]


def _call_kind(summary: str, name: str) -> Kind:
    from tracekit.model.schema import Kind

    if summary.startswith("CCL") or name.startswith(("MPI_", "ccl", "oneccl")):
        return Kind.COMMUNICATION
    return Kind.DRIVER if name.startswith("ze") else Kind.RUNTIME if name.startswith("cl") else Kind.OTHER


def _command_kind(name: str) -> Kind:
    from tracekit.model.schema import Kind

    if "Fill" in name:
        return Kind.MEMSET
    return Kind.MEMCPY if "Copy" in name else Kind.OTHER


def _properties(state: _Summaries, name: str, cells: list[str], ledger: Ledger) -> None:
    """Add the properties of a kernel to its rows."""
    rows = state.kernels.get((state.run, name), [])
    known = {_PROPERTY_KEYS[key]: cell for key, cell in zip(state.columns, cells, strict=True) if key in _PROPERTY_KEYS}
    for row in rows:
        row.args |= {key: int(cell) if _WHOLE.fullmatch(cell) else cell for key, cell in known.items()}
    if rows:
        ledger.merged += 1
    else:
        ledger.ignore("properties of kernels without times")

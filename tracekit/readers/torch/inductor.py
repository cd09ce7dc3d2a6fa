"""inductor-bandwidth: the bandwidth of Triton kernels that TorchInductor prints (TORCHINDUCTOR_PROFILE=1).

    0.123ms         0.013 GB          104.30GB/s     triton_poi_fused_add_mul_0
    SUMMARY (/tmp/torchinductor/ab/cab.py)
    1.23ms           0.13 GB         105.69GB/s

A record is a line. Each kernel was timed once, when it was first called, so `total_ns` is one call of it; the file of
TORCHINDUCTOR_PROFILE_OUTPUT has a line for each call in the graph, and lines of one name become one total (`calls`,
`min_ns`, `max_ns`; `merged` counts the lines beyond the first). `bytes` are what the kernel reads and writes, as its
arguments say; fewer than 0.0005 GB are printed as 0.000 and are not known. `gb_per_s` (args) is the rate as printed.
Each graph that ends with a SUMMARY is a run. The sums of a SUMMARY have two digits and are ignored: the lines above
have three.

The lines of a compiled module's own benchmark (`python cab.py -k`) have the registers, spills and shared memory of the
kernel, and its category and key in front instead of its name: these are read too. What `-c` prints for each
configuration of a kernel is not: only one of them is used.

Lines are found in logs, behind the prefix of a logger (`[rank0]:` becomes `rank`) and with colours. Numbers have a
decimal point. Sources: runtime/triton_heuristics.py, runtime/runtime_utils.py and wrapper_benchmark.py of
torch._inductor in PyTorch 2.1 to 2.13. Not supported: kernels that are not Triton's (extern_kernels.mm): the file does
not have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from decimal import Decimal
from typing import TYPE_CHECKING

from tracekit.lazy_dataclass import dataclass
from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult
from tracekit.readers.printed.lines import first_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger
    from tracekit.readers.printed.lines import TextLine, TotalRows
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_LINE = re.compile(
    r"(?<![\d.])(\d{1,12}\.\d{3})ms[ \t]{1,20}(\d{1,9}\.\d{3}) GB[ \t]{1,20}(\d{1,12}\.\d{2})GB/s(?=[ \t]|$)", re.ASCII
)
_KERNEL = re.compile(r"[ \t]+(?:(\d{1,3}\.\d{2})%[ \t]+)?([A-Za-z_][\w.]{0,1000})\s*", re.ASCII)
_DETAILS = re.compile(r"[ \t]+(\d{1,6}) regs[ \t]+(\d{1,9}) spills[ \t]+(\d{1,9}) shared mem", re.ASCII)
_OWN = re.compile(r"(\S.*?)[ \t]+([A-Z]{3})[ \t]+([a-z0-9]{4,10})[ \t]*$", re.ASCII)
"""What a benchmark prints in front: its name, the category of the kernel, and its key."""
_SUMMARY = re.compile(r"SUMMARY \(.{0,4096}\)\s*$")
_HEADING = re.compile(r"TRITON KERNELS BANDWIDTH INFO \(")
_SUMS = re.compile(r"\d{1,15}\.\d{2}ms[ \t]{1,20}\d{1,12}\.\d{2} GB[ \t]{1,20}\d{1,12}\.\d{2}GB/s", re.ASCII)
_RANK = re.compile(r"\[rank(\d{1,6})\]:", re.ASCII)


@dataclass(slots=True)
class _KernelLines:
    """The lines of one kernel in a run."""

    calls: int = 0
    total_ns: int = 0
    min_ns: int = 1 << 62
    max_ns: int = 0
    bytes: int | None = 0
    args: dict[str, object] = field(default_factory=dict)


def sniff(head: Head) -> Confidence:
    """Return YES for the line of a kernel."""
    if head.tables or not head.text:
        return Confidence.NO
    lines = (line[:8192] for line in first_lines(head.data) if "GB/s" in line)
    return Confidence.YES if any(_parts(line) is not None for line in lines) else Confidence.NO


def _parts(text: str) -> tuple[re.Match[str], str, dict[str, object]] | None:
    """Return the numbers of a line, the name of its kernel, and what else it says; None for another line."""
    found = _LINE.search(text)
    if found is None:
        return None
    rest = text[found.end() :]
    if (kernel := _KERNEL.fullmatch(rest)) is not None:
        return found, kernel[2], {}
    if (own := _OWN.search(text[: found.start()])) is None:
        return None
    details = _DETAILS.match(rest)
    args: dict[str, object] = {"benchmark": own[1].split()[-1]}
    if details is not None:
        names = ("registers", "spills", "shared_bytes")
        args |= dict(zip(names, map(int, details.groups()), strict=True))
        rest = rest[details.end() :]
    return None if rest.strip() else (found, f"{own[2]} {own[3]}", args)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError where no kernel is printed."""
    from tracekit.model.trace import Run, SourceFacts

    run = Run(sources=[SourceFacts(source.name, "inductor-bandwidth", facts={"tool": "TorchInductor"})])
    return ReadResult(run, _batches(source, options, ledger), True, (ledger,))


def _batches(source: Source, options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    from tracekit.errors import ParseError
    from tracekit.readers.engine.torn import drop_torn
    from tracekit.readers.printed.lines import TotalRows, text_lines

    rows = TotalRows(options.source, ledger)
    run = 0
    kernels: dict[tuple[int | None, str], _KernelLines] = {}
    for line in text_lines(source, ledger):
        found = _parts(line.text) if "GB/s" in line.text else None
        if found is None:
            if _SUMMARY.search(line.text) or _HEADING.search(line.text):
                run += _add(rows, run, kernels)
                ledger.ignore("headings")
            elif _SUMS.search(line.text):
                ledger.ignore("sums of graphs")
            else:
                ledger.ignore("other output" if line.text.strip() else "blank lines")
        elif line.torn:  # the name of its kernel may go on
            drop_torn(ledger, line.where)
        else:
            _take(line, found, kernels, ledger)
        yield from rows.take()
    run += _add(rows, run, kernels)
    if not run and not ledger.dropped:
        raise ParseError(source.name, "", "no line with the bandwidth of a kernel, as TorchInductor prints it")
    yield from rows.take(everything=True)


def _take(
    line: TextLine,
    found: tuple[re.Match[str], str, dict[str, object]],
    kernels: dict[tuple[int | None, str], _KernelLines],
    ledger: Ledger,
) -> None:
    """Count a line for its kernel."""
    from tracekit.model.units import to_ns

    numbers, name, more = found
    rank = _RANK.search(line.text)
    try:
        ns = to_ns(numbers[1], "ms")
    except ValueError:
        ledger.drop("bad-row", where=line.where, text="dropped: a line of a kernel whose time is not a time")
        return
    size = int(Decimal(numbers[2]).scaleb(9))
    key = (int(rank[1]) if rank is not None else None, name)
    kernel = kernels.get(key)
    if kernel is None:
        kernel = kernels[key] = _KernelLines(args={**more, "gb_per_s": float(numbers[3])})
        ledger.kept += 1
    else:
        ledger.merged += 1
        if kernel.args.get("gb_per_s") != float(numbers[3]):
            kernel.args.pop("gb_per_s", None)
    kernel.calls += 1
    kernel.total_ns += ns
    kernel.min_ns, kernel.max_ns = min(kernel.min_ns, ns), max(kernel.max_ns, ns)
    kernel.bytes = kernel.bytes + size if kernel.bytes is not None and size else None


def _add(rows: TotalRows, run: int, kernels: dict[tuple[int | None, str], _KernelLines]) -> int:
    """Add the totals of a run, and return the number of runs that it was: 0 where it has no kernel."""
    from tracekit.model.schema import Kind

    most = 1 << 62
    for (rank, name), each in kernels.items():
        rows.add(
            run, "kernels", name, str(Kind.KERNEL), each.args, calls=each.calls, rank=rank,
            total_ns=each.total_ns if each.total_ns < most else None, min_ns=each.min_ns, max_ns=each.max_ns,
            bytes=each.bytes if each.bytes is not None and each.bytes < most else None,
        )  # fmt: skip
    count = len(kernels)
    kernels.clear()
    return 1 if count else 0

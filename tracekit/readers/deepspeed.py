"""deepspeed-flops: the table of DeepSpeed's flops profiler: parameters, operations and time of a model and its modules.

    -------------------------- DeepSpeed Flops Profiler --------------------------
    Profile Summary at step 10:
    fwd latency:                                                  76.67 ms
    (query): Linear(1.05 M = 0.31% Params, 10.74 GMACs = 0.34% MACs, 182.39 us = 0.24% latency, 117.74 TFLOPS, ...)

A record is a line. Each profile is a run. Its section `summary` has a row for each line above the modules: a latency is
`total_ns` (fwd: forward, bwd: backward, step: optimizer, iter: step), every other number is a value with its unit.
Section `aggregated` has the modules that the profile lists for each depth, by class. Section `modules` is the tree:
`name` is the path of a module (`bert.encoder.layer.0`), `total_ns` its forward pass, and `args` has `class`, `depth`,
`params`, `macs`, `flops_per_s`, and `self_ns`: the time without that of the modules directly inside. Only the latter
may be added up. All modules are user ranges.

Numbers are those that were printed: `3139.93 GMACs` is 3,139,930,000,000. Prefixes are powers of 1000; `B` of
parameters is 10^9. Shares are not kept: they follow from the numbers. A module for which the profiler prints `...`, or
no numbers, has no row.

The table is found in logs, indented, quoted, or behind prefixes of loggers. Sources: deepspeed/profiling/flops_profiler
of DeepSpeed 0.3 to 0.17, its tutorial. Not supported: the tables of THOP, fvcore and torchinfo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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

HEADING = re.compile(r"-{10,60} ?DeepSpeed Flops Profiler ?-{10,60}")
_PART = re.compile(r"-{10,60} ?(Aggregated|Detailed) Profile per GPU ?-{10,60}")
_END = re.compile(r"-{60,90}\s*$")
_STEP = re.compile(r"Profile [Ss]ummary at step (\d{1,12})", re.ASCII)
_SUMMARY = re.compile(
    r"((?:world|data parallel|model parallel|expert tensor parallel|batch) size[ \w]{0,30}|params [^:]{1,80}"
    r"|(?:fwd|bwd|fwd\+bwd) [^:]{1,90}|(?:step|iter) latency|FLOPS per GPU[^:]{0,80}|samples/(?:second|iter)"
    r"|samples per second|throughput)\s?:\s+(\S.*?)\s*$"
)
_VALUE = re.compile(r"(\d{1,30}(?:\.\d{1,20})?)(?:[eE]([+-]?\d{1,2}))?(?: ?([A-Za-zµ]{1,12}))?", re.ASCII)
_NUMBER = r"\d{1,30}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,2})?"
_MODULE = re.compile(
    rf"({_NUMBER}) ?([A-Za-z]?)\s?(?:,|=) {_NUMBER}% Params, ({_NUMBER}) ?([A-Za-z]?)MACs(?:,| =) {_NUMBER}% MACs, "
    rf"({_NUMBER}) ?(ns|us|ms|s)(?:,| =) {_NUMBER}% latency, ({_NUMBER}) ?([A-Za-z]?)FLOPS\b",
    re.ASCII,
)
_OPENED = re.compile(r"( *)(?:\(([^()]{1,200})\): )?(?:\d{1,6} x )?([A-Za-z_][\w.]{0,200})\(", re.ASCII)
_DEPTH = re.compile(r"\bdepth (\d{1,6}):\s*$", re.ASCII)
_LISTED = re.compile(r"\b(params|MACs|fwd latency)\s{1,8}- \{(.{0,100000})\}?")
_ENTRY = re.compile(r"'([^']{1,200})': '([^']{1,60})'")
_TIMES = {"ns": "ns", "us": "us", "ms": "ms", "s": "s"}
_PREFIX = {"": 0, "K": 3, "k": 3, "M": 6, "G": 9, "B": 9, "T": 12, "P": 15, "E": 18, "m": -3, "u": -6}
_UNITS = ("MACs", "FLOPS")
_MOST = 1 << 62
_MOST_DEPTH = 1 << 10


@dataclass(slots=True)
class _Module:
    """A module with its numbers. below_ns: the time of the modules directly inside."""

    name: str
    args: dict[str, object]
    total_ns: int
    below_ns: int = 0


@dataclass(slots=True)
class _Opened:
    """A module around the next line. column: where it begins. numbers: None as long as they were not printed."""

    column: int
    name: str
    kind: str
    numbers: _Module | None = None


@dataclass(slots=True)
class _FlopsProfile:
    """The profile that is being read. above: the modules around the next line, outermost first.

    part: "summary", "Aggregated", "Detailed", or "" behind the end. modules: those with numbers, in the order of lines.
    """

    run: int
    part: str = "summary"
    depth: int | None = None
    step: int | None = None
    above: list[_Opened] = field(default_factory=list)
    modules: list[_Module] = field(default_factory=list)

    def add_modules(self, rows: TotalRows) -> None:
        """Add the rows of the tree. A module has the time of those inside: what is left is its own (args, self_ns)."""
        from tracekit.model.schema import Kind

        for each in self.modules:
            # Printed times have three to five digits, so that parts may be a little more than the whole.
            args = {**each.args, "self_ns": max(0, each.total_ns - each.below_ns)}
            rows.add(self.run, "modules", each.name, str(Kind.USER_RANGE), args, total_ns=each.total_ns)
        self.modules.clear()


def sniff(head: Head) -> Confidence:
    """Return YES for the heading of a profile."""
    if head.tables or not head.text:
        return Confidence.NO
    lines = (line[:4096] for line in first_lines(head.data) if "DeepSpeed" in line)
    return Confidence.YES if any(HEADING.search(line) for line in lines) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError where there is no profile."""
    from tracekit.model.trace import Run, SourceFacts

    run = Run(sources=[SourceFacts(source.name, "deepspeed-flops", facts={"tool": "DeepSpeed flops profiler"})])
    return ReadResult(run, _batches(source, options, ledger), True, (ledger,))


def _batches(source: Source, options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    from tracekit.errors import ParseError
    from tracekit.readers.engine.torn import drop_torn
    from tracekit.readers.printed.lines import TotalRows, text_lines

    rows = TotalRows(options.source, ledger)
    profile: _FlopsProfile | None = None
    runs = 0
    for line in text_lines(source, ledger):
        text = line.text
        if "DeepSpeed" in text and HEADING.search(text):
            if profile is not None:
                profile.add_modules(rows)
            profile = _FlopsProfile(runs)
            runs += 1
            ledger.ignore("headings")
        elif profile is None or not profile.part:
            ledger.ignore("other output" if text.strip() else "blank lines")
        elif line.torn and text.strip():  # a number that ends here may go on
            drop_torn(ledger, line.where)
        else:
            _line(profile, line, rows, ledger)
        yield from rows.take()
    if profile is not None:
        profile.add_modules(rows)
    if not runs:
        raise ParseError(source.name, "", "no profile under the heading DeepSpeed Flops Profiler")
    yield from rows.take(everything=True)


def _line(profile: _FlopsProfile, line: TextLine, rows: TotalRows, ledger: Ledger) -> None:
    """Take a line of a profile."""
    text = line.text
    if (part := _PART.search(text)) is not None:
        profile.part, profile.depth = part[1], None
        ledger.ignore("headings")
    elif _END.search(text):
        profile.part = ""
        profile.add_modules(rows)
        ledger.ignore("headings")
    elif (step := _STEP.search(text)) is not None:
        profile.step = int(step[1])
        ledger.facts += 1
    elif profile.part == "summary" and (summary := _SUMMARY.search(text)) is not None:
        _summary(profile, summary[1], summary[2], line, rows, ledger)
    elif profile.part == "Aggregated" and (depth := _DEPTH.search(text)) is not None:
        profile.depth = int(depth[1])
        ledger.ignore("headings")
    elif profile.part == "Aggregated" and (listed := _LISTED.search(text)) is not None:
        _listed(profile, listed[1], listed[2], line, rows, ledger)
    elif profile.part == "Detailed":
        _detail(profile, line, ledger)
    else:
        ledger.ignore("other output" if text.strip() else "blank lines")


def _summary(profile: _FlopsProfile, key: str, text: str, line: TextLine, rows: TotalRows, ledger: Ledger) -> None:
    from tracekit.model.schema import Kind

    name = key.partition(" = ")[0].strip()
    value = _value(text)
    if value is None:
        ledger.drop("bad-row", where=line.where, text="dropped: a line of a profile whose value is not a number")
        return
    kinds = {"fwd": Kind.FORWARD, "bwd": Kind.BACKWARD, "step": Kind.OPTIMIZER, "iter": Kind.OTHER}
    kind = kinds.get(name.partition(" ")[0], Kind.OTHER) if name.endswith("latency") else Kind.OTHER
    args = {"formula": key.partition(" = ")[2].strip()} if " = " in key else {}
    more = {} if profile.step is None else {"step": profile.step}
    rows.add(profile.run, "summary", name, str(kind), {**more, **args}, **value)
    ledger.kept += 1


def _value(text: str) -> Mapping[str, object] | None:
    """Return the columns of a printed value: of a time, or of a number with its unit; None for another text."""
    from tracekit.model.units import to_ns

    found = _VALUE.fullmatch(text.strip())
    if found is None:
        return None
    number = found[1] + (f"e{found[2]}" if found[2] else "")
    unit = found[3] or ""
    if unit in _TIMES:
        try:
            return {"total_ns": to_ns(number, unit)}
        except ValueError:
            return None
    word = next((each for each in _UNITS if unit.endswith(each)), "")
    prefix = unit.removesuffix(word)
    if prefix not in _PREFIX:
        return {"value_avg": float(number), "value_text": text, "unit": unit}
    return {"value_avg": float(Decimal(number).scaleb(_PREFIX[prefix])), "value_text": text, "unit": word or None}


def _listed(profile: _FlopsProfile, what: str, text: str, line: TextLine, rows: TotalRows, ledger: Ledger) -> None:
    """Add a row for each class in the list of a depth."""
    from tracekit.model.schema import Kind

    values = [(name, _value(shown)) for name, shown in _ENTRY.findall(text)]
    if not values or any(value is None for _, value in values):
        ledger.drop("bad-row", where=line.where, text="dropped: a list of modules whose values are not numbers")
        return
    for name, value in values:
        args: dict[str, object] = {"of": what}
        if profile.depth is not None:
            args["depth"] = profile.depth
        rows.add(profile.run, "aggregated", name, str(Kind.OTHER), args, **(value or {}))
    ledger.kept += 1


def _detail(profile: _FlopsProfile, line: TextLine, ledger: Ledger) -> None:
    """Take a line of the tree: a module that begins, its numbers, both, or its end."""
    text = line.text
    numbers = _MODULE.search(text)
    opened = _OPENED.search(text[: numbers.start()] if numbers is not None else text)
    column = opened.end(1) if opened is not None else numbers.start() if numbers is not None else None
    while column is not None and profile.above and profile.above[-1].column >= column:
        profile.above.pop()
    if opened is not None and len(profile.above) < _MOST_DEPTH:
        profile.above.append(_Opened(opened.end(1), opened[2] or "", opened[3]))
    if numbers is None:
        ends = text.strip() in (")", "...", "")
        ledger.ignore("modules without numbers" if opened is not None else "ends" if ends else "other output")
    elif not profile.above or profile.above[-1].numbers is not None:
        ledger.drop("no-module", where=line.where, text="dropped: numbers that belong to no module")
    else:
        _add_module(profile, numbers, line, ledger)


def _add_module(profile: _FlopsProfile, numbers: re.Match[str], line: TextLine, ledger: Ledger) -> None:
    """Add the numbers of the innermost module."""
    from tracekit.model.units import to_ns

    own = profile.above[-1]
    path = ".".join(each.name for each in profile.above[1:]) or own.kind
    args: dict[str, object] = {"class": own.kind, "depth": len(profile.above) - 1}
    printed = {"params": (1, 2), "macs": (3, 4), "flops_per_s": (7, 8)}
    try:
        ns = to_ns(numbers[5], numbers[6])
        for key, (number, prefix) in printed.items():
            args[key] = _whole(Decimal(numbers[number]).scaleb(_PREFIX[numbers[prefix]]))
    except (ValueError, KeyError):
        ledger.drop("bad-row", where=line.where, text="dropped: a module with a cell that is not a number")
        return
    own.numbers = _Module(path, args, ns)
    around = [each.numbers for each in profile.above[:-1] if each.numbers is not None]
    if around:
        around[-1].below_ns += ns
    profile.modules.append(own.numbers)
    ledger.kept += 1


def _whole(number: Decimal) -> int | float:
    """Return a number as an int where it is one. Raises: ValueError beyond 2^62."""
    if abs(number) >= _MOST:
        raise ValueError("a number beyond 64 bits")
    return int(number) if number == number.to_integral_value() else float(number)

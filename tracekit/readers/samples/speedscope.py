"""speedscope: profiles in the file format of speedscope.app, which py-spy, rbspy, pyinstrument and others write.

    {"$schema": "https://www.speedscope.app/file-format-schema.json",
     "shared": {"frames": [{"name": "main", "file": "a.py", "line": 3}, ...]},
     "profiles": [{"type": "sampled", "name": "thread 1", "unit": "seconds", "samples": [[0, 1]], "weights": [0.01]}]}

A record is a sample, or an event of an evented profile (O opens a frame, C closes it). Each profile is a thread.
Samples become sums by stack: time where the unit is one, exact in decimal; else `value_avg` in the unit of the file
(bytes), or in samples where it is `none`. A sample without frames is idle time, and is skipped. In `args`, `frames` has
the stack, and `at` begin and length of each time at which it was on. A profile whose events do not nest, or that ends
with a frame open, is refused as a whole.
Sources: the schema of speedscope 1.20; files of speedscope and py-spy 0.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.args import items_of
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.samples._stacks import SECTION, Stacks, Stretch, decimal, json_object, objects, whole
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_WORD = "speedscope.app/file-format-schema"


def sniff(head: Head) -> Confidence:
    """Return YES for JSON that names the schema."""
    data = head.data
    found = data.lstrip()[:1] == b"{" and _WORD.encode() in data and (b'"profiles"' in data or b'"shared"' in data)
    return Confidence.YES if found else Confidence.NO


# Reads files of speedscope: sampled and evented profiles over shared frames.


class _Refused(ValueError):
    """The reason why a profile is not read."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError for damaged JSON, or when no profile can be read."""
    found = json_object(source.read_whole(), source.name, "speedscope file")
    run = Run(
        sources=[
            SourceFacts(source.name, "speedscope", facts={"tool": str(found.get("exporter") or "speedscope")[:200]})
        ]
    )
    return ReadResult(run, _batches(found, source.name, options, ledger), True, (ledger,))


def _batches(found: dict[str, object], name: str, options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    shared = found.get("shared")
    frames = [_frame(each) for each in items_of(shared.get("frames") if isinstance(shared, dict) else None)]
    stacks = Stacks(options, ledger)
    refused = ""
    for number, profile in enumerate(objects(found.get("profiles"))):
        thread = str(profile.get("name") or f"profile {number}")[:400]
        unit = str(profile.get("unit", "none"))[:40]
        read = _evented if profile.get("type") == "evented" else _sampled
        records = items_of(profile.get("events")) if read is _evented else items_of(profile.get("samples"))
        ledger.read += len(records)
        try:
            sums = read(records, items_of(profile.get("weights")), frames, ledger)
        except _Refused as err:
            refused = refused or f"profile {number}: {err}"
            ledger.drop(
                "bad-profile", len(records), where=f"profile {number}", text=f"dropped: a profile in which {err}"
            )
            continue
        unit = SECTION if unit == "none" else unit
        for stack, each in sums.items():
            stacks.add(0, thread, unit, [frames[at] for at in stack], each.weight, each.count, each.stretches)
    if not len(stacks):
        raise ParseError(
            name,
            refused.partition(":")[0],
            f"no profile can be read{': ' if refused else ''}{refused.partition(': ')[2]}",
        )
    yield from stacks.batches()


@dataclass(slots=True)
class _Sum:
    """The samples of one stack: their weight, their number, and when it was on."""

    weight: Decimal = Decimal(0)
    count: int = 0
    stretches: list[Stretch] = field(default_factory=list)


Sums = dict[tuple[int, ...], _Sum]


def _sampled(samples: list[object], weights: list[object], frames: list[str], ledger: Ledger) -> Sums:
    if len(weights) != len(samples):
        raise _Refused(f"{len(samples):,} samples have {len(weights):,} weights")
    sums: Sums = {}
    now = Decimal(0)
    for sample, given in zip(samples, weights, strict=True):
        weight = decimal(given)
        stack = tuple(at for each in items_of(sample) if (at := whole(each, len(frames))) is not None)
        if weight is None or not isinstance(sample, list) or len(stack) != len(sample):
            ledger.drop("bad-sample", text="dropped: a sample whose weight or frames are not in the file")
        elif not stack:
            ledger.ignore("samples without frames (idle)")
        else:
            _add(sums, stack, now, weight, 1)
            ledger.kept += 1
        now += weight or 0
    return sums


def _evented(events: list[object], _: list[object], frames: list[str], ledger: Ledger) -> Sums:
    sums: Sums = {}
    stack: list[int] = []
    last: Decimal | None = None
    for event in events:
        at = decimal(event.get("at")) if isinstance(event, dict) else None
        frame = whole(event.get("frame"), len(frames)) if isinstance(event, dict) else None
        if not isinstance(event, dict) or at is None or frame is None:
            raise _Refused("an event has no frame or no time")
        if last is not None and at < last:
            raise _Refused("events are not in order of time")
        if stack and last is not None and at > last:
            _add(sums, tuple(stack), last, at - last, 0)
        last = at
        if event.get("type") == "O":
            stack.append(frame)
        elif not stack or stack.pop() != frame:
            raise _Refused("a frame is closed that is not the innermost open one")
        if len(stack) > 20_000:
            raise _Refused("more than 20,000 frames are open at once")
    if stack:
        raise _Refused("a frame is opened and never closed")
    ledger.merged += len(events) // 2
    ledger.kept += len(events) - len(events) // 2
    return sums


def _add(sums: Sums, stack: tuple[int, ...], begin: Decimal, weight: Decimal, count: int) -> None:
    found = sums.setdefault(stack, _Sum())
    found.weight += weight
    found.count += count
    found.stretches.append((begin, weight))


def _frame(found: object) -> str:
    """Return the name of a frame, with its file where it has one: names such as `forward` are many."""
    if not isinstance(found, dict):
        return "(unknown)"
    name, file = str(found.get("name", "(unknown)")), found.get("file")
    return f"{name} ({file})" if isinstance(file, str) and file else name

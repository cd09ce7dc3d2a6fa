"""The inputs of a run on the clocks that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from filecmp import cmp
from pathlib import Path

import pyarrow as pa

from tracekit.analysis.clocks.meetings import Relation
from tracekit.inputs.paths import Input
from tracekit.readers.base import Opened
from tracekit.run import alignment, device_clocks
from tracekit.run.alignment import AUTO, CLOCK, Clocked, Placed
from tracekit.run.doubles import Doubles
from tracekit.run.launches import LaunchLook
from tracekit.run.one_process import Joins
from tracekit.text.display import plural
from tracekit.trace import JOINED_INTO, Ledger, Note, Run

HEAD_BYTES = 1 << 12
"""Files of one size are compared whole where these first bytes are the same."""


@dataclass(frozen=True, slots=True)
class Begun:
    """An input whose first batch has been read. number: its place among the inputs. item: as the user named it.

    first_ns: start of the first rows. unmarked: it has steps, and `step` of the rows inside them is still to be set.
    """

    number: int
    item: Input
    opened: Opened
    first_ns: int | None
    unmarked: bool


@dataclass(frozen=True, slots=True)
class Met:
    """Results of the first looks at several inputs that say something of their clocks.

    relations: what collectives say of inputs, by number, against the one that is named second. launches: calls and
    device work of inputs, by number. choices: what the user says of each input; empty where nothing was looked for.
    """

    relations: tuple[Mapping[int, Relation], int] = field(default_factory=lambda: ({}, -1))
    launches: Mapping[int, LaunchLook] = field(default_factory=dict)
    choices: Sequence[str | int] = ()


def known(number: int, item: Input, run: Run, first_ns: int | None) -> Begun:
    """Return an input that was read elsewhere: what is known of it decides its clock, and it has no rows here."""
    return Begun(number, item, Opened(run, iter(()), True, ()), first_ns, False)


def without_copies(items: Sequence[Input]) -> tuple[list[Input], dict[int, list[str]]]:
    """Return the inputs without repeated ones, and the names of the repeated ones by the number of the first.

    A file by two names is one file; a copy of it is not: two runs may print the same. An input that the user gave
    another NAME stays.
    """
    kept: list[Input] = []
    again: dict[int, list[str]] = {}
    found: dict[tuple[str, int, int], int] = {}
    for item in items:
        try:
            path = Path(item.name)
            status = path.stat() if path.is_file() else None
        except (OSError, ValueError):
            status = None
        if status is not None and status.st_ino and status.st_size:
            first = found.setdefault((item.label, status.st_dev, status.st_ino), len(kept))
            if first < len(kept):
                again.setdefault(first, []).append(item.name)
                continue
        kept.append(item)
    return kept, again


def same_bytes(items: Sequence[Input]) -> dict[int, list[str]]:
    """Return the names of inputs that are copies of an earlier one, byte for byte, by the number of that one.

    They count: two runs of a program that prints little may print the same. An input with a NAME is meant as it is.
    """
    first: dict[tuple[int, bytes], int] = {}
    found: dict[int, list[str]] = {}
    sizes: dict[int, list[int]] = {}
    for number, item in enumerate(items):
        with suppress(OSError, ValueError):
            if not item.label and Path(item.name).is_file() and (size := Path(item.name).stat().st_size):
                sizes.setdefault(size, []).append(number)
    for size, numbers in sizes.items():
        for number in numbers if len(numbers) > 1 else ():
            with suppress(OSError):
                with Path(items[number].name).open("rb") as file:
                    key = size, file.read(HEAD_BYTES)
                other = first.setdefault(key, number)
                if other != number and cmp(items[other].name, items[number].name, shallow=False):
                    found.setdefault(other, []).append(items[number].name)
    return found


def clocks(
    begun: Sequence[Begun],
    joins: Joins,
    met: Met,
    names: Sequence[str],
    shown: Sequence[Ledger],
) -> dict[int, Placed]:
    """Return the clock of each input, by number, and put what a user should know into the ledgers.

    names: of all inputs. shown: the ledger of each begun one that a user sees.
    """
    relations, choices = met.relations, met.choices
    leaders = {each.log: each.trace for each in joins.joined}
    clocked = [
        Clocked(b.number, names[b.number], b.opened.run.origin_ns, choices[b.number] if choices else AUTO)
        for b in begun
        if b.number not in leaders
    ]
    here = {each.number for each in clocked}
    found = {number: each for number, each in relations[0].items() if number in here}
    placed = alignment.place(clocked, found if relations[1] in here else {}, relations[1])
    if met.launches:
        by_number = {each.number: each for each in clocked}
        looks = {number: look for number, look in met.launches.items() if number in here}
        placed = device_clocks.place(device_clocks.pairs(looks, by_number), by_number, placed)
    for log, trace in leaders.items():
        if trace in placed:
            placed[log] = alignment.follow(placed[trace], log, names[trace])
    _say(begun, placed, names, shown, len({placed[b.number].group for b in begun}))
    return placed


def with_facts(begun: Sequence[Begun], placed: Mapping[int, Placed], joins: Joins) -> list[Begun]:
    """Return inputs that are not moved, with their clock and what they are joined with in their facts."""
    out = []
    for b in begun:
        for each in joins.joined:
            if each.log == b.number:
                b.opened.run.sources[0].facts |= {JOINED_INTO: each.facts()}
        batches = b.opened.batches
        if b.number in placed:
            batches = _with_facts(batches, b, placed[b.number])
        out.append(replace(b, opened=replace(b.opened, batches=batches)))
    return out


def on_one_clock(run: Run, begun: Sequence[Begun], placed: Mapping[int, Placed]) -> list[Begun]:
    """Return inputs whose times are on the clock of the run; where they share none, each group begins at its own zero.

    `run.origin_ns` and the facts of the inputs are set.
    """
    run.origin_ns, zero = zeros([(b.number, b.opened.run.origin_ns, b.first_ns) for b in begun], placed)
    out, doubles = [], Doubles()
    for b in begun:
        where = placed[b.number]
        origin = b.opened.run.origin_ns or 0
        moved = alignment.moved(b.opened.batches, origin, where.line, where.then_ns - zero[where.group])
        moved = doubles.watched(moved, b.opened.run, (b.opened.original or b.opened.ledgers)[0], where.group)
        moved = _with_facts(moved, b, where)
        out.append(replace(b, opened=replace(b.opened, batches=moved)))
    return out


def zeros(
    begun: Sequence[tuple[int, int | None, int | None]], placed: Mapping[int, Placed]
) -> tuple[int | None, dict[int, int]]:
    """Return the Unix time of time 0 of the run, None where it has none, and time 0 of each group of clocks.

    begun: of each input its number, the Unix time of its time 0, and the start of its first rows.
    """
    groups = {placed[number].group for number, *_ in begun}
    firsts: dict[int, int] = {}
    for number, origin_ns, first_ns in begun:
        where = placed[number]
        first = where.at((origin_ns or 0) + (first_ns or 0))
        firsts[where.group] = min(firsts.get(where.group, first), first)
    if groups == {0}:
        origin = min(placed[number].at(origin_ns or 0) for number, origin_ns, _ in begun)
        return origin, {0: origin}
    if len(groups) > 1:
        # The inputs of the wall clock begin at zero as the others do, not in 1970.
        return None, {group: first if group == 0 else 0 for group, first in firsts.items()}
    return None, dict.fromkeys(groups, 0)


def _say(
    begun: Sequence[Begun], placed: Mapping[int, Placed], names: Sequence[str], shown: Sequence[Ledger], groups: int
) -> None:
    for b, ledger in zip(begun, shown, strict=True):
        placed[b.number].note(ledger)
    if len(begun) < 2:
        return
    from tracekit.index.sources import SEVERAL_NOTES

    if groups > 1:
        alone = [names[b.number] for b in begun if placed[b.number].group]
        verb = "shares no clock with the others" if len(alone) == 1 else "share no clock with each other or the others"
        who = ", ".join(alone[:3]) + (" ..." if len(alone) > 3 else "")
        text = f"{who} {verb}: each starts at its own zero; --align NAME=OFFSET places an input"
        shown[0].note(SEVERAL_NOTES[0], text)
    unsure = [b for b in begun if placed[b.number].method == alignment.WALL and placed[b.number].uncertainty_ns is None]
    if len(unsure) > 1:
        text = f"{plural(len(unsure), 'input')} are placed by their own wall clocks: how well these agree is unknown"
        shown[0].notes[SEVERAL_NOTES[1]] = Note(SEVERAL_NOTES[1], text, 1)


def _with_facts(batches: Iterator[pa.RecordBatch], b: Begun, where: Placed) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and put the clock into the facts of the input once its reader has set all others."""
    yield from batches
    _into_facts(b, where)


def _into_facts(b: Begun, where: Placed) -> None:
    sources = b.opened.run.sources
    inside = {each.facts[CLOCK].get("group") for each in sources if isinstance(each.facts.get(CLOCK), dict)}
    for each in sources:
        before = each.facts.get(CLOCK)
        if b.opened.run.origin_ns is None and len(inside) > 1 and isinstance(before, dict):
            # A file of several inputs that shared no clock: they still share none.
            own = {"group": f"{where.group}/{before.get('group')}"}
            each.facts = each.facts | {CLOCK: before | own}
        else:
            each.facts = each.facts | {CLOCK: where.facts()}

"""Clocks of the inputs of a run: which input is moved onto which clock, by which method, and how sure that is.

Methods, the strongest first. `wall clock`: what the files say of Unix time (anchors of the recorder, Kineto's base, the
start of an nsys session). `ranges`: ranges that two files of one process both have. `collectives`: nobody leaves one
before the last has come. `launches`: no device work starts before its launch call, which is in another input.
`offset`: what the user says. Two inputs that none of them joins have no common ground: they are side by side, each with
a clock of its own, and every output says so.

A wall clock counts as right until collectives contradict it: a rank would leave before another has come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracekit.analysis.clocks.line import ClockLine
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.display import plural
from tracekit.model.trace import Ledger, Note
from tracekit.model.units import format_span

if TYPE_CHECKING:
    from tracekit.analysis.clocks.matched_collectives import ClockRelation

__all__ = [
    "AUTO",
    "CLOCK",
    "COLLECTIVES",
    "LAUNCHES",
    "METHODS",
    "MOST_APART_NS",
    "NONE",
    "OFFSET",
    "OWN",
    "RANGES",
    "REFERENCE",
    "WALL",
    "Align",
    "Clocked",
    "Placed",
    "clock_mover",
    "follow",
    "keys_of",
    "place",
]

AUTO, NONE, WALL, RANGES, COLLECTIVES = "auto", "none", "wall-clock", "ranges", "collectives"
LAUNCHES = "launches"
OFFSET, REFERENCE, OWN = "offset", "reference", "own"
METHODS = (WALL, RANGES, COLLECTIVES, LAUNCHES)
MOST_APART_NS = 3_600_000_000_000
"""Inputs whose wall clocks are further apart than this are not of one run, whatever their collectives say."""
CLOCK = "clock"
"""The fact of a source that says how it came onto the clock of the run."""


@dataclass(frozen=True, slots=True)
class Align:
    """The user's choice: AUTO, NONE, one of METHODS, or ns to add to an input's times.

    method: for all inputs; ns are for all but the first. inputs: for single ones, by name.
    """

    method: str | int = AUTO
    inputs: Mapping[str, str | int] = field(default_factory=dict)

    def of(self, name: tuple[str, str], *, first: bool) -> str | int:
        """Return the choice for an input. first: it is the first of all."""
        for key in keys_of(name):
            if key in self.inputs:
                return self.inputs[key]
        return AUTO if first and isinstance(self.method, int) else self.method

    def of_first(self, written: str, label: str) -> str | int:
        """Return the choice for an input that is alone."""
        return self.of((written, label), first=True)

    def uses(self, method: str) -> bool:
        """Return whether some input may be aligned by a method."""
        return isinstance(self.method, int) or bool({AUTO, method} & {self.method, *self.inputs.values()})


def keys_of(name: tuple[str, str]) -> tuple[str, ...]:
    """Return the words that name an input: its NAME, its name as the user wrote it, and the end of that."""
    written, label = name
    return tuple(key for key in (label, written, written.rsplit("/", 1)[-1]) if key)


@dataclass(frozen=True, slots=True)
class Clocked:
    """One input before its clock is decided. origin_ns: Unix time of its time 0, None where the file does not say it.

    choice: what the user says of it: a method, or ns to add to its times.
    """

    number: int
    name: str
    origin_ns: int | None
    choice: str | int = AUTO


@dataclass(frozen=True, slots=True)
class Placed:
    """One input on the clock of the run. group: inputs of one group share a clock.

    line: moves its times, None: they stay; then_ns: added after that. uncertainty_ns, in_drift: limits of the errors,
    None where nothing in the files says. possible_ns: offsets that inequalities leave open, None for a side without a
    limit. count: collectives, or launches, that show it. refused: the user named a method that relates it to no other
    input. breaks: where its clock, or the one that it is compared with, was set: time, and ns of the jump.
    valid: the part without a break of an input that stays where its wall clock has it.
    """

    number: int
    group: int
    method: str
    against: str = ""
    line: ClockLine | None = None
    then_ns: int = 0
    uncertainty_ns: int | None = None
    in_drift: float = 0.0
    possible_ns: tuple[int | None, int | None] | None = None
    count: int = 0
    refused: bool = False
    breaks: tuple[tuple[int, int], ...] = ()
    valid: tuple[int, int] | None = None

    def facts(self) -> dict[str, object]:
        """Return what the facts of the source say, in JSON types."""
        line = self.line
        found: dict[str, object] = {"group": self.group, "method": self.method}
        if self.against:
            found["against"] = self.against
        found["offset_ns"] = self.then_ns - (line.offset if line else 0)
        found["drift_ppm"] = round(line.drift * 1e6, 6) if line else 0.0
        found["uncertainty_ns"] = self.uncertainty_ns
        if self.valid is not None:
            found["valid_ns"] = list(self.valid)
        if line and line.count:
            found["drift_uncertainty_ppm"] = round(self.in_drift * 1e6, 6)
            found["valid_ns"] = [line.first, line.last]
        if self.possible_ns is not None:
            found["possible_ns"] = list(self.possible_ns)
        if self.breaks:
            found["breaks"] = [{"at_ns": at, "by_ns": by} for at, by in self.breaks]
        if self.count:
            found[self.method] = self.count
        return found

    def at(self, times_ns: int) -> int:
        """Return a time of the input's clock as one of the group's."""
        return (times_ns if self.line is None else int(self.line.corrected(np.array([times_ns]))[0])) + self.then_ns

    def text(self) -> str:
        """Return the sentence of a note, "" where there is nothing to say."""
        if self.refused:
            return "its clock stays as it is: nothing in the inputs relates it to another one by the method of --align"
        line = self.line
        if line is None:
            return ""
        moved = f"moved by {self.then_ns - line.offset:+,} ns"
        if line.drift:
            moved += f" and {-line.drift * 1e6:+.3f} ppm"
        if self.method == OFFSET:
            return f"times are {moved}, as --align says"
        sure = f", to {format_span(self.uncertainty_ns)}" if self.uncertainty_ns is not None else ""
        if self.method == LAUNCHES:
            possible = between_text(self.possible_ns or (None, None))
            shown = f"the launches of {plural(self.count, 'row')} of device work"
            return f"times are {moved} onto the clock of {self.against}, by {shown}: {possible}"
        return f"times are {moved} onto the clock of {self.against}, by {plural(self.count, 'collective')}{sure}"

    def break_text(self) -> str:
        """Return the sentence of a note on breaks, "" where there are none."""
        if not self.breaks:
            return ""
        jumps = ", ".join(f"{by:+,} ns" for _, by in self.breaks[:3]) + (", ..." if len(self.breaks) > 3 else "")
        where = "valid_ns of the clock has the part in which its times fit those of the others"
        return f"its clock, or that of {self.against or 'another input'}, jumps on the way ({jumps}): {where}"

    def note(self, ledger: Ledger) -> None:
        """Put the sentences into the ledger of the input. It is no fault, so `strict` does not refuse it."""
        if text := self.break_text():
            ledger.notes["clock-jumps"] = Note("clock-jumps", text, 1)
        if text := self.text():
            code = "clock-refused" if self.refused else "clock-moved"
            ledger.notes[code] = Note(code, text, 1)


def between_text(possible_ns: tuple[int | None, int | None]) -> str:
    """Return the words for offsets that remain possible."""
    low, high = possible_ns
    if low is None and high is None:
        return "any offset is possible"
    if high is None:
        return f"any offset from {low:+,} ns on is possible"
    if low is None:
        return f"any offset up to {high:+,} ns is possible"
    return f"any offset from {low:+,} to {high:+,} ns is possible"


def place(inputs: Sequence[Clocked], relations: Mapping[int, ClockRelation], reference: int) -> dict[int, Placed]:
    """Return every input on a clock. relations: of inputs to the reference, from collectives, by their numbers.

    Inputs with a wall clock share it: group 0. An input without one joins them where collectives relate it to one that
    has, and where the user gives its offset; else it has a clock of its own.
    """
    of = {each.number: each for each in inputs}
    anchor = _anchor(of, relations, reference)
    wall = of[anchor].origin_ns is not None if anchor is not None else False
    group = 0 if wall else 1
    # The clock of the reference is brought onto the wall clock of an input that it met.
    then = relations[anchor].line.offset if anchor is not None and anchor != reference else 0
    placed: dict[int, Placed] = {}
    for each in inputs:
        relation, known = relations.get(each.number), each.origin_ns is not None
        apart = relation is not None and (then != 0 or not known or relation.apart)
        # Offsets that the user gave need the inputs that they refer to: they come in a second pass.
        if isinstance(each.choice, int):
            continue
        if relation is not None and (each.choice == COLLECTIVES or (each.choice == AUTO and apart)):
            low, high = -relation.bounds.high, -relation.bounds.low
            placed[each.number] = Placed(
                each.number,
                group,
                COLLECTIVES,
                of[reference].name,
                relation.line,
                then,
                relation.uncertainty,
                relation.in_drift,
                (low + then, high + then),
                relation.line.count - relation.wrong,
                breaks=relation.breaks,
            )
        elif each.number == reference and relations and not known:
            placed[each.number] = Placed(each.number, group, REFERENCE, then_ns=then, uncertainty_ns=0)
        elif known:
            agrees = relation is not None and each.choice == AUTO
            placed[each.number] = Placed(
                each.number,
                0,
                WALL,
                of[reference].name if agrees else "",
                uncertainty_ns=_agreement(relation) if relation is not None and agrees else None,
                refused=each.choice in (COLLECTIVES, RANGES, LAUNCHES) and each.number != reference,
                breaks=relation.breaks if relation is not None and agrees else (),
                valid=_valid(relation) if agrees else None,
            )
        else:
            refused = each.choice in METHODS
            placed[each.number] = Placed(each.number, 2 + each.number, OWN, refused=refused)
    for each in inputs:
        if isinstance(each.choice, int):
            placed[each.number] = _given(each, each.choice, inputs, placed)
    return placed


def _anchor(of: Mapping[int, Clocked], relations: Mapping[int, ClockRelation], reference: int) -> int | None:
    """Return the input whose wall clock is that of the reference's group, the reference where none has one."""
    if not relations:
        return None
    if of[reference].origin_ns is not None:
        return reference
    known = [n for n in sorted(relations) if of[n].origin_ns is not None and of[n].choice in (AUTO, COLLECTIVES)]
    return known[0] if known else reference


def _given(each: Clocked, offset_ns: int, inputs: Sequence[Clocked], placed: Mapping[int, Placed]) -> Placed:
    """Return an input that the user moves: on the wall clock, or against time 0 of the first input that stays."""
    line = ClockLine(-offset_ns, 0.0, 0, 0, 0.0, 0, 0, 0, 0)
    if each.origin_ns is not None:
        return Placed(each.number, 0, OFFSET, line=line)
    first = next((other for other in inputs if other.number in placed), None)
    if first is None:
        return Placed(each.number, 1, OFFSET, line=line)
    base = placed[first.number]
    return Placed(each.number, base.group, OFFSET, first.name, line, first.origin_ns or 0)


def _valid(relation: ClockRelation | None) -> tuple[int, int] | None:
    return (relation.line.first, relation.line.last) if relation is not None and relation.breaks else None


def _agreement(relation: ClockRelation) -> int:
    """Return how far two wall clocks that collectives do not contradict may be from each other."""
    return max(abs(relation.bounds.low), abs(relation.bounds.high))


def clock_mover(origin_ns: int, line: ClockLine | None, by_ns: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return the function that moves every row of a batch onto another clock.

    origin_ns: of the rows' clock; line: of that clock; by_ns: added to what comes out. Start and end of a row are moved
    alike, so that what was inside or after another row still is.
    """

    def move(batch: pa.RecordBatch) -> pa.RecordBatch:
        if schema.is_totals(batch) or not batch.num_rows or (line is None and not origin_ns + by_ns):
            return batch
        starts = arrow.ints(batch.column("ts_ns"))
        if line is None:
            starts = starts + (origin_ns + by_ns)
        else:
            begin = line.corrected(starts + origin_ns)
            if line.drift:
                lengths, known = arrow.ints(batch.column("dur_ns")), arrow.valid(batch.column("dur_ns"))
                ends = line.corrected(starts + lengths + origin_ns)
                lasting = arrow.array(ends - begin, mask=~known)
                batch = arrow.with_column(batch, "dur_ns", lasting)
            starts = begin + by_ns
        return arrow.with_column(batch, "ts_ns", arrow.array(starts))

    return move


def follow(leader: Placed, number: int, name: str) -> Placed:
    """Return an input whose rows are those of a process of another one: it goes where that goes."""
    return replace(leader, number=number, method=RANGES, against=name, possible_ns=None, count=0, refused=False)

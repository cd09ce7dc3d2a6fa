"""Clock alignment: the inputs of a run on the clocks that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from tracekit.inputs.clocks import placement
from tracekit.inputs.clocks.launches import LaunchLook, launched_pairs, place_by_launches
from tracekit.inputs.clocks.one_process import Joins
from tracekit.inputs.clocks.placement import AUTO, CLOCK, Clocked, Placed, clock_mover
from tracekit.inputs.duplicates import ProcessesTwice
from tracekit.inputs.paths import Input
from tracekit.inputs.stages import Stage
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import plural
from tracekit.model.trace import JOINED_INTO, WITHOUT_TIMES, Ledger, Note, Run
from tracekit.readers.base import ReadResult

if TYPE_CHECKING:
    from tracekit.analysis.clocks.matched_collectives import ClockRelation

__all__ = [
    "AlignmentEvidence",
    "OpenedInput",
    "common_clock",
    "facts_stage",
    "opened_elsewhere",
    "place_inputs",
    "set_joined",
    "zeros",
]


@dataclass(frozen=True, slots=True)
class OpenedInput:
    """An input whose first batch has been read. number: its place among the inputs. item: as the user named it.

    first_ns: start of the first rows. unmarked: it has steps, and `step` of the rows inside them is still to be set.
    """

    number: int
    item: Input
    opened: ReadResult
    first_ns: int | None
    unmarked: bool


@dataclass(frozen=True, slots=True)
class AlignmentEvidence:
    """Evidence of the first looks at several inputs on how their clocks meet.

    relations: what collectives say of inputs, by number, against the one that is named second. launches: calls and
    device work of inputs, by number. choices: what the user says of each input; empty where nothing was looked for.
    """

    relations: tuple[Mapping[int, ClockRelation], int] = field(default_factory=lambda: ({}, -1))
    launches: Mapping[int, LaunchLook] = field(default_factory=dict)
    choices: Sequence[str | int] = ()


def opened_elsewhere(number: int, item: Input, run: Run, first_ns: int | None) -> OpenedInput:
    """Return an input that was read elsewhere: what is known of it decides its clock, and it has no rows here."""
    return OpenedInput(number, item, ReadResult(run, iter(()), True, ()), first_ns, False)


def place_inputs(
    inputs: Sequence[OpenedInput],
    joins: Joins,
    evidence: AlignmentEvidence,
    names: Sequence[str],
    shown: Sequence[Ledger],
) -> dict[int, Placed]:
    """Return the clock of each input, by number, and put what a user should know into the ledgers.

    names: of all inputs. shown: the ledger of each inputs one that a user sees.
    """
    relations, choices = evidence.relations, evidence.choices
    leaders = {each.log: each.trace for each in joins.joined}
    clocked = [
        Clocked(b.number, names[b.number], b.opened.run.origin_ns, choices[b.number] if choices else AUTO)
        for b in inputs
        if b.number not in leaders
    ]
    here = {each.number for each in clocked}
    found = {number: each for number, each in relations[0].items() if number in here}
    placed = placement.place(clocked, found if relations[1] in here else {}, relations[1])
    if evidence.launches:
        by_number = {each.number: each for each in clocked}
        looks = {number: look for number, look in evidence.launches.items() if number in here}
        placed = place_by_launches(launched_pairs(looks, by_number), by_number, placed)
    for log, trace in leaders.items():
        if trace in placed:
            placed[log] = placement.follow(placed[trace], log, names[trace])
    # Dumps of a recorder have no times that are shown: they belong to whatever clock the others have.
    bare = [b.number for b in inputs if is_timeless(b.opened.run)]
    if bare:
        leader = next((b.number for b in inputs if b.number not in bare), bare[0])
        placed |= {number: replace(placed[number], group=placed[leader].group) for number in bare}
    _note_clocks(inputs, placed, names, shown, len({placed[b.number].group for b in inputs}))
    return placed


def is_timeless(run: Run) -> bool:
    """Return whether an input has no clock: dumps of a Flight Recorder, sums of a run, rows without times."""
    return bool(run.sources) and all(each.format in _TIMELESS or WITHOUT_TIMES in each.facts for each in run.sources)


_TIMELESS = frozenset({"flight-recorder", "proton", "tensorrt-layers", "tensorrt-log", "tensorrt-profile"})


def facts_stage(opened: OpenedInput, where: Placed) -> Stage:
    """Return the stage that puts the clock into the facts of an input once its reader has set all others."""
    return Stage("facts of the clock", end=lambda: _into_facts(opened, where))


def set_joined(inputs: Sequence[OpenedInput], joins: Joins) -> None:
    """Put into the facts of each log what it is joined with; rows are not moved."""
    for opened in inputs:
        for each in joins.joined:
            if each.log == opened.number:
                opened.opened.run.sources[0].facts |= {JOINED_INTO: each.facts()}


def common_clock(run: Run, inputs: Sequence[OpenedInput], placed: Mapping[int, Placed]) -> list[list[Stage]]:
    """Return the stages that bring each input onto the clock of the run.

    Where inputs share no clock, each group of clocks begins at its own zero. `run.origin_ns` and the facts of the
    inputs are set.
    """
    clocked = [b for b in inputs if not is_timeless(b.opened.run)] or inputs
    run.origin_ns, zero = zeros([(b.number, b.opened.run.origin_ns, b.first_ns) for b in clocked], placed)
    twice = ProcessesTwice()
    stages = []
    for each in inputs:
        opened, where = each.opened, placed[each.number]
        move = clock_mover(opened.run.origin_ns or 0, where.line, where.then_ns - zero[where.group])
        told = (opened.original or opened.ledgers)[0]
        stages.append(
            [
                Stage("clock of the run", move),
                twice.stage(opened.run, told, where.group),
                facts_stage(each, where),
            ]
        )
    return stages


def zeros(
    inputs: Sequence[tuple[int, int | None, int | None]], placed: Mapping[int, Placed]
) -> tuple[int | None, dict[int, int]]:
    """Return the Unix time of time 0 of the run, None where it has none, and time 0 of each group of clocks.

    inputs: of each input its number, the Unix time of its time 0, and the start of its first rows.
    """
    groups = {placed[number].group for number, *_ in inputs}
    firsts: dict[int, int] = {}
    for number, origin_ns, first_ns in inputs:
        where = placed[number]
        first = where.at((origin_ns or 0) + (first_ns or 0))
        firsts[where.group] = min(firsts.get(where.group, first), first)
    if groups == {0}:
        origin = min(placed[number].at(origin_ns or 0) for number, origin_ns, _ in inputs)
        return origin, {0: origin}
    if len(groups) > 1:
        # The inputs of the wall clock begin at zero as the others do, not in 1970.
        return None, {group: first if group == 0 else 0 for group, first in firsts.items()}
    return None, dict.fromkeys(groups, 0)


def _note_clocks(
    inputs: Sequence[OpenedInput],
    placed: Mapping[int, Placed],
    names: Sequence[str],
    shown: Sequence[Ledger],
    groups: int,
) -> None:
    for b, ledger in zip(inputs, shown, strict=True):
        placed[b.number].note(ledger)
    if len(inputs) < 2:
        return
    from tracekit.index.sources import SEVERAL_NOTES

    if groups > 1:
        alone = [names[b.number] for b in inputs if placed[b.number].group]
        verb = "shares no clock with the others" if len(alone) == 1 else "share no clock with each other or the others"
        who = ", ".join(alone[:3]) + (" ..." if len(alone) > 3 else "")
        text = f"{who} {verb}: each starts at its own zero; --align NAME=OFFSET places an input"
        shown[0].note(SEVERAL_NOTES[0], text)
    unsure = [
        b for b in inputs if placed[b.number].method == placement.WALL and placed[b.number].uncertainty_ns is None
    ]
    if len(unsure) > 1 and not _is_one_clock(unsure):
        text = f"{plural(len(unsure), 'input')} are placed by their own wall clocks: how well these agree is unknown"
        shown[0].notes[SEVERAL_NOTES[1]] = Note(SEVERAL_NOTES[1], text, 1)


_BOOTS_APART_NS = 10**9


def _is_one_clock(inputs: Sequence[OpenedInput]) -> bool:
    """Return whether all inputs are logs of the recorder on one host, whose clock they share.

    Their time 0 is the start of the host's own clock. Hosts of one name that are not one machine have another.
    """
    hosts = {each.facts.get("host") if each.format == _LOG else None for b in inputs for each in b.opened.run.sources}
    origins = [b.opened.run.origin_ns for b in inputs]
    known = [origin for origin in origins if origin is not None]
    same_start = len(known) == len(origins) and max(known) - min(known) < _BOOTS_APART_NS
    return len(hosts) == 1 and hosts.isdisjoint({None, ""}) and same_start


_LOG = "recorder-log"


def _into_facts(b: OpenedInput, where: Placed) -> None:
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

"""The meaning of an event in the grammar of all phases; a `Dialect` adds the words of a producer."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import field

from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.readers.names import Pair
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.events import EventReading
from tracekit.readers.trace_event.plan import MOVABLE, PAIRED, SEVERAL, Build, EventRows, Member

__all__ = ["BEGIN", "END", "Dialect", "FilePrescan", "Special"]

BEGIN, END = "begin", "end"
_SYNC = {"B": BEGIN, "E": END}
_RANGES = frozenset({"X", *_SYNC})
_ASYNC = {"b": BEGIN, "e": END, "S": BEGIN, "F": END, "(": BEGIN, ")": END}
_MARKS = frozenset({"i", "I", "R", "n", "T", "p", "N", "O", "D", "P", "c", "v", "V", "a", "="})
"""Instants, steps of legacy async work, objects, samples, clock syncs, memory dumps: one moment each."""


class Special:
    """A producer's own way to write ranges (X and B) and their lanes. This one has none."""

    def __init__(self, reading: EventReading) -> None:
        self.reading = reading

    def range(self, build: Build) -> Collection[str]:
        """Put into the plan what a range is; return the keys of args that found a column."""
        del build  # the cat is enough
        return ()

    def looks_at_names(self) -> bool:
        """Return whether `range` makes something else of a range with another name."""
        return type(self).range is not Special.range

    def rows(self, rows: EventRows) -> None:
        """Change columns of rows whose plans have flags."""

    def names(self) -> None:
        """Put names into the run, behind the common ones."""

    def close(self) -> None:
        """Stop child processes."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A producer. kinds: cat -> kind. default: kind of ranges whose cat is not among them, or that have none."""

    name: str
    tool: str
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    default: Kind = Kind.USER_RANGE
    python_names: bool = False
    """Names that begin with "$" are Python functions (JAX)."""
    device: re.Pattern[str] | None = None
    """Process names whose first group is a device: their threads are streams."""
    lanes: bytes = b""
    """Words in the names of processes that are devices: rows cannot be placed before these names are known."""
    special: type[Special] = Special


class FilePrescan:
    """Puts into a Build what an event is."""

    def __init__(self, reading: EventReading, dialect: Dialect) -> None:
        self._reading, self._dialect = reading, dialect
        self.special = dialect.special(reading)

    def __call__(self, build: Build) -> None:
        """Put into `build` what its event is."""
        reading, event = self._reading, build.event
        if events.metadata(reading, build):
            return
        phase = event.get("ph")
        events.named(build)
        build.named = self._named(event.get("name") or "", phase)
        if phase is None:
            build.drop("no-phase", "dropped: events without a phase")
        elif phase == "X":
            events.times(build)
            events.lane(reading, build)
            self._range(build)
            build.keep_rest(self.special.range(build), events.TOP)
        elif phase in _SYNC:
            build.phase = _SYNC[phase]
            build.flags |= PAIRED
            build.time("ts_ns", event.members.get("ts"))
            events.lane(reading, build)
            self._range(build)
            build.keep_rest(self.special.range(build), events.TOP)
        elif phase in _ASYNC:
            self._async(build, phase)
        elif phase in events.FLOW_PHASES:
            events.lane(reading, build)
            events.flow(reading, build)
            build.flags |= MOVABLE
        elif phase == "C":
            self._counter(build)
        elif phase in _MARKS:
            build.consts["kind"] = Kind.MARK
            build.time("ts_ns", event.members.get("ts"))
            events.lane(reading, build)
            if phase not in ("i", "I"):
                build.keep(event.members.get("ph"))
            build.keep(event.members.get("cat"))
            self._rest(build)
        else:
            build.drop("unknown-phase", "dropped: events of a phase that the format does not have")

    def _range(self, build: Build) -> None:
        """Choose the kind; the cat stays in args."""
        cat, name = build.event.get("cat"), build.event.get("name") or ""
        dialect = self._dialect
        first = (cat or "").split(",")[0]
        kind = dialect.kinds.get(first, dialect.default)
        if dialect.python_names and name.startswith("$"):
            kind = Kind.PYTHON_OP
        build.consts["kind"] = kind
        build.keep(build.event.members.get("cat"))

    def _named(self, name: str, phase: str | None) -> Callable[[str], Pair | None] | None:
        """Return the function that names events which differ from this one in the name alone."""
        if phase == "C" or (phase in _RANGES and self.special.looks_at_names()):
            return None
        if not self._dialect.python_names or phase in events.FLOW_PHASES:
            return events.as_it_is
        return None if name.startswith("$") else lambda other: None if other.startswith("$") else (other, None)

    def _rest(self, build: Build, *more: str) -> None:
        build.keep_rest((), events.TOP.union(more))

    def _async(self, build: Build, phase: str) -> None:
        """Work that overlaps on its thread: no tid in its column; id and tid stay in args."""
        event, reading = build.event, self._reading
        build.phase = _ASYNC[phase]
        build.flags |= PAIRED
        build.time("ts_ns", event.members.get("ts"))
        build.integer("pid", event.members.get("pid"), reading.pids.number)
        build.integer("scratch_0", _identity(build), reading.flows.number)
        build.category = event.get("cat") or ""
        second = event.members.get("id2")
        if second is not None and event.place(second.start)[1] != event.place(second.end)[1]:
            build.odd = True  # a number in it is an id of its own, and a shape has only one of its numbers
        build.is_global = second is not None and "id" not in event.members and b'"global"' in second.raw
        self._range(build)
        build.keep(event.members.get("tid"))
        self._rest(build)

    def _counter(self, build: Build) -> None:
        """One series: a row. Several: each event by itself, a row each."""
        event = build.event
        build.consts["kind"] = Kind.COUNTER
        build.time("ts_ns", event.members.get("ts"))
        events.lane(self._reading, build)
        series = {k: m for k, m in event.args.items() if _is_number(m)}
        name = event.get("name") or ""
        build.keep(event.members.get("cat"))
        if len(series) != 1:
            build.odd = not build.exact
            build.series = [(k, float(m.text() or m.raw)) for k, m in series.items()]
            build.flags |= SEVERAL * (len(series) > 1)
            if not series:
                build.consts["kind"] = Kind.MARK
                build.notes["counter-without-number"] = "counters without a number became marks"
            build.keep_rest(series, events.TOP)
            return
        ((key, member),) = series.items()
        build.number("value", member)
        if key not in (name, "value", ""):
            build.consts["name"] = f"{name} {key}" if name else key
            build.consts["raw_name"] = name or None
        build.keep_rest({key}, events.TOP)


def _identity(build: Build) -> Member | None:
    """Return the id of async work; id2 has it one level down."""
    own = build.event.members.get("id")
    if own is not None:
        return own
    second = build.event.members.get("id2")
    return (
        None if second is None else Member(b'"' + second.raw.replace(b'"', b"'").replace(b"\\", b"/") + b'"', 0, 0, 0)
    )


def _is_number(member: Member) -> bool:
    text = member.text() if member.raw[:1] == b'"' else member.raw.decode()
    if text is None or text in ("true", "false", "null") or text[:1] in "[{":
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True

"""hang: which rank a distributed program waits for, from dumps of the Flight Recorder of torch.distributed.

    tracekit summary DUMPS/ --view hang

One dump a rank. For each process group: the last collective that all ranks have completed, who has not entered the
next one, who entered something else (operation, sizes, datatype), and who has no dump. Sends and receives are matched
by pair of ranks. A rank is named as the cause only where its own dump shows that it waits for nobody; else the cause is
not known. docs/hangs.md has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracekit.analysis.hangs import CAUSE_ORDER, GroupState, HangReport, PairState, RankDump, RecordedCall
from tracekit.index.flight_records import FlightRecords, flight_records, hang, stacks
from tracekit.index.trace_index import TraceIndex
from tracekit.model.display import first_few
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.hang_words import hang_words, sizes_words

__all__ = ["VIEW"]

_TITLE = "Hang"


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables of groups, ranks, differing calls, sends and receives, and stacks."""
    records, report = flight_records(index), hang(index)
    if records is None or report is None:
        needs = "needs dumps of the Flight Recorder of torch.distributed; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))
    words = hang_words(report, records)
    notes = [*_notes(records), *([words.meaning] if words.meaning else [])]
    if not records.dumps:
        # Without tables the notes are one line.
        said = f"{words.sentence} {words.meaning}".strip().rstrip(".")
        return Section(VIEW.name, _TITLE, notes=(said, *_notes(records), *tabulate.option_notes(options)))
    if states := _states_words(records):
        notes.append(f"states: {states}")
    tables = [_groups(report, options)] if report.groups else []
    tables.append(_ranks(records, report, options))
    tables += [each for each in (_sides(report, options), _messages(report, options)) if each is not None]
    shown = _stacks(index, report, options)
    tables += [shown] if shown is not None else []
    return Section(
        VIEW.name,
        _TITLE,
        tuple(tables),
        notes=(words.sentence, *notes, *tabulate.option_notes(options, tables[0] if tables else None)),
    )


def _notes(records: FlightRecords) -> list[str]:
    notes = []
    if records.nameless:
        names = ", ".join(first_few(list(records.nameless), "input"))
        notes.append(f"not compared, for their rank is not known: {names}")
    if records.repeated:
        names = ", ".join(first_few([label for label, _ in records.inputs], "input"))
        notes.append(f"not compared: {names}")
    if records.copies:
        names = ", ".join(first_few(list(records.copies), "input"))
        notes.append(f"not compared, for another dump has the same calls: {names}")
    return notes


def _states_words(records: FlightRecords) -> str:
    """Return what the recorder's words for the last calls mean, "" where all have completed."""
    states = {_state(found[1]) for dump in records.dumps if (found := _last(dump)) is not None}
    said = [f"{word} is {means}" for word, means in _STATES.items() if any(word in state for state in states)]
    return ", ".join(said)


_STATES = {"scheduled": "given to the device", "started": "begun by the device", "retired": "no longer watched"}


def _text(ranks: Sequence[int]) -> str | None:
    """Return ranks as text, with ranges: "0-3, 7"; None for none."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][-1] == rank - 1:
            parts[-1][1:] = [rank]
        else:
            parts.append([rank])
    return ", ".join("-".join(map(str, part)) for part in parts) or None


def _call(group: GroupState) -> str | None:
    names = dict.fromkeys(call.name for call in group.calls.values())
    return " / ".join(names) or None


def _groups(report: HangReport, options: ViewOptions) -> ReportTable:
    groups = sorted(
        report.groups,
        key=lambda each: (not each.timed_out, CAUSE_ORDER.index(each.cause), -len(each.waiting), each.group.label),
    )
    if report.group is not None:
        groups.sort(key=lambda each: each != report.group)
    columns = [
        specs.NAME.column([each.group.label for each in groups]),
        _SHOWN["members"].column([_text(each.group.ranks) if each.group.ranks else "not known" for each in groups], 3),
        _SHOWN["state"].column([str(each.cause) for each in groups]),
        _SHOWN["completed"].column([each.completed_by_all for each in groups], 1),
        _SHOWN["seq"].column([each.seq or None for each in groups]),
        _SHOWN["operation"].column([_call(each) for each in groups]),
        _SHOWN["waiting"].column([_text(each.waiting) for each in groups]),
        _SHOWN["late"].column([_text(each.behind) for each in groups]),
        _SHOWN["absent"].column([_text(each.absent) for each in groups], 1),
        _SHOWN["unknown"].column([_text(each.unknown) for each in groups], 2),
        _SHOWN["timed_out"].column(["yes" if each.timed_out else None for each in groups], 2),
    ]
    shown = [each for each in columns if each.name in _ALWAYS or any(cell is not None for cell in each.values)]
    return _in_own_order("groups", "Process groups", shown, options)


_ALWAYS = ("name", "state", "completed", "late")


def _in_own_order(name: str, title: str, columns: list[Column], options: ViewOptions) -> ReportTable:
    """Return a table whose own order is that of its rows."""
    order: list[tuple[Cell, ...]] = [(place,) for place in range(len(columns[0].values))]
    return tabulate.finish(name, title, columns, options, own_order="", blocks=order, top_each=False)


def _ranks(records: FlightRecords, report: HangReport, options: ViewOptions) -> ReportTable:
    dumps = records.dumps
    last = [_last(dump) for dump in dumps]
    late = {rank for each in report.groups for rank in each.behind if rank not in each.blocked}
    waits = [_waits_in(dump.rank, report) for dump in dumps]
    columns = [
        specs.RANK.column([dump.rank for dump in dumps]),
        _SHOWN["verdict"].column(
            [
                "holds up others" if dump.rank in report.accused
                else "late" if dump.rank in late
                else "waits" if text
                else None
                for dump, text in zip(dumps, waits, strict=True)
            ]
        ),
        _SHOWN["waits"].column(waits),
        _SHOWN["last"].column([each and _numbered(each[1]) for each in last]),
        _SHOWN["group"].column([each and each[0] for each in last], 2),
        _SHOWN["call_state"].column([each and _state(each[1]) for each in last], 2),
        _SHOWN["line"].column([(each and each[1].line) or None for each in last], 1),
        _SHOWN["calls"].column([sum(map(len, dump.calls.values())) for dump in dumps], 3),
    ]  # fmt: skip
    return _in_own_order("ranks", "Ranks", columns, options)


def _last(dump: RankDump) -> tuple[str, RecordedCall] | None:
    every = [(call.order, group.label, call) for group, calls in dump.calls.items() for call in calls[-1:]]
    found = max(every, key=lambda each: each[0], default=None)
    return None if found is None else (found[1], found[2])


def _numbered(call: RecordedCall) -> str:
    return f"{call.name} {call.p2p_seq if call.is_p2p else call.seq}"


def _state(call: RecordedCall) -> str:
    return f"{call.state or 'unknown'}{', retired' if call.retired and not call.completed else ''}"


def _waits_in(rank: int, report: HangReport) -> str | None:
    """Return the first collective, send or receive in which a rank waits; None for none."""
    for each in report.groups:
        # A group without a collective that is open has the state of its sends and receives: they are below.
        if rank in each.waiting and each.seq:
            call = each.calls.get(rank)
            return f"{call.name if call is not None else _call(each) or 'a call'} {each.seq} of {each.group.label}"
    for pair in report.pairs:
        if pair.waits == rank:
            sends = pair.call.name.startswith("send")
            return f"{'send to' if sends else 'recv from'} rank {pair.peer}"
    return None


def _sides(report: HangReport, options: ViewOptions) -> ReportTable | None:
    """Return the calls that do not fit together, one row a kind of call; None without any."""
    found = [(each, call, ranks) for each in report.groups for call, ranks in each.sides]
    if not found:
        return None
    columns = [
        _SHOWN["group"].column([each.group.label for each, _, _ in found], 1),
        _SHOWN["seq"].column([each.seq for each, _, _ in found]),
        _SHOWN["differs"].column([each.difference for each, _, _ in found]),
        _SHOWN["side"].column([_text(ranks) for _, _, ranks in found]),
        _SHOWN["operation"].column([call.name for _, call, _ in found]),
        _SHOWN["tensors"].column([sizes_words(call) or None for _, call, _ in found]),
        _SHOWN["line"].column([call.line or None for _, call, _ in found], 1),
    ]
    return _in_own_order("differing", "Calls that do not fit together", columns, options)


def _messages(report: HangReport, options: ViewOptions) -> ReportTable | None:
    """Return the sends and receives that wait; None without any."""
    pairs: Sequence[PairState] = report.pairs
    if not pairs:
        return None
    columns = [
        specs.RANK.column([each.waits for each in pairs]),
        _SHOWN["operation"].column([each.call.name for each in pairs]),
        _SHOWN["peer"].column([each.peer for each in pairs]),
        _SHOWN["state"].column([str(each.cause) for each in pairs]),
        _SHOWN["tensors"].column([sizes_words(each.call) or None for each in pairs], 1),
        _SHOWN["group"].column([each.group.label for each in pairs], 2),
        _SHOWN["line"].column([each.call.line or None for each in pairs], 1),
    ]
    return _in_own_order("messages", "Sends and receives that wait", columns, options)


def _stacks(index: TraceIndex, report: HangReport, options: ViewOptions) -> ReportTable | None:
    """Return the stacks of what the report is about: one rank that waits, the late ranks, each side."""
    state = report.group
    if state is None:
        calls: Mapping[int, RecordedCall] = {} if report.pair is None else {report.pair.waits: report.pair.call}
        chosen = [(rank, "waits", call) for rank, call in calls.items()]
    elif state.sides:
        chosen = [(ranks[0], "entered", call) for call, ranks in state.sides]
    else:
        entered = [(rank, "waits", call) for rank, call in state.calls.items() if rank in state.waiting][:1]
        chosen = [*[(rank, "last call", call) for rank, call in state.last.items()][:_MOST_STACKS], *entered]
    frames = stacks(index)
    shown = [(rank, what, call, found) for rank, what, call in chosen if (found := frames.get((rank, call.stack)))]
    if not shown:
        return None
    columns = [
        specs.RANK.column([rank for rank, _, _, _ in shown]),
        _SHOWN["what"].column([what for _, what, _, _ in shown]),
        _SHOWN["operation"].column([call.name for _, _, call, _ in shown]),
        _SHOWN["stack"].column([" > ".join(found) for _, _, _, found in shown]),
    ]
    return _in_own_order("stacks", "Stacks, the outermost call first", columns, options)


_MOST_STACKS = 8

_SHOWS = (
    specs.NAME,
    specs.RANK,
    ViewColumn("members", "Ranks", Unit.TEXT, "The members of the group, as ranks of the job."),
    ViewColumn(
        "state",
        "State",
        Unit.TEXT,
        "One of mismatch, not entered, no dump, inside (all entered, timed out), not known, behind (nothing timed "
        "out), running, idle.",
    ),
    ViewColumn(
        "completed",
        "Completed by all",
        Unit.COUNT,
        "The last collective that all members have completed; empty where a member has no dump.",
    ),
    ViewColumn("seq", "Collective", Unit.ID, "The number of the collective in its group."),
    ViewColumn("operation", "Operation", Unit.TEXT, "The operation that ranks entered."),
    ViewColumn("waiting", "Wait", Unit.TEXT, "The ranks that entered it and have not completed it."),
    ViewColumn("late", "Not entered", Unit.TEXT, "The ranks that have not entered it."),
    ViewColumn("absent", "No dump", Unit.TEXT, "The members without a dump."),
    ViewColumn("unknown", "Not known", Unit.TEXT, "The ranks whose dump does not show how far they are."),
    ViewColumn("timed_out", "Timed out", Unit.TEXT, "Whether a call timed out."),
    ViewColumn("verdict", "Verdict", Unit.TEXT, "One of holds up others, late (it may wait or be slow), waits."),
    ViewColumn("waits", "Waits in", Unit.TEXT, "The first call in which the rank waits."),
    ViewColumn("last", "Last call", Unit.TEXT, "The last call of the rank in its dump, with its number."),
    ViewColumn("group", "Group", Unit.TEXT, "The group of the call."),
    ViewColumn(
        "call_state",
        "State of it",
        Unit.TEXT,
        "The state of the last call, as the recorder noted it: scheduled (given to the device), started, completed, "
        "retired (no longer watched).",
    ),
    ViewColumn("line", "Line", Unit.TEXT, "The line of Python that made the call, the innermost outside of PyTorch."),
    ViewColumn("calls", "Calls", Unit.COUNT, "The number of entries in the dump."),
    ViewColumn("differs", "Differs in", Unit.TEXT, "The difference: operation, sizes or datatype."),
    ViewColumn("side", "Ranks", Unit.TEXT, "The ranks that made the call."),
    ViewColumn("tensors", "Tensors", Unit.TEXT, "Datatypes and sizes: inputs, and outputs where these differ."),
    ViewColumn("peer", "Peer", Unit.ID, "The rank at the other end."),
    ViewColumn("what", "Call", Unit.TEXT, "Whether the rank waits in the call, entered it, or made it last."),
    ViewColumn("stack", "Stack", Unit.TEXT, "The frames of Python, the outermost first."),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="hang",
    title=_TITLE,
    columns=frozenset(),
    kinds=frozenset({Kind.COMMUNICATION}),
    compute=compute,
    shows=_SHOWS,
    args_of=frozenset(),
)

"""Ranges of the host as fluid's report counts them: by thread and end, with the device work that each one launched."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from tracekit.analysis.nesting import nest
from tracekit.compat.fluid.names import BLOCK
from tracekit.index.grouping import INT64_MAX, group_by, key_of, kind_mask, too_long
from tracekit.index.launches import launches_of
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask, pc
from tracekit.model.display import plural
from tracekit.model.report import Cell
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.model.trace import text_codes

__all__ = ["COLUMNS", "TOOL", "FluidRanges", "ranges_of"]

COLUMNS = frozenset(
    {"ts_ns", "dur_ns", "event_id", "name", "kind", "source", "pid", "tid", "correlation", "bytes", "args", "device"}
)
TOOL = "fluid.profiler"
NOT_RANGES = (
    *DEVICE_WORK,
    *API_CALLS,
    Kind.MEMORY,
    Kind.COUNTER,
    Kind.MARK,
    Kind.FLOW,
    Kind.OVERHEAD,
    Kind.SYNC,
)
"""Kinds that are no ranges of the program."""


@dataclass(frozen=True, slots=True, eq=False)
class FluidRanges:
    """Ranges in the order of the report: the newest thread first, within a thread by end.

    rows: shape (n,), their numbers in EVENTS. names: the different ones; name: shape (n,), counts into them.
    thread: shape (n,), the number of the thread. labels: of each thread number (source, pid, tid).
    host_ns, gpu_ns: shape (n,). is_outer: shape (n,), whether no other range of its thread holds it.
    has_gpu: whether there is device work at all. notes: what to know.
    """

    rows: I64
    names: list[str]
    name: I64
    thread: I64
    labels: dict[int, tuple[Cell, ...]]
    host_ns: I64
    gpu_ns: I64
    is_outer: Mask
    has_gpu: bool
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)


def ranges_of(index: TraceIndex) -> FluidRanges:
    """Return the ranges of a trace. Raises: OverflowError for a range longer than int64 holds."""
    events = index.events
    dur = events.column("dur_ns")
    is_range = ~kind_mask(events, NOT_RANGES) & dur.is_valid().to_numpy()
    is_cut = arrow.bools(pc.match_substring(events.column("args"), '"unfinished":true')) & is_range
    codes, texts = text_codes(events.column("name"))
    names = [*texts, ""]
    is_block = np.array([bool(BLOCK.fullmatch(text)) for text in names], np.bool_)[codes]
    is_block &= kind_mask(events, [Kind.USER_RANGE_NATIVE]) & is_range
    rows = np.flatnonzero(is_range & ~is_cut & ~is_block)
    starts = events.column("ts_ns").to_numpy()[rows]
    durations = arrow.ints(dur)[rows]
    host = np.maximum(durations, 0)
    thread, labels = _threads(index, rows, starts)
    tree = nest(thread, starts, starts + host)
    name = codes[rows] % len(names)
    gpu, notes, has_gpu = _gpu_ns(index, _HostRanges(rows, names, name, thread, labels, starts, host, tree.parent))
    order = np.lexsort((-events.column("event_id").to_numpy()[rows], -starts, starts + host, -thread))
    if blocks := int(is_block.sum()):
        notes.append(f"skipped, as they contain the events of others: {plural(blocks, 'range')} named block_...")
    if cut := int(is_cut.sum()):
        notes.append(f"skipped: {plural(cut, 'range')} without an end")
    if negative := int((durations < 0).sum()):
        notes.append(f"counted as 0: {plural(negative, 'duration')} below zero")
    return FluidRanges(
        rows[order],
        names,
        name[order],
        thread[order],
        labels,
        host[order],
        gpu[order],
        (tree.parent < 0)[order],
        has_gpu,
        tuple(notes),
    )


def _threads(index: TraceIndex, rows: I64, starts: I64) -> tuple[I64, dict[int, tuple[Cell, ...]]]:
    """Return the number of each range's thread: fluid's own in a file of fluid, else counted by the first start.

    A range that overlaps others of its thread has its thread in `args`.
    """
    events = index.events
    tids = arrow.take(events.column("tid"), rows)
    if tids.null_count:
        matched = pc.extract_regex(arrow.take(events.column("args"), rows), r'"tid":(?P<tid>[0-9]{1,18})[,}]')
        tids = pc.coalesce(tids, pc.cast(pc.struct_field(matched, "tid"), pa.int64()))
    key = key_of(pa.table([tids], names=["tid"]), "tid", np.arange(len(rows)))
    groups = group_by(key_of(events, "source", rows), key_of(events, "pid", rows), key)
    labels = list(zip(*groups.labels, strict=True))
    fluid = {number for number, facts in facts_by_source(index).items() if facts.facts.get("tool") == TOOL}
    own_numbers = [label[2] for label in labels]
    if {label[0] for label in labels} <= fluid and None not in own_numbers and len(set(own_numbers)) == len(labels):
        numbers = np.array([int(n) for n in own_numbers if n is not None], np.int64)
    else:
        first = np.full(groups.count, np.iinfo(np.int64).max, np.int64)
        np.minimum.at(first, groups.codes, starts)
        numbers = np.empty(groups.count, np.int64)
        numbers[np.argsort(first, kind="stable")] = np.arange(groups.count)
    return numbers[groups.codes], dict(zip(numbers.tolist(), labels, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _HostRanges:
    """Ranges in the order of EVENTS, with the row of the range around each, -1 for none."""

    rows: I64
    names: list[str]
    name: I64
    thread: I64
    labels: dict[int, tuple[Cell, ...]]
    starts: I64
    host: I64
    parent: I64


def _gpu_ns(index: TraceIndex, hosts: _HostRanges) -> tuple[I64, list[str], bool]:
    """Return how long the device work ran that each range launched, notes, and whether there is any.

    Where a launch is known by its correlation, it belongs to all ranges around it; else work belongs to the ranges of
    its name, which fluid's profile gives it, and to those around them.
    """
    events = index.events
    work = np.flatnonzero(kind_mask(events, DEVICE_WORK) & events.column("dur_ns").is_valid().to_numpy())
    spent = np.zeros(len(hosts.rows), np.int64)
    if not len(work):
        return spent, [], False
    ran = np.maximum(arrow.ints(events.column("dur_ns"))[work], 0)
    if float(ran.sum(dtype=np.float64)) >= INT64_MAX:
        raise too_long()
    launch = launches_of(index, work).launch
    known = launch >= 0
    _within(spent, events, hosts, launch[known], ran[known])
    unknown = _by_name(spent, events, hosts, work[~known], ran[~known])
    notes = [f"{plural(unknown, 'device row')} of no known range: in no GPU time here"] * bool(unknown)
    return spent, notes, True


def _within(spent: I64, events: pa.Table, hosts: _HostRanges, launch: I64, ran: I64) -> None:
    """Add to each range the work of the launches that begin in it, on its thread."""
    at = events.column("ts_ns").to_numpy()[launch]
    columns = {name: arrow.take(events.column(name), launch).to_pylist() for name in ("source", "pid", "tid")}
    numbers: dict[tuple[Cell, ...], int] = {}
    for number, label in hosts.labels.items():
        # Calls may be in a file of their own beside that of the ranges: then process and thread identify them.
        numbers[label[1:]] = -1 if label[1:] in numbers else number
    numbers |= {label: number for number, label in hosts.labels.items()}
    places = zip(columns["source"], columns["pid"], columns["tid"], strict=True)
    lane = np.array([numbers.get(place, numbers.get(place[1:], -1)) for place in places], np.int64)
    order = np.lexsort((at, lane))
    at, lane, ran = at[order], lane[order], ran[order]
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(ran)))
    for number in sets.unique(hosts.thread).tolist():
        on_thread = np.flatnonzero(hosts.thread == number)
        low, high = np.searchsorted(lane, [number, number + 1])
        first = low + np.searchsorted(at[low:high], hosts.starts[on_thread], "left")
        last = low + np.searchsorted(at[low:high], hosts.starts[on_thread] + hosts.host[on_thread], "right")
        spent[on_thread] += total[last] - total[first]


def _by_name(spent: I64, events: pa.Table, hosts: _HostRanges, work: I64, ran: I64) -> int:
    """Add device work to the ranges of its name and those around them; return how much of it has no range.

    The k-th share of a name's work belongs to the k-th of its ranges where the numbers divide, as each call of an
    operator launches the same; else it belongs to the last range that began before it.
    """
    codes, texts = text_codes(events.column("name"))
    names = [*texts, ""]
    places = {hosts.names[n]: n for n in sets.unique(hosts.name).tolist()}
    pairs = zip(codes[work].tolist(), _details(events, work), strict=True)
    target = np.array([places.get(names[code], places.get(detail, -1)) for code, detail in pairs], np.int64)
    with_range = np.flatnonzero(target >= 0)
    began = events.column("ts_ns").to_numpy()[work]
    direct = np.zeros(len(spent), np.int64)
    for code in sets.unique(target[with_range]).tolist():
        of_name = with_range[target[with_range] == code]
        of_name = of_name[np.argsort(began[of_name], kind="stable")]
        ranges = np.flatnonzero(hosts.name == code)
        ranges = ranges[np.argsort(hosts.starts[ranges], kind="stable")]
        if len(of_name) % len(ranges) == 0:
            to = np.repeat(ranges, len(of_name) // len(ranges))
        else:
            to = ranges[np.maximum(np.searchsorted(hosts.starts[ranges], began[of_name], "right") - 1, 0)]
        np.add.at(direct, to, ran[of_name])
    hop = np.flatnonzero(direct)
    amount, at = direct[hop], hop
    while len(at):
        np.add.at(spent, at, amount)
        at = hosts.parent[at]
        amount, at = amount[at >= 0], at[at >= 0]
    return len(work) - len(with_range)


def _details(events: pa.Table, work: I64) -> list[object]:
    """Return the operator that each row's args name, None where there is none."""
    key = key_of(pa.table([arrow.take(events.column("args"), work)], names=["args"]), "args", np.arange(len(work)))
    details = [_detail(text) for text in key.labels]
    return [details[code] for code in key.codes.tolist()]


def _detail(text: Cell) -> object:
    if not isinstance(text, str) or '"operator"' not in text:
        return None
    try:
        args = json.loads(text)
    except ValueError:
        return None
    return args.get("operator") if isinstance(args, dict) else None

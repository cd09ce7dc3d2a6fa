"""headline: the figures of the first screen, for page, terminal and JSON alike.

It has the time of a step and its spread (of the run where there are no steps), the time of the devices in parts, the
names that take most time, and the best findings. Every figure is one that a table has too: step times are those of the
view `steps` after warm-up, the parts those of `breakdown`, names and findings are quoted.

Devices of one model with the same window are one group. The window is that of the device's steps, else its span.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tracekit.analysis.segments import rows_by
from tracekit.analysis.statistics import nearest_rank
from tracekit.errors import COMMAND_LINE
from tracekit.index.devices import by_clock
from tracekit.index.grouping import plural
from tracekit.index.sources import FIRST_SCREEN_NOTES, synthetic_sources
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import (
    Cell,
    DeviceTime,
    Headline,
    ReportTable,
    Section,
    StepTime,
    TimePart,
    TopName,
    TopNames,
)
from tracekit.model.schema import API_CALLS, DEVICE_WORK
from tracekit.model.trace import Ledger
from tracekit.views import specs
from tracekit.views.device import breakdown
from tracekit.views.device.breakdown import DeviceParts, device_parts
from tracekit.views.headline.facts import why_not
from tracekit.views.steps import steps as _steps
from tracekit.views.tables.model import ON_NO_THREAD
from tracekit.views.totals import HEADER, TotalsRow, count_totals, totals_rows

COLUMNS = breakdown.VIEW.columns | _steps.VIEW.columns
FINDINGS = 3
"""The most findings of the first screen."""
NAMES = 8
"""The most names of the first screen."""
TOP_VIEWS = {
    "kernel": "kernels",
    "operator": "operators",
    "model": "phases and layers",
    "user_defined": "user ranges",
    "api": "API calls",
    "memory_manipulation": "copies and memsets",
    "other": "other calls",
    "samples": "functions",
}
"""Views whose names may be the top names, the first one with a time, and what its names are."""

UNNAMED = "(no name)"
_DEVICE_VIEWS = ("kernel", "memory_manipulation")
_PARTS = ("compute", "exposed_comm", "exposed_copies", "idle")
_BLOCK = frozenset(spec.key for spec in specs.PLACED) - {"device"}
_RESERVATIONS = 3
_LOSSES = ("torn", "cut", "not-read", "left-nothing", "no-permission")
"""Parts of the codes of notes on records that are missing."""


def find(index: TraceIndex, section: Callable[[str], Section], more: Sequence[str] = ()) -> Headline:
    """Return the headline of a trace. section: gives the result of a view, whole and in its own order.

    more: further views whose names may be the top names, such as those of another profiler.
    """
    run_ns, run_note = _run(index)
    lost = bool(index.trace.incomplete)
    devices = () if lost else _groups(index, device_parts(index))
    found = section("findings")
    step = _step(index)
    # Without device work, the phases of the steps say more than the operators.
    views = TOP_VIEWS if step is None else dict.fromkeys(("kernel", "model", *TOP_VIEWS))
    return Headline(
        step=step,
        run_ns=run_ns,
        run_note=run_note,
        devices=devices,
        devices_note="" if devices else _no_devices(index, section, lost=lost),
        top=_top([*views, *more], section, _printed_wholes(index), shares=not lost),
        findings=found.findings[:FINDINGS],
        findings_count=len(found.findings),
        findings_note="" if found.findings else "; ".join(found.notes),
        reservations=_reservations(index),
    )


def _run(index: TraceIndex) -> tuple[int | None, str]:
    """Return the time from the first start to the last end, or why it is not known."""
    span = index.span()
    if span is None:
        return None, "totals do not say when work ran" if index.totals.num_rows else "no events"
    if _without_starts(index):
        return None, why_not(index.run.sources) or "durations without starts do not say when work ran"
    if (clocks := by_clock(index).count) > 1:
        return None, f"{clocks:,} inputs or runs share no clock"
    return span[1] - span[0], ""


def _step(index: TraceIndex) -> StepTime | None:
    times = _steps.step_times(index)
    chosen = ~times.warm_up
    if not chosen.any():
        return None
    owner, durations = times.owner[chosen], times.durations[chosen]
    medians = [nearest_rank(np.sort(durations[rows]), 50) for _, rows in rows_by(owner)]
    ordered = np.sort(durations)
    p5, median, p95 = (nearest_rank(ordered, percent) for percent in (5, 50, 95))
    warm_up = int(np.count_nonzero(times.warm_up))
    return StepTime(ordered.size, warm_up, len(medians), p5, median, p95, min(medians), max(medians))


def _groups(index: TraceIndex, parts: Sequence[DeviceParts]) -> tuple[DeviceTime, ...]:
    """Return the devices in groups of one model and one kind of window, each in order of its first device."""
    groups: dict[tuple[str, str], list[DeviceParts]] = {}
    for each in parts:
        if each.span.span.any():
            model = index.run.devices.get((each.device.source, each.device.device), "")
            groups.setdefault((model, "run" if each.steps is None else "steps"), []).append(each)
    return tuple(_group(model, window, found) for (model, window), found in groups.items())


def _group(model: str, window: str, found: list[DeviceParts]) -> DeviceTime:
    label = found[0].device.label if len(found) == 1 else f"{plural('device', len(found))} {model}".rstrip()
    windows = [each.span if each.steps is None else each.steps for each in found]
    spans = [int(each.span[0]) for each in windows]
    parts = []
    for name in _PARTS:
        times = [each.values(name)[0] for each in windows]
        shares = sorted(time / span for time, span in zip(times, spans, strict=True))
        parts.append(TimePart(name, sum(times), shares[0], shares[(len(shares) - 1) // 2], shares[-1]))
    return DeviceTime(label, len(found), window, sum(spans), tuple(parts))


def _no_devices(index: TraceIndex, section: Callable[[str], Section], *, lost: bool) -> str:
    if lost:
        return "Device time unknown: too many records could not be read."
    if not index.events.num_rows or _without_starts(index):
        return _run(index)[1]
    if any(ledger.filtered for ledger in index.ledgers):
        return "The events that pass the filters have no GPU activity."
    if not index.kind_mask(DEVICE_WORK).any() and not count_totals(index, DEVICE_WORK):
        if calls := int(index.kind_mask(API_CALLS).sum()):
            # A program that calls the GPU is not "CPU only": its kernels are missing from the trace.
            return f"Device time unknown: the trace has {plural('GPU API call', calls)}, but no GPU activity."
        return "This trace has no GPU activity."
    return f"Device time unknown: {section('breakdown').notes[0]}."


def _without_starts(index: TraceIndex) -> bool:
    return bool(index.run.sources) and len(synthetic_sources(index)) == len(index.run.sources)


def _printed_wholes(index: TraceIndex) -> list[TotalsRow]:
    """Return the totals below printed tables that lack rows, which their readers mark."""
    return [row for row in totals_rows(index) if row["section"] == HEADER and "whole_of" in row["args"]]


def _whole_of(view: str, column: str, run: Cell, printed: Sequence[TotalsRow]) -> TotalsRow | None:
    """Return the printed total of the table whose names are quoted, None where there is none, or more than one."""
    place = "device" if view in _DEVICE_VIEWS else "host" if column == "self" else ""
    found = [row for row in printed if row["args"]["whole_of"] == place and run in (None, row["run"])]
    return found[0] if len(found) == 1 else None


def _top(
    views: Sequence[str], section: Callable[[str], Section], printed: Sequence[TotalsRow], *, shares: bool
) -> TopNames | None:
    for view in views:
        for table in section(view).tables:
            if (found := _names(view, table, printed, shares=shares)) is not None:
                return found
    return None


def _names(view: str, table: ReportTable, printed: Sequence[TotalsRow], *, shares: bool) -> TopNames | None:
    """Return the top names of the block of a table that has most time, None where it has no names or no times.

    Rows without a name count, and so does a device whose work has no name at all.

    printed: totals of tables that lack rows: they are the whole, not the sum of the rows.
    """
    have = {column.name: list(column.values) for column in table.columns}
    column = "self" if "self" in have else "total"
    if column not in have or "name" not in have:
        return None
    levels = have.get("level", [0] * len(table))
    keys = [key for key in have if key in _BLOCK]
    blocks: dict[tuple[Cell, ...], list[int]] = {}
    for row in range(len(table)):
        if have["name"][row] is None:
            have["name"][row] = UNNAMED
        known = isinstance(have[column][row], int)
        if known and levels[row] == 0 and not str(have["name"][row]).endswith(ON_NO_THREAD):
            blocks.setdefault(tuple(have[key][row] for key in keys), []).append(row)
    named = any(have["name"][row] != UNNAMED for rows in blocks.values() for row in rows)
    if not blocks or not (named or view in _DEVICE_VIEWS):
        return None

    def time(row: int) -> int:
        return int(have[column][row] or 0)

    rows, part = max(
        ((_parts_alone(rows, have.get("ratio")), key) for key, rows in blocks.items()),
        key=lambda block: (len(block[0]) > 1, sum(map(time, block[0]))),
    )
    whole = sum(map(time, rows))
    if not whole:
        return None
    total = _whole_of(view, column, dict(zip(keys, part, strict=True)).get("run"), printed)
    whole = max(whole, total["total_ns"] or 0) if total is not None else whole
    calls = have.get("calls", [None] * len(table))
    labels = _labels(have["name"], [have[key] for key in ("kind", "owner") if key in have], rows)
    names = tuple(
        TopName(
            labels[row],
            time(row),
            count if isinstance(count := calls[row], int) else None,
            time(row) / whole if shares else None,
        )
        for row in sorted(rows, key=time, reverse=True)[:NAMES]
    )
    words = ", ".join(f"{key} {cell}" for key, cell in zip(keys, part, strict=True) if cell is not None)
    title, source = TOP_VIEWS.get(view, table.title.lower()), (total["name"] or "") if total is not None else ""
    return TopNames(view, column, title, words, whole, len(rows), names, source)


def _labels(names: Sequence[Cell], more: Sequence[Sequence[Cell]], rows: list[int]) -> dict[int, str]:
    """Return the name of each row; where rows have one name, with those of the other columns in which they differ."""
    alike: dict[Cell, list[int]] = {}
    for row in rows:
        alike.setdefault(names[row], []).append(row)
    labels = {}
    for name, same in alike.items():
        differ = [cells for cells in more if len({cells[row] for row in same}) > 1]
        for row in same:
            labels[row] = ", ".join([str(name), *(str(cells[row]) for cells in differ if cells[row] is not None)])
    return labels


def _parts_alone(rows: list[int], ratios: list[Cell] | None) -> list[int]:
    """Return the rows without one that is the whole of the others, such as the steps among their phases."""
    if ratios is None or len(rows) < 2:
        return rows
    alone = [row for row in rows if ratios[row] != 1.0]
    return alone or rows


def _reservations(index: TraceIndex) -> tuple[str, ...]:
    """Return what limits every figure: inputs that failed, records that were dropped or filtered, clocks that differ.

    Sentences of `Trace.incomplete` are not repeated.
    """
    found = [f"not read: {failure.error.worded(COMMAND_LINE)}" for failure in index.trace.failures]
    several = len(index.ledgers) > 1
    for ledger in index.ledgers:
        where = f"{Path(ledger.path).name}: " if several else ""
        found += [f"{where}{text}" for text in _losses(ledger)]
    found += [
        str(note) for ledger in index.ledgers for code, note in ledger.notes.items() if code in FIRST_SCREEN_NOTES
    ]
    filtered = sum(ledger.filtered for ledger in index.ledgers)
    if filtered:
        found.append(f"{plural('record', filtered)} filtered: every figure is of the other records")
    more = len(found) - _RESERVATIONS
    return tuple([*found[:_RESERVATIONS], f"{plural('more warning', more)} in the notes."] if more > 0 else found)


def _losses(ledger: Ledger) -> list[str]:
    """Return what is missing from an input: the records that were dropped with the reasons, then other losses."""
    notes = {code: str(note).removeprefix("dropped: ") for code, note in ledger.notes.items()}
    why = [text for code, text in notes.items() if code in ledger.dropped]
    others = [text for code, text in notes.items() if code not in ledger.dropped and any(w in code for w in _LOSSES)]
    dropped = sum(ledger.dropped.values())
    if not dropped:
        return others
    first = f"{plural('record', dropped)} could not be read, so times and counts may be too low"
    return [f"{first}: {'; '.join(why)}" if why else first, *others]

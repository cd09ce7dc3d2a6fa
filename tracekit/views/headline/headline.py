"""headline: the figures of the first screen, for page, terminal and JSON alike.

It has the time of a step and its spread (of the run where there are no steps), the time of the devices in parts, the
names that take most time, and the best findings. Every figure is one that a table has too: step times are those of the
view `steps` after warm-up, the parts those of `breakdown`, names and findings are quoted.

Devices of one model with the same window are one group. The window is that of the device's steps, else its span.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tracekit.analysis.segments import rows_by
from tracekit.analysis.statistics import nearest_rank
from tracekit.errors import COMMAND_LINE
from tracekit.index.cut_steps import cut_steps
from tracekit.index.devices import by_clock
from tracekit.index.flight_records import flight_records, hang
from tracekit.index.lanes import DEVICE_WORDS, device_model
from tracekit.index.process_parts import processes_of_parts
from tracekit.index.sources import CYCLES_NOTE, FIRST_SCREEN_NOTES, synthetic_sources
from tracekit.index.step_extents import AHEAD
from tracekit.index.steps import cut_words
from tracekit.index.trace_index import TraceIndex
from tracekit.model.cuts import ends_in_the_middle
from tracekit.model.display import plural
from tracekit.model.report import (
    DeviceTime,
    Finding,
    Headline,
    Section,
    StepTime,
    TimePart,
    TimePiece,
)
from tracekit.model.schema import API_CALLS, DEVICE_WORK, HOST_RANGES, Kind
from tracekit.model.trace import ELAPSED, Ledger, all_ledgers
from tracekit.views.advice import is_cut
from tracekit.views.device import breakdown
from tracekit.views.device.breakdown import DeviceParts, device_parts
from tracekit.views.hang_words import HangWords, hang_words
from tracekit.views.headline import content
from tracekit.views.headline.facts import why_not
from tracekit.views.headline.opening import CALLS, OPERATORS, RANGES, STACKS, OpeningFacts, opening_of
from tracekit.views.headline.pieces import pieces_of
from tracekit.views.steps import steps as _steps
from tracekit.views.totals import count_totals

__all__ = ["find"]

COLUMNS = breakdown.VIEW.columns | _steps.VIEW.columns
FINDINGS = 3
"""The most findings of the first screen."""
_PARTS = ("compute", "exposed_comm", "exposed_copies", "idle")
_RESERVATIONS = 3
_LOSSES = ("torn", "cut", "not-read", "left-nothing", "no-permission")
"""Parts of the codes of notes on records that are missing."""


def find(index: TraceIndex, section: Callable[[str], Section], more: Sequence[str] = ()) -> Headline:
    """Return the headline of a trace. section: gives the result of a view, whole and in its own order.

    more: further views whose names may be the top names, such as those of another profiler.
    """
    run_ns, run_note = _run(index)
    lost = bool(index.trace.incomplete)
    on_host = bool(cut_steps(index).on_host.size)
    # Rows of the device are missing from the middle of the window: what looks like idle time may be work.
    devices = () if lost or on_host else _groups(index, device_parts(index))
    found = section("findings")
    top, below = content.choose(index, section, more, shares=not lost)
    figure, quoted = (None, ()) if lost else content.quote(section, top)
    if top is None and figure is None and not quoted:
        top, quoted = content.rest(section, shares=not lost)
    headline = Headline(
        step=_step(index),
        run_ns=run_ns,
        run_note=run_note,
        devices=devices,
        devices_note="" if devices else _no_devices(index, section, lost=lost),
        figure=figure,
        quoted=quoted,
        top=top,
        below=below,
        findings=found.findings[:FINDINGS],
        findings_count=len(found.findings),
        findings_note="" if found.findings else "; ".join(found.notes),
        reservations=_reservations(index),
    )
    return replace(headline, opening=opening_of(_opening_facts(index, headline, found.findings, lost=lost)))


def _opening_facts(index: TraceIndex, headline: Headline, findings: Sequence[Finding], *, lost: bool) -> OpeningFacts:
    words = {each.device.label.split()[0] for each in device_parts(index)} if not lost else set()
    works = bool(index.kind_mask(DEVICE_WORK).any() or index.kind_mask(API_CALLS).any() or _gpu_collectives(index))
    has_events, filtered = bool(index.events.num_rows), any(ledger.filtered for ledger in index.ledgers)
    return OpeningFacts(
        headline,
        findings,
        lost=lost,
        device=words.pop() if len(words) == 1 and words <= DEVICE_WORDS else "GPU",
        has_events=has_events,
        has_durations=bool(index.has("dur_ns").any()),
        on_cpu=has_events
        and not works
        and not filtered
        and not is_cut(index)
        and not count_totals(index, DEVICE_WORK)
        and not _in_cycles(index)
        and not _profiles_devices(index),
        filtered=filtered and not has_events,
        hang=_hang(index),
        cut=is_cut(index),
        recorded=_recorded(index),
    )


def _recorded(index: TraceIndex) -> frozenset[str]:
    """Return what the trace has of the host in the window of the steps; other parts of a run may have more."""
    times = _steps.step_times(index)
    if not times.owner.size:
        return frozenset()
    low, high = int(times.host_starts.min()), int((times.host_starts + times.host_durations).max())
    there = (index.starts < high) & (index.starts + index.lengths > low) & index.has("dur_ns")
    kinds = {
        OPERATORS: (Kind.OPERATOR, Kind.OPERATOR_INNER),
        CALLS: API_CALLS,
        RANGES: (Kind.USER_RANGE, Kind.USER_RANGE_NATIVE),
        STACKS: (Kind.PYTHON_OP,),
    }
    return frozenset(name for name, each in kinds.items() if (index.kind_mask(frozenset(each)) & there).any())


def _hang(index: TraceIndex) -> HangWords | None:
    records, report = flight_records(index), hang(index)
    return None if records is None or report is None else hang_words(report, records)


def _run(index: TraceIndex) -> tuple[int | None, str]:
    """Return the time from the first start to the last end, or why it is not known."""
    span = index.span()
    if span is None:
        printed = [source.facts.get(ELAPSED) for source in index.run.sources]
        if len(printed) == 1 and isinstance(printed[0], int):
            return printed[0], ""
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
    host = nearest_rank(np.sort(times.host_durations[chosen]), 50) if times.ahead[chosen].any() else None
    if host is not None and abs(host - median) <= AHEAD * median:
        host = None
    at = np.flatnonzero(chosen)
    rates = sorted(rate for _, rows in rows_by(owner) if (rate := times.pace.rate(at[rows])) is not None)
    return StepTime(
        ordered.size,
        warm_up,
        len(medians),
        p5,
        median,
        p95,
        min(medians),
        max(medians),
        host,
        times.pace.pitch(at),
        rates[(len(rates) - 1) // 2] if rates else None,
        processes_of_parts(index, times.owner, times.starts, times.durations) if len(medians) > 1 else (),
    )


def _groups(index: TraceIndex, parts: Sequence[DeviceParts]) -> tuple[DeviceTime, ...]:
    """Return the devices in groups of one model and one kind of window, each in order of its first device."""
    groups: dict[tuple[str, str], list[DeviceParts]] = {}
    for each in parts:
        if each.span.span.any():
            model = device_model(index.run.devices.get((each.device.source, each.device.device), ""))
            groups.setdefault((model, "run" if each.steps is None else "steps"), []).append(each)
    return tuple(_group(model, window, found, pieces_of(index, found)) for (model, window), found in groups.items())


def _group(
    model: str, window: str, parts_of_devices: list[DeviceParts], pieces: dict[str, tuple[TimePiece, ...]]
) -> DeviceTime:
    label = (
        parts_of_devices[0].device.label
        if len(parts_of_devices) == 1
        else f"{plural(len(parts_of_devices), 'device')} {model}".rstrip()
    )
    windows = [each.span if each.steps is None else each.steps for each in parts_of_devices]
    spans = [int(each.span[0]) for each in windows]
    parts = []
    for name in _PARTS:
        times = [each.values(name)[0] for each in windows]
        shares = sorted(time / span for time, span in zip(times, spans, strict=True))
        middle = shares[(len(shares) - 1) // 2]
        parts.append(TimePart(name, sum(times), shares[0], middle, shares[-1], pieces.get(name, ())))
    return DeviceTime(label, len(parts_of_devices), window, sum(spans), tuple(parts))


def _no_devices(index: TraceIndex, section: Callable[[str], Section], *, lost: bool) -> str:
    if lost:
        return "Device time unknown: too many records could not be read."
    if not index.events.num_rows or _without_starts(index):
        return _run(index)[1]
    if cut_steps(index).on_host.size:
        return "Device time unknown: work of each step is behind the cut of the file."
    if any(ledger.filtered for ledger in index.ledgers):
        return "The events that pass the filters have no GPU activity."
    if not index.kind_mask(DEVICE_WORK).any() and not count_totals(index, DEVICE_WORK):
        part = "The part of the input that was read" if is_cut(index) else ""
        if calls := int(index.kind_mask(API_CALLS).sum()):
            # A program that calls the GPU is not "CPU only": its kernels are missing from the trace.
            where = part.lower() or "the trace"
            return f"Device time unknown: {where} has {plural(calls, 'GPU API call')}, but no GPU activity."
        if calls := _gpu_collectives(index):
            where = part.lower() or "the trace"
            return f"Device time unknown: {where} has {plural(calls, 'call')} of NCCL or RCCL, but no GPU activity."
        if _in_cycles(index):
            return "Device time unknown: the trace has ranges within kernels, in GPU cycles."
        return f"{part or 'This trace'} has no GPU activity."
    return f"Device time unknown: {section('breakdown').notes[0]}."


_DEVICE_PROFILERS = re.compile(r"\b(?:nsys|nvprof|roc(?:prof|pd)|rpd|ascend|cuda-profile|proton|unitrace)")
"""Formats and tools for programs on a device: one table of them, or ranges alone, does not say that there is none."""


def _profiles_devices(index: TraceIndex) -> bool:
    """Return whether an input is of a profiler for devices."""
    return any(_DEVICE_PROFILERS.search(f"{each.format} {each.facts.get('tool', '')}") for each in index.run.sources)


_GPU_COLLECTIVE = re.compile(r"(?:nccl|rccl|hccl)(?=[A-Z:_])")
"""How calls, ranges and operators of the collectives of GPUs begin: ncclAllReduce, nccl:all_reduce."""


def _gpu_collectives(index: TraceIndex) -> int:
    """Return how many rows of the host are collectives of GPUs: a program that calls them is not "CPU only"."""
    if "name" not in index.events.schema.names:
        return 0
    codes, names = index.texts("name")
    of_gpus = np.array([*(_GPU_COLLECTIVE.match(name) is not None for name in names), False])
    return int(np.count_nonzero(of_gpus[codes] & index.kind_mask(HOST_RANGES))) if of_gpus.any() else 0


def _in_cycles(index: TraceIndex) -> bool:
    return any(CYCLES_NOTE in ledger.notes for ledger in index.ledgers)


def _without_starts(index: TraceIndex) -> bool:
    return bool(index.run.sources) and len(synthetic_sources(index)) == len(index.run.sources)


def _reservations(index: TraceIndex) -> tuple[str, ...]:
    """Return what limits every figure: inputs that failed, records that were dropped or filtered, clocks that differ.

    Sentences of `Trace.incomplete` are not repeated.
    """
    warnings = [f"not read: {failure.error.worded(COMMAND_LINE)}" for failure in index.trace.failures]
    archived = all_ledgers((), index.run)
    of_steps = [f"{text[:1].upper()}{text[1:]}." for text in cut_words(cut_steps(index))]
    warnings = [*ends_in_the_middle(index.ledgers, archived), *of_steps, *warnings]
    several = len(index.ledgers) > 1
    for ledger in index.ledgers:
        where = f"{Path(ledger.path).name}: " if several else ""
        warnings += [f"{where}{text}" for text in _losses(ledger)]
    warnings += [
        str(note) for ledger in index.ledgers for code, note in ledger.notes.items() if code in FIRST_SCREEN_NOTES
    ]
    filtered = sum(ledger.filtered for ledger in index.ledgers)
    if filtered:
        warnings.append(f"{plural(filtered, 'record')} filtered: every figure is of the other records")
    more = len(warnings) - _RESERVATIONS
    return tuple([*warnings[:_RESERVATIONS], f"{plural(more, 'more warning')} in the notes."] if more > 0 else warnings)


def _losses(ledger: Ledger) -> list[str]:
    """Return what is missing from an input: the records that were dropped with the reasons, then other losses."""
    notes = {code: str(note).removeprefix("dropped: ") for code, note in ledger.notes.items()}
    why = [text for code, text in notes.items() if code in ledger.dropped]
    others = [text for code, text in notes.items() if code not in ledger.dropped and any(w in code for w in _LOSSES)]
    dropped = sum(ledger.dropped.values())
    if not dropped:
        return others
    first = f"{plural(dropped, 'record')} could not be read, so times and counts may be too low"
    return [f"{first}: {'; '.join(why)}" if why else first, *others]

"""Facts of a run that every report begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracekit.index.devices import by_clock
from tracekit.index.lanes import device_label, device_model
from tracekit.index.trace_index import index_of
from tracekit.model.trace import TIMES, SourceFacts, Trace
from tracekit.model.units import format_span

__all__ = ["facts_of", "why_not"]


def _some(values: Sequence[str], most: int) -> str:
    return ", ".join(values[:most]) + (f" and {len(values) - most} more" if len(values) > most else "")


def why_not(sources: Sequence[SourceFacts]) -> str:
    """Return why the times of the inputs are not known, as far as their readers say so; "" where none does."""
    reasons = {str(each.facts.get(TIMES, "")).removeprefix("not known: ") for each in sources}
    return "; ".join(sorted(reasons - {""}))


def facts_of(trace: Trace, titles: Mapping[str, str], events: int | None = None) -> tuple[tuple[str, str], ...]:
    """Return what one wants to know first: formats (by their titles), tool, command, devices, span, size.

    events: how many there are, where the trace has a few rows in the place of all.
    """
    sources = trace.run.sources
    formats = sorted({s.format for s in sources})
    facts = [("format", _some([titles.get(f, f) for f in formats], 3))]
    for key in ("tool", "command"):
        facts.append((key, _some(sorted({str(s.facts[key]) for s in sources if key in s.facts}), 1)))
    facts.append(("device", _some(_devices(trace), 4)))
    facts.append(_span(trace))
    rows = trace.events.num_rows if events is None else events
    for name, count in (("events", rows), ("totals", trace.totals.num_rows)):
        facts.append((name, f"{count:,}" if count else ""))
    return tuple((key, text) for key, text in facts if text)


def _devices(trace: Trace) -> list[str]:
    """Return the models of the devices; of a device whose name has no model, its label."""
    named = trace.run.devices.items()
    return sorted({device_model(name) or device_label(device, name) for (_, device), name in named})


def _span(trace: Trace) -> tuple[str, str]:
    """Return the span of the events, or why there is none; words "" where there are no events."""
    sources, span = trace.run.sources, trace.span()
    if span is None:
        return "span", ""
    if sources and all(facts.synthetic_time for facts in sources):
        return "span", f"not known: {why_not(sources) or 'durations without starts'}"
    runs = len(sources) + sum(len(s.facts.get("runs", ())) > 1 for s in sources)
    several = trace.run.origin_ns is None and runs > 1
    if several and (not {"source", "pid"} <= set(trace.events.schema.names) or by_clock(index_of(trace)).count > 1):
        return "clocks", "several, which cannot be held against each other: no span is given over all"
    return "span", format_span(span[1] - span[0])

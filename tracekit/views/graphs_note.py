"""The sentence of a table about device work that graphs launched: how much of it is of a known operator."""

from __future__ import annotations

from tracekit.index.graphs import COLUMNS, graph_work
from tracekit.index.trace_index import TraceIndex
from tracekit.model.units import percent, sentence_span

__all__ = ["graph_notes"]


def graph_notes(index: TraceIndex) -> list[str]:
    """Return what is known of the operators in CUDA and HIP graphs, nothing for a trace without graphs."""
    if not COLUMNS - {"raw_name"} <= set(index.events.column_names):
        return []
    graphs = graph_work(index)
    if graphs is None:
        return []
    ns, of_graph = graphs.host.work_ns, graphs.graph >= 0
    whole = int(ns[of_graph].sum())
    unknown = int(ns[of_graph & (graphs.call < 0)].sum())
    if not whole:
        return []
    if not unknown:
        return [f"kernels of graphs ({sentence_span(whole)}) belong to the operators that captured them"]
    rest = f"{sentence_span(unknown)} of {sentence_span(whole)} in graphs ({percent(unknown, whole)} %)"
    shown = "; the other kernels of graphs belong to the operators that captured them" if unknown < whole else ""
    return [f"operators not known: {rest} counts for what launched the graphs, see the view graphs{shown}"]

"""fluid's Profiling Report of what was recorded: the view and layout of `--compat fluid`, as Paddle 1.8 lays it out.

The time of an event is its time on the host for the state CPU, that of the GPU work launched in it for GPU, and the sum
of both for All. `events_of` and `gpu_ns` serve the Model Summary (`_model`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracekit.trace import Trace


def report_text(trace: Trace, *, state: str, sorted_key: str, tracer_option: str) -> str:
    """Return the report(s) of the ranges of a trace that have both ends.

    state: CPU, GPU or All; sorted_key: default, calls, total, max, min or ave; tracer_option: Default, OpDetail or
    AllOpDetail. Raises: TracekitError.
    """
    from tracekit import pipeline
    from tracekit.views.base import ViewOptions

    for source in trace.run.sources:
        source.facts |= {"state": state, "layout": "1.8"}
    options = ViewOptions(compat="fluid", sorted_by=sorted_key, op_detail=tracer_option != "Default")
    return pipeline.render(pipeline.summary(trace, options=options), compat="fluid")


def unfinished(trace: Trace) -> int:
    """Return how many ranges have no end."""
    import pyarrow.compute as pc

    found = pc.match_substring(trace.events.column("args"), '"unfinished":true')
    return int(pc.sum(found).as_py() or 0)


def events_of(trace: Trace) -> Any:
    """Return the events as a DataFrame, by start, longest first; overlapping ranges have the thread of their begin."""
    columns = ["ts_ns", "dur_ns", "name", "kind", "source", "pid", "tid", "correlation", "args"]
    events = trace.events.select(columns).to_pandas()
    events["kind"] = events["kind"].astype(str)
    events["args"] = events["args"].astype("string").fillna("")
    began = events["args"].str.extract(r'"tid":(\d+)', expand=False).astype("Int64")
    events["tid"] = events["tid"].astype("Int64").fillna(began)
    return events


def gpu_ns(ranges: Any, calls: Any, work: Any) -> Any:
    """Return for each range how long the work ran whose launch lies in it, on its thread."""
    import numpy as np

    spent = np.zeros(len(ranges), np.int64)
    sums = work.groupby(["source", "pid", "correlation"])["dur_ns"].sum().rename("work_ns").reset_index()
    launches = calls.merge(sums, on=["source", "pid", "correlation"]).sort_values("ts_ns")
    for thread, found in launches.groupby(["pid", "tid"]):
        mine = np.flatnonzero((ranges["pid"] == thread[0]) & (ranges["tid"] == thread[1]))
        at = found["ts_ns"].to_numpy("int64")
        total = np.concatenate(([0], np.cumsum(found["work_ns"].to_numpy("int64"))))
        first = np.searchsorted(at, ranges["ts_ns"].to_numpy("int64")[mine], "left")
        last = np.searchsorted(at, ranges["end_ns"].to_numpy("int64")[mine], "right")
        spent[mine] = total[last] - total[first]
    return spent

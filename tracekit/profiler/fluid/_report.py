"""fluid's Profiling Report of a recording: the view and layout of `--compat fluid`, as Paddle 1.8 lays it out.

The time of an event is its time on the host for the state CPU, the time of the GPU work launched in it for GPU, and
the sum of both for All.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from tracekit.columns import args

    return int(args.flags(trace.events.column("args"), "unfinished").sum())

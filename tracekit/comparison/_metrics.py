"""Metrics that runs are compared by: their names, units and meanings."""

from __future__ import annotations

import re

from tracekit.errors import UsageError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.units import Unit
from tracekit.options import did_you_mean

METRICS: dict[str, tuple[Unit, str]] = {
    "step.mean": (Unit.NS, "mean time of a step after warm-up"),
    "step.p50": (Unit.NS, "median of the steps"),
    "step.p95": (Unit.NS, "95th percentile of the steps"),
    "step.p99": (Unit.NS, "99th percentile of the steps"),
    "step.max": (Unit.NS, "longest step after warm-up"),
    "device.busy": (Unit.NS, "time with work on the device, in a step; without steps, in the run"),
    "device.idle": (Unit.NS, "step time without work on the device"),
    "device.total": (Unit.NS, "sum of kernels, copies and memsets, a step or a run"),
    "kernel.total": (Unit.NS, "sum of kernels, a step or a run"),
    "kernel.avg": (Unit.NS, "mean time of a kernel"),
    "kernel.calls": (Unit.COUNT, "kernels, a step or a run"),
    "copy.total": (Unit.NS, "sum of copies and memsets, a step or a run"),
    "copy.calls": (Unit.COUNT, "copies and memsets, a step or a run"),
    "operator.total": (Unit.NS, "sum of the self times of operators on the host, a step or a run"),
    "operator.calls": (Unit.COUNT, "operators called, a step or a run"),
    "api.total": (Unit.NS, "sum of CUDA runtime and driver calls, waits included, a step or a run"),
    "api.calls": (Unit.COUNT, "CUDA runtime and driver calls, a step or a run"),
    "memory.peak": (Unit.BYTES, "most bytes held at once, as in the view memory"),
}
NAMED = dict.fromkeys(("kernel", "copy", "operator", "api"), ("total", "avg", "calls"))
HOST = ("operator", "api")
_OF_BATCH = {"peak_memory": "memory.peak"}
"""Key figures of a batch that are a metric by another name."""
_NAMED = re.compile(r'(?P<what>\w+)\[\s*"(?P<name>.*)"\s*\]\.(?P<field>\w+)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """One of METRICS, or a metric of one name, such as what "kernel", field "avg". text: the user's spelling."""

    text: str
    what: str
    field: str
    name: str | None
    unit: Unit


def parse_metric(text: str) -> ComparedMetric:
    """Return the metric of "step.p50" or 'kernel["name"].avg'. Raises: UsageError with the list of metrics.

    "step_p50" is "step.p50": the keys of a batch's index.json are written like that.
    """
    text = text.strip()
    if re.fullmatch(r"\w+", text):
        text = _OF_BATCH.get(text, text.replace("_", ".", 1))
    if text in METRICS:
        what, _, field = text.partition(".")
        return ComparedMetric(text, what, field, None, METRICS[text][0])
    found = _NAMED.fullmatch(text)
    if found and found["what"] in NAMED and found["field"] in NAMED[found["what"]]:
        unit = Unit.COUNT if found["field"] == "calls" else Unit.NS
        return ComparedMetric(text, found["what"], found["field"], found["name"].replace('\\"', '"'), unit)
    raise UsageError(f"{text}: not a metric{did_you_mean(text, METRICS)}", hint=metric_hint())


def metric_hint() -> str:
    """Return the list of metrics as text."""
    named = ", ".join(f'{what}["NAME"].{"|".join(fields)}' for what, fields in NAMED.items())
    return f"one of: {', '.join(METRICS)}, {named}"

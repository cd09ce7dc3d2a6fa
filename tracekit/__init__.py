"""tracekit: reads the profiles of GPU and deep-learning programs, exactly, and tells what it did with each record.

    trace = tracekit.read("run.csv")
    trace.to_pandas()
    tracekit.view(trace, "kernel").to_pandas()
    tracekit.write(trace, "run.json.gz")
    tracekit.convert("run.csv", "run.parquet")
    tracekit.write_report(trace, "run.html")

Public names are loaded on first use, so that `import tracekit.recorder` inside a training program stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit._version import __version__

if TYPE_CHECKING:
    from tracekit.pipeline import convert, inspect, read, summary, view, write, write_report
    from tracekit.trace import Trace

_HOME = {
    "read": "tracekit.pipeline",
    "convert": "tracekit.pipeline",
    "write": "tracekit.pipeline",
    "view": "tracekit.pipeline",
    "summary": "tracekit.pipeline",
    "write_report": "tracekit.pipeline",
    "inspect": "tracekit.pipeline",
    "Trace": "tracekit.trace",
}

__all__ = ["Trace", "__version__", "convert", "inspect", "read", "summary", "view", "write", "write_report"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'tracekit' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

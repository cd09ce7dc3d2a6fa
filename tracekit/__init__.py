"""tracekit: read the profiles of GPU and deep-learning programs, exactly, with an account of every record.

    trace = tracekit.read("run.csv")
    trace.to_pandas()
    tracekit.view("run.csv", "kernel").to_pandas()
    tracekit.summary("run.csv").show()
    tracekit.convert("run.csv", "run.parquet")
    tracekit.write_report("run.csv", "run.html")

Public names are loaded on first use, so that `import tracekit.recorder` inside a training program stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tracekit._version import __version__

if TYPE_CHECKING:
    from tracekit import archive, batch, doctor, errors, recorder
    from tracekit.api import compare, convert, explain, inspect, limits, query, read, report, summary, view, write
    from tracekit.api import write_report as write_report
    from tracekit.comparison import Comparison
    from tracekit.errors import (
        AllInputsError,
        AmbiguousFormatError,
        ArgumentTypeError,
        InputError,
        LimitError,
        MissingExtraError,
        NoSuchPlaceError,
        OutputError,
        OutputExistsError,
        ParseError,
        SchemaError,
        ScratchError,
        TracekitError,
        UnknownFormatError,
        UnknownNameError,
        UnsupportedVersionError,
        UsageError,
    )
    from tracekit.inputs import InputOptions
    from tracekit.inputs.selection import Selection
    from tracekit.model.report import Report, ReportTable, Section
    from tracekit.model.trace import Trace
    from tracekit.safety.anonymize import Anonymizer
    from tracekit.views.base import ViewOptions

__all__ = [
    "AllInputsError",
    "AmbiguousFormatError",
    "Anonymizer",
    "ArgumentTypeError",
    "Comparison",
    "InputError",
    "InputOptions",
    "LimitError",
    "MissingExtraError",
    "NoSuchPlaceError",
    "OutputError",
    "OutputExistsError",
    "ParseError",
    "Report",
    "ReportTable",
    "SchemaError",
    "ScratchError",
    "Section",
    "Selection",
    "Trace",
    "TracekitError",
    "UnknownFormatError",
    "UnknownNameError",
    "UnsupportedVersionError",
    "UsageError",
    "ViewOptions",
    "__version__",
    "archive",
    "batch",
    "compare",
    "convert",
    "doctor",
    "errors",
    "explain",
    "inspect",
    "limits",
    "query",
    "read",
    "recorder",
    "report",
    "summary",
    "view",
    "write",
    "write_report",
]

_CLASSES = {
    "Anonymizer": "tracekit.safety.anonymize",
    "Comparison": "tracekit.comparison",
    "InputOptions": "tracekit.inputs",
    "Report": "tracekit.model.report",
    "ReportTable": "tracekit.model.report",
    "Section": "tracekit.model.report",
    "Selection": "tracekit.inputs.selection",
    "Trace": "tracekit.api",
    "ViewOptions": "tracekit.views.base",
}
_CLASSES |= dict.fromkeys((name for name in __all__ if name.endswith("Error")), "tracekit.errors")
_MODULES = ("archive", "batch", "doctor", "errors", "recorder")


def __getattr__(name: str) -> object:
    if name in _CLASSES:
        return getattr(import_module(_CLASSES[name]), name)
    if name in _MODULES:
        return import_module(f"tracekit.{name}")
    if name in __all__:
        return getattr(import_module("tracekit.api"), name)
    raise AttributeError(f"module 'tracekit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

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

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from tracekit._version import __version__

if TYPE_CHECKING:
    from tracekit import archive, errors
    from tracekit.api import compare, convert, explain, inspect, limits, query, read, report, summary, view, write
    from tracekit.api import write_report as write_report
    from tracekit.errors import (
        AllInputsError,
        AmbiguousFormatError,
        InputError,
        LimitError,
        MissingExtraError,
        OutputError,
        OutputExistsError,
        ParseError,
        SchemaError,
        ScratchError,
        TracekitError,
        UnknownFormatError,
        UnsupportedVersionError,
        UsageError,
    )
    from tracekit.inputs import InputOptions
    from tracekit.inputs.selection import Selection
    from tracekit.privacy.anonymous import Anonymizer
    from tracekit.report import Report
    from tracekit.trace import Trace
    from tracekit.views.base import ViewOptions

__all__ = [
    "AllInputsError",
    "AmbiguousFormatError",
    "Anonymizer",
    "InputError",
    "InputOptions",
    "LimitError",
    "MissingExtraError",
    "OutputError",
    "OutputExistsError",
    "ParseError",
    "Report",
    "SchemaError",
    "ScratchError",
    "Selection",
    "Trace",
    "TracekitError",
    "UnknownFormatError",
    "UnsupportedVersionError",
    "UsageError",
    "ViewOptions",
    "__version__",
    "archive",
    "compare",
    "convert",
    "errors",
    "explain",
    "inspect",
    "limits",
    "query",
    "read",
    "report",
    "summary",
    "view",
    "write",
    "write_report",
]

_CLASSES = {
    "Anonymizer": "tracekit.privacy.anonymous",
    "InputOptions": "tracekit.inputs",
    "Report": "tracekit.report",
    "Selection": "tracekit.inputs.selection",
    "Trace": "tracekit.trace",
    "ViewOptions": "tracekit.views.base",
}
_CLASSES |= dict.fromkeys((name for name in __all__ if name.endswith("Error")), "tracekit.errors")
_MODULES = ("archive", "errors")


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


class _PublicFunction:
    """A function of `tracekit.api` whose name is also that of a module of tracekit.

    When Python imports a module it also sets that name on the package, so `tracekit.report` would be the function or
    the module, depending on what was imported before. It is always the function; modules are imported by their names
    (`from tracekit.report import Report`).
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, package: ModuleType | None, _: type | None = None) -> object:
        return getattr(import_module("tracekit.api"), self._name)

    def __set__(self, package: ModuleType, module: object) -> None:
        """Keep the function."""


class _Package(ModuleType):
    compare = _PublicFunction("compare")
    explain = _PublicFunction("explain")
    query = _PublicFunction("query")
    report = _PublicFunction("report")


sys.modules[__name__].__class__ = _Package

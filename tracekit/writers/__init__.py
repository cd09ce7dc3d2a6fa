"""WRITERS: one line a target; plugins add theirs. A new target is one module and one line here; the order is free."""

from __future__ import annotations

from importlib import import_module

from tracekit.plugins import plugins
from tracekit.writers.base import Writer

_MODULES: tuple[str, ...] = (
    "chrome.trace",
    "csv",
    "cuda_profile",
    "paddle.fluid",
    "jsonl",
    "paddle.pb",
    "parquet",
    "perfetto.trace",
)

_OWN: dict[str, Writer] = {
    writer.name: writer for name in _MODULES for writer in import_module(f"tracekit.writers.{name}").WRITERS_HERE
}
WRITERS: dict[str, Writer] = _OWN | plugins("tracekit.writers", Writer, _OWN)

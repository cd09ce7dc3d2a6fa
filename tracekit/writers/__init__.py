"""WRITERS: one line a target. A new target is one file and one line here; the order has no meaning."""

from __future__ import annotations

from importlib import import_module

from tracekit.writers.base import Writer

_MODULES: tuple[str, ...] = (
    "chrome.trace",
    "csv",
    "cuda_profile",
    "paddle.fluid",
    "jsonl",
    "paddle.pb",
    "parquet",
)

WRITERS: dict[str, Writer] = {
    writer.name: writer for name in _MODULES for writer in import_module(f"tracekit.writers.{name}").WRITERS_HERE
}

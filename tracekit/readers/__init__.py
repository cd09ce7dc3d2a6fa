"""READERS: one line a format. A new format is one file and one line here; the order has no meaning."""

from __future__ import annotations

from importlib import import_module

from tracekit.readers.base import Reader

_MODULES: tuple[str, ...] = (
    "cuda_profile",
    "events_jsonl",
    "fluid_pb",
    "nvprof_csv",
    "nvprof_text",
    "paddle_pb",
    "parquet",
    "recorder_log",
)

READERS: dict[str, Reader] = {
    reader.name: reader for reader in (import_module(f"tracekit.readers.{name}").READER for name in _MODULES)
}

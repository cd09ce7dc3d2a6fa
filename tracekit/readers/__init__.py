"""READERS: one line a format. A new format is one file and one line here; the order has no meaning."""

from __future__ import annotations

from importlib import import_module

from tracekit.readers.base import Reader

_MODULES: tuple[str, ...] = (
    "caffe_time",
    "chrome_trace",
    "mini_caffe",
    "mxnet",
    "cuda_profile",
    "events_jsonl",
    "kineto",
    "fluid_pb",
    "fluid_report",
    "nsys_jsonl",
    "nsys_sqlite",
    "nsys_stats_csv",
    "mxnet_table",
    "nvprof_csv",
    "nvprof_sqlite",
    "nvprof_text",
    "paddle_json",
    "paddle_pb",
    "paddle_summary",
    "parquet",
    "recorder_log",
    "singa",
    "theano",
)

READERS: dict[str, Reader] = {
    reader.name: reader for reader in (import_module(f"tracekit.readers.{name}").READER for name in _MODULES)
}

"""READERS: one line a format. A new format is one file and one line here; the order has no meaning."""

from __future__ import annotations

from importlib import import_module

from tracekit.readers.base import Reader

_MODULES: tuple[str, ...] = (
    "archive.events_jsonl",
    "archive.parquet",
    "caffe.mini",
    "caffe.time",
    "chrome.trace",
    "cuda_profile.reader",
    "fluid.pb",
    "fluid.report",
    "kineto.reader",
    "mxnet.table",
    "mxnet.trace",
    "nsys.jsonl",
    "nsys.sqlite",
    "nsys.stats_csv",
    "nvprof.csv",
    "nvprof.sqlite",
    "nvprof.text",
    "paddle.json",
    "paddle.pb",
    "paddle.summary",
    "recorder_log.reader",
    "singa.reader",
    "theano.reader",
)

READERS: dict[str, Reader] = {
    reader.name: reader for reader in (import_module(f"tracekit.readers.{name}").READER for name in _MODULES)
}

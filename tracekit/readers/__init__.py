"""READERS: one line a format; plugins add theirs. A new format is one module and one line here; the order is free."""

from __future__ import annotations

from importlib import import_module

from tracekit.plugins import plugins
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

_OWN: dict[str, Reader] = {
    reader.name: reader for reader in (import_module(f"tracekit.readers.{name}").READER for name in _MODULES)
}
READERS: dict[str, Reader] = _OWN | plugins("tracekit.readers", Reader, _OWN)

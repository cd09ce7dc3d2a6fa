"""READERS: one line a format; plugins add theirs. A new format is one module and one line here; the order is free.

A module is imported when its format is asked for; recognition by content asks all of them.
"""

from __future__ import annotations

from tracekit.plugins import Registry
from tracekit.readers.base import Reader

_MODULES = {
    "events-jsonl": "archive.events_jsonl",
    "parquet": "archive.parquet",
    "mini-caffe": "caffe.mini",
    "caffe-time": "caffe.time",
    "chrome-trace": "chrome.trace",
    "cuda-profile": "cuda_profile.reader",
    "fluid-pb": "fluid.pb",
    "fluid-report": "fluid.report",
    "kineto": "kineto.reader",
    "mxnet-table": "mxnet.table",
    "mxnet": "mxnet.trace",
    "ncu": "ncu.reader",
    "nsys-jsonl": "nsys.jsonl",
    "nsys-report": "nsys.report.reader",
    "nsys-sqlite": "nsys.sqlite",
    "nsys-stats-csv": "nsys.stats_csv",
    "nvprof-csv": "nvprof.csv",
    "nvprof-sqlite": "nvprof.sqlite",
    "nvprof-text": "nvprof.text",
    "paddle-json": "paddle.json",
    "paddle-pb": "paddle.pb",
    "paddle-summary": "paddle.summary",
    "recorder-log": "recorder_log.reader",
    "firefox": "samples.firefox",
    "folded": "samples.folded",
    "pprof": "samples.pprof",
    "speedscope": "samples.speedscope",
    "rocpd": "amd.rocpd",
    "rocprof-csv": "amd.rocprof_csv",
    "rocprof-db": "amd.rocprof_db",
    "rocprof-json": "amd.rocprof_json",
    "rpd": "amd.rpd",
    "singa": "singa.reader",
    "theano": "theano.reader",
    "timemory": "timemory.reader",
    "torch-memory": "torch.memory",
    "torch-table": "torch.table",
    "perfetto": "perfetto.reader",
    "xplane": "xplane.reader",
}
READERS = Registry("tracekit.readers", Reader, "READER", _MODULES)

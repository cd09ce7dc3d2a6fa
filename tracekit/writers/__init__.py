"""WRITERS: one line a target; plugins add theirs. A new target is one module and one line here; the order is free."""

from __future__ import annotations

from tracekit.plugins import Registry
from tracekit.writers.base import Writer

_MODULES = {
    "chrome": "chrome.trace",
    "csv": "csv",
    "cuda-kvp": "cuda_profile",
    "cuda-csv": "cuda_profile",
    "firefox": "firefox.profile",
    "fluid-pb": "paddle.fluid",
    "jsonl": "jsonl",
    "otf2": "otf2.archive",
    "paddle-pb": "paddle.pb",
    "parquet": "parquet",
    "perfetto": "perfetto.trace",
    "speedscope": "speedscope.profile",
    "spreadsheet": "csv",
}
WRITERS = Registry("tracekit.writers", Writer, "WRITERS_HERE", _MODULES)

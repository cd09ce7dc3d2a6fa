"""CUPTI, clocks and windows are put in their place: there is no device here."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.profiler import _cupti as profiler_cupti
from tracekit.profiler import _window as profiler_gpu_rows
from tracekit.profiler import _window as profiler_window
from tracekit.profiler._cupti import Collected, Collector, CuptiUnavailableError, CuptiWork, clock_offset, load
from tracekit.profiler._window import NoteOnce, read_cpu, use_between
from tracekit.profiler.cuda import layout_of, microseconds, write_log
from tracekit.profiler.fluid import report_text
from tracekit.profiler.paddle._benchmark import BENCHMARK, Benchmark, BenchmarkFigures, BenchmarkTiming, Perf, perf_text

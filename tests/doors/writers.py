"""The parts of a batch, and the points at which Perfetto's tracks change, have oracles of their own."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.writers.jsonl import _cut as jsonl_cut
from tracekit.writers.perfetto._alike import AlikeObjects, Constant, alike_objects
from tracekit.writers.perfetto._arrows import POINTS, InputArrows, Points
from tracekit.writers.perfetto._wire import WireCells

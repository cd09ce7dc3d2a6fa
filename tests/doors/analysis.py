"""The longest path is held against an oracle of its own, part by part: graph, waits, doubts."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.analysis import critical_path as analysis_path_doubts
from tracekit.analysis import critical_path as analysis_path_gains
from tracekit.analysis import path_graph as analysis_path_build
from tracekit.analysis import path_graph as analysis_path_waits
from tracekit.analysis.path_graph import PathDevice, PathHost, PathNodes, Waits, pieces_of

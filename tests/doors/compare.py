"""Matching, measuring and judging are tried on profiles of a few kernels; no file shows each case alone."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.comparison._change import (
    FASTER,
    SAME,
    SLOWER,
    TOO_FEW_RUNS,
    UNKNOWN,
    Change,
    VerdictLimits,
)
from tracekit.comparison._inputs import RunInput, unique_runs
from tracekit.comparison._match import NameGroup, match
from tracekit.comparison._measure import Sides, changed, measure
from tracekit.comparison._metrics import METRICS, parse_metric
from tracekit.comparison._named import NamedRow, rows_meant
from tracekit.comparison._parts import (
    IDLE,
    ChangePart,
    ChangeParts,
    by_kind,
    by_name,
    device_parts,
    rounded,
    step_parts,
)
from tracekit.comparison._profile import Profile, profile_of
from tracekit.comparison._rules import MET, NOT_JUDGED, UNDECIDED, VIOLATED, judge_rule, parse_rule
from tracekit.comparison._signatures import Signature, bare_name
from tracekit.comparison._tree import TreeAmount
from tracekit.comparison._tree_parts import PARTS
from tracekit.comparison._tree_parts import mean_with as tree_mean_with
from tracekit.comparison._tree_parts import parts_of as tree_parts_of
from tracekit.comparison._tree_parts import whole_cells as tree_whole_cells

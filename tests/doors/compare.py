"""Matching, measuring and judging are tried on profiles of a few kernels; no file shows each case alone."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.compare._inputs import RunInput, unique_runs
from tracekit.compare._match import NameGroup, match
from tracekit.compare._measure import (
    FASTER,
    METRICS,
    SAME,
    SLOWER,
    UNKNOWN,
    Change,
    Limits,
    Sides,
    changed,
    measure,
    parse_metric,
)
from tracekit.compare._parts import rounded
from tracekit.compare._profile import Profile, profile_of
from tracekit.compare._report import device_parts, step_parts
from tracekit.compare._rules import MET, VIOLATED, judge_rule, parse_rule
from tracekit.compare._signature import Signature, bare_name

"""Clocks: how far one is from another, how fast it goes, and how sure that is."""

from __future__ import annotations

from tracekit.analysis.clocks.matched_collectives import LEAST_MEETINGS as LEAST_MEETINGS
from tracekit.analysis.clocks.matched_collectives import RankClocks as RankClocks
from tracekit.analysis.clocks.matched_collectives import align as align

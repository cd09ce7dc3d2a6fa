"""The patterns by which MXNet's tables are found in logs; the list of formats needs them, and nothing else of it."""

from __future__ import annotations

__all__ = ["LATE"]

LATE = (rb"Name +Total Count", rb"Profile Statistics[:.]", rb'\{\s*"(?:Time|Memory)"\s*:\s*\{')
"""Patterns that show a table behind the head of a long log."""

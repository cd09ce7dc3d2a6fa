"""Clocks: how far one is from another, how fast it goes, and how sure that is.

`matched_collectives` aligns the clocks of ranks, `bounds` and `line` those of devices and of logs.
"""

from __future__ import annotations

__all__: list[str] = []

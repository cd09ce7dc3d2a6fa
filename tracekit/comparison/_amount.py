"""The amount of one name: calls and time."""

from __future__ import annotations

from tracekit.lazy_dataclass import dataclass

Key = tuple[str, str]
"""Kind and name of device work."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Calls and total ns of one name. charged: ns of step time, only in steps after warm-up."""

    calls: int
    total: int
    charged: int = 0

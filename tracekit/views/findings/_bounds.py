"""Upper bounds of savings, the confidence that they allow, and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass

_UNLINKED = (
    "much of the device work names no launch call, so the upper bound is the time in which at least one of them ran"
)
_DOUBTFUL = (
    "the trace does not show which stream waits for which; the upper bound holds whether work that began as that of "
    "another stream ended waited for it or not"
)
_NOT_ON_PATH = "the trace has no host calls, so the upper bound is the time in which at least one of them ran"
LOWER = {"high": "medium", "medium": "low", "low": "low"}
"""The confidence one level lower."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound of savings. share: of the window. on_path: from the critical path, else from device time alone.

    doubtful: it would be smaller if no stream had waited for another but where a row or a call says so. unlinked: much
    device work names no launch call.
    """

    ns: int
    share: float
    on_path: bool
    doubtful: bool = False
    unlinked: bool = False


def sure(bound: Bound, confidence: str) -> str:
    """Return the confidence of a finding: low unless its upper bound is from the path, lower where that is doubtful."""
    if not bound.on_path:
        return "low"
    return LOWER[confidence] if bound.doubtful or bound.unlinked else confidence


def how(bound: Bound) -> str:
    """Return the end of the reason for the confidence: what the upper bound rests on, where that is not the path."""
    if not bound.on_path:
        return f"; {_NOT_ON_PATH}"
    if bound.unlinked:
        return f"; {_UNLINKED}"
    return f"; {_DOUBTFUL}" if bound.doubtful else ""

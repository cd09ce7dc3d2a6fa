"""The change of the host's call paths as a flame graph."""

from __future__ import annotations

from tracekit.compare._parts import ChangeParts
from tracekit.compare._profile import PATH
from tracekit.report import Flame

MOST_PATHS = 4_000
"""Call paths of the flame graph, those with the most time."""


def flame(whole: ChangeParts, per: str) -> Flame:
    """Return the call paths as a flame graph: each with the paths above it, which may have no time of their own."""
    largest = sorted(whole.rows, key=lambda part: -max(part.base, part.new))[:MOST_PATHS]
    place: dict[str, int] = {}
    for part in largest:
        names = part.label.split(PATH)
        for depth in range(len(names)):
            place.setdefault(PATH.join(names[: depth + 1]), len(place))
    base, new = [0] * len(place), [0] * len(place)
    for part in largest:
        base[place[part.label]], new[place[part.label]] = part.base, part.new
    left_out = len(whole.rows) - len(largest)
    return Flame(
        title=f"Host time of {per} by call path",
        names=[text.rpartition(PATH)[2] for text in place],
        parents=[place.get(text.rpartition(PATH)[0], -1) for text in place],
        base=base,
        new=new,
        left_out=f"{left_out:,} call paths with less time are left out" if left_out else "",
    )

"""Recognition of folded stacks, which have no mark: every text is asked, so a look at a few lines comes first."""

from __future__ import annotations

from tracekit.readers.base import Confidence
from tracekit.readers.head import Head

__all__ = ["sniff_folded"]

_FIRST = 12
"""Lines by which most other texts show that they are none of ours."""


def sniff_folded(head: Head) -> Confidence:
    """Return YES where most of the first lines are stacks and a number."""
    if not head.text or head.tables or not head.data[:1].strip() or head.data[:1] in b'{["':
        return Confidence.NO
    lines = [line.strip() for line in head.data.split(b"\n", _FIRST)[:_FIRST]]
    lines = [line for line in lines if line and not line.startswith((b"#", b"//"))]
    last = [line.replace(b".", b"").rsplit(None, 1)[-1:] for line in lines]  # empty for a line of points
    if 2 * sum(word[0].isdigit() for word in last if word) < len(lines):
        return Confidence.NO
    from tracekit.readers.samples import _lines

    return _lines.sniff(head)

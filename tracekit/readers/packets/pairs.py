"""Begins and ends of slices, matched by columns: rows come by track and time.

An end closes the innermost open slice of its track that has its name and category; an end that states none closes the
innermost one. Slices within it that are open end with it. Ends seldom state a name, so depth alone matches them: within
a track, begins and ends of the same depth take turns. Tracks in which names disagree are matched row by row.
"""

from __future__ import annotations

import numpy as np

from tracekit.columns.arrays import I32, I64, Mask

MOST_OPEN = 1 << 16
"""Slices of a track that wait for their end."""
_MOST_SEARCHED = 1 << 10


def match(track: I64, begins: Mask, name: I32, category: I32) -> I64:
    """Return for each begin the row of its end, and for each end that of its begin; -1 without one.

    track: shape (n,), ascending; rows of a track in order of time.
    """
    partner, odd = match_by_depth(track, begins, name, category)
    if len(odd):
        heads = np.flatnonzero(np.append(True, track[1:] != track[:-1]))
        ends = np.append(heads[1:], len(track))
        for at in np.searchsorted(track[heads], odd).tolist():
            _one_by_one(int(heads[at]), int(ends[at]), begins, name, category, partner)
    return partner


def match_by_depth(track: I64, begins: Mask, name: I32, category: I32) -> tuple[I64, I64]:
    """Return partners as `match` does, and the tracks in which names disagree: what they have is not right."""
    count = len(track)
    partner = np.full(count, -1, np.int64)
    if not count:
        return partner, track
    change = np.empty(count, np.bool_)
    change[0] = True
    np.not_equal(track[1:], track[:-1], out=change[1:])
    dense = np.cumsum(change) - 1
    step = np.where(begins, 1, -1)
    total = np.cumsum(step)
    heads = np.flatnonzero(change)
    before = np.append(0, total)[heads][dense]
    height = total - before  # within the track
    # The least height so far in the track, at most 0: ends below it have nothing to close.
    span = 2 * count + 2
    least = np.minimum.accumulate(np.minimum(height, 0) - dense * span) + dense * span
    least = np.minimum(least, 0)
    depth = height - least + np.where(begins, 0, 1)
    lost = ~begins & (height == least) & (np.append(0, least[:-1]) * ~change > least)
    kept = np.flatnonzero(~lost)
    order = kept[np.argsort(dense[kept] * span + depth[kept], kind="stable")]
    one, two = order[:-1], order[1:]
    pairs = begins[one] & ~begins[two] & (dense[one] == dense[two]) & (depth[one] == depth[two])
    partner[one[pairs]], partner[two[pairs]] = two[pairs], one[pairs]
    ends = two[pairs]
    odd = _differs(name, ends, partner[ends]) | _differs(category, ends, partner[ends])
    return partner, np.unique(track[ends[odd]])


def _differs(texts: I32, ends: I64, begins: I64) -> Mask:
    differs: Mask = (texts[ends] >= 0) & (texts[begins] >= 0) & (texts[ends] != texts[begins])
    return differs


def _one_by_one(first: int, last: int, begins: Mask, name: I32, category: I32, partner: I64) -> None:
    """Match the rows of one track as Perfetto's engine does: slices within one that ends, end with it."""
    partner[first:last] = -1
    stack: list[tuple[int, int, int]] = []
    rows = zip(
        range(first, last),
        begins[first:last].tolist(),
        name[first:last].tolist(),
        category[first:last].tolist(),
        strict=True,
    )
    for row, begin, text, group in rows:
        if begin:
            stack.append((row, text, group))
            if len(stack) > MOST_OPEN:
                del stack[0]
            continue
        for at in range(len(stack) - 1, max(len(stack) - _MOST_SEARCHED, 0) - 1, -1):
            other, own, own_group = stack[at]
            if (text < 0 or own < 0 or text == own) and (group < 0 or own_group < 0 or group == own_group):
                for inner, _, _ in stack[at:]:
                    partner[inner] = row
                partner[row] = other
                del stack[at:]
                break

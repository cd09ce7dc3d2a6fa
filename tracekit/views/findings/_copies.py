"""Rules of `findings` about copies: from pageable memory, tiny ones, and those that nothing hides."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tracekit.analysis.kernel_class import LONGEST_NAME
from tracekit.arrays import I64, Mask
from tracekit.report import Evidence, Finding
from tracekit.schema import Kind
from tracekit.views.findings._facts import Facts, Found, how, named, percent, row_of, span, sure

_PAGEABLE_ARGS = r'"(?:src|dst)_mem_type"\s*:\s*"Pageable"'
_TELLS_ARGS = r'"(?:src|dst)_mem_type"\s*:'
_TELLS_NAME = re.compile(r"Pageable|Pinned", re.IGNORECASE)


def pageable_copies(facts: Facts) -> Found:
    """Return copies from and to pageable memory that are not tiny."""
    copies = _copies(facts)
    if not copies.size:
        return Found(why_not="no copies are in the trace")
    told = _pageable(facts, copies)
    if told is None:
        return Found(why_not="no copy tells which kind of memory it is from or to")
    pageable = copies[told & ~_tiny(facts, copies)]
    found = []
    for owner in facts.looked_at():
        mine = facts.within(owner, pageable)
        if not mine.size:
            continue
        bound = facts.bound(owner, np.concatenate((mine, facts.calls_of(mine))))
        if bound.share < max(facts.thresholds["copy_share"], facts.thresholds["least_share"]):
            continue
        found.append(
            Finding(
                "pageable copies",
                facts.label(owner),
                f"{mine.size:,} {'copy' if mine.size == 1 else 'copies'} from or to pageable memory "
                f"{'takes' if mine.size == 1 else 'take'} {span(int(facts.lengths[mine].sum()))}"
                f"{_bytes(facts, mine)}: the driver stages them, and the host waits.",
                tuple(_copy_cells(facts, mine)),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the file names the memory; the ceiling is for copies and their calls that take no time, and pinned "
                "copies still take some" + how(bound),
                "Pin the host memory (pin_memory=True of the loader, cudaHostAlloc) and copy asynchronously "
                "(non_blocking=True), so that copies hide behind kernels.",
                "tracekit summary NEW --view memory_manipulation: the names say Pinned; --view breakdown: "
                "exposed_copies falls.",
            )
        )
    return Found(tuple(found))


def tiny_copies(facts: Facts) -> Found:
    """Return many small copies."""
    copies = _copies(facts)
    if not copies.size:
        return Found(why_not="no copies are in the trace")
    tiny = copies[_tiny(facts, copies)]
    if not facts.index.events.column("bytes").take(copies).is_valid().to_numpy(zero_copy_only=False).any():
        return Found(why_not="no copy tells its size")
    found = []
    for owner in facts.looked_at():
        mine = facts.within(owner, tiny)
        if mine.size < max(1.0, facts.thresholds["tiny_copies"]):
            continue
        calls = facts.calls_of(mine)
        bound = facts.bound(owner, np.concatenate((mine, calls)))
        if bound.share < max(facts.thresholds["copy_share"], facts.thresholds["least_share"]):
            continue
        host = f", and their calls {span(int(facts.lengths[calls].sum()))} of the host" if calls.size else ""
        found.append(
            Finding(
                "tiny copies",
                facts.label(owner),
                f"{mine.size:,} copies of less than {int(facts.thresholds['tiny_copy_bytes']):,} bytes take "
                f"{span(int(facts.lengths[mine].sum()))} of the device{host}.",
                tuple(_copy_cells(facts, mine)),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the ceiling is for these copies and their calls that take no time; a call that waits for earlier "
                "work would wait elsewhere" + how(bound),
                "Put small values together before copying, keep scalars on the device, and make constants there once.",
                "tracekit summary NEW --view memory_manipulation: fewer calls.",
            )
        )
    return Found(tuple(found))


def exposed_copies(facts: Facts) -> Found:
    """Return the time in which a device did nothing but copy, apart from what `pageable_copies` speaks of."""
    copies = _copies(facts)
    if not copies.size:
        return Found(why_not="no copies are in the trace")
    told = _pageable(facts, copies)
    copies = copies if told is None else copies[~told]
    work = facts.work.rows
    kernels = work[facts.kinds(Kind.KERNEL)[work]]
    found = []
    for owner in facts.looked_at():
        mine = facts.within(owner, copies)
        bare = facts.bare(owner, mine, kernels) if mine.size else None
        if bare is None or bare.share < facts.thresholds["exposed_copies_share"]:
            continue
        bound = facts.bound(owner, mine, most=bare.ns)
        if bound.share < facts.thresholds["least_share"] or not bound.ns:
            continue
        name, most = facts.most_common(mine, facts.lengths[mine])
        cells = ("exposed_copies", "exposed_copies_share")
        found.append(
            Finding(
                "exposed copies",
                facts.label(owner),
                f"For {percent(bare.share)} of its span ({span(bare.ns)}) the device copies and computes nothing, in "
                f"{mine.size:,} {'copy' if mine.size == 1 else 'copies'}{_bytes(facts, mine)}; "
                f"{named(name)} takes {span(most)} in all.",
                (
                    *facts.cells("breakdown", bare.device.name, cells, **row_of(bare.device)),
                    *_copy_cells(facts, mine),
                ),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the ceiling is for copies that take no time, and not more than the time in which they are all that "
                "the device does" + how(bound),
                "Copy on a stream of its own while kernels run (prefetch the next batch or the next layer's weights), "
                "keep on the device what is used again, and copy less: a lower precision, only what changed.",
                "tracekit summary NEW --view breakdown: exposed_copies falls.",
            )
        )
    return Found(tuple(found))


def _copies(facts: Facts) -> I64:
    work = facts.work.rows
    return work[facts.kinds(Kind.MEMCPY)[work]]


def _pageable(facts: Facts, copies: I64) -> Mask | None:
    """Return which copies are from or to pageable memory; None where no copy tells its memory."""
    codes, names = facts.names
    used = np.unique(codes[copies])
    args = facts.index.events.column("args").take(copies)

    def told(name: re.Pattern[str], in_args: str) -> Mask:
        fits = [c for c in used.tolist() if c >= 0 and name.search(names[c][:LONGEST_NAME])]
        by_args = pc.fill_null(pc.match_substring_regex(args, in_args), False)
        found: Mask = np.isin(codes[copies], fits) | by_args.to_numpy().astype(np.bool_)
        return found

    if not told(_TELLS_NAME, _TELLS_ARGS).any():
        return None
    return told(re.compile("Pageable", re.IGNORECASE), _PAGEABLE_ARGS)


def _tiny(facts: Facts, copies: I64) -> Any:
    column = facts.index.events.column("bytes").take(copies)
    large = int(min(facts.thresholds["tiny_copy_bytes"], 2**62))
    return column.fill_null(1 << 62).to_numpy() < large


def _bytes(facts: Facts, copies: I64) -> str:
    column = facts.index.events.column("bytes").take(copies)
    total = pc.sum(column).as_py()
    return "" if total is None else f" for {total:,} bytes"


def _copy_cells(facts: Facts, copies: I64) -> list[Evidence]:
    name, _ = facts.most_common(copies, facts.lengths[copies])
    return facts.cells("memory_manipulation", name, ("calls", "total"), name=name) if name else []

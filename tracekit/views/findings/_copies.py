"""Rules of `findings` about copies: from pageable memory, tiny ones, and exposed ones.

Exposed copies are those of the view `breakdown`: memsets are among them. A memset has no memory that it is from, and no
copy to be put together with, so the other two rules are about copies alone.
"""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.intervals import Ranges
from tracekit.analysis.kernel_class import LONGEST_NAME
from tracekit.analysis.segments import distinct
from tracekit.model import args, arrow, sets
from tracekit.model.arrow import I64, Chunked, Mask, pc
from tracekit.model.display import plural
from tracekit.model.report import Evidence, Finding
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.device import breakdown
from tracekit.views.findings import _facts
from tracekit.views.findings._facts import Bound, Facts, RuleResult, how, named, percent, row_of, span, sure
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.memory import manipulation

_MEMORY_KEYS = ("src_mem_type", "dst_mem_type")
_MEMORY_MEMBER = rf'"(?:{"|".join(_MEMORY_KEYS)})"\s*:'
_MEMORY_NAME = re.compile(r"Pageable|Pinned", re.IGNORECASE)
_PAGEABLE_NAME = re.compile(r"Pageable", re.IGNORECASE)


def pageable_copies(facts: Facts) -> RuleResult:
    """Return copies from and to pageable memory that are not tiny."""
    copies = _copies(facts)
    if not copies.size:
        return RuleResult(why_not=_no_copies(facts))
    from_pageable = _pageable(facts, copies)
    if from_pageable is None:
        return RuleResult(why_not="no copy names the memory that it is from or to")
    pageable = copies[from_pageable & ~_tiny(facts, copies)]
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.looked_at():
        mine = facts.within(owner, pageable)
        if not mine.size:
            continue
        calls = facts.calls_of(mine)
        bound = _without_waits(facts, owner, mine, calls, calls[:0])
        if bound.share < max(facts.thresholds["copy_share"], facts.thresholds["least_share"]):
            continue
        times[facts.label(owner)] = facts.ranges(mine, calls)
        found.append(
            Finding(
                "pageable copies",
                facts.label(owner),
                f"{mine.size:,} {'copy' if mine.size == 1 else 'copies'} from or to pageable memory "
                f"{'takes' if mine.size == 1 else 'take'} {span(int(facts.lengths[mine].sum()))}"
                f"{_bytes(facts, mine)}: the driver stages them, and the host waits.",
                tuple(_copy_cells(facts, owner, mine)),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the file names the memory; the upper bound is for copies and their calls that take no time and wait "
                "for nothing, and pinned copies still take some" + how(bound),
                "Pin the host memory (pin_memory=True of the loader, cudaHostAlloc) and copy asynchronously "
                "(non_blocking=True), so that copies hide behind kernels.",
                "tracekit summary NEW --view memory_manipulation: the names say Pinned; --view breakdown: "
                "exposed_copies falls.",
            )
        )
    return RuleResult(tuple(found), times=times)


def tiny_copies(facts: Facts) -> RuleResult:
    """Return many small copies."""
    copies = _copies(facts)
    if not copies.size:
        return RuleResult(why_not=_no_copies(facts))
    # A call that waits until a value has come to the host is needless synchronization, and not the cost of a copy.
    tiny = copies[_tiny(facts, copies) & ~_brings_back(facts, copies)]
    if not facts.index.has("bytes")[copies].any():
        return RuleResult(why_not="no copy has a size")
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.looked_at():
        mine = facts.within(owner, tiny)
        if mine.size < max(1.0, facts.thresholds["tiny_copies"]):
            continue
        calls = facts.calls_of(mine)
        around = _facts.operators(facts, calls, facts.launches_but(calls))
        bound = _without_waits(facts, owner, mine, calls, around)
        if bound.share < max(facts.thresholds["copy_share"], facts.thresholds["least_share"]):
            continue
        times[facts.label(owner)] = facts.ranges(mine, calls, around)
        host = f", and their calls {span(int(facts.lengths[calls].sum()))} of the host" if calls.size else ""
        found.append(
            Finding(
                "tiny copies",
                facts.label(owner),
                f"{mine.size:,} copies of less than {int(facts.thresholds['tiny_copy_bytes']):,} bytes take "
                f"{span(int(facts.lengths[mine].sum()))} of the device{host}.",
                tuple(_copy_cells(facts, owner, mine)),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the upper bound is for these copies, their calls and operators that do nothing else, if they take no "
                "time and wait for nothing; a call that waits for earlier work may have to wait elsewhere" + how(bound),
                "Put small values together before copying, keep scalars on the device, and make constants there once.",
                "tracekit summary NEW --view memory_manipulation: fewer calls.",
            )
        )
    return RuleResult(tuple(found), times=times)


def _without_waits(facts: Facts, owner: int, copies: I64, calls: I64, around: I64) -> Bound:
    """Return the upper bound if these copies were not there: nor their calls, nor the waits that belong to them.

    calls: of the copies. around: operators that do nothing else. A wait belongs to a copy if it is its own call, or
    lies in an operator that launches only such copies; without an operator, if it is the next call of the thread.
    """
    rows = np.concatenate((copies, calls, around))
    taken = facts.bound(owner, rows)
    if owner not in facts.graphs or not calls.size:
        return taken
    size = facts.index.events.num_rows
    waits = distinct(facts.graphs[owner].waits, size)
    gone = distinct(np.concatenate((calls, _facts.waits_with(facts, calls, waits))), size)
    bound = facts.without(owner, gone, rows)
    return bound if bound.ns > taken.ns else taken


def exposed_copies(facts: Facts) -> RuleResult:
    """Return the time in which a device only copies or sets memory, without what `pageable_copies` reports."""
    copies = _copies(facts, Kind.MEMCPY, Kind.MEMSET)
    if not copies.size:
        return RuleResult(why_not="the trace has neither copies nor memsets")
    pageable = _pageable(facts, copies)
    copies = copies if pageable is None else copies[~pageable]
    work = facts.work.rows
    kernels = work[facts.kinds(Kind.KERNEL)[work]]
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.looked_at():
        mine = facts.within(owner, copies)
        bare = facts.bare(owner, mine, kernels) if mine.size else None
        if bare is None or bare.share < facts.thresholds["exposed_copies_share"]:
            continue
        bound = facts.bound(owner, mine, most=bare.ns + bare.between)
        if bound.share < facts.thresholds["least_share"] or not bound.ns:
            continue
        times[facts.label(owner)] = facts.ranges(mine)
        name, most = facts.most_common(mine, facts.lengths[mine])
        cells = ("exposed_copies", "exposed_copies_share")
        found.append(
            Finding(
                "exposed copies",
                facts.label(owner),
                f"For {percent(bare.share)} of its span ({span(bare.ns)}) the device only {_does(facts, mine)}"
                f"{_bytes(facts, mine)}; "
                f"{named(name)} takes {span(most)} in all.",
                (
                    *facts.cells("breakdown", bare.device.name, cells, **row_of(bare.device)),
                    *_copy_cells(facts, owner, mine),
                ),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the upper bound is for copies that take no time, and not more than the time in which they are all "
                "that the device does, with the short idle times from one to the next" + how(bound),
                _COPY_LESS if _copies_of(facts, mine).size else _SET_LESS,
                "tracekit summary NEW --view breakdown: exposed_copies falls.",
            )
        )
    return RuleResult(tuple(found), times=times)


_COPY_LESS = (
    "Copy on a stream of its own while kernels run (prefetch the next batch or the next layer's weights), "
    "keep on the device what is used again, and copy less: a lower precision, only what changed."
)
_SET_LESS = (
    "Set less memory: allocate without a value where a kernel writes all of it (torch.empty), keep buffers from step "
    "to step, and clear gradients with set_to_none=True."
)


def _copies(facts: Facts, *kinds: Kind) -> I64:
    work = facts.work.rows
    return work[facts.kinds(*(kinds or (Kind.MEMCPY,)))[work]]


def _copies_of(facts: Facts, rows: I64) -> I64:
    """Return the copies among copies and memsets."""
    return rows[facts.kinds(Kind.MEMCPY)[rows]]


def _no_copies(facts: Facts) -> str:
    sets = _copies(facts, Kind.MEMSET).size
    return "the trace has memsets, and no copies" if sets else "the trace has no copies"


def _does(facts: Facts, rows: I64) -> str:
    """Return "copies, in 3 copies", "sets memory, in 1 memset" or "copies or sets memory, in ..."."""
    copies = _copies_of(facts, rows).size
    sets = rows.size - copies
    of_copies = f"{copies:,} {'copy' if copies == 1 else 'copies'}"
    counts = " and ".join(text for count, text in ((copies, of_copies), (sets, plural(sets, "memset"))) if count)
    verb = "copies or sets memory" if copies and sets else "copies" if copies else "sets memory"
    return f"{verb}, in {counts}"


def _pageable(facts: Facts, copies: I64) -> Mask | None:
    """Return for each copy whether it is from or to pageable memory; None where the memory of no copy is known."""
    by_args, known_by_args = _pageable_by_args(_of_copies(facts, "args", copies))
    if not (known_by_args.any() or _named_like(facts, copies, _MEMORY_NAME).any()):
        return None
    return by_args | _named_like(facts, copies, _PAGEABLE_NAME)


def _pageable_by_args(column: Chunked) -> tuple[Mask, Mask]:
    """Return for each row whether its args name pageable memory, and whether they name the memory at all."""
    pageable, known = np.zeros(len(column), np.bool_), np.zeros(len(column), np.bool_)
    rows = np.flatnonzero(arrow.bools(pc.match_substring_regex(column, _MEMORY_MEMBER)))
    if not rows.size:
        return pageable, known
    texts = arrow.take(column, rows)
    # In one object without escapes, a quoted word before a colon is a member of that object: no parser is needed.
    flat = arrow.bools(pc.match_substring_regex(texts, r"^\{[^{\\]*$"))
    known[rows] = flat
    pageable[rows] = flat & arrow.bools(pc.match_substring_regex(texts, rf'{_MEMORY_MEMBER}\s*"Pageable"'))
    nested = rows[~flat]
    if nested.size:
        encoded = arrow.take(column, nested).dictionary_encode()
        for key in _MEMORY_KEYS:
            codes, members = args.values(encoded, key)
            known[nested] |= codes >= 0
            pageable[nested] |= np.array([*(member == "Pageable" for member in members), False], np.bool_)[codes]
    return pageable, known


def _named_like(facts: Facts, copies: I64, pattern: re.Pattern[str]) -> Mask:
    codes, names = facts.names
    used = sets.unique(codes[copies]).tolist()
    return np.isin(codes[copies], [c for c in used if c >= 0 and pattern.search(names[c][:LONGEST_NAME])])


def _tiny(facts: Facts, copies: I64) -> Mask:
    large = int(min(facts.thresholds["tiny_copy_bytes"], 2**62))
    tiny: Mask = arrow.ints(_of_copies(facts, "bytes", copies), 1 << 62) < large
    return tiny


def _brings_back(facts: Facts, copies: I64) -> Mask:
    """Return for each copy whether it brings a value to the host, which waits for it: in its call, or in the next."""
    devices, launch = facts.devices, facts.launched.launch
    known = launch >= 0
    ends = facts.starts[launch] + facts.lengths[launch]
    waits = known & (ends >= devices.ends)
    size = facts.index.events.num_rows
    every = [distinct(own.waits, size) for own in facts.graphs.values()]
    if every:
        # With pinned memory the copy does not wait: the synchronize right behind it does.
        waits |= known & facts.marked(_facts.next_to(facts, np.concatenate(every), -1))[launch]
    return facts.marked(devices.rows[waits])[copies] & _facts.to_host(facts, copies)


def _bytes(facts: Facts, copies: I64) -> str:
    total = pc.sum(_of_copies(facts, "bytes", copies)).as_py()
    return "" if total is None else f" for {total:,} bytes"


def _of_copies(facts: Facts, column: str, copies: I64) -> Chunked:
    return arrow.take(facts.index.events.column(column), copies)


def _copy_cells(facts: Facts, owner: int, copies: I64) -> list[Evidence]:
    name, _ = facts.most_common(copies, facts.lengths[copies])
    return facts.own_cells(owner, "memory_manipulation", name, ("calls", "total"), name=name) if name else []


_COPY_SHARE = threshold(
    "copy_share", 0.02, Unit.RATIO, "Pageable copies and tiny copies: the least savings, as a share of the window."
)

PAGEABLE_COPIES = Rule(
    "pageable copies",
    pageable_copies,
    thresholds=(_COPY_SHARE,),
    columns=frozenset({"bytes", "args"}),
    args_of=frozenset({Kind.MEMCPY}),
    evidence=(manipulation.VIEW,),
    precedence=9,
)

TINY_COPIES = Rule(
    "tiny copies",
    tiny_copies,
    thresholds=(
        threshold("tiny_copy_bytes", 16_384, Unit.BYTES, "Tiny copies: the size below which a copy is tiny."),
        threshold("tiny_copies", 20, Unit.COUNT, "Tiny copies: the least number of them."),
        _COPY_SHARE,
    ),
    columns=frozenset({"bytes"}),
    evidence=(manipulation.VIEW,),
    precedence=10,
)

EXPOSED_COPIES = Rule(
    "exposed copies",
    exposed_copies,
    thresholds=(
        threshold(
            "exposed_copies_share", 0.1, Unit.RATIO, "Exposed copies: the least time, as a share of the device's span."
        ),
    ),
    evidence=(
        breakdown.VIEW,
        manipulation.VIEW,
    ),
    precedence=11,
)

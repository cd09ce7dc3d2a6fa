"""Rules of `findings` about rare, long work of the host that the trace names: API calls, and compilers."""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.intervals import Ranges, intersection, length, merge
from tracekit.analysis.segments import distinct
from tracekit.analysis.statistics import between
from tracekit.index.launches import named as named_like
from tracekit.index.steps import covered
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.patterns import found_in, rows_found
from tracekit.model.report import Finding
from tracekit.model.schema import API_CALLS, USER_RANGES, Kind
from tracekit.model.units import Unit
from tracekit.views.findings._facts import NO_PATH, NO_WORK, OPERATORS, Facts, RuleResult, how, named, span, sure
from tracekit.views.findings._starts import ALLOCATES, LEAST_ALLOCATIONS
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.tables import api, operator, user_defined

LONG_CALLS_NAME = "long host calls"
COMPILATION_NAME = "compilation"

# Calls that prepare: each takes long whenever it is made, so many short ones count as well.
_PREPARES = lazy_pattern(
    r".*(?:HostAlloc|MallocHost|MemAllocHost|HostMalloc|FreeHost|HostFree|HostRegister|HostUnregister"
    r"|(?:Module|Library)(?:Load|Unload|Get)|ModuleLoad|LoadFatBinary|FuncGetAttribute|FuncSetAttribute|FuncSetCacheConfig"
    r"|GetFuncBySymbol|GraphInstantiate|GraphExecDestroy|GetDeviceProperties|DeviceReset|CtxCreate|PrimaryCtx"
    r"|LinkCreate|LinkComplete|LinkAdd|CompileProgram|IpcOpen|IpcGet|MemGetInfo|DeviceEnablePeer|DeviceCanAccessPeer)"
)
# Calls whose length is that of what they wait for, or of a queue that is full.
_WAITS = lazy_pattern(r".*(?:Synchronize|memcpy|memset|wait|poll|query|sleep)|(?:nccl|rccl|mpi_|pmpi_)", re.IGNORECASE)
_LONG_CALL_NS = 100_000
"""The shortest API call that is long by itself, if its name says nothing."""
_LONG_LAUNCH_NS = 1_000_000
_LONG_LAUNCH = 20
"""How many times the median launch call a launch takes that does something else: it loads a module, or compiles."""
_IDLE = 0.5
"""The least part of a long launch in which the device is idle: behind a busy device it waits for a free place."""

_COMPILERS = lazy_pattern(
    r"dynamo_timed|(?<![a-z])(?:re)?compil(?:e|er|ing|ation)(?![a-z])|torchdynamo(?!.*cache lookup)|xlacompile"
    r"|pjrt\w*compile|jit\w*compile|(?:backend|graph|cluster|program|module|inner|fx|lower)_?compile(?!d)|build_?engine"
    r"|autotun|benchmark_all_configs|do_bench|find_?(?:best_?)?algo|^(?:scheduler|graphlowering)\.(?:codegen|run)",
    re.IGNORECASE,
)
_OPERATOR = lazy_pattern(r"^\w+::\w")
"""The names of operators of a framework's library: what one computes is in its name, such as a generated kernel."""
_PYTHON = lazy_pattern(
    r"_dynamo/convert_frame\.py|_inductor/(?:compile_fx|codecache|async_compile|graph)\.py|triton/compiler/|jax/\S*compiler\.py"
    r"|triton/runtime/(?:autotuner|jit)\.py\(\d+\): (?:_bench|compile|create_binder|_do_compile)|numba/\S*compiler\.py",
)
"""Python functions that compile: their file and function, as the profiler names them."""
_FILE = lazy_pattern(r"\.py\(\d+\)")
_TRIES = lazy_pattern(r"autotun|benchmark_all_configs|do_bench|find_?(?:best_?)?algo", re.IGNORECASE)
"""Names of compilers that launch kernels while they work: they time several of them."""
_COMPILED = lazy_pattern(r"torch-compiled region|torchdynamo cache lookup|compiledf(?:unction|xgraph)", re.IGNORECASE)
"""Ranges around compiled code: a long one has compiled it."""
_NUMBERS = lazy_pattern(r"[\d/:#. ]+$")
_LONGEST_NAME = 300
_LONG_REGION_NS = 1_000_000
_LONG_REGION = 10
"""How many times the median of its name a range around compiled code takes that compiles."""
_MOST_LAUNCHES = 1.0
"""Launches in a ms of a range: with more of them it runs the program, whatever its name."""
_SHOWN = 3
_FEW_LAUNCHES = 100


def _busy(facts: Facts, owner: int) -> Ranges:
    mine = facts.owners.codes[facts.work.rows] == owner
    return merge(facts.work.starts[mine], (facts.work.starts + facts.work.durations)[mine])


def _idle_share(facts: Facts, busy: Ranges, rows: I64) -> Mask:
    """Return which of these rows have the device idle for `_IDLE` of their time or more."""
    starts, lengths = facts.starts[rows], facts.lengths[rows]
    work = covered(busy, starts + lengths) - covered(busy, starts)
    found: Mask = (lengths > 0) & (lengths - work >= _IDLE * lengths)
    return found


def _later(facts: Facts, owner: int, rows: I64, *, start: bool = False) -> I64:
    """Return those of the rows that are the owner's, after its first work, and not in its first steps.

    start: also before its first work.
    """
    mine = facts.within(owner, rows)
    if not start:
        mine = mine[~facts.at_the_start(owner, mine)]
    for begin, end in zip(*facts.warm_up(owner), strict=True):  # few: the first steps
        mine = mine[(facts.starts[mine] < begin) | (facts.starts[mine] >= end)]
    found: I64 = mine
    return found


def long_calls(facts: Facts) -> RuleResult:
    """Return API calls that take long for what they do, while the device is idle: memory, modules, attributes."""
    if not facts.kinds(*API_CALLS).any():
        return RuleResult(why_not="the trace has no runtime or driver API calls")
    if not facts.work.rows.size:
        return RuleResult(why_not=NO_WORK)
    calls = np.flatnonzero(facts.kinds(*API_CALLS) & facts.timed)
    launch = facts.launched.launch
    launches = distinct(launch[launch >= 0], facts.index.events.num_rows)
    others = calls[~np.isin(calls, launches) & ~named_like(facts.index, calls, _WAITS)]
    prepares = named_like(facts.index, others, _PREPARES)
    others = others[prepares | (facts.lengths[others] >= _LONG_CALL_NS)]
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.graphs:
        busy = _busy(facts, owner)
        mine = _later(facts, owner, others)
        allocates = named_like(facts.index, mine, ALLOCATES)
        mine = mine[~allocates] if np.count_nonzero(allocates) >= LEAST_ALLOCATIONS else mine
        mine = sets.union(mine, _long_launches(facts, owner, launches))
        mine = mine[_idle_share(facts, busy, mine)]
        if not mine.size:
            continue
        taken = facts.ranges(mine)
        bound = facts.bounds(owner, [facts.nodes_of(owner, mine) | facts.inside(owner, mine)], most=length(taken))[0]
        if bound.share < max(facts.thresholds["long_calls_share"], facts.thresholds["least_share"]):
            continue
        times[facts.label(owner)] = taken
        name, _ = facts.most_common(mine, facts.lengths[mine])
        first = np.isin(mine, launches)
        some = facts.lengths[mine][first].sum() * 2 >= facts.lengths[mine].sum()
        found.append(
            Finding(
                LONG_CALLS_NAME,
                facts.label(owner),
                f"{plural(mine.size, 'long API call')} after the first work "
                f"{'takes' if mine.size == 1 else 'take'} {span(length(taken))}, and the device has no work "
                f"meanwhile: {_by_name(facts, mine)}."
                + (
                    " A launch this long loads or compiles the kernel, as the first launch of each does."
                    if some
                    else ""
                ),
                tuple(facts.cells("api", name, ("calls", "total"), name=name)),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the calls name what the host does; the upper bound is for calls that take no time" + how(bound),
                "Make these calls once, before the loop: allocate pinned memory once and keep it, load modules at the "
                "start (CUDA_MODULE_LOADING=EAGER, or run each kernel once first), keep attributes of functions and "
                "instantiated graphs.",
                f"tracekit summary NEW --view api: total of {named(name)} falls.",
            )
        )
    return RuleResult(tuple(found), "" if facts.graphs else NO_PATH, times)


def _long_launches(facts: Facts, owner: int, launches: I64) -> I64:
    """Return launch calls that take many times what the owner's others do."""
    mine = facts.within(owner, launches)
    mine = mine[~named_like(facts.index, mine, _WAITS)]
    if not mine.size:
        return mine
    took = facts.lengths[mine]
    # More than half of few launches may be first ones: then the shorter half says what a launch takes.
    usual = between(took, 0.25 if mine.size < _FEW_LAUNCHES else 0.5)
    return _later(facts, owner, mine[took >= max(_LONG_LAUNCH_NS, _LONG_LAUNCH * usual)], start=True)


def _by_name(facts: Facts, rows: I64) -> str:
    """Return the names with most time among these rows, for a sentence."""
    codes, names = facts.names
    used, place = np.unique(codes[rows], return_inverse=True)
    took, count = np.zeros(used.size, np.int64), np.bincount(place, minlength=used.size)
    np.add.at(took, place, facts.lengths[rows])
    order = np.argsort(-took, kind="stable")
    shown = [
        f"{named(names[int(used[at])]) if used[at] >= 0 else 'without a name'} ({plural(int(count[at]), 'time')}, "
        f"{span(int(took[at]))})"
        for at in order[:_SHOWN].tolist()
    ]
    more = order.size - _SHOWN
    return ", ".join(shown) + (f" and {plural(more, 'other name')}" if more > 0 else "")


def compiling(facts: Facts) -> tuple[I64, bool]:
    """Return the rows of EVENTS in which a compiler runs, and whether the trace has names that could show it."""
    return facts.index.once((compiling,), lambda: _compiling(facts))


def _compiling(facts: Facts) -> tuple[I64, bool]:
    kinds = facts.kinds(*OPERATORS, *(USER_RANGES - {Kind.STEP, Kind.DATALOADER}))
    ranges = np.flatnonzero(kinds & facts.timed & facts.index.has("tid") & ~facts.index.has("device"))
    codes, names = facts.names
    compilers, tries, regions = (np.zeros(len(names) + 1, np.bool_) for _ in range(3))
    used = sets.unique(codes[ranges])
    used = used[used >= 0]
    texts = [names[code][:_LONGEST_NAME] for code in used.tolist()]
    tries[used], regions[used] = found_in(_TRIES, texts), found_in(_COMPILED, texts)
    by_name = np.where(found_in(_FILE, texts), found_in(_PYTHON, texts), found_in(_COMPILERS, texts))
    compilers[used] = by_name & ~regions[used] & ~found_in(_OPERATOR, texts)
    base = np.arange(len(names) + 1)
    bases: dict[str, int] = {}
    for code in used[regions[used]].tolist():
        base[code] = bases.setdefault(_NUMBERS.sub("", names[code][:_LONGEST_NAME]), code)
    named_so = ranges[compilers[codes[ranges]]]
    launched = np.sort(facts.starts[facts.calls_of(facts.devices.rows)])

    def quiet(rows: I64) -> Mask:
        starts = facts.starts[rows]
        count = np.searchsorted(launched, starts + facts.lengths[rows]) - np.searchsorted(launched, starts)
        found: Mask = count * 1e6 <= _MOST_LAUNCHES * facts.lengths[rows]
        return found

    # A range that launches all the time runs the program, whatever its name.
    sure = named_so[tries[codes[named_so]] | quiet(named_so)]
    around = ranges[regions[codes[ranges]]]
    took, of_base = facts.lengths[around], base[codes[around]]
    long = np.zeros(around.size, np.bool_)
    for name_code in sets.unique(of_base).tolist():  # few: the names of ranges around compiled code
        mine = of_base == name_code
        usual = float(np.median(took[mine])) if np.count_nonzero(mine) > 2 else 0.0
        long |= mine & (took >= max(_LONG_REGION_NS, _LONG_REGION * usual))
    # A region that is compiled again has a new number: one long one among many of a number is a pause like any other.
    order = np.argsort(facts.starts[around], kind="stable")
    _, first, exact = np.unique(codes[around][order], return_index=True, return_inverse=True)
    leads, of_name = np.zeros(around.size, np.bool_), np.zeros(around.size, np.int64)
    leads[order[first]], of_name[order] = True, exact
    usually = 2 * np.bincount(of_name[long], minlength=first.size) >= np.bincount(of_name, minlength=first.size)
    numbered = rows_found(_NUMBERS, names, codes[around])
    long &= leads | usually[of_name] | ~numbered
    around = around[long]
    return sets.union(sure, around[quiet(around)]), bool(named_so.size or regions[used].any())


def compilation(facts: Facts) -> RuleResult:
    """Return ranges of compilers after the first work: a shape or a branch that is new is compiled again."""
    rows, able = compiling(facts)
    if not able:
        return RuleResult(why_not="no range is named like a compiler")
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.graphs:
        mine = _later(facts, owner, rows)
        if not mine.size:
            continue
        taken = facts.ranges(mine)
        busy = length(intersection(taken, _busy(facts, owner)))
        bound = facts.bounds(owner, [facts.nodes_of(owner, mine) | facts.inside(owner, mine)], most=length(taken))[0]
        if bound.share < max(facts.thresholds["compilation_share"], facts.thresholds["least_share"]):
            continue
        times[facts.label(owner)] = taken
        outer = _outermost(facts, mine)
        name, _ = facts.most_common(mine, facts.lengths[mine])
        view = (
            "operator"
            if facts.kinds(*OPERATORS)[mine[facts.names[0][mine] == facts.names[1].index(name)]].any()
            else ""
        )
        cells = facts.cells(view or "user_defined", name, ("calls", "total"), name=name)
        found.append(
            Finding(
                COMPILATION_NAME,
                facts.label(owner),
                f"The program compiles {plural(outer.size, 'time')} after its first work, for {span(length(taken))} "
                f"in all: {_by_name(facts, mine)}. The device has work for {span(busy)} of that time.",
                tuple(cells),
                facts.ids(outer),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the names of the ranges say that a compiler runs; the upper bound is for ranges that take no time"
                + how(bound),
                "Find what changes from call to call: shapes (pad them, or mark them dynamic), Python values that the "
                "code depends on, dtypes. TORCH_LOGS=recompiles names the guard. Keep compiled and tuned kernels "
                "between runs, and compile before the part that counts.",
                f"tracekit summary NEW --view {view or 'user_defined'}: total of {named(name)} falls.",
            )
        )
    return RuleResult(tuple(found), "" if facts.graphs else NO_PATH, times)


def _outermost(facts: Facts, rows: I64) -> I64:
    """Return those of the rows that begin a stretch of time of all of them."""
    first, _ = facts.ranges(rows)
    order = rows[np.lexsort((-facts.lengths[rows], facts.starts[rows]))]
    found: I64 = order[np.searchsorted(facts.starts[order], first)]
    return found


LONG_CALLS = Rule(
    LONG_CALLS_NAME,
    long_calls,
    thresholds=(
        threshold(
            "long_calls_share", 0.05, Unit.RATIO, "Long host calls: the least savings, as a share of the window."
        ),
    ),
    evidence=(api.VIEW,),
    precedence=13,
)

COMPILATION = Rule(
    COMPILATION_NAME,
    compilation,
    thresholds=(
        threshold("compilation_share", 0.02, Unit.RATIO, "Compilation: the least savings, as a share of the window."),
    ),
    evidence=(operator.VIEW, user_defined.VIEW),
    precedence=12,
)

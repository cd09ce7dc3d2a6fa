"""Rules of `findings` about kernels: small ones, expensive ones, communication."""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.efficiency.formulas import DEFINED
from tracekit.analysis.intervals import Ranges
from tracekit.analysis.kernel_class import LONGEST_NAME
from tracekit.analysis.segments import compact_codes
from tracekit.index.kernel_classes import communicates
from tracekit.index.work_units import work_units
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Mask
from tracekit.model.patterns import rows_found
from tracekit.model.report import Evidence, Finding
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.device import breakdown
from tracekit.views.findings._facts import Bound, Facts, RuleResult, how, named, percent, row_of, span, sure
from tracekit.views.findings._slow_kernels import with_floor
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.tables import kernel

MOST_NAMES = 8
"""The number of kernels, by name, for which an upper bound is computed."""

# volta_sgemm, ampere_sgemm, ...convolve_sgemm, scudnn: fp32 on the plain cores; xmma and CUTLASS name their types.
_FP32_NAME = "fp32 arithmetic"
_FP32 = lazy_pattern(r"(?<![a-z0-9])sgemm|scudnn|simt_sgemm|f32f32_f32f32|gemm_fp32|gemmSN.*<float")
_TENSOR = lazy_pattern(r"tf32|tensorop|[sh]884|s1688|s16816|s161616|hmma|bf16|fp16|wgmma", re.IGNORECASE)
_NO_TENSOR_CORES = lazy_pattern(
    r"K[0-9]{2}|M[0-9]{2}\b|P4\b|P40|P100|GTX|TITAN X|Quadro [KMP]|GeForce (?:[6-9][0-9]{2}|MX)", re.IGNORECASE
)


def little_parallelism(facts: Facts) -> RuleResult:
    """Return kernels that compute in fewer blocks than the device has multiprocessors."""
    kernels = np.flatnonzero(facts.kinds(Kind.KERNEL))
    # A collective takes few blocks on purpose: the wires limit it, and it shares the device with what computes.
    kernels = kernels[~communicates(facts.index, kernels)] if kernels.size else kernels
    if not kernels.size:
        return RuleResult(why_not="the trace has no compute kernels")
    sizes = multiprocessors(facts)
    if not sizes:
        return RuleResult(why_not="the trace does not say how many multiprocessors a device has")
    blocks = np.ones(kernels.size, np.float64)
    for axis in "xyz":
        column = arrow.take(facts.index.events.column(f"grid_{axis}"), kernels)
        blocks *= arrow.ints(column)
    blocks[blocks <= 0] = np.nan
    if np.isnan(blocks).all():
        return RuleResult(why_not="no kernel has a grid")
    source = facts.index.ints("source")[kernels]
    device = arrow.ints(facts.index.events.column("device"), -1)[kernels]
    have = np.full(kernels.size, np.nan)
    for (src, number), count in sizes.items():
        have[(source == src) & (device == number)] = count
    idle = np.where(np.isnan(blocks) | np.isnan(have), 0.0, np.maximum(0.0, 1 - blocks / have))
    small = kernels[idle > 0]
    unused = np.zeros(facts.starts.size)
    unused[kernels] = idle
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.looked_at():
        mine = facts.within(owner, small)
        if not mine.size:
            continue
        unused_ns = round(float((unused[mine] * facts.lengths[mine]).sum()))
        bound = facts.bound(owner, mine, most=unused_ns)
        if bound.share < max(facts.thresholds["parallelism_share"], facts.thresholds["least_share"]):
            continue
        times[facts.label(owner)] = facts.ranges(mine)
        every = facts.within(owner, kernels)
        name, most = facts.most_common(mine, facts.lengths[mine])
        count = int(np.nanmax(have))
        found.append(
            Finding(
                "little parallelism",
                facts.label(owner),
                f"{mine.size:,} of {every.size:,} kernels have fewer blocks than the device has multiprocessors "
                f"({count}): they run {span(int(facts.lengths[mine].sum()))} and leave most of it unused. "
                f"{named(name)} is {span(most)} of that.",
                tuple(_kernel_cells(facts, owner, name)),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the upper bound spreads each of these kernels over all multiprocessors; other streams may use "
                "what one leaves" + how(bound),
                "Give the device more at once: a larger batch, batched or grouped kernels instead of many small ones, "
                "independent work on several streams, split-K for narrow products.",
                "tracekit summary NEW --view kernel: time of these names falls; tracekit query on grid_x, grid_y, "
                "grid_z.",
            )
        )
    return RuleResult(tuple(found), times=times)


def multiprocessors(facts: Facts) -> dict[tuple[int, int], int]:
    """Return the number of multiprocessors of each (input, device), where the file has it."""
    found: dict[tuple[int, int], int] = {}
    for number, device in properties_of(facts):
        count = device.get("numSms", device.get("multiProcessorCount"))
        ident = device.get("id")
        if isinstance(count, int) and isinstance(ident, int) and 0 < count < 1 << 20:
            found[number, ident] = count
    return found


def properties_of(facts: Facts) -> list[tuple[int, dict[str, object]]]:
    """Return the properties of each device, with the number of its input."""
    out: list[tuple[int, dict[str, object]]] = []
    for number, source in enumerate(facts.index.run.sources):
        listed = source.facts.get("deviceProperties")
        out += [(number, device) for device in (listed if isinstance(listed, list) else []) if isinstance(device, dict)]
    return out


def expensive_arithmetic(facts: Facts) -> RuleResult:
    """Return single kernels that take much of the critical path, and fp32 products that tensor cores could do."""
    kernels = _computing(facts)
    if not kernels.size:
        return RuleResult(why_not="the trace has no compute kernels")
    found = []
    times: dict[str, Ranges] = {}
    # Where the floor is known, the rule about slow kernels says how much of the time could go.
    floored = with_floor(facts)
    for owner in facts.looked_at():
        mine = facts.within(owner, kernels)
        if not mine.size:
            continue
        times[facts.label(owner)] = facts.ranges(mine)
        of_fp32, products = _fp32(facts, owner, mine)
        for name, rows, bound in _costly(facts, owner, mine[~floored[mine]]):
            # What these kernels compute in says more than that they take long.
            part_of = _FP32_NAME if of_fp32 and np.isin(rows, products).all() else ""
            calls = f"{rows.size:,} {'call' if rows.size == 1 else 'calls'}"
            found.append(
                Finding(
                    "expensive kernel",
                    facts.label(owner),
                    f"One kernel, {named(name)}, takes {span(int(facts.lengths[rows].sum()))} in {calls}: without it "
                    f"{facts.where(owner)} would be up to {percent(bound.share)} shorter.",
                    tuple(_kernel_cells(facts, owner, name)),
                    facts.ids(rows),
                    bound.ns,
                    bound.share,
                    "low",
                    "the time is certain; a trace does not show how far the kernel is from the limit of the device"
                    + how(bound),
                    "Look at this one first: a better algorithm or library call, a lower precision, fusion with its "
                    "neighbours, smaller shapes. A kernel profiler (ncu) shows whether memory or arithmetic limits it.",
                    f"tracekit summary NEW --view kernel: total of {named(name)} falls.",
                    part_of=part_of,
                )
            )
        found += of_fp32
    return RuleResult(tuple(found), times=times)


def _computing(facts: Facts) -> I64:
    """Return the kernels, with a known start, that do not communicate."""
    work = facts.work.rows
    kernels = work[facts.kinds(Kind.KERNEL)[work]]
    return kernels[~communicates(facts.index, kernels)] if kernels.size else kernels


def _costly(facts: Facts, owner: int, kernels: I64) -> list[tuple[str, I64, Bound]]:
    codes, names = facts.names
    low, high = facts.window(owner)
    least = facts.thresholds["kernel_share"]
    mine = codes[kernels]
    found, inverse = compact_codes(mine.astype(np.int64) + 1, len(names) + 1)
    found -= 1
    totals = np.zeros(found.size, np.int64)
    np.add.at(totals, inverse, facts.lengths[kernels])
    order = np.argsort(-totals, kind="stable")
    able = order[(found[order] >= 0) & (totals[order] >= least * (high - low))].tolist()
    out = []
    for i in able[:MOST_NAMES]:
        rows = kernels[inverse == i]
        bound = facts.bound(owner, rows)
        if bound.share >= max(least, facts.thresholds["least_share"]) and bound.ns:
            out.append((names[int(found[i])], rows, bound))
    return out


def _fp32(facts: Facts, owner: int, kernels: I64) -> tuple[list[Finding], I64]:
    """Return the finding about products in fp32, if it is worth it, and the kernels that compute them."""
    codes, names = facts.names
    rows = kernels[rows_found(_FP32, names, codes[kernels], LONGEST_NAME)]
    rows = rows[~rows_found(_TENSOR, names, codes[rows], LONGEST_NAME)]
    rows = rows[_may_have_tensor_cores(facts, rows)] if rows.size else rows
    if not rows.size:
        return [], rows
    taken, whole = int(facts.lengths[rows].sum()), int(facts.lengths[kernels].sum())
    if taken < facts.thresholds["fp32_share"] * whole:
        return [], rows
    floor_ns = _floors_in_16_bits(facts, rows)
    known = floor_ns > 0
    if known.any():
        losses = np.ceil(np.maximum(facts.lengths[rows] - floor_ns, 0.0)).astype(np.int64)
        bound = facts.shortened(owner, rows, losses)
    else:
        bound = facts.bound(owner, rows)
    if bound.share < facts.thresholds["least_share"] or not bound.ns:
        return [], rows
    name, _ = facts.most_common(rows, facts.lengths[rows])
    could = f" In 16 bits, this device could do {'this work' if known.all() else 'the known part of this work'} in "
    could = f"{could}{span(round(float(floor_ns.sum())))}." if known.any() else ""
    limit = (
        "The upper bound is for kernels that take no time"
        if not known.any()
        else "The upper bound is for kernels that reach the limit of the device in 16 bits"
        + (", and no time where their shapes are not known" if not known.all() else "")
    )
    judged = "by the names of kernels only" if not known.any() else "by the names of kernels, and by shapes"
    unseen = "" if known.all() else "whether the device has tensor cores for it and "
    made = [
        Finding(
            _FP32_NAME,
            facts.label(owner),
            f"Matrix products and convolutions in fp32 on the plain cores take {percent(taken / whole)} of the kernel "
            f"time ({span(taken)} in {rows.size:,} kernels, {named(name)} first).{could}",
            tuple(_kernel_cells(facts, owner, name)),
            facts.ids(rows),
            bound.ns,
            bound.share,
            "medium" if known.all() else "low",
            f"judged {judged}; {unseen}whether the program can do with less precision is not in the trace. {limit}"
            + how(bound),
            "Try mixed precision (amp) or, from the A100 on, TF32 (torch.backends.cuda.matmul.allow_tf32, "
            "NVIDIA_TF32_OVERRIDE=1), and compare the losses.",
            "tracekit summary NEW --view kernel: the names change to tensor-core kernels, and their total falls.",
        )
    ]
    return made, rows


def _floors_in_16_bits(facts: Facts, rows: I64) -> F64:
    """Return shape (n,), ns: the least time of each kernel, were its operands of 16 bits; 0 where that is not known.

    Kernels of one operator share its floor by their times.
    """
    floors = np.zeros(facts.starts.size)
    units = work_units(facts.index)
    if units is None:
        return floors[rows]
    floor_of_unit = np.zeros(len(units))
    for code, group in enumerate(units.groups):
        peaks = group.device.peaks
        rate = max((peaks.rates.get(each, 0.0) for each in ("bf16", "fp16")), default=0.0) if peaks is not None else 0.0
        if peaks is None or not rate or group.work.family not in DEFINED or not group.work.is_known:
            continue
        mine = units.group == code
        by_compute = units.flops[mine] / (rate * 1e3)
        by_memory = units.nbytes[mine] / 2 / peaks.memory_gbps
        floor_of_unit[mine] = np.maximum(by_compute, by_memory)
    inside = np.flatnonzero(units.of_work >= 0)
    of = units.of_work[inside]
    part = units.host.work_ns[inside] / np.maximum(units.ns[of], 1)
    floors[units.host.work[inside]] = floor_of_unit[of] * part
    return floors[rows]


def _may_have_tensor_cores(facts: Facts, rows: I64) -> Mask:
    """Return for each kernel whether its device may have tensor cores, by its model and compute capability."""
    lacking = {key for key, name in facts.index.run.devices.items() if _NO_TENSOR_CORES.search(name)}
    for number, properties in properties_of(facts):
        major, ident = properties.get("computeMajor"), properties.get("id")
        if isinstance(major, int) and isinstance(ident, int) and 0 < major < 7:
            lacking.add((number, ident))
    source = facts.index.ints("source")[rows].tolist()
    device = arrow.take(facts.index.events.column("device"), rows).to_pylist()
    return np.array([key not in lacking for key in zip(source, device, strict=True)], np.bool_)


def exposed_communication(facts: Facts) -> RuleResult:
    """Return the time in which a device did nothing but communicate."""
    work = facts.work.rows
    kernels = work[facts.kinds(Kind.KERNEL)[work]]
    talk = kernels[communicates(facts.index, kernels)] if kernels.size else kernels
    if not talk.size:
        return RuleResult(why_not="the trace has no collective kernels")
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.looked_at():
        mine = facts.within(owner, talk)
        if not mine.size:
            continue
        bare = facts.bare(owner, mine, kernels)
        if bare is None or bare.share < facts.thresholds["communication_share"]:
            continue
        bound = facts.bound(owner, mine, most=bare.ns + bare.between)
        if bound.share < facts.thresholds["least_share"] or not bound.ns:
            continue
        times[facts.label(owner)] = facts.ranges(mine)
        found.append(
            Finding(
                "exposed communication",
                facts.label(owner),
                f"For {percent(bare.share)} of its span ({span(bare.ns)}) the device only communicates, in "
                f"{mine.size:,} collectives.",
                tuple(
                    facts.cells(
                        "breakdown",
                        bare.device.name,
                        ("exposed_comm", "exposed_comm_share", "overlap_share"),
                        **row_of(bare.device),
                    )
                ),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "a collective also waits for the last rank to come; only the traces of all ranks show how much of it "
                "is waiting (view ranks)" + how(bound),
                "Start collectives earlier and in buckets so that backward hides them, send less (lower precision, "
                "fewer parameters, gradient accumulation), and look for the rank that comes last.",
                "tracekit summary NEW --view breakdown: exposed_comm falls, overlap_share rises.",
            )
        )
    return RuleResult(tuple(found), times=times)


def _kernel_cells(facts: Facts, owner: int, name: str) -> list[Evidence]:
    return facts.own_cells(owner, "kernel", name, ("calls", "total", "ratio"), name=name) if name else []


LITTLE_PARALLELISM = Rule(
    "little parallelism",
    little_parallelism,
    thresholds=(
        threshold(
            "parallelism_share", 0.05, Unit.RATIO, "Little parallelism: the least savings, as a share of the window."
        ),
    ),
    evidence=(kernel.VIEW,),
)

EXPENSIVE_ARITHMETIC = Rule(
    "expensive arithmetic",
    expensive_arithmetic,
    thresholds=(
        threshold(
            "kernel_share",
            0.25,
            Unit.RATIO,
            "Expensive kernel: the least savings of one name, as a share of the window.",
        ),
        threshold(
            "fp32_share",
            0.2,
            Unit.RATIO,
            "Fp32 arithmetic: the least time of fp32 kernels, as a share of all kernel time.",
        ),
    ),
    evidence=(kernel.VIEW,),
)

EXPOSED_COMMUNICATION = Rule(
    "exposed communication",
    exposed_communication,
    thresholds=(
        threshold(
            "communication_share",
            0.1,
            Unit.RATIO,
            "Exposed communication: the least time, as a share of the device's span.",
        ),
    ),
    evidence=(breakdown.VIEW,),
)

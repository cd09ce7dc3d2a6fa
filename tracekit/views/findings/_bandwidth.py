"""Rule of `findings` about collectives whose bus bandwidth is low against the best size of the same group."""

from __future__ import annotations

import numpy as np

from tracekit.index import collectives
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.report import Cell, Finding
from tracekit.model.units import Unit
from tracekit.views.findings._facts import Bound, Facts, RuleResult, how, size, span, sure, whole_percent
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.ranks import distributed

_LEAST_CALLS = 5
_LOW = 0.5
"""A size whose fastest collective reaches this share of the group's best bus bandwidth is not low."""


def low_bandwidth(facts: Facts) -> RuleResult:
    """Return message sizes of which even the fastest collective is slow against the best size of the same ranks."""
    table = next((each for each in facts.section("distributed").tables if each.name == "bandwidth"), None)
    if table is None:
        return RuleResult(why_not="no collective has a known size")
    columns = {column.name: column.values for column in table.columns}
    rows = [{name: values[i] for name, values in columns.items()} for i in range(len(table))]
    best: dict[tuple[Cell, Cell], float] = {}
    for each in rows:
        key = (each.get("dimension"), each["ranks"])
        best[key] = max(best.get(key, 0.0), _rate(each))
    found = []
    for each in rows:
        most = best[(each.get("dimension"), each["ranks"])]
        calls = int(str(each["calls"]))
        if not most or not _rate(each) or calls < _LEAST_CALLS or _rate(each) >= _LOW * most:
            continue
        kernels = _kernels(facts, each)
        bound, owner, total = _bound(facts, kernels, _rate(each) / most)
        if bound.share < max(facts.thresholds["bandwidth_share"], facts.thresholds["least_share"]):
            continue
        message = int(str(each["message"]))
        name = str(each["name"])
        found.append(
            Finding(
                "low bandwidth",
                facts.label(owner),
                f"{plural(calls, 'collective')} {name} of {size(message)} reach {_rate(each) / 1e9:.3g} GB/s of bus "
                f"bandwidth at best, {whole_percent(_rate(each) / most)} of the {most / 1e9:.3g} GB/s that the same "
                f"ranks reach with another size ({span(total)} in them).",
                tuple(
                    facts.cells(
                        "distributed",
                        f"{name} {message}",
                        ("best_bandwidth", "of_best"),
                        name=each["name"],
                        message=each["message"],
                    )
                ),
                facts.ids(kernels),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "the fastest collective of each size is compared, so waiting for other ranks does not count; the upper "
                "bound is for the group's best bandwidth" + how(bound),
                "If the messages are small, put several into one (larger buckets, coalesced collectives). If they are "
                "large, look at the links (nccl-tests, NCCL_DEBUG=INFO: the transport, the algorithm, the network) and "
                "at what shares them.",
                "tracekit summary NEW --view distributed: the bus bandwidth of this size rises.",
            )
        )
    return RuleResult(tuple(found))


def _rate(row: dict[str, Cell]) -> float:
    value = row["best_bandwidth"]
    return float(value) if isinstance(value, int | float) else 0.0


def _kernels(facts: Facts, row: dict[str, Cell]) -> I64:
    """Return the kernels of this operation, message size and number of ranks."""
    rows = collectives.kernels(facts.index)[0]
    described = collectives.described(facts.index, rows)
    kept = [
        (each.name or "(no name)") == row["name"]
        and (each.members or None) == row["ranks"]
        and distributed.message_bytes(each) == row["message"]
        for each in described
    ]
    found: I64 = rows[np.array(kept, np.bool_)]
    return found


def _bound(facts: Facts, kernels: I64, ratio: float) -> tuple[Bound, int, int]:
    """Return the largest bound of the owners if these kernels took that share of their time, its owner, their time."""
    best, who, most = Bound(0, 0.0, on_path=False), 0, 0
    for owner in sets.unique(facts.owners.codes[kernels]).tolist():
        rows = facts.within(owner, kernels)
        total = int(facts.lengths[rows].sum())
        bound = facts.bound(owner, rows, most=round(total * (1 - ratio)))
        if bound.ns > best.ns:
            best, who, most = bound, owner, total
    return best, who, most


LOW_BANDWIDTH = Rule(
    "low bandwidth",
    low_bandwidth,
    thresholds=(
        threshold("bandwidth_share", 0.05, Unit.RATIO, "Low bandwidth: the least savings, as a share of the window."),
    ),
    evidence=(distributed.VIEW,),
    joins_ranks=True,
)

"""inference: the latency of a network's queries, and the time of its layers with what each layer is (TensorRT).

Table `latency`: each part of a query as trtexec prints it: the least, the mean, the median, the most, and the
percentiles 90, 95 and 99. Table `throughput`: queries a second, the time that the host saw, and the part of it in which
the GPU computed. Table `layers`: the time of each layer, in the order of the engine. Its type, datatypes and tactic are
those of the layer with this name in a file of `--exportLayerInfo` that was read too. Where several such files have the
name, the one counts whose file name has most in common with that of the profile; where that is not one either, nothing
is shown.

The queries of `--exportTimes` are events: the view `kernel` has their times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from tracekit.index.sources import facts_by_source, source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.totals import TotalsRow, in_file_order, totals_rows

__all__ = ["VIEW"]

_TITLE = "Inference"
_LATENCY, _LAYERS, _INFO, _HEADER = "performance summary", "layers", "layer info", "header"
_FORMATS = frozenset({"tensorrt-profile", "tensorrt-layers", "tensorrt-log"})
_PERCENTS = ("90", "95", "99")
_MOST_TEXT = 400
_SHOWS = (
    ViewColumn("part", "Part", Unit.TEXT, "The part of a query, as trtexec names it."),
    ViewColumn("queries", "Queries", Unit.COUNT, "The number of queries that were timed."),
    ViewColumn("least", "Min", Unit.NS, "The shortest of all queries."),
    ViewColumn("mean", "Mean", Unit.NS, "The mean, as printed."),
    ViewColumn("median", "Median", Unit.NS, "The median, as printed."),
    ViewColumn("most", "Max", Unit.NS, "The longest of all queries."),
    *(
        ViewColumn(f"percentile_{each}", f"P{each}", Unit.NS, f"The {each}th percentile, as printed.")
        for each in _PERCENTS
    ),
    ViewColumn("qps", "Queries/s", Unit.NUMBER, "The throughput, as printed."),
    ViewColumn("walltime", "Host walltime", Unit.NS, "From the first query that was enqueued to the end of the last."),
    ViewColumn("compute", "GPU compute", Unit.NS, "The GPU compute times of all queries together."),
    ViewColumn("of_walltime", "Of walltime", Unit.RATIO, "GPU compute, as a share of the walltime."),
    ViewColumn("layer", "Layer", Unit.TEXT, "The name of the layer."),
    ViewColumn("type", "Type", Unit.TEXT, "The type of the layer, from the layer information."),
    ViewColumn("calls", "Calls", Unit.COUNT, "The number of queries that were profiled."),
    ViewColumn("total", "Total", Unit.NS, "The time of all queries in the layer."),
    ViewColumn("avg", "Avg", Unit.NS, "The mean time of a query in the layer."),
    ViewColumn("layer_median", "Median", Unit.NS, "The median time of a query in the layer."),
    ViewColumn("ratio", "Ratio", Unit.RATIO, "The share of the layers of the same table."),
    ViewColumn("inputs", "Inputs", Unit.TEXT, "Shapes and formats of the inputs."),
    ViewColumn("outputs", "Outputs", Unit.TEXT, "Shapes and formats of the outputs."),
    ViewColumn("tactic", "Tactic", Unit.TEXT, "The kernel that TensorRT chose, by name or number."),
)
_SHOWN = specs.by_key(_SHOWS)
_NEEDS = "needs outputs of TensorRT's trtexec: --exportProfile, --exportLayerInfo, or its log; this trace has none"


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables. Raises: UsageError for an unknown key of --sort."""
    sources = {number for number, facts in facts_by_source(index).items() if facts.format in _FORMATS}
    rows = [row for row in in_file_order(totals_rows(index)) if row["source"] in sources] if sources else []
    labels = source_labels(index)
    tables = [
        *_latency([row for row in rows if row["section"] == _LATENCY], labels, options),
        *_throughput([row for row in rows if row["section"] == _HEADER], labels, options),
        *_layers(index, rows, labels, options),
    ]
    if not tables:
        return Section(VIEW.name, _TITLE, notes=(_NEEDS, *tabulate.option_notes(options)))
    return Section(VIEW.name, _TITLE, tuple(tables), notes=tuple(tabulate.option_notes(options)))


def _table(name: str, title: str, columns: list[Column], options: ViewOptions) -> ReportTable:
    # The order is that of the engine, or of the log.
    blocks: list[tuple[Cell, ...]] = [(place,) for place in range(len(columns[0].values))]
    return tabulate.finish(name, title, columns, options, own_order="", blocks=blocks, top_each=False)


def _known(key: str, values: list[Cell], priority: int) -> list[Column]:
    return [_SHOWN[key].column(values, priority)] if any(value is not None for value in values) else []


def _places(rows: Sequence[TotalsRow], labels: dict[int, str]) -> list[Column]:
    columns = [
        specs.RUN.column([row["run"] for row in rows], 0),
        specs.SOURCE.column([source_label(labels, row["source"]) for row in rows], 2),
    ]
    return [column for column in columns if len(set(column.values)) > 1]


def _latency(rows: list[TotalsRow], labels: dict[int, str], options: ViewOptions) -> list[ReportTable]:
    if not rows:
        return []
    shares = [found if isinstance(found := row["args"].get("percentiles_ns"), dict) else {} for row in rows]
    columns = [
        _SHOWN["part"].column([row["name"] for row in rows]),
        *_places(rows, labels),
        *_known("queries", [row["calls"] for row in rows], 4),
        _SHOWN["least"].column([row["min_ns"] for row in rows], 2),
        _SHOWN["mean"].column([_whole(row["avg_ns"]) for row in rows], 1),
        _SHOWN["median"].column([row["median_ns"] for row in rows], 1),
        *(
            column
            for each in _PERCENTS
            for column in _known(f"percentile_{each}", [_integer(found.get(each)) for found in shares], 2)
        ),
        _SHOWN["most"].column([row["max_ns"] for row in rows], 2),
    ]
    return [_table("latency", "Latency of a query", columns, options)]


def _throughput(rows: list[TotalsRow], labels: dict[int, str], options: ViewOptions) -> list[ReportTable]:
    """Return a row for each run."""
    runs: dict[tuple[int, int], dict[str, TotalsRow]] = {}
    for row in rows:
        runs.setdefault((row["source"], row["run"]), {})[str(row["name"])] = row
    found = [each for each in runs.values() if "Throughput" in each]
    if not found:
        return []
    wall = [each["Total Host Walltime"]["total_ns"] if "Total Host Walltime" in each else None for each in found]
    busy = [each["Total GPU Compute Time"]["total_ns"] if "Total GPU Compute Time" in each else None for each in found]
    firsts = [each["Throughput"] for each in found]
    parts: list[Cell] = [part / of if part is not None and of else None for part, of in zip(busy, wall, strict=True)]
    columns = [
        *_places(firsts, labels),
        _SHOWN["qps"].column([row["value_avg"] for row in firsts]),
        *_known("walltime", list(wall), 1),
        *_known("compute", list(busy), 1),
        *_known("of_walltime", parts, 2),
    ]
    return [_table("throughput", "Throughput", columns, options)]


def _layers(
    index: TraceIndex, every: list[TotalsRow], labels: dict[int, str], options: ViewOptions
) -> list[ReportTable]:
    rows = [row for row in every if row["section"] == _LAYERS]
    infos: dict[str, list[TotalsRow]] = {}
    for row in every:
        if row["section"] == _INFO:
            infos.setdefault(str(row["name"]), []).append(row)
    if not rows and not infos:
        return []
    if not rows:
        # Layers without times: what they are is all that is known.
        rows = [row for row in every if row["section"] == _INFO]
    names = {number: Path(facts.path).name for number, facts in facts_by_source(index).items()}
    facts = [_info(row, infos.get(str(row["name"]), []), names) for row in rows]
    blocks: list[tuple[Cell, ...]] = [(row["source"], row["run"]) for row in rows]
    shares = tabulate.ratios([row["total_ns"] or 0 for row in rows], blocks)
    timed = any(row["total_ns"] is not None for row in rows)
    columns = [
        *_known("type", [_text(each.get("LayerType")) for each in facts], 1),
        *_known("calls", [row["calls"] for row in rows], 5),
        *_known("total", [row["total_ns"] for row in rows], 1),
        *_known("avg", [_whole(row["avg_ns"]) for row in rows], 1),
        *_known("layer_median", [row["median_ns"] for row in rows], 3),
        *([_SHOWN["ratio"].column(shares, 2)] if timed else []),
        *_known("inputs", [_tensors(each.get("Inputs")) for each in facts], 7),
        *_known("outputs", [_tensors(each.get("Outputs")) for each in facts], 7),
        *_known("tactic", [_tactic(each) for each in facts], 6),
        *_places(rows, labels),
        _SHOWN["layer"].column([row["name"] for row in rows]),
    ]
    return [_table("layers", "Layers", columns, options)]


def _info(row: TotalsRow, found: Sequence[TotalsRow], names: Mapping[int, str]) -> Mapping[str, object]:
    """Return what is known of a layer: of the only file with its name, or of the one that belongs to the profile."""
    if len({str(each["args"]) for each in found}) <= 1:
        return found[0]["args"] if found else {}
    own = names.get(row["source"], "")
    common = [_common(own, names.get(each["source"], "")) for each in found]
    nearest = [each for each, length in zip(found, common, strict=True) if length == max(common)]
    return nearest[0]["args"] if len({str(each["args"]) for each in nearest}) == 1 else {}


def _common(first: str, second: str) -> int:
    """Return how many characters two names have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _tensors(found: object) -> str | None:
    """Return shapes and formats of tensors, with at most some hundred characters."""
    if not isinstance(found, list) or not found:
        return None
    parts = []
    for each in found[:16]:
        if isinstance(each, dict):
            sizes = each.get("Dimensions")
            shape = "x".join(str(size) for size in sizes[:16]) if isinstance(sizes, list) else ""
            kind = _text(each.get("Format/Datatype")) or _text(each.get("Format")) or ""
            parts.append(f"{shape} {kind}".strip())
    more = [f"{len(found) - 16} more"] if len(found) > 16 else []
    return ", ".join([*parts, *more])[:_MOST_TEXT] or None


def _tactic(facts: Mapping[str, object]) -> str | None:
    name, number = _text(facts.get("TacticName")), _text(facts.get("TacticValue"))
    # A layer without a choice of kernels has the number zero.
    return name or (number if number and number.strip("0x") else None)


def _text(value: object) -> str | None:
    return value[:_MOST_TEXT] if isinstance(value, str) and value else None


def _whole(value: float | None) -> Cell:
    return round(value) if value is not None and abs(value) < 1 << 62 else None


def _integer(value: object) -> Cell:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


VIEW = View(
    name="inference",
    title=_TITLE,
    columns=frozenset(),
    kinds=frozenset(),
    compute=compute,
    shows=(*_SHOWS, specs.RUN, specs.SOURCE),
)

"""Paddle's Model Summary: steps and the phases in them, for as long as tracekit has no view `model`.

A phase inside of another phase is part of it and is not counted; a step is counted, and what is in it too. CPU: sums
over the occurrences, ratios to the time in steps (the union of all threads' steps). GPU: the kernels launched in them,
ratios to those launched in steps. Others: what the phases leave of the steps; below zero when phases run outside of
steps or side by side on several threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tracekit.profiler._fluid_table import events_of, gpu_ns

if TYPE_CHECKING:
    from tracekit.report import Cell, Section
    from tracekit.trace import Trace

PHASES: Final = {
    "step": "ProfileStep", "dataloader": "Dataloader", "forward": "Forward", "backward": "Backward",
    "optimizer": "Optimization",
}  # fmt: skip
OTHERS: Final = "Others"
TITLE: Final = "Model Summary"


def model_section(trace: Trace) -> Section:
    """Return the section; without steps, or with nothing but steps, it says so."""
    from tracekit.report import Column, ReportTable, Section
    from tracekit.units import Unit

    events = events_of(trace)
    kinds = events["kind"]
    rows = events[kinds.isin(list(PHASES)) & events["dur_ns"].notna() & events["tid"].notna()].copy()
    rows["host_ns"] = rows["dur_ns"].astype("int64")
    rows["end_ns"] = rows["ts_ns"] + rows["host_ns"]
    kernels = events[kinds == "kernel"]
    rows["gpu_ns"] = gpu_ns(rows, events[kinds.isin(["runtime", "driver"])], kernels)
    rows = rows[~_in_a_phase(rows)]
    found = [kind for kind in PHASES if (rows["kind"] == kind).any()]
    if "step" not in found or len(found) == 1:
        return Section("model", TITLE, notes=("needs steps, and forward, backward, dataloader or optimizer in them",))
    in_steps = _union(rows[rows["kind"] == "step"])
    cells: dict[str, list[Cell]] = {"name": [], "calls": []}
    for side in ("cpu", "gpu"):
        cells |= {f"{side}_{figure}": [] for figure in ("total", "avg", "max", "min", "ratio")}
    rest = {"cpu": in_steps, "gpu": int(rows[rows["kind"] == "step"]["gpu_ns"].sum())}
    whole = dict(rest)
    for kind in found:
        of = rows[rows["kind"] == kind]
        cells["name"].append(PHASES[kind] if kind == "step" else f"  {PHASES[kind]}")
        cells["calls"].append(len(of))
        for side, column in (("cpu", "host_ns"), ("gpu", "gpu_ns")):
            total = int(of[column].sum())
            figures = total, round(total / len(of)), int(of[column].max()), int(of[column].min())
            for figure, value in zip(("total", "avg", "max", "min"), figures, strict=True):
                cells[f"{side}_{figure}"].append(value)
            cells[f"{side}_ratio"].append(total / whole[side] if whole[side] else 0.0)
            rest[side] -= 0 if kind == "step" else total
    cells["name"].append(f"  {OTHERS}")
    cells["calls"].append(None)
    for side in ("cpu", "gpu"):
        cells[f"{side}_total"].append(rest[side])
        for figure in ("avg", "max", "min"):
            cells[f"{side}_{figure}"].append(None)
        cells[f"{side}_ratio"].append(rest[side] / whole[side] if whole[side] else 0.0)
    units = {"name": Unit.TEXT, "calls": Unit.COUNT}
    shown = [key for key in cells if len(kernels) or not key.startswith("gpu")]
    made = [
        Column(key, _title(key), units.get(key, Unit.RATIO if key.endswith("ratio") else Unit.NS), cells[key])
        for key in shown
    ]
    notes = ["CPU ratios: of the time in steps; GPU: kernels launched in each, ratios of those launched in steps"]
    if min(rest.values()) < 0:
        notes.append("Others is below zero: phases run outside of steps, or side by side on several threads")
    return Section("model", TITLE, (ReportTable("model", TITLE, tuple(made)),), notes=tuple(notes))


def _title(key: str) -> str:
    side, _, figure = key.partition("_")
    return f"{side.upper()} {figure}" if figure else side.capitalize()


def _in_a_phase(rows: Any) -> Any:
    """Return which rows lie in a phase that began before them on their thread. rows: by start, longest first."""
    ends = rows["end_ns"].where(rows["kind"] != "step", -1)
    threads = [rows["pid"], rows["tid"]]
    before = ends.groupby(threads).cummax().groupby(threads).shift(fill_value=-1)
    return rows["end_ns"] <= before


def _union(rows: Any) -> int:
    """Return the ns in which at least one of the ranges ran. rows: in order of start."""
    reach = rows["end_ns"].cummax().shift(fill_value=int(rows["ts_ns"].min()))
    return int((rows["end_ns"] - rows["ts_ns"].combine(reach, max)).clip(lower=0).sum())

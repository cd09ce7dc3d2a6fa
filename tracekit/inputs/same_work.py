"""Files of a folder that have the same work, of which one form is read.

An Ascend profiler writes each task into a database, a trace and tables.

`..._ascend_pt/ASCEND_PROFILER_OUTPUT` (torch_npu) and `PROF_*/mindstudio_profiler_output` (msprof) are such folders.
torch_npu keeps the `PROF_*` of msprof beside its own. Of the files of one run those of the richest form are read. Where
that is a table of kernels, the sums of calls, operators and steps are read too: no event has these.

`nsys recipe` writes the sums of each rank, of each device of each rank, and of all ranks: those of each rank are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from tracekit.lazy_pattern import lazy_pattern

__all__ = ["same_work"]

_FORMS = tuple(
    lazy_pattern(pattern)
    for pattern in (
        r"ascend_pytorch_profiler.*\.db",
        r"trace_view.*\.json(?:\.gz)?",
        r"msprof_.*\.db",
        r"msprof_.*\.json(?:\.gz)?",
        r"kernel_details.*\.csv",
        r"op_summary.*\.csv",
        r"task_time.*\.csv",
        r"(?:op_statistic|communication_statistic).*\.csv",
        r"(?:api_statistic|step_trace_time|operator_details).*\.csv",
    )
)
"""Names of files, from the form that has most of a run to those that have only sums."""
_TABLE, _OTHER_SUMS = 4, 8
"""The first form that has kernels alone, and that of sums of anything else."""
_OUTPUTS = ("ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output")
_OF_RECIPE = ("rank_stats.csv", "rank_stats_by_device.csv", "all_stats.csv")
"""Tables of one recipe, the one that is read first."""
_OF_MSPROF = lazy_pattern(r"PROF_[0-9A-Za-z_]+")


def same_work(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the files that need not be read, by the first file of their run that is.

    >>> same_work(["a/kernel_details.csv", "a/trace_view.json", "b/kernel_details.csv", "b/run.nsys-rep"])
    {'a/trace_view.json': ['a/kernel_details.csv']}
    """
    forms: dict[str, int] = {}
    for name in names:
        form = next((number for number, known in enumerate(_FORMS) if known.fullmatch(PurePath(name).name)), None)
        if form is not None:
            forms[name] = form
    beside = {PurePath(name).parent.parent for name in forms if PurePath(name).parent.name == _OUTPUTS[0]}
    runs: dict[PurePath, list[str]] = {}
    for name in forms:
        runs.setdefault(_run_of(PurePath(name), beside), []).append(name)
    found: dict[str, list[str]] = {}
    for files in runs.values():
        best = min(forms[name] for name in files)
        first = next(name for name in files if forms[name] == best)
        # Parts of one form belong together, such as slices of a table and the files of several devices.
        kept = {best, _OTHER_SUMS} if best >= _TABLE else {best}
        if others := [name for name in files if forms[name] not in kept]:
            found[first] = others
    return found | _of_recipes(names)


def _of_recipes(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the other tables of each recipe, by the one that is read.

    >>> _of_recipes(["a/all_stats.csv", "a/files.csv", "a/rank_stats.csv", "b/all_stats.csv"])
    {'a/rank_stats.csv': ['a/all_stats.csv']}
    """
    folders: dict[PurePath, list[str]] = {}
    for name in names:
        if PurePath(name).name in _OF_RECIPE:
            folders.setdefault(PurePath(name).parent, []).append(name)
    ranked = (sorted(files, key=lambda name: _OF_RECIPE.index(PurePath(name).name)) for files in folders.values())
    return {best: others for best, *others in ranked if others}


def _run_of(path: PurePath, beside: set[PurePath]) -> PurePath:
    """Return the folder of the run that a file belongs to. beside: folders with an output of torch_npu."""
    folder = path.parent
    for each in (folder, *folder.parents):
        if _OF_MSPROF.fullmatch(each.name):
            return each.parent if each.parent in beside else each
    return folder.parent if folder.name in _OUTPUTS else folder

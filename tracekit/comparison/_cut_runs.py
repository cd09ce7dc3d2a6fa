"""Runs that were cut, or lack a kind of rows that their siblings have: they are left out, and said at the top.

A run was cut if an input of it ends too early. The kinds are kernels, steps, operators and API calls. The runs of both
sides are siblings: they record one program. A side of which no run has a kind loses none of its runs for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracekit.analysis.siblings import lacking
from tracekit.comparison._inputs import LoadedRuns
from tracekit.comparison._profile import Profile
from tracekit.model.schema import Kind

_LAUNCH = "launch"
"""Part of the name of each call that launches a kernel, in lower case: cudaLaunchKernel, hipModuleLaunchKernel ..."""


def kinds_of_rows(run: Profile) -> frozenset[str]:
    """Return the kinds of rows that a run has, in words."""
    kinds = {kind for kind, _ in run.whole_host}
    present = {
        "kernels": any(kind == Kind.KERNEL for kind, _ in run.whole),
        "steps": run.step_count > 0,
        "operators": "operator" in kinds,
        "API calls": "api" in kinds,
    }
    return frozenset(word for word, is_present in present.items() if is_present)


def without_cut_runs(sides: Sequence[LoadedRuns]) -> tuple[list[LoadedRuns], list[str]]:
    """Return the sides without the runs that were cut or lack a kind of rows, and a sentence on each of these runs."""
    sides, cut = _without_runs_of_cut_inputs(sides)
    sides, lacks = _without_runs_that_lack_rows(sides)
    return sides, [*cut, *lacks]


def _without_runs_of_cut_inputs(sides: Sequence[LoadedRuns]) -> tuple[list[LoadedRuns], list[str]]:
    """Leave out the runs with a cut input, unless no run of their side is whole: then there is no verdict."""
    kept_sides, sentences = [], []
    for side in sides:
        whole = [number for number, profile in enumerate(side.profiles) if not profile.cut]
        if len(whole) in (0, len(side.profiles)):
            kept_sides.append(side)
            continue
        sentences += [f"{profile.label} was cut: {profile.cut}" for profile in side.profiles if profile.cut]
        kept_sides.append(_chosen(side, whole))
    return kept_sides, sentences


def _chosen(side: LoadedRuns, numbers: Sequence[int]) -> LoadedRuns:
    return replace(
        side, profiles=[side.profiles[number] for number in numbers], runs=[side.runs[number] for number in numbers]
    )


def _without_runs_that_lack_rows(sides: Sequence[LoadedRuns]) -> tuple[list[LoadedRuns], list[str]]:
    kinds = [kinds_of_rows(run) for side in sides for run in side.profiles]
    lacks = iter(lacking(kinds))
    kept_sides, sentences = [], []
    for side in sides:
        on_side = frozenset[str]().union(*map(kinds_of_rows, side.profiles))
        missing_of = [[kind for kind in next(lacks) if kind in on_side] for _ in side.profiles]
        # Runs that each lack what the others have are all kept: none of them is the standard.
        whole = [number for number, missing in enumerate(missing_of) if not missing]
        if len(whole) in (0, len(missing_of)):
            kept_sides.append(side)
            continue
        for profile, missing in zip(side.profiles, missing_of, strict=True):
            if missing:
                count = sum(missing[0] in each for each in kinds)
                what = " and no ".join(missing)
                sentences.append(f"{profile.label} (no {what}; {count:,} of {len(kinds):,} runs have {missing[0]})")
        kept_sides.append(_chosen(side, whole))
    return kept_sides, sentences


def why_no_verdict(base: Sequence[Profile], new: Sequence[Profile]) -> str:
    """Return why two sides cannot be compared: all runs of one were cut, or it lacks its kernels; "" if they can."""
    cut = [
        f"{word} was cut: {side[0].cut}"
        for word, side in (("BASE", base), ("NEW", new))
        if side and all(run.cut for run in side)
    ]
    return f"{'; '.join(cut)}, so there is no verdict" if cut else side_without_its_kernels(base, new)


def side_without_its_kernels(base: Sequence[Profile], new: Sequence[Profile]) -> str:
    """Return a sentence if one side launched kernels and shows none, while the other side shows some; else ""."""
    for word, side, other in (("base", base, new), ("new", new, base)):
        launched = any(kind == "api" and _LAUNCH in name.lower() for run in side for kind, name in run.whole_host)
        if launched and not _any_kernel(side) and _any_kernel(other):
            return f"{word} launches kernels and shows none of them: it may have been cut"
    return ""


def _any_kernel(runs: Sequence[Profile]) -> bool:
    return any("kernels" in kinds_of_rows(run) for run in runs)

"""Run a scenario, let tracekit read what its profiler would have written, and compare the findings with the truth."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tracekit
from benchmarks.truth import kineto, nsys, nvprof
from benchmarks.truth.machine import Rank, World, window
from benchmarks.truth.scenarios import HEALTHY, ILLS
from tracekit.model.report import Finding

SUFFIXES = {"kineto": "pt.trace.json", "nsys": "sqlite", "nvprof": "csv"}


@dataclass(frozen=True)
class Outcome:
    """The result of one case. place: of the right finding, 0 if it is missing. true, shown: savings in ns."""

    name: str
    variant: str
    seed: int
    true: int = 0
    place: int = 0
    shown: int = 0
    hidden: str = ""
    confidence: str = ""
    rules: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def write(ranks: Sequence[Rank], variant: str, folder: Path) -> list[Path]:
    """Write the files: one of each rank, or one of all processes on a device that Nsight Systems watches."""
    together = variant.startswith("nsys") and len({rank.device for rank in ranks}) < len(ranks)
    paths = []
    for rank in ranks[:1] if together else ranks:
        path = folder / f"rank{rank.number}.{SUFFIXES[variant.split('-')[0]]}"
        if variant.startswith("kineto"):
            kineto.write(rank, path, {"kineto-sync": "rows", "kineto-api": "calls", "kineto-bare": "none"}[variant])
        elif variant.startswith("nsys"):
            nsys.write(ranks if together else [rank], path, events=variant == "nsys")
        else:
            nvprof.write(rank, path)
        paths.append(path)
    return paths


def ill_case(name: str, variant: str, seed: int, keep: str = "") -> Outcome:
    """Return the outcome of a planted ill. keep: a folder for its files."""
    ill = next(each for each in ILLS if each.name == name)
    ranks, cured = ill.run(World(seed, ill.noise)), ill.cured(World(seed, ill.noise))
    true = max(window(rank) for rank in ranks) - max(window(rank) for rank in cured) if ill.gains else 0
    findings, notes = _findings(ranks, variant, keep)
    right = [place for place, each in enumerate(findings, 1) if each.rule in ill.rules]
    found = findings[right[0] - 1] if right else None
    if found is None and ill.noted and any(re.search(ill.noted, note, re.IGNORECASE) for note in notes):
        right = [1]  # a reservation that a note makes is not ranked
    known = {*ill.rules, *ill.consequences}
    return Outcome(
        name,
        variant,
        seed,
        true,
        right[0] if right else 0,
        found.saving_ns if found else 0,
        ill.hidden.get(variant, ""),
        found.confidence if found else "",
        ill.rules,
        _alarms(findings, known),
        findings,
        notes,
    )


def healthy_case(name: str, variant: str, seed: int, keep: str = "") -> Outcome:
    """Return the outcome of a healthy program."""
    healthy = next(each for each in HEALTHY if each.name == name)
    findings, notes = _findings(healthy.run(World(seed, healthy.noise)), variant, keep)
    return Outcome(name, variant, seed, alarms=_alarms(findings, set()), findings=findings, notes=notes)


def _alarms(findings: Sequence[Finding], known: set[str]) -> tuple[str, ...]:
    """Return the findings of medium or high confidence that have nothing to do with the ill."""
    sure = [each for each in findings if each.confidence != "low" and each.rule not in known]
    return tuple(f"{each.rule} {each.saving_ns / 1e6:.2f} ms ({each.share:.1%}, {each.confidence})" for each in sure)


def _findings(ranks: Sequence[Rank], variant: str, keep: str) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(keep or made)
        folder.mkdir(parents=True, exist_ok=True)
        paths = write(ranks, variant, folder)
        section = tracekit.view([str(path) for path in paths], "findings")
    return section.findings, section.notes

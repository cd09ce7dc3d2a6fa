"""The runs of a batch by program and format: only runs of one program are siblings, and only they make a trend.

Runs are of one program if their names differ only in numbers, their files have the same formats, and they share some of
the names that take most time in them. A failed run has no names, so it is with the runs of its own name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field

from tracekit.batch._store import RunResult, kind_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model.report import Report, ReportTable

__all__ = ["kind_of_result", "names_hashed", "programs_of"]

MOST_NAMES = 48
"""Names of a run that are compared, those with most time."""
LEAST_SHARED = 0.2
"""Share of the names of the run with fewer of them that two runs of one program have in common."""
_VIEWS = ("operator", "kernel", "model", "api")
"""Tables whose names a run is known by, as far as it has them; without any, its first table with names."""
_NOT_READ = "not read"


def names_hashed(report: Report) -> list[int]:
    """Return the names that take most time in a run, without their numbers, as 32-bit hashes in ascending order."""
    tables = [
        next((table for s in report.sections if s.view == view for table in s.tables if _has_names(table)), None)
        for view in _VIEWS
    ]
    found = [table for table in tables if table is not None]
    if not found:
        found = [t for section in report.sections for t in section.tables if _has_names(t)][:1]
    names = {kind_of(str(cell)) for table in found for cell in table.column("name").values[:MOST_NAMES] if cell}
    return sorted({zlib.crc32(name.encode("utf-8", "surrogatepass")) for name in names})


def _has_names(table: ReportTable) -> bool:
    return "name" in table.column_names() and len(table) > 0


def kind_of_result(result: RunResult) -> str:
    """Return the name of a run without its numbers, or the token of that."""
    return result.get("kind") or kind_of(result["run"])


@dataclass(slots=True)
class _Program:
    """Runs of one name and format. names: those of its last run."""

    label: str
    names: frozenset[int] = frozenset()
    places: list[int] = field(default_factory=list)

    def takes(self, names: Collection[int]) -> bool:
        shared = len(self.names.intersection(names))
        return not names or not self.names or shared >= LEAST_SHARED * min(len(names), len(self.names))


def programs_of(results: Sequence[RunResult]) -> list[str]:
    """Return the label of the program of each run; results come in order of time.

    A run joins the newest program of its name and format whose last run resembles it.
    """
    programs: dict[tuple[str, str], list[_Program]] = {}
    labelled: dict[str, int] = {}
    failed = []
    for place, result in enumerate(results):
        formats = _formats(result)
        if result["status"] == "failed":
            failed.append(place)
            continue
        names = frozenset(result.get("program", ()))
        mine = programs.setdefault((kind_of_result(result), formats), [])
        found = next((each for each in reversed(mine) if each.takes(names)), None)
        if found is None:
            # Titles leave out numbers, so two kinds may have one title.
            label = f"{_title(kind_of_result(result))} · {formats}"
            number = labelled[label] = labelled.get(label, 0) + 1
            found = _Program(f"{label}, program {number}" if number > 1 else label)
            mine.append(found)
        found.names = names or found.names
        found.places.append(place)
    labels = {place: each.label for each in _all(programs.values()) for place in each.places}
    for place in failed:
        kind = kind_of_result(results[place])
        named = [each for (name, _), mine in programs.items() if name == kind for each in mine]
        # The program whose runs are nearest in time.
        nearest = min(named, key=lambda each: min(abs(at - place) for at in each.places), default=None)
        labels[place] = nearest.label if nearest else f"{_title(kind)} · {_formats(results[place]) or _NOT_READ}"
    return [labels[place] for place in range(len(results))]


def _all(groups: Iterable[list[_Program]]) -> Iterator[_Program]:
    for mine in groups:
        yield from mine


def _formats(result: RunResult) -> str:
    return " + ".join(sorted({source["format"] for source in result["sources"] if source["format"]}))


def _title(kind: str) -> str:
    """Return a kind for people: numbers are where the dots are."""
    return re.sub(r"…(?:[-_.:T]…)+", "…", kind.replace("#", "…"))

"""Facts of several inputs as the facts of one run: their name tables in one, and a label for each input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from tracekit.model.trace import Run, SourceFacts

__all__ = ["join_runs", "label_as_named"]


def join_runs(into: Run, runs: Sequence[Run]) -> None:
    """Add the facts of runs to one; no two may share a source number. `into.origin_ns` is kept."""
    for run in runs:
        for name in (f.name for f in fields(Run)):
            if name == "origin_ns":
                continue
            mine, theirs = getattr(into, name), getattr(run, name)
            if isinstance(mine, dict):
                mine.update(theirs)
            else:
                mine.extend(theirs)


def label_as_named(inputs: Sequence[tuple[str, str, list[SourceFacts], bool]]) -> None:
    """Label inputs that were converted from another file with the name that the user typed.

    inputs: name, NAME of NAME=INPUT, sources, and whether it is a Parquet file of ours. Such a file has the name of its
    source, which may be an input too. Parquet files keep the names of their sources where these differ: the file names
    of an archive say nothing.
    """
    names = [facts.label or Path(facts.path).name for *_, sources, _ in inputs for facts in sources]
    for word, label, sources, is_archive in inputs:
        for facts in sources:
            name = facts.label or Path(facts.path).name
            if label or facts.path == word or (is_archive and names.count(name) == 1):
                continue
            if len(sources) > 1:
                facts.label = f"{Path(word).name}: {name}"
            elif not facts.label:
                facts.label = Path(word).name

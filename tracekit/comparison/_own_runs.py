"""Leave the new runs out of the base: a run in an archive or a folder of repeats is no baseline for itself.

A run is recognised by its id in an archive, by its path, and by the SHA-256 of its files, which an archive keeps. So a
file that was archived under any name, tag or reading is recognised before and after. A run of the base that was named
itself, by its path or id, stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from tracekit.comparison._inputs import RunInput
from tracekit.errors import InputError
from tracekit.model.display import plural

_BLOCK = 1 << 20


def without_own_runs(base: Sequence[RunInput], new: Sequence[RunInput]) -> tuple[list[RunInput], list[str]]:
    """Return the runs of the base that are not among the new ones, and a note on the others.

    Raises: InputError where none is left.
    """
    chosen = [run for run in base if not run.named]
    if not chosen or not new:
        return list(base), []
    ids = {run.entry.id for run in new if run.entry}
    paths = _paths(new)
    bytes_of_new = _digests(new) if any(run.entry for run in chosen) else set()
    own = {
        id(run)
        for run in chosen
        if (run.entry is not None and (run.entry.id in ids or not bytes_of_new.isdisjoint(run.entry.fingerprints)))
        or not paths.isdisjoint(_paths([run]))
    }
    kept = [run for run in base if id(run) not in own]
    if not kept:
        raise InputError(
            "the base has no run but the new one",
            hint="archive or name earlier runs; `tracekit archive list` shows those of an archive",
        )
    out = [run.label for run in base if id(run) in own]
    shown = f"{', '.join(out[:3])}{' ...' if len(out) > 3 else ''}"
    return kept, [f"base: {plural(len(out), 'run')} left out, since NEW has the same files: {shown}"] if out else []


def _paths(runs: Iterable[RunInput]) -> set[Path]:
    return {Path(name).resolve() for run in runs for name in run.inputs if "://" not in name and name != "-"}


def _digests(runs: Iterable[RunInput]) -> set[str]:
    """Return the SHA-256 of the files of the runs; of archived runs, that of the files they were made from."""
    found = {digest for run in runs if run.entry for digest in run.entry.fingerprints}
    for path in _paths(run for run in runs if run.entry is None):
        if not path.is_file():
            continue
        try:
            with path.open("rb") as file:
                digest = hashlib.sha256()
                while block := file.read(_BLOCK):
                    digest.update(block)
        except OSError:
            continue  # reading the run says why
        found.add(digest.hexdigest())
    return found

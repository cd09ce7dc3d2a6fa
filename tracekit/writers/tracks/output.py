"""The file of a timeline: plain or gzipped, whole or not at all, with the facts that each of them ends with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tracekit.errors import OutputError
from tracekit.trace import Run
from tracekit.writers.base import Stream, WriteOptions, Written, new_file
from tracekit.writers.gzipped import Sink, gzipped
from tracekit.writers.tracks.lanes import Lanes


@contextlib.contextmanager
def viewer_file(target: Path, *, force: bool, viewer: str, suffix: str) -> Iterator[Sink]:
    """Yield the file that gets the target's name when all is written, gzipped where that ends with .gz.

    Raises: OutputExistsError, OutputError; for .zst too, which the viewer does not read.
    """
    if target.name.lower().endswith(".zst"):
        raise OutputError(f"{viewer} zstd", path=target, hint=f"name it {suffix} or {suffix}.gz")
    with new_file(target, force=force) as file:
        if not target.name.lower().endswith(".gz"):
            yield file
        else:
            with gzipped(file) as packed:
                yield packed


def file_facts(
    stream: Stream,
    options: WriteOptions,
    lanes: Lanes,
    written: Written,
    *,
    base_ns: int | None = None,
    arrows: Mapping[str, int] | None = None,
) -> dict[str, object]:
    """Return the facts of a file. base_ns: the time of its first event, where nothing else in the file says it."""
    return {
        "version": options.version,
        "clock": "not stated" if stream.run.origin_ns is None else "unix epoch",
        "origin_ns": stream.run.origin_ns,
        **({} if base_ns is None else {"base_ns": base_ns}),
        "sources": [source.to_json() for source in stream.run.sources],
        "lanes": lanes.facts(),
        **({} if arrows is None else {"arrows": dict(arrows)}),
        "written": written.events,
        "left_out": dict(sorted(written.left_out.items())),
        "notes": list(written.notes),
        "ledger": [ledger.to_json() for ledger in stream.ledgers],
    }


def title(run: Run) -> str:
    """Return the name of the first input, and how many more there are."""
    names = [source.label or Path(source.path).name for source in run.sources]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else "trace"

"""Reads a snapshot of PyTorch's allocator: the pickle, then the rows made of it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.readers.base import Opened, ReadOptions
from tracekit.readers.source import Source
from tracekit.readers.torch._plain_pickle import NotPlain, load
from tracekit.readers.torch._snapshot import Snapshot
from tracekit.trace import Ledger, Run, SourceFacts


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return events and totals. Raises: ParseError for a pickle of anything else."""
    try:
        found = load(source.read_whole())
    except NotPlain as err:
        raise ParseError(
            source.name, "", f"not read: {err}", hint="make it again: torch.cuda.memory._dump_snapshot(FILE)"
        ) from err
    if not isinstance(found, dict) or not isinstance(found.get("device_traces", found.get("segments")), list):
        raise ParseError(source.name, "", "a pickle without segments and device_traces: not a snapshot of PyTorch")
    run = Run(sources=[SourceFacts(source.name, "torch-memory", facts={"tool": "torch.cuda.memory"})])
    return Opened(run, _batches(Snapshot(found, options, ledger, run)), True, (ledger,))


def _batches(snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    yield from snapshot.events()
    yield from snapshot.totals()

"""Captures that have calls which launch work on a device, and not one row of such work."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.columns import arrow
from tracekit.readers.source import Source
from tracekit.schema import DEVICE_WORK
from tracekit.trace import Ledger

_LAUNCHES = re.compile(r"(?:cuda|cu)Launch(?:Cooperative)?(?:Kernel\w*)?|(?:cuda|cu)GraphLaunch(?:_\w+)?")
_FEWEST = 3
"""Fewer launches may lie at the end of a capture, before their work began."""


def with_lost_work(batches: Iterator[pa.RecordBatch], source: Source, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    """Yield batches; at the end, note that the rows of devices are missing where there are launches alone.

    Nothing is said where a limit ended the reading: the rows may be behind it.
    """
    launches, has_work = 0, False
    for batch in batches:
        if not has_work and not schema.is_totals(batch):
            kinds = arrow.encoded(batch.column("kind"))
            has_work = any(kind in DEVICE_WORK for kind in arrow.texts(kinds.dictionary.take(kinds.indices.unique())))
            launches += _launches(batch)
        yield batch
    if launches >= _FEWEST and not has_work and source.stopped is None:
        why = (
            f"{launches:,} calls launched work, and no kernel, copy or memset is in the file: the profiler lost the "
            "rows of devices, or did not record them"
        )
        ledger.note("device-rows-missing", why)


def _launches(batch: pa.RecordBatch) -> int:
    names = arrow.encoded(batch.column("name"))
    texts = arrow.optional_texts(names.dictionary)
    is_launch = np.array([*(text is not None and _LAUNCHES.fullmatch(text) is not None for text in texts), False])
    return int(np.count_nonzero(is_launch[arrow.codes(names)]))

"""What the tests of the two nvprof readers share: reading text, and writing tables as nvprof prints them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tracekit.formats import READERS
from tracekit.model import schema
from tracekit.model.trace import Ledger, Run, Trace, concat
from tracekit.readers.base import ReadOptions
from tracekit.readers.sniff import identify
from tracekit.readers.source import open_source

PREAMBLE = """\
==4242== NVPROF is profiling process 4242, command: ./train --lr 0.1, --steps 3
==4242== Profiling application: ./train --lr 0.1, --steps 3
==4242== Profiling result:
"""
GPU_20 = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",'
    '"Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"\n'
)
GPU_17 = GPU_20.replace('"SrcMemType","DstMemType",', "").replace(',"Correlation_ID"', "")
UNITS_20 = "ms,us,,,,,,,,KB,B,KB,GB/s,,,,,,,\n"
UNITS_17 = "ms,us,,,,,,,,KB,B,KB,GB/s,,,,\n"
API_4 = '"Start","Duration","Name","Correlation_ID"\nus,us,,\n'
API_3 = '"Start","Duration","Name"\nus,us,\n'


class Got(NamedTuple):
    """What a reader gave."""

    events: list[dict[str, Any]]
    totals: list[dict[str, Any]]
    ledger: Ledger
    run: Run

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.events]


def read(folder: Path, data: str | bytes, name: str = "trace.csv", reader: str = "") -> Got:
    """Read a text through the reader that knows it, check schema and ledger, and return its rows."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with open_source(str(path)) as source:
        chosen = READERS[reader] if reader else identify(source, READERS.values())
        ledger = Ledger(path=str(path), format=chosen.name)
        opened = chosen.read(source, ReadOptions(), ledger)
        batches = list(opened.batches)
    ledger.check()
    events = [b for b in batches if not schema.is_totals(b)]
    totals = [b for b in batches if schema.is_totals(b)]
    assert ledger.events_out == sum(b.num_rows for b in events)
    assert ledger.totals_out == sum(b.num_rows for b in totals)
    Trace(concat(events, schema.EVENTS), concat(totals, schema.TOTALS), opened.run, (ledger,))
    rows = concat(events, schema.EVENTS).to_pylist()
    return Got(sorted(rows, key=lambda r: r["event_id"]), concat(totals, schema.TOTALS).to_pylist(), ledger, opened.run)


def kernel(start: str = "1.000000", duration: str = "2.000000", name: str = "add(int*)", correlation: int = 7) -> str:
    """A kernel's row of 20 columns."""
    return f'{start},{duration},4,2,1,128,1,1,16,0.500000,64,,,,,"Tesla T4 (0)","1","7","{name}",{correlation}\n'


def copy(start: str = "1.000000", duration: str = "2.000000", size: str = "4.000000") -> str:
    """A copy's row of 20 columns."""
    memory = f'{size},1.000000,"Pageable","Device"'
    return f'{start},{duration},,,,,,,,,,{memory},"Tesla T4 (0)","1","7","[CUDA memcpy HtoD]",9\n'


def strip_ids(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the number of their line, which moves when lines are put between."""
    return [{k: v for k, v in row.items() if k != "event_id"} for row in rows]

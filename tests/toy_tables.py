"""A toy format for tests of the engine: a trace and a table of sums, declared as a format would."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from tracekit.model import schema
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run
from tracekit.readers.base import ReadOptions
from tracekit.readers.engine import cells, rows, text
from tracekit.readers.engine.spec import (
    DeclaredColumn,
    Heading,
    Learn,
    Named,
    Need,
    SkipRows,
    SumRow,
    Sums,
    TableHeader,
    TableSpec,
    TextSpec,
)
from tracekit.readers.source import open_source


def _by_name(header: TableHeader, name: str, is_range: bool) -> Named:
    if name.startswith("copy "):
        return Named({"kind": Kind.MEMCPY, "name": name.removeprefix("copy "), "raw_name": name}, {"copied": True})
    return Named({"kind": Kind.USER_RANGE if is_range else Kind.KERNEL})


def _device(cell: str) -> cells.Value | cells.Spread:
    return {"device": int(cell[4:]), "context": 1} if cell.startswith("gpu ") and cell[4:].isdigit() else cells.KEEP


def _name_device(run: Run, source: int, ids: tuple[int, ...], cell: str) -> None:
    run.devices.setdefault((source, ids[0]), cell)


def _finish(row: SumRow, note: Callable[[str, str], None]) -> None:
    if row.name == "odd":
        row.section = "odd names"
        note("odd-name", "a name is odd")


TIMES = frozenset(cells.TIMES)
TRACE = TableSpec(
    form="trace",
    makes="events",
    names=("Name", "Operation"),
    needs=(Need(("Begin",), TIMES), Need(("Took", "Length"), TIMES)),
    columns=(
        DeclaredColumn(("Begin",), cells.TIME, "ts_ns", must=True),
        DeclaredColumn(("Took", "Length"), cells.DURATION, "dur_ns", must=True),
        DeclaredColumn(("Regs",), cells.SMALL, "registers"),
        DeclaredColumn(("Corr",), cells.ID_OR_ZERO, "correlation"),
        DeclaredColumn(("Thread",), cells.ID, "tid", unless=frozenset({"Device"})),
        DeclaredColumn(("Size",), cells.SIZE, "bytes"),
        DeclaredColumn(("Lane",), cells.Cell(lambda text, _, style: cells.integer(text, style), positive=True), "pid"),
        DeclaredColumn(("Gpu",), cells.SMALL, "device"),
        DeclaredColumn(("Device",), cells.text_cell(_device)),
        DeclaredColumn(("Result",), cells.text_cell(lambda cell: None if cell == "0" else cells.KEEP), key="result"),
        DeclaredColumn(("End",), cells.SKIP),
    ),
    by_name=_by_name,
    looks_at=frozenset({"Level"}),
    learns=(Learn(("device",), "Device", _name_device),),
    skips=SkipRows("First", "Begin", "range without work"),
    rounded=("rounded", "sizes are rounded"),
)
SUMS = TableSpec(
    form="sums",
    makes="totals",
    needs=(Need(("Sum",), TIMES), Need(("Calls",)), Need(("Name",))),
    columns=(
        DeclaredColumn(("Sum",), cells.TIME, "total_ns", vital=True),
        DeclaredColumn(("Calls",), cells.COUNT, "calls"),
        DeclaredColumn(("Mean",), cells.MEAN_TIME, "avg_ns", unit_of="Sum"),
        DeclaredColumn(("Share",), cells.printed_number()),
    ),
    sums=Sums(("Sum",), ("Mean",), ("Calls",), ("Share",)),
    finish=_finish,
)


def _heading(line: str) -> Heading | None:
    if line.startswith("report "):
        return Heading(line.removeprefix("report "), empty=line.endswith("nothing"))
    return Heading("titled", line.removeprefix("times in "), weak=True) if line.startswith("times in ") else None


TOY = TextSpec(
    reader="toy",
    tool="toy",
    tables=(TRACE, SUMS),
    delimiters=",;",
    header_words=("Begin", "Sum"),
    message=re.compile(r"toy: "),
    unread_why="nobody knows it",
    same={"Kernel": "Name"},
    title_units=("Sum",),
    heading=_heading,
    section=lambda header, named: named or header.form,
    unread=(("Faults (", "faults"),),
    lost=re.compile(r"\d+ms "),
    same_events=lambda header: "kernels" if "Device" in header.columns else "",
)


def plain(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if value is not None} for row in batch.to_pylist()]


class Result:
    """What a text gave: rows, facts and the ledger."""

    def __init__(self, path: Path, data: bytes, values: dict[str, object] | None = None, spec: TextSpec = TOY) -> None:
        path.write_bytes(data)
        self.run, self.ledger = Run(), Ledger(path="toy")
        options = ReadOptions(values=values or {})
        self.batches = list(text.read(spec, open_source(str(path)), self.run, options, self.ledger, ()))
        self.ledger.check()
        self.events = [row for b in self.batches if not schema.is_totals(b) for row in plain(b)]
        self.totals = [row for b in self.batches if schema.is_totals(b) for row in plain(b)]

    def everything(self) -> list[object]:
        """Return all of it, with notes in their order."""
        return [self.events, self.totals, list(self.run.devices.items()), self.ledger.to_json()]

    @property
    def codes(self) -> list[str]:
        return list(self.ledger.notes)


@contextmanager
def blocks_from(count: int, rows_at_once: int = rows.ROWS_AT_ONCE) -> Iterator[list[bool]]:
    """Read runs of so many rows as blocks; the list says of each whether it was taken."""
    taken: list[bool] = []
    block = rows.TableRows.block

    def seen(self: rows.TableRows, *args: Any) -> bool:
        taken.append(block(self, *args))
        return taken[-1]

    with (
        patch.object(text, "ROWS_OF_A_BLOCK", count),
        patch.object(rows, "ROWS_AT_ONCE", rows_at_once),
        patch.object(rows.TableRows, "block", seen),
    ):
        yield taken

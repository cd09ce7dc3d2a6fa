"""Stats of events as columns and `args`. Few stats differ, so each is decoded once a plane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.columns import arrow
from tracekit.columns.arrays import Mask
from tracekit.readers.builder import Values
from tracekit.readers.protobuf import INT32_MAX, INT64_MAX
from tracekit.readers.xplane._kinds import details
from tracekit.readers.xplane._planes import Name, Plane
from tracekit.trace import Ledger

_MOST_CELLS = 1 << 16
_DETAILS = ("kernel_details", "memcpy_details", "memset_details")
_NOTHING: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class _Cell:
    """A stat: its JSON, "" if its columns have all of it."""

    key: str
    value: str
    columns: dict[str, int]


class Cells:
    """The stats of the events of one plane."""

    def __init__(self, plane: Plane, ledger: Ledger) -> None:
        self.plane, self.ledger = plane, ledger
        self._cells: dict[bytes, _Cell] = {}
        self._common: dict[int, list[_Cell]] = {}

    def columns(
        self, events: Sequence[Any], names: Sequence[Name], rests: Iterable[tuple[int, int]], *, derived: bool
    ) -> dict[str, Values]:
        """Return `args`, and the columns that stats have. rests: the ps of start and duration of each event."""
        found: dict[str, list[int | None]] = {}
        args: list[str | None] = []
        known, count = self._cells, len(events)
        marked = {'"derived":': "true"} if derived else {}
        for row, (event, name, (start_ps, length_ps)) in enumerate(zip(events, names, rests, strict=True)):
            left = marked.copy()
            if start_ps:
                left['"ts_ps":'] = str(start_ps)
            if length_ps:
                left['"dur_ps":'] = str(length_ps)
            for cell in self._of_name(name) if name.stats or name.short else ():
                left[cell.key] = cell.value
            for data in event.stats:
                cell = known.get(data) or self._cell(data)
                for column, value in cell.columns.items():
                    if column not in found:
                        found[column] = [None] * count
                    found[column][row] = value
                if cell.value:
                    left[cell.key] = cell.value
            args.append("{" + ",".join([key + value for key, value in left.items()]) + "}" if left else None)
        columns: dict[str, Values] = {name: pa.array(values, pa.int64()) for name, values in found.items()}
        columns["args"] = pa.array(args, pa.string())
        return columns

    def is_step(self, columns: dict[str, Values]) -> Mask:
        """Return which rows are steps: ranges with a number of their own."""
        steps = columns.get("step")
        return np.zeros(0, np.int64) if not isinstance(steps, pa.Array) else steps.is_valid().to_numpy(False)

    def is_operator(self, columns: dict[str, Values]) -> Mask:
        """Return which rows of the host are ops of XLA, run by a CPU: their stats name the op."""
        args = columns["args"]
        found = pc.match_substring(args, '"hlo_op":') if isinstance(args, pa.StringArray) else pa.nulls(0, pa.bool_())
        return arrow.bools(found)

    def _of_name(self, name: Name) -> list[_Cell]:
        cells = self._common.get(id(name))
        if cells is None:
            cells = [self._cell(data) for data in name.stats]
            cells = [_Cell(cell.key, cell.value or "null", _NOTHING) for cell in cells]
            if name.short and name.short != name.name:
                cells.append(_Cell('"display_name":', orjson.dumps(name.short).decode(), _NOTHING))
            self._common[id(name)] = cells
        return cells

    def _cell(self, data: bytes) -> _Cell:
        from google.protobuf.message import DecodeError

        if len(self._cells) >= _MOST_CELLS:
            self._cells.clear()
        try:
            key, value = self.plane.stat(data)
        except DecodeError:
            self.ledger.note("bad-stat", "stats that are no protobuf messages were left out")
            key, value = "damaged stat", data[:64].hex()
        columns: dict[str, int] = _NOTHING
        text = ""
        if key in _DETAILS and isinstance(value, str):
            columns, rest = details(value)
            text = orjson.dumps(rest).decode() if rest else ""
        elif key == "correlation_id" and isinstance(value, int) and 0 <= value <= INT64_MAX:
            columns = {"correlation": value}
        elif key == "step_num" and isinstance(value, int) and 0 <= value <= INT32_MAX:
            columns = {"step": value}
        else:
            text = orjson.dumps(value).decode()
        cell = self._cells[data] = _Cell(orjson.dumps(key).decode() + ":", text, columns)
        return cell

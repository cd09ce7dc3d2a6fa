"""Stats of a name, and of events that `_members` leaves out, one by one: as columns and as `args`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from tracekit.readers.builder import bounded
from tracekit.readers.engine.protobuf import INT32_MAX, INT64_MAX
from tracekit.readers.xplane._kinds import DETAILS, details
from tracekit.readers.xplane._planes import Name, Plane
from tracekit.trace import Ledger

_MOST_CELLS = 1 << 16
_NOTHING: dict[str, int] = {}
_NO_KEYS: frozenset[str] = frozenset()


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

    def row(
        self, stats: Iterable[bytes], name: Name, rest: tuple[int, int], *, derived: bool
    ) -> tuple[str | None, dict[str, int]]:
        """Return `args` of an event, and the columns that its stats have. rest: the ps of start and duration."""
        start_ps, length_ps = rest
        left = {'"derived":': "true"} if derived else {}
        if start_ps:
            left['"ts_ps":'] = str(start_ps)
        if length_ps:
            left['"dur_ps":'] = str(length_ps)
        for cell in self._of_name(name):
            left[cell.key] = cell.value
        columns: dict[str, int] = {}
        for data in stats:
            cell = self._cells.get(data) or self._cell(data)
            columns |= cell.columns
            if cell.value:
                left[cell.key] = cell.value
        return "{" + ",".join([key + value for key, value in left.items()]) + "}" if left else None, columns

    def of_name(self, name: Name) -> tuple[str, frozenset[str]]:
        """Return what all events of a name have in `args`, each member behind a comma, and its keys."""
        if not name.stats and not name.short:
            return "", _NO_KEYS
        members = {cell.key: cell.value for cell in self._of_name(name)}
        text = "".join([f",{key}{value}" for key, value in members.items()])
        return text, frozenset(orjson.loads(key[:-1]) for key in members)

    def _of_name(self, name: Name) -> list[_Cell]:
        if not name.stats and not name.short:
            return []
        cells = self._common.get(id(name))
        if cells is None:
            cells = [self._cell(data) for data in name.stats]
            cells = [_Cell(cell.key, cell.value or "null", _NOTHING) for cell in cells]
            if name.short and name.short != name.name:
                cells.append(
                    _Cell('"display_name":', orjson.dumps(bounded(name.short, self.ledger)).decode(), _NOTHING)
                )
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
        if key in DETAILS and isinstance(value, str):
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

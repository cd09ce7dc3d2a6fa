"""Columns of EVENTS as Paddle's statistics take them: types by Paddle's names, names as the file spells them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column, pc
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.messages import DEVICE_TYPES_BY_KIND, HOST_TYPES_BY_KIND
from tracekit.schema import Kind
from tracekit.trace import text_codes

_HOST: Final = {**HOST_TYPES_BY_KIND, Kind.OTHER: "Other"}
_LAUNCHES: Mapping[str, int] = MappingProxyType({"DygraphKernelLaunch": 15, "StaticKernelLaunch": 16})
"""Types that our readers take for OperatorInner, and keep in `args` by name or by number."""
_CALL: Final = "CudaRuntime"

TYPES: Final = (*_HOST.values(), *_LAUNCHES, _CALL, *DEVICE_TYPES_BY_KIND.values())
"""Paddle's types of events that are in its trees; the codes of kinds count into it."""
HOST_TYPES: Final = len(_HOST) + len(_LAUNCHES)
CALL: Final = TYPES.index(_CALL)
JSON: Final = "paddle-json"
PADDLE_FORMATS: Final = ("paddle-pb", JSON)

TREE_COLUMNS: Final = frozenset(
    {
        "ts_ns",
        "dur_ns",
        "event_id",
        "kind",
        "name",
        "raw_name",
        "source",
        "pid",
        "tid",
        "device",
        "correlation",
    }
)
"""What the trees need."""


def code_of(*types: str) -> Mask:
    """Return which codes of kinds are of these types: shape (len(TYPES),)."""
    return np.array([name in types for name in TYPES], np.bool_)


def matching(texts: Column, pattern: str) -> Mask:
    """Return which texts have the pattern in them; a null has none."""
    return arrow.bools(pc.match_substring_regex(texts, pattern))


class Columns:
    """Columns as arrays of shape (rows of EVENTS,)."""

    def __init__(self, index: TraceIndex) -> None:
        events = index.events
        self.index = index
        self.start: I64 = events.column("ts_ns").to_numpy()
        dur = events.column("dur_ns")
        self.timed: Mask = dur.is_valid().to_numpy()
        self.end: I64 = self.start + np.maximum(arrow.ints(dur), 0)
        self.event_id: I64 = events.column("event_id").to_numpy()
        self.source: I64 = arrow.ints(events.column("source"))
        self._facts = facts_by_source(index)

    def numbers(self, column: str) -> tuple[I64, Mask]:
        """Return a column's values, 0 for null, and where it has one."""
        values = self.index.events.column(column)
        known: Mask = values.is_valid().to_numpy()
        return arrow.ints(values), known

    def of_format(self, *formats: str) -> Mask:
        """Return which rows come from files of these formats."""
        wanted = [number for number, facts in self._facts.items() if facts.format in formats]
        found: Mask = np.isin(self.source, wanted)
        return found

    def in_order_of_file(self) -> Mask:
        """Return which rows come from Paddle's files, with nothing filtered away: their order tells who holds whom."""
        cut = [ledger.source for ledger in self.index.ledgers if ledger.filtered]
        found: Mask = self.of_format(*PADDLE_FORMATS) & ~np.isin(self.source, cut)
        return found

    def slack(self) -> I64:
        """Return by how many ns two times of Paddle's JSON may disagree: twice what each may be off."""
        off = np.full(self.start.size, 1000, np.int64)
        for number, facts in self._facts.items():
            base = facts.facts.get("base_uncertainty_ns")
            rows = np.flatnonzero(self.source == number) if isinstance(base, int) else np.zeros(0, np.intp)
            if rows.size:
                since = (self.end[rows] - self.start[rows].min()).astype(np.float64)
                # Paddle makes a 32-bit float of the ns, then one of the us.
                steps = np.spacing(since.astype(np.float32)) / 2 + np.spacing((since / 1000).astype(np.float32)) * 500
                off[rows] = np.minimum(np.ceil(steps).astype(np.int64) + base, 1000)
        return 2 * off + 1

    def names(self) -> tuple[I64, list[str]]:
        """Return the code of each row's name, and the names."""
        plain, texts = text_codes(self.index.events.column("name"))
        raw, raws = text_codes(self.index.events.column("raw_name"))
        number: dict[str, int] = {}
        of_plain = np.array([number.setdefault(text or "", len(number)) for text in (*texts, "")], np.int64)
        of_raw = np.array([number.setdefault(text or "", len(number)) for text in (*raws, "")], np.int64)
        return np.where(raw >= 0, of_raw[raw], of_plain[plain]), list(number)

    def args(self, rows: I64) -> Column:
        """Return the column `args` of these rows."""
        return pa.concat_arrays(
            arrow.take(self.index.events.column("args"), rows).chunks or [pa.array([], pa.string())]
        )

    def kinds(self, *, launches: bool) -> I64:
        """Return the code of each row's type, -1 for what is in no tree.

        launches: tell launches of kernels from OperatorInner, which needs the column `args`.
        """
        number = {str(kind): TYPES.index(name) for kind, name in (*_HOST.items(), *DEVICE_TYPES_BY_KIND.items())}
        number |= {str(Kind.RUNTIME): CALL, str(Kind.DRIVER): CALL}
        codes, texts = text_codes(self.index.events.column("kind"))
        kind: I64 = np.array([number.get(text, -1) for text in texts] + [-1], np.int64)[codes]
        # Types that a newer Paddle adds are nodes of its trees; `other` of other tools is anything.
        kind[(kind == TYPES.index("Other")) & ~self.of_format(*PADDLE_FORMATS)] = -1
        if launches and any(facts.format in PADDLE_FORMATS for facts in self._facts.values()):
            # Of every source: our Profiler joins the rows of Paddle's tracer with those of its own log.
            inner = np.flatnonzero(kind == TYPES.index("OperatorInner"))
            args = self.args(inner)
            for name, type_number in _LAUNCHES.items():
                kind[inner[matching(args, rf'"(cat":"{name}"|type":{type_number}[,}}])')]] = TYPES.index(name)
        return kind

"""Numbers that rows of rocpd name, looked up: events, kernels, agents, processes, threads, texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, DictColumn, pc
from tracekit.readers.builder import bounded
from tracekit.readers.sqlite.cupti import SqlContext, coded, integers
from tracekit.readers.sqlite.database import CellType, quoted

_CACHED = 1 << 20
_DEVICES = 1 << 16
_INT32 = 1 << 31


class Numbers:
    """A table of numbers by another number."""

    def __init__(self, keys: I64, values: I64) -> None:
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], values[order]

    def find(self, numbers: Column | None) -> Column | None:
        """Return the value of each number, null for one that the table lacks; None if no row can have one."""
        if numbers is None or not len(self._keys):
            return None
        wanted = arrow.ints(numbers, -1)
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        found = (self._keys[place] == wanted) & arrow.valid(numbers)
        return arrow.array(self._values[place], mask=~found)

    def of(self, numbers: Column | None) -> Column | None:
        """Return the value of each number, the number itself for one that the table lacks."""
        found = self.find(numbers)
        return numbers if found is None else pc.coalesce(found, numbers)


def numbers_of(pairs: Iterable[tuple[object, object]]) -> Numbers:
    """Return the table of the pairs that are two integers."""
    good = [(key, value) for key, value in pairs if isinstance(key, int) and isinstance(value, int)]
    table = np.array(good, np.int64).reshape(-1, 2)
    return Numbers(table[:, 0], table[:, 1])


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of rocpd_info_kernel_symbol. lds: bytes of static shared memory."""

    name: str
    raw_name: str | None
    registers: int | None
    accum_vgprs: int | None
    sgprs: int | None
    lds: int | None


@dataclass(frozen=True, slots=True)
class JoinedEvents:
    """The table rocpd_event by id: correlation, number of the category's text, external id, place in `messages`."""

    correlation: Numbers
    category: Numbers
    external: Numbers
    message: Numbers
    messages: list[str]


@dataclass(slots=True)
class TableGroup:
    """The tables of one process, or those of a database that was not merged.

    tables: name without its ending -> name. devices: numbers of the GPUs by row of the agent. agents: their names.
    """

    ctx: SqlContext
    tables: dict[str, str]
    events: JoinedEvents
    pids: Numbers
    tids: Numbers
    devices: Numbers
    agents: dict[int, str]
    kernels: dict[int, Kernel]
    texts: dict[int, str] = field(default_factory=dict)

    def text(self, number: int) -> str | None:
        """Return a text of rocpd_string, None for a missing number or an empty text."""
        table = self.tables.get("string", "")
        if not {"id", "string"} <= set(self.ctx.db.tables.get(table, ())):
            return None
        known = self.texts.get(number)
        if known is None:
            rows = self.ctx.db.rows(f'select "string" from {quoted(table)} where "id" = ?', (number,))
            known = bounded(str(rows[0][0]), self.ctx.ledger) if rows and rows[0][0] is not None else ""
            if len(self.texts) >= _CACHED:
                self.texts.clear()
            self.texts[number] = known
        return known or None

    def named(self, numbers: Column | None) -> DictColumn | None:
        """Return the texts of a column of numbers."""
        return coded(numbers, self.text)

    def small(self, name: str, *columns: str) -> list[tuple[object, ...]]:
        """Return columns of a small table, no rows if there is none."""
        return self.ctx.db.small(self.tables.get(name, ""), *columns)


def groups_of(ctx: SqlContext) -> Iterator[TableGroup]:
    """Yield the sets of tables of a database: the tables whose names end alike."""
    start = "rocpd_metadata"
    for ending in [name.removeprefix(start) for name in ctx.db.tables if name.startswith(start)]:
        names = [name for name in ctx.db.tables if name.startswith("rocpd_") and name.endswith(ending)]
        yield _group(ctx, {name[6 : len(name) - len(ending)]: name for name in names})


def _group(ctx: SqlContext, tables: dict[str, str]) -> TableGroup:
    def small(name: str, *columns: str) -> list[tuple[object, ...]]:
        return ctx.db.small(tables.get(name, ""), *columns)

    source = ctx.options.source
    devices: dict[object, object] = {}
    agents: dict[int, str] = {}
    for number, kind, index, product, name in small("info_agent", "id", "type", "type_index", "product_name", "name"):
        if not isinstance(number, int):
            continue
        agents[number] = str(product or name or kind)
        if kind == "GPU":
            device = index if isinstance(index, int) and 0 <= index < _DEVICES else len(devices)
            devices[number] = device
            ctx.run.devices.setdefault((source, device), agents[number])
    pids: dict[object, object] = {row[0]: row[1] for row in small("info_process", "id", "pid")}
    for number, process, name in small("info_thread", "tid", "pid", "name"):
        pid = pids.get(process, process)
        if name and isinstance(number, int) and isinstance(pid, int):
            ctx.run.threads.setdefault((source, pid, number), str(name))
    return TableGroup(
        ctx,
        tables,
        _events(ctx, tables.get("event")),
        numbers_of(pids.items()),
        numbers_of((row[0], row[1]) for row in small("info_thread", "id", "tid")),
        numbers_of(devices.items()),
        agents,
        _kernels(ctx, small("info_kernel_symbol", *_SYMBOL)),
    )


_SYMBOL = (
    *("id", "display_name", "kernel_name", "arch_vgpr_count", "accum_vgpr_count", "sgpr_count", "group_segment_size"),
)


def _kernels(ctx: SqlContext, rows: list[tuple[object, ...]]) -> dict[int, Kernel]:
    def short(text: object) -> object:
        return bounded(text, ctx.ledger) if isinstance(text, str) else text

    rows = [(number, short(shown), short(raw), *counts) for number, shown, raw, *counts in rows]
    names = arrow.encoded(arrow.array([str(shown or raw or "") for _, shown, raw, *_ in rows], pa.string()))
    readable = arrow.optional_texts(ctx.names.columns(names)[0].cast(pa.string()))
    found = {}
    for name, (number, shown, raw, *counts) in zip(readable, rows, strict=True):
        if isinstance(number, int) and name:
            spelling = next((str(text) for text in (raw, shown) if text and text != name), None)
            small = [n if isinstance(n, int) and 0 <= n < _INT32 else None for n in counts]
            found[number] = Kernel(name, spelling, *small)
    return found


def _events(ctx: SqlContext, table: str | None) -> JoinedEvents:
    """Return the table of events, without what its columns do not say."""
    columns = ("id", "stack_id", "category_id", "correlation_id")
    parts: list[list[I64]] = []
    codes: dict[str, int] = {}
    marked: list[tuple[object, object]] = []
    wanted = integers(*columns) | {"extdata": CellType.TEXT}
    for block in ctx.db.blocks(table, wanted) if table else ():
        ids = block.integers("id", -1)
        parts.append([ids, *(block.integers(name) for name in columns[1:])])
        if (extra := block.columns.get("extdata")) is not None:
            encoded = arrow.encoded(extra)
            messages = [_message(text) for text in arrow.optional_texts(encoded.dictionary)]
            if any(messages):
                places = [codes.setdefault(m, len(codes)) if m else -1 for m in messages]
                own = np.append(np.array(places, np.int64), -1)[arrow.ints(encoded.indices, len(places))]
                marked += zip(ids[own >= 0].tolist(), own[own >= 0].tolist(), strict=True)
    every = [np.concatenate([part[i] for part in parts]) if parts else np.zeros(0, np.int64) for i in range(4)]
    correlation, category, external = (_above_zero(every[0], values) for values in every[1:])
    return JoinedEvents(correlation, category, external, numbers_of(marked), list(codes))


def _above_zero(ids: I64, values: I64) -> Numbers:
    return Numbers(ids[values > 0], values[values > 0])


def _message(text: str | None) -> str | None:
    """Return the message in the JSON of a marker."""
    if text is None or "message" not in text:
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    message = found.get("message") if isinstance(found, dict) else None
    return message if isinstance(message, str) and message else None

"""Rows of a trace table by columns: a block of CSV lines -> pyarrow -> numpy -> a batch of EVENTS.

Exactness. A time is read as the nearest double d of its decimal text and multiplied by a power of ten p <= 10^9, which
a double holds exactly. Each of the two steps errs by at most 2^-53 of the value, so below 2^50 ns the product x is off
by less than 2^50 x 2^-52 = 1/4. Where x lies less than 1/4 from an integer n, the true value lies less than 1/2 from n:
n is its rounding, for any number of decimals. All other rows go the exact way. Sizes are multiplied by a power of two,
which is exact, so only the text's own rounding counts; those near a half go the exact way too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tracekit.readers.builder import event_batch, map_texts
from tracekit.readers.nvprof._lines import NARROW
from tracekit.readers.nvprof._names import I64, UNIFIED, Mask, api_kind, device_kind, suffixes, trimmed
from tracekit.readers.nvprof._row import ARGS, INTEGERS, KNOWN, SIZES, moved, size_bytes
from tracekit.readers.nvprof._state import FastPlan, OpenTable, RowError, State
from tracekit.schema import TEXT, Kind
from tracekit.units import BYTE_FACTOR, TIME_EXPONENT

LIMIT = float(1 << 50)
F64 = np.ndarray[Any, np.dtype[np.float64]]

_KINDS = [str(k) for k in Kind]
_CODE = {k: i for i, k in enumerate(_KINDS)}
_KIND_TEXTS = pa.array(_KINDS, pa.string())


_BEFORE_A_CELL = np.isin(np.arange(256), np.frombuffer(b',;\t"\n', np.uint8))


def _holds_hexadecimal(data: bytes) -> bool:
    """Tell whether a cell begins with `0x`: two bytes are compared at once, many times as fast as a search."""
    raw = np.frombuffer(data, np.uint8)
    for start in (0, 1):
        pairs = np.frombuffer(data, "<u2", (len(data) - start) // 2, start)
        places = np.flatnonzero((pairs == 0x7830) | (pairs == 0x5830)) * 2 + start
        if len(places) and (places[0] == 0 or _BEFORE_A_CELL[raw[places - 1]].any()):
            return True
    return False


def _scaled(values: F64, factor: int) -> F64:
    with np.errstate(over="ignore"):
        return values * float(factor)


def plan_for(table: OpenTable, *, careful: bool) -> FastPlan | None:
    """Return how pyarrow can read the table's rows; None where only the row path can (units missing or unknown).

    careful: a hexadecimal number may stand in a column of integers.
    """
    columns = table.header.columns
    if table.units is None or len({c for c in columns if c}) < sum(map(bool, columns)):
        return None
    if table.unit("Start") not in TIME_EXPONENT or table.unit("Duration") not in TIME_EXPONENT:
        return None
    ids = TEXT if table.text_ids or careful else pa.int64()
    types: dict[str, pa.DataType] = {"Start": pa.float64(), "Duration": pa.float64(), "Name": pa.string()}
    # pyarrow takes `0xff` for an integer, but not for a float.
    types |= dict.fromkeys(INTEGERS, pa.float64() if careful else pa.int32())
    # A column of sizes without unit is empty (a trace without copies), or its cells have units of their own.
    types |= {c: pa.float64() if table.unit(c) in BYTE_FACTOR else pa.string() for c in SIZES}
    types |= {"Device": TEXT, "Context": ids, "Stream": ids, "Correlation_ID": pa.float64() if careful else pa.int64()}
    types = {c: t for c, t in types.items() if c in columns}
    rest = tuple(c for c in columns if c in ARGS or (c and c not in KNOWN))
    types |= dict.fromkeys(rest, TEXT)
    padded = [c or f"\0{i}" for i, c in enumerate(columns)]
    return FastPlan(
        pacsv.ReadOptions(column_names=padded, use_threads=False, block_size=1 << 20),
        pacsv.ParseOptions(delimiter=table.header.delimiter),
        pacsv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[""],
            strings_can_be_null=True,
            decimal_point=table.decimal or ".",
            check_utf8=False,
        ),
        rest,
    )


class Block:
    """The columns of one block of rows, and which of its rows must go the exact way."""

    def __init__(self, table: OpenTable, state: State, data: pa.Table) -> None:
        self.table, self.state, self.count = table, state, data.num_rows
        self._columns = {name: data.column(name) for name in data.schema.names}
        self.exact = np.zeros(self.count, bool)
        """Rows that the row path must read."""
        self.check_quotes = False
        """Whether output of the program, `1,2.30,loss`, may stand among the rows: of few columns, without quotes."""

    def column(self, name: str) -> pa.Array | None:
        """Return a column as it was read, None where the table has none of that name."""
        column = self._columns.get(name)
        if column is None:
            return None
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def _floats(self, column: pa.Array) -> tuple[F64, Mask | None]:
        values = column.to_numpy(zero_copy_only=False)
        # Not isnan: the text "nan" is no empty cell, and goes to the row path.
        return values, (column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None)

    def time(self, name: str) -> tuple[I64, Mask | None]:
        """Return the ns of a column, 0 where there is none, and where there is none."""
        values, missing = self._floats(self.column(name))
        product = _scaled(values, 10 ** TIME_EXPONENT[self.table.unit(name)])
        if missing is not None:
            product[missing] = 0.0
        with np.errstate(invalid="ignore"):
            whole = np.rint(product)
            self.exact |= ~((np.abs(product - whole) < 0.25) & (product < LIMIT) & (product >= 0.0))
            return whole.astype(np.int64), missing

    def size(self, name: str) -> pa.Array | None:
        """Return the whole bytes of a column, null where it is empty."""
        column = self.column(name)
        if column is None or column.null_count == self.count:
            return None
        if not pa.types.is_floating(column.type):
            self.exact |= column.is_valid().to_numpy(zero_copy_only=False)
            return None
        values, missing = self._floats(column)
        product = _scaled(values, BYTE_FACTOR[self.table.unit(name)])
        if missing is not None:
            product[missing] = 0.0
        with np.errstate(invalid="ignore"):
            whole = np.rint(product)
            near = 0.5 - np.abs(product - whole) > product * 2.0**-51
            self.exact |= ~(near & (product < LIMIT) & (product >= 0.0))
            return pa.array(whole.astype(np.int64), mask=missing)

    def ids(self, name: str) -> pa.Array | None:
        """Return context or stream as int64; text through the table of ids."""
        column = self.column(name)
        if column is None or not pa.types.is_dictionary(column.type):
            return column
        state = self.state
        number = state.stream if name == "Stream" else state.context
        lut = pa.array([number(t.strip()) if t else None for t in column.dictionary.to_pylist()], pa.int64())
        return lut.take(column.indices)

    def integer(self, name: str, kind: pa.DataType, limit: int) -> pa.Array | None:
        """Return a column of integers, which below 2^53 are exact as doubles."""
        column = self.column(name)
        if column is None or not pa.types.is_floating(column.type):
            return column
        values, missing = self._floats(column)
        if missing is not None:
            values = np.where(missing, 0.0, values)
        with np.errstate(invalid="ignore"):
            bad = ~((np.abs(values) < limit) & (values == np.rint(values)))
        self.exact |= bad
        return pa.array(np.where(bad, 0.0, values).astype(np.int64), mask=missing).cast(kind)

    def device(self) -> tuple[pa.Array | None, Mask]:
        """Return the numbers of the devices (int32), and where there is none."""
        column = self.column("Device")
        if column is None:
            return None, np.ones(self.count, bool)
        lut = pa.array([self.state.device(t.strip()) for t in column.dictionary.to_pylist()], pa.int32())
        out = lut.take(column.indices)
        return out, np.asarray(out.is_null().to_numpy(zero_copy_only=False))

    def encoded_names(self, calls: Mask) -> tuple[pa.DictionaryArray, I64, Mask, Mask]:
        """Return names without suffix, dictionary encoded; the numbers of the suffixes; where; where of a launch."""
        names = self._columns["Name"].combine_chunks()
        if names.null_count:
            names = names.fill_null("")
        if names.offset:
            names = pa.concat_arrays([names])
        plain, launch, numbers = suffixes(names)
        launch &= calls
        return trimmed(names, plain, launch).dictionary_encode(), numbers, plain | launch, launch


def read_block(data: bytes, line: int, table: OpenTable, state: State) -> tuple[pa.RecordBatch, list[int]] | None:
    """Return the events of a block of CSV lines, and the lines (from 0) that only the row path may read.

    data: whole lines. None when the lines are not all rows of this table: nothing was counted then.
    """
    raw = np.frombuffer(data, np.uint8)
    careful = _holds_hexadecimal(data)
    key = (table.decimal, table.text_ids, careful)
    if table.plan_key != key:
        table.plan, table.plan_key = plan_for(table, careful=careful), key
    plan = table.plan
    if plan is None:
        return None
    try:
        parsed = pacsv.read_csv(pa.BufferReader(data), plan.read, plan.parse, plan.convert)
    except pa.ArrowInvalid:
        return None
    count = parsed.num_rows
    if not count or count != int(np.count_nonzero(raw == 10)):  # bytes.count takes seven times as long
        return None
    block = Block(table, state, parsed)
    block.check_quotes = table.header.quoted and len(table.header.columns) < NARROW and data.count(b'"') != 2 * count
    ts, no_start = block.time("Start")
    dur, no_duration = block.time("Duration")
    if no_start is not None:
        block.exact |= no_start
    columns: dict[str, Any] = {target: block.integer(name, pa.int32(), 1 << 31) for name, target in INTEGERS.items()}
    columns |= {target: block.size(name) for name, target in SIZES.items()}
    columns["device"], calls = block.device()
    if columns["grid_x"] is not None and calls.any():
        calls = calls & np.asarray(columns["grid_x"].is_null().to_numpy(zero_copy_only=False))
    names, numbers, suffixed, launches = block.encoded_names(calls)
    names, kernels = _kinds(block, columns, names, calls, launches, no_duration)
    columns["args"] = _args(block, columns, plan.text_columns, kernels)
    columns["name"], columns["raw_name"] = state.names.columns(names)
    correlation = block.integer("Correlation_ID", pa.int64(), 1 << 53)
    if suffixed.any():
        own = pa.array(numbers, mask=~suffixed)
        correlation = own if correlation is None else pc.coalesce(correlation, own)
    columns |= {
        "ts_ns": ts,
        "dur_ns": dur if no_duration is None else pa.array(dur, mask=no_duration),
        "event_id": np.arange(line, line + count),
        "source": state.source,
        "pid": table.pid,
        "context": block.ids("Context"),
        "stream": block.ids("Stream"),
        "correlation": correlation,
    }
    batch = event_batch(count, columns)
    if not block.exact.any():
        return batch, []
    return batch.filter(pa.array(~block.exact)), np.flatnonzero(block.exact).tolist()


def _kinds(
    block: Block,
    columns: dict[str, Any],
    names: pa.DictionaryArray,
    calls: Mask,
    launches: Mask,
    no_duration: Mask | None,
) -> tuple[pa.DictionaryArray, pa.Array | None]:
    """Fill kind and copy_kind. Return the names, of a launch that of the call alone, and the launched kernels."""
    texts: list[str] = names.dictionary.to_pylist()
    codes = names.indices.to_numpy()
    gpu = [device_kind(t) for t in texts]
    kinds = np.array([_CODE[k] for k, _ in gpu], np.int32)[codes]
    ways = sorted({way for _, way in gpu if way})
    if ways:
        way = np.array([ways.index(w) if w else -1 for _, w in gpu], np.int32)[codes]
        columns["copy_kind"] = pa.DictionaryArray.from_arrays(pa.array(way, mask=way < 0), pa.array(ways, pa.string()))
    kernels: pa.Array | None = None
    called = texts
    if launches.any():
        launch = np.zeros(len(texts), bool)
        launch[codes[launches]] = True
        pairs = [t.split(" (", 1) if is_launch else [t] for t, is_launch in zip(texts, launch.tolist(), strict=True)]
        called = [p[0] for p in pairs]
        kernels = pa.array([p[1] if len(p) == 2 else None for p in pairs], pa.string()).take(names.indices)
        names = map_texts(names, dict(zip(texts, called, strict=True)).__getitem__)
    if calls.any():
        api = np.array([-1 if t.startswith("[") else _CODE[api_kind(t)] for t in called], np.int32)[codes]
        kinds = np.where(calls & (api >= 0), api, kinds)
        if block.check_quotes:
            block.exact |= calls & (api == _CODE[Kind.OTHER])
    columns["kind"] = pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int32)), _KIND_TEXTS)
    odd = np.array(['"' in t or "\0" in t or not t or t != t.strip() for t in texts])
    if odd.any():
        block.exact |= odd[codes]
    if no_duration is not None:
        unified = np.array([t.startswith(UNIFIED) for t in texts])
        block.exact |= no_duration & ~unified[codes]
    return names, kernels


def _args(block: Block, columns: dict[str, Any], names: Sequence[str], kernels: pa.Array | None) -> pa.Array | None:
    """Return the JSON of the columns without a place in the schema, null where they are all empty."""
    found: list[tuple[str, pa.DictionaryArray]] = []
    for name in names:
        column = block.column(name)
        if column is not None and column.null_count < block.count:
            found.append((name, column))
    if kernels is not None:
        found.append(("kernel", kernels.dictionary_encode()))
    if not found:
        return None
    some = np.zeros(block.count, bool)
    for _, column in found:
        some |= np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    rows = pa.array(np.flatnonzero(some))
    parts = []
    for name, column in found:
        unit = block.table.unit(name) if name not in ARGS else ""
        key = orjson.dumps(ARGS.get(name, name)) + b":"
        cells = [t.strip() + unit for t in column.dictionary.to_pylist()]
        if name == "Unified Memory":
            cells = [moved(cell, block.table) for cell in cells]
            _unified_sizes(columns, column, cells, block.table.decimal)
        texts = [(key + orjson.dumps(cell)).decode() for cell in cells]
        parts.append(pa.array(texts, pa.string()).take(column.indices.take(rows)))
    comma = pa.scalar(",")
    joined = pc.binary_join_element_wise(*parts, comma, null_handling="skip")
    objects = pc.binary_join_element_wise(pa.scalar("{"), joined, pa.scalar("}"), pa.scalar(""))
    place = np.cumsum(some) - 1
    return objects.take(pa.array(place, mask=~some))


def _unified_sizes(columns: dict[str, Any], column: pa.DictionaryArray, cells: list[str], decimal: str) -> None:
    """Take the bytes of `[Unified Memory Memcpy ...]` rows from their cell, `4.000000KB`; cells: the distinct ones."""
    sizes: list[int | None] = []
    for cell in cells:
        try:
            sizes.append(size_bytes(cell, "", decimal))
        except RowError:
            sizes.append(None)
    copies = pc.equal(columns["kind"].indices, _CODE[Kind.MEMCPY])
    carried = pc.if_else(copies, pa.array(sizes, pa.int64()).take(column.indices), pa.scalar(None, pa.int64()))
    known = columns["bytes"]
    columns["bytes"] = carried if known is None else pc.coalesce(known, carried)

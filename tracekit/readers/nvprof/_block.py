"""Blocks of CSV lines of a trace table to batches of EVENTS, column by column, with pyarrow and numpy.

Times are exact. A time is read as the nearest double of its decimal text, and multiplied by a power of ten up to 10^9,
which a double holds exactly. Each of the two steps errs by at most 2^-53 of the value. So below 2^50 ns the product x
is off by less than 2^50 x 2^-52 = 1/4. If x is less than 1/4 from an integer n, the true value is less than 1/2 from n,
so it rounds to n, whatever its number of decimals. Other rows go to the row path, which is exact. Sizes are multiplied
by a power of two, which is exact. Those near a half go to the row path too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Column, DictColumn, Mask, pc
from tracekit.model.schema import TEXT, Kind
from tracekit.model.units import BYTE_FACTOR, TIME_EXPONENT
from tracekit.readers.builder import Values, event_batch, map_texts
from tracekit.readers.engine.cells import RowError
from tracekit.readers.engine.csv_bytes import CELL_STARTS, has_hexadecimal
from tracekit.readers.nvprof._lines import NARROW
from tracekit.readers.nvprof._names import UNIFIED, api_kind, device_kind, suffixes, trimmed
from tracekit.readers.nvprof._row import ARGS, INTEGERS, KNOWN, SIZES, size_bytes, unified_memory_cell
from tracekit.readers.nvprof._state import FastPlan, NvprofState, OpenTable

LIMIT = float(1 << 50)

_KINDS = [str(k) for k in Kind]
_CODE = {k: i for i, k in enumerate(_KINDS)}
_KIND_TEXTS = arrow.array(_KINDS, pa.string())


def _scaled(values: F64, factor: int) -> F64:
    with np.errstate(over="ignore"):
        return values * float(factor)


def plan_for(table: OpenTable, *, careful: bool) -> FastPlan | None:
    """Return how pyarrow reads the rows of the table, None if only the row path can (units missing or unknown).

    careful: a column of integers may hold a hexadecimal number.
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


class NvprofBlock:
    """The columns of one block of rows, and the mask of the rows for the row path."""

    def __init__(self, table: OpenTable, state: NvprofState, data: pa.Table) -> None:
        self.table, self.state, self.count = table, state, data.num_rows
        self._columns = {name: data.column(name) for name in data.schema.names}
        self.exact = np.zeros(self.count, bool)
        """Rows that the row path must read."""
        self.check_quotes = False
        """Whether output of the program, `1,2.30,loss`, may be among the rows: few columns, and rows without quotes."""

    def column(self, name: str) -> Column | None:
        """Return a column as it was read, None if the table has none of that name."""
        return self._combined(name) if name in self._columns else None

    def _combined(self, name: str) -> Column:
        column = self._columns[name]
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        return column.combine_chunks() if column.num_chunks != 1 else column.chunks[0]

    def _floats(self, column: Column) -> tuple[F64, Mask | None]:
        # Not isnan: a cell with the text "nan" is not empty, and goes to the row path.
        return arrow.floats(column), (~arrow.valid(column) if column.null_count else None)

    def time(self, name: str) -> tuple[I64, Mask | None]:
        """Return the ns of a column, 0 for an empty cell, and the mask of the empty cells (None: there are none)."""
        values, missing = self._floats(self._combined(name))
        product = _scaled(values, 10 ** TIME_EXPONENT[self.table.unit(name)])
        if missing is not None:
            product[missing] = 0.0
        with np.errstate(invalid="ignore"):
            whole = np.rint(product)
            self.exact |= ~((np.abs(product - whole) < 0.25) & (product < LIMIT) & (product >= 0.0))
            return whole.astype(np.int64), missing

    def size(self, name: str) -> Column | None:
        """Return the whole bytes of a column, null where it is empty."""
        column = self.column(name)
        if column is None or column.null_count == self.count:
            return None
        if not pa.types.is_floating(column.type):
            self.exact |= arrow.valid(column)
            return None
        values, missing = self._floats(column)
        product = _scaled(values, BYTE_FACTOR[self.table.unit(name)])
        if missing is not None:
            product[missing] = 0.0
        with np.errstate(invalid="ignore"):
            whole = np.rint(product)
            near = 0.5 - np.abs(product - whole) > product * 2.0**-51
            self.exact |= ~(near & (product < LIMIT) & (product >= 0.0))
            return arrow.array(whole.astype(np.int64), mask=missing)

    def ids(self, name: str) -> Column | None:
        """Return context or stream as int64. Ids that are text become numbers of the table of ids."""
        column = self.column(name)
        if column is None or not pa.types.is_dictionary(column.type):
            return column
        number = self.state.stream if name == "Stream" else self.state.context
        return self._by_text(arrow.encoded(column), lambda text: number(text) if text else None, pa.int64())

    def integer(self, name: str, kind: pa.DataType, limit: int) -> Column | None:
        """Return a column of integers. Doubles below 2^53 hold them exactly."""
        column = self.column(name)
        if column is None or not pa.types.is_floating(column.type):
            return column
        values, missing = self._floats(column)
        if missing is not None:
            values = np.where(missing, 0.0, values)
        with np.errstate(invalid="ignore"):
            bad = ~((np.abs(values) < limit) & (values == np.rint(values)))
        self.exact |= bad
        return arrow.array(np.where(bad, 0.0, values).astype(np.int64), mask=missing).cast(kind)

    def device(self) -> tuple[Column | None, Mask]:
        """Return the numbers of the devices (int32), and the mask of the rows without a device."""
        column = self.column("Device")
        if column is None:
            return None, np.ones(self.count, bool)
        out = self._by_text(arrow.encoded(column), self.state.device, pa.int32())
        return out, ~arrow.valid(out)

    def _by_text(self, column: DictColumn, number: Callable[[str], int | None], kind: pa.DataType) -> Column:
        """Return a number for each text; each distinct text is looked up once, without the blanks around it."""
        numbers = arrow.array([number(text.strip()) for text in arrow.texts(column.dictionary)], kind)
        return numbers.take(column.indices)

    def encoded_names(self, calls: Mask) -> tuple[DictColumn, I64, Mask, Mask]:
        """Return names without suffix, numbers of the suffixes, and masks of the suffixes and of those of launches."""
        names: Column = self._columns["Name"].combine_chunks()
        if names.null_count:
            names = names.fill_null("")
        if names.offset:
            names = pa.concat_arrays([names])
        plain, launch, numbers = suffixes(names)
        launch &= calls
        return trimmed(names, plain, launch).dictionary_encode(), numbers, plain | launch, launch


def read_block(data: bytes, line: int, table: OpenTable, state: NvprofState) -> tuple[pa.RecordBatch, list[int]] | None:
    """Return the events of a block of CSV lines, and the lines (from 0) that only the row path may read.

    data: whole lines. None when the lines are not all rows of this table; then the ledger is unchanged.
    """
    raw = np.frombuffer(data, np.uint8)
    careful = has_hexadecimal(data, CELL_STARTS)
    key = (table.decimal, table.text_ids, careful)
    if table.plan_key != key:
        table.plan, table.plan_key = plan_for(table, careful=careful), key
    plan = table.plan
    if plan is None:
        return None
    try:
        parsed = pacsv.read_csv(arrow.byte_file(data), plan.read, plan.parse, plan.convert)
    except pa.ArrowInvalid:
        return None
    count = parsed.num_rows
    if not count or count != int(np.count_nonzero(raw == 10)):  # bytes.count takes seven times as long
        return None
    block = NvprofBlock(table, state, parsed)
    block.check_quotes = table.header.quoted and len(table.header.columns) < NARROW and data.count(b'"') != 2 * count
    ts, no_start = block.time("Start")
    dur, no_duration = block.time("Duration")
    if no_start is not None:
        block.exact |= no_start
    integers = {target: block.integer(name, pa.int32(), 1 << 31) for name, target in INTEGERS.items()}
    sizes = {target: block.size(name) for name, target in SIZES.items()}
    device, calls = block.device()
    if (grid := integers["grid_x"]) is not None and calls.any():
        calls = calls & ~arrow.valid(grid)
    names, numbers, suffixed, launches = block.encoded_names(calls)
    kinds = _kinds(block, names, calls, launches, no_duration)
    args = _args(block, plan.text_columns, kinds.kernels)
    if (carried := _unified_sizes(block, kinds.kind)) is not None:
        known = sizes["bytes"]
        sizes["bytes"] = carried if known is None else pc.coalesce(known, carried)
    name, raw_name = state.names.columns(kinds.names)
    correlation = block.integer("Correlation_ID", pa.int64(), 1 << 53)
    if suffixed.any():
        own = arrow.array(numbers, mask=~suffixed)
        correlation = own if correlation is None else pc.coalesce(correlation, own)
    columns: dict[str, Values] = {
        "ts_ns": ts,
        "dur_ns": dur if no_duration is None else arrow.array(dur, mask=no_duration),
        "event_id": np.arange(line, line + count),
        "name": name,
        "raw_name": raw_name,
        "kind": kinds.kind,
        "copy_kind": kinds.copy_kind,
        "source": state.source,
        "pid": table.pid,
        "device": device,
        "context": block.ids("Context"),
        "stream": block.ids("Stream"),
        "correlation": correlation,
        "args": args,
        **integers,
        **sizes,
    }
    batch = event_batch(count, columns)
    if not block.exact.any():
        return batch, []
    return batch.filter(arrow.array(~block.exact)), np.flatnonzero(block.exact).tolist()


@dataclass(frozen=True, slots=True)
class Kinds:
    """The columns of a block that follow from its names. names: of a launch, that of the call alone.

    kernels: names of the launched kernels, None if the block has no launch that names one.
    """

    names: DictColumn
    kind: DictColumn
    copy_kind: DictColumn | None
    kernels: Column | None


def _kinds(block: NvprofBlock, names: DictColumn, calls: Mask, launches: Mask, no_duration: Mask | None) -> Kinds:
    """Return the kinds of the rows, and mark the rows with odd names for the row path."""
    texts = arrow.texts(names.dictionary)
    codes = arrow.codes(names)
    device_kinds = [device_kind(t) for t in texts]
    kinds = np.array([_CODE[k] for k, _ in device_kinds], np.int32)[codes]
    copy_kinds = sorted({copy for _, copy in device_kinds if copy})
    copy_kind: DictColumn | None = None
    if copy_kinds:
        copy_codes = np.array([copy_kinds.index(copy) if copy else -1 for _, copy in device_kinds], np.int32)[codes]
        indices = arrow.array(copy_codes, mask=copy_codes < 0)
        copy_kind = pa.DictionaryArray.from_arrays(indices, arrow.array(copy_kinds, pa.string()))
    kernels: Column | None = None
    called = texts
    if launches.any():
        launch = np.zeros(len(texts), bool)
        launch[codes[launches]] = True
        pairs = [t.split(" (", 1) if is_launch else [t] for t, is_launch in zip(texts, launch.tolist(), strict=True)]
        called = [p[0] for p in pairs]
        kernels = arrow.array([p[1] if len(p) == 2 else None for p in pairs], pa.string()).take(names.indices)
        names = map_texts(names, dict(zip(texts, called, strict=True)).__getitem__)
    if calls.any():
        api = np.array([-1 if t.startswith("[") else _CODE[api_kind(t)] for t in called], np.int32)[codes]
        kinds = np.where(calls & (api >= 0), api, kinds)
        if block.check_quotes:
            block.exact |= calls & (api == _CODE[Kind.OTHER])
    odd = np.array(['"' in t or "\0" in t or not t or t != t.strip() for t in texts])
    if odd.any():
        block.exact |= odd[codes]
    if no_duration is not None:
        unified = np.array([t.startswith(UNIFIED) for t in texts])
        block.exact |= no_duration & ~unified[codes]
    kind = pa.DictionaryArray.from_arrays(arrow.array(kinds.astype(np.int32)), _KIND_TEXTS)
    return Kinds(names, kind, copy_kind, kernels)


def _args(block: NvprofBlock, names: Sequence[str], kernels: Column | None) -> Column | None:
    """Return the JSON of the columns without a place in the schema, null where they are all empty."""
    extras: list[tuple[str, DictColumn]] = []
    for name in names:
        column = block.column(name)
        if column is not None and column.null_count < block.count:
            extras.append((name, arrow.encoded(column)))
    if kernels is not None:
        extras.append(("kernel", arrow.encoded(kernels)))
    if not extras:
        return None
    some = np.zeros(block.count, bool)
    for _, extra in extras:
        some |= arrow.valid(extra)
    rows = arrow.array(np.flatnonzero(some))
    parts: list[Column] = []
    for name, extra in extras:
        key = orjson.dumps(ARGS.get(name, name)) + b":"
        texts = [(key + orjson.dumps(cell)).decode() for cell in _cells_with_units(block, name, extra)]
        parts.append(arrow.array(texts, pa.string()).take(extra.indices.take(rows)))
    joined = pc.binary_join_element_wise(*parts, ",", null_handling="skip")
    objects = pc.binary_join_element_wise("{", joined, "}", "")
    place = np.cumsum(some) - 1
    return objects.take(arrow.array(place, mask=~some))


def _cells_with_units(block: NvprofBlock, name: str, column: DictColumn) -> list[str]:
    """Return the distinct cells of a column that goes into args, as printed, with their unit."""
    unit = block.table.unit(name) if name not in ARGS else ""
    cells = [text.strip() + unit for text in arrow.texts(column.dictionary)]
    return [unified_memory_cell(cell, block.table) for cell in cells] if name == "Unified Memory" else cells


def _unified_sizes(block: NvprofBlock, kind: DictColumn) -> Column | None:
    """Return the bytes of unified memory copies, which are in the column Unified Memory: `4.000000KB`."""
    column = block.column("Unified Memory")
    if column is None or column.null_count == block.count:
        return None
    encoded = arrow.encoded(column)
    sizes: list[int | None] = []
    for cell in _cells_with_units(block, "Unified Memory", encoded):
        try:
            sizes.append(size_bytes(cell, "", block.table.decimal))
        except RowError:
            sizes.append(None)
    copies = pc.equal(kind.indices, _CODE[Kind.MEMCPY])
    return pc.if_else(copies, arrow.array(sizes, pa.int64()).take(encoded.indices), pa.scalar(None, pa.int64()))

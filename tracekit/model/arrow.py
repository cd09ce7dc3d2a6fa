"""Names for pyarrow's types, and the calls whose published types are wrong or too wide.

`pc` has the functions of `pyarrow.compute` with narrow types, and without its import: a function of columns returns a
column of the same container. Take it from here (`from tracekit.model.arrow import pc`). Take `array` and `nulls` from
here as well: pyarrow-stubs calls every column made of a numpy array a column of bool. A column of a batch is a
`Column`, a column of a table is `Chunked`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import IO, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.model._arrow_functions import Functions

__all__ = [
    "F64",
    "I32",
    "I64",
    "U64",
    "ArrowResult",
    "Bytes",
    "Chunked",
    "Codes",
    "Column",
    "DictColumn",
    "Mask",
    "Numbers",
    "Rows",
    "Value",
    "Values",
    "array",
    "binaries",
    "bools",
    "bounds",
    "buffer",
    "byte_file",
    "codes",
    "count",
    "dtype_of",
    "encoded",
    "floats",
    "in_one",
    "ints",
    "ints_or_least",
    "joined",
    "keep_memory",
    "nullable",
    "nulls",
    "optional_texts",
    "pc",
    "release_memory",
    "sort",
    "stored",
    "take",
    "text_column",
    "text_parts",
    "texts",
    "valid",
    "view",
    "with_column",
]

# Names for the types of numpy arrays, for the whole package.


I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
U64: TypeAlias = npt.NDArray[np.uint64]
F64: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Rows: TypeAlias = npt.NDArray[np.signedinteger]
"""Row numbers, of whatever width numpy chose."""
Codes: TypeAlias = npt.NDArray[np.signedinteger]
"""Numbers of names or classes, of a width that holds them all."""
Numbers: TypeAlias = npt.NDArray[np.generic]
"""Numbers of any type, which a function converts itself."""

Column: TypeAlias = "pa.Array[Any]"
DictColumn: TypeAlias = "pa.DictionaryArray[Any, Any]"
Chunked: TypeAlias = "pa.ChunkedArray[Any]"
Values: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Value: TypeAlias = "pa.Scalar[Any] | bool | int | float | str | bytes | None"

V = TypeVar("V", "pa.Array[Any]", "pa.ChunkedArray[Any]")
Tabular = TypeVar("Tabular", "pa.Array[Any]", "pa.ChunkedArray[Any]", pa.RecordBatch, pa.Table)
ColumnTable = TypeVar("ColumnTable", pa.RecordBatch, pa.Table)
G = TypeVar("G", bound=np.generic)


class ArrowResult(Protocol):
    """A scalar that a function of a whole column returns."""

    def as_py(self) -> Any:
        """Return the value as a Python object, None for null."""


class _Compute(Protocol):
    """The functions of `pyarrow.compute` that the package calls. Nulls stay null unless a function says otherwise."""

    def add(self, left: V | Value, right: V | Value) -> V: ...
    def add_checked(self, left: V | Value, right: V | Value) -> V: ...
    def subtract(self, left: V | Value, right: V | Value) -> V: ...
    def multiply(self, left: V | Value, right: V | Value) -> V: ...
    def divide(self, left: V | Value, right: V | Value) -> V: ...
    def bit_wise_and(self, left: V | Value, right: V | Value) -> V: ...
    def shift_left(self, left: V | Value, right: V | Value) -> V: ...
    def shift_right(self, left: V | Value, right: V | Value) -> V: ...

    def equal(self, left: V | Value, right: V | Value) -> V: ...
    def not_equal(self, left: V | Value, right: V | Value) -> V: ...
    def less(self, left: V | Value, right: V | Value) -> V: ...
    def less_equal(self, left: V | Value, right: V | Value) -> V: ...
    def greater(self, left: V | Value, right: V | Value) -> V: ...
    def greater_equal(self, left: V | Value, right: V | Value) -> V: ...

    def and_(self, left: V | Value, right: V | Value) -> V: ...
    def or_(self, left: V | Value, right: V | Value) -> V: ...
    def invert(self, values: V) -> V: ...
    def is_null(self, values: V) -> V: ...
    def is_in(self, values: V, value_set: Column) -> V: ...
    def index_in(self, values: V, value_set: Column, *, skip_nulls: bool = False) -> V: ...

    def if_else(self, cond: V, left: V | Value, right: V | Value) -> V: ...
    def coalesce(self, *values: V | Value) -> V: ...
    def fill_null(self, values: V, fill_value: V | Value) -> V: ...
    def replace_with_mask(self, values: V, mask: Column, replacements: Column) -> V: ...
    def cast(self, values: V, target_type: pa.DataType) -> V: ...
    def unique(self, values: Column) -> Column: ...
    def dictionary_encode(self, values: V) -> V: ...
    def drop_null(self, values: V) -> V: ...
    def filter(self, values: Tabular, selection_filter: Values) -> Tabular: ...
    def is_valid(self, values: Values) -> Values: ...
    def take(self, values: Tabular, indices: Values) -> Tabular: ...

    def ends_with(self, strings: V, pattern: str, *, ignore_case: bool = False) -> V: ...
    def starts_with(self, strings: V, pattern: str, *, ignore_case: bool = False) -> V: ...
    def find_substring_regex(self, strings: V, pattern: str, *, ignore_case: bool = False) -> V: ...
    def match_substring(self, strings: V, pattern: str, *, ignore_case: bool = False) -> V: ...
    def match_substring_regex(self, strings: V, pattern: str, *, ignore_case: bool = False) -> V: ...
    def replace_substring_regex(self, strings: V, pattern: str, replacement: str) -> V: ...
    def extract_regex(self, strings: V, pattern: str) -> V: ...
    def struct_field(self, values: V, indices: str | int) -> V: ...
    def binary_length(self, strings: V) -> V: ...
    def list_value_length(self, lists: V) -> V: ...
    def utf8_length(self, strings: V) -> V: ...
    def utf8_lpad(self, strings: V, width: int, padding: str = " ") -> V: ...
    def utf8_trim_whitespace(self, strings: V) -> V: ...
    def utf8_rtrim(self, strings: V, characters: str) -> V: ...
    def ascii_rtrim(self, strings: V, characters: str) -> V: ...
    def binary_join(self, lists: Column, separator: str) -> Column: ...
    def binary_join_element_wise(self, *strings: V | Value, null_handling: str = "emit_null") -> V: ...

    def any(self, values: Values) -> ArrowResult: ...
    def max(self, values: Values) -> ArrowResult: ...
    def min(self, values: Values) -> ArrowResult: ...
    def min_max(self, values: Values) -> ArrowResult: ...
    def sum(self, values: Values) -> ArrowResult: ...


_untyped: Any = Functions()
pc: _Compute = _untyped


def release_memory() -> None:
    """Give freed memory back to the system: for use after a stage that freed much, and before one that needs much."""
    pa.default_memory_pool().release_unused()
    if (trim := _trim()) is not None:
        trim(0)


def keep_memory() -> None:
    """Let the process keep memory that is freed, for the next blocks of an input that are as large.

    glibc returns an array to the system until one of up to 32 MB was freed, and then keeps such arrays, as most
    programs with numpy soon let it. Blocks of input come and go: their memory would come anew, page by page, each time.
    Does nothing elsewhere, or where the thresholds of glibc are set. `release_memory` gives all back.
    """
    np.empty(_KEPT, np.uint8)


_KEPT = 31 << 20


@cache
def _trim() -> Callable[[int], int] | None:
    """Return `malloc_trim` of glibc, None elsewhere.

    Arrays of numpy up to 32 MB come from the heap, which glibc gives back only from its end. A stage that frees some
    hundred of them would leave that memory to the process, while the next stage asks Arrow's pool for as much again.
    """
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


def sort(values: I64) -> None:
    """Sort whole numbers in place.

    Times of events come in runs that rise, which a merge sort joins in a third of the time of a quicksort; of numbers
    without an order, one of two neighbours is the larger one.

    >>> values = np.array([2, 3, 1])
    >>> sort(values)
    >>> values.tolist()
    [1, 2, 3]
    """
    rising = np.count_nonzero(values[1:] >= values[:-1])
    if rising < values.size - 1:
        values.sort(kind="stable" if rising > _RISING * values.size else None)


_RISING = 0.55


def array(values: object, type: pa.DataType | None = None, *, mask: Mask | Column | None = None) -> Column:
    """Return `pa.array(values)`; rows where `mask` is true become null.

    >>> array(np.array([3, 4]), mask=np.array([False, True])).to_pylist()
    [3, None]
    """
    untyped: Any = values
    if (own := _numbers(untyped, type, mask)) is not None:
        return own
    column: Column = pa.array(untyped, type, mask=mask)
    return column


def _numbers(values: Any, type: pa.DataType | None, mask: Any) -> Column | None:
    """Return a numpy array of numbers as a column on the same memory; None where Arrow must convert it.

    Arrow asks first whether the array is one of `numpy.ma`, and so imports that.
    """
    if values.__class__ is not np.ndarray or not (values.ndim == 1 and values.flags.c_contiguous):
        return None
    own = _TYPES.get(values.dtype)
    if own is None or (type is not None and type != own):
        return None
    missing, bits = 0, None
    if mask is not None:
        if mask.__class__ is not np.ndarray or mask.dtype != np.bool_ or mask.shape != values.shape:
            return None
        missing = int(np.count_nonzero(mask))
        bits = buffer(np.packbits(~mask, bitorder="little")) if missing else None
    data = buffer(np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values)
    column: Column = pa.Array.from_buffers(own, len(values), [bits, data], missing)
    return column


def nullable(values: I64 | I32, type: pa.DataType, present: Mask) -> Column:
    """Return whole numbers as a column of int64 or int32, null where `present` is false. They must fit the type.

    Arrow's own way takes twice as long, and more memory.

    >>> nullable(np.array([7, 0]), pa.int32(), np.array([True, False])).to_pylist()
    [7, None]
    """
    missing = len(values) - int(np.count_nonzero(present))
    own = values.astype(np.int32 if pa.types.is_int32(type) else np.int64, copy=False)
    bits = buffer(np.packbits(present, bitorder="little")) if missing else None
    column: Column = pa.Array.from_buffers(type, len(own), [bits, buffer(own)], missing)
    return column


def nulls(size: int, type: pa.DataType) -> Column:
    """Return a column of nulls.

    >>> nulls(2, pa.string()).to_pylist()
    [None, None]
    """
    untyped: Any = type
    column: Column
    if isinstance(type, pa.DictionaryType):
        none = pa.nulls(0, untyped).dictionary
        return pa.DictionaryArray.from_arrays(nulls(size, type.index_type), none)
    if type not in (pa.int32(), pa.int64(), pa.float64(), pa.string()):
        column = pa.nulls(size, untyped)
        return column
    # Memory of zeros that nobody writes to takes no pages of the system; Arrow's own is written.
    zeros = buffer(np.zeros(size + 1, np.int64))
    texts: list[pa.Buffer | None] = [buffer(np.zeros(0, np.uint8))] if pa.types.is_string(type) else []
    column = pa.Array.from_buffers(type, size, [zeros, zeros, *texts], size)
    return column


def take(data: Tabular, rows: Rows) -> Tabular:
    """Return the rows of a column, batch or table in the order of `rows`."""
    return pc.take(data, array(rows))


def with_column(table: ColumnTable, name: str, values: Column) -> ColumnTable:
    """Return a batch or table with other values in one of its columns, which keeps its place and type."""
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), pc.cast(values, table.schema.field(place).type))


def in_one(column: Chunked) -> Column:
    """Return a column of a table in one piece."""
    whole: Column = pa.concat_arrays(column.chunks) if column.num_chunks else nulls(0, column.type)
    return whole


def encoded(column: Column) -> DictColumn:
    """Return the column as a dictionary column; one that is a dictionary already is returned as it is."""
    if isinstance(column, pa.DictionaryArray):
        return column
    made: DictColumn = _untyped.dictionary_encode(column)
    return made


def codes(column: Column) -> I32:
    """Return the dictionary codes of a column, -1 for null."""
    indices = encoded(column).indices
    numbers: Rows = (pc.fill_null(indices, -1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int32, copy=False)


def ints(values: Values, null: int = 0) -> I64:
    """Return an integer column as int64, with `null` in the place of a null. The result may be read-only.

    >>> ints(array([1, None, 3]), -1)
    array([ 1, -1,  3])
    """
    return _filled(values, null).astype(np.int64, copy=False)


def ints_or_least(values: Values) -> I64:
    """Return an integer column as int64, with the least int64 for null, which a narrower column could not hold.

    The result may be read-only.
    """
    if not values.null_count:
        return ints(values)
    if values.null_count == len(values):
        return np.full(len(values), np.iinfo(np.int64).min)
    return np.where(valid(values), ints(values), np.iinfo(np.int64).min)


def floats(values: Values, null: float = np.nan) -> F64:
    """Return a column of floats as float64, with `null` in the place of a null. The result may be read-only."""
    return _filled(values, null).astype(np.float64, copy=False)


def bools(values: Values) -> Mask:
    """Return a column of bool, null as False."""
    return _filled(values, False).astype(np.bool_, copy=False)


def valid(values: Values) -> Mask:
    """Return for each row whether it has a value."""
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    return bools(pc.is_valid(values))


def _filled(values: Values, null: float) -> npt.NDArray[np.generic]:
    filled: Values = _untyped.fill_null(values, null) if values.null_count else values
    numbers: npt.NDArray[np.generic] = filled.to_numpy(zero_copy_only=False)
    return numbers


def texts(values: Values) -> list[str]:
    """Return the values of a text column that has no null.

    >>> texts(array(["a", "b"]))
    ['a', 'b']
    """
    found: list[Any] = values.to_pylist()
    return found


def binaries(values: Values) -> list[bytes]:
    """Return the values of a binary column that has no null."""
    found: list[Any] = values.to_pylist()
    return found


def optional_texts(values: Values) -> list[str | None]:
    """Return the values of a text column, None for null."""
    found: list[str | None] = values.to_pylist()
    return found


def joined(columns: Sequence[Column], between: str) -> Column:
    """Return the texts of each row, joined without the nulls: "" for a row of nulls, which Arrow itself leaves out."""
    empty = ~np.logical_or.reduce([valid(column) for column in columns])
    first = pc.if_else(array(empty), "", columns[0]) if empty.any() else columns[0]
    return pc.binary_join_element_wise(first, *columns[1:], between, null_handling="skip")


def count(mask: Values) -> int:
    """Return the number of true rows."""
    return int(pc.sum(mask).as_py() or 0)


def bounds(values: Values) -> tuple[int, int] | None:
    """Return the least and the greatest value of an integer column, None when it has no value.

    >>> bounds(array([5, None, 2]))
    (2, 5)
    """
    found: dict[str, int | None] = pc.min_max(values).as_py()
    least, greatest = found["min"], found["max"]
    return None if least is None or greatest is None else (least, greatest)


def text_parts(column: Column) -> tuple[I64, Bytes]:
    """Return the offsets (n + 1) of a text or binary column into its bytes, and the bytes. Neither is copied if it can.

    >>> text_parts(array(["ab", "c"]))[0]
    array([0, 2, 3])
    """
    _, ends, data = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    offsets = view(ends, np.int64) if wide else view(ends, np.int32)
    if not len(offsets):
        return np.zeros(1, np.int64), view(data, np.uint8)
    return offsets[column.offset : column.offset + len(column) + 1].astype(np.int64, copy=False), view(data, np.uint8)


def text_column(offsets: I32 | I64, data: Bytes, type: pa.DataType | None = None) -> Column:
    """Return the text column (binary or large, as `type` says) with these offsets (n + 1) into these bytes; no copy.

    >>> text_column(np.array([0, 2, 3], np.int32), np.frombuffer(b"abc", np.uint8)).to_pylist()
    ['ab', 'c']
    """
    buffers = [None, buffer(offsets), buffer(data)]
    column: Column = pa.Array.from_buffers(type or pa.string(), len(offsets) - 1, buffers)
    return column


def byte_file(data: bytes) -> IO[bytes]:
    """Return bytes as a file for pyarrow's own readers; no copy. The published types allow Python's files only.

    >>> byte_file(b"a,b").read()
    b'a,b'
    """
    untyped: Any = pa.BufferReader(data)
    file: IO[bytes] = untyped
    return file


def buffer(values: npt.NDArray[np.generic]) -> pa.Buffer:
    """Return the memory of a contiguous numpy array as an Arrow buffer."""
    untyped: Any = values
    return pa.py_buffer(untyped)


_DTYPES = {
    pa.bool_(): np.bool_,
    pa.int8(): np.int8,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float64(): np.float64,
}


_TYPES = {
    np.dtype(np.bool_): pa.bool_(),
    np.dtype(np.int8): pa.int8(),
    np.dtype(np.int16): pa.int16(),
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.uint8): pa.uint8(),
    np.dtype(np.uint16): pa.uint16(),
    np.dtype(np.uint32): pa.uint32(),
    np.dtype(np.uint64): pa.uint64(),
    np.dtype(np.float32): pa.float32(),
    np.dtype(np.float64): pa.float64(),
}


def dtype_of(type: pa.DataType) -> npt.DTypeLike:
    """Return NumPy's type of a column of ours, `object` for texts. `to_pandas_dtype` of pyarrow 21 imports pandas."""
    return _DTYPES.get(type, np.object_)


def stored(column: Column, dtype: type[G]) -> npt.NDArray[G]:
    """Return the memory of a column of numbers, without a copy. What is below a null is of no meaning."""
    return view(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


def view(memory: pa.Buffer | None, dtype: type[G]) -> npt.NDArray[G]:
    """Return the numbers in an Arrow buffer without a copy; none for a buffer that is not there."""
    if memory is None:
        return np.empty(0, dtype)
    untyped: Any = memory
    return np.frombuffer(untyped, dtype)

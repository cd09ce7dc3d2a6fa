"""Columns of a CUDA profiler log: their meaning, and the values of one block of rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import lru_cache

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column, DictColumn, pc
from tracekit.readers.cuda_profile._cells import Cells
from tracekit.units import MAX_NS, to_ns

INTEGERS = {
    **{f"{shape}{axis}": f"grid_{axis.lower()}" for shape in ("gridsize", "ndrangesize") for axis in "XYZ"},
    **{f"{shape}{axis}": f"block_{axis.lower()}" for shape in ("threadblocksize", "workgroupsize") for axis in "XYZ"},
    **dict.fromkeys(("stasmemperblock", "stapmemperblock", "stapmemperworkgroup"), "static_smem_bytes"),
    **dict.fromkeys(("dynsmemperblock", "dynsmemperworkgroup"), "dynamic_smem_bytes"),
    **dict.fromkeys(("regperthread", "regperworkitem"), "registers"),
    "streamid": "stream",
    "memtransfersize": "bytes",
}
"""Column of the log -> column of the schema; all others go into `args` as printed.

OpenCL has words of its own for the same things: the Visual Profiler imports an OpenCL log if they are replaced
(uob-hpc.github.io/2015/05/27/nvvp-import-opencl).
"""
SHAPES = ("gridsize", "threadblocksize", "ndrangesize", "workgroupsize")
"""Key-value logs of version 1 have one key for a shape: `gridsize=[ 16, 16 ] threadblocksize=[ 16, 16, 1 ]`."""
INT32 = frozenset({"grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"})
TIMES = ("gputime", "cputime", "timestamp", "gpustarttimestamp", "gpuendtimestamp")
NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,20})?([eE][+-]?\d{1,3})?", re.ASCII)
COPY = re.compile(r"memcpy(HtoD|DtoH|DtoD|HtoH|HtoA|AtoH|AtoD|DtoA|AtoA|PtoP|Peer)\w*", re.IGNORECASE | re.ASCII)
OTHER_COPY = re.compile(r"memcopy|memcpy(?!_)\w*", re.IGNORECASE | re.ASCII)
"""memcopy: any copy, in logs of CUDA 1.x (README of the CUDA Visual Profiler 1.0)."""
MEMSET = re.compile(r"memset(?!_)\w*", re.IGNORECASE | re.ASCII)
"""memset128, memset32_post; but a kernel of the user that is declared extern "C" may be called memset_kernel."""


def exact(column: str, text: str) -> int:
    """Return the integer value of one odd cell: ns of a time, else the number. Raises: ValueError."""
    text = text.strip()
    if column in ("gpustarttimestamp", "gpuendtimestamp"):
        if not re.fullmatch(r"[0-9a-fA-F]{1,16}", text):
            raise ValueError(f"not hexadecimal ns: {text[:40]!r}")
        value = int(text, 16)
    elif column in TIMES:
        value = to_ns(text, "us")
    else:
        try:
            number = Decimal(text)
        except InvalidOperation as err:
            raise ValueError(f"not a number: {text[:40]!r}") from err
        if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
            raise ValueError(f"not a whole number: {text[:40]!r}")
        value = int(number)
    if not 0 <= value < MAX_NS:
        raise ValueError(f"not a possible value: {text[:40]!r}")
    return value


def below_ns(text: str) -> bool:
    """Return whether a time in us has digits below 1 ns. Hexadecimal stamps have none."""
    try:
        ns = Decimal(text.strip()).scaleb(3)
    except ArithmeticError:  # not a number, or an exponent too large
        return False
    return ns != ns.to_integral_value()


@dataclass(slots=True)
class Block:
    """The rows of one block of lines.

    values: column -> int64 of shape (n,), and the mask of the rows that have a value. texts: column -> rows and their
    texts. bad: row -> the reason why it is not an event. odd: row and column of cells that the column cannot hold.
    rounded: rows with a time that has digits below 1 ns.
    """

    count: int
    values: dict[str, tuple[I64, Mask]] = field(default_factory=dict)
    texts: dict[str, list[tuple[I64, Column]]] = field(default_factory=dict)
    bad: dict[int, str] = field(default_factory=dict)
    odd: set[tuple[int, str]] = field(default_factory=set)
    rounded: set[int] = field(default_factory=set)

    def add(self, rows: I64, column: str, cells: Cells) -> None:
        """Add the cells of some rows to a column. Empty cells are nulls."""
        full = cells.ends > cells.starts
        if not full.all():
            rows, cells = rows[full], cells.take(full)
        if not len(rows):
            return
        if column in SHAPES:
            rows, cells = self._add_shape(rows, column, cells)
        if column not in TIMES and column not in INTEGERS:
            self.texts.setdefault(column, []).append((rows, cells.texts()))
            return
        if column in ("gpustarttimestamp", "gpuendtimestamp"):
            numbers, ok = cells.hexadecimal()
        elif column in TIMES:
            numbers, ok = cells.thousands()
        else:
            numbers, ok = cells.integers()
            if INTEGERS[column] in INT32:
                ok &= numbers < 1 << 31
        for at in np.flatnonzero(~ok).tolist():
            self.add_one(int(rows[at]), column, cells.one(at))
        if not ok.all():
            rows, numbers = rows[ok], numbers[ok]
        values, present = self._numbers(column)
        values[rows] = numbers
        present[rows] = True

    def _add_shape(self, rows: I64, column: str, cells: Cells) -> tuple[I64, Cells]:
        """Add shapes `x, y, z` or `x, y` to the columns of their parts, and return the other cells."""
        places = cells.text.commas()
        first = np.searchsorted(places, cells.starts)
        count = np.searchsorted(places, cells.ends) - first
        rest = np.ones(len(rows), np.bool_)
        for parts in (2, 3):
            chosen = np.flatnonzero(count == parts - 1)
            if not len(chosen):
                continue
            cuts = places[first[chosen][:, None] + np.arange(parts - 1)]
            begins = np.column_stack([cells.starts[chosen], cuts + 1])
            begins[:, 1:] += cells.text.bytes[begins[:, 1:]] == ord(" ")
            ends = np.column_stack([cuts, cells.ends[chosen]])
            read = [Cells(cells.text, begins[:, at], ends[:, at]).integers() for at in range(parts)]
            good = np.logical_and.reduce([ok & (numbers < 1 << 31) for numbers, ok in read])
            for axis, (numbers, _) in zip("XYZ", read, strict=False):
                values, present = self._numbers(column + axis)
                values[rows[chosen[good]]] = numbers[good]
                present[rows[chosen[good]]] = True
            rest[chosen[good]] = False
        return rows[rest], cells.take(rest)

    def add_one(self, row: int, column: str, text: str) -> None:
        """Add one odd cell to a column, exactly. A bad time makes the row bad; another bad cell is kept as text."""
        if not text.strip():
            return
        if column in TIMES or column in INTEGERS:
            try:
                value = exact(column, text)
            except ValueError as err:
                if column in TIMES and column != "cputime":
                    self.bad[row] = f"{column}: {err}"
                    return
            else:
                if INTEGERS.get(column) not in INT32 or value < 1 << 31:
                    values, present = self._numbers(column)
                    values[row], present[row] = value, True
                    if column in TIMES and below_ns(text):
                        self.rounded.add(row)
                    return
            self.odd.add((row, column))
        elif column in SHAPES and (match := re.fullmatch(r" *(\d{1,9}), ?(\d{1,9})(?:, ?(\d{1,9}))? *", text)):
            for axis, number in zip("XYZ", match.groups(), strict=True):
                if number is not None:
                    self.add_one(row, column + axis, number)
            return
        self.texts.setdefault(column, []).append((np.array([row]), arrow.array([text])))

    def _numbers(self, column: str) -> tuple[I64, Mask]:
        if column not in self.values:
            self.values[column] = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        return self.values[column]

    def number(self, column: str, rows: I64) -> tuple[I64, Mask]:
        """Return the values of some rows, and the mask of those present. rows: ascending, each at most once."""
        if column not in self.values:
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        values, present = self.values[column]
        return (values, present) if len(rows) == self.count else (values[rows], present[rows])

    def nullable(self, column: str, kind: pa.DataType, rows: I64) -> Column | None:
        """Return a column with nulls, None when it has no value at all."""
        values, present = self.number(column, rows)
        return arrow.array(values, kind, mask=~present) if present.any() else None

    def text(self, column: str, rows: I64) -> DictColumn:
        """Return a text column of some rows."""
        codes = np.full(self.count, -1, np.int32)
        words: list[str] = []
        known: dict[str, int] = {}
        for part_rows, part in self.texts.get(column, ()):
            encoded = arrow.encoded(part)
            distinct = arrow.texts(encoded.dictionary)
            new = np.empty(len(distinct), np.int32)
            for at, word in enumerate(distinct):
                if word not in known:
                    known[word] = len(words)
                    words.append(word)
                new[at] = known[word]
            codes[part_rows] = new[arrow.codes(encoded)]
        chosen = codes if len(rows) == self.count else codes[rows]
        return pa.DictionaryArray.from_arrays(arrow.array(chosen, mask=chosen < 0), arrow.array(words, pa.string()))


def args_of(block: Block, rows: I64, dur_ns: I64, *, stamps: tuple[str, ...] = ()) -> Column | None:
    """Return the JSON objects of the values without a column of their own, null where nothing is left.

    Whole ns: cputime_ns; gputime_ns if it differs from the time stamps; gpustarttimestamp_ns and timestamp_ns of the
    `stamps` that are not the start. All other members have the name of the log and hold the number as printed, or a
    string if it is not a JSON number.
    """
    parts: dict[str, Column] = {}
    for column in ("cputime", "gputime", *stamps):
        values, present = block.number(column, rows)
        if column == "gputime":
            present = present & (values != dur_ns)
        if present.any():
            parts[f"{column}_ns"] = arrow.array(values, mask=~present).cast(pa.string())
    for column in block.texts:
        if column == "method":
            continue
        encoded = block.text(column, rows)
        words = [w if NUMBER.fullmatch(w) else orjson.dumps(w).decode() for w in arrow.texts(encoded.dictionary)]
        if encoded.null_count < len(encoded):
            name = column
            while name in parts:  # a counter with the name of a member that is made here
                name += "_"
            parts[name] = arrow.array(words, pa.string()).take(encoded.indices)
    if not parts:
        return None
    # Not null_handling="skip": with it Arrow leaves out a row in which all parts are null (seen with 26.0.1).
    ended = [
        pc.fill_null(pc.binary_join_element_wise(_member(name, part), ",", ""), "") for name, part in parts.items()
    ]
    joined = pc.utf8_rtrim(pc.binary_join_element_wise(*ended, ""), ",")
    joined = pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), joined)
    return pc.binary_join_element_wise("{", joined, "}", "")


def _member(name: str, values: Column) -> Column:
    return pc.binary_join_element_wise(orjson.dumps(name).decode() + ":", values, "")


@lru_cache(maxsize=4096)
def copy_kind(method: str) -> str | None:
    """Return the direction of a copy (HtoD, PtoP ...) by its method, "" if unknown, None for other work."""
    match = COPY.fullmatch(method)
    if match is None:
        return "" if OTHER_COPY.fullmatch(method) else None
    return {"peer": "PtoP"}.get(match[1].lower(), match[1][0].upper() + "to" + match[1][3].upper())

"""What the columns of a CUDA profiler log mean, and how a block of cells becomes a batch of events."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.cuda_profile._cells import I64, Cells, Mask
from tracekit.units import MAX_NS, to_ns

INTEGERS = {
    "gridsizeX": "grid_x",
    "gridsizeY": "grid_y",
    "gridsizeZ": "grid_z",
    "threadblocksizeX": "block_x",
    "threadblocksizeY": "block_y",
    "threadblocksizeZ": "block_z",
    "ndrangesizeX": "grid_x",
    "ndrangesizeY": "grid_y",
    "ndrangesizeZ": "grid_z",
    "workgroupsizeX": "block_x",
    "workgroupsizeY": "block_y",
    "workgroupsizeZ": "block_z",
    "dynsmemperblock": "dynamic_smem_bytes",
    "stasmemperblock": "static_smem_bytes",
    "stapmemperblock": "static_smem_bytes",
    "stapmemperworkgroup": "static_smem_bytes",
    "dynsmemperworkgroup": "dynamic_smem_bytes",
    "regperthread": "registers",
    "regperworkitem": "registers",
    "streamid": "stream",
    "memtransfersize": "bytes",
}
"""Column of the log -> column of the schema; OpenCL has words of its own, which stand for the same things: the Visual
Profiler imports an OpenCL log once they are replaced (uob-hpc.github.io/2015/05/27/nvvp-import-opencl). All others go
into `args` as printed."""
SHAPES = ("gridsize", "threadblocksize", "ndrangesize", "workgroupsize")
"""Key-value logs of version 1 have one key for a shape: `gridsize=[ 16, 16 ] threadblocksize=[ 16, 16, 1 ]`."""
INT32 = frozenset({"grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"})
TIMES = ("gputime", "cputime", "timestamp", "gpustarttimestamp", "gpuendtimestamp")
NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,20})?([eE][+-]?\d{1,3})?", re.ASCII)
COPY = re.compile(r"memcpy(HtoD|DtoH|DtoD|HtoH|HtoA|AtoH|AtoD|DtoA|AtoA|PtoP|Peer)\w*", re.IGNORECASE | re.ASCII)
OTHER_COPY = re.compile(r"memcopy|memcpy(?!_)\w*", re.IGNORECASE | re.ASCII)
"""memcopy: any copy, in logs of CUDA 1.x (README of the CUDA Visual Profiler 1.0)."""
MEMSET = re.compile(r"memset(?!_)\w*", re.IGNORECASE | re.ASCII)
"""memset128, memset32_post; a kernel of the user's that is declared extern "C" may be called memset_kernel."""


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
    """Tell whether a time in us has digits below 1 ns; hexadecimal stamps have none."""
    try:
        ns = Decimal(text.strip()).scaleb(3)
    except ArithmeticError:  # no number, or one beyond every exponent
        return False
    return ns != ns.to_integral_value()


@dataclass(slots=True)
class Block:
    """The rows of one block of lines. `values`: column -> (int64 of shape (n,), which are there). `texts`: column ->
    a text or None a row. `bad`: row -> why it is no event. `odd`: row and column of cells that the
    column cannot hold. `rounded`: rows with a time that has digits below 1 ns.
    """

    count: int
    values: dict[str, tuple[I64, Mask]] = field(default_factory=dict)
    texts: dict[str, list[tuple[I64, pa.Array]]] = field(default_factory=dict)
    bad: dict[int, str] = field(default_factory=dict)
    odd: set[tuple[int, str]] = field(default_factory=set)
    rounded: set[int] = field(default_factory=set)

    def add(self, rows: I64, column: str, cells: Cells) -> None:
        """Put the cells of some rows into a column; empty cells are nulls."""
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
        values, there = self._numbers(column)
        values[rows] = numbers
        there[rows] = True

    def _add_shape(self, rows: I64, column: str, cells: Cells) -> tuple[I64, Cells]:
        """Put shapes `x, y, z` or `x, y` into the columns of their parts; return the cells that are none."""
        places = cells.text.commas()
        first = np.searchsorted(places, cells.starts)
        count = np.searchsorted(places, cells.ends) - first
        rest = np.ones(len(rows), np.bool_)
        for parts in (2, 3):
            mine = np.flatnonzero(count == parts - 1)
            if not len(mine):
                continue
            cuts = places[first[mine][:, None] + np.arange(parts - 1)]
            begins = np.column_stack([cells.starts[mine], cuts + 1])
            begins[:, 1:] += cells.text.bytes[begins[:, 1:]] == ord(" ")
            ends = np.column_stack([cuts, cells.ends[mine]])
            read = [Cells(cells.text, begins[:, at], ends[:, at]).integers() for at in range(parts)]
            good = np.logical_and.reduce([ok & (numbers < 1 << 31) for numbers, ok in read])
            for axis, (numbers, _) in zip("XYZ", read, strict=False):
                values, there = self._numbers(column + axis)
                values[rows[mine[good]]] = numbers[good]
                there[rows[mine[good]]] = True
            rest[mine[good]] = False
        return rows[rest], cells.take(rest)

    def add_one(self, row: int, column: str, text: str) -> None:
        """Put one odd cell into a column, exactly; a time that is none spoils the row, another cell stays as text."""
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
                    values, there = self._numbers(column)
                    values[row], there[row] = value, True
                    if column in TIMES and below_ns(text):
                        self.rounded.add(row)
                    return
            self.odd.add((row, column))
        elif column in SHAPES and (found := re.fullmatch(r" *(\d{1,9}), ?(\d{1,9})(?:, ?(\d{1,9}))? *", text)):
            for axis, number in zip("XYZ", found.groups(), strict=True):
                if number is not None:
                    self.add_one(row, column + axis, number)
            return
        self.texts.setdefault(column, []).append((np.array([row]), pa.array([text])))

    def _numbers(self, column: str) -> tuple[I64, Mask]:
        if column not in self.values:
            self.values[column] = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        return self.values[column]

    def number(self, column: str, rows: I64) -> tuple[I64, Mask]:
        """Return a column's values and which are there, of some rows; rows: each at most once, ascending."""
        if column not in self.values:
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        values, there = self.values[column]
        return (values, there) if len(rows) == self.count else (values[rows], there[rows])

    def nullable(self, column: str, kind: pa.DataType, rows: I64) -> pa.Array | None:
        """Return a column as an Arrow array with nulls, None when it has no value at all."""
        values, there = self.number(column, rows)
        if not there.any():
            return None
        return pa.array(values, kind, mask=~there)

    def text(self, column: str, rows: I64) -> pa.DictionaryArray:
        """Return a text column of some rows."""
        codes = np.full(self.count, -1, np.int32)
        words: list[str] = []
        known: dict[str, int] = {}
        for where, part in self.texts.get(column, ()):
            encoded = part if pa.types.is_dictionary(part.type) else part.dictionary_encode()
            new = np.empty(len(encoded.dictionary), np.int32)
            for at, word in enumerate(encoded.dictionary.to_pylist()):
                if word not in known:
                    known[word] = len(words)
                    words.append(word)
                new[at] = known[word]
            codes[where] = new[encoded.indices.to_numpy()]
        picked = codes if len(rows) == self.count else codes[rows]
        return pa.DictionaryArray.from_arrays(pa.array(picked, mask=picked < 0), pa.array(words, pa.string()))


def args_of(block: Block, rows: I64, dur_ns: I64, *, stamps: tuple[str, ...] = ()) -> pa.Array | None:
    """Return the JSON object of what found no column, null where nothing is left.

    Whole ns: cputime_ns; gputime_ns where time stamps say otherwise than gputime; gpustarttimestamp_ns and timestamp_ns
    of the `stamps` that are not the start. All other members are named as in the log and hold the number as printed,
    or a string where it is no number of JSON.
    """
    parts: dict[str, pa.Array] = {}
    for column in ("cputime", "gputime", *stamps):
        values, there = block.number(column, rows)
        if column == "gputime":
            there = there & (values != dur_ns)
        if there.any():
            parts[f"{column}_ns"] = pa.array(values, mask=~there).cast(pa.string())
    for column in block.texts:
        if column == "method":
            continue
        encoded = block.text(column, rows)
        words = [w if NUMBER.fullmatch(w) else orjson.dumps(w).decode() for w in encoded.dictionary.to_pylist()]
        if encoded.null_count < len(encoded):
            name = column
            while name in parts:  # a counter of that name beside our own member
                name += "_"
            parts[name] = pa.array(words, pa.string()).take(encoded.indices)
    if not parts:
        return None
    # Not null_handling="skip": with it Arrow leaves out a row in which all parts are null (seen with 26.0.1).
    ended = [
        pc.fill_null(pc.binary_join_element_wise(_member(name, part), ",", ""), "") for name, part in parts.items()
    ]
    joined = pc.utf8_rtrim(pc.binary_join_element_wise(*ended, ""), ",")
    joined = pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), joined)
    return pc.binary_join_element_wise("{", joined, "}", "")


def _member(name: str, values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(orjson.dumps(name).decode() + ":", values, "")


def copy_kind(method: str) -> str | None:
    """Return HtoD and the like of a copy's method, None for other work; peer copies are PtoP, "" when unstated."""
    found = COPY.fullmatch(method)
    if found is None:
        return "" if OTHER_COPY.fullmatch(method) else None
    return {"peer": "PtoP"}.get(found[1].lower(), found[1][0].upper() + "to" + found[1][3].upper())

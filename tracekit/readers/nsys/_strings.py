"""Strings and ids of Nsight Systems' exports: StringIds by number, process and thread out of a global id."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.sqlite.cupti import Context, coded

BITS = 0xFFFFFF
"""globalTid: machine (hardware and VM, 8 bits each), process and thread (24 bits each)."""
_CACHED = 1 << 20


def string(ctx: Context, number: int | None) -> str | None:
    """Return a text of StringIds; None for a number that is not there, or an empty text."""
    if number is None:
        return None
    found = ctx.strings.get(number)
    if found is None:
        rows = ctx.db.rows('select "value" from "StringIds" where "id" = ?', (number,))
        found = str(rows[0][0]) if rows and rows[0][0] is not None else ""
        if len(ctx.strings) >= _CACHED:
            ctx.strings.clear()
        ctx.strings[number] = found
    return found or None


def strings(ctx: Context, numbers: pa.Array) -> pa.DictionaryArray:
    """Return the texts of a column of numbers."""
    found = coded(numbers, lambda number: string(ctx, number))
    if found is None:  # pragma: no cover - only of None
        raise TypeError
    return found


def tid_of(ids: pa.Array | None) -> pa.Array | None:
    """Return the threads of global ids."""
    return None if ids is None else pc.bit_wise_and(ids, BITS)


def pid_of(ctx: Context, ids: pa.Array | None, *, threads: bool = False) -> pa.Array | None:
    """Return the processes of global ids, and remember which were seen (with their threads, if asked).

    Where the export has several machines, the process is a number of process and machine, and `Run.ids` has its text.
    """
    if ids is None:
        return None
    distinct = pc.unique(ids).drop_null().to_pylist()
    ctx.seen.update(distinct if threads else [number & ~BITS for number in distinct])
    if len(ctx.machines) < 2:
        return pc.bit_wise_and(pc.shift_right(ids, 24), BITS)
    for number in distinct:
        whole = process_number(ctx, number)
        text = f"{number >> 24 & BITS} on machine {number >> 48 & 0xFFFF}"
        ctx.run.ids[("pid", ctx.options.source, whole)] = text
    return pc.bit_wise_and(pc.shift_right(ids, 24), (1 << 40) - 1)


def process_number(ctx: Context, number: int) -> int:
    """Return the value of the column pid for a global id."""
    return number >> 24 & (BITS if len(ctx.machines) < 2 else (1 << 40) - 1)

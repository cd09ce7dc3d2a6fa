"""Strings and ids of Nsight Systems' exports: texts of StringIds, process and thread of a global id."""

from __future__ import annotations

from tracekit.columns import arrow
from tracekit.columns.arrow import Column, DictColumn, pc
from tracekit.readers.builder import bounded
from tracekit.readers.nsys._codes import BITS
from tracekit.readers.sqlite.cupti import Context, texts_by_number

_CACHED = 1 << 20


def string(ctx: Context, number: int | None) -> str | None:
    """Return a text of StringIds, None for a missing number or an empty text."""
    if number is None:
        return None
    text = ctx.strings.get(number)
    if text is None:
        text = bounded(ctx.db.text("StringIds", number) or "", ctx.ledger)
        if len(ctx.strings) >= _CACHED:
            ctx.strings.clear()
        ctx.strings[number] = text
    return text or None


def strings(ctx: Context, numbers: Column) -> DictColumn:
    """Return the texts of a column of numbers."""
    return texts_by_number(numbers, lambda number: string(ctx, number))


def tid_of(ids: Column | None) -> Column | None:
    """Return the threads of global ids."""
    return None if ids is None else pc.bit_wise_and(ids, BITS)


def pid_of(ctx: Context, ids: Column | None, *, threads: bool = False) -> Column | None:
    """Return the processes of global ids. Adds them to `ctx.seen`, with their threads if `threads`.

    If the export has several machines, the process is a number of process and machine, and `Run.ids` has its text.
    """
    if ids is None:
        return None
    distinct = arrow.ints(pc.unique(ids).drop_null()).tolist()
    ctx.seen.update(distinct if threads else [number & ~BITS for number in distinct])
    if len(ctx.machines) < 2:
        return pc.bit_wise_and(pc.shift_right(ids, 24), BITS)
    for number in distinct:
        text = f"{number >> 24 & BITS} on machine {number >> 48 & 0xFFFF}"
        ctx.run.ids[("pid", ctx.options.source, process_number(ctx, number))] = text
    return pc.bit_wise_and(pc.shift_right(ids, 24), (1 << 40) - 1)


def process_number(ctx: Context, number: int) -> int:
    """Return the value of the column pid for a global id."""
    return number >> 24 & (BITS if len(ctx.machines) < 2 else (1 << 40) - 1)

"""NVTX_EVENTS of Nsight Systems' exports: ranges and marks are events; what gives names to things is facts.

eventType (ENUM_NSYS_EVENT_TYPE): 33 category, 34 mark, 39 thread name, 59 push/pop and 60 start/end range, 75 domain.
The text stands in `text`, or in StringIds under `textId`; domains are numbered by process, categories by domain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.nsys._strings import BITS, pid_of, process_number, string, strings, tid_of
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import Columns, Context, Extra, args_of, coded, integers
from tracekit.readers.sqlite.database import Block, quoted
from tracekit.readers.sqlite.database import Kind as Cell
from tracekit.schema import Kind

CATEGORY, MARK, THREAD, PUSH_POP, START_END, DOMAIN = 33, 34, 39, 59, 60, 75
EVENTS = (MARK, PUSH_POP, START_END)
DEFINITIONS = (CATEGORY, THREAD, DOMAIN)
_INTEGERS = ("uint64Value", "int64Value", "uint32Value", "int32Value")
_REALS = ("doubleValue", "floatValue")


class Labels:
    """Names of domains and categories, by process: (machine and process, domain) and (..., domain, category)."""

    def __init__(self) -> None:
        self.domains: dict[tuple[int, int], str] = {}
        self.categories: dict[tuple[int, int, int], str] = {}


def nvtx(ctx: Context, table: str) -> Iterator[pa.RecordBatch]:
    """Give ranges and marks. Definitions are read first, wherever they stand."""
    have = ctx.db.tables[table]
    if "eventType" not in have:
        ctx.ledger.note("no-event-type", "the table has no eventType: each row counts as a range", where=table)
    labels = _labels(ctx, table)
    wanted = integers(
        "start",
        "end",
        "eventType",
        "rangeId",
        "category",
        "color",
        "globalTid",
        "endGlobalTid",
        "textId",
        "domainId",
        "jsonTextId",
        *_INTEGERS,
    )
    wanted |= {"text": Cell.TEXT, "jsonText": Cell.TEXT, "binaryData": Cell.TEXT} | dict.fromkeys(_REALS, Cell.REAL)
    make = _Maker(ctx, labels)
    yield from cuda.events(ctx, table, wanted, make, open_ends="null", zero="never", select=make.select)


def _labels(ctx: Context, table: str) -> Labels:
    labels = Labels()
    have = ctx.db.tables[table]
    if "eventType" not in have:
        return labels
    columns = ("eventType", "globalTid", "domainId", "category", "text", "textId")
    wanted = ", ".join(quoted(c) if c in have else "null" for c in columns)
    kinds = ", ".join(map(str, DEFINITIONS))
    rows = ctx.db.rows(f'select {wanted} from {quoted(table)} where "eventType" in ({kinds}) limit {1 << 20}')
    for kind, thread, domain, category, text, number in rows:
        label = text if isinstance(text, str) and text else string(ctx, number if isinstance(number, int) else None)
        thread, domain, category = (v if isinstance(v, int) else 0 for v in (thread, domain, category))
        if not label:
            continue
        if kind == THREAD:
            ctx.run.threads[(ctx.options.source, process_number(ctx, thread), thread & BITS)] = label
        elif kind == DOMAIN:
            labels.domains[(thread >> 24, domain)] = label
        else:
            labels.categories[(thread >> 24, domain, category)] = label
    return labels


class _Maker:
    """Makes events of a block."""

    def __init__(self, ctx: Context, labels: Labels) -> None:
        self.ctx = ctx
        self.labels = labels

    def select(self, block: Block) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """Return which rows are events, None for all; account for the others."""
        kinds = block.integers("eventType", PUSH_POP)
        if ((kinds == PUSH_POP) | (kinds == START_END)).all():
            return None
        for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
            if kind in DEFINITIONS:
                self.ctx.ledger.facts += int(count)
            elif kind not in EVENTS:
                self.ctx.ledger.ignore(f"{block.table} type {kind}", int(count))
        return np.isin(kinds, EVENTS)

    def __call__(self, block: Block) -> Columns:
        ctx = self.ctx
        kinds = block.integers("eventType", PUSH_POP)
        threads = block.columns.get("globalTid")
        tid = tid_of(threads)
        columns: Columns = {"pid": pid_of(ctx, threads, threads=True), "tid": tid, "name": self._names(block)}
        columns["kind"] = coded(pa.array(kinds), lambda kind: Kind.MARK if kind == MARK else Kind.USER_RANGE)
        extras = self._extras(block)
        free = kinds == START_END
        if free.any() and tid is not None:
            mask = pa.array(free)
            columns["tid"] = pc.if_else(mask, None, tid)
            ids = block.columns.get("rangeId", pa.nulls(block.count, pa.int64()))
            numbers = pa.array(block.first + np.arange(block.count))
            extras.append(Extra("id", pc.if_else(mask, pc.coalesce(cuda.above_zero(ids), numbers), None)))
            extras.append(Extra("tid", pc.if_else(mask, tid, None), lambda number: number))
            ends = block.columns.get("endGlobalTid")
            if ends is not None:
                other = pc.and_(mask, pc.not_equal(ends, threads).fill_null(False))
                extras.append(Extra("end_tid", pc.if_else(other, tid_of(ends), None), lambda number: number))
        open_ones = ~block.valid("end") & (kinds != MARK)
        if open_ones.any():
            extras.append(Extra("unfinished", pa.array(open_ones), lambda flag: flag or None))
            text = "a range did not end before the profile did: it has no duration"
            ctx.ledger.note("open-range", text, int(np.count_nonzero(open_ones)), where=block.table)
        columns["args"] = args_of(block.count, extras)
        if (marks := kinds == MARK).any():
            dur = block.integers("end") - block.integers("start")
            columns["dur_ns"] = pa.array(dur, mask=marks | open_ones)
        return columns

    def _names(self, block: Block) -> Any:
        text, ids = block.columns.get("text"), block.columns.get("textId")
        if ids is None or ids.null_count == block.count:
            return text
        found = strings(self.ctx, ids)
        if text is None or text.null_count == block.count:
            return found
        return pc.coalesce(text, found.cast(pa.string()))

    def _extras(self, block: Block) -> list[Extra]:
        extras = [Extra("color", block.columns.get("color"), lambda argb: f"#{argb & 0xFFFFFFFF:08X}")]
        domains, categories = block.columns.get("domainId"), block.columns.get("category")
        process = block.integers("globalTid") >> 24
        if domains is not None and domains.null_count < block.count:
            extras.append(self._labelled(block, process, "domain"))
        if categories is not None and categories.null_count < block.count:
            extras.append(self._labelled(block, process, "category"))
        extras += [Extra(key, block.columns.get(key), lambda number: number) for key in (*_INTEGERS, *_REALS)]
        extras.append(Extra("json", block.columns.get("jsonText"), _parsed))
        extras.append(Extra("json", block.columns.get("jsonTextId"), lambda n: _parsed(string(self.ctx, n))))
        extras.append(Extra("binaryData", block.columns.get("binaryData")))
        return extras

    def _labelled(self, block: Block, process: Any, which: str) -> Extra:
        """Return the names of domains or categories, their numbers where they have no name; 0 is the default."""
        domain, category = block.integers("domainId"), block.integers("category")
        codes, seen = _distinct(process, domain, category if which == "category" else domain * 0)
        labels = self.labels
        texts = [
            labels.domains.get((p, d), d or None) if which == "domain" else labels.categories.get((p, d, c), c or None)
            for p, d, c in seen
        ]
        return Extra(which, codes, lambda code: texts[code])


def _distinct(*columns: Any) -> tuple[pa.Array, list[tuple[int, ...]]]:
    """Return a number for each distinct row of some columns, and the rows."""
    codes = np.zeros(len(columns[0]), np.int64)
    rows: list[tuple[int, ...]] = [()]
    for column in columns:
        encoded = pa.array(column).dictionary_encode()
        values = encoded.dictionary.to_pylist()
        again = pa.array(codes * len(values) + encoded.indices.to_numpy()).dictionary_encode()
        rows = [(*rows[n // len(values)], values[n % len(values)]) for n in again.dictionary.to_pylist()]
        codes = again.indices.to_numpy().astype(np.int64)
    return pa.array(codes), rows


def _parsed(text: str | None) -> Any:
    """Return what a JSON text says; another text, or one that would not survive, as it is."""
    if not text:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text

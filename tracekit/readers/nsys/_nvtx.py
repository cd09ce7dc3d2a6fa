"""NVTX_EVENTS of Nsight Systems' exports: ranges and marks are events; names of threads, domains, categories are facts.

eventType (ENUM_NSYS_EVENT_TYPE): 33 category, 34 mark, 39 thread name, 59 push/pop and 60 start/end range, 75 domain.
The text is in `text`, or in StringIds under `textId`. Domains are numbered by process, categories by domain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import orjson
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.schema import Kind
from tracekit.readers import torch_ranges
from tracekit.readers.builder import Values
from tracekit.readers.nsys._facts import (
    BITS,
    CATEGORY,
    DOMAIN,
    MARK,
    OPEN_RANGE,
    PUSH_POP,
    START_END,
    THREAD,
    color,
    pid_of,
    process_number,
    string,
    strings,
    tid_of,
)
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import Columns, Context, Extra, args_of, as_is, coded, distinct_rows, integers
from tracekit.readers.sqlite.database import CellType, RowBlock

MPI = "MPI"
"""Name of the domain of the MPI calls that nsys traces."""
EVENTS = (MARK, PUSH_POP, START_END)
DEFINITIONS = (CATEGORY, THREAD, DOMAIN)
_INTEGERS = ("uint64Value", "int64Value", "uint32Value", "int32Value")
_REALS = ("doubleValue", "floatValue")


class Labels:
    """Names of domains by (machine and process, domain), of categories by (machine and process, domain, category)."""

    def __init__(self) -> None:
        self.domains: dict[tuple[int, int], str] = {}
        self.categories: dict[tuple[int, int, int], str] = {}


def nvtx(ctx: Context, table: str) -> Iterator[pa.RecordBatch]:
    """Yield ranges and marks. Definitions are read first, because they may come after their use."""
    have = ctx.db.tables[table]
    if "eventType" not in have:
        ctx.ledger.note("no-event-type", "the table has no eventType: each row counts as a range", where=table)
    labels = _labels(ctx, table)
    wanted = integers("start", "end", "eventType", "rangeId", "category", "color", "globalTid", "endGlobalTid")
    wanted |= integers("textId", "domainId", "jsonTextId", *_INTEGERS)
    wanted |= {"text": CellType.TEXT, "jsonText": CellType.TEXT, "binaryData": CellType.TEXT} | dict.fromkeys(
        _REALS, CellType.REAL
    )
    make = _Maker(ctx, labels)
    yield from cuda.events(ctx, table, wanted, make, open_ends="null", zero="never", select=make.select)


def _labels(ctx: Context, table: str) -> Labels:
    labels = Labels()
    have = ctx.db.tables[table]
    if "eventType" not in have:
        return labels
    columns = ("eventType", "globalTid", "domainId", "category", "text", "textId")
    for kind, thread, domain, category, text, number in ctx.db.matching(table, columns, "eventType", DEFINITIONS):
        label = text if isinstance(text, str) and text else string(ctx, number if isinstance(number, int) else None)
        tid, domain_id, category_id = (v if isinstance(v, int) else 0 for v in (thread, domain, category))
        if not label:
            continue
        if kind == THREAD:
            ctx.run.threads[(ctx.options.source, process_number(ctx, tid), tid & BITS)] = label
        elif kind == DOMAIN:
            labels.domains[(tid >> 24, domain_id)] = label
        else:
            labels.categories[(tid >> 24, domain_id, category_id)] = label
    return labels


class _Maker:
    """Makes events of a block."""

    def __init__(self, ctx: Context, labels: Labels) -> None:
        self.ctx = ctx
        self.labels = labels

    def select(self, block: RowBlock) -> Mask | None:
        """Return the mask of the rows that are events, None for all, and count the others."""
        kinds = block.integers("eventType", PUSH_POP)
        if ((kinds == PUSH_POP) | (kinds == START_END)).all():
            return None
        for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
            if kind in DEFINITIONS:
                self.ctx.ledger.facts += int(count)
            elif kind not in EVENTS:
                self.ctx.ledger.ignore(f"{block.table} type {kind}", int(count))
        return np.isin(kinds, EVENTS)

    def __call__(self, block: RowBlock) -> Columns:
        ctx = self.ctx
        kinds = block.integers("eventType", PUSH_POP)
        threads = block.columns.get("globalTid")
        tid = tid_of(threads)
        columns: Columns = {"pid": pid_of(ctx, threads, threads=True), "tid": tid}
        columns |= _named(self._names(block), kinds)
        columns["kind"] = self._kinds(block, columns)
        extras = self._extras(block)
        unordered = kinds == START_END
        if unordered.any() and threads is not None and tid is not None:
            mask = arrow.array(unordered)
            columns["tid"] = pc.if_else(mask, None, tid)
            extras += self._start_end_extras(block, mask, threads, tid)
        unfinished = ~block.valid("end") & (kinds != MARK)
        if unfinished.any():
            extras.append(Extra("unfinished", arrow.array(unfinished), lambda flag: flag or None))
            ctx.ledger.note("open-range", OPEN_RANGE, int(np.count_nonzero(unfinished)), where=block.table)
        columns["args"] = args_of(block.count, extras)
        if (marks := kinds == MARK).any():
            dur = block.integers("end") - block.integers("start")
            columns["dur_ns"] = arrow.array(dur, mask=marks | unfinished)
        return columns

    def _kinds(self, block: RowBlock, columns: Columns) -> Values:
        """Return the kinds, with `communication` for MPI calls: ranges of the domain MPI, as nsys records them.

        An export has tables of its own for them; a report has the ranges alone.
        """
        kinds, names = columns["kind"], columns["name"]
        domains = {pair for pair, label in self.labels.domains.items() if label == MPI}
        if not domains or not isinstance(kinds, pa.DictionaryArray) or not isinstance(names, pa.Array):
            return kinds
        codes, pairs = distinct_rows(block.integers("globalTid") >> 24, block.integers("domainId"))
        in_domain = arrow.take(arrow.array([(p, d) in domains for p, d in pairs]), arrow.ints(codes))
        is_call = pc.fill_null(pc.starts_with(names.cast(pa.string()), "MPI_"), False)
        calls = pc.and_(in_domain, is_call)
        return arrow.encoded(pc.if_else(calls, str(Kind.COMMUNICATION), kinds.cast(pa.string())))

    def _start_end_extras(self, block: RowBlock, mask: Column, threads: Column, tid: Column) -> list[Extra]:
        """Return id and threads of start/end ranges, which may overlap on their thread."""
        numbers = arrow.array(block.first + np.arange(block.count))
        ids = cuda.above_zero(block.columns.get("rangeId"))
        known = numbers if ids is None else pc.coalesce(ids, numbers)
        extras = [Extra("id", pc.if_else(mask, known, None)), Extra("tid", pc.if_else(mask, tid, None), as_is)]
        ends = block.columns.get("endGlobalTid")
        if ends is not None:
            other = pc.and_(mask, pc.fill_null(pc.not_equal(ends, threads), False))
            extras.append(Extra("end_tid", pc.if_else(other, tid_of(ends), None), as_is))
        return extras

    def _names(self, block: RowBlock) -> Column | None:
        text, ids = block.columns.get("text"), block.columns.get("textId")
        if ids is None or ids.null_count == block.count:
            return text
        by_id = strings(self.ctx, ids)
        if text is None or text.null_count == block.count:
            return by_id
        return pc.coalesce(text, pc.cast(by_id, pa.string()))

    def _extras(self, block: RowBlock) -> list[Extra]:
        extras = [Extra("color", block.columns.get("color"), color)]
        domains, categories = block.columns.get("domainId"), block.columns.get("category")
        process = block.integers("globalTid") >> 24
        if domains is not None and domains.null_count < block.count:
            extras.append(self._labelled(block, process, "domain"))
        if categories is not None and categories.null_count < block.count:
            extras.append(self._labelled(block, process, "category"))
        extras += [Extra(key, block.columns.get(key), as_is) for key in (*_INTEGERS, *_REALS)]
        if (texts := block.columns.get("jsonText")) is not None:
            encoded = arrow.encoded(texts)
            distinct = arrow.optional_texts(encoded.dictionary)
            extras.append(Extra("json", encoded.indices, lambda code: _parsed(distinct[code])))
        extras.append(Extra("json", block.columns.get("jsonTextId"), lambda n: _parsed(string(self.ctx, n))))
        if (binary := block.columns.get("binaryData")) is not None:
            extras.append(Extra("binaryData", binary))
        return extras

    def _labelled(self, block: RowBlock, process: I64, which: str) -> Extra:
        """Return the names of domains or categories, the number if there is no name; 0 is the default."""
        domain, category = block.integers("domainId"), block.integers("category")
        if which == "domain":
            codes, pairs = distinct_rows(process, domain)
            labels: list[str | int | None] = [self.labels.domains.get((p, d), d or None) for p, d in pairs]
        else:
            codes, triples = distinct_rows(process, domain, category)
            labels = [self.labels.categories.get((p, d, c), c or None) for p, d, c in triples]
        return Extra(which, codes, lambda code: labels[code])


def _named(texts: Column | None, kinds: I64) -> Columns:
    """Return name, raw name, kind and step of ranges and marks; names of PyTorch's ranges without what follows them."""
    plain = coded(arrow.array(kinds), lambda kind: Kind.MARK if kind == MARK else Kind.USER_RANGE)
    if texts is None or texts.null_count == len(texts):
        return {"name": texts, "kind": plain}
    encoded = arrow.encoded(texts)
    whole, indices = pc.cast(encoded.dictionary, pa.string()), encoded.indices
    recorded = arrow.bools(pc.match_substring_regex(whole, torch_ranges.CALL))
    numbered = recorded & arrow.bools(pc.match_substring_regex(whole, torch_ranges.OF_OPERATOR))
    short = arrow.encoded(pc.replace_substring_regex(whole, torch_ranges.CALL, ""))
    names = arrow.optional_texts(short.dictionary)
    # Texts are as many as calls; few differ in more than what follows the name.
    codes, place = np.unique(arrow.ints(short.indices) * 4 + recorded * 2 + numbered, return_inverse=True)
    found = [
        torch_ranges.range_of(names[code >> 2] or "", recorded=bool(code & 2), numbered=bool(code & 1))
        for code in codes.tolist()
    ]
    every = [*found, torch_ranges.TorchRange(Kind.USER_RANGE), torch_ranges.TorchRange(Kind.MARK)]
    # Start/end ranges may overlap on their thread, so they are no part of its tree.
    own = np.append(place, len(found))[arrow.ints(indices, len(whole))]
    own = np.select([kinds == MARK, kinds == PUSH_POP], [len(found) + 1, own], len(found))
    columns: Columns = {
        "name": pa.DictionaryArray.from_arrays(pc.take(short.indices, indices), short.dictionary),
        "kind": coded(arrow.array(own), lambda code: every[code].kind),
    }
    if recorded.any():
        of_torch = arrow.array(np.append(recorded, False)[arrow.ints(indices, len(whole))])
        columns["raw_name"] = pa.DictionaryArray.from_arrays(pc.if_else(of_torch, indices, None), whole)
    steps = np.array([-1 if each.step is None else each.step for each in every], np.int32)[own]
    if (steps >= 0).any():
        columns["step"] = arrow.array(steps, mask=steps < 0)
    return columns


def _parsed(text: str | None) -> object:
    """Return the value of a JSON text, or the text itself when it is not JSON."""
    if not text:
        return None
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value

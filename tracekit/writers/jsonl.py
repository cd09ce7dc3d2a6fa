r"""JSON Lines: one event a line, the schema's names, nulls left out; jq and every JSON library read it line by line.

    {"tracekit":"events-jsonl","schema":1,"version":"0.1.0","run":{"origin_ns":null,"sources":[...],...}}
    {"table":"totals","source":0,"run":0,"section":"GPU activities","order":0,"name":"gemm","calls":48}
    {"ts_ns":120,"dur_ns":35,"event_id":7,"name":"gemm","kind":"kernel","source":0,"device":0,"args":{"x":1}}
    {"tracekit":"end","events":1,"totals":1,"run":{...},"ledger":[...]}

The first line is the header, with the facts known at the start; the last one has all facts, the ledgers, and how many
lines of each table stand before it: a file without it was cut. Lines of TOTALS carry "table":"totals", those of EVENTS
have no "table". Integers are exact (64 bits). `value` is a number, or "NaN", "Infinity", "-Infinity", which JSON lacks.
`args` is the JSON object itself; a text that is no JSON object on one line stays a JSON string. UTF-8, not escaped
beyond what JSON demands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tracekit import schema
from tracekit.writers._compressed import compressed
from tracekit.writers.base import Stream, WriteOptions, Writer, Written, new_file
from tracekit.writers.json_text import facts_json

ROWS_AT_ONCE = 1 << 14
BYTES_AT_ONCE = 64 << 20
"""Text made at once; a batch with longer names or args is cut smaller."""

_STEADY = frozenset({"ts_ns", "dur_ns", "event_id", "correlation", "bytes", "total_ns", "min_ns", "max_ns"})
"""Integers that seldom repeat; of the others each distinct one is spelled once."""
_ARGS = msgspec.json.Decoder(list[msgspec.Raw])

Parts = list[pa.Array | str]


def _write(stream: Stream, target: Path, options: WriteOptions) -> Written:
    written = Written(target)
    head = {"tracekit": "events-jsonl", "schema": schema.VERSION, "version": options.version}
    with new_file(target, force=options.force) as file, compressed(file, target) as out:
        out.write(_line(head | {"run": stream.run.to_json()}))
        for batch in stream.batches:
            for part in _cut(batch):
                out.write(json_lines(part))
            if schema.is_totals(batch):
                written.totals += batch.num_rows
            else:
                written.events += batch.num_rows
        end = {"tracekit": "end", "events": written.events, "totals": written.totals, "run": stream.run.to_json()}
        out.write(_line(end | {"ledger": [ledger.to_json() for ledger in stream.ledgers]}))
    return written


def _line(value: dict[str, Any]) -> bytes:
    return facts_json(value).encode() + b"\n"


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Give the batch in parts whose text is of bounded size."""
    for start in range(0, batch.num_rows, ROWS_AT_ONCE):
        yield from _halved(batch.slice(start, ROWS_AT_ONCE))


def _halved(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= 1 or _text_bytes(batch) <= BYTES_AT_ONCE:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _halved(batch.slice(0, middle))
    yield from _halved(batch.slice(middle))


def _text_bytes(batch: pa.RecordBatch) -> int:
    total = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
            if longest * batch.num_rows > BYTES_AT_ONCE // 16:
                total += pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
        elif pa.types.is_string(column.type):
            total += pc.sum(pc.binary_length(column)).as_py() or 0
    return total


def json_lines(batch: pa.RecordBatch) -> memoryview:
    """Return the rows as lines of JSON, UTF-8, each with its newline."""
    rows = batch.num_rows
    parts: Parts = ['{"table":"totals"' if schema.is_totals(batch) else "{"]
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if column.null_count < rows:
            key = f'{"" if parts == ["{"] else ","}"{field.name}":'
            _add(parts, _texts(field.name, key, column))
    _add(parts, "}\n")
    if len(parts) == 1:
        return memoryview((str(parts[0]) * rows).encode())
    joined: pa.StringArray = pc.binary_join_element_wise(*parts, "")
    _, offsets, data = joined.buffers()
    bounds = np.frombuffer(offsets, np.int32)
    first, last = int(bounds[joined.offset]), int(bounds[joined.offset + rows])
    return memoryview(data)[first:last]


def _add(parts: Parts, piece: pa.Array | str) -> None:
    if isinstance(piece, str) and parts and isinstance(parts[-1], str):
        parts[-1] += piece
    else:
        parts.append(piece)


def _texts(name: str, key: str, column: pa.Array) -> pa.Array | str:
    """Return `"name":value` for each row, "" where it is null; one text when all rows have the same."""
    if pa.types.is_dictionary(column.type):
        entries = [orjson.dumps(text).decode() for text in column.dictionary.to_pylist()]
        return _spread(key, entries, column.indices)
    if name == "args":
        encoded = column.dictionary_encode()
        return _spread(key, _args(encoded.dictionary.to_pylist()), encoded.indices)
    if pa.types.is_string(column.type):
        return _texts(name, key, column.dictionary_encode())
    if pa.types.is_floating(column.type):
        return _with_key(key, _floats(column))
    if name in _STEADY:
        return _with_key(key, column.cast(pa.string()))
    encoded = column.dictionary_encode()
    return _spread(key, [str(number) for number in encoded.dictionary.to_pylist()], encoded.indices)


def _spread(key: str, entries: list[str], codes: pa.Array) -> pa.Array | str:
    if len(entries) == 1 and not codes.null_count:
        return key + entries[0]
    return pc.fill_null(pa.array([key + entry for entry in entries], pa.string()).take(codes), "")


def _with_key(key: str, texts: pa.Array) -> pa.Array:
    joined = pc.binary_join_element_wise(key, texts, "")
    return pc.fill_null(joined, "") if joined.null_count else joined


def _floats(column: pa.Array) -> pa.Array:
    """Return the shortest texts that read back as the same floats; what JSON lacks becomes a string."""
    texts = column.cast(pa.string())
    values = column.fill_null(1.0).to_numpy(zero_copy_only=False)
    odd = ~np.isfinite(values) | ((values == 0) & np.signbit(values))
    if not odd.any():
        return texts
    names = [
        "-0.0" if v == 0 else '"NaN"' if v != v else '"Infinity"' if v > 0 else '"-Infinity"'
        for v in values[odd].tolist()
    ]
    return pc.replace_with_mask(texts, pa.array(odd), pa.array(names, pa.string()))


def _args(texts: list[str]) -> list[str]:
    """Return what stands after `"args":`: the object itself, or a string where the text is no object on one line."""
    try:
        raws = _ARGS.decode("[" + ",".join(texts) + "]")
        fine = [str(raw, "utf-8") for raw in raws] == texts
    except (msgspec.DecodeError, RecursionError):
        fine = False
    if fine and all(text[0] == "{" and "\n" not in text and "\r" not in text for text in texts):
        return texts
    return [text if _is_object(text) else json.dumps(text, ensure_ascii=False) for text in texts]


def _is_object(text: str) -> bool:
    if not text.startswith("{") or "\n" in text or "\r" in text:
        return False
    try:
        raw = msgspec.json.decode(text.encode(), type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return str(raw, "utf-8") == text


WRITER = Writer(
    name="jsonl",
    title="JSON Lines: one event a line",
    suffixes=(".jsonl", ".jsonl.gz", ".jsonl.zst"),
    write=_write,
    holds="both",
)
WRITERS_HERE: tuple[Writer, ...] = (WRITER,)

r"""JSON Lines: one event a line, the schema's names, no nulls; jq and every JSON library read it line by line.

    {"tracekit":"events-jsonl","schema":1,"version":"0.1.0","run":{"origin_ns":null,"sources":[...],...}}
    {"table":"totals","source":0,"run":0,"section":"GPU activities","order":0,"name":"gemm","calls":48}
    {"ts_ns":120,"dur_ns":35,"event_id":7,"name":"gemm","kind":"kernel","source":0,"device":0,"args":{"x":1}}
    {"tracekit":"end","events":1,"totals":1,"run":{...},"ledger":[...]}

The first line is the header, with the facts known at the start. The last one has all facts, the ledgers, and the number
of lines of each table: a file without it was cut. `--plain` leaves both lines out. Lines of TOTALS have
"table":"totals", those of EVENTS have no "table". Integers are exact (64 bits). `value` is a number, or "NaN",
"Infinity", "-Infinity", which are not numbers in JSON. `args` is the JSON object itself; a text that is not a JSON
object on one line stays a JSON string. UTF-8, with no more escapes than JSON requires.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from tracekit.model import arrow, schema
from tracekit.model.arrow import Column, pc
from tracekit.writers.base import RowStream, WriteOptions, Written, new_file
from tracekit.writers.gzipped import compressed
from tracekit.writers.json_text import facts_json

__all__ = ["BYTES_AT_ONCE", "write"]

ROWS_AT_ONCE = 1 << 14
BYTES_AT_ONCE = 64 << 20
"""Most text that is built at once; a batch with longer names or args is cut smaller."""

_SELDOM_REPEATED = frozenset({"ts_ns", "dur_ns", "event_id", "correlation", "bytes", "total_ns", "min_ns", "max_ns"})
"""Integers that seldom repeat. Each distinct value of the other columns is formatted once."""
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])

Parts: TypeAlias = "list[Column | str]"
"""Texts from left to right: a column has one for each row, a str is the same in all rows."""


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come. Raises: OutputExistsError, OutputError."""
    written = Written(target)
    head: dict[str, object] = {"tracekit": "events-jsonl", "schema": schema.VERSION, "version": options.version}
    with new_file(target, force=options.force) as file, compressed(file, target) as out:
        if not options.plain:
            out.write(_line(head | {"run": stream.run.to_json()}))
        # Texts of 64 MB at most are built at once: one batch may hold names of megabytes.
        for batch in stream.batches:
            for part in _cut(batch):
                out.write(json_lines(part))
            if schema.is_totals(batch):
                written.totals += batch.num_rows
            else:
                written.events += batch.num_rows
        end: dict[str, object] = {
            "tracekit": "end",
            "events": written.events,
            "totals": written.totals,
            "run": stream.run.to_json(),
        }
        if not options.plain:
            out.write(_line(end | {"ledger": [ledger.to_json() for ledger in stream.ledgers]}))
    return written


def _line(value: dict[str, object]) -> bytes:
    return facts_json(value).encode() + b"\n"


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts whose text is of bounded size."""
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
            encoded = arrow.encoded(column)
            lengths: Column = pc.binary_length(encoded.dictionary)
            longest = pc.max(lengths).as_py() or 0
            if longest * batch.num_rows > BYTES_AT_ONCE // 16:
                total += pc.sum(lengths.take(encoded.indices)).as_py() or 0
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
    offsets, data = arrow.text_parts(pc.binary_join_element_wise(*parts, ""))
    return data[int(offsets[0]) : int(offsets[-1])].data


def _add(parts: Parts, texts: Column | str) -> None:
    last = parts[-1] if parts else None
    if isinstance(texts, str) and isinstance(last, str):
        parts[-1] = last + texts
    else:
        parts.append(texts)


def _texts(name: str, key: str, column: Column) -> Column | str:
    """Return `"name":value` for each row, "" where it is null; one text when all rows have the same."""
    if name == "args":
        encoded = arrow.encoded(column)
        return _spread(key, _args(arrow.texts(encoded.dictionary)), encoded.indices)
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
        encoded = arrow.encoded(column)
        entries = [orjson.dumps(text).decode() for text in arrow.texts(encoded.dictionary)]
        return _spread(key, entries, encoded.indices)
    if pa.types.is_floating(column.type):
        return _with_key(key, _floats(column))
    if name in _SELDOM_REPEATED:
        return _with_key(key, pc.cast(column, pa.string()))
    encoded = arrow.encoded(column)
    return _spread(key, [str(number) for number in encoded.dictionary.to_pylist()], encoded.indices)


def _spread(key: str, entries: list[str], codes: Column) -> Column | str:
    if len(entries) == 1 and not codes.null_count:
        return key + entries[0]
    texts = arrow.array([key + entry for entry in entries], pa.string())
    return pc.fill_null(texts.take(codes), "")


def _with_key(key: str, texts: Column) -> Column:
    joined = pc.binary_join_element_wise(key, texts, "")
    return pc.fill_null(joined, "") if joined.null_count else joined


def _floats(column: Column) -> Column:
    """Return the shortest texts that read back as the same floats; NaN and infinity become strings."""
    texts = pc.cast(column, pa.string())
    values = arrow.floats(column, 1.0)
    odd = ~np.isfinite(values) | ((values == 0) & np.signbit(values))
    if not odd.any():
        return texts
    names = [
        "-0.0" if v == 0 else '"NaN"' if v != v else '"Infinity"' if v > 0 else '"-Infinity"'
        for v in values[odd].tolist()
    ]
    return pc.replace_with_mask(texts, arrow.array(odd), arrow.array(names, pa.string()))


def _args(texts: list[str]) -> list[str]:
    """Return the JSON after `"args":`: the object itself, or a string if the text is not an object on one line."""
    try:
        raws = _RAW_LIST.decode("[" + ",".join(texts) + "]")
        unchanged = [str(raw, "utf-8") for raw in raws] == texts
    except (msgspec.DecodeError, RecursionError):
        unchanged = False
    if unchanged and all(text[0] == "{" and "\n" not in text and "\r" not in text for text in texts):
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

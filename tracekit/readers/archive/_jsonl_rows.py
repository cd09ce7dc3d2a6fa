"""Rows of events-jsonl one by one, where the columnar path cannot go: totals, keys of others, damage."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa

from tracekit import schema
from tracekit.columns import arrow
from tracekit.columns.arrow import Column
from tracekit.readers.engine.torn import drop_torn
from tracekit.trace import Ledger

NON_FINITE: Mapping[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Texts in place of the floats that JSON lacks."""

_OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RANGE = {pa.int32(): (-(1 << 31), (1 << 31) - 1), pa.int64(): (-(1 << 63), (1 << 63) - 1)}
Row = dict[str, object]


class OddRows:
    """Takes lines, counts each in the ledger, gives columns."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rows: dict[str, list[Row]] = {"totals": [], "events": []}

    def add(self, line: bytes, number: int, *, torn: bool) -> None:
        """Take one line without its newline. number: from 1. torn: it had none, because the file ends there."""
        ledger = self._ledger
        text = line.strip(b"\0 \t\r")
        if not text:
            if b"\0" in line:
                ledger.read += 1
                ledger.ignore("padding")
            return
        where = f"line {number}"
        ledger.read += 1
        try:
            values = _OBJECT.decode(text)
        except (msgspec.DecodeError, RecursionError):
            if torn:
                drop_torn(ledger, where)
            else:
                ledger.drop("not-json", where=where, text="dropped: lines that are no JSON object")
            return
        table = "events"
        if bytes(values.get("table", b"")) == b'"totals"':
            table = "totals"
            del values["table"]
        try:
            row = _row(table, values, number)
        except (ValueError, msgspec.MsgspecError, RecursionError) as err:
            ledger.drop("bad-value", where=where, text=f"dropped: values that do not fit their column ({err})")
            return
        if row.pop("strange_kind", None):
            ledger.note("unknown-kind", 'kinds that are none of the list became "other"', where=where)
        ledger.kept += 1
        self._rows[table].append(row)

    def take(self) -> Iterator[tuple[str, dict[str, Column], int]]:
        """Yield (table, columns, number of rows) for each table that has rows, and start anew."""
        for table, rows in self._rows.items():
            if rows:
                want = schema.EVENTS if table == "events" else schema.TOTALS
                columns = {}
                for field in want:
                    kind = pa.string() if field.type == schema.TEXT else field.type
                    columns[field.name] = arrow.array([row.get(field.name) for row in rows], kind)
                yield table, columns, len(rows)
        self._rows = {"totals": [], "events": []}


def _row(table: str, values: dict[str, msgspec.Raw], number: int) -> Row:
    """Return the row. Raises: ValueError with the name of the key that does not fit."""
    want = schema.EVENTS if table == "events" else schema.TOTALS
    row: Row = {}
    strange: dict[str, str] = {}
    args: str | None = None
    for key, raw in values.items():
        text = str(raw, "utf-8")
        if text == "null":
            continue
        index = want.get_field_index(key)
        if index < 0:
            strange[key] = text
        elif key == "args":
            row[key] = args = _args(text)
        else:
            row[key] = _value(key, text, want.field(index).type)
    if table == "events":
        row.setdefault("event_id", number)
    row.setdefault("source", 0)
    kind = row.get("kind")
    if kind is not None and kind not in schema.KINDS:
        strange["kind"] = json.dumps(kind)
        row["kind"] = "other"
        row["strange_kind"] = True
    if missing := [f.name for f in want if not f.nullable and f.name not in row]:
        raise ValueError(f"{missing[0]} is missing")
    if strange:
        row["args"] = _with(args, strange)
    return row


def _value(key: str, text: str, kind: pa.DataType) -> int | float | str:
    try:
        if kind in _RANGE:
            number = _integer(text)
            low, high = _RANGE[kind]
            if not low <= number <= high:
                raise ValueError("too large")
            return number
        if kind == pa.float64():
            return NON_FINITE[json.loads(text)] if text[:1] == '"' else msgspec.json.decode(text, type=float)
        return msgspec.json.decode(text, type=str)
    except (ValueError, msgspec.MsgspecError, KeyError) as err:
        raise ValueError(f"{key}: {text[:40]}") from err


def _integer(text: str) -> int:
    """Return the integer; pandas writes those of a column with nulls as 35.0, which is taken where it is exact."""
    number: int | float = msgspec.json.decode(text, type=int | float)
    if isinstance(number, float):
        if not number.is_integer() or abs(number) >= 1 << 53:
            raise ValueError("no integer")
        return int(number)
    return number


def _args(text: str) -> str:
    if text[:1] == '"':
        return msgspec.json.decode(text, type=str)
    return text if text[:1] == "{" else f'{{"args":{text}}}'


def _with(args: str | None, strange: Mapping[str, str]) -> str:
    """Return the args with the other keys, as they are in the file; a key that is taken already gets a "_" more."""
    taken: set[str] = set()
    if args is not None:
        try:
            taken = set(_OBJECT.decode(args))
        except (msgspec.DecodeError, RecursionError):
            args = json.dumps({"args": args})
            taken = {"args"}
    parts = []
    for key, text in strange.items():
        while key in taken:
            key += "_"
        taken.add(key)
        parts.append(f"{json.dumps(key, ensure_ascii=False)}:{text}")
    inner = (args or "{}").strip()[1:-1].strip()
    return "{" + ",".join([*([inner] if inner else []), *parts]) + "}"

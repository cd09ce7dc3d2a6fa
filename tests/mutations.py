"""Damage for the fuzzer (fuzz.py): bytes, lines, numbers, JSON, SQLite databases, protobuf messages, packed files.

Each mutator takes the bytes of one input and a random.Random, and gives other bytes, or None where it does not fit
(a JSON mutator on what is no JSON). Nothing here knows a format of tracekit: only the containers.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import zstandard

Mutator = Callable[[bytes, random.Random, bytes], "bytes | None"]
"""(data, rng, another input of the same reader to take pieces from) -> other data."""

MOST_BYTES = 400 << 10
"""A mutant does not grow beyond this: size is not what is tried here."""

NUMBERS = (
    b"0", b"-0", b"-1", b"1e308", b"-1e308", b"1e-320", b"1e999", b"NaN", b"nan", b"Infinity", b"-inf", b"", b"0x10",
    b"0xffffffffffffffff", b"2147483647", b"2147483648", b"-2147483649", b"4294967295", b"4294967296",
    b"9007199254740993", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775809", b"18446744073709551615", b"18446744073709551616", b"9" * 400, b"0." + b"1" * 400,
    b"1" * 20 + b"." + b"9" * 9, b"1.5.2", b"1,000", b"1_000", b"+5", b"--1", b"1e", b".", b"0.0000001", b"\xd9\xa3",
)  # fmt: skip
PIECES = (
    b"\0", b"\xff", b"\n", b"\r", b"\r\n", b"\t", b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b":",
    b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"/*", b"NaN", b"null", b"true", b"==", b"%",
    b"\x1b[31m", b" " * 300,
    b"\xe2\x80\xa8", b"\x85", b"\x1c", b"\xc2\xa0", b"(", b")", b"<", b">", b";", b"|", b"-" * 80, b"\xff\xfe",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, 0.5, -0.0,
    1e308, 1e-320, float("nan"), float("inf"), float("-inf"), "", "x", "0", "-1", "1.5", "NaN", "9" * 400, "a" * 5000,
    "\0", "\ud800", "é\u2028", "0x10", "%s{}", [], {}, [[]], [None], {"": {}}, {"name": []}, [1, "2", None], "B", "E",
    "X", "2020-01-01T00:00:00Z",
)  # fmt: skip


def _place(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def flip_bytes(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    if not data:
        return None
    out = bytearray(data)
    for _i in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(out))
        out[at] = rng.choice((out[at] ^ (1 << rng.randrange(8)), rng.randrange(256), 0, 255, 0x80))
    return bytes(out)


def insert_bytes(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    at = _place(data, rng)
    piece = rng.choice((rng.choice(PIECES), rng.choice(NUMBERS), rng.randbytes(rng.randrange(1, 9))))
    return data[:at] + piece + data[at:]


def delete_bytes(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    at = _place(data, rng)
    return data[:at] + data[at + rng.choice((1, 1, 2, 7, 50, 1000)) :]


def duplicate_bytes(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    at = _place(data, rng)
    piece = data[at : at + rng.choice((1, 8, 64, 1000))]
    to = _place(data, rng)
    return data[:to] + piece * rng.choice((1, 1, 2, 30)) + data[to:]


def cut(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    return data[: _place(data, rng)] if rng.random() < 0.8 else data[_place(data, rng) :]


def splice(data: bytes, rng: random.Random, other: bytes) -> bytes | None:
    a, b = _place(data, rng), _place(other, rng)
    if rng.random() < 0.5:
        return data[:a] + other[b:]
    return data[:a] + other[b : b + rng.choice((10, 100, 1000))] + data[a:]


def mutate_lines(data: bytes, rng: random.Random, other: bytes) -> bytes | None:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return None
    for _i in range(rng.choice((1, 1, 2, 5))):
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        what = rng.randrange(7)
        if what == 0:
            lines[a], lines[b] = lines[b], lines[a]
        elif what == 1:
            lines.insert(a, lines[b])
        elif what == 2 and len(lines) > 1:
            del lines[a : a + rng.choice((1, 1, 1, 3, 20))]
        elif what == 3:
            lines.insert(a, rng.choice((b"\n", b"   \n", b"junk of the program\n", b"=" * 20 + b"\n", lines[b][::-1])))
        elif what == 4:
            lines[a] = lines[a].rstrip(b"\r\n") + lines[b]
        elif what == 5:
            lines[a] = rng.choice((b" ", b"\t", b"[1,0]<stdout>:", b"==1== ")) + lines[a]
        else:
            theirs = other.splitlines(keepends=True)
            lines[a:a] = theirs[rng.randrange(len(theirs)) :][: rng.choice((1, 3, 10))] if theirs else []
        if not lines:
            break
    return b"".join(lines)


def mutate_cells(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    """Cells of a line of CSV or of a table of columns swapped, dropped, doubled, quoted."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return None
    at = rng.randrange(len(lines))
    mark = max(
        (b",", b";", b"\t", b"|", b"  ", b" "), key=lambda m: (lines[at].count(m) > 1, len(m) == 1 and m != b" ")
    )
    cells = lines[at].rstrip(b"\r\n").split(mark)
    a, b = rng.randrange(len(cells)), rng.randrange(len(cells))
    what = rng.randrange(6)
    if what == 0:
        cells[a], cells[b] = cells[b], cells[a]
    elif what == 1:
        del cells[a]
    elif what == 2:
        cells.insert(a, cells[b])
    elif what == 3:
        cells[a] = b""
    elif what == 4:
        cells[a] = b'"' + cells[a] + rng.choice((b'"', b""))
    else:
        cells[a] = rng.choice(NUMBERS) + rng.choice((b"", b"ns", b"us", b"ms", b"s", b"MB", b"%", b" ", b"GB/s"))
    lines[at] = mark.join(cells) + b"\n"
    return b"".join(lines)


_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def replace_numbers(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    # From a random place on: a search through all of a large input would cost more than reading it.
    begin = _place(data, rng) if len(data) > 2000 else 0
    spans = [m.span() for m in _NUMBER.finditer(data, begin, begin + 20_000)]
    if not spans:
        return None
    out = data
    for a, b in sorted(rng.sample(spans, min(len(spans), rng.choice((1, 1, 1, 3, 20)))), reverse=True):
        number = out[a:b]
        new = rng.choice((rng.choice(NUMBERS), number + b"0", number[:-1], b"-" + number, number * 3, b"1" + number))
        out = out[:a] + new + out[b:]
    return out


# JSON


def _parents(tree: Any, rng: random.Random) -> tuple[Any, Any] | None:
    """Return a container and a key of it, found by a random walk: near the root and deep down alike."""
    found = None
    while isinstance(tree, (dict, list)) and tree:
        key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
        found = tree, key
        if rng.random() < 0.2:
            break
        tree = tree[key]
    return found


def _nested(depth: int, rng: random.Random) -> Any:
    # As text, put in by _dumped: Python's own encoder would not go that deep.
    return f"@deep{depth}{rng.choice('ao')}@"


def _change(tree: Any, rng: random.Random) -> Any:
    found = _parents(tree, rng)
    if found is None:
        return rng.choice(VALUES)
    parent, key = found
    what = rng.randrange(9)
    if what <= 2:
        parent[key] = rng.choice(VALUES)
    elif what == 3:
        del parent[key]
    elif what == 4:
        parent[key] = rng.choice(
            ([parent[key]], {"x": parent[key]}, str(parent[key]), _nested(rng.choice((50, 900, 20_000)), rng))
        )
    elif what == 5:
        other = _parents(tree, rng)
        if other is not None:
            parent[key] = copy.deepcopy(other[0][other[1]])
    elif what == 6 and isinstance(parent, list):
        parent[key:key] = [parent[key]] * rng.choice((1, 2, 50))
    elif what == 6:
        parent[rng.choice((str(key).upper(), str(key) + "_", "", "ts", "dur", "ph", "id", "name", "args"))] = parent[
            key
        ]
    elif what == 7 and isinstance(parent, list):
        rng.shuffle(parent)
    elif what == 7:
        keys = list(parent)
        rng.shuffle(keys)
        pairs = [(k, parent[k]) for k in keys]
        parent.clear()
        parent.update(pairs)
    elif isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
        number = parent[key]
        parent[key] = rng.choice(
            (
                -number,
                str(number),
                number + 2**62,
                [number],
                0,
                int(number) if number == number and abs(number) < 1e300 else 0,
            )
        )
    else:
        parent[key] = rng.choice(VALUES)
    return tree


def _dumped(tree: Any, rng: random.Random) -> bytes | None:
    style = rng.choice(((None, None), (None, (",", ":")), (1, None)))
    try:
        text = json.dumps(tree, indent=style[0], separators=style[1], ensure_ascii=rng.random() < 0.5)
    except (ValueError, RecursionError):
        return None

    def deep(m: re.Match[str]) -> str:
        n = int(m[1])
        return "[" * n + "]" * n if m[2] == "a" else '{"a":' * n + "1" + "}" * n

    return re.sub(r'"@deep(\d+)([ao])@"', deep, text).encode("utf-8", "surrogatepass")


def mutate_json(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    """The whole input is JSON, or one of its lines is, or one event inside of it is."""
    if data[:1] not in b"{[" or not data:
        return None
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return _mutate_json_line(data, rng)
    for _i in range(rng.choice((1, 1, 2, 4))):
        tree = _change(tree, rng)
    return _dumped(tree, rng)


def _mutate_json_line(data: bytes, rng: random.Random) -> bytes | None:
    lines = data.splitlines(keepends=True)
    for _i in range(5):
        at = rng.randrange(len(lines))
        text = lines[at].strip().removesuffix(b",")
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            continue
        new = _dumped(_change(tree, rng), rng)
        if new is None:
            return None
        lines[at] = lines[at].replace(text, new.replace(b"\n", b" "), 1)
        return b"".join(lines)
    return None


def shrunk_json(data: bytes, size: int) -> bytes:
    """Return JSON with fewer items in its long lists, b"" for what is no JSON or cannot be made so small."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return b""

    def fewer(node: Any, most: int) -> Any:
        if isinstance(node, dict):
            return {k: fewer(v, most) for k, v in node.items()}
        if isinstance(node, list):
            # From all over the list: kinds of events stand together in many files.
            return [fewer(v, most) for v in node[:: max(1, len(node) // most)]]
        return node

    for most in (400, 100, 40, 15, 5):
        out = json.dumps(fewer(tree, most)).encode()
        if len(out) <= size:
            return out
    return b""


# SQLite

SQL_VALUES: tuple[Any, ...] = (
    None, 0, -1, 1, 2**31, 2**32, 2**63 - 1, -(2**63), 0.5, 1e308, -1e308, float("inf"), "", "x", "1", "-1", "1e3",
    "9" * 400, "a" * 5000, b"", b"\0\xff", b"\xff" * 300, b"{}", "{}", '{"NvtxEvent": []}', "\0",
)  # fmt: skip


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _change_database(db: sqlite3.Connection, rng: random.Random) -> None:
    tables = [
        r[0] for r in db.execute("select name from sqlite_master where type='table' and name not like 'sqlite_%'")
    ]
    if not tables:
        return
    table = rng.choice(tables)
    name = _quoted(table)
    columns = [r[1] for r in db.execute(f"pragma table_info({name})")]
    column = _quoted(rng.choice(columns)) if columns else "rowid"
    some = f"limit {rng.choice((1, 1, 5, 1000))} offset {rng.randrange(40)}"
    row = f"rowid in (select rowid from {name} order by rowid {some})"
    what = rng.randrange(13)
    if what <= 4:
        db.execute(f"update or ignore {name} set {column} = ? where {row}", (rng.choice(SQL_VALUES),))
    elif what == 5:
        db.execute(f"update or ignore {name} set {column} = -{column} where {row}")
    elif what == 6:
        db.execute(f"delete from {name} where {row}")
    elif what == 7:
        db.execute(f"drop table {name}")
    elif what == 8:
        db.execute(f"alter table {name} drop column {column}")
    elif what == 9:
        new = _quoted(rng.choice((*columns, "x", "start", "end", "Start")))
        db.execute(f"alter table {name} rename column {column} to {new}")
    elif what == 10:
        listed = ", ".join(map(_quoted, columns))
        db.execute(f"insert or ignore into {name} ({listed}) select {listed} from {name} where {row}")
    elif what == 11:
        db.execute(f"alter table {name} rename to {_quoted('old_' + table)}")
        if rng.random() < 0.7:
            db.execute(f"create view {name} as select * from {_quoted('old_' + table)}")
        else:
            db.execute(f"create table {name} ({column})")
    else:
        # Without types, and without a rowid that an integer key would be.
        kinds = [(_quoted(c), rng.choice(("text", "blob", "real", "integer"))) for c in columns]
        listed = ", ".join(f"cast({c} as {kind}) as {c}" for c, kind in kinds)
        db.execute(f"create table copied as select {listed} from {name}")
        db.execute(f"drop table {name}")
        db.execute(f"alter table copied rename to {name}")


def mutate_database(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    if not data.startswith(b"SQLite format 3\0"):
        return None
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        try:
            db.deserialize(data)
            for _i in range(rng.choice((1, 1, 2, 5))):
                try:
                    _change_database(db, rng)
                except sqlite3.Error:
                    continue
            return db.serialize()
        except (sqlite3.Error, OverflowError, UnicodeDecodeError):
            return None


def shrunk_database(data: bytes, rows: int) -> bytes:
    """Return the database with the first rows of each table alone."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.deserialize(data)
        for (name,) in db.execute(
            "select name from sqlite_master where type='table' and name not like 'sqlite_%'"
        ).fetchall():
            table = _quoted(name)
            if name != "StringIds":
                db.execute(
                    f"delete from {table} where rowid not in (select rowid from {table} order by rowid limit {rows})"
                )
        db.execute("vacuum")
        return db.serialize()


# protobuf: the wire format alone, as (field, wire type, value) with nested messages where the bytes can be read as one

Field = tuple[int, int, Any]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("no varint")


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _parse(data: bytes, depth: int = 0) -> list[Field]:
    fields: list[Field] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if not number:
            raise ValueError("field 0")
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at : at + size], at + size
        elif wire == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
            if depth < 5 and size > 1:
                with suppress(ValueError, IndexError):
                    value = _parse(value, depth + 1)
        else:
            raise ValueError("group")
        if at > len(data):
            raise ValueError("cut")
        fields.append((number, wire, value))
    return fields


def _written(fields: list[Field]) -> bytes:
    out = bytearray()
    for number, wire, value in fields:
        out += _as_varint(number << 3 | wire)
        if wire == 0:
            out += _as_varint(value)
        elif wire == 2:
            data = _written(value) if isinstance(value, list) else value
            out += _as_varint(len(data)) + data
        else:
            out += value
    return bytes(out)


def mutate_message(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    try:
        tree = _parse(data)
    except (ValueError, IndexError):
        return None
    for _i in range(rng.choice((1, 1, 2, 5))):
        fields = tree
        while fields:
            at = rng.randrange(len(fields))
            value = fields[at][2]
            if isinstance(value, list) and value and rng.random() < 0.7:
                fields = value
                continue
            _change_field(fields, at, rng)
            break
    return _written(tree)


def _change_field(fields: list[Field], at: int, rng: random.Random) -> None:
    number, wire, value = fields[at]
    what = rng.randrange(6)
    if what == 0:
        del fields[at]
    elif what == 1:
        fields[at:at] = [fields[at]] * rng.choice((1, 1, 20))
    elif what == 2:
        fields[at] = (rng.choice((number + 1, max(1, number - 1), rng.randrange(1, 20), 1 << 28)), wire, value)
    elif what == 3:
        other = rng.randrange(len(fields))
        fields[at], fields[other] = fields[other], fields[at]
    elif wire == 0:
        fields[at] = (
            number,
            0,
            rng.choice((0, 1, 2, value + 1, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, rng.getrandbits(63))),
        )
    elif wire == 2 and not isinstance(value, list):
        fields[at] = (
            number,
            2,
            rng.choice(
                (b"", b"\xff\xfe", b"\0", value * 2, value[:-1], b"a" * 3000, rng.choice(PIECES), rng.choice(NUMBERS))
            ),
        )
    elif wire == 2:
        deep: Any = value
        for _i in range(rng.choice((1, 3, 30, 150))):
            deep = [(number, 2, deep)]
        fields[at] = (number, 2, rng.choice((deep, [], value[::-1])))
    else:
        fields[at] = (number, wire, rng.choice((b"\xff", b"\0", rng.randbytes(1))) * len(value))


# packed


def pack(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    """In gzip or zstd, whole, damaged, cut, or followed by something."""
    packed = gzip.compress(data, 1, mtime=0) if rng.random() < 0.5 else zstandard.ZstdCompressor(level=1).compress(data)
    what = rng.randrange(5)
    if what == 1:
        packed = flip_bytes(packed, rng, b"") or packed
    elif what == 2:
        packed = packed[: rng.randrange(len(packed))]
    elif what == 3:
        packed += rng.choice((b"junk", b"\0" * 20, packed))
    elif what == 4:
        at = rng.randrange(len(packed))
        packed = packed[:at] + rng.randbytes(20) + packed[at:]
    return packed


def reencode(data: bytes, rng: random.Random, _: bytes) -> bytes | None:
    """In UTF-16, with a byte order mark, or with other line ends."""
    what = rng.randrange(5)
    if what == 0:
        return data.decode("utf-8", "replace").encode("utf-16")
    if what == 1:
        return b"\xef\xbb\xbf" + data
    if what == 2:
        return data.replace(b"\n", b"\r\n")
    if what == 3:
        return data.replace(b"\n", b"\r")
    return data + rng.choice((b"\n" * 5, b"\0" * 50, data))


BYTES: tuple[Mutator, ...] = (flip_bytes, insert_bytes, delete_bytes, duplicate_bytes, cut, splice)
TEXT: tuple[Mutator, ...] = (
    mutate_lines,
    mutate_lines,
    mutate_cells,
    replace_numbers,
    replace_numbers,
    replace_numbers,
)


def mutators_for(data: bytes) -> tuple[tuple[Mutator, ...], ...]:
    """Return families of mutators, the likelier ones several times."""
    if data.startswith(b"SQLite format 3\0"):
        return ((mutate_database,),) * 6 + (BYTES,)
    if data[:4] == b"PAR1":
        return ((flip_bytes,),) * 3 + (BYTES,)
    if data[:1] in (b"{", b"["):
        return ((mutate_json,),) * (4 if len(data) < 40_000 else 1) + (TEXT, TEXT, BYTES)
    if b"\0" in data[:4000] or data[:1] < b"\x09":
        return ((mutate_message,),) * 4 + (BYTES,)
    return (TEXT, TEXT, TEXT, BYTES)


def mutate(data: bytes, rng: random.Random, other: bytes) -> bytes:
    """Return a mutant: one to eight mutations, now and then re-encoded."""
    for _i in range(rng.choice((1, 1, 1, 2, 4, 8))):
        for _j in range(4):
            try:
                new = rng.choice(rng.choice(mutators_for(data)))(data, rng, other)
            except RecursionError:  # deep JSON, which an earlier mutant brought
                new = None
            if new is not None:
                data = new[:MOST_BYTES]
                break
    return (reencode(data, rng, other) or data) if rng.random() < 0.02 else data

"""Structure-aware fuzzing: `python tests/structure_fuzz.py [FORMAT...] --minutes N --seed S --out FOLDER`.

`fuzz.py` damages bytes and keeps what reaches new code. Here a sample is taken apart as its format says, changed where
a reader must not believe it, and put together again: fields are swapped, values have another type, ids are huge, tables
refer to themselves, lists and messages are shared, nested or cyclic. So a mutant is always well-formed, and comes
further than damaged bytes do.

The verdict on each mutant: a trace whose ledger adds up, or a TracekitError that is no SchemaError. An escape is
anything else: another exception, a warning, more than 10 s, more than 1 GiB. Its input and traceback are in FOLDER. The
same seed gives the same mutants.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import faulthandler
import io
import itertools
import json
import pickle
import random
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from fuzz import MOST_CPU_S, MOST_GROWTH_BYTES, OverheadError, _reset_peak, _status, place_of, save_find
from support import SAMPLES

import tracekit
from tracekit import pipeline
from tracekit.errors import SchemaError, TracekitError

BEYOND_THE_READER = 0.1
"""Share of the mutants that views and a writer get as well."""
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
    1 << 64, -(1 << 63), -(1 << 63) - 1, 10**30, 10**400, 0.5, -0.0, 1e300, 1e-300, float("nan"), float("inf"), "", "0",
    "-1", "1e999", "x", "\0", "\ud83d", "é" * 70_000, "9" * 5000, [], {}, [[]], [None], {"": None}, [1, "2", 3.0, None],
)  # fmt: skip


# Trees: JSON and pickles


def places(tree: Any, most: int = 20_000) -> list[tuple[Any, Any]]:
    """Return each container of a tree with each of its keys."""
    found: list[tuple[Any, Any]] = []
    waiting, seen = [tree], set[int]()
    while waiting and len(found) < most:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        keys = list(each) if isinstance(each, dict) else list(range(len(each))) if isinstance(each, list) else []
        found += [(each, key) for key in keys]
        waiting += [each[key] for key in keys if isinstance(each[key], (dict, list))]
    return found


def changed_tree(tree: Any, rng: random.Random, *, cyclic: bool) -> None:
    """Change a tree in one place. cyclic: it may refer to itself."""
    found = places(tree)
    if not found:
        return
    # First the kind of container, else long lists of numbers get all changes.
    by_key: dict[Any, list[tuple[Any, Any]]] = {}
    for each in found:
        by_key.setdefault(each[1] if isinstance(each[0], dict) else f"[{len(each[0])}]", []).append(each)
    container, key = rng.choice(by_key[rng.choice(sorted(by_key, key=str))])
    other, other_key = rng.choice(found)
    match rng.randrange(11 if cyclic else 9):
        case 0:
            container[key] = rng.choice(ODD)
        case 1:
            container[key], other[other_key] = other[other_key], container[key]
        case 2:
            container[key] = other[other_key] if cyclic else json.loads(json.dumps(other[other_key]))
        case 3:
            del container[key]
        case 4 if isinstance(container, dict):
            container[rng.choice([each for _, each in found if isinstance(each, str)] or ["x"])] = container.pop(key)
        case 5 if isinstance(container[key], (int, float)) and not isinstance(container[key], bool):
            container[key] = rng.choice((-container[key], container[key] + 1, len(found), 1 << 40, str(container[key])))
        case 6 if isinstance(container[key], list):
            container[key] = container[key] * rng.choice((0, 2, 3)) + [rng.choice(ODD)]
        case 7:
            container[key] = {"a": container[key]} if rng.random() < 0.5 else [container[key]]
        case 8:
            for _ in range(rng.choice((3, 60, 600))):
                container[key] = [container[key]]
        case 9:
            container[key] = container if rng.random() < 0.5 else tree
        case 10:
            shared: Any = [container[key]]
            for _ in range(rng.choice((4, 20, 40))):
                shared = [shared, shared]
            container[key] = shared
        case _:
            container[key] = rng.choice(ODD)


def json_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return a changed JSON file."""
    tree = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            changed_tree(tree, rng, cyclic=False)
    sys.set_int_max_str_digits(0)
    with contextlib.suppress(RecursionError, ValueError):  # a list within itself, which JSON cannot have
        return json.dumps(tree).encode()
    return data


def pickle_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return a changed pickle of lists, dicts and numbers; parts are shared and may refer to themselves."""
    tree = pickle.loads(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            changed_tree(tree, rng, cyclic=True)
    with contextlib.suppress(RecursionError, UnicodeEncodeError):
        return pickle.dumps(tree, rng.choice((2, 4)))
    return data


def dump_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return a changed dump of the Flight Recorder, a pickle or JSON."""
    return pickle_mutants(data, rng) if data.startswith(b"\x80") else json_mutants(data, rng)


def packed_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return a changed tree of Proton, in MessagePack or JSON."""
    if data[:1] != b"\x92":
        return json_mutants(data, rng)
    tree = msgspec.msgpack.decode(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        with contextlib.suppress(ValueError, TypeError, OverflowError, RecursionError):
            changed_tree(tree, rng, cyclic=False)
    with contextlib.suppress(RecursionError, UnicodeEncodeError, OverflowError):
        return msgspec.msgpack.encode(tree)
    return data


# Protobuf: pprof, XPlane, Perfetto


@dataclass(slots=True)
class Field:
    """One field of a message. value: an integer, bytes, or the fields of a message in it."""

    number: int
    wire: int
    value: int | bytes | list[Field] = field(default=0)


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def parsed(data: bytes, depth: int = 0) -> list[Field] | None:
    """Return the fields of a message, None for bytes that are none."""
    found, at = list[Field](), 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError

    try:
        while at < len(data):
            tag = number()
            kind, size = tag & 7, {1: 8, 5: 4}.get(tag & 7, 0)
            if not tag >> 3:
                return None
            if kind == 0:
                found.append(Field(tag >> 3, 0, number()))
                continue
            if kind == 2:
                size = number()
            elif kind not in (1, 5):
                return None
            if at + size > len(data):
                return None
            part, at = data[at : at + size], at + size
            text = kind == 2 and part.isascii() and part.decode().isprintable()
            inside = parsed(part, depth + 1) if kind == 2 and part and not text and depth < 8 else None
            found.append(Field(tag >> 3, kind, part if inside is None else inside))
    except (IndexError, ValueError):
        return None
    return found


MOST_FIELDS = 20_000


def packed(fields: list[Field]) -> bytes:
    """Return a message as bytes; whatever value a field has, its wire type is written as it says.

    A mutant may hold itself, many times on each level: what is beyond MOST_FIELDS is left out.
    """
    return _packed(fields, itertools.repeat(None, MOST_FIELDS), 0)


def _packed(fields: list[Field], left: Iterator[None], depth: int) -> bytes:
    """left: one item for each field that may still be written."""
    out = []
    for each, _ in zip(fields if depth < 200 else (), left, strict=False):
        value = _packed(each.value, left, depth + 1) if isinstance(each.value, list) else each.value
        out.append(varint(each.number << 3 | each.wire))
        if each.wire == 0:
            out.append(varint(value if isinstance(value, int) else len(value)))
        elif each.wire in (1, 5):
            size = 8 if each.wire == 1 else 4
            raw = value.to_bytes(16, "little", signed=value < 0) if isinstance(value, int) else value
            out.append(raw[:size].ljust(size, b"\0"))
        elif each.wire == 2:
            raw = varint(value) if isinstance(value, int) else value
            out.append(varint(len(raw)) + raw)
    return b"".join(out)


def messages(fields: list[Field]) -> Iterator[list[Field]]:
    """Yield a message and those within it, each once: a mutant may hold itself."""
    seen, waiting = set[int](), [fields]
    while waiting:
        message = waiting.pop()
        if id(message) not in seen:
            seen.add(id(message))
            yield message
            waiting += [each.value for each in reversed(message) if isinstance(each.value, list)]


def protobuf_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return a changed message."""
    fields = parsed(data)
    assert fields is not None
    for _ in range(rng.choice((1, 1, 2, 4))):
        lists = [each for each in messages(fields) if each]
        if not lists:
            break
        # By the numbers of their fields: a kind of message that is rare is changed as often as one of many.
        kinds: dict[tuple[int, ...], list[list[Field]]] = {}
        for each in lists:
            kinds.setdefault(tuple(sorted({one.number for one in each})), []).append(each)
        message = rng.choice(kinds[rng.choice(sorted(kinds))])
        one = rng.choice(message)
        other = rng.choice(rng.choice(lists))
        match rng.randrange(9):
            case 0 if isinstance(one.value, int):
                one.value = rng.choice(
                    (0, 1, 5, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, one.value + 1)
                )
            case 1:
                one.wire = rng.choice((0, 1, 2, 3, 4, 5))
            case 2:
                one.number = rng.choice((1, 2, 3, one.number + 1, other.number, (1 << 29) - 1))
            case 3:
                one.value, other.value = other.value, one.value
                one.wire, other.wire = other.wire, one.wire
            case 4:
                message.remove(one)
            case 5:
                message.extend([one] * rng.choice((1, 2, 50)))
            case 6:
                message.append(Field(one.number, 2, list(message)))
            case 7:
                for _ in range(rng.choice((2, 30, 120))):
                    one.value, one.wire = [Field(one.number, one.wire, one.value)], 2
            case _:
                one.value = rng.choice((b"", b"\xff\xfe", b"\0" * 9, "é".encode() * 70_000, 7))
    return packed(fields)


def delimited_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return changed messages with the length of each before it, as Chakra writes them."""
    parts, at = list[bytes](), 0
    while at < len(data):
        size = shift = 0
        while True:
            byte, at = data[at], at + 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        parts.append(data[at : at + size])
        at += size
    for _ in range(rng.choice((1, 1, 2, 4))):
        one, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        match rng.randrange(8):
            case 0:
                parts[one], parts[other] = parts[other], parts[one]
            case 1:
                parts.insert(one, parts[other])
            case 2 if len(parts) > 1:
                del parts[one]
            case _ if parsed(parts[one]):
                parts[one] = protobuf_mutants(parts[one], rng)
    lengths = [len(part) for part in parts]
    if rng.random() < 0.1:
        at = rng.randrange(len(lengths))
        lengths[at] = rng.choice((0, lengths[at] + 1, lengths[at] - 1, 1 << 40, (1 << 64) - 1))
    return b"".join(varint(size) + part for size, part in zip(lengths, parts, strict=True))


# SQLite: rocpd, rpd


def sqlite_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return a changed database: columns swapped or of another type, rows that refer to themselves, tables gone."""
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.deserialize(data)
        base.execute("pragma foreign_keys = off")
        for _ in range(rng.choice((1, 1, 2, 4))):
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                _change_table(base, rng)
        base.commit()
        return base.serialize()


def _change_table(base: sqlite3.Connection, rng: random.Random) -> None:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    tables = [name for (name,) in base.execute("select name from sqlite_master where type = 'table' order by 1")]
    table = rng.choice(tables)
    columns = [row[1] for row in base.execute(f"pragma table_info({quoted(table)})")]
    count = base.execute(f"select count(*) from {quoted(table)}").fetchone()[0]
    column, other = (quoted(rng.choice(columns)) for _ in range(2))
    name = quoted(table)
    where = rng.choice(("", f" where rowid = {rng.randint(1, max(count, 1))}"))
    match rng.randrange(10):
        case 0 | 1:
            odd = [each for each in ODD if each is None or isinstance(each, (int, float, str))]
            odd += [b"\xff\xfe", b"", (1 << 62), "\ud83d" if rng.random() < 0.1 else "y"]
            base.execute(f"update {name} set {column} = ?{where}", (rng.choice(odd),))
        case 2:
            base.execute(f"update {name} set {column} = {other}, {other} = {column}{where}")
        case 3:
            base.execute(f"update {name} set {column} = rowid{where}")
        case 4:
            base.execute(f"alter table {name} drop column {column}")
        case 5:
            base.execute(f"alter table {name} rename column {column} to {quoted(rng.choice([*columns, 'x', 'id']))}")
        case 6:
            base.execute(f"drop table {name}")
        case 7:
            base.execute(f"delete from {name}{where}")
        case 8:
            base.execute(f"alter table {name} rename to old_one")
            base.execute(
                f"create view {name} as select * from {rng.choice(('old_one', name, quoted(rng.choice(tables))))}"
            )
        case _:
            base.execute(f"insert into {name} select * from {name}")


# Arrow: the streams of one export, one behind the other


def arrow_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return changed streams: columns of another type, swapped, gone or renamed; tables gone, repeated or renamed."""
    file, streams = pa.BufferReader(data), list[pa.Table]()
    while file.tell() < len(data):
        streams.append(pa.ipc.open_stream(file).read_all())
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(streams))
        table = streams[place]
        column = rng.randrange(table.num_columns) if table.num_columns else 0
        other = rng.randrange(table.num_columns) if table.num_columns else 0
        rows, metadata = table.num_rows, table.schema.metadata
        match rng.randrange(8):
            case 0 if table.num_columns:
                odd = [None, 0, -1, 1 << 40, (1 << 63) - 1, -(1 << 63), 0.5, float("nan"), "", "x", b"\xff", [1], True]
                table = table.set_column(column, table.column_names[column], pa.array([rng.choice(odd)] * rows))
            case 1 if table.num_columns:
                table = table.set_column(column, table.column_names[column], table.column(other))
            case 2 if table.num_columns > 1:
                table = table.remove_column(column)
            case 3 if table.num_columns:
                names = table.column_names
                names[column] = rng.choice([*names, "x", "id", ""])
                table = table.rename_columns(names)
            case 4:
                table = table.slice(rng.choice((0, rows // 2, rows)), rng.choice((0, 1, rows)))
            case 5:
                metadata = rng.choice((None, {"table_name": rng.choice(("", "NVTX_EVENTS", "x", "ENUM_X"))}, metadata))
                table = table.replace_schema_metadata(metadata)
            case 6:
                streams.append(table)
            case _ if len(streams) > 1:
                del streams[place]
                continue
        streams[place] = table
    out = pa.BufferOutputStream()
    for table in streams:
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=rng.choice((1, 1 << 20)))
    return out.getvalue().to_pybytes()


# ncu: CSV


def csv_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return a changed table: cells, rows and columns swapped, gone, repeated or of another kind."""
    text = data.decode("utf-8", "surrogateescape")
    rows = [next(csv.reader([line]), []) for line in text.splitlines()]
    for _ in range(rng.choice((1, 2, 4))):
        row = rng.choice(rows)
        other = rng.choice(rows)
        width = max(len(row), 1)
        match rng.randrange(8):
            case 0 if row:
                row[rng.randrange(width)] = str(rng.choice(ODD[3:34]))
            case 1 if row:
                place = rng.randrange(width)
                row[place], row[-1] = row[-1], row[place]
            case 2 if row:
                row.pop(rng.randrange(width))
            case 3:
                row[:] = other
            case 4:
                rows.remove(row)
            case 5:
                rows.insert(rng.randrange(len(rows)), list(other))
            case 6:
                place = rng.randrange(width)
                for each in rows:
                    if place < len(each):
                        each.insert(rng.randrange(len(each)), each.pop(place))
            case _:
                row.extend(["x"] * rng.choice((1, 50, 5000)))
        rows = rows or [[]]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


# zip


def zip_of(data: bytes) -> bytes:
    """Return an archive with a member for each way to pack."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            archive.writestr(zipfile.ZipInfo(f"rank{method}.csv", (2026, 1, 1, 0, 0, 0)), data[:20_000], method)
    return out.getvalue()


def zip_mutants(data: bytes, rng: random.Random) -> bytes:
    """Return an archive with changed heads and lists: other methods, flags, sizes, places and names."""
    changed = bytearray(data)
    widths = {
        b"PK\x03\x04": (4, 6, 8, 14, 18, 22, 26, 28),
        b"PK\x01\x02": (4, 6, 8, 10, 16, 20, 24, 28, 30, 32, 34, 42),
    }
    widths |= {b"PK\x05\x06": (4, 6, 8, 10, 12, 16, 20)}
    for _ in range(rng.choice((1, 1, 2, 4))):
        magic = rng.choice(sorted(widths))
        heads = [at for at in range(len(changed)) if changed[at : at + 4] == magic]
        if not heads:
            break
        head = rng.choice(heads)
        if rng.random() < 0.15:
            place = rng.randrange(len(changed))
            changed[place : place + rng.choice((1, 4, 40))] = rng.randbytes(rng.choice((1, 4, 40)))
            continue
        at = head + rng.choice(widths[magic])
        size = rng.choice((2, 4))
        old = int.from_bytes(changed[at : at + size], "little")
        value = rng.choice((0, 1, 8, 9, 12, 14, 99, 0x41, 0xFFFF, 0xFFFFFFFF, old + 1, old - 1, old << 1, 1 << 31))
        changed[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(changed)


Mutate = Callable[[bytes, random.Random], bytes]
FORMATS: dict[str, tuple[Mutate, str]] = {
    "torch-memory": (pickle_mutants, "torch-memory"),
    "torch-memory-timeline": (json_mutants, "torch-memory-timeline"),
    "flight-recorder": (dump_mutants, "flight-recorder"),
    "execution-trace": (json_mutants, "execution-trace"),
    "proton": (packed_mutants, "proton"),
    "tensorrt-profile": (json_mutants, "tensorrt-profile"),
    "tensorrt-layers": (json_mutants, "tensorrt-layers"),
    "tensorrt-times": (json_mutants, "tensorrt-times"),
    "pprof": (protobuf_mutants, "pprof"),
    "speedscope": (json_mutants, "speedscope"),
    "firefox": (json_mutants, "firefox"),
    "rocpd": (sqlite_mutants, "rocpd"),
    "rpd": (sqlite_mutants, "rpd"),
    "chakra": (delimited_mutants, "chakra"),
    "xplane": (protobuf_mutants, "xplane"),
    "perfetto": (protobuf_mutants, "perfetto"),
    "nsys-arrow": (arrow_mutants, "nsys-arrow"),
    "ascend-db": (sqlite_mutants, "ascend-db"),
    "ascend-csv": (csv_mutants, "ascend-csv"),
    "ncu": (csv_mutants, "ncu"),
    "zip": (zip_mutants, ""),
}
"""By format: its mutator, and the reader (none: any)."""


def seeds_of(format: str) -> list[bytes]:
    """Return the samples of a format."""
    if format == "zip":
        return [zip_of((SAMPLES / "nvprof-csv" / "gpu-and-api-trace.csv").read_bytes())]
    found = [path.read_bytes() for path in sorted((SAMPLES / format).iterdir()) if path.is_file()]
    return [each for each in found if not (format == "ncu" and b"==PROF==" not in each and each[:1] not in b'"=')]


class TooLongError(BaseException):
    """Raised by the clock: no reader can catch it."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TooLongError after so many seconds of CPU; what never comes back to Python ends the process."""

    def over(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, over)
    faulthandler.dump_traceback_later(30 * seconds, exit=True)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGPROF, before)


def escape_of(path: Path, reader: str, *, further: bool) -> BaseException | None:
    """Return what the reading of a mutant should not have raised, None for a trace or a TracekitError."""
    before = _reset_peak()
    try:
        with warnings.catch_warnings(), within(MOST_CPU_S):
            warnings.simplefilter("error")
            _read(path, reader, further=further)
    except SchemaError as err:
        return err
    except TracekitError:
        pass
    except TooLongError as err:
        return OverheadError("took more than 10 s of CPU").with_traceback(err.__traceback__)
    except Exception as err:  # noqa: BLE001 - whatever comes is what is looked for
        return err
    if (grown := _status(b"VmHWM") - before) > MOST_GROWTH_BYTES:
        return OverheadError(f"took {grown >> 20} MiB of memory")
    return None


def _read(path: Path, reader: str, *, further: bool) -> None:
    trace = tracekit.read(path, format=reader)
    for ledger in trace.ledgers:
        ledger.check()
    if not further:
        return
    json.dumps(tracekit.inspect(path, format=reader).inputs[0])
    for name in pipeline.VIEWS:
        with contextlib.suppress(TracekitError):
            pipeline.view(trace, name)
    for target, name in (("chrome", "out.json"), ("perfetto", "out.pftrace"), ("parquet", "out.parquet")):
        try:
            tracekit.convert(path, path.with_name(name), to=target, format=reader, force=True)
        except SchemaError:
            raise
        except TracekitError:
            pass


@dataclass(slots=True)
class Figures:
    """What became of the mutants of one format."""

    mutants: int = 0
    escapes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0


def fuzz(format: str, seed: str, out: Path, *, mutants: int = 0, seconds: float = 0) -> Figures:
    """Read so many mutants of a format, or as many as so many seconds of CPU allow. out: where escapes go."""
    mutate, reader = FORMATS[format]
    rng = random.Random(f"{seed}:{format}")
    seeds = seeds_of(format)
    found = Figures()
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.zip" if format == "zip" else "input")
        while found.mutants < mutants or (seconds and time.process_time() - begun < seconds):
            data = mutate(rng.choice(seeds), rng)
            path.write_bytes(data)
            further = rng.random() < BEYOND_THE_READER
            error = escape_of(path, reader, further=further)
            found.mutants += 1
            if error is not None:
                place = place_of(error)
                found.escapes[place] = found.escapes.get(place, 0) + 1
                save_find(out / format, place, "".join(traceback.format_exception(error)), data)
    found.seconds = time.process_time() - begun
    return found


def main() -> int:
    """Fuzz the formats of the command line in turn, each for its share of the minutes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"of {', '.join(FORMATS)}; all by default")
    parser.add_argument("--minutes", type=float, default=1, help="CPU time of all formats together")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--out", type=Path, default=Path("fuzz-out/structure"))
    words = parser.parse_args()
    chosen = words.formats or list(FORMATS)
    escapes = 0
    for each in chosen:
        found = fuzz(each, words.seed, words.out, seconds=60 * words.minutes / len(chosen))
        escapes += sum(found.escapes.values())
        print(f"{each:14} {found.mutants:8,} mutants {found.seconds:7.1f} s {found.escapes or 'no escape'}", flush=True)
    return 1 if escapes else 0


if __name__ == "__main__":
    sys.exit(main())

"""Bombs: small files that cost a lot to read. `python tests/bombs.py OUT` reads all of them under the real limits.

Each kind has twenty, made from a seed; the same number gives the same bytes. A child reads them one after the other
with a limit of the system on its memory and on the processor time of each. What a bomb must end in is one sentence:
INCOMPLETE, an error, or the whole of it where it costs no more than its size.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import re
import resource
import sqlite3
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_traces"
sys.path[:0] = [str(ROOT), str(SAMPLES)]

EVENT = b'{"ph":"X","name":"k","ts":1,"dur":1,"pid":1,"tid":1},\n'
KB, MB = 1 << 10, 1 << 20
EACH = 20
Made = tuple[str, bytes]
"""The end of a file's name, and its bytes."""
Draw = random.Random


def _csv() -> bytes:
    return (SAMPLES / "nvprof-csv" / "gpu-and-api-trace.csv").read_bytes()


def _csv_row() -> bytes:
    return _csv().splitlines(keepends=True)[-1]


TEXTS: dict[str, Callable[[int], bytes]] = {
    "events": lambda size: b'{"traceEvents":[\n' + EVENT * (size // len(EVENT)),
    "one-line": lambda size: b'{"traceEvents":[{"name":"' + b"k" * size,
    "blanks": lambda size: b'{"traceEvents":[' + b" " * size,
    "zeros": bytes,
    "newlines": lambda size: (SAMPLES / "recorder-log" / "rank0.jsonl").read_bytes() + b"\n" * size,
    "depth": lambda size: b'{"traceEvents":[{"args":' + b"[" * size,
    "width": lambda size: b'{"traceEvents":[{"args":{' + b'"a":1,' * (size // 6),
    "csv": lambda size: _csv() + _csv_row() * (size // len(_csv_row())),
    "columns": lambda size: _csv() + b'"x",' * (size // 4),
    "folded": lambda size: b"main;a;b 1\n" * (size // 11),
    "utf-16": lambda size: b"\xff\xfe" + (b'{"traceEvents":[\n' + EVENT * (size // 110)).decode().encode("utf-16-le"),
    "digits": lambda size: b'{"traceEvents":[{"ph":"X","name":"k","ts":' + b"9" * size,
}


def _text(draw: Draw, size: int) -> bytes:
    return TEXTS[draw.choice(sorted(TEXTS))](size)


def gzips(draw: Draw, size: int, number: int) -> Made:
    data = TEXTS[sorted(TEXTS)[number % len(TEXTS)]](size)
    if number < len(TEXTS):
        return "gz", gzip.compress(data, 9, mtime=0)
    part = EVENT * 20_000
    small = gzip.compress(part, 9, mtime=0)
    match number % 4:
        case 0:  # many members
            return "gz", gzip.compress(b'{"traceEvents":[\n' + part, mtime=0) + small * (size // len(part))
        case 1:  # many empty members
            return "gz", gzip.compress(b'{"traceEvents":[\n' + part, mtime=0) + gzip.compress(b"", mtime=0) * 20_000
        case 2:  # a name of a megabyte in its head
            head = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * MB + b"\0"
            return "gz", head + gzip.compress(data, mtime=0)[10:]
        case _:  # stored blocks of no bytes
            return "gz", b"\x1f\x8b\x08\0" + bytes(6) + b"\0\0\0\xff\xff" * 100_000


def _runs(head: bytes, blocks: int, byte: bytes, window: int) -> bytes:
    """A zstd frame: a head as it is, then blocks that repeat one byte 128 Ki times, of four bytes each."""
    frame = bytearray(b"\x28\xb5\x2f\xfd\x00" + bytes([window]))
    frame += (len(head) << 3).to_bytes(3, "little") + head
    for number in range(blocks):
        frame += ((131072 << 3) | 2 | (number == blocks - 1)).to_bytes(3, "little") + byte
    return bytes(frame)


def zstds(draw: Draw, size: int, number: int) -> Made:
    import zstandard

    compress = zstandard.ZstdCompressor(level=19).compress
    if number < len(TEXTS):
        return "zst", compress(TEXTS[sorted(TEXTS)[number]](size))
    head = b'{"traceEvents":[\n' + EVENT * draw.randrange(1, 400)
    match number % 4:
        case 0:
            return "zst", _runs(head, 8192, draw.choice([b"\n", b" ", b"["]), 0x58)
        case 1:  # a window of half a TiB or so
            return "zst", _runs(head, 64, b"\n", 0xF8)
        case 2:  # frames that are skipped
            return "zst", compress(head) + (b"\x50\x2a\x4d\x18" + struct.pack("<I", 8) + bytes(8)) * 20_000
        case _:
            return "zst", compress(head) + compress(EVENT * 20_000) * (size // MB)


def nested(draw: Draw, size: int, number: int) -> Made:
    data = TEXTS[draw.choice(["events", "zeros", "blanks"])](size)
    suffix = "json"
    for _ in range(2 + number % 4):
        form = draw.choice(["gz", "zip", "zst"])
        if form == "gz":
            data = gzip.compress(data, 9, mtime=0)
        elif form == "zst":
            import zstandard

            data = zstandard.ZstdCompressor(level=9).compress(data)
        else:
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(f"a.{suffix}", data)
            data = out.getvalue()
        suffix = f"{suffix}.{form}"
    return suffix, data


def zips(draw: Draw, size: int, number: int) -> Made:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        match number % 5:
            case 0:
                archive.writestr("a.json", _text(draw, size))
            case 1:
                for each in range(2000):
                    archive.writestr(f"{each}.json", b"")
            case 2:
                for each in range(6):
                    archive.writestr(f"{each}.json", TEXTS["events"](size))
            case 3:
                archive.writestr(zipfile.ZipInfo("../../a.json"), TEXTS["events"](size), draw.choice([8, 12, 14]))
            case _:
                archive.writestr("a.json", TEXTS["events"](size), zipfile.ZIP_LZMA)
    data = bytearray(out.getvalue())
    if number % 5 == 4:  # a dictionary of 4 GiB
        at = 30 + len("a.json") + 4
        data[at + 1 : at + 5] = struct.pack("<I", draw.choice([1 << 30, (1 << 32) - 1]))
    return "zip", bytes(data)


def _database(folder: str, make: Callable[[sqlite3.Connection], None], base: str = "") -> bytes:
    path = Path(folder, "a.sqlite")
    if base:
        path.write_bytes((SAMPLES / base).read_bytes())
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma synchronous = off")
    db.execute("begin")
    make(db)
    db.execute("commit")
    db.close()
    return path.read_bytes()


BASES = (
    "nvprof-sqlite/version-8.nvvp",
    "nsys-sqlite/two-processes.sqlite",
    "rocpd/4242_results.db",
)


def _tables(db: sqlite3.Connection) -> list[str]:
    rows = db.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite%'").fetchall()
    return sorted(str(row[0]) for row in rows)


def _folded_pages(data: bytes, table: str, levels: int) -> bytes:
    """A table whose inner pages all point to one page below, which holds its rows: 500 ** levels times as many."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a")
        path.write_bytes(data)
        db = sqlite3.connect(path)
        root = int(db.execute("select rootpage from sqlite_master where name = ?", (table,)).fetchone()[0])
        db.close()
    page = struct.unpack(">H", data[16:18])[0]
    pages = len(data) // page
    made = bytearray(data)
    leaf = made[(root - 1) * page : root * page]
    while leaf[0] == 5:  # an inner page: its last child
        last = struct.unpack(">I", leaf[8:12])[0]
        leaf = made[(last - 1) * page : last * page]
    children = (page - 12) // 7 - 1

    def inner(child: int) -> bytes:
        cells = b"".join(struct.pack(">I", child) + b"\x7f" for _ in range(children))
        start = page - len(cells)
        head = struct.pack(">BHHHBI", 5, 0, children, start, 0, child)
        places = b"".join(struct.pack(">H", start + 5 * each) for each in range(children))
        return (head + places).ljust(start, b"\0") + cells

    made[(root - 1) * page : root * page] = inner(pages + 1)
    for level in range(1, levels):
        made += inner(pages + level + 1)
    made += leaf
    made[28:32] = struct.pack(">I", len(made) // page)
    return bytes(made)


def databases(draw: Draw, size: int, number: int) -> Made:
    base = BASES[number % 3]
    with tempfile.TemporaryDirectory() as folder:
        match number // 3:
            case 0:  # packed empty pages

                def pad(db: sqlite3.Connection) -> None:
                    db.execute("create table pad (x)")
                    db.executemany("insert into pad values (zeroblob(?))", [(MB,)] * (size // MB))

                return "sqlite.gz", gzip.compress(_database(folder, pad, base), 9, mtime=0)
            case 1:  # every table is a view that never ends

                def views(db: sqlite3.Connection) -> None:
                    for name in _tables(db):
                        columns = ", ".join(f'1 as "{row[1]}"' for row in db.execute(f'pragma table_info("{name}")'))
                        db.execute(f'drop table "{name}"')
                        db.execute(
                            f'create view "{name}" as with recursive c(n) as '
                            f"(select 1 union all select n + 1 from c) select {columns} from c"
                        )

                return "sqlite", _database(folder, views, base)
            case 2:  # pages that are in a tree many times

                def nothing(db: sqlite3.Connection) -> None:
                    pass

                data = _database(folder, nothing, base)
                with closing(sqlite3.connect(Path(folder, "a.sqlite"))) as db, db:
                    tables = [
                        name for name in _tables(db) if db.execute(f'select count(*) from "{name}"').fetchone()[0]
                    ]
                rows = [
                    name for name in tables if re.search("KERNEL|RUNTIME|dispatch|region|NVTX", name, re.IGNORECASE)
                ]
                return "sqlite", _folded_pages(
                    data, (rows or tables)[draw.randrange(len(rows or tables))], 3 + number % 4
                )
            case 3:  # tens of thousands of tables

                def many(db: sqlite3.Connection) -> None:
                    for each in range(3_000):
                        db.execute(f"create table CUPTI_ACTIVITY_KIND_{each} (start, end, streamId)")

                return "sqlite", _database(folder, many, base)
            case 4:  # as many columns as SQLite lets one have

                def wide(db: sqlite3.Connection) -> None:
                    more = "".join(f", c{each} default 7" for each in range(1900))
                    db.execute("drop table if exists CUPTI_ACTIVITY_KIND_KERNEL")
                    db.execute(f"create table CUPTI_ACTIVITY_KIND_KERNEL (start, end{more})")
                    db.executemany("insert into CUPTI_ACTIVITY_KIND_KERNEL (start, end) values (?, ?)", [(1, 2)] * 20)

                return "sqlite", _database(folder, wide, BASES[0] if number % 3 == 2 else base)
            case _:  # cells of zeros and huge texts for names, and triggers

                def fat(db: sqlite3.Connection) -> None:
                    for name in _tables(db)[:40]:
                        column = [row[1] for row in db.execute(f'pragma table_info("{name}")') if not row[5]][-1:]
                        if not column:
                            continue
                        db.execute(
                            f'create trigger "t_{name}" after insert on "{name}" begin '
                            f"select randomblob(1000000000); end"
                        )
                        db.execute(f'update or ignore "{name}" set "{column[0]}" = zeroblob(?)', (size // 40,))

                return "sqlite.gz", gzip.compress(_database(folder, fat, base), 6, mtime=0)


def parquets(draw: Draw, size: int, number: int) -> Made:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tracekit.model import schema

    length = draw.choice([1, 5000])
    count = size // (20 if length == 1 else 125)  # of long names, 40 times as many bytes as asked for
    want = {"ts_ns": 1, "dur_ns": 1, "event_id": 1, "source": 0, "kind": "kernel", "name": "k" * length}
    fields = [schema.EVENTS.field(name) for name in want]
    groups = [1, 1, 8, 200][number % 4]
    rows = count // groups
    columns = [
        pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([want[f.name]]))
        if pa.types.is_dictionary(f.type)
        else pa.repeat(pa.scalar(want[f.name], f.type), rows)
        for f in fields
    ]
    table = pa.table(columns, names=list(want))
    out = io.BytesIO()
    with pq.ParquetWriter(
        out,
        table.schema,
        compression=draw.choice(["zstd", "snappy", "gzip"]),
        use_dictionary=number % 3 != 0,
        data_page_size=draw.choice([MB, 1 << 28]),
    ) as file:
        for _ in range(groups):
            file.write_table(table, row_group_size=rows)
    data = out.getvalue()
    if number % 5 == 4:  # the number of rows in the footer is another one
        data = data.replace(struct.pack("<Q", rows), struct.pack("<Q", 1 << 60))
    return "parquet", data


def depths(draw: Draw, size: int, number: int) -> Made:
    deep = [b"[", b'{"a":', b'[{"a":', b'"\\u005b\\', b"[[[]],"][number % 5]
    place = [
        b'{"traceEvents":[{"ph":"X","name":"k","ts":1,"dur":1,"pid":1,"tid":1,"args":',
        b'{"schemaVersion":1,"distributedInfo":',
        b'{"traceEvents":[',
        b"",
    ][number // 5]
    return "json", place + deep * (size // len(deep) // 2)


def widths(draw: Draw, size: int, number: int) -> Made:
    piece = [
        lambda n: b'"a":1,',
        lambda n: b'"k%d":%d,' % (n, n),
        lambda n: b'"k%d":{},' % n,
        lambda n: b'"k%d":"%s",' % (n, b"x" * (n % 50)),
        lambda n: b'"\\u00%02x":1e999,' % (n % 256),
    ][number % 5]
    body = b"".join(piece(each) for each in range(size // 12))[:-1]
    event = b'"ph":"X","name":"k","ts":1,"dur":1,"pid":1,"tid":1'
    match number // 5:
        case 0:
            return "json", b'{"traceEvents":[{' + event + b',"args":{' + body + b"}}]}"
        case 1:
            return "json", b'{"traceEvents":[{' + event + b"," + body + b"}]}"
        case 2:
            return "json", b"{" + body + b',"traceEvents":[{' + event + b"}]}"
        case _:
            args = (b'{%s,"args":{"k%d":1}},' % (event, each) for each in range(size // 75))
            return "json", b'{"traceEvents":[' + b"".join(args)[:-1] + b"]}"


def columns(draw: Draw, size: int, number: int) -> Made:
    lines = _csv().splitlines(keepends=True)
    count = size // 60
    at = next(place for place, line in enumerate(lines) if line.startswith(b'"Start"'))
    more = b"".join(b',"c%d"' % each for each in range(count))
    match number % 5:
        case 0:
            lines[at] = lines[at].rstrip() + more + b"\n"
        case 1:
            lines[at:] = [line.rstrip() + b",1" * (count // 10) + b"\n" for line in lines[at:]]
            lines[at] = lines[at].rstrip() + more[: len(more) // 10] + b"\n"
        case 2:
            lines[at + 3] = lines[at + 3].rstrip() + b',""' * count + b"\n"
        case 3:
            lines = [b"," * size + b"\n", *lines]
        case _:
            lines = [line.replace(b",", b"," * (count // 30)) for line in lines]
    return "csv", b"".join(lines)


def lanes(draw: Draw, size: int, number: int) -> Made:
    count = size // 100
    one = b'{"ph":"%s","name":"k","ts":%d,"dur":1,"pid":%s,"tid":%s%s},\n'
    forms: list[Callable[[int], bytes]] = [
        lambda n: one % (b"X", n, b"1", b"%d" % n, b""),
        lambda n: one % (b"X", n, b"%d" % n, b"1", b""),
        lambda n: one % (b"X", n, b'"p%d"' % n, b'"t%d"' % n, b""),
        lambda n: one % (b"X", n, b"1", b"2", b',"cat":"kernel","args":{"device":%d,"stream":7}' % n),
        lambda n: one % (b"X", n, b"1", b"2", b',"cat":"kernel","args":{"device":0,"stream":%d}' % n),
        lambda n: one % (b"B", n, b"1", b"%d" % n, b""),
        lambda n: b'{"ph":"M","name":"thread_name","pid":%d,"tid":%d,"args":{"name":"t%d"}},\n' % (n, n, n),
        lambda n: one % (b"b", n, b"1", b"1", b',"id":"0x%x"' % n),
        lambda n: b'{"ph":"C","name":"c","ts":%d,"pid":%d,"args":{"s%d":1}},\n' % (n, n % 5, n),
        lambda n: one % (b"s", n, b"1", b"1", b',"id":%d,"cat":"ac2g"' % n),
    ]
    body = b"".join(map(forms[number % 10], range(count)))
    head = b'{"schemaVersion":1,"traceEvents":[\n' if number >= 10 else b'{"traceEvents":[\n'
    return "json", head + body[:-2] + b"]}"


def names(draw: Draw, size: int, number: int) -> Made:
    event = b'{"ph":"X","name":"%s","ts":%d,"dur":1,"pid":1,"tid":1%s},\n'
    more = b',"cat":"kernel","args":{"device":0,"stream":7}'
    forms: list[Callable[[int], bytes]] = [
        lambda n: event % (b"k%d" % n, n, b""),
        lambda n: event % (b"_Z%dk%07dv" % (8, n), n, more),
        lambda n: event % (b"_ZN" + b"1a" * 40 + b"%d" % n + b"E", n, more),
        lambda n: event % (b"x" * 2000 + b"%d" % n, n, b""),
        lambda n: event % (b"void k<%d, %d>(float*)" % (n, n), n, more),
        lambda n: event % (b"k", n, b',"cat":"c%d"' % n),
        lambda n: event % (b"k", n, b',"args":{"n%d":"v%d"}' % (n % 1000, n)),
        lambda n: event % (b"ProfilerStep#%d" % n, n, b',"cat":"user_annotation"'),
        lambda n: event % (b"nccl:all_reduce_%d" % n, n, b',"cat":"user_annotation"'),
        lambda n: event % (b"\\u%04x" % (n % 55000 + 32) * 10, n, b""),
    ]
    body = b"".join(forms[number % 10](each) for each in range(size // (2100 if number % 10 == 3 else 130)))
    head = b'{"schemaVersion":1,"traceEvents":[\n' if number >= 10 else b'{"traceEvents":[\n'
    return "json", head + body[:-2] + b"]}"


PROTOBUFS = (
    ("xplane.pb", "xplane/gpu.xplane.pb"),
    ("pftrace", "perfetto/gpu.pftrace"),
    ("pb", "pprof/go-cpu.pb"),
    ("paddle_trace.pb", "paddle-pb/gpu.paddle_trace.pb"),
    ("prof", "fluid-pb/gpu.prof"),
)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def protobufs(draw: Draw, size: int, number: int) -> Made:
    suffix, base = PROTOBUFS[number % 5]
    data = (SAMPLES / base).read_bytes()
    match number // 5:
        case 0:  # a length that the file does not have
            return suffix, data + _varint(1 << 3 | 2) + _varint(draw.choice([1 << 31, 1 << 40, (1 << 63) - 1])) + b"x"
        case 1:  # messages of no bytes
            return suffix, data + b"\x0a\x00" * (size // 8)
        case 2:  # depth
            deep = b""
            for _ in range(3000):
                deep = _field(1, deep)
            return suffix, data + deep
        case _:  # packed numbers, and Perfetto's compressed packets in each other
            if suffix == "pftrace":
                inner = _field(1, b"")
                for _ in range(3):
                    inner = _field(1, _field(50, zlib.compress(inner * 2_000, 9)))
                return suffix, data + inner
            return suffix, data + _field(2, b"\x0a" + _varint(size) + b"\x01" * size)


def pickles(draw: Draw, size: int, number: int) -> Made:
    deep = size // 20
    head = b"\x80\x04}\x94\x8c\x08segments\x94]\x94s"
    match number % 5:
        case 0:  # each list holds the one before it ten times
            body = b"\x80\x04]\x94"
            for each in range(40):
                body += b"](" + b"h" + bytes([each]) + (b"h" + bytes([each])) * 9 + b"e\x94"
            return "pickle", body + b"."
        case 1:
            return "pickle", b"\x80\x04" + b"]" * deep + b"a" * (deep - 1) + b"."
        case 2:
            return "pickle", b"\x80\x04" + b"}" + b"\x8c\x01a" * 1 + b"}" * deep + b"."
        case 3:
            return "pickle", head + b"\x8d" + struct.pack("<Q", draw.choice([1 << 40, 1 << 62])) + b"x" * 100
        case _:
            real = (SAMPLES / "torch-memory" / "two-gpus.pickle").read_bytes()
            return "pickle", real[:-1] + b"r" + struct.pack("<I", (1 << 32) - 1) + b"K\x01" * deep + b"."


def stacks(draw: Draw, size: int, number: int) -> Made:
    """Stacks that are deep where many samples have them: depth times samples is a square of the size."""
    many = size // 60
    match number % 5:
        case 0:
            frames = {str(each): {"name": f"f{each}", "parent": str(each - 1)} for each in range(1, many)}
            frames["0"] = {"name": "f0"}
            rows = [
                {"ph": "X", "name": "k", "ts": n, "dur": 1, "pid": 1, "tid": 1, "sf": many - 1} for n in range(many)
            ]
            return "json", json.dumps({"traceEvents": rows, "stackFrames": frames}).encode()
        case 1:
            table = {"frames": [{"name": f"f{each}"} for each in range(many)]}
            deep = list(range(min(many, 3000)))
            samples = [deep] * (size // 12_000 + 1)
            profile = {"type": "sampled", "name": "a", "unit": "none", "startValue": 0, "endValue": len(samples)}
            profile |= {"samples": samples, "weights": [1] * len(samples)}
            schema = "https://www.speedscope.app/file-format-schema.json"
            return "speedscope.json", json.dumps({"$schema": schema, "shared": table, "profiles": [profile]}).encode()
        case 2:
            line = b";".join(b"f%d" % each for each in range(many // 50))
            return "folded", b"".join(line + b";g%d 1\n" % each for each in range(50))
        case 3:
            path = next((SAMPLES / "firefox").iterdir())
            text = json.loads(path.read_bytes())
            for thread in text.get("threads", []):
                table = thread.get("stackTable")
                samples = thread.get("samples")
                if table and samples and "prefix" in table and "stack" in samples:
                    first = len(table["prefix"])
                    for name, values in table.items():
                        if isinstance(values, list) and name != "prefix" and values:
                            values.extend([values[0]] * many)
                    table["prefix"].extend([max(first + each - 1, 0) for each in range(many)])
                    table["length"] = len(table["prefix"])
                    samples["stack"] = [table["length"] - 1 for _ in samples["stack"]]
            return "json", json.dumps(text).encode()
        case _:
            body = b"".join(b'{"ph":"B","name":"k","ts":%d,"pid":1,"tid":1},\n' % each for each in range(many))
            ends = b"".join(b'{"ph":"E","ts":%d,"pid":1,"tid":1},\n' % (many + each) for each in range(many))
            return "json", b'{"traceEvents":[\n' + body + ends[:-2] + b"]}"


KINDS: dict[str, Callable[[Draw, int, int], Made]] = {
    "gzip": gzips,
    "zstd": zstds,
    "nested": nested,
    "zip": zips,
    "sqlite": databases,
    "parquet": parquets,
    "json-depth": depths,
    "json-width": widths,
    "columns": columns,
    "lanes": lanes,
    "names": names,
    "protobuf": protobufs,
    "pickle": pickles,
    "stacks": stacks,
}


def bomb(kind: str, number: int, size: int) -> Made:
    """Return a bomb that unpacks to about `size` bytes, or has about that many where it is not packed."""
    return KINDS[kind](random.Random(f"{kind} {number}"), size, number)


def write(folder: Path, kind: str, numbers: Sequence[int], size: int) -> Iterator[Path]:
    """Write bombs of a kind into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        suffix, data = bomb(kind, number, size)
        path = folder / f"{kind}-{number}.{suffix}"
        path.write_bytes(data)
        yield path


def read(words: Sequence[str], paths: Sequence[str], seconds: int, memory: int, unpacked: int) -> None:
    """Read files one after the other, and print a line of JSON before and after each. For a process of its own.

    seconds: of the processor for each, after which the system ends the process. memory: the most that it may have.
    unpacked: the most bytes of a packed input; 0 for the usual limit.
    """
    from typer.testing import CliRunner

    from tracekit import cli
    from tracekit.safety import limits

    if unpacked:
        limits.UNPACKED_BYTES, limits.EXPANSION = unpacked, 20
    app = cli.app
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    for path in paths:
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = used.ru_utime + used.ru_stime
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + 1 + seconds, hard))
        print(json.dumps({"begins": path}), flush=True)
        # Messages of one line each: with COLUMNS they are broken at that width.
        asked = [word.replace("FILE", path) for word in words]
        result = CliRunner().invoke(app, asked, prog_name="tracekit", env={"COLUMNS": None})
        now = resource.getrusage(resource.RUSAGE_SELF)
        text = result.stdout + result.stderr
        said = [line for line in text.splitlines() if line.startswith(("INCOMPLETE", "error:"))]
        cpu = now.ru_utime + now.ru_stime - spent
        print(
            json.dumps({"file": path, "code": result.exit_code, "said": said, "cpu": cpu, "peak": now.ru_maxrss << 10}),
            flush=True,
        )


def results(
    paths: Sequence[Path], words: Sequence[str], *, seconds: int, memory: int, unpacked: int = 0
) -> Iterator[dict[str, object]]:
    """Read files in children; one that ends a child has {"code": the signal, "said": []}, and another child goes on."""
    left = [str(path) for path in paths]
    while left:
        given = json.dumps([list(words), left, seconds, memory, unpacked])
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run(
                [sys.executable, __file__, "--read"],
                input=given.encode(),
                stdout=subprocess.PIPE,
                stderr=errors,
                check=False,
            )
            errors.seek(0)
            last = errors.read().decode(errors="replace")[-2000:]
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
        ended = [each for each in found if "file" in each]
        yield from ended
        left = left[len(ended) :]
        if left and len(found) == 2 * len(ended):
            raise RuntimeError(f"the child ended before it read: {last}")
        if left:
            yield {"file": left[0], "code": done.returncode, "said": [], "cpu": 0.0, "peak": 0, "last": last}
            left = left[1:]


def main() -> None:
    if sys.argv[1:] == ["--read"]:
        read(*json.load(sys.stdin))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the bombs")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS))
    parser.add_argument("--size", type=int, default=24, help="MB of each, unpacked")
    parser.add_argument("--count", type=int, default=EACH)
    parser.add_argument("--unpacked", type=int, default=0, help="MB that a packed input may have; 0: the usual limit")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--memory", type=int, default=4096, help="MB")
    parser.add_argument("words", nargs="*", default=["inspect", "FILE"])
    asked = parser.parse_args()
    for kind in asked.kind or KINDS:
        paths = list(write(asked.out, kind, range(asked.count), asked.size * MB))
        for each in results(
            paths, asked.words, seconds=asked.seconds, memory=asked.memory * MB, unpacked=asked.unpacked * MB
        ):
            said = each["said"]
            name = Path(str(each["file"]))
            text = said[0][:150] if isinstance(said, list) and said else "-"
            cost = f"{each['code']}\t{each['cpu']:.2f}\t{int(str(each['peak'])) >> 20}"
            print(f"{name.name}\t{name.stat().st_size}\t{cost}\t{text}", flush=True)
            if "last" in each:
                print(f"   ENDED: {each['last']}", flush=True)


if __name__ == "__main__":
    main()

"""Texts planted in files of every format, and all bytes of what is made of them."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard
from support import has_otf2, read_sample, sample

from tracekit.writers import WRITERS

ONE_OF_EACH = (
    "chrome-trace/viztracer.json", "cuda-profile/kvp.log", "cuda-profile/csv.log", "fluid-report/all.txt",
    "kineto/gpu.pt.trace.json",
    "mini-caffe/three-steps.json", "mxnet/mxnet-1.9.1.json", "mxnet-table/mxnet19.json", "nsys-jsonl/texts-first.jsonl",
    "nsys-sqlite/two-processes.sqlite", "nsys-stats-csv/cuda_gpu_trace.csv", "nvprof-csv/gpu-trace-20-columns.csv",
    "nvprof-csv/summary-new.csv", "nvprof-sqlite/version-8.nvvp", "nvprof-text/summary.txt",
    "paddle-json/paddle26.paddle_trace.json", "paddle-summary/gpu.txt",
    "recorder-log/rank0.jsonl", "singa/verbosity-2.txt", "theano/theano-1.0.5.txt", "torch-table/cuda.txt",
    "folded/py-spy.folded", "firefox/samply.json", "ncu/details.csv", "ncu/details.txt",
)  # fmt: skip


USER, HOST = "alicia77", "gpubox-quark9"
PRIVATE = (
    USER, HOST, "/home/alicia77/secret_project/train.py", "secret_project", "10.83.7.219", "00:1b:44:11:3a:b7",
    "0x7f3a12bc45de", "fe80::1a2b:3cff:fe4d:5e6f", "intranet-site", "hush-hush-model",
)  # fmt: skip
SENTENCE = (
    f"by {USER} on {HOST}: /home/{USER}/secret_project/train.py 10.83.7.219 00:1b:44:11:3a:b7 0x7f3a12bc45de"
    f" fe80::1a2b:3cff:fe4d:5e6f https://intranet-site.example.org/x {USER}@{HOST}.example.org"
)


def private_file(folder: Path) -> Path:
    """Write a trace with private texts in its metadata, names, args, and the names of a process and a thread."""
    path = folder / USER / "secret_project" / f"{HOST}.pt.trace.json"
    path.parent.mkdir(parents=True)
    event = {"ph": "X", "pid": 1, "tid": 1, "dur": 2.0}
    named = {"ph": "M", "pid": 1, "tid": 1}
    train = f"/home/{USER}/secret_project/train.py"
    call = {"cmd": "hush-hush-model --x", "text": SENTENCE}
    events = [
        named | {"name": "process_name", "args": {"name": f"python {train}"}},
        named | {"name": "thread_name", "args": {"name": SENTENCE}},
        event | {"cat": "user_annotation", "name": SENTENCE, "ts": 1.0, "args": {"External id": 1}},
        event | {"cat": "cpu_op", "name": "aten::add", "ts": 9.0, "args": call},
        event | {"cat": "python_function", "name": f"{train}(12): main", "ts": 20.0, "args": {}},
        event | {"cat": "cpu_op", "name": "aten::mul", "ts": 30.0, "args": {"env": {"X": "hush-hush-model"}, "n": 1.5}},
    ]
    facts = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "distributedInfo": {"backend": "nccl", "rank": 0},
        "host_name": HOST,
        "username": USER,
        "command_line": "hush-hush-model 1",
        "notes": SENTENCE,
        "traceName": f"/tmp/{USER}.json",
    }
    path.write_text(json.dumps(facts | {"traceEvents": events}), encoding="utf-8")
    return path


def no_private(text: bytes | str, where: object) -> None:
    data = text.encode() if isinstance(text, str) else text
    assert [each for each in PRIVATE if each.lower().encode() in data.lower()] == [], where


def planted(name: str, text: str, folder: Path) -> Path:
    """Copy a sample, with a text in the place of each name that is long enough: all offsets and lengths stay.

    Where no name is, the longest is replaced as a whole. Columns of text in databases are changed by SQL.
    """
    path = folder / Path(name).name
    shutil.copy(sample(name), path)
    trace = read_sample(name)
    names = [*trace.events.column("name").to_pylist(), *trace.totals.column("name").to_pylist()]
    names += [*trace.events.column("raw_name").to_pylist(), *trace.totals.column("raw_name").to_pylist()]
    long = sorted({each for each in names if each and len(each.encode()) >= len(text)}, key=len, reverse=True)
    if path.read_bytes().startswith(b"SQLite"):
        with closing(sqlite3.connect(path)) as db, db:
            for each in long:
                for table, column in _text_columns(db):
                    new = f"{text} {each[len(text) + 1 :]}"
                    with suppress(sqlite3.IntegrityError):
                        db.execute(f'update "{table}" set "{column}" = ? where "{column}" = ?', (new, each))
        return path
    data = path.read_bytes()
    if not long:  # in text the length may change
        for each in sorted({each for each in names if each and len(each) > 3}, key=len, reverse=True)[:1]:
            data = data.replace(each.encode(), text.encode())
    for each in long:
        data = data.replace(each.encode(), text.encode() + b" " + each.encode()[len(text) + 1 :])
    path.write_bytes(data)
    return path


def without_guard(patch: pytest.MonkeyPatch) -> None:
    """Read and write as a version that knew no credentials."""
    patch.setattr("tracekit.safety.anonymize.SUSPECT", "(?:no text has this)")
    patch.setattr("tracekit.safety.anonymize.masked_value", lambda value, *_: value)
    patch.setattr("tracekit.safety.anonymize.masked", lambda text, *_: text)


def _text_columns(db: sqlite3.Connection) -> list[tuple[str, str]]:
    tables = [row[0] for row in db.execute("select name from sqlite_master where type = 'table'")]
    return [(table, row[1]) for table in tables for row in db.execute(f'pragma table_info("{table}")')]


def all_bytes(path: Path) -> bytes:
    """Return everything that a file says: decompressed, Parquet as its columns and its metadata."""
    if path.is_dir():
        return b"\n".join(all_bytes(each) for each in sorted(path.rglob("*")) if each.is_file())
    data = path.read_bytes()
    if data.startswith(b"PAR1"):
        table = pq.read_table(path)
        facts = pq.read_metadata(path).metadata or {}
        texts = [b"\n".join((key, value, _unpacked(value))) for key, value in facts.items()]
        return data + b"\n".join(texts) + repr(table.to_pylist()).encode()
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data + b"".join(_unpacked(blob) for blob in re.findall(rb"[A-Za-z0-9+/]{200,}={0,2}", data))


def _unpacked(text: bytes) -> bytes:
    """Return what is packed in a text of base64: deflated data of the page, an Arrow stream of an archive."""
    with suppress(ValueError, zlib.error):
        data = base64.b64decode(text, validate=True)
        with suppress(zlib.error):
            return zlib.decompress(data)
        return data
    return b""


def targets(folder: Path) -> Iterable[tuple[str, Path]]:
    """Yield each target that can be written here, and a new file for it."""
    for name, writer in WRITERS.items():
        if name == "otf2" and not has_otf2():
            continue
        yield name, folder / f"out-{name}{(writer.suffixes or ('.log',))[0]}"

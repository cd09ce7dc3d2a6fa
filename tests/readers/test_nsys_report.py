"""Reports of Nsight Systems: facts of real ones, samples against their exports, damage, privacy, limits."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import _nsys_reports as made
import numpy as np
import pytest
from _protobuf import message, varint
from hypothesis import given
from hypothesis import strategies as st
from planting import all_bytes
from small_limits import Limit, small
from support import read_sample, run_command, sample, shared_reports

import tracekit
from tracekit.api import inspect
from tracekit.errors import ParseError, TracekitError
from tracekit.model.digits import signed
from tracekit.model.trace import Ledger, Trace
from tracekit.readers.engine.wire import BYTES, VARINT, WireError, checked_varint
from tracekit.readers.nsys.report import messages as wire
from tracekit.readers.nsys.report.tables import ReportTables
from tracekit.readers.source import open_source
from tracekit.readers.sqlite.database import CellType
from tracekit.safety.limits import Limits, applied
from tracekit.writers import WRITERS

SAMPLES = ("layout-of-2022.nsys-rep", "two-processes.nsys-rep")
OURS = {"-CUDA_BACKTRACE": "CUDA_BACKTRACE", "-CUDA_JIT": "CUDA_JIT", "-OPENACC": "OPENACC"}
"""Tables that no export has: the name in the facts, and ours."""
TEXT_OF_ID = {
    "nameId", "demangledName", "shortName", "mangledName", "textId", "jsonTextId", "symbol", "module", "filenameId",
    "contentId", "srcFile", "funcName",
}  # fmt: skip
REAL = [
    "n2019-6-1.qdrep", "n2020-5-1.qdrep", "n2021-3-2-4gpus.qdrep", "n2021-5-4-nocuda.nsys-rep",
    "n2022-1-3-osrt-vsync.nsys-rep", "n2022-3-4-mpi-openacc-managed.nsys-rep", "n2022-4-2-gpumetrics.nsys-rep",
    "n2023-1-2.nsys-rep", "n2023-3-3.nsys-rep", "n2024-2-3-cs336-cut.nsys-rep", "n2024-4-1-videocodec-cut.nsys-rep",
    "n2024-5-1-jit.nsys-rep", "n2024-5-1-memory.nsys-rep", "n2024-6-2-graphs.nsys-rep", "n2025-1-1-nvtx.nsys-rep",
    "n2025-6-3.nsys-rep", "n2026-1-1-jax-cut.nsys-rep", "n2026-2-1-windows-cs336.nsys-rep",
]  # fmt: skip


def opened(path: Path, wants: Callable[[str], bool] = lambda _: True) -> ReportTables:
    ledger = Ledger()
    return ReportTables(open_source(str(path)), ledger, wants)


def facts(rows: list[dict[str, Any]], columns: list[str], strings: dict[int, str]) -> dict[str, Any]:
    """The recipe of the folder's README: sums, and a hash over all rows with texts for ids."""
    lines = []
    for row in rows:
        cells = [
            strings[value] if column in TEXT_OF_ID and isinstance(value, int) else value
            for column, value in ((column, row.get(column)) for column in columns)
        ]
        lines.append(json.dumps(cells, ensure_ascii=True, separators=(",", ":")) + "\n")
    found: dict[str, Any] = {"rows": len(lines), "sha256": hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()}
    for name in ("start", "end", "timestamp", "bytes"):
        if name in columns:
            found[f"sum {name}"] = sum(row[name] for row in rows if row.get(name) is not None)
    return found


@pytest.mark.corpus
def test_each_real_report_in_the_folder_is_one_of_those_below() -> None:
    assert sorted(path.name.removesuffix(".facts.json") for path in shared_reports().glob("*.facts.json")) == REAL


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_every_table_of_a_real_report_has_the_rows_that_its_export_has(name: str) -> None:
    folder = shared_reports()
    want = json.loads((folder / f"{name}.facts.json").read_text(encoding="utf-8"))["tables"]
    with opened(folder / name) as tables:
        strings = {row["id"]: row["value"] for row in tables.rows_of("StringIds")}
        for table, facts_of in want.items():
            if table == "-GENERIC":
                # One row a metric here, as in GPU_METRICS of an export; one a sample in the facts.
                metrics = [column for column in facts_of["columns"] if column not in ("timestamp", "typeId")]
                assert tables.count("GPU_METRICS") == facts_of["rows"] * len(metrics)
                rows = list(tables.rows_of("GPU_METRICS"))
                assert sum(row["timestamp"] for row in rows) == facts_of["sum timestamp"] * len(metrics)
                continue
            if "sha256" not in facts_of:
                continue
            rows = list(tables.rows_of(OURS.get(table, table)))
            found = facts(rows, facts_of["columns"], strings)
            assert {key: facts_of[key] for key in found} == found, table


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_a_real_report_is_read_whole_and_says_what_it_does_not_know(name: str) -> None:
    facts_of = json.loads((shared_reports() / f"{name}.facts.json").read_text(encoding="utf-8"))
    trace = tracekit.read(shared_reports() / name)
    (ledger,) = trace.ledgers
    assert not ledger.dropped
    note = ledger.notes.get("unknown-parts")
    assert (note is None) == (not facts_of["not understood by the prototype"]), note
    for what, count in facts_of["not understood by the prototype"].items():
        if " class " in what and note is not None:
            assert ledger.ignored[f"unknown TraceProcessEvent (class {what.rpartition(' ')[2]})"] == count
    version = facts_of["nsys version"].partition("-")[0]
    assert trace.run.sources[0].facts["tool_version"] == version


@pytest.mark.corpus
@pytest.mark.parametrize(("style", "utc"), [("2022", 1_700_000_005_001_000_000), ("2026", 1_700_000_000_000_000_000)])
def test_reports_made_for_the_facts_have_what_was_put_into_them(style: str, utc: int) -> None:
    path = shared_reports() / f"made-{style}.nsys-rep"
    trace = tracekit.read(path)
    rows = trace.events.to_pylist()
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in {row["kind"] for row in rows}}
    (kernel,) = kinds["kernel"]
    assert (kernel["name"], kernel["ts_ns"], kernel["dur_ns"]) == ("void add<float>(float*, int)", 1_004_600, 2000)
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [32, 2, 1]
    assert (kernel["registers"], kernel["static_smem_bytes"], kernel["dynamic_smem_bytes"]) == (40, 1024, 48)
    assert [len(kinds[kind]) for kind in ("memcpy", "memset", "sync", "driver", "runtime")] == [1, 1, 1, 1, 4]
    assert {row["name"] for row in kinds["user_range"]} == {"step", "registered"}
    assert trace.run.origin_ns == utc
    assert "event type 200 (field 150) (1)" in trace.ledgers[0].notes["unknown-parts"].text


DAMAGED = {
    "broken-lz4": "a block of events is damaged (LZ4)", "cut-20-bytes": "the report is cut",
    "cut-half": "the report is cut", "empty": "the file is empty", "lfs-pointer": "a Git LFS pointer",
    "one-event-missing": "the report has 21 events, but its head announces 22",
    "toc-outside": "its table of contents is said to be at byte 3480, outside the file",
    "unknown-compression": "its compression 'zst' is not known", "wrong-trailer": "its last bytes are b'U3w[EMD]'",
}  # fmt: skip


@pytest.mark.corpus
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_report_is_refused_with_one_sentence(name: str) -> None:
    path = shared_reports() / "damaged" / f"{name}.nsys-rep"
    result = run_command("summary", path, code=1)
    assert DAMAGED[name] in result.stderr
    assert len(result.stderr.strip().splitlines()) == 2, "the error and its hint"
    if "byte" in result.stderr.partition(": ")[2]:
        with pytest.raises(ParseError):
            tracekit.read(path)


@pytest.mark.corpus
def test_an_export_that_has_the_name_of_a_report_is_read_as_an_export() -> None:
    found = inspect(shared_reports() / "damaged" / "sqlite-named.nsys-rep").inputs[0]
    assert (found["format"], found["events"]) == ("nsys-sqlite", 0)


# Samples of our own making, against the exports that they were made from


ONLY_IN_EXPORT = ("graphNodeId", "graphId", "localMemoryTotal", "domain", "size", "rootRank")
"""Of the first two the sample has none; it has the others in another way."""


def plain_rows(trace: Trace) -> list[tuple[Any, ...]]:
    rows = []
    for row in trace.events.to_pylist():
        args = {k: v for k, v in json.loads(row["args"] or "{}").items() if k not in ONLY_IN_EXPORT}
        rest = {k: v for k, v in row.items() if k not in ("args", "event_id")}
        rows.append((*rest.items(), json.dumps(args, sort_keys=True)))
    return sorted(rows, key=repr)


@pytest.mark.parametrize(
    ("report", "export"),
    [("layout-of-2022.nsys-rep", "schema-of-2021.sqlite"), ("two-processes.nsys-rep", "two-processes.sqlite")],
)
def test_a_report_has_the_events_of_its_export(report: str, export: str) -> None:
    mine, theirs = read_sample(f"nsys-report/{report}"), read_sample(f"nsys-sqlite/{export}")
    rows = plain_rows(mine)
    if report == "two-processes.nsys-rep":  # waits were added to the report
        rows = [row for row in rows if ("kind", "sync") not in row]
    assert rows == plain_rows(theirs)
    for fact in ("devices", "streams", "processes", "threads", "ids"):
        assert getattr(mine.run, fact) == getattr(theirs.run, fact), fact
    if "command" in theirs.run.sources[0].facts:
        assert mine.run.sources[0].facts["command"] == theirs.run.sources[0].facts["command"]


def test_calls_of_the_system_are_read_on_request() -> None:
    path = sample("nsys-report/layout-of-2022.nsys-rep")
    assert tracekit.read(path).ledgers[0].ignored["OSRT_API"] == 20
    trace = tracekit.read(path, options={"osrt": "yes"})
    assert "OSRT_API" not in trace.ledgers[0].ignored
    assert sum(row["name"] == "poll" for row in trace.events.to_pylist()) == 20


def test_mpi_calls_are_communication() -> None:
    rows = read_sample("nsys-report/two-processes.nsys-rep").events.to_pylist()
    calls = [row for row in rows if row["kind"] == "communication"]
    assert [(row["name"], row["dur_ns"]) for row in calls] == [("MPI_Allreduce", 300)] * 2
    others = {row["kind"] for row in rows if row["args"] and json.loads(row["args"]).get("domain") == "NCCL"}
    assert others == {"user_range"}


def test_what_is_not_known_is_counted_by_name_and_told() -> None:
    trace = read_sample("nsys-report/two-processes.nsys-rep")
    (ledger,) = trace.ledgers
    assert ledger.ignored["unknown events (type 200, field 150)"] == 1
    assert ledger.ignored["processes without a name"] == 1
    assert ledger.notes["unknown-parts"].count == 1


# Synchronization on the right device


def test_a_wait_is_on_the_device_of_its_context_in_a_report() -> None:
    rows = read_sample("nsys-report/two-processes.nsys-rep").events.to_pylist()
    waits = {(row["pid"], row["device"]) for row in rows if row["kind"] == "sync"}
    assert waits == {(made.PID, 0), (made.PID + 1, 1)}


def database(path: Path, *, listed: bool, kernels: bool, nonzero: bool = False) -> Path:
    """An export of one process with context 1 on GPU 0 and context 2 on GPU 1; waits in both name device 0."""
    pid = 1 << 48 | 7 << 24
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table StringIds(id INTEGER, value TEXT)")
        db.execute("insert into StringIds values (1, 'k')")
        place = "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, globalPid INTEGER"
        db.execute(f"create table CUPTI_ACTIVITY_KIND_KERNEL({place}, demangledName INTEGER)")
        db.execute(f"create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION({place}, syncType INTEGER, eventId INTEGER)")
        db.execute("create table TARGET_INFO_CUDA_CONTEXT_INFO(processId INTEGER, deviceId INTEGER, contextId INTEGER)")
        for context, device in ((1, 0), (2, 1)):
            if listed:
                db.execute("insert into TARGET_INFO_CUDA_CONTEXT_INFO values (7, ?, ?)", (device, context))
            if kernels:
                row = (10, 20, device, context, 7, pid, 1)
                db.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, ?, ?, ?, ?, ?)", row)
            row = (10, 21, 3 if nonzero else 0, context, 0xFFFFFFFF, pid, 4, 0xFFFFFFFF)
            db.execute("insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (?, ?, ?, ?, ?, ?, ?, ?)", row)
    return path


@pytest.mark.parametrize(
    ("known", "devices"),
    [
        ({"listed": True, "kernels": False}, {0, 1}),
        ({"listed": False, "kernels": True}, {0, 1}),
        ({"listed": True, "kernels": True}, {0, 1}),
        ({"listed": False, "kernels": False}, {0}),
        ({"listed": True, "kernels": True, "nonzero": True}, {3}),
    ],
)
def test_a_wait_is_on_the_device_of_its_context_in_an_export(
    known: dict[str, bool], devices: set[int], tmp_path: Path
) -> None:
    rows = tracekit.read(database(tmp_path / "a.sqlite", **known)).events.to_pylist()
    assert {row["device"] for row in rows if row["kind"] == "sync"} == devices


# A report beside its export, as `nsys profile --stats=true` leaves them


@pytest.fixture
def both(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(sample("nsys-report/two-processes.nsys-rep"), folder / "run.nsys-rep")
    shutil.copy(sample("nsys-sqlite/two-processes.sqlite"), folder / "run.sqlite")
    return folder


def formats_of(words: str | Path) -> list[tuple[str, str]]:
    return [(Path(each["path"]).name, each["format"]) for each in inspect(words).inputs]


def test_a_report_beside_its_export_does_not_count_twice_in_a_folder(both: Path) -> None:
    assert formats_of(both) == [("run.sqlite", "nsys-sqlite")]
    note = tracekit.read(both).ledgers[0].notes["report-of-export"]
    assert "run.nsys-rep" in note.text
    assert formats_of(f"{both}/*") == [("run.sqlite", "nsys-sqlite")]


def test_a_report_of_another_stem_or_named_alone_is_read(both: Path) -> None:
    assert formats_of(both / "run.nsys-rep") == [("run.nsys-rep", "nsys-report")]
    (both / "run.nsys-rep").rename(both / "other.nsys-rep")
    assert len(formats_of(both)) == 2
    (both / "run.sqlite").rename(both / "other.nsys-rep.sqlite")
    assert formats_of(both) == [("other.nsys-rep.sqlite", "nsys-sqlite")]


def test_a_batch_does_not_count_it_twice_either(both: Path, tmp_path: Path) -> None:
    done = run_command("batch", both.parent, "-o", tmp_path / "out")
    assert "1 file was skipped" in done.output
    found = [json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "out" / "runs").rglob("*.json")]
    results = [each for each in found if isinstance(each, dict) and "others" in each]
    assert [[Path(each["path"]).name for each in result["sources"]] for result in results] == [["run.sqlite"]]


# Privacy

SECRET = "zQ9plantXyz77"


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with a secret wherever a real one has what must not be shown."""
    path = tmp_path_factory.mktemp("private") / "run.nsys-rep"
    version = "2026.1.3.425-261338342291v0"
    path.write_bytes(made.report_of(sample("nsys-sqlite/two-processes.sqlite"), "2026", version, SECRET))
    places = path.read_bytes().count(SECRET.encode())
    assert places > 10, "the secret is in the environment, the command lines, the output and the cache's path"
    return path


@pytest.mark.parametrize("target", [name for name in WRITERS if name not in ("cuda-kvp", "cuda-csv")])
def test_no_target_shows_the_environment_command_lines_or_output_of_programs(
    target: str, private: Path, tmp_path: Path
) -> None:
    if target == "otf2":
        pytest.importorskip("otf2")
    out = tmp_path / f"out{WRITERS[target].suffixes[0] if WRITERS[target].suffixes else ''}"
    run_command("convert", private, "-o", out, "--to", target)
    assert SECRET.encode() not in all_bytes(out)


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "--format", "json"), ("inspect",), ("summary", "--all", "--format", "json"), ("summary", "--all"),
        ("doctor",), ("doctor", "--format", "json"),
    ],
)  # fmt: skip
def test_no_command_shows_the_environment_command_lines_or_output_of_programs(
    words: tuple[str, ...], private: Path
) -> None:
    result = run_command(*words, private, code=None)
    assert SECRET not in result.output
    assert SECRET not in result.stderr


def test_no_page_archive_or_query_shows_them_either(private: Path, tmp_path: Path) -> None:
    run_command("report", private, "-o", tmp_path / "page.html")
    run_command("archive", "add", tmp_path / "archive", private)
    answer = run_command("query", private, "SELECT * FROM events")
    assert SECRET not in answer.output
    for path in (tmp_path / "page.html", *(tmp_path / "archive").rglob("*")):
        if path.is_file():
            assert SECRET.encode() not in all_bytes(path), path


def test_an_error_does_not_quote_them(private: Path, tmp_path: Path) -> None:
    data = private.read_bytes()
    for at in range(0, len(data), max(1, len(data) // 40)):
        (tmp_path / "cut.nsys-rep").write_bytes(data[:at] + b"\xff" + data[at + 1 :])
        result = run_command("inspect", tmp_path / "cut.nsys-rep", code=None)
        assert SECRET not in result.output + result.stderr


def test_the_command_of_the_program_is_shown_with_its_masks(tmp_path: Path) -> None:
    original = made.COMMAND
    try:
        made.COMMAND = "python train.py --password hunter2secret"
        data = made.report_of(sample("nsys-sqlite/two-processes.sqlite"), "2026", "2026.1.3.425")
    finally:
        made.COMMAND = original
    (tmp_path / "a.nsys-rep").write_bytes(data)
    command = tracekit.read(tmp_path / "a.nsys-rep").run.sources[0].facts["command"]
    assert str(command).startswith("python train.py --password")
    assert "hunter2secret" not in str(command)


# The wire


def test_numbers_of_every_size_are_read_at_once() -> None:
    values = [0, 1, 127, 128, 300, (1 << 56) - 1, 1 << 56, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    check_varints(values)


@given(st.lists(st.integers(0, 64).flatmap(lambda bits: st.integers(0, (1 << bits) - 1)), min_size=1))
def test_numbers_are_read_as_one_by_one(values: list[int]) -> None:
    check_varints(values)


def check_varints(values: list[int]) -> None:
    parts = [varint(value) for value in values]
    places = np.cumsum([0, *map(len, parts)])
    found, behind = wire.Buffer(b"".join(parts)).varints(places[:-1])
    assert found.view(np.uint64).tolist() == values
    assert behind.tolist() == places[1:].tolist()
    for part, value in zip(parts, values, strict=True):
        assert checked_varint(part, 0) == (value, len(part))


FIELD = st.tuples(
    st.integers(1, 140),
    st.one_of(st.integers(0, (1 << 64) - 1), st.floats(allow_nan=False), st.binary(max_size=200), st.text(max_size=9)),
)


@given(st.lists(st.lists(FIELD, max_size=8), min_size=1, max_size=12))
def test_fields_of_many_messages_are_those_of_each(messages: list[list[tuple[int, Any]]]) -> None:
    parts = [message(*fields) for fields in messages]
    places = np.cumsum([0, *map(len, parts)])
    fields = wire.Messages(wire.Buffer(b"".join(parts)), places[:-1], places[1:])
    expected = [wire.message(part) for part in parts]
    assert set(fields.present) == {(number, kind) for each in expected for number, kind, _ in each}
    for number, kind in fields.present:
        of_each = [[value for n, k, value in each if (n, k) == (number, kind)] for each in expected]
        if kind == VARINT:
            column = fields.column(number)
            assert column is not None
            last = [signed(each[-1]) if each and isinstance(each[-1], int) else None for each in of_each]
            assert column.to_pylist() == last
        elif kind == BYTES:
            spans = fields.spans(number)
            assert spans is not None
            found = [fields.buffer.data[a:b] for a, b in zip(spans.starts, spans.ends, strict=True)]
            assert found == [value for each in of_each for value in each]
            assert spans.rows.tolist() == [row for row, each in enumerate(of_each) for _ in each]
        else:
            reals = fields.reals(number)
            assert reals is not None
            assert len(reals) == len(messages)


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_an_error_in_both_ways(data: bytes) -> None:
    def many() -> object:
        return set(wire.Messages(wire.Buffer(data), np.array([0]), np.array([len(data)])).present)

    def one() -> object:
        return {(number, kind) for number, kind, _ in wire.message(data)}

    outcomes = []
    for way in (many, one):
        try:
            outcomes.append(way())
        except WireError:
            outcomes.append(WireError)
    # Both refuse, or both find the same; a number of more than 64 bits is refused by the first way alone.
    assert outcomes[0] == outcomes[1] or outcomes[0] is WireError


def test_texts_that_are_not_utf8_are_read_with_replacement() -> None:
    parts = [message((7, b"whole")), message((7, b"\xff\xfe cut")), message((8, 1)), message((7, b""))]
    places = np.cumsum([0, *map(len, parts)])
    texts = wire.Messages(wire.Buffer(b"".join(parts)), places[:-1], places[1:]).texts(7)
    assert texts is not None
    assert texts.to_pylist() == ["whole", "\ufffd\ufffd cut", None, ""]


# Damage, limits, memory


def report_with(events: list[bytes], strings: list[bytes] | None = None) -> bytes:
    strings = strings or [b"", b"k"]
    head = message((1, len(events)), (3, len(strings)), (5, 0), (9, "lz4"), (15, 0))
    first = made.delimited(message((17, 0), (18, 100))) + made.delimited(head)
    blocks = [made.block(message(*((1, event) for event in events)))] if events else []
    return made.container("2022", "2024.6.2.1", first, blocks, message(*((1, s) for s in strings)), made.delimited(b""))


def kernel(start: int, **more: int) -> bytes:
    row = {
        "start": start, "end": start + 5, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": start,
        "globalPid": 1 << 48 | 7 << 24, "demangledName": 1, "shortName": 1, "gridX": 1,
    }  # fmt: skip
    return made.work_event("KERNEL", row | more)


def cuda_event(kind: int, number: int, part: int, *fields: tuple[int, Any]) -> bytes:
    place = ((1, 5), (2, 9), (3, 4), (4, 0), (5, 1), (6, 7))
    return message((1, kind), (107, message(*place, (7, number), (8, 1 << 48 | 7 << 24), (part, message(*fields)))))


@pytest.mark.parametrize(
    ("event", "kind", "args"),
    [
        (cuda_event(79, 3, 101, (1, 1), (2, 1), (27, 2 << 32), (28, 0), (29, 2)), "kernel", {"graphId": 2}),
        (cuda_event(79, 3, 101, (1, 1), (2, 1), (27, 2 << 32)), "kernel", {}),
        (cuda_event(80, 2, 103, (1, 4), (2, 0), (3, 2 << 32), (4, 2), (5, 2)), "memset", {}),
        (cuda_event(80, 1, 102, (1, 4), (2, 1), (11, 2 << 32)), "memcpy", {}),
    ],
)
def test_work_of_a_graph_has_the_number_of_its_node(
    event: bytes, kind: str, args: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "a.nsys-rep").write_bytes(report_with([event]))
    trace = tracekit.read(tmp_path / "a.nsys-rep")
    (row,) = trace.events.to_pylist()
    found = json.loads(row["args"])
    assert row["kind"] == kind
    assert {key: value for key, value in found.items() if key.startswith("graph")} == args | {"graphNodeId": 2 << 32}
    assert "unknown-parts" not in trace.ledgers[0].notes


def test_a_new_field_of_the_creation_of_a_node_is_named(tmp_path: Path) -> None:
    body = message((1, 5), (2, 5), (6, 77), (7, 1), (13, 1 << 48 | 7 << 24 | 7), (33, message((1, 4), (9, 1))))
    (tmp_path / "a.nsys-rep").write_bytes(report_with([kernel(5), message((1, 113), (108, body))]))
    trace = tracekit.read(tmp_path / "a.nsys-rep")
    (mark,) = (row for row in trace.events.to_pylist() if row["kind"] == "mark")
    assert json.loads(mark["args"]) == {"graphNodeId": 4}
    assert "graph node field 9 (1)" in trace.ledgers[0].notes["unknown-parts"].text


def nvtx_event(kind: int, *fields: tuple[int, Any]) -> bytes:
    return message((1, kind), (102, message((1, kind), (2, 5), *fields, (9, 1 << 48 | 7 << 24 | 7), (14, 1))))


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        ([nvtx_event(34, (7, "a mark"))], {"mark"}),
        ([nvtx_event(75, (7, "a domain"), (13, 1)), nvtx_event(34, (7, "a mark"))], {"mark"}),
        ([nvtx_event(59, (7, "never ended"))], {"user_range"}),
        ([nvtx_event(39, (7, "a thread"))], set()),
    ],
)
def test_a_table_in_which_no_row_has_an_end_loses_no_row(events: list[bytes], kinds: set[str], tmp_path: Path) -> None:
    (tmp_path / "a.nsys-rep").write_bytes(report_with([kernel(5), *events]))
    trace = tracekit.read(tmp_path / "a.nsys-rep")
    assert {row["kind"] for row in trace.events.to_pylist()} == {"kernel", *kinds}
    assert not trace.ledgers[0].dropped


def test_times_that_are_not_ns_refuse_the_file(tmp_path: Path) -> None:
    nvtx = message((1, 59), (102, message((1, 59), (2, 5), (7, "range"), (9, 1), (10, 9), (14, 0))))
    (tmp_path / "a.nsys-rep").write_bytes(report_with([kernel(5), nvtx]))
    with pytest.raises(ParseError, match="are not in ns"):
        tracekit.read(tmp_path / "a.nsys-rep")


def test_events_with_more_fields_than_today_are_read_and_the_new_field_is_named(tmp_path: Path) -> None:
    future = kernel(50) + message((9, 4))
    turned = message((107, kernel_body := kernel(70)[5:]))  # the body before the type
    assert kernel_body
    (tmp_path / "a.nsys-rep").write_bytes(report_with([kernel(5), future]))
    trace = tracekit.read(tmp_path / "a.nsys-rep")
    assert trace.events.num_rows == 2
    assert "event field 9 (1)" in trace.ledgers[0].notes["unknown-parts"].text
    assert turned


@pytest.mark.parametrize(
    ("events", "named"),
    [
        ([message((1, 79), (107, message((1, 5), (7, 9), (150, message((1, 2))))))], "CudaEvent of type 79"),
        ([message((1, 48), (108, message((1, 5), (2, 6), (6, 86))))], "TraceProcessEvent class 86"),
        ([message((1, 77), (190, message((1, 5))))], "event type 77 (field 190)"),
        ([message((1, 79))], "event type 79 (field 0)"),
        ([kernel(5, gridX=3)[:0] + message((1, 120), (131, message((1, 5))))], "event type 120 (field 131)"),
        ([message((1, 59), (102, message((1, 59), (2, 1), (10, 2), (21, 3))))], "NvtxEvent field 21"),
    ],
)
def test_a_kind_class_or_field_of_the_future_is_named_and_the_rest_is_read(
    events: list[bytes], named: str, tmp_path: Path
) -> None:
    (tmp_path / "a.nsys-rep").write_bytes(report_with([kernel(5), *events, kernel(90)]))
    trace = tracekit.read(tmp_path / "a.nsys-rep")
    assert sum(row["kind"] == "kernel" for row in trace.events.to_pylist()) == 2
    (ledger,) = trace.ledgers
    assert named in ledger.notes["unknown-parts"].text
    kept = ledger.kept + ledger.facts + sum(ledger.ignored.values()) + sum(ledger.dropped.values())
    assert ledger.read == kept


@pytest.mark.parametrize(
    "columns",
    [
        [(1 << 63, 4)], [(0, 1 << 63)], [((1 << 64) - 1, 2)], [(3, 4)],
        [(0, 1)] * 5000, [(0, 2), (1, 1)], [(0, 0)] * 5000,
    ],
)  # fmt: skip
def test_a_description_of_samples_that_cannot_be_costs_these_samples(
    columns: list[tuple[int, int]], tmp_path: Path
) -> None:
    kind, strings = made.GPU_METRICS, [b"", b"k", b"GpuMetrics", b"SM Active"]
    described = message((1, kind), *((3, message((1, 3), (2, at), (3, size))) for at, size in columns))
    head = message((1, 1), (3, 4), (5, 0), (9, "lz4"), (13, message((1, kind), (3, 2))), (14, described), (15, 1))
    first = made.delimited(message((17, 0), (18, 100))) + made.delimited(head)
    sampled = message((1, kind), (2, 7), (3, b"\x01\x02"))
    blocks = [made.block(message((1, kernel(5)))), made.block(message((2, sampled)))]
    data = made.container("2022", "2024.6.2.1", first, blocks, message(*((1, s) for s in strings)), made.delimited(b""))
    (tmp_path / "a.nsys-rep").write_bytes(data)
    trace = tracekit.read(tmp_path / "a.nsys-rep")
    assert trace.events.num_rows == 1
    assert "unknown-parts" in trace.ledgers[0].notes


def test_a_name_beyond_the_strings_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.nsys-rep").write_bytes(report_with([kernel(5, demangledName=999), kernel(50)]))
    trace = tracekit.read(tmp_path / "a.nsys-rep")
    assert [row["name"] for row in trace.events.to_pylist()] == [None, "k"]
    assert trace.ledgers[0].notes["no-such-string"].places == ["string 999"]


@pytest.mark.parametrize("name", SAMPLES)
def test_each_damage_ends_in_a_sentence_or_in_a_ledger_that_adds_up(name: str, tmp_path: Path) -> None:
    data = sample(f"nsys-report/{name}").read_bytes()
    draw = np.random.default_rng(5)
    path = tmp_path / "a.nsys-rep"
    refused = 0
    for number in range(120):
        at, damaged = int(draw.integers(0, len(data))), bytearray(data)
        if number % 3 == 0:
            del damaged[at : at + int(draw.integers(1, 40))]
        elif number % 3 == 1:
            damaged[at] ^= 1 << int(draw.integers(0, 8))
        else:
            damaged[at:at] = draw.integers(0, 256, 5, np.uint8).tobytes()
        path.write_bytes(bytes(damaged))
        try:
            tracekit.read(path, format="nsys-report")
        except TracekitError:
            refused += 1
    assert refused > 60


def test_a_block_that_would_unpack_to_too_much_is_refused(tmp_path: Path) -> None:
    data = report_with([kernel(5)])
    at = data.index(b"QDTEXT00")
    huge = varint(1 << 40)
    bomb = data[:at] + data[at:].replace(made.block(message((1, kernel(5))))[:3], b"\x05" + huge, 1)
    (tmp_path / "a.nsys-rep").write_bytes(bomb)
    with pytest.raises(ParseError, match="byte"):
        tracekit.read(tmp_path / "a.nsys-rep")


def test_rows_that_do_not_fit_into_memory_are_the_same_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.nsys-rep"
    shutil.copy(sample("nsys-report/two-processes.nsys-rep"), path)
    before = tracekit.read(path).events
    small(monkeypatch, Limit.NSYS_REPORT_MEMORY_BYTES, 1 << 10)
    assert tracekit.read(path).events.equals(before)


def test_a_limit_on_bytes_keeps_what_was_read_and_says_so(tmp_path: Path) -> None:
    events = [kernel(10 * n) for n in range(3000)]
    blocks = [made.block(message(*((1, e) for e in events[n : n + 100]))) for n in range(0, 3000, 100)]
    head = message((1, 3000), (3, 2), (5, 0), (9, "lz4"), (15, 0))
    first = made.delimited(message((17, 0), (18, 100))) + made.delimited(head)
    data = made.container("2022", "2024.6.2.1", first, blocks, message((1, ""), (1, "k")), made.delimited(b""))
    (tmp_path / "a.nsys-rep").write_bytes(data)
    with applied(Limits(read_bytes=60_000)):
        trace = tracekit.read(tmp_path / "a.nsys-rep")
    assert 0 < trace.events.num_rows < 3000
    assert any("limit" in code for code in trace.ledgers[0].notes)


def test_all_rows_before_a_limit_are_kept_also_beyond_the_first_batch(tmp_path: Path) -> None:
    events = [kernel(10 * n) for n in range(3000)]
    blocks = [made.block(message(*((1, e) for e in events[n : n + 100]))) for n in range(0, 3000, 100)]
    head = message((1, 3000), (3, 2), (5, 0), (9, "lz4"), (15, 0))
    first = made.delimited(message((17, 0), (18, 100))) + made.delimited(head)
    data = made.container("2022", "2024.6.2.1", first, blocks, message((1, ""), (1, "k")), made.delimited(b""))
    (tmp_path / "a.nsys-rep").write_bytes(data)
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    with applied(Limits(read_bytes=60_000)), opened(tmp_path / "a.nsys-rep") as tables:
        counts = [block.count for block in tables.blocks(table, {"start": CellType.INTEGER}, 50)]
        assert len(counts) > 3
        assert sum(counts) == tables.count(table)


def test_more_fields_than_any_message_has_are_damage(tmp_path: Path) -> None:
    wide = message((1, 79), (107, b"\x08\x01" * 20_000))
    (tmp_path / "a.nsys-rep").write_bytes(report_with([kernel(5), wide]))
    with pytest.raises(ParseError, match="a message with more than 16,384 fields"):
        tracekit.read(tmp_path / "a.nsys-rep")


def test_more_texts_than_announced_are_damage_before_they_are_held(tmp_path: Path) -> None:
    head = message((1, 1), (3, 2), (5, 0), (9, "lz4"), (15, 0))
    first = made.delimited(message((17, 0), (18, 100))) + made.delimited(head)
    texts = message(*((1, text) for text in ("", "k", "x", "y")))
    data = made.container(
        "2022", "2024.6.2.1", first, [made.block(message((1, kernel(5))))], texts, made.delimited(b"")
    )
    (tmp_path / "a.nsys-rep").write_bytes(data)
    with pytest.raises(ParseError, match="more than 2 texts"):
        tracekit.read(tmp_path / "a.nsys-rep")


def test_the_ledger_counts_samples_and_scheduling_without_reading_them() -> None:
    ledger = read_sample("nsys-report/two-processes.nsys-rep").ledgers[0]
    assert ledger.ignored["SCHED_EVENTS"] == 1
    kept = ledger.kept + ledger.facts + sum(ledger.ignored.values())
    assert ledger.read == kept


def test_the_samples_are_those_that_the_generator_writes(tmp_path: Path) -> None:
    shutil.copytree(sample("nsys-sqlite"), tmp_path / "nsys-sqlite")
    script = Path(made.__file__)
    subprocess.run([sys.executable, script, tmp_path], check=True)
    for name in SAMPLES:
        assert (tmp_path / "nsys-report" / name).read_bytes() == sample(f"nsys-report/{name}").read_bytes()


def test_a_report_needs_no_name_to_be_known(tmp_path: Path) -> None:
    shutil.copy(sample("nsys-report/layout-of-2022.nsys-rep"), tmp_path / "unknown")
    assert inspect(tmp_path / "unknown").inputs[0]["format"] == "nsys-report"


def every_wire_type() -> Iterator[bytes]:
    yield from (varint(number << 3 | kind) + b"\x01" * 9 for number in (1, 15, 16, 200) for kind in range(8))


def test_wire_types_that_no_message_has_are_errors() -> None:
    refused = 0
    for data in every_wire_type():
        try:
            wire.message(data)
        except WireError:
            refused += 1
    assert refused >= 12

"""The Firefox profile: a reader of its own finds every row, ns, field and counter that was given."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import profiles
import pyarrow as pa
import pytest
from hypothesis import given
from lanes import in_time_order, is_counter, is_writable, lane_of, on_device, rows
from small_limits import Limit, small
from strategies import rows_of, tables
from writing import dense_tables

import tracekit
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.builder import totals_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions, Written
from tracekit.writers.json_text import OWN_KEYS, parsed

RESERVED = OWN_KEYS | {"type", "cause", "stack", "category", "innerWindowID"}
NUMBERS = ("correlation", "step", "bytes", "registers", "static_smem_bytes", "dynamic_smem_bytes")
SAMPLE = Path(__file__).parents[2] / "sample_traces"


def written(path: Path, *batches: pa.RecordBatch | pa.Table, run: Run | None = None) -> Written:
    parts = [p for b in batches for p in (b.to_batches() if isinstance(b, pa.Table) else [b])]
    stream = RowStream(run or Run(), iter(parts), (Ledger(path="in.csv", format="test"),))
    return WRITERS["firefox"].write(stream, path, WriteOptions(force=True, version="9.9"))


def expected_fields(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a row: columns as they are, members of args as texts."""
    side = on_device(row)
    names = (*NUMBERS, "tid") if side else (*NUMBERS, "device", "context", "stream")
    fields = {name: row[name] for name in (*names, "raw_name", "copy_kind") if row[name] is not None}
    for shape in ("grid", "block"):
        axes = {f"{shape}_{axis}": row[f"{shape}_{axis}"] for axis in "xyz"}
        whole = None not in axes.values()
        fields |= {shape: list(axes.values())} if whole else {k: v for k, v in axes.items() if v is not None}
    if row["value"] is not None:
        fields["value"] = float(row["value"])
    if (row["dur_ns"] or 0) < 0:
        fields["dur_ns"] = row["dur_ns"]
    if row["args"] is not None:
        members = parsed(row["args"])
        if members is None:
            return fields | {"args_text": row["args"]}
        if not members or not RESERVED.isdisjoint(members):
            return fields | {"args": row["args"]}
        fields |= {k: v if isinstance(v, str) else json.dumps(v) for k, v in members.items()}
    return fields


def plain(fields: dict[str, Any]) -> str:
    """Fields as a text that compares: JSON texts by their values."""
    return repr(sorted((key, _value(value)) for key, value in fields.items()))


def _value(value: Any) -> str:
    try:
        return repr(json.loads(value)) if isinstance(value, str) else repr(value)
    except ValueError:
        return repr(value)


def check_rows(path: Path, batches: list[pa.RecordBatch]) -> None:
    made = profiles.firefox(path)
    given_rows: list[dict[str, Any]] = [r for batch in batches for r in rows_of(pa.Table.from_batches([batch]))]
    first = min((row["ts_ns"] for row in given_rows), default=0)
    kept = [row for row in given_rows if is_writable(row, first)]
    seen = Counter((lane, at + first, *rest, plain(fields)) for lane, at, *rest, fields in made.slices)
    wanted: Counter[Any] = Counter()
    for row in kept:
        if not is_counter(row):
            dur = None if row["dur_ns"] is None else max(row["dur_ns"], 0)
            fields = plain(expected_fields(row))
            wanted[lane_of(row), row["ts_ns"], dur, row["name"] or "", row["kind"], fields] += 1
    assert seen == wanted
    values = Counter((name, at + first) for name, at, _ in made.counters)
    assert values == Counter((row["name"] or "", row["ts_ns"]) for row in kept if is_counter(row))
    assert made.facts["written"] == len(kept)


@given(table=tables("events", max_rows=12))
def test_every_row_is_in_the_file_with_all_its_fields(tmp_path: Path, table: pa.Table) -> None:
    batches = in_time_order(table)
    written(tmp_path / "t.json", *batches)
    check_rows(tmp_path / "t.json", batches)


@given(table=dense_tables())
def test_slices_that_meet_or_overlap_are_on_threads_where_they_nest(tmp_path: Path, table: pa.Table) -> None:
    batches = in_time_order(table)
    written(tmp_path / "t.json.gz", *batches)
    check_rows(tmp_path / "t.json.gz", batches)


def test_the_file_of_a_sample_stays_as_it_is(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    tracekit.write(tracekit.read(SAMPLE / "recorder-log" / "rank0.jsonl"), tmp_path / "t.firefox.json")
    text = (tmp_path / "t.firefox.json").read_text(encoding="utf-8").replace(tracekit.__version__, "VERSION")
    text = text.replace(json.dumps(str(SAMPLE))[1:-1], "SAMPLES").replace(',{"', ',\n{"').replace('"],"', '"],\n"')
    golden("firefox/rank0.json", text)


def test_times_are_exact_to_the_ns(tmp_path: Path) -> None:
    starts = np.array([0, 1, 999_999, 1_000_000, 1_000_001, 86_400_000_000_007, 5 * 10**17])
    written(tmp_path / "t.json", rows(len(starts), ts_ns=starts + 10**18, dur_ns=np.full(len(starts), 123_456_789)))
    made = profiles.firefox(tmp_path / "t.json")
    assert sorted(row[1] for row in made.slices) == starts.tolist()
    assert {row[2] for row in made.slices} == {123_456_789}
    assert any("99 days" in note for note in made.facts["notes"])


EXACT_NS = 1_000_000 << 33
"""99 days, as the note says: 2 ** 33 ms."""


def test_a_double_holds_every_ns_up_to_the_limit_that_the_note_names() -> None:
    for ns in (EXACT_NS - 1, EXACT_NS - 12_345):
        whole, rest = divmod(ns, 1_000_000)
        assert round(float(f"{whole}.{rest:06d}") * 1_000_000) == ns
        assert float(f"{whole}.{rest:06d}") != float(f"{whole}.{rest - 1:06d}")


def test_the_profile_starts_at_the_unix_time_of_the_first_event(tmp_path: Path) -> None:
    batch = rows(1, ts_ns=np.array([500]), dur_ns=np.array([9]))
    written(tmp_path / "t.json", batch, run=Run(origin_ns=1_700_000_000_123_456_789))
    document = profiles.loaded(tmp_path / "t.json")
    assert str(document["meta"]["startTime"]) == "1700000000123.457289"
    assert document["tracekit"]["base_ns"] == 1_700_000_000_123_457_289
    written(tmp_path / "u.json", batch)
    assert profiles.loaded(tmp_path / "u.json")["meta"]["startTime"] == 0


def test_counters_add_up_to_their_values_over_batches(tmp_path: Path) -> None:
    batches = [
        rows(4, ts_ns=np.arange(4) + 4 * i, kind="counter", name=pa.array(["a", "b"] * 2), pid=1,
             value=np.array([3.0, -1.5, 7.0, 2.25]) + i)
        for i in range(2)
    ]  # fmt: skip
    assert written(tmp_path / "t.json", *batches).events == 8
    made = profiles.firefox(tmp_path / "t.json")
    assert made.counters == [
        ("a", 0, 3.0), ("a", 2, 7.0), ("a", 4, 4.0), ("a", 6, 8.0),
        ("b", 1, -1.5), ("b", 3, 2.25), ("b", 5, -0.5), ("b", 7, 3.25),
    ]  # fmt: skip
    document = profiles.loaded(tmp_path / "t.json")
    assert [each["samples"]["count"][0] for each in document["counters"]] == [0, 0]
    assert [thread["markers"]["length"] for thread in document["threads"]] == [0]


def test_what_a_file_cannot_hold_is_counted_and_noted(tmp_path: Path) -> None:
    batch = rows(3, ts_ns=np.arange(3), kind="counter", name="c", value=np.array([1.0, np.inf, 2.0]),
                 args=pa.array(['{"a":1}', None, None]))  # fmt: skip
    far = rows(1, ts_ns=np.array([5]), dur_ns=np.array([1 << 62]), correlation=(1 << 53) + 1)
    near = rows(1, ts_ns=np.array([6]), dur_ns=np.array([-3]), correlation=(1 << 53) + 1)
    made = written(tmp_path / "t.json", batch, far, near, totals_batch(1, {"name": "x", "source": 0, "section": "s"}))
    assert made.left_out == {"counter-not-finite": 1, "beyond-what-viewers-hold": 1, "totals": 1}
    assert made.events == 3
    assert [note.split(" ")[0] for note in made.notes] == ["1", "1", "1", "1", "1"]
    [(_, _, duration, _, _, fields)] = profiles.firefox(tmp_path / "t.json").slices
    assert (duration, fields) == (0, {"correlation": (1 << 53) + 1, "dur_ns": -3})


def test_args_that_a_double_would_round_stay_exact_and_hostile_keys_do_no_harm(tmp_path: Path) -> None:
    args = [
        '{"big":123456789012345678901234567890,"x":0.1,"yes":true,"none":null,"list":[1,{"a":"b"}],"text":"a\\nb"}',
        '{"type":"kernel","cause":{"stack":1}}',
        '{"__proto__":"x","with space":"\\u0000","\\u2028":1}',
        "no JSON",
        "{}",
    ]
    count = len(args)
    written(tmp_path / "t.json", rows(count, ts_ns=np.arange(count), dur_ns=np.ones(count, int), args=pa.array(args)))
    fields = [row[5] for row in profiles.firefox(tmp_path / "t.json").slices]
    assert fields == [
        {"big": "123456789012345678901234567890", "x": "0.1", "yes": "true", "none": "null",
         "list": '[1,{"a":"b"}]', "text": "a\nb"},
        {"args": args[1]}, {"__proto__": "x", "with space": "\0", "\u2028": "1"}, {"args_text": args[3]},
        {"args": args[4]},
    ]  # fmt: skip


def test_too_many_keys_of_args_share_a_field(tmp_path: Path) -> None:
    args = [f'{{"key{i}":{i}}}' for i in range(600)]
    batch = rows(600, ts_ns=np.arange(600), dur_ns=np.ones(600, int), args=pa.array(args))
    made = written(tmp_path / "t.json", batch)
    fields = [row[5] for row in profiles.firefox(tmp_path / "t.json").slices]
    assert fields[0] == {"key0": "0"}
    assert fields[599] == {"args": '{"key599":599}'}
    assert any(note.startswith("100 distinct args") for note in made.notes)


def test_names_known_late_and_the_order_of_processes_are_right(tmp_path: Path) -> None:
    run = Run(sources=[SourceFacts("a.csv", "test")])

    def batches() -> Any:
        yield rows(2, ts_ns=np.array([100, 150]), dur_ns=np.array([100, 100]), device=0, stream=7, pid=5)
        yield rows(1, ts_ns=np.array([200]), dur_ns=np.array([9]), kind="runtime", pid=5, tid=3)
        run.devices[0, 0], run.streams[0, 0, 7], run.threads[0, 5, 3] = "Tesla P4", "copies", "main"

    WRITERS["firefox"].write(RowStream(run, batches()), tmp_path / "t.json", WriteOptions(force=True))
    threads = profiles.loaded(tmp_path / "t.json")["threads"]
    assert [(thread["processName"], thread["name"]) for thread in threads] == [
        ("process 5", "main (thread 3)"),
        ("GPU 0 Tesla P4 (process 5)", "stream 7 copies"),
        ("GPU 0 Tesla P4 (process 5)", "stream 7 copies (2)"),
    ]


def test_long_texts_are_written_in_several_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = pa.array([json.dumps({"text": "x" * (i % 70)}) for i in range(300)])
    batch = rows(300, ts_ns=np.arange(300), dur_ns=np.ones(300, int), stream=np.arange(300) % 3, args=args)
    written(tmp_path / "a.json", batch)
    small(monkeypatch, Limit.FIREFOX_CHUNK_BYTES, 200)
    written(tmp_path / "b.json", batch)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    check_rows(tmp_path / "b.json", [batch])


def test_an_empty_trace_is_a_profile_without_threads(tmp_path: Path) -> None:
    assert written(tmp_path / "t.json").events == 0
    assert profiles.loaded(tmp_path / "t.json")["threads"] == []

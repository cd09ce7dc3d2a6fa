"""Pieces of a trace hold every event once, and the times of the parts of an event add up; a limit keeps the longest."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import in_time_order, rows
from strategies import rows_of, tables
from support import files_limited, run_command, sample
from viewers import perfetto
from writing import dense_tables

import tracekit
from tracekit.errors import OutputError, OutputExistsError, UsageError
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.builder import totals_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import OutputSubset, RowStream, WriteOptions, Written
from tracekit.writers.split.limit import shaped
from tracekit.writers.split.plan import parse_split

Row = dict[str, Any]


class Collector:
    """A target that keeps the rows of each file that it writes: 100 bytes for each event."""

    def __init__(self) -> None:
        self.files: dict[str, list[Row]] = {}
        self.totals: dict[str, int] = {}
        self.writer = replace(WRITERS["jsonl"], write=self._write)

    def _write(self, stream: RowStream, target: Path, options: WriteOptions) -> Written:
        held: list[Row] = []
        totals = 0
        for batch in stream.batches:
            if "ts_ns" in batch.schema.names:
                held += rows_of(pa.Table.from_batches([batch]))
            else:
                totals += batch.num_rows
        self.files[target.name], self.totals[target.name] = held, totals
        target.write_bytes(b"x" * (100 * len(held)))
        return Written(target, events=len(held), totals=totals)


def convert(
    folder: Path, shape: OutputSubset, *batches: pa.RecordBatch, run: Run | None = None, force: bool = True
) -> tuple[list[list[Row]], Written]:
    collector = Collector()
    stream = RowStream(run or Run(), iter(batches), (Ledger(path="in.csv", format="test"),))
    made = shaped(collector.writer, shape).write(stream, folder / "run.jsonl", WriteOptions(force=force, version="9"))
    return [collector.files[name] for name in sorted(collector.files) if (folder / name).exists()], made


def index_of(folder: Path) -> dict[str, Any]:
    index: dict[str, Any] = json.loads((folder / "run.index.json").read_bytes())
    return index


def cut_of(row: Row) -> dict[str, int] | None:
    """The member `cut` of a row's args, where it is a part of an event."""
    if not (row["args"] or "").startswith('{"cut":{"ts_ns"'):
        return None
    found: dict[str, int] = json.loads(row["args"])["cut"]
    return found


def whole(row: Row) -> str:
    """A row as it was before it was cut, without its args."""
    cut = cut_of(row)
    times = (row["ts_ns"], row["dur_ns"]) if cut is None else (cut["ts_ns"], cut["dur_ns"])
    return repr((times, [value for key, value in row.items() if key not in ("ts_ns", "dur_ns", "args")]))


def check_pieces(given_rows: list[Row], pieces: list[list[Row]], folder: Path) -> None:
    """Each event starts in one piece; its parts follow each other without a gap and add up to its duration."""
    first_parts = [row for piece in pieces for row in piece if (cut_of(row) or {"part": 1})["part"] == 1]
    assert sorted(map(whole, first_parts)) == sorted(map(whole, given_rows))
    parts: dict[str, list[Row]] = defaultdict(list)
    for piece, entry in zip(pieces, index_of(folder)["pieces"], strict=True):
        times = [(row["ts_ns"], -(-1 if row["dur_ns"] is None else row["dur_ns"])) for row in piece]
        assert times == sorted(times)
        assert all(entry["from_ns"] <= row["ts_ns"] for row in piece)
        assert all(row["ts_ns"] + (row["dur_ns"] or 0) <= entry["to_ns"] for row in piece)
        cuts = [cut for row in piece if (cut := cut_of(row))]
        assert entry["continued"] == sum(cut["part"] > 1 for cut in cuts)
        assert entry["events"] == len(piece) - entry["continued"]
        for row in piece:
            if (cut := cut_of(row)) is not None:
                parts[whole(row)].append(row | {"part": cut["part"], "sum": cut["dur_ns"]})
    for found in parts.values():
        same = sum(row["part"] == 1 for row in found)
        assert sum(row["dur_ns"] for row in found) == same * found[0]["sum"]
        assert {row["part"] for row in found} == set(range(1, len(found) // same + 1))
    durations = sum(max(row["dur_ns"] or 0, 0) for row in given_rows)
    assert sum(max(row["dur_ns"] or 0, 0) for piece in pieces for row in piece) == durations


@given(table=dense_tables(), how=st.sampled_from(["events=1", "events=3", "time=7ns", "time=1us"]))
def test_every_event_is_in_the_pieces_once(tmp_path: Path, table: pa.Table, how: str) -> None:
    batches = in_time_order(table)
    pieces, made = convert(tmp_path, OutputSubset(how), *batches)
    check_pieces([row for batch in batches for row in rows_of(pa.Table.from_batches([batch]))], pieces, tmp_path)
    assert made.events == table.num_rows


@given(table=tables("events", max_rows=10), most=st.integers(1, 9))
def test_pieces_have_at_most_the_number_of_events(tmp_path: Path, table: pa.Table, most: int) -> None:
    batches = in_time_order(table)
    pieces, _ = convert(tmp_path, OutputSubset(f"events={most}"), *batches)
    check_pieces([row for batch in batches for row in rows_of(pa.Table.from_batches([batch]))], pieces, tmp_path)
    for piece in pieces[:-1]:
        new = [row["ts_ns"] for row in piece if (cut_of(row) or {"part": 1})["part"] == 1]
        assert len(new) >= most
        assert len(set(new[most - 1 :])) == 1  # more only where they start at one instant


def test_a_range_over_three_pieces_has_three_parts_and_its_args(tmp_path: Path) -> None:
    batch = rows(4, ts_ns=np.array([0, 10, 25, 40]), dur_ns=np.array([45, 20, 1, 10]), name=pa.array(list("abcd")),
                 args=pa.array(['{"x":1}', "no JSON", None, "{}"]))  # fmt: skip
    pieces, made = convert(tmp_path, OutputSubset("time=20ns"), batch)
    assert [[(row["name"], row["ts_ns"], row["dur_ns"]) for row in piece] for piece in pieces] == [
        [("a", 0, 20), ("b", 10, 10)],
        [("a", 20, 20), ("b", 20, 10), ("c", 25, 1)],
        [("d", 40, 10), ("a", 40, 5)],
    ]
    assert pieces[2][1]["args"] == '{"cut":{"ts_ns":0,"dur_ns":45,"part":3},"x":1}'
    assert json.loads(pieces[1][1]["args"]) == {
        "cut": {"ts_ns": 10, "dur_ns": 20, "part": 2}, "args_text": "no JSON",
    }  # fmt: skip
    assert (pieces[1][2]["args"], pieces[2][0]["args"]) == (None, "{}")
    assert made.notes[1] == "3 times an event goes on in the next piece: each part has the whole in args.cut"
    assert [entry["continued"] for entry in index_of(tmp_path)["pieces"]] == [0, 2, 1]


def test_windows_without_a_start_make_no_piece_of_their_own(tmp_path: Path) -> None:
    batch = rows(3, ts_ns=np.array([5, 10**15, 10**15 + 3]), dur_ns=np.array([2 * 10**15, 1, 1]))
    pieces, _ = convert(tmp_path, OutputSubset("time=1us"), batch)
    assert [len(piece) for piece in pieces] == [1, 3]


def test_pieces_by_size_fit(tmp_path: Path) -> None:
    batches = [rows(5000, ts_ns=np.arange(5000) + 5000 * i, dur_ns=np.full(5000, 3)) for i in range(4)]
    pieces, _ = convert(tmp_path, OutputSubset("mb=0.1"), *batches)
    sizes = [entry["bytes"] for entry in index_of(tmp_path)["pieces"]]
    assert max(sizes) <= 100_000
    assert min(sizes[:-1]) >= 70_000
    check_pieces([row for batch in batches for row in rows_of(pa.Table.from_batches([batch]))], pieces, tmp_path)


def test_events_of_one_instant_stay_in_one_piece_whatever_its_size(tmp_path: Path) -> None:
    pieces, _ = convert(
        tmp_path, OutputSubset("mb=0.0003"), rows(9, ts_ns=np.array([1] * 8 + [2]), dur_ns=np.ones(9, int))
    )
    assert [len(piece) for piece in pieces] == [8, 1]


def test_pieces_by_step_begin_where_the_first_rank_begins_it(tmp_path: Path) -> None:
    batch = rows(6, ts_ns=np.array([0, 10, 12, 20, 22, 30]), dur_ns=np.full(6, 5), rank=pa.array([0, 0, 1, 0, 1, 0]),
                 kind=pa.array(["kernel", "step", "step", "step", "step", "kernel"]),
                 step=pa.array([None, 1, 1, 2, 2, 2]))  # fmt: skip
    pieces, _ = convert(tmp_path, OutputSubset("step"), batch)
    assert [len(piece) for piece in pieces] == [1, 2, 3]
    assert [entry["step"] for entry in index_of(tmp_path)["pieces"]] == [None, "1", "2"]


def test_pieces_by_rank_are_not_cut(tmp_path: Path) -> None:
    batch = rows(5, ts_ns=np.arange(5), dur_ns=np.full(5, 100), rank=pa.array([3, 0, None, 3, 0]))
    pieces, _ = convert(
        tmp_path, OutputSubset("rank"), batch, totals_batch(2, {"name": "x", "source": 0, "section": "s"})
    )
    assert [[row["ts_ns"] for row in piece] for piece in pieces] == [[1, 4], [0, 3], [2]]
    found = index_of(tmp_path)["pieces"]
    assert [(entry["rank"], entry["from_ns"], entry["to_ns"]) for entry in found] == [
        (0, 1, 104),
        (3, 0, 103),
        (None, 2, 102),
    ]


def test_totals_are_in_the_first_piece_alone(tmp_path: Path) -> None:
    collector = Collector()
    batch = rows(3, ts_ns=np.arange(3), dur_ns=np.ones(3, int))
    totals = totals_batch(2, {"name": "x", "source": 0, "section": "s"})
    stream = RowStream(Run(), iter([batch, totals]))
    made = shaped(collector.writer, OutputSubset("events=1")).write(stream, tmp_path / "run.jsonl", WriteOptions())
    assert list(collector.totals.values()) == [2, 0, 0]
    assert made.totals == 2


def test_an_old_index_gives_way_with_its_pieces_and_nothing_else(tmp_path: Path) -> None:
    batch = rows(4, ts_ns=np.arange(4), dur_ns=np.ones(4, int))
    convert(tmp_path, OutputSubset("events=1"), batch, force=False)
    (tmp_path / "run.0009.jsonl").write_bytes(b"mine")
    with pytest.raises(OutputExistsError):
        convert(tmp_path, OutputSubset("events=2"), batch, force=False)
    convert(tmp_path, OutputSubset("events=2"), batch)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["run.0001.jsonl", "run.0002.jsonl", "run.0009.jsonl", "run.index.json"]
    (tmp_path / "run.index.json").unlink()
    with pytest.raises(OutputExistsError, match=r"run\.0001\.jsonl"):
        convert(tmp_path, OutputSubset("events=2"), batch, force=False)
    assert not (tmp_path / "run.index.json").exists()


def test_a_piece_never_replaces_an_input(tmp_path: Path) -> None:
    source = tmp_path / "run.0001.jsonl"
    source.write_bytes(b"mine")
    run = Run(sources=[SourceFacts(str(source), "test")])
    with pytest.raises(OutputError, match="is an input and cannot be replaced"):
        convert(tmp_path, OutputSubset("events=1"), rows(1, ts_ns=np.array([1])), run=run)
    assert source.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("shape", [OutputSubset("events=20000"), OutputSubset(max_events=50_000)])
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, shape: OutputSubset) -> None:
    def batches() -> Any:
        for i in range(4):
            yield rows(20_000, ts_ns=np.arange(20_000) + i * 20_000, dur_ns=np.full(20_000, 5))

    writer = shaped(WRITERS["chrome"], shape)
    writer.write(RowStream(Run(), batches()), tmp_path / "warm.json", WriteOptions(force=True))
    for path in tmp_path.iterdir():
        path.unlink()
    with files_limited(0x8000), pytest.raises(OutputError) as raised:
        writer.write(RowStream(Run(), batches()), tmp_path / "run.json", WriteOptions(force=True))
    assert str(raised.value).startswith(str(tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("steps", "not a way to split"), ("time=0s", "must be above 0"), ("time=5", "not a unit of time"),
        ("events=x", "invalid literal"), ("mb=-3", "must be above 0"), ("mb=1GB", "not a number of MB"),
        ("step=1", "not a way to split"), ("events=0", "must be above 0"),
    ],
)  # fmt: skip
def test_a_wrong_way_to_split_is_refused_in_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as raised:
        parse_split(text)
    assert str(raised.value).startswith(f"split {text}: ")
    assert "\n" not in str(raised.value)


def test_what_cannot_be_split_is_refused(tmp_path: Path) -> None:
    batch = rows(3, ts_ns=np.array([0, 10, 10**12]), dur_ns=np.ones(3, int))
    for how, reason in (("step", "the trace has no steps"), ("rank", "the trace has no ranks")):
        with pytest.raises(UsageError, match=reason):
            convert(tmp_path, OutputSubset(how), batch)
    many = rows(10_001, ts_ns=np.arange(10_001))
    for how in ("events=1", "time=1ns"):
        with pytest.raises(UsageError, match="more than 9,999 pieces"):
            convert(tmp_path, OutputSubset(how), many)
    with pytest.raises(UsageError, match="cuda-csv is written whole"):
        shaped(WRITERS["cuda-csv"], OutputSubset("step"))
    with pytest.raises(UsageError, match="only one of them"):
        shaped(WRITERS["chrome"], OutputSubset("step", max_events=3))
    assert list(tmp_path.iterdir()) == []


@given(table=dense_tables(), most=st.integers(1, 12))
def test_a_limit_keeps_the_longest_and_counts_the_others(tmp_path: Path, table: pa.Table, most: int) -> None:
    batches = in_time_order(table)
    [kept], made = convert(tmp_path, OutputSubset(max_events=most), *batches)
    given_rows: list[Row] = [row for batch in batches for row in rows_of(pa.Table.from_batches([batch]))]
    assert len(kept) == min(most, len(given_rows))
    assert made.left_out == ({"over-the-limit": len(given_rows) - most} if len(given_rows) > most else {})

    def ranks(some: list[Row]) -> list[int]:
        return sorted(
            10**6 if row["kind"] == "step" else -1 if row["dur_ns"] is None else max(row["dur_ns"], 0) for row in some
        )

    assert ranks(kept) == ranks(given_rows)[-most:]


def test_the_note_of_a_limit_says_what_went(tmp_path: Path) -> None:
    batch = rows(5, ts_ns=np.arange(5), dur_ns=pa.array([100, None, 300, 2, 100], pa.int64()),
                 kind=pa.array(["kernel", "mark", "kernel", "step", "kernel"]))  # fmt: skip
    [kept], made = convert(tmp_path, OutputSubset(max_events=3), batch)
    assert [row["ts_ns"] for row in kept] == [0, 2, 3]
    [note] = made.notes
    assert note.endswith("1 without a duration (marks, counter values); 1 ranges of at most 100 ns, "
                         "19.92 % of the summed time of all ranges")  # fmt: skip


def test_a_file_of_at_most_so_many_mb(tmp_path: Path) -> None:
    batch = rows(5000, ts_ns=np.arange(5000), dur_ns=np.arange(5000))
    [kept], made = convert(tmp_path, OutputSubset(max_mb="0.1"), batch)
    assert 800 <= len(kept) <= 1000
    assert (tmp_path / "run.jsonl").stat().st_size <= 100_000
    assert min(row["dur_ns"] for row in kept) == 5000 - len(kept)
    assert made.left_out == {"over-the-limit": 5000 - len(kept)}
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


@pytest.mark.viewer
@pytest.mark.parametrize("suffix", [".json", ".pftrace.gz"])
@pytest.mark.parametrize("how", ["time=50ms", "events=40", "mb=0.0035"])
def test_each_piece_opens_in_perfetto_and_their_sums_are_those_of_the_whole(
    tmp_path: Path, how: str, suffix: str
) -> None:
    source = sample("nvprof-csv/gpu-and-api-trace.csv")
    tracekit.convert(source, tmp_path / f"whole{suffix}")
    done = tracekit.convert(source, tmp_path / f"run{suffix}", split=how)
    whole_trace = perfetto(tmp_path / f"whole{suffix}")
    entries = index_of(tmp_path)["pieces"]
    seen = [perfetto(tmp_path / entry["file"]) for entry in entries]
    assert len(entries) > 1
    assert all(each["accepted"] and each["errors"] == {} for each in seen)
    assert sum(each["sum_dur_ns"] or 0 for each in seen) == whole_trace["sum_dur_ns"]
    assert sum(each["slices"] for each in seen) == whole_trace["slices"] + sum(entry["continued"] for entry in entries)
    assert done.written.events == sum(entry["events"] for entry in entries) == 137


@pytest.mark.parametrize("target", ["parquet", "firefox", "speedscope", "csv"])
def test_other_targets_have_pieces_too(tmp_path: Path, target: str) -> None:
    suffix = WRITERS[target].suffixes[0]
    run_command("convert", sample("kineto/gpu.pt.trace.json"), "-o", tmp_path / f"run{suffix}", "--split", "step")
    entries = index_of(tmp_path)["pieces"]
    assert [entry["file"] for entry in entries] == [f"run.000{number}{suffix}" for number in (1, 2, 3)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*(e["file"] for e in entries), "run.index.json"]


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    source = sample("nvprof-csv/gpu-and-api-trace.csv")
    said = run_command("convert", source, "-o", tmp_path / "run.json", "--split", "events=100").stderr
    assert "run.index.json: 137 events" in said
    assert "note: 2 pieces: run.0001.json to run.0002.json; run.index.json lists them" in said
    said = run_command("convert", source, "-o", tmp_path / "few.json", "--max-events", "20").stderr
    assert "few.json: 20 events" in said
    assert "117 ranges of at most" in said
    assert "rows skipped" not in said  # a code that a sentence has explained
    run_command("convert", source, "-o", "-", "--to", "jsonl", "--split", "events=100", code=2)
    run_command("convert", source, "-o", tmp_path / "bad.json", "--max-mb", "many", code=2)


def test_rows_that_every_piece_leaves_out_are_one_note_in_words(tmp_path: Path) -> None:
    source = sample("kineto/gpu.pt.trace.json")
    whole = run_command("convert", source, "-o", tmp_path / "whole.pftrace").stderr
    said = run_command("convert", source, "-o", tmp_path / "run.pftrace", "--split", "events=150").stderr
    assert "rows skipped" not in whole + said

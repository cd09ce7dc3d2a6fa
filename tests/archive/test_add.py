"""Adding: one file a run, named by content, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from small_limits import Limit, small
from support import ROOT, sample
from writing import newer_schema

import tracekit
from tracekit import archive
from tracekit.errors import InputError, OutputError, ParseError, TracekitError, UsageError
from tracekit.inputs import InputOptions, stored_name
from tracekit.inputs.selection import Selection
from tracekit.model.trace import Run, SourceFacts
from tracekit.readers.builder import totals_batch

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
LOG = sample("recorder-log/rank0.jsonl")
SUMMED = sample("paddle-summary/gpu.txt")

KERNELS_AND_COPIES = Selection(kinds=frozenset({"kernel", "memcpy"}))


def files(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


def test_a_run_is_one_file_in_the_folder_of_its_day_and_its_name(tmp_path: Path) -> None:
    done = archive.add(tmp_path, CSV, run="nightly", tags={"gpu": "H200"}, date="2026-01-31")
    assert (done.new, done.changed, done.events, done.totals) == (True, False, 137, 0)
    assert files(tmp_path) == [done.path.removeprefix(f"{tmp_path}/")]
    folder, name = files(tmp_path)[0].rsplit("/", 1)
    assert folder == "events/date=2026-01-31/run=nightly"
    assert name.startswith(f"{done.id}-")
    assert name.endswith(f"-{hashlib.sha256(Path(done.path).read_bytes()).hexdigest()[:32]}.parquet")
    assert done.bytes == Path(done.path).stat().st_size


def test_an_entry_has_all_facts_of_its_sources(tmp_path: Path) -> None:
    archive.add(tmp_path, [f"a={CSV}", str(LOG)], run="r", tags={"b": "2", "a": "1"}, date="2026-01-31")
    (entry,) = archive.entries(tmp_path)
    assert (entry.run, entry.date, entry.date_from) == ("r", date(2026, 1, 31), "given")
    assert list(entry.tags.items()) == [("a", "1"), ("b", "2")]
    assert entry.fingerprints == tuple(hashlib.sha256(p.read_bytes()).hexdigest() for p in (CSV, LOG))
    assert [(s.label, s.path) for s in entry.sources] == [("a", stored_name(str(CSV))), ("", stored_name(str(LOG)))]
    assert entry.facts["tool"] == "nvprof"
    assert entry.facts["formats"] == ["nvprof-csv", "recorder-log"]
    assert (entry.events, len(entry.ledgers), entry.as_written) == (175, 2, True)
    assert archive.read(entry).events.num_rows == 175


def test_adding_twice_is_one_file_whatever_the_path(tmp_path: Path) -> None:
    root, copy = tmp_path / "a", tmp_path / "elsewhere" / CSV.name
    copy.parent.mkdir()
    shutil.copy(CSV, copy)
    os.utime(copy, (1e9, 1e9))
    first = archive.add(root, CSV, run="r", date="2026-01-01")
    for again in (CSV, copy, f"name={copy}"):
        done = archive.add(root, again, run="r")
        assert (done.new, done.changed, done.path, done.id) == (False, False, first.path, first.id)
    assert len(files(root)) == 1


def test_the_same_sources_in_another_order_are_the_same_run(tmp_path: Path) -> None:
    one = archive.add(tmp_path, [CSV, LOG], run="r")
    assert archive.add(tmp_path, [LOG, CSV], run="r").id == one.id


def test_other_bytes_another_run_or_a_filter_are_another_entry(tmp_path: Path) -> None:
    ids = {
        archive.add(tmp_path, CSV, run="r").id,
        archive.add(tmp_path, CSV, run="s").id,
        archive.add(tmp_path, LOG, run="r").id,
        archive.add(tmp_path, CSV, InputOptions(selection=KERNELS_AND_COPIES), run="r").id,
        archive.add(tmp_path, CSV, InputOptions(demangle=False), run="r").id,
    }
    assert len(ids) == len(files(tmp_path)) == 5


def test_new_tags_and_a_new_date_replace_the_file(tmp_path: Path) -> None:
    first = archive.add(tmp_path, CSV, run="r", tags={"a": "1"}, date="2026-01-01")
    tagged = archive.add(tmp_path, CSV, run="r", tags={"b": "2"})
    assert (tagged.new, tagged.changed, tagged.id) == (False, True, first.id)
    assert (tagged.tags, tagged.date) == ({"a": "1", "b": "2"}, date(2026, 1, 1))
    moved = archive.add(tmp_path, CSV, run="r", date="2026-02-02")
    assert (moved.date, moved.tags) == (date(2026, 2, 2), {"a": "1", "b": "2"})
    assert files(tmp_path) == [moved.path.removeprefix(f"{tmp_path}/")]


def test_an_archived_file_as_input_keeps_its_place_and_its_bytes(tmp_path: Path) -> None:
    first = archive.add(tmp_path / "a", CSV, run="r", tags={"a": "1"}, date="2026-01-01")
    copied = archive.add(tmp_path / "b", first.path)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert Path(first.path).read_bytes() == Path(copied.path).read_bytes()
    archive.add(tmp_path / "a", first.path, tags={"baseline": ""})
    (entry,) = archive.entries(tmp_path / "a")
    assert (entry.id, entry.tags) == (first.id, {"a": "1", "baseline": ""})


def test_the_same_content_is_the_same_bytes(tmp_path: Path) -> None:
    one = archive.add(tmp_path / "a", CSV, run="r", date="2026-01-01")
    two = archive.add(tmp_path / "b", CSV, run="r", date="2026-01-01")
    assert Path(one.path).read_bytes() == Path(two.path).read_bytes()


def test_force_makes_it_again(tmp_path: Path) -> None:
    first = archive.add(tmp_path, CSV, run="r")
    done = archive.add(tmp_path, CSV, run="r", force=True)
    assert (done.new, done.changed, done.path) == (False, True, first.path)


def test_a_damaged_file_is_healed_by_adding_again(tmp_path: Path) -> None:
    first = archive.add(tmp_path, CSV, run="r", date="2026-01-01")
    whole = Path(first.path).read_bytes()
    for damaged in (whole[:-100], whole[:500] + b"?" + whole[501:], b""):
        Path(first.path).write_bytes(damaged)
        archive.add(tmp_path, CSV, run="r", date="2026-01-01")
        assert Path(first.path).read_bytes() == whole
        assert len(files(tmp_path)) == 1


def test_totals_alone_have_a_tree_of_their_own(tmp_path: Path) -> None:
    done = archive.add(tmp_path, SUMMED, run="r", date="2026-01-01")
    assert files(tmp_path)[0].startswith("totals/date=2026-01-01/run=r/")
    assert (done.events, done.totals) == (0, 52)
    both = archive.add(tmp_path, [SUMMED, LOG], run="both", date="2026-01-01")
    assert (both.events, both.totals) == (38, 52)
    assert both.path.startswith(f"{tmp_path}/events/")


def test_the_day_comes_from_the_trace_then_from_the_file_then_from_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_clock = archive.add(tmp_path, LOG, run="clock")
    assert (by_clock.date, by_clock.date_from) == (date(2026, 1, 1), "trace")
    copy = tmp_path / "run.csv"
    shutil.copy(CSV, copy)
    os.utime(copy, (1_700_000_000, 1_700_000_000))
    by_file = archive.add(tmp_path / "x", copy, run="file")
    assert (by_file.date, by_file.date_from) == (date(2023, 11, 14), "file")
    newer = tmp_path / "newer.csv"
    newer.write_bytes(CSV.read_bytes() + b"\n")
    assert archive.add(tmp_path / "z", [newer, copy], run="two").date == date(2023, 11, 14)  # that of the oldest file
    with CSV.open("rb") as file:
        monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": file}))
        with pytest.raises(UsageError, match="day of the run is unknown") as caught:
            archive.add(tmp_path / "y", "-", run="stdin")
        assert "YYYY-MM-DD" in caught.value.hint
        assert files(tmp_path / "y") == []


@pytest.mark.parametrize(
    ("origin", "first", "day"),
    [
        (None, 5, None),
        (0, 5, None),  # a clock that was never set
        (0, 1_767_225_600_000_000_000 - 1, date(2025, 12, 31)),
        (1_767_225_600_000_000_000, 0, date(2026, 1, 1)),
        (1_767_225_600_000_000_000, None, date(2026, 1, 1)),
        (1 << 62, 1 << 62, None),
    ],
)
def test_a_plausible_clock_gives_a_day(origin: int | None, first: int | None, day: date | None) -> None:
    found = archive.clock_date(Run(origin_ns=origin), first)
    assert found == day or (day is None and found is not None and found.year > 2200)


@pytest.mark.parametrize("run", ["a b", "x/y", "../up", "ü", "100%", "run=1", "a*[b]?", "."])
def test_a_run_may_have_any_printable_name(run: str, tmp_path: Path) -> None:
    done = archive.add(tmp_path, CSV, run=run)
    assert archive.entries(tmp_path, run=run)[0].id == done.id
    assert len(files(tmp_path)[0].split("/")) == 4
    assert not archive.add(tmp_path, CSV, run=run).new
    assert not archive.verify(tmp_path).problems


@pytest.mark.parametrize("run", [" ", "x" * 201, "a\nb", "\udcff", "ü" * 40])
def test_a_name_that_no_folder_can_have_is_refused(run: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a name for a run") as caught:
        archive.add(tmp_path, CSV, run=run)
    assert "as the name of a folder" in caught.value.hint


def test_the_usual_name_is_label_then_folder_then_file(tmp_path: Path) -> None:
    folder = tmp_path / "tuesday"
    folder.mkdir()
    shutil.copy(CSV, folder / "rank0.trace.csv")
    root = tmp_path / "a"
    assert archive.add(root, f"mine={folder / 'rank0.trace.csv'}").run == "mine"
    assert archive.add(root, folder).run == "tuesday"
    assert archive.add(root, folder / "rank0.trace.csv").run == "rank0"


@pytest.mark.parametrize("tags", [{"": "x"}, {"a=b": "c"}, {"a": "b\n"}, {"a\x00": "b"}])
def test_tags_are_printable(tags: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a tag") as caught:
        archive.add(tmp_path, CSV, tags=tags)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["2026-02-31", "yesterday", "2026-1", ""])
def test_a_date_is_a_date(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a date"):
        archive.entries(archive_with_one(tmp_path), since=text)


def archive_with_one(root: Path) -> Path:
    archive.add(root, CSV, run="r", date="2026-01-01")
    return root


def test_a_bad_input_leaves_nothing_behind(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_bytes(CSV.read_bytes()[:300])
    with pytest.raises(TracekitError):
        archive.add(tmp_path / "a", [CSV, bad], run="r")
    assert files(tmp_path / "a") == []
    assert list((tmp_path / "a").iterdir()) == []


def test_among_several_the_bad_one_is_named_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    tracekit.convert(CSV, bad)
    data = bytearray(bad.read_bytes())
    data[2000] ^= 1
    bad.write_bytes(data)
    done = archive.add(tmp_path / "a", [CSV, bad, LOG], InputOptions(partial=True), run="r")
    assert [f.name for f in done.failures] == [str(bad)]
    assert done.events == 175
    (entry,) = archive.entries(tmp_path / "a")
    assert [s.path for s in entry.sources] == [stored_name(str(CSV)), stored_name(str(LOG))]
    assert not archive.verify(tmp_path / "a").problems
    assert archive.add(tmp_path / "a", [CSV, LOG], run="r").new is False
    with pytest.raises(ParseError):
        archive.add(tmp_path / "a", bad, InputOptions(partial=True), run="r")


def test_rows_that_do_not_fit_are_an_error_not_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.PARQUET_TOTALS_TEXT, 100)
    with pytest.raises(OutputError, match="does not fit"):
        archive.add(tmp_path, [SUMMED, LOG], run="r")
    assert files(tmp_path) == []


def test_a_place_that_is_not_an_archive_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="no such archive"):
        archive.entries(tmp_path / "missing")
    with pytest.raises(InputError, match="not a folder"):
        archive.entries(tmp_path / "file")
    with pytest.raises(OutputError, match="cannot be made a folder"):
        archive.add(tmp_path / "file" / "below", CSV)
    with pytest.raises(InputError, match="empty name"):
        archive.entries(" ")


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys\nfrom tracekit import archive\nfrom tracekit.errors import OutputError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n    archive.add(sys.argv[1], sys.argv[2])\nexcept OutputError as err:\n    print(err)\n    sys.exit(5)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(CSV)], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (5, "")
    assert list(tmp_path.iterdir()) == []


def test_find_takes_the_beginning_of_an_id(tmp_path: Path) -> None:
    done = archive.add(tmp_path, CSV, run="r")
    assert archive.find(tmp_path, done.id[:6]).path == done.path
    for wrong in ("abc", "zzzz", "*", "../x"):
        with pytest.raises(InputError, match="not an id"):
            archive.find(tmp_path, wrong)
    other = "0000" if not done.id.startswith("0000") else "1111"
    with pytest.raises(InputError, match="no entry's id"):
        archive.find(tmp_path, other)


def test_entries_are_chosen_by_tag_day_and_run_and_stand_by_day(tmp_path: Path) -> None:
    for day in ("2026-01-03", "2026-01-01", "2026-01-02"):
        archive.add(tmp_path, CSV, run=f"r{day[-1]}", date=day, tags={"d": day[-1], "odd": str(int(day[-1]) % 2)})
    assert [e.run for e in archive.entries(tmp_path)] == ["r1", "r2", "r3"]
    assert [e.run for e in archive.entries(tmp_path, since="2026-01-02")] == ["r2", "r3"]
    assert [e.run for e in archive.entries(tmp_path, since=date(2026, 1, 2), until="2026-01-02")] == ["r2"]
    assert [e.run for e in archive.entries(tmp_path, tag="odd=1")] == ["r1", "r3"]
    assert [e.run for e in archive.entries(tmp_path, tag=["odd=1", "d=3"])] == ["r3"]
    assert [e.run for e in archive.entries(tmp_path, tag="odd")] == ["r1", "r2", "r3"]
    assert [e.run for e in archive.entries(tmp_path, run="r2")] == ["r2"]
    assert archive.entries(tmp_path, tag="none") == []


def test_a_damaged_file_does_not_hide_the_others(tmp_path: Path) -> None:
    one = archive.add(tmp_path, CSV, run="r")
    archive.add(tmp_path, LOG, run="r")
    Path(one.path).write_bytes(b"PAR1")
    with pytest.raises(ParseError):
        archive.entries(tmp_path)
    found = archive.listing(tmp_path)
    assert len(found.entries) == 1
    assert [f.name for f in found.failures] == [one.path]


def test_an_older_schema_is_brought_up_when_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = archive.add(tmp_path, CSV, run="r")
    before = tracekit.read(CSV).events.column("ts_ns").to_pylist()
    later = {1: lambda table, columns: columns | {"ts_ns": pc.add(columns["ts_ns"], 1000)}}
    newer_schema(monkeypatch, 2, later)
    (entry,) = archive.entries(tmp_path)
    assert entry.schema == 1
    assert archive.read(entry).events.column("ts_ns").to_pylist() == [ts + 1000 for ts in before]
    assert not archive.verify(tmp_path).problems
    newer = archive.add(tmp_path, done.path, force=True)
    assert pq.read_metadata(newer.path).metadata[b"tracekit.schema"] == b"2"
    assert len(files(tmp_path)) == 1


def test_no_trace_is_too_odd_to_be_archived(tmp_path: Path) -> None:
    """Sources without a path that is text, totals with nulls, no rows at all."""
    trace = tracekit.Trace(
        tracekit.read(CSV).events.slice(0, 0),
        run=Run(sources=[SourceFacts("x \udcff", "nvprof-csv", sha256="00")]),
        totals=tracekit.read(SUMMED).totals.slice(0, 0),
    )
    tracekit.write(trace, tmp_path / "x.parquet")
    done = archive.add(tmp_path / "a", tmp_path / "x.parquet", run="empty")
    assert (done.events, done.totals) == (0, 0)
    assert not archive.verify(tmp_path / "a").problems
    assert totals_batch(0, {}).num_rows == 0

"""Verify finds every change that a disk, a program or a person can make; prune removes what it says."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import pytest
from support import sample

import tracekit
from tracekit import archive
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
LOG = sample("recorder-log/rank0.jsonl")
SUMMED = sample("paddle-summary/gpu.txt")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for day, source in enumerate((CSV, LOG, SUMMED), 1):
        archive.add(tmp_path / "a", source, run=f"r{day}", date=f"2026-01-0{day}", tags={"day": str(day)})
    return tmp_path / "a"


def codes(root: Path) -> list[str]:
    return [problem.code for problem in archive.verify(root).problems]


def test_a_whole_archive_has_no_problem(root: Path) -> None:
    found = archive.verify(root)
    assert (found.files, found.events, found.totals, found.problems) == (3, 175, 52, ())
    assert found.bytes == sum(p.stat().st_size for p in root.rglob("*.parquet"))


def test_any_flipped_bit_is_found(root: Path) -> None:
    chance = random.Random(6)
    for entry in archive.entries(root):
        path = Path(entry.path)
        whole = path.read_bytes()
        places = [0, 3, len(whole) - 1, len(whole) - 5, *(chance.randrange(len(whole)) for _ in range(12))]
        for place in places:
            damaged = bytearray(whole)
            damaged[place] ^= 1 << chance.randrange(8)
            path.write_bytes(damaged)
            (problem,) = archive.verify(root).problems
            assert (problem.code, problem.path) == ("damaged", entry.path), place
        path.write_bytes(whole)
    assert codes(root) == []


def test_a_file_that_was_cut_or_grew_is_found(root: Path) -> None:
    path = Path(archive.entries(root)[0].path)
    whole = path.read_bytes()
    for cut in (0, 4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert codes(root) == ["damaged"]
    path.write_bytes(whole + b"PAR1")
    assert codes(root) == ["damaged"]


@pytest.mark.parametrize("name", ["notes.txt", "events/x.parquet", "events/date=2026-01-01/run=r1/.DS_Store"])
def test_a_foreign_file_is_found(name: str, root: Path) -> None:
    (root / name).write_bytes(b"not of this archive")
    assert codes(root) == ["foreign-file"]


def test_a_trace_that_was_not_archived_is_foreign(root: Path) -> None:
    tracekit.convert(CSV, root / "events" / "x.parquet")
    assert codes(root) == ["foreign-file"]


def test_verify_reports_a_wrong_name_and_the_right_one(root: Path) -> None:
    path = Path(archive.entries(root)[0].path)
    right = path.relative_to(root).as_posix()
    names = [
        right.replace("run=r1", "run=other"),
        right.replace("2026-01-01", "2026-01-09"),
        right.replace("2026-01-01", "2026-02-31"),
        right.replace("events/", "totals/"),
        "events/copy.parquet",
        right.replace(path.name, "0" * 16 + path.name[16:]),
    ]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        path.rename(root / name)
        (problem,) = archive.verify(root).problems
        assert (problem.code, problem.path) == ("wrong-name", str(root / name))
        assert right in problem.text
        (root / name).rename(path)


def test_rows_that_the_ledgers_do_not_tell_are_found(tmp_path: Path) -> None:
    """Whole, well named, and yet wrong: as a bug of ours would make it."""
    trace = tracekit.read(CSV)
    for number, (read, kept, out) in enumerate([(137, 137, 136), (137, 136, 137)]):
        root = tmp_path / str(number)
        ledger = Ledger(path="x.csv", format="nvprof-csv", read=read, kept=kept, events_out=out)
        run = Run(sources=[SourceFacts("x.csv", "nvprof-csv", sha256="00")])
        done = archive.add(root, CSV, run="r", date="2026-01-01")
        label = f'{{"id":"{done.id}","run":"r","date":"2026-01-01","date_from":"given","tags":{{}}}}'
        part = root / "part"
        stream = RowStream(run, iter(trace.events.to_batches()), (ledger,))
        WRITERS["parquet"].write(stream, part, WriteOptions(label=lambda *_, text=label: text))
        import hashlib

        digest = hashlib.sha256(part.read_bytes()).hexdigest()[:32]
        part.rename(Path(done.path).with_name(f"{done.id}-{digest}.parquet"))
        Path(done.path).unlink()
        assert codes(root) == ["wrong-ledger"]


def test_the_same_sources_twice_are_found_and_the_next_add_heals_it(root: Path) -> None:
    first = Path(archive.entries(root)[0].path)
    kept = first.read_bytes()
    archive.add(root, CSV, run="r1", tags={"new": "1"})
    first.write_bytes(kept)  # as if the add had been killed before it removed the older file
    assert (codes(root), archive.verify(root).leftovers) == ([], (str(first),))
    assert [entry.tags for entry in archive.entries(root, run="r1")] == [{"day": "1", "new": "1"}]
    assert archive.find(root, first.name[:16]).tags == {"day": "1", "new": "1"}
    archive.add(root, CSV, run="r1")
    assert (codes(root), archive.verify(root).leftovers) == ([], ())


def test_copies_of_one_run_with_other_tags_are_found_and_the_next_add_joins_them(root: Path, tmp_path: Path) -> None:
    archive.add(root, CSV, run="r1", tags={"a": "1", "both": "here"})
    other = {"b": "2", "both": "there"}
    there = Path(archive.add(tmp_path / "other", CSV, run="r1", tags=other, date="2026-01-02").path)
    copied = root / there.relative_to(tmp_path / "other")
    copied.parent.mkdir(parents=True, exist_ok=True)
    copied.write_bytes(there.read_bytes())
    assert codes(root) == ["twice"]
    assert len(archive.entries(root, run="r1")) == 2
    done = archive.add(root, CSV, run="r1")
    assert done.tags == {"a": "1", "b": "2", "both": "here", "day": "1"}  # of the later revision
    assert [(e.tags, str(e.date)) for e in archive.entries(root, run="r1")] == [(done.tags, "2026-01-01")]
    assert codes(root) == []


def test_prune_removes_an_entry_with_the_older_files_that_a_kill_left(root: Path) -> None:
    first = Path(archive.entries(root, run="r1")[0].path)
    kept = first.read_bytes()
    archive.add(root, CSV, run="r1", tags={"new": "1"})
    first.write_bytes(kept)
    archive.prune(root, run="r1")
    assert archive.entries(root, run="r1") == []
    assert not first.exists()


def waiting_add(root: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """Return a process that adds its standard input, which does not come, and its workspace."""
    before = set(root.glob(".adding-*"))
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; from tracekit import archive; archive.add(sys.argv[1], '-')", str(root)],
        stdin=subprocess.PIPE,
    )
    while not (locked := [path.parent for path in root.glob(".adding-*/alive-*") if path.parent not in before]):
        assert process.poll() is None
        time.sleep(0.01)
    return process, locked[0]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_the_workspace_of_a_killed_add_is_removed_by_the_next(root: Path) -> None:
    alive, its_folder = waiting_add(root)
    killed, left = waiting_add(root)
    killed.kill()
    killed.communicate()
    assert str(left) in " ".join(archive.verify(root).leftovers)
    archive.add(root, CSV, run="r1", tags={"now": "1"})
    assert not left.exists()
    assert its_folder.is_dir()
    alive.kill()
    alive.communicate()
    archive.add(root, CSV, run="r1", tags={"then": "1"})
    assert archive.verify(root).leftovers == ()


def test_verify_names_the_folder_of_a_killed_add_and_prune_removes_it_after_a_day(root: Path) -> None:
    left = root / ".adding-abc" / ".trace.part"
    left.parent.mkdir()
    left.write_bytes(b"half")
    assert archive.verify(root).leftovers == (str(left),)
    assert codes(root) == []
    assert len(archive.entries(root)) == 3
    assert archive.prune(root, tag="none").leftovers == ()
    os.utime(left, (time.time() - 90_000,) * 2)
    assert archive.prune(root, tag="none", dry_run=True).leftovers == (str(left),)
    assert left.exists()
    archive.prune(root, tag="none")
    assert not left.parent.exists()


def test_prune_by_age_removes_older_files_and_their_empty_folders(root: Path) -> None:
    done = archive.prune(root, before=date(2026, 1, 3))
    assert [e.run for e in done.removed] == ["r1", "r2"]
    assert (done.kept, done.kept_bytes) == (1, archive.entries(root)[0].bytes)
    assert not (root / "events").exists()
    assert codes(root) == []


def test_prune_by_size_removes_the_oldest_until_it_fits(root: Path) -> None:
    sizes = [e.bytes for e in archive.entries(root)]
    assert archive.prune(root, max_bytes=sum(sizes)).removed == ()
    assert [e.run for e in archive.prune(root, max_bytes=sum(sizes) - 1, dry_run=True).removed] == ["r1"]
    assert [e.run for e in archive.prune(root, max_bytes=sizes[2]).removed] == ["r1", "r2"]


def test_prune_by_tag_and_by_run_keeps_protected_entries(root: Path) -> None:
    assert [e.run for e in archive.prune(root, tag="day=2", dry_run=True).removed] == ["r2"]
    assert [e.run for e in archive.prune(root, run="r3", dry_run=True).removed] == ["r3"]
    assert [e.run for e in archive.prune(root, tag="day", keep="day=1", dry_run=True).removed] == ["r2", "r3"]
    assert [e.run for e in archive.prune(root, max_bytes=0, keep="day=1", dry_run=True).removed] == ["r2", "r3"]
    both = archive.prune(root, tag="day=1", before=date(2026, 1, 1), dry_run=True)
    assert both.removed == ()
    assert len(archive.entries(root)) == 3


def test_prune_keeps_a_run_if_one_of_its_files_has_a_tag_to_keep(root: Path, tmp_path: Path) -> None:
    """Two files of one run, as after a copy or a kill: each has tags that the other lacks."""
    archive.add(tmp_path / "other", CSV, run="r1", tags={"baseline": "1"}, date="2026-01-01")
    shutil.copytree(tmp_path / "other", root, dirs_exist_ok=True)
    assert len(archive.entries(root, run="r1")) == 2
    assert archive.prune(root, tag="day=1", keep="baseline").removed == ()
    assert archive.prune(root, max_bytes=0, keep="baseline", dry_run=True).kept == 2
    done = archive.prune(root, tag="day=1")
    assert ([entry.run for entry in done.removed], done.kept) == (["r1", "r1"], 2)
    assert archive.entries(root, run="r1") == []


def test_prune_removes_no_folder_that_it_may_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of another user, and the workspace of an add of another user, which may be running."""
    shut = [root / "events" / "date=2026-01-01", root / ".adding-of-another-user"]
    shut[1].mkdir()
    scan = os.scandir

    def refused(path: str) -> object:
        if Path(path) in shut:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    done = archive.prune(root, run="r2", partial=True)
    assert ([entry.run for entry in done.removed], done.leftovers) == (["r2"], ())
    assert [failure.name for failure in done.failures] == [str(shut[0])]
    assert all(folder.is_dir() for folder in shut)


def test_prune_needs_a_criterion(root: Path) -> None:
    with pytest.raises(UsageError, match="no criterion says"):
        archive.prune(root)


def test_prune_keeps_damaged_files_and_names_them(root: Path) -> None:
    path = Path(archive.entries(root)[0].path)
    path.write_bytes(b"x")
    done = archive.prune(root, max_bytes=0, partial=True)
    assert [f.name for f in done.failures] == [str(path)]
    assert path.exists()


def test_a_copy_made_by_any_tool_is_the_archive(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy")
    assert codes(tmp_path / "copy") == []


def test_unreadable_places_are_named_without_waiting_for_them(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    (root / "gone").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    (entry, *_) = archive.entries(root)
    Path(entry.path).unlink()
    os.mkfifo(entry.path)
    found = archive.verify(root)
    assert {Path(p.path).name: p.code for p in found.problems} == dict.fromkeys(
        ("loop", "gone", "pipe", Path(entry.path).name), "unreadable"
    )
    assert found.files == 2
    listed = archive.listing(root)
    assert len(listed.entries) == 2
    assert [failure.name for failure in listed.failures] == [entry.path]
    assert "not a regular file" in str(listed.failures[0].error)


def test_runs_behind_a_link_are_runs_and_a_link_back_is_named(root: Path, tmp_path: Path) -> None:
    """Old days on another disk: an add follows the link, and so must what lists, verifies, queries and prunes."""
    other = tmp_path / "other disk"
    other.mkdir()
    shutil.move(root / "events" / "date=2026-01-01", other / "day")
    (root / "events" / "date=2026-01-01").symlink_to(other / "day")
    assert archive.add(root, CSV, run="r1", tags={"new": "1"}).tags == {"day": "1", "new": "1"}
    assert [entry.run for entry in archive.entries(root)] == ["r1", "r2", "r3"]
    assert (archive.verify(root).files, codes(root)) == (3, [])
    for name, target in (("x", other), ("y", root), ("z", Path("/"))):
        (other / "day" / name).symlink_to(target)
    assert codes(root) == ["unreadable"] * 3
    assert len(archive.listing(root).failures) == 3
    assert [entry.run for entry in archive.prune(root, run="r1", partial=True).removed] == ["r1"]
    assert not list(other.rglob("*.parquet"))


def test_a_folder_that_may_not_be_read_hides_no_runs_silently(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shut = root / "events" / "date=2026-01-01"
    scan = os.scandir

    def refused(path: str) -> object:  # root may read everything, so permissions alone would show nothing
        if Path(path) == shut:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    assert [(p.path, p.code) for p in archive.verify(root).problems] == [(str(shut), "unreadable")]
    listed = archive.listing(root)
    assert len(listed.entries) == 2
    assert [failure.name for failure in listed.failures] == [str(shut)]
    with pytest.raises(TracekitError, match="Permission denied"):
        archive.entries(root)


def test_a_bad_day_is_named_by_the_option_that_gave_it(root: Path) -> None:
    for option in ("since", "until"):
        with pytest.raises(UsageError, match=f"{option} yesterday: not a date"):
            archive.entries(root, **{option: "yesterday"})  # type: ignore[arg-type]


def test_a_file_that_the_system_cannot_read_is_not_replaced(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It may be whole, with tags that nothing else has; only a damaged one may go.
    archive.add(root, LOG, run="same", tags={"kept": "1"})
    before = {path: path.read_bytes() for path in root.rglob("*.parquet")}
    (old,) = (path for path in before if "run=same" in str(path))
    true_open = Path.open

    def broken(self: Path, *words: object) -> object:
        if self.name == old.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return true_open(self, *words)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", broken)
        for force in (False, True):
            with pytest.raises(InputError, match="cannot be read"):
                archive.add(root, LOG, run="same", tags={"new": "1"}, force=force)
    assert {path: path.read_bytes() for path in root.rglob("*.parquet")} == before
    archive.add(root, LOG, run="same", tags={"new": "1"})
    (entry,) = (each for each in archive.entries(root) if each.run == "same")
    assert entry.tags == {"kept": "1", "new": "1"}

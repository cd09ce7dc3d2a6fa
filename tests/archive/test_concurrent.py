"""Several processes on one archive, and processes that die: nothing is lost, nothing is half."""

from __future__ import annotations

import errno
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from doors.stores import (
    Entry,
    Label,
    Listing,
    Problem,
    QueryTables,
    Store,
    StoredEntry,
    entry_of,
    files_of,
    listing,
    open_store,
    settle,
)
from doors.stores import archive_list as _list
from doors.stores import archive_prune as _prune
from doors.stores import archive_settle as _settle
from doors.stores import archive_store as _store
from doors.stores import archive_verify as _verify
from doors.stores import query_engine as _engine
from filelock import FileLock, Timeout
from support import ROOT, sample

from tracekit import archive, conversion, pipeline
from tracekit.errors import InputError
from tracekit.inputs import InputOptions
from tracekit.model.trace import Ledger
from tracekit.queries import query
from tracekit.readers.source import Source

LOG = sample("recorder-log/rank0.jsonl")

_ADDS = """
import sys
from pathlib import Path
from tracekit import archive
from tracekit.errors import OutputError
root, sources, first, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, last):
    try:
        archive.add(root, sources / f"{number}.jsonl", run=f"run{number % 7}", tags={"n": str(number)})
    except OutputError as err:
        if "another process removed it at once" not in str(err):
            raise
        print(number, flush=True)
"""


def sources(folder: Path, count: int) -> Path:
    folder.mkdir()
    text = LOG.read_bytes()
    for number in range(count):
        (folder / f"{number}.jsonl").write_bytes(text.replace(b"train", b"train%d" % number, 1) + b"\n" * number)
    return folder


def adding(root: Path, folder: Path, first: int, last: int) -> subprocess.Popen[str]:
    """Return a process that adds sources. It prints the number of each that another process removed meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "-c", _ADDS, str(root), str(folder), str(first), str(last)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def done(*processes: subprocess.Popen[str], removed: Collection[str] = ()) -> list[int]:
    """Return the exit codes. removed: the sources that processes may have removed while they were added."""
    for process in processes:
        assert set(process.communicate(timeout=300)[0].split()) <= set(removed)
    return [process.returncode for process in processes]


def test_two_processes_that_add_lose_nothing(tmp_path: Path) -> None:
    folder = sources(tmp_path / "sources", 60)
    # A third of the sources are added by both.
    pair = [adding(tmp_path / "a", folder, first, first + 40) for first in (0, 20)]
    go(*pair)
    assert done(*pair) == [0, 0]
    assert sorted(int(e.tags["n"]) for e in archive.entries(tmp_path / "a")) == list(range(60))
    found = archive.verify(tmp_path / "a")
    assert (found.files, found.problems, found.leftovers) == (60, (), ())


def test_processes_that_add_the_same_at_once_do_not_stumble_over_each_other(tmp_path: Path) -> None:
    folder = sources(tmp_path / "sources", 25)
    three = [adding(tmp_path / "a", folder, first, 25) for first in (0, 0, 5)]
    go(*three)
    assert done(*three) == [0, 0, 0]
    assert len(archive.entries(tmp_path / "a")) == 25
    assert not archive.verify(tmp_path / "a").problems


_TAGS = """
import sys
from tracekit import archive
root, source, writer, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    archive.add(root, source, run="same", tags={f"{writer}-{number}": "1", "last": writer})
    print(f"{writer}-{number}", flush=True)
"""


def tagging(root: Path, source: Path, writers: int, count: int) -> list[subprocess.Popen[str]]:
    """Return processes that add the same source with tags of their own, each printed when it was acknowledged."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _TAGS, str(root), str(source), str(writer), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for writer in range(writers)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    return started


@pytest.mark.parametrize(("writers", "killed"), [(4, 0), (4, 2), (3, 3)])
def test_no_acknowledged_tag_is_lost(writers: int, killed: int, tmp_path: Path) -> None:
    """Adds of one entry at the same moment, some of them killed: every tag that was printed is in the one file."""
    started = tagging(tmp_path / "a", LOG, writers, 4)
    go(*started)
    for process in started[:killed]:
        assert process.stdout is not None
        process.stdout.readline()  # it is in the middle of its adds
        process.kill()
    printed = [line for process in started for line in process.communicate(timeout=300)[0].split()]
    assert len(printed) >= 4 * (writers - killed)
    assert set(printed) <= {tag for entry in archive.entries(tmp_path / "a") for tag in entry.tags}
    archive.add(tmp_path / "a", LOG, run="same", tags={"end": "1"})
    [entry] = archive.entries(tmp_path / "a")
    assert set(printed) <= set(entry.tags)
    found = archive.verify(tmp_path / "a")
    assert (found.files, found.problems, found.leftovers) == (1, (), ())


def test_adds_and_prunes_do_not_disturb_each_other(tmp_path: Path) -> None:
    folder = sources(tmp_path / "sources", 40)
    process = adding(tmp_path / "a", folder, 0, 40)
    go(process)
    while process.poll() is None:
        if (tmp_path / "a").exists():
            archive.prune(tmp_path / "a", tag="n=3", partial=True)  # removes its folder now and then
            archive.prune(tmp_path / "a", max_bytes=1 << 30, partial=True)
    assert done(process, removed=("3",)) == [0]  # an add that was not acknowledged, as its entry is gone
    assert {int(e.tags["n"]) for e in archive.entries(tmp_path / "a")} >= set(range(40)) - {3}
    assert not archive.verify(tmp_path / "a").problems


def test_prune_removes_no_file_that_came_after_its_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "a"
    archive.add(root, LOG, run="r1", tags={"day": "1"})

    def and_then_another_process_adds(place: str | Path) -> Listing:
        listed = listing(place)
        archive.add(place, LOG, run="r1", tags={"baseline": "1"})
        return listed

    monkeypatch.setattr(_prune, "listing", and_then_another_process_adds)
    assert [entry.run for entry in archive.prune(root, tag="day=1", keep="baseline").removed] == ["r1"]
    assert [dict(entry.tags) for entry in archive.entries(root, run="r1")] == [{"baseline": "1", "day": "1"}]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_at_any_moment_leaves_whole_files_alone(tmp_path: Path) -> None:
    folder = sources(tmp_path / "sources", 20)
    for pause in (0.03, 0.13, 0.29):
        process = adding(tmp_path / "a", folder, 0, 20)
        go(process)
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=300)
        assert not archive.verify(tmp_path / "a").problems
    process = adding(tmp_path / "a", folder, 0, 20)
    go(process)
    assert done(process) == [0]
    assert len(archive.entries(tmp_path / "a")) == 20


def test_a_workspace_that_another_process_takes_for_a_dead_one_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the folder and its lock another process can lock it, and remove it."""
    acquire = FileLock.acquire
    taken: list[Path] = []

    def late(self: FileLock, *args: Any, **kwargs: Any) -> object:
        lock = Path(self.lock_file)
        if lock.parent.name.startswith(".adding-") and len(taken) < 2:
            taken.append(lock.parent)
            if len(taken) == 2:
                raise Timeout(self.lock_file)  # the other one has it
            shutil.rmtree(lock.parent)  # the other one had it
            raise FileNotFoundError(self.lock_file)
        return acquire(self, *args, **kwargs)

    monkeypatch.setattr(FileLock, "acquire", late)
    archive.add(tmp_path / "a", LOG)
    assert len(taken) == 2
    found = archive.verify(tmp_path / "a")
    assert (found.files, found.problems, found.leftovers) == (1, (), ())


def test_the_workspace_of_another_user_does_not_stop_an_add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an archive of a group: nobody else can look into the private folder of an add, running or killed."""
    lock = tmp_path / "a" / ".adding-of-another-user" / _store._lock_name()
    lock.parent.mkdir(parents=True)
    is_file = Path.is_file

    def refused(self: Path) -> bool:  # root may read every folder, so permissions alone would show nothing
        if self == lock:
            raise PermissionError(13, "Permission denied", str(self))
        return is_file(self)

    monkeypatch.setattr(Path, "is_file", refused)
    assert archive.add(tmp_path / "a", LOG).new
    assert lock.parent.is_dir()


def test_a_folder_of_runs_that_may_not_be_read_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.add(tmp_path / "a", LOG, run="same", date="2026-01-01")
    iterdir = Path.iterdir

    def refused(self: Path) -> Iterator[Path]:
        if self.parent.name == "date=2026-01-01":
            raise PermissionError(13, "Permission denied", str(self))
        return iterdir(self)

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(InputError, match=r"date=2026-01-01.*cannot be read \(Permission denied\)"):
        archive.add(tmp_path / "a", LOG, run="same", tags={"new": "1"})


def with_two_files_of_one_entry(folder: Path) -> tuple[Path, Entry]:
    """Return an archive over which another one was copied, and the other one's entry."""
    root, copy = folder / "a", folder / "b"
    for each, tag in ((root, "one"), (copy, "other")):
        archive.add(each, LOG, run="same", tags={tag: "1"})
    shutil.copytree(copy, root, dirs_exist_ok=True)
    [entry] = archive.entries(copy)
    return root, entry


@pytest.mark.parametrize("error", [FileNotFoundError, InputError])
def test_a_revision_that_goes_while_it_is_read_is_settled_by_the_later_one(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, entry = with_two_files_of_one_entry(tmp_path)
    interrupted: list[Path] = []

    def write(source: Path, label: Label, part: Path) -> str:
        interrupted.append(source)
        archive.add(root, LOG, run="same", tags={"late": "1"})  # another process: its file has the tags of both
        raise error(f"{source}: no such file")

    settled = settle(open_store(root), "same", entry.id, tmp_path / "part", write)
    assert len(interrupted) == 1
    assert settled is not None
    assert set(settled.tags) == {"one", "other", "late"}


def put_once_more(monkeypatch: pytest.MonkeyPatch, copy: Path) -> list[Path]:
    """Put the next file that is read at its place again, just before it is looked at as a whole; return its path."""
    check = Source.check_unchanged
    replaced: list[Path] = []

    def put_at_that_moment(self: Source, ledger: Ledger, *, exactly: bool) -> None:
        if not replaced:
            replaced.append(self.path)
            Path(shutil.copyfile(self.path, copy)).replace(self.path)
        check(self, ledger, exactly=exactly)

    monkeypatch.setattr(Source, "check_unchanged", put_at_that_moment)
    return replaced


def test_a_file_that_another_process_puts_once_more_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes that settle the same files make the same file, each at its own moment."""
    root, entry = with_two_files_of_one_entry(tmp_path)
    replaced = put_once_more(monkeypatch, tmp_path / "again")

    def write(source: Path, label: Label, part: Path) -> str:
        conversion.convert([source], part, to="parquet", label=lambda *_: label.text(), force=True)
        return "events"

    settled = settle(open_store(root), "same", entry.id, tmp_path / "part", write)
    assert len(replaced) == 1
    assert settled is not None
    assert set(settled.tags) == {"one", "other"}
    assert [each.name for each in archive.entries(root)] == [settled.name]
    assert archive.verify(root).problems == ()


def test_a_file_that_goes_between_the_list_and_its_reading_is_settled_by_the_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "a"
    archive.add(root, LOG, run="same", tags={"one": "1"})
    [entry] = archive.entries(root)
    read: list[str] = []

    def removed_before(store: Store, stored: StoredEntry) -> Entry:
        read.append(stored.name)
        if len(read) == 1:
            monkeypatch.setattr(_settle, "entry_of", entry_of)
            archive.add(root, LOG, run="same", tags={"late": "1"})  # another process: its file takes the place
        return entry_of(store, stored)

    monkeypatch.setattr(_settle, "entry_of", removed_before)
    settled = settle(open_store(root), "same", entry.id, tmp_path / "part", lambda *_: "events")
    assert read == [entry.name]
    assert settled is not None
    assert set(settled.tags) == {"one", "late"}


@pytest.mark.parametrize(
    "listing", [lambda store, _: store.files("events/*"), lambda store, id: files_of(store, "same", id)]
)
def test_a_list_has_the_file_that_took_the_place_of_one_that_went_meanwhile(
    listing: Callable[[Store, str], Sequence[StoredEntry]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "a"
    archive.add(root, LOG, run="same", tags={"one": "1"})
    [before] = archive.entries(root)
    looked_at: list[str] = []
    kind = type(open_store(root))
    stored = kind._stored

    def removed_before(store: Store, name: str) -> StoredEntry | None:
        looked_at.append(name)
        if len(looked_at) == 1:
            monkeypatch.setattr(kind, "_stored", stored)
            archive.add(root, LOG, run="same", tags={"late": "1"})  # another process: its file takes the place
        return stored(store, name)

    monkeypatch.setattr(kind, "_stored", removed_before)
    [after] = listing(open_store(root), before.id)
    assert looked_at == [before.name]
    assert after.name != before.name
    assert (root / after.name).is_file()


def test_a_run_is_listed_and_found_by_the_file_that_takes_the_place_of_the_listed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "a"
    entry_id = archive.add(root, LOG, run="same", tags={"one": "1"}).id
    read: list[str] = []

    def replaced_before(store: Store, stored: StoredEntry) -> Entry:
        read.append(stored.name)
        if len(read) % 2:
            # Another process: the list has the file of before.
            archive.add(root, LOG, run="same", tags={f"late{len(read)}": "1"}, date=f"2026-01-{len(read):02}")
        return entry_of(store, stored)

    monkeypatch.setattr(_list, "entry_of", replaced_before)
    assert [set(entry.tags) for entry in archive.entries(root)] == [{"one", "late1"}]
    assert set(archive.find(root, entry_id).tags) == {"one", "late1", "late3"}
    assert len(read) == 4


def test_verify_checks_the_file_that_takes_the_place_of_the_one_that_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "a"
    archive.add(root, LOG, run="same", tags={"one": "1"})
    inspect = pipeline.inspect
    inspected: list[Path] = []

    def replaced_before(path: Path, options: InputOptions) -> object:
        inspected.append(path)
        if len(inspected) == 1:
            archive.add(root, LOG, run="same", tags={"late": "1"})  # another process
        return inspect(path, options)

    monkeypatch.setattr(pipeline, "inspect", replaced_before)
    found = archive.verify(root)
    assert (found.files, found.events, found.problems, found.leftovers) == (1, 38, (), ())
    assert len(set(inspected)) == 2


def test_verify_reads_a_file_again_that_another_process_puts_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "a"
    archive.add(root, LOG, run="same", tags={"one": "1"})
    replaced = put_once_more(monkeypatch, tmp_path / "again")
    found = archive.verify(root)
    assert (len(replaced), found.files, found.problems) == (1, 1, ())


def test_verify_takes_two_files_that_are_one_a_moment_later_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = with_two_files_of_one_entry(tmp_path)
    assert [problem.code for problem in archive.verify(root).problems] == ["twice"]
    came = _verify._came_meanwhile

    def settled_before(store: Store, checked: dict[str, Entry | Problem | None]) -> list[StoredEntry]:
        archive.add(root, LOG, run="same")  # the add of another process ends
        return came(store, checked)

    monkeypatch.setattr(_verify, "_came_meanwhile", settled_before)
    found = archive.verify(root)
    assert (found.files, found.events, found.problems, found.leftovers) == (1, 38, (), ())


@pytest.mark.parametrize(
    ("error", "sentence"),
    [(errno.ENOENT, "removed or replaced while the query ran"), (errno.ELOOP, "an archived file cannot be read")],
)
def test_a_file_that_goes_while_the_query_runs_is_not_damaged(
    error: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    for run in ("r", "s"):
        done = archive.add(tmp_path / "a", LOG, run=run)
    locked = _engine.locked

    def removed_before(tables: QueryTables, temporary: str) -> _engine.Connection:
        Path(done.path).unlink()  # an add or a prune of another process
        if error == errno.ELOOP:
            Path(done.path).symlink_to(tmp_path / "loop")
            (tmp_path / "loop").symlink_to("loop")
        return locked(tables, temporary)

    monkeypatch.setattr(_engine, "locked", removed_before)
    with pytest.raises(InputError, match=sentence):
        query(tmp_path / "a", "SELECT count(name) FROM events")


def test_an_entry_whose_day_changes_while_it_is_listed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "a"
    archive.add(root, LOG, run="same", tags={"one": "1"})
    [entry] = archive.entries(root)
    listed: list[list[StoredEntry]] = []

    def without(store: Store, run: str, entry_id: str) -> list[StoredEntry]:
        listed.append(files_of(store, run, entry_id) if listed else [])
        return listed[-1]

    monkeypatch.setattr(_settle, "files_of", without)
    settled = settle(open_store(root), "same", entry.id, tmp_path / "part", lambda *_: "events")
    assert settled == entry


def test_an_error_that_no_other_process_explains_is_an_error(tmp_path: Path) -> None:
    root, entry = with_two_files_of_one_entry(tmp_path)

    def write(source: Path, label: Label, part: Path) -> str:
        raise InputError(f"{source}: damaged")

    with pytest.raises(InputError, match="damaged"):
        settle(open_store(root), "same", entry.id, tmp_path / "part", write)
    assert {tag for entry in archive.entries(root) for tag in entry.tags} == {"one", "other"}

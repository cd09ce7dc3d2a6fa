"""The cache of `tracekit open`: what is the same is not made twice, and what differs is never mixed up."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from small_limits import Limit, small

from tracekit.inputs import Input
from tracekit.viewer import cache
from tracekit.viewer.cache import Made
from tracekit.viewer.inputs import key_of, state


class Maker:
    """Makes files, and counts them."""

    def __init__(self, text: str = "made", *, keep: bool = True) -> None:
        self.text, self.keep, self.count = text, keep, 0

    def __call__(self, target: Path) -> Made:
        self.count += 1
        target.write_text(self.text, encoding="utf-8")
        return Made(target, [f"said {self.count}"], keep=self.keep)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = cache.cache_folder()
    assert found is not None
    assert tmp_path in found.parents
    return found


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_made_once_and_says_the_same_each_time(folder: Path) -> None:
    make = Maker()
    for _ in range(3):
        with cache.entry(folder, "k", "run.html", make) as made:
            assert (made.path.read_text(), made.said) == ("made", ["said 1"])
            assert made.path == folder / "k" / "run.html"
    assert (make.count, names(folder)) == (1, {"k"})


def test_another_key_or_name_is_another_file(folder: Path) -> None:
    for key, name, text in (("k", "a", "1"), ("l", "a", "2"), ("l", "b", "3")):
        with cache.entry(folder, key, name, Maker(text)) as made:
            assert made.path.read_text() == text


def test_what_must_not_be_kept_is_gone_afterwards(folder: Path) -> None:
    for key, keep in (("k", False), ("", True)):
        with cache.entry(folder, key, "a", Maker(keep=keep)) as made:
            assert made.path.exists()
        assert names(folder) == set()
    with cache.entry(None, "k", "a", Maker()) as made:
        assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    assert not made.path.parent.exists()


def test_a_failure_leaves_nothing(folder: Path) -> None:
    def fail(target: Path) -> Made:
        target.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), cache.entry(folder, "k", "a", fail):
        pass
    assert names(folder) == set()


def test_folders_and_files_are_for_the_user_alone(folder: Path) -> None:
    with cache.entry(folder, "k", "a", Maker()) as made:
        assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert cache.cache_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_of_somebody_else_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder.rmdir()
    (tmp_path / "theirs").mkdir()
    folder.symlink_to(tmp_path / "theirs")
    assert cache.cache_folder() is None
    folder.unlink()
    folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: os.stat(folder).st_uid + 1)
    assert cache.cache_folder() is None


def test_without_a_place_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache.cache_folder() is None


def test_a_damaged_entry_is_made_again(folder: Path) -> None:
    with cache.entry(folder, "k", "a", Maker()):
        pass
    (folder / "k" / "said.json").write_text("{")
    make = Maker("again")
    with cache.entry(folder, "k", "a", make) as made:
        assert made.path.read_text() == "again"
    assert make.count == 1


def test_of_two_makers_at_the_same_time_one_wins(folder: Path) -> None:
    def slow(target: Path) -> Made:
        with cache.entry(folder, "k", "a", Maker("quick")):
            pass
        return Maker("slow")(target)

    with cache.entry(folder, "k", "a", slow) as made:
        assert made.path.read_text() == "quick"
    assert names(folder) == {"k"}


def test_the_oldest_go_first_when_there_is_too_much(folder: Path) -> None:
    for number in range(5):
        with cache.entry(folder, f"k{number}", "a", Maker("x" * 1000)):
            pass
        os.utime(folder / f"k{number}", (number, number))
    with cache.entry(folder, "k0", "a", Maker()):  # used again: the newest now
        pass
    cache.prune(folder, most_bytes=1 << 30, most_entries=4)
    assert names(folder) == {"k0", "k2", "k3", "k4"}
    cache.prune(folder, most_bytes=3000)
    assert names(folder) == {"k0", "k4"}
    cache.prune(folder, spare="k4", most_bytes=0)
    assert names(folder) == {"k4"}


def test_what_is_too_large_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.KEPT_TRACE_BYTES, 100)
    with cache.entry(folder, "k", "a", Maker("x" * 1000)) as made:
        assert made.path.stat().st_size == 1000
    assert names(folder) == set()


def test_the_rest_of_a_killed_maker_goes_after_a_day(folder: Path) -> None:
    for name, age in ((".new", 0), (".old", 90_000)):
        (folder / name).mkdir()
        at = (folder / name).stat().st_mtime - age
        os.utime(folder / name, (at, at))
    with cache.entry(folder, "k", "a", Maker()):
        assert names(folder) == {"k", ".new"}


def test_the_key_is_of_all_that_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("1")
    Path("b.csv").write_text("1")

    def key(*names: str, label: str = "", kind: str = "page", **options: object) -> str:
        return key_of([Input(name, label) for name in names], kind, options)  # type: ignore[arg-type]

    first = key("a.csv")
    assert first == key("a.csv")
    others = [key("b.csv"), key("a.csv", "b.csv"), key("a.csv", "a.csv"), key("a.csv", label="x"),
              key("a.csv", kind="trace"), key("a.csv", name="x"), key("a.csv", kind_=["x"])]  # fmt: skip
    monkeypatch.setenv("TRACEKIT_KERNEL_CLASSES", "classes.toml")
    Path("classes.toml").write_text("1")
    others.append(key("a.csv"))
    Path("classes.toml").write_text("2")
    others.append(key("a.csv"))
    monkeypatch.delenv("TRACEKIT_KERNEL_CLASSES")
    Path("a.csv-wal").write_text("of a database")
    others.append(key("a.csv"))
    Path("a.csv-wal").unlink()
    assert first == key("a.csv")
    before = os.stat("a.csv")
    Path("a.csv").write_text("2")  # the same size, and the same times
    os.utime("a.csv", ns=(before.st_atime_ns, before.st_mtime_ns))
    others.append(key("a.csv"))
    assert len({first, *others}) == 1 + len(others)
    assert all(len(each) == 64 for each in others)


def test_what_cannot_be_read_twice_has_no_key(tmp_path: Path) -> None:
    assert key_of([Input("-")], "page", {}) == key_of([Input("s3://bucket/run.csv")], "page", {}) == ""
    os.mkfifo(tmp_path / "pipe")
    assert key_of([Input(str(tmp_path / "pipe"))], "page", {}) == ""
    assert state([Input("-")]) == []

"""Unfinished files and folders: those of a killed process go with the next process, those in use stay."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support import ROOT

from tracekit.errors import OutputError
from tracekit.safety import unfinished
from tracekit.safety.scratch import scratch_folder
from tracekit.safety.unfinished import remove_dead, temporary_folder, unfinished_file, unfinished_folder
from tracekit.writers.base import new_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no locks of files")

_DIES = """
import os, sys
from pathlib import Path
from tracekit.safety.unfinished import temporary_folder, unfinished_file, unfinished_folder
here = Path(sys.argv[1])
made = [unfinished_file(here / "a.json"), unfinished_folder(here / "a.otf2"), temporary_folder("tracekit-sort-", here)]
(made[1].path / "file").write_text("x")
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def looks_again() -> None:
    remove_dead.cache_clear()


def left_by_a_killed_process(folder: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-c", _DIES, str(folder)], cwd=ROOT, check=False, timeout=300)
    assert done.returncode == -9
    return sorted(path.name for path in folder.iterdir())


def test_the_next_process_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    assert len(left_by_a_killed_process(tmp_path)) == 3
    with unfinished_file(tmp_path / "b.json") as mine:
        os.close(mine.handle)
        assert list(tmp_path.iterdir()) == [mine.path]
    assert not list(tmp_path.iterdir())


def test_what_others_use_or_have_made_stays(tmp_path: Path) -> None:
    with unfinished_file(tmp_path / "a") as file, unfinished_folder(tmp_path / "b") as folder:
        os.close(file.handle)
        (tmp_path / ".a.0123abcd-01234567.part").write_text("of another host")
        (tmp_path / "tracekit-profile").mkdir()
        (tmp_path / f"link-{folder.path.name}").symlink_to(folder.path)
        before = sorted(tmp_path.iterdir())
        # Another process, since the lock of this one does not stop itself.
        script = (
            "import sys; from pathlib import Path; from tracekit.safety.unfinished import remove_dead\n"
            "remove_dead(Path(sys.argv[1]))"
        )
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=True, timeout=300)
        assert sorted(tmp_path.iterdir()) == before


def test_a_file_without_an_owner_goes_and_one_with_a_name_stays(tmp_path: Path) -> None:
    made = unfinished_file(tmp_path / "a")
    os.close(made.handle)
    del made
    assert not list(tmp_path.iterdir())
    with unfinished_file(tmp_path / "a") as kept:
        os.close(kept.handle)
        kept.path.rename(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_forked_child_removes_nothing_of_its_parent(tmp_path: Path) -> None:
    with temporary_folder("tracekit-", tmp_path) as folder:
        script = (
            "import os, sys; from pathlib import Path; from tracekit.safety.unfinished import temporary_folder\n"
            "made = temporary_folder('tracekit-', Path(sys.argv[1]))\n"
            "if os.fork(): os.wait(); print(made.path.is_dir())\n"
        )
        command = [sys.executable, "-c", script, str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, check=True, timeout=300, capture_output=True, text=True)
        assert done.stdout == "True\n"
        assert list(tmp_path.iterdir()) == [folder.path]


def test_without_locks_nothing_of_others_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by_a_killed_process(tmp_path)
    monkeypatch.setattr(unfinished, "_locks", lambda: None)
    with scratch_folder(within=tmp_path), new_file(tmp_path / "out", force=False) as file:
        file.write(b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*left, "out"])


def test_many_writers_into_one_folder_do_not_meet(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for turn in range(20):
                remove_dead.cache_clear()
                with new_file(tmp_path / f"{number}", force=turn > 0) as file:
                    file.write(b"%d" % turn)
        except BaseException as err:  # noqa: BLE001
            failed.append(err)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"19"}


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=re.escape(f"{tmp_path / 'no'}: no such folder")):
        new_file(tmp_path / "no" / "a", force=False).__enter__()

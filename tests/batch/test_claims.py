"""Owners and claims: living batches keep theirs, and those of dead batches are removed."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from doors.stores import Owner
from small_limits import Limit, small

from tracekit.errors import OutputError

_LIVES = """
import sys
from pathlib import Path
from tracekit.batch._store import Owner
with Owner(Path(sys.argv[1])) as owner:
    print(owner.name, owner.claim("run"), flush=True)
    sys.stdin.readline()
"""


def living(work: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _LIVES, str(work)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    name, claimed = process.stdout.readline().split()
    assert claimed == "True"
    return process, name


def test_a_claim_belongs_to_one_owner_until_it_is_released(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as one, Owner(work) as two:
        assert one.claim("a")
        assert one.claim("a")
        assert not two.claim("a")
        assert two.claim("b")
        one.release("a")
        assert two.claim("a")
    assert not work.exists()


def test_the_end_of_an_owner_releases_its_claims_alone(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as one:
        assert one.claim("a")
        with Owner(work) as two:
            assert two.claim("b")
        assert one.claim("b")
        with Owner(work) as three:
            assert not three.claim("a")


def test_another_process_keeps_its_claim_and_folder_until_it_is_killed(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as owner:
        process, name = living(work)
        assert owner.clear() == []
        assert (work / name).is_dir()
        assert not owner.claim("run")
        process.kill()
        process.communicate()
        assert owner.claim("run")
        assert owner.clear() == [name]
        assert not (work / name).exists()
    assert not work.exists()


def test_clearing_removes_the_claims_of_a_killed_process(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as owner:
        process, name = living(work)
        process.kill()
        process.communicate()
        assert owner.clear() == [name]
        assert list(work.glob("*.claim")) == []


def test_clearing_keeps_our_own_claims_and_folder(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as owner, Owner(work) as other:
        assert owner.claim("run")
        assert owner.clear() == []
        assert owner.folder.is_dir()
        assert not other.claim("run")


def test_a_batch_of_another_machine_is_dead_after_a_time_without_a_refresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, Limit.CLAIM_DEAD_AFTER_S, 1.0)
    small(monkeypatch, Limit.CLAIM_REFRESH_S, 0.3)
    work = tmp_path / ".work"
    with Owner(work) as owner:
        with Owner(work) as far:
            assert far.claim("run")
            left = {path.name: path.read_text() for path in (work / f"{far.name}.owner", work / "run.claim")}
        for name, text in left.items():
            (work / name).write_text(text.replace(socket.gethostname(), "elsewhere"))
        (work / far.name).mkdir()
        assert not owner.claim("run")
        assert owner.clear() == []
        end = time.monotonic() + 20
        while not owner.claim("run") and time.monotonic() < end:
            time.sleep(0.1)
        assert owner.claim("run")
        assert owner.clear() == [far.name]
    assert not work.exists()


def test_a_living_batch_refreshes_its_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.CLAIM_DEAD_AFTER_S, 1.0)
    small(monkeypatch, Limit.CLAIM_REFRESH_S, 0.2)
    work = tmp_path / ".work"
    with Owner(work) as one, Owner(work) as two:
        assert one.claim("run")
        begin = (work / "run.claim").stat().st_mtime_ns
        end = time.monotonic() + 20
        while (work / "run.claim").stat().st_mtime_ns == begin and time.monotonic() < end:
            time.sleep(0.05)
        assert (work / "run.claim").stat().st_mtime_ns > begin
        assert not two.claim("run")


def test_holding_waits_until_the_claim_is_released(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as owner:
        process, _ = living(work)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        with owner.hold("run"), Owner(work) as other:
            assert not other.claim("run")
        process.communicate(timeout=30)
        with Owner(work) as other:
            assert other.claim("run")


def test_foreign_files_are_kept(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as owner:
        (work / "notes").mkdir()
        (work / "notes.txt").write_text("mine", encoding="ascii")
        assert owner.clear() == []
        assert (work / "notes").is_dir()
    assert (work / "notes.txt").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OutputError, match="cannot be written"), Owner(tmp_path / "file" / ".work"):
        pass

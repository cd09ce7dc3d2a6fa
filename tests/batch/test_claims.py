"""Owners and claims: what the living have is theirs, what the dead left is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit.batch._claims import DEAD_AFTER_S, Owner

_LIVES = """
import sys
from pathlib import Path
from tracekit.batch._claims import Owner
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


def test_a_claim_belongs_to_one_owner_until_it_is_given_back(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as one, Owner(work) as two:
        assert one.claim("a")
        assert one.claim("a")
        assert not two.claim("a")
        assert two.claim("b")
        one.release("a")
        assert two.claim("a")
    assert not work.exists()


def test_the_end_of_an_owner_gives_back_its_claims_alone(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as one:
        assert one.claim("a")
        with Owner(work) as two:
            assert two.claim("b")
        assert one.claim("b")
        with Owner(work) as three:
            assert not three.claim("a")


def test_another_process_keeps_what_it_has_while_it_lives_and_not_after_a_kill(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as owner:
        process, name = living(work)
        assert owner.clear() == []
        assert not owner.claim("run")
        process.kill()
        process.communicate()
        assert owner.claim("run")
        assert owner.clear() == [name]
        assert not (work / name).exists()
    assert not work.exists()


@pytest.mark.parametrize("host", ["elsewhere-1", "other"])
def test_an_owner_of_another_machine_is_dead_when_it_was_silent_for_long(tmp_path: Path, host: str) -> None:
    work = tmp_path / ".work"
    name = f"{host}.1.12345.0123abcd"
    with Owner(work) as owner:
        (work / name).mkdir()
        (work / name / "alive").touch()
        (work / "run.claim").write_text(name, encoding="ascii")
        assert not owner.claim("run")
        assert owner.clear() == []
        before = (work / name / "alive").stat().st_mtime - DEAD_AFTER_S - 5
        os.utime(work / name / "alive", (before, before))
        assert owner.claim("run")
        assert owner.clear() == [name]


def test_a_process_that_took_over_the_number_of_a_dead_one_is_another(tmp_path: Path) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system does not tell when a process began")
    work = tmp_path / ".work"
    with Owner(work) as owner:
        host = owner.name.split(".")[0]
        (work / f"{host}.{os.getpid()}.1.0123abcd").mkdir()
        assert owner.clear() == [f"{host}.{os.getpid()}.1.0123abcd"]


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    with Owner(work) as owner:
        (work / "notes").mkdir()
        (work / "notes.txt").write_text("mine", encoding="ascii")
        assert owner.clear() == []
        assert (work / "notes").is_dir()
    assert (work / "notes.txt").exists()

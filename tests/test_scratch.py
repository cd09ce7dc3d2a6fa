"""A full temporary folder is named as what is full, by every command that needs one."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from small_limits import Limit, small
from support import LONG_S, sample
from support import run_command as run

from tracekit.errors import ScratchError
from tracekit.safety.scratch import scratch_file, scratch_folder, writing

resource = pytest.importorskip("resource")
NVVP = sample("nvprof-sqlite/version-8.nvvp")
KINETO = sample("kineto/gpu.pt.trace.json")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A file that grows beyond the size is refused, as by a full disk. Python would write cut .pyc files meanwhile."""
    (soft, hard), bytecode = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = bytecode


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    small(monkeypatch, Limit.SORT_ROWS, 2)
    return folder


def packed(folder: Path) -> Path:
    path = folder / "a.nvvp.gz"
    path.write_bytes(gzip.compress(NVVP.read_bytes()))
    return path


def unordered(folder: Path) -> Path:
    path = folder / "a.json"
    events = [{"ph": "X", "name": f"k{i}", "ts": 99 - i, "dur": 1, "pid": 1, "tid": 1} for i in range(99)]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.parametrize(
    "words",
    [
        "inspect {packed}",
        "summary {packed}",
        "report {packed} -o {out}.html",
        "convert {packed} -o {out}.json",
        "doctor {packed}",
        "explain {packed} kernel.total device.kernel_time",
        "compare {packed} {packed}",
        "archive add {out} {packed}",
        "convert {unordered} -o {out}.json",
        "convert {kineto} -o {out}.kvp",
        "convert {kineto} -o {out}.pb --to paddle-pb",
        "convert {kineto} -o - --to jsonl",
        "query {packed} SELECT",
        "query {kineto} SELECT",
    ],
)
def test_a_full_temporary_folder_is_what_the_error_names(words: str, tmp_path: Path, scratch: Path) -> None:
    places = {"packed": packed(tmp_path), "unordered": unordered(tmp_path), "kineto": KINETO, "out": tmp_path / "out"}
    list_of_words = words.format(**places).replace("SELECT", "SELECT|name|FROM|events").split()
    with files_of_at_most(1024):
        done = run(*[word.replace("|", " ") for word in list_of_words], code=1)
    assert f"error: {scratch}: the temporary folder takes no file of this size (`ulimit -f`)" in done.stderr
    assert "hint: raise that limit, or let TMPDIR name another folder" in done.stderr
    assert "not a known profile format" not in done.stderr
    assert not list(scratch.iterdir())
    assert not [path for path in tmp_path.glob("out*") if path.is_file()]


def test_stdin_that_does_not_fit_is_not_the_input_s_fault(tmp_path: Path) -> None:
    script = f"ulimit -f 1; exec {sys.executable} -m tracekit inspect - < {KINETO}"
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, timeout=LONG_S, env=environment, check=False
    )
    assert done.returncode == 1
    assert f"error: {tmp_path}: the temporary folder takes no file" in done.stderr


def test_no_temporary_folder_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    with pytest.raises(ScratchError, match="no temporary folder can be written"), scratch_folder():
        pass


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("ENOSPC", "full"),
        ("EDQUOT", "quota"),
        ("EROFS", "read-only"),
        ("EACCES", "permission"),
        ("EIO", "cannot be"),
    ],
)
def test_each_failure_has_its_words(number: str, said: str, scratch: Path) -> None:
    import errno

    with scratch_folder() as folder, pytest.raises(ScratchError, match=said) as raised, writing(folder):
        raise OSError(getattr(errno, number), os.strerror(getattr(errno, number)))
    assert str(raised.value).startswith(f"{scratch}: the temporary folder ")
    assert "TMPDIR" in raised.value.hint or "space" in raised.value.hint


def test_what_was_written_is_read_back(scratch: Path) -> None:
    with scratch_folder() as folder:
        with scratch_file(folder / "a") as file:
            file.write(b"abc" * 10_000)
            file.seek(3)
            assert file.read(3) == b"abc"
        assert folder.parent == scratch
    assert not list(scratch.iterdir())

"""Batches as processes that die, are killed, interrupted, or share a folder: same results, nothing left behind."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from batch_trees import Here, content, finished, started, tree, undisturbed
from support import wait_until

from tracekit import batch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A tree, and what an undisturbed batch makes of it."""
    folder = tmp_path_factory.mktemp("whole")
    root = tree(folder / "tree", 12)
    return root, undisturbed(root, folder / "out")


def test_a_worker_that_dies_costs_its_run_alone_and_is_tried_again_by_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, out = tree(tmp_path / "tree", 4), tmp_path / "out"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import os, sys\n"
        "def look(event, args):\n"
        "    if event == 'open' and str(args[0]).endswith('theano-1.0.5.txt') and 'spawn_main' in str(sys.orig_argv):\n"
        f"        fd = os.open({str(tmp_path / 'deaths')!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        "        os.write(fd, b'x')\n"
        "        os.kill(os.getpid(), 9)\n"
        "sys.addaudithook(look)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    made = batch.run([root], out, jobs=2)
    assert [name for name, _ in made.failed] == ["theano/2026-01-01"]
    assert "died twice" in made.failed[0][1][0]
    assert (tmp_path / "deaths").read_bytes() == b"xx"
    monkeypatch.delenv("PYTHONPATH")
    with monkeypatch.context() as patch:
        patch.setattr(batch, "LocalEngine", Here)
        again = batch.run([root], out)
    assert again.done == {"retry": 1}
    assert again.is_whole
    assert content(out) == undisturbed(root, tmp_path / "clean")


def wait_for_results(out: Path, count: int, process: subprocess.Popen[str]) -> None:
    wait_until(lambda: process.poll() is not None or len(list(out.glob("runs/*/result.json"))) >= count)


def test_kills_at_random_moments_leave_nothing_and_change_nothing(
    whole: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    root, expected = whole
    out = tmp_path / "out"
    moments = random.Random(int.from_bytes(tmp_path.name.encode()[-4:]))
    killed = 0
    for results in (0, 2, 6):  # before anything is done, and while workers are at it
        process = started(root, "-o", out, "--jobs", "2")
        wait_for_results(out, results, process)
        try:
            finished(process, timeout=moments.uniform(0.01, 0.7))
        except subprocess.TimeoutExpired:
            process.kill()
            finished(process)
            killed += 1
    code, said = finished(started(root, "-o", out, "--jobs", "2"))
    assert code == 3, said  # one run is broken
    assert killed
    assert content(out) == expected
    assert not (out / ".work").exists()


def test_ctrl_c_stops_cleanly_and_keeps_what_is_done(
    whole: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, expected = whole
    out = tmp_path / "out"
    process = started(root, "-o", out, "--jobs", "2")
    wait_for_results(out, 1, process)
    process.send_signal(signal.SIGINT)
    code, said = finished(process)
    assert code == 130
    assert "Traceback" not in said
    assert not (out / ".work").exists()
    kept = len(list(out.glob("runs/*/result.json")))
    assert kept >= 1
    monkeypatch.setattr(batch, "LocalEngine", Here)
    again = batch.run([root], out)
    assert again.unchanged == kept
    assert content(out) == expected


def test_two_batches_on_one_folder_share_the_work(whole: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    root, expected = whole
    out = tmp_path / "out"
    pair = [started(root, "-o", out, "--jobs", "1") for _ in range(2)]
    ended = [finished(process) for process in pair]
    assert [code for code, _ in ended] == [3, 3], ended
    assert content(out) == expected
    assert not (out / ".work").exists()


def test_ctrl_c_stays_blocked_while_the_first_process_starts() -> None:
    # multiprocessing's own helper process lets SIGINT through again when it starts: the first worker, in the middle of
    # its imports, then printed a traceback. A fresh interpreter, since it starts only once.
    script = (
        "import signal\nfrom multiprocessing import resource_tracker\nfrom tracekit.workers import local\n"
        "with local._no_interrupt():\n"
        "    resource_tracker.ensure_running()\n"
        "    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == ["True"]

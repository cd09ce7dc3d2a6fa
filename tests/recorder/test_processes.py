"""Other processes: forked, spawned, ranked; and what importing the recorder costs them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from recorder.programs import logs, run
from recorder.reading import read_log

HEAVY = ("pandas", "numpy", "pyarrow", "jinja2", "typer", "nvtx", "asyncio", "duckdb")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def test_importing_the_recorder_loads_nothing_heavy(tmp_path: Path) -> None:
    done = run(tmp_path, f"import sys, tracekit.recorder; print([m for m in {HEAVY!r} if m in sys.modules])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_log_without_nvtx_loads_nothing_heavy_either(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import sys
        from tracekit import recorder
        recorder.start("run.jsonl", nvtx=False)
        with recorder.range("x", payload={"a": 1}): pass
        recorder.stop()
        print([m for m in ("pandas", "numpy", "pyarrow", "jinja2", "typer", "nvtx") if m in sys.modules])
        """,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_variable_alone_starts_it_and_the_exit_stops_it(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "from tracekit import recorder\nwith recorder.range('x'): print(recorder.log_path().name)\n",
        TRACEKIT_LOG="sub/folder/told.jsonl",
    )
    (log,) = logs(tmp_path / "sub" / "folder").values()
    assert log.calls() == {"x": 1}
    assert done.stdout == f"told.pid{log.head['pid']}.jsonl\n"
    assert log.head["process"] == "program.py"
    assert log.head["command"] == ["program.py"]


def test_a_variable_that_cannot_be_followed_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(
        tmp_path,
        "from tracekit import recorder\nwith recorder.range('x'): print('goes on')\n",
        TRACEKIT_LOG="file/run.jsonl",
    )
    assert (done.returncode, done.stdout) == (0, "goes on\n")
    assert done.stderr.startswith("tracekit.recorder: not recording: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("variables", "rank", "size"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "5"}, 3, 8),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "16"}, 5, 16),
        ({"PADDLE_TRAINER_ID": "2", "PADDLE_TRAINERS_NUM": "4", "SLURM_PROCID": "0"}, 2, 4),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, 0, 2),
        ({"RANK": "x"}, None, None),
    ],
)
def test_rank_and_world_size_come_from_the_launcher(
    tmp_path: Path, variables: dict[str, str], rank: int | None, size: int | None
) -> None:
    done = run(tmp_path, "from tracekit import recorder\nrecorder.start('run.jsonl', nvtx=False)", **variables)
    assert done.stderr == ""
    (log,) = logs(tmp_path).values()
    assert (log.head.get("rank"), log.head.get("world_size")) == (rank, size)
    part = "" if rank is None else f".rank{rank}"
    assert (tmp_path / f"run{part}.pid{log.head['pid']}.jsonl").exists()


def test_a_log_of_old_is_never_touched_and_the_clock_is_anchored(tmp_path: Path) -> None:
    before = time.time_ns()
    done = run(
        tmp_path,
        """
        from tracekit import recorder
        for n in range(3):
            recorder.start("run.jsonl", nvtx=False, process=f"run {n}")
            with recorder.range(f"range {n}"): pass
        recorder.stop()
        """,
    )
    assert done.stderr == ""
    found = [read_log(path) for path in sorted(tmp_path.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)]
    assert sorted(log.head["process"] for log in found) == ["run 0", "run 1", "run 2"]
    for log in found:
        assert len(log.calls()) == 1
        for perf_ns, epoch_ns, uncertainty_ns in log.clocks:
            assert before < epoch_ns < time.time_ns()
            assert 0 < uncertainty_ns < 50_000_000
            drift = (epoch_ns - log.head["epoch_ns"]) - (perf_ns - log.head["perf_ns"])
            assert abs(drift) < 100_000_000


@needs_fork
def test_a_fork_in_the_middle_of_a_range_leaves_both_files_right(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import os, threading, time
        from tracekit import recorder as r

        r.start("run.jsonl", nvtx=False)
        kept = r.range("kept")
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                with r.range("busy"): pass
        thread = threading.Thread(target=busy); thread.start()
        with r.range("around", payload=1), kept, r.step(4):
            r.push("pushed")
            opened = r.start_range("started")
            child = os.fork()
            if child == 0:
                with r.range("child's"), kept: time.sleep(0.05)
                with r.range("again", payload=2): pass
            r.end_range(opened)
            if child:
                r.pop()
        with r.range("after"): pass
        if child == 0:
            r.stop()
            os._exit(0)
        silent = os.fork()
        if silent == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0 and os.waitpid(silent, 0)[1] == 0
        stop.set(); thread.join()
        r.stop()
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = logs(tmp_path)
    assert len(found) == 2, "a child that records nothing has no file"
    (parent,) = [log for log in found.values() if "forked" not in log.head]
    (child,) = [log for log in found.values() if log.head.get("forked")]
    assert child.head["parent_pid"] == parent.head["pid"]
    calls = parent.calls()
    assert calls.pop("busy") > 0
    assert calls == {"around": 1, "kept": 1, "step": 1, "pushed": 1, "started": 1, "after": 1}
    assert child.calls() == {"child's": 1, "kept": 1, "again": 1, "after": 1}
    for log in found.values():
        assert not any(seen.unfinished for seen in log.ranges + log.overlapping)
        assert not log.notes


@needs_fork
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_each_write_a_whole_log(tmp_path: Path, method: str) -> None:
    done = run(
        tmp_path,
        f"""
        import multiprocessing
        from tracekit import recorder as r

        def work(n):
            with r.range("work", payload=n): pass
            return n

        if __name__ == "__main__":
            r.start("run.jsonl", nvtx=False)
            with r.range("all"):
                workers = [multiprocessing.get_context({method!r}).Process(target=work, args=(n,), name=f"worker {{n}}")
                           for n in range(3)]
                [w.start() for w in workers]
                [w.join() for w in workers]
            assert [w.exitcode for w in workers] == [0, 0, 0]
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = logs(tmp_path, clean=method != "forkserver")  # the server itself ends by a signal
    by_name = {log.head["process"]: log for log in found.values() if log.ranges}
    assert set(by_name) == {"program.py", "worker 0", "worker 1", "worker 2"}
    assert by_name["program.py"].calls() == {"all": 1}
    for n in range(3):
        assert [(seen.name, seen.payload) for seen in by_name[f"worker {n}"].ranges] == [("work", n)]
    assert all(log.ended for log in by_name.values())

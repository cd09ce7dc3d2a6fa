"""`tracekit record -- program`: the program runs as it does alone, and each process with events leaves a log."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest
from recorder.programs import environment
from recorder.reading import Log, read_log
from support import LONG_S, missing

RECORD = [sys.executable, "-P", "-m", "tracekit", "record"]
PLAIN = "--no-summary"
RANGES = """
    from tracekit import recorder
    for n in range(5):
        with recorder.range("work", payload=n):
            pass
"""
unix = pytest.mark.skipif(os.name != "posix", reason="signals are those of Unix")


def write(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def ran(folder: Path, words: list[str], *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = environment(**variables) | {"PYTHONWARNINGS": ""}
    command = [*RECORD, *options, "--", *words] if options else words
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=LONG_S, check=False)


def recorded(folder: Path, text: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    write(folder, text)
    return ran(folder, [sys.executable, "program.py"], *(options or (PLAIN,)), **variables)


def logs(folder: Path, *, clean: bool = True) -> list[Log]:
    return [read_log(path, clean=clean) for path in sorted(folder.glob("*.jsonl"))]


def calls(folder: Path, *, clean: bool = True) -> Counter[str]:
    return sum((log.calls() for log in logs(folder, clean=clean)), Counter())


# The program stays what it is

SELF = """
    import json, os, signal, sys, threading
    print(json.dumps([sys.argv, sys.path, sys.orig_argv, __name__, __file__, sys.flags.safe_path]))
    print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), [t.name for t in threading.enumerate()])
    print({k: v for k, v in os.environ.items() if not k.startswith(("TRACEKIT_", "PYTHONPATH"))} == ENVIRON)
    sys.stdout.flush()
    %s
"""


@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "raise ValueError('boo')",
        "sys.exit(7)",
        "sys.exit('bye')",
        "os._exit(9)",
        pytest.param("os.kill(os.getpid(), signal.SIGTERM)", marks=unix),
        pytest.param("os.kill(os.getpid(), signal.SIGINT)", marks=unix),
        pytest.param("__import__('ctypes').string_at(0)", marks=unix),
    ],
)
def test_a_program_behaves_as_it_does_alone(tmp_path: Path, end: str) -> None:
    seen = {key: value for key, value in environment().items() if key not in ("PYTHONPATH", "PYTHONWARNINGS")}
    text = SELF % end
    write(tmp_path, text.replace("ENVIRON", repr(seen | {"PYTHONWARNINGS": ""})))
    words = [sys.executable, "program.py", "--help", "--max-time=3", "-o", "x"]
    alone, beside = ran(tmp_path, words), ran(tmp_path, words, PLAIN)
    assert (beside.returncode, beside.stdout) == (alone.returncode, alone.stdout)
    said = "tracekit record: nothing was recorded"
    assert [line for line in beside.stderr.splitlines() if not line.startswith(said)] == alone.stderr.splitlines()


@pytest.mark.parametrize("way", ["script", "module", "code", "stdin", "folder"])
def test_every_way_to_start_a_program_is_recorded_and_finds_the_same_path(tmp_path: Path, way: str) -> None:
    text = textwrap.dedent(RANGES) + "import sys\nprint(sys.argv, sys.path, __name__)\n"
    write(tmp_path, text, "package/__init__.py") if way == "module" else None
    write(tmp_path, text, {"module": "package/__main__.py", "folder": "folder/__main__.py"}.get(way, "program.py"))
    words = {
        "script": ["program.py", "a"],
        "module": ["-m", "package", "a"],
        "code": ["-c", text, "a"],
        "stdin": ["-", "a"],
        "folder": ["folder", "a"],
    }[way]
    outputs = []
    for command in ([sys.executable, *words], [*RECORD, PLAIN, "--", sys.executable, *words]):
        with (tmp_path / ("program.py" if way == "stdin" else os.devnull)).open("rb") as given:
            done = subprocess.run(command, cwd=tmp_path, env=environment(), stdin=given, capture_output=True, text=True)
        outputs.append((done.returncode, done.stdout))
    assert outputs[0] == outputs[1]
    assert calls(tmp_path)["work"] == (10 if way == "module" else 5)


def test_a_console_script_is_recorded(tmp_path: Path) -> None:
    write(
        tmp_path,
        "from tracekit import recorder\ndef test_it():\n    with recorder.range('in a test'): pass\n",
        "test_it.py",
    )
    done = ran(tmp_path, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"], PLAIN)
    assert done.returncode == 0, done.stdout
    assert calls(tmp_path) == {"in a test": 1}


def test_a_program_with_modules_named_as_those_of_the_recorder_gets_its_own(tmp_path: Path) -> None:
    for name in ("queue", "selectors", "orjson"):
        write(tmp_path, f"print('own {name}')\n", f"{name}.py")
    done = recorded(tmp_path, RANGES + "    import queue, selectors, orjson\n")
    assert done.stdout.splitlines() == ["own queue", "own selectors", "own orjson"]
    assert calls(tmp_path) == {"work": 5}


def test_the_sitecustomize_of_the_environment_runs_as_well(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nif 'program.py' in sys.argv[0]: print('ran')\n", "site/sitecustomize.py")
    path = os.pathsep.join([str(tmp_path / "site"), environment()["PYTHONPATH"]])
    done = recorded(tmp_path, RANGES + "    import sitecustomize; print(sitecustomize.__file__)\n", PYTHONPATH=path)
    assert done.stdout.splitlines() == ["ran", str(tmp_path / "site" / "sitecustomize.py")]
    assert calls(tmp_path) == {"work": 5}


# What ends it

LOOP = """
    import os, signal, sys, time
    from tracekit import recorder
    with recorder.range("work"):
        pass
    time.sleep(0.5)
    print("ready", flush=True)
    %s
"""


@unix
@pytest.mark.parametrize(
    ("end", "code", "complete"),
    [
        ("os._exit(3)", 3, False),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, False),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, False),
        ("__import__('ctypes').string_at(0)", -signal.SIGSEGV, False),
        ("raise KeyboardInterrupt", -signal.SIGINT, True),
        ("sys.exit(4)", 4, True),
    ],
)
def test_whatever_ends_it_leaves_a_log_that_reads_and_says_so(
    tmp_path: Path, end: str, code: int, complete: bool
) -> None:
    done = recorded(tmp_path, LOOP % end, "-o", "run.jsonl")
    assert done.returncode == code
    (log,) = logs(tmp_path, clean=False)
    assert log.calls() == {"work": 1}
    assert (log.ended is not None) == complete
    says_cut = "its process was killed" in done.stderr
    assert says_cut != complete, done.stderr


@unix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_to_the_command_reaches_the_program(tmp_path: Path, number: signal.Signals) -> None:
    handler = f"signal.signal({int(number)}, lambda *_: sys.exit(42)); print('set', flush=True); time.sleep(60)"
    write(tmp_path, LOOP % handler)
    command = [*RECORD, PLAIN, "--", sys.executable, "program.py"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] == ["ready\n", "set\n"]
    process.send_signal(number)
    assert process.wait(LONG_S) == 42
    process.stdout.close()
    assert calls(tmp_path) == {"work": 1}


@unix
def test_ctrl_c_of_a_terminal_reaches_the_program_once(tmp_path: Path) -> None:
    import pty

    text = "n = []\n    signal.signal(signal.SIGINT, lambda *_: n.append(1)); print('set', flush=True); time.sleep(1)"
    write(tmp_path, LOOP % (text + "; time.sleep(0.5); print(len(n))"))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(sys.executable, [*RECORD, PLAIN, "--", sys.executable, "program.py"], environment())
    said = b""
    while b"set" not in said:
        said += os.read(terminal, 1000)
    time.sleep(0.1)
    os.write(terminal, b"\x03")
    while True:
        try:
            part = os.read(terminal, 1000)
        except OSError:
            break
        if not part:
            break
        said += part
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert "1\r\ntracekit record: 1 log" in said.decode(), said
    os.close(terminal)


# Several processes


def test_each_rank_has_a_log_of_its_name(tmp_path: Path) -> None:
    write(tmp_path, RANGES, "work.py")
    launcher = """
        import os, subprocess, sys
        ranks = [{"RANK": str(n), "WORLD_SIZE": "2"} for n in range(2)]
        jobs = [subprocess.Popen([sys.executable, "work.py"], env=os.environ | rank) for rank in ranks]
        sys.exit(sum(job.wait() for job in jobs))
    """
    done = recorded(tmp_path, launcher, PLAIN, "-o", "run.jsonl")
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.glob("run*")) == ["run.rank0.jsonl", "run.rank1.jsonl"]
    assert "2 logs: run.rank0.jsonl, run.rank1.jsonl" in done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_have_logs(tmp_path: Path, method: str) -> None:
    if method == "fork" and not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    program = f"""
        import multiprocessing
        from tracekit import recorder

        def work(n):
            with recorder.range("work"):
                return n

        if __name__ == "__main__":
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                print(pool.map(work, range(4), chunksize=2))
                pool.close()
                pool.join()
    """
    done = recorded(tmp_path, program)
    assert done.stdout == "[0, 1, 2, 3]\n"
    assert calls(tmp_path)["work"] == 4


def test_a_process_without_events_leaves_no_log(tmp_path: Path) -> None:
    done = recorded(tmp_path, "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'])\n")
    assert list(tmp_path.glob("*.jsonl")) == []
    assert "nothing was recorded" in done.stderr
    assert "the 2 Python processes" in done.stderr


# Programs that use the recorder themselves


def test_a_program_with_a_recording_of_its_own_writes_its_log_and_the_rest_goes_to_ours(tmp_path: Path) -> None:
    program = """
        from tracekit import recorder
        with recorder.range("before"): pass
        with recorder.record("own.jsonl") as log:
            with recorder.range("inside"): pass
        recorder.start("own.jsonl")
        with recorder.range("started"): pass
        recorder.stop()
        with recorder.range("behind"): pass
    """
    done = recorded(tmp_path, program, PLAIN, "-o", "run.jsonl")
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path) == {"before": 1, "inside": 1, "started": 1, "behind": 1}
    assert sum(log.calls()["inside"] for log in (read_log(path) for path in tmp_path.glob("own*"))) == 1
    assert "4 logs" in done.stderr


def test_a_log_begins_with_the_first_event_and_has_all_of_it(tmp_path: Path) -> None:
    recorded(tmp_path, "import time\ntime.sleep(0.3)\n" + textwrap.dedent(RANGES))
    (log,) = logs(tmp_path)
    assert [seen.payload for seen in log.ranges] == [0, 1, 2, 3, 4]
    assert log.ranges[0].begin >= log.head["perf_ns"] - 50_000_000


# NVTX, torch, Paddle

NVTX = """
    import nvtx

    @nvtx.annotate("decorated", domain="d")
    def f(n):
        with nvtx.annotate("inner", payload=n, category="c"):
            return n

    @nvtx.annotate()
    def named(): pass

    print([f(n) for n in range(3)], named())
    nvtx.push_range("pushed"); nvtx.pop_range()
    one, two = nvtx.start_range("one"), nvtx.start_range(message="two")
    nvtx.end_range(one); nvtx.end_range(two)
    nvtx.mark("mark")
    try:
        with nvtx.annotate("raises"): raise KeyError(1)
    except KeyError: pass
"""


def test_ranges_of_the_package_nvtx_are_recorded_without_a_tool(tmp_path: Path) -> None:
    pytest.importorskip("nvtx", reason="the package nvtx has no wheel here")
    done = recorded(tmp_path, NVTX)
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2] None\n")
    (log,) = logs(tmp_path)
    expected = {"decorated": 3, "inner": 3, "named": 1, "pushed": 1, "one": 1, "two": 1, "raises": 1}
    assert (log.calls(), [mark.name for mark in log.marks]) == (expected, ["mark"])
    assert [seen.payload for seen in log.ranges if seen.name == "inner"] == [0, 1, 2]
    assert {seen.parent.name for seen in log.ranges if seen.name == "inner"} == {"decorated"}
    assert recorded(tmp_path, NVTX, PLAIN, "--no-nvtx").stdout == done.stdout
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_nvtx_domains_that_cross_are_cut_and_nothing_is_dropped(tmp_path: Path) -> None:
    pytest.importorskip("nvtx", reason="the package nvtx has no wheel here")
    recorded(
        tmp_path,
        "import nvtx\nnvtx.push_range('a', domain='x'); nvtx.push_range('b')\n"
        "nvtx.pop_range(domain='x'); nvtx.pop_range(); nvtx.pop_range()\n",
    )
    (log,) = logs(tmp_path)
    assert log.calls() == {"a": 1, "b": 1}
    assert [seen.unfinished for seen in log.ranges] == [False, True]
    assert log.notes == {"range_crossed": 1}


TRAIN = """
    import torch
    torch.manual_seed(0); torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(net.parameters())
    crit = torch.nn.MSELoss()
    class Rows(torch.utils.data.Dataset):
        def __len__(self): return 20
        def __getitem__(self, n): return torch.full((4,), n / 20), torch.ones(1)
    def main():
        for epoch in range(2):
            for x, y in torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=1):
                optimizer.zero_grad(); loss = crit(net(x), y); loss.backward(); optimizer.step()
            print(loss.item())
        try:
            net(torch.zeros(3, 5))
        except RuntimeError as error:
            print(error)
    if __name__ == "__main__":
        main()
"""


def test_a_torch_program_is_recorded_and_computes_the_same(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        missing("torch is not installed (pip install torch==2.13.0)")
    write(tmp_path, TRAIN)
    words = [sys.executable, "program.py"]
    alone, done = ran(tmp_path, words), ran(tmp_path, words, "-o", "run.jsonl", "--modules", COLUMNS="80")
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    (log,) = logs(tmp_path)
    expected = {
        "step": 6,
        "dataloader": 8,
        "dataloader (start)": 2,
        "forward": 7,
        "loss": 6,
        "backward": 6,
        "optimizer": 6,
    }
    assert {name: log.calls()[name] for name in expected} == expected
    assert log.calls()["2.backward"] == 6
    steps = [seen.payload["num_samples"] for seen in log.overlapping if seen.name == "step"]
    assert steps == [8, 8, 4] * 2
    said = done.stderr.splitlines()
    assert said[0] == "tracekit record: 1 log: run.jsonl"
    assert "of each step" in said[1]
    assert "samples/s" in done.stderr
    assert max(map(len, said)) <= 80


def test_a_paddle_program_is_recorded(tmp_path: Path) -> None:
    if importlib.util.find_spec("paddle") is None:
        missing("Paddle is not installed (pip install paddlepaddle)")
    done = recorded(
        tmp_path,
        """
        import numpy as np, paddle
        class Rows(paddle.io.Dataset):
            def __len__(self): return 20
            def __getitem__(self, n): return np.full(4, n / 20, "float32"), np.ones(1, "float32")
        net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 1))
        optimizer = paddle.optimizer.Adam(parameters=net.parameters())
        crit = paddle.nn.MSELoss()
        for epoch in range(2):
            for x, y in paddle.io.DataLoader(Rows(), batch_size=8)():
                loss = crit(net(x), y); loss.backward(); optimizer.step(); optimizer.clear_grad()
            with paddle.no_grad():
                for x, y in paddle.io.DataLoader(Rows(), batch_size=8): net(x)
        """,
        PLAIN,
        "--modules",
    )
    assert done.returncode == 0, done.stderr
    (log,) = logs(tmp_path)
    expected = {
        "step": 6, "batch": 6, "dataloader": 16, "dataloader (start)": 4, "forward": 12, "loss": 6, "backward": 6,
        "optimizer": 6, "0.forward": 12, "2.forward": 12,
    }  # fmt: skip
    assert {name: log.calls()[name] for name in expected} == expected
    steps = [seen.payload["num_samples"] for seen in log.overlapping if seen.name == "step"]
    assert steps == [8, 8, 4] * 2


# The command


def test_what_is_no_python_is_said_and_runs_all_the_same(tmp_path: Path) -> None:
    done = ran(tmp_path, ["/bin/sh", "-c", "echo hello; exit 3"], PLAIN)
    assert (done.returncode, done.stdout) == (3, "hello\n")
    assert "nothing was recorded: /bin/sh started no Python process" in done.stderr


def test_a_python_that_ignores_its_environment_is_said(tmp_path: Path) -> None:
    write(tmp_path, RANGES)
    done = ran(tmp_path, [sys.executable, "-I", "-c", "print(1)"], PLAIN)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "-I, -E and -S" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "error: no program to record\nhint: tracekit record -- python train.py\n"),
        (["no-such-program-anywhere"], 127, "error: no-such-program-anywhere: command not found\n"),
        (["./program.py"], 2, "hint: tracekit record -- python ./program.py\n"),
    ],
)
def test_what_cannot_be_started_is_an_error(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    write(tmp_path, RANGES)
    done = ran(tmp_path, words, PLAIN)
    assert done.returncode == code
    assert said in done.stderr


def test_an_existing_log_is_not_replaced_without_the_wish(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text("mine")
    done = recorded(tmp_path, RANGES, PLAIN, "-o", "run.jsonl")
    assert done.returncode == 1
    assert "--force" in done.stderr
    assert (tmp_path / "run.jsonl").read_text() == "mine"
    assert recorded(tmp_path, RANGES, PLAIN, "--force", "-o", "run.jsonl").returncode == 0
    assert read_log(tmp_path / "run.jsonl").calls() == {"work": 5}


def test_a_folder_takes_the_logs(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    recorded(tmp_path, RANGES, PLAIN, "-o", "logs")
    assert calls(tmp_path / "logs") == {"work": 5}


def test_under_a_launcher_rank_0_prints_the_summary(tmp_path: Path) -> None:
    for rank, prints in (("0", True), ("1", False)):
        done = recorded(tmp_path, RANGES, "-o", f"run{rank}.jsonl", RANK=rank, WORLD_SIZE="2")
        assert ("nothing dropped" in done.stderr) == prints
        assert done.stdout == ""


def test_a_python_without_the_package_records_with_that_of_the_command(tmp_path: Path) -> None:
    program = """
        import json, sys
        import importlib.util
        print("orjson" in sys.modules, importlib.util.find_spec("orjson") is not None)
        import nvtx
        with nvtx.annotate("work"): pass
    """
    (tmp_path / "nvtx").mkdir()
    write(
        tmp_path,
        "class annotate:\n    def __init__(self, message=None): self.init_args = (message, None, None, None, None)\n"
        "    def __enter__(self): return self\n    def __exit__(self, *_): return False\n"
        "    def __call__(self, function): return function\nfrom . import nvtx\n",
        "nvtx/__init__.py",
    )
    write(tmp_path, "", "nvtx/nvtx.py")
    write(tmp_path, program)
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    if not base.exists() or sys.prefix == sys.base_prefix:
        pytest.skip("this Python is in no virtual environment")
    environ = {key: value for key, value in environment().items() if key != "PYTHONWARNINGS"}
    settings = "import os, sys; os.environ.pop('PYTHONPATH')"
    code = f"{settings}; from tracekit.cli import main; main()"
    command = [sys.executable, "-c", code, "record", PLAIN, "--", str(base), "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=LONG_S)
    assert (done.returncode, done.stdout.split()[:1]) == (0, ["False"]), done.stderr
    assert calls(tmp_path) == {"work": 1}
    assert json.loads(next(tmp_path.glob("*.jsonl")).read_text().splitlines()[0])["python"].startswith(str(base)[:-1])

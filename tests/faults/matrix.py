"""Runs the cells of the table, and judges what each left behind."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

from faults.server import RULE
from faults.table import SAMPLE_OF_EACH, Action, Call, Command, Fault, Place
from support import LONG_S, ROOT, SAMPLES

_RANGES = 3
"""Lines of ranges in the log of the program that records."""
HERE = Path(__file__).resolve().parent
FOLDERS = ("in", "out", "tmp", "home")


def build(folder: Path) -> Path:
    """Compile the faults of the system."""
    shim = folder / "shim.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", shim, HERE / "shim.c", "-ldl"], check=True)
    return shim


def make_inputs(folder: Path) -> None:
    """Write the inputs of all commands: each has blocks enough for a first, a middle and a last one."""
    folder.mkdir()
    csv = (SAMPLES / "nvprof-csv/gpu-and-api-trace.csv").read_bytes()
    kineto = (SAMPLES / "kineto/gpu.pt.trace.json").read_bytes()
    unordered = [{"ph": "X", "name": f"k{i}", "ts": 999 - i, "dur": 1, "pid": 1, "tid": 1} for i in range(999)]
    files = {
        "a.csv": csv,
        "old.csv": (SAMPLES / "nvprof-csv/gpu-trace-20-columns.csv").read_bytes(),
        "k.json": kineto,
        "oldk.json": kineto.replace(b"ProfilerStep#", b"ProfilerStep#1"),
        "d.json": (SAMPLES / "paddle-json/gpu-broken-tail.json").read_bytes(),
        "s.nvvp.gz": gzip.compress((SAMPLES / "nvprof-sqlite/version-8.nvvp").read_bytes(), mtime=0),
        "u.json": json.dumps({"traceEvents": unordered}).encode(),
        "tree/one/rank0.jsonl": (SAMPLES / "recorder-log/rank0.jsonl").read_bytes(),
        "tree/two/t.txt": (SAMPLES / "theano/theano-1.0.5.txt").read_bytes(),
    }
    files |= {f"readers/{name}": (SAMPLES / name).read_bytes() for name in SAMPLE_OF_EACH}
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, ns=(1_767_225_600_000_000_000,) * 2)


Called: TypeAlias = tuple[Place, Call, str]


@dataclass(frozen=True, slots=True)
class End:
    """The end of a command. code: None where it did not end. calls: on the places, in order."""

    code: int | None
    out: str
    err: str
    cpu: float
    fired: int
    calls: tuple[Called, ...] = ()


@dataclass(slots=True)
class Cell:
    """A cell of the matrix, and what was wrong with it."""

    command: Command
    fault: Fault
    moment: str
    number: int
    end: End | None = None
    wrong: list[str] = field(default_factory=list)
    result: str = ""

    def __str__(self) -> str:
        end = self.end
        assert end is not None
        said = "".join(f"\n      | {line[:200]}" for line in end.err.splitlines()[:6])
        what = f"{self.command.words}: {self.fault.name}, {self.moment} (call {self.number})"
        return f"{what}: {self.result}: {'; '.join(self.wrong) or 'right'}{said if self.wrong else ''}"


class Server:
    """The process that starts commands."""

    def __init__(self, shim: Path) -> None:
        environment = {**os.environ, "LD_PRELOAD": str(shim), "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests"), environment.get("PYTHONPATH", "")])
        environment.pop("TRACEKIT_DEBUG", None)
        environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(LONG_S)
        self._process.stdout.close()

    def ask(self, job: dict[str, object]) -> dict[str, Any]:
        """Run a job and return how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


class Matrix:
    """Runs commands in cells below a folder."""

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder, self._server = folder, server
        self._templates: dict[tuple[str, ...], Path] = {}
        self._number = 0
        self.cpu = 0.0
        make_inputs(folder / "inputs")

    def template(self, setup: tuple[str, ...]) -> Path:
        """Return a cell in which these commands ran."""
        if setup not in self._templates:
            cell = Path(tempfile.mkdtemp(prefix="template", dir=self._folder))
            for name in FOLDERS:
                (cell / name).mkdir()
            shutil.rmtree(cell / "in")
            shutil.copytree(self._folder / "inputs", cell / "in")
            for words in setup:
                end = self.run(cell, Command(words))
                assert end.code in (0, 3), (words, end)
            shutil.rmtree(cell / "home")
            (cell / "home").mkdir()
            self._templates[setup] = cell
        return self._templates[setup]

    def fresh(self, command: Command) -> Path:
        """Return a new cell, with what was there before the command."""
        self._number += 1
        cell = self._folder / f"cell{self._number}"
        shutil.copytree(self.template(command.setup), cell)
        return cell

    def run(
        self, cell: Path, command: Command, fault: Fault | None = None, number: int = 0, *, log: bool = False
    ) -> End:
        """Run a command in a cell, with a fault at its N-th call."""
        rule = self._folder / "rule"
        words = [word.replace("|", " ") for word in command.words.split()]
        changing = next((word for word in words if word.startswith("in/")), "in/a.csv")
        source = cell / changing
        if fault is not None and fault.action in (Action.GROW, Action.REPLACE) and source.is_file():
            data = source.read_bytes()
            Path(f"{source}.more").write_bytes(data[len(data) // 2 :])
            Path(f"{source}.new").write_bytes(data[: len(data) // 3] + data)
        settings = (0,) * 10
        if fault is not None:
            settings = (
                1 << fault.place, int(fault.calls), number, int(fault.action), fault.argument, int(fault.sticky),
                int(fault.after), 0, 0, 0,
            )  # fmt: skip
        record = str(self._folder / "log") if log else ""
        rule.write_bytes(RULE.pack(*settings, str(cell).encode(), str(source).encode(), record.encode()))
        Path(self._folder / "log").unlink(missing_ok=True)
        home = str(cell / "home")
        job: dict[str, object] = {
            "cell": str(cell), "words": words, "rule": str(rule), "stop": command.stop, "script": command.script,
            "learn": log,
            "seconds": LONG_S if fault is None else 60,
            "env": {"TMPDIR": str(cell / "tmp"), "HOME": home, "XDG_CACHE_HOME": home, "FAULTS_RULE": str(rule)},
        }  # fmt: skip
        answer = self._server.ask(job)
        self.cpu += answer["cpu"]
        calls = []
        if log:
            for line in (self._folder / "log").read_text(errors="replace").splitlines():
                at, call, what = line.split(" ", 2)
                calls.append((Place(int(at)), Call(int(call)), what))
        fired = RULE.unpack(rule.read_bytes())[9]
        out, err = ((cell / name).read_text("utf-8", "replace") for name in ("stdout", "stderr"))
        return End(answer["code"], _ADDRESS.sub("the address", out), err, answer["cpu"], fired, tuple(calls))


_ADDRESS = re.compile(r"http://127\.0\.0\.1:\S+")


def snapshot(folder: Path) -> dict[str, str]:
    """Return the digest of each file, "" for folders."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def moments(command: Command, calls: Sequence[Called], fault: Fault, how: str) -> list[tuple[str, int]]:
    """Return the name and the number of each call at which a fault happens.

    how: "every" call, the "first, middle, last" ones, or "one" of these, another one for another command or fault.
    """
    count = sum(1 for place, call, _ in calls if place == fault.place and call & fault.calls)
    if how == "every":
        return [(f"call {n} of {count}", n) for n in range(1, count + 1)]
    named = {1: "first", count: "last", (count + 1) // 2: "middle"} if count else {}
    found = [(name, number) for number, name in sorted(named.items())]
    if how == "one" and found:
        return [found[zlib.crc32(f"{command.words} {fault.name} {fault.after}".encode()) % len(found)]]
    return found


def files(now: dict[str, str], left: Collection[str] = ()) -> dict[str, str]:
    """Return the files of a snapshot, without these."""
    return {name: digest for name, digest in now.items() if digest and name not in left}


def is_probe(path: Path) -> bool:
    """Return whether this is what Python's tempfile writes to see whether a folder can be written."""
    return path.is_file() and path.stat().st_size <= 4 and len(path.name) == 8


def is_leftover(name: str) -> bool:
    """Return whether a name is that of an unfinished output."""
    return any(part.startswith(".") for part in Path(name).parts)


class Judge:
    """What a command leaves without a fault, and whether a cell leaves something else."""

    def __init__(self, matrix: Matrix, command: Command) -> None:
        self._matrix, self.command = matrix, command
        self.before = snapshot(matrix.template(command.setup) / "out")
        cell = matrix.fresh(command)
        self.plain = matrix.run(cell, command, log=True)
        assert self.plain.code == command.code, (command.words, self.plain)
        self.whole = snapshot(cell / "out")
        shutil.rmtree(cell)
        self._of_changed: dict[Action, tuple[str, dict[str, str]]] = {}
        self.exact = not self.whole or self._made_again() == self.whole

    def _made_again(self) -> dict[str, str]:
        cell = self._matrix.fresh(self.command)
        self._matrix.run(cell, self.command)
        made = snapshot(cell / "out")
        shutil.rmtree(cell)
        return made

    def _changed_before(self, fault: Fault) -> tuple[str, dict[str, str]]:
        """Return stdout and files where the input changed before it was read."""
        if fault.action not in self._of_changed:
            cell = self._matrix.fresh(self.command)
            early = replace(fault, calls=Call.OPEN | Call.READ)
            end = self._matrix.run(cell, self.command, early, 1)
            self._of_changed[fault.action] = end.out, files(snapshot(cell / "out"))
            shutil.rmtree(cell)
        return self._of_changed[fault.action]

    def cells(self, faults: Iterable[Fault], how: str) -> Iterator[Cell]:
        """Yield the cells of these faults, judged. how: as in `moments`."""
        for fault in faults:
            if self.command.host and fault.place is Place.STDOUT:
                continue  # the program's own
            for name, number in moments(self.command, self.plain.calls, fault, how):
                cell = Cell(self.command, fault, name, number)
                place = self._matrix.fresh(self.command)
                cell.end = self._matrix.run(place, self.command, fault, number)
                self._judge(cell, place)
                shutil.rmtree(place)
                yield cell

    def _judge_host(self, cell: Cell, place: Path) -> None:
        """A program that records goes on, says so once, and its log has whole lines, apart from the last one."""
        end, wrong = cell.end, cell.wrong
        assert end is not None
        cell.result = f"exit {end.code}"
        if cell.fault.action is Action.SIGNAL:
            if end.code != -cell.fault.argument and not (end.code == 1 and "KeyboardInterrupt" in end.err):
                wrong.append(f"exit code {end.code}")
        elif (end.code, end.out) != (0, "done\n"):
            wrong.append("the program did not go on")
        elif cell.fault.action is Action.FAIL and end.err.count("\n") > 1:
            wrong.append("more than one line on stderr")
        logs = [path.read_bytes() for path in (place / "out").glob("*")]
        whole = sum(log.count(b'{"k":"r"') for log in logs) == _RANGES
        if cell.fault.action is Action.FAIL and not whole and not end.err:
            wrong.append("ranges are lost, and nobody says so")
        for path in (place / "out").glob("*"):
            for line in path.read_bytes().splitlines()[:-1]:
                try:
                    json.loads(line)
                except ValueError:
                    wrong.append(f"a torn line: {line!r}")

    def _judge(self, cell: Cell, place: Path) -> None:
        end, fault, wrong = cell.end, cell.fault, cell.wrong
        assert end is not None
        if self.command.host:
            self._judge_host(cell, place)
            return
        now = snapshot(place / "out")
        left = {name for name in now if is_leftover(name) and name not in self.whole and name not in self.before}
        if end.code is None:
            wrong.append("it does not end")
        for word in ("Traceback", "tracekit failed", "bug of tracekit", "Exception ignored", "Fatal Python"):
            if word in end.err:
                wrong.append(f"{word!r} on stderr")
        errors = [line for line in end.err.splitlines() if line.startswith("error: ")]
        done = self._done(now, left, fault)
        signalled = fault.action is Action.SIGNAL
        killed = signalled and fault.argument == 9
        if not end.fired:
            cell.result = "not reached"
        expected = {self.command.code}
        if signalled and end.fired:
            expected |= {-9} if killed else {128 + fault.argument}
        elif fault.action in (Action.GROW, Action.SHRINK, Action.REPLACE):
            expected |= {0, 1, 3}
        elif fault.action is Action.FAIL:
            expected |= {1}
        if self.command.stop:
            expected |= {130}  # it was not waiting yet
        if end.code not in expected:
            wrong.append(f"exit code {end.code}")
        if end.code == self.command.code and not done and fault.action in (Action.FAIL, Action.SIGNAL):
            wrong.append(f"exit code {end.code}, but the output is not whole")
        if end.code == 1 and fault.cause:
            told = errors or [
                line for line in end.out.splitlines() if any(word in line.lower() for word in fault.cause)
            ]
            if not told:
                wrong.append("no error")
            for line in told:
                if "inputs can be read" in line:
                    continue
                if not any(word in line.lower() for word in fault.cause):
                    wrong.append("the cause is not named")
                elif not names_place(line, fault.place, place):
                    wrong.append("the place is not named")
        if not self._kept(now, left, fault):
            wrong.append(f"outputs: {self._difference(now)}")
        if fault.action in (Action.GROW, Action.SHRINK, Action.REPLACE) and end.code == self.command.code:
            result = end.out, files(now, left)
            plain = self.plain.out, files(self.whole)
            told = (
                end.err
                + end.out
                + "".join(path.read_text("utf-8", "replace") for path in (place / "out").rglob("*.html"))
            )
            if "while it was read" not in told and result not in (plain, self._changed_before(fault)):
                wrong.append("another result, and nobody says so")
        rest = left | {name for name in snapshot(place / "tmp") if not is_probe(place / "tmp" / name)}
        if killed or rest:
            self._go_on(cell, place)
            cell.result = f"exit {end.code}, then the next run"
        cell.result = cell.result or f"exit {end.code}"

    def _done(self, now: dict[str, str], left: set[str], fault: Fault) -> bool:
        return files(now, left) == files(self.whole) or not self.exact

    def _kept(self, now: dict[str, str], left: set[str], fault: Fault) -> bool:
        """Return whether each output is the old or the new one, and as a whole."""
        if fault.action in (Action.GROW, Action.SHRINK, Action.REPLACE) or not self.exact:
            return True
        found, before, whole = files(now, left), files(self.before), files(self.whole)
        if found in (whole, before):
            return True
        if not self.command.parts or not before.keys() & whole.keys() <= found.keys():
            return False
        if not before.keys() <= found.keys() and not whole.keys() <= found.keys():
            return False  # an old one goes only when all new ones are there
        return all(digest in (before.get(name), whole.get(name)) for name, digest in found.items())

    def _difference(self, now: dict[str, str]) -> str:
        names = sorted(now.keys() | self.before.keys())
        return ", ".join(name for name in names if now.get(name) != self.before.get(name))

    def _go_on(self, cell: Cell, place: Path) -> None:
        """Run the command again after a kill: it must succeed, and leave nothing of the dead one."""
        words = self.command.words
        if "--force" not in words and not words.startswith(("archive", "batch", "open")) and "-o out" in words:
            words += " --force"
        command = Command(words, stop=self.command.stop)
        end = self._matrix.run(place, command)
        if end.code != self.command.code:
            cell.wrong.append(f"after the kill: exit code {end.code} {end.err}")
            return
        now = snapshot(place / "out")
        if self.exact and files(now) != files(self.whole):
            cell.wrong.append(f"after the kill: {sorted(set(now.items()) ^ set(self.whole.items()))}")
        if left := [name for name in now if is_leftover(name) and name not in self.whole]:
            cell.wrong.append(f"after the kill: {left}")
        if rest := [name for name in snapshot(place / "tmp") if not is_probe(place / "tmp" / name)]:
            cell.wrong.append(f"after the kill, in TMPDIR: {sorted(rest)}")


def names_place(error: str, place: Place, cell: Path) -> bool:
    """Return whether an error names the file or the folder of the fault."""
    if place is Place.STDOUT:
        return "stdout" in error or "output" in error
    words = {Place.INPUT: "in/", Place.OUTPUT: "out/", Place.SCRATCH: f"{cell}/tmp", Place.CACHE: "home"}
    return words[place].rstrip("/") in error

"""Coverage-guided fuzzing of the readers: `python tests/fuzz.py [READER...] --minutes N`.

Seeds are our samples and, where it lies beside the checkout, the corpus of real files. A mutant (mutations.py) that
reaches a branch of tracekit/ that none before it reached joins the pool. Allowed: a trace whose ledger adds up, or a
TracekitError that is no SchemaError. A find is anything else: another exception, a warning, more than 10 s of CPU,
more than 1 GiB of memory, the end of the interpreter. Finds lie in OUT/finds/<reader>/, one a place in the code, the
smallest input of each with its traceback. The same seed gives the same inputs.

The parent watches; a child reads, and gets a successor when it dies. `--minutes` is CPU time of the children.
`--replay FILE... ` reads files once, as the child does, and shows what comes.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import json
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coverage
import mutations
from support import SAMPLES, corpus_root

import tracekit
from tracekit import pipeline
from tracekit.errors import SchemaError, TracekitError
from tracekit.formats import READERS
from tracekit.readers.base import Confidence
from tracekit.readers.sniff import identify, votes
from tracekit.readers.source import open_source

MOST_CPU_S = 10.0
MOST_WALL_S = 300.0
"""A child that waits for something that never comes uses no CPU."""
MOST_GROWTH_BYTES = 1 << 30
SEED_BYTES = 200 << 10
SHORT_BYTES = 20 << 10
PACKAGE = Path(tracekit.__file__).parent


class Beat:
    """A page that parent and child share: runs done, CPU s of the child when the running one began (0: between two)."""

    LAYOUT = struct.Struct("<Qd")

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(b"\0" * self.LAYOUT.size)
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), self.LAYOUT.size)

    def tell(self, runs: int, begun: float) -> None:
        self.LAYOUT.pack_into(self._page, 0, runs, begun)

    def heard(self) -> tuple[int, float]:
        runs, begun = self.LAYOUT.unpack_from(self._page, 0)
        return runs, begun


# Seeds


def seeds_of(reader: str, folder: Path) -> list[bytes]:
    """Return the inputs to begin with: samples of ours, real files; what is large is cut down."""
    if reader in ("parquet", "events-jsonl"):
        return list(_written_seeds(reader, folder))
    files = sorted(p for p in (SAMPLES / reader).iterdir() if p.is_file())
    root = corpus_root()
    if root.exists():
        files += [p for p in sorted(root.rglob("*")) if p.is_file() and p.stat().st_size > 1 and _is_of(p, reader)]
    seeds = [small for p in files for small in _cut_down(p) if small]
    return seeds + list(_written_seeds(reader, folder)) if reader == "perfetto" else seeds


def _is_of(path: Path, reader: str) -> bool:
    if "viewer_cases" in path.parts and reader != "chrome-trace":
        return False
    try:
        with open_source(str(path)) as source:
            return identify(source, READERS.values()).name == reader
    except TracekitError:
        return False


def _cut_down(path: Path) -> list[bytes]:
    """Return the input where it is small, and a shorter one of the same kind: many quick runs find more."""
    with open_source(str(path)) as source, source.binary() as stream:
        data: bytes = stream.read(64 << 20)
    out = [data[:SEED_BYTES]]
    if data.startswith(b"SQLite format 3\0"):
        out = [small for rows in (100, 10) for small in [mutations.shrunk_database(data, rows)]]
    elif len(data) > SHORT_BYTES:
        out.append(mutations.shrunk_json(data, SHORT_BYTES) or data[:SHORT_BYTES])
    return [small for small in out if len(small) <= SEED_BYTES]


_WRITERS = {"parquet": "parquet", "events-jsonl": "jsonl", "perfetto": "perfetto"}


def _written_seeds(reader: str, folder: Path) -> list[bytes]:
    """The formats of ours: every sample as such a file, up to some size."""
    out = []
    target = folder / "seed"
    for path in sorted(SAMPLES.glob("*/*")):
        if path.parent.name in READERS and path.stat().st_size < 60_000:
            trace = tracekit.read(path)
            if reader == "perfetto" and not trace.events.num_rows:
                continue
            pipeline.write(trace, target, to=_WRITERS[reader], force=True)
            out.append(target.read_bytes())
    target.unlink()
    return [data for data in out if len(data) <= SEED_BYTES]


# The child


class Reached:
    """Branches of tracekit/ that a call goes through, as coverage's tracer in C sees them.

    The tracer's own dict is read, not the public report, which would cost more than most readings do.
    """

    def __init__(self) -> None:
        self._cover = coverage.Coverage(
            data_file=None, config_file=False, branch=True, source=[str(PACKAGE)], messages=False
        )

    def by(self, call: Callable[[], object]) -> set[tuple[str, Any]]:
        self._cover.start()
        try:
            call()
        finally:
            self._cover.stop()
            data: dict[str, Any] = self._cover._collector.data  # type: ignore[union-attr]
            self.last = {(name, arc) for name, arcs in data.items() for arc in list(arcs)}
            data.clear()
        return self.last


def _status(key: bytes) -> int:
    """Return a number of /proc/self/status in bytes (VmRSS, VmHWM); 0 where there is none."""
    try:
        with open("/proc/self/status", "rb") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith(key)), 0)
    except OSError:
        return 0


class OverheadError(Exception):
    """Too much time or memory, something left behind, two readings that differ."""


class Child:
    """Reads mutants until the parent's time is over; leaves finds and the pool in files."""

    def __init__(self, reader: str, out: Path, seed: str) -> None:
        self.reader, self.out = reader, out
        self.rng = random.Random(f"{seed}:{reader}")
        self.reached = Reached()
        self.known: set[tuple[str, Any]] = set()
        self.work = out / "work" / reader
        self.work.mkdir(parents=True, exist_ok=True)
        self.finds = out / "finds" / reader
        self.finds.mkdir(parents=True, exist_ok=True)
        self.pool_folder = out / "pool" / reader
        self.pool_folder.mkdir(parents=True, exist_ok=True)
        self.temporary = self.work / "tmp"
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        import tempfile

        tempfile.tempdir = str(self.temporary)
        self.pool: list[bytes] = []
        self.unraised: list[BaseException] = []
        self.opened_files = 0
        sys.unraisablehook = lambda args: self.unraised.append(args.exc_value or RuntimeError("unraisable"))
        threading.excepthook = lambda args: self.unraised.append(args.exc_value or RuntimeError("in a thread"))

    def read(self, path: Path, lot: float) -> None:
        """Read a file; by lot also everything behind the reader."""
        if lot < 0.05:
            with open_source(str(path)) as source:
                head = source.head()
            for reader, answer in votes(head, READERS.values()):
                if answer not in Confidence:
                    raise OverheadError(f"{reader.name} sniffed no Confidence")
        trace = tracekit.read(path, format=self.reader)
        if lot < 0.15:
            entry = tracekit.inspect(path, format=self.reader).inputs[0]
            counted = sum(kind["events"] for kind in entry["by_kind"].values())
            if counted != trace.events.num_rows or entry["events"] != counted:
                raise OverheadError(f"read gives {trace.events.num_rows} events, inspect {entry['events']}, {counted}")
            if entry["totals"] != trace.totals.num_rows:
                raise OverheadError(f"read gives {trace.totals.num_rows} totals, inspect {entry['totals']}")
            json.dumps(entry)
        if lot < 0.05:
            for name in (*pipeline.VIEWS, *pipeline.upstreams.VIEWS):
                self._told(pipeline.view, trace, name)
            self._told(tracekit.convert, path, self.work / "x.json", to="chrome", format=self.reader, force=True)
            self._told(pipeline.write, trace, self.work / "x.parquet", force=True)
        elif lot < 0.06:
            pipeline.render(pipeline.report(trace), "html")

    def _told(self, call: Callable[..., object], *args: Any, **options: Any) -> None:
        try:
            call(*args, **options)
        except SchemaError:
            raise
        except TracekitError:
            pass

    def one(self, data: bytes, lot: float) -> bool:
        """Read one input; say whether it reached something new."""
        path = self.work / "input"
        path.write_bytes(data)
        before = _reset_peak()
        begun = time.process_time()
        error: BaseException | None = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.reached.by(lambda: self.read(path, lot))
        except SchemaError as err:
            error = err
        except TracekitError:
            pass
        except Exception as err:  # noqa: BLE001 - whatever comes is what is looked for
            error = err
        spent = time.process_time() - begun
        if error is None and spent > MOST_CPU_S:
            error = OverheadError(f"took {spent:.1f} s of CPU")
        if error is None and (grown := _status(b"VmHWM") - before) > MOST_GROWTH_BYTES:
            error = OverheadError(f"took {grown >> 20} MiB of memory")
        if error is not None:
            self.found(data, error)
        new = not self.reached.last <= self.known
        self.known |= self.reached.last
        return new

    def left_behind(self, data: bytes) -> None:
        """Look now and then at what should not stay: files, descriptors, errors that nobody saw."""
        gc.collect()
        for error in self.unraised:
            self.found(data, error)
        self.unraised.clear()
        files = sorted(p.name for p in self.temporary.iterdir())
        if files:
            self.found(data, OverheadError(f"temporary files stay: {files[:3]}"))
            shutil.rmtree(self.temporary)
            self.temporary.mkdir()
        opened = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
        if self.opened_files and opened > self.opened_files + 20:
            self.found(data, OverheadError("file descriptors stay open"))
        self.opened_files = max(opened, self.opened_files)

    def found(self, data: bytes, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        save_find(self.finds, place_of(error), text, data)

    def keep(self, data: bytes) -> None:
        self.pool.append(data)
        name = hashlib.sha256(data).hexdigest()[:16]
        (self.pool_folder / name).write_bytes(data)

    def run(self) -> None:
        beat = Beat(self.out / "work" / f"{self.reader}.beat")
        runs, _ = beat.heard()
        seeds = sorted(seeds_of(self.reader, self.work), key=len)
        older = [p.read_bytes() for p in sorted(self.pool_folder.iterdir())]
        if not seeds:
            raise SystemExit(f"{self.reader}: no seeds")

        def read(data: bytes, lot: float) -> bool:
            nonlocal runs
            beat.tell(runs, time.process_time())
            new = self.one(data, lot)
            runs += 1
            beat.tell(runs, 0.0)
            return new

        for data in seeds + older:
            read(data, 0.0)
            self.pool.append(data)
        begun = len(self.pool)
        while True:
            # What came last reached something new: half of the time begin there.
            recent = self.pool[max(begun, len(self.pool) - 30) :]
            pool = recent if recent and self.rng.random() < 0.5 else self.pool
            # The shorter of three: it is read, and damaged, much faster.
            parent = min((self.rng.choice(pool) for _ in range(self.rng.choice((1, 3, 3)))), key=len)
            data = mutations.mutate(parent, self.rng, self.rng.choice(self.pool))
            if self.rng.random() < 0.03:
                # Not for the pool: what is packed hides the format from the mutators.
                read(mutations.pack(data, self.rng, b"") or data, self.rng.random())
            elif read(data, self.rng.random()):
                self.keep(data)
            if runs % 100 == 0:
                beat.tell(runs, time.process_time())
                self.left_behind(data)
                beat.tell(runs, 0.0)


def _reset_peak() -> int:
    """Return the memory in use, and let the kernel's peak begin anew from here."""
    try:
        with open("/proc/self/clear_refs", "wb") as file:
            file.write(b"5")
    except OSError:
        pass
    return _status(b"VmRSS")


def place_of(error: BaseException) -> str:
    """Return where in tracekit an error came from: its type, the file and the line nearest to it."""
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).is_relative_to(PACKAGE):
            place = f"{Path(frame.filename).stem}-{frame.name}-{frame.lineno}"
    if isinstance(error, OverheadError) or not place:
        place = "-".join(str(error).split()[:3]).replace("/", "_")
    return f"{type(error).__name__}-{place}".replace("<", "").replace(">", "")[:120]


def save_find(folder: Path, place: str, text: str, data: bytes) -> None:
    """Keep the smallest input of a place, and how often it was met."""
    folder.mkdir(parents=True, exist_ok=True)
    kept, told = folder / f"{place}.input", folder / f"{place}.txt"
    count = int(told.read_text("utf-8").split(maxsplit=1)[0]) if told.exists() else 0
    if not kept.exists() or len(data) < kept.stat().st_size:
        kept.write_bytes(data)
    else:
        text = told.read_text("utf-8").split("\n", 1)[1]
    told.write_text(f"{count + 1} times\n{text}", "utf-8", "backslashreplace")


# The parent


def fuzz(reader: str, out: Path, minutes: float, seed: str) -> dict[str, Any]:
    """Fuzz one reader for so many minutes of the children's CPU time; return the row of the report."""
    work = out / "work"
    work.mkdir(parents=True, exist_ok=True)
    beat_path = work / f"{reader}.beat"
    beat_path.unlink(missing_ok=True)
    beat = Beat(beat_path)
    spent, births = 0.0, 0
    while spent < minutes * 60 and births < 200:
        births += 1
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            __file__,
            reader,
            "--child",
            f"{seed}.{births}",
            "--out",
            str(out),
        ]
        with (work / f"{reader}.log").open("w", encoding="utf-8") as log:
            child = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": _paths()}
            )
        used, why = _watch(child, beat, minutes * 60 - spent)
        spent += used
        if why:
            log_text = (work / f"{reader}.log").read_text("utf-8", "replace")
            data = (work / reader / "input").read_bytes() if (work / reader / "input").exists() else b""
            save_find(out / "finds" / reader, f"{why}-{_first_of(log_text)}", f"{why}\n{log_text[-6000:]}", data)
            if not beat.heard()[0]:
                break  # it cannot even begin
    runs, _ = beat.heard()
    finds = sorted(p.stem for p in (out / "finds" / reader).glob("*.txt"))
    pool = len(list((out / "pool" / reader).glob("*")))
    return {"reader": reader, "cpu_min": round(spent / 60, 1), "runs": runs, "pool": pool, "finds": finds}


def _paths() -> str:
    return os.pathsep.join((str(PACKAGE.parent), str(Path(__file__).parent)))


def _first_of(log: str) -> str:
    lines = [line for line in log.splitlines() if str(PACKAGE) in line]
    words = lines[0].replace(str(PACKAGE), "").replace('"', " ").replace(",", " ").split() if lines else ["nowhere"]
    return "-".join(w.strip("/").replace("/", ".") for w in words if w not in ("File", "line", "in"))[:90]


def _cpu_of(pid: int) -> tuple[float, int]:
    """Return CPU s and resident bytes of a process."""
    stat = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(stat[11]) + int(stat[12])) / ticks, int(stat[21]) * resource.getpagesize()


def _watch(child: subprocess.Popen[bytes], beat: Beat, most_s: float) -> tuple[float, str]:
    """Wait until the child's time is over, or it dies, hangs or grows; return its CPU s, and why it had to end."""
    used, seen, since = 0.0, beat.heard()[0], time.monotonic()
    while child.poll() is None:
        try:
            used, resident = _cpu_of(child.pid)
        except (OSError, IndexError):
            break
        runs, begun = beat.heard()
        if runs != seen:
            seen, since = runs, time.monotonic()
        why = ""
        if resident > 4 * MOST_GROWTH_BYTES:
            why = "memory"
        elif begun and used - begun > 3 * MOST_CPU_S:
            why = "hang"
        elif time.monotonic() - since > MOST_WALL_S and begun:
            why = "standstill"
        if why or used > most_s:
            child.send_signal(signal.SIGABRT if why else signal.SIGKILL)  # faulthandler shows where it was
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            return used, why
        time.sleep(0.1)
    return used, f"died-{child.wait()}"


def report_line(row: dict[str, Any]) -> str:
    cells = (row["reader"], row["cpu_min"], f"{row['runs']:,}", row["pool"], ", ".join(row["finds"]) or "none")
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("readers", nargs="*", help="names of readers; all when none is named")
    words.add_argument("--minutes", type=float, default=10.0, help="CPU time for each reader (10)")
    words.add_argument("--seed", default="1", help="of the random numbers; the same gives the same inputs")
    words.add_argument("--out", type=Path, default=Path("fuzz-out"), help="folder for finds and the pool")
    words.add_argument("--replay", nargs="+", type=Path, default=[], help="read these files once instead")
    words.add_argument("--child", default="", help=argparse.SUPPRESS)
    told = words.parse_args()
    for name in told.readers:
        if name not in READERS:
            words.error(f"{name}: no such reader; one of {', '.join(READERS)}")
    if told.child:
        faulthandler.enable()
        # Not the address space, which Arrow reserves freely: the parent looks at what is in use.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        Child(told.readers[0], told.out.absolute(), told.child).run()
    if told.replay:
        child = Child(told.readers[0], told.out.absolute(), told.seed)
        for path in told.replay:
            begun = time.process_time()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    child.read(path, 0.0)
                print(f"{path}: a trace")
            except TracekitError as err:
                print(f"{path}: {type(err).__name__}: {err}")
            except Exception:  # noqa: BLE001 - it is what is to be seen
                print(f"{path}:")
                traceback.print_exc(file=sys.stdout)
            print(f"  {time.process_time() - begun:.2f} s")
        return 0
    print("| reader | CPU min | runs | pool | finds |\n|---|---|---|---|---|")
    found = False
    for name in told.readers or sorted(READERS):
        row = fuzz(name, told.out.absolute(), told.minutes, told.seed)
        found = found or bool(row["finds"])
        print(report_line(row), flush=True)
    return 3 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Hold tracekit against named baselines, in pairs, on this machine, now.

    python benchmarks/run.py [--rows N] [--rounds N] [--quick] [--cache FOLDER] [--only WORD]...

Each case runs in a fresh process; the cases of a round follow each other, and a ratio is taken within its round; the
table shows the median over the rounds. Everything is pinned to one core, so "one thread" holds whatever a library
does; `whole` alone uses two. Exit code: 0 all targets met, 1 a target missed or a case failed, 2 wrong usage. README.md
says how to read it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# This process stays small, and imports nothing big: a child's peak RSS can never read lower than its parent's.
HERE = Path(__file__).parent
AFFINITY = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
STREAMED = ("kernel", "memory_manipulation", "overview", "device", "breakdown")
GROWTH = 20
"""The big input of the growth targets has this many times the rows of the normal one."""
SMALL_SECONDS = 0.45
"""The most CPU seconds of a command on a file of 137 events."""


OVER_FLOOR = {"summary": 1.8, "of the file alone": 1.8, "inspect": 1.2, "formats": 1.2, "--help": 1.2}
"""The most CPU seconds of a command on a file of 137 events, over those of the floor's process."""


class CaseFailed(Exception):
    """A case ended with an error, or did not do the work it was timed for."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a process or of its timed part; `user` and `rss_mb` of a whole process only."""

    wall: float
    cpu: float
    user: float = 0.0
    rss_mb: float = 0.0
    checks: dict[str, Any] = field(default_factory=dict)


def whole_process(command: list[str], printed: Path | None = None) -> Cost:
    """Run a command; wall and CPU seconds and peak RSS of it and its children, start-up included.

    What it prints goes into the file `printed`, if one is given.
    """
    with tempfile.TemporaryFile() as errors, Path(printed or os.devnull).open("wb") as out:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise CaseFailed(f"{' '.join(command)}: {_last_line(errors.read())}")
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_utime, used.ru_maxrss / unit)


def case(*arguments: object) -> Cost:
    """Run a case of _baselines.py; wall and CPU seconds of its timed part."""
    command = [sys.executable, str(HERE / "_baselines.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise CaseFailed(f"{arguments[0]}: {_last_line(done.stderr)}")
    figures = json.loads(done.stdout)
    return Cost(figures.pop("wall"), figures.pop("cpu"), checks=figures)


def view_case(*arguments: object, python: str = sys.executable) -> Cost:
    """Run a case of _view_cases.py, under another Python where one is named."""
    command = [python, str(HERE / "_view_cases.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise CaseFailed(f"{arguments[0]}: {_last_line(done.stderr)}")
    figures = json.loads(done.stdout.splitlines()[-1])
    return Cost(figures.pop("wall"), figures.pop("cpu"), checks=figures)


def _last_line(errors: bytes) -> str:
    """The line that says what went wrong: tracekit's own, else the last of a traceback."""
    lines = errors.decode("utf-8", "replace").strip().splitlines() or ["no message"]
    return next((line for line in lines if line.startswith("error: ")), lines[-1])[:300]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table. `met` None: nothing to judge, or not judged at this size."""

    what: str
    measured: str
    target: str = ""
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    rows: int
    rounds: int
    quick: bool
    cache: Path
    work: Path
    stand_in: bool  # the baselines take tracekit's place: the harness tests itself
    hta_python: str = ""

    def input(self, kind: str, rows: int = 0) -> Path:
        """Path of a generated input; made on first use, by another process."""
        count = rows or self.rows
        command = [sys.executable, str(HERE / "generate.py"), str(self.cache), "--rows", str(count), "--kind", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CaseFailed(f"generate.py: {_last_line(done.stderr.encode())}")
        return Path(done.stdout.strip())

    def kineto(self) -> Path:
        """Path of a generated Kineto file of as many events as there are rows."""
        target = self.cache / f"kineto-{self.rows}.json"
        view_case("kineto", target, self.rows)
        return target

    def output(self, name: str) -> Path:
        return self.work / name

    def converter(self, source: Path, target: Path) -> list[str]:
        """The command that converts; a stand-in writes 260 bytes a row, as a Chrome trace has."""
        if self.stand_in:
            size = 260 * truth(source)["rows"]
            return [sys.executable, str(HERE / "_baselines.py"), "floor", str(source), str(size), str(target)]
        return [sys.executable, "-m", "tracekit", "convert", str(source), "-o", str(target), "--force"]

    def subject(self, name: str, *arguments: object) -> Cost:
        """tracekit's side of a pair."""
        if not self.stand_in:
            return case(name, *arguments)
        source, target = Path(str(arguments[0])), arguments[1] if len(arguments) > 1 else ""
        if name == "read":
            return case("kvp_loop", source)
        if name == "convert" and str(target).endswith(".parquet"):
            return case("parquet_floor", source, target)
        return case("floor", source, 260 * truth(source)["rows"], target)


def truth(source: Path) -> dict[str, int]:
    known: dict[str, int] = json.loads(source.with_name(source.name + ".truth.json").read_text(encoding="utf-8"))
    return known


def expect(cost: Cost, source: Path) -> Cost:
    """Raise CaseFailed unless the case counted the rows and the ns that the input has."""
    known = truth(source)
    for key in ("rows", "sum_dur_ns"):
        if key in cost.checks and cost.checks[key] != known[key]:
            raise CaseFailed(f"{source.name}: {key} is {known[key]}, the case says {cost.checks[key]}")
    return cost


def rounds(setting: Setting, *cases: Callable[[], Cost]) -> list[list[Cost]]:
    """The costs of each case, round by round; the order turns round with the rounds."""
    costs: list[list[Cost]] = [[] for _ in cases]
    for number in range(setting.rounds):
        order = range(len(cases)) if number % 2 == 0 else reversed(range(len(cases)))
        for index in order:
            costs[index].append(cases[index]())
    return costs


def ratio(over: list[Cost], under: list[Cost], attribute: str) -> float:
    """Median of the ratios within a round."""
    pairs = zip(over, under, strict=True)
    return float(statistics.median(getattr(a, attribute) / max(getattr(b, attribute), 1e-9) for a, b in pairs))


def _seconds(costs: list[Cost]) -> str:
    return f"{statistics.median(cost.cpu for cost in costs):.2f} s CPU"


def paired(
    setting: Setting, what: str, ours: list[Cost], theirs: list[Cost], limit: float, *, faster: bool = False
) -> list[Line]:
    """Two lines for a pair: judged by CPU seconds, with the wall clock beside it.

    faster: the ratio is theirs over ours, and has to reach the limit; else ours over theirs, and may not pass it.
    """
    over, under = (theirs, ours) if faster else (ours, theirs)
    cpu, wall = ratio(over, under, "cpu"), ratio(over, under, "wall")
    met = cpu >= limit if faster else cpu <= limit
    sign = ">=" if faster else "<="
    measured = f"{cpu:.2f}x (wall {wall:.2f}x; {_seconds(ours)} against {_seconds(theirs)})"
    return [Line(what, measured, f"{sign} {limit:g}x", None if setting.quick else met)]


# ---- the measurements; each gives lines of the table


def chrome(setting: Setting) -> list[Line]:
    """nvprof CSV to Chrome JSON against the streaming floor; and what the command costs as a whole."""
    source, target = setting.input("nvprof-csv"), setting.output("trace.json")
    expect(setting.subject("convert", source, target), source)
    size = target.stat().st_size
    if not setting.stand_in:
        expect(case("count_slices", target), source)
    floor = setting.output("floor.bin")
    ours, theirs, command = rounds(
        setting,
        lambda: expect(setting.subject("convert", source, target, size), source),
        lambda: expect(case("floor", source, size, floor), source),
        lambda: whole_process(setting.converter(source, target)),
    )
    name = f"nvprof CSV to Chrome JSON, {setting.rows:,} rows / streaming floor"
    lines = paired(setting, name, ours, theirs, 2.5)
    return [*lines, Line("  the same as a command, start-up included", f"{ratio(command, theirs, 'cpu'):.2f}x")]


def growth(setting: Setting) -> list[Line]:
    """Memory and time of the command at the normal size and at twenty times it; and how the floor's time grows."""
    big_rows = GROWTH * setting.rows
    small, big = setting.input("nvprof-csv"), setting.input("nvprof-csv", big_rows)
    target, floor = setting.output("trace.json"), setting.output("floor.bin")

    def command(source: Path) -> tuple[Cost, int]:
        cost = whole_process(setting.converter(source, target))
        size = target.stat().st_size
        target.unlink()  # new pages for each run, as a first conversion has
        return cost, size

    def below(source: Path, size: int) -> Cost:
        command = [sys.executable, str(HERE / "_baselines.py"), "floor", str(source), str(size), str(floor)]
        cost = whole_process(command)
        floor.unlink()
        return cost

    at_small = [command(small) for _ in range(setting.rounds)]
    at_big, big_size = command(big)
    costs = [cost for cost, _ in at_small]
    floors = [below(small, size) for _, size in at_small]
    floor_at_big = below(big, big_size)
    peak = max(cost.rss_mb for cost in costs)
    grown = at_big.rss_mb / statistics.median(cost.rss_mb for cost in costs)
    slower = at_big.user / statistics.median(cost.user for cost in costs)
    with_system = at_big.cpu / statistics.median(cost.cpu for cost in costs)
    floor_slower = floor_at_big.user / statistics.median(cost.user for cost in floors)
    floor_with_system = floor_at_big.cpu / statistics.median(cost.cpu for cost in floors)
    judged = not setting.quick
    return [
        Line(f"peak RSS at {setting.rows:,} rows", f"{peak:.0f} MB", "<= 300 MB", peak <= 300),
        Line(f"peak RSS at {big_rows:,} rows", f"{at_big.rss_mb:.0f} MB", "<= 300 MB", at_big.rss_mb <= 300),
        Line(f"peak RSS, {GROWTH} times the rows", f"{grown:.2f}x", "<= 1.2x", grown <= 1.2 if judged else None),
        Line(
            f"time, {GROWTH} times the rows",
            f"{slower:.1f}x (with system time {with_system:.1f}x; {at_big.cpu:.1f} s CPU)",
            "<= 22x",
            slower <= 22 if judged else None,
        ),
        Line("  the same of the streaming floor", f"{floor_slower:.1f}x (with system time {floor_with_system:.1f}x)"),
    ]


def kvp(setting: Setting) -> list[Line]:
    """Reading a key-value log into columns against a compiled regex on each line into columns."""
    source = setting.input("cuda-kvp")
    ours, theirs = rounds(
        setting,
        lambda: expect(setting.subject("read", source), source),
        lambda: expect(case("kvp_loop", source), source),
    )
    return paired(setting, "key-value log to columns: regex loop / ours", ours, theirs, 3, faster=True)


def emission(setting: Setting) -> list[Line]:
    """Writing a Chrome trace from columns in memory against writing its bytes."""
    source, target = setting.input("nvprof-csv"), setting.output("emitted.json")
    expect(setting.subject("emit", source, target), source)
    size = target.stat().st_size
    like, raw = target.rename(setting.output("like.json")), setting.output("raw.bin")
    ours, theirs = rounds(
        setting,
        lambda: expect(setting.subject("emit", source, target, size), source),
        lambda: case("raw_write", like, raw),
    )
    return paired(setting, "Chrome JSON from columns in memory / raw write of its bytes", ours, theirs, 4)


def parquet(setting: Setting) -> list[Line]:
    """Size of the archive."""
    source, target = setting.input("nvprof-csv"), setting.output("archive.parquet")
    cost = expect(setting.subject("convert", source, target), source)
    each = target.stat().st_size / truth(source)["rows"]
    # the footer and the dictionaries weigh on few rows only
    met = None if setting.quick else each <= 10
    return [Line("Parquet of the nvprof CSV", f"{each:.2f} bytes an event ({cost.cpu:.2f} s CPU)", "<= 10", met)]


def startup(setting: Setting) -> list[Line]:
    """`tracekit --help` against the interpreter alone: not a question of size, so always judged."""
    script = shutil.which("tracekit", path=str(Path(sys.executable).parent))
    command = [script] if script else [sys.executable, "-m", "tracekit"]
    if setting.stand_in:
        command = [sys.executable, "-c", "import json, argparse"]
    many = replace(setting, rounds=9, quick=False)
    ours, theirs = rounds(
        many,
        lambda: whole_process([*command, "--help"] if not setting.stand_in else command),
        lambda: whole_process([sys.executable, "-c", "pass"]),
    )
    return paired(many, "tracekit --help / python -c pass", ours, theirs, 18)


def small(setting: Setting) -> list[Line]:
    """Whole commands on a file of 137 events, beside the process of the floor: the least of the rounds, and the ratio.

    The commands have their byte code, as users have: a run of each before the first round writes it. They do not read
    the `pyproject.toml` of this checkout, which names tracekit and takes as long as twenty modules: no user has it.
    """
    source, target = setting.input("nvprof-csv", 137), setting.output("small.json")
    start = [sys.executable, "-m", "tracekit", "--no-config"]
    cases = {
        "convert to Chrome JSON": setting.converter(source, target),
        "summary": [*start, "summary", str(source)],
        "inspect": [*start, "inspect", str(source)],
        "of the file alone": [*start, str(source)],
        "formats": [*start, "formats"],
        "--help": [*start, "--help"],
        "--version": [*start, "--version"],
    }
    for command in cases.values():
        whole_process(command)
    size = str(target.stat().st_size)
    floor = [sys.executable, str(HERE / "_baselines.py"), "floor", str(source), size, str(setting.output("floor.bin"))]
    lines = []
    for name, command in cases.items():
        ours, theirs = rounds(
            replace(setting, rounds=9),
            lambda command=command: whole_process(command),  # type: ignore[misc]
            lambda: whole_process(floor),
        )
        limit = SMALL_SECONDS if name in ("convert to Chrome JSON", "summary", "inspect") else 0
        lines.append(_least(f"tracekit {name}, 137 events", ours, limit))
        if (most := OVER_FLOOR.get(name)) is not None:
            times = ratio(ours, theirs, "cpu")
            lines.append(Line(f"  {name} / the floor's process", f"{times:.2f}x", f"<= {most:g}x", times <= most))
    return [*lines, _least("  the floor's process for the same file", theirs)]


def _least(what: str, costs: list[Cost], limit: float = 0.0) -> Line:
    wall, cpu, peak = (min(getattr(cost, key) for cost in costs) for key in ("wall", "cpu", "rss_mb"))
    return Line(
        what,
        f"{cpu:.2f} s CPU (wall {wall:.2f} s, {peak:.0f} MB)",
        f"<= {limit:g} s" if limit else "",
        cpu <= limit if limit else None,
    )


def hta(setting: Setting) -> list[Line]:
    """A Kineto file and its kernels by name, against HolisticTraceAnalysis; its Python is named by --hta-python."""
    what = f"Kineto, {setting.rows:,} events, `summary --view kernel`: HTA / ours"
    if not setting.hta_python:
        return [Line(what, "skipped: --hta-python names no Python that has HTA", ">= 12x")]
    source = setting.kineto()
    few = replace(setting, rounds=min(setting.rounds, 2))
    ours, theirs, narrow = rounds(
        few,
        lambda: view_case("kernels", source),
        lambda: view_case("hta", source, python=setting.hta_python),
        lambda: view_case("kernels", source, "own"),
    )
    for mine, other in zip(ours, theirs, strict=True):
        same = abs(mine.checks["sum_us"] - other.checks["sum_us"]) < 1e-6 * other.checks["sum_us"]
        if not same or mine.checks["names"] != other.checks["names"]:
            raise CaseFailed(f"hta: the two do not agree: {mine.checks} and {other.checks}")
    # HTA's loader keeps the arguments that its analyses need, `summary --view kernel` the columns of its view.
    lines = paired(setting, what, narrow, theirs, 12, faster=True)
    whole = f"{ratio(theirs, ours, 'cpu'):.2f}x (wall {ratio(theirs, ours, 'wall'):.2f}x; {_seconds(ours)})"
    return [*lines, Line("  the same with all columns in memory, arguments too", whole)]


def views(setting: Setting) -> list[Line]:
    """All views of a Kineto file against loading it."""
    source = setting.kineto()
    few = replace(setting, rounds=min(setting.rounds, 3))
    ours, theirs = rounds(few, lambda: view_case("all_views", source), lambda: view_case("load", source))
    lines = paired(setting, f"all views of {setting.rows:,} Kineto events / loading them", ours, theirs, 3)
    each = sorted(ours[0].checks["views"].items(), key=lambda item: -item[1])
    slowest = ", ".join(f"{name} {took:.2f} s" for name, took in each[:4])
    return [*lines, Line(f"  the slowest of {len(each)} views", slowest)]


def report(setting: Setting) -> list[Line]:
    """`tracekit report` of a Kineto file as a command, against loading the same file with all columns."""
    source, page = setting.kineto(), setting.output("report.html")
    command = [sys.executable, "-m", "tracekit", "report", str(source), "-o", str(page), "--force"]
    few = replace(setting, rounds=min(setting.rounds, 3))
    ours, theirs = rounds(few, lambda: whole_process(command), lambda: view_case("load", source))
    peak = max(cost.rss_mb for cost in ours)
    figure = f"{ratio(ours, theirs, 'cpu'):.2f}x ({_seconds(ours)} against {_seconds(theirs)})"
    return [
        Line(f"report of {setting.rows:,} Kineto events, start-up included / loading them", figure),
        Line("  peak RSS of the report", f"{peak:.0f} MB"),
    ]


def commands(setting: Setting) -> list[Line]:
    """The cost of whole commands on an nvprof CSV: what README and docs say of speed. The least of the rounds."""
    source, archive = setting.input("nvprof-csv"), setting.output("run.parquet")
    start = [sys.executable, "-m", "tracekit"]
    sql = "SELECT name, sum(dur_ns) AS total_ns FROM events WHERE kind = 'kernel' GROUP BY name"
    cases = {
        "convert to Chrome JSON": ["convert", str(source), "-o", str(setting.output("trace.json")), "--force"],
        "convert to Parquet": ["convert", str(source), "-o", str(archive), "--force"],
        "summary --view kernel": ["summary", str(source), "--view", "kernel"],
        "query": ["query", str(source), sql],
        "query of the Parquet file": ["query", str(archive), sql],
    }
    few = replace(setting, rounds=min(setting.rounds, 3))
    lines = []
    for name, words in cases.items():
        (costs,) = rounds(few, lambda words=words: whole_process([*start, *words]))  # type: ignore[misc]
        cpu, peak = min(cost.cpu for cost in costs), max(cost.rss_mb for cost in costs)
        lines.append(Line(f"tracekit {name}, {setting.rows:,} rows", f"{cpu:.2f} s CPU, {peak:.0f} MB"))
    return lines


def whole(setting: Setting) -> list[Line]:
    """Whole commands on two cores against the floor as a process of its own, by the wall clock.

    On a busy machine this says little: the least of the rounds is taken, and CPU seconds are beside it.
    """
    lines = []
    floor = setting.output("floor.bin")
    with _two_cores():
        for what, kind, suffix, limit in (
            ("nvprof CSV to Chrome JSON", "nvprof-csv", "json", 2.0),
            ("the same with 7 % overlapping kernels", "nvprof-overlaps", "json", 2.0),
            ("nvprof CSV to Chrome JSON, gzipped", "nvprof-csv", "json.gz", 0.0),
            ("nvprof CSV to Perfetto", "nvprof-csv", "pftrace", 0.0),
            ("nvprof CSV to Parquet", "nvprof-csv", "parquet", 0.0),
        ):
            source, target = setting.input(kind), setting.output(f"whole.{suffix}")
            whole_process(setting.converter(source, target))
            below = [sys.executable, str(HERE / "_baselines.py"), "floor", str(source), str(target.stat().st_size)]
            ours, theirs = rounds(
                setting,
                lambda source=source, target=target: whole_process(setting.converter(source, target)),  # type: ignore[misc]
                lambda below=below: whole_process([*below, str(floor)]),  # type: ignore[misc]
            )
            wall, cpu = (min(getattr(cost, key) for cost in ours) for key in ("wall", "cpu"))
            floor_wall, floor_cpu = (min(getattr(cost, key) for cost in theirs) for key in ("wall", "cpu"))
            figures = f"{wall:.2f} s, CPU {cpu:.2f}; floor {floor_wall:.2f}, CPU {floor_cpu:.2f}"
            measured = f"{wall / floor_wall:.2f}x wall ({figures})"
            met = None if setting.quick or not limit else wall <= limit * floor_wall
            lines.append(Line(f"{what}, whole command / floor", measured, f"<= {limit:g}x" if limit else "", met))
            target.unlink()
    return lines


@contextlib.contextmanager
def _two_cores() -> Iterator[None]:
    """Let the cases run on two cores, where the system can say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(AFFINITY)[-2:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, pinned)


def kernel_view(setting: Setting) -> list[Line]:
    """The kernel view with exact percentiles against the least that numpy does for them."""
    rows = 5 * setting.rows
    ours, theirs = rounds(setting, lambda: view_case("kernel_view", rows), lambda: view_case("sort_by_code", rows))
    for mine, other in zip(ours, theirs, strict=True):
        if mine.checks != other.checks:
            raise CaseFailed(f"kernel_view: the two do not agree: {mine.checks} and {other.checks}")
    return paired(setting, f"kernel view of {rows:,} rows / numpy sort by code", ours, theirs, 1.3)


def streamed(setting: Setting) -> list[Line]:
    """Peak memory of views that are added up batch by batch, start-up included: it must not grow with the events."""
    rows = 5 * setting.rows
    source = setting.input("nvprof-csv", rows)
    lines = []
    for view in STREAMED:
        cost = whole_process([sys.executable, "-m", "tracekit", "summary", str(source), "--view", view])
        what = f"peak RSS of --view {view}, {rows:,} rows ({cost.cpu:.1f} s CPU)"
        lines.append(Line(what, f"{cost.rss_mb:.0f} MB", "<= 350 MB", cost.rss_mb <= 350))
    return lines


def kineto(setting: Setting) -> list[Line]:
    """Reading a Kineto file with all arguments against orjson into the same columns."""
    import kineto_read

    costs = _checked(lambda: kineto_read.pairs(kineto_read.made(setting.cache, setting.rows), setting.rounds))
    least = f"{ratio(costs['lists'], costs['ours'], 'cpu'):.2f}x ({_seconds(costs['lists'])})"
    peak = max(cost.rss_mb for cost in costs["ours"])
    what = f"Kineto, {setting.rows:,} events: orjson into our columns / ours"
    return [
        *paired(setting, what, costs["ours"], costs["columns"], kineto_read.FASTER, faster=True),
        Line("  orjson into Python lists, arguments left as dicts / ours", least),
        Line("  peak RSS of reading it", f"{peak:.0f} MB", "<= 300 MB", None if setting.quick else peak <= 300),
    ]  # fmt: skip


def sqlite(setting: Setting) -> list[Line]:
    """Reading nvprof's and Nsight Systems' databases against sqlite3's fetchmany into columns."""
    import sqlite_read

    lines = []
    for form in sqlite_read.FORMATS:
        path = setting.output(f"{form}.sqlite")
        sqlite_read.make(form, path, setting.rows)
        costs = _checked(lambda form=form, path=path: sqlite_read.pairs(form, path, setting.rounds))  # type: ignore[misc]
        path.unlink()
        what = f"{form} SQLite, {setting.rows:,} kernels: fetchmany into columns / ours"
        lines += paired(setting, what, costs["ours"], costs["fetchmany"], sqlite_read.TARGET, faster=True)
    return lines


def nsys_view(setting: Setting) -> list[Line]:
    """`summary --view kernel` of a database of Nsight Systems against a process that groups its kernels in SQL."""
    import sqlite_read

    path = setting.output("view.sqlite")
    sqlite_read.make("nsys", path, setting.rows)
    view = [sys.executable, "-m", "tracekit", "summary", str(path), "--view", "kernel"]
    group_by = [sys.executable, str(HERE / "sqlite_read.py"), "--case", "group_by", str(path)]
    whole_process(view)  # writes the byte code
    ours, theirs = rounds(setting, lambda: whole_process(view), lambda: whole_process(group_by))
    path.unlink()
    what = f"nsys SQLite, {setting.rows:,} kernels, `--view kernel` / SQL group by"
    peak = max(cost.rss_mb for cost in ours)
    return [*paired(setting, what, ours, theirs, 1.5), Line("  peak RSS of the view", f"{peak:.0f} MB")]


def _checked(measure: Callable[[], dict[str, list[dict[str, Any]]]]) -> dict[str, list[Cost]]:
    """Return what another script measured, as costs."""
    try:
        found = measure()
    except SystemExit as err:
        raise CaseFailed(str(err)) from err
    return {
        name: [Cost(one["wall"], one["cpu"], rss_mb=one.get("rss_mb", 0.0)) for one in costs]
        for name, costs in found.items()
    }


MEASUREMENTS: dict[str, Callable[[Setting], list[Line]]] = {
    measure.__name__: measure
    for measure in (
        chrome,
        growth,
        kvp,
        emission,
        parquet,
        startup,
        small,
        kineto,
        sqlite,
        nsys_view,
        kernel_view,
        streamed,
        views,
        report,
        commands,
        whole,
        hta,
    )
}


def print_line(what: str, measured: str, target: str, verdict: str) -> None:
    print(f"{what:<66} | {measured:<56} | {target:<9} | {verdict}", flush=True)


def work_folder(rows: int, cache: Path) -> Path:
    """Return the folder for outputs: in memory, if the largest output and one more fit there, else beside the cache."""
    memory = Path("/dev/shm")
    needed = 2 * 300 * GROWTH * rows
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > needed else cache


def prepare(cache: Path) -> None:
    """Pin this process and its children to one core, and give commands the sources and a place for byte code."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1", "PYTHONPATH": str(HERE.parent)}
    cache.mkdir(parents=True, exist_ok=True)
    # Commands are timed with byte code, as users have it, also where this process must leave none beside the sources.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(cache.resolve() / "bytecode")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help=f"rows of the normal input; the big one has {GROWTH} times as many")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 2")
    parser.add_argument("--quick", action="store_true", help="20,000 rows: does it run? Ratios are shown, not judged")
    parser.add_argument("--cache", type=Path, default=HERE.parent / ".cache" / "benchmarks", help="generated inputs")
    parser.add_argument("--work", type=Path, help="outputs; default: /dev/shm when it has room, else the cache")
    parser.add_argument("--only", action="append", choices=list(MEASUREMENTS), help="may be given several times")
    parser.add_argument("--stand-in", action="store_true", help="baselines in tracekit's place: tests the harness")
    parser.add_argument("--hta-python", default="", help="a Python that has HolisticTraceAnalysis, for --only hta")
    given = parser.parse_args(arguments)
    prepare(given.cache)
    rows = given.rows or (20_000 if given.quick else 1_000_000)
    count = given.rounds or (2 if given.quick else 5)
    met = []
    with tempfile.TemporaryDirectory(
        dir=given.work or work_folder(rows, given.cache), prefix="tracekit-bench-"
    ) as work:
        setting = Setting(rows, count, given.quick, given.cache, Path(work), given.stand_in, given.hta_python)
        print_line("what", "measured", "target", "ok")
        for name in given.only or MEASUREMENTS:
            try:
                lines = MEASUREMENTS[name](setting)
            except CaseFailed as error:
                lines = [Line(name, f"failed: {error}", "", False)]
            for line in lines:
                print_line(line.what, line.measured, line.target, {True: "yes", False: "NO", None: "-"}[line.met])
            met += [line.met for line in lines]
    return 1 if False in met else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

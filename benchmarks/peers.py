"""Ask other programs the same question, in pairs: CPU seconds and peak memory of whole commands, start-up included.

    python benchmarks/peers.py [--rows N] [--rounds N] [--quick] [--cache FOLDER]
        [--hta-python PYTHON] [--tracelens-python PYTHON] [--nsys-ai-python PYTHON] [--nvprof2json SCRIPT]

Each peer lives in a Python of its own; README.md says how to make it. A peer that is not given is skipped, and its
line says so. Both answers are compared: the same kernels, the same calls, the same sum of durations. If they
differ, the line fails. Inputs come from a seed. Each run gets a copy of its input in a new folder, so that no cache of
an earlier run answers; a peer that keeps a cache runs again there, and that figure is shown too. Ratios are within a
round; the table shows their medians. Exit code: 0, or 1 if a line failed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import multiprocessing
import os
import platform
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import run
from run import CaseFailed, Cost

KernelTable = dict[str, tuple[int, float]]
"""Calls and total ns of each kernel, by name."""
ROWS, QUICK_ROWS, FEW_ROWS = 200_000, 20_000, 2_000
"""Of 200,000 rows the slowest peer takes less than two minutes in three rounds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The kernels that an answer counts, with their time, and how exactly it prints the time."""

    calls: int
    total_ns: float
    kernels: KernelTable | None = None  # None: the answer has no full table by name
    within_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Side:
    """A command, and the reading of what it prints."""

    command: list[str]
    answer: Callable[[str], Answer]


@dataclass(frozen=True, slots=True)
class Question:
    """A question that tracekit and a peer both answer, with the input and the two commands."""

    option: str
    name: str
    question: str
    make_input: Callable[[Path, int], None]
    suffix: str
    ours: Callable[[Path], Side]
    theirs: Callable[[str, Path], Side]
    version: Callable[[str], str]
    keeps_cache: bool = False  # beside the input, for the next run of the peer


# ---- the cases that run under the Python of a peer: all imports are inside


def hta_case(path: str) -> KernelTable:
    """Load a Kineto file with HolisticTraceAnalysis and return its kernel breakdown with all names."""
    import logging

    # Its default rounds each time to whole microseconds; then its sums are not those of the file.
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.CRITICAL)
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir=str(Path(path).parent))
    table = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1 << 20, duration_ratio=1.0)[1]
    rows = zip(table["name"], table["sum (us)"], table["mean (us)"], strict=True)
    return {str(name): (round(total / mean), float(total) * 1000) for name, total, mean in rows}


def tracelens_case(path: str) -> KernelTable:
    """Load a Kineto file with TraceLens and group its table of kernels by name."""
    from TraceLens import TreePerfAnalyzer

    kernels = TreePerfAnalyzer.from_file(path).get_df_kernels()
    durations = kernels.groupby("Kernel name")["Kernel duration (µs)"].agg(["count", "sum"])
    rows = zip(durations.index, durations["count"], durations["sum"], strict=True)
    return {str(name): (int(calls), float(total) * 1000) for name, calls, total in rows}


CASES: dict[str, Callable[[str], KernelTable]] = {"hta": hta_case, "tracelens": tracelens_case}


# ---- what commands print, read back


def of_table(kernels: KernelTable) -> Answer:
    return Answer(sum(calls for calls, _ in kernels.values()), sum(ns for _, ns in kernels.values()), kernels)


def of_case(printed: str) -> Answer:
    """Read the last line of a case: the peer may print other lines before."""
    return of_table({name: (calls, ns) for name, (calls, ns) in json.loads(printed.splitlines()[-1]).items()})


def of_kernel_view(printed: str) -> Answer:
    """Read the kernel table of `tracekit summary --format json`, with or without other views."""
    (section,) = [section for section in json.loads(printed)["sections"] if section["view"] == "kernel"]
    (table,) = section["tables"]
    places = [[column["name"] for column in table["columns"]].index(key) for key in ("name", "calls", "total")]
    return of_table({row[places[0]]: (row[places[1]], row[places[2]]) for row in table["rows"]})


def of_nsys_ai(printed: str) -> Answer:
    """Read `nsys-ai summary`: kernels and their time of each GPU, in ms with one decimal."""
    calls = [int(text) for text in re.findall(r"^  Kernels: (\d+)", printed, re.M)]
    times = [float(text) for text in re.findall(r"Compute: ([\d.]+)ms", printed)]
    if not calls or len(calls) != len(times):
        raise CaseFailed("nsys-ai printed no summary that this benchmark can read")
    return Answer(sum(calls), sum(times) * 1e6, within_ns=0.05e6 * len(times) + 1)


def of_events(events: Iterable[dict[str, Any]], ns_per_unit: float) -> Answer:
    """Count the kernels of a Chrome trace, by name."""
    kernels: KernelTable = {}
    for event in events:
        calls, total = kernels.get(event["name"], (0, 0.0))
        kernels[event["name"]] = (calls + 1, total + event["dur"] * ns_per_unit)
    return of_table(kernels)


def of_nvprof2json(printed: str) -> Answer:
    """Read the trace of nvprof2json: each kernel is there twice, and times are ns though the format has us."""
    events = json.loads(printed)
    kernels = [event for event in events if event.get("tid") == "Compute" and str(event["pid"]).endswith("Overview")]
    return of_events(kernels, 1)


def of_chrome_trace(path: Path) -> Callable[[str], Answer]:
    """Return a reader of the trace that `tracekit convert` wrote to a path."""

    def answer(_: str) -> Answer:
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        return of_events([event for event in events if event.get("cat") == "kernel" and event["ph"] == "X"], 1000)

    return answer


def differences(ours: Answer, theirs: Answer) -> str:
    """Return how two answers differ; empty where they agree."""
    if ours.calls != theirs.calls:
        return f"{ours.calls:,} calls here, {theirs.calls:,} there"
    # Times of a peer are binary floats in us, or printed with few digits.
    if not math.isclose(ours.total_ns, theirs.total_ns, rel_tol=1e-9, abs_tol=theirs.within_ns):
        return f"{ours.total_ns:,.0f} ns here, {theirs.total_ns:,.0f} ns there"
    if ours.kernels is None or theirs.kernels is None:
        return ""
    if ours.kernels.keys() != theirs.kernels.keys():
        return f"other kernels: {sorted(ours.kernels.keys() ^ theirs.kernels.keys())[0]}"
    for name, (calls, total) in ours.kernels.items():
        their_calls, their_total = theirs.kernels[name]
        if calls != their_calls or not math.isclose(total, their_total, rel_tol=1e-9, abs_tol=1):
            return f"{name}: {calls:,} calls, {total:,.0f} ns here, {their_calls:,}, {their_total:,.0f} ns there"
    return ""


# ---- the peers


def make_kineto(path: Path, rows: int) -> None:
    from kineto_read import generate

    generate(path, rows)


def make_nsys(path: Path, rows: int) -> None:
    import sqlite_read

    sqlite_read.make("nsys", path, rows)


def make_nvprof(path: Path, rows: int) -> None:
    import sqlite_read

    sqlite_read.make("nvprof", path, rows)
    with sqlite3.connect(path) as db:  # nvprof2json needs the table, nvprof always makes it
        db.execute(
            "create table CUPTI_ACTIVITY_KIND_MARKER(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, flags INT NOT NULL, "
            "timestamp INT NOT NULL, id INT NOT NULL, objectKind INT NOT NULL, objectId BLOB NOT NULL, "
            "name INT NOT NULL, domain INT NOT NULL)"
        )
    db.close()


def tracekit(*words: object) -> list[str]:
    return [sys.executable, "-m", "tracekit", *map(str, words)]


def kernel_view(path: Path) -> Side:
    return Side(tracekit("summary", path, "--view", "kernel", "--format", "json"), of_kernel_view)


def first_screen(path: Path) -> Side:
    """Return `tracekit summary`, findings included, as JSON: its kernel table is whole there."""
    return Side(tracekit("summary", path, "--format", "json"), of_kernel_view)


def conversion(path: Path) -> Side:
    target = path.with_name("ours.json")
    return Side(tracekit("convert", path, "-o", target, "--force"), of_chrome_trace(target))


def nsys_ai_summary(python: str, path: Path) -> Side:
    return Side([python, "-m", "nsys_ai", "summary", str(path)], of_nsys_ai)


def own_case(name: str) -> Callable[[str, Path], Side]:
    return lambda python, path: Side([python, str(Path(__file__)), "--case", name, str(path)], of_case)


def package_version(package: str) -> Callable[[str], str]:
    """Return a function that asks a Python for the version of its package."""

    def version(python: str) -> str:
        program = f"import importlib.metadata as m; print(m.version({package!r}))"
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
        if done.returncode:
            raise CaseFailed(f"this Python has no {package}")
        return done.stdout.strip()

    return version


def script_version(script: str) -> str:
    """Return the date and commit of a script in its checkout: it has no version."""
    folder = Path(script).resolve().parent
    command = ["git", "-C", str(folder), "log", "-1", "--format=%cs %h"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "of unknown version"


QUESTIONS = (
    Question(
        "hta_python",
        "HolisticTraceAnalysis",
        "kernel table of a Kineto file",
        make_kineto,
        "json",
        kernel_view,
        own_case("hta"),
        package_version("HolisticTraceAnalysis"),
    ),
    Question(
        "tracelens_python",
        "TraceLens",
        "kernel table of a Kineto file",
        make_kineto,
        "json",
        kernel_view,
        own_case("tracelens"),
        package_version("TraceLens"),
    ),
    Question(
        "nsys_ai_python",
        "nsys-ai",
        "kernel table of an nsys SQLite",
        make_nsys,
        "sqlite",
        kernel_view,
        nsys_ai_summary,
        package_version("nsys-ai"),
        keeps_cache=True,
    ),
    Question(
        "nsys_ai_python",
        "nsys-ai",
        "summary of an nsys SQLite",
        make_nsys,
        "sqlite",
        first_screen,
        nsys_ai_summary,
        package_version("nsys-ai"),
        keeps_cache=True,
    ),
    Question(
        "nvprof2json",
        "nvprof2json",
        "nvprof SQLite to Chrome JSON",
        make_nvprof,
        "sqlite",
        conversion,
        lambda script, path: Side([sys.executable, script, str(path)], of_nvprof2json),
        script_version,
    ),
)


# ---- measuring


@dataclass(frozen=True, slots=True)
class Setting:
    """The size of the inputs, the number of rounds, and where the files lie."""

    rows: int
    rounds: int
    cache: Path
    work: Path

    def input(self, question: Question, rows: int) -> Path:
        """Return the generated input, made on first use."""
        path = self.cache / f"peers-{question.make_input.__name__[5:]}-{rows}.{question.suffix}"
        if not path.exists():
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            question.make_input(part, rows)
            part.rename(path)
        return path


def measured(setting: Setting, side: Callable[[Path], Side], source: Path, runs: int = 1) -> tuple[list[Cost], Answer]:
    """Run one side on a copy of the input, once or again and again, and read its answer, outside of the time."""
    with tempfile.TemporaryDirectory(dir=setting.work) as folder:
        one = side(Path(shutil.copy(source, folder)))
        printed = Path(folder) / "printed.txt"
        costs = [run.whole_process(one.command, printed) for _ in range(runs)]
        return costs, apart(lambda: one.answer(printed.read_text(encoding="utf-8")))


def apart(read: Callable[[], Answer]) -> Answer:
    """Return an answer that a process of its own reads.

    Linux counts the peak of the process that starts a command as one of the command.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(read()))
    process.start()
    sender.close()
    try:
        answer: Answer = receiver.recv()
    except EOFError:
        raise run.CaseFailed("the answer cannot be read") from None
    finally:
        process.join()
    return answer


def compare(setting: Setting, question: Question, given: str) -> tuple[list[Cost], list[Cost], list[Cost]]:
    """Return the costs of tracekit, of the peer, and of the peer with its cache, round by round.

    Raises: CaseFailed where the answers differ.
    """

    def theirs_of(path: Path) -> Side:
        return question.theirs(given, path)

    few = setting.input(question, FEW_ROWS)
    for side in (question.ours, theirs_of):  # writes the byte code of both programs, as users have it
        measured(setting, side, few)
    source = setting.input(question, setting.rows)
    ours: list[Cost] = []
    theirs: list[Cost] = []
    again: list[Cost] = []
    for number in range(setting.rounds):
        answers: dict[str, Answer] = {}
        for who in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
            if who == "ours":
                (cost,), answers[who] = measured(setting, question.ours, source)
                ours.append(cost)
            else:
                costs, answers[who] = measured(setting, theirs_of, source, 2 if question.keeps_cache else 1)
                theirs.append(costs[0])
                again += costs[1:]
        if differs := differences(answers["ours"], answers["theirs"]):
            raise CaseFailed(f"the answers differ: {differs}")
    return ours, theirs, again


def figures(costs: list[Cost]) -> str:
    seconds, peak = (statistics.median(getattr(cost, key) for cost in costs) for key in ("cpu", "rss_mb"))
    return f"{seconds:.2f} s CPU, {peak:.0f} MB"


def lines(setting: Setting, question: Question, given: str) -> list[str]:
    """Measure a question and return its lines of the table."""
    version = question.version(given)
    ours, theirs, again = compare(setting, question, given)
    cpu, rss = (run.ratio(theirs, ours, attribute) for attribute in ("cpu", "rss_mb"))
    return [
        f"{question.question}, {setting.rows:,} rows",
        f"  {question.name} {version}: {figures(theirs)}",
        *([f"  the same from its cache: {figures(again)}"] if again else []),
        f"  tracekit {importlib.metadata.version('tracekit-gpu')}: {figures(ours)}",
        f"  theirs / ours: {cpu:.1f}x CPU, {rss:.1f}x memory; the same answer",
    ]


def machine() -> str:
    """Return the processor, its cores and the load, so that a figure can be judged later."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)", info.read_text(encoding="utf-8"), re.M) if info.exists() else []
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg()) if hasattr(os, "getloadavg") else "not known"
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, load {load}; Python {platform.python_version()}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help=f"rows of each input; default: {ROWS:,}")
    parser.add_argument("--rounds", type=int, help="default: 3, with --quick 1")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows: does it run?")
    parser.add_argument("--cache", type=Path, default=run.HERE.parent / ".cache" / "benchmarks", help="inputs")
    parser.add_argument("--hta-python", default="", help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--tracelens-python", default="", help="a Python that has TraceLens")
    parser.add_argument("--nsys-ai-python", default="", help="a Python that has nsys-ai")
    parser.add_argument("--nvprof2json", default="", help="nvprof2json.py, in its checkout")
    parser.add_argument("--case", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.case:
        print(json.dumps(CASES[given.case[0]](given.case[1])))
        return 0
    run.prepare(given.cache)
    rows = given.rows or (QUICK_ROWS if given.quick else ROWS)
    print(machine(), flush=True)
    failed = False
    with tempfile.TemporaryDirectory(prefix="tracekit-peers-") as work:
        setting = Setting(rows, given.rounds or (1 if given.quick else 3), given.cache, Path(work))
        for question in QUESTIONS:
            value = getattr(given, question.option)
            if not value:
                option = "--" + question.option.replace("_", "-")
                print(f"{question.question}\n  {question.name}: skipped, because {option} is not given", flush=True)
                continue
            try:
                print("\n".join(lines(setting, question, value)), flush=True)
            except CaseFailed as error:
                failed = True
                print(f"{question.question}\n  {question.name}: failed: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Record what the commands print and write, byte for byte, so that a change can prove that no output changed.

    python tests/outputs.py record FOLDER [--only TEXT] [--corpus | --no-corpus] [--jobs N] [--tree TREE]
    python tests/outputs.py compare BASE NEW [--only TEXT]

The code under test is that of TREE, the current folder. A case is one command on one input: every sample with every
target, view and compat; every small file of the corpus (`../shared/corpus`, or TRACEKIT_CORPUS) with fewer commands;
and a few commands of their own. Its record is one text file: exit code, stdout, stderr and the files written. What is
not text is a hash, but for Parquet: its schema, metadata, layout, and a hash of each column.

The cases of an input run in one forked child of a process that imported everything once, each in a folder of its own.
--only takes words separated by commas: cases with one of them in their names, as substring or pattern
(`--only nvprof`, `--only '*/report'`).
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import fnmatch
import gc
import hashlib
import importlib
import io
import os
import pkgutil
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path

MOST_BYTES = 600_000
"""Larger files of the corpus are left out: their time buys no branch that the small ones lack."""
RECORD = ".record"
"""How the file of a record ends: no input ends so, and a folder and one of its files may share a stem."""
MOST_SECONDS = 120
"""A child that runs longer is ended, and its record says so."""
AGE = 1_700_000_000
"""When the samples were last changed, in Unix time."""
TARGETS = {
    "chrome": "x.json",
    "csv": "x.csv",
    "cuda-csv": "x.log",
    "cuda-kvp": "x.kvp",
    "firefox": "x.firefox.json",
    "fluid-pb": "x.prof",
    "jsonl": "x.jsonl",
    "otf2": "x.otf2",
    "paddle-pb": "x.pb",
    "parquet": "x.parquet",
    "perfetto": "x.pftrace",
    "speedscope": "x.speedscope.json",
    "spreadsheet": "x.spreadsheet.csv",
}
COMPATS = ("paddle", "fluid", "mxnet", "theano", "singa", "torch")
COUNTS = "SELECT kind, count(*) AS n, sum(dur_ns) AS total FROM events GROUP BY kind ORDER BY kind"
S = "sample_traces"
GPU = f"{S}/kineto/gpu.pt.trace.json"
CSV = f"{S}/nvprof-csv"
PROCESSES = f"{S}/nsys-sqlite/two-processes.sqlite"
BATCH = [f"{S}/kineto", f"{S}/recorder-log", f"{S}/nvprof-text"]
RANKS = [f"{S}/recorder-log/rank0.jsonl", f"{S}/recorder-log/rank1.jsonl"]
WORDS = ("convert", "summary", "report", "open", "inspect", "doctor", "explain", "query", "compare", "batch", "archive")
OWN: dict[str, list[str]] = {
    "help": ["--help"],
    "version": ["--version"],
    "help-formats": ["formats", "--help"],
    **{f"help-{word}": [word, "--help"] for word in WORDS},
    "formats": ["formats"],
    "bad-option": ["formats", "--format", "json"],
    "compare": ["compare", f"{S}/kineto/cpu.pt.trace.json", GPU],
    "compare-json": ["compare", GPU, f"{S}/kineto/gpu-torch-1.8.json", "--format", "json"],
    "compare-html": ["compare", f"{CSV}/gpu-and-api-trace.csv", f"{CSV}/mpirun.csv", "-o", "x.html"],
    "compare-totals": ["compare", f"{CSV}/summary-old.csv", f"{CSV}/summary-new.csv"],
    "compare-gate": ["compare", *RANKS, "--fail-on", "step.p50 > 1%"],
    "explain": ["explain", GPU, "kernel.total", "device.kernel_time"],
    "batch": ["batch", *BATCH, "-o", "out", "--no-archive", "--jobs", "1"],
    "batch-archive": ["batch", f"{S}/mxnet", f"{S}/theano", "-o", "out", "--jobs", "1", "--to", "chrome"],
    "archive-add": ["archive", "add", "out", GPU],
    "ranks-summary": ["summary", *RANKS, "--all"],
    "ranks-shares": ["summary", *RANKS, "--all", "--jobs", "1"],
    "ranks-by": ["summary", *RANKS, "--all", "--by", "rank"],
    "ranks-chrome": ["convert", *RANKS, "-o", "x.json"],
    "ranks-report": ["report", *RANKS, "-o", "x.html"],
    "several": ["convert", f"{CSV}/gpu-trace-20-columns.csv", GPU, "-o", "x.json"],
    "several-folder": ["convert", f"{S}/singa", f"{S}/mxnet", "-o", "out/", "--to", "chrome"],
    "several-bad": ["summary", f"{S}/README.md", GPU, "missing.json"],
    "findings": ["convert", GPU, "-o", "x.json", "--findings"],
    "for-chrome": ["convert", GPU, "-o", "x.json", "--for", "chrome"],
    "for-perfetto": ["convert", f"{S}/chrome-trace", "-o", "x.json", "--for", "perfetto"],
    "split": ["convert", GPU, "-o", "x.json", "--split", "events=10"],
    "longest": ["convert", GPU, "-o", "x.json", "--max-events", "5"],
    "first": ["convert", GPU, "-o", "x.json", "--max-read-events", "9"],
    "first-bytes": ["summary", f"{CSV}/api-trace.csv", "--max-read-bytes", "700", "--all"],
    "filter-kind": ["summary", GPU, "--kind", "kernel", "--all"],
    "filter-name": ["convert", f"{CSV}/gpu-and-api-trace.csv", "--name", "gemm|Launch", "-o", "x.jsonl"],
    "filter-time": ["inspect", GPU, "--time", "1us:1ms", "--min-dur", "5us"],
    "filter-step": ["summary", f"{S}/recorder-log/rank0.jsonl", "--step", "0:1", "--all"],
    "anonymize": ["convert", GPU, "-o", "x.json", "--anonymize-names", "--anonymize-key", "k"],
    "anonymize-page": ["report", PROCESSES, "-o", "x.html", "--anonymize", "--anonymize-key", "k"],
    "sorted": ["summary", GPU, "--view", "kernel", "--sort", "avg", "--unit", "us", "--top", "2"],
    "markdown": ["summary", GPU, "--view", "all", "--format", "markdown"],
    "csv": ["summary", GPU, "--view", "all", "--format", "csv"],
    "threads": ["summary", GPU, "--view", "operator", "--thread-sep", "--no-op-detail"],
    "repair": ["doctor", f"{S}/chrome-trace/py-spy.json", "--fix", "-o", "x.json"],
    "strict": ["convert", f"{CSV}/truncated.csv", "--strict", "-o", "x.json"],
    "wrong-format": ["inspect", f"{CSV}/metrics.csv", "--from", "kineto"],
    "no-command": ["sumary"],
    "no-format": ["inspect", f"{CSV}/metrics.csv", "--from", "nvproff"],
    "no-view": ["summary", f"{CSV}/metrics.csv", "--view", "kernels"],
    "no-column": ["summary", GPU, "--view", "kernel", "--sort", "averg"],
    "no-target": ["convert", GPU, "-o", "x.unknown"],
    "no-option": ["summary", GPU, "--option", "least_shar=1"],
    "no-file": ["summary", "out --force/run.csv"],
    "no-column-sql": ["query", GPU, "SELECT nam FROM events"],
    "query-totals": ["query", f"{CSV}/summary-new.csv", "SELECT * FROM totals ORDER BY ALL"],
}  # fmt: skip
"""Commands on no input, on several, or with options that need not meet every sample."""


@dataclass(frozen=True)
class Case:
    """One command. Its name is the path of its record: the input, and a word for the command."""

    name: str
    words: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    doings = parser.add_subparsers(dest="doing", required=True)
    recording = doings.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--corpus", action=argparse.BooleanOptionalAction, default=None)
    recording.add_argument("--jobs", type=int, default=2)
    recording.add_argument("--tree", type=Path, default=Path.cwd())
    comparing = doings.add_parser("compare")
    comparing.add_argument("base", type=Path)
    comparing.add_argument("new", type=Path)
    for each in (recording, comparing):
        each.add_argument("--only", default="")
    given = parser.parse_args()
    if given.doing == "compare":
        sys.exit(compare(given.base, given.new, given.only))
    record(given.folder.absolute(), given.tree.resolve(), given.only, given.corpus, given.jobs)


# Which cases there are


def places(tree: Path, corpus: bool | None) -> dict[str, Path]:
    """Return the folders of inputs, by the names that commands see: the same ones on every machine."""
    root = Path(os.environ.get("TRACEKIT_CORPUS") or tree.parent / "shared" / "corpus")
    beside = {"corpus": root, "corpus-next": root.parent / "corpus-next", "cases": root.parent / "cases" / "files"}
    if corpus and not root.is_dir():
        sys.exit(f"{root}: no corpus (TRACEKIT_CORPUS names its folder)")
    held = {} if corpus is False else {name: path.resolve() for name, path in beside.items() if path.is_dir()}
    return {S: tree / S} | held


def cases(inputs: dict[str, Path], only: str) -> list[Case]:
    """Return the cases that are asked for, in order."""
    every: list[Case] = [Case(f"commands/{name}", words) for name, words in OWN.items()]
    for place, root in inputs.items():
        for path in sorted(root.rglob("*")):
            name = f"{place}/{path.relative_to(root).as_posix()}"
            if path.name.startswith((".", "_")) or path.suffix == ".py" or "__pycache__" in path.parts:
                continue
            if path.is_dir():
                # A folder is one run of several files.
                every += of_input(name, ("inspect", "summary", "chrome")) if place == S else ()
            elif place == S:
                first = path == min(each for each in path.parent.iterdir() if each.is_file())
                every += (each for each in of_input(name) if first or not spared(each.name, path.parent.name))
            elif path.stat().st_size <= MOST_BYTES:
                every += of_input(name, ("inspect", "summary-json", "chrome", "jsonl"))
    return [case for case in every if chosen(case.name, only)]


def of_input(name: str, wanted: Sequence[str] = ()) -> Iterator[Case]:
    """Give the cases of one input, or those wanted."""
    words = {
        "inspect": ["inspect", name, "--format", "json"],
        "inspect-text": ["inspect", name],
        "doctor": ["doctor", name, "--format", "json"],
        "doctor-text": ["doctor", name],
        "summary": ["summary", name],
        "summary-text": ["summary", name, "--all"],
        "summary-json": ["summary", name, "--all", "--format", "json"],
        "report": ["report", name, "-o", "x.html"],
        "query": ["query", name, COUNTS],
        **{to: ["convert", name, "--to", to, "-o", output] for to, output in TARGETS.items()},
        **{f"compat-{compat}": ["summary", name, "--compat", compat] for compat in COMPATS},
    }
    return (Case(f"{name}/{key}", words[key]) for key in wanted or words)


def spared(name: str, folder: str) -> bool:
    """Return whether one file of the folder is enough for a case: another form of a text, or a foreign compat."""
    command = name.rpartition("/")[2]
    compat = command.removeprefix("compat-")
    own = {"paddle", *(each for each in COMPATS if each in folder), *(("torch",) if folder == "kineto" else ())}
    return (compat in COMPATS and compat not in own) or command in (
        "inspect-text",
        "doctor-text",
        "spreadsheet",
        "query",
    )


def chosen(name: str, only: str) -> bool:
    """Return whether a case of this name is asked for."""
    return not only or any(fnmatch.fnmatch(name, word) if "*" in word else word in name for word in only.split(","))


# How a case is run


def record(folder: Path, tree: Path, only: str, corpus: bool | None, jobs: int) -> None:
    """Write the records of the cases."""
    inputs = places(tree, corpus)
    wanted = cases(inputs, only)
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="outputs-") as made:
        scratch = Path(made).resolve()
        settle(scratch)
        inputs[S] = copied(tree / S, scratch)
        import_everything(tree)
        warm_up(tree, scratch)
        gc.collect()
        gc.freeze()
        running: dict[int, list[Case]] = {}
        for input_name, group in groupby(wanted, lambda case: case.name.rpartition("/")[0]):
            own = [*group]
            # Commands of their own do not share a process: some of them start others.
            for few in [[case] for case in own] if input_name == "commands" else [own]:
                if len(running) >= jobs:
                    collect(running, folder)
                pid = os.fork()
                if not pid:
                    run_all(few, folder, scratch, inputs)
                running[pid] = few
        while running:
            collect(running, folder)
    took = os.times()
    cpu = took.user + took.system + took.children_user + took.children_system
    print(f"{len(wanted)} cases in {folder}: {time.monotonic() - started:.0f} s, {cpu:.0f} s of CPU", file=sys.stderr)


def copied(samples: Path, scratch: Path) -> Path:
    """Return a copy of the samples in which all files have one age: a batch shows it, and git does not keep it."""
    copy = Path(shutil.copytree(samples, scratch / S, ignore=shutil.ignore_patterns("_*", "*.py")))
    for path in (copy, *copy.rglob("*")):
        os.utime(path, (AGE, AGE))
    return copy


def settle(scratch: Path) -> None:
    """Make the environment the same for everyone."""
    for name in [name for name in os.environ if name.startswith(("TRACEKIT", "LC_", "XDG_")) or name == "FORCE_COLOR"]:
        del os.environ[name]
    home = str(scratch / "home")
    os.environ |= {"COLUMNS": "80", "LINES": "24", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    os.environ |= {"HOME": home, "XDG_CACHE_HOME": home, "XDG_CONFIG_HOME": home, "TMPDIR": str(scratch)}
    tempfile.tempdir = None
    time.tzset()


def import_everything(tree: Path) -> None:
    """Import the package once, so that a child starts at once."""
    sys.path[0] = str(tree)
    package = importlib.import_module("tracekit")
    if not (package.__file__ or "").startswith(str(tree)):
        sys.exit(f"{package.__file__}: not the code of {tree}")
    for module in pkgutil.walk_packages(package.__path__, "tracekit."):
        # These wrap packages that are slow or not here, and run inside a user's program only.
        if not re.search(r"\.(__main__|profiler|recorder|hooks)\b", module.name):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in ("pyarrow.parquet", "pyarrow.compute", "pandas", "jinja2", "orjson"):
        importlib.import_module(name)


def warm_up(tree: Path, scratch: Path) -> None:
    """Run some commands here, so that no child has to compile templates and expressions again."""
    sample = str(tree / S / "kineto" / "gpu.pt.trace.json")
    out = str(scratch / "warm.")
    for words in (
        ["summary", sample, "--all", "--format", "json"],
        ["summary", sample],
        ["report", sample, "-o", out + "html"],
        ["inspect", sample, "--format", "json"],
        ["doctor", sample],
        *(["convert", sample, "-o", out + each] for each in ("json", "jsonl", "parquet", "pftrace")),
    ):
        sys.argv = ["tracekit", *words]
        quiet = io.StringIO()
        with contextlib.suppress(BaseException), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            importlib.import_module("tracekit.cli").main()


def run_all(own: list[Case], folder: Path, scratch: Path, inputs: dict[str, Path]) -> None:
    """Run cases as the command line would, in this child, and write their records; never returns."""
    try:
        place = scratch / str(os.getpid())
        for case in own:
            signal.alarm(MOST_SECONDS)
            place.mkdir()
            for name, path in inputs.items():
                (place / name).symlink_to(path)
            code = run(case, place)
            write_record(case, code, place, folder, {str(place): "HERE", str(scratch): "SCRATCH"} | named(inputs))
            shutil.rmtree(place)
        os._exit(0)
    except BaseException as err:  # noqa: BLE001 - a forked child must not go on as its parent
        (folder / "failed").write_text("".join(traceback.format_exception(err)))
        os._exit(1)


def run(case: Case, place: Path) -> int:
    """Run a case in this process, with files for the three streams. Returns its exit code."""
    os.chdir(place)
    for number, name in enumerate(("/dev/null", "stdout", "stderr")):
        held = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(held, number)
        os.close(held)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, mode, closefd=False), encoding="utf-8", line_buffering=number == 2)
        for number, mode in enumerate("rww")
    )
    sys.argv = ["tracekit", *case.words]
    try:
        importlib.import_module("tracekit.cli").main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - what escapes the command line is an output too
        traceback.print_exc()
        code = 99
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def collect(running: dict[int, list[Case]], folder: Path) -> None:
    """Wait for a child; if it crashed, its missing records say so."""
    pid, status = os.wait()
    for case in running.pop(pid):
        record_of = folder / f"{case.name}{RECORD}"
        if status and not record_of.exists():
            record_of.parent.mkdir(parents=True, exist_ok=True)
            record_of.write_text(f"$ tracekit {' '.join(case.words)}\nno result: {os.waitstatus_to_exitcode(status)}\n")


def named(inputs: dict[str, Path]) -> dict[str, str]:
    """Return the name of each folder of inputs by its path."""
    return {str(path): name for name, path in inputs.items()}


def write_record(case: Case, code: int, place: Path, folder: Path, paths: dict[str, str]) -> None:
    """Write the record of a case from the files in its folder."""
    parts = []
    for path in place.rglob("*"):
        if path.is_file() and (text := shown(path)):
            name = path.relative_to(place).as_posix()
            parts.append(without_paths(f"=== {name}\n{text}\n", paths))
    record_of = folder / f"{case.name}{RECORD}"
    record_of.parent.mkdir(parents=True, exist_ok=True)
    record_of.write_text(f"$ tracekit {' '.join(case.words)}\nexit {code}\n{numbered(parts)}")


# What a record holds


def shown(path: Path) -> str:
    """Return a file that was written, as text."""
    data = path.read_bytes()
    if data.startswith(b"PAR1"):
        return shown_parquet(path)
    if path.name == "traces.otf2":  # its anchor has a random number
        return f"{len(data)} bytes"
    with contextlib.suppress(UnicodeDecodeError):
        text = data.decode()
        if "\0" not in text:
            return text.replace("\r", "\\r")
    return f"{len(data)} bytes, {hashlib.sha256(data).hexdigest()}"


def shown_parquet(path: Path) -> str:
    """Return what a Parquet file says; its bytes also name the version of pyarrow."""
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    lines = [file.schema_arrow.to_string(truncate_metadata=False)]
    for group in range(file.metadata.num_row_groups):
        about = file.metadata.row_group(group)
        lines.append(f"row group {group}: {about.num_rows} rows")
        for number in range(about.num_columns):
            column = about.column(number)
            lines.append(f"  {column.path_in_schema} {column.compression} {column.encodings} {column.statistics}")
    # An object's address is in the text of its statistics.
    text = re.sub(r" at 0x[0-9a-f]+", "", "\n".join(lines))
    table = file.read()
    columns = (hashlib.sha256(repr(column.to_pylist()).encode()).hexdigest()[:16] for column in table.columns)
    return text + "".join(f"\n{name}: {digest}" for name, digest in zip(table.column_names, columns, strict=True))


def without_paths(text: str, paths: dict[str, str]) -> str:
    """Return a text with names for the folders of this run."""
    for path, name in sorted(paths.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(path, name)
    return text


def numbered(parts: list[str]) -> str:
    """Return the parts of a record in order. A batch names a run by a hash of its path: here it has a number."""
    key = re.compile(r"\brun-[0-9a-f]{12}\b")
    text = "".join(sorted(parts, key=lambda part: key.sub("run-", part)))
    numbers: dict[str, str] = {}
    return key.sub(lambda found: numbers.setdefault(found[0], f"run-{len(numbers)}"), text)


# What differs


def compare(base: Path, new: Path, only: str) -> int:
    """Print how many cases are equal, and the start of what differs. Returns 1 if any does."""
    # The cases of an input are in a folder with its name.
    files = [(root, path) for root in (base, new) for path in root.rglob(f"*{RECORD}") if path.is_file()]
    names = sorted({path.relative_to(root).as_posix() for root, path in files})
    names = [name for name in names if chosen(name.removesuffix(RECORD), only)]
    equal = 0
    for name in names:
        before, after = base / name, new / name
        if not (before.exists() and after.exists()):
            print(f"--- {name}: only in {base if before.exists() else new}")
            continue
        old, now = before.read_text(), after.read_text()
        if old == now:
            equal += 1
            continue
        print(f"--- {name}")
        for line in short_diff(old, now):
            print(f"    {line}")
    print(f"{equal} of {len(names)} cases are equal")
    return int(equal < len(names) or not names)


def short_diff(old: str, new: str, most: int = 6) -> Iterator[str]:
    """Give some lines that differ; of long ones, the part around the first difference."""
    lines, others = old.splitlines(), new.splitlines()
    # Lines at both ends that are equal cost difflib the square of their number.
    start = next((i for i, pair in enumerate(zip(lines, others)) if pair[0] != pair[1]), min(len(lines), len(others)))
    lines, others = lines[start : start + 200], others[start : start + 200]
    shown_lines = 0
    for kind, a, b, c, d in difflib.SequenceMatcher(None, lines, others, autojunk=False).get_opcodes():
        for gone, came in zip_longest(lines[a:b], others[c:d]) if kind != "equal" else ():
            if shown_lines == most:
                yield "..."
                return
            shown_lines += 1
            at = next((i for i, pair in enumerate(zip(gone or "", came or "")) if pair[0] != pair[1]), 0)
            part = slice(max(0, at - 60), max(0, at - 60) + 200)
            yield from (f"{sign} {line[part]}" for sign, line in (("-", gone), ("+", came)) if line is not None)


if __name__ == "__main__":
    main()

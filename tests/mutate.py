"""Change the package at one place at a time, and report which changes the tests catch.

    python tests/mutate.py run --count 40 --seed 7 --by-name   change 40 lines; the nearest test files must fail
    python tests/mutate.py run --every --by-name tracekit/model/units.py tracekit/analysis/lanes.py::_place
                                                               every change of these places
    python tests/mutate.py show --count 40 --seed 7            print the changes alone
    python tests/mutate.py map                                 once: which test runs which line (all tests: --jobs 2)
    python tests/mutate.py run --count 40 --seed 7             change 40 lines; the tests that run a line must fail

Everything happens in copies of the checkout in a temporary folder. Operators, bounds, constants, conditions, dropped
calls and swapped arguments are changed. Texts, annotations and docstrings are not. Some changes that survive change
nothing that can be seen (`max(a, b)` of two equal numbers): read the line before you write a test.

--by-name needs no map: it tries the test files whose names and imports are nearest to the changed module. Other files
may catch what these do not, so its figure is a lower bound.

Tests run in a fork of a process that has loaded what they need but the package itself: a second a change.

mutmut and cosmic-ray try all changes of a file with all its tests. Neither takes a seeded sample over a package and
runs the tests of each line, nearest first.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import importlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData
from nearest import nearest, words_of

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / ".coverage-mutate"
"""Not `.coverage.mutate`: coverage would take that for data of its own, and combine it."""
WAVES = (12, 60, 400)
"""How many tests are tried at a time, nearest first: most changes are caught by the first few."""
NEAREST = (2, 4, 6)
"""How many test files are tried at a time with --by-name."""
EVERYWHERE = (
    "tests/test_samples.py", "tests/test_explain.py", "tests/test_every_reader.py", "tests/views/test_contract.py"
)  # fmt: skip
"""Test files that run most of the package, tried last with --by-name."""
WAVE_S = 900
LOADED = (
    "pytest", "hypothesis.strategies", "hypothesis.extra.numpy", "numpy", "pandas", "orjson", "msgspec", "jinja2",
    "pyarrow.parquet", "pyarrow.compute", "pyarrow.csv", "pyarrow.json", "typer.testing",
)  # fmt: skip
"""What tests import, loaded once by the process that they are forks of."""
USAGE_ERROR = 4
"""pytest's exit code where a test is not found."""
PYTEST = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
SECONDS = itertools.count(2_000_000_000, 2)
"""Times of the files that are changed. A compiled file is known by the second of its source: no two have the same."""
MEMORY = 6 << 30
"""A change may turn a loop into one that fills the memory: no process of the tests may have more bytes."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SYMMETRIC = ("max", "min", "maximum", "minimum", "union1d", "intersect1d")
"""Calls that give the same for their first two arguments in any order."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed line: the text from `start` to `end` (byte offsets) becomes `text`."""

    path: str
    line: int
    start: int
    end: int
    before: str
    text: str

    @property
    def change(self) -> str:
        return f"{self.before}  ->  {self.text}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"


def changes(node: ast.AST) -> Iterator[str]:
    """Yield the texts that may stand for a node."""
    match node:
        case ast.Compare(ops=[op, *rest]) if type(op) in SWAPS:
            yield ast.unparse(ast.Compare(node.left, [SWAPS[type(op)](), *rest], node.comparators))
        case ast.BoolOp(op=op):
            yield ast.unparse(ast.BoolOp(SWAPS[type(op)](), node.values))
        case ast.BinOp(op=op) if type(op) in SWAPS and not any(map(is_text, (node.left, node.right))):
            yield ast.unparse(ast.BinOp(node.left, SWAPS[type(op)](), node.right))
        case ast.UnaryOp(op=ast.Not()):
            yield ast.unparse(node.operand)
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value)):
            yield str(value + 1)
        case ast.Call(args=[first, second, *rest]) if order_counts(node, first, second):
            yield ast.unparse(ast.Call(node.func, [second, first, *rest], node.keywords))
        case ast.Expr(value=ast.Call()):
            yield "pass"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield f"not ({ast.unparse(test)})"


def order_counts(call: ast.Call, first: ast.expr, second: ast.expr) -> bool:
    """Return whether a call may give something else when its first two arguments change places."""
    if any(isinstance(argument, ast.Starred) for argument in (first, second)):
        return False
    return ast.unparse(call.func).rpartition(".")[2] not in SYMMETRIC and ast.dump(first) != ast.dump(second)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def visited(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through code, past annotations, formatted texts, decorators and what only a type checker reads."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":  # of `zip`: true of every input
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list", "type_params"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from visited(child)


def mutants(path: Path) -> Iterator[Mutant]:
    data = path.read_bytes()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in visited(ast.parse(data)):
        for text in changes(node):
            place = node.test if isinstance(node, ast.If | ast.While | ast.IfExp) else node
            assert isinstance(place, ast.expr | ast.stmt)
            assert place.end_lineno is not None
            assert place.end_col_offset is not None
            start, end = (
                starts[place.lineno - 1] + place.col_offset,
                starts[place.end_lineno - 1] + place.end_col_offset,
            )
            whole = text if text == "pass" or isinstance(node, ast.Constant) else f"({text})"
            before = " ".join(data[start:end].decode().split())
            yield Mutant(path.relative_to(ROOT).as_posix(), place.lineno, start, end, before, whole)


@functools.cache
def top_level(path: Path) -> dict[str, range]:
    """Return the lines of each function and class of a file."""
    body = ast.parse(path.read_bytes()).body
    nodes = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    return {node.name: range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in nodes}


def lines_of(place: str) -> dict[Path, range]:
    """Return the files of a folder, a file, or a function or class of one (`file.py::name`), and their lines."""
    file, _, name = place.partition("::")
    path = ROOT / file
    if name and path.is_file() and name in (found := top_level(path)):
        return {path: found[name]}
    files = path.rglob("*.py") if path.is_dir() else [path] if path.is_file() and not name else []
    if whole := {each: range(1, len(each.read_bytes().splitlines()) + 1) for each in files}:
        return whole
    sys.exit(f"no folder, file, or function of a file: {place}")


def every(places: list[str]) -> list[Mutant]:
    """Return all changes of these places, see `lines_of`."""
    parts = [(path, lines) for place in places for path, lines in lines_of(place).items()]
    return [mutant for path, lines in parts for mutant in mutants(path) if mutant.line in lines]


def sample(count: int, seed: int, places: list[str]) -> list[Mutant]:
    """Return changes of `count` random lines of these places."""
    rng = random.Random(seed)
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for mutant in every(places):
        by_line.setdefault((mutant.path, mutant.line), []).append(mutant)
    return [rng.choice(by_line[line]) for line in rng.sample(sorted(by_line), min(count, len(by_line)))]


def environment(folder: Path) -> dict[str, str]:
    corpus = os.environ.get("TRACEKIT_CORPUS", str(ROOT.parent / "shared" / "corpus"))
    return {**os.environ, "PYTHONPATH": str(folder), "TRACEKIT_CORPUS": corpus}


def copied(folder: Path) -> Path:
    skip = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", ".hypothesis", "build", "fuzz-out")
    return Path(shutil.copytree(ROOT, folder, ignore=skip, symlinks=True))


def write_map(tests: list[str], jobs: int) -> int:
    """Run tests with coverage, and keep which test ran which line."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "-p", "no:cacheprovider", "--cov=tracekit"]
    command += ["--cov-context=test", "--cov-report=", *tests]
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder) / "copy")
        code = subprocess.run(command, cwd=copy, env=environment(copy), check=False).returncode
        data = CoverageData(str(copy / ".coverage"))
        data.read()
        MAP.unlink(missing_ok=True)
        kept = CoverageData(str(MAP))
        # Names relative to the checkout, so that the map serves any copy of it.
        kept.update(data, map_path=lambda name: os.path.relpath(name, copy))
    return code


def tests_of(mutant: Mutant, data: CoverageData) -> list[list[str]]:
    """Return the tests that run the line, in waves; the nearest names come first.

    A line outside functions runs once, in the first test that imports it. All tests of its module may depend on it.
    """
    lines = data.contexts_by_lineno(mutant.path)
    found = {context for context in lines.get(mutant.line, []) if context} if in_function(mutant) else None
    found = found or {context for contexts in lines.values() for context in contexts if context}
    words = words_of(mutant.path)
    ranked = sorted({context.partition("|")[0] for context in found})
    ranked.sort(key=lambda test: -len(words & words_of(test.partition("::")[0])))
    # A few tests of each file before more of the same one.
    seen: Counter[str] = Counter()
    order = []
    for at, test in enumerate(ranked):
        file = test.partition("::")[0]
        seen[file] += 1
        order.append((-len(words & words_of(file)), seen[file] // 6, at, test))
    return in_waves([test for *_, test in sorted(order)], (*WAVES, len(order)))


def in_function(mutant: Mutant) -> bool:
    """Return whether the line runs when a function is called."""
    functions = (node for node in ast.walk(ast.parse((ROOT / mutant.path).read_bytes())) if isinstance(node, FUNCTIONS))
    return any(node.body[0].lineno <= mutant.line <= (node.end_lineno or 0) for node in functions)


def by_name(mutant: Mutant) -> list[list[str]]:
    """Return the test files whose path shares most words with the module and that name its folder or it, in waves."""
    waves = in_waves(nearest(mutant.path), NEAREST)
    return [*waves, [file for file in EVERYWHERE if all(file not in wave for wave in waves)]]


def mapped() -> Callable[[Mutant], list[list[str]]]:
    data = CoverageData(str(MAP))
    data.read()
    return lambda mutant: tests_of(mutant, data)


def in_waves(tests: list[str], sizes: tuple[int, ...]) -> list[list[str]]:
    ends = list(itertools.accumulate(sizes))
    return [wave for size, end in zip(sizes, ends, strict=True) if (wave := tests[end - size : end])]


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the checkout, and the process that runs tests in it."""

    folder: Path
    server: subprocess.Popen[str]

    def verdict(self, mutant: Mutant, waves: list[list[str]]) -> str:
        """Return the test that catches a change, or an empty text."""
        path = self.folder / mutant.path
        whole, times = path.read_bytes(), path.stat()
        path.write_bytes(whole[: mutant.start] + mutant.text.encode() + whole[mutant.end :])
        os.utime(path, (next(SECONDS),) * 2)
        try:
            return next((caught for wave in waves if (caught := self.failure(wave))), "")
        finally:
            path.write_bytes(whole)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def failure(self, tests: list[str]) -> str:
        """Return the first of the tests that fails, or an empty text."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(tests) + "\n")
        self.server.stdin.flush()
        code, printed = json.loads(self.server.stdout.readline())
        if code is None:
            return "a test that does not end"
        if code == USAGE_ERROR:
            functions = list(dict.fromkeys(test.partition("[")[0] for test in tests))
            if functions == tests:
                sys.exit("a test of the map is gone: make the map again")
            return self.failure(functions)  # the names of parametrized cases may hold the constant that was changed
        failed = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return (failed[0].split(" - ")[0] if failed else "tests cannot be collected") if code else ""


def started(folder: Path) -> Copy:
    """Return a copy of the checkout whose files are compiled, with its process of tests."""
    copied(folder)
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder / "tracekit", folder / "tests"], check=False)
    server = subprocess.Popen(
        [sys.executable, folder / "tests" / "mutate.py", "serve"], cwd=folder, env=environment(folder),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return Copy(folder, server)


def serve() -> int:
    """Run the tests of each line of standard input in a fork; print the exit code (None: no end) and the output."""
    for name in LOADED:
        importlib.import_module(name)
    import pytest

    for line in sys.stdin:
        with tempfile.TemporaryFile("w+", errors="replace") as printed:
            child = os.fork()
            if not child:
                code = 99
                with contextlib.suppress(BaseException):
                    os.setsid()
                    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                    os.dup2(printed.fileno(), 1)
                    os.dup2(printed.fileno(), 2)
                    code = int(pytest.main([*PYTEST, *json.loads(line)]))
                sys.stdout.flush()
                os._exit(code)
            code = waited(child)
            printed.seek(0)
            print(json.dumps([code, printed.read()]), flush=True)
    return 0


def waited(child: int) -> int | None:
    """Return the exit code of a process, None for one that is killed after WAVE_S."""
    end = time.monotonic() + WAVE_S
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def run(chosen: list[Mutant], waves_of: Callable[[Mutant], list[list[str]]], jobs: int) -> int:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            free.put(started(Path(folder) / f"copy{number}"))

        def outcome(mutant: Mutant) -> str:
            waves, copy = waves_of(mutant), free.get()
            try:
                caught = copy.verdict(mutant, waves)
            finally:
                free.put(copy)
            tried = f"{sum(map(len, waves))} tests or files of tests"
            print(f"{'caught  ' if caught else 'SURVIVED'} {mutant}\n         {caught or tried}", flush=True)
            return caught

        caught = [bool(text) for text in pool.map(outcome, chosen)]
    print(f"{sum(caught)} of {len(caught)} changes were caught")
    return 0 if all(caught) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["map", "run", "show", "serve"])
    parser.add_argument("places", nargs="*", help="parts of the package (all); of the tests, for the map (all)")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--by-name", action="store_true", help="try the nearest test files; needs no map")
    parser.add_argument("--every", action="store_true", help="try every change, in random order, not one of each line")
    given = parser.parse_intermixed_args()
    if given.what == "map":
        return write_map(given.places, given.jobs)
    if given.what == "serve":
        return serve()
    places = given.places or ["tracekit"]
    chosen = sample(given.count, given.seed, places)
    if given.every:
        chosen = every(places)
        random.Random(given.seed).shuffle(chosen)
    if given.what == "run":
        return run(chosen, by_name if given.by_name else mapped(), given.jobs)
    print(*chosen, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

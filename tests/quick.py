"""Run the tests of what changed since main, and the contracts: `make quick`, at most two minutes.

First floors, words, the time of imports, and the test file nearest to each file that changed (nearest.py). Then each
reader and view with one sample of a format (with all samples of a format whose reader changed), and the next nearest
test files. When the time is over, the tests that are left are skipped and counted: `make test` runs them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import chain, zip_longest
from pathlib import Path

import pytest
from nearest import ROOT, module_of, related, users

CONTRACTS = ("tests/test_architecture.py", "tests/test_words.py", "tests/test_import_time.py")
SAMPLED = ("tests/test_every_reader.py", "tests/views/test_contract.py")
"""Contracts that are run with few samples."""
NEAREST = 5
"""Test files for each file of the package."""
OTHERS = {
    "docs/": ("tests/test_docs.py", "tests/test_words.py"),
    "README.md": ("tests/test_docs.py",),
    "CONTRIBUTING.md": ("tests/test_docs.py",),
    "pyproject.toml": ("tests/test_packaging.py",),
    "sample_traces/": ("tests/test_samples.py",),
    "templates/": ("tests/render/test_html.py", "tests/render/test_scripts.py", "tests/render/test_timeline_page.py"),
    "benchmarks/": (),
}
"""The test files of what is neither in the package nor a test, by the beginning of its path."""
SECONDS = 85.0
"""When no more tests begin: two minutes less the start and the longest test."""
UNTIL, CHANGED = "TRACEKIT_QUICK_UNTIL", "TRACEKIT_QUICK_FORMATS"


def git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def changed(base: str) -> list[str]:
    """Return the files that differ from where this branch left `base`, untracked files included."""
    (start,) = git("merge-base", "HEAD", base)
    paths = [*git("diff", "--name-only", start), *git("ls-files", "--others", "--exclude-standard")]
    return sorted(set(paths))


def tests_of(path: str) -> list[str]:
    """Return the test files of a file that changed, nearest first."""
    name = Path(path).name
    if path.startswith("tracekit/"):
        return related(path, NEAREST) if name.endswith(".py") else []
    if path.startswith("tests/goldens/"):
        words = set(Path(path).with_suffix("").parts[2:-1])
        return related(f"tests/{'/'.join(sorted(words)) or 'goldens'}.py", NEAREST)
    if path.startswith("tests/") and name.endswith(".py"):
        return [path] if name.startswith("test_") else users(path)
    return [test for start, tests in OTHERS.items() if path.startswith(start) for test in tests]


def chosen(paths: Iterable[str]) -> list[str]:
    """Return the test files to run, in order."""
    lists = [tests_of(path) for path in paths]
    first, *others = zip_longest(*lists) if lists else [()]
    ordered = dict.fromkeys([*CONTRACTS, *first, *SAMPLED, *chain.from_iterable(others)])
    return [test for test in ordered if test and (ROOT / test).is_file()]


def formats_of(paths: Iterable[str]) -> set[str]:
    """Return the words of the readers that changed, to know their samples by."""
    readers = [module_of(path) for path in paths if path.startswith("tracekit/readers/")]
    samples = [Path(path).parts[1] for path in paths if path.startswith("sample_traces/") and path.count("/") > 1]
    return {word for name in readers for word in name.split(".")[2:]} | set(samples)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", default="main", help="the branch that this one is held against")
    parser.add_argument("--list", action="store_true", help="print the test files and run none")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given, more = parser.parse_known_args()
    paths = changed(given.base)
    tests = chosen(paths)
    print(f"{len(paths)} files changed since {given.base}: {len(tests)} test files", flush=True)
    if given.list:
        print(*tests, sep="\n")
        return 0
    environment = {UNTIL: str(time.time() + given.seconds), CHANGED: " ".join(sorted(formats_of(paths)))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "quick", "-p", "no:randomly", *more]
    # The nearest tests come first in all workers: `worksteal` would begin in the middle of the list too.
    command += ["--dist", "load", *tests]
    return subprocess.run(
        command, cwd=ROOT, check=False, env={**os.environ, **environment, "PYTHONPATH": str(ROOT / "tests")}
    ).returncode


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave one sample of each format, and all of those whose reader changed."""
    words = set(os.environ[CHANGED].split())
    seen: set[tuple[str, str]] = set()
    left_out = []
    for item in items:
        file, _, test = item.nodeid.partition("::")
        function, bracket, case = test.partition("[")
        if file not in SAMPLED or not bracket or "/" not in case:
            continue
        folder = case.split("/")[0]
        first = (f"{file}::{function}", folder) not in seen
        seen.add((f"{file}::{function}", folder))
        if not first and not words & {folder, *folder.split("-")}:
            left_out.append(item)
    kept = set(left_out)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in kept]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > float(os.environ[UNTIL]):
        pytest.skip("the time of `make quick` is over: `make test` runs the rest")


if __name__ == "__main__":
    sys.exit(main())

"""Plugins: the package in docs/plugin is installed and tested as its author would, and broken ones are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

LOG = "#toy 1\n10 5 gemm\n20 7 copy to host\n40 9 gemm\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the package as pip installs it."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(ROOT / "docs" / "plugin", folder / "source")
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, str(folder / "source")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


def run(*words: str, path: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(path), str(ROOT))), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, *words], env=environ, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )


def tracekit(*words: str, path: Path) -> subprocess.CompletedProcess[str]:
    return run("-m", "tracekit", *words, path=path)


def test_the_plugins_own_tests_pass(installed: Path) -> None:
    words = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir", str(installed))
    done = run("-m", "pytest", *words, str(ROOT / "docs/plugin/tests"), path=installed, cwd=installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_its_declarations_are_listed_with_their_options(installed: Path) -> None:
    listed = tracekit("formats", path=installed)
    assert listed.returncode == 0, listed.stderr
    for name in ("toy-log", "slowest", "toy-csv", "unit", "at_least_ns"):
        assert name in listed.stdout, name
    assert "toy-log" not in run("-m", "tracekit", "formats", path=ROOT).stdout


def test_its_view_sorts_and_takes_its_option(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toy").write_text(LOG)
    words = ("summary", str(tmp_path / "run.toy"), "--view", "slowest")
    done = tracekit(*words, "--option", "at_least_ns=6000", "--sort", "name", "--format", "csv", path=installed)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "gemm" in line or "copy" in line]
    assert ["copy" in row for row in rows] == [True, False]
    wrong = tracekit(*words, "--option", "at_leest_ns=1", path=installed)
    assert wrong.returncode == 2
    assert "did you mean at_least_ns?" in wrong.stderr


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("broken_toy:READER", "ZeroDivisionError: division by zero"),
        ("no_such_module:READER", "ModuleNotFoundError"),
        ("os:sep", "os:sep is not a Reader"),
        ("taken_toy:READER", "the name nvprof-csv is taken"),
    ],
)
def test_a_broken_plugin_is_named_and_skipped(value: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "broken_toy.py").write_text("1 / 0\n")
    taken = "from tracekit.readers.base import Reader\nREADER = Reader('nvprof-csv', 'Toy', (), None, print)\n"
    (tmp_path / "taken_toy.py").write_text(taken)
    facts = tmp_path / "broken_toy-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-toy\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[tracekit.readers]\nbroken = {value}\n")
    done = tracekit("formats", path=tmp_path)
    assert done.returncode == 0
    assert "nvprof-csv" in done.stdout
    assert done.stderr.startswith("note: plugin broken of broken-toy skipped (")
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1

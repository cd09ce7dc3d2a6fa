"""The how-tos of CONTRIBUTING.md, done as a newcomer does them: with its code, in a copy of the package."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest
from support import ROOT, SAMPLES

import tracekit

pytestmark = pytest.mark.source
PROFILE = SAMPLES / "nvprof-csv" / "gpu-and-api-trace.csv"


def section(title: str) -> str:
    """Return the text of a section of the page."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert found is not None, title
    return found[1]


def blocks(title: str, language: str) -> list[str]:
    """Return the code blocks of a language in a section, without the indentation of a list."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", section(title), re.M | re.S)
    return [textwrap.dedent(code) for _, code in found]


def apply(diff: str, folder: Path) -> Path:
    """Change the file that the block names: each added line goes below the line before it in the block."""
    first, *lines = diff.splitlines()
    path = folder / first.removeprefix("--- ").strip()
    text = path.read_text(encoding="utf-8").splitlines()
    at = 0
    for line in lines:
        sign, rest = line[:1], line[1:]
        if sign == "+":
            text.insert(at, rest)
            at += 1
            continue
        assert sign == " ", line
        at = text.index(rest, at) + 1
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the package and its templates."""
    for name in ("tracekit", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(folder: Path, *words: str) -> str:
    """Run the tracekit of a folder, and return what it prints."""
    environ = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", *words],
        cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_column_appears_in_every_output_with_the_right_figures(copy: Path) -> None:
    (diff,) = blocks("Add a column", "diff")
    apply(diff, copy)

    durations = defaultdict(list)
    for row in tracekit.read(PROFILE).events.to_pylist():
        if row["kind"] == "kernel":
            durations[row["name"]].append(row["dur_ns"])
    wanted = {name: sorted(ns)[-(-len(ns) * 9 // 10) - 1] for name, ns in durations.items()}

    words = ("summary", str(PROFILE), "--view", "kernel")
    (table,) = json.loads(run(copy, *words, "--format", "json"))["sections"][0]["tables"]
    keys = [column["name"] for column in table["columns"]]
    place = keys.index("p90")
    assert table["columns"][place]["unit"] == "ns"
    assert {row[0]: row[place] for row in table["rows"]} == wanted

    text = run(copy, *words, "--format", "text", "--unit", "ns")
    assert "P90 (ns)" in text
    assert "p90" in re.search(r"p50.* by nearest rank", text)[0]  # type: ignore[index]
    rows = list(csv.reader(io.StringIO(run(copy, *words, "--format", "csv", "--sort", "p90"))))
    header = next(row for row in rows if any("p90" in cell for cell in row))
    column = next(number for number, cell in enumerate(header) if "p90" in cell)
    shown = [int(row[column]) for row in rows[rows.index(header) + 1 :] if len(row) == len(header)]
    assert shown == sorted(wanted.values(), reverse=True)

    assert "p90" in run(copy, "formats", "--view", "kernel")
    longest = max(wanted, key=lambda name: wanted[name])
    told = run(copy, "explain", str(PROFILE), f"kernel.{longest[:40]}.p90", f"kernel.{longest[:40]}.max")
    assert "p90 of the durations of kernels" in told


def test_the_finding_appears_where_its_condition_holds(copy: Path) -> None:
    (code,) = blocks("Add a finding", "python")
    name = re.search(r"Save it as `(\w+\.py)` in `([\w/]+)`", section("Add a finding"))
    assert name is not None
    (copy / name[2] / name[1]).write_text(code, encoding="utf-8")
    (diff,) = blocks("Add a finding", "diff")
    apply(diff, copy)

    calls = [("short", 10 * number, 5) for number in range(20)] + [("slow", 200, 400)]
    events = [
        {"name": name, "ph": "X", "cat": "kernel", "ts": ts, "dur": dur, "pid": 0, "tid": 7}
        | {"args": {"device": 0, "stream": 7, "correlation": ts}}
        for name, ts, dur in calls
    ]
    trace = copy / "one.json"
    trace.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    words = ("summary", str(trace), "--view", "findings")
    assert "One call of slow takes 400 us" in run(copy, *words)
    assert "long call" in run(copy, *words, "--option", "long_call_share=0.99")
    assert "One call of slow" not in run(copy, *words, "--option", "long_call_share=0.99")


def test_the_reader_passes_mypy_and_reads_a_file_as_a_plugin(tmp_path: Path) -> None:
    code, declared = blocks("Add a format", "python")
    module = tmp_path / "tracekit_foo.py"
    module.write_text(code, encoding="utf-8")
    head = "from tracekit.readers.base import Marks, Place, Reader\n\n(READER,) = "
    entry = head + declared.replace("tracekit.readers.foo:", "tracekit_foo:")
    (tmp_path / "tracekit_foo_declared.py").write_text(entry, encoding="utf-8")
    # The settings of the project are those of --strict; with the same settings mypy reuses what it knows of tracekit.
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--strict", str(module)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr

    facts = tmp_path / "tracekit_foo-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tracekit-foo\nVersion: 1.0\n", encoding="utf-8")
    entry = "[tracekit.readers]\nfoo = tracekit_foo_declared:READER\n"
    (facts / "entry_points.txt").write_text(entry, encoding="utf-8")
    whole = {"kernel": {"events": 2, "dur_ns": 12}}
    lines = "#foo 1\n10,5,gemm\n20,7,gemm\n"
    for text, dropped in (
        (lines, {}),
        (f"{lines}30,5,ge", {"torn-row": 1}),  # cut within "gemm"
        (f"{lines}{'9' * 23},5,gemm\n30,{'9' * 5000},gemm\n", {"no-times": 2}),
    ):
        (tmp_path / "unknown").write_text(text, encoding="utf-8")
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
        done = subprocess.run(
            [sys.executable, "-m", "tracekit", "inspect", str(tmp_path / "unknown"), "--format", "json"],
            env=environ, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == ("no-times" in dropped), done.stderr
        (found,) = json.loads(done.stdout)["inputs"]
        assert (found["format"], found["by_kind"]) == ("foo", whole)
        ledger = found["ledger"]
        assert (ledger["kept"], ledger["ignored"], ledger["dropped"]) == (2, {"other output": 1}, dropped)


def test_the_paths_that_the_how_tos_name_exist() -> None:
    for title in ("Add a column", "Add a format", "Add a finding", "Add a view, a target or a command"):
        named = set(re.findall(r"`((?:tracekit|tests|docs)/[\w./-]+)`", section(title)))
        named |= {diff.split()[1] for diff in blocks(title, "diff")}
        assert named, title
        assert [path for path in sorted(named) if not (ROOT / path).exists()] == [], title

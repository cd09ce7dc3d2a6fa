"""docs/recorder.md: each of its programs runs, prints what it says, and leaves a log that reads."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from recorder.programs import environment
from recorder.reading import read_log
from support import ROOT, missing

GUIDE = (ROOT / "docs" / "recorder.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.M | re.S)
TRAIN, *PROGRAMS = PROGRAMS  # the first one is run by `tracekit record`
RANGES = (
    {"dataloader", "step", "forward", "save", "dataloader (start)"},
    {"dataloader", "step", "forward", "backward", "optimizer"},
    {"forward", "copy", "evaluate"},
    {"dataloader", "step", "forward", "backward", "optimizer", "0.forward", "2.backward", "Sequential.backward"},
)
"""What the log of each program holds, at least."""


PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


@pytest.mark.parametrize(
    ("code", "names"), list(zip(PROGRAMS, RANGES, strict=True)), ids=["ranges", "a part", "decorators", "torch"]
)
def test_the_programs_of_the_guide_run_and_record(tmp_path: Path, code: str, names: set[str]) -> None:
    if "import torch" in code and importlib.util.find_spec("torch") is None:
        missing("torch is not installed (pip install torch==2.13.0)")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(PATH=PATH),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = [line[5:] for line in code.splitlines() if line.startswith("# -> ")]
    assert done.stdout.splitlines() == said
    (path,) = tmp_path.glob("*.jsonl")
    shown = {*read_log(path).calls()}
    assert names <= shown, names - shown


def test_its_command_prints_a_summary(tmp_path: Path) -> None:
    (command,) = re.findall(r"^\$ (TRACEKIT.*)$", GUIDE, re.M)
    (tmp_path / "train.py").write_text(
        "from tracekit import recorder\nfor _ in range(3):\n    with recorder.step(): pass\n", encoding="utf-8"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(PATH=PATH), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ +3 .* step$", done.stdout, re.M), done.stdout


def masked(line: str) -> str:
    """A printed line without its figures and their units."""
    return re.sub(r"\s+", " ", re.sub(r"[\d.,]+( (ns|us|ms|s|%))?", "N", line)).strip()


def test_its_first_program_is_recorded_as_it_prints(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        missing("torch is not installed (pip install torch==2.13.0)")
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    (console,) = re.findall(r"^```console\n\$ (tracekit record .*?)^```", GUIDE, re.M | re.S)
    command, *printed = console.splitlines()
    environ = environment(PATH=PATH, COLUMNS="80", OMP_NUM_THREADS="1")
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "")
    said = [masked(line) for line in done.stderr.splitlines()]
    for line in printed:
        assert line == "..." or masked(line) in said, f"{line}\n{done.stderr}"
    assert "samples/s" in done.stderr


def test_every_variable_and_name_in_it_exists() -> None:
    from tracekit import recorder

    variables = set(re.findall(r"TRACEKIT_[A-Z_]+", recorder.__doc__))
    assert set(re.findall(r"TRACEKIT_[A-Z_]+", GUIDE)) == {*variables, "TRACEKIT_RECORD"}
    for name in re.findall(r"\brecorder\.([a-z_]+)\(", GUIDE):
        assert hasattr(recorder, name), name

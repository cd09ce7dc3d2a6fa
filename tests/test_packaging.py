"""The wheel carries what the program needs, and works without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import ROOT

pytestmark = pytest.mark.source


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import os; os.chdir({str(ROOT)!r}); from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300)
    return next(folder.glob("tracekit_gpu-*.whl"))


def test_the_wheel_holds_templates_and_samples_and_no_rubbish(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "tracekit/_templates/report.html.j2" in names
    assert "tracekit/py.typed" in names
    assert any(n.startswith("tracekit/_sample_traces/nvprof-csv/") for n in names)
    assert not [
        n
        for n in names
        if "__pycache__" in n or "_cache/" in n or n.endswith(".pyc") or n.startswith(("tests", "benchmarks"))
    ]


def test_demo_runs_from_the_unpacked_wheel(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tracekit", "demo", "-o", str(out)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "run.html" in done.stderr
    assert (out / "run.html").stat().st_size > 10_000
    assert (out / "run.chrome.json.gz").exists()
    assert (out / "run.csv").exists(), "the samples are there to try the commands of the pages on"

"""Ranks that are read apart on a real Dask cluster, and by processes: the same report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from small_limits import Limit, small
from support import ROOT

from benchmarks.ranks import make
from tracekit import pipeline, rank_summaries
from tracekit.errors import InputError
from tracekit.inputs import USUAL

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")

_SCRIPT = """
import os, signal, sys
from dataclasses import replace
from distributed import LocalCluster
from tracekit import pipeline, rank_summaries
from tracekit.inputs import USUAL
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        pids = [nanny.pid for nanny in cluster.workers.values()]
        killed = []
        def one_dies(done):
            if done > 0.3 and not killed:
                killed.append(True)
                os.kill(pids[0], signal.SIGKILL)
        made = rank_summaries.summary([sys.argv[1]], replace(USUAL, progress=one_dies), dask=cluster.scheduler_address)
    assert killed
    print(pipeline.render(made.report, "json"))
"""


def test_a_cluster_whose_worker_is_killed_gives_the_report_of_processes(tmp_path: Path) -> None:
    make(tmp_path / "run", 6, 600)
    (tmp_path / "run" / "rank00003.json.gz").write_bytes(b"")
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    here = rank_summaries.summary([tmp_path / "run"], USUAL, jobs=2)
    assert json.loads(ran.stdout) == json.loads(pipeline.render(here.report, "json"))
    assert "5 of 6 ranks" in ran.stdout


def test_a_missing_scheduler_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, 2, 600)
    small(monkeypatch, Limit.DASK_CONNECT_S, 1)
    with pytest.raises(InputError, match="no scheduler answers"):
        rank_summaries.summary([tmp_path], USUAL, dask="tcp://127.0.0.1:9")

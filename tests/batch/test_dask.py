"""A batch on a real Dask cluster: results are those of the local engine, also when a worker is killed in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from batch_trees import content, finished, started, tree, undisturbed
from small_limits import Limit, small
from support import ROOT, wait_until

from tracekit import batch
from tracekit.errors import InputError, MissingExtraError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")

_KILL_ONE = """
import json, os, signal, sys
from distributed import LocalCluster
from tracekit import batch
if __name__ == "__main__":
    root, out = sys.argv[1:]
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        pids = [nanny.pid for nanny in cluster.workers.values()]
        def one_dies(now):
            if now.done == 2:
                os.kill(pids[0], signal.SIGKILL)
        made = batch.run([root], out, dask=cluster.scheduler_address, progress=one_dies)
        after = [nanny.pid for nanny in cluster.workers.values()]
    print(json.dumps({"done": dict(made.done), "failed": [name for name, _ in made.failed], "died": pids != after}))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A tree, and what the local engine makes of it."""
    folder = tmp_path_factory.mktemp("whole")
    root = tree(folder / "tree", 12)
    return root, undisturbed(root, folder / "out")


def test_a_killed_worker_of_a_cluster_changes_nothing(whole: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    root, expected = whole
    script = tmp_path / "kill_one.py"
    script.write_text(_KILL_ONE, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(script), str(root), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said == {"done": {"new": 12}, "failed": ["nvprof/2026-01-02"], "died": True}
    assert content(tmp_path / "out") == expected


def test_a_scheduler_of_another_process_is_reached_by_its_address(
    whole: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    root, expected = whole
    file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]

    def begun(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*dask, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)

    scheduler = begun(
        "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
    )
    worker = None
    try:
        wait_until(lambda: file.exists() and file.stat().st_size > 0)
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        assert address.startswith("tcp://127.0.0.1:")
        worker = begun("worker", address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path))
        code, said = finished(started(root, "-o", tmp_path / "out", "--dask", address))
        assert code == 3, said
        assert "12 new" in said
        code, said = finished(started(root, "-o", tmp_path / "out", "--dask", address))
        assert (code, "12 unchanged" in said) == (3, True), said
    finally:
        for process in (worker, scheduler):
            if process is not None:
                process.terminate()
                process.wait(300)
    assert content(tmp_path / "out") == expected


def test_a_missing_scheduler_and_a_missing_dask_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path / "tree", 1)
    small(monkeypatch, Limit.DASK_CONNECT_S, 1)
    with pytest.raises(InputError, match="no scheduler answers"):
        batch.run([root], tmp_path / "out", dask="tcp://127.0.0.1:9")
    assert not (tmp_path / "out" / ".work").exists()
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError) as raised:
        batch.run([root], tmp_path / "out", dask="tcp://127.0.0.1:9")
    assert "tracekit-gpu[dask]" in raised.value.hint

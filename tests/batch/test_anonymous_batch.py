"""`batch --anonymize`: nothing in OUT says whose runs these are, and the next batch still knows them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from batch_trees import Here, content, put
from planting import HOST, PRIVATE, USER, all_bytes, no_private, private_file
from support import LONG_S, ROOT, run_command, sample

from tracekit import Anonymizer, archive, batch
from tracekit.errors import UsageError

TREE = ("secret_project", "hush-hush-model", "intranet-site", "elsewhere-quark", "nightly-quark")
"""Words in the names of folders and files of the tree."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LocalEngine", Here)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with private names everywhere: whole, cut and broken runs, files beside them, links, unreadable places."""
    root = tmp_path / f"home-{USER}" / "profiles_of_quark"
    trace = private_file(tmp_path / "made").read_bytes()
    table = sample("nvprof-csv/gpu-and-api-trace.csv").read_bytes()
    for day in (1, 2, 3):
        put(root / f"secret_project/nightly-quark/2026-01-0{day}/{HOST}.pt.trace.json", trace + b"\n" * day, day)
    put(root / "secret_project/nightly-quark/2026-01-01/hush-hush-model.py", b"print()", 1)
    put(root / "hush-hush-model/secret_project.csv", table, 4)
    put(root / "hush-hush-model/secret_project (2).csv", table[:2000], 4)
    put(root / "intranet-site/hush-hush-model.nvprof", b"SQLite format 3\0" + bytes(50), 5)
    put(root / f"secret_project/both/{USER}.nvvp", b"SQLite format 3\0" + bytes(50), 6)
    put(root / "secret_project/both/run.csv", table, 6)
    put(root / "intranet-site-notes/secret_project.txt", b"no profile")
    (tmp_path / "elsewhere-quark").mkdir()
    (root / "secret_project" / "elsewhere-quark").symlink_to(tmp_path / "elsewhere-quark")
    shutil.rmtree(tmp_path / "made")
    return root


def nothing_private(out: Path, root: Path) -> None:
    """Hold every name and every byte of OUT against what must not be there."""
    words = {*PRIVATE, *TREE, root.name, root.parent.name, str(root)}
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 15
    for path in out.rglob("*"):
        name = path.relative_to(out).as_posix()
        no_private(name, name)
        data = all_bytes(path).lower() if path.is_file() else b""
        assert [word for word in words if word.lower().encode() in data + name.lower().encode()] == [], name


def index(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "index.json").read_text(encoding="ascii"))
    return found


def test_nothing_private_is_in_out_and_the_figures_stay(root: Path, tmp_path: Path) -> None:
    out, plain = tmp_path / "out", tmp_path / "plain"
    for folder, more in ((plain, []), (out, ["--anonymize"])):
        run_command("batch", root, "-o", folder, "--to", "chrome", "--to", "jsonl", *more, code=3)
    with pytest.raises(AssertionError):
        nothing_private(plain, root)
    nothing_private(out, root)
    a, b = index(plain), index(out)
    assert a["counts"] == b["counts"]
    kept = ("date", "status", "events", "totals", "figures", "records", "dropped", "start_ns")

    def figures(runs: list[dict[str, Any]]) -> list[str]:
        return sorted(json.dumps([run[key] for key in kept]) for run in runs)

    assert figures(a["runs"]) == figures(b["runs"])
    sources = sorted(source["sha256"] for run in a["runs"] for source in run["sources"])
    assert sources == sorted(source["sha256"] for run in b["runs"] for source in run["sources"])
    formats = sorted((s["format"], s["read"]) for run in a["runs"] for s in run["sources"])
    assert formats == sorted((s["format"], s["read"]) for run in b["runs"] for s in run["sources"])
    assert len({run["run"] for run in b["runs"]}) == len(a["runs"])
    assert all(re.fullmatch(r"run-[0-9a-f]{20}", run["run"]) and run["key"] == run["run"] for run in b["runs"])
    kinds = [sorted(sum(run["kind"] == kind for run in found) for kind in {run["kind"] for run in found})
             for found in (a["runs"], b["runs"])]  # fmt: skip
    assert kinds[0] == kinds[1] == [1, 1, 1, 3], "runs that repeat each other are still one trend"
    assert b["roots"][0]["run_pattern"] == ""
    assert {entry.run for entry in archive.entries(out / "archive")} <= {run["run"] for run in b["runs"]}


def test_names_of_events_are_replaced_if_wanted(root: Path, tmp_path: Path) -> None:
    run_command("batch", root, "-o", tmp_path / "out", "--no-archive", "--to", "jsonl", "--anonymize-names", code=3)
    nothing_private(tmp_path / "out", root)
    assert b"aten::mul" not in b"".join(all_bytes(p) for p in (tmp_path / "out").rglob("*") if p.is_file())


def test_with_the_key_unchanged_runs_keep_their_results(root: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("k1", encoding="utf-8")
    words = ("batch", root, "-o", tmp_path / "out", "--anonymize", "--anonymize-key", key)
    run_command(*words, code=3)
    before = content(tmp_path / "out")
    done = batch.run([root], tmp_path / "out", anonymize=Anonymizer("k1"))
    assert (done.unchanged, done.done) == (6, {})
    assert content(tmp_path / "out") == before
    assert {name for name, _ in done.failed} == {"intranet-site"}, "who runs it sees the names that he gave"
    assert {name for name, _ in done.partial} == {"secret_project/both"}

    touched = root / "hush-hush-model/secret_project.csv"
    os.utime(touched, ns=(1, touched.stat().st_mtime_ns + 10**9))
    (root / "secret_project/nightly-quark/2026-01-01/more-of-hush-hush-model.py").write_text("print()")
    shutil.rmtree(root / "secret_project/nightly-quark/2026-01-02")
    put(root / f"secret_project/nightly-quark/2026-01-03/{HOST}.pt.trace.json", b"{}" * 9, 9)
    done = batch.run([root], tmp_path / "out", anonymize=Anonymizer("k1"))
    assert done.done == {"changed": 1}
    nothing_private(tmp_path / "out", root)
    assert index(tmp_path / "out")["counts"]["gone"] == 1
    done = batch.run([root], tmp_path / "out", anonymize=Anonymizer("k1"), forget=True)
    assert (done.done, done.forgotten) == ({}, 1)


def test_a_missing_output_or_another_option_makes_a_run_again(root: Path, tmp_path: Path) -> None:
    def done(**more: Any) -> dict[str, int]:
        return dict(batch.run([root], tmp_path / "out", archive="", anonymize=Anonymizer("k1", **more)).done)

    assert done() == {"new": 6}
    next((tmp_path / "out" / "runs").glob("*/report.html")).unlink()
    assert done() == {"output missing": 1}
    assert done(names=True) == {"options": 6}


def test_real_names_and_tokens_are_not_mixed_in_one_out(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    batch.run([root], out, archive="")
    before = content(out)
    with pytest.raises(UsageError, match="not anonymized"):
        batch.run([root], out, archive="", anonymize=Anonymizer("k"))
    assert content(out) == before
    shutil.rmtree(out)
    batch.run([root], out, archive="", anonymize=Anonymizer("k"))
    before = content(out)
    with pytest.raises(UsageError, match="its results are anonymized"):
        batch.run([root], out, archive="")
    with pytest.raises(UsageError, match="another key"):
        batch.run([root], out, archive="", anonymize=Anonymizer())
    assert content(out) == before
    assert (
        "--anonymize-key without --anonymize"
        in run_command("batch", root, "-o", out, "--anonymize-key", "k", code=2).stderr
    )


def test_an_archive_with_a_private_path_is_not_named(root: Path, tmp_path: Path) -> None:
    out, place = tmp_path / "out", tmp_path / f"archive-of-{USER}"
    batch.run([root], out, archive=place, anonymize=Anonymizer("k"), run_pattern="secret_project/*")
    nothing_private(out, root)
    files = [path for path in place.rglob("*") if path.is_file()]
    assert files
    for path in files:
        no_private(all_bytes(path), path)
        no_private(path.relative_to(place).as_posix(), path)
    assert index(out)["roots"][0]["run_pattern"].startswith("path-")


_ON_A_CLUSTER = """
import json, sys
from distributed import LocalCluster
from tracekit import Anonymizer, batch
if __name__ == "__main__":
    root, out = sys.argv[1:]
    with LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        made = batch.run([root], out, dask=cluster.scheduler_address, anonymize=Anonymizer("k1"))
    print(json.dumps(dict(made.done)))
"""


def test_workers_of_a_cluster_and_other_processes_write_the_same_tokens(root: Path, tmp_path: Path) -> None:
    batch.run([root], tmp_path / "here", anonymize=Anonymizer("k1"))
    script = tmp_path / "cluster.py"
    script.write_text(_ON_A_CLUSTER, encoding="utf-8")
    cluster = [sys.executable, script, root, tmp_path / "cluster"]
    local = [sys.executable, "-m", "tracekit", "batch", root, "-o", tmp_path / "local", "--jobs", 2,
             "--anonymize", "--anonymize-key", "k1"]  # fmt: skip
    for command, code in ((cluster, 0), (local, 3)):
        ran = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, cwd=ROOT, timeout=LONG_S, check=False
        )
        assert ran.returncode == code, ran.stderr
    assert content(tmp_path / "cluster") == content(tmp_path / "local") == content(tmp_path / "here")
    nothing_private(tmp_path / "cluster", root)

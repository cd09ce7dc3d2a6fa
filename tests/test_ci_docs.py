"""docs/ci.md: its workflows are YAML, and their shell lines do what the page says, on traces that are made here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ci_forms import commands, junit, states
from compare_runs import repeats
from support import ROOT

from tracekit import pipeline

yaml = pytest.importorskip("yaml")  # comes with dask
pytestmark = pytest.mark.source
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)]
PULL, NIGHTLY, GITLAB, DOCTOR, BATCH = BLOCKS
BENCH = """import os, shutil, sys, time
target = sys.argv[sys.argv.index("--profile") + 1]
shutil.copy("{recorded}/" + target.rpartition("/")[2], target)
recorded_at = time.time() - 86_400 * (20 - int(os.environ.get("NIGHT", "1")))
os.utime(target, (recorded_at, recorded_at))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five profiles each of a program, of the same one on other nights, and of a slower one, as viewers' JSON."""
    folder = tmp_path_factory.mktemp("recorded")
    for name, effect, seed in (("base", 0.0, 0), ("again", 0.0, 7), ("slow", 0.2, 3), ("still", 0.2, 9)):
        repeats(folder / "parquet" / name, 5, effect=effect, seed=seed, noise=0.01, count=6)
        (folder / name).mkdir()
        for number in range(5):
            source = folder / "parquet" / name / f"r{number:02}.parquet"
            pipeline.convert([str(source)], str(folder / name / f"{number + 1}.json"), to="chrome")
    return folder


class Checkout:
    """A repository with `main` and a branch, the programs that the lines call, and what the CI system sets."""

    def __init__(self, folder: Path, recorded: Path) -> None:
        self.recorded, self.folder = recorded, folder / "checkout"
        self.summary, self.kept = folder / "summary", folder / "kept"
        programs = folder / "bin"
        programs.mkdir(parents=True)
        python = f'#!/bin/sh\nexec "{sys.executable}" '
        gh = (
            f'#!/bin/sh\nif [ "$2" = list ]; then if [ -d "{self.kept}" ]; then echo 41; fi; '
            f'else test "$3" = 41 && cp -r "{self.kept}" "$7"; fi\n'
        )
        for name, text in {
            "python": f'{python}"$@"\n',
            "tracekit": f'{python}-m tracekit "$@"\n',
            "pip": '#!/bin/sh\ntest "$*" = "install tracekit-gpu"\n',
            "gh": gh,
        }.items():
            (programs / name).write_text(text, encoding="utf-8")
            (programs / name).chmod(0o755)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI_", "GIT_"))},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_WORKSPACE": str(self.folder),
            "GITHUB_SHA": "0" * 40,
            "RUNNER_TEMP": str(folder / "temp"),
            "BASE": "main",
            "CI_BUILDS_DIR": str(folder / "builds"),
            "CI_PROJECT_DIR": str(self.folder),
            "CI_JOB_ID": "7",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        origin = folder / "origin"
        origin.mkdir()
        self.git(origin, "init", "-q", "-b", "main")
        self.commit(origin, "base")
        self.git(folder, "clone", "-q", str(origin), str(self.folder))

    def git(self, place: Path, *words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *who, *words], cwd=place, env=self.env, check=True, capture_output=True)

    def commit(self, place: Path, program: str) -> None:
        """Commit a program that records the profiles of this name."""
        text = BENCH.replace("{recorded}", str(self.recorded / program))
        (place / "bench.py").write_text(text, encoding="utf-8")
        self.git(place, "add", "bench.py")
        self.git(place, "commit", "-q", "-m", program)

    def run(self, lines: str, code: int = 0) -> str:
        """Run lines as the runner of GitHub does, and return their stdout."""
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def checkout(tmp_path: Path, recorded: Path) -> Checkout:
    return Checkout(tmp_path, recorded)


def steps_of(block: dict[str, Any]) -> dict[str, str]:
    """The shell lines of the only job of a workflow, by the name of the step."""
    [job] = block["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


@pytest.mark.parametrize(("program", "code"), [("again", 0), ("slow", 3)])
def test_the_gate_of_pull_requests_fails_the_slow_one(checkout: Checkout, program: str, code: int) -> None:
    checkout.commit(checkout.folder, program)
    lines = steps_of(PULL)
    for name in ("Install", "Record both sides in turn", "Write the page"):
        checkout.run(lines[name])
    found = commands(checkout.run(lines["Gate"], code))
    assert ("error" in [each.level for each in found]) == (code == 3)
    assert checkout.summary.read_text(encoding="utf-8").startswith(
        f"## tracekit compare: {'1 of 1 check failed' if code else 'no check failed'}\n"
    )
    assert "<!doctype html>" in (checkout.folder / "compare.html").read_text(encoding="utf-8")[:100].lower()


def night(checkout: Checkout, program: str, *, accept: bool = False) -> int:
    """Run the steps of a night whose program records these profiles, and return the exit code of its gate."""
    for place in ("new", "baseline"):
        shutil.rmtree(checkout.folder / place, ignore_errors=True)
    if f"/{program}/" not in (checkout.folder / "bench.py").read_text(encoding="utf-8"):
        checkout.commit(checkout.folder, program)
    lines = steps_of(NIGHTLY)
    checkout.env["NIGHT"] = str(int(checkout.env.get("NIGHT", "0")) + 1)  # the archive sorts runs by their day
    for name in ("Install", "Get the baseline", "Record five runs"):
        checkout.run(lines[name])
    if not accept and (checkout.folder / "baseline").is_dir():
        found = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", lines["Gate"]],
            cwd=checkout.folder, env=checkout.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if found.returncode:
            assert "::error title=tracekit compare%3A step.p50 > 3%25::violated: step.p50" in found.stdout
            return found.returncode
    checkout.run(lines["Add this night to the baseline"])
    shutil.rmtree(checkout.kept, ignore_errors=True)
    shutil.copytree(checkout.folder / "baseline", checkout.kept)
    return 0


def test_a_slow_night_fails_and_is_never_a_baseline_unless_it_is_accepted(checkout: Checkout) -> None:
    assert night(checkout, "base") == 0, "the first night has no baseline"
    before = sorted(path.name for path in checkout.kept.rglob("*.parquet"))
    assert len(before) == 5
    assert night(checkout, "slow") == 3
    assert sorted(path.name for path in checkout.kept.rglob("*.parquet")) == before
    assert night(checkout, "slow", accept=True) == 0
    assert len(sorted(checkout.kept.rglob("*.parquet"))) == 10
    assert night(checkout, "still") == 0, "what was accepted is the new level"


def test_the_gate_on_gitlab_gives_a_report_that_it_reads(checkout: Checkout) -> None:
    checkout.commit(checkout.folder, "slow")
    job = GITLAB["performance"]
    *before, gate = job["script"]
    for line in before:
        checkout.run(line)
    checkout.run(gate, 3)
    report = (checkout.folder / job["artifacts"]["reports"]["junit"]).read_text(encoding="ascii")
    assert states(junit(report)) == {"step.p50 > 3%": "failure"}
    for line in job["after_script"]:
        checkout.run(line)


def test_the_jobs_of_doctor_and_batch_give_reports(checkout: Checkout) -> None:
    for side in ("base", "new"):
        shutil.copytree(checkout.recorded / "base", checkout.folder / "runs" / side)
    checkout.run(DOCTOR["doctor"]["script"][0])
    found = states(junit((checkout.folder / "doctor.xml").read_text(encoding="ascii")))
    assert found == {f"runs/new/{number}.json": "passed" for number in range(1, 6)}
    checkout.run(BATCH["batch"]["script"][0])
    assert len(states(junit((checkout.folder / "batch.xml").read_text(encoding="ascii")))) == 10
    cut = (checkout.folder / "runs" / "new" / "3.json").read_bytes()
    (checkout.folder / "runs" / "new" / "3.json").write_bytes(cut[: len(cut) // 2])
    checkout.run(f"rm doctor.xml; {DOCTOR['doctor']['script'][0]}", 3)
    found = states(junit((checkout.folder / "doctor.xml").read_text(encoding="ascii")))
    assert [name for name, state in found.items() if state == "failure"] == ["runs/new/3.json: torn-tail"]


def test_every_workflow_keeps_its_reports_when_the_gate_fails() -> None:
    for block in (GITLAB["performance"], DOCTOR["doctor"], BATCH["batch"]):
        assert block["artifacts"]["when"] == "always"
    [job] = PULL["jobs"].values()
    assert [step["if"] for step in job["steps"] if "if" in step] == ["always()"]

"""No command uses the network unless it was given a URL: Python's own events of sockets are watched, children too."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked import Forks
from support import ROOT, has_otf2, sample, wait_until

from tracekit import cli
from tracekit.writers import WRITERS

_WATCH = """
import os, sys

NETWORK = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname",
           "socket.gethostbyaddr", "socket.getnameinfo", "urllib.Request", "http.client.connect", "ftplib.connect")

def hook(event, args):
    if event in NETWORK:
        # The address of a socket of this machine alone is a path.
        local = event in ("socket.connect", "socket.bind") and not isinstance(args[1], tuple)
        if not local:
            with open(os.environ["WATCHED"], "a") as out:
                out.write(f"{event} {args[1:] if event.startswith('socket.') and len(args) > 1 else args}\\n")

sys.addaudithook(hook)
"""
"""Python imports sitecustomize in every process, so in those of a batch too."""
CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
LOG = sample("recorder-log/rank0.jsonl")
TARGETS = [name for name in WRITERS if name != "otf2" or has_otf2()]


@dataclass(frozen=True)
class Watched:
    """A folder in which commands run whose network events are written down."""

    folder: Path
    site: Path
    started: Forks

    @property
    def environment(self) -> dict[str, str]:
        """For each process: with the watch, and with nothing of the user's."""
        return {
            **os.environ,
            "PYTHONPATH": _python_path(self.site),
            "WATCHED": str(self.folder / "events.txt"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    def run(self, *words: object, code: int = 0) -> str:
        """Run one command, which must end with this exit code. Return what it printed."""
        done = self.started.run(*words, cwd=self.folder, env=self.environment)
        assert done.returncode == code, done.stderr
        return done.stdout.decode()

    @property
    def events(self) -> list[str]:
        """What was seen so far, a line each."""
        return (self.folder / "events.txt").read_text().splitlines()


def _python_path(site: Path) -> str:
    return os.pathsep.join((str(site), str(ROOT)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the watch."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(_WATCH)
    return folder


@pytest.fixture(scope="module")
def watched(site: Path) -> Iterator[Forks]:
    """A process under watch from its start, which starts the commands."""
    unused = site / "events.txt"
    with Forks({**os.environ, "PYTHONPATH": _python_path(site), "WATCHED": str(unused)}) as started:
        yield started
    assert not unused.exists()  # of what commands import, nothing is asked of the network


@pytest.fixture
def watch(tmp_path: Path, site: Path, watched: Forks) -> Watched:
    """An empty folder under watch."""
    (tmp_path / "events.txt").touch()
    return Watched(tmp_path, site, watched)


def test_a_url_is_seen_by_the_watch(watch: Watched) -> None:
    """So the other tests of this file can fail."""
    watch.run("summary", "http://127.0.0.1:9/run.csv", code=1)
    assert any("127.0.0.1" in line for line in watch.events)


def test_reading_and_reporting_stay_on_the_machine(watch: Watched) -> None:
    watch.run("summary", CSV, LOG, "--all", "--max-time", "1h")
    watch.run("report", CSV, LOG, "-o", "r.html")
    watch.run("inspect", CSV, "--anonymize")
    watch.run("doctor", CSV)
    watch.run("explain", CSV, "kernel.total", "device.kernel_time")
    watch.run("compare", CSV, CSV)
    watch.run("formats")
    watch.run("config")
    watch.run("record", "-o", "run.jsonl", "--", sys.executable, "-c", "pass")
    watch.run("demo", "-o", "demo")
    assert watch.events == []


def test_a_query_stays_on_the_machine(watch: Watched) -> None:
    pytest.importorskip("duckdb")
    watch.run("query", CSV, "select count(*) from events")
    assert watch.events == []


@pytest.mark.parametrize("target", TARGETS)
def test_writing_stays_on_the_machine(watch: Watched, target: str) -> None:
    watch.run("convert", CSV, "--to", target, "-o", "out")
    assert watch.events == []


def test_a_batch_and_an_archive_stay_on_the_machine(watch: Watched) -> None:
    (watch.folder / "runs").mkdir()
    for path in (CSV, LOG):
        shutil.copy(path, watch.folder / "runs")
    watch.run("batch", "runs", "-o", "out", "--jobs", "2")
    added = watch.run("archive", "add", "a", CSV).strip()
    watch.run("archive", "list", "a")
    watch.run("archive", "show", "a", added)
    watch.run("archive", "verify", "a")
    watch.run("archive", "export", "a", added, "-o", "x.json")
    watch.run("archive", "prune", "a", "--older-than", "90d")
    assert watch.events == []


def test_open_can_be_reached_from_this_machine_alone(watch: Watched) -> None:
    with watch.started.start("open", CSV, "--no-browser", cwd=watch.folder, env=watch.environment):
        wait_until(lambda: bool(watch.events))
    assert all("'127.0.0.1'" in line for line in watch.events)


def test_every_command_was_watched() -> None:
    """A new command needs a line in this file."""
    text = Path(__file__).read_text(encoding="utf-8")
    commands = [name for names in cli.COMMAND_GROUPS.values() for name in names]
    # The server for agents has a fence of its own: tests/agents.
    assert [name for name in commands if f'"{name}"' not in text and name != "mcp"] == []

"""No command makes a socket unless it is given a URL: an audit hook of Python refuses each one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import LONG_S, sample

CSV = str(sample("nvprof-csv/gpu-and-api-trace.csv"))
JSON = str(sample("kineto/gpu.pt.trace.json"))
SCRIPT = """
import json, sys
met = []
def refuse(event, args):
    if event.startswith("socket.") and event != "socket.gethostname":  # a name, and no network
        met.append(event)
        raise RuntimeError(f"{event} {args}")
sys.addaudithook(refuse)
sys.argv = ["tracekit", *json.loads(sys.argv[1])]
from tracekit.cli import main
code = 0
try:
    main()
except SystemExit as end:
    code = end.code or 0
print("SOCKETS", met, "CODE", code, file=sys.stderr)
"""


def met(words: list[str], folder: Path) -> tuple[str, int]:
    """Return the events of sockets of a command, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(words)],
        cwd=folder, capture_output=True, text=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    _, _, end = done.stderr.rpartition("SOCKETS ")
    events, _, code = end.strip().partition("\n")[0].partition(" CODE ")
    return events, int(code)


@pytest.mark.parametrize(
    "words",
    [
        ["summary", CSV, "--all"],
        ["summary", CSV, JSON],
        ["inspect", JSON],
        ["convert", JSON, "-o", "a.pftrace"],
        ["convert", JSON, "-o", "a.json.gz", "--findings"],
        ["convert", CSV, "-o", "a.parquet", "--anonymize"],
        ["report", JSON, "-o", "a.html"],
        ["doctor", CSV],
        ["explain", CSV, "kernel.total", "device.kernel_time"],
        ["query", CSV, "SELECT count(*) FROM events"],
        ["compare", CSV, CSV],
        ["archive", "add", "kept", CSV],
        ["formats"],
        ["demo"],
        ["batch", str(Path(CSV).parent), "-o", "out", "--jobs", "1", "--run-pattern", "gpu-and-api-trace.csv"],
        ["summary", CSV, "--max-time", "1h"],
    ],
    ids=" ".join,
)
def test_a_command_without_a_url_makes_no_socket(words: list[str], tmp_path: Path) -> None:
    events, code = met(words, tmp_path)
    assert events == "[]"
    assert code == 0 or words[0] in ("batch", "demo")


def test_the_hook_sees_a_socket(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    events, code = met(["inspect", "http://127.0.0.1:9/a.json"], tmp_path)
    assert "socket." in events
    assert code == 1

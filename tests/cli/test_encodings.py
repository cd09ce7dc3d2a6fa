"""A stdout that lacks characters, as on Windows or in the C locale: no command fails, and they are escaped."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked import Forks

import tracekit

NAMES = ["核函数_forward", "café 😀 ядро", "x\ud83d"]
ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "strict ascii": {"PYTHONIOENCODING": "ascii:strict"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "cp437": {"PYTHONIOENCODING": "cp437"},
}


def trace_of(path: Path) -> Path:
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": 10 * n, "dur": 2, "pid": 0, "tid": 7, "args": {"größe": name}}
        for n, name in enumerate(NAMES)
    ]
    path.write_text(json.dumps({"traceEvents": events, "deviceProperties": [{"id": 0, "name": "グラフ"}]}))
    return path


COMMANDS = [
    "summary IN",
    "summary --all IN",
    "summary --format json IN",
    "summary --format csv --view kernel IN",
    "summary --format spreadsheet --view kernel IN",
    "summary --format markdown IN",
    "inspect IN",
    "inspect --format json IN",
    "doctor IN",
    "doctor --format json IN",
    "explain IN 核函数_forward",
    "explain IN kernel:1",
    "compare IN IN",
    "compare IN IN --format json",
    "convert IN -o - --to jsonl",
    "convert IN -o - --to chrome",
    "report IN -o OUT/核.html",
    "archive add OUT/a IN --run 核",
    "archive list OUT/a",
    "archive list OUT/a --format json",
    "archive verify OUT/a",
    "query IN | SELECT * FROM events",
    "query --format csv IN | SELECT name FROM events",
    "query IN | SELECT 核 FROM events",
    "batch OUT -o OUT/b",
    "summary OUT/核.json",
    "summary --view 核 IN",
    "核",
    "formats",
    "--help",
    "summary --help",
]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_command_fails_for_a_stdout_that_lacks_characters(encoding: str, tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.json")
    usual = ("PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL", "LANG")
    environment = {key: value for key, value in os.environ.items() if key not in usual}
    # Python chooses encodings when it starts: a process of its own for each of these environments.
    with Forks(environment | ENCODINGS[encoding]) as started:
        for command in COMMANDS if encoding == "C" else COMMANDS[:3]:
            first, *sql = command.split(" | ")
            words = first.replace("IN", str(trace)).replace("OUT", str(tmp_path)).split()
            done = started.run(*words, *sql)
            said = (done.stderr + done.stdout).decode("utf-8", "replace")
            assert "Traceback" not in said, (command, said)
            assert "this is a bug" not in said, (command, said)
            assert "codec" not in said, (command, said)
            if "--format json" in command and done.returncode == 0:
                assert done.stdout.isascii(), command
                json.loads(done.stdout)


def test_names_are_escaped_and_json_keeps_them(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.json")
    words = [sys.executable, "-m", "tracekit", "summary", str(trace)]
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    text = subprocess.run(words, capture_output=True, check=True, env=environment).stdout.decode("cp1252")
    assert r"\u6838\u51fd\u6570_forward" in text
    assert "café" in text
    found = subprocess.run([*words, "--format", "json"], capture_output=True, check=True, env=environment).stdout
    assert NAMES[0] in str(json.loads(found))
    assert NAMES[1] in str(json.loads(found))


def test_a_file_is_utf8_whatever_the_terminal_is(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.json")
    environment = os.environ | {
        "PYTHONIOENCODING": "ascii",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    for command in (["summary", "-o"], ["convert", "--to", "jsonl", "-o"], ["report", "-o"]):
        out = tmp_path / f"{command[0]}.{'html' if command[0] == 'report' else 'json'}"
        words = [sys.executable, "-m", "tracekit", *command, str(out), str(trace)]
        subprocess.run(words, capture_output=True, check=command[0] != "summary", env=environment)
        if out.exists():
            out.read_text("utf-8")


def test_a_report_is_shown_on_a_stdout_that_lacks_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "cp1252"))
    tracekit.report(trace_of(tmp_path / "trace.json")).show()
    sys.stdout.flush()
    assert rb"\u6838\u51fd\u6570_forward" in raw.getvalue()

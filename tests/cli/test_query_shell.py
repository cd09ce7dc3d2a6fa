"""`tracekit query` without a query, in the order of SELECT, and `--shell`."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import run_command, sample, wait_until
from typer.testing import CliRunner, Result

from tracekit import cli

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_columns_are_in_the_order_of_select(width: int) -> None:
    sql = "SELECT short_name, count(*) AS n, kind, sum(dur_ns) AS total_ns FROM events GROUP BY ALL LIMIT 3"
    lines = run_command("query", CSV, sql, width=width).stdout.splitlines()
    assert max(map(len, lines)) <= width
    titles = next(line for line in lines if "short_name" in line)
    # At 40 columns the last title takes two lines.
    assert titles.replace("total_ns", "").split() == ["short_name", "n", "kind", "(us)"]
    second = run_command("query", CSV, "SELECT count(*) AS n, kind FROM events GROUP BY kind", width=80).stdout
    assert [line.split() for line in second.splitlines()][3] == ["n", "kind"]


def test_an_input_alone_shows_its_tables_and_examples_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my run.csv").write_bytes(CSV.read_bytes())
    shown = run_command("query", "my run.csv", width=80).stdout
    assert len(shown.splitlines()) <= 30
    assert max(map(len, shown.splitlines())) <= 80
    assert "events: " in shown
    assert "short_name" in shown
    examples = re.findall(r"^tracekit (query (?s:.*?\"\s*?))$", shown, re.M)
    assert len(examples) == 3
    for example in examples:
        assert "\n" in run_command(*shlex.split(example)).stdout
    assert "events: " in run_command("query", "my run.csv", CSV).stdout


def shell(*inputs: object, text: str, code: int = 0) -> Result:
    done = CliRunner().invoke(cli.app, ["query", *map(str, inputs), "--shell"], prog_name="tracekit", input=text)
    assert done.exit_code == code, done.output
    return done


def test_a_shell_answers_each_query_of_a_pipe() -> None:
    done = shell(CSV, text="SELECT kind, count(*) AS n\nFROM events GROUP BY kind;\n\n.tables\nSELECT 42 AS last")
    assert done.stdout.startswith("answer\n\n5 rows\nkind ")
    assert "\nevents: " in done.stdout
    assert re.search(r"last\n-+\n +42\n", done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT nothing;", '"DESCRIBE events" lists the columns'),
        ("COPY events TO 'x.csv';", "COPY is refused"),
        ("SELECT * FROM read_text('/etc/passwd');", "may read only its inputs"),
        ("SET enable_external_access = true;", "SET is refused"),
        ("SELECT 1; SELECT 2;", "2 statements instead of one SELECT"),
        (".shell ls", "no such command"),
        (".import x", "no such command"),
    ],
)
def test_an_error_ends_no_shell_and_nothing_outside_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = shell(CSV, text=f"{text}\nSELECT 7 AS behind;\n", code=2)
    assert said in done.stderr
    assert "behind" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_shell_on_a_terminal_asks_until_quit(tmp_path: Path) -> None:
    inside, outside = pty.openpty()
    own = {**os.environ, "TERM": "dumb", "COLUMNS": "80", "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-m", "tracekit", "query", str(CSV), "--shell"]
    child = subprocess.Popen(words, stdin=outside, stdout=outside, stderr=outside, env=own, start_new_session=True)
    os.close(outside)
    seen = b""

    def sees(text: bytes) -> bool:
        nonlocal seen
        seen += os.read(inside, 4096)
        return text in seen

    wait_until(lambda: sees(b"sql> "))
    assert b".quit (or Ctrl-D) ends." in seen
    os.write(inside, b"SELECT count(*) AS rows_here\n")
    wait_until(lambda: sees(b"...> "))
    os.write(inside, b"FROM events;\n")
    wait_until(lambda: sees(b"rows_here"[::1]) and seen.count(b"sql> ") == 2)
    os.write(inside, b".quit\n")
    child.wait(60)
    os.close(inside)
    assert child.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_shell_takes_no_form_and_no_output(tmp_path: Path) -> None:
    assert "--shell: -o and --format are for one query" in run_command(
        "query", CSV, "--shell", "-o", tmp_path / "x.csv", code=2
    ).stderr  # fmt: skip

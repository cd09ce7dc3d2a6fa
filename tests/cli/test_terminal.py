"""Names of strangers on a terminal, and in the cells of a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import re
import time
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from doors.pages import cli_common as _common
from forked import forks
from hypothesis import given
from hypothesis import strategies as st
from support import run_command as run

from tracekit.cli.process.terminal import wrapped_message
from tracekit.model.display import AS_TEXT, FORMULA, cell_text, cell_width
from tracekit.model.trace import Run
from tracekit.readers.builder import event_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions

EVIL = "k\x1b[31m\x9b2J\u202e\u2066\x07\r\x7f"
FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "a;=1", " =1", "\uff1d1")


def trace(path: Path, *names: str) -> str:
    events = [{"ph": "X", "name": name, "ts": 10 * i, "dur": 5, "pid": 1, "tid": 1} for i, name in enumerate(names)]
    path.write_text(json.dumps({"traceEvents": events}))
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        "summary {} --format csv",
        "summary {} --format json",
        "summary {} --format markdown",
        "summary {} --format spreadsheet",
        "summary {} --view user_defined",
        "inspect {} --format json",
        "doctor {} --format json",
        "convert {} -o - --to csv",
        "convert {} -o - --to jsonl",
        "convert {} -o - --to chrome",
        "query {} --format=csv",
        "query {} --format=json",
        "compare {} {} --format csv",
    ],
)
def test_no_form_sends_to_a_terminal_what_it_obeys(words: str, tmp_path: Path) -> None:
    at_a_terminal = pytest.importorskip("terminal").at_a_terminal
    name, *rest = words.format(*[trace(tmp_path / "a.json", EVIL)] * 2).split(" ")
    if name == "query":
        rest.insert(1, "SELECT name, args FROM events")
    shown, _ = at_a_terminal(*rest, name=name, errors=False, NO_COLOR="1", PAGER="")
    obeyed = {c for c in shown if unicodedata.category(c) in ("Cc", "Cf") and c not in "\r\n"}
    assert not obeyed, shown
    assert "\r" not in shown.replace("\r\n", "")
    assert "31m" in shown or "inspect" in words or "doctor" in words


FORGED = "x\nerror: forged\n\r"


def test_a_message_is_one_line_whatever_a_file_is_called(tmp_path: Path) -> None:
    bad = tmp_path / f"{FORGED}.json"
    bad.write_text("no profile")
    messages = [run("summary", bad, code=1).stderr, run("summary", tmp_path / FORGED, code=1).stderr]
    messages.append(run("inspect", trace(bad, "k"), "--strict", "--from", "nvprof-csv", code=1).stderr)
    assert ["x\\nerror: forged\\n\\r" in text for text in messages] == [True] * 3
    assert not [text for text in messages if "\nerror: forged" in text]


def test_no_fact_or_name_looks_like_a_line_of_ours(tmp_path: Path) -> None:
    path = tmp_path / f"{FORGED}.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 1}], FORGED: FORGED}))
    assert "\nerror: forged" not in run("inspect", path).stdout
    added = run("archive", "add", tmp_path / "a", path, "--run", "r").stdout.strip()
    assert "\nerror: forged" not in run("archive", "show", tmp_path / "a", added).stdout


def test_a_progress_bar_shows_the_name_of_a_file_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words in brackets are marks of the library that draws the bar: colours, links, and a wrong one is an error."""
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with _common.progress("reading runs[link=http://x]a[/x].json\nforged") as update:
        time.sleep(1.05)
        update(0.5)
    assert "reading runs[link=http://x]a[/x].json\\nforged" in shown.getvalue()


def test_a_traceback_for_developers_has_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    bad = tmp_path / f"{EVIL}.json"
    bad.write_text("no profile")
    done = forks().run("summary", bad, "--debug")
    said = done.stderr.decode("utf-8")
    assert (done.returncode, "Traceback" in said, "\\x1b[31m" in said) == (1, True, True)
    assert not {c for c in said if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}


def test_a_binary_result_does_not_go_to_a_terminal(tmp_path: Path) -> None:
    at_a_terminal = pytest.importorskip("terminal").at_a_terminal
    shown, code = at_a_terminal(trace(tmp_path / "a.json", "k"), "-o", "-", "--to", "parquet", name="convert")
    assert (code, "-o FILE" in shown, "PAR1" in shown) == (1, True, False)


def test_a_pipe_gets_every_character(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.json", EVIL)
    assert EVIL in run("convert", path, "-o", "-", "--to", "csv").stdout
    assert EVIL in run("query", path, "SELECT name FROM events", "--format", "csv").stdout


def is_formula(cell: str) -> bool:
    """Return whether a spreadsheet may take a cell for a formula: after trimming, by its first character."""
    first = cell.strip(" \t\r\n\xa0")[:1]
    return first in set("=+-@＝＋－＠") and not re.fullmatch(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?", cell)


def pieces(text: str) -> list[str]:
    """Return the cells of a table, as a program cuts it at commas, and as one that cuts at semicolons does."""
    rows = [*csv.reader(io.StringIO(text, newline="")), *csv.reader(io.StringIO(text, newline=""), delimiter=";")]
    return [cell for row in rows for cell in row]


def test_no_cell_of_the_spreadsheet_form_is_a_formula(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.json", *FORMULAS)
    target = tmp_path / "all.spreadsheet.csv"
    run("convert", path, "-o", target)
    texts = [
        run("summary", path, "--all", "--format", "spreadsheet").stdout,
        run("compare", path, path, "--format", "spreadsheet").stdout,
        run("query", path, 'SELECT name AS "=name", -5 AS n FROM events', "--format", "spreadsheet").stdout,
        target.read_text(),
    ]
    for text in texts:
        assert "'=1+1" in text
        assert not [cell for cell in pieces(text) if is_formula(cell)]
    assert "-5" in pieces(texts[2])


def test_markdown_has_no_cell_that_is_a_formula(tmp_path: Path) -> None:
    text = run("summary", trace(tmp_path / "a.json", *FORMULAS), "--all", "--format", "markdown").stdout
    cells = [cell.strip() for line in text.split("\n") if line.startswith("| ") for cell in line.split(" | ")]
    assert not [
        cell for cell in cells if is_formula(cell) and not re.fullmatch(r"-+:?( \|)?|-?[0-9.,]+( \|)?|-( \|)?", cell)
    ]


@given(st.text(max_size=12) | st.sampled_from(FORMULAS))
def test_names_and_args_are_made_safe_by_one_rule(text: str) -> None:
    made = cell_text(text)
    assert not [cell for cell in re.split(";", made) if is_formula(cell)] or re.fullmatch(r"[+-]?[0-9.eE+-]+", made)
    if text.isprintable():
        found = pa.compute.replace_substring_regex(pa.array([text]), pattern=FORMULA, replacement=AS_TEXT)
        assert found[0].as_py() == made or re.fullmatch(r"[+-]?[0-9.eE+-]+", made)


def test_the_target_leaves_numbers_and_harmless_names_alone(tmp_path: Path) -> None:
    batch = event_batch(
        3,
        {
            "ts_ns": [-5, 0, 1],
            "event_id": 0,
            "kind": "kernel",
            "source": 0,
            "name": ["a-b", "-5", "=x"],
            "args": '{"a;=":1}',
        },
    )
    for name in ("csv", "spreadsheet"):
        WRITERS[name].write(RowStream(Run(), iter([batch])), tmp_path / name, WriteOptions())
    plain, made = ([*csv.DictReader(io.StringIO((tmp_path / n).read_text()))] for n in ("csv", "spreadsheet"))
    assert [row["name"] for row in made] == ["a-b", "-5", "'=x"]
    assert [row["args"] for row in made] == ["""{"a;'=":1}"""] * 3
    rest = [name for name in plain[0] if name not in ("name", "args")]
    assert [[row[name] for name in rest] for row in plain] == [[row[name] for name in rest] for row in made]


INCOMPLETE = "1,000 of 2,000 events of a_file_with_a_name.json are missing: " + "its totals are low by as much, " * 4


@pytest.mark.parametrize("text", [INCOMPLETE, "\u8a18\u9332 " * 40, f"  {INCOMPLETE}", "x " * 41, "x" * 81, "x" * 80])
def test_a_long_message_is_broken_at_spaces_and_only_its_first_line_starts_at_the_margin(text: str) -> None:
    first, *others = wrapped_message(text, 80)
    lines = [first, *others]
    assert all(cell_width(line) <= 80 or " " not in line.strip() for line in lines)
    assert all(line.startswith("  ") for line in others)
    assert " ".join(line.strip() for line in lines).split() == text.split()
    assert first[:2].isspace() == text[:2].isspace()
    assert wrapped_message(text, 0) == [text]


def test_a_path_in_a_message_stays_whole() -> None:
    path = "/a/" + 30 * "long/"
    assert f"  {path}" in wrapped_message(f"wrote {path} in 3 s", 80)


def test_messages_are_as_wide_as_the_terminal_and_whole_in_a_file(tmp_path: Path) -> None:
    missing = tmp_path / ("a_name " * 20 + ".json")
    words = ("summary", missing)
    (whole, *_) = run(*words, code=1).stderr.splitlines()
    assert len(whole) > 120
    lines = run(*words, code=1, width=80).stderr.splitlines()
    assert whole.split() == [word for line in lines for word in line.split()][: len(whole.split())]
    at_a_terminal = pytest.importorskip("terminal").at_a_terminal
    shown, code = at_a_terminal(str(missing), NO_COLOR="1", PAGER="")
    assert code == 1
    assert "error:" in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if " " in line.strip())

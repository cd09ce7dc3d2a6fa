"""The commands as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from forked import forks
from support import run_command as run
from support import sample

import tracekit
from tracekit.inputs import stored_name

GOOD = sample("nvprof-csv/gpu-and-api-trace.csv")
COMMANDS = ["convert", "summary", "report", "inspect", "formats", "demo"]


def test_help_lists_every_command_and_version_is_said() -> None:
    text = run("--help").stdout
    assert all(command in text for command in COMMANDS)
    assert "--install-completion" in text
    assert run("--version").stdout == f"tracekit {tracekit.__version__}\n"


def test_formats_lists_what_is_registered() -> None:
    from tracekit.formats import READERS
    from tracekit.writers import WRITERS

    text = run("formats").stdout
    assert all(f"  {name} " in text for name in [*READERS, *WRITERS])
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    named = [words for words in ("(--from)", "(--to)", "(--view)", "(--compat)") if any(words in h for h in headings)]
    assert named == ["(--from)", "(--to)", "(--view)", "(--compat)"]
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, run("formats", "-v", width=80).stdout.splitlines())) <= 80


def test_formats_lists_what_a_word_names() -> None:
    text = run("formats", "nsys").stdout
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  ") and line[2] != " "] == [
        "nsys-arrow",
        "nsys-jsonl",
        "nsys-recipe-csv",
        "nsys-report",
        "nsys-sqlite",
        "nsys-stats-csv",
    ]
    assert ".nsys-rep" in text
    assert "did you mean nsys" in run("formats", "nsyz", code=2).stderr
    assert "columns: name, calls" in run("formats", "kernel").stdout


def test_formats_json_has_what_is_registered() -> None:
    from tracekit.formats import READERS
    from tracekit.views import VIEWS
    from tracekit.writers import WRITERS

    made = orjson.loads(run("formats", "--format", "json").stdout)
    assert {each["name"] for each in made["formats"]} == set(READERS)
    assert {each["name"] for each in made["targets"]} == set(WRITERS)
    assert {each["name"] for each in made["views"]} >= set(VIEWS)
    (nsys,) = orjson.loads(run("formats", "nsys-sqlite", "--format", "json").stdout)["formats"]
    assert nsys["options"] == [
        {
            "key": "osrt",
            "value": "yes|no",
            "help": "Read the calls of the OS runtime too. There are many.",
            "default": "no",
        }
    ]
    (kernel,) = orjson.loads(run("formats", "--view", "kernel", "--format", "json").stdout)["views"]
    assert {"key": "calls", "meaning": "The number of events.", "unit": "count"} in kernel["columns"]


def test_convert_writes_and_tells_the_ledger(tmp_path: Path) -> None:
    result = run("convert", GOOD, "-o", tmp_path / "x.json.gz")
    assert result.stdout == ""
    assert "read 142 records, nothing dropped" in result.stderr
    whole = run("convert", GOOD, "-o", tmp_path / "whole.json.gz", "-v")
    assert "142 records read = 137 kept, 1 ignored (header)" in whole.stderr
    assert run("convert", GOOD, "-o", tmp_path / "quiet.json.gz", "-q").stderr == ""


def test_the_notes_of_several_inputs_are_said_once(tmp_path: Path) -> None:
    logs = [sample(f"recorder-log/rank{rank}.jsonl") for rank in (0, 1)]
    said = run("convert", *logs, "-o", tmp_path / "x.json.gz").stderr.splitlines()
    assert "read 188 records of 2 inputs, nothing dropped" in said
    assert len(said) == len(set(said))


def test_demo_fits_a_screen_and_ends_with_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("demo", "-o", "there", width=80)
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert not any("\\n" in line for line in lines)
    assert lines[-4:] == [
        "Try next:",
        "  tracekit there/run.csv",
        "  tracekit open there/run.html",
        "  there/run.chrome.json.gz: open it in https://ui.perfetto.dev",
    ]


def test_convert_by_suffix_and_by_name_and_to_stdout(tmp_path: Path) -> None:
    run("convert", GOOD, "-o", tmp_path / "x.parquet")
    run("convert", GOOD, "-o", tmp_path / "no_suffix", "--to", "jsonl")
    piped = run("convert", GOOD, "-o", "-", "--to", "jsonl").stdout
    assert piped.encode() == (tmp_path / "no_suffix").read_bytes()
    assert tracekit.read(tmp_path / "x.parquet").events.num_rows == tracekit.read(GOOD).events.num_rows


def test_convert_into_a_folder_makes_one_output_each(tmp_path: Path) -> None:
    other = sample("nvprof-csv/gpu-trace-20-columns.csv")
    run("convert", GOOD, other, f"again={GOOD}", GOOD, "-o", f"{tmp_path}/", "--to", "parquet")
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [
        "again.parquet",
        "gpu-and-api-trace-2.parquet",
        "gpu-and-api-trace.parquet",
        "gpu-trace-20-columns.parquet",
    ]


def test_several_inputs_stand_side_by_side(tmp_path: Path) -> None:
    run("convert", f"a={GOOD}", f"b={GOOD}", "-o", tmp_path / "x.parquet")
    trace = tracekit.read(tmp_path / "x.parquet")
    assert set(trace.events.column("source").to_pylist()) == {0, 1}
    assert trace.events.num_rows == 2 * tracekit.read(GOOD).events.num_rows
    assert [s.label for s in trace.run.sources] == ["a", "b"]


def test_summary_json_has_the_documented_shape() -> None:
    made = orjson.loads(run("summary", GOOD, "--format", "json", "--view", "kernel").stdout)
    assert made["tracekit"] == tracekit.__version__
    (section,) = made["sections"]
    assert section["view"] == "kernel"
    table = section["tables"][0]
    assert {"name", "unit"} <= set(table["columns"][0])
    assert len(table["rows"][0]) == len(table["columns"])
    times = [i for i, c in enumerate(table["columns"]) if c["unit"] == "ns"]
    assert times
    assert all(isinstance(row[i], int) for row in table["rows"] for i in times)
    assert made["ledger"][0]["read"] > 0


def test_inspect_json_has_the_documented_shape() -> None:
    (entry,) = orjson.loads(run("inspect", GOOD, "--format", "json").stdout)["inputs"]
    assert {"path", "format", "events", "totals", "by_kind", "first_ns", "last_ns", "ledger"} <= set(entry)
    names = ("read", "kept", "merged", "facts", "ignored", "filtered", "dropped", "events_out", "totals_out")
    assert set(names) <= set(entry["ledger"])
    assert all({"events", "dur_ns"} == set(v) for v in entry["by_kind"].values())


def test_filters_are_the_same_words_everywhere(tmp_path: Path) -> None:
    words = ["--kind", "kernel", "--min-dur", "1us", "--name", "gemm"]
    entry = orjson.loads(run("inspect", GOOD, "--format", "json", *words).stdout)["inputs"][0]
    assert set(entry["by_kind"]) == {"kernel"}
    assert entry["ledger"]["filtered"] > 0
    run("convert", GOOD, "-o", tmp_path / "x.parquet", *words)
    assert tracekit.read(tmp_path / "x.parquet").events.num_rows == entry["events"]
    assert "filtered" in run("inspect", GOOD, *words).stdout


def test_text_summary_is_stable_and_report_opens_nothing(tmp_path: Path) -> None:
    assert run("summary", GOOD).stdout == run("summary", GOOD).stdout
    run("report", GOOD, "-o", tmp_path / "r.html")
    assert b"<html" in (tmp_path / "r.html").read_bytes()[:200]


def test_stdin_is_an_input() -> None:
    done = forks().run("inspect", "-", "--format", "json", stdin=GOOD.read_bytes())
    assert done.returncode == 0, done.stderr
    assert orjson.loads(done.stdout)["inputs"][0]["format"] == "nvprof-csv"


def test_stdin_out_of_order_converts_too(tmp_path: Path) -> None:
    appended = sample("nvprof-csv/appended-runs.csv").read_bytes()
    done = forks().run("convert", "-", "-o", tmp_path / "x.json", stdin=appended)
    assert done.returncode == 0, done.stderr


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m tracekit summary {GOOD} --format json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=300, check=False)
    assert done.stderr == b""


@pytest.mark.parametrize("words", [(), ("--all",)])
def test_summary_fits_80_columns_at_a_terminal(words: tuple[str, ...]) -> None:
    at_a_terminal = pytest.importorskip("terminal").at_a_terminal
    text, code = at_a_terminal(str(GOOD), *words, rows=40, errors=False, NO_COLOR="1", PAGER="")
    assert code == 0
    lines = text.replace("\r\n", "\n").split("\n")
    assert max(map(len, lines)) <= 80
    assert any("hidden" in line for line in lines) == bool(words)


def test_inspect_says_the_name_that_the_user_gave() -> None:
    assert run("inspect", f"first run={GOOD}").stdout.startswith(f"first run = {stored_name(str(GOOD))}\n")
    entries = orjson.loads(run("inspect", f"a={GOOD}", GOOD, "--format", "json").stdout)["inputs"]
    assert [entry["label"] for entry in entries] == ["a", ""]


def test_an_unknown_option_of_a_format_is_refused_with_those_known(tmp_path: Path) -> None:
    result = run("summary", GOOD, "--option", "osrt2=yes", code=2)
    assert "error: --option osrt2: no such option of any format or view; did you mean osrt?" in result.stderr
    assert "osrt=yes|no" in result.stderr
    nsys = sample("nsys-sqlite/nvtx-v2.sqlite")
    result = run("summary", nsys, "--option", "state=GPU", code=2)
    assert "error: --option state: no such option of nsys-sqlite" in result.stderr
    assert "known: osrt=yes|no" in result.stderr
    result = run("summary", sample("kineto/gpu.pt.trace.json"), "--option", "osrt=yes", code=2)
    assert "it has no options" in result.stderr
    # Of several inputs each takes the options of its own format.
    run("convert", nsys, GOOD, "-o", tmp_path / "x.parquet", "--option", "osrt=yes")
    assert "--option osrt=yes|no" in run("formats", "osrt").stdout


@pytest.mark.parametrize(
    "views", [("findings",), ("findings", "kernel"), ("kernel", "findings"), ("kernel", "steps", "findings")]
)
def test_findings_that_are_asked_for_name_the_rules_that_were_not_checked(views: tuple[str, ...]) -> None:
    words = [word for view in views for word in ("--view", view)]
    text = " ".join(run("summary", sample("nvprof-csv/gpu-and-api-trace.csv"), *words).stdout.split())
    assert "--view findings has the names" not in text
    assert "(needs" in text.partition("not checked: ")[2]


def test_findings_among_all_views_count_the_rules_that_were_not_checked() -> None:
    text = run("summary", sample("nvprof-csv/gpu-and-api-trace.csv"), "--all").stdout
    assert "--view findings has the names" in " ".join(text.split())

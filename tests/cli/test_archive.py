"""`tracekit archive` as a user runs it."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support import run_command, sample

from tracekit import archive
from tracekit.inputs import stored_name

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
LOG = sample("recorder-log/rank0.jsonl")


run = functools.partial(run_command, "archive")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, source in enumerate((CSV, LOG), 1):
        run(
            "add", tmp_path / "a", source, "--run", f"r{number}", "--date", f"2026-01-0{number}", "--tag", f"n={number}"
        )
    return tmp_path / "a"


def listed(root: Path, *words: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run("list", root, "--format", "json", *words).stdout)
    return found


def test_add_prints_the_id_on_stdout_and_the_rest_on_stderr(tmp_path: Path) -> None:
    first = run("add", tmp_path, CSV, "--run", "r", "--tag", "gpu=H200", "--tag", "baseline", "--date", "2026-01-31")
    (entry,) = listed(tmp_path)
    assert first.stdout == f"{entry['id']}\n"
    assert "137 events" in first.stderr
    assert "records, " in first.stderr
    assert "as given" in first.stderr
    assert entry["tags"] == {"baseline": "", "gpu": "H200"}
    again = run("add", tmp_path, CSV, "--run", "r")
    assert again.stdout == first.stdout
    assert "already archived" in again.stderr
    assert "changed" in run("add", tmp_path, CSV, "--run", "r", "--tag", "x=1").stderr


def test_add_names_the_source_of_the_date(tmp_path: Path) -> None:
    assert "date 2026-01-01 (from the clock of the trace)" in run("add", tmp_path, LOG).stderr
    assert "from the last change of its file" in run("add", tmp_path, CSV).stderr


def test_add_with_a_filter_and_with_a_bad_input(tmp_path: Path) -> None:
    run("add", tmp_path / "a", CSV, "--kind", "kernel", "--run", "r")
    assert listed(tmp_path / "a")[0]["events"] == 48
    bad = tmp_path / "bad.csv"
    bad.write_text("nothing")
    done = run("add", tmp_path / "b", CSV, bad, "--run", "r", code=1)
    assert "bad.csv" in done.stderr
    assert listed(tmp_path / "b")[0]["events"] == 137
    run("add", tmp_path / "c", bad, code=1)
    assert run("add", tmp_path / "c", CSV, "--date", "soon", code=2).stderr.startswith("error: date soon: not a date")


def test_list_shows_the_selected_runs(root: Path) -> None:
    assert [e["run"] for e in listed(root)] == ["r1", "r2"]
    assert [e["run"] for e in listed(root, "--tag", "n=2")] == ["r2"]
    assert [e["run"] for e in listed(root, "--since", "2026-01-02")] == ["r2"]
    assert [e["run"] for e in listed(root, "--until", "2026-01-01")] == ["r1"]
    text = run("list", root).stdout
    assert "2 runs" in text
    assert "n=1" in text
    assert "r1" in run("list", root, "--format", "csv").stdout
    run("list", root, "--format", "html", code=2)
    assert "no such archive" in run("list", root / "missing", code=1).stderr


def test_list_names_damaged_files_and_shows_the_rest(root: Path) -> None:
    Path(str(listed(root)[0]["path"])).write_bytes(b"x")
    done = run("list", root, code=1)
    assert "r2" in done.stdout
    assert "not a readable Parquet file" in done.stderr


def test_show_prints_everything(root: Path) -> None:
    (entry, _) = listed(root)
    done = run("show", root, str(entry["id"])[:6])
    sources = entry["sources"]
    assert isinstance(sources, list)
    for text in ("r1", "2026-01-01", "n=1", "137", stored_name(str(CSV)), sources[0]["sha256"], "Tesla P100"):
        assert text in done.stdout
    assert "records read = " in done.stderr
    assert json.loads(run("show", root, entry["id"], "--format", "json").stdout) == entry
    run("show", root, "ffff", code=1)
    run("show", root, entry["id"], "--format", "csv", code=2)


def test_verify_ends_with_1_when_something_is_wrong(root: Path) -> None:
    assert "2 files are undamaged: 175 events" in run("verify", root).stdout
    (root / "events" / "x").write_text("foreign")
    done = run("verify", root, code=1)
    assert "x: foreign-file: " in done.stdout
    assert "1 problem" in done.stdout
    found = json.loads(run("verify", root, "--format", "json", code=1).stdout)
    assert [p["code"] for p in found["problems"]] == ["foreign-file"]


def test_prune_prints_what_it_would_remove_and_then_removes_it(root: Path) -> None:
    dry = run("prune", root, "--older-than", "1d", "--keep", "n=2", "--dry-run")
    assert dry.stdout.count("would remove") == 1
    assert "r1" in dry.stdout
    assert len(listed(root)) == 2
    done = run("prune", root, "--older-than", "1d", "--keep", "n=2")
    assert done.stdout == dry.stdout.replace("would remove", "removed")
    assert [e["run"] for e in listed(root)] == ["r2"]
    assert "1 run," in run("prune", root, "--max-size", "1KiB", "--dry-run").stderr


@pytest.mark.parametrize(("age", "days"), [("10d", 10), ("2w", 14), ("1y", 365)])
def test_the_age_of_prune_is_in_days_weeks_or_years(age: str, days: int, tmp_path: Path) -> None:
    today = datetime.now(UTC).date()
    for number, old in enumerate((days, days + 2)):
        run("add", tmp_path, CSV, "--run", f"r{number}", "--date", (today - timedelta(days=old)).isoformat())
    done = run("prune", tmp_path, "--older-than", age, "--dry-run")
    assert [line.split()[4] for line in done.stdout.splitlines()] == ["r1:"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no criterion"),
        (["--older-than", "a while"], "not an age"),
        (["--older-than", "90"], "not an age"),
        (["--older-than", "99999y"], "not an age"),
        (["--max-size", "big"], "not a size"),
        (["--max-size", "-1"], "not a size"),
    ],
)
def test_prune_refuses_an_unclear_request(words: list[str], said: str, root: Path) -> None:
    assert said in run("prune", root, *words, code=2).stderr
    assert len(listed(root)) == 2


@pytest.mark.parametrize(
    ("text", "size"),
    [("10", 10), ("1.5k", 1500), ("10GiB", 10 << 30), ("2MB", 2_000_000), ("1 TiB", 1 << 40), ("3gb", 3_000_000_000)],
)
def test_sizes_are_powers_of_1000_or_of_1024_as_written(
    text: str, size: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    prune = archive.prune
    monkeypatch.setattr(archive, "prune", lambda *a, **k: asked.append(k["max_bytes"]) or prune(*a, **k))
    run("prune", root, "--max-size", text, "--dry-run")
    assert asked == [size]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv", "json.gz"])
def test_export_equals_a_conversion_of_the_source(suffix: str, root: Path, tmp_path: Path) -> None:
    entry = listed(root)[0]
    run("export", root, entry["id"], "-o", tmp_path / f"x.{suffix}")
    run_command("convert", CSV, "-o", tmp_path / f"y.{suffix}")
    exported, converted = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in "xy")
    if suffix.endswith(".gz"):
        exported, converted = gzip.decompress(exported), gzip.decompress(converted)
    if "json" in suffix:  # these targets ask for no fingerprint; the archive knows it
        assert b'"sha256":null' in converted
        converted = converted.replace(
            b'"sha256":null', b'"sha256":"%s"' % hashlib.sha256(CSV.read_bytes()).hexdigest().encode()
        )
    assert exported == converted
    run("export", root, entry["id"], "-o", tmp_path / f"x.{suffix}", code=1)
    run("export", root, entry["id"], "-o", tmp_path / "x.unknown", code=2)


def test_the_whole_archive_is_an_input(root: Path) -> None:
    done = run_command("inspect", root, "--format", "json")
    assert [entry["events"] for entry in json.loads(done.stdout)["inputs"]] == [137, 38]


def test_list_and_prune_report_missing_runs_and_sizes_not_reached(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert "has no archived run" in run("list", tmp_path / "other").stderr
    root = tmp_path / "a"
    run("add", root, CSV, "--tag", "base")
    assert "has no archived run" not in run("list", root, "--tag", "none").stderr
    assert "more than --max-size 1KiB" in run("prune", root, "--max-size", "1KiB", "--keep", "base").stderr
    assert "more than" not in run("prune", root, "--max-size", "1KiB").stderr


def test_a_problem_is_one_line_whatever_the_name_of_its_file(root: Path) -> None:
    (root / "a\n9 files are undamaged").write_text("x")
    assert len(run("verify", root, code=1).stdout.splitlines()) == 2

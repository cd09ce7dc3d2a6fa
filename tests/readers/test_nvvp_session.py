"""Sessions of the Visual Profiler lead to the databases beside them; alone they say what to give."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from support import run_command, sample
from typer.testing import Result

import tracekit
from tracekit.errors import InputError, TracekitError, UnknownFormatError
from tracekit.inputs.sessions import session_of

DATABASE = sample("nvprof-sqlite/version-8.nvvp")
OTHER = sample("nvprof-sqlite/version-11-markers.nvprof")


def session(folder: Path, *values: str) -> Path:
    lines = "".join(f'  <import kind="nvprof" path="{value}"/>\n' for value in values)
    path = folder / "work.nvvp"
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<session version="2">\n  <executable path="a.out"/>\n'
    path.write_text(f"{head}{lines}</session>\n", "utf-8")
    return path


def inspected(*paths: Path) -> list[dict[str, Any]]:
    result: Result = run_command("inspect", *paths, "--format", "json")
    found: list[dict[str, Any]] = orjson.loads(result.stdout)["inputs"]
    return found


@pytest.mark.parametrize(
    "written",
    ["run.nvvp", "/runs/run.nvvp", "D:\\runs\\run.nvvp", "file:/runs/run.nvvp", "./run.nvvp"],
)
def test_a_session_reads_the_database_beside_it(written: str, tmp_path: Path) -> None:
    shutil.copy(DATABASE, tmp_path / "run.nvvp")
    trace = tracekit.read(session(tmp_path, written))
    alone = tracekit.read(DATABASE)
    assert trace.events.equals(alone.events)
    assert trace.run.sources[0].facts["session"].endswith("work.nvvp")
    assert Path(trace.run.sources[0].path).name == "run.nvvp"


def test_a_session_of_two_databases_is_two_inputs(tmp_path: Path) -> None:
    shutil.copy(DATABASE, tmp_path / "a b.nvvp")
    shutil.copy(OTHER, tmp_path / "second &.nvprof")
    path = session(tmp_path, "a b.nvvp", "second &amp;.nvprof", "second &amp;.nvprof")
    assert [each["format"] for each in inspected(path)] == ["nvprof-sqlite", "nvprof-sqlite"]
    assert {Path(each["path"]).name for each in inspected(path)} == {"a b.nvvp", "second &.nvprof"}


def test_a_text_of_an_element_names_a_database_too(tmp_path: Path) -> None:
    shutil.copy(DATABASE, tmp_path / "run.nvvp")
    path = tmp_path / "x"
    path.write_text("<?xml version='1.0'?>\n<session version='1'><file>\n  /data/run.nvvp\n</file></session>")
    assert tracekit.read(path).events.num_rows == tracekit.read(DATABASE).events.num_rows


def test_a_database_that_is_not_there_is_noted(tmp_path: Path) -> None:
    shutil.copy(DATABASE, tmp_path / "run.nvvp")
    trace = tracekit.read(session(tmp_path, "run.nvvp", "gone.nvprof"))
    note = trace.ledgers[0].notes["session-names-more"]
    assert "gone.nvprof" in str(note)


def test_a_session_alone_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownFormatError, match="Visual Profiler session in XML: settings without a timeline"
    ) as caught:
        tracekit.read(session(tmp_path, "/runs/run.nvprof"))
    assert caught.value.hint == "it names run.nvprof: put that beside it, or give it instead of the session"
    with pytest.raises(UnknownFormatError) as caught:
        tracekit.read(session(tmp_path))
    assert "give the database that it was made from" in caught.value.hint


def test_files_that_are_no_profiles_and_files_elsewhere_are_not_opened(tmp_path: Path) -> None:
    """A session is data of strangers: it must not lead out of its own folder."""
    inner = tmp_path / "inner"
    inner.mkdir()
    shutil.copy(DATABASE, tmp_path / "run.nvvp")
    (inner / "a.out").write_bytes(b"\x7fELF")
    for value in ("../run.nvvp", str(tmp_path / "run.nvvp"), "a.out", "..", "/", "&#0;", "x" * 5000):
        with pytest.raises(UnknownFormatError):
            tracekit.read(session(inner, value))


def test_a_session_that_names_itself_ends(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError):
        tracekit.read(session(tmp_path, "work.nvvp"))


def test_a_folder_with_a_session_and_its_database_has_the_database_once(tmp_path: Path) -> None:
    shutil.copy(DATABASE, tmp_path / "run.nvvp")
    session(tmp_path, "run.nvvp")
    assert [Path(each["path"]).name for each in inspected(tmp_path)] == ["run.nvvp"]


@pytest.mark.parametrize("data", [b"", b"<?xml", b'<?xml version="1.0"?><html/>', b"PK", bytes(range(256))])
def test_other_files_are_no_sessions(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    assert session_of(tmp_path / "x") is None
    assert session_of(tmp_path / "missing") is None
    assert session_of(tmp_path) is None
    with pytest.raises((UnknownFormatError, InputError, TracekitError)):
        tracekit.read(tmp_path / "x")


def test_a_batch_counts_the_database_and_not_the_session(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    shutil.copy(DATABASE, run / "run.nvvp")
    session(run, "run.nvvp")
    result = run_command("batch", tmp_path / "runs", "-o", tmp_path / "out", "--jobs", "1")
    assert result.exit_code == 0, result.output
    alone = tmp_path / "runs" / "two"
    alone.mkdir()
    session(alone, "gone.nvprof")
    result = run_command("batch", tmp_path / "runs", "-o", tmp_path / "out", "--jobs", "1", code=None)
    assert result.exit_code == 3
    assert "settings without a timeline" in result.stderr


def test_blanks_of_a_session_cost_no_time(tmp_path: Path) -> None:
    # 20 s for 4,000 of them; twice as many took eight times as long.
    path = session(tmp_path, "run.nvprof")
    path.write_text(path.read_text("utf-8").replace("</session>", f">{' ' * 200_000}></session>"), "utf-8")
    found = session_of(path)
    assert found is not None
    assert found.missing == ("run.nvprof",)

"""What the README and the guides show is what happens; every format, view and command is named."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, sample

from tracekit.cli.demo import SAMPLES as FILES

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "docs/views.md", "docs/compat.md")


def blocks(language: str, page: str = "README.md") -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def sessions() -> list[list[tuple[str, str]]]:
    """For each console block its commands, each with what the page shows below it."""
    found = []
    for block in (block for page in PAGES for block in blocks("console", page)):
        parts = (part.partition("\n") for part in re.split(r"^\$ ", block, flags=re.M)[1:])
        found.append([(command, shown) for command, _, shown in parts])
    return found


def lay_out(folder: Path) -> None:
    """Put the files of the pages into a folder."""
    for name, source in FILES.items():
        shutil.copy(sample(source), folder / name)
    for run, names in {"monday": ["run.csv"], "tuesday": ["rank0.jsonl", "rank1.jsonl"]}.items():
        (folder / "runs" / run).mkdir(parents=True)
        for name in names:
            shutil.copy(folder / name, folder / "runs" / run / name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def matches(shown: str, got: str) -> bool:
    """A line `...` in the README stands for any lines; sizes of files depend on the versions of libraries."""
    shown, got = (re.sub(r"the page: .*", "the page", re.sub(r"[0-9,]+ bytes", "N bytes", x)) for x in (shown, got))
    pattern = "".join(".*" if line.strip() == "..." else re.escape(line) + "\n" for line in shown.splitlines())
    return re.fullmatch(pattern, got, re.S) is not None


@pytest.mark.parametrize("session", sessions(), ids=lambda session: session[0][0])
def test_the_commands_of_the_pages_print_what_they_show(session: list[tuple[str, str]], folder: Path) -> None:
    program = Path(sys.executable).parent / "tracekit"
    env = {**os.environ, "COLUMNS": "100"}
    for command, shown in session:
        line = command.replace("tracekit ", f"{program} ", 1)
        done = subprocess.run(
            ["bash", "-c", f"{{ {line}; }} 2>&1"],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert matches(shown, done.stdout), f"the page shows\n{shown}\nbut it is\n{done.stdout}"


@pytest.mark.parametrize("code", blocks("python"))
def test_python_of_the_readme_prints_what_its_comments_say(code: str, folder: Path) -> None:
    """A comment `# -> text` below a print is what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    said = "".join(line[5:].strip() + "\n" for line in code.splitlines() if line.startswith("# -> "))
    assert [x.split() for x in out.getvalue().splitlines()] == [x.split() for x in said.splitlines()]


def test_every_format_view_target_and_command_is_named() -> None:
    from tracekit.cli import app
    from tracekit.pipeline import TABLE_VIEWS
    from tracekit.readers import READERS
    from tracekit.writers import WRITERS

    commands = [c.callback.__name__ for c in app.registered_commands if c.callback]
    commands += [group.typer_instance.info.name for group in app.registered_groups if group.typer_instance]
    for name in [*READERS, *WRITERS, *TABLE_VIEWS]:
        assert f"`{name}`" in README, name
    for name in commands:
        assert f"tracekit {name}" in README, name


def test_what_the_readme_links_to_is_there() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?://|#)([^)]+)\)", text):
            assert ((ROOT / page).parent / target).exists(), target


def test_the_log_format_is_documented() -> None:
    from tracekit.recorder import log_format

    assert log_format.__doc__
    assert "log_format.py" in README

"""The pages show what happens: commands, Python and links are tried, and the site builds without a warning."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import PACKAGE, ROOT, missing, sample
from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.cli.demo import SAMPLES

PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("[!.]*.md")))]
NOT_RUN = {"docs/archive.md", "docs/recorder.md"}
"""Pages whose code has tests of its own."""


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[str, str]]:
    """Return (page, text) of each block of code in a language."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.M | re.S)
    return [(page, text) for page in PAGES if page not in NOT_RUN for text in pattern.findall(read(page))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the samples under the names of the pages: what `tracekit demo` leaves."""
    for name, source in SAMPLES.items():
        shutil.copy(sample(source), tmp_path / name)
    shutil.copy(sample("ncu/raw.csv"), tmp_path / "kernels.csv")
    for run, names in {"monday": ["run.csv"], "tuesday": ["rank0.jsonl", "rank1.jsonl"]}.items():
        (tmp_path / "runs" / run).mkdir(parents=True)
        for name in names:
            shutil.copy(tmp_path / name, tmp_path / "runs" / run / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(command: str, folder: Path) -> str:
    """Run a command of a page as a shell does, and return what it prints to both streams."""
    program = Path(sys.executable).parent / "tracekit"
    line = re.sub(r"\btracekit (?=[a-z-])", f"{program} ", command, count=1)
    done = subprocess.run(
        ["bash", "-c", f"{{ {line}; }} 2>&1"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def printed_here(command: str) -> tuple[str, ...]:
    """Run a command of a page in this process, and return what it prints, in each order of the two streams.

    The order in which a pipe gets them depends on when stdout is flushed.
    """
    result = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="tracekit")
    assert result.exit_code == 0, result.output
    return result.output, result.stderr + result.stdout, result.stdout + result.stderr


def matches(shown: str, got: str) -> bool:
    """Return whether a page shows it: a line `...` is any lines; folders and sizes of files are not compared."""
    shown, got = (
        re.sub(r"(the (page|report): ).*", r"\1", re.sub(r"[0-9,]+ bytes", "N bytes", x)) for x in (shown, got)
    )
    pattern = "".join("(.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in shown.splitlines())
    return re.fullmatch(pattern, got) is not None


def elided(shown: str, got: str) -> str:
    """Return what is printed now, cut as the page cuts it: as many lines before and behind its one `...` line."""
    lines = shown.splitlines()
    if "..." not in lines:
        return got
    before, behind = lines.index("..."), len(lines) - lines.index("...") - 1
    now = got.splitlines()
    return "\n".join([*now[:before], "...", *now[len(now) - behind :]]) + "\n"


@pytest.mark.parametrize(("page", "block"), blocks("console"), ids=lambda text: text.splitlines()[0][:60])
def test_commands_print_what_the_page_shows(
    page: str, block: str, folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--update-goldens -p no:xdist` writes into the page what is printed now."""
    session = [part.partition("\n")[::2] for part in re.split(r"^\$ ", block, flags=re.M)[1:]]
    if request.config.getoption("--update-goldens"):
        now = "".join(f"$ {command}\n{elided(shown, printed(command, folder))}" for command, shown in session)
        (ROOT / page).write_text(read(page).replace(block, now), encoding="utf-8")
        return
    monkeypatch.setenv("COLUMNS", "100")
    for command, shown in session:
        needs_shell = not command.startswith("tracekit ") or set(command) & set("|<>*?$&;\\\n")
        got = (printed(command, folder),) if needs_shell else printed_here(command)
        assert any(matches(shown, text) for text in got), f"{page} shows\n{shown}\nbut it is\n{got[0]}"


@pytest.mark.parametrize(("page", "code"), blocks("python"), ids=lambda text: text.splitlines()[0][:60])
def test_python_prints_what_its_comments_say(page: str, code: str, folder: Path) -> None:
    """A comment `# -> text` below a print is what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, page, "exec"), {"__name__": "page"})
    said = "".join(line[5:].strip() + "\n" for line in code.splitlines() if line.startswith("# -> "))
    assert [x.split() for x in out.getvalue().splitlines()] == [x.split() for x in said.splitlines()]


def test_the_readme_is_two_screens() -> None:
    assert len(read("README.md").splitlines()) <= 130


def test_every_format_view_target_and_command_is_named() -> None:
    from tracekit.compat import VIEWS as OWN_VIEWS
    from tracekit.formats import READERS
    from tracekit.views import VIEWS
    from tracekit.writers import WRITERS

    commands = [c.callback.__name__ for c in app.registered_commands if c.callback]
    commands += [group.typer_instance.info.name for group in app.registered_groups if group.typer_instance]
    for page, names in {
        "docs/formats.md": READERS,
        "docs/targets.md": WRITERS,
        "docs/views.md": (*VIEWS, *OWN_VIEWS),
        "docs/command_line.md": commands,
    }.items():
        text = read(page)
        assert [name for name in names if f"`{name}`" not in text] == [], page


@pytest.mark.source
@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", read(page)):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.source
def test_paths_that_pages_name_exist() -> None:
    for page in [*PAGES, "sample_traces/README.md", "benchmarks/README.md"]:
        for path in re.findall(r"`((?:tracekit|tests|docs|templates|benchmarks)/[\w./-]*)`", read(page)):
            assert (ROOT / path).exists(), f"{page} names {path}"


def test_the_site_builds_and_asks_no_other_host(tmp_path: Path) -> None:
    """Each command, view, format and target has a page; a broken link or anchor is a warning, and fails the build."""
    from tracekit.formats import READERS
    from tracekit.views import VIEWS

    if importlib.util.find_spec("zensical") is None:
        missing("zensical is not installed (make docs installs it)")
    shutil.copy(ROOT / "zensical.toml", tmp_path)  # its folder is where the site is built
    for folder in (PACKAGE, ROOT / "docs"):
        (tmp_path / folder.name).symlink_to(folder)
    for words in (["docs/generate.py", str(tmp_path / "build" / "docs")], ["-m", "zensical", "build", "--strict"]):
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr

    site = tmp_path / "build" / "site"
    pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    made = tmp_path / "build" / "docs"
    for path in made.rglob("[!.]*.md"):
        page = path.relative_to(made).with_suffix("")
        assert ("index.html" if page.name == "index" else f"{page}/index.html") in pages
    for folder, registry in {"views": VIEWS, "formats": READERS}.items():
        for name, declared in registry.items():
            text = (made / folder / f"{name}.md").read_text(encoding="utf-8")
            specs = (*getattr(declared, "shows", ()), *getattr(declared, "options", ()))
            keys = [getattr(spec, "key", spec[0] if isinstance(spec, tuple) else spec) for spec in specs]
            assert [key for key in keys if f"| `{key}` |" not in text] == [], f"{folder}/{name}"
    outside = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^\"' >]+")
    assert {name: outside.findall(text) for name, text in pages.items() if outside.search(text)} == {}

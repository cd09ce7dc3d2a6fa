"""Write the sources of the documentation site into a folder: the guides, and a page for everything that is declared.

    python docs/generate.py build/docs

`make docs` runs this, then zensical. Each command, view, format and target has a page: from its declaration, from
the docstring of the module that declares it, and from a run on a sample. Nothing that is made here is committed.
"""

from __future__ import annotations

import contextlib
import html
import inspect
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.testing import CliRunner

import tracekit
from tracekit import compat, pipeline
from tracekit.cli import app
from tracekit.formats import READERS
from tracekit.model import schema
from tracekit.plugins import home_of
from tracekit.views import VIEWS
from tracekit.writers import WRITERS

EVERY_VIEW = {name: pipeline.view_named(name) for name in (*VIEWS, *compat.VIEWS)}
ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_traces"
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "sample_traces/README.md": "samples.md",
    "benchmarks/README.md": "benchmarks.md",
    "docs/plugin/README.md": "plugin.md",
}
"""Pages that are not in docs/, and their names on the site."""
NAMING = {
    "index.md": "formats",
    "formats.md": "formats",
    "views.md": "views",
    "targets.md": "targets",
    "command_line.md": "commands",
}
"""Pages whose tables name formats, views and so on: there each name becomes a link to its page."""
EXAMPLES = (
    ("kineto", "gpu.pt.trace.json"),
    ("recorder-log", "rank0.jsonl", "rank1.jsonl"),
    ("nvprof-csv", "gpu-and-api-trace.csv"),
    ("nvprof-csv", "metrics.csv"),
    ("nsys-sqlite", "two-processes.sqlite"),
    ("flight-recorder", "gloo_timeout_rank_0.pkl", "gloo_timeout_rank_1.pkl", "gloo_timeout_rank_2.pkl"),
    ("mxnet", "mxnet-1.9.1.json"),
    ("theano", "theano-1.0.5.txt"),
    ("singa", "verbosity-1.txt"),
    ("fluid-pb", "gpu.prof"),
)
"""Folder and files of the samples that views are shown on: each view on the first one that it has a table for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A format, view or target: its name and title, the module that declares it, and what was declared."""

    name: str
    title: str
    home: ModuleType
    declared: object

    @property
    def head(self) -> str:
        """The heading of its page, with the title and the first paragraph of the docstring without the name."""
        first = " ".join(_doc(self.home).split("\n\n", 1)[0].split())
        named = re.match(
            rf"(?=[\w, -]*\b{re.escape(self.name)}\b)[\w, -]+: (.)", first
        )  # "cuda-kvp, cuda-csv: the log ..."
        first = named[1].upper() + first[named.end() :] if named else first
        return f"# {self.name}\n\n**{prose(self.title)}.** {prose(first)}\n\n"

    @property
    def body(self) -> str:
        """The docstring behind its first paragraph."""
        return prose(inspect.cleandoc("\n" + _doc(self.home)).partition("\n\n")[2])

    @property
    def source(self) -> str:
        """A line with the file that declares it."""
        return f"- Source: `{'/'.join(self.home.__name__.split('.'))}.py`"


def format_entries() -> list[Entry]:
    """Return the entries of READERS; the page of a format is the docstring of the module that reads it."""
    return [Entry(name, each.title, import_module(home_of(each.read)), each) for name, each in READERS.items()]


def target_entries() -> list[Entry]:
    """Return the entries of WRITERS; the page of a target is the docstring of the module that writes it."""
    return [Entry(name, each.title, import_module(home_of(each.write)), each) for name, each in WRITERS.items()]


def entries(registry: Mapping[str, object]) -> list[Entry]:
    """Return the entries of VIEWS in their order."""
    wanted = {id(declared) for declared in registry.values()}
    homes: dict[int, ModuleType] = {}
    for module in [m for name, m in sorted(sys.modules.items()) if name.partition(".")[0].startswith("tracekit")]:
        for value in vars(module).values():
            for declared in value if isinstance(value, tuple) else (value,):
                if id(declared) in wanted and len(module.__doc__ or "") > len(_doc(homes.get(id(declared)))):
                    homes[id(declared)] = module
    return [Entry(name, str(vars_of(x)["title"]), homes[id(x)], x) for name, x in registry.items()]


def _doc(module: ModuleType | None) -> str:
    return (module.__doc__ or "") if module else ""


def vars_of(declared: object) -> dict[str, object]:
    """Return the fields of a declaration; a pair (key, meaning) has these two."""
    if is_dataclass(declared):
        return {field.name: getattr(declared, field.name) for field in fields(declared)}
    return dict(zip(("key", "meaning"), declared, strict=True)) if isinstance(declared, tuple) else {}


# --- Markdown ---------------------------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """Return the text of a docstring as Markdown: its lines indented by 4 are code, and no other sign has a meaning."""
    parts = []
    for block in re.split(r"\n(?:[ ]*\n)+", text.strip("\n")):
        if block.startswith("    "):
            parts.append(f"```text\n{inspect.cleandoc(block)}\n```")
        else:
            parts.append("".join(p if p.startswith("`") else _plain(p) for p in re.split(r"(`[^`]*`)", block)))
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\*", r"\\\g<0>", html.escape(text, quote=False))


def cell(value: object) -> str:
    """Return a value as the text of a table's cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (frozenset, set, tuple, list)):
        return ", ".join(cell(x) for x in (sorted(value, key=str) if isinstance(value, (frozenset, set)) else value))
    value = value.value if isinstance(value, Enum) else value.__name__ if isinstance(value, type) else value
    text = "" if value is None else " ".join(html.escape(str(value), quote=False).split()).replace("|", "\\|")
    return "text" if text == "str" or text.startswith(("dictionary", "string")) else text


def table(rows: Iterable[Mapping[str, object]], heading: str, level: int = 2) -> str:
    """Return rows as a Markdown table, without the columns that are empty in all of them; "" without rows."""
    rows = [
        {key: cell(value) for key, value in row.items() if not callable(value) or isinstance(value, type)}
        for row in rows
    ]
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if any(row.get(name) for row in rows)]
    if not rows:
        return ""
    lines = [" | ".join(name.replace("_", " ").capitalize() for name in names), " | ".join("---" for _ in names)]
    lines += [
        " | ".join(_code(row.get(name, "")) if i == 0 else row.get(name, "") for i, name in enumerate(names))
        for row in rows
    ]
    return f"{'#' * level} {heading}\n\n" + "".join(f"| {line} |\n" for line in lines) + "\n"


def _code(text: str) -> str:
    return text if not text or text.startswith(("[", "`")) else f"`{text}`"


def session(*words: str, folder: Path) -> str:
    """Return a command and what it prints, as a block of code. Raises: RuntimeError where it fails."""
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, list(words), prog_name="tracekit", env={"COLUMNS": "110"})
    if done.exit_code:
        raise RuntimeError(f"tracekit {' '.join(words)}: {done.output}")
    return f"```console\n$ tracekit {' '.join(words)}\n{done.stdout.rstrip()}\n```\n"


# --- Pages of what is declared ----------------------------------------------------------------------------------------


def format_pages() -> Iterator[tuple[str, str]]:
    """Give name and text of a page for each format."""
    variants = _sample_tables()
    for entry in sorted(format_entries(), key=lambda e: e.name):
        given = vars_of(entry.declared)
        gives = "events and totals" if given.get("gives") == "both" else str(given.get("gives", "events"))
        facts = [f"- Option: `--from {entry.name}` (only needed to skip the recognition)", f"- Gives: {gives}"]
        if given["suffixes"]:
            facts.append(
                f"- Usual names: {', '.join(f'`*{s}`' for s in given['suffixes'])} (the content decides, not the name)"
            )
        text = entry.head + "\n".join([*facts, entry.source]) + "\n\n## What is read\n\n"
        text += entry.body + "\n\n"
        text += table((vars_of(x) for x in given.get("options", ())), "Options (`--option KEY=VALUE`)")
        if getattr(given.get("marks"), "in_logs", False):
            text += "This format is also found in longer logs, between other output.\n\n"
        folder = SAMPLES / entry.name
        if entry.name in variants:
            text += (
                f"## Samples\n\n`sample_traces/{entry.name}/` has these variants, and the tests read all of them.\n\n"
            )
            text += variants[entry.name] + "\n## Example\n\n"
            first = next(line.split("|")[1].strip() for line in variants[entry.name].splitlines()[2:] if "|" in line)
            text += session("inspect", first.split(",")[0], folder=folder)
        yield entry.name, text


def _sample_tables() -> dict[str, str]:
    """Return the table of variants of each format, from the page of the samples."""
    text = (SAMPLES / "README.md").read_text(encoding="utf-8")
    parts = re.findall(r"^## ([a-z-]+):.*?\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return {name: "\n".join(x for x in part.splitlines() if x.startswith("|")) + "\n" for name, part in parts}


def view_pages() -> Iterator[tuple[str, str]]:
    """Give name and text of a page for each view."""
    shown_on = _examples()
    for entry in entries(EVERY_VIEW):
        given = vars_of(entry.declared)
        kinds = cell(given.get("kinds", ())) or "any"
        text = f"{entry.head}- Option: `--view {entry.name}`\n- Kinds of events: {kinds}\n{entry.source}\n\n"
        if (ROOT / "docs" / f"{entry.name}.md").exists():
            text += f"The guide [{entry.name}](../{entry.name}.md) has more.\n\n"
        text += entry.body + "\n\n"
        text += table((vars_of(x) for x in given.get("shows", ())), "Columns")
        text += table((vars_of(x) for x in given.get("options", ())), "Options (`--option KEY=VALUE`)")
        if entry.name in shown_on:
            folder, *files = shown_on[entry.name]
            words = ("summary", *files, "--view", entry.name, "--top", "10")
            text += f"## Example\n\n{session(*words, folder=SAMPLES / folder)}"
        yield entry.name, text


def _examples() -> dict[str, tuple[str, ...]]:
    """Return for each view the sample that it is shown on."""
    found: dict[str, tuple[str, ...]] = {}
    for sample in EXAMPLES:
        paths = [str(SAMPLES / sample[0] / name) for name in sample[1:]]
        words = ["summary", *paths, "--view", "all", "--format", "json"]
        made = json.loads(CliRunner().invoke(app, words, prog_name="tracekit").stdout)
        for section in made["sections"]:
            if any(each["rows"] for each in section["tables"]):
                found.setdefault(section["view"], sample)
    return found


def target_pages() -> Iterator[tuple[str, str]]:
    """Give name and text of a page for each target of `convert`."""
    for entry in sorted(target_entries(), key=lambda e: e.name):
        given = vars_of(entry.declared)
        holds = "events and totals" if given.get("holds") == "both" else str(given.get("holds", "events"))
        facts = [f"- Option: `--to {entry.name}`", f"- Holds: {holds}"]
        if given["suffixes"]:
            facts.append(f"- Chosen by the name of the output: {', '.join(f'`*{s}`' for s in given['suffixes'])}")
        text = entry.head + "\n".join([*facts, entry.source]) + f"\n\n{entry.body}\n\n"
        yield entry.name, text + table((vars_of(x) for x in given.get("options", ())), "Options")


def command_pages() -> Iterator[tuple[str, str]]:
    """Give name and text of a page for each command; a group of commands has one page."""
    for name, command in sorted(typer.main.get_command(app).commands.items()):
        yield name, f"# tracekit {name}\n\n" + _command(command, f"tracekit {name}")


def _command(command: TyperCommand | TyperGroup, path: str, level: int = 2) -> str:
    """Return help, usage, example and options of a command, or those of each command of a group."""
    text = f"{html.escape(command.help or '', quote=False)}\n\n"
    if (ROOT / "docs" / f"{command.name}.md").exists():
        text += f"The guide is [{command.name}](../{command.name}.md).\n\n"
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            text += f"{'#' * level} {path} {name}\n\n" + _command(each, f"{path} {name}", level + 1)
        return text
    panels: dict[str, list[dict[str, object]]] = {"Arguments": []}
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        value, default = parameter.metavar or parameter.name.upper(), parameter.default
        if isinstance(parameter, TyperArgument):
            panels["Arguments"].append({"name": value, "meaning": parameter.help})
            continue
        row: dict[str, object] = {"name": ", ".join([*parameter.opts, *parameter.secondary_opts])}
        row |= {"value": "" if parameter.is_flag else value, "meaning": parameter.help}
        row |= {"default": "" if parameter.is_flag or callable(default) or default in ((), []) else default}
        panels.setdefault(parameter.rich_help_panel or "Options", []).append(row)
    text += f"```text\n{' '.join([path, *(str(row['name']) for row in panels['Arguments'])])} [OPTIONS]\n```\n\n"
    if command.epilog:
        text += "Examples:\n\n```sh\n" + command.epilog + "\n```\n\n"
    return text + "".join(table(rows, panel, level) for panel, rows in panels.items())


def data_page() -> str:
    """Return the page of the columns of events and totals, and of the kinds."""
    text = (
        "# Events and totals\n\nEvery format is read into one of two tables of pyarrow, the same for all formats.\n\n"
    )
    for name, heading in (("EVENTS", "Events"), ("TOTALS", "Totals")):
        specs = next(v for k, v in vars(schema).items() if k.strip("_") == name and isinstance(v, tuple))
        text += table(({k: v for k, v in vars_of(spec).items() if k != "since"} for spec in specs), heading)
    return text + "## Kinds\n\n" + ", ".join(f"`{kind.value}`" for kind in schema.Kind) + "\n"


def api_page() -> str:
    """Return the page of the public functions and classes, which mkdocstrings fills."""
    names = [name for name in tracekit.__all__ if not name.startswith("_")]
    return "# Python API\n\nThe guide is [Python](python.md).\n\n" + "".join(
        f"::: tracekit.{f'api.{name}' if inspect.isfunction(getattr(tracekit, name)) else name}\n\n" for name in names
    )


# --- The site ---------------------------------------------------------------------------------------------------------


def relinked(text: str, page: str) -> str:
    """Return a page of the repository with the links that hold on the site; one to a source file becomes its text."""
    names = ELSEWHERE | {f"docs/{p.name}": p.name for p in (ROOT / "docs").glob("*") if p.is_file()}

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        path = os.path.normpath(Path(page).parent / target)
        return f"{label}({names[path]}{anchor})" if path in names else label.lstrip("!")[1:-1]

    return re.sub(r"(!?\[[^\]]*\])\((?!https?:|#)([^)#]+)(#[^)]*)?\)", link, text)


def named(text: str, folder: str, names: Iterable[str]) -> str:
    """Return a page whose tables link the names in their first cells to the pages of that folder."""
    known = set(names)

    def row(match: re.Match[str]) -> str:
        return re.sub(r"`([^`]+)`", lambda m: f"[{m[0]}]({folder}/{m[1]}.md)" if m[1] in known else m[0], match[0])

    return re.sub(r"^\| [^|]*\|", row, text, flags=re.M)


def write_site(out: Path) -> None:
    """Write all pages and the navigation into a folder, which is emptied first."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    generated = {
        "commands": dict(command_pages()),
        "views": dict(view_pages()),
        "formats": dict(format_pages()),
        "targets": dict(target_pages()),
    }
    for folder, pages in generated.items():
        (out / folder).mkdir()
        for name, text in pages.items():
            (out / folder / f"{name}.md").write_text(text, encoding="utf-8")
    (out / "data.md").write_text(data_page(), encoding="utf-8")
    (out / "api.md").write_text(api_page(), encoding="utf-8")
    for path in [*(ROOT / "docs").glob("[!.]*.md"), *(ROOT / page for page in ELSEWHERE if (ROOT / page).exists())]:
        page = path.relative_to(ROOT).as_posix()
        name = ELSEWHERE.get(page, path.name)
        text = relinked(path.read_text(encoding="utf-8"), page)
        if name in NAMING:
            text = named(text, NAMING[name], generated[NAMING[name]])
        (out / name).write_text(text, encoding="utf-8")
    for path in (ROOT / "docs").glob("*.png"):
        shutil.copyfile(path, out / path.name)
    navigation = (ROOT / "docs" / ".nav.md").read_text(encoding="utf-8")
    for folder, pages in generated.items():
        lines = "".join(f"    * [{name}]({folder}/{name}.md)\n" for name in pages)
        navigation = navigation.replace(f"    * {folder}/*.md\n", lines)
    kept = [
        line for line in navigation.splitlines() if "(" not in line or (out / line.split("(")[1].rstrip(")")).exists()
    ]
    (out / ".nav.md").write_text("\n".join(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_site(Path(sys.argv[1]))

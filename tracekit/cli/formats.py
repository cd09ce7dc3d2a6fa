"""tracekit formats: what can be read, written and shown, from the declarations."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import _common
from tracekit.cli._common import OUTPUT, example
from tracekit.cli.process import prepare_libraries
from tracekit.cli.process.terminal import output_width, paged, show
from tracekit.cli.process.verbosity import Verbosity, verbosity
from tracekit.cli.titles import COMPAT_TITLES, VIEW_TITLES
from tracekit.errors import UsageError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import plural
from tracekit.plugins import has_plugins

if TYPE_CHECKING:
    from tracekit.options import OptionSpec
    from tracekit.views.base import View

__all__ = ["formats"]

NAME_ROOM = 20
"""Characters of the column of names."""
MOST_KEYS = 3
"""Keys of options that the short listing names; of more it says how many they are."""
WIDTH, MOST_WIDTH = 80, 100
"""Columns of the listing where stdout is no terminal, and the most on a wide one."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """One format, target, view or compat. facts: what JSON has besides name and title.

    keys: of an entry of the tables of titles, the keys of its options, or their number; else those of `options`.
    """

    name: str
    title: str
    facts: dict[str, object]
    options: tuple[OptionSpec[object], ...] = ()
    columns: tuple[tuple[str, str, str], ...] = field(default=())
    keys: tuple[str, ...] | int = ()

    def few_keys(self) -> str:
        """Return the keys of the options, or how many they are; "" for none."""
        keys = self.keys or tuple(spec.key for spec in self.options)
        many = keys if isinstance(keys, int) else len(keys)
        return ", ".join(keys) if not isinstance(keys, int) and many <= MOST_KEYS else plural(many, "option")

    def has(self, word: str) -> bool:
        """Return whether a word is part of the name, the title, a suffix or the key of an option."""
        suffixes = self.facts.get("suffixes")
        texts = [self.name, self.title, *(suffixes if isinstance(suffixes, list) else ())]
        return any(word.lower() in text.lower() for text in (*texts, *(spec.key for spec in self.options)))

    def to_json(self) -> dict[str, object]:
        """Return the entry for JSON."""
        options = [
            {"key": spec.key, "value": spec.placeholder(), "help": spec.help, "default": spec.default_text()}
            for spec in self.options
        ]
        columns = [{"key": key, "meaning": meaning, "unit": unit} for key, meaning, unit in self.columns]
        return {
            "name": self.name,
            "title": self.title,
            **self.facts,
            **({"columns": columns} if columns else {}),
            "options": options,
        }


@example(
    "tracekit formats", "tracekit formats nsys", "tracekit formats --view kernel", "tracekit formats --format json"
)
def formats(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD...", help="Only what has one of these in its name, title or suffix.", show_default=False
        ),
    ] = None,
    view: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Only this view, with what each column means.",
            autocompletion=_common.views,
            rich_help_panel=OUTPUT,
        ),
    ] = "",
    format_: Annotated[
        str, typer.Option("--format", metavar="FORM", help="Print text or json.", rich_help_panel=OUTPUT)
    ] = "text",
) -> None:
    """List the formats, targets and views, each with its options.

    A WORD or -v lists also suffixes, values of options, and the columns of views, which are the words of --sort.
    """
    if format_ not in ("text", "json"):
        raise UsageError(f"--format {format_}: no such form", hint="one of: text, json")
    whole = bool(words or view) or verbosity() is Verbosity.VERBOSE
    groups = _one_view(view) if view else _groups(titles=not whole and format_ == "text")
    if words:
        every = {part for entries in groups.values() for each in entries for part in (each.name, *each.name.split("-"))}
        groups = {title: [e for e in entries if any(map(e.has, words))] for title, entries in groups.items()}
        if not any(groups.values()):
            from tracekit.options import did_you_mean

            raise UsageError(
                f"{' '.join(words)}: no format, target or view has this word{did_you_mean(words[0], sorted(every))}",
                hint="`tracekit formats` lists all",
            )
    if format_ == "json":
        _print_json(groups)
        return
    with paged():
        _print_text(groups, whole=whole, meanings=bool(view))


def _one_view(name: str) -> dict[str, list[_Listed]]:
    prepare_libraries()
    from tracekit import pipeline

    return {"views": [_view(pipeline.view_named(name))]}


def _groups(*, titles: bool = False) -> dict[str, list[_Listed]]:
    """Return all entries. titles: views and compats have only what the short list shows, unless plugins have some."""
    from tracekit.formats import READERS
    from tracekit.writers import WRITERS

    return {
        "formats": [
            _Listed(
                reader.name,
                reader.title,
                {"produces": _tables(reader.gives), "suffixes": list(reader.suffixes)},
                tuple(reader.options),
            )
            for reader in sorted(READERS.values(), key=lambda each: each.name)
        ],
        "targets": [
            _Listed(writer.name, writer.title, {"holds": _tables(writer.holds), "suffixes": list(writer.suffixes)})
            for writer in sorted(WRITERS.values(), key=lambda each: each.name)
        ],
        **(_titles() if titles and not has_plugins("tracekit.views", "tracekit.compat") else _views_and_compats()),
    }


def _titles() -> dict[str, list[_Listed]]:
    return {
        "views": [_Listed(each.name, each.title, {}, keys=each.options) for each in VIEW_TITLES],
        "compats": [_Listed(each.name, each.title, {}) for each in COMPAT_TITLES],
    }


def _views_and_compats() -> dict[str, list[_Listed]]:
    prepare_libraries()
    from tracekit import pipeline
    from tracekit.views import VIEWS

    upstreams = pipeline.every_compat()
    own_views = (own for compat in upstreams if (own := compat.view(compat.name)) is not None)
    return {
        "views": [_view(each) for each in (*VIEWS.values(), *own_views)],
        "compats": [
            _Listed(compat.name, compat.title, {"views": [each.name for each in compat.views]}) for compat in upstreams
        ],
    }


def _tables(holds: str) -> list[str]:
    return ["events", "totals"] if holds == "both" else [holds]


def _view(view: View) -> _Listed:
    columns = tuple((spec.key, spec.meaning, str(spec.unit)) for spec in view.shows)
    return _Listed(view.name, view.title, {}, tuple(view.options), columns)


_HEADINGS = {
    "formats": "Formats that can be read (--from)",
    "targets": "Targets that can be written (--to)",
    "views": "Views (--view)",
    "compats": "Tables and figures of other profilers (--compat)",
}


def _print_text(groups: dict[str, list[_Listed]], *, whole: bool, meanings: bool) -> None:
    width = min(output_width() or WIDTH, MOST_WIDTH)
    shown = {title: entries for title, entries in groups.items() if entries}
    for number, (title, entries) in enumerate(shown.items()):
        print(f"{chr(10) if number else ''}{_HEADINGS[title]}")
        for entry in entries:
            for line in _lines(title, entry, whole=whole, meanings=meanings):
                print(line if len(line) <= width else _wrapped(line, width))
    if not whole:
        print("\n" + textwrap.fill("`tracekit formats nsys` has more on one: suffixes, options, columns.", width))


def _wrapped(line: str, width: int) -> str:
    indent = " " * (NAME_ROOM + 3)
    return textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True)


def _lines(group: str, entry: _Listed, *, whole: bool, meanings: bool) -> Iterator[str]:
    """Give the lines on an entry. whole: with suffixes, values of options and columns."""

    def row(name: str, text: str) -> str:
        return f"  {name:<{NAME_ROOM}} {text}"

    holds = entry.facts.get("produces")
    tables = f"; {' and '.join(map(str, holds))}" if isinstance(holds, list) and holds != ["events"] else ""
    few = entry.few_keys()
    keys = f" [{few}]" if few and not whole else ""
    suffixes = entry.facts.get("suffixes")
    names = " ".join(map(str, suffixes)) if isinstance(suffixes, list) else ""
    # A target is chosen by its suffix, so it is in the short listing too.
    behind = f" [{names}]" if names and group == "targets" and not whole else ""
    yield row(entry.name, f"{entry.title}{tables}{keys}{behind}")
    if not whole:
        return
    if names:
        yield row("", f"suffixes: {names}")
    if meanings:
        yield from (row(key, f"{meaning} [{unit}]") for key, meaning, unit in entry.columns)
    elif entry.columns:
        yield row("", f"columns: {', '.join(key for key, _, _ in entry.columns)}")
    views = entry.facts.get("views")
    if isinstance(views, list):
        yield row("", f"views: {', '.join(map(str, views))}")
    yield from (row("", text) for text in _option_lines(entry.options))


def _option_lines(options: Iterable[OptionSpec[object]]) -> Iterator[str]:
    for spec in options:
        default = f" Default: {spec.default_text()}." if spec.default_text() else ""
        yield f"--option {spec.key}={spec.placeholder()}: {spec.help}{default}"


def _print_json(groups: dict[str, list[_Listed]]) -> None:
    import orjson

    from tracekit._version import __version__

    made: dict[str, object] = {"tracekit": __version__}
    made |= {title: [each.to_json() for each in entries] for title, entries in groups.items()}
    show(orjson.dumps(made, option=orjson.OPT_INDENT_2).decode() + "\n", pager=False, form="json")

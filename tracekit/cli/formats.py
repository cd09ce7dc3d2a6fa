"""tracekit formats: what can be read, written and shown, from the declarations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import _common
from tracekit.cli._common import example
from tracekit.cli.process.terminal import paged

if TYPE_CHECKING:
    from tracekit.options import OptionSpec
    from tracekit.views.base import View

__all__ = ["formats"]

WIDTH = 20
"""Characters of the column of names."""


@example("tracekit formats", "tracekit formats --view kernel")
def formats(
    view: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="List the columns and options of this view only.", autocompletion=_common.views
        ),
    ] = "",
) -> None:
    """List the formats, targets, views and compats, each with its options; the columns of a view are its sort keys."""
    from tracekit import pipeline

    with paged():
        if view:
            _print_view(pipeline.view_named(view))
        else:
            _print_all()


def _print_all() -> None:
    from tracekit import pipeline
    from tracekit.formats import READERS
    from tracekit.views import VIEWS
    from tracekit.writers import WRITERS

    print("reads (--from)")
    for reader in sorted(READERS.values(), key=lambda r: r.name):
        _print(reader.name, f"{reader.title}; produces {reader.gives.replace('both', 'events and totals')}")
        _print_options(reader.options)
    print("\nwrites (--to)")
    for writer in sorted(WRITERS.values(), key=lambda w: w.name):
        _print(writer.name, f"{writer.title} [{' '.join(writer.suffixes)}]" if writer.suffixes else writer.title)
    print("\nviews (--view), with the columns that --sort takes")
    upstreams = pipeline.every_compat()
    for each in (*VIEWS.values(), *(own for compat in upstreams if (own := compat.view(compat.name)) is not None)):
        _print(each.name, each.title)
        _print_words(dict.fromkeys(spec.key for spec in each.shows))
        _print_options(each.options)
    print("\nfigures and layout of other profilers (--compat)")
    for compat in upstreams:
        _print(compat.name, f"{compat.title}; views: {', '.join(each.name for each in compat.views)}")


def _print(name: str, words: str) -> None:
    print(f"  {name:<{WIDTH}} {words}")


def _print_options(options: Iterable[OptionSpec[object]]) -> None:
    for spec in options:
        default = f" Default: {spec.default_text()}." if spec.default_text() else ""
        _print("", f"--option {spec.key}={spec.placeholder()}: {spec.help}{default}")


def _print_words(words: Iterable[str]) -> None:
    import textwrap

    for line in textwrap.wrap(", ".join(words), 100 - WIDTH):
        _print("", line)


def _print_view(view: View) -> None:
    print(f"{view.name}: {view.title}\n\ncolumns (--sort)")
    for spec in view.shows:
        _print(spec.key, f"{spec.meaning} [{spec.unit}]")
    if view.options:
        print("\noptions")
        _print_options(view.options)

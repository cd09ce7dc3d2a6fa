"""The check of a caller's options against what the shown views declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tracekit import options as specs
from tracekit.errors import Option, UsageError, sentence
from tracekit.options import did_you_mean
from tracekit.views.base import View, ViewOptions
from tracekit.views.tabulate import DEFAULT, SORT_ALIASES

__all__ = ["check_options"]


def check_options(options: ViewOptions, shown: Sequence[View], every: Callable[[], Iterable[View]]) -> None:
    """Refuse a wrong value, an option that no shown view has, and a sort key that no view has at all.

    every: gives all views, the cheap ones first; `--sort` applies to all tables of a summary, so a column of
    another view is no error.
    Raises: UsageError.
    """
    _check_sort(options.sorted_by.removeprefix("-"), shown, every)
    declared = [spec for view in shown for spec in view.options]
    for key in options.values:
        if key not in [spec.key for spec in declared]:
            _refuse_option(key, declared, every)
    specs.parse(options.values, declared)


def _check_sort(key: str, shown: Sequence[View], every: Callable[[], Iterable[View]]) -> None:
    known = {spec.key: None for view in shown for spec in view.shows}
    own = list(known)
    known |= dict.fromkeys((DEFAULT, *SORT_ALIASES))
    if not key or key.lower() in map(str.lower, known):
        return
    for view in every():
        keys = [spec.key for spec in view.shows]
        if key.lower() in keys:
            return
        known |= dict.fromkeys(keys)
    hint = f"one of: {', '.join(own)}" if len(shown) == 1 else "`tracekit formats` lists the columns of each view"
    raise UsageError(
        sentence(Option("sort", key), f": no such column{did_you_mean(key, known)}"), hint=hint, choices=own
    )


def _refuse_option(key: str, declared: Sequence[specs.OptionSpec[object]], every: Callable[[], Iterable[View]]) -> None:
    known = list(declared)
    for view in every():
        if key in [spec.key for spec in view.options]:
            raise UsageError(
                sentence(Option("option", key), f": only the view {view.name} has it"),
                hint=sentence("add ", Option("view", view.name)),
            )
        known += view.options
    raise specs.unknown_option(key, known)

"""Names for shell completion, from the registries; a registry is loaded only while a shell completes."""

from __future__ import annotations

Names = list[tuple[str, str]]
"""Each name, with the words that a shell shows beside it."""


def _beginning(incomplete: str, names: dict[str, str]) -> Names:
    return [(name, words) for name, words in names.items() if name.startswith(incomplete)]


def formats(incomplete: str) -> Names:
    """Return the formats that can be read."""
    from tracekit.formats import READERS

    return _beginning(incomplete, {reader.name: reader.title for reader in READERS.values()})


def targets(incomplete: str) -> Names:
    """Return the targets that can be written."""
    from tracekit.writers import WRITERS

    return _beginning(incomplete, {writer.name: writer.title for writer in WRITERS.values()})


def kinds(incomplete: str) -> Names:
    """Return the kinds of events."""
    from tracekit.schema import KINDS

    return _beginning(incomplete, dict.fromkeys(sorted(KINDS), ""))


def views(incomplete: str) -> Names:
    """Return the views, and `all`."""
    from tracekit import compat
    from tracekit.views import VIEWS

    titles = {view.name: view.title for view in VIEWS.values()}
    return _beginning(incomplete, {**titles, **dict.fromkeys(compat.VIEWS, ""), "all": "every table"})


def compats(incomplete: str) -> Names:
    """Return the profilers whose figures and layout can be printed."""
    from tracekit.compat import names

    return _beginning(incomplete, dict.fromkeys(names(), ""))


def sort_keys(incomplete: str) -> Names:
    """Return the keys of the columns of all views; a leading "-" stays."""
    from tracekit.views import VIEWS

    minus = "-" if incomplete.startswith("-") else ""
    titles = {f"{minus}{spec.key}": spec.meaning for view in VIEWS.values() for spec in view.shows}
    return _beginning(incomplete, titles)


def options(incomplete: str) -> Names:
    """Return the options of the formats and views, as `KEY=`."""
    from tracekit.formats import READERS
    from tracekit.views import VIEWS

    of_formats = (spec for reader in READERS.values() for spec in reader.options)
    specs = (*of_formats, *(spec for view in VIEWS.values() for spec in view.options))
    return _beginning(incomplete, {f"{spec.key}=": spec.help for spec in specs})


def forms(incomplete: str) -> Names:
    """Return the forms of tables."""
    from tracekit.render import RENDERERS

    return _beginning(incomplete, dict.fromkeys((name for name in RENDERERS if name != "html"), ""))

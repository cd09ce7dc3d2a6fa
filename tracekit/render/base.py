"""The contract of a renderer: a Report in, text out. The same Report makes the same bytes: no clock, no locale."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tracekit.errors import UsageError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escape_controls
from tracekit.model.report import Report

__all__ = ["RenderOptions", "Renderer", "first_lines"]


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Options that every renderer takes.

    time_unit: "s", "ms", "us", "ns", in which text shows every digit; with "" the renderer chooses one for each column,
    and text shows four digits. width: columns of the terminal, 0 for no limit. quiet: text does not say what became of
    the records, unless some were dropped; verbose: it says it whole, and shows every digit.
    color: ANSI styles. bars: bars are drawn in text. assets: relative URL of style and scripts that many HTML pages
    share (`render.page.shell.assets` returns the files); "" puts them into the page. page_events, page_mb: the most
    events, and MB of them, that the timeline of a page holds; the rest is counted where it is missing. page_args_mb:
    the most MB of arguments of these events. asked: views that the user names; text has their notes whole.
    """

    time_unit: str = ""
    width: int = 0
    color: bool = False
    bars: bool = False
    assets: str = ""
    page_events: int = 2_000_000
    page_mb: float = 32
    page_args_mb: float = 8
    quiet: bool = False
    verbose: bool = False
    asked: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Raise UsageError for a budget that no page can keep."""
        for name, value, least in (
            ("page_events", self.page_events, 1),
            ("page_mb", self.page_mb, 0.1),
            ("page_args_mb", self.page_args_mb, 0),
        ):
            if not value >= least:
                raise UsageError(f"{name}={value}: at least {least:g} is needed")

    @property
    def exact(self) -> bool:
        """Return whether text shows every digit of a time."""
        return bool(self.time_unit) or self.verbose

    @property
    def page_bytes(self) -> int:
        """Return `page_mb` in bytes."""
        return int(self.page_mb * 1_000_000)

    @property
    def args_bytes(self) -> int:
        """Return `page_args_mb` in bytes."""
        return int(self.page_args_mb * 1_000_000)


@dataclass(frozen=True, slots=True)
class Renderer:
    """One form of a report. An output with one of the `suffixes` gets this form.

    pieces: returns what `render` does piece by piece, for a form whose texts may be large; None for others.
    """

    name: str
    suffixes: tuple[str, ...]
    render: Callable[[Report, RenderOptions], str]
    pieces: Callable[[Report, RenderOptions], Iterator[str]] | None = None


def first_lines(report: Report) -> str:
    """Return the lines above everything else, on inputs that lost too many records; "" for none."""
    return "".join(f"{escape_controls(text)}\n" for text in report.incomplete)

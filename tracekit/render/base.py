"""The contract of a renderer: a Report in, text out. The same Report gives the same bytes: no clock, no locale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracekit.report import Report


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """What a caller may say to every renderer.

    time_unit: "s", "ms", "us", "ns"; "" lets the renderer choose one for each column. width: columns of the terminal,
    0 for no limit. color: ANSI styles. assets: where an HTML page finds style and scripts that many pages share, as a
    relative URL (`render.html.assets` gives the files); "" puts them into the page.
    """

    time_unit: str = ""
    width: int = 0
    color: bool = False
    assets: str = ""


@dataclass(frozen=True, slots=True)
class Renderer:
    """One form of a report. `suffixes` choose it by the name of an output."""

    name: str
    suffixes: tuple[str, ...]
    render: Callable[[Report, RenderOptions], str]

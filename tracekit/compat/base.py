"""The contract of a compat: the tables that another profiler prints, with its figures, its order and its layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from tracekit.render.base import Renderer
    from tracekit.views.base import View

__all__ = ["Compat"]


@dataclass(frozen=True, slots=True)
class Compat:
    """One upstream.

    views: its tables in the order in which it prints them; each has the name of the view whose figures it gives in that
    profiler's way, or is a view of the upstream's own. layout: the text that it prints, of a report of these views.
    """

    name: str
    title: str
    views: tuple[View, ...]
    layout: Renderer

    def view(self, name: str) -> View | None:
        """Return the view of that name, None where the upstream prints no such table."""
        return next((view for view in self.views if view.name == name), None)

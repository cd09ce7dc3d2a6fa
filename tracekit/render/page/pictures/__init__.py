"""Pictures of tables, as SVG in the page: without a script, and for print too.

`Picture` says which cells of which table are drawn; the form says how. Frame, axis and bar are those of `_drawing`, for
all forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracekit.model.picture import Picture
from tracekit.model.report import Report, ReportTable
from tracekit.render.page.pictures._drawing import figure
from tracekit.render.page.pictures.bars import bars
from tracekit.render.page.pictures.icicle import icicle
from tracekit.render.page.pictures.multiples import multiples
from tracekit.render.page.pictures.roofline import roofline
from tracekit.render.page.pictures.stack import stack

__all__ = ["FORMS", "drawn", "has_steps", "tables_of"]

FORMS: dict[str, Callable[[Picture, ReportTable], str]] = {
    "stack": stack,
    "bars": bars,
    "grouped": bars,
    "icicle": icicle,
    "multiples": multiples,
    "roofline": roofline,
}
"""How a picture can be drawn."""
_PLOTS = ("stack", "multiples", "curve", "series", "roofline")


def has_steps(drawing: str) -> bool:
    """Return whether a picture needs the styles of those along steps, and of plots."""
    return any(f'"pic pic-{form}"' in drawing for form in _PLOTS)


def tables_of(report: Report) -> dict[str, ReportTable]:
    """Return the tables of a report by the names that pictures have for them."""
    return {f"{section.view}.{table.name}": table for section in report.sections for table in section.tables}


def drawn(picture: Picture, tables: Mapping[str, ReportTable]) -> str:
    """Return a picture as HTML, "" where no table has what it would show."""
    if not picture.table:
        return figure(picture, (), "")  # its remark is why it is not drawn
    table, form = tables.get(picture.table), FORMS.get(picture.form)
    return form(picture, table) if table is not None and form is not None and len(table) else ""

"""Pictures are tried on tables made by hand: axes, forms, and the rows that are behind the others."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.render.axes import Axis, linear, logarithmic
from tracekit.render.page.pictures import FORMS, drawn, tables_of
from tracekit.render.page.pictures.bars import MOST_ROWS
from tracekit.render.page.pictures.curve import curve
from tracekit.render.page.pictures.multiples import MOST_MULTIPLES
from tracekit.render.page.pictures.series import MOST_BARS_OF_PAGE, series
from tracekit.render.page.pictures.stack import MOST_PLACES
from tracekit.views.pictures import pictured

"""Pictures made of characters, shades of a heat map and the progress bar are tried without a page around them."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.cli import _common as cli_common
from tracekit.render.figures import HEIGHT, MOST_BARS, WIDTH, amount, chart, heat_map, series_lines, shade
from tracekit.views.steps import steps as steps_heat

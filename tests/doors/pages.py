"""Pictures made of characters, shades of a heat map and the progress bar are tried without a page around them."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.cli import _common as cli_common
from tracekit.render._heat import heat_map, shade
from tracekit.render._series import HEIGHT, MOST_BARS, WIDTH, chart, series_lines
from tracekit.views.steps import _heat as steps_heat

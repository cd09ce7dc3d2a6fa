"""The door of this folder."""

from __future__ import annotations

from tracekit.compat.base import Compat
from tracekit.compat.fluid.layout import LAYOUT
from tracekit.compat.fluid.view import VIEW

COMPAT = Compat("fluid", "Paddle fluid profiler", (VIEW,), LAYOUT)

"""The door of this folder."""

from __future__ import annotations

from tracekit.compat.base import Compat
from tracekit.compat.singa.layout import LAYOUT
from tracekit.compat.singa.view import VIEW

COMPAT = Compat("singa", "SINGA time profiling", (VIEW,), LAYOUT)

"""The door of this folder."""

from __future__ import annotations

from tracekit.compat.base import Compat
from tracekit.compat.mxnet.layout import LAYOUT
from tracekit.compat.mxnet.view import VIEW

COMPAT = Compat("mxnet", "MXNet aggregate statistics", (VIEW,), LAYOUT)

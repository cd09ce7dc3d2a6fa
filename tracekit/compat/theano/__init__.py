"""The door of this folder."""

from __future__ import annotations

from tracekit.compat.base import Compat
from tracekit.compat.theano.layout import LAYOUT
from tracekit.compat.theano.view import VIEW

COMPAT = Compat("theano", "Theano profile", (VIEW,), LAYOUT)

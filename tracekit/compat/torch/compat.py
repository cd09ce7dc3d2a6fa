"""The door of this folder."""

from __future__ import annotations

from tracekit.compat.base import Compat
from tracekit.compat.torch.layout import LAYOUT
from tracekit.compat.torch.view import VIEW

COMPAT = Compat("torch", "PyTorch's key_averages().table()", (VIEW,), LAYOUT)

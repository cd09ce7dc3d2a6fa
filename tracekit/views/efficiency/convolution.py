"""convolution: convolutions and their gradients, a row a shape, kernel and device, with the rate reached and the floor.

shape: input * weights. could_save: device time above the floor, at these shapes and in this precision. A bound that
is unknown has its reason.
"""

from __future__ import annotations

from tracekit.analysis.efficiency.formulas import CONVOLUTION
from tracekit.views.efficiency.products import view_of

__all__ = ["VIEW"]

VIEW = view_of("convolution", "Convolutions", (CONVOLUTION,), "convolution")

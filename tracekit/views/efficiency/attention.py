"""attention: attention in one kernel and its gradients, a row a shape, kernel and device, with rate and floor.

shape: batch x heads, queries x keys x the depth of a head. could_save: device time above the floor, at these shapes and
in this precision. A bound that is unknown has its reason.
"""

from __future__ import annotations

from tracekit.analysis.efficiency.formulas import ATTENTION
from tracekit.views.efficiency.products import view_of

__all__ = ["VIEW"]

VIEW = view_of("attention", "Attention", (ATTENTION,), "attention")

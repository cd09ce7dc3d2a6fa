"""gemm: matrix products, grouped ones too, a row a shape, kernel and device, with the rate reached and the floor.

shape: rows x columns x depth, after the batch. could_save: device time above the floor, at these
shapes and in this precision. A bound that is unknown has its reason.
"""

from __future__ import annotations

from tracekit.analysis.efficiency.formulas import GROUPED, PRODUCT
from tracekit.views.efficiency.products import view_of

__all__ = ["VIEW"]

VIEW = view_of("gemm", "Matrix products", (PRODUCT, GROUPED), "matrix product")

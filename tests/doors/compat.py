"""The order and the names of upstream's own code, which its tables rest on, are tried alone."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.compat.fluid.names import FluidRole, numbered, role_of
from tracekit.compat.fluid.tables import descending
from tracekit.compat.paddle import tree as paddle_order
from tracekit.compat.paddle.tree import forest

"""The order and the names of upstream's own code, which its tables rest on, are tried alone."""

# ruff: noqa: F401 - imported for the tests
from __future__ import annotations

from tracekit.compat.fluid._names import Role, numbered, role_of
from tracekit.compat.fluid._std_sort import descending
from tracekit.compat.paddle import _order as paddle_order
from tracekit.compat.paddle._tree import forest

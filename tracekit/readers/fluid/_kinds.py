"""Kinds by name, for the readers of both outputs of fluid.profiler: the profile and the printed report."""

from __future__ import annotations

import re

from tracekit.schema import Kind

_FRAME = re.compile(rb"(?:block_-?\d+|.*Executor.*)")


def host_kind(name: bytes) -> Kind:
    """Return the kind of a range of the host from its name, since neither output has it.

    >>> [str(host_kind(name)) for name in (b"mul", b"mul/compute", b"block_0")]
    ['operator', 'operator_inner', 'user_range_native']
    """
    if b"/" in name:
        return Kind.OPERATOR_INNER
    return Kind.USER_RANGE_NATIVE if _FRAME.fullmatch(name) else Kind.OPERATOR

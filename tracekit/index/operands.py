"""Members of `args` of a trace of PyTorch that describe the operands of a call, decoded together.

A module of its own: msgspec takes as long to import as ten modules of ours, and most small traces have no operands. So
it is imported where some are decoded.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

__all__ = ["Operands", "Shapes", "decoded"]


class Shapes(msgspec.Struct):
    """The shapes of operands; None for a member that is not there."""

    dims: object = msgspec.field(name="Input Dims", default=None)
    types: object = msgspec.field(name="Input type", default=None)
    strides: object = msgspec.field(name="Input Strides", default=None)


class Operands(Shapes):
    """Shapes, and the values of operands that are no tensors."""

    values: object = msgspec.field(name="Concrete Inputs", default=None)


S = TypeVar("S", bound=Shapes)


def decoded(text: str, type: type[S]) -> S:
    """Return the members of a JSON object; one without any for a text that is none."""
    try:
        return msgspec.json.decode(text, type=type)
    except (msgspec.DecodeError, RecursionError):
        return type()

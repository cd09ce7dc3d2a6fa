"""Operands of one call of an operator, as torch's profiler records them: dimensions, datatypes, strides, values.

A tensor without dimensions and an argument that is no tensor both have []; the type tells them apart. A TensorList has
nested dimensions and no datatype, and one of more than 30 tensors has none of both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from tracekit.lazy_dataclass import dataclass

__all__ = ["SCALAR_TYPES", "SIZES", "OperatorCall", "TensorOperand", "broadcast", "is_floating", "promoted"]

SIZES: dict[str, int] = {
    "bool": 1, "unsigned char": 1, "signed char": 1, "char": 1, "short int": 2, "short": 2, "int": 4, "long int": 8,
    "long": 8, "long long": 8, "long long int": 8, "unsigned short": 2, "unsigned int": 4, "unsigned long": 8,
    "c10::Half": 2, "c10::BFloat16": 2, "float": 4, "double": 8, "c10::complex<c10::Half>": 4,
    "c10::complex<float>": 8, "c10::complex<double>": 16, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1, "c10::Float8_e5m2fnuz": 1, "c10::Float8_e8m0fnu": 1, "c10::Float4_e2m1fn_x2": 1,
    "c10::quint8": 1, "c10::qint8": 1, "c10::qint32": 4,
}  # fmt: skip
"""Bytes of an element, by the name that torch's profiler writes. An element of the packed fp4 type is two numbers."""

SCALAR_TYPES: dict[int, str] = {
    0: "unsigned char", 1: "signed char", 2: "short int", 3: "int", 4: "long int", 5: "c10::Half", 6: "float",
    7: "double", 8: "c10::complex<c10::Half>", 9: "c10::complex<float>", 10: "c10::complex<double>", 11: "bool",
    15: "c10::BFloat16", 23: "c10::Float8_e5m2", 24: "c10::Float8_e4m3fn", 25: "c10::Float8_e5m2fnuz",
    26: "c10::Float8_e4m3fnuz", 27: "unsigned short", 28: "unsigned int", 29: "unsigned long",
    44: "c10::Float8_e8m0fnu", 45: "c10::Float4_e2m1fn_x2",
}  # fmt: skip
"""Datatypes by the number that an argument `dtype` has (c10/core/ScalarType.h)."""

_LIST = "TensorList"
_RANKS: dict[str, tuple[int, int]] = {
    "bool": (0, 0), "unsigned char": (1, 1), "signed char": (1, 1), "char": (1, 1), "short int": (1, 2),
    "short": (1, 2), "unsigned short": (1, 2), "int": (1, 3), "unsigned int": (1, 3), "long int": (1, 4),
    "long": (1, 4), "long long": (1, 4), "long long int": (1, 4), "unsigned long": (1, 4), "c10::Half": (2, 2),
    "c10::BFloat16": (2, 2), "float": (2, 3), "double": (2, 4), "c10::complex<c10::Half>": (3, 2),
    "c10::complex<float>": (3, 3), "c10::complex<double>": (3, 4),
}  # fmt: skip
"""The category (bool, integer, float, complex) of a datatype, and its order in that."""


@dataclass(frozen=True, slots=True)
class TensorOperand:
    """A tensor of a call. strides: of each dimension, () where the file has none."""

    dims: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return SIZES[self.dtype]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.dims)

    @property
    def distinct(self) -> int:
        """The number of elements in memory: an expanded dimension has stride 0, and windows may overlap."""
        if len(self.strides) != len(self.dims) or not self.elements:
            return self.elements
        used = math.prod(d for d, stride in zip(self.dims, self.strides, strict=True) if stride)
        reach = 1 + sum((d - 1) * abs(stride) for d, stride in zip(self.dims, self.strides, strict=True))
        return min(used, reach)

    @property
    def bytes(self) -> int:
        """The bytes in memory."""
        return self.distinct * self.size


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One call of an operator. kernel: the name of the kernel that took most of its time, "" where none is known.

    dims, types, strides, values: one entry an argument, as the file has them; values are texts. is_untyped: the file
    has the dimensions alone, and the name of the kernel has to tell the datatype.
    """

    name: str
    dims: Sequence[object] = ()
    types: Sequence[object] = ()
    strides: Sequence[object] = ()
    values: Sequence[object] = ()
    kernel: str = ""
    is_untyped: bool = False

    def tensor(self, place: int | None) -> TensorOperand | None:
        """Return the tensor at a place among the arguments, None for anything else."""
        if place is None or not 0 <= place < len(self.types):
            return None
        dtype = self.types[place]
        if not isinstance(dtype, str) or dtype not in SIZES:
            return None
        dims = _integers(self.dims[place]) if place < len(self.dims) else None
        if dims is None or min(dims, default=0) < 0:
            return None
        strides = _integers(self.strides[place]) if place < len(self.strides) else None
        return TensorOperand(dims, dtype, strides or ())

    def tensors(self) -> list[TensorOperand]:
        """Return all tensors among the arguments, in order."""
        return [found for place in range(len(self.types)) if (found := self.tensor(place)) is not None]

    def lists(self) -> list[list[tuple[int, ...]] | None]:
        """Return the dimensions of each TensorList; None for one that the file does not list."""
        found: list[list[tuple[int, ...]] | None] = []
        for place, dtype in enumerate(self.types):
            if dtype == _LIST:
                dims = self.dims[place] if place < len(self.dims) else []
                listed = [_integers(each) for each in dims] if isinstance(dims, list | tuple) else []
                known = [each for each in listed if each is not None]
                # A list of tensors without dimensions is written like one that is too long.
                found.append(known if known and len(known) == len(listed) else None)
        return found

    def text(self, place: int | None) -> str:
        """Return the value of an argument that is no tensor, "" where the file has none."""
        if place is None or not 0 <= place < len(self.values):
            return ""
        value = self.values[place]
        return value if isinstance(value, str) else ""

    def integers(self, place: int | None) -> tuple[int, ...] | None:
        """Return an argument that is a list of integers, None where the file has none."""
        text = self.text(place)
        if not text.startswith("["):
            return None
        try:
            return _integers(json.loads(text))
        except ValueError:
            return None

    def integer(self, place: int | None) -> int | None:
        """Return an argument that is an integer, None where the file has none."""
        try:
            return int(self.text(place))
        except ValueError:
            return None

    def flag(self, place: int | None) -> bool | None:
        """Return an argument that is True or False, None where the file has none."""
        return {"True": True, "False": False, "true": True, "false": False}.get(self.text(place))

    def flags(self, place: int | None) -> tuple[bool, ...] | None:
        """Return an argument that is a list of True and False, None where the file has none."""
        words = self.text(place).strip("[]").replace(" ", "").split(",")
        known = {"True": True, "False": False, "true": True, "false": False, "1": True, "0": False}
        return tuple(known[word] for word in words) if all(word in known for word in words) else None

    def is_given(self, place: int | None) -> bool:
        """Return whether an optional tensor is there."""
        return self.tensor(place) is not None


def _integers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    integers = [each for each in value if isinstance(each, int) and not isinstance(each, bool)]
    return tuple(integers) if len(integers) == len(value) else None


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shape that tensors of these shapes make together, None where they do not fit.

    >>> broadcast([(4, 1, 3), (5, 1), ()])
    (4, 5, 3)
    """
    out: list[int] = []
    for place in range(1, max((len(shape) for shape in shapes), default=0) + 1):
        sizes = {shape[-place] for shape in shapes if len(shape) >= place} - {1}
        if len(sizes) > 1:
            return None
        out.append(sizes.pop() if sizes else 1)
    return tuple(reversed(out))


def promoted(operands: Sequence[TensorOperand]) -> str:
    """Return the datatype of a result, by torch's rules: a tensor without dimensions only lifts the category.

    >>> promoted([TensorOperand((2,), "c10::Half"), TensorOperand((), "float")])
    'c10::Half'
    """
    known = [each for each in operands if each.dtype in _RANKS]
    if not known:
        return operands[0].dtype if operands else ""
    with_dims = [each for each in known if each.dims]
    highest = max(known, key=lambda each: _RANKS[each.dtype][0])
    if not with_dims or _RANKS[highest.dtype][0] > max(_RANKS[each.dtype][0] for each in with_dims):
        same = [each for each in known if _RANKS[each.dtype][0] == _RANKS[highest.dtype][0]]
        return _widest(same)
    top = max(_RANKS[each.dtype][0] for each in with_dims)
    return _widest([each for each in with_dims if _RANKS[each.dtype][0] == top])


def _widest(operands: Sequence[TensorOperand]) -> str:
    types = {each.dtype for each in operands}
    # Neither half nor bfloat16 holds the other.
    if {"c10::Half", "c10::BFloat16"} <= types:
        types.add("float")
    # unsigned and signed bytes make a short.
    if {"unsigned char", "signed char"} <= types:
        types.add("short int")
    return max(sorted(types), key=lambda name: _RANKS[name][1])


def is_floating(dtype: str) -> bool:
    """Return whether numbers of the datatype have fractions."""
    return _RANKS.get(dtype, (2, 0))[0] >= 2

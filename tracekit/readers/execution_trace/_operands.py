"""Operands of a node of an execution trace, in the form that Kineto has them: both meet in one table of formulas.

    ET:     Tensor(float)   GenericList[Tensor(float),Tensor(float)]   GenericList[Int,Int]   Int      Bool     None
    Kineto: float           TensorList                                 ScalarList             Scalar   Scalar   ""

Held against traces of both kinds of one run (PyTorch 2.13): dimensions, strides and datatypes are the same. Kineto has
no shapes of more than 30 tensors in a list; an execution trace has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

__all__ = ["OperandError", "Record", "dependencies", "integer", "operands", "plain_text", "tensors"]

Record = dict[str, object]
"""An object of a file, whatever it holds."""

MOST_OPERANDS = 1 << 16
"""Operands of a node, those within lists counted too: an optimizer may take all tensors of a model at once."""
MOST_DEPTH = 6
_MOST_TEXT = 1 << 12
_MOST = 1 << 62
_LIST, _TENSOR, _END = "GenericList[", "Tensor(", ")"
_NUMBERS = frozenset({"Int", "SymInt", "Double", "SymFloat", "Bool", "SymBool", "ComplexDouble"})
_NO_TYPE = "nullptr (uninitialized)"


class OperandError(ValueError):
    """Operands that are not those of PyTorch; its text is the field."""


def plain_text(text: str) -> str:
    """Return a text that is UTF-8 and not too long."""
    return text[:_MOST_TEXT].encode("utf-8", "backslashreplace").decode()


def integer(value: object) -> int | None:
    """Return an integer that a column or JSON has room for; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and -_MOST < value < _MOST else None


@lru_cache(maxsize=4096)
def _datatype(text: str) -> str | None:
    """Return the datatype of a tensor, "" for one that is not there, None for what is no tensor."""
    if not text.startswith(_TENSOR) or not text.endswith(_END):
        return None
    found = text[len(_TENSOR) : -len(_END)]
    return "" if found == _NO_TYPE else found


@lru_cache(maxsize=1024)
def _optional_lists(schema: str) -> frozenset[int]:
    """Return the places of arguments that are lists of optional tensors: Kineto has no shapes of these.

    >>> sorted(_optional_lists("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"))
    [1]
    """
    inside = schema.partition("(")[2].partition(") -> ")[0]
    places, depth, place = set[int](), 0, 0
    for at, mark in enumerate(inside):
        depth += (mark in "([") - (mark in ")]")
        place += mark == "," and not depth
        if inside.startswith("Tensor?[", at):
            places.add(place)
    return frozenset(places)


def operands(values: object, shapes: object, types: object, strides: object, schema: str = "") -> Record:
    """Return the members of `args` for these operands, {} for none. Raises: OperandError."""
    if not isinstance(types, list) or not isinstance(shapes, list) or not isinstance(values, list):
        raise OperandError("a list of values, shapes or types")
    if not len(types) == len(shapes) == len(values):
        raise OperandError("as many shapes and values as types")
    if len(types) > MOST_OPERANDS:
        raise OperandError(f"at most {MOST_OPERANDS:,} operands")
    if not types:
        return {}
    steps = strides if isinstance(strides, list) and len(strides) == len(types) else None
    dims: list[object] = []
    kinds: list[str] = []
    concrete: list[str] = []
    moved: list[object] = []
    optional = _optional_lists(schema[:_MOST_TEXT]) if "Tensor?[" in schema else frozenset()
    for place, kind in enumerate(types):
        if not isinstance(kind, str):
            raise OperandError("a text for each type")
        one, value = shapes[place], values[place]
        step = steps[place] if steps is not None else []
        found = _operand(kind, one, value, step)
        if place in optional:
            found = ("", [], [], "")
        kinds.append(found[0])
        dims.append(found[1])
        moved.append(found[2])
        concrete.append(found[3])
    out: Record = {"Input Dims": dims, "Input type": kinds}
    if steps is not None:
        out["Input Strides"] = moved
    return out | {"Concrete Inputs": concrete}


def _operand(kind: str, shape: object, value: object, step: object) -> tuple[str, object, object, str]:
    """Return type, dimensions, strides and value of an operand as Kineto has them. Raises: OperandError."""
    datatype = _datatype(kind)
    if datatype is not None:
        return plain_text(datatype), _sizes(shape), _sizes(step), ""
    if kind.startswith(_LIST):
        inside = kind[len(_LIST) :]
        if _LIST in inside:  # a list of lists: Kineto has no type for it
            return "", [], [], ""
        if _TENSOR in inside:
            if not isinstance(shape, list) or len(shape) > MOST_OPERANDS:
                raise OperandError("a list of shapes for a list of tensors")
            each = [_sizes(one) for one in shape]
            known = isinstance(step, list) and len(step) == len(shape)
            return "TensorList", each, [_sizes(one) for one in step] if isinstance(step, list) and known else [], ""
        return "ScalarList", [], [], _text_of(value)
    if kind in _NUMBERS:
        return "Scalar", [], [], _text_of(value)
    return "", [], [], ""


def _sizes(value: object) -> list[int]:
    """Return dimensions or strides. Raises: OperandError."""
    if not isinstance(value, list) or len(value) > 64:
        raise OperandError("a list of integers for a shape")
    for each in value:
        if type(each) is not int or not -_MOST < each < _MOST:
            raise OperandError("a list of integers for a shape")
    return value


def _text_of(value: object) -> str:
    """Return a number, or a list of them, as Kineto writes it."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        inside = [_text_of(each) for each in value[:MOST_OPERANDS] if not isinstance(each, list)]
        return plain_text(f"[{', '.join(inside)}]")
    if isinstance(value, int | float | str):
        return plain_text(str(value)) if integer(value) is not None or not isinstance(value, int) else ""
    return ""


def tensors(values: object, types: object) -> list[object]:
    """Return the tensors among operands: id, storage, offset, elements of the storage, bytes of each, device.

    A tensor that is not there has no elements, and is left out. Raises: OperandError.
    """
    found: list[object] = []
    if not isinstance(values, list) or not isinstance(types, list) or len(values) != len(types):
        raise OperandError("as many values as types")
    for value, kind in zip(values, types, strict=True):
        if isinstance(kind, str) and _TENSOR in kind:
            _collect(value, found, 0)
    return found


def _collect(value: object, found: list[object], depth: int) -> None:
    """Add the tensors in a value, which may be a list of them."""
    if not isinstance(value, list) or not value:
        return
    if len(value) >= 6 and not isinstance(value[0], list):
        numbers = value[:5]
        for each in numbers:
            if type(each) is not int or not -_MOST < each < _MOST:
                raise OperandError("the numbers of a tensor")
        if not isinstance(value[5], str):
            raise OperandError("the device of a tensor")
        if value[5]:
            found.append([*numbers, plain_text(value[5])])
        return
    if depth >= MOST_DEPTH or len(found) > MOST_OPERANDS:
        raise OperandError("lists that are not deep")
    for each in value:
        _collect(each, found, depth + 1)


def dependencies(value: object) -> list[int]:
    """Return the ids of nodes that a node depends on: one, or a list."""
    several: Sequence[object] = value if isinstance(value, list) else [value]
    return [each for each in map(integer, several[:MOST_OPERANDS]) if each is not None]

"""The least work of an op of XLA: FLOPs of its products and convolutions, bytes that it has to read and write.

A multiply-add is 2 FLOPs. Each distinct operand is read once and each result is written once; of an operand that an op
only slices or gathers from, the part that is taken counts, and of one that it updates in place, the part that changes.
What a library computes for a custom call is known of products and convolutions alone. Collectives have no cost here:
a link limits them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import MappingProxyType

import orjson

from tracekit.lazy_dataclass import dataclass
from tracekit.messages import ProtobufMessage
from tracekit.readers.engine.protobuf import plain

PRODUCT, CONVOLUTION = "matrix product", "convolution"
TYPES = MappingProxyType(
    {
        1: ("pred", 8), 2: ("s8", 8), 3: ("s16", 16), 4: ("s32", 32), 5: ("s64", 64), 6: ("u8", 8), 7: ("u16", 16),
        8: ("u32", 32), 9: ("u64", 64), 10: ("f16", 16), 11: ("f32", 32), 12: ("f64", 64), 15: ("c64", 64),
        16: ("bf16", 16), 18: ("c128", 128), 19: ("f8e5m2", 8), 20: ("f8e4m3fn", 8), 21: ("s4", 4), 22: ("u4", 4),
        23: ("f8e4m3b11fnuz", 8), 24: ("f8e5m2fnuz", 8), 25: ("f8e4m3fnuz", 8), 26: ("s2", 2), 27: ("u2", 2),
        28: ("f8e4m3", 8), 29: ("f8e3m4", 8), 30: ("s1", 1), 31: ("u1", 1), 32: ("f4e2m1fn", 4), 33: ("f8e8m0fnu", 8),
    }
)  # fmt: skip
"""Name and bits of each element type (PrimitiveType of xla_data.proto)."""
_TUPLE, _TOKEN, _OPAQUE = 13, 17, 14
_NO_COST = frozenset(
    {
        "all-gather", "all-reduce", "all-to-all", "async-done", "async-start", "async-update", "call",
        "collective-broadcast", "collective-permute", "conditional", "copy-done", "infeed", "outfeed", "partition-id",
        "ragged-all-to-all", "recv", "recv-done", "reduce-scatter", "send", "send-done", "while",
    }
)  # fmt: skip
_SLICES = frozenset({"slice", "dynamic-slice", "gather"})
_UPDATES = MappingProxyType({"dynamic-update-slice": 1, "scatter": 2})
"""Ops that change a part of their first operand in place: which operand has the new values."""
_VIEWS = frozenset({"bitcast", "get-tuple-element", "opt-barrier"})
_NESTED = frozenset({"fusion", "call"})
_GEMMS = ("__cublas$gemm", "__cublas$lt$matmul", "__triton_gemm", "__onednn$matmul")
_CONVOLUTIONS = ("__cudnn$conv",)
_MOST = 1 << 62
_DEEP = 32
_VISITS_PER_OP = 64
_LEAST_VISITS = 1 << 14
"""Ops looked at in a program: computations that call each other twice and again would take for ever."""


@dataclass(frozen=True, slots=True)
class OpCost:
    """The work of an op; None where unknown. family: "" for an op without FLOPs by definition."""

    family: str = ""
    datatype: str = ""
    shape: str = ""
    flops: int | None = None
    nbytes: int | None = None

    def members(self) -> dict[str, object]:
        """Return what is known, by the names of `args`."""
        found: dict[str, object] = {}
        if self.family:
            found["family"] = self.family
        if self.shape:
            found["shape"] = self.shape
        if self.datatype:
            found["datatype"] = self.datatype
        if self.flops is not None and self.flops < _MOST:
            found["flops"] = self.flops
        if self.nbytes is not None and self.nbytes < _MOST:
            found["bytes"] = self.nbytes
        return found


class OpCosts:
    """The costs of the ops of one program. fused: the ids of computations that others have inside of them."""

    def __init__(self, module: ProtobufMessage) -> None:
        self._computations = {each.id: each for each in module.computations}
        self._ops = {op.id: op for each in module.computations for op in each.instructions}
        self._users: dict[int, list[ProtobufMessage]] = {}
        self._left = _LEAST_VISITS + _VISITS_PER_OP * len(self._ops)
        for op in self._ops.values():
            for number in dict.fromkeys(op.operand_ids):
                self._users.setdefault(number, []).append(op)
        runs = {"while", "conditional", "call", "async-start"}
        called = {
            number for op in self._ops.values() if plain(op.opcode) not in runs for number in op.called_computation_ids
        }
        self.fused = frozenset(called)

    def of(self, op: ProtobufMessage) -> OpCost:
        """Return the cost of an op that a program launches."""
        opcode, target = plain(op.opcode), plain(op.custom_call_target)
        if opcode.removesuffix("-start").removesuffix("-done") in _NO_COST or opcode in _NO_COST:
            return OpCost()
        if opcode == "custom-call" and not target.startswith((*_GEMMS, *_CONVOLUTIONS)):
            return OpCost()
        defined = list(self._defined(op, 0))
        moved = self._read(op) + self._written(op)
        if not defined:
            return OpCost(datatype=self._datatype(op), nbytes=moved)
        if any(each is None for each in defined):
            return OpCost(nbytes=moved)
        known = [each for each in defined if each is not None]
        largest = max(known, key=lambda each: each.flops or 0)
        flops = sum(each.flops or 0 for each in known)
        alike = {each.datatype for each in known}
        datatype = largest.datatype if len(alike) == 1 else ""
        shape = largest.shape + (f" and {len(known) - 1} more" if len(known) > 1 else "")
        return OpCost(largest.family, datatype, shape, flops, moved)

    # Products and convolutions.

    def _defined(self, op: ProtobufMessage, depth: int) -> Iterator[OpCost | None]:
        """Yield the products and convolutions of an op, also those in it; None for one of unknown sizes."""
        self._visit()
        opcode, target = plain(op.opcode), plain(op.custom_call_target)
        if opcode == "dot":
            yield self._product(op, list(op.dot.lhs_contracting), list(op.dot.lhs_batch))
        elif opcode == "convolution":
            yield self._convolution(op)
        elif opcode == "custom-call" and target.startswith(_GEMMS):
            yield self._library_product(op)
        elif opcode == "custom-call" and target.startswith(_CONVOLUTIONS):
            yield self._library_convolution(op, target)
        elif opcode in _NESTED and depth < _DEEP:
            for number in op.called_computation_ids:
                for inner in self._instructions(number):
                    yield from self._defined(inner, depth + 1)

    def _product(self, op: ProtobufMessage, contracting: list[int], batch: list[int]) -> OpCost | None:
        left, right = self._operand(op, 0), self._operand(op, 1)
        out = next(_leaves(op.shape), None)
        if left is None or right is None or out is None or not _within(left, contracting, batch):
            return None
        depth = math.prod(left.dimensions[place] for place in contracting)
        groups = math.prod(left.dimensions[place] for place in batch)
        kept = set(contracting) | set(batch)
        rows = math.prod(size for place, size in enumerate(left.dimensions) if place not in kept)
        results = math.prod(out.dimensions)
        columns = results // max(rows * groups, 1)
        if rows * groups * columns != results:
            return None
        shape = "x".join(map(str, (*([groups] if batch and groups > 1 else []), rows, columns, depth)))
        return OpCost(PRODUCT, _common(left, right), shape, _operations(left, results * depth))

    def _library_product(self, op: ProtobufMessage) -> OpCost | None:
        config = _config(op, "gemm_backend_config")
        numbers = config.get("dot_dimension_numbers")
        if not isinstance(numbers, dict):
            return None
        contracting, batch = (
            _integers(numbers.get(key, [])) for key in ("lhs_contracting_dimensions", "lhs_batch_dimensions")
        )
        return None if contracting is None or batch is None else self._product(op, contracting, batch)

    def _convolution(self, op: ProtobufMessage) -> OpCost | None:
        image, kernel, out = self._operand(op, 0), self._operand(op, 1), next(_leaves(op.shape), None)
        if image is None or kernel is None or out is None or op.batch_group_count > 1:
            return None
        feature = op.convolution.kernel_output_feature
        if not 0 <= feature < len(kernel.dimensions) or not kernel.dimensions[feature]:
            return None
        places = math.prod(kernel.dimensions) // kernel.dimensions[feature]
        if any(each.base_dilation > 1 for each in op.window.dimensions):
            # Transposed: each element of the image meets each element of the kernel once.
            groups = max(op.feature_group_count, 1)
            inner = op.convolution.kernel_input_feature
            if not 0 <= inner < len(kernel.dimensions) or not kernel.dimensions[inner]:
                return None
            count = math.prod(image.dimensions) * (math.prod(kernel.dimensions) // kernel.dimensions[inner]) // groups
        else:
            count = math.prod(out.dimensions) * places
        return OpCost(CONVOLUTION, _common(image, kernel), _sizes(image, kernel), _operations(image, count))

    def _library_convolution(self, op: ProtobufMessage, target: str) -> OpCost | None:
        first, second, out = self._operand(op, 0), self._operand(op, 1), next(_leaves(op.shape), None)
        if first is None or second is None or out is None:
            return None
        # Backward, the gradient has the place of the result or of an operand, but the same sizes meet.
        if "BackwardFilter" in target:
            result, kernel = second, out
        elif "BackwardInput" in target:
            result, kernel = first, second
        else:
            result, kernel = out, second
        feature = op.convolution.kernel_output_feature
        if not 0 <= feature < len(kernel.dimensions) or not kernel.dimensions[feature]:
            return None
        places = math.prod(kernel.dimensions) // kernel.dimensions[feature]
        shape = _sizes(first, second) + (" backward" if "Backward" in target else "")
        count = math.prod(result.dimensions) * places
        return OpCost(CONVOLUTION, _common(first, second), shape, _operations(first, count))

    # Bytes.

    def _read(self, op: ProtobufMessage) -> int:
        """Return the least bytes that an op reads: of each distinct operand."""
        taken: dict[tuple[int, int], int] = {}
        for number in dict.fromkeys(op.operand_ids):
            operand = self._ops.get(number)
            if operand is None:
                continue
            size = _bytes(operand.shape)
            used = min(size, self._used(number, op, size, 0))
            key = self._origin(operand)
            taken[key] = max(taken.get(key, 0), used)
        return sum(taken.values())

    def _used(self, number: int, user: ProtobufMessage, size: int, depth: int) -> int:
        """Return how much of an operand of this size an op that uses it reads."""
        self._visit()
        opcode = plain(user.opcode)
        places = [place for place, each in enumerate(user.operand_ids) if each == number]
        if opcode in _SLICES and places == [0]:
            return _bytes(user.shape)
        if opcode in _UPDATES and places == [0]:
            return 0
        if depth > 0 and opcode in _VIEWS:
            return self._used_by_all(user, size, depth + 1)
        if opcode in _NESTED and len(user.called_computation_ids) == 1 and depth < _DEEP:
            parameters = [
                each
                for each in self._instructions(user.called_computation_ids[0])
                if plain(each.opcode) == "parameter" and each.parameter_number in places
            ]
            if len(parameters) == len(places):
                return sum(self._used_by_all(each, size, depth + 1) for each in parameters)
        return size

    def _used_by_all(self, op: ProtobufMessage, size: int, depth: int) -> int:
        users = self._users.get(op.id, [])
        if depth >= _DEEP or not users:
            # A result that is handed on as it is: a copy of all of it.
            return size
        total = 0
        for user in users:
            total += self._used(op.id, user, size, depth)
            if total >= size:
                return size
        return total

    def _written(self, op: ProtobufMessage) -> int:
        """Return the least bytes that an op writes."""
        opcode = plain(op.opcode)
        if opcode == "custom-call":
            leaves = list(_leaves(op.shape))
            # The last result of a library's call is its scratch memory.
            last = leaves[-1] if len(leaves) > 1 else None
            if last is not None and last.element_type in (2, 6) and len(last.dimensions) == 1:
                leaves.pop()
            return sum(map(_bytes, leaves))
        if opcode == "copy-start":
            return _bytes(op.shape.tuple_shapes[0]) if op.shape.tuple_shapes else 0
        return self._result(op, 0)

    def _result(self, op: ProtobufMessage, depth: int) -> int:
        self._visit()
        opcode = plain(op.opcode)
        if opcode in _UPDATES and len(op.operand_ids) > _UPDATES[opcode]:
            update = self._ops.get(op.operand_ids[_UPDATES[opcode]])
            return _bytes(op.shape) if update is None else min(_bytes(op.shape), _bytes(update.shape))
        if opcode in _NESTED and len(op.called_computation_ids) == 1 and depth < _DEEP:
            computation = self._computations.get(op.called_computation_ids[0])
            root = self._ops.get(computation.root_id) if computation is not None else None
            if root is not None:
                return min(_bytes(op.shape), self._result(root, depth + 1))
        if depth and opcode == "tuple" and depth < _DEEP:
            parts = [self._ops.get(number) for number in op.operand_ids]
            return sum(self._result(part, depth + 1) for part in parts if part is not None)
        if depth and opcode == "bitcast" and depth < _DEEP and len(op.operand_ids) == 1:
            inner = self._ops.get(op.operand_ids[0])
            if inner is not None and plain(inner.opcode) in _UPDATES:
                return self._result(inner, depth + 1)
        return _bytes(op.shape)

    # Operands.

    def _visit(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ValueError("too many ops in each other")

    def _instructions(self, number: int) -> list[ProtobufMessage]:
        computation = self._computations.get(number)
        return [] if computation is None else list(computation.instructions)

    def _operand(self, op: ProtobufMessage, place: int) -> ProtobufMessage | None:
        """Return the shape of an operand that is an array, None for any other."""
        if place >= len(op.operand_ids) or (operand := self._ops.get(op.operand_ids[place])) is None:
            return None
        return operand.shape if operand.shape.element_type in TYPES else None

    def _origin(self, op: ProtobufMessage) -> tuple[int, int]:
        """Return where the bytes of an operand are: the op that made them, and which of its results."""
        place = -1
        for _ in range(_DEEP):
            if plain(op.opcode) not in _VIEWS or len(op.operand_ids) != 1:
                break
            if plain(op.opcode) == "get-tuple-element":
                if place >= 0:
                    break
                place = op.tuple_index
            if (before := self._ops.get(op.operand_ids[0])) is None:
                break
            op = before
        return op.id, place

    def _datatype(self, op: ProtobufMessage) -> str:
        shapes = [self._operand(op, place) for place in range(len(op.operand_ids))]
        sized = [each for each in (*shapes, *_leaves(op.shape)) if each is not None]
        largest = max(sized, key=_bytes, default=None)
        return TYPES[largest.element_type][0] if largest is not None else ""


def _leaves(shape: ProtobufMessage) -> Iterator[ProtobufMessage]:
    """Yield the arrays of a shape, which may be a tuple of tuples."""
    if shape.element_type == _TUPLE:
        for each in shape.tuple_shapes:
            yield from _leaves(each)
    elif shape.element_type in TYPES:
        yield shape


def _bytes(shape: ProtobufMessage) -> int:
    total = 0
    for leaf in _leaves(shape):
        if min(leaf.dimensions, default=0) < 0:
            raise ValueError("a dimension is negative")
        total += (math.prod(leaf.dimensions) * TYPES[leaf.element_type][1] + 7) // 8
        if total >= _MOST:
            raise OverflowError("no memory is this large")
    return total


def _within(shape: ProtobufMessage, *places: list[int]) -> bool:
    return all(0 <= place < len(shape.dimensions) for each in places for place in each)


def _common(left: ProtobufMessage, right: ProtobufMessage) -> str:
    """Return the datatype of two operands, "" where they differ."""
    return TYPES[left.element_type][0] if left.element_type == right.element_type else ""


def _operations(shape: ProtobufMessage, multiply_adds: int) -> int:
    # Complex numbers take four products of their parts.
    return (8 if TYPES[shape.element_type][0][0] == "c" else 2) * multiply_adds


def _sizes(*shapes: ProtobufMessage) -> str:
    return " * ".join("x".join(map(str, each.dimensions)) for each in shapes)


def _config(op: ProtobufMessage, key: str) -> dict[str, object]:
    """Return the configuration of a library's call: JSON, within a member of this name in newer versions."""
    try:
        found = orjson.loads(op.backend_config)
    except orjson.JSONDecodeError:
        return {}
    if isinstance(found, dict) and isinstance(found.get(key), dict):
        found = found[key]
    return found if isinstance(found, dict) else {}


def _integers(values: object) -> list[int] | None:
    """Return the numbers of a list of JSON, which may be texts."""
    if not isinstance(values, list):
        return None
    texts = [str(value) for value in values]
    return [int(text) for text in texts] if all(text.isdecimal() and len(text) < 4 for text in texts) else None

"""FLOPs and bytes of one call of an operator, from the shapes and datatypes that a profiler recorded.

A multiply-add is 2 FLOPs, and FLOPs are those of the definition. Bytes are each distinct element read once and written
once. Both are the least that a kernel for this call has to do, unless `Work.is_bound` is false. Only matrix products,
convolutions, attention and grouped products have FLOPs by definition: those of other families are a convention, and
never decide what limits a kernel.

Which operator has which formula, and where its arguments are, is data: `operators.tsv`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from tracekit.analysis.efficiency.operands import (
    SCALAR_TYPES,
    SIZES,
    OperatorCall,
    TensorOperand,
    broadcast,
    is_floating,
    promoted,
)
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern

__all__ = [
    "ATTENTION",
    "COMPILED",
    "CONVOLUTION",
    "DEFINED",
    "FAMILIES",
    "GROUPED",
    "LONG_LIST",
    "NO_DATATYPE",
    "NO_EXPERTS",
    "NO_FORMULA",
    "NO_LENGTHS",
    "NO_SHAPES",
    "NO_VALUES",
    "ODD_SHAPES",
    "PRODUCT",
    "Family",
    "Work",
    "datatype_in_kernel",
    "elementwise_result",
    "factors",
    "family_of",
    "has_formula",
    "operator_names",
    "work",
]

ATTENTION, CONVOLUTION, GROUPED, PRODUCT = "attention", "convolution", "grouped product", "matrix product"
COMPILED = "compiled"
FAMILIES = (
    PRODUCT, GROUPED, CONVOLUTION, ATTENTION, "normalization", "softmax", "loss", "elementwise", "reduction", "copy",
    "index", "pooling", "optimizer", "compiled",
)  # fmt: skip
DEFINED = frozenset({PRODUCT, GROUPED, CONVOLUTION, ATTENTION})
"""Families whose FLOPs are those of a definition."""

NO_FORMULA = "no formula for this operator"
NO_SHAPES = "shapes are not recorded"
NO_VALUES = "values of arguments are not recorded"
NO_DATATYPE = "the datatype is not recorded"
LONG_LIST = "the shapes of a list are not recorded"
NO_LENGTHS = "the lengths of sequences are not recorded"
NO_EXPERTS = "the experts that were chosen are not recorded"
NO_INDEX = "the shapes of the indices are not recorded"
ODD_SHAPES = "the shapes do not fit the operator"


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a call. flops, bytes: None where unknown; unknown says why.

    family: one of FAMILIES, "" without a formula. datatype: of the operands, as torch names it. is_bound: both are
    minima; false where rows may be read twice, or groups may be partly filled. shape: a short text for people.
    """

    flops: int | None = None
    bytes: int | None = None
    family: str = ""
    datatype: str = ""
    unknown: str = ""
    is_bound: bool = True
    shape: str = ""

    @property
    def is_known(self) -> bool:
        """Return whether the bytes are known, and the FLOPs where the family has them by definition."""
        return self.bytes is not None and (self.flops is not None or self.family not in DEFINED)


@dataclass(frozen=True, slots=True)
class Family:
    """A line of `operators.tsv`. places: arguments by name; words: options of the formula."""

    kind: str
    places: Mapping[str, int]
    words: Mapping[str, str]
    in_place: bool = False

    def several(self, name: str) -> list[int]:
        """Return the places of an argument that has several: `scales=2,3`."""
        text = self.words.get(name, "")
        if name in self.places:
            return [self.places[name]]
        return [int(each) for each in text.split(",") if each.isdigit()]


_MOST = 1 << 60
"""FLOPs or bytes of a call: no device does more in a year."""
_MOST_QUERIES = 1 << 24
_LONGEST_NAME = 1024

_COMPILED = lazy_pattern(r"triton_(?:poi|red|per|for|split_scan)_")
"""Kernels that TorchInductor writes; those of its templates (triton_tem_) have no formula."""
_FUSED = lazy_pattern(r"triton_[a-z]+_fused_(?P<names>.*?)(?:_\d+)?")

Formula = Callable[[OperatorCall, Family], Work]
_DATA = Path(__file__).with_name("operators.tsv")


@lru_cache(maxsize=1)
def _table() -> dict[str, Family]:
    found: dict[str, Family] = {}
    for line in _DATA.read_text(encoding="utf-8").splitlines():
        if not line or line[0] in "#" or line.startswith("operators\t"):
            continue
        names, kind, arguments = line.split("\t")
        pairs = dict(pair.split("=", 1) for pair in arguments.split())
        places = {key: int(value) for key, value in pairs.items() if value.isdigit()}
        words = {key: value for key, value in pairs.items() if not value.isdigit()}
        for name in names.split():
            # Names with capitals are autograd functions of libraries, which have no namespace.
            whole = name if "::" in name or name[0].isupper() else f"aten::{name}"
            found[whole] = Family(kind, places, words)
    return found


def _family_of(name: str) -> Family | None:
    # Names of any length exist, and no operator has a long one.
    return _cached_family_of(name) if len(name) <= _LONGEST_NAME else None


@lru_cache(maxsize=4096)
def _cached_family_of(name: str) -> Family | None:
    if _COMPILED.match(name):
        return _TRITON
    table = _table()
    found = table.get(name)
    if found is None and name.endswith("_") and not name.endswith("__"):
        plain = table.get(name[:-1])
        found = replace(plain, in_place=True) if plain is not None else None
    return found


def has_formula(name: str) -> bool:
    """Return whether operators of this name have a formula."""
    return _family_of(name) is not None


@lru_cache(maxsize=1)
def operator_names() -> frozenset[str]:
    """Return the names of PyTorch's operators that have a formula, without "aten::"."""
    return frozenset(name.removeprefix("aten::") for name in _table() if name.startswith("aten::"))


def family_of(name: str) -> str:
    """Return the family of operators of this name, one of FAMILIES, "" without a formula."""
    family = _family_of(name)
    return _FAMILY_OF_KIND.get(family.kind, "") if family is not None else ""


def factors(call: OperatorCall) -> list[TensorOperand]:
    """Return the two factors of a matrix product, without what is added, scales and a given result."""
    family = _family_of(call.name)
    places = family.places if family is not None else {}
    return [each for key in ("a", "b", "x", "w") if (each := call.tensor(places.get(key))) is not None]


def work(call: OperatorCall) -> Work:
    """Return FLOPs and bytes of a call, or why they are unknown.

    >>> work(OperatorCall("aten::mm", [[8, 4], [4, 2]], ["float", "float"])).flops
    128
    """
    family = _family_of(call.name)
    if family is None:
        return Work(unknown=NO_FORMULA)
    if call.is_untyped:
        dtype = datatype_in_kernel(call.kernel)
        if not dtype:
            return Work(unknown=NO_DATATYPE, family=_FAMILY_OF_KIND.get(family.kind, ""))
        # What has no dimensions may be a number, or a tensor of one element: neither adds to the work.
        types = [_type_of(sizes, dtype) for sizes in call.dims]
        found = work(replace(call, types=types, is_untyped=False))
        # Operands of elementwise work may have several datatypes, of which a name tells one.
        return replace(found, is_bound=found.is_bound and found.family in DEFINED)
    if not call.types:
        return Work(unknown=NO_SHAPES, family=_FAMILY_OF_KIND.get(family.kind, ""))
    try:
        found = _FORMULAS[family.kind](call, family)
        if found.family in (GROUPED, CONVOLUTION, ATTENTION) and found.flops is not None:
            found = replace(found, flops=_operations(found.datatype, 1) // 2 * found.flops)
    except (ArithmeticError, LookupError, ValueError):
        # A file may state anything: a stride of 0, a dimension too few.
        found = _unknown(ODD_SHAPES)
    if max(found.flops or 0, found.bytes or 0) > _MOST:
        found = _unknown(ODD_SHAPES)
    return found if found.family else replace(found, family=_FAMILY_OF_KIND.get(family.kind, ""))


_IN_KERNELS = (
    ("c10::BFloat16", lazy_pattern(r"bf16|bfloat16|nvjet_(?:sm\d+_)?t[a-z]t(?![a-z])", re.IGNORECASE)),
    ("c10::Half", lazy_pattern(r"fp16|(?<![a-z])f16|half|hgemm|h884|h1688|h16816|nvjet_(?:sm\d+_)?h", re.IGNORECASE)),
    ("double", lazy_pattern(r"dgemm|d884|double", re.IGNORECASE)),
    ("float", lazy_pattern(r"sgemm|f32|(?<![a-z])float|fp32", re.IGNORECASE)),
)
"""Datatypes of operands, and how names of kernels tell them; the first match counts, as sums are often in fp32."""


def datatype_in_kernel(kernel: str) -> str:
    """Return the datatype of the operands that the name of a kernel tells, "" for none.

    >>> datatype_in_kernel("ampere_fp16_s16816gemm_fp16_128x64"), datatype_in_kernel("mine")
    ('c10::Half', '')
    """
    return next((dtype for dtype, pattern in _IN_KERNELS if pattern.search(kernel)), "")


def _type_of(sizes: object, dtype: str) -> str:
    if not isinstance(sizes, list) or not sizes:
        return "Scalar"
    return "TensorList" if isinstance(sizes[0], list) else dtype


def _unknown(why: str) -> Work:
    return Work(unknown=why)


def _bytes(*operands: TensorOperand | None) -> int:
    return sum(each.bytes for each in operands if each is not None)


def _sized(elements: int, dtype: str) -> int:
    return elements * SIZES[dtype]


def _dtype_argument(call: OperatorCall, place: int | None, otherwise: str) -> str:
    """Return the datatype that an argument `dtype` names by its number."""
    number = call.integer(place)
    return SCALAR_TYPES.get(number, otherwise) if number is not None else otherwise


def _times(*shape: int) -> str:
    return "x".join(map(str, shape))


# Matrix products.


def _operations(dtype: str, multiply_adds: int, sums: int = 0) -> int:
    """Return the real operations: a complex multiply-add is 4 products and 4 sums, a complex sum 2.

    >>> _operations("float", 10, 3), _operations("c10::complex<float>", 10, 3)
    (23, 86)
    """
    return 8 * multiply_adds + 2 * sums if "complex" in dtype else 2 * multiply_adds + sums


def _product(call: OperatorCall, family: Family) -> Work:
    places = family.places
    a, b = call.tensor(places["a"]), call.tensor(places["b"])
    if a is None or b is None:
        return _unknown(NO_SHAPES)
    rows = a.dims[:-2] if len(a.dims) > 2 else ()
    if not a.dims or not b.dims:
        return _unknown(ODD_SHAPES)
    m = a.dims[-2] if len(a.dims) > 1 else 1
    k = a.dims[-1]
    n = b.dims[-1] if len(b.dims) > 1 else 1
    if (b.dims[-2] if len(b.dims) > 1 else b.dims[0]) != k:
        return _unknown(ODD_SHAPES)
    batch = math.prod(rows)
    # A byte of the packed fp4 type holds two numbers.
    depth = 2 * k if "Float4" in a.dtype and "x2" in a.dtype else k
    added = call.tensor(places.get("c"))
    # The sum with c is one more operation for each result.
    flops = _operations(a.dtype, batch * m * n * depth, batch * m * n if added is not None else 0)
    out_type = family.words.get("out_type") or promoted([a, b])
    out_type = _dtype_argument(call, places.get("dtype"), out_type)
    if len(call.types) == 6 and not call.is_given(5):
        # A variant names the datatype of the result before both factors; `out=` has six arguments too.
        out_type = _dtype_argument(call, places.get("dtype_of_six"), out_type)
    # In torch, a product that is summed over its batch has one matrix as its result.
    results = 1 if family.words.get("sum") == "batch" else batch
    written = call.tensor(places.get("out"))
    out = _bytes(written) if written is not None else _sized(results * m * n, out_type)
    scales = [call.tensor(place) for place in family.several("scales")]
    total = _bytes(a, b, added, call.tensor(places.get("bias")), *scales) + out
    shape = _times(*([batch] if rows else []), m, n, depth)
    return Work(flops, total, PRODUCT, a.dtype, shape=shape)


def _linear(call: OperatorCall, family: Family) -> Work:
    x, w = call.tensor(family.places["x"]), call.tensor(family.places["w"])
    if x is None or w is None:
        return _unknown(NO_SHAPES)
    if len(w.dims) != 2 or not x.dims or x.dims[-1] != w.dims[1]:
        return _unknown(ODD_SHAPES)
    rows, (n, k) = math.prod(x.dims[:-1]), w.dims
    others = [call.tensor(place) for place in (*family.several("bias"), *family.several("scales"))]
    total = _bytes(x, w, *others) + _sized(rows * n, x.dtype)
    return Work(_operations(x.dtype, rows * n * k), total, PRODUCT, x.dtype, shape=_times(rows, n, k))


def _grouped_product(call: OperatorCall, family: Family) -> Work:
    places = family.places
    a, b, offs = call.tensor(places["a"]), call.tensor(places["b"]), call.tensor(places.get("offs"))
    if a is None or b is None:
        return _unknown(NO_SHAPES)
    groups = offs.elements if offs is not None else 0
    sizes = (len(a.dims), len(b.dims))
    if sizes not in ((2, 3), (2, 2), (3, 3), (3, 2)) or a.dims[-1] != b.dims[-2]:
        return _unknown(ODD_SHAPES)
    m, k, n = a.dims[-2], a.dims[-1], b.dims[-1]
    batch = a.dims[0] if sizes == (3, 3) else 1
    if sizes == (2, 2):
        results = groups * m * n
    elif sizes == (3, 2):
        # The groups share the columns of b, so each group has its own part of them.
        results = m * n
    else:
        results = batch * m * n
    out_type = _dtype_argument(call, places.get("dtype"), a.dtype if SIZES[a.dtype] > 1 else "c10::BFloat16")
    others = [call.tensor(place) for place in (*family.several("scales"), *family.several("bias"))]
    total = _bytes(a, b, offs, *others) + _sized(results, out_type)
    # Offsets may end before the last row, so the rows of all groups are at most those of a.
    return Work(
        2 * batch * m * n * k,
        total,
        GROUPED,
        a.dtype,
        is_bound=offs is None,
        shape=f"{groups or batch} groups of {_times(m, n, k)}",
    )


def _fused_experts(call: OperatorCall, family: Family) -> Work:
    places = family.places
    x, w1, w2, ids = (call.tensor(places[key]) for key in ("x", "w1", "w2", "ids"))
    if x is None or w1 is None or w2 is None or ids is None:
        return _unknown(NO_SHAPES)
    if len(w1.dims) != 3 or len(w2.dims) != 3 or len(ids.dims) != 2:
        return _unknown(ODD_SHAPES)
    pairs = ids.elements
    flops = 2 * pairs * (w1.dims[1] * w1.dims[2] + w2.dims[1] * w2.dims[2])
    shape = f"{pairs} of {_times(*w1.dims)}"
    # Only the weights of experts that were chosen are read, and which those are is not in the file.
    return Work(flops, None, GROUPED, w1.dtype, NO_EXPERTS, False, shape)


# Convolutions.


def _convolution(call: OperatorCall, family: Family) -> Work:
    places = family.places
    x, w, bias = call.tensor(places["x"]), call.tensor(places["w"]), call.tensor(places.get("bias"))
    if x is None or w is None:
        return _unknown(NO_SHAPES)
    # A depthwise operator has no argument `groups`: the channels of its weights say how many there are.
    transposed = family.words.get("form") == "transposed"
    if "transposed" in places:
        said = call.flag(places["transposed"])
        if said is None:
            return _unknown(NO_VALUES)
        transposed = said
    spatial = len(w.dims) - 2
    if spatial < 1 or len(x.dims) not in (spatial + 1, spatial + 2):
        return _unknown(ODD_SHAPES)
    stride, padding = call.integers(places.get("stride")), call.integers(places.get("padding"))
    if stride is None or padding is None:
        return _unknown(NO_VALUES)
    dilation = call.integers(places.get("dilation")) or (1,)
    output_padding = call.integers(places.get("output_padding")) or (0,)
    alone = len(x.dims) == spatial + 1  # an image without a batch
    batch, channels, sizes = (1 if alone else x.dims[0]), x.dims[-spatial - 1], x.dims[-spatial:]
    groups = call.integer(places["groups"]) if "groups" in places else None
    if groups is None:
        groups = 1 if transposed else max(channels // max(w.dims[1], 1), 1)
    s, p, d, extra = (_each(values, spatial) for values in (stride, padding, dilation, output_padding))
    kernel = w.dims[2:]
    if transposed:
        sides = [(sizes[i] - 1) * s[i] - 2 * p[i] + d[i] * (kernel[i] - 1) + extra[i] + 1 for i in range(spatial)]
        out_channels = w.dims[1] * groups
    else:
        sides = [(sizes[i] + 2 * p[i] - d[i] * (kernel[i] - 1) - 1) // s[i] + 1 for i in range(spatial)]
        out_channels = w.dims[0]
    if min(sides, default=0) < 1:
        return _unknown(ODD_SHAPES)
    out = batch * out_channels * math.prod(sides)
    flops = 2 * math.prod(w.dims[1:]) * (x.elements if transposed else out)
    flops += out if bias is not None else 0
    added = call.tensor(places.get("add"))
    flops += out if added is not None else 0
    total = _bytes(x, w, bias, added) + _sized(out, promoted([x, w]))
    shape = f"{_times(*x.dims)} * {_times(*w.dims)}" + (" transposed" if transposed else "")
    shape += f" stride {_times(*s)}" if set(s) != {1} else ""
    shape += f" groups {groups}" if groups > 1 else ""
    # Strides beyond the kernel leave a part of the input out.
    whole = transposed or all(s[i] <= d[i] * (kernel[i] - 1) + 1 for i in range(spatial))
    return Work(flops, total, CONVOLUTION, x.dtype, is_bound=whole, shape=shape)


def _each(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return values if len(values) == count else (values[0] if values else 1,) * count


def _convolution_backward(call: OperatorCall, family: Family) -> Work:
    places = family.places
    gout, x, w = (call.tensor(places[key]) for key in ("gout", "x", "w"))
    if gout is None or x is None or w is None:
        return _unknown(NO_SHAPES)
    mask = call.flags(places["mask"])
    transposed = False if family.words.get("form") == "forward" else call.flag(places.get("transposed"))
    if mask is None or transposed is None:
        return _unknown(NO_VALUES)
    mask = (*mask, False, False, False)[:3]
    if len(w.dims) < 3:
        return _unknown(ODD_SHAPES)
    forward = 2 * math.prod(w.dims[1:]) * (x.elements if transposed else gout.elements)
    flops = (mask[0] + mask[1]) * forward + mask[2] * gout.elements
    # Each gradient is a kernel of its own, which reads what it needs.
    total = (mask[0] + mask[1]) * _bytes(gout, w, x)
    channels = gout.dims[1] if len(gout.dims) > len(w.dims) - 1 else gout.dims[0]
    total += mask[2] * (gout.bytes + _sized(channels, gout.dtype))
    wanted = [word for word, is_wanted in zip(("input", "weight", "bias"), mask, strict=True) if is_wanted]
    shape = f"{_times(*x.dims)} * {_times(*w.dims)} backward of {', '.join(wanted) or 'nothing'}"
    return Work(flops, total, CONVOLUTION, x.dtype, shape=shape)


# Attention.


def _attention(call: OperatorCall, family: Family) -> Work:
    return _of_attention(call, family, backward=False)


def _attention_backward(call: OperatorCall, family: Family) -> Work:
    return _of_attention(call, family, backward=True)


def _of_attention(call: OperatorCall, family: Family, *, backward: bool) -> Work:
    places = family.places
    q, k, v = (call.tensor(places[key]) for key in ("q", "k", "v"))
    if q is None or k is None or v is None:
        return _unknown(NO_SHAPES)
    if call.is_given(places.get("lengths")):
        return _unknown(NO_LENGTHS)
    if not len(q.dims) == len(k.dims) == len(v.dims) == 4:
        return _unknown(ODD_SHAPES)
    head, row = (1, 2) if family.words["layout"] == "heads" else (2, 1)
    batch, heads, queries, keys = q.dims[0], q.dims[head], q.dims[row], k.dims[row]
    if v.dims[row] != keys or k.dims[3] != q.dims[3] or k.dims[0] != batch:
        return _unknown(ODD_SHAPES)
    pairs = _twice_the_pairs(call, family, queries, keys)
    if pairs is None:
        return _unknown(NO_VALUES)
    deep, wide = q.dims[3], v.dims[3]
    results = batch * heads * queries * wide
    if backward:
        # The scores are computed again: three products over the keys' depth, two over the values'.
        flops = batch * heads * pairs * (3 * deep + 2 * wide)
        total = 2 * _bytes(q, k, v) + 2 * _sized(results, q.dtype)
    else:
        flops = batch * heads * pairs * (deep + wide)
        total = _bytes(q, k, v) + _sized(results, q.dtype)
    shape = f"{batch}x{heads} heads, {queries}x{keys}x{deep}" + (f" and {wide}" if wide != deep else "")
    shape += f", {k.dims[head]} key heads" if k.dims[head] != heads else ""
    shape += ", causal" if pairs < 2 * queries * keys else ""
    return Work(flops, total, ATTENTION, q.dtype, shape=shape + (" backward" if backward else ""))


def _twice_the_pairs(call: OperatorCall, family: Family, queries: int, keys: int) -> int | None:
    """Return twice the number of pairs of query and key that the mask keeps, None where the mask is not recorded."""
    places = family.places
    bottom = family.words.get("mask") == "bottom"
    if "mask_type" in places:
        number = call.integer(places["mask_type"])
        if number is None:
            return None
        causal, bottom = number != 0, number == 2
    else:
        said = call.flag(places["causal"])
        if said is None:
            return None
        causal = said
    left, right = (call.integer(place) for place in (family.several("window") or [-1, -1]))
    left, right = (-1 if value is None else value for value in (left, right))
    if causal:
        right = 0
    if left < 0 and right < 0:
        return 2 * queries * keys
    if causal and left < 0 and queries == keys:
        # By convention half of the square; the pairs on the diagonal would add half a row.
        return queries * keys
    if queries > _MOST_QUERIES:
        return None
    # The last query sees the last key where the mask is aligned to the bottom right, else the first the first.
    row = np.arange(queries, dtype=np.int64) + (keys - queries if bottom else 0)
    first = np.maximum(row - left, 0) if left >= 0 else np.zeros_like(row)
    last = np.minimum(row + right, keys - 1) if right >= 0 else np.full_like(row, keys - 1)
    return 2 * int(np.maximum(last - first + 1, 0).sum())


# Work that bandwidth limits.


def _by_elements(
    read: int, written: int, elements: int, dtype: str, family: str, *, ops: int = 1, is_bound: bool = True
) -> Work:
    return Work(ops * elements, read + written, family, dtype, is_bound=is_bound)


def _elementwise(call: OperatorCall, family: Family) -> Work:
    operands = call.tensors()
    if not operands:
        return _unknown(NO_SHAPES)
    shape = broadcast([each.dims for each in operands])
    if shape is None:
        return _unknown(ODD_SHAPES)
    read = _bytes(*_without_out(call, family, operands))
    first = operands[0]
    if family.in_place:
        return _by_elements(read, first.bytes, first.elements, first.dtype, "elementwise")
    elements = math.prod(shape)
    dtype = _elementwise_dtype(call, family, operands)
    written = _sized(elements, dtype) + (elements if family.words.get("second") == "bool" else 0)
    return _by_elements(read, written, elements, first.dtype, "elementwise")


def _elementwise_dtype(call: OperatorCall, family: Family, operands: list[TensorOperand]) -> str:
    inputs = _without_out(call, family, operands)
    if len(operands) > len(inputs):
        return operands[-1].dtype
    result = family.words.get("result", "promote")
    dtype = {"first": inputs[0].dtype, "bool": "bool"}.get(result) or promoted(
        inputs[1:] if result == "promote_after_first" and len(inputs) > 1 else inputs
    )
    if call.name == "aten::abs" and dtype.startswith("c10::complex<"):
        dtype = dtype.removeprefix("c10::complex<").removesuffix(">")
    if not is_floating(dtype) and (result == "float" or (result == "promote" and _is_fraction(call))):
        dtype = "float"
    if result == "float" and call.name.endswith(("::div", "::divide")) and call.text(2) in ("floor", "trunc"):
        dtype = promoted(inputs)
    return dtype


def elementwise_result(call: OperatorCall) -> TensorOperand | None:
    """Return the (first) result of an elementwise operator, None for any other one.

    >>> elementwise_result(OperatorCall("aten::add", [[4, 1], [3]], ["float", "float"])).dims
    (4, 3)
    """
    family = _family_of(call.name)
    if family is None or family.kind != "elementwise":
        return None
    operands = call.tensors()
    shape = broadcast([each.dims for each in operands]) if operands else None
    if shape is None:
        return None
    if family.in_place:
        return operands[0]
    return TensorOperand(shape, _elementwise_dtype(call, family, operands))


def _without_out(call: OperatorCall, family: Family, operands: list[TensorOperand]) -> list[TensorOperand]:
    """Return the operands that are read: the variant `out=` has its result as one tensor more, after all arguments."""
    count = len(operands)
    after_scalar = len(call.types) > 2 and call.types[-2] == "Scalar" and call.is_given(len(call.types) - 1)
    if after_scalar and family.words.get("scalars") != "between":
        count -= 1
    return operands[: min(count, family.places["tensors"])]


def _is_fraction(call: OperatorCall) -> bool:
    """Return whether a number among the operands of integers makes the result floating."""
    if len(call.types) < 2 or call.types[1] != "Scalar":
        return False
    return bool(re.fullmatch(r"-?(?:\d*\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)", call.text(1)))


def _fill(call: OperatorCall, _family: Family) -> Work:
    x = call.tensor(0)
    if x is None:
        return _unknown(NO_SHAPES)
    return _by_elements(0, x.bytes, 0, x.dtype, "elementwise")


def _copy(call: OperatorCall, family: Family) -> Work:
    x = call.tensor(0)
    source = call.tensor(family.places.get("source", 0))
    if x is None or source is None:
        return _unknown(NO_SHAPES)
    if "source" in family.places:
        # copy_ writes all of its first tensor, and reads the other one.
        return _by_elements(source.bytes, x.bytes, 0, x.dtype, "copy")
    dtype = x.dtype
    if family.words.get("integers") == "long" and not is_floating(dtype) and not family.in_place:
        dtype = "long int"
    dtype = _dtype_argument(call, family.places.get("dtype"), dtype)
    indexes = _sized(x.elements, "long int") if family.words.get("second") == "index" else 0
    return _by_elements(x.bytes, _sized(x.elements, dtype) + indexes, 0, x.dtype, "copy")


def _triangle(call: OperatorCall, family: Family) -> Work:
    """The part that becomes zero need not be read; in place, the other part need not be touched."""
    x = call.tensor(0)
    if x is None or len(x.dims) < 2:
        return _unknown(NO_SHAPES if x is None else ODD_SHAPES)
    diagonal = call.integer(family.places["diagonal"])
    if diagonal is None:
        return Work(0, None, "copy", x.dtype, NO_VALUES)
    rows, columns = x.dims[-2:]
    upper = family.words["side"] == "upper"
    # j - i >= d of the upper triangle; the lower one is what is not above its diagonal.
    first = diagonal if upper else diagonal + 1
    whole = min(max(1 - first, 0), rows)
    partial = max(min(rows, columns - first) - whole, 0)
    longest = columns - (whole + first)
    kept = whole * columns + partial * (2 * longest - partial + 1) // 2
    kept = kept if upper else rows * columns - kept
    matrices = x.elements // max(rows * columns, 1)
    read = _sized(kept * matrices, x.dtype)
    return _by_elements(0 if family.in_place else read, x.bytes - (read if family.in_place else 0), 0, x.dtype, "copy")


def _reduction(call: OperatorCall, family: Family) -> Work:
    x = call.tensor(0)
    if x is None:
        return _unknown(NO_SHAPES)
    places = family.places
    dims = call.integers(places.get("dims"))
    if dims is None and "dim" in places and len(call.types) > places["dim"]:
        one = call.integer(places["dim"]) if call.types[places["dim"]] == "Scalar" else None
        dims = (one,) if one is not None else None
    if dims is None and len(call.types) > 1 and not call.values:
        return Work(x.elements, None, "reduction", x.dtype, NO_VALUES)
    other = call.tensor(1)
    if other is not None and family.words.get("second") == "index":  # max(a, b) and min(a, b) are elementwise
        return _elementwise(call, replace(family, places={"tensors": 2}))
    sides = [d for i, d in enumerate(x.dims) if dims and i not in {each % max(len(x.dims), 1) for each in dims}]
    results = math.prod(sides) if dims else 1
    dtype = x.dtype
    if family.words.get("integers") == "long" and not is_floating(dtype):
        dtype = "long int"
    place = places.get("dtype") if dims is not None else places.get("only_dtype", places.get("dtype"))
    dtype = _dtype_argument(call, place, dtype)
    dtype = {"bool": "bool", "index": "long int"}.get(family.words.get("result", ""), dtype)
    written = _sized(results, dtype) * places.get("results", 1)
    if family.words.get("second") == "index" and dims is not None:
        written += _sized(results, "long int")
    return _by_elements(x.bytes, written, x.elements, x.dtype, "reduction")


def _softmax(call: OperatorCall, family: Family) -> Work:
    x = call.tensor(0)
    if x is None:
        return _unknown(NO_SHAPES)
    dtype = "float" if call.flag(family.places["to_float"]) else x.dtype
    return _by_elements(x.bytes, _sized(x.elements, dtype), x.elements, x.dtype, "softmax", ops=5)


def _softmax_backward(call: OperatorCall, _family: Family) -> Work:
    gout, y = call.tensor(0), call.tensor(1)
    if gout is None or y is None:
        return _unknown(NO_SHAPES)
    dtype = _dtype_argument(call, 3, y.dtype)
    return _by_elements(_bytes(gout, y), _sized(y.elements, dtype), y.elements, y.dtype, "softmax", ops=5)


def _norm(call: OperatorCall, family: Family) -> Work:
    x = call.tensor(family.places["x"])
    if x is None:
        return _unknown(NO_SHAPES)
    # Weights, biases and running statistics are vectors of the channels: each tensor beside x is read once.
    # In torch, what follows the numbers is a result that is given.
    end = call.types.index("Scalar") if call.name.startswith("aten::") and "Scalar" in call.types else len(call.types)
    others = _bytes(*(call.tensor(place) for place in range(end))) - x.bytes
    return _by_elements(x.bytes + others, _sized(x.elements, x.dtype), x.elements, x.dtype, "normalization", ops=7)


def _norm_backward(call: OperatorCall, family: Family) -> Work:
    gout, x = call.tensor(family.places["gout"]), call.tensor(family.places["x"])
    if gout is None or x is None:
        return _unknown(NO_SHAPES)
    given = range(family.places.get("mask", len(call.types)))
    others = _bytes(*(call.tensor(place) for place in given)) - _bytes(gout, x)
    mask = call.flags(family.places.get("mask"))
    # The first layer of a model needs no gradient of its input.
    written = _sized(x.elements, x.dtype) if mask is None or mask[0] else 0
    return _by_elements(_bytes(gout, x) + others, written, x.elements, x.dtype, "normalization", ops=8)


def _picked_loss(call: OperatorCall, family: Family) -> Work:
    x, target = call.tensor(family.places["x"]), call.tensor(family.places["target"])
    if x is None or target is None:
        return _unknown(NO_SHAPES)
    # One of the scores of each row is read.
    results = target.elements if call.integer(family.places["reduction"]) == 0 else 1
    return _by_elements(target.bytes + target.elements * x.size, results * x.size, target.elements, x.dtype, "loss")


def _picked_loss_backward(call: OperatorCall, family: Family) -> Work:
    x, target = call.tensor(family.places["x"]), call.tensor(family.places["target"])
    if x is None or target is None:
        return _unknown(NO_SHAPES)
    return _by_elements(target.bytes, _sized(x.elements, x.dtype), target.elements, x.dtype, "loss")


def _lookup(call: OperatorCall, family: Family) -> Work:
    table, index = call.tensor(family.places["table"]), call.tensor(family.places["index"])
    if table is None or index is None or not table.dims:
        return _unknown(NO_SHAPES)
    rows = index.elements * math.prod(table.dims[1:])
    # Rows that are looked up twice may be read once.
    return _by_elements(
        index.bytes + _sized(rows, table.dtype), _sized(rows, table.dtype), 0, table.dtype, "index", is_bound=False
    )


def _lookup_backward(call: OperatorCall, family: Family) -> Work:
    gout, index = call.tensor(family.places["gout"]), call.tensor(family.places["index"])
    count = call.integer(family.places["count"])
    if gout is None or index is None or not gout.dims:
        return _unknown(NO_SHAPES)
    if count is None:
        return _unknown(NO_VALUES)
    written = _sized(count * gout.dims[-1], gout.dtype)
    return _by_elements(_bytes(gout, index), written, gout.elements, gout.dtype, "index")


def _index_select(call: OperatorCall, family: Family) -> Work:
    x, index = call.tensor(family.places["x"]), call.tensor(family.places["index"])
    dim = call.integer(family.places["dim"])
    if x is None or index is None or not x.dims:
        return _unknown(NO_SHAPES)
    if dim is None or not -len(x.dims) <= dim < len(x.dims):
        return _unknown(NO_VALUES)
    moved = _sized(x.elements // max(x.dims[dim], 1) * index.elements, x.dtype)
    return _by_elements(moved + index.bytes, moved, 0, x.dtype, "index", is_bound=False)


def _gather(call: OperatorCall, family: Family) -> Work:
    x, index = call.tensor(family.places["x"]), call.tensor(family.places["index"])
    if x is None or index is None:
        return _unknown(NO_SHAPES)
    moved = _sized(index.elements, x.dtype)
    return _by_elements(moved + index.bytes, moved, 0, x.dtype, "index", is_bound=False)


def _scatter(call: OperatorCall, family: Family) -> Work:
    x, index, source = (call.tensor(family.places[key]) for key in ("x", "index", "src"))
    if x is None or index is None or source is None:
        return _unknown(NO_SHAPES)
    read = _bytes(index, source)
    # The elements that are written are at least read or written once; the whole result where it is a new tensor.
    written = _sized(source.elements, x.dtype) if family.in_place else 2 * x.bytes
    return _by_elements(read, written, source.elements, x.dtype, "index", is_bound=False)


def _indexed(call: OperatorCall, family: Family) -> Work:
    x, sizes, strides = (
        call.tensor(family.places["x"]),
        call.integers(family.places["sizes"]),
        call.integers(family.places["strides"]),
    )
    if x is None:
        return _unknown(NO_SHAPES)
    if not sizes or strides is None or len(sizes) != len(strides):
        return _unknown(NO_INDEX)
    moved = _sized(math.prod(sizes), x.dtype)
    # Each dimension of an index has one number for each of its places at least; indices of several share them.
    chosen = math.prod(size for size, stride in zip(sizes, strides, strict=True) if not stride)
    return _by_elements(moved + 8 * chosen, moved, 0, x.dtype, "index", is_bound=False)


def _index_put(call: OperatorCall, family: Family) -> Work:
    x, values = call.tensor(family.places["x"]), call.tensor(family.places["values"])
    if x is None or values is None:
        return _unknown(NO_SHAPES)
    if not values.dims:
        # One value for all places, and how many there are is not recorded.
        return _unknown(NO_INDEX)
    # A result of its own is a copy of the tensor with the values in it.
    copied = 0 if family.in_place or "impl" in call.name else 2 * x.bytes
    written = _sized(values.elements, x.dtype)
    return _by_elements(values.bytes, written + copied, values.elements, x.dtype, "index", is_bound=False)


_OPAQUE = lazy_pattern(r"OpaqueType<(?P<size>\d{1,2})u?>")
_ELEMENT = lazy_pattern(
    r"(?<![\w:])(?:c10::)?(?P<type>BFloat16|Half|double|float|long|int|bool|unsigned char)(?![\w<])"
)


def _size_in_kernel(name: str) -> int | None:
    """Return the bytes of an element that a kernel's template arguments name."""
    if found := _OPAQUE.search(name):
        return int(found["size"])
    found = _ELEMENT.search(name)
    if found is None:
        return None
    word = found["type"]
    return SIZES.get(word) or SIZES.get(f"c10::{word}")


def _cat(call: OperatorCall, _family: Family) -> Work:
    lists = call.lists()
    if not lists:
        return _unknown(NO_SHAPES)
    tensors = lists[0]
    if tensors is None:
        return _unknown(LONG_LIST)
    elements = sum(map(math.prod, tensors))
    size = _size_in_kernel(call.kernel) if re.search("CatArray|cat", call.kernel) else None
    if size is None:
        return Work(0, None, "copy", "", NO_DATATYPE)
    return Work(0, 2 * elements * size, "copy", "")


def _lists(call: OperatorCall, family: Family) -> Work:
    lists = call.lists()
    if not lists:
        return _unknown(NO_SHAPES)
    reads, copies = family.places.get("reads", len(lists)), family.places.get("written", 1)
    if "momentum" in family.places:
        reads, copies = _of_momentum(call, family, reads, copies)
    # The first list of a copy is written alone, and the last one read.
    mine = lists[-1:] if call.name.startswith("aten::_foreach_copy") else lists[: max(reads, 1)]
    known = [each for each in mine if each is not None]
    if len(known) != len(mine) or not known:
        return _unknown(LONG_LIST)
    sums = [sum(map(math.prod, each)) for each in known]
    moved = (0 if family.words.get("reads") == "no" else sum(sums)) + (
        0 if family.words.get("writes") == "no" else sum(sums[:1]) * copies
    )
    size = _size_in_kernel(call.kernel) if "multi_tensor" in call.kernel or "Optimizer" in call.kernel else None
    flops = sums[0] * family.places.get("ops", 1)
    if size is None:
        return Work(flops, None, "optimizer", "", NO_DATATYPE)
    # Lists of several datatypes are not distinguished.
    return Work(flops, moved * size, "optimizer", "", is_bound=len(set(_ELEMENT.findall(call.kernel))) == 1)


def _of_momentum(call: OperatorCall, family: Family, reads: int, written: int) -> tuple[int, int]:
    """Return the lists that SGD reads and writes: without momentum it has none of it, a first step only writes it."""
    text = call.text(family.places["momentum"])
    try:
        without = float(text) == 0.0
    except ValueError:
        without = False
    if without:
        return reads - 1, written - 1
    return (reads - 1, written) if call.flag(family.places["first"]) else (reads, written)


def _pool(call: OperatorCall, family: Family) -> Work:
    places = family.places
    x = call.tensor(places["x"])
    if x is None:
        return _unknown(NO_SHAPES)
    kernel = call.integers(places["kernel"])
    if not kernel:
        return _unknown(NO_VALUES)
    spatial = len(kernel)
    if len(x.dims) < spatial:
        return _unknown(ODD_SHAPES)
    stride = call.integers(places["stride"]) or kernel
    padding = call.integers(places["padding"]) or (0,)
    dilation = call.integers(places.get("dilation")) or (1,)
    up = bool(call.flag(places.get("ceil")))
    s, p, d = (_each(values, spatial) for values in (stride, padding, dilation))
    sides = []
    for i, size in enumerate(x.dims[-spatial:]):
        room = size + 2 * p[i] - d[i] * (kernel[i] - 1) - 1
        side = -(-room // s[i]) + 1 if up else room // s[i] + 1
        # The last window must begin inside the input or its left padding.
        sides.append(side - 1 if up and (side - 1) * s[i] >= size + p[i] else side)
    results = math.prod(x.dims[:-spatial]) * math.prod(sides)
    written = _sized(results, x.dtype) + (8 * results if family.words.get("second") == "index" else 0)
    # Windows that are far apart leave a part of the input out.
    read = min(x.bytes, _sized(results * math.prod(kernel), x.dtype))
    return _by_elements(read, written, results * math.prod(kernel), x.dtype, "pooling")


_TAPS = (("nearest", 1), ("bilinear", 4), ("trilinear", 8), ("bicubic", 16), ("linear1d", 2))
"""The neighbours that an interpolation reads for each result."""


def _resize(call: OperatorCall, family: Family) -> Work:
    x, size = call.tensor(family.places["x"]), call.integers(family.places["size"])
    if x is None:
        return _unknown(NO_SHAPES)
    if not size or len(x.dims) < len(size):
        return _unknown(NO_VALUES)
    results = math.prod(x.dims[: -len(size)]) * math.prod(size)
    # To shrink reads the neighbours of each result, and these alone; an average over areas reads all.
    taps = next((count for word, count in _TAPS if word in call.name and "_aa" not in call.name), None)
    read = x.bytes if taps is None else min(x.bytes, taps * _sized(results, x.dtype))
    return _by_elements(read, _sized(results, x.dtype), max(results, x.elements), x.dtype, "pooling")


def _pad(call: OperatorCall, family: Family) -> Work:
    x, pad = call.tensor(family.places["x"]), call.integers(family.places["pad"])
    if x is None:
        return _unknown(NO_SHAPES)
    if pad is None or len(pad) % 2 or len(pad) // 2 > len(x.dims):
        return _unknown(NO_VALUES)
    dims = list(x.dims)
    for i in range(len(pad) // 2):
        dims[-1 - i] += pad[2 * i] + pad[2 * i + 1]
    written = _sized(math.prod(max(d, 0) for d in dims), x.dtype)
    return _by_elements(min(x.bytes, written), written, 0, x.dtype, "copy")


def _pool_backward(call: OperatorCall, family: Family) -> Work:
    gout, x = call.tensor(family.places["gout"]), call.tensor(family.places["x"])
    if gout is None or x is None:
        return _unknown(NO_SHAPES)
    index = call.tensors()[-1] if family.words.get("index") == "last" else None
    return _by_elements(_bytes(gout, index), _sized(x.elements, x.dtype), gout.elements, x.dtype, "pooling")


def _stream(call: OperatorCall, family: Family) -> Work:
    reads = [call.tensor(place) for place in family.several("reads")]
    writes = [call.tensor(place) for place in family.several("writes")]
    if None in (*reads, *writes):
        return _unknown(NO_SHAPES)
    first = reads[0]
    if first is None:
        return _unknown(NO_SHAPES)
    # A rotation of a part of each head leaves the rest alone.
    is_bound = family.words.get("bound") != "no"
    # A loss that is not reduced has a result for each element.
    alone = "reduction" in family.places and call.integer(family.places["reduction"]) == 0
    written = _bytes(*writes) + (_sized(first.elements, first.dtype) if alone else 0)
    return _by_elements(_bytes(*reads), written, first.elements, first.dtype, "elementwise", is_bound=is_bound)


def _compiled(call: OperatorCall, _family: Family) -> Work:
    """Return the bytes of the tensors of a kernel that torch.compile wrote.

    Each is taken as read or written whole, and once: the trace does not say which the kernel reads, nor which part.
    """
    operands = call.tensors()
    if not operands:
        return _unknown(NO_SHAPES)
    fused = _FUSED.fullmatch(call.name)
    shape = fused["names"] if fused else ""
    return Work(None, _bytes(*operands), "compiled", operands[0].dtype, is_bound=False, shape=shape)


def _of_batches(_call: OperatorCall, family: Family) -> Work:
    """Return why the work of a call is not in its shapes."""
    if family.words.get("why") == "experts":
        return Work(unknown=NO_EXPERTS, family=GROUPED)
    return Work(unknown=NO_LENGTHS, family=ATTENTION)


_FORMULAS: dict[str, Formula] = {
    "product": _product,
    "linear": _linear,
    "grouped_product": _grouped_product,
    "fused_experts": _fused_experts,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "attention": _attention,
    "attention_backward": _attention_backward,
    "elementwise": _elementwise,
    "fill": _fill,
    "copy": _copy,
    "triangle": _triangle,
    "reduction": _reduction,
    "softmax": _softmax,
    "softmax_backward": _softmax_backward,
    "norm": _norm,
    "norm_backward": _norm_backward,
    "picked_loss": _picked_loss,
    "picked_loss_backward": _picked_loss_backward,
    "lookup": _lookup,
    "lookup_backward": _lookup_backward,
    "index_select": _index_select,
    "gather": _gather,
    "scatter": _scatter,
    "indexed": _indexed,
    "index_put": _index_put,
    "cat": _cat,
    "lists": _lists,
    "pool": _pool,
    "resize": _resize,
    "pad": _pad,
    "pool_backward": _pool_backward,
    "stream": _stream,
    "compiled": _compiled,
    "unknown": _of_batches,
}

_TRITON = Family("compiled", {}, {})
_FAMILY_OF_KIND: dict[str, str] = {
    **dict.fromkeys(("product", "linear"), PRODUCT),
    **dict.fromkeys(("grouped_product", "fused_experts"), GROUPED),
    **dict.fromkeys(("convolution", "convolution_backward"), CONVOLUTION),
    **dict.fromkeys(("attention", "attention_backward"), ATTENTION),
    **dict.fromkeys(("elementwise", "fill", "stream"), "elementwise"),
    **dict.fromkeys(("copy", "cat", "pad"), "copy"),
    "reduction": "reduction",
    **dict.fromkeys(("softmax", "softmax_backward"), "softmax"),
    **dict.fromkeys(("norm", "norm_backward"), "normalization"),
    **dict.fromkeys(("picked_loss", "picked_loss_backward"), "loss"),
    **dict.fromkeys(
        ("lookup", "lookup_backward", "index_select", "gather", "scatter", "indexed", "index_put"), "index"
    ),
    **dict.fromkeys(("pool", "pool_backward", "resize"), "pooling"),
    "lists": "optimizer",
    "compiled": "compiled",
}

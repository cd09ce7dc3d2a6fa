"""FLOPs and bytes of an operator of an Ascend NPU, from the shapes of its inputs and outputs.

The profiler writes no attributes: what is transposed, strided or masked follows from the outputs, or is not known.
Shapes are those in memory. In a tiled layout (FRACTAL_NZ: columns and rows in tiles of 16) the last tile may be part
empty: a size is known where another operand that is not tiled has it too. Layouts of images in tiles (NC1HWC0,
FRACTAL_Z) hide the number of channels.

Bytes are each input read once and each output written once. Sources: the operator definitions of CANN (aclnn), the
layouts in the guide of Ascend C, rows of kernel_details.csv of torch_npu 6 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tracekit.analysis.efficiency.formulas import (
    ATTENTION,
    CONVOLUTION,
    NO_DATATYPE,
    NO_FORMULA,
    NO_LENGTHS,
    NO_SHAPES,
    ODD_SHAPES,
    PRODUCT,
    Work,
)
from tracekit.analysis.efficiency.operands import SIZES, broadcast
from tracekit.lazy_dataclass import dataclass

__all__ = ["AMBIGUOUS", "NO_MASK", "TILED", "NpuOperator", "NpuTensor", "npu_work", "tensors_of"]

TILED = "the shapes are those of tiles, which may be part empty"
NO_MASK = "the part of the attention that the mask leaves is not recorded"
AMBIGUOUS = "the shapes fit several orders of dimensions"

_DATATYPES: Mapping[str, str] = MappingProxyType(
    {
        "BF16": "c10::BFloat16", "BFLOAT16": "c10::BFloat16", "FLOAT16": "c10::Half", "FLOAT": "float",
        "FLOAT32": "float", "DOUBLE": "double", "INT8": "signed char", "UINT8": "unsigned char", "INT16": "short int",
        "UINT16": "unsigned short", "INT32": "int", "UINT32": "unsigned int", "INT64": "long int",
        "UINT64": "unsigned long", "BOOL": "bool", "COMPLEX64": "c10::complex<float>",
        "COMPLEX128": "c10::complex<double>", "FLOAT8_E4M3FN": "c10::Float8_e4m3fn", "FLOAT8_E5M2": "c10::Float8_e5m2",
    }
)  # fmt: skip
"""Datatypes of CANN, without `DT_`, by torch's names. int4 is packed, in a way that the shapes do not show."""
_PLAIN = frozenset({"ND", "NCL", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "DHWCN"})
"""Layouts whose shape has the sizes of the tensor."""
_NZ = "FRACTAL_NZ"
_ROWS_OF_TILE = 16
_MOST = 1 << 60
_DIGITS = 12
"""Of a size in a shape: no tensor has more elements in one dimension."""


@dataclass(frozen=True, slots=True)
class NpuTensor:
    """A tensor as the profiler writes it. layout: without `FORMAT_`, and without the number of groups behind `:`."""

    dims: tuple[int, ...]
    datatype: str
    layout: str

    @property
    def dtype(self) -> str:
        """The datatype by torch's name, "" for one that is not known."""
        return _DATATYPES.get(self.datatype.removeprefix("DT_"), "")

    @property
    def elements(self) -> int:
        """The number of elements in memory."""
        return math.prod(self.dims)


@dataclass(frozen=True, slots=True)
class NpuOperator:
    """A type of operator with its inputs and outputs, in the order of its definition."""

    type: str
    inputs: tuple[NpuTensor, ...]
    outputs: tuple[NpuTensor, ...]


def npu_work(operator: NpuOperator) -> Work:
    """Return FLOPs and bytes of an operator, or why they are unknown.

    >>> matrix = lambda *dims: NpuTensor(dims, "DT_BF16", "ND")
    >>> npu_work(NpuOperator("MatMulV3", (matrix(8, 4), matrix(2, 4)), (matrix(8, 2),))).flops
    128
    """
    formula = _FORMULAS.get(operator.type)
    if formula is None:
        return Work(unknown=NO_LENGTHS if operator.type in _WITH_LENGTHS else NO_FORMULA)
    if not operator.inputs or not operator.outputs:
        return Work(unknown=NO_SHAPES)
    found = formula(operator)
    return Work(unknown=ODD_SHAPES) if max(found.flops or 0, found.bytes or 0) > _MOST else found


def _bytes(*tensors: NpuTensor) -> int | None:
    """Return the bytes of tensors, None where a datatype is not known. An empty shape adds nothing."""
    total = 0
    for each in tensors:
        if not each.dims:
            continue
        if not each.dtype:
            return None
        total += each.elements * SIZES[each.dtype]
    return total


def _plain(*tensors: NpuTensor) -> bool:
    """Return whether shapes are the sizes of the tensors; one without dimensions has no layout."""
    return all(each.layout in _PLAIN or not each.dims for each in tensors)


def _times(*sizes: int) -> str:
    return "x".join(map(str, sizes))


# Matrix products: what is transposed follows from the result.


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Matrices of a batch. rows, columns: the least and the most that the size may be."""

    batch: tuple[int, ...]
    rows: tuple[int, int]
    columns: tuple[int, int]


def _matrix(tensor: NpuTensor) -> _Matrix | None:
    dims = tensor.dims
    if tensor.layout in _PLAIN and len(dims) >= 2:
        return _Matrix(dims[:-2], (dims[-2], dims[-2]), (dims[-1], dims[-1]))
    if tensor.layout == _NZ and len(dims) >= 4 and dims[-2] == _ROWS_OF_TILE:
        # Tiles by columns, then by rows; then the rows and columns of a tile.
        across, down, rows, columns = dims[-4:]
        return _Matrix(dims[:-4], _tiled(down, rows), _tiled(across, columns))
    return None


def _tiled(count: int, size: int) -> tuple[int, int]:
    return max(count - 1, 0) * size + min(count, 1), count * size


def _both(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int] | None:
    """Return the sizes that both allow, None where there is none."""
    low, high = max(first[0], second[0]), min(first[1], second[1])
    return (low, high) if low <= high else None


def _product(operator: NpuOperator) -> Work:
    if len(operator.inputs) < 2 or len(operator.outputs) != 1:
        return Work(unknown=ODD_SHAPES, family=PRODUCT)
    others = operator.inputs[2:]
    a, b, c = (_matrix(each) for each in (*operator.inputs[:2], operator.outputs[0]))
    if a is None or b is None or c is None:
        layouts = (each.layout for each in (*operator.inputs[:2], *operator.outputs))
        return Work(unknown=ODD_SHAPES if all(each in _PLAIN for each in layouts) else TILED, family=PRODUCT)
    if broadcast([a.batch, b.batch]) != c.batch:
        return Work(unknown=ODD_SHAPES, family=PRODUCT)
    found: set[tuple[int, int, int] | None] = set()
    for rows, depth in ((a.rows, a.columns), (a.columns, a.rows)):
        for deep, columns in ((b.rows, b.columns), (b.columns, b.rows)):
            sizes = (_both(rows, c.rows), _both(depth, deep), _both(columns, c.columns))
            exact = [size[0] for size in sizes if size is not None and size[0] == size[1]]
            if None not in sizes:
                found.add((exact[0], exact[1], exact[2]) if len(exact) == 3 else None)
    if not found:
        return Work(unknown=ODD_SHAPES, family=PRODUCT)
    one = found.pop()
    if found or one is None:
        return Work(unknown=AMBIGUOUS if None not in {one, *found} else TILED, family=PRODUCT)
    m, k, n = one
    first, second, result = (each.dtype for each in (*operator.inputs[:2], operator.outputs[0]))
    beside = _bytes(*others)
    if not first or not second or not result or beside is None:
        return Work(unknown=NO_DATATYPE, family=PRODUCT)
    if not _plain(*others):
        return Work(unknown=TILED, family=PRODUCT)
    batch = math.prod(c.batch)
    moved = math.prod(a.batch) * m * k * SIZES[first] + math.prod(b.batch) * k * n * SIZES[second]
    moved += batch * m * n * SIZES[result] + beside
    shape = f"{batch} of {_times(m, n, k)}" if batch > 1 else _times(m, n, k)
    work = 8 if "complex" in first else 2
    return Work(work * batch * m * n * k, moved, PRODUCT, first, shape=shape)


# Convolutions: the result has their padding and strides, the weights have their groups.


def _sides(tensor: NpuTensor, *, weights: bool) -> dict[str, int] | None:
    """Return the sizes of an image or of weights by the letter of the layout, None for tiles and unnamed dimensions."""
    layout = tensor.layout
    if layout not in _PLAIN or layout == "ND" or len(layout) != len(tensor.dims):
        return None
    names = layout.translate(str.maketrans("NC", "OI")) if weights else layout
    return dict(zip(names, tensor.dims, strict=True))


def _convolution(image: NpuTensor, weights: NpuTensor, result: NpuTensor, operator: NpuOperator) -> Work:
    """Return the work of a convolution or of one of its gradients: all of them have the same products."""
    x, w, y = _sides(image, weights=False), _sides(weights, weights=True), _sides(result, weights=False)
    if x is None or w is None or y is None:
        return Work(unknown=TILED, family=CONVOLUTION)
    inner, outer = w["I"], w["O"]
    if (
        x["N"] != y["N"]
        or outer != y["C"]
        or not inner
        or not outer
        or x["C"] % inner
        or outer % (x["C"] // inner or 1)
    ):
        return Work(unknown=ODD_SHAPES, family=CONVOLUTION)
    every = (*operator.inputs, *operator.outputs)
    moved = _bytes(*every)
    if moved is None or not image.dtype:
        return Work(unknown=NO_DATATYPE, family=CONVOLUTION)
    if not _plain(*every):
        return Work(unknown=TILED, family=CONVOLUTION)
    flops = 2 * result.elements * (weights.elements // outer)
    groups = x["C"] // inner
    shape = f"{_times(*image.dims)} * {_times(*weights.dims)}" + (f" groups {groups}" if groups > 1 else "")
    # Strides beyond the kernel leave a part of the input out, and no attribute has them.
    whole = all(w[side] * y[side] >= x[side] for side in "DHW" if side in x and side in w and side in y)
    return Work(flops, moved, CONVOLUTION, image.dtype, is_bound=whole, shape=shape)


def _forward(operator: NpuOperator) -> Work:
    if len(operator.inputs) < 2:
        return Work(unknown=ODD_SHAPES, family=CONVOLUTION)
    return _convolution(operator.inputs[0], operator.inputs[1], operator.outputs[0], operator)


def _gradient_of_input(operator: NpuOperator) -> Work:
    if len(operator.inputs) != 3:
        return Work(unknown=ODD_SHAPES, family=CONVOLUTION)
    return _convolution(operator.outputs[0], operator.inputs[1], operator.inputs[2], operator)


def _gradient_of_weights(operator: NpuOperator) -> Work:
    if len(operator.inputs) != 3:
        return Work(unknown=ODD_SHAPES, family=CONVOLUTION)
    return _convolution(operator.inputs[0], operator.outputs[0], operator.inputs[2], operator)


# Attention: the maxima of the softmax show which dimension is which.


def _attention(operator: NpuOperator) -> Work:
    if len(operator.inputs) < 3 or not _plain(*operator.inputs, *operator.outputs):
        return Work(unknown=ODD_SHAPES, family=ATTENTION)
    q, k, v = operator.inputs[:3]
    maxima = operator.outputs[0].dims if len(operator.outputs) > 1 else ()
    if len(q.dims) == 3 and len(maxima) == 3:  # tokens of sequences of any length behind each other
        return Work(unknown=NO_LENGTHS, family=ATTENTION)
    found = {sizes for order in _ORDERS if len(order) == len(q.dims) and (sizes := _attended(q, k, v, order, maxima))}
    if not found:
        return Work(unknown=ODD_SHAPES, family=ATTENTION)
    moved = _bytes(*operator.inputs, *operator.outputs)
    if moved is None or not q.dtype:
        return Work(unknown=NO_DATATYPE, family=ATTENTION)
    # A mask may be causal, and then its kernel skips half; the bits of dropout skip nothing.
    masks = [
        each for each in operator.inputs[3:] if each.dims and (len(each.dims) > 1 or each.dtype != "unsigned char")
    ]
    if masks or len(found) > 1:
        shape = ", ".join(_times(*each.dims) for each in (q, k, v))
        return Work(None, moved, ATTENTION, q.dtype, NO_MASK if masks else AMBIGUOUS, shape=shape)
    batch, queries, keys, deep, wide = found.pop()
    heads = maxima[1] if len(maxima) == 4 else 0
    shape = f"{batch}x{heads} heads, " if heads else f"{batch} of "
    shape += _times(queries, keys, deep // heads if heads else deep)
    return Work(2 * batch * queries * keys * (deep + wide), moved, ATTENTION, q.dtype, shape=shape)


_ORDERS = ("BSH", "SBH", "BNSD", "BSND")
"""Orders of dimensions: batch, sequence, heads, depth of a head; H: heads times depth."""


def _attended(
    q: NpuTensor, k: NpuTensor, v: NpuTensor, order: str, maxima: tuple[int, ...]
) -> tuple[int, int, int, int, int] | None:
    """Return batch, queries, keys, and depth of queries and of results over all heads; None where they do not fit."""
    if not len(q.dims) == len(k.dims) == len(v.dims):
        return None
    of_q, of_k, of_v = (dict(zip(order, each.dims, strict=True)) for each in (q, k, v))
    if not of_q["B"] == of_k["B"] == of_v["B"] or of_k["S"] != of_v["S"] or not k.elements:
        return None
    if "N" in of_q and (of_k["N"] != of_v["N"] or of_q["N"] % of_k["N"] or of_q["D"] != of_k["D"]):
        return None
    if maxima and (maxima[0], maxima[2:3]) != (of_q["B"], (of_q["S"],)):
        return None
    if maxima and "N" in of_q and maxima[1] != of_q["N"]:
        return None
    deep, deep_of_keys, wide_of_values = (
        each["H"] if "H" in each else each["N"] * each["D"] for each in (of_q, of_k, of_v)
    )
    # Heads of queries share those of keys evenly, and all of them have one depth.
    if deep % deep_of_keys or deep * wide_of_values % deep_of_keys or (maxima and deep % max(maxima[1], 1)):
        return None
    return of_q["B"], of_q["S"], of_k["S"], deep, deep * wide_of_values // deep_of_keys


# All others read each input once and write each output once.


def _moved(family: str, operator: NpuOperator, flops: int | None) -> Work:
    every = (*operator.inputs, *operator.outputs)
    if not _plain(*every):
        return Work(unknown=TILED, family=family)
    if not all(each.dtype for each in every):
        return Work(unknown=NO_DATATYPE, family=family)
    # A tensor without dimensions has one element.
    moved = sum(each.elements * SIZES[each.dtype] for each in every)
    shape = ", ".join(_times(*each.dims) for each in operator.inputs if each.dims)
    return Work(flops, moved, family, operator.inputs[0].dtype, shape=shape)


def _elementwise(operator: NpuOperator) -> Work:
    result = operator.outputs[0]
    if len(operator.outputs) != 1 or broadcast([each.dims for each in operator.inputs]) != result.dims:
        return Work(unknown=ODD_SHAPES, family="elementwise")
    return _moved("elementwise", operator, result.elements)


def _copy(operator: NpuOperator) -> Work:
    first, result = operator.inputs[0], operator.outputs[0]
    if len(operator.outputs) != 1 or first.elements != result.elements:
        return Work(unknown=ODD_SHAPES, family="copy")
    return _moved("copy", operator, 0)


def _reduction(operator: NpuOperator) -> Work:
    if len(operator.outputs) != 1 or operator.outputs[0].elements > operator.inputs[0].elements:
        return Work(unknown=ODD_SHAPES, family="reduction")
    return _moved("reduction", operator, operator.inputs[0].elements)


def _of_rows(family: str, ops: int) -> Callable[[NpuOperator], Work]:
    """Return the formula of a normalization or softmax, with a number of operations an element by convention."""

    def formula(operator: NpuOperator) -> Work:
        first = operator.inputs[0]
        if operator.outputs[0].dims != first.dims:
            return Work(unknown=ODD_SHAPES, family=family)
        return _moved(family, operator, ops * first.elements)

    return formula


_FORMULAS: Mapping[str, Callable[[NpuOperator], Work]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3",
                "QuantBatchMatmulV3", "QuantBatchMatmulV4", "WeightQuantBatchMatmulV2",
            ),
            _product,
        ),
        **dict.fromkeys(("Conv2D", "Conv2DV2", "Conv3D", "Conv3DV2"), _forward),
        **dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInput", "Conv3DBackpropInputV2"), _gradient_of_input),
        **dict.fromkeys(
            ("Conv2DBackpropFilter", "Conv3DBackpropFilter", "Conv3DBackpropFilterV2"), _gradient_of_weights
        ),
        "FlashAttentionScore": _attention,
        **dict.fromkeys(
            (
                "Abs", "Add", "Adds", "Addcdiv", "Addcmul", "Axpy", "AxpyV2", "Ceil", "Cos", "Div", "Elu", "Equal",
                "Erf", "Exp", "FastGelu", "FastGeluGrad", "Floor", "FloorDiv", "Gelu", "GeluGrad", "Greater",
                "GreaterEqual", "LeakyRelu", "Less", "LessEqual", "Log", "Log1p", "LogicalAnd", "LogicalNot",
                "LogicalOr", "Maximum", "Minimum", "Mul", "Muls", "Neg", "NotEqual", "Pow", "Pows", "RealDiv",
                "Reciprocal", "Relu", "ReluGrad", "Round", "Rsqrt", "Sigmoid", "SigmoidGrad", "Sign", "Silu",
                "SiluGrad", "Sin", "Sqrt", "Square", "SquaredDifference", "Sub", "Swish", "SwishGrad", "Tanh",
                "TanhGrad",
            ),
            _elementwise,
        ),
        **dict.fromkeys(("Cast", "TensorMove", "Transpose"), _copy),
        **dict.fromkeys(
            (
                "ReduceMax", "ReduceMaxD", "ReduceMean", "ReduceMeanD", "ReduceMin", "ReduceMinD", "ReduceSum",
                "ReduceSumD",
            ),
            _reduction,
        ),
        **dict.fromkeys(
            ("LogSoftmaxGrad", "LogSoftmaxV2", "ScaledMaskedSoftmax", "SoftmaxGrad", "SoftmaxV2"),
            _of_rows("softmax", 5),
        ),
        **dict.fromkeys(("LayerNorm", "LayerNormV3", "LayerNormV4", "RmsNorm"), _of_rows("normalization", 7)),
    }
)  # fmt: skip
_WITH_LENGTHS = frozenset({"FusedInferAttentionScore", "IncreFlashAttention", "PromptFlashAttention"})
"""Operators of inference: the lengths of the sequences are values."""


def tensors_of(shapes: str, datatypes: str, layouts: str) -> tuple[NpuTensor, ...] | None:
    """Return tensors from texts such as `8,4;;2,4`, None where they do not fit each other.

    >>> tensors_of("8,4;", "DT_BF16;FLOAT", "FORMAT_ND;ND")[1]
    NpuTensor(dims=(), datatype='FLOAT', layout='ND')
    """
    sizes, types, orders = (text.strip('"').split(";") for text in (shapes, datatypes, layouts))
    if not len(sizes) == len(types) == len(orders):
        return None
    found: list[NpuTensor] = []
    for dims, dtype, layout in zip(sizes, types, orders, strict=True):
        numbers = [each.strip() for each in dims.split(",")] if dims.strip() else []
        if not all(each.isascii() and each.isdecimal() and len(each) <= _DIGITS for each in numbers):
            return None
        order = layout.strip().removeprefix("FORMAT_").partition(":")[0]
        found.append(NpuTensor(tuple(map(int, numbers)), dtype.strip(), order))
    return tuple(found)

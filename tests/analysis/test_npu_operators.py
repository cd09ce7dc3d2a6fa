"""Work of operators of Ascend NPUs: sizes follow from inputs and outputs, and what attributes decide is not known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import sample

import tracekit
from tracekit.analysis.efficiency.formulas import NO_DATATYPE, NO_FORMULA, NO_LENGTHS, NO_SHAPES, ODD_SHAPES, Work
from tracekit.analysis.efficiency.npu_operators import (
    AMBIGUOUS,
    NO_MASK,
    TILED,
    NpuOperator,
    NpuTensor,
    npu_work,
    tensors_of,
)
from tracekit.index.trace_index import TraceIndex
from tracekit.index.work_units import work_units

HALF = "DT_BF16"


def tensors(text: str, dtype: str = HALF, layout: str = "ND") -> tuple[NpuTensor, ...]:
    """Tensors of a text such as `8,4;NCHW 2,4;FLOAT 3`: words before the sizes are layout and datatype."""
    found = []
    for part in text.split(";"):
        words = part.split()
        sizes = words.pop() if words and words[-1][0].isdigit() else ""
        dims = tuple(map(int, sizes.split(","))) if sizes else ()
        kinds = [word for word in words if word.removeprefix("DT_") in ("FLOAT", "INT8", "INT4", "UINT8", "BOOL")]
        orders = [word for word in words if word not in kinds]
        found.append(NpuTensor(dims, *(kinds or [dtype]), *(orders or [layout])))
    return tuple(found)


def work(kind: str, inputs: str, outputs: str) -> Work:
    return npu_work(NpuOperator(kind, tensors(inputs), tensors(outputs)))


@pytest.mark.parametrize("first", ["6,4", "4,6"])
@pytest.mark.parametrize("second", ["4,10", "10,4"])
def test_what_is_transposed_in_a_product_follows_from_the_result(first: str, second: str) -> None:
    found = work("MatMulV2", f"{first};{second}", "6,10")
    assert (found.flops, found.bytes, found.shape) == (2 * 6 * 10 * 4, 2 * (24 + 40 + 60), "6x10x4")
    with_bias = work("MatMulV3", f"{first};{second};FLOAT 10", "6,10")
    assert (with_bias.flops, with_bias.bytes) == (480, 248 + 40)


def test_batches_of_products_broadcast() -> None:
    found = work("BatchMatMulV2", "3,1,6,4;5,4,10", "3,5,6,10")
    assert (found.flops, found.bytes, found.shape) == (15 * 480, 2 * (72 + 200 + 900), "15 of 6x10x4")
    assert work("BatchMatMul", "3,6,4;2,4,10", "3,6,10").unknown == ODD_SHAPES


def test_sizes_in_tiles_are_known_where_an_operand_without_tiles_has_them() -> None:
    # 30 x 50 are 4 columns of tiles by 2 rows of them.
    tiles = "FRACTAL_NZ 4,2,16,16"
    known = work("MatMulV2", f"30,50;{tiles.replace('4,2', '2,4')}", "30,20")
    assert (known.flops, known.bytes) == (2 * 30 * 50 * 20, 2 * (1500 + 1000 + 600))
    assert work("MatMulV2", f"{tiles};50,20", "30,20").flops == 2 * 30 * 50 * 20
    # The depth is in no plain operand: 49 to 64.
    assert work("MatMulV2", f"{tiles};FRACTAL_NZ 2,4,16,16", "30,20").unknown == TILED
    assert work("MatMulV2", f"{tiles};80,20", "30,20").unknown == ODD_SHAPES
    assert work("MatMulV2", "FRACTAL_Z 4,2,16,16;50,20", "30,20").unknown == TILED
    assert work("QuantBatchMatmulV3", "INT8 30,50;INT8 FRACTAL_NZ 1,4,16,32;FLOAT 20", "30,20").bytes == (
        1500 + 1000 + 80 + 1200
    )


def test_shapes_that_no_product_has_are_not_known() -> None:
    assert work("MatMulV2", "81920,4096;8192,512", "4096,512").unknown == ODD_SHAPES
    assert work("MatMulV2", "6,4", "6,4").unknown == ODD_SHAPES
    assert work("MatMulV2", "INT4 6,4;INT4 4,10", "6,10").unknown == NO_DATATYPE
    assert work("MatMulV2", f"{1 << 30},{1 << 30};{1 << 30},1", f"{1 << 30},1").unknown == ODD_SHAPES
    assert npu_work(NpuOperator("MatMulV2", (), ())).unknown == NO_SHAPES
    assert work("GroupedMatmul", "6,4;2,4,10", "6,10").unknown == NO_FORMULA
    assert work("PromptFlashAttention", "1,8,4;1,8,4;1,8,4", "1,8,4").unknown == NO_LENGTHS


@pytest.mark.parametrize("kind", ["Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"])
def test_a_convolution_and_its_gradients_have_the_same_products(kind: str) -> None:
    x, w, y = "NCHW 2,6,9,9", "NCHW 8,3,3,3", "NCHW 2,8,9,9"
    inputs, outputs = {
        "Conv2D": (f"{x};{w};8", y),
        "Conv2DBackpropInput": (f"INT8 4;{w};{y}", x),
        "Conv2DBackpropFilter": (f"{x};INT8 4;{y}", w),
    }[kind]
    found = work(kind, inputs, outputs)
    # Each of 2 x 8 x 81 results sums over 3 channels of its group, 3 x 3.
    assert found.flops == 2 * (2 * 8 * 81) * 3 * 9
    assert found.is_bound
    assert found.shape == "2x6x9x9 * 8x3x3x3 groups 2"
    last = work("Conv2D", "NHWC 2,9,9,6;HWCN 3,3,3,8", "NHWC 2,9,9,8")
    assert (last.flops, last.shape) == (found.flops, "2x9x9x6 * 3x3x3x8 groups 2")


def test_images_in_tiles_hide_the_number_of_channels() -> None:
    found = work("Conv2D", "NC1HWC0 32,1,224,224,8;FRACTAL_Z 121,4,16,8;NCHW 64", "NC1HWC0 32,8,55,55,8")
    assert (found.unknown, found.family) == (TILED, "convolution")
    assert work("Conv2D", "NCHW 2,6,9,9;NCHW 7,4,3,3", "NCHW 2,7,9,9").unknown == ODD_SHAPES
    assert work("Conv2D", "2,6;8,6", "2,8").unknown == TILED
    assert work("Conv2D", "NCHW 2,0,9,9;NCHW 8,0,3,3", "NCHW 2,8,9,9").unknown == ODD_SHAPES
    # A step of 2 with weights of 1 x 1 does not read all of the image.
    assert not work("Conv2D", "NCHW 2,6,8,8;NCHW 8,6,1,1", "NCHW 2,8,4,4").is_bound


@pytest.mark.parametrize(
    ("q", "k"),
    [("NCL 64,2,32", "NCL 48,2,16"), ("NCL 2,64,32", "NCL 2,48,16"), ("NCHW 2,4,64,8", "NCHW 2,2,48,8")],
)
def test_the_maxima_of_the_softmax_show_the_order_of_dimensions(q: str, k: str) -> None:
    maxima = "FLOAT 2,4,64,8;FLOAT 2,4,64,8"
    found = work("FlashAttentionScore", f"{q};{k};{k};;UINT8 512;;", f"{maxima};;{q}")
    assert found.flops == 2 * 2 * 4 * 64 * 48 * (8 + 8)
    assert found.shape == "2x4 heads, 64x48x8"
    masked = work("FlashAttentionScore", f"{q};{k};{k};;;;BOOL 64,48", f"{maxima};;{q}")
    assert (masked.flops, masked.unknown, masked.is_known) == (None, NO_MASK, False)
    assert masked.bytes is not None


def test_attention_without_a_known_order_is_not_known() -> None:
    one = work("FlashAttentionScore", "64,2,32;64,2,32;64,2,32", "64,2,32")
    assert (one.flops, one.unknown) == (None, AMBIGUOUS)
    # Both orders are the same work.
    assert work("FlashAttentionScore", "8,8,32;8,8,32;8,8,32", "8,8,32").flops == 4 * 8 * 8 * 8 * 32
    packed = work("FlashAttentionScore", "90,4,8;90,4,8;90,4,8", "FLOAT 90,4,8;FLOAT 90,4,8;;90,4,8")
    assert packed.unknown == NO_LENGTHS
    assert work("FlashAttentionScore", "0,2,8;0,2,8;0,2,8", "FLOAT 2;FLOAT 2;;0,2,8").flops is None
    other = work("FlashAttentionScore", "4096,2,511;4096,2,512;4096,2,512", "FLOAT 2,3,4096,8;FLOAT 2,4,4096,8;;4,2")
    assert other.flops is None


def test_other_operators_read_and_write_each_element_once() -> None:
    assert work("Add", "6,4;4", "6,4").bytes == 2 * (24 + 4 + 24)
    assert work("Mul", "6,4;", "6,4").bytes == 2 * (24 + 1 + 24)
    assert work("Greater", "6,4;6,4", "BOOL 6,4").bytes == 2 * 48 + 24
    assert work("Cast", "6,4", "FLOAT 6,4").bytes == 48 + 96
    assert work("ReduceSumD", "6,4", "6").bytes == 48 + 12
    assert work("RmsNorm", "6,4;4", "6,4;FLOAT 6,1").bytes == 48 + 8 + 48 + 24
    assert work("Add", "6,4;5", "6,4").unknown == ODD_SHAPES
    assert work("Relu", "NC1HWC0 2,1,3,3,16", "NC1HWC0 2,1,3,3,16").unknown == TILED
    assert work("Add", "INT4 6,4;INT4 6,4", "INT4 6,4").unknown == NO_DATATYPE


def test_texts_that_do_not_fit_each_other_are_no_tensors() -> None:
    assert tensors_of("8,4;2", "FLOAT", "ND") is None
    assert tensors_of("8,x", "FLOAT", "ND") is None
    assert tensors_of("9" * 30, "FLOAT", "ND") is None
    assert tensors_of("2,1,3,3,16", "FLOAT", "NC1HWC0:1") == (NpuTensor((2, 1, 3, 3, 16), "FLOAT", "NC1HWC0"),)


@pytest.mark.parametrize(
    "name",
    [
        "ascend-csv/kernel_details.csv",
        "ascend-csv/op_summary_20250109171300.csv",
        "ascend-db/ascend_pytorch_profiler_3.db",
    ],
)
def test_kernels_of_a_file_have_the_work_of_their_shapes(name: str) -> None:
    trace = tracekit.read(sample(name))
    units = work_units(TraceIndex(trace))
    assert units is not None
    by_type: dict[str, tuple[int, int]] = {}
    for group in units.groups:
        flops, moved = (group.calls * (value or 0) for value in (group.work.flops, group.work.bytes))
        had = by_type.get(group.call.name, (0, 0))
        by_type[group.call.name] = had[0] + flops, had[1] + moved
    m, k, n = 1024, 4096, 4096
    matrices = m * k, k * n, m * n
    assert by_type["MatMulV3"] == (8 * 2 * math.isqrt(math.prod(matrices)), 8 * 2 * sum(matrices))
    assert by_type["FlashAttentionScore"][0] == 0
    reasons = {units.reasons[place] for place in np.unique(units.reason[units.reason >= 0]).tolist()}
    assert {NO_MASK, NO_FORMULA, "communication"} <= reasons

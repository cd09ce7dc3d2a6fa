"""FLOPs and bytes from shapes, peaks of devices, and the floor: figures by hand and by independent formulas."""

from __future__ import annotations

import ast
import csv
import doctest
import math

import numpy as np
import pytest
from support import shared_efficiency

from tracekit.analysis.efficiency import datatypes, devices, formulas, operands
from tracekit.analysis.efficiency.datatypes import datatype_that_ran
from tracekit.analysis.efficiency.devices import (
    RATES,
    RatedDevice,
    find_device,
    listed_devices,
    roof,
    stated_device,
)
from tracekit.analysis.efficiency.floors import Limit, reach
from tracekit.analysis.efficiency.formulas import Work, has_formula, work
from tracekit.analysis.efficiency.operands import OperatorCall, TensorOperand

BF, F32, HALF, NO = "c10::BFloat16", "float", "c10::Half", "Scalar"


def call(name: str, *arguments: tuple[object, str] | str, strides: tuple[object, ...] = (), kernel: str = "") -> Work:
    """The work of a call. An argument: (dimensions, type) of a tensor or list, or the text of a value."""
    dims = [a[0] if isinstance(a, tuple) else [] for a in arguments]
    types = [a[1] if isinstance(a, tuple) else ("ScalarList" if a.startswith("[") else NO) for a in arguments]
    values = ["" if isinstance(a, tuple) else a for a in arguments]
    return work(OperatorCall(name, dims, types, strides, values, kernel))


@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (2, 3, 4), (1, 1), (0, 3)])
@pytest.mark.parametrize("diagonal", [-9, -2, 0, 1, 6, 9])
@pytest.mark.parametrize("side", ["triu", "tril"])
def test_a_triangle_reads_what_it_keeps(shape: tuple[int, ...], diagonal: int, side: str) -> None:
    # Counters of an H100: with triu of 16384 x 4096, 277 MB move, not twice the 268 MB of the matrix.
    rows, columns = shape[-2:]
    matrices = int(np.prod(shape[:-2], dtype=int))
    kept = int((getattr(np, side)(np.ones((rows, columns)), diagonal) != 0).sum()) * matrices
    size = int(np.prod(shape, dtype=int))
    assert call(f"aten::{side}", (list(shape), F32), str(diagonal)).bytes == 4 * (kept + size)
    assert call(f"aten::{side}_", (list(shape), F32), str(diagonal)).bytes == 4 * (size - kept)


def test_examples_in_docstrings_hold() -> None:
    for module in (datatypes, devices, formulas, operands):
        assert doctest.testmod(module).failed == 0


def test_every_row_of_independent_formulas_is_equal() -> None:
    """491 operator rows of public reports: FLOPs of all, bytes where they are known."""
    with shared_efficiency("rows.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) > 400
    keys = ("input_dims", "input_type", "input_strides", "concrete_inputs")
    for row in rows:
        found = work(OperatorCall(row["operator"], *(ast.literal_eval(row[key]) for key in keys)))
        assert found.flops == int(row["flops_each_own"]), row
        assert not row["bytes_each_own"] or found.bytes == int(row["bytes_each_own"]), row
        assert found.is_known, row


def test_products_count_each_operand_once() -> None:
    assert call("aten::mm", ([4, 8], F32), ([8, 2], F32)) == Work(
        128, 4 * (32 + 16 + 8), "matrix product", F32, shape="4x2x8"
    )
    added = call("aten::addmm", ([2], F32), ([4, 8], F32), ([8, 2], F32), "1", "1")
    assert (added.flops, added.bytes) == (128 + 8, 4 * (2 + 32 + 16 + 8))
    whole = call("aten::addmm", ([4, 2], F32), ([4, 8], F32), ([8, 2], F32), "1", "1")
    assert (whole.bytes or 0) - (added.bytes or 0) == 4 * 6
    batched = call("aten::baddbmm", ([3, 4, 2], F32), ([3, 4, 8], F32), ([3, 8, 2], F32), "1", "1")
    assert batched.flops == 3 * (128 + 8)
    expanded = call("aten::bmm", ([3, 4, 8], F32), ([3, 8, 2], F32), strides=([0, 8, 1], [16, 2, 1]))
    assert expanded.bytes == 4 * (32 + 48 + 24)
    assert call("aten::mv", ([4, 8], F32), ([8], F32)).flops == 64
    assert call("aten::mm", ([4, 8], F32), ([7, 2], F32)).unknown


def test_scaled_products_have_the_types_of_each_operand() -> None:
    fp8 = "c10::Float8_e4m3fn"
    args = (([16, 32], fp8), ([32, 8], fp8), ([], F32), ([], F32), ([], ""), ([], ""))
    wide, plain = call("aten::_scaled_mm", *args, "15", "False"), call("aten::_scaled_mm", *args, "", "False")
    assert (wide.flops, wide.bytes) == (2 * 16 * 32 * 8, 16 * 32 + 32 * 8 + 8 + 16 * 8 * 2)
    assert (wide.bytes or 0) - (plain.bytes or 0) == 16 * 8
    packed = "c10::Float4_e2m1fn_x2"
    four = call(
        "aten::_scaled_mm", ([16, 32], packed), ([32, 8], packed), ([], F32), ([], F32), ([], ""), ([], ""), "15"
    )
    assert four.flops == 2 * 16 * 8 * 64  # a byte holds two numbers


def test_grouped_products_are_no_bound_where_rows_may_be_unused() -> None:
    found = call("aten::_grouped_mm", ([100, 64], BF), ([4, 64, 32], BF), ([4], "int"))
    assert (found.flops, found.is_bound) == (2 * 100 * 64 * 32, False)
    assert found.bytes == 2 * (100 * 64 + 4 * 64 * 32 + 100 * 32) + 16
    weights = call("aten::_grouped_mm", ([64, 100], BF), ([100, 32], BF), ([4], "int"))
    assert (weights.flops, weights.bytes) == (2 * 64 * 100 * 32, 2 * (6400 + 3200 + 4 * 64 * 32) + 16)
    experts = call(
        "vllm::inplace_fused_experts",
        ([8, 64], BF),
        ([4, 256, 64], BF),
        ([4, 64, 128], BF),
        ([8, 2], F32),
        ([8, 2], "int"),
    )
    assert (experts.flops, experts.bytes) == (2 * 16 * (256 * 64 + 64 * 128), None)


def convolution(x: list[int], w: list[int], *, bias: list[int] | None = None, transposed: bool = False, groups: int = 1,
                stride: int = 1, padding: int = 0, dilation: int = 1, output_padding: int = 0) -> Work:  # fmt: skip
    each = [str([value] * (len(w) - 2)) for value in (stride, padding, dilation, output_padding)]
    third = (bias, F32) if bias else ([], "")
    return call(
        "aten::convolution", (x, F32), (w, F32), third, each[0], each[1], each[2], str(transposed), each[3], str(groups)
    )


def test_convolutions_count_their_output() -> None:
    plain = convolution([2, 3, 9, 9], [5, 3, 3, 3], stride=2, padding=1, dilation=2)
    assert (plain.flops, plain.bytes) == (2 * 27 * 2 * 5 * 16, 4 * (486 + 135 + 2 * 5 * 16))
    with_bias = convolution([2, 3, 9, 9], [5, 3, 3, 3], stride=2, padding=1, dilation=2, bias=[5])
    assert ((with_bias.flops or 0) - (plain.flops or 0), (with_bias.bytes or 0) - (plain.bytes or 0)) == (160, 20)
    grouped = convolution([1, 4, 8], [6, 2, 3], groups=2)
    assert grouped.flops == 2 * 6 * 6 * 6
    backward = convolution([1, 64, 32, 32], [64, 16, 4, 4], stride=2, padding=1, transposed=True, groups=2)
    assert (backward.flops, backward.bytes) == (33554432, 851968)
    wider = convolution([1, 4, 5], [4, 2, 3], stride=2, transposed=True, output_padding=1)
    assert wider.bytes == 4 * (20 + 24 + 2 * 12)
    assert call("aten::convolution", ([2, 3, 9, 9], F32), ([5, 3, 3, 3], F32)).unknown == formulas.NO_VALUES


def test_operators_of_libraries_have_their_own_order_of_arguments() -> None:
    x, w = ([2, 3, 9, 9], F32), ([5, 3, 3, 3], F32)
    plain = convolution([2, 3, 9, 9], [5, 3, 3, 3], stride=2, padding=1, dilation=2)
    pad, stride, dil = "[1, 1]", "[2, 2]", "[2, 2]"
    none = ([], "")
    assert call("aten::cudnn_convolution", x, w, pad, stride, dil, "1").flops == plain.flops
    assert call("aten::miopen_convolution", x, w, none, pad, stride, dil, "1").flops == plain.flops
    assert call("aten::_slow_conv2d_forward", x, w, "[3, 3]", none, stride, pad).flops == convolution(
        [2, 3, 9, 9], [5, 3, 3, 3], stride=2, padding=1
    ).flops  # fmt: skip
    depthwise = call(
        "aten::_conv_depthwise2d",
        ([1, 4, 8, 8], F32),
        ([4, 1, 3, 3], F32),
        "[3, 3]",
        none,
        "[1, 1]",
        "[1, 1]",
        "[1, 1]",
    )
    assert depthwise.flops == 2 * 9 * 4 * 64


def test_a_backward_convolution_counts_the_gradients_that_are_wanted() -> None:
    gout, x, w = ([2, 5, 4, 4], F32), ([2, 3, 9, 9], F32), ([5, 3, 3, 3], F32)
    rest = ("[0]", "[2, 2]", "[1, 1]", "[2, 2]", "False", "[0, 0]", "1")
    forward = 2 * 27 * 2 * 5 * 16
    for mask, times, bias in (
        ("[True, True, True]", 2, 160),
        ("[False, True, False]", 1, 0),
        ("[True, False, True]", 1, 160),
    ):
        found = call("aten::convolution_backward", gout, x, w, *rest, mask)
        assert found.flops == times * forward + bias
        assert found.bytes == 4 * (times * (160 + 486 + 135) + (165 if bias else 0))
    assert call("aten::convolution_backward", gout, x, w).unknown == formulas.NO_VALUES


def attention(q: list[int], k: list[int], causal: str, dtype: str = BF, name: str = "flash") -> Work:
    values = ("0.", causal, "False", "") if name == "flash" else (([], ""), "False", "0.", causal, "")
    return call(f"aten::_scaled_dot_product_{name}_attention", (q, dtype), (k, dtype), (k, dtype), *values)


def test_attention_counts_what_the_mask_keeps() -> None:
    assert attention([2, 8, 512, 64], [2, 8, 512, 64], "False", F32, "efficient").bytes == 8388608
    decode = attention([4, 32, 1, 128], [4, 8, 2048, 128], "True")
    assert (decode.flops, decode.bytes) == (134217728, 33619968)
    square = attention([1, 1, 64, 16], [1, 1, 64, 16], "False").flops or 0
    assert attention([1, 1, 64, 16], [1, 1, 64, 16], "True").flops == square // 2
    # 2 queries of 4 keys: rows of 3 and 4 keys where the mask is aligned to the end, of 1 and 2 at the begin.
    assert attention([1, 1, 2, 16], [1, 1, 4, 16], "True").flops == 2 * 7 * 32
    assert attention([1, 1, 2, 16], [1, 1, 4, 16], "True", name="efficient").flops == 2 * 3 * 32
    shared = attention([1, 8, 64, 16], [1, 2, 64, 16], "False")
    assert shared.flops == 2 * 8 * 64 * 64 * 32  # by the heads of the queries
    assert shared.bytes == 2 * (2 * 8 * 64 * 16 + 2 * 2 * 64 * 16)


def test_windows_of_attention_and_its_backward() -> None:
    tokens = ([1, 8, 2, 16], BF)
    rest = ("0.", "0.25", "True")
    windowed = call("flash_attn::_flash_attn_forward", tokens, tokens, tokens, *rest, "2", "0")
    assert windowed.flops == 2 * 2 * (1 + 2 + 3 * 6) * 32
    out, lse = ([1, 2, 8, 16], BF), ([1, 2, 8], F32)
    none = ([], "")
    backward = call(
        "aten::_scaled_dot_product_flash_attention_backward", out, out, out, out, out, lse, none, none, "8", "8", "0.",
        "False",
    )  # fmt: skip
    assert backward.flops == 5 * (2 * 2 * 64 * 32) // 2
    assert backward.bytes == 8 * 2 * 256
    assert call("aten::_flash_attention_forward", tokens, tokens, tokens, ([3], "int"), ([3], "int"), "4", "4", "0.",
                "True").unknown == formulas.NO_LENGTHS  # fmt: skip


def test_elementwise_work_reads_expanded_operands_once_and_promotes() -> None:
    square = ([1024, 1024], F32)
    expanded = call("aten::add", square, square, "1", strides=([1024, 1], [0, 1], []))
    assert (expanded.flops, expanded.bytes) == (1048576, 8392704)
    assert call("aten::mul", square, ([1024, 1024], "bool")).bytes == 9437184
    assert call("aten::add", ([8], "short int"), ([8], "bool"), "1").bytes == 8 * (2 + 1 + 2)
    assert call("aten::mul", ([8], "c10::complex<float>"), ([8], F32)).bytes == 8 * (8 + 4 + 8)
    assert call("aten::div", ([8], "long int"), ([8], "int")).bytes == 8 * (8 + 4 + 4)
    assert call("aten::mul", ([8], "long int"), "0.5").bytes == 8 * (8 + 4)
    assert call("aten::add", ([8], HALF), ([8], BF), "1").bytes == 8 * (2 + 2 + 4)
    assert call("aten::mul", ([8], HALF), ([], F32)).bytes == 8 * (2 + 2) + 4
    assert call("aten::eq", ([8], F32), "0").bytes == 8 * 5
    assert call("aten::where", ([8], "bool"), ([8], HALF), ([8], HALF)).bytes == 8 * 7
    assert call("aten::add_", ([4, 8], HALF), ([8], F32), "1").bytes == 4 * 8 * 4 + 32
    windows = call("aten::neg", ([10, 8], F32), strides=([1, 1],))
    assert windows.bytes == 4 * (17 + 80)  # windows that overlap


@pytest.mark.parametrize(
    ("name", "arguments", "nbytes"),
    [
        ("add", (([8], F32), ([8], F32), "1"), 8 * 12),
        ("mul", (([8], F32), ([8], F32)), 8 * 12),
        ("mul", (([8], F32), "2"), 8 * 8),
        ("div", (([2, 8], F32), ([8], F32)), 32 + 2 * 64),
        ("sqrt", (([8], F32),), 8 * 8),
        ("clamp", (([8], F32), "0", "1"), 8 * 8),
        ("lerp", (([8], F32), ([8], F32), "0.5"), 8 * 12),
        ("addcmul", (([8], F32), ([8], F32), ([8], F32), "1"), 8 * 16),
        ("where", (([8], "bool"), ([8], F32), ([8], F32)), 8 * 13),
        ("gelu_backward", (([8], F32), ([8], F32), "none"), 8 * 12),
    ],
)
def test_a_result_that_is_given_is_written_and_not_read(
    name: str, arguments: tuple[tuple[object, str] | str, ...], nbytes: int
) -> None:
    shape = [2, 8] if name == "div" else [8]
    assert call(f"aten::{name}", *arguments).bytes == nbytes
    assert call(f"aten::{name}", *arguments, (shape, F32)).bytes == nbytes
    half = call(f"aten::{name}", *arguments, (shape, HALF)).bytes or 0
    assert nbytes - half == 2 * math.prod(shape)


def test_results_that_are_given_to_norms_are_not_read() -> None:
    x, w, each = ([8, 64], F32), ([64], F32), ([8, 1], F32)
    plain = ("aten::native_layer_norm", x, "[64]", w, w, "1e-05")
    assert call(*plain).bytes == 4 * (2 * 512 + 128)
    assert call(*plain, x, each, each).bytes == call(*plain).bytes
    batch = ("aten::native_batch_norm", x, w, w, w, w, "True", "0.1", "1e-05")
    assert call(*batch, x, w, w).bytes == call(*batch).bytes == 4 * (2 * 512 + 4 * 64)
    backward = ("aten::native_layer_norm_backward", x, x, "[64]", each, each, w, w, "[True, True, True]")
    assert call(*backward, x, w, w).bytes == call(*backward).bytes


def test_a_loss_that_is_not_reduced_has_a_result_for_each_element() -> None:
    x = ([8], F32)
    assert call("aten::mse_loss", x, x, "0").bytes == 8 * 12
    assert call("aten::mse_loss", x, x, "1").bytes == 8 * 8
    assert call("aten::huber_loss", x, x, "0", "1.").bytes == 8 * 12


def test_scalars_between_tensors_are_no_sign_of_a_given_result() -> None:
    assert call("aten::where", ([8], "bool"), "0.", ([8], F32)).bytes == 8 * 9
    assert call("aten::elu_backward", ([8], F32), "1.", "1.", "1.", "False", ([8], F32)).bytes == 8 * 12


def test_results_have_the_datatype_that_the_operator_gives() -> None:
    assert call("aten::mm", ([4, 8], BF), ([8, 2], BF), "6").bytes == 2 * 48 + 4 * 8
    assert call("aten::bmm", ([3, 4, 8], HALF), ([3, 8, 2], HALF), "6").bytes == 3 * (2 * 48 + 4 * 8)
    c, a, b = ([2], BF), ([4, 8], BF), ([8, 2], BF)
    assert call("aten::addmm", c, a, b, "6", "1", "1").bytes == 2 * 50 + 4 * 8
    assert call("aten::addmm", c, a, b, "6", "1", ([4, 2], BF)).bytes == 2 * 50 + 2 * 8  # beta is 6
    assert call("aten::abs", ([8], "c10::complex<float>")).bytes == 8 * (8 + 4)
    assert call("aten::mul", ([8], "short int"), "1e-05").bytes == 8 * (2 + 4)
    assert call("aten::add", ([8], "bool"), "inf", "1").bytes == 8 * (1 + 4)
    assert call("aten::cumsum", ([8], "int"), "0", ([], "")).bytes == 8 * (4 + 8)
    assert call("aten::cumprod", ([8], BF), "0", "6").bytes == 8 * (2 + 4)
    assert call("aten::cummax", ([8], F32), "0").bytes == 8 * (4 + 4 + 8)
    assert call("aten::cumsum_", ([8], "int"), "0", ([], "")).bytes == 8 * (4 + 4)
    assert call("aten::nll_loss_forward", ([8, 9], F32), ([8], "long"), ([], ""), "0", "-100").bytes == 8 * (8 + 4 + 4)


@pytest.mark.parametrize(
    ("name", "between"),
    [
        ("native_layer_norm_backward", ("[9]", ([8], F32), ([8], F32), ([9], F32), ([9], F32))),
        ("native_group_norm_backward", (([8], F32), ([8], F32), ([9], F32), "8", "9", "1", "1")),
        ("native_batch_norm_backward", (*(([9], F32),) * 5, "True", "1e-05")),
        ("_fused_rms_norm_backward", ("[9]", ([8], F32), ([9], F32))),
    ],
)
def test_a_gradient_of_the_input_that_nobody_wants_is_not_written(
    name: str, between: tuple[tuple[object, str] | str, ...]
) -> None:
    x = ([8, 9], F32)
    whole = call(f"aten::{name}", x, x, *between, "[True, True, True]").bytes or 0
    assert whole - (call(f"aten::{name}", x, x, *between, "[False, True, True]").bytes or 0) == 4 * 72


def test_a_copy_of_lists_reads_one_of_them() -> None:
    kernel = "multi_tensor_apply_kernel<TensorListMetadata<2>, Copy<float, float>>"
    two = ([[100], [10, 2]], "TensorList")
    assert call("aten::_foreach_copy_", two, two, "False", kernel=kernel).bytes == 120 * 8
    assert call("aten::_foreach_add_", two, two, "1", kernel=kernel).bytes == 120 * 12


def test_windows_count_in_the_backward_pass_too() -> None:
    q, lse, none = ([1, 8, 2, 16], BF), ([1, 2, 8], F32), ([], "")
    found = call("aten::_flash_attention_backward", q, q, q, q, q, lse, none, none, "8", "8", "0.", "True", none, none,
                 none, "2", "0")  # fmt: skip
    assert found.flops == 2 * 2 * (1 + 2 + 3 * 6) * 5 * 16


def test_reductions_know_their_dimensions() -> None:
    x = ([16, 559, 1024], F32)
    assert call("aten::mean", x, "[-1]", "True", ([], "")).bytes == 36670400
    assert call("aten::sum", x, ([], "")).bytes == 4 * 16 * 559 * 1024 + 4
    assert call("aten::sum", ([8, 4], "bool"), "[0]", "False", ([], "")).bytes == 32 + 4 * 8
    assert call("aten::amax", x, "[0, 1]", "False").bytes == 4 * (16 * 559 * 1024 + 1024)
    assert call("aten::argmax", ([8, 4], F32), "1", "False").bytes == 128 + 8 * 8
    assert call("aten::max", ([8, 4], F32), "1", "False").bytes == 128 + 8 * 12
    assert call("aten::max", ([8, 4], F32), ([8, 4], F32)).bytes == 3 * 128
    assert work(OperatorCall("aten::mean", [[8], []], [F32, "ScalarList"])).unknown == formulas.NO_VALUES


def test_lists_of_tensors_state_no_datatype() -> None:
    tensors = ([[4, 2], [4, 6]], "TensorList")
    assert call("aten::cat", tensors, "1").unknown == formulas.NO_DATATYPE
    known = call(
        "aten::cat", tensors, "1", kernel="void CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 2>"
    )
    assert known.bytes == 2 * 32 * 2
    assert call("aten::_foreach_add_", ([], "TensorList"), "1").unknown == formulas.LONG_LIST
    lists = [([[10], [20]], "TensorList")] * 4
    optimizer = "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>"
    adam = call("aten::_fused_adamw_", *lists, ([], "TensorList"), ([[1], [1]], "TensorList"), kernel=optimizer)
    assert adam.bytes == 7 * 30 * 4


def test_what_leaves_a_part_of_its_input_out_is_no_bound_by_it() -> None:
    assert not convolution([8, 64, 56, 56], [128, 64, 1, 1], stride=2).is_bound
    assert convolution([8, 64, 56, 56], [128, 64, 2, 2], stride=2).is_bound
    sparse = call("aten::avg_pool2d", ([1, 1, 64, 64], F32), "[2, 2]", "[8, 8]", "[0, 0]", "False")
    assert sparse.bytes == 4 * (64 * 4 + 64)
    shrunk = call("aten::upsample_bilinear2d", ([1, 1, 64, 64], F32), "[8, 8]", "False")
    assert shrunk.bytes == 4 * (64 * 4 + 64)
    mixed = call(
        "aten::_foreach_copy_", ([[64]], "TensorList"), ([[64]], "TensorList"), kernel="multi_tensor<float, c10::Half>"
    )
    assert not mixed.is_bound


def test_copies_indexes_and_pools_move_what_they_must() -> None:
    assert call("aten::copy_", ([8, 4], F32), ([8, 1], BF), "False", strides=([4, 1], [1, 0], [])).bytes == 128 + 16
    assert call("aten::_to_copy", ([8], F32), "15").bytes == 8 * 6
    assert call("aten::fill_", ([8], F32), "0").bytes == 32
    looked_up = call("aten::embedding", ([1000, 64], BF), ([8], "long int"), "-1", "False", "False")
    assert (looked_up.bytes, looked_up.is_bound) == (64 + 2 * 8 * 64 * 2, False)
    pool = call("aten::max_pool2d_with_indices", ([1, 2, 8, 8], F32), "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", "False")
    assert pool.bytes == 4 * 128 + 12 * 2 * 16
    assert call("aten::_softmax", ([16, 16, 559, 559], BF), "-1", "False").bytes == 319980544


COMPLEX = "c10::complex<float>"


def test_a_complex_multiply_add_is_eight_real_operations_and_a_complex_sum_two() -> None:
    assert call("aten::mm", ([64, 32], COMPLEX), ([32, 16], COMPLEX)).flops == 8 * 64 * 32 * 16
    assert call("aten::bmm", ([4, 64, 32], COMPLEX), ([4, 32, 16], COMPLEX)).flops == 4 * 8 * 64 * 32 * 16
    sums = call("aten::addmm", ([16], COMPLEX), ([64, 32], COMPLEX), ([32, 16], COMPLEX), "1", "1")
    assert sums.flops == 8 * 64 * 32 * 16 + 2 * 64 * 16
    image, weight = ([2, 8, 16, 16], COMPLEX), ([4, 8, 3, 3], COMPLEX)
    folded = call("aten::convolution", image, weight, ([], ""), "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
    real = call("aten::convolution", (image[0], F32), (weight[0], F32), ([], ""), "[1, 1]", "[1, 1]", "[1, 1]",
                "False", "[0, 0]", "1")  # fmt: skip
    assert folded.flops == 4 * (real.flops or 0) > 0
    # By convention an elementwise operator has one operation an element, whatever its datatype.
    assert call("aten::mul", ([64, 32], COMPLEX), ([64, 32], COMPLEX)).flops == 64 * 32


def test_an_index_moves_the_rows_of_its_result_whose_shape_a_view_states() -> None:
    x, rest = ([50000, 1024], BF), ([], "")
    found = call("aten::index", x, "[65536, 1024]", "[0, 1]")
    assert (found.bytes, found.is_bound) == (2 * 2 * 65536 * 1024 + 8 * 65536, False)
    both = call("aten::index", x, "[9, 7]", "[0, 0]")
    assert both.bytes == 2 * 2 * 63 + 8 * 63
    assert call("aten::index", x, rest).unknown == "the shapes of the indices are not recorded"
    assert call("aten::index", x, "[65536, 1024]", "[0]").unknown == "the shapes of the indices are not recorded"


def test_values_that_are_put_are_read_and_written() -> None:
    x, values, index, one = ([50000, 1024], BF), ([65536, 1024], BF), ([], ""), ([], BF)
    inner = call("aten::_index_put_impl_", x, index, values, "False", "False")
    assert (inner.bytes, inner.is_bound) == (2 * 2 * 65536 * 1024, False)
    assert call("aten::index_put_", x, index, values, "False").bytes == inner.bytes
    assert call("aten::index_put", x, index, values, "False").bytes == 2 * 2 * (65536 + 50000) * 1024
    assert call("aten::_index_put_impl_", x, index, one, "False", "False").bytes is None


def test_sgd_without_momentum_has_no_third_list_and_a_first_step_only_writes_it() -> None:
    lists = ([[4, 4], [3]], "TensorList")
    none = ([], "TensorList")
    kernel = "multi_tensor_apply_kernel<TensorListMetadata<3>, FusedSgdMathFunctor<float, 3>>"

    def sgd(third: tuple[object, str], momentum: str, first: str) -> Work:
        numbers = ("0.", momentum, "0.1", "0.", "False", "False", first)
        return call("aten::_fused_sgd_", lists, lists, third, *numbers, kernel=kernel)

    assert sgd(none, "0.", "False").bytes == 4 * 19 * 3
    assert sgd(lists, "0.9", "False").bytes == 4 * 19 * 5
    assert sgd(lists, "0.9", "True").bytes == 4 * 19 * 4
    assert sgd(none, "0.9", "False").unknown == "the shapes of a list are not recorded"


def test_a_device_outside_the_table_has_what_its_file_states_and_no_peak_of_products() -> None:
    found = stated_device(
        "NVIDIA RTX 2000 Ada", units=22, arch="8.9", bytes_per_s=256e9, clock_hz=2.13e9, l2_bytes=12 << 20
    )
    assert found is not None
    assert found.peaks is not None
    assert (found.peaks.confidence, found.peaks.memory_gbps) == ("stated", 256.0)
    assert found.peaks.rates == {"fp32": pytest.approx(2 * 22 * 128 * 2.13e9 / 1e12)}
    copy = Work(0, 256_000_000, "copy", F32)
    assert reach(copy, 2e6, found).of_peak == pytest.approx(0.5)
    assert not reach(copy, 2e6, found).is_sure
    half = Work(1 << 40, 1 << 20, "matrix product", HALF)
    assert reach(half, 1e6, found, "turing_h1688gemm").of_peak is None
    assert reach(half, 1e6, found, "turing_h1688gemm").unknown


@pytest.mark.parametrize(
    ("name", "bytes_per_s", "clock", "arch"),
    [("X", 0, 1e9, "8.9"), ("X", 1e3, 1e9, "8.9"), ("X", 1e18, 1e9, "8.9"), ("NVIDIA X MIG 1g.10gb", 1e12, 1e9, "8.0")],
)
def test_a_bandwidth_that_cannot_be_or_is_of_a_whole_device_is_not_used(
    name: str, bytes_per_s: float, clock: float, arch: str
) -> None:
    assert stated_device(name, units=10, arch=arch, bytes_per_s=bytes_per_s, clock_hz=clock) is None


def test_an_unknown_architecture_or_clock_leaves_the_bandwidth() -> None:
    for arch, clock in (("99.0", 1e9), ("8.9", 0.0), ("", 1e9)):
        found = stated_device("X", units=10, arch=arch, bytes_per_s=1e12, clock_hz=clock)
        assert found is not None
        assert found.peaks is not None
        assert not found.peaks.rates


def test_kernels_of_torch_compile_have_the_bytes_of_their_tensors_and_no_bound() -> None:
    name = "triton_poi_fused__unsafe_view_mul_silu_2"
    found = call(name, ([8, 4096], BF), ([32768], BF), "32768")
    assert (found.bytes, found.flops, found.is_bound) == (2 * 2 * 32768, None, False)
    assert found.shape == "_unsafe_view_mul_silu"
    assert call("triton_tem_fused_mm_3", ([8, 8], BF)).unknown == formulas.NO_FORMULA
    assert call("triton_red_fused_mean_0", "7").unknown == formulas.NO_SHAPES


def test_an_operator_without_a_formula_or_shapes_says_so() -> None:
    assert call("aten::linear", ([4, 8], F32), ([2, 8], F32)).unknown == formulas.NO_FORMULA
    assert work(OperatorCall("aten::mm")).unknown == formulas.NO_SHAPES
    assert not has_formula("aten::__and__x")
    assert has_formula("aten::add_")
    assert has_formula("aten::__and__")
    for odd in ([1, "a"], None, "text", [[1]], [-1]):
        assert not work(OperatorCall("aten::mm", [odd, odd], [F32, F32])).is_known
    assert TensorOperand((), F32).elements == 1
    huge = [1 << 40, 1 << 40]
    assert call("aten::mm", (huge, F32), (huge, F32)).unknown == formulas.ODD_SHAPES
    assert convolution([1, 1, 4, 4], [1, 1, 3, 3], stride=0).unknown == formulas.ODD_SHAPES
    assert convolution([1, 1, 2, 2], [1, 1, 3, 3]).unknown == formulas.ODD_SHAPES
    assert not attention([1, 1, 1 << 40, 1], [1, 1, 8, 1], "True").is_known


# Peaks.


def peak(name: str, rate: str = "bf16", **size: int) -> float | None:
    found = find_device(name, **size).peaks
    return found.rates.get(rate) if found else None


def test_every_device_of_the_table_has_a_source_and_one_line() -> None:
    lines = listed_devices()
    assert len(lines) >= 56
    assert len({line.name for line in lines}) == len(lines)
    for line in lines:
        assert line.source
        assert line.confidence in (
            "sheet",
            "derived",
            "press",
            "from memory",
            "disputed",
            "measured clock",
        )
        assert line.memory_gbps > 0
        assert line.rates
        assert set(line.rates) <= set(RATES)
        assert line.best.get("bf16", 0) < line.rates.get("bf16", 1)
        if "fp8" in line.rates and "bf16" in line.rates:
            assert 0.99 <= line.rates["fp8"] / line.rates["bf16"] <= 2.03


@pytest.mark.parametrize(
    ("name", "rate", "value"),
    [
        ("NVIDIA GeForce RTX 5090", "bf16", 209.5),  # others: 838, 3352
        ("NVIDIA H100 80GB HBM3", "bf16", 989.4),  # dense; others: 1979
        ("NVIDIA H100 80GB HBM3", "fp8", 1978.9),  # others: 3958
        ("NVIDIA H100 80GB HBM3", "tf32", 494.7),  # others: 156, that of the A100
        ("NVIDIA L4", "bf16", 121.0),  # others: 242
        ("NVIDIA L40S", "bf16", 362.0),  # others look for "l40s", and take the A100's
        ("nvidia l40s", "bf16", 362.0),
        ("NVIDIA L40", "bf16", 181.0),
        ("NVIDIA RTX A6000", "bf16", 154.8),  # others: 310
        ("NVIDIA GeForce RTX 4090", "fp16", 165.2),  # others: 82.6, the vector rate
        ("NVIDIA A100-SXM4-80GB", "fp8", None),  # others: 624
        ("NVIDIA B300", "int8", None),
        ("NVIDIA B300", "fp64", 1.25),  # others take the B200's
        ("Tesla V100-SXM2-16GB", "bf16", None),
        ("AMD Instinct MI300X", "bf16", 1307.4),  # others: 708, which is measured
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "bf16", None),
        ("NVIDIA GeForce RTX 3080 Ti", "bf16", None),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "bf16", None),
        ("NVIDIA Thor", "bf16", None),  # others: the A100's 312
        ("", "bf16", None),
    ],
)
def test_what_other_tables_get_wrong(name: str, rate: str, value: float | None) -> None:
    assert peak(name, rate) == value


def test_bandwidths_are_those_of_the_device() -> None:
    rates = {"NVIDIA L4": 300, "Tesla T4": 320, "NVIDIA A100-SXM4-80GB": 2039, "Tesla P100-PCIE-16GB (0)": 732}
    assert {name: find_device(name).peaks.memory_gbps for name in rates} == rates  # type: ignore[union-attr]


def test_peaks_follow_units_clock_and_rate() -> None:
    """Products of bf16 or fp16 in one clock of one unit, by architecture; each peak is units x clock x rate."""
    per_clock = {"NVIDIA A100-SXM4-80GB": (1.41, 2048), "NVIDIA A10": (1.695, 1024), "NVIDIA L4": (2.04, 1024),
                 "NVIDIA GeForce RTX 4090": (2.52, 512), "NVIDIA H100 80GB HBM3": (1.83, 4096),
                 "NVIDIA B200": (1.856, 8192), "NVIDIA GeForce RTX 5090": (2.407, 512),
                 "AMD Instinct MI300X": (2.1, 2048), "AMD Instinct MI355X": (2.4, 4096)}  # fmt: skip
    for name, (clock, rate) in per_clock.items():
        peaks = find_device(name).peaks
        assert peaks
        assert math.isclose(peaks.units * clock * rate / 1e3, peaks.rates["bf16"], rel_tol=0.003)


def test_a_device_without_a_name_is_found_by_units_and_memory() -> None:
    gcd = find_device("AMD Radeon Graphics", units=104, memory=68702699520, arch="9.0")
    assert gcd.peaks
    assert gcd.peaks.rates["bf16"] == 181
    assert "MI210 or AMD Instinct MI250" in gcd.note
    unnamed = find_device("", units=304, memory=206141652992, arch="9.4")
    assert unnamed.peaks
    assert unnamed.peaks.name == "AMD Instinct MI300X"
    assert find_device("", units=304, memory=206141652992, arch="9.0").peaks is None
    larger = find_device("", units=304, memory=274877906944)
    assert larger.peaks
    assert larger.peaks.name == "AMD Instinct MI325X"
    assert find_device("", units=304).peaks is None
    assert find_device("AMD Radeon RX 7900 XTX", units=96).peaks is None


def test_slices_have_their_part_of_the_peaks() -> None:
    mig = find_device("NVIDIA H100 80GB HBM3 MIG 3g.40gb", units=60, memory=42_000_000_000)
    assert mig.peaks
    assert math.isclose(mig.peaks.rates["bf16"], 989.4 * 60 / 132)
    assert mig.peaks.memory_gbps == 1675
    assert "slice" in mig.note
    cpx = find_device("AMD Instinct MI300X", units=38, memory=206141652992)
    assert cpx.peaks
    assert cpx.peaks.rates["bf16"] == 1307.4 / 8
    assert cpx.peaks.memory_gbps == 5300
    assert find_device("NVIDIA H100 80GB HBM3", units=144).peaks is None


# The datatype that ran.


@pytest.mark.parametrize(
    ("datatype", "kernel", "device", "rate", "factor"),
    [
        (F32, "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32", "NVIDIA H100 80GB HBM3", "tf32", 1),
        (F32, "cutlass_80_tensorop_s1688gemm_128x128_32x3_tn_align4", "NVIDIA A100-SXM4-40GB", "tf32", 1),
        (F32, "ampere_sgemm_128x64_tn", "NVIDIA A100-SXM4-40GB", "fp32", 1),
        (F32, "void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nt_align1>", "NVIDIA A100-SXM4-40GB", "fp32", 1),
        (F32, "nvjet_sss_128x64", "NVIDIA H100 80GB HBM3", "", 1),
        (F32, "some_gemm", "Tesla V100-SXM2-16GB", "fp32", 1),
        (F32, "Cijk_Ailk_Bjlk_SB_MT64x16x16", "AMD Instinct MI300X", "fp32", 1),
        (F32, "Cijk_Ailk_Bjlk_SB_MT64x16x16", "AMD Instinct MI210", "fp32_matrix", 1),
        (HALF, "ampere_fp16_s16816gemm_fp16_128x64", "NVIDIA GeForce RTX 4090", "fp16", 1),
        (HALF, "turing_h1688gemm_128x128", "NVIDIA GeForce RTX 4090", "fp16", 2),
        (HALF, "unnamed_gemm", "NVIDIA GeForce RTX 4090", "", 1),
        (HALF, "unnamed_gemm", "NVIDIA H100 80GB HBM3", "fp16", 1),
        (BF, "anything", "NVIDIA GeForce RTX 4090", "bf16", 1),
        (BF, "cutlass_80_tensorop_bf16_spmma_gemm", "NVIDIA A100-SXM4-40GB", "bf16", 2),
        (F32, "cublas_gemm_bf16x9_emulated", "NVIDIA B200", "", 1),
        ("c10::Float8_e4m3fn", "sm90_xmma_gemm_e4m3e4m3_bf16f32", "NVIDIA H100 80GB HBM3", "fp8", 1),
        ("double", "cutlass_80_tensorop_d884gemm_64x64", "NVIDIA A100-SXM4-40GB", "fp64_matrix", 1),
        (
            "double",
            "sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16_stage3_warpsize2x2x1_tensor16x8x8_kernel",
            "NVIDIA H100 80GB HBM3",
            "fp64_matrix",
            1,
        ),
        ("c10::complex<float>", "cgemm", "NVIDIA A100-SXM4-40GB", "fp32", 1),
        ("c10::complex<float>", "sm80_xmma_gemm_cf32cf32_f32f32_cf32_nn_n_ffma", "NVIDIA H100 80GB HBM3", "fp32", 1),
        ("c10::complex<float>", "sm80_xmma_gemm_cf32cf32_tf32f32_cf32_nn", "NVIDIA A100-SXM4-40GB", "tf32", 1),
        ("c10::complex<double>", "cutlass_80_tensorop_z884gemm", "NVIDIA A100-SXM4-40GB", "fp64_matrix", 1),
        ("c10::complex<double>", "zgemm", "NVIDIA GeForce RTX 4090", "fp64", 1),
        ("c10::complex<c10::Half>", "cgemm", "NVIDIA A100-SXM4-40GB", "", 1),
    ],
)
def test_the_kernel_tells_the_rate(datatype: str, kernel: str, device: str, rate: str, factor: float) -> None:
    found = datatype_that_ran(datatype, kernel, find_device(device).peaks)
    assert (found.rate, found.factor) == (rate, factor)
    assert bool(found.unknown) == (not rate)


# Floors.

H100 = find_device("NVIDIA H100 80GB HBM3")


def test_the_floor_is_the_larger_of_both_limits() -> None:
    product = call("aten::mm", ([4096, 4096], BF), ([4096, 4096], BF))
    ns = 2 * 4096**3 / 989.4e12 * 1e9
    found = reach(product, ns / 0.6, H100, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 1)
    assert found.floor_ns == pytest.approx(ns)
    assert found.limit is Limit.COMPUTE
    assert found.of_peak == pytest.approx(0.6)
    assert found.of_best == pytest.approx(0.6 * 989.4 / 794.5)
    assert found.could_save_ns == pytest.approx(ns / 0.6 - ns)
    moved = reach(call("aten::add", ([1 << 28], BF), ([1 << 28], BF), "1"), 1e6, H100, "add")
    assert moved.floor_ns == pytest.approx(3 * 2**29 / 3350e9 * 1e9)
    assert moved.limit is Limit.MEMORY
    assert reach(product, ns * 20, H100, "gemm").limit is Limit.FAR


def test_flops_by_convention_never_decide() -> None:
    many = Work(10**15, 1 << 20, "elementwise", F32)
    found = reach(many, 1e6, H100)
    assert found.floor_ns == pytest.approx((1 << 20) / 3350e9 * 1e9)
    assert found.rate == ""


def test_what_is_quicker_than_its_floor_is_said_and_not_clipped() -> None:
    cached = reach(call("aten::add", ([1 << 20], BF), ([1 << 20], BF), "1"), 1000, H100)
    assert cached.limit is Limit.CACHE
    assert cached.of_peak is None
    assert (cached.floor_ns or 0) > 1000
    assert "cache" in cached.unknown
    less = reach(
        convolution([32, 256, 56, 56], [256, 256, 3, 3], padding=1), 1e6, H100, "sgemm_winograd_f32f32_f32f32_f32"
    )
    assert less.limit is Limit.LESS_WORK
    assert less.of_peak is None
    assert "Winograd" in less.unknown


def test_without_a_peak_there_is_no_percentage_and_a_reason() -> None:
    product = call("aten::mm", ([4096, 4096], F32), ([4096, 4096], F32))
    unknown_device = reach(product, 1e6, find_device("NVIDIA Thor"), "sgemm")
    assert unknown_device.floor_ns is None
    assert "no peaks" in unknown_device.unknown
    unknown_type = reach(product, 1e6, H100, "nvjet_sss")
    assert unknown_type.floor_ns is None
    assert "TF32" in unknown_type.unknown
    assert reach(Work(unknown="because"), 1e6, H100).unknown == "because"
    old = reach(call("aten::mm", ([64, 64], BF), ([64, 64], BF)), 1e6, find_device("Tesla V100-SXM2-16GB"), "gemm")
    assert old.floor_ns is None
    assert "no peak of bf16" in old.unknown
    assert roof(RatedDevice("x"), "bf16") is None


@pytest.mark.parametrize(
    ("kernel", "factor"),
    [
        ("_ZN2ck16kernel_grouped_convIJSM_SN_SO_SP_SQ_EEENS6_IJSW_SP_SQ_EEEEvT_", 1),
        ("_ZN7cutlass6KernelISP_EEvT_", 1),
        ("_ZN2ck20kernel_batched_gemmILb0EEESR_SP_SP_NSL_IiEE", 1),
        ("sm80_xmma_sparse_gemm_bf16bf16_bf16f32_f32_tn_n", 2),
        ("cutlass_80_tensorop_bf16_sp_s16832gemm_bf16_128x64", 2),
        ("spmma_kernel", 2),
    ],
)
def test_substitutions_of_mangled_names_are_no_sparse_products(kernel: str, factor: int) -> None:
    assert datatype_that_ran(BF, kernel, find_device("AMD Instinct MI300X").peaks).factor == factor

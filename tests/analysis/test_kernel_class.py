from __future__ import annotations

import doctest
import random
import re

import numpy as np
import pytest
from small_limits import Limit, small

from tracekit.analysis import kernel_class
from tracekit.analysis.kernel_class import RULES, KernelClass, class_codes, classify, parse_rules

KNOWN = {
    "collective": (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "void rcclGenericKernel<1, false>(ncclDevComm*)",
        "void deep_ep::intranode::dispatch<8, 768>(int4*, float*)",
        "void vllm::cross_device_reduce_1stage<__half, 8>(vllm::RankData*)",
        "void nvshmemi_proxy_quiet_kernel(bool)",
        "%all-reduce.1 = f32[5]{0:T(8,128)} all-reduce(f32[5]{0} %x), replica_groups={{0,1}}", "all-gather-start.3",
        "%psum = (f32[5]{0}, u32[]) collective-permute-done((f32[5]{0}) %y)", "%recv-done = f32[5]{0} recv-done(%z)",
        "one_shot_all_reduce_kernel", "hcom_allReduce__123", "oneccl_allreduce_small", "mpi_reduce_kernel",
    ),
    "gemm": (
        "ampere_sgemm_128x64_nn", "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(int)",
        "Cijk_Ailk_Bjlk_SB_MT64x16x16_MI16x16x1", "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", "triton_tem_fused_mm_3",
        "void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", "void gemvNSP_kernel<float>()",
        "void mul_mat_q<(ggml_type)12, 128, false>(char const*, int const*)", "mul_mat_vec_q4_0_q8_1_cuda",
    ),
    "conv": (
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_nhwckrsc_nchw_tilesize128x128x16_cudnn",
        "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<>()",
        "void conv2d_grouped_direct_kernel<float>()", "void at::native::im2col_kernel<float>(long)",
    ),
    "attention": (
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention)", "void paged_attention_v2_kernel<half>()",
        "triton_tem_fused_flex_attention_0",
    ),
    "elementwise": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array<char*, 3> >",
        "void axpy_kernel_val<float, 0>(cublasAxpyParamsVal<float, float, float>)",
        "void scal_kernel_val<float, float, 0>(cublasScalParamsVal<float, float>)",
        "%broadcast_add_fusion.1 = f32[5]{0:T(8,128)} fusion(f32[5]{0:T(8,128)} %copy-done.2), calls=%computation.1",
        "%add.7 = (f32[5]{0}, u32[]) add(f32[5]{0} %all-reduce.1, f32[5]{0} %sort.4)",
        "triton_poi_fused_all_reduce_add_relu_0", "AddKernel(float const*, float const*, int)", "relu-dtype_Float",
    ),
    "reduction": (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float> > >()",
        "triton_red_fused_mean_2", "void cub::DeviceScanKernel<int>()", "void dot_kernel<float, 128>(cublasDotParams)",
        "triton_per_fused_sum_1",
    ),
    "normalization": (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 128, true, 1, true>()",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>()",
        "triton_red_fused_native_layer_norm_3", "void vllm::rms_norm_kernel<c10::Half>()",
    ),
    "embedding/index": (
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>()",
        "void at::native::index_elementwise_kernel<128, 4>()", "void embedding_backward_kernel<float>()",
        "void at::native::_scatter_gather_elementwise_kernel<256>()",
    ),
    "sort": (
        "void cub::DeviceRadixSortOnesweepKernel<int>()", "void at::native::bitonicSortKVInPlace<2>()", "topk_kernel",
    ),
    "rng": (
        "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>()",
        "void at::native::fused_dropout_kernel_vec<float>()",
    ),
    "copy-like": (
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>()",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<>()",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, Array<char*, 1> >()",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>()",
    ),
    "optimizer": (
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>()",
        "void apex::sgd_kernel<float>()", "ApplyMomentumKernel",
    ),
    "other": ("lattice_step(float*, int)", "ray_march", "", "k(unsigned*)", "compile_gloom"),
}  # fmt: skip


def test_examples_of_the_documentation() -> None:
    outcome = doctest.testmod(kernel_class)
    assert outcome.attempted >= 2
    assert outcome.failed == 0


@pytest.mark.parametrize(("name", "wanted"), [(n, c) for c, names in KNOWN.items() for n in names])
def test_a_kernel_of_a_known_library_has_its_class(name: str, wanted: str) -> None:
    assert [str(c) for c in classify([name])] == [wanted]


def test_every_class_has_a_rule_and_every_pattern_is_one() -> None:
    assert {rule.kernel_class for rule in RULES} == set(KernelClass) - {KernelClass.OTHER}
    for rule in RULES:
        assert re.compile(rule.pattern).groups == 0


@pytest.mark.parametrize(
    "name",
    [
        "%fusion.2 = f32[5]{0} fusion(f32[5]{0} %all-reduce.1), kind=kLoop", "%send_buffer_add.1",
        "triton_poi_fused_all_reduce_copy_3", "void convert_fp8_kernel<float>()", "void fbgemm::bounds_check_kernel()",
        "void broadcast_add_kernel<float>()", "success_kernel", "scatter_reduce_kernel", "gatherTopK",
        "void at::native::elementwise_kernel<128, 2, gpu_kernel_impl<compare_nccl_free>>()",
    ],
)  # fmt: skip
def test_a_word_inside_another_makes_no_collective(name: str) -> None:
    assert classify([name]) != [KernelClass.COLLECTIVE]


def test_only_names_in_use_are_looked_at_and_rows_without_a_name_are_other() -> None:
    order = list(KernelClass)
    found = class_codes(["sgemm", "ncclDevKernel_X", "(" * 10_000], np.array([1, -1, 0, 1]))
    assert [order[c] for c in found.tolist()] == ["collective", "other", "gemm", "collective"]
    assert class_codes([], np.empty(0, np.int64)).size == 0
    assert class_codes(["sgemm"], np.array([-1])).tolist() == [order.index(KernelClass.OTHER)]
    assert [order[c] for c in class_codes(["sgemm", "relu"], np.array([-1, 0, -1])).tolist()] == [
        "other",
        "gemm",
        "other",
    ]


def test_a_name_of_any_length_costs_no_more_than_its_beginning() -> None:
    assert classify(["k<" + "A<" * 5_000_000 + "gemm", None]) == [KernelClass.OTHER] * 2


def test_a_word_counts_where_all_of_it_is_in_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.KERNEL_CLASS_NAME, 8)
    assert [str(c) for c in classify(["abcdgemm", "abcdegemm"])] == ["gemm", "other"]


def test_a_name_that_comes_again_has_its_class_again() -> None:
    assert [str(c) for c in classify(["sgemm", "relu", None, "sgemm", None])] == [
        "gemm", "elementwise", "other", "gemm", "other",
    ]  # fmt: skip


def test_rules_of_the_user_stand_before_those_of_the_package() -> None:
    rules = (*parse_rules({"collective": ["^my_ring_", "sgemm_over_wire"], "other": "^noise"}), *RULES)
    names = ["my_ring_gemm", "SGEMM_over_wire", "noise_gemm", "sgemm"]
    assert [str(c) for c in classify(names, rules)] == ["collective", "collective", "other", "gemm"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"gemmm": "x"}, "gemmm: no such class"),
        ({"gemm": 3}, "gemm: a pattern or a list"),
        ({"gemm": ["a", ""]}, "gemm: a pattern or a list"),
        ({"conv": "("}, "is not a valid regular expression"),
        ({"conv": "a{99999999999999999999}"}, "is not a valid regular expression"),
    ],
)
def test_a_table_that_holds_no_rules_is_refused_in_words(table: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_rules(table)


def test_any_name_has_the_class_that_the_patterns_give_in_python() -> None:
    words = sorted({word for rule in RULES for word in re.findall(r"[A-Za-z0-9]+", rule.pattern)})
    glue = [
        "",
        "",
        "_",
        "::",
        "<",
        "(",
        " ",
        "-",
        ".",
        "%",
        "2",
        "7",
        "A",
        "z",
        "fb",
        "ert",
        "\n",
        "\x1c",
        "é",
        "ſ",
        "\u212a",
    ]
    draw = random.Random(5)
    names = [
        "".join(
            draw.choice(glue) + draw.choice((str.lower, str.upper, str.title))(draw.choice(words))
            for _ in range(draw.randrange(1, 4))
        )
        + draw.choice(glue)
        for _ in range(4000)
    ] + ["void " + word for word in words]
    compiled = [(rule.kernel_class, re.compile(rule.pattern, re.IGNORECASE)) for rule in RULES]
    expected = [next((c for c, pattern in compiled if pattern.search(name)), KernelClass.OTHER) for name in names]
    assert classify(names) == expected
    assert set(expected) == set(KernelClass)

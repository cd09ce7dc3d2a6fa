"""Names of kernels and the streams that the simulated programs use."""

from __future__ import annotations

COMPUTE, COPIES, COMM = 7, 13, 20
ATTENTION = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>, false>"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar, std::array<char*, 2ul>>"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>"
MASKED = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::masked_fill>>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
MULTI = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>>"
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>"
SCAN = "void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float>>"
SORT = "void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long, at::native::LTOp<float, true>, unsigned int>"
SGEMM = "ampere_sgemm_128x64_tn"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
_TILES = ("64x128x64", "128x128x64", "128x192x64", "128x256x64", "256x128x64")


def gemm(layer: int, operands: str = "tn") -> str:
    """Return the kernel of a matrix product: as in real programs, layers of other shapes have other kernels."""
    tile = _TILES[layer % len(_TILES)]
    return (
        f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_{operands}_n_tilesize{tile}_warpgroupsize1x1x1_execute_kernel__5x_cublas"
    )

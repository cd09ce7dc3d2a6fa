"""The kernels of the run: names of every shape, as nvprof prints them and as the linker knows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kernel:
    """The facts of every launch. `nvprof`: the name as nvprof prints it; `mangled`: as the driver has it."""

    nvprof: str
    mangled: str
    block: tuple[int, int, int]
    registers: int
    static_smem: int
    dynamic_smem: int
    occupancy: float


def _kernels() -> dict[str, Kernel]:
    """Names of every shape: plain, templates in templates, lambdas in three spellings, unnamed namespaces.

    The mangled forms are what g++ 12 makes of declarations with these names; the plain ones are assembly kernels.
    """
    table = [
        ("conv", "maxwell_scudnn_128x64_relu_interior_nn_v1", "", (128, 1, 1), 128, 12288, 0, 0.250),
        (
            "bn",
            (
                "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int=512, bool=1, int=1>(cudnnTensorStruct, "
                "float const *, cudnnTensorStruct, float*, float const *, float, float)"
            ),
            "_ZN5cudnn25bn_fw_tr_1C11_kernel_NCHWIffLi512ELb1ELi1EEEv17cudnnTensorStructPKT_S1_PS2_PKT0_S6_S6_",
            (512, 1, 1),
            29,
            2152,
            0,
            1.0,
        ),
        (
            "relu",
            (
                "void at::native::vectorized_elementwise_kernel<int=4, "
                "at::native::relu_kernel(at::TensorIterator&)::{lambda(float)#1}, at::detail::Array<char*, "
                "int=2>>(int, at::native::relu_kernel(at::TensorIterator&)::{lambda(float)#1}, "
                "at::detail::Array<char*, int=2>)"
            ),
            (
                "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_11relu_kernelERNS_14TensorIteratorEEUlfE_N"
                "S_6detail5ArrayIPcLi2EEEEEviT0_T1_"
            ),
            (64, 1, 1),
            20,
            0,
            0,
            1.0,
        ),
        (
            "pool",
            (
                "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int, float const *, "
                "int, int, int, int, int, float*, long*)"
            ),
            "_ZN2at6native12_GLOBAL__N_121max_pool_forward_nchwIffEEviPKT_iiiiiPS3_Pl",
            (256, 1, 1),
            32,
            0,
            0,
            0.938,
        ),
        ("gemm", "maxwell_sgemm_128x64_tn", "", (128, 1, 1), 122, 12544, 0, 0.250),
        (
            "softmax",
            (
                "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, int=4, "
                "bool=1>(float*, float const *, int, int, int)"
            ),
            "_ZN2at6native12_GLOBAL__N_120softmax_warp_forwardIfffLi4ELb1EEEvPT0_PKT_iii",
            (32, 4, 1),
            24,
            0,
            0,
            0.5,
        ),
        (
            "loss",
            (
                "void cunn_ClassNLLCriterion_updateOutput_kernel<float, float>(float*, float*, float*, long*, "
                "float*, int, int, int, int, long)"
            ),
            "_Z42cunn_ClassNLLCriterion_updateOutput_kernelIffEvPT_S1_S1_PlS1_iiiil",
            (32, 1, 1),
            32,
            260,
            0,
            0.016,
        ),
        (
            "mse",
            (
                "void at::native::vectorized_elementwise_kernel<int=4, at::native::mse_backward<float, "
                "int>(at::TensorIterator&)::[lambda(float, float) (instance 1)], at::detail::Array<char*, "
                "int=3>>(int, float, float)"
            ),
            (
                "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_12mse_backwardIfiEEvRNS_14TensorIteratorEE"
                "UlffE_NS_6detail5ArrayIPcLi3EEEEEviT0_T1_"
            ),
            (64, 1, 1),
            20,
            0,
            0,
            1.0,
        ),
        (
            "dgrad",
            (
                "void cudnn::detail::dgrad_engine<float, int=128, int=6, int=7, int=3, int=3, int=5, "
                "bool=1>(int, int, int, float const *, int, float const *, int, float*, "
                "cudnn::detail::kernel_grad_params, int, int, float, int, int)"
            ),
            "_ZN5cudnn6detail12dgrad_engineIfLi128ELi6ELi7ELi3ELi3ELi5ELb1EEEviiiPKT_iS4_iPS2_NS0_18kernel_grad_paramsEiifii",
            (8, 8, 1),
            64,
            5632,
            0,
            0.5,
        ),
        (
            "wgrad",
            (
                "void cudnn::detail::wgrad_alg0_engine<float, int=512, int=6, int=5, int=3, int=3, bool=1, "
                "int=512>(int, int, int, float const *, int, float*, float const *, "
                "cudnn::detail::kernel_grad_params, int, float, int, int, int, int)"
            ),
            (
                "_ZN5cudnn6detail17wgrad_alg0_engineIfLi512ELi6ELi5ELi3ELi3ELb1ELi512EEEviiiPKT_iPS2_S4_NS0_18ker"
                "nel_grad_paramsEifiiii"
            ),
            (16, 16, 1),
            80,
            8192,
            0,
            0.375,
        ),
        (
            "fill",
            (
                "void "
                "thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust:"
                ":cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<float>, float>, unsigned long>, "
                "thrust::cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<float>, float>, unsigned "
                "long>(thrust::device_ptr<float>, float)"
            ),
            (
                "_ZN6thrust8cuda_cub4core13_kernel_agentINS0_14__parallel_for16ParallelForAgentINS0_20__uninitial"
                "ized_fill7functorINS_10device_ptrIfEEfEEmEES9_mEEvT0_T1_"
            ),
            (256, 1, 1),
            14,
            0,
            0,
            1.0,
        ),
        (
            "sgd",
            (
                "void multi_tensor_apply_kernel<TensorListMetadata<int=3>, SGDFunctor<float>, float, float>(int, "
                "int volatile *, TensorListMetadata<int=3>, SGDFunctor<float>, float, float)"
            ),
            "_Z25multi_tensor_apply_kernelI18TensorListMetadataILi3EE10SGDFunctorIfEJffEEviPViT_T0_DpT1_",
            (512, 1, 1),
            40,
            0,
            64,
            0.75,
        ),
        # nvprof prints some names as the linker knows them: it gives up on what its demangler does not understand
        (
            "sort",
            "_Z11sort_pointsIXadL_Zlt5PointS0_EEEvPKS0_i",
            "_Z11sort_pointsIXadL_Zlt5PointS0_EEEvPKS0_i",
            (128, 1, 1),
            18,
            1024,
            0,
            1.0,
        ),
    ]
    return {
        key: Kernel(nvprof, mangled or nvprof, block, registers, static, dynamic, occupancy)
        for key, nvprof, mangled, block, registers, static, dynamic, occupancy in table
    }


KERNELS = _kernels()

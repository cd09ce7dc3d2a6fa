"""The rate that counts for a product: which units computed it, and in which precision.

The datatype of the operands does not tell: fp32 operands may run as TF32 on tensor cores or as fp32 on the plain ones,
and a GeForce multiplies fp16 half as fast where it accumulates in fp32. The name of the kernel does, in most cases;
where it does not, the rate is unknown.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tracekit.analysis.efficiency.devices import DevicePeaks
from tracekit.analysis.efficiency.formulas import ATTENTION
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern

__all__ = ["RateThatRan", "datatype_that_ran", "names_a_datatype"]

_TF32 = lazy_pattern(r"tf32|tensorop_s1688|(?<![a-z0-9])s1688|tensor16x8x8|tensorop_f32_s1688", re.IGNORECASE)
_PLAIN = lazy_pattern(
    r"(?<![a-z0-9])[sc]gemm|simt|ffma|f32f32_f32f32_f32|scudnn|gemmSN.*<float|gemv|winograd.*(?:fp32|sgemm|_f32)"
    r"|gemmk1_kernel|(?<![a-z])dot_kernel|splitk_sgemm",
    re.IGNORECASE,
)
_SHORT = lazy_pattern(r"(?<![a-z0-9])h(?:884|1688|16816)|f16f16_f16f16_f16(?!f?32)|(?<![a-z])hgemm", re.IGNORECASE)
_LONG = lazy_pattern(
    r"(?<![a-z0-9])s(?:884|1688|16816|161616)|f16f16_f16f32_f32|f16f16_f32f32_f32|nvjet_(?:\w+_)?hs[hs]|flash|fmha"
    r"|fp16_s|f16_s16816|f16_s1688|f16_s884",
    re.IGNORECASE,
)
_SPARSE = lazy_pattern(r"(?<![a-z0-9])sp_|_sp_|(?i:spmma|cusparselt|sparse_gemm|spgemm)")
"""`sp_` in small letters: `SP_` in a mangled name stands for a part that is repeated."""
_EMULATED = lazy_pattern(r"bf16x[369]|ozaki|emulat|3xtf32|fast_?f32", re.IGNORECASE)
_FP64_UNITS = lazy_pattern(r"dmma|(?<![a-z0-9])[dz]884|tensorop_[dz]|f64c?f64_f64f64.*_tensor[0-9]", re.IGNORECASE)
_PLAIN_FP64 = lazy_pattern(r"simt_d|dgemm_(?:\d|lds|largek)|(?<![a-z0-9])[dz]gemm", re.IGNORECASE)

_FIXED = {"c10::BFloat16": "bf16", "signed char": "int8", "unsigned char": "int8", "char": "int8"}
_PARTS = {"c10::complex<float>": "float", "c10::complex<double>": "double"}
_DATATYPES = {"float": "fp32", "double": "fp64", "c10::Half": "fp16"}


@dataclass(frozen=True, slots=True)
class RateThatRan:
    """A rate of `devices.tsv`, "" where unknown; unknown says why. factor: of its peak."""

    rate: str = ""
    factor: float = 1.0
    unknown: str = ""


@lru_cache(maxsize=8192)
def names_a_datatype(kernel: str) -> bool:
    """Return whether the name of a kernel says in which precision it multiplies."""
    return any(pattern.search(kernel) for pattern in (_TF32, _PLAIN, _SHORT, _LONG, _FP64_UNITS))


def datatype_that_ran(datatype: str, kernel: str, device: DevicePeaks | None, family: str = "") -> RateThatRan:
    """Return the rate of a product of operands of this datatype by a kernel of this name.

    >>> datatype_that_ran("float", "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n", None).rate
    'tf32'
    """
    found = _by_names(datatype, kernel, device, family)
    if found.rate and _SPARSE.search(kernel):
        # Structured sparsity skips half of the operands.
        return RateThatRan(found.rate, found.factor * 2)
    return found


def _by_names(datatype: str, kernel: str, device: DevicePeaks | None, family: str) -> RateThatRan:
    if _EMULATED.search(kernel):
        return RateThatRan(unknown="the kernel emulates its precision")
    if datatype in _FIXED:
        return RateThatRan(_FIXED[datatype])
    if "Float8" in datatype:
        return RateThatRan("fp8")
    if "Float4" in datatype:
        return RateThatRan("fp4")
    # Complex numbers are multiplied by the units of their parts.
    datatype = _PARTS.get(datatype, datatype)
    if datatype == "float":
        return _of_fp32(kernel, device)
    if datatype == "double":
        return _of_fp64(kernel, device)
    if datatype == "c10::Half":
        return _of_fp16(kernel, device, family)
    return RateThatRan(unknown="no peak is known for this datatype" if datatype else "the datatype is not recorded")


def _of_fp32(kernel: str, device: DevicePeaks | None) -> RateThatRan:
    if _TF32.search(kernel):
        return RateThatRan("tf32")
    if device is not None and device.arch.startswith("gfx"):
        # Matrix units of AMD take fp32 as it is; where both units have one rate, it does not matter which ran.
        matrix = device.rates.get("fp32_matrix")
        if re.search(r"xf32|_XF?32_", kernel):
            return RateThatRan("tf32")
        if matrix is None or matrix == device.rates.get("fp32") or "cijk" not in kernel.lower():
            return RateThatRan("fp32") if matrix == device.rates.get("fp32") else _units_unknown()
        return RateThatRan("fp32_matrix")
    if _PLAIN.search(kernel):
        return RateThatRan("fp32")
    if device is not None and "tf32" not in device.rates and device.arch[:1] in ("6", "7"):
        return RateThatRan("fp32")
    return RateThatRan(unknown="TF32 or fp32: the name of the kernel does not say")


def _of_fp64(kernel: str, device: DevicePeaks | None) -> RateThatRan:
    matrix = device.rates.get("fp64_matrix") if device is not None else None
    if _FP64_UNITS.search(kernel):
        return RateThatRan("fp64_matrix")
    if device is not None and (matrix is None or matrix == device.rates.get("fp64")):
        return RateThatRan("fp64")
    return _units_unknown()


def _of_fp16(kernel: str, device: DevicePeaks | None, family: str) -> RateThatRan:
    short = device.fp16_short if device is not None else 1.0
    if short == 1.0:
        return RateThatRan("fp16")
    if _SHORT.search(kernel) and not _LONG.search(kernel):
        return RateThatRan("fp16", short)
    if _LONG.search(kernel) or family == ATTENTION:
        return RateThatRan("fp16")
    return RateThatRan(unknown="fp16 or fp32 sums: the name of the kernel does not say")


def _units_unknown() -> RateThatRan:
    return RateThatRan(unknown="tensor cores or not: the name of the kernel does not say")

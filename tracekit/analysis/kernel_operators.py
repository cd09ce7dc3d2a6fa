"""Agreement of kernels with operators, by their names: `aten::gelu` and `GeluCUDAKernelImpl` agree.

A name is weak evidence alone. A sequence of kernels that agrees with a sequence of operators node by node, and does not
when one of them is moved by a place, is strong evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.analysis.efficiency.formulas import ATTENTION, CONVOLUTION, DEFINED, family_of
from tracekit.analysis.kernel_class import LONGEST_NAME, RULES, KernelClass, classify
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.arrow import I64

__all__ = ["agreement", "agrees_in_order"]

_AROUND = lazy_pattern(r"^(?:native|cudnn|miopen|foreach|fused|thnn|to)_|_(?:backward|forward|out|impl)\d*$")
_NO_LETTERS = lazy_pattern(r"[^a-z0-9]")
_SHORTEST = 3
_PRODUCTS = (KernelClass.GEMM, KernelClass.CONV, KernelClass.ATTENTION)
_LEAST = 0.5
"""The least part of the kernels whose names agree with those of their operators."""


def agreement(operator: str, kernel: str) -> int:
    """Return 1 where the name of a kernel agrees with that of its operator, -1 where it cannot be of it, else 0.

    >>> agreement("aten::gelu", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>")
    1
    >>> agreement("aten::addmm", "nvjet_sm90_tst_72x64_64x12_1x2_h_bz_bias_TNN"), agreement("aten::add", "nvjet_tst")
    (1, -1)
    >>> agreement("aten::relu", "void at::native::elementwise_kernel<128, 2, launch_clamp_scalar>")
    0
    """
    kernel = kernel[:LONGEST_NAME]
    word = operator.rpartition("::")[2].strip("_")
    while (shorter := _AROUND.sub("", word)) not in (word, ""):
        word = shorter
    letters = _NO_LETTERS.sub("", word.lower())
    if len(letters) >= _SHORTEST and letters in _NO_LETTERS.sub("", kernel.lower()):
        return 1
    sort = classify([kernel], RULES)[0]
    family = family_of(operator)
    if sort not in _PRODUCTS or not family:
        return 0
    if family not in DEFINED:
        return -1
    # Libraries compute convolutions and attention with products too.
    special = {CONVOLUTION: KernelClass.CONV, ATTENTION: KernelClass.ATTENTION}.get(family, KernelClass.GEMM)
    return 1 if sort in (special, KernelClass.GEMM) else -1


def agrees_in_order(operators: Sequence[str], kernels: Sequence[str]) -> bool:
    """Return whether kernels are those of these operators, one by one: most names agree, none contradicts.

    With one of the sequences moved by a place, fewer of them agree; else names would say nothing about the order.
    """
    known: dict[tuple[str, str], int] = {}

    def scores(moved: int) -> I64:
        pairs = zip(operators, (*kernels[moved:], *kernels[:moved]), strict=True)
        return np.array([known.setdefault(pair, agreement(*pair)) for pair in pairs], np.int64)

    found = scores(0)
    if not found.size or (found < 0).any() or found.sum() < _LEAST * found.size:
        return False
    return found.size == 1 or all(int(scores(moved).sum()) < int(found.sum()) for moved in (1, -1))

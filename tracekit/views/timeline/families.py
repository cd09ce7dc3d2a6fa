"""Families of kernels and operators on the timeline, so that a pattern of layers can be seen by its colours.

A family is one or several classes of `analysis.kernel_class`: a kernel has the class that the kernel table shows, and
an operator the class that its own name suggests. A name that fits no rule keeps its plain kind.
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.kernel_class import OPERATOR_RULES, KernelClass, class_codes
from tracekit.index.kernel_classes import class_of_names
from tracekit.index.trace_index import TraceIndex
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.schema import Kind
from tracekit.model.timeline import family_kind

__all__ = ["families"]

_KERNELS = {
    KernelClass.GEMM: "gemm",
    KernelClass.CONV: "conv",
    KernelClass.ATTENTION: "attention",
    KernelClass.NORMALIZATION: "normalization",
    KernelClass.ELEMENTWISE: "elementwise",
    KernelClass.REDUCTION: "reduction",
    KernelClass.COPY_LIKE: "data movement",
    KernelClass.EMBEDDING_INDEX: "data movement",
    KernelClass.SORT: "data movement",
    KernelClass.OPTIMIZER: "optimizer",
    KernelClass.COLLECTIVE: "communication",
}
# The quiet tones of operators are fewer: what computes most is one family.
_OPERATORS = {
    KernelClass.GEMM: "matrix",
    KernelClass.CONV: "matrix",
    KernelClass.ATTENTION: "matrix",
    KernelClass.NORMALIZATION: "normalization",
    KernelClass.ELEMENTWISE: "elementwise",
    KernelClass.COPY_LIKE: "data movement",
    KernelClass.EMBEDDING_INDEX: "data movement",
    KernelClass.SORT: "data movement",
    KernelClass.COLLECTIVE: "communication",
}


def families(index: TraceIndex, pairs: I64, width: int) -> tuple[I64, tuple[str, ...]]:
    """Return the class of each pair (name + 1) * width + kind, and the texts of all classes.

    A class is a kind, or a family of one: `width` and more are families.
    """
    texts = list(index.texts("kind")[1])
    names, kinds = pairs // width - 1, pairs % width
    classes = kinds.copy()
    order = list(KernelClass)
    for kind, words in ((Kind.KERNEL, _KERNELS), (Kind.OPERATOR, _OPERATORS), (Kind.OPERATOR_INNER, _OPERATORS)):
        mine = np.flatnonzero(kinds == texts.index(kind)) if kind in texts else names[:0]
        if not mine.size:
            continue
        if kind == Kind.KERNEL:
            found = class_of_names(index, names[mine])
        else:
            found = class_codes(index.texts("name")[1], names[mine], OPERATOR_RULES)
        for place in sets.unique(found).tolist():
            if (word := words.get(order[place])) is None:
                continue
            text = family_kind(word, kind)
            if text not in texts:
                texts += [""] * max(width - len(texts), 0) + [text]
            classes[mine[found == place]] = texts.index(text)
    return classes, tuple(texts)

"""The class of a kernel, by its name: gemm, conv, attention, collective ...; the table is data, and users extend it.

A kernel has the class of the first rule whose pattern is found anywhere in its name, in capitals or not; without one,
"other". Rules of the user come before the rules here. A trace does not say what a kernel does, so a class is a guess
from its name, made the same way everywhere: only the patterns decide. Whether a kernel communicates decides sums
(exposed communication, overlap), so the rule for "collective" asks for a library's own prefix, or a whole word for what
a collective does.

Sources of the names: kernels of the profiler files that the tests name; NCCL and RCCL (src/device: ncclKernel_,
ncclDevKernel_, before 2.18 ncclAllReduceRingLLKernel), NVSHMEM (nvshmemi_, nvshmem_), DeepEP (csrc/kernels:
deep_ep::intranode::dispatch), vLLM and TensorRT-LLM (cross_device_reduce_1stage, oneShotAllReduceKernel), PyTorch's
symmetric memory (one_shot_all_reduce, multimem_all_reduce) and TorchInductor's prefixes (triton_poi: pointwise;
triton_red, triton_per: reductions; triton_tem: templates), cuBLAS, cuDNN, CUTLASS, Tensile (Cijk_), MIOpen, CUB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow
from tracekit.model.arrow import I64, pc

__all__ = [
    "LONGEST_NAME",
    "OPERATOR_RULES",
    "RULES",
    "ClassRule",
    "KernelClass",
    "class_codes",
    "classify",
    "parse_rules",
]

LONGEST_NAME = 4096
"""Characters of a name that are looked at: template arguments behind them add nothing, and names of 142 MB exist."""


class KernelClass(StrEnum):
    """The classes of kernels: the closed list behind each rule."""

    GEMM = "gemm"
    CONV = "conv"
    ATTENTION = "attention"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    NORMALIZATION = "normalization"
    EMBEDDING_INDEX = "embedding/index"
    SORT = "sort"
    RNG = "rng"
    COLLECTIVE = "collective"
    COPY_LIKE = "copy-like"
    OPTIMIZER = "optimizer"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ClassRule:
    """One line of the table: a kernel whose name has a match of `pattern` (a regular expression) is of this class."""

    kernel_class: KernelClass
    pattern: str


# "(?<![a-z])" and "(?![a-z])" mean "at the border of a word": names join words by "_", "::", digits and capitals.
RULES: tuple[ClassRule, ...] = (
    # TorchInductor names a kernel after all operators fused into it, so its prefix decides, and the operators do not.
    ClassRule(KernelClass.ATTENTION, r"^triton_\w*(?:flex_attention|sdpa)"),
    ClassRule(KernelClass.CONV, r"^triton_tem_\w*conv"),
    ClassRule(KernelClass.GEMM, r"^triton_(?:tem_|mm|bmm)"),
    ClassRule(KernelClass.NORMALIZATION, r"^triton_(?:red|per)_\w*(?:_norm|softmax)"),
    ClassRule(KernelClass.REDUCTION, r"^triton_(?:red|per|split_scan)_"),
    ClassRule(KernelClass.ELEMENTWISE, r"^triton_(?:poi|for)_"),
    ClassRule(
        KernelClass.COLLECTIVE,
        r"^(?:void )?(?:\w+::)*(?:nccl|rccl|msccl|xccl|oneccl|hccl|hcom_|bkcl|gloo|mpi_|ucc_|nvshmem)"
        r"|(?<![a-z])deep_ep(?![a-z])|cross_device_reduce|multimem_\w*(?:reduce|gather)"
        r"|(?<![a-z])(?:one|two)_?shot_?all_?reduce|(?<![a-z])all_?reduce(?:_|kernel|<|\(|$)"
        r"|(?<![a-z])(?:all_?gather|reduce_?scatter|all_?to_?all)(?:_kernel|kernel|v?<|v?\(|v?$)"
        r"|(?:^%?|\s)(?:(?:ragged-)?all-to-all|all-reduce|all-gather|reduce-scatter|collective-(?:permute|broadcast)"
        r"|send|recv)(?:-start|-done)?(?:\(|[.\d]*$)"
        # XLA fuses a collective with what scatters or awaits its result: the name of the op says it.
        r"|^%(?:async-collective|(?:ragged-)?all-to-all|all-reduce|all-gather|reduce-scatter|collective-permute)"
        r"(?:-scatter)?(?:-start|-done|\.clone)*[.\d]*(?: = |$)",
    ),
    ClassRule(KernelClass.ATTENTION, r"flash|fmha|(?<![a-z])mha(?![a-z])|attention|attn|(?<![a-z])mla_"),
    ClassRule(
        KernelClass.OPTIMIZER,
        r"adam|adagrad|adadelta|rmsprop|(?<![a-z])(?:sgd|lamb|lars|lion)(?![a-z])|sgdkernel|momentum|optimizer",
    ),
    ClassRule(
        KernelClass.NORMALIZATION,
        r"(?:batch|layer|rms|group|instance)_?norm|(?<![a-z])bn_|softmax|gammabeta|rowwisemoments|welford"
        r"|(?<![a-z])lrn(?![a-z])",
    ),
    ClassRule(
        KernelClass.CONV,
        r"(?<![a-z])\d?d?conv(?!ert)|convolv|convolution|fprop|dgrad|wgrad|winograd|implicit_?gemm|im2col|col2im|depthwise"
        r"|scudnn|(?<![a-z])igemm_(?:fwd|bwd|wrw)|cudnn\w*::compute\w*offsets|(?<![a-z])fft2d_",
    ),
    # BLAS of vectors: cuBLAS names its namespace in them, which says a product otherwise.
    ClassRule(KernelClass.REDUCTION, r"(?<![a-z])(?:dotc?|nrm2|asum)_kernel"),
    ClassRule(KernelClass.ELEMENTWISE, r"(?<![a-z])(?:axpy|axpby|scal|rotm?)_kernel"),
    ClassRule(
        KernelClass.GEMM,
        r"(?<!fb)gemm|gemv|matmul|cijk_|nvjet_|splitkreduce|cublas|(?<![a-z])(?:mm|bmm|addmm|fc|syrk|trsm|trmm)(?![a-z])"
        r"|marlin|cutlass|(?<![a-z])mul_mat(?![a-z])",
    ),
    ClassRule(KernelClass.SORT, r"sort|topk|top_k|onesweep|radix|(?<![a-z])unique"),
    ClassRule(
        KernelClass.RNG,
        r"(?<![a-z])distribution_|philox|(?:cu|hip|roc)rand|dropout|bernoulli|randperm|(?<![a-z])rng(?![a-z])"
        r"|random",
    ),
    ClassRule(
        KernelClass.EMBEDDING_INDEX,
        r"embedding|(?<![a-z])index_(?:select|put|add|copy|fill|elementwise|kernel)|indexselect|indexing"
        r"|index_elementwise|gather|scatter|lookup|(?<![a-z])take(?![a-z])|one_?hot|::index\b|bucketize",
    ),
    ClassRule(
        KernelClass.COPY_LIKE,
        r"catarray|copy|transpose|permute|nchwtonhwc|nhwctonchw|(?<![a-z])concat|fillfunctor|(?<![a-z])memset|memcpy"
        r"|(?<![a-z])cat(?![a-z])|(?<![a-z])(?:pad|split|slice|roll|flip)(?![a-z])|contiguous|tensortransform",
    ),
    ClassRule(
        KernelClass.REDUCTION,
        r"reduc|(?<![a-z])(?:sum|mean|argmax|argmin|cumsum|cumprod|prod|amax|amin)(?![a-z])|scan|norm(?![a-z])|pool",
    ),
    ClassRule(
        KernelClass.ELEMENTWISE,
        r"elementwise|pointwise|vectorized|unrolled|functor|relu|gelu|silu|sigmoid|tanh|threshold|activation|(?<![a-z])bias"
        r"|eigen|(?<![a-z])(?:add|sub|mul|div|divide|neg|exp|log\d*|sqrt|rsqrt|pow|clamp|clip|where|eq|gt|ge|lt|le|cast)"
        r"(?:kernel)?(?![a-z])|axpy|scal(?:e|_kernel)|optensor|op_tensor|broadcast|reciprocal",
    ),
)
"""The rules; the first that fits decides."""

_END = r"(?:_?backward|(?![a-z]))"
OPERATOR_RULES: tuple[ClassRule, ...] = (
    # Operators have names that no kernel has: c10d::allreduce_, aten::linear, AddmmBackward0, FullyConnected.
    ClassRule(KernelClass.COLLECTIVE, r"^_?c10d"),
    ClassRule(
        KernelClass.GEMM, rf"(?<![a-z])(?:linear|addmm|mm|bmm|baddbmm|mv|einsum){_END}|fully_?connected|^dense(?![a-z])"
    ),
    ClassRule(KernelClass.ELEMENTWISE, rf"(?<![a-z])(?:add|sub|mul|div|neg|exp|log|sqrt|pow|where){_END}"),
    *RULES,
)
"""The rules for operators; the first that fits decides."""


def classify(names: Iterable[str | None], rules: Sequence[ClassRule] = RULES) -> list[KernelClass]:
    """Return the class of each name; OTHER for None and for a name that fits no rule. For distinct names, not for rows.

    >>> [str(c) for c in classify(["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ampere_sgemm_128x64_nn", None])]
    ['collective', 'gemm', 'other']
    """
    texts = [_without_operands((name or "")[:LONGEST_NAME]) for name in names]
    classes = _classes(list(dict.fromkeys(texts)), rules)
    return [classes.get(text, KernelClass.OTHER) for text in texts]


def _classes(texts: list[str], rules: Sequence[ClassRule]) -> dict[str, KernelClass]:
    """Return the class of each text that a rule fits.

    Python's engine needs 0.5 ms for a name and all our rules, Arrow's 14 us for the same names, in time that grows
    with the text alone. Arrow's engine knows letters and classes of characters beyond ASCII otherwise, and ends lines
    elsewhere, so it sees printable ASCII only.
    """
    plain = [text for text in texts if text.isascii() and text.isprintable()]
    others = [text for text in texts if not (text.isascii() and text.isprintable())]
    found: dict[str, KernelClass] = {}
    column, left = arrow.array(plain, pa.string()), np.arange(len(plain))
    for rule in rules:
        pattern = lazy_pattern(rule.pattern, re.IGNORECASE)
        if fitting := [text for text in others if pattern.search(text)]:
            found |= dict.fromkeys(fitting, rule.kernel_class)
            others = [text for text in others if text not in found]
        if not left.size:
            continue
        # A user's rule is not among these: its grammar is Python's, and Arrow's engine may read it otherwise.
        linear, is_exact = _LINEAR.get(rule, ("", False))
        fits = arrow.bools(pc.match_substring_regex(column, linear, ignore_case=True))
        if not is_exact:
            at = np.flatnonzero(fits)
            fits = np.zeros(left.size, np.bool_)
            fits[[i for i, of in zip(at.tolist(), left[at].tolist(), strict=True) if pattern.search(plain[of])]] = True
        if fits.any():
            found |= dict.fromkeys([plain[at] for at in left[fits].tolist()], rule.kernel_class)
            column, left = pc.filter(column, arrow.array(~fits)), left[~fits]
    return found


def _linear(pattern: str) -> tuple[str, bool]:
    """Return a pattern of our table without looks around, and whether it fits the same names, not just more of them.

    A border is at the begin or end of an alternative, so it may take the character that it looks at.
    """
    pattern = pattern.replace("(?<![a-z])", "(?:^|[^a-z])").replace("(?![a-z])", "(?:[^a-z]|$)")
    without = re.sub(r"\(\?<?!\w+\)", "", pattern)
    return without, without == pattern


_LINEAR = {rule: _linear(rule.pattern) for rule in OPERATOR_RULES}
"""Our rules as Arrow's engine (RE2) takes them."""

_INSTRUCTION = lazy_pattern(r"%\S+ = .*?\s[a-z][\w-]*\(")
"""An instruction of XLA up to its operands: %add_fusion.1 = f32[5]{0:T(128)} fusion(f32[5]{0} %copy-done.2)."""


def _without_operands(name: str) -> str:
    """Return the text of an instruction without its operands, which name what others do; another name as it is."""
    found = _INSTRUCTION.match(name)
    return found[0] if found else name


def class_codes(names: Sequence[str | None], codes: I64, rules: Sequence[ClassRule] = RULES) -> I64:
    """Return shape (n,): for each row the place of its class in `list(KernelClass)`.

    names: the names by code. codes: shape (n,); -1 for a row without a name. Only names in use are classified.
    """
    order = {kernel_class: place for place, kernel_class in enumerate(KernelClass)}
    places = np.full(len(names) + 1, order[KernelClass.OTHER], np.int64)
    used = np.flatnonzero(np.bincount(codes[codes >= 0]))
    places[used] = [order[c] for c in classify([names[i] for i in used.tolist()], rules)]
    return places[codes]


def parse_rules(data: Mapping[str, object]) -> tuple[ClassRule, ...]:
    """Return the rules of a user's table: {class: pattern or list of patterns}, in the order given.

    Raises: ValueError, in words for the user, for an unknown class or a pattern that is not valid.

    >>> parse_rules({"collective": "^my_ring_"})
    (ClassRule(kernel_class=<KernelClass.COLLECTIVE: 'collective'>, pattern='^my_ring_'),)
    """
    rules = []
    for name, patterns in data.items():
        try:
            kernel_class = KernelClass(name)
        except ValueError as err:
            raise ValueError(f"{name}: no such class; one of: {', '.join(KernelClass)}") from err
        listed = [patterns] if isinstance(patterns, str) else patterns
        if not isinstance(listed, list) or not all(isinstance(p, str) and p for p in listed):
            raise ValueError(f"{name}: a pattern or a list of patterns is needed")
        for pattern in listed:
            try:
                re.compile(pattern, re.IGNORECASE)
            except (re.error, RecursionError, OverflowError) as err:
                raise ValueError(f"{name}: {pattern!r} is not a valid regular expression: {err}") from err
            rules.append(ClassRule(kernel_class, pattern))
    return tuple(rules)

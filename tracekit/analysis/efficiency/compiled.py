"""Kernels that torch.compile writes in Triton: the operators in them, their sizes, and the least bytes that they move.

TorchInductor names a kernel after its kind and the operators that were fused into it, joined by "_":
`triton_red_fused__to_copy_native_layer_norm_backward_view_0`. Names of operators contain "_" too, so they are
found by a list of known names; an unknown part stays whole. The arguments end with the sizes of the loops:
of a pointwise kernel how many elements it writes, of a reduction how many results it has and from how many elements
each (torch/_inductor/codegen/triton.py). Which arguments are read and which written is not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tracekit.analysis.efficiency.operands import OperatorCall
from tracekit.lazy_dataclass import dataclass

__all__ = ["KINDS", "VIEWS", "CompiledSizes", "kind_of", "operators_in", "sizes_of"]

KINDS = {"poi": "pointwise", "red": "reduction", "per": "reduction in one pass", "for": "list of tensors"}
"""Kinds of kernels by the word in their names."""
VIEWS = frozenset(
    {
        *(
            "_unsafe_view",
            "view",
            "reshape",
            "permute",
            "t",
            "transpose",
            "unsqueeze",
            "squeeze",
            "expand",
            "expand_as",
        ),
        *("slice", "select", "split", "unbind", "chunk", "narrow", "unfold", "alias", "detach", "clone", "contiguous"),
        *("cat", "stack", "full", "full_like", "arange", "ones", "zeros", "ones_like", "zeros_like", "empty_like"),
        *("scalar_tensor", "lift_fresh_copy", "_to_copy", "convert_element_type", "copy_", "constant_pad_nd"),
        *("slice_scatter", "select_scatter", "select_backward", "slice_backward", "diagonal", "flip", "roll", "repeat"),
        *("index", "index_put", "tril", "triu", "iota", "where"),
    }
)
"""Operators without a formula, or without work, whose names PyTorch joins too."""
_NAME = re.compile(r"triton_(?P<kind>[a-z]+(?:_scan)?)_fused(?:_(?P<names>.*?))??(?:_\d+)?")
_LOOPS = re.compile(r"\bR\d*_?BLOCK=")
_MOST_WORDS = 64


@dataclass(frozen=True, slots=True)
class CompiledSizes:
    """Sizes of a kernel. elements: written at least. reduced: elements of each result, 1 for a pointwise kernel.

    least_bytes: to write the elements once, in the smallest datatype of the tensors that can hold them.
    """

    elements: int
    reduced: int
    least_bytes: int


def kind_of(name: str) -> str:
    """Return the kind of a kernel in words, "" for a name that says none."""
    found = _NAME.fullmatch(name)
    return KINDS.get(found["kind"], "") if found else ""


def operators_in(name: str, known: Collection[str]) -> list[str]:
    """Return the operators that were fused into a kernel, in the order of its name.

    known: names of operators without "aten::". Words that make none of them stay in one piece.

    >>> operators_in("triton_red_fused__to_copy_native_layer_norm_backward_view_0", {"view", "_to_copy",
    ...     "native_layer_norm", "native_layer_norm_backward"})
    ['_to_copy', 'native_layer_norm_backward', 'view']
    >>> operators_in("triton_poi_fused_add_mine_too_mul_3", {"add", "mul"})
    ['add', 'mine_too', 'mul']
    """
    found = _NAME.fullmatch(name)
    if found is None or not found["names"]:
        return []
    words = found["names"].split("_")
    if len(words) > _MOST_WORDS:
        return [found["names"]]
    # Fewest words without a name, then fewest names.
    best: list[tuple[int, int, list[tuple[str, bool]]]] = [(0, 0, [])]
    for end in range(1, len(words) + 1):
        unknown, count, parts = best[end - 1]
        word = words[end - 1]
        joined = bool(parts) and not parts[-1][1]
        rest = [*parts[:-1], (f"{parts[-1][0]}_{word}", False)] if joined else [*parts, (word, False)]
        choice = (unknown + 1, count + (not joined), rest)
        for begin in range(end):
            text = "_".join(words[begin:end])
            if text in known:
                before = best[begin]
                choice = min(choice, (before[0], before[1] + 1, [*before[2], (text, True)]), key=lambda each: each[:2])
        best.append(choice)
    return [text for text, _ in best[-1][2] if text]


def sizes_of(call: OperatorCall, launch: str = "") -> CompiledSizes | None:
    """Return the sizes of a kernel, None where its arguments do not show them. launch: its constants, `kernel_kwargs`.

    >>> sizes_of(OperatorCall("triton_poi_fused_add_0", [[64, 8], [64, 8], []], ["float", "c10::Half", "Scalar"],
    ...     [], ["", "", "512"]))
    CompiledSizes(elements=512, reduced=1, least_bytes=1024)
    """
    found = _NAME.fullmatch(call.name)
    kind = found["kind"] if found else ""
    numbers = _last_numbers(call)
    loops = {"poi": 0, "per": 1, "red": max(1, len(_LOOPS.findall(launch)))}.get(kind, -1)
    if loops < 0 or len(numbers) <= loops:
        return None
    elements = numbers[-1 - loops]
    reduced = 1
    for number in numbers[len(numbers) - loops :]:
        reduced *= number
    holding = [each.size for each in call.tensors() if each.elements >= elements]
    if elements <= 0 or reduced <= 0 or not holding:
        return None
    return CompiledSizes(elements, reduced, elements * min(holding))


def _last_numbers(call: OperatorCall) -> Sequence[int]:
    """Return the integers at the end of the arguments."""
    out: list[int] = []
    for place in range(len(call.types) - 1, -1, -1):
        number = call.integer(place)
        if call.types[place] != "Scalar" or number is None:
            break
        out.append(number)
    return out[::-1]

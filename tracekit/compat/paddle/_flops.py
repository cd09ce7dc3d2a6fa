"""FLOPs of operators, from the shapes of their inputs, by Paddle's formulas.

Paddle counts for a few operators of its static graphs; all others count 0, and so does one without shapes. Shapes are
in the files; the attributes that some formulas need too (padding, transposition, epsilon) are in none, so that these
counts are not known. An operator's count holds those of the operators below it.
Source: python/paddle/utils/flops.py of Paddle 2.6 and 3.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Final

import numpy as np
import orjson

from tracekit.analysis.intervals import I64
from tracekit.columns import arrow
from tracekit.compat.paddle._columns import PADDLE_FORMATS, matching
from tracekit.compat.paddle._items import Group
from tracekit.compat.paddle._tree import Forest
from tracekit.index.grouping import plural

Shapes = Mapping[str, Sequence[Sequence[int]]]
_SUFFIXES: Final = (" compute", " dygraph", " pybind_imperative_func")
_UNKNOWN: Final = -1


def _size(shapes: Shapes) -> int:
    return prod(shapes["X"][0])


def _broadcast(shapes: Shapes) -> int:
    x, y = shapes["X"][0], shapes["Y"][0]
    longest = max(len(x), len(y))
    padded = ([1] * (longest - len(shape)) + list(shape) for shape in (x, y))
    return prod(max(pair) for pair in zip(*padded, strict=True))


_FORMULAS: Mapping[str, Callable[[Shapes], int]] = MappingProxyType(
    dict.fromkeys(("elementwise_add", "elementwise_mul", "elementwise_div"), _broadcast)
    | dict.fromkeys(("elu", "leaky_relu", "prelu", "relu", "relu6", "silu", "pool"), _size)
    | {"gelu": lambda shapes: 5 * _size(shapes), "softmax": lambda shapes: 3 * _size(shapes)}
)
_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "conv2d": ("Bias", "Input", "Filter"),
        "layer_norm": ("X",),
        "matmul_v2": ("X", "Y"),
    }
)
"""Those whose count depends on attributes, where these inputs have shapes."""


def flops(trees: Forest, ops: I64, items: Group) -> tuple[list[int | None], list[str]]:
    """Return the FLOPs of each item of operators, None where they are not known, and a note on these.

    ops: host events; items: their groups.
    """
    hosts, columns = trees.hosts, trees.columns
    from_paddle = columns.of_format(*PADDLE_FORMATS)[hosts.rows[ops]]
    own = np.zeros(hosts.rows.size, np.int64)
    unknown = np.zeros(hosts.rows.size, np.int64)
    args = columns.args(hosts.rows[ops])
    shaped = matching(args, '"input_shapes":\\{"')
    counted: dict[tuple[str, str], int] = {}
    for node, text in zip(ops[shaped].tolist(), arrow.texts(args.filter(arrow.array(shaped))), strict=True):
        name = trees.names[hosts.name[node]]
        count = counted.setdefault((name, text), _count(name, text))
        own[node], unknown[node] = max(count, 0), int(count == _UNKNOWN)
    everyone = np.arange(hosts.rows.size)
    own, unknown = hosts.sum_up(everyone, own)[ops], hosts.sum_up(everyone, unknown)[ops]
    unknown[~from_paddle] += 1
    total, unsure = np.zeros(items.count, np.int64), np.zeros(items.count, np.int64)
    np.add.at(total, items.codes, own)
    np.add.at(unsure, items.codes, unknown)
    found: list[int | None] = [None if u else t for t, u in zip(total.tolist(), unsure.tolist(), strict=True)]
    notes = []
    if (~from_paddle).any():
        notes.append("FLOPs are unknown but for Paddle's own files, which have the shapes of inputs")
    elif lacking := found.count(None):
        notes.append(f"FLOPs of {plural('operator', lacking)} depend on attributes that no file has")
    return found, notes


def _count(name: str, args: str) -> int:
    """Return the FLOPs of one call, _UNKNOWN where attributes decide; Paddle counts 0 where its formula fails."""
    for suffix in _SUFFIXES:
        name = name.replace(suffix, "")
    try:
        shapes = orjson.loads(args)["input_shapes"]
        if name == "matmul":
            pair = [shapes.get(key, shapes.get(key.lower(), [[0]]))[0] for key in ("X", "Y")]
            return _UNKNOWN if min(map(len, pair)) > 1 else 0
        if name in _INPUTS:
            return _UNKNOWN if all(shapes[key] and shapes[key][0] for key in _INPUTS[name] if key != "Bias") else 0
        return int(_FORMULAS[name](shapes)) if name in _FORMULAS else 0
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return 0

"""Classes of kernels for views: the package's table of names with the user's own rules before it.

The environment variable TRACEKIT_KERNEL_CLASSES names a TOML file (or JSON, by its suffix) of classes and patterns:

    collective = ["^my_ring_", "tree_exchange"]
    attention = "block_sparse"

A pattern is a regular expression that is looked for anywhere in the kernel's name, whatever its case.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracekit.analysis.kernel_class import RULES, ClassRule, KernelClass, class_codes, classify, parse_rules
from tracekit.errors import UsageError
from tracekit.index.trace_index import TraceIndex
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.schema import Kind

__all__ = [
    "VARIABLE",
    "class_of_names",
    "classes_of",
    "communicates",
    "kernel_classes",
    "names_that_communicate",
    "rules",
]

VARIABLE = "TRACEKIT_KERNEL_CLASSES"
MOST_BYTES = 1 << 20
_COLLECTIVE = list(KernelClass).index(KernelClass.COLLECTIVE)
_MANY = 512
"""Names from which on those of the whole trace are looked at."""


def rules() -> tuple[ClassRule, ...]:
    """Return the rules in force: the user's, then the package's. Raises: UsageError for a file that holds no rules."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        return RULES
    import tomllib

    try:
        with Path(name).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        text = data.decode("utf-8-sig")
        table = json.loads(text) if name.lower().endswith(".json") else tomllib.loads(text)
        if not isinstance(table, dict):
            raise ValueError("a table of classes and their patterns is needed")
        return (*parse_rules(table), *RULES)
    except (OSError, ValueError, RecursionError) as err:  # both decoders' errors are ValueErrors
        reason = err.strerror if isinstance(err, OSError) and err.strerror else str(err)
        raise UsageError(
            f"{VARIABLE}={name}: {reason}", hint='a TOML file with lines such as: collective = ["^my_ring_"]'
        ) from err


def kernel_classes(index: TraceIndex, rows: I64) -> I64:
    """Return for each of these rows of EVENTS, kernels, the place of its class in `list(KernelClass)`."""
    return class_of_names(index, index.texts("name")[0][rows].astype(np.int64))


def class_of_names(index: TraceIndex, names: I64) -> I64:
    """Return the place in `list(KernelClass)` for codes of names that kernels have; -1 is a kernel without a name."""
    in_force = rules()
    by_name = index.once(("kernel classes", in_force), lambda: _classes_of_names(index, in_force))
    found: I64 = by_name[names]
    return found


def _classes_of_names(index: TraceIndex, in_force: tuple[ClassRule, ...]) -> I64:
    """Return the class of each name of a kernel; the last place is that of a row without a name."""
    codes, names = index.texts("name")
    by_name = np.zeros(len(names) + 1, np.int64)
    used = sets.unique(codes[index.kind_mask({Kind.KERNEL})]).astype(np.int64)
    by_name[used] = class_codes(names, used, in_force)
    return by_name


def names_that_communicate(names: Sequence[str | None]) -> list[bool]:
    """Return for each name of a kernel, None for one without, whether it is a collective. Raises: UsageError."""
    codes = np.array([-1 if name is None else code for code, name in enumerate(names)], np.int64)
    found: list[bool] = (class_codes(names, codes, rules()) == _COLLECTIVE).tolist()
    return found


def classes_of(index: TraceIndex, names: Sequence[str | None]) -> list[KernelClass]:
    """Return the class of each of these names, which most kernels of the trace have, or those of its totals.

    Many names are looked up among those of the trace, whose classes other joins ask for too.
    """
    in_force = rules()
    if len(names) < _MANY:
        return classify(names, in_force)
    known = index.once(("classes by name", in_force), lambda: _by_name(index))
    others = [name for name in names if name not in known]
    of_others = dict(zip(others, classify(others, in_force), strict=True))
    return [known.get(name) or of_others[name] for name in names]


def _by_name(index: TraceIndex) -> dict[str | None, KernelClass]:
    codes, texts = index.texts("name")
    used = sets.unique(codes[index.kind_mask({Kind.KERNEL})]).astype(np.int64)
    used = used[used >= 0]
    order = list(KernelClass)
    places = class_of_names(index, used).tolist()
    return {texts[code]: order[place] for code, place in zip(used.tolist(), places, strict=True)}


def communicates(index: TraceIndex, rows: I64) -> npt.NDArray[np.bool_]:
    """Return for each of these rows, kernels, whether it is a collective."""
    found: npt.NDArray[np.bool_] = kernel_classes(index, rows) == _COLLECTIVE
    return found

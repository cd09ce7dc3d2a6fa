"""Call paths of the host: ranges and calls merged by the names of all that hold them, as a flame graph draws them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracekit.analysis.segments import rows_by
from tracekit.columns.arrays import I64
from tracekit.index.host.tree import host
from tracekit.index.trace_index import TraceIndex, join
from tracekit.schema import Kind

NO_NAME = "(no name)"


@dataclass(frozen=True, slots=True, eq=False)
class CallPaths:
    """The call paths of a trace, p of them; each is below its parent, which has a smaller number.

    parents: shape (p,), -1 for the outermost. names: of the innermost range. calls, self_ns: shape (p,), ranges of that
    path, and their time that no range below them has.
    """

    parents: I64
    names: list[str]
    calls: I64
    self_ns: I64


@join
def call_paths(index: TraceIndex) -> CallPaths:
    """Return the call paths of all threads. Steps have one name, whatever their number: `ProfilerStep#…`."""
    tree = host(index)
    codes, texts = index.texts("name")
    kinds, kind_names = index.texts("kind")
    step = kind_names.index(Kind.STEP) if Kind.STEP in kind_names else -2
    labels = list(dict.fromkeys([NO_NAME, *texts]))
    place = {text: number for number, text in enumerate(labels)}
    numbers = np.array([*(place[text] for text in texts), place[NO_NAME]], np.int64)
    name = numbers[codes[tree.rows]]
    steps = kinds[tree.rows] == step
    at = np.flatnonzero(steps)
    for number, places in rows_by(name[at]):
        name[at[places]] = place.setdefault(re.sub(r"\d+", "…", labels[number]), len(place))
    labels = list(place)
    path = np.full(tree.rows.size, -1, np.int64)
    parents: list[I64] = []
    names: list[I64] = []
    count = 0
    for here in tree.levels():
        above = tree.tree.parent[here]
        keys = (np.where(above >= 0, path[above], -1) + 1) * len(labels) + name[here]
        found, inverse = np.unique(keys, return_inverse=True)
        path[here] = count + inverse
        parents.append(found // len(labels) - 1)
        names.append(found % len(labels))
        count += found.size
    self_ns = np.zeros(count, np.int64)
    np.add.at(self_ns, path, tree.tree.self_ns)
    return CallPaths(
        np.concatenate(parents) if parents else np.zeros(0, np.int64),
        [labels[number] for part in names for number in part.tolist()],
        np.bincount(path, minlength=count),
        self_ns,
    )

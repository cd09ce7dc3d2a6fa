"""Host ranges that load data: those of the framework's own loader, and others that are named like one."""

from __future__ import annotations

import re

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.index.trace_index import TraceIndex, join
from tracekit.schema import Kind

NAMES = re.compile(
    r"data_?(?:set_?)?load(?:er|ing)?(?![a-z])"  # DataLoader, data_loading, dataset_loader
    r"|(?:^|[^a-z])data[ _.:/-]?(?:fetch(?:ing)?|wait(?:ing)?|time|input|pipeline|reading)(?![a-z])"
    r"|(?:^|[^a-z_])(?:load|fetch|read|get|next|wait[ _]for)[ _-]?(?:the[ _]|next[ _])?(?:mini[ _-]?)?"
    r"(?:batch(?:es)?|data|samples?|inputs?|images?)(?![a-z])"
    r"|(?:^|[^a-z_])next\((?:\w*(?:batch|data|loader|iter)\w*)\)"
    r"|tf\.data|(?i:dali)(?:Generic|Classification|Server|Raised)\w*|data\w*\.__next__|loader\.(?:__)?next"
    r"|^(?:fetch|fetching|loading|input[ _-]?pipeline|load)$"
    r"|(?:^|[^a-z])(?:nvidia\.dali|dali(?:\w*iterator)?|tf\.data)(?![a-z])"
    r"|^Iterator::|IteratorGetNext|(?:^|[^a-z])(?:webdataset|ffcv)(?![a-z])",
    re.IGNORECASE,
)
"""Names of ranges in which programs load data: PyTorch, NVIDIA DALI, tf.data, WebDataset, FFCV, and common habits."""
_LONGEST_NAME = 300
_RANGES = frozenset({Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.PYTHON_OP})


@join
def find(index: TraceIndex, pattern: str = "") -> I64:
    """Return the rows of EVENTS, with a duration, that load data, in order.

    pattern: a regular expression; host ranges whose name it fits anywhere load data too.
    """
    loading = index.kind_mask({Kind.DATALOADER})
    codes, names = index.texts("name")
    ranges = index.kind_mask(_RANGES) & ~index.has("device")
    used = np.unique(codes[ranges])
    own = re.compile(pattern) if pattern else None
    fits = np.zeros(len(names) + 1, np.bool_)
    for code in used[used >= 0].tolist():
        name = names[code][:_LONGEST_NAME]
        fits[code] = NAMES.search(name) is not None or (own is not None and own.search(name) is not None)
    found: I64 = np.flatnonzero((loading | (ranges & fits[codes])) & index.has("dur_ns"))
    return found

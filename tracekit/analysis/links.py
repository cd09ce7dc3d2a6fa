"""The launch call of each device work: rows joined by correlation, with orphans kept.

A correlation id is unique only within its source file and process (and on some tools its context): it repeats across
GPUs (PyProf issue 79) and ranks (Perfetto issue 978). So rows are joined by all of these columns together. One launch
may cause many device rows (a graph launch); a device row has one launch or none.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracekit.analysis.segments import as_int64, place_type
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Mask, Numbers, Rows

__all__ = ["Links", "link", "link_columns", "one_key"]

_DENSE = 4
"""Keys that count so many numbers for each row, or fewer, are looked up in a table of all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """The result of `link`; n launches, m device rows.

    launch: shape (m,), for each device row the row of its launch; -1 for an orphan.
    work: shape (n,), for each launch the number of its device rows.
    duplicates: number of launches whose key an earlier launch has; they get no device rows.
    orphans: number of device rows without a launch.
    """

    launch: I64
    work: I64
    duplicates: int
    orphans: int


def link(
    launch_keys: Numbers,
    device_keys: Numbers,
    *,
    launch_known: Mask | None = None,
    device_known: Mask | None = None,
) -> Links:
    """Return for each device row the launch with the same key; of several launches the first.

    launch_keys, device_keys: shapes (n, k) and (m, k), any integers: (source, pid or 0, correlation), say.
    launch_known, device_known: shapes (n,) and (m,); false where a key is not known (null): it equals no other.
    Raises: TypeError for keys that are no integers, ValueError for shapes that do not fit.

    >>> link(np.array([[0, 7], [1, 7]]), np.array([[1, 7], [0, 8], [1, 7]])).launch
    array([ 1, -1,  1])
    """
    if launch_keys.ndim != 2 or device_keys.ndim != 2 or launch_keys.shape[1] != device_keys.shape[1]:
        raise ValueError(f"keys of shape (n, k) and (m, k) are needed: {launch_keys.shape} and {device_keys.shape}")
    n, m = launch_keys.shape[0], device_keys.shape[0]
    launches = _known_rows(launch_known, n, "launch_known")
    devices = _known_rows(device_known, m, "device_known")
    columns = (
        (
            as_int64(a, "launch_keys") if launch_known is None else as_int64(a, "launch_keys")[launches],
            as_int64(b, "device_keys") if device_known is None else as_int64(b, "device_keys")[devices],
        )
        for a, b in zip(launch_keys.T, device_keys.T, strict=True)
    )
    return _linked(columns, launches, devices, n, m)


def link_columns(columns: Iterable[Numbers], launches: Rows, devices: Rows, *, known: Mask | None = None) -> Links:
    """Return what `link` does, for launches and device work that are rows of the same columns.

    columns: of the key, each of shape (r,). launches, devices: rows, shapes (n,) and (m,). known: shape (r,); false
    where a key is not known. One column at a time is taken apart: rows are many.
    """
    own, of_work = (_known_rows(None if known is None else known[rows], rows.size, "") for rows in (launches, devices))
    pairs = ((column[launches[own]], column[devices[of_work]]) for column in columns)
    return _linked(pairs, own, of_work, launches.size, devices.size)


def _linked(columns: Iterable[tuple[Numbers, Numbers]], launches: Rows, devices: Rows, n: int, m: int) -> Links:
    """columns: of the keys of these launches and devices, the rows of n and m that are known."""
    key = one_key(map(_both, columns), launches.size + devices.size)
    launch_key, device_key = key[: launches.size], key[launches.size :]
    launch = np.full(m, -1, np.int64)
    most = int(key.max(initial=0))
    if most <= _DENSE * key.size:
        first = np.full(most + 1, -1, place_type(launches.size))
        # The first of several launches counts: it is written last.
        first[launch_key[::-1]] = np.arange(launches.size - 1, -1, -1, dtype=first.dtype)
        distinct = int(np.count_nonzero(first >= 0))
        found = first[device_key]
        matches = found >= 0
        launch[devices[matches]] = launches[found[matches]]
    else:
        order = np.argsort(launch_key, kind="stable")
        ordered = launch_key[order]
        is_first = np.ones(ordered.size, np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
        ordered, order = ordered[is_first], order[is_first]
        distinct = ordered.size
        at = np.searchsorted(ordered, device_key)
        matches = at < ordered.size
        matches[matches] = ordered[at[matches]] == device_key[matches]
        launch[devices[matches]] = launches[order[at[matches]]]
    work = np.bincount(launch[launch >= 0], minlength=n).astype(np.int64, copy=False)
    return Links(launch, work, launches.size - distinct, int(np.count_nonzero(launch < 0)))


def _both(columns: tuple[Numbers, Numbers]) -> I64:
    """Return the column of launches and that of work as one."""
    return np.concatenate(columns).astype(np.int64, copy=False)


def _known_rows(known: Mask | None, n: int, what: str) -> Rows:
    if known is None:
        return np.arange(n)
    if known.shape != (n,):
        raise ValueError(f"{what}: shape ({n},) is needed, not {known.shape}")
    return np.flatnonzero(known)


def one_key(columns: Iterable[I64], n: int) -> I64:
    """Return one int64 for each row: equal exactly where all columns are equal.

    Columns are packed beside each other in 63 bits, as their distance from their minimum. Where they need more, they
    are numbered by rank first, which takes as many bits as there are rows, at most. They are asked for one by one.
    """
    key, bits = np.zeros(n, np.int64), 0
    if n == 0:
        return key
    for column in columns:
        part, width = _packed(column)
        if not width:
            continue
        if bits + width > 63:
            key, bits = _ranked(key)
        if bits + width > 63:
            part, width = _ranked(column)
        key <<= width
        key |= part
        bits += width
    return key


def _packed(column: I64) -> tuple[I64, int]:
    lowest = int(column.min())
    width = (int(column.max()) - lowest).bit_length()
    return (column - lowest, width) if width <= 63 else _ranked(column)


def _ranked(column: I64) -> tuple[I64, int]:
    distinct, rank = np.unique(column, return_inverse=True)
    return rank.astype(np.int64, copy=False), (distinct.size - 1).bit_length()

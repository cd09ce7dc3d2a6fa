"""Names of nvprof's rows: what a row is by its name, and the correlation id that stands behind it.

Without a column Correlation_ID a kernel's name ends in ` [218]`, the id of its launch; in API traces the launch names
its kernel: `cudaLaunch (KERNEL [218])`. A trailing `]` alone proves nothing: `[lambda(int) (instance 1)]`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.schema import Kind

I64 = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

SUFFIX = re.compile(r"^(.*\S) +\[(\d{1,18})\]$", re.DOTALL | re.ASCII)
LAUNCH = re.compile(r"^(\w+) \((.*\S) +\[(\d{1,18})\]\)$", re.DOTALL | re.ASCII)
_COPY = re.compile(r"^\[(?:CUDA|Unified Memory) [Mm]emcpy (\w+)[^\]]*\]$")
_RUNTIME = re.compile(r"^cuda[A-Z_]|^cudart")
_DRIVER = re.compile(r"^cu[A-Z]")
UNIFIED = "[Unified Memory"


@lru_cache(maxsize=1 << 14)
def device_kind(name: str) -> tuple[Kind, str | None]:
    """Return the kind of device work of that name, and which way a copy goes.

    Rows of unified memory that are no copies (page faults, throttling, thrashing) are `overhead`: time that the
    driver takes from the program; they hold no memory, so `memory` would be wrong.
    """
    if not name.startswith("["):
        return Kind.KERNEL, None
    copy = _COPY.match(name)
    if copy is not None:
        return Kind.MEMCPY, copy[1]
    if name.startswith("[CUDA memset"):
        return Kind.MEMSET, None
    if name.startswith(UNIFIED):
        return Kind.OVERHEAD, None
    return Kind.KERNEL, None


@lru_cache(maxsize=1 << 12)
def api_kind(name: str) -> Kind:
    """Return runtime or driver; calls of other interfaces (OpenACC, OpenMP, pthread) are `other`."""
    if _RUNTIME.match(name):
        return Kind.RUNTIME
    return Kind.DRIVER if _DRIVER.match(name) else Kind.OTHER


def strip_suffix(name: str) -> tuple[str, int | None]:
    """Return the name without the ` [218]` at its end, and the number.

    >>> strip_suffix("add(int*) [218]")
    ('add(int*)', 218)
    """
    match = SUFFIX.match(name)
    return (match[1], int(match[2])) if match else (name, None)


def strip_launch(name: str) -> tuple[str, str | None, int | None]:
    """Return call, kernel and correlation id of `cudaLaunch (KERNEL [218])`; the kernel is None for other calls."""
    match = LAUNCH.match(name)
    if match:
        return match[1], match[2], int(match[3])
    plain, number = strip_suffix(name)
    return plain, None, number


def suffixes(names: pa.StringArray) -> tuple[Mask, Mask, I64]:
    """Return which names end in ` [digits]`, which in ` [digits])`, and the numbers (0 where there is none).

    names: a string array without nulls that begins at offset 0 of its buffers.
    """
    count = len(names)
    plain, launch, numbers = np.zeros(count, bool), np.zeros(count, bool), np.zeros(count, np.int64)
    _, offsets_buffer, data_buffer = names.buffers()
    if data_buffer is None or not data_buffer.size:
        return plain, launch, numbers
    offsets = np.frombuffer(offsets_buffer, np.int32)[: count + 1]
    data = np.frombuffer(data_buffer, np.uint8)
    start, end = offsets[:-1], offsets[1:]
    last = data[np.maximum(end - 1, 0)]
    before = data[np.maximum(end - 2, 0)]
    closed = (last == 41) & (before == 93)
    rows = np.flatnonzero((((last == 93) & (before - np.uint8(48) < 10)) | closed) & (end - start > 4))
    if not len(rows):
        return plain, launch, numbers
    at = (end[rows] - 2 - closed[rows]).astype(np.int64)
    first = start[rows].astype(np.int64)
    value, scale = np.zeros(len(rows), np.int64), 1
    live = np.arange(len(rows))
    good = np.zeros(len(rows), bool)
    for digits in range(19):
        byte = data[at[live]]
        digit = byte - np.uint8(48)
        is_digit = digit < 10
        if digits:
            ended = live[(byte == 91) & (at[live] - 1 > first[live])]
            good[ended] = data[at[ended] - 1] == 32
        live, digit = live[is_digit], digit[is_digit]
        if not len(live) or digits == 18:
            break
        value[live] += digit.astype(np.int64) * scale
        scale *= 10
        at[live] -= 1
        inside = at[live] > first[live]
        live = live[inside]
    rows, value = rows[good], value[good]
    numbers[rows] = value
    launch[rows] = closed[rows]
    plain[rows] = ~closed[rows]
    return plain, launch, numbers


def trimmed(names: pa.StringArray, plain: Mask, launch: Mask) -> pa.StringArray:
    """Return the names without what `suffixes` found; of a launch `cudaLaunch (KERNEL` stays."""
    out = names
    if launch.any():
        out = pc.if_else(pa.array(launch), _trim(pc.ascii_rtrim(names, ")")), out)
    if plain.any():
        cut = _trim(names)
        out = cut if plain.all() else pc.if_else(pa.array(plain), cut, out)
    return out


def _trim(names: pa.StringArray) -> pa.StringArray:
    for characters in ("]", "0123456789", "[", " "):
        names = pc.ascii_rtrim(names, characters)
    return names

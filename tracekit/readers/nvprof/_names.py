"""Names in nvprof's rows: the kind of a row by its name, and the correlation id behind the name.

Without a column Correlation_ID, a kernel's name ends in ` [218]`, the id of its launch. In API traces the launch names
its kernel: `cudaLaunch (KERNEL [218])`. A trailing `]` alone is no id: `[lambda(int) (instance 1)]`.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.model.schema import Kind

SUFFIX = lazy_pattern(r"^(.*\S) +\[(\d{1,18})\]$", re.DOTALL | re.ASCII)
LAUNCH = lazy_pattern(r"^(\w+) \((.*\S) +\[(\d{1,18})\]\)$", re.DOTALL | re.ASCII)
_COPY = lazy_pattern(r"^\[(?:CUDA|Unified Memory) [Mm]emcpy (\w+)[^\]]*\]$")
_RUNTIME = lazy_pattern(r"^cuda[A-Z_]|^cudart")
_DRIVER = lazy_pattern(r"^cu[A-Z]")
UNIFIED = "[Unified Memory"


@lru_cache(maxsize=1 << 14)
def device_kind(name: str) -> tuple[Kind, str | None]:
    """Return the kind of device work with this name, and the direction of a copy.

    Rows of unified memory other than copies (page faults, throttling, thrashing) are `overhead`: time that the driver
    takes from the program. They allocate nothing, so they are not `memory`.
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
    """Return runtime or driver, and other for calls of other interfaces (OpenACC, OpenMP, pthread)."""
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
    """Return the call, kernel and correlation id of `cudaLaunch (KERNEL [218])`. Other calls have no kernel."""
    match = LAUNCH.match(name)
    if match:
        return match[1], match[2], int(match[3])
    plain, number = strip_suffix(name)
    return plain, None, number


def suffixes(names: Column) -> tuple[Mask, Mask, I64]:
    """Return masks of the names that end in ` [digits]` and in ` [digits])`, and the numbers (0 where there is none).

    names: a string array without nulls that begins at offset 0 of its buffers.
    """
    count = len(names)
    plain, launch, numbers = np.zeros(count, bool), np.zeros(count, bool), np.zeros(count, np.int64)
    _, offsets_buffer, data_buffer = names.buffers()
    if data_buffer is None or not data_buffer.size:
        return plain, launch, numbers
    offsets = arrow.view(offsets_buffer, np.int32)[: count + 1]
    data = arrow.view(data_buffer, np.uint8)
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


def same_names(names: Column, on_device: Mask) -> tuple[Column, I64, Mask]:
    """Return the names without their numbers, the numbers, and which names have one.

    `cudaLaunch (KERNEL` is left of a launch, which is a row without a device.
    """
    plain, launch, numbers = suffixes(names)
    launch &= ~on_device
    out = names
    if launch.any():
        out = pc.if_else(arrow.array(launch), _trim(pc.ascii_rtrim(names, ")")), out)
    if plain.any():
        cut = _trim(names)
        out = cut if plain.all() else pc.if_else(arrow.array(plain), cut, out)
    return out, numbers, plain | launch


def _trim(names: Column) -> Column:
    for characters in ("]", "0123456789", "[", " "):
        names = pc.ascii_rtrim(names, characters)
    return names

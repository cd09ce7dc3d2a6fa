"""Peaks of devices: what one can do at most, by the name, units and memory that a profiler's file has.

The table is data, with the source of each line: `devices.tsv`. A device that the table does not have, or has no single
line for, has no peaks: a share of a guessed peak is no figure. A slice (MIG, a partition of an accelerator) has the
same name with fewer units: its peaks are scaled, and `Device.note` says so.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path

from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern

__all__ = [
    "RATES",
    "DevicePeaks",
    "RatedDevice",
    "Roof",
    "find_device",
    "listed_devices",
    "roof",
    "stated_device",
    "unnamed_device",
]

RATES = ("fp64", "fp64_matrix", "fp32", "fp32_matrix", "tf32", "bf16", "fp16", "fp8", "fp4", "int8")
"""Rates of the table, by the numbers that are multiplied."""

_DATA = Path(__file__).with_name("devices.tsv")
_VENDORS = lazy_pattern(r"\b(?:nvidia|tesla|amd|grid)\b")
_MIG = lazy_pattern(r"\bmig \d+[cg].*$")
_NUMBERED = lazy_pattern(r"\(\d+\)\s*$")
_NO_NAMES = frozenset({"", "radeon graphics", "unknown", "device", "gpu", "graphics device", "cuda device"})
"""Names that say nothing: some drivers write them for accelerators."""
_MEMORY_SLACK = 0.1
"""The part of a size on a data sheet that may be missing in what a driver states, or be more (GiB for GB)."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class DevicePeaks:
    """A line of the table. rates: 10^12 operations a second by name; absent: unknown, or the device has no such rate.

    memory_gbps, link_gbps: 10^9 bytes a second. best: the most that was measured, by rate. fp16_short: how many times
    faster products of fp16 are with accumulation in fp16.
    """

    name: str
    pattern: str
    units: int
    arch: str
    memory_gb: tuple[float, ...]
    rates: Mapping[str, float]
    fp16_short: float
    memory_gbps: float
    link_gbps: float | None
    l2_bytes: int
    best: Mapping[str, float]
    confidence: str
    source: str
    note: str


@dataclass(frozen=True, slots=True)
class RatedDevice:
    """A device of a file, with its peaks. peaks: None where unknown; note: why, or how they were found or scaled."""

    name: str
    peaks: DevicePeaks | None = field(default=None, hash=False)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Roof:
    """The limits of work on a device. flops_per_s: None where unknown; unknown says why. best: the most measured."""

    flops_per_s: float | None
    bytes_per_s: float
    best_flops_per_s: float | None = None
    rate: str = ""
    unknown: str = ""


@lru_cache(maxsize=1)
def listed_devices() -> tuple[DevicePeaks, ...]:
    """Return the lines of the table."""
    lines = [line for line in _DATA.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return tuple(_line(row) for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def _line(row: Mapping[str, str]) -> DevicePeaks:
    return DevicePeaks(
        name=row["name"],
        pattern=row["pattern"],
        units=int(row["units"] or 0),
        arch=row["arch"],
        memory_gb=tuple(float(each) for each in row["memory_gb"].split("/") if each),
        rates={key: float(row[key]) for key in RATES if row[key]},
        fp16_short=float(row["fp16_short"] or 1),
        memory_gbps=float(row["memory_gbps"]),
        link_gbps=float(row["link_gbps"]) if row["link_gbps"] else None,
        l2_bytes=round(float(row["l2_mib"] or 0) * (1 << 20)),
        best={key: float(row[f"best_{key}"]) for key in ("bf16", "fp8") if row[f"best_{key}"]},
        confidence=row["confidence"],
        source=row["source"],
        note=row["note"],
    )


def _plain(name: str) -> str:
    text = _NUMBERED.sub("", name.lower())
    text = re.sub(r"[\s_/,-]+", " ", _VENDORS.sub(" ", text)).strip()
    return _MIG.sub("", text).strip()


def find_device(name: str, *, units: int = 0, memory: int = 0, arch: str = "") -> RatedDevice:
    """Return the device of this name; without a name that says something, the one with these units and this memory.

    units: multiprocessors or compute units, 0 where unknown. memory: bytes. arch: compute capability, "9.0", or gfx.

    >>> find_device("NVIDIA L40S").peaks.rates["bf16"]
    362.0
    """
    plain = _plain(name)
    if plain in _NO_NAMES:
        return _by_size(name, units, memory, arch)
    found = [line for line in listed_devices() if re.fullmatch(line.pattern, plain)]
    if len(found) > 1:
        found = [line for line in found if line.units == units] or found
    if not found:
        return RatedDevice(name, None, "no peaks are known of this device")
    if not _alike(found):
        return RatedDevice(name, None, "the name is that of several devices")
    return _sliced(name, found[0], units, memory)


_FP32_A_CLOCK = {
    "5.0": 128,
    "5.2": 128,
    "6.0": 64,
    "6.1": 128,
    "7.0": 64,
    "7.5": 64,
    "8.0": 64,
    "8.6": 128,
    "8.7": 128,
    "8.9": 128,
    "9.0": 128,
    "10.0": 128,
    "10.3": 128,
    "12.0": 128,
    "12.1": 128,
}
"""Multiply-adds of fp32 that a multiprocessor of each compute capability does in a clock, from the table "Throughput of
Native Arithmetic Instructions" in NVIDIA's CUDA C++ Programming Guide."""
_PLAUSIBLE_BANDWIDTH = (1e9, 1e14)
_PLAUSIBLE_CLOCK = (1e8, 1e10)


def stated_device(
    name: str, *, units: int, arch: str, bytes_per_s: float, clock_hz: float = 0.0, l2_bytes: int = 0
) -> RatedDevice | None:
    """Return a device with the limits that a file states or that follow from them, None without a bandwidth.

    The bandwidth of the memory is stated, and plain fp32 follows from units and the highest clock. What matrix units do
    in a clock differs between devices of one architecture: their peaks are not known.

    >>> found = stated_device("NVIDIA GeForce RTX 4060", units=24, arch="8.9", bytes_per_s=272e9, clock_hz=2.46e9)
    >>> found.peaks.memory_gbps, round(found.peaks.rates["fp32"], 1), "bf16" in found.peaks.rates
    (272.0, 15.1, False)
    """
    low, high = _PLAUSIBLE_BANDWIDTH
    # Of a slice the file states the bandwidth of the whole device.
    if not low <= bytes_per_s <= high or "mig " in name.lower():
        return None
    rates: dict[str, float] = {}
    slow, fast = _PLAUSIBLE_CLOCK
    if units and slow <= clock_hz <= fast and arch in _FP32_A_CLOCK:
        rates["fp32"] = 2 * units * _FP32_A_CLOCK[arch] * clock_hz / 1e12
    peaks = DevicePeaks(
        name, "", units, arch, (), rates, 1.0, bytes_per_s / 1e9, None, l2_bytes, {}, "stated",
        "the file: bandwidth of the memory" + ", and fp32 by units and clock" * bool(rates), "",
    )  # fmt: skip
    note = "not in the table of devices: the bandwidth is that of the file, and peaks of matrix products are not known"
    return RatedDevice(name, peaks, note)


_SAME_BANDWIDTH = 0.03
"""The part by which the bandwidth that follows from clock and bus may differ from that of a data sheet."""


def unnamed_device(*, units: int, arch: str, clock_hz: float, memory_hz: float, bus_bits: int) -> RatedDevice:
    """Return a device of which a file has numbers and no name: the peaks in which all devices with these agree.

    arch: compute capability, or gfx. memory_hz: the clock of the memory, which transfers twice a clock; the drivers of
    AMD state half of it for HBM3.

    >>> found = unnamed_device(units=132, arch="9.0", clock_hz=1.98e9, memory_hz=2.619e9, bus_bits=5120)
    >>> found.peaks.name, found.peaks.rates["bf16"], "fp64" in found.peaks.rates
    ('NVIDIA H100 80GB HBM3 or NVIDIA H800', 989.4, False)
    """
    is_gfx = arch.startswith("gfx")
    name = f"{arch if is_gfx else f'compute capability {arch}'}, {units} units"
    bandwidths = [factor * memory_hz * bus_bits / 8 for factor in ((2, 4) if is_gfx else (2,))]
    near = [
        line
        for line in listed_devices()
        if _same_arch(line.arch, arch)
        and any(abs(line.memory_gbps * 1e9 - each) <= _SAME_BANDWIDTH * line.memory_gbps * 1e9 for each in bandwidths)
    ]
    found = [line for line in near if line.units == units]
    if not found and any(line.units > units for line in near):
        return RatedDevice(name, None, "fewer units than any such device: a slice, whose part of the memory is unknown")
    if not found:
        stated = None if is_gfx else stated_device(
            name, units=units, arch=arch, bytes_per_s=bandwidths[0], clock_hz=clock_hz
        )  # fmt: skip
        return stated or RatedDevice(name, None, "no device with these units, clocks and bus is known")
    first = found[0]
    agreed = {key: rate for key, rate in first.rates.items() if all(line.rates.get(key) == rate for line in found[1:])}
    # Where the bandwidths differ, the highest: a floor stays a least time.
    widest = max(found, key=lambda line: line.memory_gbps)
    names = " or ".join(line.name for line in found)
    peaks = replace(
        widest,
        name=names,
        rates=agreed,
        best={key: value for key, value in first.best.items() if key in agreed and len(found) == 1},
        l2_bytes=max(line.l2_bytes for line in found),
        link_gbps=None,
    )
    return RatedDevice(name, peaks, f"taken for {names}, by its units, architecture, clock and bus of the memory")


def _by_size(name: str, units: int, memory: int, arch: str) -> RatedDevice:
    """Return the device with these units and this memory, where one line of the table, or several alike, has them."""
    found = [line for line in listed_devices() if units and line.units == units and _fits(line, memory)]
    if arch:
        found = [line for line in found if _same_arch(line.arch, arch)]
    if not found or not memory:
        return RatedDevice(name, None, "the file does not name the device")
    if not _alike(found):
        return RatedDevice(name, None, "several devices have these units and this memory")
    names = " or ".join(line.name for line in found)
    return RatedDevice(name, found[0], f"taken for {names}, by {units} units and {memory / 1e9:.0f} GB of memory")


def _same_arch(listed: str, stated: str) -> bool:
    """Return whether a compute capability, or the two numbers that HIP states for a gfx, is the listed one.

    >>> _same_arch("gfx942", "9.4"), _same_arch("gfx90a", "9.0"), _same_arch("9.0", "9.0"), _same_arch("gfx942", "9.0")
    (True, True, True, False)
    """
    if not listed.startswith("gfx") or stated.startswith("gfx"):
        return listed == stated.split(":")[0]
    digits = listed.removeprefix("gfx")
    return f"{digits[:-2]}.{digits[-2]}" == stated


def _fits(line: DevicePeaks, memory: int) -> bool:
    sizes = [gb * unit for gb in line.memory_gb for unit in (1e9, _GIB)]
    return any(abs(memory - size) <= _MEMORY_SLACK / 2 * size for size in sizes)


def _alike(lines: Sequence[DevicePeaks]) -> bool:
    """Return whether lines have the same peaks, so that it does not matter which of them a device is."""
    first = lines[0]
    return all(line.rates == first.rates and line.memory_gbps == first.memory_gbps for line in lines)


def _sliced(name: str, line: DevicePeaks, units: int, memory: int) -> RatedDevice:
    """Return the device; one with fewer units than the table has is a slice, which has that part of the peaks."""
    if not units or not line.units or units == line.units:
        return RatedDevice(name, line)
    if units > line.units:
        return RatedDevice(name, None, f"it has {units} units, and the device of this name that is known {line.units}")
    part = units / line.units
    whole = max((gb for gb in line.memory_gb), default=0) * 1e9
    # A slice of memory is a number of eighths; a partition that shares all of the memory may use all of its rate.
    eighths = min(8, max(1, round(8 * memory / whole))) if memory and whole else 8
    scaled = replace(
        line,
        rates={key: value * part for key, value in line.rates.items()},
        best={key: value * part for key, value in line.best.items()},
        units=units,
        memory_gbps=line.memory_gbps * eighths / 8,
        l2_bytes=line.l2_bytes * eighths // 8,
        link_gbps=None,
    )
    of_memory = "" if eighths == 8 else f" and {eighths} of 8 parts of its memory"
    return RatedDevice(name, scaled, f"a slice: {units} of {line.units} units{of_memory}; the peaks are scaled")


def roof(device: RatedDevice, rate: str, *, factor: float = 1.0, why: str = "") -> Roof | None:
    """Return the limits of work at a rate of the table, None for a device without peaks.

    rate: "" where the datatype that ran is unknown; why says why. factor: of the peak, such as 2 for sparse products.
    """
    peaks = device.peaks
    if peaks is None:
        return None
    memory = peaks.memory_gbps * 1e9
    if not rate:
        return Roof(None, memory, unknown=why or "the datatype that ran is not known")
    peak = peaks.rates.get(rate)
    if peak is None:
        return Roof(None, memory, rate=rate, unknown=f"no peak of {rate} is known of {peaks.name}")
    # Of fp16 nobody published a measured best: it runs on the same units as bf16.
    best = peaks.best.get("bf16" if rate == "fp16" else rate) if factor == 1.0 else None
    return Roof(peak * factor * 1e12, memory, best * 1e12 if best is not None else None, rate)

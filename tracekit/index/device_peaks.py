"""Peaks of the devices of a trace: by the properties that its file has, else by the names of its devices."""

from __future__ import annotations

from tracekit.analysis.efficiency.devices import (
    DevicePeaks,
    RatedDevice,
    find_device,
    stated_device,
    unnamed_device,
)
from tracekit.index.trace_index import TraceIndex, join

__all__ = ["device_of", "device_peaks"]


@join
def device_peaks(index: TraceIndex) -> dict[tuple[int, int], RatedDevice]:
    """Return the devices by (input, number)."""
    found: dict[tuple[int, int], RatedDevice] = {}
    names = index.run.devices
    for number, source in enumerate(index.run.sources):
        listed = source.facts.get("deviceProperties")
        for properties in listed if isinstance(listed, list) else []:
            ident = properties.get("id") if isinstance(properties, dict) else None
            if not isinstance(ident, int):
                continue
            name = properties.get("name")
            text = name if isinstance(name, str) and name else names.get((number, ident), "")
            major, minor = properties.get("computeMajor"), properties.get("computeMinor")
            arch = f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else ""
            units = _count(properties.get("numSms", properties.get("multiProcessorCount")))
            memory = _count(properties.get("totalGlobalMem", properties.get("totalMemory")))
            device = find_device(text, units=units, memory=memory, arch=arch)
            if device.peaks is None:
                device = _by_properties(text, units, arch, properties) or device
            found[number, ident] = device
        planes = source.facts.get("planes")
        for (at, ident), name in names.items():
            plane = planes.get(name.split(" (")[0]) if at == number and isinstance(planes, dict) else None
            if isinstance(plane, dict) and (stated := _stated(name, plane)) is not None:
                found[number, ident] = stated
        if source.format == "proton":
            found.update(_unnamed(number, source.facts.get("devices")))
    for key, name in names.items():
        found.setdefault(key, find_device(name))
    return found


def _unnamed(source: int, listed: object) -> dict[tuple[int, int], RatedDevice]:
    """Return the devices of a tree of Proton, which has numbers of them and no names: kHz, bits, "90" for 9.0."""
    found: dict[tuple[int, int], RatedDevice] = {}
    for devices in listed.values() if isinstance(listed, dict) else []:
        for ident, facts in devices.items() if isinstance(devices, dict) else []:
            if not str(ident).isdecimal() or not isinstance(facts, dict):
                continue
            arch = str(facts.get("arch", ""))
            clock, memory = (1000 * _count(facts.get(key)) for key in ("clock_rate", "memory_clock_rate"))
            found[source, int(ident)] = unnamed_device(
                units=_count(facts.get("num_sms")),
                arch=f"{arch[:-1]}.{arch[-1]}" if arch.isdecimal() and len(arch) > 1 else arch,
                clock_hz=clock,
                memory_hz=memory,
                bus_bits=_count(facts.get("bus_width")),
            )
    return found


def _stated(name: str, plane: dict[str, object]) -> RatedDevice | None:
    """Return a device with the peaks that its file states (XPlane of a TPU), None where it states none.

    A plane of a GPU has its name, or its size alone.
    """
    if "core_count" in plane or "gpu_device_name" in plane:
        return _of_gpu_plane(plane)
    rate, bandwidth = plane.get("peak_teraflops_per_second"), plane.get("peak_hbm_bw_gigabytes_per_second")
    if not isinstance(rate, int | float) or not isinstance(bandwidth, int | float) or rate <= 0 or bandwidth <= 0:
        return None
    peaks = DevicePeaks(
        name, "", 0, "", (), {"bf16": float(rate)}, 1.0, float(bandwidth), None, 0, {}, "stated", "the file itself", ""
    )
    return RatedDevice(name, peaks, "the file states these peaks")


def _of_gpu_plane(plane: dict[str, object]) -> RatedDevice | None:
    """Return the GPU that an XPlane's plane describes, None where it is not known."""
    name, vendor = plane.get("gpu_device_name"), plane.get("device_vendor")
    text = name if isinstance(name, str) else ""
    units, memory = _count(plane.get("core_count")), _count(plane.get("memory_size"))
    major, minor = plane.get("compute_cap_major"), plane.get("compute_cap_minor")
    arch = f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else ""
    device = find_device(text, units=units, memory=memory, arch=arch)
    if device.peaks is not None or vendor == "AMD":
        # ROCm states half of the rate of the memory of newer devices.
        return device if text or device.peaks is not None else None
    clock, bandwidth = 1000 * _count(plane.get("clock_rate")), _count(plane.get("memory_bandwidth"))
    return stated_device(text, units=units, arch=arch, bytes_per_s=bandwidth, clock_hz=clock) or device


def _by_properties(name: str, units: int, arch: str, properties: dict[str, object]) -> RatedDevice | None:
    """Return a device that the table does not have, with what its file states (Nsight Systems), None for nothing."""
    bandwidth, clock, cache = (_count(properties.get(key)) for key in ("memoryBandwidth", "clockRate", "l2CacheSize"))
    return stated_device(name, units=units, arch=arch, bytes_per_s=bandwidth, clock_hz=clock, l2_bytes=cache)


def device_of(index: TraceIndex, source: int, number: int | None) -> RatedDevice:
    """Return a device; one that the file says nothing about has no peaks.

    Where all devices of the input are alike, the number does not matter: HIP counts them otherwise in rows than in the
    properties.
    """
    devices = device_peaks(index)
    if number is not None and (source, number) in devices:
        return devices[source, number]
    own = {device for (at, _), device in devices.items() if at == source}
    if len(own) == 1:
        return own.pop()
    return RatedDevice("", None, "the file does not say which device it ran on" if own else "the file names no device")


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 60 else 0

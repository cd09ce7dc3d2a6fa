"""Kernels, copies and memsets of a region, collected through CUPTI's activity records.

It needs the package cupti-python (`pip install 'tracekit-gpu[cupti]'`) and a CUDA driver; the error of `load` names the
missing one. A process has one consumer of CUPTI's activity records: another profiler that uses CUPTI (torch.profiler
with CUDA) must not run at the same time. Records stay in memory until the region ends.

Sources: the stubs of cupti-python 13.4 (cupti/cupti.pyi: function and field names) and the CUPTI documentation
(CUpti_ActivityKernel9, CUpti_ActivityMemcpy5, CUpti_ActivityMemset4, CUpti_ActivityAPI: times in ns, 0 and 0 where
none was taken; CUpti_ActivityMemcpyKind; CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC is 1).
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple, Protocol

from tracekit.recorder.clock_pairs import read_together

MISSING: Final = "the package cupti-python is not installed (pip install 'tracekit-gpu[cupti]')"
COPY_KINDS: Final = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
MEMORY_KINDS: Final = ("", "pageable", "pinned", "device", "array", "managed", "device static", "managed static")
SAME_CLOCK_NS: Final = 1_000_000
"""CUPTI's clock and the wall clock nearer than this are one clock, read at slightly different moments."""
_BUFFER_BYTES: Final = 8 << 20


class CuptiUnavailableError(Exception):
    """Collecting through CUPTI is not possible here; the text says why."""


class Activity(Protocol):
    """A record of CUPTI. Its kind decides which of these fields it has."""

    kind: int
    id: int
    name: str
    start: int
    end: int
    cbid: int
    process_id: int
    thread_id: int
    correlation_id: int
    device_id: int
    context_id: int
    stream_id: int
    grid_x: int
    grid_y: int
    grid_z: int
    block_x: int
    block_y: int
    block_z: int
    registers_per_thread: int
    static_shared_memory: int
    dynamic_shared_memory: int
    bytes: int
    flags_: int
    copy_kind: int
    src_kind: int
    dst_kind: int


class CuptiWork(NamedTuple):
    """One kernel, copy or memset. Times: ns since the Unix epoch. kind: kernel, memcpy or memset."""

    kind: str
    name: str
    start_ns: int
    end_ns: int
    device: int
    context: int
    stream: int
    correlation: int
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = None
    static_smem: int | None = None
    dynamic_smem: int | None = None
    size: int | None = None
    copy_kind: str = ""
    is_async: bool = False
    source_memory: str = ""
    target_memory: str = ""


class CuptiCall(NamedTuple):
    """One call of the CUDA runtime or driver. Times: ns since the Unix epoch; kind: runtime or driver."""

    kind: str
    name: str
    start_ns: int
    end_ns: int
    pid: int
    tid: int
    correlation: int


class Collected(NamedTuple):
    """The GPU work and CUDA calls of a region, by start; `lost`: number of records by reason."""

    work: list[CuptiWork]
    calls: list[CuptiCall]
    devices: dict[int, str]
    lost: dict[str, int]


def has_driver() -> bool:
    """Return whether a CUDA driver answers. It is not initialised: forked children could not use it afterwards."""
    try:
        version = ctypes.c_int(0)
        name = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
        return ctypes.CDLL(name).cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value > 0
    except (OSError, AttributeError):
        return False


def load() -> ModuleType:
    """Return the module `cupti.cupti`. Raises: CuptiUnavailableError."""
    if not has_driver():
        raise CuptiUnavailableError("there is no CUDA driver")
    try:
        from cupti import cupti
    except ModuleNotFoundError as error:
        raise CuptiUnavailableError(MISSING) from error
    except Exception as error:  # the package looks for its libraries when it is imported
        raise CuptiUnavailableError(f"cupti-python cannot be used ({error})") from error
    module: ModuleType = cupti
    return module


def is_available() -> bool:
    """Return whether `load` would succeed."""
    try:
        load()
    except CuptiUnavailableError:
        return False
    return True


def loaded_runtime(maps: Path = Path("/proc/self/maps")) -> str | None:
    """Return the path of the CUDA runtime that the process has loaded (Linux), or None."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and len(line.split(maxsplit=5)) == 6)
    return next((path for path in paths if Path(path).name.startswith("libcudart.so")), None)


def synchronize() -> None:
    """Wait for the GPU work of this thread's device, as far as it can be reached, so that all of it is recorded."""
    for path, function in ((loaded_runtime(), "cudaDeviceSynchronize"), ("libcuda.so.1", "cuCtxSynchronize")):
        try:
            if path is not None and getattr(ctypes.CDLL(path), function)() == 0:
                return
        except (OSError, AttributeError):
            continue


class Collector:
    """Collects from `start` to `stop`. api: runtime and driver calls too."""

    def __init__(self, cupti: ModuleType, *, api: bool, wait: Callable[[], None] = synchronize) -> None:
        self._cupti, self._api, self._wait = cupti, api, wait
        self._records: list[CuptiWork | CuptiCall] = []
        self._devices: dict[int, str] = {}
        self._lost: Counter[str] = Counter()
        self._enabled: list[object] = []
        self._offset_ns = 0

    def start(self) -> None:
        """Begin to collect. Raises: CuptiUnavailableError, and then nothing is left enabled."""
        cupti = self._cupti
        kinds = cupti.ActivityKind
        wanted = [kinds.DEVICE, kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMCPY2, kinds.MEMSET]
        if self._api:
            wanted += [kinds.RUNTIME, kinds.DRIVER]
        try:
            self._offset_ns = clock_offset(cupti.get_timestamp)
            if self._api:
                # The system's thread ids are those of the recorder's log; CUPTI's own are of pthread.
                cupti.set_thread_id_type(cupti.ActivityThreadIdType.SYSTEM)
            cupti.activity_register_callbacks(self._buffer_requested, self._buffer_completed)
            for kind in wanted:
                cupti.activity_enable(kind)
                self._enabled.append(kind)
        except Exception as error:  # cuptiError; the module is foreign, and the host must not suffer
            self._disable()
            raise CuptiUnavailableError(f"CUPTI refuses ({error})") from error

    def stop(self) -> Collected:
        """End, and return what was collected."""
        cupti = self._cupti
        self._wait()
        self._try("flush failed", cupti.activity_flush_all, 1)
        self._disable()
        dropped = ctypes.c_size_t(0)
        self._try("", cupti.activity_get_num_dropped_records, 0, 0, ctypes.addressof(dropped))
        if dropped.value:
            self._lost["records that CUPTI had no room for"] += dropped.value
        records, self._records = self._records, []
        work = sorted((r for r in records if isinstance(r, CuptiWork)), key=lambda r: r.start_ns)
        calls = sorted((r for r in records if isinstance(r, CuptiCall)), key=lambda r: r.start_ns)
        return Collected(work, _first_of_each(calls, work), dict(self._devices), dict(self._lost))

    def _disable(self) -> None:
        for kind in self._enabled:
            self._try("", self._cupti.activity_disable, kind)
        self._enabled = []

    def _try(self, reason: str, call: Callable[..., object], *args: object) -> None:
        try:
            call(*args)
        except Exception:  # noqa: BLE001 - the host must not suffer
            if reason:
                self._lost[reason] += 1

    def _buffer_requested(self) -> tuple[int, int]:
        return _BUFFER_BYTES, 0

    def _buffer_completed(self, activities: Iterable[Activity]) -> None:
        """Take the records of a buffer. CUPTI calls this on a thread of its own, and frees the buffer afterwards."""
        for activity in activities:
            try:
                self._take(activity)
            except Exception:  # noqa: BLE001 - an exception here would go to CUPTI
                self._lost["records that cannot be read"] += 1

    def _take(self, a: Activity) -> None:
        kinds = self._cupti.ActivityKind
        if a.kind == kinds.DEVICE:
            self._devices[int(a.id)] = str(a.name)
            return
        start, end = int(a.start) + self._offset_ns, int(a.end) + self._offset_ns
        if not a.start or a.end < a.start:
            self._lost["records without times"] += 1
        elif a.kind in (kinds.RUNTIME, kinds.DRIVER):
            domains = self._cupti.CallbackDomain
            is_runtime = a.kind == kinds.RUNTIME
            name = self._cupti.get_callback_name(domains.RUNTIME_API if is_runtime else domains.DRIVER_API, a.cbid)
            kind = "runtime" if is_runtime else "driver"
            plain = re.sub(r"_v\d+$", "", str(name))  # cudaLaunchKernel_v7000
            self._records.append(
                CuptiCall(kind, plain, start, end, int(a.process_id), int(a.thread_id), int(a.correlation_id))
            )
        elif a.kind in (kinds.CONCURRENT_KERNEL, kinds.KERNEL):
            self._records.append(self._kernel(a, start, end))
        elif a.kind in (kinds.MEMCPY, kinds.MEMCPY2, kinds.MEMSET):
            self._records.append(self._copy(a, start, end))

    def _kernel(self, a: Activity, start: int, end: int) -> CuptiWork:
        return CuptiWork(
            "kernel",
            str(a.name),
            start,
            end,
            *_place_of(a),
            grid=(int(a.grid_x), int(a.grid_y), int(a.grid_z)),
            block=(int(a.block_x), int(a.block_y), int(a.block_z)),
            registers=int(a.registers_per_thread),
            static_smem=int(a.static_shared_memory),
            dynamic_smem=int(a.dynamic_shared_memory),
        )

    def _copy(self, a: Activity, start: int, end: int) -> CuptiWork:
        place = _place_of(a)
        is_async = bool(int(a.flags_) & 1)
        if a.kind == self._cupti.ActivityKind.MEMSET:
            return CuptiWork("memset", "memset", start, end, *place, size=int(a.bytes), is_async=is_async)
        copy_kind = _named(COPY_KINDS, a.copy_kind)
        return CuptiWork(
            "memcpy",
            f"memcpy{copy_kind}",
            start,
            end,
            *place,
            size=int(a.bytes),
            copy_kind=copy_kind,
            is_async=is_async,
            source_memory=_named(MEMORY_KINDS, a.src_kind),
            target_memory=_named(MEMORY_KINDS, a.dst_kind),
        )


def _place_of(a: Activity) -> tuple[int, int, int, int]:
    """Return device, context, stream and correlation."""
    return int(a.device_id), int(a.context_id), int(a.stream_id), int(a.correlation_id)


def _named(names: tuple[str, ...], number: int) -> str:
    return names[int(number)] if 0 <= int(number) < len(names) else ""


def _first_of_each(calls: list[CuptiCall], work: list[CuptiWork]) -> list[CuptiCall]:
    """Return the calls without driver calls inside a runtime call, and without driver calls that start no work.

    The runtime calls the driver inside, with the same correlation. A launch through the driver itself (as Triton
    does) stays.
    """
    of_runtime = {call.correlation for call in calls if call.kind == "runtime"}
    launches = {w.correlation for w in work} - of_runtime
    return [call for call in calls if call.kind == "runtime" or call.correlation in launches]


def clock_offset(timestamp: Callable[[], int], epoch: Callable[[], int] = time.time_ns) -> int:
    """Return the offset from CUPTI's times to ns since the Unix epoch; 0 where CUPTI's clock is the wall clock.

    The tightest of five readings, exact to about a us; all records of a region use the same.

    >>> ticks = iter(range(5_000_000_000, 6_000_000_000))
    >>> clock_offset(lambda: 7, lambda: next(ticks)) // 1_000_000_000
    4
    """
    pair = read_together(epoch, timestamp, 5)
    offset = pair.outer - pair.inner
    return 0 if abs(offset) < SAME_CLOCK_NS else offset

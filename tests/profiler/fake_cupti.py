"""A module with the part of cupti-python's interface that tracekit uses, and a GPU whose work a test invents.

Names and values as in the stubs of cupti-python 13.4 and in cupti_activity.h (CUDA 13).
"""

from __future__ import annotations

import ctypes
import enum
import os
import sys
import threading
import time
import types
from types import SimpleNamespace

import pytest
from doors.profiler import profiler_cupti as _cupti


class ActivityKind(enum.IntEnum):
    MEMCPY = 1
    MEMSET = 2
    KERNEL = 3
    DRIVER = 4
    RUNTIME = 5
    DEVICE = 8
    CONCURRENT_KERNEL = 10
    MEMCPY2 = 22


class ActivityThreadIdType(enum.IntEnum):
    DEFAULT = 0
    SYSTEM = 1


class CallbackDomain(enum.IntEnum):
    DRIVER_API = 1
    RUNTIME_API = 2


class cuptiError(Exception):
    pass


class FakeCupti(types.ModuleType):
    """The module; `kernel`, `copy` and `fill` are the program's work. shift: its clock - the wall clock, ns."""

    def __init__(self, *, shift: int = 0, refuse: ActivityKind | None = None) -> None:
        super().__init__("cupti.cupti")
        self.ActivityKind, self.ActivityThreadIdType = ActivityKind, ActivityThreadIdType
        self.CallbackDomain, self.cuptiError = CallbackDomain, cuptiError
        self.shift, self.refuse = shift, refuse
        self.enabled: set[ActivityKind] = set()
        self.history: list[object] = []
        self.pending: list[object] = []
        self.dropped = 0
        self.correlation = 100
        self.thread_ids = ActivityThreadIdType.DEFAULT

    # What tracekit calls

    def get_timestamp(self) -> int:
        return time.time_ns() + self.shift

    def set_thread_id_type(self, kind: int) -> None:
        self.thread_ids = ActivityThreadIdType(kind)

    def activity_register_callbacks(self, requested, completed) -> None:
        size, records = requested()
        assert size >= 4096
        assert records == 0
        self.completed = completed

    def activity_enable(self, kind: ActivityKind) -> None:
        if kind is self.refuse:
            raise cuptiError("CUPTI_ERROR_NOT_COMPATIBLE")
        self.enabled.add(kind)
        self.history.append(("enable", kind))
        if kind is ActivityKind.DEVICE:
            self.pending.append(SimpleNamespace(kind=int(kind), id=0, name="Invented GPU"))

    def activity_disable(self, kind: ActivityKind) -> None:
        self.enabled.discard(kind)
        self.history.append(("disable", kind))

    def activity_flush_all(self, flag: int) -> None:
        self.history.append(("flush", flag))
        records, self.pending = self.pending, []
        # CUPTI hands its buffers over on a thread of its own.
        thread = threading.Thread(target=self.completed, args=(records,))
        thread.start()
        thread.join()
        for record in records:  # and frees them: whoever kept a record would read garbage
            vars(record).clear()

    def activity_get_num_dropped_records(self, context: int, stream: int, where: int) -> None:
        ctypes.c_size_t.from_address(where).value = self.dropped

    def get_callback_name(self, domain: int, cbid: int) -> str:
        return {(2, 211): "cudaLaunchKernel_v7000", (2, 31): "cudaMemcpy_v3020", (1, 307): "cuLaunchKernel"}[
            (int(domain), cbid)
        ]

    # What the program does

    def _record(self, kind: ActivityKind, ns: int, **fields: object) -> None:
        if kind in self.enabled:
            start = self.get_timestamp()
            self.pending.append(SimpleNamespace(kind=int(kind), start=start, end=start + ns, **fields))

    def call(self, name: str = "runtime") -> int:
        self.correlation += 1
        both = {"process_id": os.getpid(), "thread_id": threading.get_native_id(), "correlation_id": self.correlation}
        if name == "runtime":
            self._record(ActivityKind.RUNTIME, 4_000, cbid=211, **both)
        self._record(ActivityKind.DRIVER, 3_000, cbid=307, **both)  # the runtime calls it inside
        return self.correlation

    def kernel(self, name: str = "_Z6vecaddPiS_", ns: int = 12_345, *, by: str = "runtime", **other: int) -> None:
        correlation = self.call(by)
        fields = {
            "device_id": 0, "context_id": 1, "stream_id": 7, "grid_x": 64, "grid_y": 2, "grid_z": 1, "block_x": 128,
            "block_y": 1, "block_z": 1, "registers_per_thread": 16, "static_shared_memory": 1024,
            "dynamic_shared_memory": 2048,
        }  # fmt: skip
        kind = ActivityKind.CONCURRENT_KERNEL
        self._record(kind, ns, name=name, correlation_id=correlation, **(fields | other))

    def copy(self, copy_kind: int = 1, ns: int = 2_500, *, flags: int = 0, src: int = 1, dst: int = 3) -> None:
        kind = ActivityKind.MEMCPY2 if copy_kind == 10 else ActivityKind.MEMCPY
        self._record(
            kind, ns, bytes=4096, copy_kind=copy_kind, src_kind=src, dst_kind=dst, flags_=flags, device_id=0,
            context_id=1, stream_id=7, correlation_id=self.call(),
        )  # fmt: skip

    def fill(self, ns: int = 800) -> None:
        self._record(
            ActivityKind.MEMSET, ns, bytes=512, value=0, memory_kind=3, flags_=0, device_id=0, context_id=1,
            stream_id=7, correlation_id=self.call(),
        )  # fmt: skip


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeCupti, *, driver: bool = True) -> FakeCupti:
    package = types.ModuleType("cupti")
    package.cupti = fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupti", package)
    monkeypatch.setitem(sys.modules, "cupti.cupti", fake)
    monkeypatch.setattr(_cupti, "has_driver", lambda: driver)
    return fake

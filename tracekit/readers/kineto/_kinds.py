"""Kineto's categories (libkineto, ActivityType.cpp), and what they are here."""

from __future__ import annotations

from tracekit.schema import Kind

KINDS: dict[str, Kind] = {
    "cpu_op": Kind.OPERATOR,
    "user_annotation": Kind.USER_RANGE,
    "python_function": Kind.PYTHON_OP,
    "cuda_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.DRIVER,
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "cuda_sync": Kind.SYNC,
    "overhead": Kind.OVERHEAD,
    # Other names of the same kinds; the cat stays in args.
    "Operator": Kind.OPERATOR,
    "Runtime": Kind.RUNTIME,
    "Kernel": Kind.KERNEL,
    "Memcpy": Kind.MEMCPY,
    "Memset": Kind.MEMSET,
    "mtia_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "xpu_driver": Kind.DRIVER,
    "glow_runtime": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "privateuse1_driver": Kind.DRIVER,
    "mtia_ccp_events": Kind.KERNEL,
    "concurrent_kernel": Kind.KERNEL,
    "hpu_op": Kind.KERNEL,
    "collective_comm": Kind.COMMUNICATION,
}
OWN_CAT = {
    Kind.OPERATOR: "cpu_op",
    Kind.USER_RANGE: "user_annotation",
    Kind.STEP: "user_annotation",
    Kind.PYTHON_OP: "python_function",
    Kind.RUNTIME: "cuda_runtime",
    Kind.DRIVER: "cuda_driver",
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "gpu_memcpy",
    Kind.MEMSET: "gpu_memset",
    Kind.SYNC: "cuda_sync",
    Kind.OVERHEAD: "overhead",
}
"""The cat that a kind implies: another cat stays in args."""
_DEVICE_WORK = frozenset({Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC})
_BESIDE_WORK = frozenset({"gpu_user_annotation", "cuda_profiler_range", "mtia_insight", "gpu_pm_counter"})
ON_DEVICE = frozenset(cat for cat, kind in KINDS.items() if kind in _DEVICE_WORK) | _BESIDE_WORK
HOST = frozenset({"cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "Operator", "Runtime"})

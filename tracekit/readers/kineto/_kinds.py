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
    # Of the same kinds, under other names: their cat stays in args.
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
    Kind.OPERATOR: "cpu_op", Kind.USER_RANGE: "user_annotation", Kind.STEP: "user_annotation",
    Kind.PYTHON_OP: "python_function", Kind.RUNTIME: "cuda_runtime", Kind.DRIVER: "cuda_driver", Kind.KERNEL: "kernel",
    Kind.MEMCPY: "gpu_memcpy", Kind.MEMSET: "gpu_memset", Kind.SYNC: "cuda_sync", Kind.OVERHEAD: "overhead",
}  # fmt: skip
"""The cat that a kind tells."""
ON_DEVICE = frozenset(
    {
        "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation", "mtia_ccp_events", "hpu_op", "Kernel",
        "Memcpy", "Memset", "concurrent_kernel", "cuda_profiler_range", "mtia_insight", "gpu_pm_counter",
    }
)  # fmt: skip
HOST = frozenset({"cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "Operator", "Runtime"})

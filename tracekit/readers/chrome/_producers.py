"""Producers of Chrome traces that write some things in their own way, and the words by which a file shows them."""

from __future__ import annotations

import re

from tracekit.readers.chrome._ascend import Ascend
from tracekit.readers.chrome._autograd import Autograd
from tracekit.readers.chrome._devices import (
    Horovod,
    OnnxRuntime,
    Rocprof,
    TensorFlow,
    Unitrace,
)
from tracekit.readers.chrome.marks import ASCEND_NAMES
from tracekit.readers.trace_event.look import Dialect
from tracekit.schema import KINDS, Kind

_GPU = rb"\bGPU[0-9]"
ANY = Dialect("", "")
TENSORFLOW = Dialect(
    "tensorflow", "TensorFlow timeline", {"Op": Kind.OPERATOR}, lanes=rb"[gG][pP][uU]:[0-9]", special=TensorFlow
)
JAX = Dialect(
    "jax",
    "JAX profiler (XLA trace viewer)",
    python_names=True,
    default=Kind.OTHER,
    device=re.compile(r"/device:(?:GPU|TPU):([0-9]{1,6})\b.*", re.ASCII),
    lanes=rb'"/device:',
)
VIZTRACER = Dialect("viztracer", "VizTracer", {"FEE": Kind.PYTHON_OP})
PY_SPY = Dialect("py-spy", "py-spy", {"py-spy": Kind.PYTHON_OP})
FLUID = Dialect(
    "fluid-timeline",
    "Paddle tools/timeline.py",
    {"Op": Kind.OPERATOR},
    device=re.compile(r".*:[gx]pu:([0-9]{1,6})", re.ASCII),
    lanes=rb":[gx]pu:[0-9]",
)
ONNXRUNTIME = Dialect(
    "onnxruntime",
    "ONNX Runtime profiler",
    {"Node": Kind.OPERATOR, "Kernel": Kind.KERNEL, "Api": Kind.RUNTIME},
    special=OnnxRuntime,
)
AUTOGRAD = Dialect("autograd", "PyTorch autograd profiler", special=Autograd)
ASCEND = Dialect(
    "ascend",
    "Ascend profiler (msprof, torch_npu)",
    {"cpu_op": Kind.OPERATOR, "user_annotation": Kind.USER_RANGE, "python_function": Kind.PYTHON_OP},
    default=Kind.OTHER,
    lanes=ASCEND_NAMES,
    special=Ascend,
)
ROCPROF = Dialect(
    "rocprof", "rocprof", device=re.compile(r"(?:[0-9]+ )?GPU([0-9]{1,6})", re.ASCII), lanes=_GPU, special=Rocprof
)
RPD = Dialect(
    "rpd", "rocmProfileData (rpd2tracing)", device=re.compile(r"GPU([0-9]{1,6})", re.ASCII), lanes=_GPU, special=Rocprof
)
HOROVOD = Dialect("horovod", "Horovod timeline", special=Horovod)
UNITRACE = Dialect("unitrace", "Intel unitrace", {"gpu_op": Kind.KERNEL, "cpu_op": Kind.RUNTIME}, special=Unitrace)
TRACEKIT = Dialect("tracekit", "tracekit", {str(k): Kind(k) for k in KINDS})

_HEADS = (
    (VIZTRACER, re.compile(rb'"viztracer_metadata"|"cat"\s*:\s*"FEE"')),
    (PY_SPY, re.compile(rb'"cat"\s*:\s*"py-spy"')),
    (JAX, re.compile(rb'"highres-ticks"|"name"\s*:\s*"/(?:host|device):[A-Z]+(?::[0-9]+)?"')),
    (
        TENSORFLOW,
        re.compile(rb'"name"\s*:\s*"(?:/job:[^"]*(?:device|[cg]pu):[^"]*|/gpu:[0-9]+/[^"]* Compute|Allocators)"'),
    ),
    (
        ASCEND,
        re.compile(rb'"Ascend Hardware"|"Task Type"\s*:\s*"[A-Z_]+"|"cat"\s*:\s*"async_npu"|"name"\s*:\s*"AscendCL@'),
    ),
    (AUTOGRAD, re.compile(rb'"pid"\s*:\s*"(?:CPU|CUDA) [fF]unctions"')),
    (ONNXRUNTIME, re.compile(rb'"cat"\s*:\s*"Session"[^{}]{0,200}"name"\s*:\s*"(?:model_loading|session_init)')),
    (HOROVOD, re.compile(rb'"name"\s*:\s*"NEGOTIATE_(?:ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER)"')),
    (ROCPROF, re.compile(rb'"BeginNs"\s*:\s*"[0-9]')),
    (RPD, re.compile(rb'"desc"\s*:\s*"(?:KernelExecution|FillBuffer|Copy(?:Host|Device)To(?:Host|Device)[^"]*)"')),
    (UNITRACE, re.compile(rb'"name"\s*:\s*"(?:ze[A-Z]|cl[A-Z])[^"]{1,200}"\s*,\s*"cat"\s*:\s*"(?:cpu|gpu)_op"')),
    (FLUID, re.compile(rb'"name"\s*:\s*"[^"]{0,200}:(?:cuda_api|cpu:block:[0-9]+|[gx]pu:[0-9]+)"|"memory usage on ')),
)


def dialect_of(head: bytes) -> Dialect:
    """Return the producer that the head of a file shows; ANY for others."""
    return next((dialect for dialect, pattern in _HEADS if pattern.search(head)), ANY)

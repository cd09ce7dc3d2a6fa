"""Types of tasks of Ascend's NPUs, and layers of the calls of CANN, as every output of msprof and torch_npu names them.

Sources: RegisterProfTypeInfo of CANN's runtime (profiling_agent.cc), the tables of the STARS and HWTS schedulers in
msprof (db_constant.h), and the accelerators in kernel_details.csv and op_summary.
"""

from __future__ import annotations

import re

from tracekit.model.schema import Kind

__all__ = ["call_kind", "kernel_kind", "task_kind"]

_TASKS = (
    (re.compile(r"MEMCPY|SDMA|PCIE_DMA"), Kind.MEMCPY),
    (re.compile(r"MEMSET"), Kind.MEMSET),
    (re.compile(r"EVENT|NOTIFY|WAIT|BARRIER"), Kind.SYNC),
    (
        re.compile(
            r"PROFILER_TRACE|PCTRACE|PC_TRACE|MODEL_|LABEL_|STREAM_|MAINTENANCE|CREATE_|DATA_DUMP|PLACE_HOLDER"
            r"|WRITE_VALUE|WRITEVALUE|FUSION_ISSUE|FLIP|RESERVED|INVALID|UNKNOWN|N/A$|PROF(?:ILING)?_(?:EN|DIS)ABLE"
            r"|TIMEOUT_SET|LOADINFO|DEBUG_|FUSIONDUMP|RINGBUFFER|GET_DEVICE_MSG|GET_STARS|SET_STREAM|SWTICH_SET"
            r"|FLOAT_STATUS|NOP$|ADC_PROF|ALLOC_DSA|CAPTURE_RECORD|CMO$"
        ),
        Kind.OTHER,
    ),
)
"""Types of tasks that are no work of an engine, in order of precedence.

All others are: AI cores, vector cores, AI CPUs, DSA, the engines for images, RDMA, and later types.
"""


def task_kind(task: str, name: str) -> Kind:
    """Return the kind of a task. Where the type is only that of a carrier, the name decides.

    >>> task_kind("AI_VECTOR_CORE", "Cast66"), task_kind("EVENT_RECORD", "N/A")
    (<Kind.KERNEL: 'kernel'>, <Kind.SYNC: 'sync'>)
    """
    return next(
        (kind for word, kind in _TASKS if word.search(task.upper()) or (kind is not Kind.OTHER and word.match(name))),
        Kind.KERNEL,
    )


def kernel_kind(core: str) -> Kind:
    """Return the kind of a row in a table of operators: without an accelerator (level 0) it is a kernel all the same.

    >>> kernel_kind("N/A"), kernel_kind("HCCL")
    (<Kind.KERNEL: 'kernel'>, <Kind.KERNEL: 'kernel'>)
    """
    return Kind.KERNEL if core.strip() in ("", "N/A") else task_kind(core, "")


_LEVELS = {
    "acl": Kind.RUNTIME, "ascendcl": Kind.RUNTIME, "runtime": Kind.DRIVER, "node": Kind.DRIVER,
    "communication": Kind.COMMUNICATION, "hccl": Kind.COMMUNICATION,
}  # fmt: skip


def call_kind(level: str) -> Kind:
    """Return the kind of a call of CANN by its layer: a program calls AscendCL, which launches by the layers below it.

    >>> call_kind("AscendCL"), call_kind("node")
    (<Kind.RUNTIME: 'runtime'>, <Kind.DRIVER: 'driver'>)
    """
    return _LEVELS.get(level.lower(), Kind.OTHER)

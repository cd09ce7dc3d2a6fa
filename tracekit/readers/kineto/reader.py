"""PyTorch's profiler (Kineto): Chrome trace JSON of torch 1.8 to today, for CUDA, ROCm, MTIA, XPU and CPU.

    { "schemaVersion": 1, "distributedInfo": {"rank": 0}, "deviceProperties": [{"id": 0, "name": "Tesla V100"}],
      "traceEvents": [ { "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 4458676984451.267,
        "dur": 4.960, "args": {"device": 0, "stream": 7, "correlation": 57609, "grid": [8, 1, 1]} }, ...],
      "baseTimeNanoseconds": 1711964646000000000 }

A record is an element of traceEvents. Unix time in ns is ts x 1000 + baseTimeNanoseconds (absent: ts is Unix time in
µs already, unless it is small, as where a script filtered the events: no stated clock), computed in integers. Kept: X
and i events, and the arrows s, t, f. Facts: M events. Ignored: empty objects.

| cat | kind |
|---|---|
| cpu_op, Operator | operator |
| user_annotation | user_range; "ProfilerStep#n": step n; "nccl:..." and the like: communication (Operator too) |
| these and cpu_op | "enumerate(DataLoader)#...": dataloader; "Optimizer.step#...": optimizer |
| python_function | python_op |
| cuda_runtime, cuda_driver, mtia_runtime, ... | runtime, driver |
| kernel; gpu_memcpy; gpu_memset; cuda_sync | kernel; memcpy; memset; sync |
| mtia_ccp_events | kernel, or memcpy where it is a dma_request |
| gpu_user_annotation, Trace, cuda_profiler_range, others | other |

A gpu_user_annotation repeats a host range: it is no GPU work. A cat that its kind does not imply stays in args. Device
rows have pid = device and tid = stream in the file (torch 1.8: the text "stream 7"); here they have these in `device`
and `stream`, and the pid of the host process, since one file is of one process; ends of arrows there are in the context
of the work on their stream.
"[memory]" instants are rows of kind memory (bytes signed, device when it is a GPU) and bring two counters, Total
Allocated and Total Reserved. "shared memory" of kernels is static and dynamic together: it stays in args.
`tracekit.inputs.steps` sets the step of the rows inside one.

Rank, world size, process groups and device properties are facts of the run. Device events at time 0 with duration 0
have no true time (kineto issue 109): dropped. Facts were read off the files named in tests/readers/test_kineto.py and
in libkineto's output_json.cpp and ActivityType.cpp.

Several of these files joined into one: `readers/kineto/_hosts.py`. Not supported: memory snapshots (pickle).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracekit.readers.base import Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger

_VERSION_NUMBER = rb'"schemaVersion"\s*:\s*[0-9]+\s*[,}]'
_FACTS = rb'"(?:deviceProperties|computeProperties|distributedInfo|baseTimeNanoseconds)"\s*:'
_CATS = (
    rb'"cat"\s*:\s*"(?:cpu_op|cuda_runtime|cuda_driver|ac2g|fwdbwd|gpu_user_annotation|gpu_memcpy|user_annotation|'
    rb'mtia_runtime|python_function|cpu_instant_event|Operator|Runtime|Kernel|kernel)"'
)
_ARGS = rb'"(?:External id|external id|Ev Idx|Python id|Record function id|correlation)"\s*:'
_CATS_OF_NOBODY_ELSE = (
    rb'"cat"\s*:\s*"(?:cuda_runtime|cuda_driver|cuda_sync|gpu_memcpy|gpu_memset|gpu_user_annotation|ac2g)"'
)
"""Categories that remain where a script has filtered the events of a file."""
_OF_ASCEND = rb'"Ascend Hardware"|"Task Type"\s*:\s*"'
"""Words of torch_npu, whose operators and Python frames look like torch's."""


def has_header(data: bytes) -> bool:
    """Return whether the outermost object has the version and the facts that libkineto writes."""
    return bool(re.search(_VERSION_NUMBER, data) and re.search(_FACTS, data))


def has_events(data: bytes) -> bool:
    """Return whether there are events with torch's categories and arguments, and none of an Ascend device."""
    if re.search(_OF_ASCEND, data):
        return False
    return bool(re.search(_CATS_OF_NOBODY_ELSE, data) or (re.search(_CATS, data) and re.search(_ARGS, data)))


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events."""
    from tracekit.readers.kineto import _reading

    return _reading.read(source, options, ledger)

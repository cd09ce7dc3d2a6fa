"""Words that show the producer of a Chrome trace, in some files only behind the head: late metadata, late events."""

from __future__ import annotations

__all__ = ["ASCEND_NAMES", "LATE", "OURS", "VIZTRACER_METADATA"]

OURS = rb'\A\{"displayTimeUnit":"ns","traceEvents":\['
"""Begin of a file of writers/chrome; its args may hold words of any other producer."""
VIZTRACER_METADATA = rb'"viztracer_metadata"'
ASCEND_NAMES = rb'"Ascend Hardware"'
LATE = (
    VIZTRACER_METADATA,
    rb'"FEE"',
    rb'"py-spy"',
    rb'"highres-ticks"',
    rb'"/(?:host|device):[A-Z]',
    rb'"/(?:job:|gpu:[0-9])',
    rb'"Allocators"',
    ASCEND_NAMES,
    rb'"async_npu"',
    rb'"AscendCL@',
    rb'"Task Type"',
    rb'"(?:CPU|CUDA) [fF]unctions"',
    rb'"(?:model_loading|session_init)',
    rb'"NEGOTIATE_[A-Z]',
    rb'"BeginNs"',
    rb'"(?:KernelExecution|FillBuffer|Copy(?:Host|Device)To)',
    rb'"(?:ze|cl)[A-Z]',
    rb':(?:cuda_api"|cpu:block:[0-9]|[gx]pu:[0-9])',
    rb'"memory usage on ',
    rb'"call_stack"',
    rb'"Finalization Time \(ns\)"',
    rb'"GPU cycle"',
)
"""At least one of them is in each text by which `_producers` knows a producer."""

"""Which producer wrote a trace-event file, by its head: one answer, so that exactly one reader is sure."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracekit.readers.base import Confidence, Head
from tracekit.readers.trace_event.kineto_kinds import CATS
from tracekit.readers.trace_event.stream import is_bare

KINETO, PADDLE, MXNET, MINI_CAFFE, CHROME = "kineto", "paddle-json", "mxnet", "mini-caffe", "chrome-trace"

_OURS = re.compile(rb'\{"displayTimeUnit":"ns","traceEvents":\[')
"""How writers/chrome/trace.py begins; its args may hold words of any other producer."""
_OUR_LINES = re.compile(rb'\{"(?:tracekit|ts_ns)"\s*:|\{"format"\s*:\s*"tracekit-log"')
"""How our lines begin (writers/jsonl.py, recorder/log_format.py); what was read from others holds their words."""
_LIST = re.compile(rb'"traceEvents"\s*:')
_PHASE = re.compile(rb'"ph"\s*:\s*"[A-Za-z()]"')
_EVENT_KEY = re.compile(rb'"(?:ts|pid|tid)"\s*:')
_VERSION_NUMBER = re.compile(rb'"schemaVersion"\s*:\s*[0-9]+\s*[,}]')
_KINETO_FACTS = re.compile(rb'"(?:deviceProperties|computeProperties|distributedInfo|baseTimeNanoseconds)"\s*:')
_TORCH_ARGS = re.compile(rb'"(?:External id|external id|Ev Idx|Python id|Record function id|correlation)"\s*:')
_TORCH_ALONE = re.compile(
    rb'"cat"\s*:\s*"(?:cuda_runtime|cuda_driver|cuda_sync|gpu_memcpy|gpu_memset|gpu_user_annotation|ac2g)"'
)
"""Categories that nobody else writes: they are left where a script has filtered the events of a file of Kineto."""
_PADDLE = re.compile(rb'"span_ind(?:e)?x"\s*:')
_PADDLE_TEXT = re.compile(rb'"schemaVersion"\s*:\s*"[0-9.]+"')
_MXNET = re.compile(rb'"args"\s*:\s*\{\s*"name"\s*:\s*"(?:cpu|gpu)/[0-9]+"|"cat"\s*:\s*"MXNET_C_API"')
_MINI_CAFFE = re.compile(rb'"cat"\s*:\s*"category"')


def family(head: Head) -> str:
    """Return the reader's name that this is a file for, "" for none."""
    data = head.data.lstrip()
    if data[:1] == b"[":
        body = data[1:].lstrip()
        if body[:1] == b"{" and _PHASE.search(data) and _EVENT_KEY.search(data):
            if _MXNET.search(data):
                return MXNET
            return KINETO if _is_torch(data) else CHROME
        return ""
    if data[:1] != b"{":
        return ""
    if _OURS.match(data):
        return CHROME
    if _OUR_LINES.match(data):
        return ""
    listed = _LIST.search(data)
    if _PADDLE.search(data) and (_PADDLE_TEXT.search(data) or listed):
        return PADDLE
    if _VERSION_NUMBER.search(data) and _KINETO_FACTS.search(data):
        return KINETO
    if not listed and not is_bare(data):
        return ""
    if _is_torch(data):
        return KINETO
    if _MXNET.search(data):
        return MXNET
    return MINI_CAFFE if _is_mini_caffe(data) else CHROME


def _is_torch(data: bytes) -> bool:
    return bool(_TORCH_ALONE.search(data) or (CATS.search(data) and _TORCH_ARGS.search(data)))


def _is_mini_caffe(data: bytes) -> bool:
    events = _PHASE.findall(data)
    begins = sum(e.endswith((b'"B"', b'"E"')) for e in events)
    return bool(events) and begins == len(events) and len(_MINI_CAFFE.findall(data)) >= max(len(events) - 1, 1)


def sniffer_of(name: str) -> Callable[[Head], Confidence]:
    """Return the sniff function of a reader."""

    def sniff(head: Head) -> Confidence:
        return Confidence.YES if family(head) == name else Confidence.NO

    return sniff

"""paddle-json: the trace of paddle.profiler's export_chrome_tracing (`*.paddle_trace.json`, Paddle 2.2 to 3.x).

    { "displayTimeUnit": "ms", "schemaVersion": "1.0.2", "span_indx": "0", "traceEvents": [
      { "name": "conv2d dygraph[0.591 us]", "pid": 3714, "tid": "3714(C++)", "ts": 1795227315625523, "dur": 0.591,
        "ph": "X", "cat": "Operator", "args": { "start_time": "1116.250 us", "end_time": "1116.841 us" } }, {} ],
      "ExtraInfo": { "3714": "MainThread" } }

A record is an element of traceEvents. Kept: X, the allocations (i, "[memory]") and arrows. Facts: M. Ignored: the empty
object at the end.

Times: `ts` is Unix time cut to whole µs, `dur` has ns. `args.start_time` counts from the first event, with ns, but went
through a 32-bit float: exact below 16.8 ms, then less and less exact. The start of a row is start_time plus the one
base that fits all early events (facts: base_uncertainty_ns), kept within the µs of `ts`; the duration is `dur`. So
starts agree with the .pb of the same run to the ns in the first 16 ms, and to 1 µs always. Without start_time (Paddle
2.2) starts are whole µs, with a note.

The duration at the end of a name is removed; tid "3714(C++)" and "3714(Python)" are one thread, 3714. Kinds:
`_types.KIND_OF_TYPE`. In the file, a device row has the device as pid and the stream as tid; here they are in `device`
and `stream`, and `pid` is that of the host. Names are not escaped in the file: broken JSON is repaired, with a note.

Sources: files of 2.6.2 and 3.3.1, chrometracing_logger.cc. Not supported: the colour (cname) is skipped, and so are the
members that repeat the times above.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracekit.readers.base import Opened, ReadOptions
from tracekit.readers.trace_event.marks import EVENT_LIST

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger

_SPAN = rb'"span_ind(?:e)?x"\s*:'
_VERSION_TEXT = rb'"schemaVersion"\s*:\s*"[0-9.]+"'


def has_header(data: bytes) -> bool:
    """Return whether the outermost object has a span's number, and Paddle's version or a list of events."""
    return bool(re.search(_SPAN, data) and (re.search(_VERSION_TEXT, data) or re.search(EVENT_LIST, data)))


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events."""
    from tracekit.readers.paddle import _json

    return _json.read(source, options, ledger)

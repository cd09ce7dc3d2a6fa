"""tensorrt-times: the times of each query, `trtexec --exportTimes=FILE`: a timeline of copies and compute.

    [
      { "startEnqMs" : 4.29501, "endEnqMs" : 4.33191, "startH2dMs" : 4.65952, "endH2dMs" : 4.65952,
        "startComputeMs" : 4.65952, "endComputeMs" : 5.12992, "startD2hMs" : 5.12992, "endD2hMs" : 5.12992,
        "h2dMs" : 0, "computeMs" : 0.4704, "d2hMs" : 0, "latencyMs" : 0.4704 }
    ]

A record is a query (one line of the file). Its rows: `enqueue` on the host (kind runtime); `compute` (kind kernel) and
the copies of inputs and outputs on the device, joined with it by `correlation`, the number of the query. A copy that
took no time was not made (`--noDataTransfers`), and has no row. `latency_ns` in `args` of `compute` is the file's sum
of the three.

Durations are `computeMs`, `h2dMs` and `d2hMs`; that of `enqueue` is its end minus its start. Each number has six
digits: from 1 s on a start is rounded to 10 us, from 10 s on to 100 us, while durations are exact to the ns. So work
may seem to overlap or to have gaps of that size, which a note says. Times are from the start of the run: the file does
not have the wall clock, the device, or the streams of `--infStreams`. `stream` has trtexec's numbers of the three
streams of a query: 0 for inputs, 1 for compute, 2 for outputs.

Sources: exportJSONTrace in samples/common/sampleReporting.cpp of NVIDIA/TensorRT, 6 to 11, sampleInference.cpp beside
it, and the files in trt-engine-explorer. TensorRT 6 and 7 wrote `startInMs`, `endInMs`, `startOutMs`, `endOutMs`,
`inMs` and `outMs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracekit.model import sets
from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.printed.starts import with_order
from tracekit.readers.tensorrt.figures import decoded, exact_ns

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.arrow import I64
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_HEAD = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\[\s*\{(?=[^{}]{0,2000}?"startComputeMs"\s*:)(?=[^{}]{0,2000}?"(?:endComputeMs|computeMs)"\s*:)'
)
_COMPUTE = (("startComputeMs",), ("endComputeMs",), ("computeMs",))
_ENQUEUE, _KERNEL, _HTOD, _DTOH = range(4)
"""The rows of a query."""
_STREAMS = (-1, 1, 0, 2)
"""trtexec's numbers of the streams of compute, inputs and outputs; calls have none."""
_COPIES = (
    (_HTOD, (("startH2dMs", "startInMs"), ("endH2dMs", "endInMs"), ("h2dMs", "inMs"))),
    (_DTOH, (("startD2hMs", "startOutMs"), ("endD2hMs", "endOutMs"), ("d2hMs", "outMs"))),
)
_MOST_MS = float(1 << 51) / 1e6
_NEAR_HALF = 1e-3
_SECOND = 1_000_000_000


def sniff(head: Head) -> Confidence:
    """Return YES for the first query."""
    return Confidence.YES if _HEAD.match(head.data) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the rows of the queries. Raises: ParseError for anything else."""
    from tracekit.errors import ParseError
    from tracekit.model.trace import Run, SourceFacts

    data, found = decoded(source)
    if found is None:
        # A cut file, or one with a number that JSON does not have: each query is a line of its own.
        found = _lines(data)
        if found and found[-1] is None:
            found.pop()
            ledger.read += 1
            drop_torn(ledger, f"query {len(found)}")
    if not isinstance(found, list):
        raise ParseError(source.name, "", "no times of trtexec: a list of queries is needed")
    run = Run(sources=[SourceFacts(source.name, "tensorrt-times", facts={"tool": "TensorRT (trtexec)"})])
    # Compute of some us, of which the starts are rounded to more, holds no order.
    return ReadResult(run, with_order(_batches(found, options, ledger), run, ledger), True, (ledger,))


def _lines(data: bytes) -> list[Any]:
    """Return the queries of a file that is not JSON, None for a line that is no whole one."""
    import orjson

    found: list[Any] = []
    for line in data.split(b"\n"):
        if text := line.strip().removeprefix(b",").strip().strip(b"[]"):
            try:
                found.append(orjson.loads(text))
            except orjson.JSONDecodeError:
                found.append(None)
    return found


def _ns(queries: list[dict[str, Any]], keys: tuple[str, ...]) -> I64:
    """Return a member of all queries in ns, -1 where it is not a time. keys: its name, and that of older versions."""
    import numpy as np

    found: list[Any] = [query.get(keys[0], query.get(keys[-1])) for query in queries]
    ms = np.array([each if type(each) in (float, int) and abs(each) < _MOST_MS else -1.0 for each in found], np.float64)
    # Six digits of ms times a million are whole ns within the precision of a double, or far from a half of one.
    scaled = ms * 1e6
    ns = np.rint(scaled).astype(np.int64)
    for place in np.flatnonzero(np.abs(np.abs(scaled - np.floor(scaled)) - 0.5) < _NEAR_HALF).tolist():
        ns[place] = -1 if (exact := exact_ns(found[place])) is None else exact
    return np.where(ms < 0, -1, ns)


def _batches(found: list[Any], options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    import numpy as np
    import pyarrow as pa

    from tracekit.model import arrow
    from tracekit.model.schema import Kind
    from tracekit.readers.builder import BATCH_ROWS, event_batch

    ledger.read += len(found)
    numbers = [place for place, each in enumerate(found) if isinstance(each, dict)]
    queries = [found[place] for place in numbers]
    place = np.array(numbers, np.int64)
    start, stop, length = (_ns(queries, keys) for keys in _COMPUTE)
    length = np.where((length < 0) & (start >= 0) & (stop >= start), stop - start, length)
    good = (start >= 0) & (length >= 0)
    bad = len(found) - int(good.sum())
    first_bad = sets.without(np.arange(len(found)), place[good])[:1].tolist()
    where = f"query {first_bad[0]}" if first_bad else ""
    ledger.drop("bad-time", bad, where=where, text="dropped: queries without a start or a time of compute")
    ledger.kept += int(good.sum())
    parts: list[tuple[I64, I64, I64, int]] = [(np.flatnonzero(good), start, length, _KERNEL)]
    begin, end = _ns(queries, ("startEnqMs",)), _ns(queries, ("endEnqMs",))
    parts.append((np.flatnonzero(good & (begin >= 0) & (end >= begin)), begin, end - begin, _ENQUEUE))
    for kind, keys in _COPIES:
        first, last, took = (_ns(queries, each) for each in keys)
        took = np.where((took < 0) & (first >= 0) & (last >= first), last - first, took)
        parts.append((np.flatnonzero(good & (first >= 0) & (took > 0)), first, took, kind))
    rows = np.concatenate([at for at, *_ in parts])
    kinds = np.concatenate([np.full(at.size, kind, np.int32) for at, _, _, kind in parts])
    starts = np.concatenate([each[at] for at, each, _, _ in parts])
    lengths = np.concatenate([each[at] for at, _, each, _ in parts])
    if starts.size and int(starts.max()) >= _SECOND:
        ledger.note(
            "starts-rounded",
            "starts from 1 s on are rounded to 10 us or more, so work may seem to overlap or to have gaps; durations "
            "are exact",
        )
    latency = _ns(queries, ("latencyMs",))
    order = np.lexsort((kinds, place[rows], starts))
    names = arrow.array(["enqueue", "compute", "Memcpy HtoD", "Memcpy DtoH"])
    # Texts of a dictionary are distinct: rows are grouped by their codes.
    words = arrow.array([str(Kind.RUNTIME), str(Kind.KERNEL), str(Kind.MEMCPY)])
    ways = arrow.array(["HtoD", "DtoH"])
    streams = np.array(_STREAMS, np.int64)
    for begins in range(0, order.size, BATCH_ROWS):
        at = order[begins : begins + BATCH_ROWS]
        row_kind, query = kinds[at], rows[at]
        on_host, is_compute = row_kind == _ENQUEUE, row_kind == _KERNEL
        own = latency[query].tolist()
        has_latency = (is_compute & (latency[query] >= 0)).tolist()
        ledger.events_out += at.size
        yield event_batch(
            at.size,
            {
                "ts_ns": starts[at],
                "dur_ns": lengths[at],
                "event_id": place[query],
                "correlation": place[query],
                "name": pa.DictionaryArray.from_arrays(row_kind, names),
                "kind": pa.DictionaryArray.from_arrays(np.minimum(row_kind, _HTOD), words),
                "copy_kind": pa.DictionaryArray.from_arrays(arrow.array(row_kind - _HTOD, mask=row_kind < _HTOD), ways),
                "pid": 0,
                "tid": arrow.array(np.zeros(at.size, np.int64), mask=~on_host),
                "device": arrow.array(np.zeros(at.size, np.int32), mask=on_host),
                "stream": arrow.array(streams[row_kind], mask=on_host),
                "args": [
                    f'{{"latency_ns":{ns}}}' if known else None for ns, known in zip(own, has_latency, strict=True)
                ],
                "source": options.source,
            },
        )

"""tensorrt-profile: the time of each layer of an engine, `trtexec --exportProfile=FILE`.

    [
      { "count" : 6610 }
    , { "name" : "Conv_12 + Relu_13", "timeMs" : 57.6562, "averageMs" : 0.00872257, "medianMs" : 0.008608,
        "percentage" : 1.85433 }
    ]

A record is an element of the list: the count of queries, or a layer (one line of the file). Section `layers` has a row
for each layer, of kind kernel: work of the device, in one kernel or several. `calls` is the count. Times have the six
digits of the file, so a sum of layers may differ from the true one in the seventh. `percentage` is in `args`.

trtexec does not escape names and prints `nan` where nothing took time: such a file is not JSON, and is read line by
line. So is a cut one.

The file of `--exportLayerInfo` in the same folder says what each layer is: view `inference`.
Sources: samples/common/sampleReporting.cpp of NVIDIA/TensorRT, 7 to 11; the files in its trt-engine-explorer.
Not supported: `timeMs` alone, as IProfiler of other programs writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult
from tracekit.readers.tensorrt.figures import NUMBER, decoded, exact_ns, ns_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_HEAD = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"count"\s*:\s*[0-9]{1,18}\s*\}\s*(?:\]|\Z|,\s*(?:\Z|\{(?=.{0,65536}?"averageMs"\s*:)))',
    re.DOTALL,
)
_COUNT = re.compile(r',?\s*\{ ?"count" ?: ?([0-9]{1,18}) ?\}')
_LAYER = re.compile(
    rf',?\s*\{{ ?"name" ?: ?"(.*)", ?"timeMs" ?: ?({NUMBER}), ?"averageMs" ?: ?({NUMBER})'
    rf'(?:, ?"medianMs" ?: ?({NUMBER}))?(?:, ?"percentage" ?: ?({NUMBER}))? ?\}}',
    re.ASCII,
)
_MOST_CALLS = 1 << 62


def sniff(head: Head) -> Confidence:
    """Return YES for the count of queries and a layer."""
    return Confidence.YES if _HEAD.match(head.data) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the rows of a profile. Raises: ParseError for anything else."""
    from tracekit.errors import ParseError
    from tracekit.model.trace import Run, SourceFacts

    data, found = decoded(source)
    if found is None:
        found = _lines(data, ledger)
    if not isinstance(found, list) or not found:
        raise ParseError(source.name, "", "not a profile of trtexec: a list of layers is needed")
    run = Run(sources=[SourceFacts(source.name, "tensorrt-profile", facts={"tool": "TensorRT (trtexec)"})])
    return ReadResult(run, _rows(found, options, ledger), True, (ledger,))


def _lines(data: bytes, ledger: Ledger) -> list[Any]:
    """Return the elements of a file that is not JSON, line by line."""
    found: list[Any] = []
    for number, raw in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        line = raw.strip()
        if not line or line in ("[", "]"):
            continue
        if matched := _COUNT.fullmatch(line):
            found.append({"count": int(matched[1])})
        elif matched := _LAYER.fullmatch(line):
            keys = ("name", "timeMs", "averageMs", "medianMs", "percentage")
            found.append({key: value for key, value in zip(keys, matched.groups(), strict=True) if value is not None})
        else:
            ledger.read += 1
            ledger.drop("bad-layer", where=f"line {number}", text="dropped: lines that are no whole layer")
    return found


def _rows(found: list[Any], options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    from tracekit.model.schema import Kind
    from tracekit.readers.builder import bounded_names
    from tracekit.readers.printed.lines import TotalRows

    rows = TotalRows(options.source, ledger)
    calls: int | None = None
    for place, each in enumerate(found):
        ledger.read += 1
        where = f"element {place}"
        if not isinstance(each, dict) or not (isinstance(each.get("name"), str) or "count" in each):
            ledger.drop("bad-layer", where=where, text="dropped: elements that are neither a count nor a layer")
        elif "name" not in each:
            count = each["count"]
            known = isinstance(count, int) and not isinstance(count, bool) and 0 <= count < _MOST_CALLS
            calls = count if known else None
            ledger.facts += 1
        elif (total := exact_ns(each.get("timeMs"))) is None:
            ledger.drop("no-times", where=where, text="dropped: layers whose time is not a number")
        else:
            share = ns_of(each.get("percentage"))
            rows.add(
                0, "layers", each["name"], Kind.KERNEL,
                {"percentage": share / 1e6} if share is not None else None,
                calls=calls, total_ns=total, avg_ns=ns_of(each.get("averageMs")),
                median_ns=exact_ns(each.get("medianMs")),
            )  # fmt: skip
            ledger.kept += 1
        for batch in rows.take():
            yield bounded_names(batch, ledger)
    for batch in rows.take(everything=True):
        yield bounded_names(batch, ledger)

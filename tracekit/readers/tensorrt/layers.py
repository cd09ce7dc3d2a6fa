"""tensorrt-layers: what the layers of an engine are, `trtexec --exportLayerInfo=FILE`: no times.

    {"Layers": [{
      "Name": "Conv_12 + Relu_13", "LayerType": "CaskConvolution",
      "Inputs": [{"Name": "317", "Dimensions": [1,3,224,224], "Format/Datatype": "Row major linear FP32"}],
      "TacticName": "sm80_xmma_fprop_implicit_gemm_...", "TacticValue": "0x0000000000000000"
    }], "Bindings": ["input1", "1179"]}

A record is a layer; the names of the inputs and outputs of the engine are one more. Section `layer info` has a row for
each layer, with all that the file says of it in `args`. Of an engine that was built without
`--profilingVerbosity=detailed` the file has the names alone.

Beside a profile of the same engine (tensorrt-profile) the view `inference` shows each layer's type, its datatypes and
its tactic: give both files, or their folder.
Sources: IEngineInspector of TensorRT 8.2 to 10; the files in trt-engine-explorer of NVIDIA/TensorRT.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult
from tracekit.readers.tensorrt.figures import decoded

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_HEAD = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"Layers"\s*:\s*\[\s*(?:\{\s*"Name"\s*:(?=.*?"LayerType"\s*:)'
    rb'|"(?=.*?\]\s*,\s*"Bindings"\s*:)|(?P<names>"[^"]{0,65536}"\s*[,\]]))',
    re.DOTALL,
)
_OTHER_NAMES = re.compile(rb'[^"]*"Layers"\s*:\s*\[(?:\s*"[^"]{0,65536}"\s*,?)+\s*\]\s*,')
"""Names, and behind them another member than bindings: a file of something else."""
_MOST_BINDINGS = 64


def sniff(head: Head) -> Confidence:
    """Return YES for layers with their types, or for names before bindings; MAYBE for names alone."""
    matched = _HEAD.match(head.data)
    if matched is None or (matched["names"] and _OTHER_NAMES.match(head.data)):
        return Confidence.NO
    return Confidence.MAYBE if matched["names"] else Confidence.YES


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the rows of a list of layers. Raises: ParseError for anything else."""
    from tracekit.errors import ParseError
    from tracekit.model.trace import Run, SourceFacts

    _, found = decoded(source)
    if found is None:
        raise ParseError(source.name, "", "not read: the JSON is damaged or cut")
    layers = found.get("Layers") if isinstance(found, dict) else None
    if not isinstance(layers, list):
        raise ParseError(source.name, "", "not a list of layers of TensorRT: an object with Layers is needed")
    facts: dict[str, Any] = {"tool": "TensorRT (trtexec)"}
    bindings = found.get("Bindings") if isinstance(found, dict) else None
    if bindings is not None:
        ledger.read += 1
        ledger.facts += 1
        names = bindings if isinstance(bindings, list) else []
        facts["bindings"] = [each[:200] for each in names[:_MOST_BINDINGS] if isinstance(each, str)]
    run = Run(sources=[SourceFacts(source.name, "tensorrt-layers", facts=facts)])
    return ReadResult(run, _rows(layers, options, ledger), True, (ledger,))


def _rows(layers: list[Any], options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    from tracekit.readers.builder import bounded_names
    from tracekit.readers.printed.lines import TotalRows

    rows = TotalRows(options.source, ledger)
    for place, each in enumerate(layers):
        ledger.read += 1
        name = each.get("Name") if isinstance(each, dict) else each
        if not isinstance(name, str):
            ledger.drop("bad-layer", where=f"layer {place}", text="dropped: layers without a name")
            continue
        args = {key: value for key, value in each.items() if key != "Name"} if isinstance(each, dict) else {}
        rows.add(0, "layer info", name, None, args)
        ledger.kept += 1
        for batch in rows.take():
            yield bounded_names(batch, ledger)
    for batch in rows.take(everything=True):
        yield bounded_names(batch, ledger)

"""execution-trace: PyTorch's execution trace, `torch.profiler.ExecutionTraceObserver` (schema 1.0.1 to 1.1.1).

    {"schema": "1.1.1-chakra.0.0.4", "pid": 446, "time": "2026-01-15 10:15:55", "start_ts": 43815, "nodes": [
      {"id": 10, "name": "aten::mm", "ctrl_deps": 9,
       "inputs": {"values": [[7,8,0,32,4,"cpu"], ...], "shapes": [[8,4], [4,2]], "types": ["Tensor(float)", ...]},
       "outputs": {...}, "attrs": [{"name": "rf_id", "type": "uint64", "value": 4}, ...]}, ...]}

A record is a node: an operator, a range of the user, a thread, or the process. A node has no time, so its row is of
TOTALS: one call, in the order of the file, which is that in which operators ended. Views count such rows, and show
FLOPs and bytes from shapes, but no durations.

In `args`: `Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs` as Kineto has them; `node`, and the
`parent` that called it; `Record function id`; `reads` and `writes`, the tensors: id, storage, offset, elements of the
storage, bytes of each, device; `Output Dims` and `Output type`. Numbers with fractions have six digits in such a file.

Chakra's trace linker adds `ts` and `inclusive_dur` in us: nodes that have them are EVENTS, those of `cat` kernel are
device work with the operands of the operator that launched them.

Of a file that was cut, as a program leaves it that ends while it records, all whole nodes are read.
Not supported: the resources beside a file (`kernel_file`), whose names are kept.
Sources: execution_trace_observer.cpp of PyTorch 2.13; et_replay of facebookresearch/param; trace_linker.py of Chakra;
files of both, from 2023 to 2025, and our own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import orjson

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import WITHOUT_TIMES, Run, SourceFacts
from tracekit.model.units import to_ns
from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.execution_trace._operands import (
    Record,
    dependencies,
    integer,
    operands,
    plain_text,
    tensors,
)
from tracekit.readers.execution_trace._rows import NodeRows, TraceNode, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read"]

FORMAT = "execution-trace"
_FACTS = {"schema": "schema", "pid": "pid", "time": "recorded", "start_ts": "start_ms", "finish_ts": "finish_ms"}
_MOST_US = 1 << 52
_KINETO_NAMES = {
    "collective_name": "Collective name", "dtype": "dtype", "in_msg_nelems": "In msg nelems",
    "out_msg_nelems": "Out msg nelems", "in_split_size": "In split size", "out_split_size": "Out split size",
    "global_rank_start": "Global rank start", "global_rank_stride": "Global rank stride",
    "pg_name": "Process Group Name", "pg_desc": "Process Group Description", "pg_size": "Group size",
    "seq_id": "Sequence number", "fw_tid": "Fwd thread id", "tid": "thread",
}  # fmt: skip
_INSIDE = ("values", "shapes", "types", "strides")
_SIDES = {"inputs": ("inputs", "input_shapes", "input_types", "input_strides"),
          "outputs": ("outputs", "output_shapes", "output_types", "output_strides")}  # fmt: skip
_OWN = frozenset(
    {"id", "name", "parent", "ctrl_deps", "attrs", "inputs", "outputs", "ts", "inclusive_dur", "cat", "ph", "stream"}
)
_NOTHING = {"fw_parent": 0, "fw_tid": 0, "seq_id": -1}
"""Values that stand for none."""
_DEVICE_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")


class _NodeFault(ValueError):
    """A field of a node that has another type; its text is the field."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the nodes. Raises: ParseError for a file without a list of them."""
    data = source.read_whole().removeprefix(b"\xef\xbb\xbf")
    document = _document(data, ledger)
    if document is None:
        raise ParseError(source.name, "", "no list of nodes: not an execution trace of PyTorch")
    run = Run(sources=[SourceFacts(source.name, FORMAT, facts={"tool": "ExecutionTraceObserver of PyTorch"})])
    _facts(document, run)
    nodes = document["nodes"]
    if isinstance(nodes, list) and not any(isinstance(each, dict) and "ts" in each for each in nodes):
        run.sources[0].facts[WITHOUT_TIMES] = True
    return ReadResult(run, _batches(document["nodes"], options, ledger), False, (ledger,))


def _facts(document: Mapping[str, object], run: Run) -> None:
    """Put what the file says of itself into the facts of its source."""
    facts = run.sources[0].facts
    for key, name in _FACTS.items():
        value = document.get(key)
        if isinstance(value, str):
            facts[name] = plain_text(value)
        elif (number := integer(value)) is not None:
            facts[name] = number


# ---- the document, whole or up to a cut


def _document(data: bytes, ledger: Ledger) -> Record | None:
    """Return the outermost object with its list of nodes, None for a file that has none."""

    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _salvaged(data.decode("utf-8", "replace"), ledger)
    return found if isinstance(found, dict) and isinstance(found.get("nodes"), list) else None


_BLANK = re.compile(r"[\s,]*")
_NEXT = re.compile(r'\{\s*"(?:id"\s*:\s*[0-9]|name"\s*:\s*"(?:[^"\\]|\\.){0,4096}"\s*,\s*"id")')
"""The start of a node; an attribute begins with its name too, and has a type behind it."""


def _salvaged(text: str, ledger: Ledger) -> Record | None:
    """Return what is whole in a damaged document, None without a list of nodes; the rest is dropped, with a note."""

    begin = re.search(r'"nodes"\s*:\s*\[', text)
    if begin is None:
        return None
    decoder, nodes, at = json.JSONDecoder(), list[object](), begin.end()
    while True:
        at = _blank_end(text, at)
        if at >= len(text):
            # The list does not end: the program ended before it. Each node before is whole.
            ledger.note("unfinished-file", "the list of nodes does not end: the program ended while it was recorded")
            break
        if text[at] == "]":
            break
        try:
            node, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            after = _NEXT.search(text, at + 1)
            ledger.read += 1
            if after is None:
                drop_torn(ledger, f"character {at:,}", what="the last node was cut")
                break
            ledger.drop("bad-json", where=f"character {at:,}", text="dropped: nodes that are not valid JSON")
            at = after.start()
            continue
        nodes.append(node)
    return {**_members_before(text[: begin.start()]), "nodes": nodes}


def _blank_end(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _members_before(text: str) -> Record:
    """Return the members of the outermost object before its nodes."""
    try:
        found = json.loads(text.rstrip().rstrip(",") + "}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# ---- its nodes


def _batches(nodes: object, options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:

    rows = NodeRows(options.source, ledger)
    for number, node in enumerate(nodes if isinstance(nodes, list) else [], 1):
        ledger.read += 1
        try:
            made = _node(node)
        except ValueError as err:
            ledger.drop(
                f"bad-node-{_code(str(err))}", where=f"node {number}", text=f"dropped: nodes that lack {str(err)[:60]}"
            )
            continue
        yield from rows.add(made)
    yield from rows.rest()


def _code(text: str) -> str:
    return re.sub(r"[^a-z]+", "-", text.lower())[:40].strip("-")


@dataclass(slots=True)
class _NodeAttributes:
    """The attributes of a node, whichever version wrote it."""

    node: Mapping[str, object]
    own: Mapping[str, object]

    def get(self, key: str) -> object:
        """Return an attribute, from the list of them or from the node."""
        return self.own.get(key, self.node.get(key))


def _attributes(node: Mapping[str, object]) -> _NodeAttributes:
    """Return the attributes of a node. Raises: _NodeFault."""
    given = node.get("attrs")
    if given is None:
        return _NodeAttributes(node, {key: value for key, value in node.items() if key not in _OWN})
    if not isinstance(given, list):
        raise _NodeFault("a list of attributes")
    own: Record = {}
    for each in given:
        if not isinstance(each, dict) or not isinstance(name := each.get("name"), str):
            raise _NodeFault("names of attributes")
        own[name] = each.get("value")
    return _NodeAttributes(node, own)


def _node(node: object) -> TraceNode:
    """Return the row of a node. Raises: ValueError, with what it lacks."""
    if not isinstance(node, dict) or not isinstance(name := node.get("name"), str):
        raise _NodeFault("a name")
    number = integer(node.get("id"))
    if number is None or number < 0:
        raise _NodeFault("an id")
    attributes = _attributes(node)
    schema = attributes.get("op_schema")
    values, shapes, types, strides = _side(node, "inputs")
    args = operands(values, shapes, types, strides, schema if isinstance(schema, str) else "")
    written = _side(node, "outputs")
    results = operands(*written)
    args["node"] = number
    waits = dependencies(node.get("parent", node.get("ctrl_deps")))
    if waits:
        args["parent"] = waits[0]
        if len(waits) > 1:
            args["waits_for"] = waits[1:]
    rf = integer(attributes.get("rf_id"))
    if rf:
        args["Record function id"] = rf
    for key, tensor_list in (("reads", tensors(values, types)), ("writes", tensors(written[0], written[2]))):
        if tensor_list:
            args[key] = tensor_list
    if results:
        args["Output Dims"], args["Output type"] = results["Input Dims"], results["Input type"]
    for key, value in attributes.own.items():
        _attribute(args, key, value)
    kind, step = kind_of(name, integer(attributes.get("scope")))
    made = TraceNode(plain_text(name), kind, args, step=step)
    _times(made, node)
    return made


def _attribute(args: Record, key: str, value: object) -> None:
    """Put an attribute into `args`, under Kineto's name where it has one; defaults and the id are left out."""
    if key == "rf_id" or key in _SIDES["inputs"] or key in _SIDES["outputs"]:
        return
    known = _KINETO_NAMES.get(key, plain_text(key)[:80])
    if isinstance(value, str) and value:
        args[known] = plain_text(value)
    elif isinstance(value, bool):
        args[known] = value
    elif (number := integer(value)) is not None and number != _NOTHING.get(key):
        args[known] = number


def _side(node: Mapping[str, object], side: str) -> tuple[object, object, object, object]:
    """Return values, shapes, types and strides of the inputs or the outputs, [] where there are none."""
    given = node.get(side)
    if isinstance(given, dict):
        values, shapes, types, strides = (given.get(key) for key in _INSIDE)
    else:
        values, shapes, types, strides = (node.get(key) for key in _SIDES[side])
    return values or [], shapes or [], types or [], strides


def _times(made: TraceNode, node: Mapping[str, object]) -> None:
    """Put the times into a row that Chakra's trace linker added, and where it ran. Raises: _NodeFault."""
    if (category := node.get("cat")) in _DEVICE_KINDS:
        made.kind = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)[_DEVICE_KINDS.index(str(category))]
        made.stream = integer(node.get("stream"))
    made.dur_ns = _ns(node.get("inclusive_dur"), "a duration")
    made.start_ns = _ns(node.get("ts"), "a start")
    if made.start_ns is not None and made.kind not in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET):
        made.tid = integer(made.args.get("thread"))


def _ns(value: object, what: str) -> int | None:
    """Return us as ns, None where there are none. Raises: _NodeFault."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST_US:
        raise _NodeFault(what)
    return to_ns(repr(value), "us")

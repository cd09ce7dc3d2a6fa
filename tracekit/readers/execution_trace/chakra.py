"""chakra: execution traces of MLCommons' Chakra in protobuf (`.et`): what simulators such as ASTRA-sim read.

    00000000: 0b0a 0531 2e30 2e30 ...  a message of metadata with its length: the version, attributes
    0000000c: 2508 0112 0861 7465 ...  a node with its length: id, name, type, dependencies, times, attributes
    00000032: 2f08 0212 0f41 4c4c ...  the next node

A record is a node. Kinds: a computation is an operator, or a kernel where the attribute `is_cpu_op` is false; a
collective, a send or a receive is communication, or a kernel likewise; all others are `other`. `comm_size` becomes
`bytes`; `comm_type` and `pg_name` have the names of Kineto in `args`. There too: `node`, its `parent` and further nodes
that it `waits_for` (control), those whose data it `needs`, and operands, as for `execution-trace`.

A node with a start is an event. Chakra's converter writes no starts, so most rows are of TOTALS: one call and its
duration, in whole us. Of a host operator that is its own time, without the operators that it called; a duration of 0 is
not known: protobuf does not write it. A start of 0 is taken as a start where another node of the file has one.

Sources: et_def.proto, protolib.py and pytorch_converter.py of mlcommons/chakra, and its test files.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

import orjson

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import WITHOUT_TIMES, Run, SourceFacts
from tracekit.model.units import MAX_NS
from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.engine.wire import BYTES, FIXED32, FIXED64, VARINT, WireError, checked_varint, fields_of
from tracekit.readers.execution_trace._operands import Record, operands, plain_text, tensors
from tracekit.readers.execution_trace._rows import NodeRows, TraceNode, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read"]

_FORMAT = "chakra"
_MOST_VALUES = 4096
_MOST_DEPENDENCIES = 1 << 16
_MOST_OPERAND_BYTES = 1 << 22
_TYPES = ("invalid", "metadata", "memory load", "memory store", "computation", "send", "receive", "collective")
_COMPUTATION, _SEND, _RECEIVE, _COLLECTIVE = 4, 5, 6, 7
_OPERATIONS = (
    "all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter",
    "reduce_scatter_block", "barrier",
)  # fmt: skip
_NAMES = {
    "rf_id": "Record function id", "seq_id": "Sequence number", "fw_tid": "Fwd thread id", "tid": "thread",
    "pg_name": "Process Group Name", "comm_group": "Process Group Name",
}  # fmt: skip
_NOTHING = {"fw_parent": 0, "fw_tid": 0, "seq_id": -1, "rf_id": 0}
_SIGNED, _UNSIGNED, _ZIGZAG, _TRUTH, _REAL, _TEXT, _RAW = range(7)
_VALUES: dict[int, tuple[int, str]] = {
    3: (_REAL, "<d"), 5: (_REAL, "<f"), 7: (_SIGNED, ""), 9: (_SIGNED, ""), 11: (_UNSIGNED, ""), 13: (_UNSIGNED, ""),
    15: (_ZIGZAG, ""), 17: (_ZIGZAG, ""), 19: (_UNSIGNED, ""), 21: (_UNSIGNED, ""), 23: (_REAL, "<i"),
    25: (_REAL, "<q"), 27: (_TRUTH, ""), 29: (_TEXT, ""), 31: (_RAW, ""),
}  # fmt: skip
"""How the value of an attribute is stored, by the number of its field; the list of such values has the next number."""


_Side = tuple[object, object, object]
"""Values, shapes and types of the inputs of a node, or of its outputs."""
_NO_SIDE: _Side = ([], [], [])


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the nodes. Raises: ParseError for a file that does not begin with metadata."""
    data = source.read_whole()
    try:
        size, at = checked_varint(data, 0)
        facts = _metadata(data[at : at + size])
    except (WireError, ValueError) as err:
        raise ParseError(source.name, "byte 0", f"not an execution trace of Chakra: {err}") from err
    run = Run(sources=[SourceFacts(source.name, _FORMAT, facts={"tool": "Chakra", **facts})])
    return ReadResult(run, _batches(data, at + size, options, ledger, run), False, (ledger,))


def _metadata(data: bytes) -> Record:
    """Return what a file says of itself. Raises: WireError."""
    facts: Record = {}
    for each in fields_of(data):
        if each.number == 1 and each.wire == BYTES:
            facts["tool_version"] = _text(data[each.at : each.end])
        elif each.number == 2 and each.wire == BYTES:
            name, value = _attribute(data[each.at : each.end])
            key = {"time": "recorded", "start_ts": "start_ms", "finish_ts": "finish_ms"}.get(name, name)
            if key not in ("tool", "") and isinstance(value, str | int):
                facts[key[:80]] = value
    return facts


def _text(data: bytes) -> str:
    return plain_text(data.decode("utf-8", "backslashreplace"))


def _batches(data: bytes, at: int, options: ReadOptions, ledger: Ledger, run: Run) -> Iterator[pa.RecordBatch]:
    rows = NodeRows(options.source, ledger)
    nodes: list[ChakraNode] = []
    number = 0
    while at < len(data):
        number += 1
        ledger.read += 1
        place = f"byte {at:,}"
        try:
            size, at = checked_varint(data, at)
        except WireError:
            drop_torn(ledger, place, what="the length of the last node was cut, or is damaged")
            break
        if at + size > len(data):
            drop_torn(ledger, place, what="the last node was cut")
            break
        message, at = data[at : at + size], at + size
        try:
            nodes.append(_node(message))
        except (WireError, ValueError) as err:
            text = str(err)[:60]
            code = re.sub(r"[^a-z]+", "-", text.lower())[:40].strip("-")
            ledger.drop(f"bad-node-{code}", where=place, text=f"dropped: nodes that are damaged ({text})")
    # Protobuf leaves out a start of 0.
    has_starts = any(each.start_us for each in nodes)
    if not has_starts:
        run.sources[0].facts[WITHOUT_TIMES] = True
    for each in nodes:
        yield from rows.add(each.row(has_starts=has_starts))
    yield from rows.rest()


@dataclass(slots=True)
class ChakraNode:
    """The fields of a node."""

    number: int = 0
    name: str = ""
    type: int = 0
    waits_for: list[int] = field(default_factory=list)
    needs: list[int] = field(default_factory=list)
    start_us: int = 0
    dur_us: int = 0
    inputs: _Side = _NO_SIDE
    outputs: _Side = _NO_SIDE
    attributes: Record = field(default_factory=dict)

    def row(self, *, has_starts: bool) -> TraceNode:
        """Return the row of the node. has_starts: some node of the file has a start."""
        args: Record = {}
        args |= _operands(self.inputs, str(self.attributes.get("op_schema", "")))
        results = _operands(self.outputs, "")
        args["node"] = self.number
        if self.waits_for:
            args["parent"] = self.waits_for[0]
        if len(self.waits_for) > 1:
            args["waits_for"] = self.waits_for[1:]
        if self.needs:
            args["needs"] = self.needs
        for key, side in (("reads", self.inputs), ("writes", self.outputs)):
            if found := _tensors(side):
                args[key] = found
        if results:
            args["Output Dims"], args["Output type"] = results["Input Dims"], results["Input type"]
        args["type"] = _TYPES[self.type] if self.type < len(_TYPES) else self.type
        size: int | None = None
        for key, value in self.attributes.items():
            if key == "comm_type" and isinstance(value, int) and 0 <= value < len(_OPERATIONS):
                args["Collective name"] = _OPERATIONS[value]
            elif key == "comm_size" and isinstance(value, int) and value >= 0:
                size = value
            elif value != _NOTHING.get(key):
                args[_NAMES.get(key, key)] = value
        kind, step = self._kind()
        start = self.start_us * 1000 if has_starts else None
        return TraceNode(
            self.name, kind, args, start_ns=start, dur_ns=self.dur_us * 1000 or None, bytes=size, step=step,
            stream=_small(self.attributes.get("stream")),
        )  # fmt: skip

    def _kind(self) -> tuple[Kind, int | None]:
        on_device = self.attributes.get("is_cpu_op") is False
        if self.type in (_SEND, _RECEIVE, _COLLECTIVE):
            return (Kind.KERNEL if on_device else Kind.COMMUNICATION), None
        if self.type != _COMPUTATION:
            return Kind.OTHER, None
        if on_device:
            return Kind.KERNEL, None
        return kind_of(self.name, _small(self.attributes.get("scope")))


def _small(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None


def _node(data: bytes) -> ChakraNode:
    """Return the fields of a node. Raises: WireError, ValueError."""
    node = ChakraNode()
    named = False
    for each in fields_of(data):
        if each.end > len(data):
            raise WireError("a field that ends behind its node")
        value, raw = each.value, data[each.at : each.end]
        match each.number, each.wire:
            case (1, 0):
                node.number = value
            case (2, 2):
                node.name, named = _text(raw), True
            case (3, 0):
                node.type = value
            case (4, 0 | 2):
                node.waits_for += _integers(raw, value, packed=each.wire == BYTES)
            case (5, 0 | 2):
                node.needs += _integers(raw, value, packed=each.wire == BYTES)
            case (6, 0):
                node.start_us = value
            case (7, 0):
                node.dur_us = value
            case (8, 2):
                node.inputs = _side(raw)
            case (9, 2):
                node.outputs = _side(raw)
            case (10, 2):
                name, attribute = _attribute(raw)
                node.attributes[name] = attribute
            case (number, _) if number <= 10:
                raise WireError("a field of another type")
    if not named:
        raise ValueError("no name")
    if node.number >= 1 << 62 or node.type >= 1 << 31:
        raise ValueError("an id that is too large")
    if max(node.start_us, node.dur_us) * 1000 > MAX_NS:
        raise ValueError("a time that is too large")
    if len(node.waits_for) + len(node.needs) > _MOST_DEPENDENCIES:
        raise ValueError("too many dependencies")
    return node


def _integers(raw: bytes, value: int, *, packed: bool) -> list[int]:
    """Return ids of nodes, packed or one. Raises: WireError."""
    if not packed:
        return [value] if value < 1 << 62 else []
    found, at = list[int](), 0
    while at < len(raw):
        number, at = checked_varint(raw, at)
        if number < 1 << 62:
            found.append(number)
    return found


def _side(data: bytes) -> _Side:
    """Return values, shapes and types of inputs or outputs, which are texts. Raises: WireError."""
    found: list[object] = [[], [], []]
    for each in fields_of(data):
        if each.wire == BYTES and each.number in (1, 2, 3) and each.end <= len(data):
            found[each.number - 1] = _parsed(data[each.at : each.end].decode("utf-8", "backslashreplace"))
    values, shapes, types = found
    return values, shapes, types


def _attribute(data: bytes) -> tuple[str, object]:
    """Return name and value of an attribute; None for a value that has no form here. Raises: WireError."""
    name, value = "", None
    for each in fields_of(data):
        if each.end > len(data):
            raise WireError("an attribute that ends behind its node")
        raw = data[each.at : each.end]
        if each.number == 1 and each.wire == BYTES:
            name = _text(raw)[:80]
        elif each.number in _VALUES:
            value = _value(each.number, each.wire, each.value, raw)
        elif each.number - 1 in _VALUES and each.wire == BYTES:
            value = _list(each.number - 1, raw)
    return name, value


def _list(number: int, data: bytes) -> list[object]:
    """Return the values of a list, packed or one by one, up to a bound. Raises: WireError."""
    found: list[object] = []
    form, code = _VALUES[number]
    for each in fields_of(data):
        raw = data[each.at : min(each.end, len(data))]
        if each.number != 1 or len(found) >= _MOST_VALUES:
            continue
        if each.wire != BYTES or form in (_TEXT, _RAW):
            found.append(_value(number, each.wire, each.value, raw))
            continue
        width = struct.calcsize(code) if form == _REAL else {19: 4, 21: 8}.get(number, 0)
        at = 0
        while at < len(raw) and len(found) < _MOST_VALUES:
            if width:
                piece, at = raw[at : at + width], at + width
                wire = FIXED64 if width == 8 else FIXED32
                found.append(_value(number, wire, int.from_bytes(piece, "little"), piece))
            else:
                one, at = checked_varint(raw, at)
                found.append(_value(number, VARINT, one, b""))
    return found


def _value(number: int, wire: int, value: int, raw: bytes) -> object:
    """Return one value as JSON has it; None where the wire type is another one, or there is no room for it."""
    form, code = _VALUES[number]
    if form == _TEXT:
        return _text(raw) if wire == BYTES else None
    if form == _RAW:
        return raw[:_MOST_VALUES].hex() if wire == BYTES else None
    if wire == BYTES:
        return None
    if form == _REAL:
        if len(raw) != struct.calcsize(code):
            return None
        (real,) = struct.unpack(code, raw)
        return real if real == real and abs(real) != float("inf") else str(real)
    if form == _TRUTH:
        return bool(value)
    if form == _ZIGZAG:
        value = (value >> 1) ^ -(value & 1)
    elif form == _SIGNED and value >= 1 << 63:
        value -= 1 << 64
    return value if abs(value) < 1 << 63 else str(value)


# ---- operands, which are texts as Python prints lists

_PYTHON = re.compile(
    r"'(?P<single>(?:[^'\\]|\\.)*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\"|(?P<word>\bTrue\b|\bFalse\b|\bNone\b|-?\b(?:nan|inf)\b)"
    r"|(?P<open>\()|(?P<close>,?\s*\))",
    re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def _as_json(found: re.Match[str]) -> str:
    if (word := found["word"]) is not None:
        return _WORDS.get(word, f'"{word}"')
    if found["open"] or found["close"]:
        return "[" if found["open"] else "]"
    text = found["single"] if found["single"] is not None else found["double"]
    plain = _ESCAPE.sub(lambda each: _ESCAPES.get(each[1], each[1]), text)
    return orjson.dumps(plain_text(plain)).decode()


def _parsed(text: str) -> object:
    """Return a list that Python printed; [] for anything else.

    >>> _parsed("[[4, 5, 0, 64, 4, 'cuda:0'], None]")
    [[4, 5, 0, 64, 4, 'cuda:0'], None]
    """
    if not text or len(text) > _MOST_OPERAND_BYTES:
        return []
    found: object = None
    if '"' not in text and "\\" not in text:
        # Most texts differ from JSON in their quotes alone.
        with suppress(orjson.JSONDecodeError):
            found = orjson.loads(text.replace("'", '"'))
    if found is None:
        with suppress(orjson.JSONDecodeError):
            found = orjson.loads(_PYTHON.sub(_as_json, text))
    return found if isinstance(found, list) else []


def _operands(side: _Side, schema: str) -> Record:
    """Return the members of `args` for one side of a node; {} where its texts are not those of PyTorch."""
    values, shapes, types = side
    try:
        return operands(values, shapes, types, None, schema)
    except ValueError:
        return {}


def _tensors(side: _Side) -> list[object]:
    try:
        return tensors(side[0], side[2])
    except ValueError:
        return []

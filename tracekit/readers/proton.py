"""proton: the tree of Triton's Proton: the time of each kernel below the scopes that launched it.

    [{"children": [{"children": [], "frame": {"name": "matmul", "type": "function"},
        "metrics": {"count": 2, "device_id": "0", "device_type": "CUDA", "time (ns)": 49474, "flops16": 34359738368}}],
      "frame": {"name": "ROOT", "type": "function"}, "metrics": {"count": 0, "time (ns)": 0}},
     {"CUDA": {"0": {"arch": "90", "bus_width": 5120, "clock_rate": 1980000, "memory_clock_rate": 2619000,
                     "num_sms": 132}}}]

A record is a node of the tree, or the object of the devices behind it. `.hatchet` is JSON, `.hatchet_msgpack` the same
in MessagePack. There are sums alone: `proton.start(NAME, data="trace")` records a timeline.

Section `kernels` has a row for each node with a time: a kernel that was launched from two scopes has two rows. Section
`scopes` has the nodes above them; their time is that of all kernels below, as proton-viewer adds it up. Scopes lie
within one another, so their times do not add up. `call_path` in `args` has the names above a node, without the root.

The work that a program or the hook of Triton states for a node (`flops8` to `flops64`, `flops`, `bytes`) is in `args`
of its row, for the view `efficiency`. Each of these and any other figure is a row of section `metrics` too: samples of
the program counter, the program's own figures, and cycles of ranges within kernels. Each value is that of a node, the
sum of its calls. Cycles are not ns, so they are not counted as time.

The second object has the devices without their names: `arch`, multiprocessors, kHz of clock and memory, bits of the
bus.
Not supported: the raw JSONL of instrumented kernels.

Sources: third_party/proton of triton-lang/triton, TreeData.cpp, Metric.h and viewer.py, 2024 to 2026; its examples in
test/examples; a recording of Triton 3.6 on an H100.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tracekit.lazy_dataclass import dataclass
from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger
    from tracekit.readers.names import Demangler
    from tracekit.readers.printed.lines import TotalRows
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_BOM = b"\xef\xbb\xbf"
_PACKED = b"\x92\x83\xa5frame"
"""A list of two objects, of which the first has three members and begins with its frame: MessagePack."""
_TREE = re.compile(
    rb'\s*\[\s*\{(?=.*?"frame"\s*:\s*\{\s*"name"\s*:)(?=.*?"metrics"\s*:\s*\{)'
    rb'(?=.*?"(?:time \(ns\)|device_type|device_id|num_sms|flops(?:8|16|32|64)|cycles)"\s*:)',
    re.DOTALL,
)
_EMPTY = re.compile(
    rb'\s*\[\s*\{\s*"children"\s*:\s*\[\s*\]\s*,\s*"frame"\s*:\s*\{\s*"name"\s*:\s*"ROOT"\s*,'
    rb'\s*"type"\s*:\s*"function"\s*\}\s*,\s*"metrics"\s*:\s*\{[^{}]*\}\s*\}\s*,\s*\{'
)
"""A session in which nothing ran."""
_TIME, _CALLS, _DEVICE, _KIND = "time (ns)", "count", "device_id", "device_type"
_OF_KERNELS = frozenset({_TIME, _CALLS, _DEVICE, _KIND})
_WORK = re.compile(r"flops(?:4|8|16|32|64)?|bytes")
_CYCLES = frozenset({"cycles", "normalized_cycles"})
_UNIT = re.compile(r".*\(([A-Za-z%/]{1,12})\)(?:\(exc\))?")
_NUMBERED = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST_NS = 1 << 62
_MOST_PATH = 1000
"""Characters of a call path: a small file can have a long path above each of many nodes."""
_MOST_DEVICES = 64


def sniff(head: Head) -> Confidence:
    """Return YES for the first nodes of a tree."""
    data = head.data.removeprefix(_BOM)
    return Confidence.YES if data.startswith(_PACKED) or _TREE.match(data) or _EMPTY.match(data) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the rows of a tree. Raises: ParseError for anything else."""
    from tracekit.errors import ParseError
    from tracekit.model.trace import Run, SourceFacts

    found = _decoded(source)
    if not isinstance(found, list) or not found or not isinstance(found[0], dict) or "frame" not in found[0]:
        raise ParseError(source.name, "", "not a tree of Proton: a list of a tree and of devices is needed")
    run = Run(sources=[SourceFacts(source.name, "proton", facts={"tool": "Proton (Triton)"})])
    for more in found[1:]:
        ledger.read += 1
        if isinstance(more, dict):
            ledger.facts += 1
            run.sources[0].facts.setdefault("devices", _devices(more))
        else:
            ledger.drop("bad-value", text="dropped: what follows the tree and is not the object of the devices")
    return ReadResult(run, _Tree(found[0], options, ledger).rows(), True, (ledger,))


def _decoded(source: Source) -> object:
    """Return the object in a file. Raises: ParseError."""
    import msgspec
    import orjson

    from tracekit.errors import ParseError

    data = source.read_whole().removeprefix(_BOM)
    found: object
    if data.startswith(_PACKED):
        try:
            found = msgspec.msgpack.decode(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as err:
            raise ParseError(source.name, "", f"not read: the MessagePack is damaged or cut ({err})") from err
        return found
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as err:
        place = f"line {err.lineno}, column {err.colno}"
        raise ParseError(source.name, place, f"not read: the JSON is damaged or cut ({err.msg})") from err
    return found


def _devices(found: Mapping[str, object]) -> dict[str, dict[str, dict[str, int | str]]]:
    """Return what the file has of its devices, by type and number."""
    devices: dict[str, dict[str, dict[str, int | str]]] = {}
    for kind, listed in list(found.items())[:_MOST_DEVICES]:
        if isinstance(listed, dict):
            devices[str(kind)[:_MOST_DEVICES]] = {
                str(number)[:_MOST_DEVICES]: {
                    str(key)[:_MOST_DEVICES]: value if isinstance(value, int) else value[:_MOST_DEVICES]
                    for key, value in list(facts.items())[:_MOST_DEVICES]
                    if isinstance(value, str) or (isinstance(value, int) and abs(value) < _MOST_NS)
                }
                for number, facts in list(listed.items())[:_MOST_DEVICES]
                if isinstance(facts, dict)
            }
    return devices


@dataclass(slots=True)
class _TreeNode:
    """A node. parent: its place in the list of all, -1: the root. below_ns: the time of all nodes below it."""

    name: str
    metrics: dict[str, object]
    parent: int
    path: tuple[str, ...] = ()
    time_ns: int | None = None
    below_ns: int = 0
    is_dropped: bool = False


class _Tree:
    def __init__(self, root: object, options: ReadOptions, ledger: Ledger) -> None:
        self._root, self._options, self._ledger = root, options, ledger

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of the file: a node before those below it."""
        from contextlib import closing

        from tracekit.readers.builder import bounded_names
        from tracekit.readers.names import Demangler
        from tracekit.readers.printed.lines import TotalRows

        nodes = self._nodes()
        _add_up(nodes)
        rows = TotalRows(self._options.source, self._ledger)
        with closing(Demangler(self._ledger, enabled=self._options.demangle)) as demangler:
            for node in nodes:
                if not node.is_dropped:
                    self._node(node, rows, demangler)
                for batch in rows.take():
                    yield bounded_names(batch, self._ledger)
            for batch in rows.take(everything=True):
                yield bounded_names(batch, self._ledger)

    def _nodes(self) -> list[_TreeNode]:
        """Return all nodes, each behind the one above it. A tree is as deep as the stacks of its program."""
        ledger = self._ledger
        nodes: list[_TreeNode] = []
        waiting: list[tuple[object, int]] = [(self._root, -1)]
        while waiting:
            found, parent = waiting.pop()
            ledger.read += 1
            if not isinstance(found, dict):
                ledger.drop("bad-item", text="dropped: nodes that are not objects")
                continue
            frame, metrics, children = found.get("frame"), found.get("metrics"), found.get("children")
            name = frame.get("name") if isinstance(frame, dict) else None
            # MessagePack may have keys that are not texts.
            members = metrics.items() if isinstance(metrics, dict) else ()
            known = {key: value for key, value in members if isinstance(key, str)}
            node = _TreeNode(name if isinstance(name, str) else "?", known, parent)
            if not isinstance(name, str):
                ledger.drop("name-lost", text="dropped: nodes without a name; those below them are kept")
                node.is_dropped, node.metrics = True, {}
            if parent >= 0:
                node.path = _below(nodes[parent])
            nodes.append(node)
            if isinstance(children, list):
                waiting.extend((child, len(nodes) - 1) for child in reversed(children))
        return nodes

    def _node(self, node: _TreeNode, rows: TotalRows, demangler: Demangler) -> None:
        """Add the rows of a node: its time, and each figure that is not a time."""
        from tracekit.model.schema import Kind

        ledger, metrics = self._ledger, node.metrics
        if node.parent < 0 and not node.time_ns:
            # Its figures are zeros, for the columns of the viewer; one that ran nothing has none.
            ledger.facts += 1
            return
        if _TIME in metrics and node.time_ns is None:
            ledger.drop("bad-time", where=node.name[:60], text="dropped: nodes whose time is not a number of ns")
            return
        name, raw = demangler.one(node.name)
        device = _device(metrics.get(_DEVICE))
        path = {"call_path": list(node.path)} if node.path else {}
        work = {key: value for key, value in metrics.items() if _WORK.fullmatch(key) and _is_number(value)}
        if node.time_ns is not None:
            calls = _whole(metrics.get(_CALLS))
            where = {"device_type": metrics[_KIND]} if isinstance(metrics.get(_KIND), str) else {}
            rows.add(
                0, "kernels", name, Kind.KERNEL, {**path, **work, **where}, raw_name=raw, calls=calls,
                total_ns=node.time_ns, device=device,
            )  # fmt: skip
        elif node.below_ns:
            rows.add(0, "scopes", name, Kind.USER_RANGE, {**path, **work}, raw_name=raw, total_ns=node.below_ns)
        others = {key: value for key, value in metrics.items() if key not in _OF_KERNELS}
        for key, value in others.items():
            self._figure(node, key[:_MOST_PATH], value, rows, path, (name, raw, device))
        if node.time_ns is None and not node.below_ns and not others:
            ledger.ignore("scopes without work of a device")
        else:
            ledger.kept += 1

    def _figure(
        self,
        node: _TreeNode,
        key: str,
        value: object,
        rows: TotalRows,
        path: Mapping[str, object],
        named: tuple[str, str | None, int | None],
    ) -> None:
        """Add a row for a figure of a node."""
        from tracekit.model.schema import Kind

        if key in _CYCLES:
            self._ledger.note(
                "cycles-not-ns",
                "cycles of ranges within kernels are GPU cycles, not ns: they are metrics, and not counted as time",
            )
            unit: str | None = "cycles"
        else:
            matched = _UNIT.fullmatch(key)
            unit = matched[1] if matched else "bytes" if key == "bytes" else None
        name, raw, device = named
        kind = Kind.KERNEL if node.time_ns is not None else Kind.USER_RANGE
        number = float(value) if _is_number(value) else None  # type: ignore[arg-type]
        text = None if number is not None else value if isinstance(value, str) else _vector(value)
        rows.add(
            0, "metrics", name, kind, {"metric": key, **path}, raw_name=raw, device=device, unit=unit,
            value_min=number, value_max=number, value_avg=number,
            value_text=text[:_MOST_PATH] if text is not None else None,
        )  # fmt: skip


def _add_up(nodes: list[_TreeNode]) -> None:
    """Find the time of each node, and of all nodes below it."""
    for node in nodes:
        if _TIME in node.metrics:
            node.time_ns = _whole(node.metrics[_TIME])
    for node in reversed(nodes):
        if node.parent >= 0:
            above = nodes[node.parent]
            above.below_ns = min(_MOST_NS, above.below_ns + node.below_ns + (node.time_ns or 0))


def _below(above: _TreeNode) -> tuple[str, ...]:
    """Return the call path of the nodes below one: of a long path the inner part."""
    if above.parent < 0:
        return ()
    path = (*above.path, above.name if len(above.name) <= _MOST_PATH else above.name[:_MOST_PATH] + "...")
    length = sum(map(len, path))
    while len(path) > 1 and (length > _MOST_PATH or len(path) > _MOST_PATH):
        length -= len(path[0])
        path = path[1:]
    return path


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _vector(value: object) -> str:
    """Return a list of numbers as text; "?" for what Proton does not write."""
    if isinstance(value, list) and all(_is_number(each) for each in value):
        return str(value[:_MOST_PATH])
    return "?"


def _whole(value: object) -> int | None:
    """Return a number of ns or of calls, None for what is not one."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= 1 << 53:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_NS else None


def _device(value: object) -> int | None:
    return int(value) if isinstance(value, str) and _NUMBERED.fullmatch(value) else None

"""Compiled programs of XLA, which `/host:metadata` has beside the planes of the devices, and the work of their ops.

The stat `Hlo Proto` of an event metadata is a program (xla/service/hlo.proto); the name of the metadata ends with the
number that events have as `program_id`: `jit_step(3315)`. A program is decoded when the first event asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import orjson

from tracekit.lazy_dataclass import dataclass
from tracekit.messages import ProtobufMessage, messages
from tracekit.readers.engine.protobuf import plain
from tracekit.readers.xplane._hlo_costs import OpCosts
from tracekit.readers.xplane._planes import Plane

METADATA_PLANE = "/host:metadata"
_STATS = frozenset({"Hlo Proto", "hlo_proto"})
_NUMBERED = re.compile(r".*\(([0-9]{1,20})\)", re.ASCII | re.DOTALL)
_MOST_BYTES = 256 << 20
_LAUNCH_NOTHING = frozenset(
    {
        "after-all", "add-dependency", "bitcast", "constant", "domain", "get-tuple-element", "opt-barrier",
        "parameter", "partition-id", "replica-id", "tuple",
    }
)  # fmt: skip
"""Opcodes that no device ever runs."""


@dataclass(frozen=True, slots=True)
class HloOp:
    """An op of a program. text: its member of `args`, as JSON. base: its name without its number."""

    name: str
    opcode: str
    base: str
    text: str


@dataclass(frozen=True, slots=True)
class HloProgram:
    """A program. ops: by name. scheduled: what it launches itself, in its order. called: what each call in it does."""

    ops: Mapping[str, HloOp]
    scheduled: tuple[HloOp, ...]
    called: Mapping[str, tuple[HloOp, ...]]


class HloPrograms:
    """The programs of a file, by number and by name."""

    def __init__(self, planes: Iterable[Plane]) -> None:
        self._data: dict[int, tuple[str, bytes]] = {}
        self._numbers: dict[str, list[int]] = {}
        self._programs: dict[int, HloProgram | None] = {}
        for plane in planes:
            if plane.name == METADATA_PLANE:
                self._take(plane)

    def __bool__(self) -> bool:
        return bool(self._data)

    def _take(self, plane: Plane) -> None:
        keys = {number for number, name in plane.keys.items() if name in _STATS}
        for number, named in plane.names.items():
            data = next((found for stat in named.stats if (found := _bytes_of(stat, keys))), b"")
            if not data or len(data) > _MOST_BYTES:
                continue
            match = _NUMBERED.fullmatch(named.name)
            program = (int(match[1]) if match else number) & ((1 << 64) - 1)
            name = named.name.rpartition("(")[0] if match else named.name
            self._data[program] = name, data
            self._numbers.setdefault(name, []).append(program)

    def number(self, module: str) -> int | None:
        """Return the number of the one program of this name, None where there are several or none."""
        numbers = self._numbers.get(module, [])
        return numbers[0] if len(numbers) == 1 else None

    def program(self, number: int) -> HloProgram | None:
        """Return a program, None where the file has none of this number, or a damaged one."""
        number &= (1 << 64) - 1
        if number not in self._programs:
            name, data = self._data.pop(number, ("", b""))
            self._programs[number] = _decoded(number, name, data) if data else None
        return self._programs[number]


def base_name(text: str) -> str:
    """Return the name of an op, or of the kernel made for it, without its number.

    >>> base_name("loop_add_fusion.12"), base_name("loop_add_fusion_3"), base_name("wrapped_convert.kd")
    ('loop_add_fusion', 'loop_add_fusion', 'wrapped_convert')
    """
    plain_text = re.sub(r"[^A-Za-z0-9_]", "_", text.removesuffix(".kd"))
    return re.sub(r"(?:_+[0-9]+)+$", "", plain_text)


def _bytes_of(data: bytes, keys: set[int]) -> bytes:
    """Return the bytes of a stat of one of these keys, none for any other."""
    from google.protobuf.message import DecodeError

    try:
        stat = messages("xplane")["XStat"].FromString(data)
    except DecodeError:
        return b""
    return stat.bytes_value if stat.metadata_id in keys else b""


def _decoded(number: int, name: str, data: bytes) -> HloProgram | None:
    from google.protobuf.message import DecodeError

    try:
        module = messages("hlo")["HloProto"].FromString(data).hlo_module
        return _program(number, name, module)
    except (DecodeError, RecursionError, ValueError, OverflowError):
        return None


def _program(number: int, name: str, module: ProtobufMessage) -> HloProgram:
    costs = OpCosts(module)
    ops: dict[str, HloOp] = {}
    of_id: dict[int, HloOp] = {}
    calls: dict[str, int] = {}
    order: dict[int, list[int]] = {}
    for computation in module.computations:
        if computation.id in costs.fused:
            continue
        for op in computation.instructions:
            if (opcode := plain(op.opcode)) in _LAUNCH_NOTHING:
                continue
            found = of_id[op.id] = _op(number, name, plain(computation.name), op, costs)
            ops[found.name] = found
            order.setdefault(computation.id, []).append(op.id)
            if opcode == "call" and len(op.called_computation_ids) == 1:
                calls[found.name] = op.called_computation_ids[0]
    order |= {each.key: list(each.value.instruction_ids) for each in module.schedule.sequences}
    scheduled = {key: tuple(of_id[each] for each in ids if each in of_id) for key, ids in order.items()}
    called = {call: scheduled.get(computation, ()) for call, computation in calls.items()}
    return HloProgram(ops, scheduled.get(module.entry_computation_id, ()), called)


def _op(number: int, module: str, computation: str, op: ProtobufMessage, costs: OpCosts) -> HloOp:
    name, opcode = plain(op.name), plain(op.opcode)
    cost = costs.of(op)
    # A text: numbers of 64 bits are not the same in every reader of JSON.
    members: dict[str, object] = {"module": module, "program": str(number), "computation": computation, "op": name}
    members["opcode"] = opcode
    if op.custom_call_target:
        members["target"] = plain(op.custom_call_target)
    if op.metadata.op_name:
        members["op_name"] = plain(op.metadata.op_name)
    members |= cost.members()
    return HloOp(name, opcode, base_name(name), orjson.dumps(members).decode())

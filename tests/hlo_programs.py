"""Build small compiled programs of XLA as bytes: what `/host:metadata` of an XPlane has."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from support import SAMPLES

MAKE = runpy.run_path(str(SAMPLES / "_xplane.py"))
message, Plane = MAKE["message"], MAKE["Plane"]
TYPES = {"s8": 2, "u8": 6, "s32": 4, "f16": 10, "f32": 11, "c64": 15, "bf16": 16, "f8e4m3fn": 20}

Shape = tuple[str, Sequence[int]] | Sequence[tuple[str, Sequence[int]]]


def shape(made: Shape) -> bytes:
    """Return the shape of an array, or of a tuple of arrays."""
    if isinstance(made[0], str):
        sizes = made[1]
        return bytes(message((2, TYPES[made[0]]), *[(3, size) for size in sizes]))  # type: ignore[list-item]
    return bytes(message((2, 13), *[(4, shape(each)) for each in made]))  # type: ignore[arg-type]


@dataclass
class Program:
    """A program with computations, by number; 1 is the one that runs. order: of the schedule, all ops without it."""

    number: int = 7
    name: str = "jit_step"
    computations: dict[int, list[bytes]] = field(default_factory=dict)
    roots: dict[int, int] = field(default_factory=dict)
    ops: int = 0
    order: Sequence[int] = ()

    def op(self, opcode: str, made: Shape, *operands: int, name: str = "", within: int = 1, **more: Any) -> int:
        """Add an op to a computation, and return its number. more: fields by name."""
        self.ops += 1
        fields: list[tuple[int, Any]] = [(1, name or f"{opcode}.{self.ops}"), (2, opcode), (3, shape(made))]
        if "op_name" in more:
            fields.append((7, message((2, more["op_name"]))))
        numbers = {"parameter": 9, "index": 13, "groups": 50}
        fields += [(number, more[key]) for key, number in numbers.items() if key in more]
        bodies = {"window": 15, "convolution": 16, "target": 28, "dot": 30, "config": 43}
        fields += [(number, more[key]) for key, number in bodies.items() if key in more]
        fields += [(35, self.ops), *[(36, operand) for operand in operands]]
        fields += [(38, number) for number in more.get("calls", ())]
        # The message leaves zeros out, as proto3 does: numbers of ops begin with 1.
        self.computations.setdefault(within, []).append(message(*fields))
        self.roots[within] = self.ops
        return self.ops

    def data(self) -> bytes:
        """Return the program as a message HloProto."""
        parts = [
            (3, message((1, f"computation.{number}"), *[(2, op) for op in ops], (5, number), (6, self.roots[number])))
            for number, ops in self.computations.items()
        ]
        module = [(1, self.name), *parts, (5, self.number), (6, 1)]
        if self.order:
            sequence = message(*[(1, number) for number in self.order])
            module.append((7, message((1, message((1, 1), (2, sequence))))))
        return bytes(message((1, message(*module))))


def metadata_plane(*programs: Program) -> Any:
    """Return the plane that has the programs."""
    plane = Plane(9, "/host:metadata")
    for program in programs:
        plane.name(f"{program.name}({program.number})", **{"Hlo Proto": program.data()})
    return plane

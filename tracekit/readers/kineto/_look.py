"""The plan for an event of Kineto: its kind, and which of its members have columns."""

from __future__ import annotations

import re

from tracekit.readers import rocm
from tracekit.readers.kineto._kinds import HOST as HOST_CATS
from tracekit.readers.kineto._kinds import KINDS, ON_DEVICE, OWN_CAT
from tracekit.readers.names import Demangler
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.events import Reading
from tracekit.readers.trace_event.plan import CALL, DEVICE, HOST, MEMORY, MOVABLE, Build, Member
from tracekit.schema import API_CALLS, Kind

_STEP = re.compile(r"ProfilerStep#([0-9]{1,9})", re.ASCII)
_PHASES = (("enumerate(DataLoader)#", Kind.DATALOADER), ("Optimizer.step#", Kind.OPTIMIZER))
"""Ranges that torch itself puts around loading and optimizing (torch/utils/data/dataloader.py, torch/optim)."""
_COMMUNICATION = re.compile(r"(?:nccl|rccl|gloo|mpi|ucc|hccl|xccl|oneccl):")
_COPY = re.compile(r"Memcpy (\w+)")
_DMA = {"DEVICE_TO_HOST": "DtoH", "HOST_TO_DEVICE": "HtoD", "DEVICE_TO_DEVICE": "DtoD"}
_SHAPES = (("grid", ("grid_x", "grid_y", "grid_z")), ("block", ("block_x", "block_y", "block_z")))


class Look:
    """Puts into a Build what an event is."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._demangler = Demangler(reading.ledger, enabled=reading.options.demangle)

    def close(self) -> None:
        """End the demangler's child."""
        self._demangler.close()

    def __call__(self, build: Build) -> None:
        """Put into `build` what its event is."""
        if events.metadata(self._reading, build):
            return
        phase = build.event.get("ph")
        if phase == "X":
            self._slice(build)
        elif phase in events.FLOW_PHASES:
            events.named(build)
            events.lane(self._reading, build)
            events.flow(self._reading, build)
            build.flags |= MOVABLE
        elif phase in ("i", "I", "C"):
            self._instant(build)
        else:
            build.drop("unknown-phase", "dropped: events of a phase that Kineto does not write")

    def _slice(self, build: Build) -> None:
        event = build.event
        cat, name = event.get("cat") or "", event.get("name") or ""
        kind = KINDS.get(cat, Kind.OTHER)
        taken: set[str] = set()
        if cat in ("user_annotation", "Operator"):  # torch before 1.9 gives all of these the cat of operators
            if step := _STEP.fullmatch(name):
                kind = Kind.STEP
                build.consts["step"] = int(step[1])
            elif _COMMUNICATION.match(name):
                kind = Kind.COMMUNICATION
        if kind in (Kind.USER_RANGE, Kind.OPERATOR):
            kind = next((phase for start, phase in _PHASES if name.startswith(start)), kind)
        elif cat == "mtia_ccp_events" and "direction" in event.args:
            kind = Kind.MEMCPY
            if (direction := _DMA.get(event.arg("direction") or "")) is not None:
                build.consts["copy_kind"] = direction
                taken.add("direction")
            taken |= _taken(build, "bytes", "size")
        elif kind is Kind.KERNEL and (command := rocm.activity(name)) is not None:
            # roctracer's commands were all "kernel" in torch before 2.0
            kind, build.consts["copy_kind"] = command
        readable, raw = self._demangler.one(name)
        build.consts |= {"kind": kind, "name": readable if "name" in event.members else None, "raw_name": raw}
        events.times(build)
        if build.integer("correlation", event.args.get("correlation")):
            taken.add("correlation")
        if cat in ON_DEVICE:
            build.flags |= DEVICE
            build.integer("pid", event.members.get("pid"), self._reading.pids.number)
            taken |= self._device_side(build, kind, name)
        else:
            events.lane(self._reading, build)
            build.flags |= HOST * (cat in HOST_CATS) | CALL * (kind in API_CALLS)
        if cat and OWN_CAT.get(kind) != cat:
            build.keep(event.members["cat"])
        build.keep_rest(taken, events.TOP)

    def _device_side(self, build: Build, kind: Kind, name: str) -> set[str]:
        """Take what device rows have; return the keys of args that found a column."""
        event, taken = build.event, set[str]()
        for column, key in (("device", "device"), ("stream", "stream"), ("context", "context"), ("bytes", "bytes")):
            taken |= _taken(build, column, key)
        # -1 is "none" in this format (synchronization of a whole device).
        if "device" not in taken and not _negative(event.members.get("pid")):
            build.integer("device", event.members.get("pid"))
        if "stream" not in taken and "stream" not in event.args and not _negative(event.members.get("tid")):
            build.integer("stream", event.members.get("tid"), self._reading.streams.number)
        for key, columns in _SHAPES:
            sizes = event.items(event.args[key]) if key in event.args else []
            if len(sizes) == 3 and all(s.raw.isdigit() for s in sizes):
                for column, size in zip(columns, sizes, strict=True):
                    build.integer(column, size)
                taken.add(key)
        taken |= _taken(build, "registers", "registers per thread")
        if kind is Kind.MEMCPY and "copy_kind" not in build.consts:
            found = _COPY.match(name)
            command = rocm.activity(name)
            direction = command[1] if command else event.arg("kind")
            build.consts["copy_kind"] = found[1] if found else direction
        return taken

    def _instant(self, build: Build) -> None:
        event = build.event
        name, cat = event.get("name"), event.get("cat") or ""
        events.named(build)
        build.time("ts_ns", event.members.get("ts"))
        events.lane(self._reading, build)
        if name == "[memory]" and build.integer("bytes", event.args.get("Bytes")):
            build.consts["kind"] = Kind.MEMORY
            build.flags |= MEMORY
            if build.integer("scratch_0", event.args.get("Device Type")):
                build.integer("device", event.args.get("Device Id"))
            for column, key in (("scratch_1", "Total Allocated"), ("scratch_2", "Total Reserved")):
                build.integer(column, event.args.get(key))
            build.keep_rest({"Bytes": None}, events.TOP | {"s"})
            return
        build.consts["kind"] = Kind.MARK
        if event.get("ph") == "C":
            build.consts["kind"] = Kind.COUNTER
            numbers = [k for k, m in event.args.items() if build.number("value", m)]
            build.keep_rest({numbers[-1]: None} if len(numbers) == len(event.args) == 1 else {}, events.TOP)
            return
        if cat:
            build.keep(event.members["cat"])
        build.keep_rest({}, events.TOP)


def _taken(build: Build, column: str, key: str) -> set[str]:
    member = build.event.args.get(key)
    if member is None or member.raw[:1] in (b"[", b"{", b'"'):
        return set()
    return {key} if build.integer(column, member) else set()


def _negative(member: Member | None) -> bool:
    return member is None or member.raw[:1] == b"-"

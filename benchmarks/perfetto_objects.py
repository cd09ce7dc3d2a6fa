"""The baseline of perfetto.py: the same events with one protobuf object a packet, as the bindings of Perfetto do it.

The messages are built at run time from the field numbers of perfetto/trace/*.proto, so no generated code is needed;
the objects are those of protobuf's own C library (upb). A row is a BEGIN with interned name and category and its
arguments, and an END; a counter is one packet. No lanes, no check that slices nest: less than our writer does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARINT, TEXT, MESSAGE = 4, 9, 11  # types of fields in descriptor.proto: uint64, string, message
REPEATED = 3
MESSAGES: dict[str, list[tuple[str, int, int, str]]] = {
    "Named": [("iid", 1, VARINT, ""), ("name", 2, TEXT, "")],
    "Interned": [("categories", 1, MESSAGE, "Named"), ("names", 2, MESSAGE, "Named"), ("keys", 3, MESSAGE, "Named")],
    "Annotation": [("key", 1, VARINT, ""), ("number", 4, VARINT, "")],
    "Event": [
        ("category", 3, VARINT, ""), ("annotations", 4, MESSAGE, "Annotation"), ("type", 9, VARINT, ""),
        ("name", 10, VARINT, ""), ("track", 11, VARINT, ""), ("counter", 30, VARINT, ""), ("flows", 47, VARINT, ""),
    ],
    "Descriptor": [("uuid", 1, VARINT, ""), ("name", 2, TEXT, ""), ("counter", 8, MESSAGE, "Interned")],
    "Packet": [
        ("time", 8, VARINT, ""), ("sequence", 10, VARINT, ""), ("event", 11, MESSAGE, "Event"),
        ("interned", 12, MESSAGE, "Interned"), ("flags", 13, VARINT, ""), ("descriptor", 60, MESSAGE, "Descriptor"),
    ],
}  # fmt: skip
MANY = {"categories", "names", "keys", "annotations", "flows"}
ARGUMENTS = ("correlation", "registers", "bytes")


def packet_class() -> Any:
    """Return the class of a packet."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="objects.proto", package="objects", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of in fields:
            made = message.field.add(name=field, number=number, type=kind, label=REPEATED if field in MANY else 1)
            if of:
                made.type_name = f".objects.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("objects.Packet"))


def write(batches: Iterator[Any], target: Path) -> int:
    """Write the events and return their number."""
    make = packet_class()
    rows, texts, tracks = 0, {}, {}
    keys = {name: at for at, name in enumerate(ARGUMENTS, 1)}

    def put(file: Any, packet: Any) -> None:
        data = packet.SerializeToString()
        size = len(data)
        head = bytearray(b"\x0a")
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        head.append(size)
        file.write(head + data)

    with target.open("wb") as file:
        first = make(sequence=1, flags=1)
        for name, at in keys.items():
            first.interned.keys.add(iid=at, name=name)
        put(file, first)
        for batch in batches:
            rows += batch.num_rows
            columns = ("ts_ns", "dur_ns", "kind", "name", "tid", "stream", "value", *ARGUMENTS)
            for ts, dur, kind, name, tid, stream, value, *numbers in zip(
                *(batch.column(column).to_pylist() for column in columns), strict=True
            ):
                lane = tid, stream, name if kind == "counter" else ""
                track = tracks.get(lane)
                if track is None:
                    track = tracks[lane] = len(tracks) + 1
                    described = make(sequence=1)
                    described.descriptor.uuid, described.descriptor.name = track, str(lane)
                    put(file, described)
                packet = make(time=ts, sequence=1)
                event = packet.event
                event.track = track
                if kind == "counter":
                    event.type, event.counter = 4, int(value)
                    put(file, packet)
                    continue
                event.type = 1
                for of, text in (("categories", kind), ("names", name)):
                    iid = texts.get((of, text))
                    if iid is None:
                        iid = texts[of, text] = len(texts) + 1
                        getattr(packet.interned, of).add(iid=iid, name=text)
                    setattr(event, "category" if of == "categories" else "name", iid)
                for key, number in zip(ARGUMENTS, numbers, strict=True):
                    if number is not None:
                        event.annotations.add(key=keys[key], number=number)
                if numbers[0] is not None:
                    event.flows.append(numbers[0])
                put(file, packet)
                end = make(time=ts + dur, sequence=1)
                end.event.type, end.event.track = 2, track
                put(file, end)
    return rows

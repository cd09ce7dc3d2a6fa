"""pprof: profiles of Go, of gperftools and of other writers of profile.proto (`.pb.gz`).

    sample_type: {type: "cpu", unit: "nanoseconds"}   sample: {location_id: [3, 2, 1], value: [20000000]}
    location: {id: 1, line: {function_id: 1, line: 42}}   function: {id: 1, name: "main.main"}

A record is a sample. A sample may have several values: the one of `default_sample_type` is read, else the last. A note
names the others. A unit of time gives `total_ns`; any other gives `value_avg` in its unit. `frames` in `args` has the
stack, the outermost frame first; the lines of inlined functions are frames. A location without a function is its
mapping and address.
Not supported: labels, and the files of gperftools that are not protobuf.
Sources: profile.proto of google/pprof; profiles of Go and gperftools.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.messages import messages
from tracekit.model.digits import varint_at
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.samples._stacks import MOST_FRAMES, Stacks
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_TAGS = b"\x0a\x12\x1a\x22\x2a\x32\x48\x50\x5a\x60\x70"
"""Tags of the fields of a profile, any of which may be the first."""

_NUMBERS = frozenset({7, 8, 9, 10, 12, 14, 15})
_LARGEST_TYPE = 22
"""A type of samples is two small numbers."""
_TEXTS = frozenset({1, 2, 3, 4, 5, 6, 11, 13})


def sniff(head: Head) -> Confidence:
    """Return YES where all fields of the head are those of a profile, and it has samples or texts."""
    data, place, seen = head.data, 0, set()
    while place < len(data):
        tag, place = varint_at(data, place)
        if tag < 0:
            break
        field, wire = tag >> 3, tag & 7
        if (wire == 0 and field in _NUMBERS | {13}) or (wire == 2 and field in _TEXTS):
            value, place = varint_at(data, place)
            if value < 0:
                break
            if field == 1 and value > _LARGEST_TYPE:
                return Confidence.NO
            seen.add(field)
            place += value if wire == 2 else 0
        else:
            return Confidence.NO
    if head.complete and place > len(data):
        return Confidence.NO
    return Confidence.YES if {1, 2} <= seen and (not head.complete or 6 in seen) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError for damage, and for a profile without samples."""
    from google.protobuf.message import DecodeError

    try:
        profile = messages("pprof")["Profile"].FromString(source.read_whole())
    except DecodeError as err:
        raise ParseError(source.name, "", "the protobuf is damaged or cut: a profile can be read only whole") from err
    texts = [text.decode("utf-8", "replace") for text in profile.string_table]
    run = Run(sources=[SourceFacts(source.name, "pprof", facts=_facts(profile))])
    if 0 < profile.time_nanos < 1 << 62:
        run.sources[0].facts["time_ns"] = profile.time_nanos
    return ReadResult(run, _batches(profile, texts, source.name, options, ledger), True, (ledger,))


def _facts(profile: Any) -> dict[str, object]:
    found = {"tool": "pprof", "period": profile.period, "duration_ns": profile.duration_nanos}
    return {key: value for key, value in found.items() if value}


def _batches(
    profile: Any, texts: list[str], name: str, options: ReadOptions, ledger: Ledger
) -> Iterator[pa.RecordBatch]:
    def text(place: int) -> str:
        return texts[place] if 0 <= place < len(texts) else ""

    types = [(text(each.type), text(each.unit)) for each in profile.sample_type]
    if not types:
        raise ParseError(name, "", "a profile without types of samples")
    wanted = text(profile.default_sample_type)
    chosen = next((at for at, (kind, _) in enumerate(types) if wanted and kind == wanted), len(types) - 1)
    if len(types) > 1:
        others = ", ".join(f"{kind} ({unit})" for at, (kind, unit) in enumerate(types) if at != chosen)
        ledger.note(
            "other-values", f"read: {types[chosen][0]} ({types[chosen][1]}); not read beside it: {others[:200]}"
        )
    names = {each.id: text(each.name) or text(each.system_name) for each in profile.function}
    mappings = {each.id: text(each.filename).rpartition("/")[2] for each in profile.mapping}
    frames = {each.id: _frames(each, names, mappings) for each in profile.location}
    kind, unit = types[chosen]
    stacks = Stacks(options, ledger)
    for sample in profile.sample:
        ledger.read += 1
        places = list(sample.location_id[:MOST_FRAMES])
        if len(sample.value) != len(types) or not places or any(place not in frames for place in places):
            ledger.drop(
                "bad-sample", text="dropped: a sample without its values, or with a location that is not in the file"
            )
            continue
        stack = [frame for place in reversed(places) for frame in reversed(frames[place])]
        stacks.add(0, "", unit if unit not in ("", "count") else kind or "samples", stack, sample.value[chosen], 1)
        ledger.kept += 1
    if not len(stacks):
        raise ParseError(name, "", "a profile without samples")
    yield from stacks.batches()


def _frames(location: Any, names: dict[int, str], mappings: dict[int, str]) -> list[str]:
    """Return the frames of a location, the innermost inlined one first."""
    found = [name for line in location.line[:100] if (name := names.get(line.function_id, ""))]
    return found or [f"{mappings.get(location.mapping_id, '')} {location.address:#x}".strip()]

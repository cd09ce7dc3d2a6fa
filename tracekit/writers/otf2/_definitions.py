"""The definitions of an archive: clock, system tree, processes, locations, regions and metrics."""

from __future__ import annotations

from collections.abc import Mapping

import _otf2

from tracekit.model.schema import API_CALLS, USER_RANGES, Kind
from tracekit.model.trace import Run
from tracekit.writers.otf2._library import NONE, Archive, instance
from tracekit.writers.otf2._locations import Otf2Place
from tracekit.writers.tracks.lanes import TrackLanes
from tracekit.writers.tracks.output import title

TICKS = 1_000_000_000
"""Ticks of the clock in a second: times are ns."""
_CUDA, _USER = _otf2.PARADIGM_CUDA, _otf2.PARADIGM_USER
_KINDS: dict[str, tuple[object, object]] = {
    Kind.KERNEL: (_CUDA, _otf2.REGION_ROLE_KERNEL),
    Kind.MEMCPY: (_CUDA, _otf2.REGION_ROLE_DATA_TRANSFER),
    Kind.MEMSET: (_CUDA, _otf2.REGION_ROLE_FUNCTION),
    Kind.SYNC: (_CUDA, _otf2.REGION_ROLE_FUNCTION),
    Kind.COMMUNICATION: (_otf2.PARADIGM_UNKNOWN, _otf2.REGION_ROLE_COLL_OTHER),
    Kind.OVERHEAD: (_otf2.PARADIGM_MEASUREMENT_SYSTEM, _otf2.REGION_ROLE_ARTIFICIAL),
    **dict.fromkeys(API_CALLS, (_CUDA, _otf2.REGION_ROLE_FUNCTION)),
    **dict.fromkeys(USER_RANGES, (_USER, _otf2.REGION_ROLE_CODE)),
    **dict.fromkeys((Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.PYTHON_OP), (_USER, _otf2.REGION_ROLE_FUNCTION)),
}
"""Paradigm and role of the regions of a kind."""


def define_clock(archive: Archive, last_ns: int, base_ns: int | None) -> None:
    """Write the clock. base_ns: the Unix time of tick 0, None where it is not known."""
    known = base_ns if base_ns is not None and base_ns >= 0 else _otf2.UNDEFINED_UINT64.value
    archive.define("ClockProperties", TICKS, 0, last_ns, known)


def define_places(archive: Archive, run: Run, lanes: TrackLanes, places: list[Otf2Place]) -> None:
    """Write the system tree, its processes and their locations."""
    archive.define("SystemTreeNode", 0, title(run), "machine", NONE)
    nodes: dict[str, int] = {}
    groups: dict[int, int] = {}
    hosts: dict[tuple[object, ...], int] = {}
    for place in places:
        process = place.process
        if process.number in groups:
            continue
        host = _host(run, process.source)
        if host and host not in nodes:
            nodes[host] = 1 + len(nodes)
            archive.define("SystemTreeNode", nodes[host], host, "node", 0)
        number = groups[process.number] = len(groups)
        key = process.source, process.rank, process.pid
        kind, creator = _otf2.LOCATION_GROUP_TYPE_PROCESS, NONE
        if process.on_device:
            kind, creator = _otf2.LOCATION_GROUP_TYPE_ACCELERATOR, hosts.get(key, NONE)
        else:
            hosts[key] = number
        archive.define("LocationGroup", number, lanes.process_name(process), kind, nodes.get(host, 0), creator)
    for place in places:
        name, kind = "counters", _otf2.LOCATION_TYPE_METRIC
        if not place.events:
            name, kind = "no events", _otf2.LOCATION_TYPE_CPU_THREAD
        elif place.track is not None:
            name = lanes.track_name(place.track)
            on_device = place.process.on_device
            kind = _otf2.LOCATION_TYPE_ACCELERATOR_STREAM if on_device else _otf2.LOCATION_TYPE_CPU_THREAD
        archive.define("Location", place.number, name, kind, place.events, groups[place.process.number])


def _host(run: Run, source: int) -> str:
    """Return the name of the computer of an input, "" where its file does not name it."""
    name = run.sources[source].facts.get("host") if 0 <= source < len(run.sources) else None
    return name if isinstance(name, str) else ""


def define_regions(archive: Archive, frames: Mapping[tuple[str, str], int]) -> None:
    """Write the regions, and for each kind a group of them, to colour by. frames: name and kind -> number."""
    kinds: dict[str, list[int]] = {}
    for (name, kind), number in frames.items():
        paradigm, role = _of_region(name, kind)
        flag = _otf2.REGION_FLAG_PHASE if kind == Kind.STEP else _otf2.REGION_FLAG_NONE
        archive.define("Region", number, name, name, kind, role, paradigm, flag, "", 0, 0)
        kinds.setdefault(kind, []).append(number)
    for number, (kind, members) in enumerate(kinds.items()):
        form, flag = _otf2.GROUP_TYPE_REGIONS, _otf2.GROUP_FLAG_NONE
        archive.define("Group", number, kind, form, _otf2.PARADIGM_UNKNOWN, flag, members)


def _of_region(name: str, kind: str) -> tuple[object, object]:
    """Return paradigm and role of a region."""
    paradigm, role = _KINDS.get(kind, (_otf2.PARADIGM_UNKNOWN, _otf2.REGION_ROLE_UNKNOWN))
    if kind == Kind.COMMUNICATION and name.lower().startswith("mpi_"):
        paradigm = _otf2.PARADIGM_MPI
    elif kind in API_CALLS and name.startswith("hip"):
        paradigm = _otf2.PARADIGM_HIP
    return paradigm, role


def define_metrics(archive: Archive, counters: Mapping[tuple[int, str], int], places: list[Otf2Place]) -> None:
    """Write a metric for each counter. counters: process and name -> number."""
    groups: dict[int, int] = {}
    for place in places:
        groups.setdefault(place.process.number, len(groups))
    recorders = {place.process.number: place.number for place in places if place.track is None}
    for (process, name), number in counters.items():
        form = _otf2.METRIC_TYPE_OTHER, _otf2.METRIC_ABSOLUTE_POINT, _otf2.TYPE_DOUBLE, _otf2.BASE_DECIMAL
        archive.define("MetricMember", number, name, name, *form, 0, "")
        own, recorder = instance(number), recorders[process]
        archive.define("MetricClass", own - 1, [number], _otf2.METRIC_ASYNCHRONOUS, _otf2.RECORDER_KIND_ABSTRACT)
        archive.define("MetricInstance", own, own - 1, recorder, _otf2.SCOPE_LOCATION_GROUP, groups[process])

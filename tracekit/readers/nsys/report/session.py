"""Facts of a report outside its events: clock, version, command, devices, contexts, streams.

The session and the options hold the whole environment of the program. Only fields that are named here are taken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tracekit.model.digits import signed
from tracekit.readers.engine.protobuf import plain
from tracekit.readers.engine.wire import BYTES, VARINT
from tracekit.readers.nsys.report import layout
from tracekit.readers.nsys.report.container import Container
from tracekit.readers.nsys.report.messages import last_values

__all__ = ["Row", "info_rows", "meta_of"]

Row = dict[str, object]

_SESSION, _SYSTEM, _UTC, _LOCAL = 1, 3, 9, 10
"""Numbers of clocks in the session's list of offsets (to 2025.6)."""
_UTC_KIND, _SYSTEM_KINDS = 11, (7, 10)
"""Kinds of clocks in Time Conversion Data (2026): UTC; the system clock of Linux and of Windows."""
_OPTIONS = "Analysis Options Data"


def meta_of(report: Container) -> dict[str, str]:
    """Return the version and the command of the program, under the names that the export has for them."""
    meta: dict[str, str] = {}
    place = report.sections.get("UI Data", (0, 0))[0]
    version = last_values(report.fields(report.section("UI Data"), place, "section 'UI Data'")).get(6)
    if isinstance(version, bytes):
        meta["EXPORT_PRODUCT_VERSION"] = plain(version).partition("-")[0]  # without the build, as in an export
    # 26 is the program that nsys starts: 10 its path, 11 each argument. It has the environment too.
    place = report.sections.get(_OPTIONS, (0, 0))[0]
    for number, wire, value in report.fields(report.section(_OPTIONS), place, f"section {_OPTIONS!r}"):
        if number == 26 and wire == BYTES and isinstance(value, bytes):
            arguments = 0
            for field, kind, text in report.fields(value, place, f"section {_OPTIONS!r}"):
                if kind != BYTES or not isinstance(text, bytes):
                    continue
                if field == 10:
                    meta["PROCESS_0:COMMAND"] = plain(text)
                elif field == 11:
                    meta[f"PROCESS_0:ARGUMENT_{arguments}"] = plain(text)
                    arguments += 1
            break
    return meta


def info_rows(report: Container, unknown: Counter[str]) -> Iterator[tuple[str, Row]]:
    """Yield the rows of the tables of facts. unknown: counts what is not understood."""
    yield from _session_rows(report)
    vm: object = None
    paths = {table.path: table for table in layout.INFO_TABLES}
    at = report.strings_at

    def walk(data: bytes, path: tuple[int, ...]) -> Iterator[tuple[str, Row]]:
        nonlocal vm
        for number, _, value in report.fields(data, at, "the target information"):
            here = (*path, number)
            if here == (1, 1) and isinstance(value, int):
                vm = signed(value)
            table = paths.get(here)
            if table is not None and isinstance(value, bytes):
                row = _named(report, value, table.columns)
                if table.table in ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU"):
                    row["vmId"] = vm
                yield table.table, row
                if table.table == "TARGET_INFO_CUDA_CONTEXT_INFO":
                    names = {"nullStreamId": "streamId"} | dict.fromkeys(
                        ("hwId", "vmId", "processId", "deviceId", "contextId"), ""
                    )
                    yield "TARGET_INFO_CUDA_NULL_STREAM", {names[k] or k: v for k, v in row.items() if k in names}
            elif here in ((1,), (1, 2)) and isinstance(value, bytes):
                yield from walk(value, here)
            elif here not in layout.INFO_SILENT:
                unknown[f"target information {'.'.join(map(str, here))}"] += 1

    yield from walk(report.target, ())


def _named(report: Container, data: bytes, names: dict[int, str]) -> Row:
    row: Row = {}
    for number, wire, value in report.fields(data, report.strings_at, "the target information"):
        if number in names:
            if wire == VARINT and isinstance(value, int):
                row[names[number]] = signed(value)
            elif isinstance(value, bytes):
                row[names[number]] = plain(value) if wire == BYTES else value.hex()
    return row


def _session_rows(report: Container) -> Iterator[tuple[str, Row]]:
    place = report.sections["Raw Sampling Data"][0]
    fields = report.fields(report.session, place, "the session")
    first = {number: value for number, _, value in reversed(fields)}
    start, stop = first.get(17), first.get(18)
    if isinstance(start, int) and isinstance(stop, int):
        start, stop = signed(start), signed(stop)
        yield "ANALYSIS_DETAILS", {"startTime": start, "stopTime": stop, "duration": stop - start}
        utc, local, system = _wall_clock(report, fields, start)
        if utc is not None:
            yield (
                "TARGET_INFO_SESSION_START_TIME",
                {
                    "utcEpochNs": utc,
                    "utcTime": _iso(utc),
                    "localTime": _iso(utc + (local or 0)),
                    "systemClockNs": system,
                },
            )
    for number, _, value in fields:
        if number == 1 and isinstance(value, bytes):
            yield from _system_rows(report, value, place)


def _system_rows(report: Container, data: bytes, place: int) -> Iterator[tuple[str, Row]]:
    """Yield the few values of the system information that are taken: it has the program's environment too."""
    for number, _, values in report.fields(data, place, "the session"):
        if number != 2 or not isinstance(values, bytes):
            continue
        for _, _, entry in report.fields(values, place, "the session"):
            if not isinstance(entry, bytes):
                continue
            pair = last_values(report.fields(entry, place, "the session"))
            key, value = pair.get(1), pair.get(2)
            if isinstance(key, int) and key in layout.SYSTEM and isinstance(value, bytes):
                yield "TARGET_INFO_SYSTEM_ENV", {"name": layout.SYSTEM[key], "nameEnum": key, "value": plain(value)}


def _wall_clock(
    report: Container, fields: list[tuple[int, int, int | bytes]], start: int
) -> tuple[int | None, int | None, int | None]:
    """Return the UTC of the start of the analysis, the offset of local time, and the system clock then; ns."""
    offsets: dict[tuple[object, object], int] = {}
    place = report.sections["Raw Sampling Data"][0]
    for number, _, value in fields:
        if number != 16 or not isinstance(value, bytes):
            continue
        for _, _, entry in report.fields(value, place, "the clocks"):
            if not isinstance(entry, bytes):
                continue
            pair = last_values(report.fields(entry, place, "the clocks"))
            text = pair.get(5)
            if pair.get(6) != b"Offset" or not isinstance(text, bytes):
                continue  # "CntVct" and "Identity" of ARM: conversions that no event needs
            if re.fullmatch(rb"-?\d{1,20}", text) is None:
                continue
            offsets[pair.get(1), pair.get(2)] = signed(int(text) & ((1 << 64) - 1))
    if (_SESSION, _SYSTEM) in offsets and (_SYSTEM, _UTC) in offsets:
        system = start - offsets[_SESSION, _SYSTEM]
        return system - offsets[_SYSTEM, _UTC], -offsets.get((_UTC, _LOCAL), 0), system
    return (*_converted(report, start), start) if "Time Conversion Data" in report.sections else (None, None, None)


def _converted(report: Container, start: int) -> tuple[int | None, int | None]:
    """Return the UTC of a time of the system clock, and the offset of local time, from pairs of readings (2026)."""
    place = report.sections["Time Conversion Data"][0]
    kinds: dict[object, object] = {}
    utc = local = None
    for number, _, value in report.fields(report.section("Time Conversion Data"), place, "the clocks"):
        if not isinstance(value, bytes):
            continue
        for _, _, entry in report.fields(value, place, "the clocks"):
            if not isinstance(entry, bytes):
                continue
            clock = last_values(report.fields(entry, place, "the clocks"))
            if number == 1:
                kinds[clock.get(1)] = clock.get(2)
                continue
            relation = clock.get(3)
            readings = last_values(report.fields(relation, place, "the clocks")) if isinstance(relation, bytes) else {}
            pair = readings.get(1)
            ours, theirs = _pair(report, pair, place) if isinstance(pair, bytes) else (0, 0)
            of = (kinds.get(clock.get(1)), kinds.get(clock.get(2)))
            if of[0] == _UTC_KIND and of[1] in _SYSTEM_KINDS:
                utc = ours + start - theirs
            elif of == (_UTC_KIND + 1, _UTC_KIND):
                local = ours - theirs
    return utc, local


def _pair(report: Container, data: bytes, place: int) -> tuple[int, int]:
    values = last_values(report.fields(data, place, "the clocks"))
    ours, theirs = values.get(1, 0), values.get(2, 0)
    return (signed(ours) if isinstance(ours, int) else 0), (signed(theirs) if isinstance(theirs, int) else 0)


def _iso(ns: int) -> str | None:
    from datetime import UTC, datetime, timedelta

    try:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ns // 10**9)
    except OverflowError:
        return None
    return when.strftime("%Y-%m-%dT%H:%M:%S")

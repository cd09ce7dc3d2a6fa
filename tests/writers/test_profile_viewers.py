"""profiler.firefox.com's importer and speedscope see in our profiles the slices of our Chrome trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import profiles
import pytest
from npm_viewers import firefox_profile, speedscope_profile
from support import SHARE, sample
from viewed import EVERY_FILE, file_named, read_once

import tracekit

OPENED = (
    "chrome-trace/every-phase.json", "chrome-trace/viztracer.json", "cuda-profile/csv.log", "kineto/gpu.pt.trace.json",
    "mxnet/mxnet-1.9.1.json", "nsys-sqlite/two-processes.sqlite", "nvprof-text/gpu-and-api-trace.txt",
    "paddle-json/paddle3-memory.paddle_trace.json", "recorder-log/rank0.jsonl",
)  # fmt: skip
"""Samples that are opened in the viewers themselves: every phase, overlaps, counters, marks, several processes."""


def written(source: Path, folder: Path) -> tuple[Path, Path, Path]:
    trace = read_once(source)
    names = ("x.json", "x.firefox.json.gz", "x.speedscope.json")
    for name in names:
        tracekit.write(trace, folder / name)
    return folder / names[0], folder / names[1], folder / names[2]


def check_same(source: Path, folder: Path) -> None:
    """The slices of each lane are the same in the three files, so their sums are."""
    if not read_once(source).events.num_rows:
        return
    chrome, firefox, speedscope = written(source, folder)
    expected = profiles.chrome(chrome)
    assert profiles.firefox(firefox).timed() == expected
    assert profiles.speedscope(speedscope).timed() == expected


@EVERY_FILE
def test_a_file_has_the_slices_of_its_chrome_trace(name: str, tmp_path: Path) -> None:
    check_same(file_named(name), tmp_path)


@pytest.mark.viewer
@pytest.mark.parametrize("name", OPENED[:: 1 if SHARE == 1 else 2])
def test_the_importer_of_firefox_sees_every_marker_field_and_counter(name: str, tmp_path: Path) -> None:
    _, path, _ = written(sample(name), tmp_path)
    document, seen = profiles.loaded(path), firefox_profile(path)
    threads = {(each["processName"], each["name"]): each for each in document["threads"]}
    assert seen["threads"].keys() == threads.keys()
    made = profiles.firefox(path)
    assert sum(map(len, seen["threads"].values())) == len(made.slices)
    expected = Counter((at, dur, text, kind, len(fields)) for _, at, dur, text, kind, fields in made.slices)
    assert Counter(shown(marker) for markers in seen["threads"].values() for marker in markers) == expected
    held = [(each["pid"], each["name"], each["sampleCount"]) for each in seen["counters"]]
    assert held == [(each["pid"], each["name"], each["samples"]["length"]) for each in document["counters"]]
    assert sum(count - 1 for _, _, count in held) == len(made.counters)


def shown(marker: dict[str, Any]) -> tuple[int, int | None, str, str, int]:
    duration = marker.get("duration")
    times = round(marker["start"] * 1_000_000), None if duration is None else round(duration * 1_000_000)
    return *times, marker["name"], marker["category"], len(marker.get("fields", []))


@pytest.mark.viewer
@pytest.mark.parametrize("name", OPENED[1 :: 1 if SHARE == 1 else 3])
def test_speedscope_holds_every_slice_that_it_can_draw(name: str, tmp_path: Path) -> None:
    _, _, path = written(sample(name), tmp_path)
    document, seen = profiles.loaded(path), speedscope_profile(path)
    assert [each["name"] for each in seen["profiles"]] == [each["name"] for each in document["profiles"]]
    assert {each["unit"] for each in seen["profiles"]} == {"nanoseconds"}
    for held, given in zip(seen["profiles"], document["profiles"], strict=True):
        assert drawn(held, seen) == drawn(given, document)


def drawn(profile: dict[str, Any], document: dict[str, Any]) -> Counter[tuple[str, str, int, int]]:
    """Name, kind, start and duration of the slices above 0 ns."""
    stack: list[tuple[int, int]] = []
    found: Counter[tuple[str, str, int, int]] = Counter()
    for event in profile["events"]:
        if event["type"] == "O":
            stack.append((event["frame"], event["at"]))
            continue
        number, start = stack.pop()
        frame = document["shared"]["frames"][number]
        if event["at"] > start:
            found[frame["name"], frame["file"], start, event["at"] - start] += 1
    return found

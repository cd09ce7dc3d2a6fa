"""PyTorch's own tables, of 1.0 to 2.15 in eleven forms, against the averages that they were made of.

`tests/torch_tables.py` wrote the files in `goldens/torch` with each version, on a CPU.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from fractions import Fraction
from typing import Any

import pytest
from support import GOLDENS, run_command

import tracekit
from tracekit.model.trace import Trace

FOLDER = GOLDENS / "torch"
VERSIONS = sorted((path.name[: -len(".txt.gz")] for path in FOLDER.glob("*.txt.gz")), key=lambda v: v.split("."))
NAME, CALLS, SELF, TOTAL, NESTED, MEMORY, SELF_MEMORY, FLOPS, SHAPES, STACK = range(10)
SORTED = {"self_cpu_time_total": SELF, "cpu_time_total": TOTAL, "flops": FLOPS}
TOP = "This report only display top-level ops statistics"
_UNITS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SIZES = {"B": 0, "KB": 10, "MB": 20, "GB": 30}
_SCALES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

Event = list[Any]
Table = dict[str, Any]
Row = dict[str, Any]


@functools.cache
def facts(version: str) -> dict[str, Any]:
    """Return what the events held: tables, and lists of events."""
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{version}.json.gz").read_bytes()))
    return found


@functools.cache
def trace_of(version: str) -> Trace:
    """Return the tables as they are read."""
    return tracekit.read(FOLDER / f"{version}.txt.gz")


def text_of(version: str) -> str:
    """Return the tables as printed."""
    return gzip.decompress((FOLDER / f"{version}.txt.gz").read_bytes()).decode()


@functools.cache
def rows_of(version: str) -> list[list[Row]]:
    """Return the rows that were read, by table, without those of memory and totals."""
    trace = trace_of(version)
    assert trace.ledgers[0].dropped == {}
    tables: dict[int, list[Row]] = {}
    for row in trace.totals.to_pylist():
        row["args"] = json.loads(row["args"] or "{}")
        tables.setdefault(row["run"], []).append(row)
    return list(tables.values())


def printed_events(version: str, table: Table) -> list[Event]:
    """Return the events of the rows, in their order: by what the options of `table()` are documented to do."""
    options = table["options"]
    events: list[Event] = facts(version)["events"][table["events"]]
    if options.get("sort_by"):
        events = sorted(events, key=lambda event: event[SORTED[options["sort_by"]]], reverse=True)
    if options.get("top_level_events_only"):
        events = [event for event in events if not event[NESTED]]
    limit = options.get("row_limit", 100)
    return events if limit < 0 else events[:limit]


CASES = [(version, table["form"]) for version in VERSIONS for table in facts(version)["tables"]]


def case(version: str, form: str) -> tuple[Table, list[Event], list[Row]]:
    """Return a table, the events of its rows, and all rows that were read of it."""
    tables = facts(version)["tables"]
    place = [table["form"] for table in tables].index(form)
    return tables[place], printed_events(version, tables[place]), rows_of(version)[place]


def rounds_to(cell: str, us: float) -> int:
    """Return the ns of a cell, which must be `us` rounded to its three digits. Its unit must fit, unless asked for."""
    number = cell.rstrip("mus")
    unit = _UNITS[cell[len(number) :]]
    assert abs(Fraction(number) - Fraction(us) * 1000 / unit) <= Fraction(5001, 10**7), (cell, us)
    return int(Fraction(number) * unit)


def test_each_minor_version_is_here() -> None:
    minors = {".".join(version.split(".")[:2]) for version in VERSIONS}
    assert minors >= {*(f"1.{minor}" for minor in range(14)), *(f"2.{minor}" for minor in range(16))}
    assert {form for _, form in CASES} == {
        "plain", "sorted", "ms", "header", "narrow", "top level", "top level of averages", "shapes, memory, FLOPs",
        "stacks, memory, FLOPs", "legacy", "bottleneck",
    }  # fmt: skip


@pytest.mark.parametrize(("version", "form"), CASES)
def test_rows_calls_and_times_are_those_of_key_averages(version: str, form: str) -> None:
    table, events, found = case(version, form)
    rows = [row for row in found if "cells" in row["args"]]
    assert len(rows) == len(events) > 0
    for row, event in zip(rows, events, strict=True):
        name = row["name"]
        assert event[NAME] == name or event[NAME].startswith(name.removesuffix("..."))
        assert row["calls"] == event[CALLS]
        cells = dict(zip(_titles(version, form), row["args"]["cells"], strict=True))
        assert row["total_ns"] == rounds_to(cells["CPU total"], event[TOTAL])
        assert row["avg_ns"] == rounds_to(cells.get("CPU time avg") or cells["CPU time"], event[TOTAL] / event[CALLS])
        if not version.startswith("1.0."):
            own = cells.get("Self CPU") or cells["Self CPU total"]
            assert row["args"]["self_ns"] == rounds_to(own, event[SELF])
    totals = [row for row in found if row["section"] == "header"]
    if version.startswith("1.0."):
        assert not totals
        return
    assert [row["name"] for row in totals[:1]] == ["Self CPU time total"]
    assert [row["total_ns"] for row in totals[1:]] in ([], [0])  # old versions print a total of CUDA
    # bottleneck makes a table of the first rows alone, so their sum is its total.
    whole = sum(event[SELF] for event in events) if form == "bottleneck" else table["whole"]
    unit = 1000 if whole < 1000 and form != "ms" else 1_000_000
    assert abs(totals[0]["total_ns"] - whole * 1000) <= 0.0005 * unit + 1e-3


MEMORY_CASES = [(version, form) for version, form in CASES if "memory" in form]


@pytest.mark.parametrize(("version", "form"), MEMORY_CASES)
def test_memory_is_what_each_event_allocated_itself(version: str, form: str) -> None:
    _, events, found = case(version, form)
    sizes = [
        (row["name"], row["section"], row["bytes"], row["args"]["printed"]) for row in found if row["kind"] == "memory"
    ]
    known = [event for event in events if event[SELF_MEMORY]]
    assert [(name, section) for name, section, *_ in sizes] == [(_cut(event[NAME]), "memory") for event in known]
    for (*_, size, printed), event in zip(sizes, known, strict=True):
        step = 1 << _SIZES[printed.split()[1].upper()]
        assert abs(size - event[SELF_MEMORY]) <= (0 if step == 1 else 0.005 * step + 0.5)


def _cut(name: str) -> str:
    return name if len(name) < 52 else name[:52] + "..."


@pytest.mark.parametrize(("version", "form"), MEMORY_CASES)
def test_flops_are_numbers_and_before_1_10_rates(version: str, form: str) -> None:
    """1.8 and 1.9 print FLOPs by the total time of the row, in a column FLOPS; later versions print `Total FLOPs`."""
    _, events, found = case(version, form)
    rows = [row["args"] for row in found if "cells" in row["args"]]
    if not any(event[FLOPS] for event in events):
        assert not any("flops" in args or "flops_per_s" in args for args in rows)
        return
    old = version.startswith(("1.8.", "1.9."))
    title = next(title for title in _titles(version, form) if "FLOP" in title)
    scale = _SCALES[title.removeprefix("Total ")[:-5]]
    for args, event in zip(rows, events, strict=True):
        assert ("flops" in args, "flops_per_s" in args) == (
            (False, bool(event[FLOPS])) if old else (bool(event[FLOPS]), False)
        )
        if event[FLOPS]:
            want = event[FLOPS] * 1e6 / event[TOTAL] if old else event[FLOPS]
            assert abs(args["flops_per_s" if old else "flops"] - want) <= 0.0005 * scale + 0.5


def _titles(version: str, form: str) -> list[str]:
    layouts = trace_of(version).run.sources[0].facts["tables"]
    titles: list[str] = layouts[[table["form"] for table in facts(version)["tables"]].index(form)]["columns"]
    return titles


@pytest.mark.parametrize(("version", "form"), [each for each in CASES if each[1].startswith(("shapes", "top level"))])
def test_shapes_are_those_of_the_events(version: str, form: str) -> None:
    _, events, found = case(version, form)
    titles = _titles(version, form)
    if "Input Shapes" not in titles:
        assert form == "top level of averages"
        return
    at = titles.index("Input Shapes")
    cells = [row["args"]["cells"][at] for row in found if "cells" in row["args"]]
    assert cells == [(event[SHAPES] or "[]")[:80].strip() for event in events]


@pytest.mark.parametrize("version", [version for version, form in CASES if form.startswith("stacks")])
def test_stacks_are_those_of_the_events(version: str) -> None:
    """The first frame is in the row, at most four follow, and a long one is cut at its beginning."""
    _, events, _ = case(version, "stacks, memory, FLOPs")
    table = tracekit.view(FOLDER / f"{version}.txt.gz", "torch").to_pandas()
    places = [each["form"] for each in facts(version)["tables"]]
    rows = table[table["run"] == places.index("stacks, memory, FLOPs")].set_index("name")
    assert any(len(event[STACK]) > 1 for event in events)
    for event in events:
        row = rows.loc[_cut(event[NAME])]
        frames = [_end(frame) for frame in event[STACK][:5]]
        assert (row["location"] or "") == "".join(frames[:1])
        assert (row["stack"] or "").split("\n") == (frames[1:] or [""])


def _end(frame: str) -> str:
    return frame if len(frame) <= 75 else "..." + frame[-72:]


@pytest.mark.parametrize("version", VERSIONS)
def test_compat_prints_the_tables_of_each_version_again_byte_for_byte(version: str) -> None:
    text = text_of(version)
    tables, banner, rest = text.partition("Running your script with the autograd profiler...\n")
    if banner:
        rule = re.search(r"^-+  -", rest, re.MULTILINE)
        assert rule
        text = tables + rest[rule.start() :].rstrip("\n") + "\n"
    assert text.count("\n") > 20
    assert run_command("summary", FOLDER / f"{version}.txt.gz", "--compat", "torch").stdout == text


TOP_LEVEL = [version for version, form in CASES if form == "top level"]


@pytest.mark.parametrize("version", TOP_LEVEL)
def test_a_table_of_top_level_events_says_why_it_lacks_rows(version: str) -> None:
    assert text_of(version).count(TOP) == 2
    notes = trace_of(version).ledgers[0].notes
    assert notes["top-level-only"].count == 2


def test_averages_in_a_table_of_top_level_events_are_those_whose_first_event_is() -> None:
    """PyTorch's own doing: an average has the parent of its first event, so later ones at the top are not printed."""
    for version in TOP_LEVEL:
        single, averages = case(version, "top level"), case(version, "top level of averages")
        assert {event[NAME] for event in averages[1]} <= {event[NAME] for event in single[1]}
    missing = {event[NAME] for event in case("1.8.1", "top level")[1]} - {
        e[NAME] for e in case("1.8.1", "top level of averages")[1]
    }
    assert missing == {"aten::sum"}

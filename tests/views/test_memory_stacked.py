"""Memory over time by category: areas that add up to the total of the file in each column."""

from __future__ import annotations

import re
from typing import Any

import pytest
from doors.pictures import curve
from support import corpus, corpus_next
from views.hosts import Row
from views.test_memory_categories import STEP, row
from views.test_training_phases import index_of_rows

from tracekit.api import read
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Curve, Section, StackedCurve
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

OLDER = 1000


def memory(rows: list[Row]) -> Section:
    return VIEWS["memory"].compute(index_of_rows(*STEP, *rows), ViewOptions())


def both(section: Section) -> list[tuple[Curve, StackedCurve]]:
    """Return the curve of the total of each place, and the stacked one of it."""
    curves = [each for each in section.figures if isinstance(each, Curve)]
    stacked = {each.title.rpartition(", ")[2]: each for each in curves if isinstance(each, StackedCurve)}
    return [(each, stacked[each.title.rpartition(", ")[2]]) for each in curves
            if not isinstance(each, StackedCurve) and each.title.rpartition(", ")[2] in stacked]  # fmt: skip


def assert_adds_up(total: Curve, parts: StackedCurve) -> None:
    assert list(parts.edges) == list(total.edges)
    whole = total.values[list(total.layers).index("allocated")]
    assert [sum(value or 0 for value in column) for column in zip(*parts.values, strict=True)] == list(whole)


def lifetimes(*blocks: tuple[int, int | None, int], **more: Any) -> list[Row]:
    """Return the rows of blocks (begin, end, size) above OLDER bytes that were held before, with running totals."""
    changes = sorted(
        [(begin, number, size) for number, (begin, _, size) in enumerate(blocks)]
        + [(end, number, -size) for number, (_, end, size) in enumerate(blocks) if end is not None]
    )
    total, rows = OLDER, []
    for at, number, size in changes:
        total += size
        rows.append(row(number + 1, at, size, total, **more))
    return rows


def test_each_category_has_its_blocks_and_what_is_older_is_below_all() -> None:
    rows = lifetimes((12, 70, 40), (51, 120, 30), (92, None, 20), (12, None, 7), (64, 71, 5), (5, None, 9))
    ((total, parts),) = both(memory(rows))
    assert_adds_up(total, parts)
    at = {name: dict(zip(parts.edges, values, strict=False)) for name, values in
          zip(parts.layers, parts.values, strict=True)}  # fmt: skip
    assert list(at) == [
        "parameter or older", "optimizer state", "gradient", "backward intermediate", "activation", "not known",
    ]  # fmt: skip
    assert {at["parameter or older"][time] for time in (10, 50, 100)} == {OLDER + 9}
    assert [at["activation"][time] for time in (11, 12, 69, 70)] == [0, 40, 40, 0]
    assert [at["gradient"][time] for time in (50, 51, 119, 120)] == [0, 30, 30, 0]
    assert [at["optimizer state"][time] for time in (91, 92, 120)] == [0, 20, 20]
    assert [at["backward intermediate"][time] for time in (63, 64, 71)] == [0, 5, 0]


def test_parts_are_those_of_the_moment_of_the_greatest_total() -> None:
    # An activation goes before a gradient comes: in one column, both at their greatest would be more than the total.
    rows = lifetimes((12, 63_000, 400), (63_001, None, 300), (100_000_000, 100_000_001, 1))
    stretched = [{**each, "ts_ns": each["ts_ns"] * 1000, "dur_ns": each["dur_ns"] * 1000} for each in STEP]
    section = VIEWS["memory"].compute(index_of_rows(*stretched, *rows), ViewOptions())
    ((total, parts),) = both(section)
    assert_adds_up(total, parts)
    assert max(total.values[0]) == OLDER + 400  # type: ignore[type-var]


def test_what_was_freed_and_never_seen_lowers_what_is_older() -> None:
    rows = [*lifetimes((12, 70, 40)), row(99, 80, -600, OLDER - 600)]
    ((total, parts),) = both(memory(rows))
    assert_adds_up(total, parts)
    assert parts.values[0][-1] == OLDER - 600


@pytest.mark.parametrize("missing", ["total", "frees"])
def test_without_a_whole_there_is_no_stack(missing: str) -> None:
    if missing == "total":
        rows = [row(1, 12, 40), row(2, 20, 40, 1080), row(1, 70, -40, 1040)]
        said = ""
    else:
        # The file says that less is held than its rows allocated.
        rows = [row(1, 12, 400, 400), row(2, 20, 400, 100), row(3, 70, 5, 105)]
        said = "frees are missing"
    section = memory(rows)
    assert not [each for each in section.figures if isinstance(each, StackedCurve)]
    assert said in " ".join(section.notes)


def test_the_page_draws_layers_on_each_other_and_says_their_values_of_one_moment() -> None:
    rows = lifetimes((12, 70, 4000), (51, 120, 3000), (92, None, 2000))
    ((_, parts),) = both(memory(rows))
    made = curve(parts)
    for text in re.findall(r"<title>([^<]*ns: [^<]*)</title>", made):
        values = [int(each.replace(",", "")) for each in re.findall(r"([\d,]+) bytes", text)]
        wholes = {sum(value or 0 for value in column) for column in zip(*parts.values, strict=True)}
        assert sum(values) in wholes, text
    assert "peak 7.81 KiB" in made  # 1000 + 4000 + 3000 bytes
    colors = re.findall(r'<path fill="(var\(--\w+\))"', made)
    # The whole is behind, and what is older in front.
    assert colors[0] == "var(--forward)"
    assert colors[-1] == "var(--memory)"
    assert len(set(colors)) == len(colors)


@pytest.mark.parametrize("name", ["training128", "bcrafton"])
def test_snapshots_of_pytorch_add_up(name: str) -> None:
    path = corpus_next(f"torch_memory/cs336_{name}.pickle.gz")
    for total, parts in both(VIEWS["memory"].compute(TraceIndex(read(path)), ViewOptions())):
        assert_adds_up(total, parts)


def test_a_recording_of_pytorch_adds_up() -> None:
    path = corpus("generated/torch/sched1.pt.trace.json")
    found = both(VIEWS["memory"].compute(TraceIndex(read(path)), ViewOptions()))
    assert found
    for total, parts in found:
        assert_adds_up(total, parts)

"""PyTorch's memory timeline: totals, peak and categories are those of the file, in both of its forms."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support import run_command, sample, sure_readers

import tracekit
from tracekit.errors import ParseError, UnknownFormatError
from tracekit.index.trace_index import index_of
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

MOMENTS, EVENTS = "torch-memory-timeline/two-steps.json", "torch-memory-timeline/two-steps.raw.json"
WORDS = ("parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "not known")
START = 1_780_000_000_000_000


def tables(trace: Trace) -> dict[str, dict[str, dict[str, Any]]]:
    """Rows of the tables of the view memory, by the name of the table and of the row."""
    section = VIEWS["memory"].compute(index_of(trace), ViewOptions())
    return {
        table.name: {
            str(table.column("name").values[at]): {column.name: column.values[at] for column in table.columns}
            for at in range(len(table))
        }
        for table in section.tables
    }


def test_peak_and_categories_are_those_of_the_file() -> None:
    times, sizes = json.loads(sample(MOMENTS).read_bytes())
    totals = [sum(row) for row in sizes]
    peak = max(totals)
    at = sizes[totals.index(peak)][1:]
    for name in (MOMENTS, EVENTS):
        found = tables(tracekit.read(sample(name)))
        (place,) = found["memory"].values()
        assert place["peak"] == peak
        assert place["increased"] == totals[-1]
        assert {word: row["held"] for word, row in found["categories"].items()} == dict(zip(WORDS, at, strict=True))
        most = {word: max(row[1 + number] for row in sizes) for number, word in enumerate(WORDS)}
        shown = {word: row["peak"] for word, row in found["categories"].items()}
        # Within one us a category may hold more than at its end.
        assert shown == most if name == MOMENTS else all(shown[word] >= most[word] for word in WORDS)
    assert len(times) == len(sizes)


def test_events_have_the_total_of_the_file_after_each_row() -> None:
    events = json.loads(sample(EVENTS).read_bytes())
    trace = tracekit.read(sample(EVENTS))
    assert sum(trace.events.column("bytes").to_pylist()) == sum(event[2] for event in events)
    assert trace.run.origin_ns == min(event[0] for event in events if event[0] > 0)
    assert trace.ledgers[0].read == len(events)


def test_the_first_screen_names_the_largest_category() -> None:
    out = run_command("summary", sample(MOMENTS)).stdout.splitlines()
    assert out[0].startswith("Memory peaked at 222.4 KiB")
    assert out[1] == "The largest part, 75.09 KiB, is held by optimizer state."


def test_the_curve_by_category_adds_up_to_the_total() -> None:
    for name in (MOMENTS, EVENTS):
        trace = tracekit.read(sample(name))
        curves = VIEWS["memory"].compute(index_of(trace), ViewOptions()).figures
        total, stacked = curves
        for whole, *parts in zip(total.values[0], *stacked.values, strict=True):
            assert whole is None or whole == sum(part or 0 for part in parts)


@pytest.mark.parametrize("seed", range(20))
def test_random_timelines_agree_with_plain_counting(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    held = [0] * 8
    sizes = []
    for _ in range(rng.randrange(2, 60)):
        held[rng.randrange(8)] += rng.choice((512, 1024, 7))
        drop = rng.randrange(8)
        held[drop] -= rng.choice((0, held[drop]))
        sizes.append([0, *held])
    path = tmp_path / "x.json"
    path.write_text(json.dumps([[START + 3 * at for at in range(len(sizes))], sizes]), encoding="utf-8")
    found = tables(tracekit.read(path))
    peak = max(map(sum, sizes))
    assert next(iter(found["memory"].values()))["peak"] == peak
    at = next(row for row in sizes if sum(row) == peak)
    assert {word: row["held"] for word, row in found["categories"].items()} == {
        word: at[1 + number] for number, word in enumerate(WORDS) if any(row[1 + number] for row in sizes)
    }


def test_the_picture_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "memory.html"
    head = '<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>\n<body>\n'
    path.write_text(f"{head}  <img src='data:image/png;base64,iVBORw0KGgo='>\n</body>\n</html>", encoding="utf-8")
    with pytest.raises(UnknownFormatError) as caught:
        tracekit.read(path)
    assert "picture" in str(caught.value)
    assert ".raw.json.gz" in str(caught.value.hint)


def test_lists_of_numbers_of_other_programs_are_not_timelines(tmp_path: Path) -> None:
    for text in ("[[1, 2, 3], [4, 5, 6]]", "[[0.5, 1], [2, 3]]", "[[1, 9, 3, 4], [1, 2, 3, 4]]", "[[]]"):
        path = tmp_path / "x.json"
        path.write_text(text, encoding="utf-8")
        assert sure_readers(path) == []


ODD: dict[str, Any] = {
    "nothing": None,
    "fraction": 1.5,
    "text": "x",
    "list": [1],
    "huge": 1 << 70,
    "below": -5,
    "dict": {},
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_value_costs_its_record_alone(odd: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for place in range(4):
        events: list[Any] = [[-1, 1, 64, 0], [START * 1000, 2, 32, 4], [START * 1000 + 9, 4, -32, 4]]
        events[1][place] = ODD[odd]
        path.write_text(json.dumps(events), encoding="utf-8")
        ledger = tracekit.read(path, format="torch-memory-timeline").ledgers[0]
        assert ledger.read == 3
        assert sum(ledger.dropped.values()) <= 1
    moments: list[Any] = [[START, START + 1, START + 2], [[0, 1, 0, 0, 0, 0, 0, 0, 0] for _ in range(3)]]
    for change in ("time", "size", "row"):
        found = json.loads(json.dumps(moments))
        if change == "time":
            found[0][1] = ODD[odd]
        elif change == "size":
            found[1][1][4] = ODD[odd]
        else:
            found[1][1] = ODD[odd]
        path.write_text(json.dumps(found), encoding="utf-8")
        ledger = tracekit.read(path, format="torch-memory-timeline").ledgers[0]
        assert sum(ledger.dropped.values()) <= 1


def test_a_cut_file_gets_one_sentence(tmp_path: Path) -> None:
    data = sample(MOMENTS).read_bytes()
    path = tmp_path / "x.json"
    path.write_bytes(data[: len(data) - 40])
    with pytest.raises(ParseError) as caught:
        tracekit.read(path)
    assert "damaged or cut" in str(caught.value)

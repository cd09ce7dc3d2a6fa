"""Sorted runs become one stream: a run that is not read before its rows are needed changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tracekit.safety.spill import KeyRange, Sorter, Spill, by_columns, merged

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("place", pa.int64())])
KEYS = by_columns("a", "b")

runs = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=9), min_size=1, max_size=5
)


def pieces(run: list[tuple[int, int]], size: int, first: int) -> list[pa.Table]:
    rows = [{"a": a, "b": b, "place": first + at} for at, (a, b) in enumerate(sorted(run))]
    return [pa.Table.from_pylist(rows[at : at + size], SCHEMA) for at in range(0, len(rows), size)]


def range_of(table: pa.Table) -> KeyRange:
    first, last = (tuple(table.slice(at, 1).to_pylist()[0][key] for key in "ab") for at in (0, table.num_rows - 1))
    return first, last


@given(runs, st.integers(1, 4))
def test_runs_that_are_read_late_give_the_same_pieces(each: list[list[tuple[int, int]]], size: int) -> None:
    tables = [pieces(run, size, 100 * number) for number, run in enumerate(each)]
    ranges = [range_of(run[0]) for run in tables]
    expected = list(merged([iter(run) for run in tables], KEYS, SCHEMA))
    assert list(merged([iter(run) for run in tables], KEYS, SCHEMA, ranges=ranges)) == expected


def test_a_run_is_read_when_its_rows_are_needed() -> None:
    tables = [pieces([(at, 0), (at + 1, 0)], 2, at) for at in (0, 10, 20)]
    read: list[int] = []

    def stream(number: int) -> Iterator[pa.Table]:
        for table in tables[number]:
            read.append(number)
            yield table

    found = merged([stream(0), stream(1), stream(2)], KEYS, SCHEMA, ranges=[range_of(run[0]) for run in tables])
    next(found)
    assert read == [0]
    list(found)
    assert read == [0, 1, 2]


@given(runs, st.integers(1, 4), st.integers(2, 4))
def test_all_rows_come_back_in_order(each: list[list[tuple[int, int]]], size: int, fan_in: int) -> None:
    with Spill(SCHEMA) as spill:
        sorter = Sorter(spill, KEYS, 3, piece_rows=size, fan_in=fan_in)
        rows = [row for run in each for row in run]
        for at, row in enumerate(rows):
            sorter.add(pa.Table.from_pylist([{"a": row[0], "b": row[1], "place": at}], SCHEMA))
        found = [row for table in sorter.tables() for row in table.to_pylist()]
    assert [(row["a"], row["b"]) for row in found] == sorted(rows)
    assert sorted(row["place"] for row in found) == list(range(len(rows)))

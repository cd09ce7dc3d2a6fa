from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis import links
from tracekit.analysis.links import link, link_columns

WIDE = st.sampled_from([-(1 << 63), -(1 << 62), -1, 0, 1, 2, 1 << 40, 1 << 62, (1 << 63) - 1])
NARROW = st.integers(0, 3)


@st.composite
def keys(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    columns = [draw(st.sampled_from([WIDE, NARROW])) for _ in range(draw(st.integers(1, 4)))]
    tables = [draw(st.lists(st.tuples(st.booleans(), *columns), max_size=15)) for _ in range(2)]
    arrays = [np.array([row[1:] for row in table], np.int64).reshape(len(table), len(columns)) for table in tables]
    known = [np.array([row[0] for row in table], np.bool_) for table in tables]
    return arrays[0], arrays[1], known[0], known[1]


def test_examples_of_the_documentation() -> None:
    outcome = doctest.testmod(links)
    assert outcome.attempted >= 1
    assert outcome.failed == 0


@settings(max_examples=400)
@given(keys(), st.booleans())
def test_links_equal_a_dictionary(tables: tuple[np.ndarray, ...], masked: bool) -> None:
    launches, devices, launch_known, device_known = tables
    if not masked:
        launch_known, device_known = np.ones_like(launch_known), np.ones_like(device_known)
    first: dict[tuple[int, ...], int] = {}
    for row, key in enumerate(map(tuple, launches.tolist())):
        if launch_known[row]:
            first.setdefault(key, row)
    expected = [
        first.get(tuple(key), -1) if known else -1 for key, known in zip(devices.tolist(), device_known, strict=True)
    ]
    found = link(
        launches,
        devices,
        launch_known=launch_known if masked else None,
        device_known=device_known if masked else None,
    )
    assert found.launch.tolist() == expected
    assert found.work.tolist() == [expected.count(row) for row in range(len(launches))]
    assert found.orphans == expected.count(-1)
    assert found.duplicates == int(launch_known.sum()) - len(first)


@settings(max_examples=200)
@given(keys(), st.booleans())
def test_rows_of_the_same_columns_are_linked_as_keys_of_their_own(tables: tuple[np.ndarray, ...], masked: bool) -> None:
    launches, devices, launch_known, device_known = tables
    rows = np.random.default_rng(len(launches)).permutation(len(launches) + len(devices))
    columns, known = np.concatenate((launches, devices)), np.concatenate((launch_known, device_known))
    columns[rows], known[rows] = columns.copy(), known.copy()
    own, of_work = rows[: len(launches)], rows[len(launches) :]
    found = link_columns(columns.T, own, of_work, known=known if masked else None)
    told = {"launch_known": launch_known, "device_known": device_known} if masked else {}
    expected = link(launches, devices, **told)
    assert found.launch.tolist() == expected.launch.tolist()
    assert found.work.tolist() == expected.work.tolist()
    assert (found.duplicates, found.orphans) == (expected.duplicates, expected.orphans)


def test_one_launch_has_many_device_rows_and_orphans_stay() -> None:
    found = link(np.array([[0, 5], [0, 6]]), np.array([[0, 6], [1, 6], [0, 6], [0, 9]]))
    assert found.launch.tolist() == [1, -1, 1, -1]
    assert found.work.tolist() == [0, 2]
    assert (found.duplicates, found.orphans) == (0, 2)


def test_of_duplicate_launches_the_first_wins_and_the_rest_are_counted() -> None:
    found = link(np.array([[3], [3], [3], [4]]), np.array([[3], [4]]))
    assert found.launch.tolist() == [0, 3]
    assert found.duplicates == 2


def test_unknown_keys_do_not_match_each_other() -> None:
    keys = np.array([[0, 0]])
    found = link(keys, keys, launch_known=np.array([False]), device_known=np.array([False]))
    assert (found.launch.tolist(), found.work.tolist(), found.duplicates) == ([-1], [0], 0)


def test_keys_that_need_more_than_64_bits_are_told_apart() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    launches = np.array([[low, 1 << 62, 0], [high, 1 << 62, high], [high, 0, high], [low, 1 << 62, high]])
    found = link(launches, launches[[3, 1, 2, 0, 2]])
    assert found.launch.tolist() == [3, 1, 2, 0, 2]
    assert found.duplicates == 0


def test_a_key_of_63_bits_has_room_for_further_columns() -> None:
    """Packed beside each other these need 66 bits and more; without the upper ones, rows 0 and 1 would be equal."""
    for step in (1, 1 << 40, 1 << 60):
        launches = np.array([[0, 0], [1 << 62, 0], *([0, number * step] for number in range(1, 6))])
        for columns in (launches, launches[:, ::-1], np.hstack((launches, launches))):
            assert link(columns, columns[::-1]).launch.tolist() == list(range(6, -1, -1))


@pytest.mark.parametrize("rows", [(0, 0), (0, 3), (3, 0)])
def test_an_empty_side_links_nothing(rows: tuple[int, int]) -> None:
    found = link(np.ones((rows[0], 2), np.int64), np.ones((rows[1], 2), np.int64))
    assert found.launch.tolist() == [-1] * rows[1]
    assert found.work.tolist() == [0] * rows[0]


def test_shapes_and_types_are_checked() -> None:
    good = np.ones((2, 2), np.int64)
    for bad in (np.ones(2, np.int64), np.ones((2, 3), np.int64)):
        with pytest.raises(ValueError, match="keys of shape"):
            link(good, bad)
        with pytest.raises(ValueError, match="keys of shape"):
            link(bad, good)
    with pytest.raises(ValueError, match="device_known"):
        link(good, good, device_known=np.array([True]))
    with pytest.raises(TypeError, match="launch_keys"):
        link(np.ones((2, 2)), good)

"""Row by row and by blocks: a table gives the same rows, facts, ledger and notes in both ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import toy_tables as toys
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.readers.engine import cells, rows
from tracekit.readers.engine.spec import DeclaredColumn, Named, TextSpec

HEADER = "Begin ({unit}),Took ({unit}),Regs,Corr,Size (KB),Device,Result,Level,Note,Name\n"
NUMBERS = {
    "ns": st.integers(0, 1 << 62).map(str) | st.integers(0, 99).map(str),
    "us": st.decimals(0, 10**12, places=3).map(str) | st.integers(0, 99).map(str),
    "ms": st.decimals(0, 10**9, places=6).map(str) | st.sampled_from(["1.5", "0.000001", "7e2", "1.5e-3"]),
}
ODD_NUMBERS = st.sampled_from([
    "", " ", "-5", "+7", "1,234", '"1,234"', "1.2345678", "0x1f", ".5", "5.", "x", "12.0", "nan", "1 000", "007",
    str(1 << 62), str(1 << 63), "552.9…", "1e3", " 3", "4 ", "\xa05",
])  # fmt: skip
TEXTS = st.sampled_from(
    ["a", "b<int, 4>(int)", "copy x", "_Z6vecAddPKfS0_Pfi", '"b<int, 4>(int)"', "µ", "a b", "", '"said ""so"""']
)
ODD_TEXTS = st.sampled_from(['"open', 'in"side', '"x"y', "a\rb", '""', "1.5, then"])
ODD_TEXTS |= st.text("ab\"', \t\\", max_size=6)


def cell(good: st.SearchStrategy[str], odd: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """One odd cell of forty."""
    return st.integers(0, 39).flatmap(lambda n: odd if n == 0 else good)


def row(unit: str) -> st.SearchStrategy[str]:
    time = cell(NUMBERS[unit], ODD_NUMBERS)
    small = cell(st.sampled_from(["", "0", "32", "255"]), ODD_NUMBERS)
    size = cell(st.sampled_from(["", "0.001", "402.653", "7"]), ODD_NUMBERS)
    device = st.sampled_from(["gpu 0", "gpu 1", "cpu", ""])
    cells = (time, time, small, small, size, device, st.sampled_from(["0", "", "11"]), st.sampled_from(["", "1"]))
    return st.tuples(*cells, st.sampled_from(["", "kept"]), cell(TEXTS, ODD_TEXTS)).map(",".join)


def tables(unit: str) -> st.SearchStrategy[str]:
    other = st.sampled_from(["", "toy: hello", "epoch 3, loss 0.25", "1,2,3", "report again", "-- ---", "7", "1 ms x"])
    line = st.integers(0, 39).flatmap(lambda n: other if n == 0 else row(unit))
    return st.lists(line, max_size=40).map(lambda lines: HEADER.format(unit=unit) + "".join(f"{x}\n" for x in lines))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toys") / "toy.csv"


@given(
    st.lists(st.sampled_from(["ns", "us", "ms"]).flatmap(tables), min_size=1, max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 4, 7, 4096]),
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_both_ways_give_the_same(
    path: Path, parts: list[str], end: str, count: int, rows_at_once: int, whole: bool
) -> None:
    data = "".join(parts).replace("\n", end).encode()
    data = data if whole else data[:-3]
    with toys.blocks_from(1 << 30, rows_at_once) as taken:
        by_row = toys.Result(path, data)
        assert not taken
    with toys.blocks_from(count, rows_at_once):
        by_block = toys.Result(path, data)
    assert by_block.everything() == by_row.everything()


GOOD = [f"{n},{n % 7},32,{n % 3},0.001,gpu {n % 2},0,,,k{n % 5}" for n in range(100, 200)]


def in_both_ways(
    path: Path, data: str, values: dict[str, object] | None = None, spec: TextSpec = toys.TOY
) -> tuple[toys.Result, list[bool]]:
    """Return the result of the row way, which is that of the block way too, and which blocks were taken."""
    with toys.blocks_from(1 << 30):
        by_row = toys.Result(path, data.encode(), values, spec)
    with toys.blocks_from(8) as taken:
        by_block = toys.Result(path, data.encode(), values, spec)
    assert by_block.everything() == by_row.everything()
    return by_row, taken


def with_columns(*columns: DeclaredColumn, **more: Any) -> TextSpec:
    """Return the toy format with further columns of its trace."""
    trace = replace(toys.TRACE, columns=(*columns, *toys.TRACE.columns), **more)
    return replace(toys.TOY, tables=(trace, toys.SUMS))


def table(unit: str, lines: list[str]) -> str:
    return HEADER.format(unit=unit) + "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_good_rows_of_each_unit_are_read_as_a_block(unit: str, path: Path) -> None:
    result, taken = in_both_ways(path, table(unit, GOOD))
    assert taken == [True]
    assert result.events[0]["ts_ns"] == 100 * {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[unit]
    assert result.run.devices == {(0, 0): "gpu 0", (0, 1): "gpu 1"}


@pytest.mark.parametrize(
    "bad",
    {
        "hexadecimal": "0x1f,1,,,,,,,,k", "negative": "-1,1,,,,,,,,k", "a bare point": "7.5,.5,,,,,,,,k",
        "too many decimals": "7.1234,1,,,,,,,,k", "no duration": "7,,,,,,,,,k", "too few cells": "7,1,k",
        "an inner quote": '7,1,,,,,,,,a"b"c', "a quote that ends early": '7,1,,,,,,,,"a"b',
        "thousands": '"7,000",1,,,,,,,,k',
        "too large": f"{1 << 62},1,,,,,,,,k", "a size that is no number": "7,1,,,x,,,,,k", "a NUL": "7,1,,,,,,,,a\0b",
        "registers beyond int32": f"7,1,{1 << 31},,,,,,,k",
    }.values(),
)  # fmt: skip
def test_one_doubtful_row_leaves_its_block_to_the_row_way(bad: str, path: Path) -> None:
    line = bad if bad[:1].isdigit() else f"1{bad}"  # a block ends at a line that begins otherwise
    result, taken = in_both_ways(path, table("us", [*GOOD[:50], line, *GOOD[50:]]))
    assert False in taken
    assert len(result.events) >= 100


def test_a_block_after_odd_rows_is_taken_again(path: Path) -> None:
    lines = [*GOOD[:20], "x,1,,,,,,,,k", *GOOD[20:40], "toy: a message", *GOOD[40:]]
    result, taken = in_both_ways(path, table("ns", lines))
    assert taken == [True, True, True]
    assert (len(result.events), result.ledger.dropped) == (100, {"bad-row": 1})


def test_a_style_with_decimal_commas_is_not_read_by_blocks(path: Path) -> None:
    lines = [f'{n},{n},,,"0,5",gpu 0,0,,,k' for n in range(100, 150)]
    result, taken = in_both_ways(path, table("ns", lines))
    assert True not in taken
    assert result.events[0]["bytes"] == 500


def test_a_decimal_comma_that_the_user_names_is_not_read_by_blocks(path: Path) -> None:
    _, taken = in_both_ways(path, table("ns", GOOD), {"decimal": ","})
    assert taken == [False]


def test_rows_that_may_be_skipped_are_not_read_by_blocks(path: Path) -> None:
    head = "First,Begin (ns),Took (ns),Name\n"
    kept = "".join(f"1,{n},5,a\n" for n in range(20))
    assert in_both_ways(path, head + kept)[1] == [True]
    result, taken = in_both_ways(path, head + kept + "1,,,a\n")
    assert taken == [False]
    assert result.ledger.ignored["range without work"] == 1


def test_the_row_above_a_rule_is_a_header_in_both_ways(path: Path) -> None:
    result, taken = in_both_ways(path, table("ns", [*GOOD[:30], "-- ---", *GOOD[30:40]]))
    assert taken == [True]
    assert (len(result.events), result.ledger.ignored["rule"]) == (29, 1)


def test_names_are_demangled_in_both_ways(path: Path) -> None:
    lines = [f"{n},5,,,,,,,,_Z6vecAddPKfS0_Pfi" for n in range(20)]
    result, taken = in_both_ways(path, table("ns", lines))
    assert taken == [True]
    assert result.events[0]["name"] == "vecAdd(float const*, float const*, float*, int)"
    assert result.events[0]["raw_name"] == "_Z6vecAddPKfS0_Pfi"


def test_batches_are_as_large_as_those_of_the_row_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BATCH_ROWS", 64)
    data = table("ns", [*GOOD, "x", *GOOD[:40]]).encode()
    with toys.blocks_from(8, 16):
        sizes = [len(batch) for batch in toys.Result(path, data).batches]
    assert sizes == [64, 64, 12]


def test_places_of_notes_do_not_depend_on_the_way(path: Path) -> None:
    """Sizes of each row are rounded: the places of that note, and the note before it, are the same."""
    lines = [*GOOD[:20], "7,1,k", *GOOD[20:], "8,1,k"]
    result, taken = in_both_ways(path, table("ns", lines))
    assert taken == [False]
    lines[20], lines[-1] = '"7",1,k', '"8",1,k'
    result, taken = in_both_ways(path, table("ns", lines))
    assert taken == [True, True]
    assert result.codes == ["bad-row", "rounded"]
    assert result.ledger.notes["rounded"].places == ["line 2", "line 3", "line 4"]
    assert result.ledger.notes["rounded"].count == 100


@pytest.mark.parametrize("change", [
    lambda text: text.replace("Note", "Corr"),  # a column twice
    lambda text: text.replace("Note", "Length (ns)"),  # two columns with one meaning
    lambda text: text.replace("Note", "result"),  # two columns with one key
])  # fmt: skip
def test_columns_that_meet_in_one_place_are_read_row_by_row(change: Callable[[str], str], path: Path) -> None:
    lines = [line.replace(",0,,,", ",11,,7,") for line in GOOD]
    result, taken = in_both_ways(path, change(table("ns", lines)))
    assert taken == [False]
    assert len(result.events) == 100


def test_two_columns_that_fill_one_are_read_row_by_row(path: Path) -> None:
    """A device by its name in some rows, by its number in others."""
    data = table("ns", [line.replace("gpu 0", "") for line in GOOD]).replace("Note", "Gpu")
    result, taken = in_both_ways(path, data)
    assert taken == [False]
    assert [row.get("device") for row in result.events[:4]] == [None, 1, None, 1]


def test_a_negative_number_where_none_may_be_drops_its_row(path: Path) -> None:
    data = table("ns", [line.replace("0,,,k", "0,,7,k") for line in GOOD]).replace("Note", "Lane")
    assert in_both_ways(path, data)[1] == [True]
    result, taken = in_both_ways(path, data.replace(",7,k", ",-7,k", 1))
    assert taken == [False]
    assert result.ledger.notes["bad-row"].text.endswith("(the lane is negative)")


def test_a_text_that_each_row_must_have(path: Path) -> None:
    spec = with_columns(DeclaredColumn(("Note",), cells.NAME, "copy_kind", must=True))
    data = table("ns", [line.replace("0,,,k", "0,,HtoD,k") for line in GOOD])
    assert in_both_ways(path, data, spec=spec)[1] == [True]
    result, taken = in_both_ways(path, data.replace(",HtoD,", ",,", 1), spec=spec)
    assert taken == [False]
    assert len(result.events) == 99


def test_a_column_that_a_name_and_a_cell_fill_is_read_row_by_row(path: Path) -> None:
    spec = with_columns(by_name=lambda _, name, __: Named({"registers": 1} if name == "k0" else {}))
    result, taken = in_both_ways(path, table("ns", GOOD), spec=spec)
    assert taken == [False]
    assert [row["registers"] for row in result.events[:2]] == [1, 32]

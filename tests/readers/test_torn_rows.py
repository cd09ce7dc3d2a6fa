"""The last row of a table without its line end: kept where its last cell shows that it is whole, else dropped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tracekit.model.trace import Ledger
from tracekit.readers.engine.torn import TORN, without_torn


def kept(*rows: str) -> tuple[int, dict[str, int], list[str]]:
    ledger = Ledger()
    cells = [row.split(",") for row in rows]
    left: Sequence[list[str]] = without_torn(cells, lambda row: row if len(row) == 3 else None, len(rows), ledger)
    return len(left), dict(ledger.dropped), list(ledger.notes)


@pytest.mark.parametrize(
    "last",
    [
        "a,1,17",
        "a,1,17.4",
        "a,1,17.43625",
        "a,1",
        "a,1,",
        "a,1.25,17.436",
        "a,1124926554522025,112492713264218",
        "a,1,1e-0",
    ],
)
def test_a_last_cell_that_may_go_on_drops_its_row(last: str) -> None:
    assert kept("b,2,30.436250", last) == (1, {TORN: 1}, [TORN])


@pytest.mark.parametrize(
    ("above", "last"),
    [
        ("b,2,1124926523146168", "a,1,1124926554522025"),  # as many digits as the timestamp above
        ("b,2,", "a,1124926554522025,1124927132642186"),  # or as the start of the same row
        ("b,2,30.436250", "a,1,7.000000"),  # six decimals, as C prints
        ("b,2,3", "a,1,6.488e-04"),  # two digits of an exponent
    ],
)
def test_a_last_cell_that_cannot_go_on_keeps_its_row(above: str, last: str) -> None:
    assert kept(above, last) == (2, {}, ["no-line-end"])


def test_the_same_text_in_all_rows_above_is_whole() -> None:
    assert kept("b,2,N/A", "c,3,N/A", "a,1,N/A")[0] == 3
    assert kept("b,2,N/A", "c,3,N/A", "a,1,N/")[1] == {TORN: 1}
    assert kept("b,2,N/A", "a,1,N/A")[1] == {TORN: 1}
    assert kept() == (0, {}, [])

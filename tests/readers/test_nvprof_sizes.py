"""Sizes of nvprof's cells that are read at once: as each of them alone."""

from __future__ import annotations

import pyarrow as pa
from doors.readers import nvprof_row
from hypothesis import example, given
from hypothesis import strategies as st

PLAIN = st.from_regex(r"\A[0-9]{1,9}(\.[0-9]{1,6})?\Z")
ODD = st.sampled_from(["", "1.", ".5", "1.0000001", "1e3", "+1", "1,5", "1 KB", "1234567890", "0x1f", "nan"])


@given(st.lists(PLAIN, min_size=1), st.sampled_from(["B", "KB", "MB", "GB"]))
@example(["0.5", "1.5", "2.500000", "2.500001"], "B")
@example(["999999999.999999"], "KB")
@example(["999999999.999999"], "MB")
def test_plain_sizes_at_once_are_those_of_each(cells: list[str], unit: str) -> None:
    found = nvprof_row.all_sizes(pa.array(cells), unit)
    if found is None:
        assert unit in ("MB", "GB")
        assert any(nvprof_row.size_bytes(cell, unit) >= 1 << 42 for cell in cells)
    else:
        assert found.to_pylist() == [nvprof_row.size_bytes(cell, unit) for cell in cells]


@given(st.lists(PLAIN), ODD)
def test_odd_sizes_are_read_one_by_one(cells: list[str], odd: str) -> None:
    assert nvprof_row.all_sizes(pa.array([*cells, odd]), "KB") is None
    assert nvprof_row.all_sizes(pa.array([*cells, "1"]), "") is None
    assert nvprof_row.all_sizes(pa.array([*cells, "1"]), "KB", ",") is None

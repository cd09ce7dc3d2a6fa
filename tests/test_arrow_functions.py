"""Arrow's functions as the package calls them give what `pyarrow.compute` gives, which is not imported for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model import arrow
from tracekit.model.arrow import pc

NUMBERS = pa.array([4, None, -7, 0, 4])
OTHERS = pa.array([1, 2, None, 3, 4])
TEXTS = pa.array(["gemm_a", None, "", "Gemm b ", "copy"])
MASK = pa.array([True, False, None, True, False])
CODED = TEXTS.dictionary_encode()
LISTS = pa.array([["a", "b"], [], None, ["c"], ["d", "e"]])

CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "add": ((NUMBERS, OTHERS), {}),
    "add_checked": ((NUMBERS, 1), {}),
    "and_": ((MASK, pa.scalar(True)), {}),
    "any": ((MASK,), {}),
    "ascii_rtrim": ((TEXTS, "ab "), {}),
    "binary_join": ((LISTS, ","), {}),
    "binary_join_element_wise": ((TEXTS, "-", ":"), {"null_handling": "skip"}),
    "binary_length": ((TEXTS,), {}),
    "bit_wise_and": ((NUMBERS, 6), {}),
    "cast": ((NUMBERS, pa.string()), {}),
    "coalesce": ((NUMBERS, OTHERS, 9), {}),
    "dictionary_encode": ((TEXTS,), {}),
    "divide": ((NUMBERS, 2), {}),
    "drop_null": ((NUMBERS,), {}),
    "ends_with": ((TEXTS, "B "), {"ignore_case": True}),
    "equal": ((NUMBERS, OTHERS), {}),
    "extract_regex": ((TEXTS, "(?P<head>[a-z]+)"), {}),
    "fill_null": ((NUMBERS, -1), {}),
    "filter": ((TEXTS, MASK), {}),
    "find_substring_regex": ((TEXTS, "[bm]"), {}),
    "greater": ((NUMBERS, 1), {}),
    "greater_equal": ((NUMBERS, OTHERS), {}),
    "if_else": ((MASK, NUMBERS, None), {}),
    "index_in": ((NUMBERS, pa.array([0, 4])), {"skip_nulls": True}),
    "invert": ((MASK,), {}),
    "is_in": ((NUMBERS, pa.array([4, None])), {}),
    "is_null": ((NUMBERS,), {}),
    "is_valid": ((NUMBERS,), {}),
    "less": ((NUMBERS, 1), {}),
    "less_equal": ((NUMBERS, OTHERS), {}),
    "list_value_length": ((LISTS,), {}),
    "match_substring": ((TEXTS, "GEMM"), {"ignore_case": True}),
    "match_substring_regex": ((TEXTS, "^ge.m"), {"ignore_case": True}),
    "max": ((NUMBERS,), {}),
    "min": ((NUMBERS,), {}),
    "min_max": ((NUMBERS,), {}),
    "multiply": ((NUMBERS, OTHERS), {}),
    "not_equal": ((NUMBERS, 4), {}),
    "or_": ((MASK, pa.scalar(False)), {}),
    "replace_substring_regex": ((TEXTS, "m+", "<\\0>"), {}),
    "replace_with_mask": ((NUMBERS, MASK.fill_null(False), pa.array([8, 9])), {}),
    "shift_left": ((OTHERS, 2), {}),
    "shift_right": ((OTHERS, 1), {}),
    "starts_with": ((TEXTS, "gemm"), {}),
    "struct_field": ((pa.array([{"a": 1, "b": "x"}, None]), "b"), {}),
    "subtract": ((NUMBERS, OTHERS), {}),
    "sum": ((NUMBERS,), {}),
    "take": ((CODED, pa.array([2, None, 0])), {}),
    "unique": ((NUMBERS,), {}),
    "utf8_length": ((TEXTS,), {}),
    "utf8_lpad": ((TEXTS, 8, "."), {}),
    "utf8_rtrim": ((TEXTS, "ab "), {}),
    "utf8_trim_whitespace": ((TEXTS,), {}),
}


def test_every_function_that_is_declared_is_tried() -> None:
    declared = {name for name in vars(arrow._Compute) if not name.startswith("_")}
    assert declared == set(CALLS)


WHOLE = {"binary_join", "replace_with_mask"}
"""Functions that the package calls with whole columns only."""


@pytest.mark.parametrize(("name", "chunked"), [(n, c) for n in CALLS for c in (False, True) if not c or n not in WHOLE])
def test_a_function_gives_what_pyarrow_gives(name: str, chunked: bool) -> None:
    values, options = CALLS[name]
    if chunked:  # the first column in two pieces, and the values beside it as they are
        values = (pa.chunked_array([values[0][:1], values[0][1:]]), *values[1:])
    expected = getattr(pyarrow.compute, name)(*values, **options)
    found = getattr(pc, name)(*values, **options)
    assert found.type == expected.type
    assert found.equals(expected)


@pytest.mark.parametrize("name", ["take", "filter", "drop_null"])
def test_tables_and_batches_are_taken_as_pyarrow_takes_them(name: str) -> None:
    batch = pa.record_batch({"number": NUMBERS, "text": CODED})
    more = {"take": (pa.array([3, 0]),), "filter": (MASK,), "drop_null": ()}[name]
    for table in (batch, pa.table(batch)):
        assert getattr(pc, name)(table, *more).equals(getattr(pyarrow.compute, name)(table, *more))


@pytest.mark.parametrize(
    ("value", "of"), [(None, NUMBERS), (pa.scalar(3, pa.int32()), NUMBERS), (OTHERS, NUMBERS), ("x", TEXTS)]
)
def test_nulls_are_filled_with_values_of_any_form(value: object, of: pa.Array) -> None:
    assert pc.fill_null(of, value).equals(pyarrow.compute.fill_null(of, value))


def test_a_cast_that_would_lose_something_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        pc.cast(pa.array([1 << 40]), pa.int32())
    with pytest.raises(pa.ArrowInvalid):
        pc.cast(pa.array([0.5]), pa.int64())


@pytest.mark.parametrize("lacks", ["get_function", "MatchSubstringOptions", ""])
def test_another_pyarrow_is_asked_as_its_users_ask_it(lacks: str) -> None:
    hidden = f"del _compute.{lacks}" if lacks else "sys.modules['pyarrow._compute'] = None; del pyarrow._compute"
    code = (
        "import sys\nimport pyarrow, pyarrow.compute\nfrom pyarrow import _compute\n"
        f"{hidden}\nfrom tracekit.model.arrow import pc\n"
        "column = pyarrow.array(['ab', None])\n"
        "print(pc.match_substring(column, 'b').to_pylist(), pc.cast(pyarrow.array([1]), pyarrow.string()).to_pylist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "[True, None] ['1']\n"


DTYPES = ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
SHAPES: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda values: values,
    "reversed": lambda values: values[::-1],
    "every second": lambda values: values[::2],
    "a part": lambda values: values[1:],
    "other bytes": lambda values: values.astype(values.dtype.newbyteorder()),
    "read-only": lambda values: np.frombuffer(values.tobytes(), values.dtype),
    "masked": np.ma.masked_array,
}


@given(
    dtype=st.sampled_from(DTYPES),
    numbers=st.lists(st.integers(0, 127), max_size=20),
    shape=st.sampled_from(sorted(SHAPES)),
    with_mask=st.booleans(),
    with_type=st.booleans(),
    data=st.data(),
)
def test_a_column_of_numbers_is_the_one_that_pyarrow_makes(
    dtype: str, numbers: list[int], shape: str, with_mask: bool, with_type: bool, data: st.DataObject
) -> None:
    values = SHAPES[shape](np.array(numbers, dtype))
    if dtype.startswith("f") and len(values) and values.flags.writeable:
        values[0] = np.nan
    type = pa.array(np.zeros(0, dtype)).type if with_type else None
    hidden = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    mask = np.array(hidden, bool) if with_mask and shape != "masked" else None
    try:
        expected = pa.array(values, type, mask=mask)
    except pa.ArrowNotImplementedError:  # bytes in another order
        with pytest.raises(pa.ArrowNotImplementedError):
            arrow.array(values, type, mask=mask)
        return
    found = arrow.array(values, type, mask=mask)
    assert found.type == expected.type
    assert found.null_count == expected.null_count
    assert str(found.to_pylist()) == str(expected.to_pylist())
    found.validate(full=True)


def test_a_mask_of_another_length_or_type_is_refused_as_pyarrow_refuses_it() -> None:
    with pytest.raises(ValueError, match="different length"):
        arrow.array(np.zeros(3, np.int64), mask=np.zeros(2, bool))
    with pytest.raises(TypeError, match="boolean"):
        arrow.array(np.zeros(3, np.int64), mask=np.zeros(3, np.int8))
    with pytest.raises(pa.ArrowInvalid):
        arrow.array(np.array([1 << 40]), pa.int32())

"""arrow: typed numpy arrays out of Arrow columns, nulls filled; text columns and their bytes."""

from __future__ import annotations

import doctest

import numpy as np
import pyarrow as pa
import pytest

from tracekit.model import arrow
from tracekit.model.arrow import pc


def test_the_examples_run() -> None:
    assert doctest.testmod(arrow).failed == 0


@pytest.mark.parametrize("container", [lambda a: a, lambda a: pa.chunked_array([a[:1], a[1:]])])
def test_numbers_of_a_column_or_a_chunked_one_have_one_type_and_no_null(container: object) -> None:
    column = container(pa.array([7, None, -3], pa.int32()))
    assert arrow.ints(column, -1).tolist() == [7, -1, -3]
    assert arrow.ints(column).dtype == np.int64
    assert arrow.valid(column).tolist() == [True, False, True]
    assert arrow.bounds(column) == (-3, 7)
    assert arrow.bools(pc.greater(column, 0)).tolist() == [True, False, False]
    assert arrow.count(pc.greater(column, 0)) == 1
    floats = arrow.floats(container(pa.array([0.5, None])))
    assert floats[0] == 0.5
    assert np.isnan(floats[1])


def test_an_int64_that_no_float_holds_stays_exact_beside_a_null() -> None:
    assert arrow.ints(pa.array([2**63 - 1, None, -(2**63)])).tolist() == [2**63 - 1, 0, -(2**63)]


def test_columns_without_rows_or_values() -> None:
    assert arrow.bounds(pa.array([], pa.int64())) is None
    assert arrow.bounds(pa.nulls(2, pa.int64())) is None
    assert arrow.count(pa.array([], pa.bool_())) == 0
    assert arrow.ints(pa.chunked_array([], pa.int64())).tolist() == []


def test_rows_in_another_order() -> None:
    table = pa.table({"a": [1, 2, 3]})
    assert arrow.take(table, np.array([2, 0])).column("a").to_pylist() == [3, 1]
    assert arrow.take(pa.array(["x", "y"]), np.empty(0, np.intp)).to_pylist() == []


def test_dictionary_codes_of_text_and_of_a_dictionary() -> None:
    plain = pa.array(["a", None, "b", "a"])
    assert arrow.codes(plain).tolist() == [0, -1, 1, 0]
    assert arrow.encoded(arrow.encoded(plain)) is not None
    assert arrow.codes(plain.dictionary_encode()).tolist() == [0, -1, 1, 0]
    assert arrow.texts(arrow.encoded(plain).dictionary) == ["a", "b"]
    assert arrow.optional_texts(plain) == ["a", None, "b", "a"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_offsets_and_bytes_of_a_slice_are_those_of_its_rows(kind: pa.DataType) -> None:
    column = pa.array(["zero", "ä", "", "three"], kind).slice(1, 2)
    offsets, data = arrow.text_parts(column)
    assert offsets.dtype == np.int64
    assert data[offsets[0] : offsets[-1]].tobytes().decode() == "ä"
    assert np.diff(offsets).tolist() == [2, 0]
    assert arrow.text_parts(pa.array([], kind))[0].tolist() == [0]


def test_text_from_offsets_and_bytes() -> None:
    offsets, data = np.array([0, 1, 1, 3], np.int32), np.frombuffer(b"abc", np.uint8)
    assert arrow.texts(arrow.text_column(offsets, data)) == ["a", "", "bc"]
    assert arrow.text_column(offsets, data, pa.binary()).to_pylist() == [b"a", b"", b"bc"]


def test_every_declared_function_is_one_of_arrow() -> None:
    import pyarrow.compute

    declared = [name for name in vars(arrow._Compute) if not name.startswith("_")]
    assert len(declared) > 40
    assert [name for name in declared if not hasattr(pyarrow.compute, name)] == []

"""Tables as Arrow, pandas and polars: times, counts and sizes as whole numbers, shares as floats, unknown as null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tracekit.errors import MissingExtraError
from tracekit.model import arrow
from tracekit.model.display import Value
from tracekit.model.units import Unit

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["arrow_column", "arrow_stream", "pandas_column", "to_polars"]

_WHOLE = frozenset({Unit.NS, Unit.COUNT, Unit.BYTES})
_REAL = frozenset({Unit.RATIO, Unit.BYTES_PER_S, Unit.NUMBER})


def _is_whole(values: Sequence[Value], unit: Unit) -> bool:
    """Return whether all known cells are whole numbers: times, counts and sizes, and most ids."""
    known = [value for value in values if value is not None]
    return all(isinstance(value, int) for value in known) and (unit in _WHOLE or (unit is Unit.ID and bool(known)))


def arrow_column(values: Sequence[Value], unit: Unit) -> arrow.Column:
    """Return the cells of a column: int64, double or string; an id that is not a number makes all of them text."""
    if _is_whole(values, unit):
        try:
            return arrow.array(list(values), pa.int64())
        except OverflowError:  # no 64 bits hold it: text keeps all digits
            return arrow.array([None if value is None else str(value) for value in values], pa.string())
    if unit in _WHOLE or unit in _REAL:
        return arrow.array([None if value is None else float(value) for value in values], pa.float64())
    return arrow.array([None if value is None else str(value) for value in values], pa.string())


def pandas_column(values: Sequence[Value], unit: Unit) -> pandas.Series:
    """Return the cells of a column as Int64, Float64 or string, with <NA> for unknown; ids of both kinds as objects."""
    import pandas as pd

    if _is_whole(values, unit):
        return pd.Series(list(values), dtype="Int64")
    if unit in _WHOLE or unit in _REAL:
        return pd.Series(list(values), dtype="Float64")
    texts = unit is Unit.TEXT or all(isinstance(value, str) for value in values if value is not None)
    return pd.Series(list(values), dtype="string" if texts else "object")


def arrow_stream(table: pa.Table, requested_schema: object) -> object:
    """Return the capsule of a stream of Arrow, by which libraries pass each other tables without a copy."""
    make: Callable[[object], object] = table.__arrow_c_stream__
    return make(requested_schema)


def to_polars(table: pa.Table) -> polars.DataFrame:
    """Return an Arrow table as a DataFrame of polars. Raises: MissingExtraError where polars is not installed."""
    try:
        import polars
    except ImportError as err:
        raise MissingExtraError("to_polars", "polars") from err
    return polars.DataFrame(polars.from_arrow(table))

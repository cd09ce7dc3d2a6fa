"""Arrow's functions by their names in `pyarrow.compute`, without importing it.

`pyarrow.compute` makes a wrapper with a signature and a docstring for each of 286 functions, which takes as long as a
third of the imports of numpy. What they wrap is in `pyarrow._compute`: a function, and a class for its options. Where
another version of pyarrow lacks one of them, the function is the one of `pyarrow.compute`.

Methods of columns (`column.take(rows)`, `column.cast(type)`) import `pyarrow.compute` as well. `pc.take(column, rows)`
of `tracekit.model.arrow` is the same without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

__all__ = ["Functions"]

_OPTIONS = {
    "ascii_rtrim": "TrimOptions",
    "binary_join_element_wise": "JoinOptions",
    "ends_with": "MatchSubstringOptions",
    "extract_regex": "ExtractRegexOptions",
    "find_substring_regex": "MatchSubstringOptions",
    "index_in": "SetLookupOptions",
    "is_in": "SetLookupOptions",
    "match_substring": "MatchSubstringOptions",
    "match_substring_regex": "MatchSubstringOptions",
    "replace_substring_regex": "ReplaceSubstringOptions",
    "starts_with": "MatchSubstringOptions",
    "struct_field": "StructFieldOptions",
    "utf8_lpad": "PadOptions",
    "utf8_rtrim": "TrimOptions",
}
"""The class of the options of each function that is called with some."""
_NAMES = {"and_": "and", "or_": "or"}
"""Arrow's names of functions whose names are words of Python."""


class Functions:
    """The functions as attributes; each is made when it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        try:
            made = _made(name)
        except (ImportError, AttributeError, KeyError):
            import pyarrow.compute

            made = getattr(pyarrow.compute, name)
        setattr(self, name, made)
        return made


def _made(name: str) -> Callable[..., Any]:
    """Return a function. Raises: ImportError, AttributeError, KeyError where pyarrow has other parts."""
    from pyarrow import _compute

    if name == "cast":
        safe, cast = _compute.CastOptions.safe, _compute.get_function("cast")
        return lambda values, target_type: cast.call([values], safe(target_type))
    if name == "fill_null":
        coalesce = _compute.get_function("coalesce")
        return lambda values, fill_value: coalesce.call([values, _of_type(fill_value, values.type)])
    function: Any = _compute.get_function(_NAMES.get(name, name))
    if (options := _OPTIONS.get(name)) is None:
        return lambda *values: function.call(values)
    return _with_options(function, getattr(_compute, options))


def _with_options(function: Any, options: Callable[..., Any]) -> Callable[..., Any]:
    arity = None if function.arity is ... else function.arity

    def call(*values: Any, **named: Any) -> Any:
        more = () if arity is None else values[arity:]
        return function.call(values[:arity], options(*more, **named) if more or named else None)

    return call


def _of_type(value: Any, type: pa.DataType) -> Any:
    """Return what nulls are filled with, as a value of the type of the column."""
    if not isinstance(value, (pa.Array, pa.ChunkedArray, pa.Scalar)):
        return pa.scalar(value, type=type)
    column: Any = value
    return column if column.type == type else pa.scalar(column.as_py(), type=type)

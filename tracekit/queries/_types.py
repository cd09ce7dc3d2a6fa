"""Columns of DuckDB's types that Arrow has no equal for come as text, as DuckDB writes it.

Without this they are wrong or unreadable in Arrow: a TIMETZ without its zone, the upper half of UHUGEINT as negative
numbers, and BIT, BIGNUM, GEOMETRY and VARIANT as DuckDB's own bytes.
"""

from __future__ import annotations

from typing import Any, Protocol

_ONLY_TEXT = frozenset(("time with time zone", "uhugeint", "bit", "bignum", "varint", "geometry", "variant"))


class SqlType(Protocol):
    """The attributes of DuckDB's type objects that we use. `str()` is the type in SQL.

    children: of a nested type, a name and a type each; the size of an array is a number.
    """

    id: str
    children: list[tuple[str, Any]]


def projection(names: list[str], kinds: list[SqlType]) -> str:
    """Return the SELECT list that casts what Arrow cannot hold, "" where it can hold every column.

    Columns are numbered, since two of them may have one name.
    """
    casts = [_readable(kind) for kind in kinds]
    if not any(casts):
        return ""
    return ", ".join(
        f"{f'CAST(#{number} AS {cast})' if cast else f'#{number}'} AS {_quoted(name)}"
        for number, (name, cast) in enumerate(zip(names, casts, strict=True), 1)
    )


def _readable(kind: SqlType) -> str:
    """Return the type to cast to, "" for a type that Arrow can hold."""
    if kind.id in _ONLY_TEXT:
        return "VARCHAR"
    if kind.id not in ("list", "array", "struct", "map", "union", "tuple"):
        return ""
    inside = [(name, child, _readable(child)) for name, child in kind.children if not isinstance(child, int)]
    if not any(cast for _, _, cast in inside):
        return ""
    casts = [cast or str(child) for _, child, cast in inside]
    match kind.id:
        case "list":
            return f"{casts[0]}[]"
        case "array":
            return f"{casts[0]}[{kind.children[1][1]}]"
        case "map":
            return f"MAP({', '.join(casts)})"
        case "struct" if all(name for name, _, _ in inside):
            fields = ", ".join(f"{_quoted(name)} {cast}" for (name, _, _), cast in zip(inside, casts, strict=True))
            return f"STRUCT({fields})"
        case _:  # no cast keeps the names of a union, and fields without names have none
            return "VARCHAR"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

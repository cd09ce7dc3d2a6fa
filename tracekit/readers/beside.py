"""Folders that are one input: exports of Nsight Systems with one file a table (`--type parquetdir` or `arrowdir`).

The table of texts, `StringIds.parquet` or `StringIds.arrow`, stands for the export: all versions have it.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["ARROW_MAGICS", "TEXTS", "table_of_texts", "tables_beside"]

ARROW_MAGICS = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")
"""First bytes of a Parquet file, of an Arrow file, and of an Arrow stream."""
TEXTS = "StringIds"
_SUFFIXES = (".parquet", ".arrow", ".arrows")
_TABLE = re.compile(r"[A-Z][A-Za-z0-9_]*", re.ASCII)


def table_of_texts(path: Path) -> Path | None:
    """Return the table of texts of the export that a file is a table of, None for another file."""
    if path.suffix not in _SUFFIXES or not _TABLE.fullmatch(path.stem):
        return None
    found = path.with_name(TEXTS + path.suffix)
    try:
        return found if found.is_file() else None
    except OSError:
        return None


def tables_beside(path: Path) -> frozenset[str]:
    """Return the tables of the export that a file is a table of, with its own; none for another file."""
    found = table_of_texts(path)
    if found is None:
        return frozenset()
    try:
        names = [each.stem for each in path.parent.iterdir() if each.suffix == path.suffix]
    except OSError:
        return frozenset()
    tables = frozenset(name for name in names if _TABLE.fullmatch(name))
    return tables if len(tables) > 1 else frozenset()

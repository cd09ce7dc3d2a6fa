"""Topology: the tensor, pipeline, data, context and expert parallel group of each rank of a run, and its host.

A formula, `tp=8,pp=4,dp=32`, numbers the ranks as Megatron-LM does (`RankGenerator`, megatron/core/parallel_state.py):
in the order tp-cp-ep-dp-pp, the first one changes fastest; `order=tp-pp-dp` names another one. Dense layers have the
sizes tp, cp, dp, pp; experts share the same ranks by etp (tp unless it is named), ep, what is left, and pp. So the
number of ranks is tp x cp x dp x pp, and ep divides cp x dp. `dp` may be left out where the files say how many ranks
there are.

A file has the coordinates of each rank, as CSV:

    rank,tp,pp,dp,host
    0,0,0,0,node1
    1,1,0,0,node1

or as JSON or TOML: a list of such rows (`ranks` in TOML), or the sizes of a formula. Columns tp, cp, ep, dp, pp are
coordinates: ranks that differ in one of them alone are a group of it. Any other column names a group itself.

>>> dimensions = parse("tp=2,dp=2").dimensions(4)
>>> dimensions["tp"][3], dimensions["dp"][3], dimensions["tp-rank"][3]
('tp group 1', 'dp group 1', 'tp rank 1')
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from tracekit.index.parallel_groups import (
    MOST_RANKS,
    ORDER,
    PARALLEL,
    RANK,
    Labels,
    groups_of_formula,
    groups_of_rows,
    ranks_of_formula,
    topology_error,
)
from tracekit.lazy_dataclass import dataclass
from tracekit.options import did_you_mean

__all__ = ["Topology", "parse"]

LARGEST_FILE = 64 << 20
_SIZES = (*PARALLEL, "etp")
_USAGE = "such as tp=8,pp=4,dp=32, or a CSV, JSON or TOML file with the columns rank, tp, pp, dp, ep, host"


@dataclass(frozen=True, slots=True)
class Topology:
    """The sizes of a formula, or the rows of a file. text: what the user gave, for messages.

    sizes: of a formula, {} for rows; `order` is that of the ranks. rows: the columns of each rank.
    """

    text: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    order: str = ORDER
    rows: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    __hash__ = object.__hash__

    def dimensions(self, world: int | None) -> dict[str, Labels]:
        """Return for each dimension the group of each rank. world: the number of ranks, where it is known.

        A dimension of parallelism comes twice: `tp` has the groups, `tp-rank` the place of a rank in its group.
        Raises: UsageError where sizes and the number of ranks contradict each other.
        """
        return _dimensions(self, world)

    def ranks(self, world: int | None) -> int:
        """Return the number of ranks that it is about. Raises: UsageError as `dimensions` does."""
        return ranks_of_formula(self.text, self.sizes, world) if self.sizes else len(self.rows)


@lru_cache(maxsize=8)
def _dimensions(given: Topology, world: int | None) -> dict[str, Labels]:
    if given.sizes:
        return groups_of_formula(given.text, given.sizes, given.order, world)
    return groups_of_rows(given.rows)


def parse(text: str) -> Topology:
    """Return the topology of a formula or a file. Raises: UsageError."""
    if "=" in text and not _exists(text):
        return _formula(text, dict(_pair(text, part) for part in text.split(",") if part.strip()))
    return _file(text)


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def _pair(text: str, part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals:
        raise topology_error(text, f"{part.strip()} is not a size", hint=_USAGE)
    return key.strip().lower(), value.strip()


def _formula(text: str, given: Mapping[str, object]) -> Topology:
    """Return the topology of these sizes. Raises: UsageError."""
    order = str(given.get("order", ORDER)).lower()
    sizes: dict[str, int] = {}
    for key, value in given.items():
        if key == "order":
            continue
        if key not in _SIZES:
            names = (*_SIZES, "order")
            raise topology_error(text, f"{key}: no such size{did_you_mean(key, names)}", hint=_USAGE)
        size = str(value)
        if isinstance(value, bool) or not _count(size):
            raise topology_error(text, f"{key}={size} is not a number of ranks", hint=_USAGE)
        sizes[key] = int(size)
    tokens = order.split("-")
    wrong = next((token for token in tokens if token not in PARALLEL or tokens.count(token) > 1), None)
    if wrong is not None:
        hint = f"the dimensions with - between them, fastest first; Megatron-LM's is {ORDER}"
        raise topology_error(text, f"order={order} is not an order ({wrong or 'nothing'})", hint=hint)
    lacking = next((key for key in PARALLEL if sizes.get(key, 1) > 1 and key not in tokens), None)
    if lacking is not None:
        raise topology_error(text, f"order={order} has no {lacking}", hint=f"add -{lacking} where it belongs")
    if not sizes:
        raise topology_error(text, "no sizes", hint=_USAGE)
    return Topology(text, sizes, "-".join([*tokens, *(key for key in PARALLEL if key not in tokens)]))


def _file(path: str) -> Topology:
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise topology_error(path, f"more than {LARGEST_FILE >> 20} MB", hint=_USAGE)
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else "not a text file in UTF-8"
        raise topology_error(path, f"{reason}", hint=_USAGE) from err
    suffix = file.suffix.lower()
    try:
        if suffix == ".json" or (suffix not in (".csv", ".toml") and text.lstrip()[:1] in ("[", "{")):
            return _parsed(path, json.loads(text))
        if suffix == ".toml":
            import tomllib

            return _parsed(path, tomllib.loads(text))
    except (ValueError, RecursionError) as err:
        raise topology_error(path, f"{err}", hint=_USAGE) from err
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        return _rows(path, ((reader.line_num, row) for row in reader), "line")
    except csv.Error as err:
        raise topology_error(path, f"line {reader.line_num}: {err}", hint=_USAGE) from err


def _parsed(path: str, document: object) -> Topology:
    rows = document.get("ranks") if isinstance(document, dict) else document
    if isinstance(rows, list):
        return _rows(path, enumerate(rows), "row")
    if isinstance(document, dict) and all(isinstance(value, (int, str)) for value in document.values()):
        return _formula(path, {str(key).lower(): value for key, value in document.items()})
    raise topology_error(path, "neither rows of ranks nor sizes", hint=_USAGE)


def _rows(path: str, numbered: Iterable[tuple[int, object]], unit: str) -> Topology:
    rows: dict[int, dict[str, str]] = {}
    for number, row in numbered:
        where = f"{unit} {number}"
        if not isinstance(row, dict) or None in row:
            raise topology_error(path, f"{where}: not the columns of a rank", hint=_USAGE)
        cells = {str(key).strip().lower(): str(value).strip() for key, value in row.items() if value is not None}
        rank = _count(cells.pop(RANK, None))
        if rank is None:
            raise topology_error(path, f"{where}: no rank", hint=_USAGE)
        if rank in rows:
            raise topology_error(path, f"{where}: rank {rank} has a row already", hint=_USAGE)
        for key in PARALLEL:
            if cells.get(key) and _count(cells[key]) is None:
                raise topology_error(path, f"{where}: {key} {cells[key]!r} is not a coordinate", hint=_USAGE)
        rows[rank] = {key: value for key, value in cells.items() if value}
        if len(rows) > MOST_RANKS:
            raise topology_error(path, f"more than {MOST_RANKS:,} ranks", hint=_USAGE)
    if not any(rows.values()):
        raise topology_error(path, "no rank has a group", hint=_USAGE)
    return Topology(path, rows=rows)


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None

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
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from tracekit.errors import Option, Text, UsageError, sentence
from tracekit.options import did_you_mean

RANK, HOST = "rank", "host"
PARALLEL = ("tp", "cp", "ep", "dp", "pp")
"""The dimensions of parallelism, in Megatron's order of ranks."""
ORDER = "-".join(PARALLEL)
MOST_RANKS = 1 << 20
LARGEST_FILE = 64 << 20
_SIZES = (*PARALLEL, "etp")
_USAGE = "such as tp=8,pp=4,dp=32, or a CSV, JSON or TOML file with the columns rank, tp, pp, dp, ep, host"
_WORDS = {
    "tp": ("tensor_model_parallel", "tensor_parallel", "tensor"),
    "cp": ("context_parallel", "context"),
    "ep": ("expert_model_parallel", "expert_parallel", "expert"),
    "dp": ("data_parallel", "data"),
    "pp": ("pipeline_model_parallel", "pipeline_parallel", "pipeline", "pipe"),
}
_NO_DIMENSION = frozenset({"", "undefined", "default_pg", "default"})

Labels = Mapping[int, str]
"""The group of each rank in one dimension, by rank."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The sizes of a formula, or the rows of a file. said: how the user named it, for messages.

    sizes: of a formula, {} for rows; `order` is that of the ranks. rows: the columns of each rank.
    """

    said: str
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
        return _whole(self, world) if self.sizes else len(self.rows)


@lru_cache(maxsize=8)
def _dimensions(given: Topology, world: int | None) -> dict[str, Labels]:
    return _of_formula(given, world) if given.sizes else _of_rows(given.rows)


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


def dimension_of(name: str) -> str:
    """Return the dimension that the name or the description of a process group says, "" for none.

    >>> dimension_of("mesh_tp"), dimension_of("TENSOR_MODEL_PARALLEL_GROUP"), dimension_of("dp_shard")
    ('tp', 'tp', 'dp_shard')
    >>> dimension_of("default_pg"), dimension_of("17")
    ('', '')
    """
    word = name.strip().lower().replace("-", "_").removeprefix("mesh_").removesuffix("_group").removesuffix("_pg")
    if name.lower() in _NO_DIMENSION or word in _NO_DIMENSION or not word.isprintable() or len(word) > 40:
        return ""
    if word.startswith("dim_") or not any(char.isalpha() for char in word) or _is_hash(word):
        return ""
    return next((key for key, words in _WORDS.items() if word == key or word in words), word)


def _is_hash(word: str) -> bool:
    bare = word.partition("_")[0]
    return len(bare) >= 16 and all(char in "0123456789abcdef" for char in bare)


def of_process_groups(found: Iterable[tuple[str, Sequence[int]]]) -> tuple[dict[str, Labels], dict[str, int]]:
    """Return the dimensions that process groups make, each given by dimension and ranks.

    Second: of each dimension whose groups overlap, and so is none, a rank that is in several.
    """
    groups: dict[str, dict[tuple[int, ...], None]] = {}
    for dimension, ranks in found:
        if dimension and ranks:
            groups.setdefault(dimension, {})[tuple(sorted(set(ranks)))] = None
    made: dict[str, Labels] = {}
    overlapping: dict[str, int] = {}
    for dimension, several in groups.items():
        often = Counter(rank for group in several for rank in group)
        if max(often.values()) > 1:
            overlapping[dimension] = min(rank for rank, times in often.items() if times > 1)
            continue
        made |= _labelled(dimension, sorted(several))
    return made, overlapping


def contradiction(given: Labels, found: Labels) -> tuple[list[int], list[int]] | None:
    """Return a group of a dimension in two accounts, where these differ for a rank that both know; else None."""
    ours, theirs = members(given), members(found)
    for label, ranks in theirs.items():
        first = next((rank for rank in ranks if rank in given), None)
        if first is not None and ours[given[first]] != ranks:
            return ours[given[first]], theirs[label]
    return None


def members(labels: Labels) -> dict[str, list[int]]:
    """Return the ranks of each group, ascending."""
    found: dict[str, list[int]] = {}
    for rank, label in sorted(labels.items()):
        found.setdefault(label, []).append(rank)
    return found


def listed(ranks: Sequence[int], most: int = 6) -> str:
    """Return ranks in words, short where there are many.

    >>> listed([0, 1, 2, 3]), listed([0, 8, 16]), listed(list(range(0, 64, 8)))
    ('0-3', '0, 8, 16', '0 to 56 by 8')
    """
    if len(ranks) > 2:
        steps = {b - a for a, b in pairwise(ranks)}
        if steps == {1}:
            return f"{ranks[0]}-{ranks[-1]}"
        if len(steps) == 1 and len(ranks) > most:
            return f"{ranks[0]} to {ranks[-1]} by {steps.pop()}"
    shown = ", ".join(map(str, ranks[:most]))
    return f"{shown} and {len(ranks) - most} more" if len(ranks) > most else shown


def _pair(text: str, part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals:
        raise _refusal(text, f"{part.strip()} is not a size", hint=_USAGE)
    return key.strip().lower(), value.strip()


def _refusal(given: str, why: str, *, hint: Text = "") -> UsageError:
    """Return the error of a topology, given as a formula or a file."""
    return UsageError(sentence(Option("topology", given), f": {why}"), hint=hint)


def _formula(said: str, given: Mapping[str, object]) -> Topology:
    """Return the topology of these sizes. Raises: UsageError."""
    order = str(given.get("order", ORDER)).lower()
    sizes: dict[str, int] = {}
    for key, value in given.items():
        if key == "order":
            continue
        if key not in _SIZES:
            names = (*_SIZES, "order")
            raise _refusal(said, f"{key}: no such size{did_you_mean(key, names)}", hint=_USAGE)
        text = str(value)
        if isinstance(value, bool) or not _count(text):
            raise _refusal(said, f"{key}={text} is not a number of ranks", hint=_USAGE)
        sizes[key] = int(text)
    tokens = order.split("-")
    wrong = next((token for token in tokens if token not in PARALLEL or tokens.count(token) > 1), None)
    if wrong is not None:
        hint = f"the dimensions with - between them, fastest first; Megatron-LM's is {ORDER}"
        raise _refusal(said, f"order={order} is not an order ({wrong or 'nothing'})", hint=hint)
    lacking = next((key for key in PARALLEL if sizes.get(key, 1) > 1 and key not in tokens), None)
    if lacking is not None:
        raise _refusal(said, f"order={order} has no {lacking}", hint=f"add -{lacking} where it belongs")
    if not sizes:
        raise _refusal(said, "no sizes", hint=_USAGE)
    return Topology(said, sizes, "-".join([*tokens, *(key for key in PARALLEL if key not in tokens)]))


def _file(path: str) -> Topology:
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise _refusal(path, f"more than {LARGEST_FILE >> 20} MB", hint=_USAGE)
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else "not a text file in UTF-8"
        raise _refusal(path, f"{reason}", hint=_USAGE) from err
    suffix = file.suffix.lower()
    try:
        if suffix == ".json" or (suffix not in (".csv", ".toml") and text.lstrip()[:1] in ("[", "{")):
            return _parsed(path, json.loads(text))
        if suffix == ".toml":
            return _parsed(path, tomllib.loads(text))
    except (ValueError, RecursionError) as err:
        raise _refusal(path, f"{err}", hint=_USAGE) from err
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        return _rows(path, ((reader.line_num, row) for row in reader), "line")
    except csv.Error as err:
        raise _refusal(path, f"line {reader.line_num}: {err}", hint=_USAGE) from err


def _parsed(path: str, found: object) -> Topology:
    rows = found.get("ranks") if isinstance(found, dict) else found
    if isinstance(rows, list):
        return _rows(path, enumerate(rows), "row")
    if isinstance(found, dict) and all(isinstance(value, (int, str)) for value in found.values()):
        return _formula(path, {str(key).lower(): value for key, value in found.items()})
    raise _refusal(path, "neither rows of ranks nor sizes", hint=_USAGE)


def _rows(path: str, found: Iterable[tuple[int, object]], what: str) -> Topology:
    rows: dict[int, dict[str, str]] = {}
    for number, row in found:
        where = f"{what} {number}"
        if not isinstance(row, dict) or None in row:
            raise _refusal(path, f"{where}: not the columns of a rank", hint=_USAGE)
        cells = {str(key).strip().lower(): str(value).strip() for key, value in row.items() if value is not None}
        rank = _count(cells.pop(RANK, None))
        if rank is None:
            raise _refusal(path, f"{where}: no rank", hint=_USAGE)
        if rank in rows:
            raise _refusal(path, f"{where}: rank {rank} has a row already", hint=_USAGE)
        for key in PARALLEL:
            if cells.get(key) and _count(cells[key]) is None:
                raise _refusal(path, f"{where}: {key} {cells[key]!r} is not a coordinate", hint=_USAGE)
        rows[rank] = {key: value for key, value in cells.items() if value}
        if len(rows) > MOST_RANKS:
            raise _refusal(path, f"more than {MOST_RANKS:,} ranks", hint=_USAGE)
    if not any(rows.values()):
        raise _refusal(path, "no rank has a group", hint=_USAGE)
    return Topology(path, rows=rows)


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _whole(given: Topology, world: int | None) -> int:
    """Return the number of ranks of a formula. Raises: UsageError where it is not that of the run."""
    sizes = given.sizes
    dense = math.prod(sizes.get(key, 1) for key in ("tp", "cp", "pp"))
    factors = " x ".join(f"{key} {sizes[key]}" for key in PARALLEL if key in sizes and key != "ep")
    factors += f" = {dense * sizes.get('dp', 1)}" if " x " in factors else ""
    if "dp" not in sizes:
        if world is None:
            said = "the files do not say how many ranks there are"
            raise _refusal(given.said, said, hint=sentence("name dp too: ", Option("topology", "tp=8,pp=4,dp=32")))
        if world % dense:
            said = f"{factors} ranks do not divide the {world} of the run"
            raise _refusal(given.said, said, hint="the product of the sizes, with dp, is the number of ranks")
        return world
    whole = dense * sizes["dp"]
    if whole > MOST_RANKS:
        raise _refusal(given.said, f"more than {MOST_RANKS:,} ranks")
    if world is not None and whole != world:
        said = f"{factors} ranks, and the run has {world}"
        raise _refusal(given.said, said, hint="the product of the sizes is the number of ranks")
    return whole


def _of_formula(given: Topology, world: int | None) -> dict[str, Labels]:
    whole = _whole(given, world)
    sizes = given.sizes
    tp, cp, ep, pp = (sizes.get(key, 1) for key in ("tp", "cp", "ep", "pp"))
    tokens = given.order.split("-")
    made = _orthogonal(tokens, {"tp": tp, "cp": cp, "ep": 1, "dp": whole // (tp * cp * pp), "pp": pp}, whole)
    made = {key: groups for key, groups in made.items() if key in sizes or key == "dp"}
    etp = sizes.get("etp", tp)
    if ep == 1 and etp == tp:
        made |= {"ep": [(rank,) for rank in range(whole)]} if "ep" in sizes else {}
    else:
        share, left = divmod(whole, etp * ep * pp)
        if left:
            said = f"etp {etp} x ep {ep} x pp {pp} does not divide the {whole} ranks"
            raise _refusal(given.said, said, hint="ep divides cp x dp, unless etp is named")
        experts = _orthogonal(tokens, {"tp": etp, "cp": 1, "ep": ep, "dp": share, "pp": pp}, whole)
        if "pp" in made and experts["pp"] != made["pp"]:
            raise _refusal(given.said, f"order={given.order} gives experts other pipelines than the rest")
        made["ep"] = experts["ep"]
    labels: dict[str, Labels] = {}
    for key in PARALLEL:
        if key in made:
            labels |= _labelled(key, made[key])
    return labels


def _orthogonal(tokens: Sequence[str], sizes: Mapping[str, int], whole: int) -> dict[str, list[tuple[int, ...]]]:
    """Return the groups of each dimension: ranks that agree in all other coordinates, the first token fastest."""
    made = {}
    stride = 1
    for token in tokens:
        size = sizes[token]
        firsts = [rank for rank in range(whole) if rank // stride % size == 0]
        made[token] = [tuple(range(first, first + stride * size, stride)) for first in firsts]
        stride *= size
    return made


def _of_rows(rows: Mapping[int, Mapping[str, str]]) -> dict[str, Labels]:
    there = [key for key in PARALLEL if any(key in row for row in rows.values())]
    labels: dict[str, Labels] = {}
    for key in there:
        labels |= _labelled(key, _agreeing(rows, key, [other for other in there if other != key]))
        labels[f"{key}-rank"] = {
            rank: f"{key} rank {int(row[key])}" for rank, row in sorted(rows.items()) if key in row
        }
    for key in dict.fromkeys(key for row in rows.values() for key in row if key not in PARALLEL):
        labels[key] = {rank: row[key] for rank, row in sorted(rows.items()) if key in row}
    return labels


def _agreeing(rows: Mapping[int, Mapping[str, str]], key: str, others: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the ranks that differ in one coordinate alone.

    Experts share the ranks of data and context parallelism in another way: the first ones of each expert coordinate
    are a group, then the second ones, and so on.
    """
    same = [other for other in others if other != "ep"]
    if key == "ep":
        same = [other for other in same if other not in ("dp", "cp")]
    seen: dict[tuple[object, ...], int] = {}
    groups: dict[tuple[object, ...], list[int]] = {}
    for rank, row in sorted(rows.items()):
        if key not in row:
            continue
        place = tuple(row.get(other) for other in same)
        number = 0
        if key == "ep":
            number = seen.get((*place, int(row[key])), 0)
            seen[*place, int(row[key])] = number + 1
        groups.setdefault((*place, number), []).append(rank)
    return sorted(tuple(ranks) for ranks in groups.values())


def _labelled(dimension: str, groups: Sequence[Sequence[int]]) -> dict[str, Labels]:
    """Return the dimension, with groups in order of their first rank, and the place of each rank in its group."""
    ordered = sorted(groups, key=lambda ranks: ranks[0])
    group = {rank: f"{dimension} group {i}" for i, ranks in enumerate(ordered) for rank in ranks}
    place = {rank: f"{dimension} rank {i}" for ranks in ordered for i, rank in enumerate(ranks)}
    return {dimension: group, f"{dimension}-rank": place}

"""Process groups that a trace names, as dimensions of parallelism, and where they contradict a topology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tracekit.index.parallel_groups import Labels, labelled, members

__all__ = ["contradiction", "dimension_of", "groups_of_processes"]

_WORDS = {
    "tp": ("tensor_model_parallel", "tensor_parallel", "tensor"),
    "cp": ("context_parallel", "context"),
    "ep": ("expert_model_parallel", "expert_parallel", "expert"),
    "dp": ("data_parallel", "data"),
    "pp": ("pipeline_model_parallel", "pipeline_parallel", "pipeline", "pipe"),
}
_NO_DIMENSION = frozenset({"", "undefined", "default_pg", "default"})


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


def groups_of_processes(named: Iterable[tuple[str, Sequence[int]]]) -> tuple[dict[str, Labels], dict[str, int]]:
    """Return the dimensions that process groups make, each given by dimension and ranks.

    Second: of each dimension whose groups overlap, and so is none, a rank that is in several.
    """
    groups: dict[str, dict[tuple[int, ...], None]] = {}
    for dimension, ranks in named:
        if dimension and ranks:
            groups.setdefault(dimension, {})[tuple(sorted(set(ranks)))] = None
    labels: dict[str, Labels] = {}
    overlapping: dict[str, int] = {}
    for dimension, several in groups.items():
        often = Counter(rank for group in several for rank in group)
        if max(often.values()) > 1:
            overlapping[dimension] = min(rank for rank, times in often.items() if times > 1)
            continue
        labels |= labelled(dimension, sorted(several))
    return labels, overlapping


def contradiction(given: Labels, recorded: Labels) -> tuple[list[int], list[int]] | None:
    """Return the ranks of a group as the user gave them and as the files recorded them; None where both agree.

    Ranks that only one of them knows are no contradiction.
    """
    given_groups, recorded_groups = members(given), members(recorded)
    for label, ranks in recorded_groups.items():
        first = next((rank for rank in ranks if rank in given), None)
        if first is not None and given_groups[given[first]] != ranks:
            return given_groups[given[first]], recorded_groups[label]
    return None

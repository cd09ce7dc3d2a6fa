"""Match the names of two sides: equal names first, then by position, operator, launch shape, class and words.

Every name is in exactly one group. A name that only one side has is compared with the names that only the other has:

1. Copies match by kind (HtoD ...), since each tool names them differently.
2. By position: names on a stream between the same two neighbours, which both sides have. Several names for one are
   "fused", one for several "split", several for several "replaced". Position alone proves nothing, since another kernel
   may have moved there; `_agreement` lists the facts of which at least one must agree.
3. By signature: one name for one ("renamed") if at least two facts agree, worth at least 4 points, and no other name of
   either side fits as well.

Names without a match are "new" or "gone".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from tracekit.analysis.kernel_class import KernelClass
from tracekit.comparison._signatures import Signature
from tracekit.lazy_dataclass import dataclass

Key = tuple[str, str]
_MAX_BETWEEN = 32
"""Names in a row at one position; a longer row is a different program."""
_MIN_POINTS = 4
_MIN_POINTS_AT_POSITION = 3
"""Points that pair two names at one position with several names."""


@dataclass(frozen=True, slots=True)
class NameGroup:
    """Names of both sides that are compared with each other.

    how: "same", "renamed", "fused", "split", "replaced", "new" or "gone". why: the facts that agree.
    """

    base: tuple[Key, ...]
    new: tuple[Key, ...]
    how: str
    why: str = ""

    @property
    def label(self) -> str:
        """Return the name, or "old + old → new"."""
        if self.how in ("same", "gone"):
            return self.base[0][1]
        if self.how == "new":
            return self.new[0][1]
        return f"{' + '.join(name for _, name in self.base)} → {' + '.join(name for _, name in self.new)}"

    @property
    def kind(self) -> str:
        """Return the kind of the names, such as "kernel"."""
        return (self.base or self.new)[0][0]


_COPY = re.compile(r"(?<![A-Za-z])[HDPA]to[HDPA](?![A-Za-z])")

Side = Mapping[Key, Signature]
Sequences = Iterable[Sequence[Key]]
Positions = dict[tuple[Key | None, Key | None], Counter[tuple[Key, ...]]]


def match(
    base: Iterable[Key],
    new: Iterable[Key],
    signed_base: Side,
    signed_new: Side,
    order_base: Sequences,
    order_new: Sequences,
) -> list[NameGroup]:
    """Return the groups; each name is in one. signed_*: signatures by name. order_*: names in order, by stream."""
    left, right = sorted(set(base)), sorted(set(new))
    both = set(left) & set(right)
    groups = [NameGroup((key,), (key,), "same") for key in left if key in both]
    gone, fresh = set(left) - both, set(right) - both
    rules: tuple[Callable[[], list[NameGroup]], ...] = (
        lambda: _copies(gone, fresh),
        lambda: _by_position(gone, fresh, both, (signed_base, signed_new), (order_base, order_new)),
        lambda: _by_signature(gone, fresh, signed_base, signed_new),
    )
    for rule in rules:
        for group in rule():
            groups.append(group)
            gone -= set(group.base)
            fresh -= set(group.new)
    groups += [NameGroup((key,), (), "gone") for key in sorted(gone)]
    groups += [NameGroup((), (key,), "new") for key in sorted(fresh)]
    return groups


def _copies(gone: set[Key], fresh: set[Key]) -> list[NameGroup]:
    """Return groups of copies by kind of copy, and of memsets: their names differ by tool."""
    found = []
    for kind, copy in sorted({(key[0], copy) for key in gone for copy in _copy_kinds(*key)}):
        old = frozenset(key for key in gone if key[0] == kind and copy in _copy_kinds(*key))
        new = frozenset(key for key in fresh if key[0] == kind and copy in _copy_kinds(*key))
        if new:
            found.append(NameGroup(tuple(sorted(old)), tuple(sorted(new)), _how(old, new), "kind of copy"))
    return found


def _copy_kinds(kind: str, name: str) -> list[str]:
    """Return the kind of copy in a name (HtoD, DtoH ...), or "memset" of a memset; [] for neither."""
    return ["memset"] if kind == "memset" else _COPY.findall(name)[:1] if kind == "memcpy" else []


def _by_position(
    gone: set[Key], fresh: set[Key], both: set[Key], signed: tuple[Side, Side], orders: tuple[Sequences, Sequences]
) -> list[NameGroup]:
    if not gone or not fresh:
        return []
    base_positions, new_positions = _positions(orders[0], gone, both), _positions(orders[1], fresh, both)
    votes: Counter[tuple[frozenset[Key], frozenset[Key]]] = Counter()
    for position in base_positions.keys() & new_positions.keys():
        base_names, base_count = _most_common(base_positions[position])
        new_names, new_count = _most_common(new_positions[position])
        for pair in _aligned(base_names, new_names, *signed):
            votes[pair] += min(base_count, new_count)
    taken: set[Key] = set()
    found = []
    for (old, new), _ in sorted(votes.items(), key=lambda v: (-v[1], sorted(v[0][0]), sorted(v[0][1]))):
        if (old | new) & taken:
            continue
        why = _agreement(old, new, *signed)
        if why:
            taken |= old | new
            found.append(NameGroup(tuple(sorted(old)), tuple(sorted(new)), _how(old, new), f"position, {why}"))
    return found


def _aligned(
    base: tuple[Key, ...], new: tuple[Key, ...], signed_base: Side, signed_new: Side
) -> list[tuple[frozenset[Key], frozenset[Key]]]:
    """Return the pairs of names at one position. Several for several are split at the pair with the most points.

    That pair is one, and the names before and after it are aligned in the same way.
    """
    if not base or not new:
        return []
    if len(base) > 1 and len(new) > 1:
        best, at = _MIN_POINTS_AT_POSITION - 1, (0, 0)
        for i, old in enumerate(base):
            for j, other in enumerate(new):
                points = _points(old, other, signed_base, signed_new)
                if points > best:
                    best, at = points, (i, j)
        if best >= _MIN_POINTS_AT_POSITION:
            i, j = at
            before = _aligned(base[:i], new[:j], signed_base, signed_new)
            after = _aligned(base[i + 1 :], new[j + 1 :], signed_base, signed_new)
            return [*before, (frozenset((base[i],)), frozenset((new[j],))), *after]
    return [(frozenset(base), frozenset(new))]


def _points(base: Key, new: Key, signed_base: Side, signed_new: Side) -> int:
    if base not in signed_base or new not in signed_new:
        return 0
    others = _facts(new, signed_new[new])
    return sum(points for fact, points in _facts(base, signed_base[base]).items() if fact in others)


def _positions(order: Sequences, wanted: set[Key], both: set[Key]) -> Positions:
    """Return the rows of wanted names between two neighbours that both sides have, with their counts."""
    found: Positions = {}
    for sequence in order:
        before: Key | None = None
        between: list[Key] = []
        for key in (*sequence, None):
            if key is not None and key in wanted:
                between.append(key)
                continue
            if key is not None and key not in both:
                continue
            if 0 < len(between) <= _MAX_BETWEEN and (before or key):
                found.setdefault((before, key), Counter())[tuple(between)] += 1
            before, between = key, []
    return found


def _most_common(counted: Counter[tuple[Key, ...]]) -> tuple[tuple[Key, ...], int]:
    return min(counted.items(), key=lambda item: (-item[1], item[0]))


def _how(base: frozenset[Key], new: frozenset[Key]) -> str:
    if len(base) == len(new) == 1:
        return "renamed"
    return "replaced" if len(base) > 1 and len(new) > 1 else "fused" if len(base) > 1 else "split"


def _agreement(base: frozenset[Key], new: frozenset[Key], signed_base: Side, signed_new: Side) -> str:
    """Return the facts that agree besides the position (operator, shape, class, words of the names), "" for none."""
    if {kind for kind, _ in base} != {kind for kind, _ in new}:
        return ""
    left = [signed_base[key] for key in sorted(base) if key in signed_base]
    right = [signed_new[key] for key in sorted(new) if key in signed_new]
    if not left or not right:
        return ""
    facts = []
    if {s.operator for s in left} & {s.operator for s in right} - {""}:
        facts.append("operator")
    if len(left) == len(right) == 1 and left[0].shape and left[0].shape == right[0].shape:
        facts.append("launch shape")
    if {s.kernel_class for s in left} & {s.kernel_class for s in right} - {KernelClass.OTHER}:
        facts.append("class")
    if frozenset().union(*(s.words for s in left)) & frozenset().union(*(s.words for s in right)):
        facts.append("words of the name")
    return ", ".join(facts)


def _by_signature(gone: set[Key], fresh: set[Key], signed_base: Side, signed_new: Side) -> list[NameGroup]:
    scored: dict[tuple[Key, Key], tuple[int, str]] = {}
    # Candidates are found by a shared fact: comparing thousands of names with each other would take too long.
    by_fact: dict[object, list[Key]] = {}
    for key in sorted(fresh & signed_new.keys()):
        for fact in _facts(key, signed_new[key]):
            by_fact.setdefault(fact, []).append(key)
    for key in sorted(gone & signed_base.keys()):
        points: Counter[Key] = Counter()
        shared: dict[Key, list[str]] = {}
        for fact, worth in _facts(key, signed_base[key]).items():
            for other in by_fact.get(fact, ())[:1000]:
                points[other] += worth
                shared.setdefault(other, []).append(fact[0])
        for other, total in points.items():
            if total >= _MIN_POINTS and len(shared[other]) > 1:
                scored[key, other] = (total, ", ".join(shared[other]))
    totals_of_base: dict[Key, list[int]] = {}
    totals_of_new: dict[Key, list[int]] = {}
    for (key, other), (total, _) in scored.items():
        totals_of_base.setdefault(key, []).append(total)
        totals_of_new.setdefault(other, []).append(total)
    found = []
    for (key, other), (total, why) in sorted(scored.items()):
        if all(max(side) == total and side.count(total) == 1 for side in (totals_of_base[key], totals_of_new[other])):
            found.append(NameGroup((key,), (other,), "renamed", why))
    return found


def _facts(key: Key, signature: Signature) -> dict[tuple[str, str, object], int]:
    """Return the facts of a name, each with the points for another name that shares it."""
    kind = key[0]
    facts: dict[tuple[str, str, object], int] = {}
    if signature.operator:
        facts["operator", kind, signature.operator] = 2
    if signature.shape:
        facts["launch shape", kind, signature.shape] = 2
    if signature.bare:
        facts["name without its parameters", kind, signature.bare] = 3
    if signature.kernel_class is not KernelClass.OTHER:
        facts["class", kind, signature.kernel_class] = 1
    return facts

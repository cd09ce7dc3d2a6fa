"""Names of two sides matched: by name; else by what took their place, by operator, launch shape, class and words.

Every name is in exactly one group. A name of one side alone is looked for among the names that only the other side has:

1. Copies by kind (HtoD ...), as each tool has words of its own for them.
2. By place: what stands between the same two neighbours (names that both sides have) on a stream. Several names for one
   are "fused", one for several "split", several for several "replaced". A place alone proves nothing (another kernel
   may have moved there): something else must agree too, as `_agree` says.
3. What is left by signature: one name for one ("renamed") where two facts or more agree, worth 4 points at least, and
   no other name of either side fits as well.

What is still unmatched is "new" or "gone".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracekit.analysis.kernel_class import KernelClass
from tracekit.compare._signature import Signature

Key = tuple[str, str]
_LONGEST = 32
"""Names in a row that one place is looked at for; more is another program."""
_LEAST_POINTS = 4
_LEAST_ALIKE = 3
"""Points of two names that stand in the same place among others."""


@dataclass(frozen=True, slots=True)
class NameGroup:
    """Names of the base and of the new side that are held against each other.

    how: "same", "renamed", "fused", "split", "replaced", "new" or "gone". why: the facts that agree.
    """

    base: tuple[Key, ...]
    new: tuple[Key, ...]
    how: str
    why: str = ""

    @property
    def label(self) -> str:
        """The name, or "old + old → new"."""
        if self.how in ("same", "gone"):
            return self.base[0][1]
        if self.how == "new":
            return self.new[0][1]
        return f"{' + '.join(name for _, name in self.base)} → {' + '.join(name for _, name in self.new)}"

    @property
    def kind(self) -> str:
        """The kind of what is held together."""
        return (self.base or self.new)[0][0]


_COPY = re.compile(r"(?<![A-Za-z])[HDPA]to[HDPA](?![A-Za-z])")

Side = Mapping[Key, Signature]
Sequences = Iterable[Sequence[Key]]
Places = dict[tuple[Key | None, Key | None], Counter[tuple[Key, ...]]]


def match(
    base: Iterable[Key],
    new: Iterable[Key],
    signed_base: Side,
    signed_new: Side,
    order_base: Sequences,
    order_new: Sequences,
) -> list[NameGroup]:
    """Return the groups, each name of either side in one. signed: of the names whose signature is known."""
    left, right = sorted(set(base)), sorted(set(new))
    both = set(left) & set(right)
    groups = [NameGroup((key,), (key,), "same") for key in left if key in both]
    gone, fresh = set(left) - both, set(right) - both
    for found in _copies(gone, fresh):
        groups.append(found)
        gone -= set(found.base)
        fresh -= set(found.new)
    for found in _by_place(gone, fresh, both, (signed_base, signed_new), (order_base, order_new)):
        groups.append(found)
        gone -= set(found.base)
        fresh -= set(found.new)
    for found in _by_signature(gone, fresh, signed_base, signed_new):
        groups.append(found)
        gone -= set(found.base)
        fresh -= set(found.new)
    groups += [NameGroup((key,), (), "gone") for key in sorted(gone)]
    groups += [NameGroup((), (key,), "new") for key in sorted(fresh)]
    return groups


def _copies(gone: set[Key], fresh: set[Key]) -> list[NameGroup]:
    """Return copies that both sides have under names of their own tool, by kind of copy; memsets too."""
    found = []
    for kind, way in sorted({(key[0], way) for key in gone for way in _way(*key)}):
        was = frozenset(key for key in gone if key[0] == kind and way in _way(*key))
        now = frozenset(key for key in fresh if key[0] == kind and way in _way(*key))
        if now:
            found.append(NameGroup(tuple(sorted(was)), tuple(sorted(now)), _how(was, now), "kind of copy"))
    return found


def _way(kind: str, name: str) -> list[str]:
    """Return the kind of copy that a name tells: HtoD, DtoH ...; of a memset "memset"; nothing where it tells none."""
    return ["memset"] if kind == "memset" else _COPY.findall(name)[:1] if kind == "memcpy" else []


def _by_place(
    gone: set[Key], fresh: set[Key], both: set[Key], signed: tuple[Side, Side], orders: tuple[Sequences, Sequences]
) -> list[NameGroup]:
    if not gone or not fresh:
        return []
    old, now = _places(orders[0], gone, both), _places(orders[1], fresh, both)
    votes: Counter[tuple[frozenset[Key], frozenset[Key]]] = Counter()
    for place in old.keys() & now.keys():
        was, times = _first(old[place])
        takes, again = _first(now[place])
        for part in _aligned(was, takes, *signed):
            votes[part] += min(times, again)
    taken: set[Key] = set()
    found = []
    for (was_set, now_set), _ in sorted(votes.items(), key=lambda v: (-v[1], sorted(v[0][0]), sorted(v[0][1]))):
        if (was_set | now_set) & taken:
            continue
        why = _agree(was_set, now_set, *signed)
        if why:
            taken |= was_set | now_set
            found.append(
                NameGroup(tuple(sorted(was_set)), tuple(sorted(now_set)), _how(was_set, now_set), f"place, {why}")
            )
    return found


def _aligned(
    was: tuple[Key, ...], now: tuple[Key, ...], signed_base: Side, signed_new: Side
) -> list[tuple[frozenset[Key], frozenset[Key]]]:
    """Return what took the place of what within one place: several for several are taken apart where two are alike.

    The most alike pair stands for itself, and what is before and after it is looked at in the same way.
    """
    if not was or not now:
        return []
    if len(was) > 1 and len(now) > 1:
        best, at = _LEAST_ALIKE - 1, (0, 0)
        for i, old in enumerate(was):
            for j, new in enumerate(now):
                alike = _alike(old, new, signed_base, signed_new)
                if alike > best:
                    best, at = alike, (i, j)
        if best >= _LEAST_ALIKE:
            i, j = at
            before = _aligned(was[:i], now[:j], signed_base, signed_new)
            after = _aligned(was[i + 1 :], now[j + 1 :], signed_base, signed_new)
            return [*before, (frozenset((was[i],)), frozenset((now[j],))), *after]
    return [(frozenset(was), frozenset(now))]


def _alike(old: Key, new: Key, signed_base: Side, signed_new: Side) -> int:
    if old not in signed_base or new not in signed_new:
        return 0
    theirs = _facts(new, signed_new[new])
    return sum(worth for fact, worth in _facts(old, signed_base[old]).items() if fact in theirs)


def _places(order: Sequences, wanted: set[Key], both: set[Key]) -> Places:
    """Return what stands between two neighbours that both sides have, how often."""
    found: Places = {}
    for sequence in order:
        before: Key | None = None
        between: list[Key] = []
        for key in (*sequence, None):
            if key is not None and key in wanted:
                between.append(key)
                continue
            if key is not None and key not in both:
                continue
            if 0 < len(between) <= _LONGEST and (before or key):
                found.setdefault((before, key), Counter())[tuple(between)] += 1
            before, between = key, []
    return found


def _first(counted: Counter[tuple[Key, ...]]) -> tuple[tuple[Key, ...], int]:
    return min(counted.items(), key=lambda item: (-item[1], item[0]))


def _how(base: frozenset[Key], new: frozenset[Key]) -> str:
    if len(base) == len(new) == 1:
        return "renamed"
    return "replaced" if len(base) > 1 and len(new) > 1 else "fused" if len(base) > 1 else "split"


def _agree(base: frozenset[Key], new: frozenset[Key], signed_base: Side, signed_new: Side) -> str:
    """Return what agrees beside the place, "" for nothing: operator, shape, class, words of the names."""
    if {kind for kind, _ in base} != {kind for kind, _ in new}:
        return ""
    old = [signed_base[key] for key in sorted(base) if key in signed_base]
    now = [signed_new[key] for key in sorted(new) if key in signed_new]
    if not old or not now:
        return ""
    facts = []
    if {s.operator for s in old} & {s.operator for s in now} - {""}:
        facts.append("operator")
    if len(old) == len(now) == 1 and old[0].shape and old[0].shape == now[0].shape:
        facts.append("launch shape")
    if {s.kernel_class for s in old} & {s.kernel_class for s in now} - {KernelClass.OTHER}:
        facts.append("class")
    if frozenset().union(*(s.words for s in old)) & frozenset().union(*(s.words for s in now)):
        facts.append("words of the name")
    return ", ".join(facts)


def _by_signature(gone: set[Key], fresh: set[Key], signed_base: Side, signed_new: Side) -> list[NameGroup]:
    scored: dict[tuple[Key, Key], tuple[int, str]] = {}
    # Names are looked up by a fact that they must share, so that thousands of new names are no thousands squared.
    by_fact: dict[object, list[Key]] = {}
    for key in sorted(fresh & signed_new.keys()):
        for fact in _facts(key, signed_new[key]):
            by_fact.setdefault(fact, []).append(key)
    for key in sorted(gone & signed_base.keys()):
        points: Counter[Key] = Counter()
        words: dict[Key, list[str]] = {}
        for fact, worth in _facts(key, signed_base[key]).items():
            for other in by_fact.get(fact, ())[:1000]:
                points[other] += worth
                words.setdefault(other, []).append(fact[0])
        for other, total in points.items():
            if total >= _LEAST_POINTS and len(words[other]) > 1:
                scored[key, other] = (total, ", ".join(words[other]))
    of_base: dict[Key, list[int]] = {}
    of_new: dict[Key, list[int]] = {}
    for (key, other), (total, _) in scored.items():
        of_base.setdefault(key, []).append(total)
        of_new.setdefault(other, []).append(total)
    found = []
    for (key, other), (total, why) in sorted(scored.items()):
        if all(max(side) == total and side.count(total) == 1 for side in (of_base[key], of_new[other])):
            found.append(NameGroup((key,), (other,), "renamed", why))
    return found


def _facts(key: Key, signature: Signature) -> dict[tuple[str, str, object], int]:
    """Return the facts of a name and how much it is worth that another has it too."""
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

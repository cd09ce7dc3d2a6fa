"""What `mutate.py` leaves out: each explained change is one of the package as it is now, and has its reason."""

from __future__ import annotations

import mutate
import pytest

pytestmark = pytest.mark.source


@pytest.fixture(scope="module")
def entries() -> list[tuple[str, str]]:
    """Each entry and the line after it."""
    lines = [line for line in mutate.EXPLAINED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    kept = [line for line in lines if line]
    return list(zip(kept[::2], kept[1::2], strict=True))


def test_each_entry_has_its_reason_on_the_next_line(entries: list[tuple[str, str]]) -> None:
    assert [(entry, why) for entry, why in entries if entry.startswith(" ") or not why.startswith("    ")] == []
    assert len({entry for entry, _ in entries}) == len(entries)


def test_each_entry_is_a_change_of_the_package_as_it_is(entries: list[tuple[str, str]]) -> None:
    known = mutate.explained()
    assert {f"{place}: {change}" for place, change in known} == {entry for entry, _ in entries}
    files = {mutate.ROOT / place.partition("::")[0] for place, _ in known}
    found = {(mutate.place_of(mutant), mutant.change) for path in files for mutant in mutate.mutants(path)}
    assert sorted(known - found) == []

"""The list of changes that `mutate.py` leaves out: each is one of the package as it is now, and has its reason."""

from __future__ import annotations

import mutate
import pytest

pytestmark = pytest.mark.source


def test_each_explained_change_is_one_of_the_package_as_it_is() -> None:
    known = mutate.explained()
    files = {mutate.ROOT / change.partition(": ")[0].partition("::")[0] for change, _ in known}
    found = {mutate.named(mutant) for path in files for mutant in mutate.mutants(path)}
    assert sorted(set(known) - found) == []


def test_each_explained_change_has_a_reason() -> None:
    lines = [line for line in mutate.EXPLAINED.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")]
    known = mutate.explained()
    assert len(known) == len(lines) // 3, "an entry is there twice"
    assert [change for change, reason in known.items() if len(reason) < 10 or " -> " in reason] == []

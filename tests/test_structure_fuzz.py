"""A short run of `structure_fuzz.py`: well-formed files that lie end in a trace or in a TracekitError."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from structure_fuzz import FORMATS, MOST_FIELDS, Field, escape_of, fuzz, messages, packed, seeds_of

MUTANTS = 60 if os.environ.get("CI") == "true" else 20


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_no_mutant_escapes(format: str, tmp_path: Path) -> None:
    found = fuzz(format, "ci", tmp_path, mutants=MUTANTS)
    assert found.mutants == MUTANTS
    texts = [path.read_text("utf-8")[-2000:] for path in sorted(tmp_path.rglob("*.txt"))]
    assert not found.escapes, "\n".join(texts)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_mutants_differ_and_the_same_seed_makes_the_same(format: str) -> None:
    mutate, _ = FORMATS[format]
    first, again = (
        [mutate(each, rng) for each in seeds_of(format) for _ in range(10)]
        for rng in (random.Random(1), random.Random(1))
    )
    assert first == again
    assert len(set(first)) > len(first) // 2


def test_what_escapes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("tracekit.read", fail)
    assert isinstance(escape_of(tmp_path / "x", "", further=False), KeyError)


def test_a_message_that_holds_itself_many_times_is_written_and_visited_once() -> None:
    inner = [Field(1, 0, 7)]
    inner += [Field(2, 2, inner)] * 50
    outer = [Field(3, 2, inner), Field(4, 2, [Field(5, 2, inner)])]
    assert len(list(messages(outer))) == 3
    assert 0 < len(packed(outer)) < 40 * MOST_FIELDS

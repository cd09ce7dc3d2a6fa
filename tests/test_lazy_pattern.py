"""Patterns that are compiled late give what patterns of `re` give."""

from __future__ import annotations

import copy
import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracekit
from tracekit import lazy_pattern as module
from tracekit.lazy_pattern import LazyPattern, lazy_pattern

PARTS = [name for name in dir(re.Pattern) if not name.startswith("_")]


def result(call: Any) -> Any:
    """Return what a call gives, in a form that can be compared."""
    found = call()
    plain = lambda m: (m.span(), m.groups(), m.groupdict()) if isinstance(m, re.Match) else m  # noqa: E731
    return (
        plain(found) if isinstance(found, (re.Match, str, bytes, list, tuple, type(None))) else list(map(plain, found))
    )


@given(text=st.text(alphabet="aAb1 ,"), flags=st.sampled_from((0, re.IGNORECASE, re.ASCII | re.DOTALL)))
def test_each_method_gives_what_a_pattern_gives(text: str, flags: int) -> None:
    written = r"(?P<word>a+)(\d)?"
    usual, late = re.compile(written, flags), lazy_pattern(written, flags)
    for name in ("search", "match", "fullmatch", "findall", "finditer", "split"):
        for _ in range(2):  # the first use, and one of the later ones
            assert result(lambda name=name: getattr(late, name)(text)) == result(
                lambda name=name: getattr(usual, name)(text)
            )
    assert late.sub(r"<\1>", text) == usual.sub(r"<\1>", text)
    assert late.subn("x", text, 1) == usual.subn("x", text, 1)
    assert late.search(text, 1, 3) is None or result(lambda: late.search(text, 1, 3)) == result(
        lambda: usual.search(text, 1, 3)
    )


def test_it_has_every_part_of_a_pattern_and_no_other() -> None:
    late: Any = lazy_pattern(rb"x(?P<y>.)", re.DOTALL)
    usual: Any = re.compile(rb"x(?P<y>.)", re.DOTALL)
    for name in PARTS:
        value = getattr(late, name)
        assert callable(value) or value == getattr(usual, name)
    with pytest.raises(AttributeError, match="no_such_part"):
        late.no_such_part  # noqa: B018
    assert copy.copy(lazy_pattern("a+")).fullmatch("aa")


def test_nothing_is_compiled_before_the_first_use() -> None:
    wrong = lazy_pattern("(")
    with pytest.raises(re.error, match="missing"):
        wrong.search("")


def test_every_pattern_of_the_package_can_be_used() -> None:
    used = 0
    for each in pkgutil.walk_packages(tracekit.__path__, "tracekit."):
        if each.name.endswith(("__main__", "_child", "_pb2")):
            continue
        for value in vars(importlib.import_module(each.name)).values():
            for pattern in inside(value):
                assert pattern.flags is not None
                used += 1
    assert used > 150
    assert module.__all__ == ["lazy_pattern"]


def inside(value: object) -> Iterator[Any]:
    """Give the late pattern that a value is, or the late patterns in a tuple."""
    if isinstance(value, LazyPattern):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from inside(each)

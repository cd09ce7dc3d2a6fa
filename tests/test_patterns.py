"""Patterns in many names: the same names are found as by Python's engine alone."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.index import loaders
from tracekit.model import patterns
from tracekit.views.findings import findings
from tracekit.views.path import graph

PATTERNS = {
    value.pattern: value
    for name, module in sorted(sys.modules.items())
    if name.startswith(("tracekit.index.", findings.__package__ or findings.__name__, graph.__name__))
    for value in vars(module).values()
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str)
}
"""All patterns of the joins and of the rules of `findings`."""
WORDS = """
nccl nccl: c10d:: all_reduce AllReduce rpc gc GC garbage data Data loader Loader get Next batch load dali web tf. fetch
iterator read wait input collate decode imread tokenize pre .py .pyx (12): (file.py:3) / _ __ . : :: #3 [0] compil x 7
Compile compiling autotune torch-compiled TorchDynamo cache lookup send recv ncclSend Backward0 forward Memcpy sgemm ( )
DeviceSynchronize tensorop nchwToNhwc [dali] next( len( \u212a \u0130 \u017f é 核
"""
NAMES = st.lists(st.sampled_from([*WORDS.split(), " ", "\n", "\x7f"]), max_size=6).map("".join)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=lambda pattern: pattern.pattern[:30])
@given(names=st.lists(NAMES, min_size=1, max_size=20))
def test_names_are_found_as_by_one_search_each(pattern: re.Pattern[str], names: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns, "_FEW", 0)
        for longest in (5, 300):
            found = patterns.found_in(pattern, names, longest)
            assert found.tolist() == [pattern.search(name[:longest]) is not None for name in names]


def test_what_another_engine_does_not_know_is_found_too() -> None:
    names = ["aa", "ab", "b"] * 1000
    for text in (r"(a)\1", r"a++b", r"(?<!a)b"):
        pattern = re.compile(text)
        assert patterns.found_in(pattern, names).tolist() == [pattern.search(name) is not None for name in names]


def test_only_names_in_use_are_looked_at() -> None:
    found = patterns.rows_found(re.compile("a"), ["a", "ba", "c"], np.array([2, -1, 1, 0, -1, 2]))
    assert found.tolist() == [False, False, True, True, False, False]
    assert patterns.rows_found(re.compile("a"), [], np.array([-1])).tolist() == [False]


@given(NAMES)
def test_a_name_without_any_word_of_loads_is_none(name: str) -> None:
    if not loaders.may_load([name])[0]:
        assert loaders.loader_name(name) == loaders.LoaderName.NO

"""args: members of JSON texts by column, exact and without an error for any text of a file."""

from __future__ import annotations

import doctest
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model import args

CONTAINERS = {
    "array": lambda texts: pa.array(texts, pa.string()),
    "chunked": lambda texts: pa.chunked_array([texts[:2], texts[2:]], pa.string()),
    "encoded": lambda texts: pa.array(texts, pa.string()).dictionary_encode(),
    "slice": lambda texts: pa.array(["{}", *texts], pa.string()).slice(1),
}


@pytest.fixture(params=CONTAINERS, name="column")
def _column(request: pytest.FixtureRequest):
    return CONTAINERS[request.param]


def test_the_examples_run() -> None:
    assert doctest.testmod(args, extraglobs={"pa": pa}).failed == 0


def test_integers_are_exact_up_to_the_ends_of_int64(column) -> None:
    most, least = 2**63 - 1, -(2**63)
    texts = [f'{{"n":{n}}}' for n in (most, least, most - 1, 2**53 + 1, most + 1, least - 1, 10**40)]
    numbers, known = args.integers(column(texts), "n")
    assert numbers.tolist() == [most, least, most - 1, 2**53 + 1, 0, 0, 0]
    assert known.tolist() == [True] * 4 + [False] * 3


def test_a_decimal_text_is_an_integer_and_other_kinds_are_not(column) -> None:
    texts = [f'{{"n":{value}}}' for value in ('"12"', '"-3"', '" 4"', '"٣"', "true", "1.0", "1e3", "null", "[5]", '""')]
    numbers, known = args.integers(column(texts), "n")
    assert numbers.tolist() == [12, -3] + [0] * 8
    assert known.tolist() == [True, True] + [False] * 8


def test_floats_texts_flags_and_values(column) -> None:
    texts = ['{"x":1.5,"s":"a"}', '{"x":2,"s":"b","f":true}', '{"x":1e999,"s":"a","f":1}', None, '{"s":["a"]}']
    numbers, known = args.floats(column(texts), "x")
    assert known.tolist() == [True, True, False, False, False]
    assert numbers[:2].tolist() == [1.5, 2.0]
    codes, names = args.texts(column(texts), "s")
    assert codes.tolist() == [0, 1, 0, -1, -1]
    assert names == ["a", "b"]
    assert args.flags(column(texts), "f").tolist() == [False, True, False, False, False]
    codes, members = args.values(column(texts), "s")
    assert [members[code] if code >= 0 else None for code in codes.tolist()] == ["a", "b", "a", None, ["a"]]


def test_the_first_key_that_an_object_has_counts(column) -> None:
    texts = ['{"b":2,"a":1}', '{"b":2}', '{"c":3}', '{"a.c":4}']
    assert args.integers(column(texts), "a", "b")[0].tolist() == [1, 2, 0, 0]
    assert args.integers(column(texts), "a.c", "c")[0].tolist() == [0, 0, 3, 4]


def test_only_the_top_level_counts_and_never_a_text(column) -> None:
    texts = ['{"o":{"n":1}}', '{"o":"\\"n\\":1","m":2}', '{"o":[{"n":1}],"n":3}', '{"n":1,"n":2}']
    assert args.integers(column(texts), "n")[0].tolist() == [0, 0, 3, 2]


BROKEN = [
    "", " ", "{", "[]", '[{"n":1}]', '"n"', "null", '{"n":1', '{"n":1}}', '{"n":1} {"n":2}', '{"n":', "1}", "\x00",
    '{"n":01}', '{"a":' + "[" * 100_000 + "]" * 100_000 + ',"n":1}',
]  # fmt: skip


def test_broken_texts_have_no_member_and_cost_no_neighbour(column) -> None:
    texts = [text for broken in BROKEN for text in (broken, '{"n":7}')]
    numbers, known = args.integers(column(texts), "n")
    assert numbers[1::2].tolist() == [7] * len(BROKEN)
    assert not known[::2].any()


def test_texts_of_several_lines_stay_apart(column) -> None:
    texts = ['{"n":1}\n{"n":2}', "", '{\n "n": 3\n}', '{"n":', '"n"', "\n", '{"n":4}', '"n":5}\n{']
    assert args.integers(column(texts), "n")[0].tolist() == [0, 0, 3, 0, 0, 0, 4, 0]


def test_what_strict_parsers_refuse_beside_a_member_does_not_hide_it(column) -> None:
    texts = ['{"x":NaN,"n":1}', '{"x":"\\ud800","n":2}', f'{{"x":{"9" * 400},"n":3}}', '{"n":"\\ud800"}']
    assert args.integers(column(texts), "n")[0].tolist() == [1, 2, 3, 0]
    assert args.texts(column(texts), "n")[1] == ["\\ud800"]


def test_columns_without_rows_or_values(column) -> None:
    assert args.integers(column([]), "n")[0].tolist() == []
    assert args.texts(column([None, None, None]), "n")[0].tolist() == [-1, -1, -1]
    assert args.integers(pa.chunked_array([], pa.string()), "n")[1].tolist() == []
    assert args.flags(pa.nulls(2, pa.string()), "n").tolist() == [False, False]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "m", "k"]), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.none() | JSON.map(json.dumps) | st.text(alphabet='{}[]":,n1\n '), max_size=12))
def test_every_text_has_what_a_json_parser_finds_in_it_alone(texts: list[str | None]) -> None:
    numbers, known = args.integers(pa.array(texts, pa.string()), "n")
    for text, number, is_known in zip(texts, numbers.tolist(), known.tolist(), strict=True):
        try:
            members = json.loads(text) if text is not None else None
        except ValueError:
            members = None
        member = members.get("n") if isinstance(members, dict) else None
        if isinstance(member, int) and not isinstance(member, bool) and -(2**63) <= member < 2**63:
            assert (number, is_known) == (member, True)
        elif not isinstance(member, str):
            assert (number, is_known) == (0, False)
    assert known.dtype == np.bool_


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.none() | st.dictionaries(st.text(), JSON, max_size=3), max_size=5))
def test_texts_without_escapes_say_the_same(objects: list[dict[str, object] | None]) -> None:
    texts = [None if each is None else json.dumps(each) for each in objects]
    found = args.unescaped(pa.array(texts, pa.string())).to_pylist()
    assert [None if text is None else json.loads(text) for text in found] == objects
    left = {
        escape[1:] for text in found if text for escape in re.findall(r"(?:^|[^\\\\])(?:\\\\\\\\)*(\\\\u....)", text)
    }
    assert all(int(each[1:], 16) < 0x20 or 0x7F <= int(each[1:], 16) < 0xA0 for each in left)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (r'{"a":"caf\u00e9"}', '{"a":"café"}'),
        (r'{"caf\u00E9":{"b":["\u4e2d\u6587"]}}', '{"café":{"b":["中文"]}}'),
        (r'{"a":"\ud83d\ude00"}', '{"a":"😀"}'),
        (r'{"a":"C:\\u00e9"}', r'{"a":"C:\\u00e9"}'),
        (r'{"a":"C:\\\u00e9"}', r'{"a":"C:\\é"}'),
        (r'{"a":"\u0022\u005c\u0000\u0085"}', r'{"a":"\"\\\u0000\u0085"}'),
        (r'{"a":"\ud83d \ude00\u00e9\udc00"}', r'{"a":"\ud83d \ude00é\udc00"}'),
        (r'{"a":"\u00', r'{"a":"\u00'),
        ('{"a":"é"}', '{"a":"é"}'),
    ],
)
def test_escapes_become_characters_as_far_as_json_allows(text: str, want: str) -> None:
    column = pa.array([None, text, "{}"], pa.string())
    assert args.unescaped(column).to_pylist() == [None, want, "{}"]

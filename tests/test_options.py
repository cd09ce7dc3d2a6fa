"""Options: declared once, typed, and wrong ones refused with a suggestion."""

from __future__ import annotations

import pytest

from tracekit import options
from tracekit.errors import UsageError
from tracekit.options import OptionSpec, did_you_mean

DEPTH = OptionSpec("depth", int, 3, "Levels of the tree that are shown.", least=1, most=9)
SHARE = OptionSpec("share", float, 0.5, "The smallest share that is shown.", least=0)
UNIT = OptionSpec("unit", str, "us", "The unit of the numbers.", choices=("us", "ns"))
WHOLE = OptionSpec("whole", bool, False, "Shows every row.")
FREE = OptionSpec("free", int, None, "A number, or none.")
ALL: tuple[OptionSpec[object], ...] = (DEPTH, SHARE, UNIT, WHOLE, FREE)


def test_texts_become_values_of_the_declared_type() -> None:
    pairs = options.split(["depth=4", "share=1", "unit=ns", "whole=yes", "free=-2"])
    assert options.parse(pairs, ALL) == {"depth": 4, "share": 1.0, "unit": "ns", "whole": True, "free": -2}


def test_the_value_of_a_spec_is_the_one_given_or_the_default() -> None:
    assert options.value({"depth": 4}, DEPTH) == 4
    assert options.value({}, DEPTH) == 3
    assert options.value({}, FREE) is None
    assert options.value({"share": 1}, SHARE) == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depth=x", "options depth=x: not a whole number from 1 to 9"),
        ("depth=2.5", "options depth=2.5: not a whole number from 1 to 9"),
        ("depth=1_0", "options depth=1_0: not a whole number from 1 to 9"),
        ("depth=0", "options depth=0: not a whole number from 1 to 9"),
        ("share=-1", "options share=-1: not a number of 0 or more"),
        ("share=nan", "options share=nan: not a number of 0 or more"),
        ("unit=n", "options unit=n: no such value; did you mean ns?"),
        ("whole=2", "options whole=2: not yes or no"),
        ("dept=2", "options dept: no such option of any format or view; did you mean depth?"),
        ("depth", "options depth: no value"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.parse(options.split([text]), ALL)
    assert str(caught.value) == message
    assert caught.value.hint


@pytest.mark.parametrize(("spec", "value"), [(DEPTH, 2.5), (DEPTH, True), (SHARE, None), (UNIT, 3), (WHOLE, 1)])
def test_objects_of_another_type_are_refused(spec: OptionSpec[object], value: object) -> None:
    with pytest.raises(UsageError):
        spec.parsed(value)


def test_an_owner_without_options_says_so() -> None:
    error = options.unknown_option("depth", (), owner="nvprof-csv")
    assert str(error) == "options depth: no such option of nvprof-csv"
    assert error.hint == "it has no options"


def test_suggestions_come_from_likeness_or_the_first_letters() -> None:
    assert did_you_mean("CPUtotal", ["CPUTotal", "calls"]) == "; did you mean CPUTotal?"
    assert did_you_mean("mem", ["memory_manipulation"]) == "; did you mean memory_manipulation?"
    assert did_you_mean("zzz", ["kernel"]) == ""

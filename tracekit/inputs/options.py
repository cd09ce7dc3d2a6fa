"""Options of reading inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from tracekit.errors import Option, UsageError, sentence
from tracekit.inputs.clocks.placement import AUTO, METHODS, NONE, Align
from tracekit.inputs.selection import Selection, parse_offset
from tracekit.lazy_dataclass import dataclass
from tracekit.safety.anonymize import Anonymizer

__all__ = ["ALL", "USUAL", "InputOptions", "parse_align", "rank_in"]

ALL = Selection()


_USUALLY = Align()


def parse_align(words: Sequence[str]) -> Align:
    """Return the choices of `--align`: auto, none, a method or an offset, or INPUT= one of these for a single input.

    Raises: UsageError.

    >>> parse_align(["wall-clock", "rank1.json=-1.5ms"])
    Align(method='wall-clock', inputs={'rank1.json': -1500000})
    """
    methods = (AUTO, NONE, *METHODS)
    method: str | int = AUTO
    inputs: dict[str, str | int] = {}
    for word in words:
        name, equals, how = word.rpartition("=")
        if how in methods:
            choice: str | int = how
        elif how[:1] in ("+", "-"):
            choice = parse_offset(how, Option("align"))
        else:
            usage = f"one of: {', '.join(methods)}; or an offset such as +12ms; or INPUT=METHOD, INPUT=+12ms"
            raise UsageError(sentence(Option("align", word), ": no such method"), hint=usage, choices=methods)
        if equals and name:
            inputs[name] = choice
        else:
            method = choice
    return Align(method, inputs)


@dataclass(frozen=True, slots=True)
class InputOptions:
    """Options of reading inputs.

    format: a reader's name, "" lets the content decide. selection: the user's filter. strict: the first note is an
    error. demangle: make C++ names readable. options: `key: value` of one format. columns: those of EVENTS to keep,
    None for all. partial: a bad input among several becomes a failure of the result; else it raises. fingerprint: put
    each source's SHA-256 into the facts of the run. progress: called with the share done, 0..1. more_columns: returns
    the columns to keep besides, for the name of a format that was found. args_of: the kinds of rows whose `args` to
    keep, None for all; where `more_columns` has args, all are kept. same_process: look for a log and a trace of one
    process among the inputs; the caller who knows which belong together says False. anonymize: replaces who and where.
    align: how the clocks of several inputs meet. rank_from: a regular expression whose first group is the rank in an
    input's name. first_source: the number of the first input in the column `source`.
    """

    format: str = ""
    selection: Selection = ALL
    strict: bool = False
    demangle: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    columns: frozenset[str] | None = None
    partial: bool = False
    fingerprint: bool = False
    progress: Callable[[float], None] | None = None
    more_columns: Callable[[str], frozenset[str]] | None = None
    args_of: frozenset[str] | None = None
    same_process: bool = True
    anonymize: Anonymizer | None = None
    align: Align = _USUALLY
    rank_from: str = ""
    first_source: int = 0


def rank_in(name: str, pattern: str) -> int | None:
    """Return the rank in the name of an input, None where the pattern does not match. Raises: UsageError.

    >>> rank_in("logs/worker-12.json", r"worker-([0-9]+)")
    12
    """
    hint = sentence("a regular expression whose first group is the rank: ", Option("rank-from", r"'rank(\d+)'"))
    given = Option("rank-from", pattern)
    try:
        found = re.search(pattern, name)
    except re.error as err:
        raise UsageError(sentence(given, f": not a valid regular expression ({err})"), hint=hint) from err
    if found is None:
        return None
    text = found[1] if found.re.groups else ""
    if not (text and text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(sentence(given, f": {text or 'nothing'!r} in {name} is not a rank"), hint=hint)
    return int(text)


USUAL = InputOptions()
"""Every event, as the content says, with all columns."""

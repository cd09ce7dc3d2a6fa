"""The names that a rule means, such as `kernel["gemm*"].total`.

The text of a rule is tried in this order; the first form that fits any name counts:

1. a whole name, or the label of a row such as "old → new";
2. a name as the tables show it: without return type, arguments and namespaces, and with "…" where it was cut. It must
   fit one name alone;
3. a pattern: `*` stands for any text, `?` for one character. All names that fit count together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Generic, TypeVar

from tracekit.comparison._metrics import ComparedMetric
from tracekit.comparison._signatures import bare_name
from tracekit.errors import Option, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escape_controls
from tracekit.model.names import bare_function

Row = TypeVar("Row")
_WORDS = {"kernel": "a kernel", "copy": "a copy", "operator": "an operator", "api": "an API call"}
_ALIKE = 0.7
"""Least likeness of a near name, as in `difflib`."""
_SHOWN_IN_ERROR = 3
_LONGEST_IN_ERROR = 80


@dataclass(frozen=True, slots=True)
class NamedRow(Generic[Row]):
    """A row that a rule can mean, and the texts that name it."""

    row: Row
    texts: tuple[str, ...]

    def fits(self, wanted: re.Pattern[str]) -> bool:
        """Return whether one of the texts, whole or as tables show it, has this form."""
        return any(wanted.fullmatch(text) or wanted.fullmatch(bare_function(text)) for text in self.texts)


def rows_meant(wanted: str, rows: Sequence[NamedRow[Row]]) -> list[Row]:
    """Return the rows that a text means. Raises: UsageError for the short form of several names."""
    exact = [each.row for each in rows if wanted in each.texts or wanted in map(escape_controls, each.texts)]
    if exact:
        return exact
    # "…" may be part of a name itself, so whole names are tried first.
    shown = _with_gaps([re.escape(part) for part in wanted.split("…")])
    cut = [each for each in rows if each.fits(shown)]
    if len(cut) > 1:
        first = ", ".join(_short(each.texts[0]) for each in cut[:_SHOWN_IN_ERROR])
        raise UsageError(
            f"{wanted}: fits {len(cut)} names: {first}{' ...' if len(cut) > _SHOWN_IN_ERROR else ''}",
            hint=sentence(
                "give the whole name (",
                Option("format", "json"),
                " has it), or a pattern with * to count all of them together",
            ),
        )
    if cut:
        return [each.row for each in cut]
    parts = [re.escape(part).replace(r"\?", ".") for part in wanted.split("*")]
    pattern = _with_gaps(parts)
    return [each.row for each in rows if each.fits(pattern)]


def _with_gaps(parts: Sequence[str]) -> re.Pattern[str]:
    """Return the form of these parts with any text between them.

    Each part in the middle is found once, at its first place: as `fnmatch` does, so that many gaps cost no time.
    """
    first, *rest = parts
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    return re.compile(f"{first}{''.join(f'(?>.*?{part})' for part in middle)}.*{last}", re.DOTALL)


def no_such_name(metric: ComparedMetric, names_of: Mapping[str, Collection[str]]) -> UsageError:
    """Return the error of a rule whose name fits nothing on either side. names_of: all names, by "kernel", "api" ..."""
    wanted, what = metric.name or "", metric.what
    one = _WORDS[what]
    known = sorted(names_of[what])
    others = [other for other in names_of if other != what and wanted in names_of[other]]
    if others:
        return UsageError(
            f"{metric.text}: {_short(wanted)} is {_WORDS[others[0]]}, not {one}",
            hint=f'{others[0]}["{_short(wanted)}"].{metric.field}',
        )
    if not known:
        return UsageError(f"{metric.text}: neither side has {one}", hint="remove the rule, or compare other runs")
    inside = [name for name in known if wanted.lower() in name.lower()] if len(wanted) > 1 else []
    near = [name for name in known if name in inside] or _resembling(wanted, known)
    question = f"; did you mean {' or '.join(map(_short, near[:_SHOWN_IN_ERROR]))}?" if near else ""
    example = f"*{wanted}*" if any(wanted in name for name in inside) else _short((near or known)[0])
    return UsageError(
        f"{metric.text}: neither side has {one} of this name{question}",
        hint=f'a name of the tables or a pattern, such as {what}["{example}"].{metric.field}',
    )


def _resembling(wanted: str, known: Sequence[str]) -> list[str]:
    """Return the names that resemble a text, with or without their arguments."""
    found: list[str] = []
    for form in (str, bare_function, bare_name):
        name_of = {form(name).lower(): name for name in reversed(known)}
        near = get_close_matches(wanted.lower(), name_of, _SHOWN_IN_ERROR, _ALIKE)
        found += [name_of[text] for text in near]
    return list(dict.fromkeys(found))


def _short(name: str) -> str:
    """Return a name for a message; where it is cut, a rule may have it as it is printed."""
    text = escape_controls(name if len(name) <= _LONGEST_IN_ERROR else bare_function(name))
    return text if len(text) <= _LONGEST_IN_ERROR else f"{text[:_LONGEST_IN_ERROR]}…"

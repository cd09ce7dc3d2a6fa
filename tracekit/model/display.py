r"""Values as text that is safe to show, and the small tables that objects show of themselves.

Numbers keep all their digits: a time has every ns in its unit, which the title names. Text of the traces is hostile:
what a terminal would obey, or what would reorder or hide a line, is shown as an escape (`\x1b`); HTML is escaped.

rich measures and wraps text too, but 7 to 15 times slower for plain text, and it takes joined emoji for one wherever a
terminal might not: here a width is never less than what a terminal needs.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from tracekit.errors import Option, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.units import TIME_EXPONENT, Unit, best_time_unit, format_bytes, format_ns, format_rate, format_ratio

__all__ = [
    "AS_TEXT",
    "BLANK_NAME",
    "FORMULA",
    "JOINERS",
    "LINES_SHOWN",
    "NO_FORMULAS",
    "NO_NAME",
    "SCREEN",
    "UNKNOWN",
    "WORD",
    "TextColumn",
    "Value",
    "cell_text",
    "cell_texts",
    "cell_width",
    "cut_middle",
    "encodable",
    "escape_controls",
    "escaped",
    "first_few",
    "head",
    "html_facts",
    "html_table",
    "in_pipes",
    "is_words",
    "plural",
    "shortened",
    "shown_name",
    "text_table",
    "time_unit_of",
    "titled",
    "typical_time_unit",
]

Value = int | float | str | None

UNKNOWN = "-"
"""Text for null: nothing is known, which is not zero."""
JOINERS = "\u200c\u200d"
"""Invisible characters that are parts of words and emoji."""
SCREEN = 100
"""Columns of a small table in text; a cell has at most WORD of them."""
WORD = 48
NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
"""Classes of HTML in which a notebook looks for no formulas: a name may hold `$`."""
HTML_WORD = 160
"""Characters of a cell in HTML."""

_EMOJI_STYLE = "\ufe0f"
_GAP = "  "


def escape_controls(text: str) -> str:
    """Return text in one line without anything that a terminal obeys: such characters become escapes.

    Escaped are controls (C0, DEL, C1), line and paragraph separators, invisible format characters such as those that
    turn the direction of text, unassigned characters (nobody knows their width) and lone surrogates.

    >>> escape_controls("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    return text if text.isprintable() else "".join(map(_visible, text))


NO_NAME, BLANK_NAME = "(no name)", "(blank name)"
"""Shown instead of a name without letters, and of one of blanks alone."""
_BLANK = lazy_pattern("[\\s\u200c\u200d\u2800\u3164\u115f\u1160\uffa0\ufe00-\ufe0f\u034f]*")
"""Characters that leave no mark on a screen and that `escape_controls` keeps."""


def shown_name(name: str) -> str:
    """Return a name as people see it: in one line, and never as a gap.

    >>> shown_name("gemm"), shown_name(""), shown_name("  ")
    ('gemm', '(no name)', '(blank name)')
    """
    if "!" <= name[:1] <= "~" and name.isprintable():
        return name  # nearly every one
    shown = escape_controls(name)
    if _BLANK.fullmatch(shown):
        return BLANK_NAME if name else NO_NAME
    return shown


def _visible(char: str) -> str:
    if char.isprintable() or char in JOINERS or unicodedata.category(char) in ("Zs", "Co"):
        return char
    return char.encode("unicode_escape").decode("ascii")


def time_unit_of(values: Iterable[Value], wanted: str = "") -> str:
    """Return the unit in which a column of times is shown: the wanted one, else the best for its largest value.

    Raises: UsageError where the wanted one is not a unit of time.
    """
    if wanted:
        if wanted not in TIME_EXPONENT:
            raise UsageError(sentence(Option("unit", wanted), ": not a unit of time"), choices=("s", "ms", "us", "ns"))
        return wanted
    return best_time_unit(max((abs(int(v)) for v in values if v is not None), default=0))


def typical_time_unit(values: Iterable[Value], wanted: str = "") -> str:
    """Return the wanted unit, else the one in which the first digits of most times of a column differ.

    Raises: UsageError where the wanted one is not a unit of time.
    """
    if wanted:
        return time_unit_of(values, wanted)
    sizes = sorted(map(abs, map(int, [value for value in values if value])))
    if not sizes:
        return "us"
    unit = "us" if sizes[-1] < 10**7 else "ms" if sizes[-1] < 10**11 else "s"
    # One long time must not make all others 0.000...: the middle one has two digits among its first decimals.
    while unit != "us" and 10 * sizes[len(sizes) // 2] < 10 ** TIME_EXPONENT[unit]:
        unit = "us" if unit == "ms" else "ms"
    return unit


def is_words(values: Iterable[Value], unit: Unit) -> bool:
    """Return whether a column holds text, which may be cut and is aligned left."""
    return unit is Unit.TEXT or (unit is Unit.ID and any(isinstance(value, str) for value in values))


def titled(title: str, unit: Unit, time_unit: str) -> str:
    """Return the title of a column with its unit."""
    shown = escape_controls(title)
    if unit is Unit.NS:
        return f"{shown} ({time_unit})"
    return f"{shown} (%)" if unit is Unit.RATIO else shown


def cell_texts(values: Iterable[Value], unit: Unit, time_unit: str) -> list[str]:
    """Return the cells of a column as text; null is UNKNOWN. time_unit: of times."""
    if unit is Unit.NS:
        return [UNKNOWN if value is None else format_ns(int(value), time_unit) for value in values]
    text = _FORMATS[unit]
    return [UNKNOWN if value is None else text(value) for value in values]


def _plain(value: int | float | str) -> str:
    return escape_controls(str(value))


def _count(value: int | float | str) -> str:
    return f"{value:,}"


def _bytes(value: int | float | str) -> str:
    return format_bytes(int(value))


def _finite(text: Callable[[float], str]) -> Callable[[int | float | str], str]:
    def format_finite(value: int | float | str) -> str:
        if isinstance(value, str):
            return escape_controls(value)
        return text(float(value or 0)) if math.isfinite(value) else UNKNOWN  # -0.0 is 0

    return format_finite


def _number(value: int | float | str) -> str:
    """Return every digit of a float; a whole number without its ".0". Text stays as it is."""
    if isinstance(value, str):
        return escape_controls(value)
    known = math.isfinite(value)
    return f"{value:,}".removesuffix(".0") if known else UNKNOWN


_FORMATS: dict[Unit, Callable[[int | float | str], str]] = {
    Unit.COUNT: _count,
    Unit.BYTES: _bytes,
    Unit.TEXT: _plain,
    Unit.ID: _plain,
    Unit.NUMBER: _number,
    Unit.RATIO: _finite(format_ratio),
    Unit.BYTES_PER_S: _finite(format_rate),
}


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a small table."""

    title: str
    texts: Sequence[str]
    is_words: bool = True


def text_table(columns: Sequence[TextColumn]) -> list[str]:
    """Return a table as lines of at most SCREEN characters; columns that do not fit are named in a last line.

    >>> print(*text_table([TextColumn("Name", ["gemm"]), TextColumn("Calls", ["1,024"], is_words=False)]), sep="\\n")
    Name  Calls
    gemm  1,024
    """
    shown: list[list[str]] = []
    left = SCREEN
    for column in columns:
        cells = [shortened(text, WORD) for text in (column.title, *column.texts)]
        width = max(map(len, cells))
        left -= width + len(_GAP) * bool(shown)
        if left < 0 and shown:
            break
        shown.append([cell.ljust(width) if column.is_words else cell.rjust(width) for cell in cells])
    lines = [_GAP.join(row).rstrip() for row in zip(*shown, strict=True)]
    hidden = [column.title for column in columns[len(shown) :]]
    if hidden:
        lines.append(f"({plural(len(hidden), 'more column')}: {shortened(', '.join(hidden), SCREEN - 24)})")
    return lines


def html_table(columns: Sequence[TextColumn]) -> str:
    """Return a table as HTML, escaped, with its alignment in itself: it needs no style sheet."""
    sides = ["left" if column.is_words else "right" for column in columns]
    head = "".join(_cell("th", column.title, side) for column, side in zip(columns, sides, strict=True))
    rows = zip(*(column.texts for column in columns), strict=True)
    body = "".join(
        f"<tr>{''.join(_cell('td', text, side) for text, side in zip(row, sides, strict=True))}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, text: str, side: str) -> str:
    return f'<{tag} style="text-align:{side}">{escaped(shortened(text, HTML_WORD))}</{tag}>'


def html_facts(facts: Iterable[tuple[str, str]]) -> str:
    """Return words and what they stand for as an HTML table without a head."""
    rows = (f"<tr>{_cell('th', word, 'left')}{_cell('td', text, 'left')}</tr>" for word, text in facts)
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def escaped(text: str) -> str:
    """Return any text as HTML that shows it."""
    from html import escape  # imports the table of all entities, which only pages need

    return escape(escape_controls(text))


def shortened(text: str, width: int) -> str:
    """Return text of at most `width` characters; longer text loses its middle to "…".

    >>> shortened("void gemm<float, 128>(float*)", 15)
    'void ge…float*)'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def cell_width(text: str) -> int:
    """Return how many cells of a terminal a text takes at most: 2 for wide characters, 0 for combining ones.

    >>> cell_width("核kernel")
    8
    """
    if text.isascii() or text.replace("…", "").isascii():  # "…" is one cell
        return len(text)
    return sum(_widths(text))


def _widths(text: str) -> Iterator[int]:
    before = 0
    for char in text:
        if char == _EMOJI_STYLE:
            before = 1 if before == 1 else 0  # makes a narrow character wide
        else:
            before = _char_width(char)
        yield before


@lru_cache(maxsize=1 << 12)
def _char_width(char: str) -> int:
    if char in JOINERS or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def head(text: str, width: int) -> str:
    """Return as many first characters as fit into the cells."""
    if text.isascii():
        return text[: max(width, 0)]
    used = 0
    for i, cells in enumerate(_widths(text)):
        used += cells
        if used > width:
            return text[:i]
    return text


def cut_middle(text: str, width: int) -> str:
    """Return text that fits into the cells: what is too long loses its middle to "…".

    >>> cut_middle("void gemm<float, 128>(float*)", 15)
    'void ge…float*)'
    """
    if cell_width(text) <= width:
        return text
    if width < 2:
        return "…"[:width]
    room = (width - 1) // 2
    if text.isascii():
        return f"{text[: width - 1 - room]}…{text[len(text) - room :]}"
    first = head(text, width - 1 - room)
    last: list[str] = []
    for char in reversed(text):
        # A style mark belongs to the character before it and widens that by one at most.
        room -= 1 if char == _EMOJI_STYLE else cell_width(char)
        if room < 0:
            break
        last.append(char)
    tail = "".join(reversed(last))
    while tail and cell_width(tail[0]) == 0:
        tail = tail[1:]
    return f"{first}…{tail}"


def in_pipes(*cells: str) -> str:
    """Return cells in the middle of columns between pipes, as Paddle's benchmark prints its figures."""
    return "| " + " | ".join(cell.center(15) for cell in cells) + " |"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 row", "2,000 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


LINES_SHOWN = 10
"""Sources and notes that a trace shows of itself."""


def first_few(texts: list[str], noun: str) -> list[str]:
    """Return the first texts, shortened, and a line that counts the others."""
    shown = [shortened(escape_controls(text), 160) for text in texts[:LINES_SHOWN]]
    more = len(texts) - LINES_SHOWN
    return [*shown, f"... {plural(more, f'more {noun}')}"] if more > 0 else shown


def encodable(text: str, encoding: str | None) -> str:
    r"""Return text that an encoding has, with escapes for what it lacks. None: UTF-8.

    >>> encodable("\u6838 1", "cp1252")
    '\\u6838 1'
    """
    name = encoding or "utf-8"
    return text.encode(name, "backslashreplace").decode(name)


# Text for the cells of a spreadsheet: none of it is a formula, wherever the program cuts a line into cells.
#
# Excel, LibreOffice Calc, Google Sheets and Numbers take a cell of a CSV file as a formula where it begins with = + -
# or
# @, in quotes or not; a formula can read other cells and send them away, or start a program. So such a text gets an
# apostrophe in front, which spreadsheets take for "this is text". Programs of countries that write 1,5 for a half cut
# lines at semicolons, also inside of quotes that do not begin a cell: text behind a semicolon is treated the same.
# Source: OWASP, "CSV Injection" (which names = + - @, tab and carriage return, and full-width forms).


FORMULA = r"(^|;)([ \x{a0}]*)([=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}])"
"""Beginnings of formulas, as RE2 (pyarrow) writes it."""
AS_TEXT = r"\1\2'\3"
_FORMULA = lazy_pattern(re.sub(r"\\x\{(\w+)\}", lambda found: chr(int(found[1], 16)), FORMULA))
_NUMBER = lazy_pattern(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def cell_text(text: str) -> str:
    """Return a text that a spreadsheet shows as it is, without control characters; a number stays a number.

    >>> cell_text("=HYPERLINK(A1)"), cell_text("-5"), cell_text("a\\t=b")
    ("'=HYPERLINK(A1)", '-5', 'a\\\\t=b')
    """
    if _NUMBER.fullmatch(text):
        return text
    return _FORMULA.sub(AS_TEXT, escape_controls(text))

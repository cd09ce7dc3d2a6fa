"""Text for the cells of a spreadsheet: none of it is a formula, wherever the program cuts a line into cells.

Excel, LibreOffice Calc, Google Sheets and Numbers take a cell of a CSV file as a formula where it begins with = + - or
@, in quotes or not; a formula can read other cells and send them away, or start a program. So such a text gets an
apostrophe in front, which spreadsheets take for "this is text". Programs of countries that write 1,5 for a half cut
lines at semicolons, also inside of quotes that do not begin a cell: text behind a semicolon is treated the same.
Source: OWASP, "CSV Injection" (which names = + - @, tab and carriage return, and full-width forms).
"""

from __future__ import annotations

import re

from tracekit.text.display import visible

FORMULA = r"(^|;)([ \x{a0}]*)([=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}])"
"""Beginnings of formulas, as RE2 (pyarrow) writes it."""
AS_TEXT = r"\1\2'\3"
_FORMULA = re.compile(re.sub(r"\\x\{(\w+)\}", lambda found: chr(int(found[1], 16)), FORMULA))
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def cell_text(text: str) -> str:
    """Return a text that a spreadsheet shows as it is, without control characters; a number stays a number.

    >>> cell_text("=HYPERLINK(A1)"), cell_text("-5"), cell_text("a\\t=b")
    ("'=HYPERLINK(A1)", '-5', 'a\\\\t=b')
    """
    if _NUMBER.fullmatch(text):
        return text
    return _FORMULA.sub(AS_TEXT, visible(text))

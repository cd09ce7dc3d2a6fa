"""Styles and scripts without what only people need: comments, and the blanks that separate nothing.

It is exact for scripts whose statements all end with a semicolon or a brace: tests compare the syntax trees before and
after. Texts, templates and regular expressions stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["lean_script", "lean_style", "lean_template"]

_COMMENT = re.compile(r"^/\*.*\*/$")


def lean_template(text: str) -> str:
    """Return a template without indentation and empty lines."""
    return "".join(f"{line}\n" for line in map(str.strip, text.split("\n")) if line)


def lean_style(text: str) -> str:
    """Return a style. No text in it has one of the marks beside which blanks go."""
    lines = (_COMMENT.sub("", line.strip()) for line in text.split("\n"))
    return re.sub(r" ?([{};,]) ?|(?<=[\w-])(:) ", r"\1\2", "".join(f"{line}\n" for line in lines if line))


_PIECE = re.compile(
    r"""(?P<blank>(?:\s|//[^\n]*|/\*[\s\S]*?\*/)+)"""
    r"""|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[\w$]+)"""
    r"""|(?P<mark>.)"""
)
_REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/")
_CHUNK = re.compile(r"(?:\\[\s\S]|\$(?!\{)|[^`\\$])*(`|\$\{)")
"""What follows in a template, up to its end or to an expression in it."""
_VALUE_ENDS = re.compile(r"[\w$)\]}\"'`]$")
_BEFORE_VALUE = frozenset({"return", "typeof", "case", "of", "in", "await", "yield", "void", "delete"})


@lru_cache(maxsize=32)
def lean_script(text: str) -> str:
    """Return a script with one blank where two tokens would become one, and none elsewhere."""
    made: list[str] = []
    due = False
    for piece in _pieces(text):
        if _separates(piece):
            due = True
            continue
        last = made[-1][-1] if made else ""
        if due and ((_joins(last) and _joins(piece[0])) or (last == piece[0] and last in "+-/")):
            made.append(" ")
        due = False
        made.append(piece)
    return f"{''.join(made)}\n"


def _separates(piece: str) -> bool:
    return not piece.strip() or piece.lstrip().startswith(("//", "/*"))


def _joins(letter: str) -> bool:
    return letter.isalnum() or letter in ("_", "$")


def _pieces(text: str) -> Iterator[str]:
    """Return the tokens and what is between them. A template comes in pieces: its texts, and the tokens between."""
    at, last = 0, ""
    nested: list[bool] = []  # of each open brace, whether it is an expression of a template
    while at < len(text):
        end = -1
        if text[at] == "`" or (text[at] == "}" and nested and nested[-1]):
            if text[at] == "}":
                nested.pop()
            chunk = _CHUNK.match(text, at + 1)
            assert chunk is not None, "a template without an end"
            if chunk[1] == "${":
                nested.append(True)
            end = chunk.end()
        elif text[at] == "{":
            nested.append(False)
        elif text[at] == "}" and nested:
            nested.pop()
        elif text[at] == "/" and text[at + 1] not in "/*" and (last in _BEFORE_VALUE or not _VALUE_ENDS.search(last)):
            found = _REGEX.match(text, at)
            assert found is not None, "a regular expression without an end"
            end = found.end()
        if end < 0:
            piece = _PIECE.match(text, at)
            assert piece is not None
            end = piece.end()
        made = text[at:end]
        yield made
        if not _separates(made):
            last = made
        at = end

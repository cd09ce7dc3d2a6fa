"""Styles and templates without what only people need: comments, and the blanks that separate nothing."""

from __future__ import annotations

import re

__all__ = ["lean_style", "lean_template"]

_COMMENT = re.compile(r"^/\*.*\*/$")


def lean_template(text: str) -> str:
    """Return a template without indentation and empty lines."""
    return "".join(f"{line}\n" for line in map(str.strip, text.split("\n")) if line)


def lean_style(text: str) -> str:
    """Return a style. No text in it has one of the marks beside which blanks go."""
    lines = (_COMMENT.sub("", line.strip()) for line in text.split("\n"))
    return re.sub(r" ?([{};,]) ?|(?<=[\w-])(:) ", r"\1\2", "".join(f"{line}\n" for line in lines if line))

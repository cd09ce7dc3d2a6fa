"""Regular expressions that are compiled when they are first used.

Python compiles a pattern in 0.05 to 1 ms. A `summary` of a small file imported 260 patterns of ours and used 30: the
others took a twentieth of its CPU time. A pattern that every command uses stays with `re.compile`.

    _COMPILED = lazy_pattern(r"triton_(?:poi|red|per)_")
    _COMPILED.match(name)

An error in a pattern is raised at the first use: a test uses every pattern of the package.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, AnyStr

__all__ = ["lazy_pattern"]

_PARTS = frozenset(name for name in dir(re.Pattern) if not name.startswith("_"))


class LazyPattern:
    """Has the methods of `re.Pattern`, from the first use on as attributes of its own: a call costs what it always did.

    The functions of `re` do not take one: `pattern.search(text)`, not `re.search(pattern, text)`.
    """

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._written = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _PARTS:
            raise AttributeError(f"a pattern has no {name}")
        pattern, flags = self._written
        made: re.Pattern[Any] = re.compile(pattern, flags)
        vars(self).update({part: getattr(made, part) for part in _PARTS})
        return getattr(made, name)


if TYPE_CHECKING:

    def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
        """Return a pattern."""
else:

    def lazy_pattern(pattern: str | bytes, flags: int = 0) -> LazyPattern:
        """Return a pattern."""
        return LazyPattern(pattern, flags)

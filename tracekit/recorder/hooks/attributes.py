"""Changes to what belongs to others, undone when nobody needs them any more: functions, filters of warnings."""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Callable, MutableSequence
from typing import cast

Function = Callable[..., object]
Make = Callable[[Function, Callable[[], bool]], Function]
"""Makes the replacement from (the original, a function that says whether it is still needed)."""


class _Replacement:
    """One attribute of one object. users: how many need it; at 0 the replacement hands everything on."""

    def __init__(self, owner: object, name: str, make: Make) -> None:
        self.owner, self.name, self.users = owner, name, 0
        self.own = name in vars(owner)
        self.original: Function = getattr(owner, name)
        self.function = make(self.original, lambda: self.users > 0)
        setattr(owner, name, self.function)

    def undo(self) -> bool:
        """Restore the attribute; False where somebody else has put something around ours meanwhile."""
        if vars(self.owner).get(self.name) is not self.function:
            return False
        if self.own:
            setattr(self.owner, self.name, self.original)
        else:
            delattr(self.owner, self.name)
        return True


class Attributes:
    """The attributes that are replaced now."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._replaced: dict[tuple[int, str], _Replacement] = {}

    def replace(self, owner: object, name: str, make: Make) -> Callable[[], None]:
        """Replace `owner.name` by `make(original, is_wanted)`, once for all callers; return a function that ends it.

        The last one that ends it restores the attribute. Where somebody has replaced ours by then, ours stays
        below it and only calls the original, since `is_wanted()` is False. Raises: AttributeError, TypeError where
        the attribute cannot be set.
        """
        with self._lock:
            key = (id(owner), name)
            if key not in self._replaced:
                self._replaced[key] = _Replacement(owner, name, make)  # keeps the owner alive, and so its id its own
            replacement = self._replaced[key]
            replacement.users += 1
        ended = False

        def end() -> None:
            nonlocal ended
            with self._lock:
                if ended:
                    return
                ended = True
                replacement.users -= 1
                if not replacement.users and replacement.undo():
                    del self._replaced[key]

        return end


def ignore_warning(message: str) -> Callable[[], None]:
    """Ignore warnings that start with this text; return a function that ends it."""
    pattern = re.escape(message)
    warnings.filterwarnings("ignore", message=pattern)

    def end() -> None:
        filters = cast(MutableSequence[object], warnings.filters)  # declared as a Sequence; it is a list
        for entry in [entry for entry in warnings.filters if getattr(entry[1], "pattern", None) == pattern]:
            with contextlib.suppress(ValueError):
                filters.remove(entry)

    return end

"""What belongs to others and is changed for as long as somebody needs it: functions, filters of warnings."""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

_Function = Callable[..., Any]


class _Replaced:
    """One attribute of one object. users: how many want it replaced; at 0 the replacement hands everything on."""

    def __init__(self, owner: Any, name: str, make: Callable[[_Function, Callable[[], bool]], _Function]) -> None:
        self.owner, self.name, self.users = owner, name, 0
        self.own = name in vars(owner)
        self.original: _Function = getattr(owner, name)
        self.function = make(self.original, lambda: self.users > 0)

    def put(self) -> None:
        setattr(self.owner, self.name, self.function)

    def take_away(self) -> bool:
        """Restore the attribute; False where somebody else has put something around ours meanwhile."""
        if vars(self.owner).get(self.name) is not self.function:
            return False
        if self.own:
            setattr(self.owner, self.name, self.original)
        else:
            delattr(self.owner, self.name)
        return True


class Attributes:
    """All that is replaced now."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._replaced: dict[tuple[int, str], _Replaced] = {}

    def replace(
        self, owner: Any, name: str, make: Callable[[_Function, Callable[[], bool]], _Function]
    ) -> Callable[[], None]:
        """Replace `owner.name` by `make(original, is_wanted)`, once for all who ask; return what ends that.

        The last one that ends it restores the attribute. Where another replacement lies over ours by then, ours stays
        below it and only calls the original, since `is_wanted()` is False. Raises: AttributeError, TypeError where
        the attribute cannot be set.
        """
        with self._lock:
            key = (id(owner), name)
            found = self._replaced.get(key)
            if found is None:
                found = _Replaced(owner, name, make)
                found.put()
                self._replaced[key] = found  # keeps the owner alive, and so its id its own
            found.users += 1
        kept = found
        ended = False

        def end() -> None:
            nonlocal ended
            with self._lock:
                if ended:
                    return
                ended = True
                kept.users -= 1
                if not kept.users and kept.take_away():
                    del self._replaced[key]

        return end


def ignore_warning(message: str) -> Callable[[], None]:
    """Ignore warnings that start with this text; return what ends that."""
    pattern = re.escape(message)
    warnings.filterwarnings("ignore", message=pattern)

    def end() -> None:
        for entry in list(warnings.filters):
            if getattr(entry[1], "pattern", None) == pattern:
                with contextlib.suppress(ValueError, AttributeError):
                    warnings.filters.remove(entry)  # type: ignore[attr-defined]

    return end

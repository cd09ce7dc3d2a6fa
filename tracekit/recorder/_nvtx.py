"""The recorder's NVTX side: the domain `tracekit`, its events' attributes, its counters.

The package nvtx is imported when recording starts, not with this module: it brings numpy. Where no tool is attached the
package hands out a dummy domain; then `open_domain` gives None, and a range does not even call it.
Source of the calls: nvtx 0.2.17, nvtx/nvtx.py and nvtx/_lib/lib.pyx.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
DOMAIN: Final = "tracekit"
MAX_NAME_BYTES: Final = 4096
INT64: Final = range(-(1 << 63), 1 << 63)


class _Counter(Protocol):
    def sample(self, value: float, /) -> None: ...


class _Domain(Protocol):
    """A domain of the package nvtx."""

    def get_event_attributes(
        self, message: str, color: int | None = None, category: str | None = None, payload: object = None, /
    ) -> object: ...
    def push_range(self, attributes: object, /) -> object: ...
    def pop_range(self) -> object: ...
    def mark(self, attributes: object, /) -> object: ...
    def start_range(self, attributes: object, /) -> int: ...
    def end_range(self, number: int, /) -> object: ...
    def get_counter(self, name: str, type: type[int] | type[float], /) -> _Counter: ...


class NvtxDomain:
    """An NVTX domain that a tool listens to. Every call gives None where NVTX refuses, and counts it."""

    __slots__ = ("_count", "_counters", "domain", "pop", "push")

    def __init__(self, domain: _Domain, count: Callable[[str], None]) -> None:
        self.domain = domain
        self.push: Callable[[object], object] = domain.push_range
        self.pop: Callable[[], object] = domain.pop_range
        self._counters: dict[tuple[str, bool], _Counter] = {}
        self._count = count

    def attributes(self, name: str, category: str | None, color: int | None) -> object:
        """Return a range's attributes, made once for a name; a bare event if NVTX refuses them."""
        attributes = self._safely(
            self.domain.get_event_attributes, nvtx_text(name), color, nvtx_text(category) if category else None
        )
        return attributes if attributes is not None else self.domain.get_event_attributes("?")

    def with_payload(self, name: str, category: str | None, color: int | None, payload: object, json: str) -> object:
        """Return attributes with a payload: numbers as they are, all else as its JSON text in bytes."""
        value = payload if _is_number(payload) else json.encode()
        text, group = nvtx_text(name), nvtx_text(category) if category else None
        attributes = self._safely(self.domain.get_event_attributes, text, color, group, value)
        return attributes if attributes is not None else self.attributes(name, category, color)

    def mark(self, attributes: object) -> None:
        """Send a mark."""
        self._safely(self.domain.mark, attributes)

    def start(self, attributes: object) -> int | None:
        """Begin a range that may end elsewhere; return NVTX's id of it."""
        number = self._safely(self.domain.start_range, attributes)
        return None if number is None else int(number)

    def end(self, number: int | None) -> None:
        """End a range that `start` began."""
        if number is not None:
            self._safely(self.domain.end_range, number)

    def sample(self, name: str, value: float | str) -> None:
        """Send a counter's value; NVTX counters came with nvtx 0.2.15, before that nothing is sent."""
        if isinstance(value, str) or not hasattr(self.domain, "get_counter"):
            return
        key = (name, isinstance(value, int))
        counter = self._counters.get(key)
        if counter is None:
            counter = self._safely(self.domain.get_counter, nvtx_text(name), int if key[1] else float)
            if counter is None:
                return
            self._counters[key] = counter
        self._safely(counter.sample, value)

    def _safely(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return call(*args, **kwargs)
        except Exception:  # noqa: BLE001 - whatever a tool or the package refuses must not reach the host
            self._count("nvtx_refused")
            return None


def open_domain(count: Callable[[str], None]) -> NvtxDomain | None:
    """Return the domain `tracekit`, or None: no nvtx package, NVTX_DISABLE is set, or no tool is attached."""
    try:
        import nvtx

        domain = nvtx.get_domain(DOMAIN)
        if type(domain).__name__ == "DummyDomain" or not nvtx.enabled():
            return None
        return NvtxDomain(domain, count)
    except Exception:  # noqa: BLE001 - a broken package or tool costs the NVTX side, not the host
        return None


def nvtx_text(text: str) -> str:
    """Return the text as a C string can hold it: no NUL, at most MAX_NAME_BYTES.

    >>> nvtx_text("a\\0b")
    'a\\u2400b'
    """
    text = text.replace("\0", "\u2400")
    if len(text) * 4 <= MAX_NAME_BYTES:
        return text
    return text.encode()[:MAX_NAME_BYTES].decode("utf-8", "ignore")


def _is_number(payload: object) -> bool:
    return (type(payload) is int and payload in INT64) or type(payload) is float

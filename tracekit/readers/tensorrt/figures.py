"""Numbers and JSON as trtexec writes them: C++ streams with six digits, names of layers without escapes."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from tracekit.model.units import MAX_NS, to_ns

if TYPE_CHECKING:
    from tracekit.readers.source import Source

__all__ = ["NUMBER", "decoded", "exact_ns", "ns_of"]

NUMBER = r"[-+]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE][-+]?[0-9]{1,3})?|nan(?:\([a-z]{0,9}\))?|inf)"
"""A number as C++ prints a float; a mean of nothing is not a number."""
_BOM = b"\xef\xbb\xbf"


def decoded(source: Source) -> tuple[bytes, object]:
    """Return the bytes of a file, and the object in it; None where it is not JSON."""
    import orjson

    data = source.read_whole().removeprefix(_BOM)
    found: object = None
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        found = None
    return data, found


def exact_ns(value: object) -> int | None:
    """Return ms as whole ns, None for other values. A fraction of a ns (digits of a float) is rounded half to even.

    >>> exact_ns("31.3879"), exact_ns(0.004544), exact_ns("-nan")
    (31387900, 4544, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = to_ns(value if isinstance(value, str) else repr(value), "ms")
    except ValueError:
        return None
    return found if found >= 0 else None


def ns_of(value: object) -> float | None:
    """Return ms as ns with its fraction, for means; None for what is not a time.

    >>> ns_of(0.00474854)
    4748.54
    """
    if exact_ns(value) is None:
        return None
    found = Decimal(value if isinstance(value, str) else repr(value)).scaleb(6)
    return float(found) if abs(found) < MAX_NS else None

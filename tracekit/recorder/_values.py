"""Values from the program, made safe for JSON and NVTX: texts, colours, payloads, counter values.

Nothing here raises for a value. A value that cannot be kept as it is becomes text and is counted.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any, Final

from tracekit.recorder import log_format
from tracekit.recorder._process import orjson

Count = Callable[[str], None]
"""Takes a note code of log_format.NOTE_CODES, once for each case."""

MAX_PAYLOAD_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32
_OPTIONS: Final = 0 if orjson is None else orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY

# Both take any object and raise TypeError for a wrong one. Asking first, by isinstance and a protocol, takes 5 us.
_to_index: Final[Callable[[Any], int]] = operator.index
_to_float: Final[Callable[[Any], float]] = float

# The names that the nvtx package knows without matplotlib (nvtx/colors.py), and their values there.
COLORS: Final = {
    "green": 0x008000,
    "blue": 0x0000FF,
    "yellow": 0xFFFF00,
    "purple": 0x800080,
    "rapids": 0x7400FF,
    "cyan": 0x00FFFF,
    "red": 0xFF0000,
    "white": 0xFFFFFF,
    "darkgreen": 0x006400,
    "orange": 0xFFA500,
    "black": 0x000000,
    "gray": 0x808080,
    "grey": 0x808080,
    "magenta": 0xFF00FF,
    "brown": 0xA52A2A,
    "pink": 0xFFC0CB,
}


def text_of(value: object, count: Count) -> str:
    """Return the value as text that UTF-8 can hold.

    The methods of the value's own class may do anything, and must not reach the host. So of a subclass of str only the
    characters are used.
    """
    if type(value) is str and value.isprintable():
        return value
    try:
        text = str.__str__(value) if issubclass(type(value), str) else str(value)
        clean = log_format.clean_text("".join((text,)) if type(text) is not str else text)
    except Exception:  # noqa: BLE001 - of the value's class
        text, clean = "", f"<{_type_name(value)}>"
    if clean != text or not issubclass(type(value), str):
        count("name_repaired")
    return clean


def color_of(value: object, count: Count) -> int | None:
    """Return 0xRRGGBB for "#RRGGBB", "#RGB", a name of COLORS or an integer (its alpha is dropped); None if unknown."""
    if value is None:
        return None
    number = integer_of(value)
    if number is not None and number >= 0:
        return number & 0xFFFFFF
    if issubclass(type(value), str):
        text = str.__str__(value)
        if text.lower() in COLORS:
            return COLORS[text.lower()]
        if re.fullmatch("#[0-9a-fA-F]{6}", text):
            return int(text[1:], 16)
        if re.fullmatch("#[0-9a-fA-F]{3}", text):
            return int("".join(digit * 2 for digit in text[1:]), 16)
    count("color_refused")
    return None


def number_of(value: object, count: Count) -> float | str | None:
    """Return a counter's value as the log holds it; None for what is not a number (NumPy and torch scalars are)."""
    try:
        if isinstance(value, int | float):
            return log_format.counter_value(value)
        index = integer_of(value)
        return log_format.counter_value(_to_float(value) if index is None else index)
    except Exception:  # noqa: BLE001 - __float__ is the user's
        count("value_refused")
        return None


def integer_of(value: object) -> int | None:
    """Return an integer of Python, NumPy or torch, None for anything else."""
    try:
        return _to_index(value)
    except Exception:  # noqa: BLE001 - __index__ is the user's
        return None


def payload_json(payload: object, count: Count) -> str:
    """Return the payload as JSON of at most MAX_PAYLOAD_BYTES, taken now: it may change after the call.

    The result is a text, because orjson's bytes keep the memory of its whole buffer (a KiB and more) while they live.
    """

    def as_text(value: object) -> str:
        count("payload_as_text")
        return repr_of(value)

    try:
        data = orjson.dumps(payload, default=as_text, option=_OPTIONS)
        if b"null" in data:  # orjson writes null for a float that JSON cannot hold
            data = orjson.dumps(plain(payload, count), default=as_text, option=_OPTIONS)
    except Exception:  # noqa: BLE001 - lone surrogates, integers past 64 bits, circles, a user's own __repr__
        try:
            data = log_format.encode({"p": plain(payload, count)})[5:-2]
        except Exception:  # noqa: BLE001 - a class of the program between a type of JSON and its methods
            count("payload_as_text")
            data = log_format.encode({"p": repr_of(payload)})[5:-2]
    if len(data) <= MAX_PAYLOAD_BYTES:
        return data.decode()
    count("payload_cut")
    return orjson.dumps(data[:MAX_PAYLOAD_BYTES].decode("utf-8", "ignore")).decode()


def plain(value: object, count: Count, depth: int = 0) -> object:
    """Return the value in JSON's own types: no circle deeper than MAX_DEPTH, no NaN, texts that UTF-8 can hold."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else log_format.counter_value(value)
    if isinstance(value, str):
        return log_format.clean_text(value)
    if depth < MAX_DEPTH:
        if isinstance(value, dict):
            return {
                log_format.clean_text(key if isinstance(key, str) else repr_of(key)): plain(item, count, depth + 1)
                for key, item in list(value.items())
            }
        if isinstance(value, list | tuple):
            return [plain(item, count, depth + 1) for item in list(value)]
    count("payload_as_text")
    return repr_of(value)


def repr_of(value: object) -> str:
    """Return the value's repr, clean."""
    try:
        return log_format.clean_text(repr(value))
    except Exception:  # noqa: BLE001 - a user's __repr__ may do anything, and must not reach the host
        return f"<{_type_name(value)}>"


def _type_name(value: object) -> str:
    """Return the name of a value's class, whatever the class of that class does."""
    return log_format.clean_text(str(type.__dict__["__name__"].__get__(type(value))))

"""Pickles of plain containers: a file that would do more than build them is refused before anything is built.

The instructions of a pickle are a program. Only those are accepted that make numbers, texts, lists, dicts and tuples of
integers, none that names a class or a function. One regular expression matches whole runs of them, so a file is checked
about as fast as it is read. Nested tuples are refused: the hash of a deep one would end Python.
"""

from __future__ import annotations

import io
import pickle
import re
import struct

PROTOCOLS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_WHOLE = rb"(?:K.|M..|J.{4}|\x8a(?:\x00|\x01.|\x02.{2}|\x03.{3}|\x04.{4}|\x05.{5}|\x06.{6}|\x07.{7}|\x08.{8}|\x09.{9}))"
_RUN = re.compile(
    rb"(?:h.|j.{4}|"
    + rb"|".join((_WHOLE + _WHOLE + rb"\x86", _WHOLE + rb"\x85", rb"\(" + _WHOLE + rb"*t", _WHOLE))
    + rb"|[\x94})\](aeusN\x88\x89]|q.|G.{8}|\x95.{8})++",
    re.DOTALL,
)
_TEXTS = {0x8C: (1, "<B"), ord("X"): (4, "<I"), 0x8D: (8, "<Q"), ord("C"): (1, "<B"), ord("B"): (4, "<I")}
_PUT = ord("r")
_STOP = ord(".")


class NotPlain(ValueError):
    """The reason why a pickle is not read, in words."""


def _check(data: bytes) -> int:
    """Return where the pickle ends. Raises: NotPlain."""
    place = 2
    end = len(data)
    while place < end:
        if found := _RUN.match(data, place):
            place = found.end()
            continue
        code = data[place]
        if code == _STOP:
            return place + 1
        if code in _TEXTS:
            size, form = _TEXTS[code]
            head = data[place + 1 : place + 1 + size]
            if len(head) < size or (place := place + 1 + size + struct.unpack(form, head)[0]) > end:
                break
        elif code == _PUT and place + 5 <= end:
            # The list of remembered objects is as long as its largest number.
            if struct.unpack("<I", data[place + 1 : place + 5])[0] > place:
                raise NotPlain(f"an instruction at byte {place:,} that no snapshot has")
            place += 5
        elif end - place < 12:
            break
        else:
            raise NotPlain(f"an instruction at byte {place:,} that no snapshot has: it could run code")
    raise NotPlain("the file ends within the pickle, which can only be read whole")


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        raise NotPlain(f"it asks for {module}.{name}"[:200])

    def persistent_load(self, pid: object) -> object:
        raise NotPlain(f"it refers to objects outside of the file ({type(pid).__name__})")


def load(data: bytes) -> object:
    """Return the object of a pickle. Raises: NotPlain for any other than plain containers, and for damage."""
    if not data.startswith(PROTOCOLS):
        raise NotPlain("not a pickle of protocol 2 to 5")
    end = _check(data)
    try:
        return _PlainUnpickler(io.BytesIO(data[:end])).load()
    except NotPlain:
        raise
    except Exception as err:  # damage shows as any error: a missing key, a list that is a number
        raise NotPlain(f"the pickle is damaged ({type(err).__name__})") from err

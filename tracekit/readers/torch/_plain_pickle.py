"""Pickles of plain containers: a file that would do more than build them is refused before anything is built.

The instructions of a pickle are a program. Only those are accepted that make numbers, texts, lists, dicts and tuples of
integers or texts, none that names a class or a function. One regular expression matches whole runs of them, so a file
is checked about as fast as it is read. Nested tuples are refused: the hash of a deep one would end Python.
"""

from __future__ import annotations

import io
import pickle
import re
import struct

PROTOCOLS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_WHOLE = rb"(?:K.|M..|J.{4}|\x8a(?:\x00|\x01.|\x02.{2}|\x03.{3}|\x04.{4}|\x05.{5}|\x06.{6}|\x07.{7}|\x08.{8}|\x09.{9}))"
_TOKEN = (
    rb"(?:h.|j.{4}|"
    + rb"|".join((_WHOLE + _WHOLE + rb"\x86", _WHOLE + rb"\x85", rb"\(" + _WHOLE + rb"*t", _WHOLE))
    + rb"|[\x94})\](aeusN\x88\x89]|q.|G.{8}|\x95.{8})"
)
_RUN = re.compile(_TOKEN + rb"++", re.DOTALL)
_TOKENS = re.compile(_TOKEN, re.DOTALL)
_TEXTS = {0x8C: (1, "<B"), ord("X"): (4, "<I"), 0x8D: (8, "<Q"), ord("C"): (1, "<B"), ord("B"): (4, "<I")}
_PUT = ord("r")
_STOP = ord(".")
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}


class NotPlain(ValueError):
    """The reason why a pickle is not read, in words."""


_GET, _LONG_GET, _SHORT_PUT, _MEMOIZE = b"hjq\x94"
_PUTS = frozenset({_SHORT_PUT, _MEMOIZE})
_NEEDED = 3
"""Instructions that a tuple is made of, at most."""


class _RememberedTexts:
    """Numbers of the remembered objects that are texts, and whether the last instructions pushed texts.

    A tuple is plain if the instructions just before it pushed texts and nothing else: a tuple in it would be one of the
    remembered objects. So a number that was a text once must stay one.
    """

    def __init__(self) -> None:
        self._texts: set[int] = set()
        self._taken: set[int] = set()
        self._last: list[bool] = []

    def run(self, tokens: list[bytes]) -> None:
        """Take the instructions of a run."""
        for at in [at for at, token in enumerate(tokens) if token[0] in _PUTS]:
            before = self._pushed(tokens, at, 1)
            # Pickle counts the remembered objects, so numbers that were given with them count as well.
            number = tokens[at][1] if tokens[at][0] == _SHORT_PUT else len(self._taken)
            self._put(number, (before or self._last or [False])[-1])
        self._last = (self._last + self._pushed(tokens, len(tokens), _NEEDED))[-_NEEDED:]

    def _pushed(self, tokens: list[bytes], end: int, count: int) -> list[bool]:
        """Return whether each of the last instructions before a place is a text; what only remembers does not count."""
        found: list[bool] = []
        at = end - 1
        while at >= 0 and len(found) < count:
            if tokens[at][0] not in _PUTS:
                found.append(self._is_text(tokens[at]))
            at -= 1
        return found[::-1]

    def _is_text(self, token: bytes) -> bool:
        if token[0] == _GET:
            return token[1] in self._texts
        return token[0] == _LONG_GET and int.from_bytes(token[1:], "little") in self._texts

    def text(self) -> None:
        """Take a text."""
        self._last = [*self._last, True][-_NEEDED:]

    def made(self) -> None:
        """Take a tuple."""
        self._last = [*self._last, False][-_NEEDED:]

    def put(self, number: int) -> None:
        """Remember what is on top under a number."""
        self._put(number, bool(self._last) and self._last[-1])

    def _put(self, number: int, is_text: bool) -> None:
        """Remember a text, or another object. Raises: NotPlain where the number was that of the other kind."""
        if number in self._taken and is_text != (number in self._texts):
            raise NotPlain("it uses a number of a remembered text for something else")
        self._taken.add(number)
        if is_text:
            self._texts.add(number)

    def are_texts(self, count: int) -> bool:
        """Return whether the last instructions pushed so many texts."""
        return self._last[-count:] == [True] * count


def _check(data: bytes, kind: str) -> int:
    """Return where the pickle ends. Raises: NotPlain."""
    place = 2
    end = len(data)
    remembered = _RememberedTexts() if b"\x86" in data or b"\x85" in data or b"\x87" in data else None
    while place < end:
        if found := _RUN.match(data, place):
            if remembered is not None:
                remembered.run(_TOKENS.findall(data, place, found.end()))
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
            if remembered is not None:
                remembered.text()
        elif code == _PUT and place + 5 <= end:
            number = struct.unpack("<I", data[place + 1 : place + 5])[0]
            # The list of remembered objects is as long as its largest number.
            if number > place:
                raise NotPlain(f"an instruction at byte {place:,} that no {kind} has")
            if remembered is not None:
                remembered.put(number)
            place += 5
        elif code in _TUPLES and remembered is not None and remembered.are_texts(_TUPLES[code]):
            remembered.made()
            place += 1
        elif end - place < 12:
            break
        else:
            raise NotPlain(f"an instruction at byte {place:,} that no {kind} has: it could run code")
    raise NotPlain("the file ends within the pickle, which can only be read whole")


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        raise NotPlain(f"it asks for {module}.{name}"[:200])

    def persistent_load(self, pid: object) -> object:
        raise NotPlain(f"it refers to objects outside of the file ({type(pid).__name__})")


def load(data: bytes, kind: str = "snapshot") -> object:
    """Return the object of a pickle. kind: the word for such files.

    Raises: NotPlain for any other than plain containers, and for damage.
    """
    if not data.startswith(PROTOCOLS):
        raise NotPlain("not a pickle of protocol 2 to 5")
    end = _check(data, kind)
    try:
        return _PlainUnpickler(io.BytesIO(data[:end])).load()
    except NotPlain:
        raise
    except Exception as err:  # damage shows as any error: a missing key, a list that is a number
        raise NotPlain(f"the pickle is damaged ({type(err).__name__})") from err

"""The part of an input that sniffers see."""

from __future__ import annotations

from tracekit.lazy_dataclass import dataclass

__all__ = ["Head", "begun"]


@dataclass(frozen=True, slots=True)
class Head:
    """The part of an input that sniffers see: at most 64 KiB, its name, and the names of an SQLite file's tables.

    data: decompressed, text as UTF-8.
    beside: names of the tables in the folder of a file that is one table of an export of Nsight Systems.
    complete: `data` is the whole input. text: `data` holds no NUL and decodes as UTF-8 but for a few bytes.
    """

    name: str
    data: bytes
    complete: bool = True
    text: bool = True
    tables: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()

    def lines(self) -> list[bytes]:
        """Return the lines without their ends; the last one may be cut."""
        return self.data.splitlines()


def begun(text: bytes) -> bytes:
    """Return a JSON text from its first bracket on: pieces of a trace that was written in parts begin with a comma."""
    text = text.lstrip()
    return text.lstrip(b", \t\r\n") if text[:1] == b"," else text

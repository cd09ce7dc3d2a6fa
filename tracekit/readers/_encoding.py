"""Text as bytes: its encoding, whether it is text at all, and clean UTF-8 out of it, with every repair noted."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from tracekit.trace import Ledger

_GROUP_OF_WINDOWS = re.compile(rb"(?<=\d)[\xa0\x92](?=\d{3})")
_MICRO_OF_WINDOWS = re.compile(rb"(?<=[\d ;,\t(\"])\xb5(?=s\b)")


def of_windows(data: bytes) -> bytes:
    r"""Return the same bytes with the signs of numbers in Windows-1252 as UTF-8, where nothing else can be meant.

    >>> of_windows(b"1\xa0234 us, 12 \xb5s").decode()
    "1'234 us, 12 µs"
    """
    return _MICRO_OF_WINDOWS.sub("\N{MICRO SIGN}".encode(), _GROUP_OF_WINDOWS.sub(b"'", data))


def encoding_of(head: bytes) -> str:
    """Return "utf-16-le", "utf-16-be", or "" for UTF-8: PowerShell's `>` writes UTF-16 with a byte order mark."""
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    sample = head[:2048]
    if len(sample) >= 8 and b"\0\0" not in sample:
        if sample[1::2].count(0) > 0.8 * len(sample) / 2 and not sample[0::2].count(0):
            return "utf-16-le"
        if sample[0::2].count(0) > 0.8 * len(sample) / 2 and not sample[1::2].count(0):
            return "utf-16-be"
    return ""


def is_text(head: bytes) -> bool:
    """Return whether the beginning of an input is text, but for a few bytes."""
    # A text log padded with NUL after a crash is text still.
    head = head.rstrip(b"\0")
    bad = head.count(b"\0") + head.decode("utf-8", "replace").count("\ufffd")
    return bad <= 2 + len(head) // 20


def as_utf8(chunks: Iterator[bytes], ledger: Ledger) -> Iterator[bytes]:
    """Yield the same text as UTF-8 without a byte order mark, lines ended by a newline."""
    first, seen, returns = True, False, False
    decoder: codecs.IncrementalDecoder | None = None
    for chunk in chunks:
        data = chunk
        if first:
            first = False
            if encoding := encoding_of(data):
                decoder = codecs.getincrementaldecoder(encoding)("replace")
                ledger.note("utf-16", "the text is UTF-16 (PowerShell's > writes it so); it was read as such")
            else:
                data = data.removeprefix(codecs.BOM_UTF8)
        if decoder is not None:
            data = decoder.decode(data).replace("\ufeff", "").encode("utf-8", "replace")
        if not seen:
            seen = True
            returns = b"\r" in data and b"\n" not in data
            if returns:
                ledger.note("cr-line-ends", "lines end with a carriage return alone; they were read as lines")
        yield data.replace(b"\r", b"\n") if returns else data
    if decoder is not None and (rest := decoder.decode(b"", final=True)):
        yield rest.encode("utf-8", "replace")


def cleaned(data: bytes, offset: int, ledger: Ledger) -> bytes:
    """Return the same text with U+FFFD for each byte that is no UTF-8."""
    if data.isascii():
        return data
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as err:
        data = of_windows(data)
        text = data.decode("utf-8", "replace")
        if "\ufffd" not in text:
            ledger.note("windows-1252", "numbers have signs of Windows-1252", where=f"byte {offset + err.start}")
            return data
        ledger.note("not-utf-8", "bytes that are not UTF-8 were replaced by U+FFFD", where=f"byte {offset + err.start}")
        return text.encode("utf-8")
    return data

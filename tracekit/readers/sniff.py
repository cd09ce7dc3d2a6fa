"""identify(source, readers): which reader knows this input. Foreign and closed formats get the advice that helps."""

from __future__ import annotations

from collections.abc import Iterable

from tracekit.errors import AmbiguousFormatError, UnknownFormatError
from tracekit.readers.base import Confidence, Head, Reader
from tracekit.readers.source import SQLITE_MAGIC, Source


def identify(source: Source, readers: Iterable[Reader]) -> Reader:
    """Return the reader whose sniffer is sure; without one, the single reader that says MAYBE.

    Raises: UnknownFormatError with a hint of its own for formats that are known to be closed or foreign;
    AmbiguousFormatError, which names the candidates.
    """
    head = source.head()
    votes = [(reader.sniff(head), reader) for reader in readers]
    for wanted in (Confidence.YES, Confidence.MAYBE):
        found = [reader for vote, reader in votes if vote is wanted]
        if len(found) == 1:
            return found[0]
        if found:
            raise AmbiguousFormatError(source.name, [reader.name for reader in found])
    raise _unknown(source, head)


def _unknown(source: Source, head: Head) -> UnknownFormatError:
    reason, hint = _why(head)
    return UnknownFormatError(source.name, reason, hint=hint)


def _why(head: Head) -> tuple[str, str]:
    """Return what the input seems to be, and what to do; "" for the general hint."""
    data, name = head.data, head.name.lower()
    if not data.strip(b"\0 \t\r\n"):
        return "the file is empty", "was the program killed before the profiler wrote it?"
    if name.endswith((".nsys-rep", ".qdrep", ".qdstrm")):
        stem = head.name.rsplit(".", 1)[0]
        return (
            "Nsight Systems' closed binary report",
            f"export it: nsys export --type sqlite -o {stem}.sqlite {head.name}",
        )
    if name.endswith((".ncu-rep", ".nsight-cuprof-report")):
        return "Nsight Compute's closed binary report", f"export it: ncu --import {head.name} --csv > report.csv"
    if name.endswith(".xplane.pb"):
        return "a TensorBoard xplane file", "open the trace.json.gz that lies beside it in the same folder"
    if data.lstrip().startswith(b"<?xml") and b"<session" in data:
        return (
            "a Visual Profiler session in XML: settings without a timeline",
            "make the profile again with: nvprof -o run.nvprof PROGRAM",
        )
    if data.startswith(SQLITE_MAGIC):
        return "an SQLite database without the tables of nvprof or Nsight Systems", ""
    if data.startswith(b"PK\x03\x04"):
        return "a zip archive", "unpack it first"
    if not head.text:
        return "a binary file", ""
    first = next((line for line in head.lines() if line.strip()), b"")[:60].decode("utf-8", "replace").strip()
    return f"text that begins with {first!r}", ""

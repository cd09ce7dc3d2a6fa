"""C++ names: demangled once for each distinct name, bounded, the file's own spelling kept.

A mangled name refers back to its own parts, so its text can grow as 2^references: 225 bytes become 138 MB, 30 more
become many GB (measured with libstdc++ 12, tests/readers/test_names.py makes such names). The bound must hold before
memory and time are spent, so a name goes into this process's demangler only where its references are so few that the
text provably stays small; all others go to a child with limits (`_demangle_child.py`), which starts in some 12 ms.

A name that cannot be demangled within the bounds keeps its own spelling, with a note.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow
from tracekit.model.arrow import Column, DictColumn, pc
from tracekit.model.trace import Ledger
from tracekit.readers._demangle_child import LONGEST
from tracekit.readers.builder import map_texts

__all__ = [
    "ANSWER_SECONDS",
    "BATCH_TEXT_BYTES",
    "CACHED_BYTES",
    "CACHED_NAMES",
    "CHILD_STARTS",
    "TOO_LONG_NAMES",
    "Demangler",
    "Pair",
    "is_mangled",
    "provably_small",
]

CHILD_STARTS = 8
"""A child that dies (CPU time, a crash of the demangler) is replaced; not more often than this for one input."""
TOO_LONG_NAMES = 8
"""After so many refusals the child gets no more names: each costs up to a quarter of a second."""
ANSWER_SECONDS = 10.0
BATCH_TEXT_BYTES = 64 << 20
"""Demangled text that one batch may bring into memory; names beyond it keep their own spelling."""
CACHED_BYTES = 64 << 20
CACHED_NAMES = 1 << 17

_IN_PROCESS_NAME = 1024
"""Longer names may recurse deeply in demanglers that do not limit it (libstdc++ before GCC 9)."""
_IN_PROCESS_TEXT = 256 << 10
_TEXT_OF_A_BYTE = 32
"""Most text that one byte of a name makes by itself: `o` is "unsigned __int128", 20 with its ", "."""

_SUBSTITUTIONS = lazy_pattern(r"S(?=[0-9A-Z_])")
_TEMPLATE_PARAMETERS = lazy_pattern(r"T(?=[0-9_L])")
_REPEATED = lazy_pattern(r"[CD](?=[0-9])")
_PACKS = lazy_pattern("Dp|sp|sZ|sP|f[lrLR]")
_ORDERS = (1, 3, 19, 271)
"""Ways through 0 to 3 references when each may be taken twice, in any order: what template parameters allow, since what
they stand for depends on where they are printed. (The demangler stops at a third visit of the same part.)"""

Pair = tuple[str, str | None]


def is_mangled(text: str) -> bool:
    """Return whether a text begins as a name of the Itanium C++ ABI; macOS puts underscores before it."""
    return text.startswith(("_Z", "__Z", "___Z"))


def provably_small(text: str) -> bool:
    """Return whether the demangled text cannot exceed 256 KiB, whatever the name means.

    Counts every place that could be a reference; letters of identifiers that look like one are counted too. A
    substitution S<n>_ repeats a part before it, so each at most doubles the text.

    >>> provably_small("_Z22matrix_powers_kernel_3PfS_S_iiib")
    True
    >>> provably_small("_Z1fSt4pairIiiES_IS0_S0_ES_IS1_S1_ES_IS2_S2_ES_IS3_S3_E")
    False
    """
    if len(text) > _IN_PROCESS_NAME or _PACKS.search(text):
        return False
    base = (_TEXT_OF_A_BYTE + len(_REPEATED.findall(text))) * len(text)
    references = len(_SUBSTITUTIONS.findall(text))
    parameters = len(_TEMPLATE_PARAMETERS.findall(text))
    if not parameters:
        return base << min(references, 40) <= _IN_PROCESS_TEXT
    references += parameters
    return references < len(_ORDERS) and base * _ORDERS[references] <= _IN_PROCESS_TEXT


class Demangler:
    """C++ names of one input to readable ones; `close` ends the child, if one was started.

    enabled: False leaves all names as they are. forgot: how often the names known so far were too many and forgotten.
    """

    def __init__(self, ledger: Ledger, *, enabled: bool = True) -> None:
        self._ledger = ledger
        self._enabled = enabled
        self.forgot = 0
        self._known: dict[str, Pair] = {}
        self._known_bytes = 0
        self._child: _Child | None = None
        self._starts = 0
        self._too_long = 0

    def close(self) -> None:
        """End the child. The demangler can be used again."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def one(self, text: str) -> Pair:
        """Return the readable name, and the file's own spelling where it differs, else None."""
        if not text.startswith("_"):  # nearly every one: it is no mangled name
            return text, None
        known = self._known.get(text)
        if known is None:
            name = self._demangled(text) if self._enabled and is_mangled(text) else text
            known = (name, None if name == text else text)
            self._known_bytes += len(text) + len(name)
            if self._known_bytes > CACHED_BYTES or len(self._known) >= CACHED_NAMES:
                self._known.clear()
                self.forgot += 1
                self._known_bytes = len(text) + len(name)
            self._known[text] = known
        return known

    def columns(self, names: Column) -> tuple[DictColumn, DictColumn | None]:
        """Return the columns name and raw_name of a text column (string or dictionary, nulls stay null).

        raw_name is null where it equals the name; None when nothing differs. Each distinct text is demangled once.
        """
        encoded = arrow.encoded(names)
        encoded = pa.DictionaryArray.from_arrays(
            pc.cast(encoded.indices, pa.int32()), pc.cast(encoded.dictionary, pa.string())
        )
        if not self._enabled or not pc.any(pc.starts_with(encoded.dictionary, "_")).as_py():
            return encoded, None
        pairs: dict[str, Pair] = {}
        left = BATCH_TEXT_BYTES
        for text in arrow.optional_texts(encoded.dictionary):
            if text is None or text in pairs:
                continue
            pair = self.one(text)
            left -= len(pair[0])
            if left < 0 and pair[1] is not None:
                self._note_too_long()
                pair = (text, None)
            pairs[text] = pair
        if all(raw is None for _, raw in pairs.values()):
            return encoded, None
        return map_texts(encoded, lambda text: pairs[text][0]), map_texts(encoded, lambda text: pairs[text][1])

    def _demangled(self, text: str) -> str:
        in_process = _default_demangler()
        if in_process is None:
            self._ledger.note(
                "names-not-demangled", "C++ names were left as they are: no demangler (cxxfilt, libstdc++) is here"
            )
            return text
        if "\0" in text:
            return text
        mangled = text[text.index("Z") - 1 :]
        if provably_small(mangled):
            found = in_process(mangled)
        else:
            found = self._by_child(mangled)
        return text if found is None else found

    def _by_child(self, mangled: str) -> str | None:
        data = mangled.encode("utf-8", "surrogatepass")
        if len(data) > LONGEST or self._too_long >= TOO_LONG_NAMES:
            self._note_too_long()
            return None
        if self._child is None:
            if self._starts >= CHILD_STARTS:
                self._note_too_long()
                return None
            self._starts += 1
            self._child = _start_child()
            if self._child is None:
                self._starts = CHILD_STARTS
                self._note_too_long()
                return None
        status, found = self._child.ask(data)
        if status == b"=":
            return found.decode("utf-8", "replace")
        if status == b"?":
            if len(data) > _IN_PROCESS_NAME:  # libstdc++ since GCC 9 refuses what may recurse deeply
                self._note_too_long()
            return None
        self._too_long += 1
        self._note_too_long()
        if status == b"":
            self.close()
        return None

    def _note_too_long(self) -> None:
        self._ledger.note(
            "name-too-long", "a C++ name was left as it is: demangling it would take too much text, memory or time"
        )


@lru_cache(maxsize=1)
def _library() -> str | None:
    """Return the C++ library that cxxfilt found; None without cxxfilt or library (Windows)."""
    try:
        import cxxfilt
    except ImportError:
        return None
    name = getattr(cxxfilt.default_demangler, "_libcxx_name", None)
    return str(name) if name else None


@lru_cache(maxsize=1)
def _default_demangler() -> Callable[[str], str | None] | None:
    if _library() is None:
        return None
    import cxxfilt

    def demangle(name: str) -> str | None:
        try:
            return str(cxxfilt.demangle(name))
        except (cxxfilt.Error, UnicodeError):
            return None

    return demangle


class _Child:
    """The running child; it ends with this object."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.stop = weakref.finalize(self, _end, process)

    def ask(self, name: bytes) -> tuple[bytes, bytes]:
        """Return status and text of a name; an empty status when the child died or does not answer."""
        pipe = self._process.stdin
        try:
            if pipe is not None:
                pipe.write(struct.pack(">I", len(name)) + name)
                pipe.flush()
        except OSError:
            return b"", b""
        head = self.read(5)
        if len(head) < 5:
            return b"", b""
        length = min(struct.unpack(">I", head[1:])[0], LONGEST)
        found = self.read(length)
        return (head[:1], found) if len(found) == length else (b"", b"")

    def read(self, count: int) -> bytes:
        """Return `count` bytes, fewer when the child died or took too long."""
        out = b""
        deadline = time.monotonic() + ANSWER_SECONDS
        pipe = self._process.stdout
        while pipe is not None and len(out) < count:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(pipe.fileno(), count - len(out)) if ready else b""
            if not data:
                break
            out += data
        return out


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:  # the child died with a request in the pipe
                continue
    process.wait()


def _start_child() -> _Child | None:
    """Return a child whose limits hold, or None where that cannot be had."""
    library = _library()
    script = Path(__file__).with_name("_demangle_child.py")
    if library is None or not sys.executable or not script.is_file() or os.name != "posix":
        return None
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            close_fds=True,
        )
    except OSError:
        return None
    child = _Child(process)
    if child.read(1) == b"L":
        return child
    child.stop()
    return None

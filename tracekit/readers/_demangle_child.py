"""A small program that demangles names under limits of memory and CPU time; `_names.py` alone starts it.

    python -I -S _demangle_child.py NAME_OF_THE_CXX_LIBRARY

stdin: for each name its length (4 bytes, big endian) and its bytes. stdout: first one byte, "L" when time can be
limited here, else "U"; then for each name a status byte, a length and the text. Status: "=" demangled,
"?" not a name of the C++ ABI, "!" longer than LONGEST bytes or beyond the memory that is allowed here.
"""

from __future__ import annotations

import ctypes
import signal
import struct
import sys
from typing import BinaryIO

LONGEST = 64 << 10
"""Longest demangled text that is kept. 225 bytes of nested substitutions demangle to 138 MB."""
MEMORY_BYTES = 96 << 20
"""Address space of this process: the interpreter takes some 15 MiB, so a text may grow to 64 MiB."""
CPU_SECONDS = 0.25
"""CPU time of one name. The demangler goes on through all of a text that has found no memory, so time needs a bound of
its own; at the end of it the system ends this process."""


def _limit_memory() -> None:
    """Bound memory where the system can; elsewhere (macOS) a quarter of a second bounds it to some 100 MB."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    except (ImportError, OSError, ValueError):
        return


def _serve(library: str, requests: BinaryIO, answers: BinaryIO) -> None:
    libc, cxx = ctypes.CDLL(None), ctypes.CDLL(library)
    demangle = cxx.__cxa_demangle
    demangle.restype = ctypes.c_void_p
    libc.free.argtypes = libc.strlen.argtypes = [ctypes.c_void_p]
    libc.strlen.restype = ctypes.c_size_t
    _limit_memory()
    limited = hasattr(signal, "setitimer")
    answers.write(b"L" if limited else b"U")
    answers.flush()
    while limited and len(head := requests.read(4)) == 4:
        name = requests.read(struct.unpack(">I", head)[0])
        status = ctypes.c_int()
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
        text = demangle(name, None, None, ctypes.byref(status))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if text is None:
            # -1: no memory for the text. -2: not a name of the ABI.
            answer = b"?" if status.value == -2 else b"!"
            found = b""
        elif (length := libc.strlen(text)) > LONGEST:
            answer, found = b"!", b""
        else:
            answer, found = b"=", ctypes.string_at(text, length)
        libc.free(text)
        answers.write(answer + struct.pack(">I", len(found)) + found)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1], sys.stdin.buffer, sys.stdout.buffer)

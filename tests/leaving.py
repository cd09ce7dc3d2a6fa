"""A quick end of the interpreter, for forks of a process that has many libraries."""

from __future__ import annotations

import atexit
import ctypes
import sys

_TORN_DOWN = {"tracekit", "__main__", "sys", "builtins"}


def keep_libraries() -> None:
    """Let the interpreter end without taking the modules of libraries apart, which took 26 ms of 66 for each command.

    Everything else of the end happens: exit functions, streams that are flushed, threads that are waited for, and the
    modules and objects of tracekit. To be called before libraries are imported, so that it runs after
    their exit functions.
    """

    @atexit.register
    def keep() -> None:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] not in _TORN_DOWN:
                for kept in (module, module.__dict__):
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
                del sys.modules[name]

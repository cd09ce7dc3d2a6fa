"""Python runs this file as it starts in a program of `tracekit record`, which puts the folder on PYTHONPATH.

It starts the recorder, and then runs the sitecustomize of the program's own environment, if there is one. The program
finds sys.path as it is without this folder.
"""

from __future__ import annotations

import os
import sys

__all__ = ()

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes 10 ms to import
_SETTINGS = "TRACEKIT_RECORD"


def _package(name: str, folder: str) -> None:
    """Import a package of the environment of `tracekit`, where the program's own has none of that name."""
    import importlib.machinery
    import importlib.util

    if name in sys.modules or importlib.util.find_spec(name) is not None:
        return
    spec = importlib.machinery.PathFinder.find_spec(name, [folder])
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _begin() -> None:
    text = os.environ.get(_SETTINGS)
    if not text or sys.version_info < (3, 11):
        return
    before = set(sys.modules)
    import contextlib
    import json

    settings = json.loads(text)
    _package("tracekit", settings["home"])
    has_orjson = "orjson" in sys.modules
    with contextlib.suppress(ImportError):  # it is of another version of Python; the recorder says that it is missing
        _package("orjson", settings["libraries"])
    from tracekit.recorder import _program

    _program.begin(settings, before)
    if not has_orjson:  # the program imports its own one, or finds none, as ever
        for name in [name for name in sys.modules if name.partition(".")[0] == "orjson"]:
            del sys.modules[name]


def _next_one() -> None:
    """Run the next sitecustomize on sys.path; where there is none, this module stays."""
    import importlib

    own = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if own is not None:
            sys.modules["sitecustomize"] = own


sys.path[:] = [place for place in sys.path if place != _FOLDER]
sys.path_importer_cache.pop(_FOLDER, None)
try:
    _begin()
except Exception as error:  # noqa: BLE001 - a guest does not keep a program from starting
    sys.stderr.write(f"tracekit record: not recording: {type(error).__name__}: {error}\n")
_next_one()

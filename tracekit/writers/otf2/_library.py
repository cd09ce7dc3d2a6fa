"""An archive that is being written: the calls of the library, and the numbers of its texts."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import _otf2

from tracekit.errors import OutputError
from tracekit.writers.otf2._folder import CREATOR, NAME
from tracekit.writers.otf2._spooled import Rows

_CHUNK = 1 << 20
"""Bytes of events in memory; OTF2 writes them when so many are there."""
NONE = _otf2.UNDEFINED_UINT32.value
"""The number of a parent or text that is not there."""


def _flush(*_: object) -> Any:
    return _otf2.FLUSH


class Archive:
    """Writes an archive: first the events of each location, then the definitions."""

    def __init__(self, folder: Path, version: str) -> None:
        try:
            str(folder).encode()
        except UnicodeEncodeError as err:
            raise OutputError("OTF2 needs a path in UTF-8", path=folder.parent, hint="choose another folder") from err
        posix, plain = _otf2.SUBSTRATE_POSIX, _otf2.COMPRESSION_NONE
        self._handle = _otf2.Archive_Open(str(folder), NAME, _otf2.FILEMODE_WRITE, _CHUNK, 4 * _CHUNK, posix, plain)
        self._callbacks = _otf2.FlushCallbacks(pre_flush=_flush, post_flush=None)
        self._texts: dict[str, int] = {}
        self._definitions: Any = None
        _otf2.Archive_SetFlushCallbacks(self._handle, self._callbacks, None)
        _otf2.Archive_SetSerialCollectiveCallbacks(self._handle)
        _otf2.Archive_SetCreator(self._handle, f"{CREATOR} {version}".strip())
        _otf2.Archive_OpenDefFiles(self._handle)
        _otf2.Archive_OpenEvtFiles(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._close_definitions()
            _otf2.Archive_Close(self._handle)
            return
        with contextlib.suppress(_otf2.Error):
            _otf2.Archive_Close(self._handle)

    def location(self, number: int) -> Location:
        """Return the location of that number, for its events: one location at a time."""
        return Location(self._handle, number)

    def define(self, what: str, *values: Any) -> None:
        """Write a definition. what: as OTF2 names it. values: a text becomes its number."""
        if self._definitions is None:
            _otf2.Archive_CloseEvtFiles(self._handle)
            _otf2.Archive_CloseDefFiles(self._handle)
            self._definitions = _otf2.Archive_GetGlobalDefWriter(self._handle)
            self._number("")
        given = [self._number(value) if isinstance(value, str) else value for value in values]
        getattr(_otf2, f"GlobalDefWriter_Write{what}")(self._definitions, *given)

    def _number(self, text: str) -> int:
        number = self._texts.get(text)
        if number is None:
            number = self._texts[text] = len(self._texts)
            held = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
            _otf2.GlobalDefWriter_WriteString(self._definitions, number, held)
        return number

    def _close_definitions(self) -> None:
        if self._definitions is not None:
            _otf2.Archive_CloseGlobalDefWriter(self._handle, self._definitions)


class Location:
    """Writes the events of a location."""

    def __init__(self, archive: Any, number: int) -> None:
        self.events = 0
        self._archive = archive
        # Readers look for the local definitions of each location, here without any.
        _otf2.Archive_CloseDefWriter(archive, _otf2.Archive_GetDefWriter(archive, number))
        self._handle = _otf2.Archive_GetEvtWriter(archive, number)

    def slices(self, rows: Rows) -> None:
        """Write enters and leaves."""
        enter, leave, handle = _otf2.EvtWriter_Enter, _otf2.EvtWriter_Leave, self._handle
        for at, what in zip(rows["at"].tolist(), rows["what"].tolist(), strict=True):
            (leave if what & 1 else enter)(handle, None, at, what >> 1)
        self.events += len(rows)

    def values(self, rows: Rows) -> None:
        """Write values of metrics."""
        types = [_otf2.TYPE_DOUBLE]
        for at, metric, value in rows[["at", "metric", "value"]].tolist():
            held = [_otf2.MetricValue(floating_point=value)]
            _otf2.EvtWriter_Metric(self._handle, None, at, instance(metric), types, held)
        self.events += len(rows)

    def close(self) -> None:
        """Write what is in memory."""
        _otf2.Archive_CloseEvtWriter(self._archive, self._handle)


def instance(counter: int) -> int:
    """Return the number of the metric whose values a counter's are; the one before is its class."""
    return 2 * counter + 1

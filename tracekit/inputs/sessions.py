"""Sessions of the Visual Profiler (nvvp): XML with settings, which names the databases that were imported into it.

    <?xml version="1.0" encoding="UTF-8"?>
    <session version="2">
      <... path="D:/runs/run.nvprof" .../>

The schema is not published, and the elements differ between versions. So each attribute and each text is looked at: a
name of a file that is beside the session, and that is a profile of nvprof, is an input. Folders in such a name play no
part: they are folders of another machine, and no file outside the session's own folder is opened.
Source: public sessions of version 1 and 2; the sessions of the tests are of our own making.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern

__all__ = ["session_of"]

_SESSION = lazy_pattern(rb"\A(?:\xef\xbb\xbf)?\s*<\?xml[^>]*>\s*(?:<!--.*?-->\s*)?<session\b[^>]*\bversion=", re.DOTALL)
_VALUE = lazy_pattern(r"""=\s*+"([^"<>]{1,4096})"|=\s*+'([^'<>]{1,4096})'|>([^<>]++)<""")
_LONGEST = 4096
"""Characters of a text that can be a name."""
_SUFFIXES = (".nvprof", ".nvvp", ".nvprof.gz", ".nvvp.gz", ".sqlite", ".db", ".prof")
MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ProfilingSession:
    """A session. beside: the files that it names and that are in its folder. missing: databases that are not there."""

    beside: tuple[Path, ...]
    missing: tuple[str, ...]


def session_of(path: Path) -> ProfilingSession | None:
    """Return the session in a local file, None for any other file, also for one that cannot be read."""
    try:
        with path.open("rb") as file:
            if not _SESSION.match(file.read(4096)):
                return None
            file.seek(0)
            data = file.read(MOST_BYTES)
    except OSError:
        return None
    from html import unescape  # imports the table of all entities

    beside: dict[Path, None] = {}
    missing: dict[str, None] = {}
    for match in _VALUE.finditer(data.decode("utf-8", "replace")):
        text = (match[1] or match[2] or match[3]).strip()
        name = _file_name(unescape(text)) if len(text) <= _LONGEST else ""
        if not name or "\0" in name:
            continue
        found = path.parent / name
        if found != path and _is_file(found):
            beside[found] = None
        elif name.lower().endswith(_SUFFIXES) and name != path.name:
            missing[name] = None
    return ProfilingSession(tuple(beside), tuple(missing))


def _file_name(text: str) -> str:
    """Return the last part of a path of any system, or of a file: URL."""
    if text.startswith("file:"):
        text = unquote(text.removeprefix("file:"))
    name = PurePosixPath(text.strip().replace("\\", "/")).name
    return "" if name in (".", "..") else name


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False

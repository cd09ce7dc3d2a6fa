"""Formats of other programs that tracekit does not read: how each is recognised, and how to get a file that it reads.

`FOREIGN` is data: a new format is one more entry. A format is recognised by its content. A suffix counts only where the
content of the format has no mark that is known, or where the beginning of the file is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracekit.readers.foreign.form import Foreign as Foreign
from tracekit.readers.foreign.frameworks import FRAMEWORKS
from tracekit.readers.foreign.general import GENERAL
from tracekit.readers.foreign.tools import TOOLS
from tracekit.readers.head import Head

FOREIGN: tuple[Foreign, ...] = (*FRAMEWORKS, *TOOLS, *GENERAL)
"""In order: the first that fits is named."""
NO_PROFILES = frozenset({"html", "xlsx", "picture", "pdf", "zip", "tar", "7z", "program", "hdf5", "arrow", "pickle"})
"""Formats of files of all sorts: a folder is not named after them."""
_MSPROF = re.compile(r"(?:^|/)(?:PROF_[0-9]+_[0-9]{8,20}(?:_[A-Za-z0-9]+)?|[^/]+_ascend_(?:pt|ms))(?:/|$)", re.ASCII)
_RAW = "raw data of msprof (Ascend) that was not exported"


def foreign_format(head: Head) -> Foreign | None:
    """Return the format that a file without a reader has, None for one that is not in the list."""
    for each in FOREIGN:
        if each.fits(head):
            return each
    name = head.name.lower()
    if not _is_plain_text(head):
        return next((each for each in FOREIGN if each.suffixes and name.endswith(each.suffixes)), None)
    return None


def foreign_end(end: Head) -> Foreign | None:
    """Return the format that is printed at the end of a long text, None for one that is not in the list."""
    return next((each for each in FOREIGN if each.in_logs and each.fits(end)), None)


def foreign_folder(folder: str, heads: Sequence[tuple[str, Head]]) -> tuple[str, str] | None:
    """Return what a folder without a profile holds, and what to do; None where nothing is known of it.

    folder: as the user named it. heads: the names of files there, and their beginnings.
    """
    found = [(name, kind) for name, head in heads if (kind := foreign_format(head)) and kind.key not in NO_PROFILES]
    if any(_MSPROF.search(name) for name in (folder, *(name for name, _ in heads))):
        advice = "export it with `msprof --export=on`, then give the folder again: msprof_*.json in it is read"
        return _RAW, Foreign("", _RAW, advice).hint(folder)
    if not found:
        return None
    kinds = [kind for _, kind in found]
    most = max(dict.fromkeys(kinds), key=kinds.count)
    first = next(name for name, kind in found if kind is most)
    count = kinds.count(most)
    return f"{count} of {len(heads)} file{'' if len(heads) == 1 else 's'}: {most.title}", most.hint(first)


def _is_plain_text(head: Head) -> bool:
    """Return whether a head has text and no control characters: a binary format in name only."""
    return head.text and not re.search(rb"[\0-\x08\x0e-\x1a\x7f]", head.data[:4096])

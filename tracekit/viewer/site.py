"""The files that the server of `tracekit open` has: an exact name for each, nothing else of the disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from tracekit.lazy_dataclass import dataclass

__all__ = ["BLOCK", "Resource", "Site", "batch", "page", "resource", "script_hash"]

BLOCK = 1 << 18

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
    ".png": "image/png",
}
"""Content types by suffix; any other file is bytes."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One file of a site. body: its bytes, or the file on the disk. policy: its content security policy, if any.

    alone: no other page may keep a hold of its window (Cross-Origin-Opener-Policy).
    """

    type: str
    body: bytes | Path
    policy: str = ""
    alone: bool = True

    def headers(self) -> Iterator[tuple[str, str]]:
        """Give the headers that belong to this file."""
        yield "Content-Type", self.type
        if self.policy:
            yield "Content-Security-Policy", self.policy
        if self.alone:
            yield "Cross-Origin-Opener-Policy", "same-origin"

    def open(self) -> BinaryIO:
        """Return the file, open at its begin. Raises: OSError."""
        if isinstance(self.body, Path):
            return self.body.open("rb")
        from io import BytesIO

        return BytesIO(self.body)


@dataclass(frozen=True, slots=True)
class Site:
    """Files by name, as addresses have it. start: the first one. last: the one that is the whole site, "" for none.

    ends: the words on when its server ends.
    """

    start: str
    files: Mapping[str, Resource] = field(default_factory=dict)
    last: str = ""
    ends: str = "when you close the page"


def page(path: Path, name: str) -> Site:
    """Return a site of a page that needs no other file."""
    return Site(name, {name: resource(path, name)}, last=name, ends="when the page is loaded")


def batch(folder: Path, start: Path) -> Site:
    """Return a site of all files of a batch: they link each other. start: the page to begin with."""
    files = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(place, name) for name in names):
            if path.is_file() and not path.is_symlink():
                files[_address(path, folder)] = resource(path, path.name)
    return Site(_address(start, folder), files, ends="after ten minutes without a visit")


def _address(path: Path, folder: Path) -> str:
    return quote(os.fsencode(Path(os.path.relpath(path, folder)).as_posix()))


def resource(body: bytes | Path, name: str, policy: str = "", *, alone: bool = True) -> Resource:
    """Return a file with the type of its name's suffix."""
    suffix = f".{name.rpartition('.')[2]}"
    return Resource(TYPES.get(suffix, "application/octet-stream"), body, policy, alone)


def script_hash(text: str) -> str:
    """Return a script as a content security policy names it."""
    import base64

    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

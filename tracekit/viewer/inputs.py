"""The inputs of `tracekit open`: files that are shown as they are, and the key of what is made of the others."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal

from tracekit import plugins
from tracekit._version import __version__
from tracekit.errors import UsageError
from tracekit.inputs import Input, stored_name
from tracekit.lazy_dataclass import dataclass
from tracekit.render.page.data import PAGE_HEAD, is_page
from tracekit.viewer.cache import digest

__all__ = ["Kind", "Ready", "is_perfetto", "key_of", "name_of", "pages_for_folders", "ready", "state"]

Kind = Literal["page", "trace"]
SUFFIXES: dict[Kind, str] = {"page": ".html", "trace": ".pftrace"}

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_STEM = 60
_GZIP_MAGIC = b"\x1f\x8b"
_PACKET = 0x0A
"""The first byte of each packet of a Perfetto trace: field 1 of its message `Trace`, with a length."""
_PACKETS = 4
_ASSETS = re.compile(rb'<(?:script|link)[^>]* (?:src|href)="((?:\.\./)*)assets/')
"""A style or script beside a page: pages of a batch share theirs."""
_VARIABLES = ("TRACEKIT_KERNEL_CLASSES",)
"""Variables that name a file which decides about a page."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An input that is shown as it is: a page of tracekit, or a Perfetto trace.

    batch: the folder of the batch that the page belongs to, whose other files it links.
    """

    path: Path
    kind: Kind
    batch: Path | None = None


def ready(items: Sequence[Input]) -> Ready | None:
    """Return the input that is a page or a Perfetto trace, None where there is none.

    The folder of a batch is its page.
    Raises: UsageError for one of them beside other inputs.
    """
    for item in items:
        try:
            with Path(item.name).open("rb") as file:
                head = file.read(PAGE_HEAD)
        except (OSError, ValueError):  # no file: what else it is shows when it is read
            continue
        kind: Kind | None = "page" if is_page(head) else "trace" if is_perfetto(head) else None
        if kind is None:
            continue
        if len(items) > 1:
            what = "a page of tracekit" if kind == "page" else "a Perfetto trace"
            raise UsageError(f"{item.name}: {what} is opened alone", hint="name the profiles themselves")
        return Ready(Path(item.name), kind, _batch_of(Path(item.name), head) if kind == "page" else None)
    return None


def pages_for_folders(words: Sequence[str]) -> list[str]:
    """Return the inputs with the page of a batch in the place of the batch's folder."""
    return [str(Path(word, "index.html")) if _is_batch(Path(word)) else word for word in words]


def _is_batch(folder: Path) -> bool:
    try:
        with (folder / "index.html").open("rb") as file:
            return is_page(head := file.read(PAGE_HEAD)) and _batch_of(folder / "index.html", head) is not None
    except (OSError, ValueError):
        return False


def _batch_of(page: Path, head: bytes) -> Path | None:
    """Return the folder of the batch that a page belongs to, None for a page by itself."""
    found = _ASSETS.search(head)
    if found is None:
        return None
    above = Path(os.path.abspath(page)).parents  # noqa: PTH100 - links stay as the user wrote them
    depth = found[1].count(b"/")
    return above[depth] if depth < len(above) and (above[depth] / "assets").is_dir() else None


def is_perfetto(head: bytes) -> bool:
    """Return whether a file that begins so is a native Perfetto trace, maybe with gzip: packets, one after another."""
    if head.startswith(_GZIP_MAGIC):
        try:
            head = zlib.decompressobj(31).decompress(head, PAGE_HEAD)
        except zlib.error:
            return False
    return len(head) > 1 and all(_packets(head))


def _packets(head: bytes) -> Iterator[bool]:
    """Give for each of the first packets whether it begins as one; what is beyond the head is not looked at."""
    at = 0
    for _ in range(_PACKETS):
        if at >= len(head):
            return
        yield head[at] == _PACKET
        at += 1
        size = shift = 0
        while at < len(head):
            size |= (head[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not head[at - 1] & 0x80:
                break
        at += size
        yield size > 1 and shift <= 35 and (at <= len(head) or len(head) >= PAGE_HEAD)


def name_of(items: Sequence[Input], kind: Kind, *, anonymous: bool) -> str:
    """Return the name under which a browser sees what is made of the inputs; it has no character that means more."""
    address = items[0].name.partition("?")[0] if "://" in items[0].name else items[0].name
    stem = items[0].label or Path(address).name.split(".")[0]
    stem = _UNSAFE.sub("_", stem)[:_LONGEST_STEM].strip("._-")
    return f"{'' if anonymous else stem}{SUFFIXES[kind]}" if stem and not anonymous else f"{kind}{SUFFIXES[kind]}"


def key_of(items: Sequence[Input], kind: Kind, options: Mapping[str, object]) -> str:
    """Return the key of what is made of the inputs with these options: all that decides about it.

    Returns "" for inputs that are not files, such as stdin and URLs: nothing is kept. Raises: OSError.
    """
    files = [Path(item.name) for item in items]
    more = [path for path in (Path(f"{item.name}-wal") for item in items) if path.is_file()]
    variables = {name: os.environ.get(name, "") for name in _VARIABLES}
    more += [path for path in map(Path, filter(None, variables.values())) if path.is_file()]
    facts = [
        __version__, _program(), sorted(plugins.installed()), kind, dict(options), variables,
        [(item.label, stored_name(item.name)) for item in items], [str(path) for path in more],
    ]  # fmt: skip
    return digest([*files, *more], facts)


def state(items: Sequence[Input]) -> list[tuple[int, int]]:
    """Return size and time of change of each input that is a file: a difference means that somebody writes to it."""
    found = []
    for item in items:
        try:
            stat = Path(item.name).stat()
        except (OSError, ValueError):
            continue
        found.append((stat.st_size, stat.st_mtime_ns))
    return found


@cache
def _program() -> list[tuple[str, int, int]]:
    """Return name, size and time of change of each source file: in a checkout the version says too little."""
    package = Path(__file__).resolve().parents[1]
    folders = [package, package.parent / "templates"]
    files = chain.from_iterable(folder.rglob("*.*") for folder in folders)
    kept = [path for path in files if path.suffix in (".py", ".j2", ".js", ".css")]
    return sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in kept)

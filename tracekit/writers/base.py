"""The contract of a writer: it writes batches in order of start into one file, completely or not at all.

`tracekit.writers` declares all targets of tracekit; the module of one is imported when it is written.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tracekit.errors import NamedPath, OutputError, OutputExistsError, PerSurface, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import first_few, plural
from tracekit.safety.unfinished import unfinished_file

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger, Run

__all__ = [
    "VIEWERS",
    "WHOLE",
    "WITH_O",
    "OutputSubset",
    "RowStream",
    "WriteOptions",
    "Writer",
    "Written",
    "cannot_write",
    "new_file",
]


@dataclass(slots=True)
class RowStream:
    """The input of a writer: EVENTS and TOTALS batches, EVENTS ordered by (ts_ns, -dur_ns).

    run and ledgers are complete once `batches` is exhausted.
    """

    run: Run
    batches: Iterator[pa.RecordBatch]
    ledgers: tuple[Ledger, ...] = ()


VIEWERS = ("chrome", "perfetto", "speedscope")
"""Viewers whose limits a writer can respect."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of every writer. viewer: "chrome", "perfetto" or "speedscope" (convert --for).

    plain: rows alone, without lines on the file itself; only of a writer with `Writer.plain`.

    label: returns the text that an archive adds to the metadata of a file. Only the Parquet writer calls it, once all
    rows are written, with the complete facts of the run and the first start (None without events).
    """

    force: bool = False
    viewer: str = ""
    version: str = ""
    label: Callable[[Run, int | None], str] | None = None
    plain: bool = False


@dataclass(frozen=True, slots=True)
class OutputSubset:
    """Pieces, or fewer events, in place of one whole file; "" and 0 for none.

    split: "step", "rank", "time=1s", "events=200000" or "mb=100": pieces of that size, and an index.
    max_events, max_mb: the longest events alone, at most so many of them or so many MB of file.
    """

    split: str = ""
    max_events: int = 0
    max_mb: str = ""


WHOLE = OutputSubset()


@dataclass(slots=True)
class Written:
    """The result of a writer: rows written, rows not written by reason, and notes for the user.

    explained: reasons that a note has in words.
    """

    path: Path
    events: int = 0
    totals: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    explained: set[str] = field(default_factory=set, repr=False, compare=False)

    def __repr__(self) -> str:
        rows = f"{plural(self.events, 'event')} and {plural(self.totals, 'total')} written"
        left = [f"  not written: {count:,} ({reason})" for reason, count in self.left_out.items()]
        return "\n".join([f"{self.path}: {rows}", *first_few([*left, *(f"  note: {n}" for n in self.notes)], "line")])

    def leave_out(self, reason: str, count: int = 1) -> None:
        """Count rows that are not written, because the target cannot hold them."""
        if count:
            self.left_out[reason] = self.left_out.get(reason, 0) + count

    def explain(self, reason: str, text: str) -> None:
        """Add a note in words for rows that are not written, if there are any. text: it follows their number."""
        if count := self.left_out.get(reason):
            self.notes.append(f"{count:,} {text}")
            self.explained.add(reason)

    def size(self) -> int:
        """Return the bytes of the file, or of the files of the folder."""
        files = [each for each in self.path.rglob("*") if each.is_file()] if self.path.is_dir() else [self.path]
        return sum(each.stat().st_size for each in files)

    def unexplained(self) -> list[tuple[str, int]]:
        """Return the reasons of rows not written that no note explains, and the number of rows."""
        return [each for each in sorted(self.left_out.items()) if each[0] not in self.explained]


@dataclass(frozen=True, slots=True)
class Writer:
    """One target. holds: the tables that it can write: "events", "totals" or "both".

    fingerprint: the facts of the run must have the SHA-256 of each source. names_only: until the batches are exhausted
    the writer needs only the names and labels of the run; it may then write while the next batches are read. folder:
    the target is a folder of files. plain: it can be written as rows alone.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    write: Callable[[RowStream, Path, WriteOptions], Written]
    holds: str = "events"
    fingerprint: bool = False
    names_only: bool = False
    folder: bool = False
    plain: bool = False


WITH_O = PerSurface(" with -o")
"""End of the advice to name another output: in Python the output has no option."""


@contextlib.contextmanager
def new_file(target: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Yield a new file beside the target. It gets the target's name when the block succeeds, and is removed otherwise.

    Raises: OutputExistsError without force; OutputError when the folder is missing or not writable, or the disk is
    full. A file that was at the target before survives every failure.
    """
    named, target = target, target.resolve() if target.is_symlink() else target
    if target.is_dir():
        raise OutputError(
            sentence(NamedPath(str(named)), " is a folder"),
            hint="name a file, or end the name with / for one output per input",
        )
    if target.exists() and not target.is_file():
        raise OutputError(
            sentence(NamedPath(str(named)), " is not a regular file and cannot be replaced"),
            hint=PerSurface("-o - writes to stdout"),
        )
    if target.exists() and not force:
        raise OutputExistsError(str(named))
    try:
        with unfinished_file(target) as part:
            with os.fdopen(part.handle, "wb") as file:
                yield file
            _give_usual_mode(part.path)
            _take_name(part.path, target, force=force)
    except OSError as err:
        raise cannot_write(target, err) from err


def _take_name(part: Path, target: Path, *, force: bool) -> None:
    """Give the finished file its name; without force it never replaces a file that was created meanwhile."""
    if not force:
        try:
            os.link(part, target)
        except FileExistsError as err:
            raise OutputExistsError(str(target)) from err
        except OSError:
            pass  # a file system without hard links
        else:
            return
    part.replace(target)


def _give_usual_mode(path: Path) -> None:
    """Give the file the mode that open() would give it: mkstemp makes it private."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def cannot_write(target: Path, err: OSError) -> OutputError:
    """Return the error that says in a sentence why a target was not written."""
    if err.errno == errno.ENOSPC:
        return OutputError(
            "the disk is full", path=target, hint="free some space; the file that was there before is unchanged"
        )
    if err.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return OutputError(
            "no permission to write",
            path=target,
            hint=sentence("choose another folder", WITH_O),
        )
    if err.errno == errno.ENOENT:
        if target.parts[0].endswith(":") and len(target.parts) > 1:
            return OutputError(
                "a URL, but an output is a file of this machine",
                path=f"{target.parts[0]}//{'/'.join(target.parts[1:])}",
                hint="`tracekit archive add URL INPUT...` writes to an object store",
            )
        return OutputError(
            "no such folder",
            path=target.parent,
            hint=sentence("create it first, or choose another folder", WITH_O),
        )
    return OutputError(f"{err.strerror or err}", path=target, hint="the file that was there before is unchanged")

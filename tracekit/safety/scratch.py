"""Temporary folders, all made here, so that a full one is named as what is full.

What is written there are copies of inputs that a library must find as a file, and rows that are sorted on disk. Where a
write fails, the error names the folder and TMPDIR; the input and the output have nothing to do with it.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from tracekit.errors import OutputError, ScratchError
from tracekit.safety.unfinished import SCRATCH, Unfinished, temporary_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import ReadableBuffer as Buffer
    from _typeshed import WriteableBuffer

__all__ = [
    "StoredRows",
    "cannot_read_back",
    "scratch_directory",
    "scratch_error",
    "scratch_file",
    "scratch_folder",
    "scratch_read",
    "stored_rows",
    "writing",
]

_HINT = "free some space, or let TMPDIR name a folder with more"
_REASONS = {
    errno.ENOSPC: ("is full", _HINT),
    errno.EDQUOT: ("is full: the quota of this user is used up", _HINT),
    errno.EFBIG: ("takes no file of this size (`ulimit -f`)", "raise that limit, or let TMPDIR name another folder"),
    errno.EROFS: ("is read-only", "let TMPDIR name a folder that can be written"),
    errno.EACCES: ("cannot be written (no permission)", "let TMPDIR name a folder that can be written"),
    errno.EMFILE: ("cannot be used: too many files are open", "`ulimit -n` raises the limit, or name fewer inputs"),
}


def scratch_directory(prefix: str = SCRATCH, within: Path | None = None) -> Unfinished:
    """Return a new temporary folder, for an object that keeps it for a while. Raises: ScratchError."""
    try:
        return temporary_folder(prefix, _system_folder() if within is None else within)
    except OSError as err:
        raise scratch_error(within, err) from err


@contextmanager
def scratch_folder(prefix: str = SCRATCH, within: Path | None = None) -> Iterator[Path]:
    """Yield a new temporary folder, which goes with all that is in it. Writes to it go inside of `writing`.

    Raises: ScratchError when it cannot be made.
    """
    with scratch_directory(prefix, within) as folder:
        yield folder.path


@contextmanager
def writing(folder: str | Path) -> Iterator[None]:
    """Turn errors of writing into a temporary folder into one that names it. Raises: ScratchError."""
    try:
        yield
    except ScratchError:
        raise
    except OSError as err:
        raise scratch_error(Path(folder).parent, err) from err
    except OutputError as err:
        if not isinstance(err.__cause__, OSError):
            raise
        raise scratch_error(Path(folder).parent, err.__cause__) from err


def _system_folder() -> Path:
    import tempfile  # imports random: few commands write scratch files

    return Path(tempfile.gettempdir())


def _default_folder() -> Path | None:
    try:
        return _system_folder()
    except OSError:
        return None


def scratch_error(folder: Path | None, err: OSError) -> ScratchError:
    """Return the error that names a temporary folder, None for the usual one."""
    folder = folder or _default_folder()
    if folder is None:
        return ScratchError("no temporary folder can be written", hint="let TMPDIR name one that has free space")
    reason, hint = _REASONS.get(err.errno or 0, (f"cannot be written ({err.strerror or err})", _HINT))
    return ScratchError(f"the temporary folder {reason}", path=folder, hint=hint)


def cannot_read_back(folder: Path, err: OSError) -> ScratchError:
    """Return the error for files in a temporary folder that cannot be read again. folder: the one of the files."""
    reason = f"cannot be read ({err.strerror or err})"
    return ScratchError(f"the temporary folder {reason}", path=folder.parent, hint="let TMPDIR name another folder")


class StoredRows:
    """A file of rows in a temporary folder, an Arrow stream. A write raises ScratchError where the folder is full.

    path: of the file. schema: of the rows. options: of `pyarrow.ipc.new_stream`.
    """

    def __init__(self, path: Path, schema: pa.Schema, options: pa.ipc.IpcWriteOptions | None = None) -> None:
        import pyarrow as pa

        self._folder = path.parent
        with writing(self._folder):
            self._sink = pa.OSFile(str(path), "wb")
            self._writer = pa.ipc.new_stream(self._sink, schema, options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            with writing(self._folder):
                self._writer.close()
        with writing(self._folder):
            self._sink.close()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        with writing(self._folder):
            self._writer.write_batch(batch)


def stored_rows(path: Path) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of a file of `StoredRows`. Raises: ScratchError where the system cannot read it."""
    import pyarrow as pa

    try:
        file = pa.OSFile(str(path), "rb")
        reader = pa.ipc.open_stream(file)
    except OSError as err:
        raise cannot_read_back(path.parent, err) from err
    with file:
        yield from _batches(reader, path)


def _batches(reader: pa.RecordBatchStreamReader, path: Path) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except OSError as err:
            raise cannot_read_back(path.parent, err) from err
        yield batch


class _RawFile(io.FileIO):
    """The file under the buffer of `scratch_file`: what it raises names the temporary folder."""

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        """Return the number of bytes read."""
        try:
            return super().readinto(buffer)
        except OSError as err:
            raise cannot_read_back(Path(os.fsdecode(self.name)).parent, err) from err

    def write(self, data: Buffer, /) -> int:
        """Return the number of bytes written."""
        with writing(Path(os.fsdecode(self.name)).parent):
            return super().write(data) or 0


def scratch_file(path: Path) -> BinaryIO:
    """Return a new file of a temporary folder, to be written and read. Its writes raise ScratchError."""
    with writing(path.parent):
        return io.BufferedRandom(_RawFile(path, "w+"))


def scratch_read(path: Path) -> BinaryIO:
    """Return a file of a temporary folder to read. Its reads raise ScratchError."""
    try:
        return io.BufferedReader(_RawFile(path, "r"))
    except OSError as err:
        raise cannot_read_back(path.parent, err) from err

"""The folder of an archive: complete or not there, and never in the place of anything but an archive of ours."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tracekit.errors import NamedPath, OutputError, OutputExistsError, sentence
from tracekit.safety.unfinished import unfinished_folder
from tracekit.writers.base import WITH_O, cannot_write

CREATOR = "tracekit"
"""How the creator in the anchor file of our archives begins."""
NAME = "traces"
"""The name of the anchor file and of the others, which other writers of OTF2 use too."""
FACTS = "tracekit.json"
_FILES = {f"{NAME}.otf2", f"{NAME}.def", NAME, FACTS}
_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""
_LOCATION = re.compile(r"\d+\.(evt|def)")


@contextlib.contextmanager
def new_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """Yield a new folder beside the target. It gets the target's name if the block succeeds, and is removed otherwise.

    Raises: OutputExistsError without force; OutputError where the target is anything but an archive of ours, or the
    disk is full or the like. An archive that was at the target before survives every failure.
    """
    named, target = target, target.resolve() if target.is_symlink() else target
    if target.exists():
        if not force:
            raise OutputExistsError(str(named))
        try:
            ours = _is_ours(target)
        except OSError as err:
            raise cannot_write(target, err) from err
        if not ours:
            raise OutputError(
                sentence(NamedPath(str(named)), " is not an OTF2 archive of tracekit, so it is not replaced"),
                hint=sentence("remove it yourself, or choose another name", WITH_O),
            )
    try:
        with unfinished_folder(target) as part:
            inside = part.path / "new"  # it has the usual mode, the folder around it is private
            inside.mkdir()
            yield inside
            _take_name(inside, target, named, force=force)
    except OSError as err:
        raise cannot_write(target, err) from err


def _take_name(made: Path, target: Path, named: Path, *, force: bool) -> None:
    """Give the finished folder its name; an older one goes into the folder around it. Raises: OSError, OutputError."""
    # A folder cannot be renamed onto another one that has files: they change places in one step where the system can.
    old = made.with_name("old")
    if force and target.exists():
        if _exchange(made, target):
            return
        target.rename(old)
    try:
        made.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        if target.exists():
            raise OutputExistsError(str(named)) from None
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, so that there is always one under each name. Return False where none can."""
    import ctypes

    try:
        call = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder has the files of an archive of ours, and nothing else. Raises: OSError."""
    anchor, events = folder / f"{NAME}.otf2", folder / NAME
    try:
        return (
            {each.name for each in folder.iterdir()} <= _FILES
            and CREATOR.encode() in anchor.read_bytes()
            and all(_LOCATION.fullmatch(each.name) for each in (events.iterdir() if events.exists() else ()))
        )
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False

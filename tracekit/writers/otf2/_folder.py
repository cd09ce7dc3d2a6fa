"""The folder of an archive: complete or not there, and never in the place of anything but an archive of ours."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tracekit.errors import OutputError, OutputExistsError
from tracekit.writers.base import cannot_write

CREATOR = "tracekit"
"""How the creator in the anchor file of our archives begins."""
NAME = "traces"
"""The name of the anchor file and of the others, which other writers of OTF2 use too."""
FACTS = "tracekit.json"
_FILES = {f"{NAME}.otf2", f"{NAME}.def", NAME, FACTS}
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
        if not _is_ours(target):
            raise OutputError(
                f"{named} is not an OTF2 archive of tracekit, so it is not replaced",
                hint="remove it yourself, or choose another name with -o",
            )
    try:
        part = Path(tempfile.mkdtemp(prefix=f".{target.name[:80]}.", suffix=".part", dir=target.parent))
    except OSError as err:
        raise cannot_write(target, err) from err
    try:
        inside = part / "new"  # mkdtemp makes its folder private
        inside.mkdir()
        yield inside
        if force and target.exists():
            target.rename(part / "old")
        try:
            inside.rename(target)
        except OSError:
            if (part / "old").exists():
                (part / "old").rename(target)
            if target.exists():
                raise OutputExistsError(str(named)) from None
            raise
    except OSError as err:
        raise cannot_write(target, err) from err
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder has the files of an archive of ours, and nothing else."""
    anchor, events = folder / f"{NAME}.otf2", folder / NAME
    try:
        return (
            {each.name for each in folder.iterdir()} <= _FILES
            and CREATOR.encode() in anchor.read_bytes()
            and all(_LOCATION.fullmatch(each.name) for each in (events.iterdir() if events.exists() else ()))
        )
    except OSError:
        return False

"""Who works on what: several batches may share one OUT, and any of them may die at any moment.

A batch is an owner: a folder OUT/.work/OWNER that bears its host, process id and start time in its name, and holds a
file `alive` that it touches. A claim on a run is a file with the owner's name in it; it appears complete or not at all
(a hard link), so that no two batches do the same run at once. The claims and the folder of a dead owner are removed by
whoever comes next. Dead is: on this machine, no process of this id and start time; elsewhere, `alive` untouched for two
minutes by the clock of the file system itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import threading
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from tracekit.errors import OutputError

TOUCH_S = 10.0
DEAD_AFTER_S = 120.0
_NAME = re.compile(r"(?P<host>[A-Za-z0-9-]+)\.(?P<pid>\d+)\.(?P<start>\d+)\.(?P<rest>[0-9a-f]{8})")
_CLAIM = ".claim"


class Owner:
    """One living batch. Use it as a context; at the end its folder and its claims are gone."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self.name = f"{_host()}.{os.getpid()}.{_start_of(os.getpid())}.{uuid.uuid4().hex[:8]}"
        self.folder = work / self.name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._touch, name="tracekit-alive", daemon=True)

    def __enter__(self) -> Self:
        for attempt in range(100):
            try:
                self._work.mkdir(exist_ok=True)
                self.folder.mkdir()
                break
            except FileNotFoundError as err:  # a batch that ended has just removed the empty .work
                if attempt == 99:
                    raise OutputError(f"{self._work}: cannot be written ({err.strerror or err})") from err
            except OSError as err:
                raise OutputError(f"{self._work}: cannot be written ({err.strerror or err})") from err
        (self.folder / "alive").touch()
        # Written once: every claim is another name of this one file.
        (self.folder / "claim").write_text(self.name, encoding="ascii")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for claim in self._work.glob(f"*{_CLAIM}"):
            if _text(claim) == self.name:
                claim.unlink(missing_ok=True)
        _remove(self.folder)
        with contextlib.suppress(OSError):
            self._work.rmdir()  # stays while another batch lives

    def _touch(self) -> None:
        while not self._ended.wait(TOUCH_S):
            with contextlib.suppress(OSError):
                (self.folder / "alive").touch()

    def clear(self) -> list[str]:
        """Remove what dead batches left, and return their names. What the living have stays."""
        dead = [
            path
            for path in sorted(self._work.iterdir())
            if path.is_dir() and _NAME.fullmatch(path.name) and not self._lives(path.name)
        ]
        for path in dead:
            _remove(path)
        for claim in sorted(self._work.glob(f"*{_CLAIM}")):
            self._lift(claim)
        return [path.name for path in dead]

    def claim(self, what: str) -> bool:
        """Take a run for ourselves; False when a living batch has it."""
        target = self._work / f"{what}{_CLAIM}"
        note = self.folder / "claim"
        for _ in range(20):
            try:
                self._link(note, target)
            except FileExistsError:
                if not self._lift(target):
                    return _text(target) == self.name
                continue
            return True
        return False

    def release(self, what: str) -> None:
        """Give a run back."""
        (self._work / f"{what}{_CLAIM}").unlink(missing_ok=True)

    def hold(self, what: str, *, poll_s: float = 0.05) -> Held:
        """Return a context that waits until we have it."""
        return Held(self, what, poll_s)

    def _link(self, note: Path, target: Path) -> None:
        try:
            os.link(note, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links: short enough to be written in one piece
            with target.open("x", encoding="ascii") as file:
                file.write(self.name)

    def _lift(self, claim: Path) -> bool:
        """Remove the claim of a dead owner; False when it is alive, True when the claim is gone."""
        owner = _text(claim)
        if owner is None:
            return True
        if owner == self.name or self._lives(owner) or (not owner and self._is_fresh(claim)):
            return False
        # Of several that find it dead one takes it away; it looks again whether it took the right one.
        aside = self.folder / f"lifted-{uuid.uuid4().hex}"
        try:
            claim.rename(aside)
        except FileNotFoundError:
            return True
        if (taken := _text(aside)) not in (None, owner) and taken is not None and self._lives(taken):
            with contextlib.suppress(OSError):
                os.link(aside, claim)
        aside.unlink(missing_ok=True)
        return True

    def _lives(self, name: str) -> bool:
        found = _NAME.fullmatch(name)
        if found is None or name == self.name:
            return name == self.name
        if found["host"] == _host():
            start = _start_of(int(found["pid"]))
            if start is None or start != int(found["start"]):
                return False
            if start:
                return True
        place = self._work / name
        return self._is_fresh(place / "alive" if (place / "alive").exists() else place)

    def _is_fresh(self, path: Path) -> bool:
        """Tell whether something was touched of late, by the clock of the file system that holds it."""
        try:
            (self.folder / "alive").touch()
            return (self.folder / "alive").stat().st_mtime - path.stat().st_mtime < DEAD_AFTER_S
        except OSError:
            return False


class Held:
    """A claim for the length of a block."""

    def __init__(self, owner: Owner, what: str, poll_s: float) -> None:
        self._owner, self._what, self._poll_s = owner, what, poll_s

    def __enter__(self) -> None:
        while not self._owner.claim(self._what):
            time.sleep(self._poll_s)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner.release(self._what)


def _host() -> str:
    """Return a name within which a process id means one process: host, and container where there is one."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname())[:60] or "host"
    try:
        space = re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        space = ""
    return f"{name}-{space}" if space else name


def _start_of(pid: int) -> int | None:
    """Return when a process of this machine began, in the system's own count; None when there is none.

    0 where the system does not tell: then the time of the last touch decides.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else int(fields[19])
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, IndexError, ValueError):
        return 0
    if os.name == "nt":
        return 0  # there os.kill would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return 0
    return 0


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return None


def _remove(folder: Path) -> None:
    """Remove a folder, also while a process that is about to end still writes into it."""
    for pause in (0.0, 0.02, 0.1, 0.3, 1.0):
        time.sleep(pause)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return

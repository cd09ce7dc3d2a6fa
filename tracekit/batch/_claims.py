"""Claims: several batches may share one OUT, on one machine or several, and any of them may die at any moment.

A batch owns a folder OUT/.work/OWNER, and claims each run before it does the run. Owner and claims are leases (files)
of the library filelock. The lease of a dead process ends at once on the same machine. On another machine it ends when
its file was not refreshed for two minutes by the clock of the batch that waits for it. Clocks are never compared.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from filelock import SoftFileLease, Timeout

from tracekit.errors import OutputError

REFRESH_S = 10.0
DEAD_AFTER_S = 120.0
_NAME = re.compile(r"[0-9a-f]{8}")
_CLAIM, _OWNER = ".claim", ".owner"


class Owner:
    """One living batch. It is a context: at the end its folder and its claims are gone."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self.name = uuid.uuid4().hex[:8]
        self.folder = work / self.name
        # An object must stay to see that the lease of another machine is no longer refreshed.
        self._leases: dict[str, SoftFileLease] = {}

    def __enter__(self) -> Self:
        for attempt in range(100):
            try:
                self._work.mkdir(exist_ok=True)
                self._try(f"{self.name}{_OWNER}")
                self.folder.mkdir()
                break
            except FileNotFoundError as err:  # another batch has just ended and removed the empty .work
                if attempt == 99:
                    raise self._cannot_write(err) from err
            except OSError as err:
                raise self._cannot_write(err) from err
        return self

    def __exit__(self, *_: object) -> None:
        _remove(self.folder)
        for lease in self._leases.values():
            lease.release(force=True)
        with contextlib.suppress(OSError):
            self._work.rmdir()  # stays while another batch lives

    def clear(self) -> list[str]:
        """Remove the folders and claims of dead batches, and return their names."""
        dead: list[str] = []
        for path in sorted(self._work.iterdir()):
            if path.suffix == _CLAIM:
                self._remove_if_dead(path.name)
            elif path.name != self.name and _NAME.fullmatch(path.name) and self._remove_if_dead(path.name + _OWNER):
                dead.append(path.name)
        return dead

    def claim(self, key: str) -> bool:
        """Claim a run; False while another living batch has it."""
        try:
            return self._try(f"{key}{_CLAIM}")
        except OSError as err:
            raise self._cannot_write(err) from err

    def release(self, key: str) -> None:
        """Release the claim of a run."""
        if (lease := self._leases.pop(f"{key}{_CLAIM}", None)) is not None:
            lease.release(force=True)

    @contextlib.contextmanager
    def hold(self, key: str, *, poll_s: float = 0.05) -> Iterator[None]:
        """Return a context that waits for a claim and holds it."""
        while not self.claim(key):
            time.sleep(poll_s)
        try:
            yield
        finally:
            self.release(key)

    def _try(self, name: str) -> bool:
        lease = self._leases.get(name)
        if lease is None:
            path = self._work / name
            lease = SoftFileLease(path, lease_duration=DEAD_AFTER_S, heartbeat_interval=REFRESH_S)
            self._leases[name] = lease
        for _ in range(2):  # an attempt may only remove the file of a dead process; then the next one succeeds
            if not lease.is_locked:
                with contextlib.suppress(Timeout):
                    lease.acquire(timeout=0)
        return lease.is_locked

    def _remove_if_dead(self, name: str) -> bool:
        lease = self._leases.get(name)
        if lease is not None and lease.is_locked:
            return False
        with contextlib.suppress(OSError):  # another batch may remove it at the same time
            if self._try(name):
                if name.endswith(_OWNER):
                    _remove(self._work / name.removesuffix(_OWNER))
                self._leases.pop(name).release(force=True)
                return True
        return False

    def _cannot_write(self, err: OSError) -> OutputError:
        return OutputError(f"cannot be written ({err.strerror or err})", path=self._work)


def _remove(folder: Path) -> None:
    """Remove a folder, even while a process that is about to end writes into it."""
    for pause in (0.0, 0.02, 0.1, 0.3, 1.0):
        time.sleep(pause)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return

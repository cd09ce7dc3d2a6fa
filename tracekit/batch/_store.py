"""OUT: one folder a run with its result.json, written whole or not at all; what stood there is moved away first.

OUT/index.html  index.json          the page over all runs, and the same for programs
OUT/assets/                         style and scripts that all pages share
OUT/runs/KEY/result.json            the commit mark: a run's folder with it is complete
OUT/runs/KEY/report.html ...        what was made of the run
OUT/roots/KEY.json                  what the last look into a root found
OUT/archive/                        the archive, unless another is named
OUT/.work/                          what living batches are about; gone when none is
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.errors import OutputError
from tracekit.writers.base import new_file

FORM = 1
"""Version of result.json, of the files of roots and of index.json."""
RESULT = "result.json"
Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Out:
    """The folder of the results."""

    path: Path

    @property
    def runs(self) -> Path:
        """Return the folder of the runs' results."""
        return self.path / "runs"

    @property
    def roots(self) -> Path:
        """Return the folder of what was found below each root."""
        return self.path / "roots"

    @property
    def work(self) -> Path:
        """Return the folder of what is being made."""
        return self.path / ".work"

    def make(self) -> None:
        """Make the folders. Raises: OutputError."""
        try:
            for folder in (self.runs, self.roots, self.path / "assets", self.work):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise OutputError(f"{self.path}: cannot be written ({err.strerror or err})") from err

    def results(self) -> dict[str, Result]:
        """Return every complete result by key, in order of keys."""
        found = {}
        for folder in sorted(self.runs.iterdir()) if self.runs.is_dir() else ():
            if not folder.name.startswith(".") and (result := self.result(folder.name)) is not None:
                found[folder.name] = result
        return found

    def result(self, key: str) -> Result | None:
        """Return the result of a run; None when there is none that is complete and of this form."""
        return read_json(self.runs / key / RESULT)

    def commit(self, made: Path, key: str, trash: Path) -> None:
        """Give a finished folder its place; what stood there goes to `trash` first, a folder of the same file system.

        A kill between the two leaves no result, and the run is done again.
        """
        target = self.runs / key
        for number in range(1000):
            aside = trash / f"old-{key}-{number}"
            try:
                if target.exists():
                    target.rename(aside)
                made.rename(target)
            except OSError as err:
                # Another batch may have put its own there between the two steps: once more.
                if made.exists() and (aside.exists() or target.exists()) and number < 100:
                    continue
                raise OutputError(f"{target}: cannot be written ({err.strerror or err})") from err
            finally:
                shutil.rmtree(aside, ignore_errors=True)
            return

    def remove(self, key: str, trash: Path) -> None:
        """Remove the result of a run."""
        aside = trash / f"gone-{key}"
        try:
            (self.runs / key).rename(aside)
        except FileNotFoundError:
            return
        shutil.rmtree(aside, ignore_errors=True)


def key_of(root: str, inside: str) -> str:
    """Return the name of a run's folder: readable, and different for each folder of each root.

    >>> key_of("/data", "nightly/2026-01-31")
    'nightly_2026-01-31-2e2c42d37ec5'
    """
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", inside).strip("._-")[-60:].lstrip("._-")
    digest = hashlib.sha256(json.dumps([root, inside]).encode()).hexdigest()[:12]
    return f"{readable or 'run'}-{digest}"


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object of this form; None for anything else (a file torn by a power cut is as good as none)."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("form") == FORM else None


def json_text(value: object) -> str:
    """Return JSON whose bytes follow from the value alone."""
    return json.dumps(value, indent=1, ensure_ascii=True, sort_keys=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; one that has this text already is left as it is."""
    data = text.encode("utf-8", "replace")
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        pass
    with new_file(path, force=True) as file:
        file.write(data)

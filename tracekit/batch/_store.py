"""OUT: one folder for each run, with its result.json. A folder is replaced as a whole, by renames.

OUT/index.html  index.json          the page over all runs, and the same for programs
OUT/assets/                         style and scripts that all pages share
OUT/runs/KEY/result.json            the commit mark: a run's folder that has it is complete
OUT/runs/KEY/report.html ...        the outputs of the run
OUT/roots/KEY.json                  what the last scan of a root found
OUT/archive/                        the archive, unless another one is named
OUT/.work/                          locks and unfinished folders of running batches; removed with the last of them
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NotRequired, Self, TypedDict, TypeVar

import msgspec
from filelock import SoftFileLease, Timeout

from tracekit.errors import OutputError
from tracekit.lazy_dataclass import dataclass
from tracekit.writers.base import new_file

# Claims: several batches may share one OUT, on one machine or several, and any of them may die at any moment.
#
# A batch owns a folder OUT/.work/OWNER, and claims each run before it does the run. Owner and claims are leases (files)
# of the library filelock. The lease of a dead process ends at once on the same machine. On another machine it ends when
# its file was not refreshed for two minutes by the clock of the batch that waits for it. Clocks are never compared.


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


_HASH = re.compile(r"(?<![0-9A-Za-z])(?=[0-9a-f]*\d)[0-9a-f]{7,40}(?![0-9A-Za-z])")
FORM_VERSION = 1
"""Version of result.json, of the files of roots and of index.json."""
RESULT_NAME = "result.json"
Number = int | float | None


class FileJson(TypedDict):
    """A file beside the profiles. path: relative to the run's folder. mtime_ns: Unix time."""

    path: str
    size: int
    mtime_ns: int


class SourceJson(FileJson):
    """A profile of the run. format: "" and read: False where it could not be read."""

    sha256: str
    format: str
    read: bool


class OptionsJson(TypedDict):
    """The options that decide what a run's outputs are. anonymized: stands for the key of the tokens in them.

    Limits are only there where they were given.
    """

    archive: str
    to: list[str]
    strict: bool
    page_events: int
    page_mb: float
    page_args_mb: float
    anonymized: NotRequired[str]
    anonymized_names: NotRequired[bool]
    max_read_bytes: NotRequired[int]
    max_read_events: NotRequired[int]
    max_time_s: NotRequired[float]
    max_memory: NotRequired[int]


class ReasonJson(TypedDict):
    """Why a run, or one of its files, failed. file: "" for the run as a whole."""

    file: str
    reason: str


class RecordsJson(TypedDict):
    """Sums over the ledgers of a run: read = kept + merged + facts + filtered + ignored + dropped."""

    read: int
    kept: int
    merged: int
    facts: int
    filtered: int
    ignored: int
    dropped: dict[str, int]


class OutputJson(TypedDict):
    """A file in the run's folder."""

    path: str
    bytes: int


class ArchivedJson(TypedDict):
    """The run's file in the archive. name: relative to the archive."""

    id: str
    name: str
    bytes: int


class RunResult(TypedDict):
    """The documented object of result.json (docs/batch.md). kind: only where the name of the run is a token.

    program: hashes of the names that take most time in the run. cut: how and where an input of it ends too early, only
    if one does. Results of earlier versions have neither.
    """

    form: int
    tracekit: str
    tool: str
    options: OptionsJson
    run: str
    kind: NotRequired[str]
    key: str
    root: str
    inside: str
    status: str
    again: bool
    reasons: list[ReasonJson]
    lost: NotRequired[list[ReasonJson]]
    date: str
    date_from: str
    start_ns: int | None
    facts: dict[str, str]
    figures: dict[str, Number]
    program: NotRequired[list[int]]
    cut: NotRequired[str]
    events: int
    totals: int
    records: RecordsJson
    notes: list[str]
    incomplete: list[str]
    sources: list[SourceJson]
    others: list[FileJson]
    outputs: list[OutputJson]
    archive: ArchivedJson | None


class PathReason(TypedDict):
    """A place below a root, and why it was not read."""

    path: str
    reason: str


class RootJson(TypedDict):
    """The result of the last scan of a root. budgets: limits for its runs, as given. runs: the keys of its runs."""

    form: int
    anonymized: NotRequired[str]
    root: str
    run_pattern: str
    budgets: NotRequired[list[str]]
    runs: list[str]
    outside: list[str]
    unknown: list[str]
    problems: list[PathReason]
    notes: list[PathReason]


_Form = TypeVar("_Form", RunResult, RootJson)


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The folder of the results."""

    path: Path

    @property
    def runs(self) -> Path:
        """Return the folder of the runs' results."""
        return self.path / "runs"

    @property
    def roots(self) -> Path:
        """Return the folder of the scans, a file for each root."""
        return self.path / "roots"

    @property
    def work(self) -> Path:
        """Return the folder of locks and unfinished results."""
        return self.path / ".work"

    def make(self) -> None:
        """Make the folders. Raises: OutputError."""
        try:
            for folder in (self.runs, self.roots, self.path / "assets", self.work):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise OutputError(f"cannot be written ({err.strerror or err})", path=self.path) from err

    def results(self) -> dict[str, RunResult]:
        """Return every complete result by key, sorted."""
        found = {}
        for folder in sorted(self.runs.iterdir()) if self.runs.is_dir() else ():
            if not folder.name.startswith(".") and (result := self.result(folder.name)) is not None:
                found[folder.name] = result
        return found

    def result(self, key: str) -> RunResult | None:
        """Return the result of a run; None where there is no complete one of this form."""
        return read_json(self.runs / key / RESULT_NAME, RunResult)

    def commit(self, finished: Path, key: str, trash: Path) -> None:
        """Move a finished folder to its place. The previous one goes to `trash` first, on the same file system.

        A kill between the two moves leaves no result: the next batch does the run again. Raises: OutputError.
        """
        target = self.runs / key
        for attempt in range(1000):
            aside = trash / f"old-{key}-{attempt}"
            try:
                if target.exists():
                    target.rename(aside)
                finished.rename(target)
            except OSError as err:
                # Another batch may have moved its own folder there between the two steps: try again.
                if finished.exists() and (aside.exists() or target.exists()) and attempt < 100:
                    continue
                raise OutputError(f"cannot be written ({err.strerror or err})", path=target) from err
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


def kind_of(run: str) -> str:
    """Return the name of a run without its numbers: equal for runs that repeat each other.

    >>> kind_of("resnet50/2026-01-31"), kind_of("nightly-3f9a6b0c/rank0")
    ('resnet#/#-#-#', 'nightly-#/rank#')
    """
    return re.sub(r"\d+", "#", _HASH.sub("#", run))


def read_json(path: Path, form: type[_Form]) -> _Form | None:
    """Return a JSON object of this form; None for a missing, torn or foreign file."""
    try:
        # Not msgspec's own parser: it refuses the lone surrogates of file names that are not text.
        found = msgspec.convert(json.loads(path.read_bytes()), form)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return found if found["form"] == FORM_VERSION else None


def json_text(value: object) -> str:
    """Return JSON whose bytes follow from the value alone."""
    return json.dumps(value, indent=1, ensure_ascii=True, sort_keys=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a whole file by one rename. A file that has this text already keeps its time of change."""
    data = text.encode("utf-8", "replace")
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        pass
    with new_file(path, force=True) as file:
        file.write(data)

"""The runs that BASE and NEW name: files, folders, patterns, archives and their entries.

A word of the command line is one of these:
* a file or URL: one run;
* a pattern: each matching file or folder is a run;
* a folder: each file or folder directly in it is a run (repeats). If all of them have different ranks, they are the
  ranks of one run. With `one_run` they are one run in any case;
* an archive: each entry is a run. ARCHIVE:ID (4 digits or more) is one entry, ARCHIVE:KEY=VALUE and ARCHIVE:KEY are the
  entries with that tag, ARCHIVE:run=NAME are those of a run.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tracekit import archive, pipeline
from tracekit.archive import Entry
from tracekit.comparison import _tree
from tracekit.comparison._profile import COLUMNS, Profile, profile_of
from tracekit.errors import AllInputsError, Failure, InputError, TracekitError, UsageError
from tracekit.inputs import InputOptions, expand
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Trace

_PORT = re.compile(r"\d+(/|$)")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Reading options. format: a reader's name, "" for a guess. partial: name bad runs in the result, or else raise.

    tree: read what the change by module and operator needs.
    """

    format: str = ""
    one_run: bool = False
    partial: bool = False
    progress: Callable[[float], None] | None = None
    tree: bool = False


@dataclass(frozen=True, slots=True)
class RunInput:
    """One run: its name for people, and its inputs. folder: its parent, if that is an input of repeats; else "".

    named: the run was named by its own path or id, and not by an archive, tag, folder or pattern. trace: the run where
    it was read already; it has no inputs then.
    """

    label: str
    inputs: tuple[str, ...]
    folder: str = ""
    entry: Entry | None = None
    named: bool = False
    trace: Trace | None = None


@dataclass(frozen=True, slots=True)
class LoadedRuns:
    """The runs that could be read, each with its profile, and the inputs that could not.

    notes: how folders were interpreted.
    """

    profiles: list[Profile]
    runs: list[RunInput]
    notes: list[str]
    failures: tuple[Failure, ...] = ()


def name_of(word: str | Trace) -> str:
    """Return the name of a run for people: the word itself, or the labels or files that a trace was read from."""
    if isinstance(word, str):
        return word
    names = [source.label or source.path for source in word.run.sources]
    return f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}" if names else "a trace"


def find_runs(words: Sequence[str | Trace], options: LoadOptions) -> list[RunInput]:
    """Return the runs that words name. Raises: TracekitError."""
    found: list[RunInput] = []
    for word in words:
        if isinstance(word, Trace):
            found.append(_of_trace(word, options))
        else:
            found += _runs_of_word(word, options)
    if not found:
        raise UsageError("no input was given", hint="tracekit compare BASE NEW")
    return found


def unique_runs(runs: Sequence[RunInput]) -> tuple[list[RunInput], list[str]]:
    """Return the runs of a side, each archived run once, in order; and a note that names the repeated ones.

    Two adds at the same moment may leave two files of one id ("twice" in `archive verify`), and two words may name one
    entry. Counted as two repeats, the equal rows would make the spread of runs look too small. A file as tracekit wrote
    it goes before a file that another program wrote.
    """
    kept: list[RunInput] = []
    index_of_id: dict[str, int] = {}
    repeated: list[str] = []
    for run in runs:
        if run.entry is None or run.entry.id not in index_of_id:
            if run.entry is not None:
                index_of_id[run.entry.id] = len(kept)
            kept.append(run)
            continue
        index = index_of_id[run.entry.id]
        before = kept[index].entry
        if run.entry.as_written and before is not None and not before.as_written:
            kept[index] = run
        repeated.append(kept[index].label)
    names = list(dict.fromkeys(repeated))
    if not names:
        return kept, []
    shown = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
    entries = "1 entry" if len(names) == 1 else f"{len(names):,} entries"
    return kept, [f"{entries} found twice, counted once: {shown}"]


def _runs_of_word(word: str, options: LoadOptions) -> list[RunInput]:
    path = Path(word)
    if not word.strip():
        raise UsageError("an input has an empty name", hint="is a variable of the shell unset?")
    if path.is_dir():
        return _runs_of_folder(word, options)
    if path.exists() or word == "-":
        return [replace(_of_file(word), named=True)]
    chosen = archive_words(word)
    if chosen is not None:
        by_id = len(chosen) == 1 and chosen[0].id.startswith(word.rpartition(":")[2])
        return [replace(_of_entry(entry), named=by_id) for entry in chosen]
    if "://" in word:
        is_file = "." in word.rpartition("/")[2]
        entries = archive.entries(word, newest=True) if not is_file and archive.is_archive(word) else []
        return [_of_entry(entry) for entry in entries] or [RunInput(word, (word,), named=True)]
    if any(c in word for c in "*?["):
        names = sorted(n for n in glob.glob(word, recursive=True) if not Path(n).name.startswith("."))  # noqa: PTH207
        if not names:
            raise InputError("no file matches", path=word, hint="is the pattern right?")
        return [
            RunInput(name, tuple(item.name for item in expand(name))) if Path(name).is_dir() else _of_file(name)
            for name in names
        ]
    return [RunInput(word, (word,), named=True)]


def _of_trace(trace: Trace, options: LoadOptions) -> RunInput:
    """Return the run of a trace. Raises: UsageError where it lacks a column that is compared."""
    needed = COLUMNS | _tree.COLUMNS if options.tree else COLUMNS
    if lacking := sorted(needed.difference(trace.events.schema.names)):
        raise UsageError(
            f"compare: the trace of {name_of(trace)} was read without the column {lacking[0]}",
            hint="read it without columns=, or pass its path",
        )
    return RunInput(name_of(trace), (), named=True, trace=trace)


def _of_file(word: str) -> RunInput:
    entry = archive.entry_at(word)
    return RunInput(word, (word,)) if entry is None else _of_entry(entry)


def _of_entry(entry: Entry) -> RunInput:
    return RunInput(f"{entry.run} {entry.date.isoformat()} {entry.id[:8]}", (entry.path,), entry=entry)


def archive_words(word: str) -> list[Entry] | None:
    """Return the entries of ARCHIVE:SELECTOR, None for another word. Raises: InputError for no entry."""
    for at, char in enumerate(word):
        root, selector = word[:at], word[at + 1 :]
        if char != ":" or not selector or selector.startswith("//"):
            continue
        if "://" in root:
            # s3://host:9000/path has a port, not a selector.
            if _PORT.match(selector) or ":" in selector or not archive.is_archive(root):
                continue
        elif not Path(root).is_dir():
            continue
        elif not archive.is_archive(root):
            raise InputError("not an archive", path=root, hint="`tracekit archive add` makes one")
        return select(root, selector)
    return None


def select(root: str, selector: str) -> list[Entry]:
    """Return the entries with a tag, a run or an id, oldest first; "" selects all. Raises: InputError for none."""
    if not selector:
        return archive.entries(root, newest=True)
    if found := archive.entries(root, tag=selector, newest=True):
        return found
    key, _, value = selector.partition("=")
    if key == "run" and (found := archive.entries(root, run=value, newest=True)):
        return found
    try:
        return [archive.find(root, selector)]
    except InputError as err:
        raise InputError(
            f"no entry has the tag, run or id {selector}", path=root, hint="`tracekit archive list` shows them"
        ) from err


def _runs_of_folder(word: str, options: LoadOptions) -> list[RunInput]:
    if archive.is_archive(word):
        return [_of_entry(entry) for entry in archive.entries(word, newest=True)]
    names = [item.name for item in expand(word)]
    if options.one_run:
        return [RunInput(word, tuple(names), named=True)]
    children: dict[str, list[str]] = {}
    for name in names:
        children.setdefault(Path(name).relative_to(word).parts[0], []).append(name)
    if len(children) == 1:
        return [RunInput(word, tuple(names), named=True)]
    return [RunInput(str(Path(word) / child), tuple(files), folder=word) for child, files in sorted(children.items())]


def load(runs: Sequence[RunInput], options: LoadOptions) -> LoadedRuns:
    """Read the runs. Runs of one folder become one run if they are its ranks.

    Raises: TracekitError for a single run that cannot be read, AllInputsError where none can.
    """
    failures: list[Failure] = []
    read: list[tuple[RunInput, Profile]] = []
    for number, run in enumerate(runs):
        try:
            read.append((run, _profile(run, options)))
        except TracekitError as err:
            if len(runs) == 1:
                raise
            failures.append(Failure(run.label, err))
        if options.progress is not None:
            options.progress((number + 1) / len(runs))
    if not read:
        raise AllInputsError(failures)
    if failures and not options.partial:
        raise failures[0].error
    out: list[tuple[RunInput, Profile]] = []
    notes: list[str] = []
    for folder in dict.fromkeys(run.folder for run, _ in read):
        mine = [(run, profile) for run, profile in read if run.folder == folder]
        if folder and len(mine) > 1:
            if _are_ranks([profile for _, profile in mine]):
                whole = RunInput(folder, tuple(name for run, _ in mine for name in run.inputs))
                mine = [(whole, _profile(whole, options))]
                notes.append(f"{folder}: read as one run (its files have different ranks)")
            else:
                notes.append(f"{folder}: read as {len(mine)} runs, one for each file or folder; --one-run joins them")
        out += mine
    return LoadedRuns([profile for _, profile in out], [run for run, _ in out], notes, tuple(failures))


def _profile(run: RunInput, options: LoadOptions) -> Profile:
    if run.trace is not None:
        return profile_of(run.trace, run.label, tree=options.tree)
    reading = InputOptions(format=options.format, columns=COLUMNS)
    if options.tree:
        reading = replace(reading, columns=COLUMNS | _tree.COLUMNS)
    return profile_of(pipeline.read(list(run.inputs), reading), run.label, tree=options.tree)


def _are_ranks(profiles: Sequence[Profile]) -> bool:
    ranks = [rank for profile in profiles for rank in profile.ranks]
    return all(profile.ranks for profile in profiles) and len(set(ranks)) == len(ranks)

"""Inputs as a user names them (files, folders, patterns, URLs, stdin), and the reader of each."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from tracekit import options as declared
from tracekit.credentials import masked
from tracekit.errors import InputError, Option, OutputError, TracekitError, UnknownFormatError, UsageError
from tracekit.formats import READERS
from tracekit.inputs.same_work import same_work
from tracekit.inputs.sessions import session_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import plural
from tracekit.model.trace import Ledger, Note
from tracekit.readers.base import Reader
from tracekit.readers.beside import table_of_texts
from tracekit.readers.head import Head
from tracekit.readers.sniff import identify
from tracekit.readers.source import Source, open_source
from tracekit.readers.zipped import members

__all__ = [
    "Input",
    "PathLike",
    "expand",
    "exported",
    "files_of",
    "have_dumps",
    "names_databases",
    "reader_for",
    "refuse_inputs",
    "refuse_unknown_options",
    "several",
    "stored_name",
    "text_of",
    "words_of",
]

PathLike = str | Path


@dataclass(frozen=True, slots=True)
class Input:
    """One input as the user named it: `label` is the NAME of NAME=INPUT, else "".

    session: the session of the Visual Profiler that named the input, "" for none. missing: what that session names too.
    unread: of one input of a folder, the files there that are no profiles. report: of an export of Nsight Systems in a
    folder or pattern, the report beside it, which is not read: its rows would count twice. same_work: of a file of an
    Ascend profiler there, the files with the same work, which are not read either. passes: tables of other passes of a
    run of rocprof-compute, which are not read for the same reason.
    """

    name: str
    label: str = ""
    session: str = ""
    missing: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    report: str = ""
    same_work: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()

    def note(self, ledger: Ledger, shown: Callable[[str], str]) -> None:
        """Say which files beside the input are not read. shown: the name of a file as outputs have it."""
        for name in self.missing:
            text = "the session of the Visual Profiler names databases that are not beside it: they are not read"
            ledger.note("session-names-more", text, where=shown(name))
        if self.report:
            text = f"not read: {shown(self.report)}, the report that this is the export of (named alone, it is read)"
            ledger.notes["report-of-export"] = Note("report-of-export", text, 1)  # no fault, also with --strict
        if self.same_work:
            names = ", ".join(shown(name) for name in self.same_work[:MOST_NAMED])
            more = f" and {len(self.same_work) - MOST_NAMED:,} more" if len(self.same_work) > MOST_NAMED else ""
            count = plural(len(self.same_work), "file")
            text = f"not read: {count} with the same work in another form ({names}{more}; named alone, each is read)"
            ledger.notes["same-work"] = Note("same-work", text, 1)  # no fault, also with --strict
        if self.passes:
            names = ", ".join(Path(name).name for name in self.passes[:MOST_NAMED])
            more = f" and {len(self.passes) - MOST_NAMED:,} more" if len(self.passes) > MOST_NAMED else ""
            text = f"not read: {plural(len(self.passes), 'table')} of other passes of this run ({names}{more})"
            ledger.notes["other-passes"] = Note("other-passes", text, 1)  # no fault, also with --strict
        if self.unread:
            names = ", ".join(shown(name) for name in self.unread[:MOST_NAMED])
            more = f" and {len(self.unread) - MOST_NAMED:,} more" if len(self.unread) > MOST_NAMED else ""
            text = f"not read: {plural(len(self.unread), 'file')} of no known format ({names}{more})"
            ledger.notes["not-profiles"] = Note("not-profiles", text, 1)  # no fault, also with --strict


def expand(inputs: PathLike | Sequence[PathLike]) -> list[Input]:
    """Return the inputs that the user's words name: files, "-", URLs, patterns, folders (all readable files below).

    Of a zip archive each file that some reader knows is an input.

    Raises: InputError for a pattern or folder that names nothing; UsageError when no word is given.
    """
    words = words_of(inputs)
    if not words:
        raise UsageError("no input is named", hint="name a file, a folder, or - for stdin")
    out: list[Input] = []
    for word in map(text_of, words):
        label, equals, rest = word.partition("=")
        if not equals or Path(word).exists() or not label or "/" in label:
            label, rest = "", word
        if not rest.strip():
            raise UsageError("an input has an empty name", hint="is a variable of the shell unset?")
        path = Path(rest)
        if path.is_dir():
            out.extend(_in_folder(path, label))
        elif any(c in rest for c in "*?[") and "://" not in rest and not path.exists():
            names = sorted(name for name in glob.glob(rest, recursive=True) if Path(name).is_file())  # noqa: PTH207 - any root
            if not names:
                raise InputError("no file matches", path=rest, hint="is the pattern right?")
            names = list(dict.fromkeys(map(_export_of, names)))
            reports, same = exported(names), same_work(names)
            left_out = {*reports.values(), *chain.from_iterable(same.values())}
            for name in names:
                if name not in left_out:
                    others = tuple(same.get(name, ()))
                    out.extend(
                        Input(each, label, report=reports.get(name, ""), same_work=others)
                        for each in _in_zip(name) or [name]
                    )
        else:
            found = _of_session(path, rest, label) or [Input(name, label) for name in _in_zip(rest)]
            out.extend(found or [Input(_export_of(rest), label)])
    # A shell makes one word of each table in `run_pqtdir/*.parquet`: the export is one input.
    kept: dict[object, Input] = {}
    for number, item in enumerate(out):
        kept.setdefault(item.name if item.name.endswith(_TABLES_OF_TEXTS) else number, item)
    return list(kept.values())


def files_of(path: Path) -> list[Path]:
    """Return the files that are read where one is named: all tables of an export in a folder, or the file alone."""
    if table_of_texts(path) is None:
        return [path]
    return sorted(each for each in path.parent.iterdir() if each.suffix == path.suffix and each.is_file())


_TABLES_OF_TEXTS = ("StringIds.parquet", "StringIds.arrow", "StringIds.arrows")


def _export_of(name: str) -> str:
    """Return the table of texts for any table of an export of Nsight Systems in a folder, or the name as it is."""
    found = None if "://" in name or name == "-" else table_of_texts(Path(name))
    return name if found is None else str(found)


def _of_session(path: Path, name: str, label: str) -> list[Input]:
    """Return the databases that a session of the Visual Profiler names and that are beside it, [] for another file."""
    session = session_of(path) if "://" not in name else None
    if session is None:
        return []
    found = [str(each) for each in session.beside if _is_of_nvprof(each)]
    return [Input(each, label, name, session.missing) for each in found]


def _is_of_nvprof(path: Path) -> bool:
    try:
        with open_source(str(path)) as source:
            return identify(source, READERS.values()).name.startswith("nvprof-")
    except TracekitError:
        return False


def names_databases(path: Path) -> bool:
    """Return whether a file is a session of the Visual Profiler with databases beside it, which are read themselves."""
    return bool(_of_session(path, str(path), ""))


def _in_zip(name: str) -> list[str]:
    """Return the files of a zip archive that some reader knows, [] for another file."""
    inside = [] if "://" in name else [f"{name}/{member}" for member in members(Path(name))]
    return [each for each in inside if _is_known(each)]


def _is_known(name: str) -> bool:
    """Return whether a file is a profile, or cannot be read: then it is named with its reason when it is opened."""
    try:
        with open_source(name) as source:
            identify(source, READERS.values())
    except UnknownFormatError:
        return False
    except TracekitError:
        pass
    return True


def several(words: PathLike | Sequence[PathLike]) -> bool:
    """Return whether the words may name several inputs: more than one word, a folder or a pattern."""
    if isinstance(words, (str, os.PathLike)):
        words = [words]
    texts = [os.fsdecode(word) for word in words]
    return len(texts) > 1 or any(
        Path(text).is_dir() or any(c in text for c in "*?[") or len(members(Path(text))) > 1 for text in texts
    )


def words_of(inputs: PathLike | Sequence[PathLike]) -> list[PathLike]:
    """Return one input or several as a list. Raises: UsageError where one of them is not the name of an input."""
    words = [inputs] if not isinstance(inputs, Sequence) or isinstance(inputs, str) else list(inputs)
    for word in words:
        text_of(word)
    return words


def text_of(word: object) -> str:
    """Return an input as text. Raises: UsageError for an open file or another object."""
    if isinstance(word, (str, os.PathLike)):
        return os.fsdecode(word)
    name = getattr(word, "name", None)
    if hasattr(word, "read"):
        hint = f"name it instead: {name!r}" if isinstance(name, str) else "write it into a file, and name that"
        raise UsageError("an open file is not an input: inputs are names of files", hint=hint)
    hint = "list(...) makes a list of it" if isinstance(word, Iterable) else "a str or a Path, or a list of them"
    raise UsageError(f"{type(word).__name__} is not an input: inputs are names of files", hint=hint)


def _in_folder(folder: Path, label: str) -> list[Input]:
    """Return the profiles below a folder; one of them names the other files.

    A file of no known format that is named like a profile, but for its numbers, is one too: a rank whose file is empty
    or broken fails with its reason.
    """
    from tracekit.readers.amd.compute_folder import PASSES, is_other_pass, is_read_with_passes

    known: list[str] = []
    others: list[str] = []
    passes: dict[str, list[str]] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")):
        name = str(path)
        if is_other_pass(path):
            passes.setdefault(str(path.with_name(PASSES)), []).append(name)
        if is_other_pass(path) or is_read_with_passes(path):
            continue
        inside = _in_zip(name)
        if _export_of(name) == name:  # the other tables of an export are no inputs, and not unread
            (known if inside or _is_known(name) else others).extend(inside or [name])
    if not known:
        from tracekit.readers.foreign import foreign_folder

        what, hint = foreign_folder(str(folder), _heads(others)) or ("", UnknownFormatError.advice)
        reason = "no file in this folder is a known profile format"
        raise InputError(f"{reason}{f' ({what})' if what else ''}", path=folder, hint=hint)
    reports = exported(known)
    same = same_work(known)
    left_out = {*reports.values(), *chain.from_iterable(same.values())}
    known = [name for name in known if name not in left_out]
    alike = {_NUMBER.sub("#", name) for name in known}
    broken = [name for name in others if _NUMBER.sub("#", name) in alike]
    unread = tuple(name for name in others if name not in broken)
    return [
        Input(
            name,
            label,
            unread=unread if name == known[0] else (),
            report=reports.get(name, ""),
            same_work=tuple(same.get(name, ())),
            passes=tuple(passes.get(name, ())),
        )
        for name in sorted([*known, *broken])
    ]


def exported(names: Sequence[str]) -> dict[str, str]:
    """Return the reports of Nsight Systems whose export is among the names too, by the name of the export.

    `nsys profile --stats=true` leaves both, with one stem.

    >>> exported(["a/run.nsys-rep", "a/run.sqlite", "b/run.nsys-rep"])
    {'a/run.sqlite': 'a/run.nsys-rep'}
    """
    have = set(names)
    pairs: dict[str, str] = {}
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        if dot and suffix.lower() in ("nsys-rep", "qdrep"):
            pairs |= {export: name for each in (stem, name) for end in _EXPORTS if (export := each + end) in have}
    return pairs


_EXPORTS = (".sqlite", ".arrows", "_pqtdir/StringIds.parquet", "_arwdir/StringIds.arrow")


def _heads(names: Sequence[str]) -> list[tuple[str, Head]]:
    """Return the beginnings of the first files that can be read."""
    found = []
    for name in names[:MOST_LOOKED_AT]:
        with suppress(TracekitError), open_source(name) as source:
            found.append((name, source.head()))
    return found


_NUMBER = re.compile(r"[0-9]+")
MOST_LOOKED_AT = 50
"""Files of a folder that are looked at to say what it holds."""
MOST_NAMED = 3
"""Files that a note names; the others are a count."""
_HOMES = re.compile(r"(?:/var)?/(?:home|Users)/[^/]+|/root(?=/|$)|[A-Za-z]:/Users/[^/]+")
FOLDERS_KEPT = 2
_TEXTS = re.compile(r"(?<=[^/])/StringIds\.(?:parquet|arrows?)\Z")


def stored_name(name: str) -> str:
    """Return the name of an input as outputs have it.

    A name that the user wrote relative to the working folder stays. An absolute path below that folder becomes relative
    to it. Any other becomes "..." with the last two folders and the name; a home folder is "~", without its user. In
    URLs user, password, signatures and tokens are masked. Bytes that are not text become U+FFFD. An export of Nsight
    Systems in a folder has the name of the folder.
    """
    text = _TEXTS.sub("", os.fsencode(name).decode("utf-8", "replace"))
    if "://" in text or not Path(text).is_absolute():
        return masked(text)
    path = Path(text)
    here = Path.cwd()
    if path.is_relative_to(here):
        return masked(path.relative_to(here).as_posix())
    parts = [part for part in _HOMES.sub("~", path.as_posix(), count=1).split("/") if part]
    kept = parts[-1 - FOLDERS_KEPT :]
    return masked("/".join(kept if len(kept) == len(parts) and kept[0] == "~" else ["...", *kept]))


def have_dumps(items: Sequence[Input]) -> bool:
    """Return whether inputs begin with a dump of a Flight Recorder: dumps of all ranks are compared with each other."""
    for item in items[:_LOOKED_AT]:
        try:
            with open_source(item.name) as source:
                if identify(source, READERS.values()).name == "flight-recorder":
                    return True
        except TracekitError:
            continue
    return False


_LOOKED_AT = 3


def refuse_inputs(target: PathLike, names: Sequence[str]) -> None:
    """Raise OutputError where the target is one of the inputs: replacing it would destroy what is being read."""
    path = Path(target)
    if not path.exists():
        return
    for name in names:
        if Path(name).exists() and path.samefile(name):
            raise OutputError(f"{target} is an input itself", hint="choose another name with -o")


def reader_for(source: Source, name: str = "") -> Reader:
    """Return the reader of that name, or the one that knows the content. Raises: UsageError, UnknownFormatError."""
    if not name:
        try:
            return identify(source, READERS.values())
        except UnknownFormatError:
            _refuse_session(source)
            raise
    if name not in READERS:
        raise declared.no_such(Option("from"), name, "format", READERS, hint="`tracekit formats` lists them")
    return READERS[name]


def _refuse_session(source: Source) -> None:
    """Raise UnknownFormatError with the names of the databases that a session of the Visual Profiler needs."""
    session = session_of(source.path)
    if session is not None and session.missing:
        hint = f"it names {', '.join(session.missing[:3])}: put that beside it, or give it instead of the session"
        raise UnknownFormatError(
            source.name, "a Visual Profiler session in XML: settings without a timeline", hint=hint
        )


def refuse_unknown_options(given: Iterable[str]) -> None:
    """Raise UsageError for a key of `--option` that no format has."""
    specs = [spec for reader in READERS.values() for spec in reader.options]
    for key in given:
        if key not in {spec.key for spec in specs}:
            raise declared.unknown_option(key, specs, owner="format")

"""The two tables of a query. Archived files are read in place; other inputs are converted to a temporary file."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tracekit import archive, pipeline
from tracekit.archive import Entry
from tracekit.credentials import masked
from tracekit.errors import AllInputsError, Failure, InputError, ParseError, ScratchError, TracekitError, UsageError
from tracekit.inputs import USUAL, InputOptions, PathLike, stored_name, words_of
from tracekit.model import schema
from tracekit.model.arrow import array
from tracekit.model.trace import Ledger, Trace
from tracekit.queries._checks import VERIFY, Checks
from tracekit.queries._views import SCRATCH, QueryTables, SourceName
from tracekit.readers.archive.check import CheckedFile, checked_file
from tracekit.safety.limits import in_force
from tracekit.safety.scratch import scratch_folder, writing

ArrowField: TypeAlias = "pa.Field[pa.DataType]"
ARCHIVE_COLUMNS: tuple[ArrowField, ...] = (
    pa.field("entry", pa.string()),
    pa.field("date", pa.date32()),
    pa.field("run_name", pa.string()),
)
"""The archive entry of a row; null for other inputs. (TOTALS has a column `run` of its own, a number.)"""

EVENTS = pa.schema([*schema.EVENTS, *ARCHIVE_COLUMNS])
TOTALS = pa.schema([*schema.TOTALS, *ARCHIVE_COLUMNS])
_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


@contextmanager
def tables(
    inputs: PathLike | Sequence[PathLike] | Trace,
    *,
    totals: bool,
    options: InputOptions,
    all_versions: bool = False,
) -> Iterator[QueryTables]:
    """Return a context with what the inputs give. totals: whether the query reads them.

    all_versions: of an archive, the older versions of a run too that a batch archived again because its files changed.
    Raises: TracekitError.
    """
    if isinstance(inputs, Trace):
        if options.format or options.strict:
            option = "format" if options.format else "strict"
            raise UsageError(f"{option}: the trace is read already", hint=f"pass {option} to read")
        events, summed_of_trace = (_with_origin(table, None) for table in (inputs.events, inputs.totals))
        names = {("", n): SourceName(each.label or each.path) for n, each in enumerate(inputs.run.sources)}
        yield QueryTables(events, summed_of_trace, inputs.ledgers, inputs.failures, names=names)
        return
    words = words_of(inputs)
    bad: list[Failure] = []
    entries, others, older = _archived_and_others(words, options.format, bad, all_versions=all_versions)
    ledgers: list[Ledger] = []
    empty: list[str] = []
    names = {}
    checks, refused = Checks(), 0
    with scratch_folder(SCRATCH) as folder:
        fragments: list[tuple[FileSystem, ds.Fragment]] = []
        summed: list[pa.Table] = []
        for number, entry in enumerate(entries):
            # An older schema, or rows rewritten by another program, need the reader and not a plain scan.
            path = entry.path
            try:
                if not checks.is_plain(entry):
                    path = str(folder / f"{number}.parquet")
                    with writing(folder):
                        pipeline.convert(entry.path, path, InputOptions(format="parquet", strict=options.strict))
            except ScratchError:
                raise
            except TracekitError as err:
                bad.append(Failure(entry.path, err))
                refused += 1
                continue
            if entry.table == "events":
                fragments.append(_fragment(path, entry))
            if totals and entry.totals:
                summed.append(_with_origin(_totals(path), entry))
                if summed[-1].num_rows != entry.totals:
                    text = f"it has {summed[-1].num_rows:,} totals, but its ledgers count {entry.totals:,}"
                    raise ParseError(entry.path, "", text, hint=VERIFY)
            ledgers += entry.ledgers
            names |= {(entry.id, n): SourceName(each.path, entry.run) for n, each in enumerate(entry.sources)}
        if others and (file := _in_place(others, options)) is not None:
            path = str(others[0])
            beside = _totals(path) if file.has_totals or file.table == "totals" else TOTALS.empty_table()
            ledgers.append(_ledger(stored_name(path), file.rows if file.table == "events" else 0, beside.num_rows))
            empty += [path] if ledgers[-1].is_empty else []
            names |= {("", n): SourceName(masked(each.label or each.path)) for n, each in enumerate(file.run.sources)}
            if file.table == "events":
                fragments.append(_fragment(path, None))
            if totals and beside.num_rows:
                summed.append(_with_origin(beside, None))
        elif others:
            path = str(folder / "others.parquet")
            with writing(folder):
                done = pipeline.convert(others, path, replace(options, partial=True), to="parquet")
            bad += done.failures
            ledgers += done.ledgers
            empty += [ledger.name_in_errors for ledger in done.ledgers if ledger.is_empty]
            private = options.anonymize is not None
            names |= {
                ("", n): SourceName(each.label or each.path, "" if private else _run_of(each.opened, words))
                for n, each in enumerate(done.run.sources)
            }
            if done.written.events or not done.written.totals:
                fragments.append(_fragment(path, None))
            if totals and done.written.totals:
                summed.append(_with_origin(_totals(path), None))
        if bad and not options.partial:
            raise bad[0].error
        if not others and refused == len(entries):
            raise AllInputsError(bad)
        summed_up = pa.concat_tables([TOTALS.empty_table(), *summed])
        yield QueryTables(
            _dataset(fragments),
            summed_up,
            tuple(ledgers),
            tuple(bad),
            tuple(checks.unchecked),
            names,
            tuple(empty),
            older,
        )


def _in_place(others: Sequence[PathLike], options: InputOptions) -> CheckedFile | None:
    """Return what the only input that is not archived holds, where DuckDB can scan it as it is; else None.

    It is a Parquet file of tracekit, nothing is asked of its reader, and no limit holds. Raises: ParseError.
    """
    text = str(others[0])
    usual = replace(options, format="", partial=USUAL.partial, progress=USUAL.progress) == USUAL
    limits = in_force()
    if len(others) != 1 or not usual or limits.read_bytes or limits.read_events:
        return None
    return checked_file(text) if text.endswith(".parquet") and Path(text).is_file() else None


def _ledger(name: str, events: int, totals: int) -> Ledger:
    """Return the ledger that reading the file would give: every row is kept."""
    made = Ledger(0, name, "parquet", read=events + totals, kept=events + totals)
    made.events_out, made.totals_out, made.written = events, totals, events + totals
    return made


def _run_of(opened: str, words: Sequence[PathLike]) -> str:
    """Return the run of a file that is not archived: its folder, in a folder or pattern that the user named; else "".

    In a folder it is the path from there to the file's folder, as in a batch.
    """
    named = [str(word).partition("=")[2] or str(word) for word in words]
    if "://" in opened or opened in ("", "-", *named, *map(str, words)):
        return ""
    place = Path(opened).parent
    for word in map(Path, [*map(str, words), *named]):
        if word.is_dir() and place.is_relative_to(word):
            return masked(str(place.relative_to(word)) if place != word else word.resolve().name)
    return masked(str(place)) if place != Path() else ""


def _archived_and_others(
    words: Sequence[PathLike], format: str, bad: list[Failure], *, all_versions: bool
) -> tuple[list[Entry], list[PathLike], int]:
    """Return the archived files that the words name, the other words, and how many older versions are left out."""
    entries: list[Entry] = []
    others: list[PathLike] = []
    older = 0
    for word in words:
        text = str(word)
        if format not in ("", "parquet"):
            others.append(word)
        elif (entry := archive.entry_at(text)) is not None:
            entries.append(entry)
        elif _may_be_archive(text) and archive.is_archive(text):
            found = archive.listing(text)
            bad += found.failures
            left_out = set() if all_versions else {entry.name for entry in archive.replaced(found.entries)}
            older += len(left_out)
            entries += _unique([entry for entry in found.entries if entry.name not in left_out], bad)
        else:
            others.append(word)
    return entries, others, older


def _unique(found: Sequence[Entry], bad: list[Failure]) -> list[Entry]:
    """Return each entry once, since two files (copied, moved, added at the same moment) may have the same rows."""
    kept: dict[str, Entry] = {}
    for entry in sorted(found, key=_misplaced):
        first = kept.setdefault(entry.id, entry)
        if first is not entry:
            error = InputError(
                f"skipped (a copy of {first.path})", path=entry.path, hint="`tracekit archive verify` lists all copies"
            )
            bad.append(Failure(entry.path, error))
    return [entry for entry in found if kept[entry.id] is entry]


def _misplaced(entry: Entry) -> bool:
    return not entry.name.startswith(f"{entry.table}/date={entry.date.isoformat()}/")


def _may_be_archive(text: str) -> bool:
    """Return whether to look for an archive: in a local folder, or a URL whose last part has no suffix."""
    if "://" in text:
        return "." not in text.rstrip("/").rpartition("/")[2]
    return Path(text).is_dir()


def _fragment(path: str, entry: Entry | None) -> tuple[FileSystem, ds.Fragment]:
    filesystem, inside = archive.arrow_file(path)
    constants = ds.scalar(True)
    if entry is not None:
        constants = (
            (ds.field("entry") == entry.id)
            & (ds.field("date") == pa.scalar(entry.date, pa.date32()))
            & (ds.field("run_name") == entry.run)
        )
    return filesystem, _FORMAT.make_fragment(inside, filesystem=filesystem, partition_expression=constants)


def _dataset(fragments: list[tuple[FileSystem, ds.Fragment]]) -> ds.Dataset:
    """Return all fragments as one dataset: a union over file systems."""
    if not fragments:
        return ds.dataset(EVENTS.empty_table())
    by_system: dict[str, list[ds.Fragment]] = {}
    systems: dict[str, FileSystem] = {}
    for filesystem, fragment in fragments:
        key = filesystem.type_name
        systems[key] = filesystem
        by_system.setdefault(key, []).append(fragment)
    parts = [ds.FileSystemDataset(files, EVENTS, _FORMAT, filesystem=systems[key]) for key, files in by_system.items()]
    children: Any = parts  # pyarrow-stubs knows paths alone
    return parts[0] if len(parts) == 1 else ds.dataset(children)


def _totals(path: str) -> pa.Table:
    """Return the TOTALS of a file by tracekit: its table, or the table in its footer beside events."""
    filesystem, inside = archive.arrow_file(path)
    try:
        with filesystem.open_input_file(inside) as file:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            facts = parquet.metadata.metadata or {}
            if facts[b"tracekit.table"] == b"totals":
                return parquet.read().select(schema.TOTALS.names)
            with pa.ipc.open_stream(base64.b64decode(facts[b"tracekit.totals"], validate=True)) as stream:
                return stream.read_all().select(schema.TOTALS.names)
    except (pa.ArrowException, OSError, ValueError, KeyError) as err:
        raise ParseError(path, "", f"its totals cannot be read ({err})", hint="is the file whole?") from err


def _with_origin(table: pa.Table, entry: Entry | None) -> pa.Table:
    values = (entry.id, entry.date, entry.run) if entry is not None else (None, None, None)
    for field, value in zip(ARCHIVE_COLUMNS, values, strict=True):
        table = table.append_column(field, array([value] * table.num_rows, field.type))
    return table

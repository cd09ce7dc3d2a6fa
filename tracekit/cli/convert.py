"""tracekit convert: profiles into a Chrome trace, an archive, JSON lines, CSV or a legacy log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import _common
from tracekit.cli._common import (
    EmptyInput,
    ReadArguments,
    anonymizer,
    empty_inputs,
    example,
    finish,
    progress,
    say,
    tell_incomplete,
    tell_ledger,
)
from tracekit.cli.process.terminal import show_bytes
from tracekit.errors import TracekitError, UsageError
from tracekit.lazy_dataclass import dataclass
from tracekit.options import no_such
from tracekit.safety.scratch import scratch_folder, scratch_read, writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracekit.conversion import Conversion
    from tracekit.errors import Failure

__all__ = ["convert"]


@dataclass(frozen=True, slots=True)
class _WantedOutput:
    """The options of the output."""

    to: str
    viewer: str
    split: str
    max_events: int
    max_mb: str
    findings: bool
    plain: bool


@example(
    "tracekit convert run.csv -o run.json.gz",
    "tracekit convert run.csv -o run.pftrace --findings",
    "tracekit convert rank0.jsonl rank1.jsonl -o ranks.parquet",
    "tracekit convert trace.json -o kernels.csv --kind kernel",
)
def convert(
    reading: ReadArguments,
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="OUT", help="A file, - for stdout, or FOLDER/ for one output each."),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="TARGET",
            help="Write this target, such as chrome; else the suffix decides.",
            autocompletion=_common.targets,
        ),
    ] = "",
    viewer: Annotated[
        str, typer.Option("--for", metavar="VIEWER", help="Respect the limits of chrome, perfetto or speedscope.")
    ] = "",
    split: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="Write pieces: step, rank, time=1s, events=200000 or mb=100 each.",
        ),
    ] = "",
    max_events: Annotated[
        int, typer.Option(metavar="N", help="Keep the N longest events; a note counts the rest.", min=0)
    ] = 0,
    max_mb: Annotated[str, typer.Option(metavar="MB", help="Keep the longest events that fit into so many MB.")] = "",
    findings: Annotated[bool, typer.Option("--findings", help="Mark the events of findings on extra threads.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="JSON lines without the header and the last line.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Convert profiles into a trace for a viewer, an archive or a table.

    Several inputs give one output, side by side. Perfetto (ui.perfetto.dev) and chrome://tracing open .json.gz.
    """
    from tracekit.writers.base import VIEWERS

    if viewer and viewer not in VIEWERS:
        raise no_such("--for", viewer, "viewer", VIEWERS)
    if not output.strip():
        raise UsageError("-o: an empty name", hint="is a variable of the shell unset?")
    if split and output == "-":
        raise UsageError("--split: stdout takes one file", hint="name a file with -o")
    if findings and plain:
        raise UsageError("--findings: not with --plain", hint="convert twice")
    if findings and (split or max_events or max_mb):
        raise UsageError("--findings: not with --split, --max-events or --max-mb", hint="convert twice")
    wanted = _WantedOutput(to, viewer, split, max_events, max_mb, findings, plain)
    lost: list[str] = []
    empty: list[EmptyInput] = []
    failures: Sequence[Failure]
    if not _names_folder(output, to) and (output.endswith("/") or (Path(output).is_dir() and output != "-")):
        failures = _one_each(reading, Path(output), lost, empty, wanted, force=force)
    elif output == "-":
        failures = _to_stdout(reading, lost, empty, wanted)
    else:
        failures = _tell(_convert(reading, reading.inputs, output, wanted, force=force), lost, empty)
    finish(failures, lost, list(dict.fromkeys(empty)))


def _names_folder(output: str, to: str) -> bool:
    """Return whether the output is named as one that is a folder itself."""
    from tracekit import conversion

    try:
        writer = conversion.writer_for(output.rstrip("/"))
    except UsageError:
        return False
    return writer.folder and to in ("", writer.name)


def _convert(
    reading: ReadArguments, inputs: list[str], output: str, wanted: _WantedOutput, *, force: bool
) -> Conversion:
    from tracekit import conversion
    from tracekit.writers.base import OutputSubset

    with progress(f"converting {inputs[0]}") as update:
        if wanted.findings:
            from tracekit import pipeline

            return pipeline.convert_with_findings(
                inputs, output, reading.input_options(update), to=wanted.to, viewer=wanted.viewer, force=force
            )
        how, shape = reading.input_options(update), OutputSubset(wanted.split, wanted.max_events, wanted.max_mb)
        return conversion.convert(
            inputs, output, how, to=wanted.to, viewer=wanted.viewer, force=force, shape=shape, plain=wanted.plain
        )


def _tell_incomplete(done: Conversion, lost: list[str]) -> None:
    from tracekit.model.trace import incomplete

    sentences = incomplete(done.ledgers, done.run)
    tell_incomplete(sentences)
    lost += sentences


def _tell(done: Conversion, lost: list[str], empty: list[EmptyInput]) -> Sequence[Failure]:
    """Print what was written, and return the inputs that failed."""
    _tell_incomplete(done, lost)
    empty += empty_inputs(done.ledgers)
    written = done.written
    size = written.size()
    rows = [f"{n:,} {what}" for n, what in ((written.events, "events"), (written.totals, "totals")) if n]
    say(f"wrote {written.path}: {' and '.join(rows) or 'no events'}, {size:,} bytes")
    for reason, count in written.unexplained():
        say(f"note: {count:,} {'row' if count == 1 else 'rows'} skipped: {reason}")
    for note in written.notes:
        say(f"note: {note}")
    tell_ledger(done.ledgers)
    return done.failures


def _one_each(
    reading: ReadArguments,
    folder: Path,
    lost: list[str],
    empty: list[EmptyInput],
    wanted: _WantedOutput,
    *,
    force: bool,
) -> Sequence[Failure]:
    failures: list[Failure] = []
    from tracekit import conversion
    from tracekit.errors import Failure
    from tracekit.inputs import expand
    from tracekit.inputs.paths import stored_name

    wanted = replace(wanted, to=wanted.to or "chrome")
    suffix = conversion.writer_for("", wanted.to).suffixes[0]
    folder.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()
    hidden = anonymizer(reading.anonymize_key, wanted=reading.anonymize, names=reading.anonymize_names)
    for item in expand(reading.inputs):
        address = item.name.partition("?")[0] if "://" in item.name else item.name
        stem = item.label or Path(address).name.split(".")[0] or "stdin"
        if hidden is not None and not item.label and item.name != "-":
            # The token that stands for the input inside the output too.
            stem = hidden.token("path", stored_name(item.name))
        name = stem
        for number in range(2, 1 << 20):
            if name not in taken:
                break
            name = f"{stem}-{number}"
        taken.add(name)
        try:
            target = str(folder / f"{name}{suffix}")
            _tell(_convert(reading, [item.name], target, wanted, force=force), lost, empty)
        except TracekitError as err:
            if isinstance(err, UsageError) and len(taken) == 1 and not Path(item.name).exists():
                raise
            failures.append(Failure(item.name, err))
    return failures


def _to_stdout(
    reading: ReadArguments, lost: list[str], empty: list[EmptyInput], wanted: _WantedOutput
) -> Sequence[Failure]:
    if not wanted.to:
        raise UsageError("-o -: stdout has no suffix", hint="pass --to, for example --to jsonl")
    from tracekit import conversion

    if conversion.writer_for("", wanted.to).folder:
        raise UsageError(f"-o -: {wanted.to} is a folder, and stdout takes one file", hint="name a folder with -o")
    with scratch_folder() as folder:
        target = folder / "stdout"
        with writing(folder):
            done = _convert(reading, reading.inputs, str(target), wanted, force=True)
        with scratch_read(target) as file:
            show_bytes(file)
        _tell_incomplete(done, lost)
        empty += empty_inputs(done.ledgers)
        tell_ledger(done.ledgers)
        return done.failures

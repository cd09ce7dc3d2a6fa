"""tracekit inspect: what a file is, what is in it, and what became of each record."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli._common import Reading, example, expanded, finish, printable, progress
from tracekit.errors import UsageError
from tracekit.units import format_span

if TYPE_CHECKING:
    pass


@expanded
@example("tracekit inspect run.csv --format json")
def inspect(
    reading: Reading,
    format_: Annotated[str, typer.Option("--format", metavar="FORM", help="text or json.")] = "text",
) -> None:
    """Tell what each input is, what is in it, and the ledger: records read = kept + merged + ... + dropped."""
    from tracekit import pipeline

    if format_ not in ("text", "json"):
        raise UsageError(f"--format {format_}: no such form", hint="one of: text, json")
    with progress(f"reading {reading.inputs[0]}") as update:
        found = pipeline.inspect(reading.inputs, reading.input_options(update))
    if format_ == "json":
        import orjson

        sys.stdout.write(orjson.dumps(found.to_json(), option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        print("\n\n".join(_text(entry) for entry in found.inputs))
    finish(found.failures)


def _text(entry: dict[str, Any]) -> str:
    ledger = entry["ledger"]
    label = f"{entry['label']} = " if entry["label"] else ""
    lines = [printable(label + entry["path"]), f"  {'format':<16} {entry['format']}"]
    for key, value in entry["facts"].items():
        if isinstance(value, (str, int, float)) and str(value):
            lines.append(f"  {printable(str(key)):<16} {printable(str(value))[:400]}")
    if entry["devices"]:
        lines.append(f"  devices          {printable(', '.join(entry['devices']))[:400]}")
    rows = [f"{entry[what]:,} {what}" for what in ("events", "totals") if entry[what]]
    lines.append(f"  holds            {' and '.join(rows) or 'no events'}")
    if entry["first_ns"] is not None:
        lines.append(
            f"  times            {entry['first_ns']:,} ns to {entry['last_ns']:,} ns, "
            f"{format_span(entry['last_ns'] - entry['first_ns'])} in all"
        )
    for kind, counts in entry["by_kind"].items():
        lines.append(f"    {kind:<18} {counts['events']:>12,} events {counts['dur_ns']:>20,} ns")
    lines.append(f"  ledger           {ledger['read']:,} records read")
    for name in ("kept", "merged", "facts", "filtered"):
        if ledger[name]:
            lines.append(f"    {name:<30} {ledger[name]:>12,}")
    for name in ("ignored", "dropped"):
        lines += [f"    {name}: {what:<{29 - len(name) - 1}} {n:>12,}" for what, n in ledger[name].items()]
    for note in ledger["notes"]:
        where = f" (first at {', '.join(note['places'])})" if note["places"] else ""
        count = f", {note['count']:,} times" if note["count"] > 1 else ""
        lines.append(f"  note             {printable(note['text'])}{count}{printable(where)}")
    return "\n".join(lines)

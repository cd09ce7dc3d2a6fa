"""tracekit inspect: the format of a file, its contents, and a count of every record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tracekit.cli._common import EmptyInput, ReadArguments, example, finish, progress
from tracekit.cli.process.terminal import one_line, show
from tracekit.errors import UsageError
from tracekit.model.units import format_span

if TYPE_CHECKING:
    from tracekit.inputs.inventory import StockJson

__all__ = ["inspect"]


_SUMS: tuple[Literal["kept", "merged", "facts", "filtered"], ...] = ("kept", "merged", "facts", "filtered")
_REASONS: tuple[Literal["ignored", "dropped"], ...] = ("ignored", "dropped")


@example("tracekit inspect run.csv", "tracekit inspect run.csv --format json")
def inspect(
    reading: ReadArguments,
    format_: Annotated[str, typer.Option("--format", metavar="FORM", help="Print text or json.")] = "text",
) -> None:
    """Show what a file is, what is in it, and what became of every record.

    Records read = kept + merged + header rows + ignored + filtered + dropped.
    """
    from tracekit import conversion
    from tracekit.inputs.inventory import incomplete_stock

    if format_ not in ("text", "json"):
        raise UsageError(f"--format {format_}: no such form", hint="one of: text, json")
    with progress(f"reading {reading.inputs[0]}") as update:
        found = conversion.inspect(reading.inputs, reading.input_options(update))
    lost = incomplete_stock(found.inputs)
    if format_ == "json":
        import orjson

        show(orjson.dumps(found.to_json(), option=orjson.OPT_INDENT_2).decode() + "\n", pager=False, form="json")
    else:
        first = "".join(f"{one_line(text)}\n" for text in lost)
        show(first + "\n\n".join(_text(entry) for entry in found.inputs) + "\n")
    entries = zip(found.names, found.inputs, strict=True)
    empty = [EmptyInput(name, entry["format"]) for name, entry in entries if _is_empty(entry)]
    finish(found.failures, lost, empty)


def _is_empty(entry: StockJson) -> bool:
    ledger = entry["ledger"]
    known = ledger["kept"] or ledger["merged"] or ledger["filtered"] or ledger["dropped"]
    return not (known or ledger.get("reservation"))


def _clock(facts: object) -> str:
    """Return how an input came onto the clock that it shares with others, "" for an input alone."""
    if not isinstance(facts, dict):
        return ""
    against = f", against {facts['against']}" if "against" in facts else ""
    parts = [f"group {facts['group']}, by {facts['method']}{against}"]
    if facts["offset_ns"] or facts["drift_ppm"]:
        parts.append(f"offset {facts['offset_ns']:+,} ns")
    if facts["drift_ppm"]:
        parts.append(f"drift {facts['drift_ppm']:+.3f} ppm")
    sure = facts["uncertainty_ns"]
    parts.append("uncertainty unknown" if sure is None else f"uncertainty {sure:,} ns")
    if "possible_ns" in facts:
        parts.append(f"certainly {_possible(*facts['possible_ns'])}")
    if "breaks" in facts:
        first, last = facts["valid_ns"]
        jumps = ", ".join(f"{each['by_ns']:+,} ns at {each['at_ns']:,}" for each in facts["breaks"])
        parts.append(f"jumps by {jumps}: valid from {first:,} to {last:,} ns only")
    return "; ".join(parts)


def _possible(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return "not limited" if low == high else f"{low:+,} ns or more" if high is None else f"{high:+,} ns or less"
    return f"{low:+,} to {high:+,} ns"


def _device_clocks(facts: object) -> list[str]:
    """Return how each device's rows were moved within their input, as `--align launches` says."""
    lines = []
    for each in facts if isinstance(facts, list) else ():
        name = "its devices" if each["device"] is None else f"device {each['device']}"
        process = "" if each["pid"] is None else f" of process {each['pid']}"
        parts = [f"{name}{process}: offset {each['offset_ns']:+,} ns"]
        if each["drift_ppm"]:
            parts.append(f"drift {each['drift_ppm']:+.3f} ppm")
        parts.append(f"certainly {_possible(*each['possible_ns'])}")
        lines.append("; ".join(parts))
    return lines


def _text(entry: StockJson) -> str:
    from tracekit.inputs.inventory import half_stock

    ledger = entry["ledger"]
    label = f"{entry['label']} = " if entry["label"] else ""
    lines = [one_line(label + entry["path"]), f"  {'format':<16} {entry['format']}"]
    lines += [f"  {'cut':<16} {one_line(text)}" for text in half_stock(entry)]
    for key, value in entry["facts"].items():
        if isinstance(value, (str, int, float)) and str(value):
            lines.append(f"  {one_line(str(key)):<16} {one_line(str(value))[:400]}")
    if clock := _clock(entry["facts"].get("clock")):
        lines.append(f"  {'clock':<16} {one_line(clock)}")
    lines += [
        f"  {'device clock':<16} {one_line(text)}" for text in _device_clocks(entry["facts"].get("device_clocks"))
    ]
    if entry["devices"]:
        lines.append(f"  devices          {one_line(', '.join(entry['devices']))[:400]}")
    counts = {"events": entry["events"], "totals": entry["totals"]}
    rows = [f"{count:,} {what}" for what, count in counts.items() if count]
    lines.append(f"  holds            {' and '.join(rows) or 'no events'}")
    if entry["first_ns"] is not None and entry["last_ns"] is not None:
        lines.append(
            f"  times            {entry['first_ns']:,} ns to {entry['last_ns']:,} ns, "
            f"{format_span(entry['last_ns'] - entry['first_ns'])} in all"
        )
    for kind, of_kind in entry["by_kind"].items():
        lines.append(f"    {kind:<18} {of_kind['events']:>12,} events {of_kind['dur_ns']:>20,} ns")
    lines.append(f"  records          {ledger['read']:,} read")
    sums = {"header rows" if name == "facts" else name: ledger[name] for name in _SUMS}
    lines += [f"    {name:<30} {count:>12,}" for name, count in sums.items() if count]
    for name in _REASONS:
        lines += [f"    {name}: {what:<{29 - len(name) - 1}} {n:>12,}" for what, n in ledger[name].items()]
    for note in ledger["notes"]:
        where = f" (first at {', '.join(note['places'])})" if note["places"] else ""
        count = f", {note['count']:,} times" if note["count"] > 1 else ""
        lines.append(f"  note             {one_line(note['text'])}{count}{one_line(where)}")
    return "\n".join(lines)

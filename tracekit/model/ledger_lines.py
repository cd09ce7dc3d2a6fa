"""Sentences on what became of the records of each input: commands and renderers share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracekit.model.display import escape_controls, plural

__all__ = ["LedgerCounts", "count_of", "ledger_lines"]

LEDGERS_SHOWN = 4

LedgerCounts = Mapping[str, object]
"""A ledger in JSON: counts by name, and counts by reason for `ignored` and `dropped`."""


def ledger_lines(ledgers: Sequence[LedgerCounts], *, quiet: bool = False, verbose: bool = True) -> list[str]:
    """Return what became of the records, in one line for each input.

    Many inputs get one line for all and one for each with dropped records. Not verbose: one line for all inputs, and
    one for each with dropped records; quiet: only the latter.
    """
    if not ledgers:
        return []
    if quiet or not verbose:
        losing = [ledger for ledger in ledgers if ledger.get("dropped")]
        lines = [] if quiet or len(losing) == len(ledgers) else [_short_account(ledgers)]
        lines += [_losses(ledger, alone=len(ledgers) == 1) for ledger in losing[:LEDGERS_SHOWN]]
        return [*lines, *_more_losing(losing)]
    if len(ledgers) == 1:
        return [_account(ledgers[0])]
    if len(ledgers) <= LEDGERS_SHOWN:
        return [_named(ledger) for ledger in ledgers]
    losing = [ledger for ledger in ledgers if ledger.get("dropped")]
    lines = [f"{len(ledgers):,} inputs: {_account(_sum(ledgers))}"]
    lines += [_named(ledger) for ledger in losing[:LEDGERS_SHOWN]]
    return [*lines, *_more_losing(losing)]


def _more_losing(losing: Sequence[LedgerCounts]) -> list[str]:
    more = len(losing) - LEDGERS_SHOWN
    return [f"and {plural(more, 'more input')} with dropped records"] if more > 0 else []


def _short_account(ledgers: Sequence[LedgerCounts]) -> str:
    """Return "read 1,024 records of 2 inputs, nothing dropped"."""
    whole = _sum(ledgers)
    inputs = f" of {len(ledgers):,} inputs" if len(ledgers) > 1 else ""
    filtered = f", {count_of(whole, 'filtered'):,} filtered" if count_of(whole, "filtered") else ""
    dropped = count_of(whole, "dropped")
    return f"read {plural(count_of(whole, 'read'), 'record')}{inputs}{filtered}, {dropped or 'nothing'} dropped"


def _losses(ledger: LedgerCounts, *, alone: bool) -> str:
    """Return "run.csv: read 1,024 records, 3 dropped (bad-number 3)"."""
    name = "" if alone else f"{escape_controls(str(ledger.get('path', '')))}: "
    why = ", ".join(f"{escape_controls(reason)} {n:,}" for reason, n in sorted(_reasons(ledger, "dropped").items()))
    filtered = f", {count_of(ledger, 'filtered'):,} filtered" if count_of(ledger, "filtered") else ""
    read = count_of(ledger, "read")
    return f"{name}read {plural(read, 'record')}{filtered}, {count_of(ledger, 'dropped'):,} dropped ({why})"


def _named(ledger: LedgerCounts) -> str:
    return f"{escape_controls(str(ledger.get('path', '')))}: {_account(ledger)}"


def count_of(ledger: LedgerCounts, name: str) -> int:
    """Return a count of a ledger; of counts by reason their sum, 0 where it has none."""
    value = ledger.get(name)
    return (
        sum(_reasons(ledger, name).values()) if isinstance(value, Mapping) else value if isinstance(value, int) else 0
    )


def _reasons(ledger: LedgerCounts, name: str) -> dict[str, int]:
    value = ledger.get(name)
    pairs = value.items() if isinstance(value, Mapping) else ()
    return {str(reason): count for reason, count in pairs if isinstance(count, int)}


def _account(ledger: LedgerCounts) -> str:
    """Return "read 66 records: 61 kept, 5 ignored (header 1, preamble 4), nothing dropped"."""
    read = count_of(ledger, "read")
    parts = [f"{count_of(ledger, 'kept'):,} kept"]
    for name, one in (("merged", "merged"), ("facts", "header row")):
        if count := count_of(ledger, name):
            parts.append(f"{count:,} merged" if name == "merged" else plural(count, one))
    for name in ("ignored", "filtered", "dropped"):
        why = ", ".join(
            f"{escape_controls(reason)} {count:,}" for reason, count in sorted(_reasons(ledger, name).items())
        )
        if count := count_of(ledger, name):
            parts.append(f"{count:,} {name}{f' ({why})' if why else ''}")
        elif name == "dropped":
            parts.append("nothing dropped")
    return f"read {read:,} {'record' if read == 1 else 'records'}: {', '.join(parts)}"


def _sum(ledgers: Sequence[LedgerCounts]) -> dict[str, object]:
    names = ("read", "kept", "merged", "facts", "filtered")
    out: dict[str, object] = {name: sum(count_of(ledger, name) for ledger in ledgers) for name in names}
    for name in ("ignored", "dropped"):
        merged: dict[str, int] = {}
        for ledger in ledgers:
            for reason, count in _reasons(ledger, name).items():
                merged[reason] = merged.get(reason, 0) + count
        out[name] = merged
    return out

"""The door through which everything that is read passes: no credential gets behind it, and each one found is noted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import pyarrow as pa

from tracekit.columns import arrow
from tracekit.credentials import SUSPECT, masked, masked_value
from tracekit.privacy.anonymous import Anonymizer
from tracekit.privacy.columns import Changed, changed_batch
from tracekit.trace import Key, Ledger, Run

CODE = "credential-masked"
MOST_KEYS = 20
"""Keys that have a note of their own; the others share one."""
MOST_TEXTS = 1 << 14


@functools.lru_cache(maxsize=MOST_TEXTS)
def _cached(text: str) -> str:
    return masked(text)


def masked_rows(
    batch: pa.RecordBatch, tell: Callable[[Changed], None] | None = None, clean: set[str | None] | None = None
) -> pa.RecordBatch:
    """Return a batch of any columns with every credential in its texts masked. tell, clean: see `changed_batch`."""
    return changed_batch(batch, SUSPECT, lambda _, text: _cached(text), tell, clean)


def masked_run(run: Run, found: Callable[[str, str], None] | None = None) -> None:
    """Mask every credential in the facts and name tables of a run, in place. found: called with key and place."""
    tell = found or _quiet
    for facts in run.sources:
        place = "the input's name"
        facts.path = masked(facts.path, lambda key, place=place: tell(key, place))  # type: ignore[misc]
        facts.label = masked(facts.label, lambda key, place=place: tell(key, place))  # type: ignore[misc]
        for name, value in list(facts.facts.items()):
            place = f"fact {masked(name)}"
            clean: dict[str, Any] = masked_value({name: value}, lambda key, place=place: tell(key, place))  # type: ignore[assignment,misc]
            if clean.get(name) is not value:
                facts.facts = {k: v for k, v in facts.facts.items() if k != name} | clean
    for table, what in (
        (run.devices, "device"),
        (run.processes, "process"),
        (run.threads, "thread"),
        (run.streams, "stream"),
        (run.ids, "id"),
    ):
        _mask_names(table, f"name of a {what}", tell)


def masked_copy(run: Run) -> Run:
    """Return a copy of a run with every credential masked."""
    run = deepcopy(run)
    masked_run(run)
    return run


def _quiet(_key: str, _place: str) -> None:
    return None


def _mask_names(table: dict[Key, str], place: str, tell: Callable[[str, str], None]) -> None:
    for number, name in table.items():
        if (clean := masked(name, lambda key: tell(key, place))) != name:
            table[number] = clean  # an existing key: the table keeps its size and order


class Guard:
    """Masks the rows and facts of one input, and notes in its ledger what was masked: key and place, not the value.

    ledgers: of the input; the first one gets the notes. anonymizer: replaces paths, users, hosts and the like too.
    """

    def __init__(self, run: Run, ledgers: Sequence[Ledger], anonymizer: Anonymizer | None = None) -> None:
        self._run, self._ledger, self._ledgers, self._anonymizer = run, ledgers[0], ledgers, anonymizer
        self._sizes: tuple[int, ...] = ()
        self._keys: set[str] = set()
        self._clean: set[str | None] = set()

    def facts(self, *, last: bool = False) -> None:
        """Mask the facts of the run as far as they are known. last: look at all of them, whether they grew or not.

        Raises: TracekitError for the first credential when the ledger is strict.
        """
        run = self._run
        tables = (run.devices, run.processes, run.threads, run.streams, run.ids)
        sizes = (*map(len, tables), *(len(facts.facts) for facts in run.sources))
        if last or sizes != self._sizes:
            self._sizes = sizes
            masked_run(run, self._note)
            if self._anonymizer is not None:
                self._anonymizer.run(run)
        if last and self._anonymizer is not None:
            for ledger in self._ledgers:
                self._anonymizer.ledger(ledger)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without credentials. Raises: TracekitError for the first one when the ledger is strict."""
        self.facts()

        def tell(changed: Changed) -> None:
            row = int(changed.rows[0])
            number = "event_id" if "event_id" in batch.schema.names else "order"
            there = number in batch.schema.names
            what = "event" if number == "event_id" else "row"
            place = f"{what} {arrow.ints(batch.column(number).slice(row, 1))[0]}, {changed.column}" if there else ""
            keys: list[str] = []
            masked(changed.text, keys.append)
            for key in dict.fromkeys(keys):
                self._note(key, place, int(changed.rows.size))

        safe = masked_rows(batch, tell, self._clean)
        return safe if self._anonymizer is None else self._anonymizer.rows(safe)

    def _note(self, key: str, place: str, count: int = 1) -> None:
        if key not in self._keys and len(self._keys) >= MOST_KEYS:
            self._ledger.note(f"{CODE}: other keys", "more values that look like credentials were masked", count)
            return
        self._keys.add(key)
        self._ledger.note(
            f"{CODE}: {key}", f'a value that looks like a credential was masked: "{key}"', count, where=place
        )

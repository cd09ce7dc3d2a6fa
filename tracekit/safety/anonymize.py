"""The door through which everything that is read passes: no credential gets behind it, and each one found is noted."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit.credentials import MASK, SUSPECT, masked, masked_value
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow, sets
from tracekit.model.arrow import Column, DictColumn, Rows, pc
from tracekit.model.trace import Key, Ledger, Run

__all__ = [
    "CODE",
    "DIGITS",
    "MOST_CLEAN",
    "MOST_DONE",
    "MOST_KEYS",
    "MOST_TEXTS",
    "MOST_WORDS",
    "Anonymizer",
    "Changed",
    "Guard",
    "changed_batch",
    "key_of",
    "masked_copy",
    "masked_rows",
    "masked_run",
    "text_columns",
]

# Texts of whole columns changed at once: only distinct texts that match a regular expression are looked at.


MOST_CLEAN = 1 << 16
"""Texts that are known not to match, for one input."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A text that was changed: its column, the rows that have it, and its number among the texts of the column."""

    column: str
    rows: Rows
    text: str


def text_columns(batch: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    """Yield place and name of each column that has texts of its own; `kind` has none."""
    for place, field in enumerate(batch.schema):
        kind = field.type.value_type if isinstance(field.type, pa.DictionaryType) else field.type
        if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and field.name != "kind":
            yield place, field.name


def changed_batch(
    batch: pa.RecordBatch,
    suspect: str,
    change: Callable[[str, str], str],
    tell: Callable[[Changed], None] | None = None,
    clean: set[str | None] | None = None,
) -> pa.RecordBatch:
    """Return a batch with texts changed; the same batch when no text is.

    suspect: the regular expression of texts that may be changed, "" for all. change: called with a column's name and
    each distinct suspect text. tell: called for each text that was changed, with its rows. clean: texts of earlier
    batches that do not match; dictionaries of the batches of one input have mostly the same texts.
    """
    columns: dict[int, Column] = {}
    for place, name in text_columns(batch):
        column = batch.column(place)
        if column.null_count == len(column):
            continue
        values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
        texts = _repeated(column) if clean is not None else None
        if clean is not None and texts is not None and clean.issuperset(texts):
            continue
        rows = _suspects(values, suspect)
        if not rows.size:
            if clean is not None and texts is not None and len(clean) < MOST_CLEAN:
                clean.update(texts)
            continue
        distinct = arrow.encoded(arrow.take(values, rows))
        before = arrow.optional_texts(distinct.dictionary)
        after = [None if text is None else change(name, text) for text in before]
        different = np.array([a != b for a, b in zip(before, after, strict=True)], np.bool_)
        codes = arrow.codes(distinct)
        hit = (codes >= 0) & different[codes] if different.size else np.zeros(len(codes), np.bool_)
        if not hit.any():
            continue
        rows, codes = rows[hit], codes[hit]
        replaced = np.zeros(len(values), np.bool_)
        replaced[rows] = True
        new = pc.replace_with_mask(
            values, arrow.array(replaced), arrow.take(arrow.array(after, values.type), codes.astype(np.int64))
        )
        if tell is not None:
            _tell(tell, name, column, rows, codes, before)
        columns[place] = _encoded_anew(column, new) if isinstance(column, pa.DictionaryArray) else new
    if not columns:
        return batch
    arrays = [columns.get(place, batch.column(place)) for place in range(batch.num_columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _repeated(column: Column) -> list[str | None] | None:
    """Return the texts that batches may have in common: of a dictionary, or the few of a column of mostly nulls."""
    if isinstance(column, pa.DictionaryArray):
        return arrow.optional_texts(column.dictionary)
    if 2 * column.null_count < len(column):
        return None
    distinct = arrow.encoded(column).dictionary
    return arrow.optional_texts(distinct) if len(distinct) <= _FEW else None


_FEW = 64
"""Most texts of a column without a dictionary that are kept: each may be long."""


def _suspects(values: Column, suspect: str) -> Rows:
    """Return the places of the texts that match. Mostly none does, and one search over all bytes shows that."""
    if not len(values):
        return np.empty(0, np.int64)
    if not suspect:
        return np.arange(len(values))
    offsets, data = arrow.text_parts(values)
    begin, end = int(offsets[0]), int(offsets[-1])
    whole = arrow.text_column(np.array([0, end - begin], np.int64), data[begin:end], pa.large_string())
    if not arrow.bools(pc.match_substring_regex(whole, suspect))[0]:
        return np.empty(0, np.int64)
    return np.flatnonzero(arrow.bools(pc.match_substring_regex(values, suspect)))


def _encoded_anew(column: DictColumn, values: Column) -> Column:
    """Return a dictionary column with other texts: a dictionary may not have the same text twice."""
    texts = arrow.encoded(values)
    indices = column.indices.cast(pa.int32())
    if len(texts.dictionary) == len(values):
        return pa.DictionaryArray.from_arrays(indices, values)
    return arrow.encoded(texts.take(indices))


def _tell(
    tell: Callable[[Changed], None],
    name: str,
    column: Column,
    places: Rows,
    codes: Rows,
    before: list[str | None],
) -> None:
    """Call `tell` for each text with the rows of the batch that have it."""
    of_row = arrow.codes(column) if isinstance(column, pa.DictionaryArray) else None
    for code in sets.unique(codes).tolist():
        mine = places[codes == code]
        rows = mine if of_row is None else np.flatnonzero(np.isin(of_row, mine))
        if rows.size:
            tell(Changed(name, rows, before[code] or ""))


# Stable tokens in the place of what says who ran a trace and where: the same text becomes the same token.
#
# A token is the kind of the text and a keyed hash (BLAKE2b): `host-5f0c2d9a1b`. Without a key one is drawn for the
# process, so that nobody can try out names; with a key the tokens of several runs are the same.


DIGITS = 10
MOST_DONE = 1 << 16
"""Texts whose replacement is kept for the next batch."""
MOST_WORDS = 256
"""Names of hosts and users that are looked for everywhere."""
MOST_COUNTED = 1 << 20
"""Texts of one kind that are counted."""
_NOUNS = (
    ("path", "path"),
    ("host", "host"),
    ("user", "user"),
    ("command", "command line"),
    ("env", "environment value"),
    ("url", "URL"),
    ("email", "e-mail address"),
    ("ip", "IP address"),
    ("mac", "MAC address"),
    ("address", "memory address"),
    ("name", "name of an event"),
)
"""Kinds of tokens, and their nouns."""

_TOP = "com|org|net|edu|gov|local|internal|lan|corp|cluster|localdomain"
# A name has 255 characters at most, and a path 4,096: where a rule fails, it fails after so many, not at the end.
_RULES: tuple[tuple[str, str], ...] = (
    ("url", r"[A-Za-z][A-Za-z0-9+.-]{0,255}+://[^\s\"'<>]+"),
    ("email", r"[A-Za-z0-9._%+-]{1,255}+@[A-Za-z0-9][A-Za-z0-9.-]*"),
    ("path", r"(?:[A-Za-z]:|\\)\\[^\s\"'<>|*?,;]+"),
    ("path", r"~?/(?:[\w.@%+=:~\x80-\xff-]+/)*[\w.@%+=~\x80-\xff-]*\w/?"),
    ("path", r"(?:[\w.@%+=~-]{1,255}+/){1,2048}[\w.@%+=~-]*\.[A-Za-z][A-Za-z0-9]{0,5}\b"),
    ("mac", r"(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}\b"),
    ("ip", r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b"),
    ("ip", r"(?:fe80|f[cdCD][0-9a-fA-F]{2}|2[0-9a-fA-F]{3})(?::[0-9a-fA-F]{0,4}){2,7}"),
    ("address", r"0[xX][0-9a-fA-F]{6,16}\b"),
    ("host", rf"(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+(?:{_TOP})\b"),
)
_NO_WORDS = lazy_pattern(r"(?<=[.@%+=:~/-])(?:(?!\w)[.@%+=:~/\x80-\xff-]){256,}(?=[.@%+=:~/-])")
"""Characters of paths and addresses that say nothing. Long runs are cut out: each would be tried from every place."""
_BEFORE = r"(?<![\w.@:/\\~-])"
_KEYED = lazy_pattern(
    r"(?i)(?:(?P<host>hosts?|host_?names?|machine|machine_?name|computer_?name)"
    r"|(?P<user>users?|user_?names?|login|log_?name|owner|author)"
    r"|(?P<command>commands?|command_?lines?|cmd|cmd_?line|argv|arguments|executable)"
    r"|(?P<env>env|environ|environment|environment_?variables?)"
    r"|(?P<path>path|paths|file|file_?name|cwd|working_?directory|dir|directory|folder|trace_?name|pwd|home)"
    r"|(?P<ip>ip|ip_?address)|(?P<mac>mac|mac_?address))"
)
_WORDS = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ASSIGNED = lazy_pattern(
    r"(?i)(?<![A-Za-z0-9])(?:(?P<user>user(?:name)?|logname|login)|(?P<host>host(?:name)?|nodename|computername))"
    r"(?:=|: ?)(?P<value>[\w.-]*\w)"
)
_HOME = lazy_pattern(r"(?:/home/|/Users/|\\Users\\)([^/\\\s\"']+)")
_AT = lazy_pattern(r"(?<![\w.+-])([\w.+-]+)@([\w][\w.-]*)")
_TOKEN = lazy_pattern(
    rf"(?:url|email|path|mac|ip|address|host|user|command|env|name|run)-[0-9a-f]{{{DIGITS}}}(?:\.[a-z0-9.]{{1,12}})?"
)
_STEP = lazy_pattern(r"(?i)(?:ProfilerStep#|steps? ?#?|iter(?:ation)?s? ?#?)\d+")
_COMMON = frozenset(
    """
    root user users admin home host hostname localhost node nodes name none null unknown default local system work data
    test build main python python3 worker server machine ubuntu runner vscode docker nobody train step kernel rank gpu
    cuda forward backward optimizer memory stream model torch aten nccl
    """.split()  # noqa: SIM905
)
_SUFFIX = lazy_pattern(r"(?:\.[A-Za-z][A-Za-z0-9]{0,8}){1,2}\Z")


class Anonymizer:
    """Replaces private texts by tokens. key: any text, "" draws one. names: also the names of all events."""

    def __init__(self, key: str = "", *, names: bool = False) -> None:
        from hashlib import blake2b  # loads OpenSSL, for which most commands have no use

        self._key = blake2b(key.encode("utf-8", "surrogateescape") if key else os.urandom(32)).digest()
        self.names = names
        self._words: dict[str, str] = {}
        self._pattern = re.compile("")
        self._done: dict[tuple[str, str], str] = {}
        self._replaced: dict[str, set[str]] = {}
        self._kept: set[str] = set()
        self._is_shared = False
        with suppress(OSError, KeyError, ImportError):
            import getpass

            self._learn("user", getpass.getuser())
        import socket

        self._learn("host", socket.gethostname())
        self._learn("user", Path.home().name)
        self._build()

    def token(self, kind: str, text: str) -> str:
        """Return the token of a text; an empty text, a token and a mask stay."""
        if not text.strip() or text == MASK or _TOKEN.fullmatch(text):
            return text
        data = f"{kind}\0{text}".encode("utf-8", "replace")
        from hashlib import blake2b

        digest = blake2b(data, key=self._key, digest_size=DIGITS // 2).hexdigest()
        seen = self._replaced.setdefault(kind, set())
        if len(seen) < MOST_COUNTED:
            seen.add(digest)
        return f"{kind}-{digest}"

    def __getstate__(self) -> dict[str, object]:
        """Return the state for another process, which counts for itself: then no account is complete."""
        self._is_shared = True
        return self.__dict__

    def account(self) -> str:
        """Return what was replaced and kept so far: "replaced 3 paths and 1 host, kept 12 names of events".

        "" where nothing was read, or where other processes replaced texts too.
        """
        if self._is_shared:
            return ""
        parts = [_counted(len(self._replaced[kind]), noun) for kind, noun in _NOUNS if self._replaced.get(kind)]
        kept = f"kept {_counted(len(self._kept), 'name')} of events" if self._kept else ""
        if not parts:
            return f"replaced nothing, {kept}" if kept else ""
        listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
        return ", ".join(filter(None, (f"replaced {listed}", kept)))

    def file(self, name: str) -> str:
        """Return the token of the name of an input, with its suffix."""
        if _TOKEN.fullmatch(name) or name in ("", "-", "stdin"):
            return name
        suffix = _SUFFIX.search(name)
        return f"{self.token('path', name)}{suffix[0].lower() if suffix else ''}"[: 6 + DIGITS + 12]

    def text(self, text: str) -> str:
        """Return a text with every path, address and known name in it replaced."""
        self.learn(text)
        done, at = [], 0
        for run in _NO_WORDS.finditer(text):
            done += [self._pattern.sub(self._token_of, text[at : run.start()]), run[0]]
            at = run.end()
        return "".join([*done, self._pattern.sub(self._token_of, text[at:])])

    def _token_of(self, m: re.Match[str]) -> str:
        if m.lastgroup == "assigned":
            key, value = m["assigned_key"], m["assigned_value"]
            return f"{key}{self.token('user' if key.lower().startswith(('user', 'log')) else 'host', value)}"
        if m.lastgroup == "word":
            return self.token(self._words.get(m[0].lower(), "host"), m[0])
        kind = _RULES[int((m.lastgroup or "r0")[1:])][0]
        return self.token(kind, m[0])

    def learn(self, text: str) -> None:
        """Remember the users and hosts that a text names: its home folders, `user@host`, `host=...`."""
        known = len(self._words)
        for found in _HOME.finditer(text):
            self._learn("user", found[1])
        for found in _AT.finditer(text):
            self._learn("user", found[1])
            self._learn("host", found[2])
        for found in _ASSIGNED.finditer(text):
            self._learn("user" if found["user"] else "host", found["value"])
        if len(self._words) > known:
            self._build()

    def _learn(self, kind: str, word: str) -> None:
        low = word.strip().lower()
        for each in {low, low.partition(".")[0]} if kind == "host" else {low}:
            usual = each in _COMMON or len(each) < 3 or not re.search("[a-z]", each) or " " in each
            if not usual and not _TOKEN.fullmatch(each) and len(self._words) < MOST_WORDS:
                self._words.setdefault(each, kind)

    def _build(self) -> None:
        """Make the expression anew, with the words that are known now."""
        keys = "user|username|logname|login|host|hostname|nodename|computername"
        key = rf"(?P<assigned_key>(?i:{keys})(?:=|: ?))"
        parts = [rf"(?P<assigned>(?<![A-Za-z0-9]){key}(?P<assigned_value>[\w.-]*\w))"]
        parts += [rf"(?P<r{n}>{_BEFORE}{rule})" for n, (_, rule) in enumerate(_RULES)]
        if self._words:
            words = "|".join(map(re.escape, sorted(self._words, key=len, reverse=True)))
            parts.append(rf"(?P<word>(?<![A-Za-z0-9])(?i:{words})(?![A-Za-z0-9]))")
        self._pattern = re.compile("|".join(parts))
        self._done.clear()

    def value(self, value: object, key: str = "") -> object:
        """Return a JSON value with private texts replaced, by its key and by what it says."""
        kind = _kind_of(key)
        if isinstance(value, str):
            if kind in ("user", "host"):
                known = len(self._words)
                self._learn(kind, value)
                if len(self._words) > known:
                    self._build()
            return self.token(kind, value) if kind else self.text(value)
        if isinstance(value, dict):
            below = key if kind in ("command", "env") else ""
            return {self.text(k) if isinstance(k, str) else k: self.value(v, below or str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(each, key) for each in value]
        return value

    def args(self, text: str) -> str:
        """Return the text of a JSON object with private texts replaced; all other characters stay."""
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        try:
            clean = self.value(parsed)
        except RecursionError:
            return self.token("env", text)
        return text if clean == parsed else json.dumps(clean, ensure_ascii=False, separators=(",", ":"))

    def run(self, run: Run) -> None:
        """Replace the private texts in the facts and name tables of a run, in place."""
        for source in run.sources:
            source.path, source.label = self.file(source.path), self.text(source.label)
            clean: Any = self.value(source.facts)
            source.facts = clean
        for table in (run.devices, run.processes, run.threads, run.streams, run.ids):
            for number, name in table.items():
                table[number] = self.text(name)

    def ledger(self, ledger: Ledger) -> None:
        """Replace the private texts in a ledger, in place."""
        ledger.path, ledger.reservation = self.file(ledger.path), self.text(ledger.reservation)
        ledger.ignored = {self.text(what): count for what, count in ledger.ignored.items()}
        for note in ledger.notes.values():
            note.text, note.places = self.text(note.text), [self.text(place) for place in note.places]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with its private texts replaced."""
        changed_batch(batch, "", self._learned)  # a name in the last row may be that of a host in the first
        return changed_batch(batch, "", self._change)

    def _learned(self, column: str, text: str) -> str:
        if (column, text) not in self._done:
            (self.args if column == "args" else self.learn)(text)
        return text

    def _change(self, column: str, text: str) -> str:
        done = self._done.get((column, text))
        if done is not None:
            return done
        if column in ("name", "raw_name") and self.names:
            done = text if _STEP.fullmatch(text) else self.token("name", text)
        else:
            done = self.args(text) if column == "args" else self.text(text)
        if column == "name" and done == text and len(self._kept) < MOST_COUNTED:
            self._kept.add(text)
        if len(self._done) < MOST_DONE:
            self._done[column, text] = done
        return done


def _counted(count: int, noun: str) -> str:
    more = f"{'' if count < MOST_COUNTED else 'at least '}{count:,}"
    if count == 1:
        return f"{more} {noun}"
    if noun == "name of an event":
        return f"{more} names of events"
    return f"{more} {noun}{'es' if noun.endswith('s') else 's'}"


def key_of(word: str) -> str:
    """Return the key that a word names: what the file of that name holds, else the word itself."""
    with suppress(OSError, ValueError):
        if word and Path(word).is_file():
            return Path(word).read_bytes().decode("utf-8", "surrogateescape")
    return word


def _kind_of(key: str) -> str:
    """Return the kind of the private value that a key has, "" for none: `host_name`, `TARGET_HOSTNAME`, `command`."""
    words = _WORDS.findall(key)
    found = _KEYED.fullmatch("_".join(words[-2:])) or (_KEYED.fullmatch(words[-1]) if words else None)
    return (found.lastgroup or "") if found else ""


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

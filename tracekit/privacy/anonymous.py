"""Stable tokens in the place of what says who ran a trace and where: the same text becomes the same token.

A token is the kind of the text and a keyed hash (BLAKE2b): `host-5f0c2d9a1b`. Without a key one is drawn for the
process, so that nobody can try out names; with a key the tokens of several runs are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracekit.credentials import MASK
from tracekit.privacy.columns import changed_batch
from tracekit.trace import Ledger, Run

DIGITS = 10
MOST_DONE = 1 << 16
"""Texts whose replacement is kept for the next batch."""
MOST_WORDS = 256
"""Names of hosts and users that are looked for everywhere."""

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
_NO_WORDS = re.compile(r"(?<=[.@%+=:~/-])(?:(?!\w)[.@%+=:~/\x80-\xff-]){256,}(?=[.@%+=:~/-])")
"""Characters of paths and addresses that say nothing. Long runs are cut out: each would be tried from every place."""
_BEFORE = r"(?<![\w.@:/\\~-])"
_KEYED = re.compile(
    r"(?i)(?:(?P<host>hosts?|host_?names?|machine|machine_?name|computer_?name)"
    r"|(?P<user>users?|user_?names?|login|log_?name|owner|author)"
    r"|(?P<command>commands?|command_?lines?|cmd|cmd_?line|argv|arguments|executable)"
    r"|(?P<env>env|environ|environment|environment_?variables?)"
    r"|(?P<path>path|paths|file|file_?name|cwd|working_?directory|dir|directory|folder|trace_?name|pwd|home)"
    r"|(?P<ip>ip|ip_?address)|(?P<mac>mac|mac_?address))"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ASSIGNED = re.compile(
    r"(?i)(?<![A-Za-z0-9])(?:(?P<user>user(?:name)?|logname|login)|(?P<host>host(?:name)?|nodename|computername))"
    r"(?:=|: ?)(?P<value>[\w.-]*\w)"
)
_HOME = re.compile(r"(?:/home/|/Users/|\\Users\\)([^/\\\s\"']+)")
_AT = re.compile(r"(?<![\w.+-])([\w.+-]+)@([\w][\w.-]*)")
_TOKEN = re.compile(
    rf"(?:url|email|path|mac|ip|address|host|user|command|env|name|run)-[0-9a-f]{{{DIGITS}}}(?:\.[a-z0-9.]{{1,12}})?"
)
_STEP = re.compile(r"(?i)(?:ProfilerStep#|steps? ?#?|iter(?:ation)?s? ?#?)\d+")
_COMMON = frozenset(
    """
    root user users admin home host hostname localhost node nodes name none null unknown default local system work data
    test build main python python3 worker server machine ubuntu runner vscode docker nobody train step kernel rank gpu
    cuda forward backward optimizer memory stream model torch aten nccl
    """.split()  # noqa: SIM905
)
_SUFFIX = re.compile(r"(?:\.[A-Za-z][A-Za-z0-9]{0,8}){1,2}\Z")


class Anonymizer:
    """Replaces private texts by tokens. key: any text, "" draws one. names: also the names of all events."""

    def __init__(self, key: str = "", *, names: bool = False) -> None:
        self._key = hashlib.blake2b(key.encode("utf-8", "surrogateescape") if key else os.urandom(32)).digest()
        self.names = names
        self._words: dict[str, str] = {}
        self._pattern = re.compile("")
        self._done: dict[tuple[str, str], str] = {}
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
        digest = hashlib.blake2b(f"{kind}\0{text}".encode("utf-8", "replace"), key=self._key, digest_size=DIGITS // 2)
        return f"{kind}-{digest.hexdigest()}"

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
            done += [self._pattern.sub(self._replaced, text[at : run.start()]), run[0]]
            at = run.end()
        return "".join([*done, self._pattern.sub(self._replaced, text[at:])])

    def _replaced(self, m: re.Match[str]) -> str:
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
        if len(self._done) < MOST_DONE:
            self._done[column, text] = done
        return done


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

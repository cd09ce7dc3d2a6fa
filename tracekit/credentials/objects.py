"""JSON without credentials: each string is masked as it reads, then escaped again; all other characters stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field

from tracekit.credentials.assigned import command_name, word_masked
from tracekit.credentials.keys import hides, is_plain, is_secret_key, kind_of
from tracekit.credentials.shapes import MASK, late
from tracekit.credentials.texts import MOST_PASSES, is_suspect, masked_once, named
from tracekit.lazy_dataclass import dataclass

__all__ = ["masked_object", "masked_text"]

Found = Callable[[str], None]

_TOKEN = late(
    r"[ \t\r\n]*+(?:(?P<s>\"[^\"\\]*+(?:\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})[^\"\\]*+)*+\")"
    r"|(?P<n>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|-?Infinity|NaN)|(?P<w>true|false|null)|(?P<p>[\[\]{},:]))"
)
_SPACE = late(r"[ \t\r\n]*\Z")
_USERS = frozenset(("user", "username", "user_name", "login", "uid", "account", "usr", "Username", "User"))
_PAIR_NAMES = ("name", "key", "Name", "Key")


def masked_text(text: str, tell: Found) -> str:
    """Return a text with every credential masked: by its structure where it is JSON, else as a text."""
    for _ in range(MOST_PASSES):
        before = text
        text = _masked_once(text, tell)
        if text == before:
            return text
    return MASK


def _masked_once(text: str, tell: Found) -> str:
    if not is_suspect(text):
        return text
    if text.lstrip()[:1] in ("{", "[", '"'):
        clean = _Walk(tell).run(text)
        if clean is not None:
            return clean
    return masked_once(text, tell)


@dataclass(slots=True)
class _Level:
    """An object or a list that is open. secret: the key that makes all its values credentials, "" for none."""

    is_object: bool
    secret: str
    key: str = ""
    before: str = ""  # the string before, in a list
    command: str = ""
    items: int = 0
    pair_name: str = ""
    has_user: bool = False
    value: tuple[int, int] = (-1, -1)  # tokens of the member "value"
    maybe: list[tuple[int, str]] = field(default_factory=list)


class _Walk:
    """One walk over the tokens of a JSON text; no recursion, so that depth costs nothing."""

    def __init__(self, tell: Found) -> None:
        self.told: list[str] = []
        self.tokens: list[tuple[int, int, str, str | None]] = []  # begin, end, kind, the string
        self.new: dict[int, str] = {}
        self._tell = tell

    def run(self, text: str) -> str | None:
        """Return the text with masks, None where it is no JSON."""
        if not self._walk(text):
            return None
        for name in self.told:
            self._tell(name)
        if not self.new:
            return text
        out, at = [], 0
        for number in sorted(self.new):
            begin, end, _, _ = self.tokens[number]
            raw = text[begin:end]
            out += [text[at:begin], _quoted(self.new[number], raw)]
            at = end
        return "".join((*out, text[at:]))

    def _walk(self, text: str) -> bool:
        stack: list[_Level] = []
        at, size = 0, len(text)
        want = "value"  # value, key, colon, comma; "first": a value or the end of a list; "begin": a key or an end
        match = _TOKEN().match
        while m := match(text, at):
            kind = m.lastgroup or "p"
            begin, at = m.start(kind), m.end()
            c = text[begin]
            number = len(self.tokens)
            level = stack[-1] if stack else None
            if c in "]}":
                if level is None or level.is_object != (c == "}") or want not in ("comma", "first", "begin"):
                    return False
                self.tokens.append((begin, at, c, None))
                self._close(stack.pop(), number)
                want = "comma" if stack else "end"
            elif c == ",":
                if want != "comma" or level is None:
                    return False
                want = "key" if level.is_object else "value"
                self.tokens.append((begin, at, c, None))
            elif c == ":":
                if want != "colon":
                    return False
                want = "value"
                self.tokens.append((begin, at, c, None))
            elif want in ("key", "begin"):
                if kind != "s" or level is None:
                    return False
                key = _string(text[begin:at])
                self.tokens.append((begin, at, "s", key))
                self._key(level, number, key)
                want = "colon"
            elif want not in ("value", "first"):
                return False
            elif c in "[{":
                self.tokens.append((begin, at, c, None))
                stack.append(_Level(c == "{", self._below(level, number, is_list=c == "[")))
                want = "begin" if c == "{" else "first"
            else:
                string = _string(text[begin:at]) if kind == "s" else None
                self.tokens.append((begin, at, kind, string))
                self._scalar(level, number, text[begin:at], kind, string)
                want = "comma" if stack else "end"
        return want == "end" and bool(_SPACE().match(text, at)) and at <= size

    def _key(self, level: _Level, number: int, key: str) -> None:
        level.key = key
        self._text(number, key)

    def _text(self, number: int, string: str) -> None:
        clean = masked_text(string, self.told.append)
        if clean != string:
            self.new[number] = clean

    def _below(self, level: _Level | None, number: int, *, is_list: bool) -> str:
        """Return the key that makes all values in a new object or list credentials, "" for none."""
        if level is None:
            return ""
        if level.is_object:
            self._member(level, number)
            if not level.secret and (is_secret_key(level.key) or (is_list and _is_auth(level.key))):
                return level.key
        else:
            level.items += 1
        return level.secret

    def _member(self, level: _Level, number: int) -> None:
        if level.key in ("value", "Value"):
            level.value = (number, -1)
        elif level.value[1] == -1 and level.value[0] >= 0:
            level.value = (level.value[0], number)

    def _scalar(self, level: _Level | None, number: int, raw: str, kind: str, string: str | None) -> None:
        shown = raw if string is None else string
        secret, beside = "", False
        if level is not None:
            secret = level.secret
            if level.is_object:
                self._member(level, number)
                level.has_user = level.has_user or level.key in _USERS
                if level.key in _PAIR_NAMES and string is not None:
                    level.pair_name = level.pair_name or string
                secret = secret or (level.key if kind_of(level.key) else "")
                beside = level.has_user
                if kind_of(level.key) == "maybe" and not beside:
                    level.maybe.append((number, level.key))
            elif string is not None:
                secret = self._listed(level, number, string) or secret
            else:
                level.before = ""
                level.items += 1
        if number in self.new:
            return
        if secret and kind != "w" and self._hidden(level, secret, shown, beside=beside):
            self.told.append(named(secret))
            self.new[number] = MASK
        elif string is not None:
            self._text(number, string)

    def _hidden(self, level: _Level | None, secret: str, shown: str, *, beside: bool) -> bool:
        if level is not None and level.secret == secret and _is_auth(secret):
            return level.items > 1 and not is_plain(shown, "secret")  # ("user", "password")
        if level is not None and secret == level.secret:
            return not is_plain(shown, secret)
        return hides(secret, shown, beside_user=beside)

    def _listed(self, level: _Level, number: int, string: str) -> str:
        """Return the key of a string in a list: the flag before it, or the first of a pair."""
        before, level.before = level.before, string
        level.items += 1
        command = level.command
        level.command = command_name(string) or command
        if command:
            clean = word_masked(command, before, string)
            if clean != string:
                self.told.append(f"{command} {before if before.startswith('-') else string[:2]}")
                self.new[number] = clean
                return ""
        if before.startswith("-") and is_secret_key(before) and not string.startswith("-"):
            return before
        return ""

    def _close(self, level: _Level, number: int) -> None:
        """Mask what only the whole object or list shows to be a credential."""
        if not level.is_object:
            opened, name, comma = self.tokens[max(0, number - 4) : number - 1] if number > 3 else [(0, 0, "", None)] * 3
            key = name[3] or ""
            if level.items == 2 and opened[2] == "[" and comma[2] == "," and is_secret_key(key) and key[:1] != "-":
                self._all(number - 1, number, key)  # a pair: ["password", "value"]
            return
        if level.has_user:
            for each, key in level.maybe:
                text = self.tokens[each][3]
                if each not in self.new and text is not None and hides(key, text, beside_user=True):
                    self.told.append(named(key))
                    self.new[each] = MASK
        if level.value[0] >= 0 and is_secret_key(level.pair_name):
            self._all(level.value[0], level.value[1] if level.value[1] > 0 else number, level.pair_name)

    def _all(self, begin: int, end: int, key: str) -> None:
        """Mask all values from one token to another; keys stay."""
        for each in range(begin, end):
            _, _, kind, text = self.tokens[each]
            is_key = each + 1 < len(self.tokens) and kind == "s" and self.tokens[each + 1][2] == ":"
            if kind not in "sn" or is_key or text == MASK or self.new.get(each) == MASK:
                continue
            if text is None or not is_plain(text, key):
                self.told.append(named(key))
                self.new[each] = MASK


def _is_auth(key: str) -> bool:
    return kind_of(key) == "maybe" and key.lower().endswith("auth")


def _string(raw: str) -> str:
    return raw[1:-1] if "\\" not in raw else str(json.loads(raw, strict=False))


def _quoted(text: str, raw: str) -> str:
    """Return a string as JSON, with the escapes that it had before: none outside ASCII where there were some."""
    ascii_only = raw.isascii() or any("\ud800" <= c <= "\udfff" for c in text)
    return json.dumps(text, ensure_ascii=ascii_only)


def masked_object(value: object, tell: Found) -> object:
    """Return a JSON value with every credential in it masked; the same object when there is none."""
    if isinstance(value, str):
        clean = masked_text(value, tell)
        return value if clean == value else clean
    text = json.dumps(value, default=str)
    clean = masked_text(text, tell)
    return value if clean == text else json.loads(clean)

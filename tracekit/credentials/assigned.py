"""Values that follow a secret key in a text: KEY=VALUE, "key": "value", --key value, Header: value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tracekit.credentials.keys import (
    MOST_KEY,
    MOST_PLAIN,
    hides,
    is_own_type,
    is_prose,
    is_type,
    kind_of,
    looks_random,
)
from tracekit.credentials.shapes import MASK, WORD, late
from tracekit.credentials.values import MOST_PIECES, Scanner, SecretValue

MOST_MAYBE = 160
"""Characters of a value that are looked at when the key alone does not say that it is a credential."""

_TYPED = (
    r":[ \t]?(?:typing\.)?(?:Optional\[\w+\]|SecretStr|str|bytes|Text|Any|[Ss]tring|&str)(?:[ ]?\|[ ]?None)?[ \t]?="
)
_OP = (
    # password: str = , =, :, ==, =>
    rf"[ \t]{{0,64}}(?:{_TYPED}|:=|\?=|\+=|=>|->|={{1,3}}|:(?!:)|%3[da])[ \t]{{0,64}}"
    # <password>, name="password" value=
    r"|>|[ \t]{0,9}[,;]?[ \t]{0,9}\\*[\"']?val(?:ue)?\\*[\"']?[ \t]{0,9}[=:][ \t]{0,9}"
    # "--password", "value" and --password value
    r"|\s{0,64},\s{0,64}|\s{1,64}(?=[^\s=:])"
)
_CLOSE = r"'\\''|(?:\\{0,8}[\"'`]){1,5}|&quot;|&apos;|&#3[49];|%2[27]"
_ASSIGNED = late(rf"(?i)(?P<word>{WORD}(?:[_-][a-z0-9]{{1,10}})?)(?P<close>{_CLOSE})?(?P<bracket>\])?(?P<op>{_OP})")
_LEFT = late(r"[\w.-]*\Z")
_SCHEME = late(r"(?i)(?:bearer|basic|token|digest|negotiate|apikey|key)(?:[ \t]{1,9}|%20|\+)(?=\S)")
_SPACES = late(r"\s{0,64}")
_USER_BEFORE = late(
    r"(?i)(?:user(?:_?name|_?id)?|usr|uid|login|log_?name|account)\\*[\"']?\]?\s{0,9}[=:,]",
)
_CALLED = late(r"(?i)\b(?P<name>\w{0,30}(?:secret|passw(?:or)?d)[a-z]{0,10})\((?:\w{1,20}=)?")
_BLOCK = late(r"[|>][+-]?[ \t]{0,64}\r?\n")
_BLOCK_LINE = late(r"(?P<indent>[ \t]*(?:- +)?)(?P<value>[^\r\n]*)(?:\r?\n|\Z)")
_LINE_END = late(r"[^\r\n]*")
_NEXT_KEY = late(r"[A-Za-z_]\w{0,60}=")
_SIGNATURE = late(r"\)\s{0,3}(?:const\s{0,3})?\[\Z")
_HEADERS = ("cookie", "cookie2", "authorization", "authorisation")
_PROSE_KEYS = ("token", "cookie", "cookies", "credential", "credentials", "authorization", "pat", "auth")
"""Words of sentences: of what follows them without "=" or ":", nothing is masked."""
_QUOTES = "\"'`"

Found = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Key:
    """A key in a text, and what is between it and its value."""

    name: str
    begin: int
    end: int
    closed_by: str
    """The quote behind the key, "" for none."""
    bracket: bool
    op: str
    value: int
    sure: bool

    @property
    def is_flag(self) -> bool:
        return self.name.startswith("-")


class Assignments:
    """Masks the values of secret keys in one text. tell: called with each key. named: makes a key fit for a note."""

    def __init__(self, text: str, tell: Found, named: Callable[[str], str]) -> None:
        self._text, self._tell, self._named = text, tell, named
        self._scan = Scanner(text)
        self._out: list[str] = []
        self._at = 0

    def masked(self) -> str:
        """Return the text with the values masked."""
        text = self._text
        at = 0
        while (m := _ASSIGNED().search(text, at)) is not None:
            key = self._key(m)
            at = m.end("op") if key is None else self._mask(key)
        return "".join((*self._out, text[self._at :])) if self._out else text

    def _key(self, m: re.Match[str]) -> _Key | None:
        text = self._text
        left = _LEFT().search(text, max(self._at, m.start() - MOST_KEY), m.start())
        begin = left.start() if left else m.start()
        if text[begin - 1 : begin] == "%":
            begin = min(begin + 2, m.start())  # %3Ftoken
        name = text[begin : m.end("word")]
        kind = kind_of(name)
        if not kind:
            return None
        close, bracket = m["close"] or "", bool(m["bracket"])
        return _Key(name, begin, m.end("word"), close, bracket, m["op"], m.end("op"), kind == "secret")

    def _mask(self, key: _Key) -> int:
        """Mask the value behind a key. Return where to go on: behind it, or behind the key if it stays."""
        text, op = self._text, key.op
        most = len(text) if key.sure else min(len(text), key.value + MOST_MAYBE)
        if op == ">":
            if key.closed_by or key.bracket or key.begin == 0 or text[key.begin - 1] not in "<:":
                return key.value
            closing = text.find("<", key.value, most)
            most = closing if closing >= 0 else most
        begin = self._first_of_value(key)
        if begin >= most or text[begin].isspace() or _BLOCK().match(text, begin):
            return self._block(key, begin) if ":" in op and key.sure else key.value
        if self._is_prompt(key, begin) or (key.bracket and not key.closed_by and not key.name.isupper()):
            return key.value
        scheme = _SCHEME().match(text, begin) if key.sure else None
        value = self._header(key, begin)
        if value is None:
            value = self._scan.value(scheme.end() if scheme else begin, most, MOST_PIECES if key.sure else 6)
            value = SecretValue(begin, value.end, value.inside if not scheme else None)
        inner, end = value.inside or (value.begin, value.end)
        shown = text[inner : min(end, inner + 2 * MOST_PLAIN)]
        if not shown or not self._assigns(key, value, shown):
            return key.value
        if not hides(key.name, shown) and (key.sure or not self._beside_user(key, shown)):
            return key.value
        self._tell(self._named(key.name))
        wrap = "" if value.inside or scheme else self._wrap(key, value)
        self._cut(inner, end, f"{wrap}{MASK}{wrap}")
        return value.end

    def _is_prompt(self, key: _Key, begin: int) -> bool:
        """Return whether the quote behind a key ends the text that begins with it: 'Password: ', x=1."""
        text = self._text
        around, after = text[key.begin - 1 : key.begin], text[begin + 1 : begin + 2]
        return bool(around) and around in _QUOTES and text[begin] == around and (not after or after in " ,;:)]}\n")

    def _wrap(self, key: _Key, value: SecretValue) -> str:
        """Return the quote that a mask needs to be a value of JSON: the one of its key."""
        quote, after = key.closed_by, self._text[value.end : value.end + 1]
        wraps = ":" in key.op and quote[:1] not in "&%" and not (after and after in _QUOTES + "\\")
        return quote if wraps else ""

    def _beside_user(self, key: _Key, shown: str) -> bool:
        """Return whether the name of a user is before a key, and what is behind is a credential then."""
        before = self._text[max(0, key.end - 90) : key.begin]
        return bool(_USER_BEFORE().search(before)) and hides(key.name, shown, beside_user=True)

    def _cut(self, begin: int, end: int, by: str = MASK) -> None:
        self._out += [self._text[self._at : begin], by]
        self._at = end

    def _first_of_value(self, key: _Key) -> int:
        """Return where a value begins. On the next line, only quotes and brackets begin one."""
        spaces = _SPACES().match(self._text, key.value)
        end = spaces.end() if spaces else key.value
        after = self._text[end : end + 1]
        return end if key.op.strip() and after and after in "\"'[{(\\" else key.value

    def _header(self, key: _Key, begin: int) -> SecretValue | None:
        """Return the rest of the line for a header: to the quote around it, if there is one."""
        text = self._text
        if ":" not in key.op or key.closed_by or not key.name.lower().endswith(_HEADERS) or text[begin] in _QUOTES:
            return None
        around = text[key.begin - 1 : key.begin]
        if around and around in "\"'":
            before = text[max(0, key.begin - 9) : key.begin - 1]
            slashes = len(before) - len(before.rstrip("\\"))
            return SecretValue(begin, self._scan.quoted(begin, slashes, around, len(text))[0], None)
        line = _LINE_END().match(text, begin)
        return SecretValue(begin, line.end() if line else begin, None)

    def _assigns(self, key: _Key, value: SecretValue, shown: str) -> bool:
        """Return whether the text after a secret key is its value."""
        op, bare = key.op, value.inside is None
        if "val" in op.lower():
            return bool(key.closed_by)
        if "=" in op or "->" in op or "%" in op or op == ">":
            return not bare or self._assigns_bare(key, shown)
        if ":" in op:
            if bare and not key.closed_by and (is_prose(shown) or is_type(shown) or is_own_type(key.name, shown)):
                return False
            surely = bool(key.closed_by) or not key.name.lower().endswith("token")
            return surely or (len(shown) >= 12 and not shown.isalpha())
        if "," in op:
            return bool(key.closed_by) and not bare and (key.is_flag or self._is_pair(key, value))
        if key.is_flag:
            return not shown.startswith("-") and not (bare and is_prose(shown)) and not key.bracket
        if "pass" in key.name.lower() or "secret" in key.name.lower():
            return not is_prose(shown) and (not bare or looks_random(shown))
        return key.name.lower() not in _PROSE_KEYS and looks_random(shown)

    def _assigns_bare(self, key: _Key, shown: str) -> bool:
        """Return whether a text without quotes is the value behind "="."""
        op = key.op
        if op[-1:].isspace() and _NEXT_KEY().match(shown):
            return False  # the value is empty: PASSWORD= USER=bob
        if "==" in op and not looks_random(shown):
            return False
        return not self._in_signature(key, shown) and not (" " in op and is_prose(shown))

    def _is_pair(self, key: _Key, value: SecretValue) -> bool:
        """Return whether key and value are a pair: ("password", "value")."""
        text = self._text
        before = key.begin - len(key.closed_by) - 1
        while before >= 0 and text[before] in "bru":
            before -= 1
        return before >= 0 and text[before] in "([" and text[value.end : value.end + 1] in (")", "]")

    def _in_signature(self, key: _Key, shown: str) -> bool:
        """Return whether a value is the argument of a C++ template: `[with token = int; T = float]`."""
        if any(quote in shown for quote in _QUOTES):
            return False
        spaced = key.op == " = "
        if is_type(shown, qualified=spaced):
            return True
        text, start = self._text, key.begin
        low = max(0, start - 2000)
        opened = text.rfind("[with ", low, start)
        if opened >= 0:
            return spaced and text.count("[", opened, start) > text.count("]", opened, start)
        opened = text.rfind("[", low, start)
        inside = opened >= 0 and _SIGNATURE().search(text, max(0, opened - 10), opened + 1)
        return bool(inside) and spaced and not any(c.isdigit() for c in shown)

    def _block(self, key: _Key, begin: int) -> int:
        """Mask the lines below a key: the items of a list, or a text, of YAML. Return where to go on."""
        text = self._text
        line = text.rfind("\n", max(0, key.begin - 200), key.begin) + 1
        before = text[line : key.begin]
        indent = len(before) - len(before.lstrip(" \t"))
        rest = _LINE_END().match(text, begin)
        at = rest.end() + 1 if rest else len(text)
        if text[begin:at].strip(" \t\r\n|>+-"):
            return key.value
        done = key.value
        while at < len(text) and (row := _BLOCK_LINE().match(text, at)):
            item, shown = "- " in row["indent"], row["value"]
            deep = len(row["indent"].partition("-")[0]) > indent
            if not shown or not (item or deep) or (":" in shown and not item):
                break
            at = row.end()
            if hides(key.name, shown.strip("\"'")):
                self._tell(self._named(key.name))
                self._cut(row.start("value"), row.end("value"))
                done = at
        return done


def calls_masked(text: str, tell: Found, named: Callable[[str], str]) -> str:
    """Return a text without the strings of calls whose name says that they are secret: SecretStr('...')."""
    scan, out, at, done = Scanner(text), list[str](), 0, 0
    while (m := _CALLED().search(text, at)) is not None:
        value = scan.value(m.end(), len(text))
        at = m.end()
        begin, end = value.inside or (value.begin, value.end)
        if hides("secret" if value.inside else "pass", text[begin : min(end, begin + 2 * MOST_PLAIN)]):
            tell(named(m["name"]))
            out += [text[done:begin], MASK]
            done = end
            at = value.end
    return "".join((*out, text[done:])) if out else text

"""Values that follow a secret key in a text: KEY=VALUE, "key": "value", --key value, Header: value."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracekit.credentials.keys import (
    MOST_KEY,
    MOST_PLAIN,
    hides,
    is_own_type,
    is_plain,
    is_prose,
    is_type,
    kind_of,
    looks_random,
)
from tracekit.credentials.shapes import MASK, WORD, late
from tracekit.lazy_dataclass import dataclass

__all__ = ["Assignments", "calls_masked", "command_name", "commands_masked", "word_masked"]

# The end of a value that follows a key: quotes of all kinds, brackets, calls, words.


_OPEN = late(
    r"""(?P<prefix>(?:[bBrRuUfFL@]{1,2}|\$)?)(?P<slash>\\*)"""
    # An apostrophe as shells write it, three or two quotes, one quote, quotes of HTML and URLs.
    r"""(?P<quote>'\\{0,8}"\\{0,8}'\\{0,8}"\\{0,8}'|'\\''"""
    r"""|"{3}|'{3}|""(?=[^\s"',:;)\]}])|''(?=[^\s"',:;)\]}])|["'`]|&quot;|&apos;|&#3[49];|%2[27])""",
)
_WORD_AFTER = late(r"[\w$@#^*!~+-]|[./](?=[\w$])|%(?!2[27])")
_GOES_ON = late(r"[\w$@#^*!~+-]|[./](?=[\w$])|%(?!2[27])|[\"'](?=[\w$])")
_BEFORE_CALL = late(r"(?:await|new|yield)[ \t]{1,9}(?=[A-Za-z_][\w.:]{0,80}\()")
_PLAIN_CHARS = late(r"[^\s\"'`\\;&,%(\[{<>)\]}]+")
_RUN = late(r"\\+")
_JOINED = late(r"[;&,](?![\w.-]{1,80}=)[^\s\"'`;&,]")
_NEXT = late(r"[\"'()\[\]{}\\]")
MOST_DEEP = 200
MOST_PIECES = 1 << 16
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class SecretValue:
    """A value in a text: from where to where, and what of it is inside quotes."""

    begin: int
    end: int
    inside: tuple[int, int] | None


class Scanner:
    """Finds the ends of values in one text. All scans together cost linear time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._budget = 8 * len(text) + 4096
        self._pieces = len(text) // 4 + 4096

    def value(self, begin: int, most: int, pieces: int = MOST_PIECES) -> SecretValue:
        """Return the value that begins at a place. most, pieces: where to stop in any case.

        A text in which many values overlap is made to cost time: then the value is all that follows.
        """
        if self._budget < 0 or self._pieces < 0:
            return SecretValue(begin, most, None)
        value = self._value(begin, most, pieces)
        self._budget -= value.end - begin
        return value

    def _value(self, begin: int, most: int, pieces: int) -> SecretValue:
        text, at = self._text, begin
        first: tuple[int, int] | None = None
        closed, quote_before = 0, ""  # closed: end of the last piece with an end of its own
        if m := _BEFORE_CALL().match(text, at, most):
            at = m.end()
        while at < most:
            self._pieces -= 1
            pieces -= 1
            if pieces < 0:
                return SecretValue(begin, most, None)
            if closed == at and not quote_before and not self._opens(at, most):
                break
            if text.startswith(MASK, at):
                at = closed = at + len(MASK)
                continue
            m = _OPEN().match(text, at, most)
            if m and at > begin and m["prefix"]:
                m = None
            if m and (
                at == begin or m["quote"] == quote_before or (m["quote"][0] in "\"'`" and self._opens(m.end(), most))
            ):
                inner, at = self.quoted(m.end(), len(m["slash"]), m["quote"], most)
                first = None if first or m.start() > begin else (m.end(), inner)
                closed, quote_before = at, m["quote"]
                if quote_before[0] in "&%" or not (
                    _GOES_ON().match(text, at, most) or text.startswith(quote_before, at)
                ):
                    break
                continue
            if m:
                break  # the quote around the text in which the value is
            quote_before = ""
            after = self._other(begin, at, most)
            if after == at:
                break
            first = None
            if text[at] in "([{<" and after > at + 1:
                closed = after
            at = after
        if first is not None:
            return SecretValue(begin, at, first)
        while at > max(begin, closed) and text[at - 1] in ")]}>":
            at -= 1
        return SecretValue(begin, at, None)

    def _opens(self, after: int, most: int) -> bool:
        return after < most and bool(_WORD_AFTER().match(self._text, after))

    def _other(self, begin: int, at: int, most: int) -> int:
        """Return where a piece without quotes ends; the same place where the value ends."""
        text = self._text
        c = text[at]
        if c.isspace():
            return at
        if c in ";&,":
            return at + 1 if _JOINED().match(text, at, most) else at
        if c == "\\":
            run = _RUN().match(text, at, most)
            end = run.end() if run else at + 1
            return min(end + (end - at) % 2, most)  # an odd one escapes what follows
        if c in _CLOSERS:
            end = self._balanced(at, most)
            if end or at == begin or text[at - 1].isalnum() or text[at - 1] == "_":
                return end or most
            return at + 1
        if c == "<" and at == begin:
            end = text.find(">", at, min(at + 400, most))
            return end + 1 if end > 0 else at + 1
        m = _PLAIN_CHARS().match(text, at, most)
        return m.end() if m else at + 1

    def quoted(self, at: int, slashes: int, quote: str, most: int) -> tuple[int, int]:
        """Return the places of the closing quote and behind it; `most` for both where there is none.

        A quote inside a text that was escaped n times has 2^n - 1 backslashes, and those of the text itself before.
        """
        text, unit = self._text, 2 * (slashes + 1)
        while True:
            found = text.find(quote, at, most)
            if found < 0:
                return most, most
            run = found
            while run > at and text[run - 1] == "\\":
                run -= 1
            count = found - run
            if count < slashes and len(quote) == 1:
                return run, run  # the end of the text around it
            if len(quote) > 1 or (count - slashes) % unit == 0:
                return found - (slashes if count >= slashes else 0), found + len(quote)
            at = found + len(quote)

    def _balanced(self, at: int, most: int) -> int:
        """Return the place behind the bracket that closes the one at a place, 0 where none does."""
        text, stack, begin = self._text, [_CLOSERS[self._text[at]]], at
        at += 1
        while stack and self._budget > 0:
            m = _NEXT().search(text, at, most)
            if m is None:
                self._budget -= most - begin
                return 0
            c, at = m[0], m.end()
            if c == "\\":
                at += 1
            elif c in "\"'":
                # An apostrophe is not a quote.
                if c == '"' or not text[m.start() - 1].isalnum() or text[m.start() - 1] in "bBrRuUfF":
                    at = self.quoted(at, 0, c, most)[1]
            elif c in _CLOSERS:
                stack.append(_CLOSERS[c])
                if len(stack) > MOST_DEEP:
                    return most
            elif c in stack:
                while stack.pop() != c:
                    pass
        self._budget -= at - begin
        return min(at, most) if not stack else most


# Passwords in command lines without a key of their own (`curl -u user:password`), and in lines of netrc.


Found = Callable[[str], None]

_NAMES = (
    r"curl|sshpass|mysql(?:dump|admin|import|show)?|mariadb(?:-dump|-admin)?|https?|redis-cli|ldap(?:search|modify|add|whoami)"
    r"|unzip|zip|7z[ar]?|ssh-keygen|twine|login"
)
_COMMAND = late(rf"(?:.*/)?(?P<name>{_NAMES})(?:\.exe)?")
_TOKENS = late(
    rf"(?P<end>[\r\n|;]|&&)|(?<![\w.-])(?:[\w.~-]*/){{0,30}}(?P<name>{_NAMES})(?:\.exe)?(?=[\s\"',\\]|\Z)"
    r"|(?<![\w-])(?P<flag>-(?:-user|-proxy-user|-auth|[a-zA-Z]{1,5}[uU](?=[ \t])|[uUpPawNb]))"
    r"(?P<gap>\\*[\"']?(?:\s{0,9},\s{0,9}\\*[\"']?|[ \t]{1,9}|=))?"
)
_NETRC = late(
    r"(?i)\b(?:(?:machine|login)\s{1,32}\S{1,255}|default)\s{1,32}(?:(?:login|account)\s{1,32}\S{1,255}\s{1,32}){0,2}"
    r"(?P<key>password|passwd)\s{1,32}(?P<value>[^\s,\"']+)"
)
_USER = late(r"\\*[\"']?[^\s:\"']{0,255}:(?=[^\s/\"',:]|[\"']\w)")


def rule_of(command: str, flag: str) -> str:
    """Return what a flag of a command has: "value" a password, "user" a user and a password, else ""."""
    if command == "curl":
        if flag == "-b":
            return "cookie"
        many = flag[:1] == "-" and flag[-1:] in "uU" and flag[1:].isalpha()  # -sSu
        return "user" if many or flag in ("--user", "--proxy-user") else ""
    if command in ("http", "https"):
        return "user" if flag in ("-a", "--auth") else ""
    if command == "redis-cli":
        return "value" if flag == "-a" else ""
    if command.startswith("ldap"):
        return "value" if flag == "-w" else ""
    if command == "ssh-keygen":
        return "value" if flag in ("-N", "-P") else ""
    if command in ("zip", "unzip"):
        return "value" if flag == "-P" else ""
    if command.startswith(("mysql", "mariadb", "7z")):
        return "attached" if flag == "-p" else ""
    return "value" if flag == "-p" and command in ("sshpass", "twine", "login") else ""


def command_name(word: str) -> str:
    """Return the name of a command that takes a password in a flag, "" for any other word."""
    m = _COMMAND().fullmatch(word) if len(word) < 400 else None
    return m["name"] if m else ""


def word_masked(command: str, before: str, word: str) -> str:
    """Return a word of a command line with its password masked. before: the word before it."""
    if (rule := rule_of(command, before)) and rule != "attached":
        if word.startswith("-"):
            return word
        return _masked_value(rule, word)
    flag = word[:2]
    if len(word) > 2 and word[:1] == "-" and word[1] != "-" and (rule := rule_of(command, flag)):
        return flag + _masked_value("value" if rule == "attached" else rule, word[2:])
    name, sign, value = word.partition("=")
    if sign and (rule := rule_of(command, name)):
        return f"{name}={_masked_value(rule, value)}"
    return word


def _masked_value(rule: str, value: str) -> str:
    if rule == "user":
        user, colon, password = value.partition(":")
        return f"{user}:{MASK}" if colon and not is_plain(password, "password") else value
    if rule == "cookie" and "=" not in value:
        return value  # the name of a file
    return value if is_plain(value, "secret") else MASK


def commands_masked(text: str, tell: Found) -> str:
    """Return a text without the passwords of command lines and of netrc."""
    if "password" in text or "passwd" in text:
        for m in reversed(list(_NETRC().finditer(text))):
            if not is_plain(m["value"], m["key"]) and not is_prose(m["value"]):
                tell(m["key"])
                text = f"{text[: m.start('value')]}{MASK}{text[m.end('value') :]}"
    if "-" not in text:
        return text
    command, out, at = "", list[str](), 0
    scan = Scanner(text)
    for m in _TOKENS().finditer(text):
        if m["end"]:
            command = ""
        elif m["name"]:
            command = m["name"]
        elif command and m.start() >= at and (rule := rule_of(command, m["flag"])):
            gap = m["gap"] or ""
            if (rule == "attached" and gap) or (len(m["flag"]) > 2 and not gap):
                continue
            begin = m.end()
            if rule == "user":
                user = _USER().match(text, begin)
                if user is None:
                    continue
                begin = user.end()
            if text[begin : begin + 1] in ("", " ", "-", "\n"):
                continue
            value = scan.value(begin, len(text))
            inner, end = value.inside or (value.begin, value.end)
            if rule == "cookie" and text.find("=", inner, min(end, inner + 4096)) < 0:
                continue
            if inner < end and not is_plain(text[inner:end], "password" if rule == "user" else "secret"):
                tell(f"{command} {m['flag']}")
                out += [text[at:inner], MASK]
                at = end
    return "".join((*out, text[at:])) if out else text


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

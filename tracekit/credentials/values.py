"""The end of a value that follows a key: quotes of all kinds, brackets, calls, words."""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.credentials.shapes import MASK, late

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

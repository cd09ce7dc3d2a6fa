"""One text without credentials: all rules, again and again until none changes it."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracekit.credentials.assigned import Assignments, calls_masked, commands_masked
from tracekit.credentials.keys import MOST_KEY
from tracekit.credentials.shapes import HOOKS, MASK, PEM, QUERY, SHAPES, SUSPECT, late, may_have_words

__all__ = ["MOST_PASSES", "is_suspect", "masked_once", "named"]

# Credentials in URLs: users and passwords, signatures and tokens of the query, addresses of webhooks.


IN_URL = "masked"
"""The mask inside URLs, which must stay URLs."""
MOST_SCHEME = 24

Found = Callable[[str], None]

_START = late(r":(?:/|\\/){2}")
_SCHEME = late(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_REST = late(r"(?:[^\s\"'<>`]|[\"'`](?=[\w@]))*")
_PORT = late(r"[^:@/?#\\]*:[0-9]{1,5}(?:[/?#\\]|\Z)")
_HOST = late(r"(?:[\w-]+\.)+[\w-]+:|localhost:|\[")
_USER_ONLY = frozenset(("http", "https", "git+https", "git+http", "ws", "wss"))
_KNOWN_USERS = frozenset(("git", "hg", IN_URL, "anonymous"))
_QUERY_VALUE = late(rf"(?i)([?&;])({QUERY})=((?:[^&\s\"'\\#<>]|[\"'](?=\w))*(?:[^&\s\"'\\#<>:,;.)\]}}]))")
_SHORT = frozenset(("key", "policy", "auth", "code", "pass", "pwd"))
_HOOK_VALUES = tuple(
    (word, late(rf"((?:{address}))(?!{IN_URL}(?![\w/-]))([\w/@%.:=-]*[\w/=-])")) for word, address in HOOKS
)


def urls_masked(text: str, tell: Found) -> str:
    """Return a text without the credentials in its URLs."""
    if "@" in text and ("//" in text or "\\/" in text):
        text = _users_masked(text, tell)
    if "=" in text and ("?" in text or "&" in text):
        text = _QUERY_VALUE().sub(lambda m: _query(m, tell), text)
    for word, pattern in _HOOK_VALUES:
        if word in text:
            text = pattern().sub(lambda m: _hook(m, tell), text)
    return text


def _query(m: re.Match[str], tell: Found) -> str:
    name, value = m[2].lower(), m[3]
    if value.lower() == IN_URL or value.startswith(("$", "{", "[masked]")) or (name in _SHORT and len(value) < 16):
        return m[0]
    tell(m[2])
    return f"{m[1]}{m[2]}={IN_URL}"


def _hook(m: re.Match[str], tell: Found) -> str:
    tell("address of a webhook")
    return f"{m[1]}{IN_URL}"


def _users_masked(text: str, tell: Found) -> str:
    out: list[str] = []
    at = 0
    starts = [(m.start(), m.end()) for m in _START().finditer(text)]
    for number, (colon, begin) in enumerate(starts):
        most = starts[number + 1][0] if number + 1 < len(starts) else len(text)
        rest = _REST().match(text, begin, most)
        scheme = _SCHEME().search(text, max(0, colon - MOST_SCHEME), colon)
        end = _user_end(text, begin, rest.end() if rest else begin, scheme[0].lower() if scheme else "")
        if end and text[begin:end].lower() != IN_URL:
            tell("password in a URL")
            out += [text[at:begin], IN_URL]
            at = end
    return "".join((*out, text[at:])) if out else text


def _user_end(text: str, begin: int, end: int, scheme: str) -> int:
    """Return where the user and password of a URL end, at an "@"; 0 where there is none to mask.

    A password may have "@", "/" and "?" in it, though no URL should: so it reaches to the last "@" that can be its end.
    """
    if text.find("@", begin, end) < 0:
        return 0
    rest = text[begin:end].replace("\\/", "//")
    slash = min((i for i in (rest.find("/"), rest.find("?"), rest.find("#")) if i >= 0), default=len(rest))
    authority = rest[:slash]
    user, colon, password = authority.partition(":")
    if not colon:
        last = authority.rfind("@")
        if last < 1:
            return 0
        alone = user[:last]
        masks = scheme in _USER_ONLY and alone.lower() not in _KNOWN_USERS
        return begin + last if masks or _like_token(alone) else 0
    if "@" in user:  # user@host:port
        return begin + user.rfind("@") if scheme in _USER_ONLY and user[: user.rfind("@")] not in _KNOWN_USERS else 0
    if _PORT().match(rest) and (scheme in _USER_ONLY or "." in user or "@" not in rest):
        return 0
    if _HOST().match(rest) and "@" not in authority and password[:1].isdigit():
        return 0
    path = len(rest)
    for stop in "?#":
        found = rest.find(stop)
        if found >= 0 and rest.find("@", 0, found) >= 0:
            path = min(path, found)
    last = rest.rfind("@", 0, path)
    while last > 0 and rest[last - 1] == "/" and rest.rfind("@", 0, last) > 0:
        last = rest.rfind("@", 0, last)  # the scope of a package: https://user:password@host/@scope/name
    return begin + last if last > 0 else 0


def _like_token(user: str) -> bool:
    return len(user) >= 16 and any(c.isdigit() for c in user) and any(c.isalpha() for c in user)


MOST_PASSES = 12

_SUSPECT = late(SUSPECT)
_SHAPE = late("(?<![A-Za-z0-9])(?:" + "|".join(f"(?P<k{n}>{whole})" for n, (_, _, whole) in enumerate(SHAPES)) + ")")
_BEGINS = late("|".join(dict.fromkeys(begins for _, begins, _ in SHAPES)))
_BEARER = late(
    r"(?i)(bearer\\*[\"']?(?:[ \t]{1,9}|%20|[ ]?[:=][ ]?\\*[\"']?))"
    r"((?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{8,}=*|[A-Za-z0-9._~+/-]{20,}=*)"
)
_PEM = late(rf"{PEM}.*?(?:-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY[A-Z ]{{0,10}}-----|\Z)", re.DOTALL)
_DOTTED = late(r"(?<![\w-])[\w-]+(?:\.[\w-]*)+")
_JWT = late(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)+")


def is_suspect(text: str) -> bool:
    """Return whether a text may have a credential."""
    return may_have_words(text) and _SUSPECT().search(text) is not None


def text_masked(text: str, tell: Found) -> str:
    """Return a text, which is no JSON, with every credential in it masked."""
    for _ in range(MOST_PASSES):
        before = text
        text = masked_once(text, tell)
        if text == before:
            return text
    return MASK  # a text that is made to have ever new values


def masked_once(text: str, tell: Found) -> str:
    """Return a text, which is no JSON, after one pass of all rules: a mask may show another credential beside it."""

    def shape(name: str, by: str) -> str:
        tell(name)
        return by

    if "PRIVATE KEY" in text:
        text = _PEM().sub(lambda _: shape("private key", MASK), text)
    text = urls_masked(text, tell)
    text = Assignments(text, tell, named).masked()
    text = calls_masked(text, tell, named)
    text = commands_masked(text, tell)
    if "earer" in text or "EARER" in text:
        text = _BEARER().sub(lambda m: m[1] + shape("bearer token", MASK), text)
    if "eyJ" in text:
        text = _DOTTED().sub(lambda m: _JWT().sub(lambda _: shape("JSON web token", MASK), m[0]), text)
    if _BEGINS().search(text):
        text = _SHAPE().sub(lambda m: shape(SHAPES[int((m.lastgroup or "k0")[1:])][0], MASK), text)
    return text


def named(key: str) -> str:
    """Return the name of a key for a note: a key can itself have a credential in it."""
    return text_masked(key[:MOST_KEY].strip("-"), _quiet) or "a value"


def _quiet(_: str) -> None:
    return None

"""Credentials in texts: which values look like one, and the text without them.

A value is masked by its key (`HF_TOKEN=...`, `"password": "..."`, `--api-key ...`, `Authorization: Basic ...`), by its
shape (the well-known prefixes of AWS, GitHub, GitLab, Slack, Google, Hugging Face, OpenAI; JSON web tokens; private
keys in PEM), or by its place in a URL (`user:password@`, signatures and tokens of the query). Only the value is
replaced, and the key stays. A text that has been masked stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, lru_cache, partial

MASK = "[masked]"
IN_URL = "masked"
"""The mask inside URLs, which must stay URLs."""
MOST_KEY = 60

_WORD = (
    r"(?:token|secrets?|passw(?:or)?ds?|passphrase|passcode|sshpass|[a-z0-9]_pwd|authori[sz]ation|cookies?|credentials?"
    r"|(?:api|access|private|secret|auth|signing|encryption|account|ssh|subscription|deploy)[_.-]?key(?:[_-]?id)?)[0-9]*"
)
_QUERY = (
    r"(?:x-(?:amz|goog|oss|cos|ms)-(?:signature|credential|security-token)|sig|signature|awsaccesskeyid|googleaccessid"
    r"|accesskeyid|ossaccesskeyid|security-token|sharedaccesssignature|(?:[a-z_-]*[_-])?token|api_?key|key|password"
    r"|passwd|secret|client_secret|auth|authorization|jwt|policy)"
)
_SHAPES: tuple[tuple[str, str, str], ...] = (
    # name of the kind, how it begins (RE2 and Python), the whole of it (Python)
    ("AWS access key", r"A(?:KIA|SIA)[A-Z0-9]", r"(?<![A-Za-z0-9])A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    (
        "GitHub token",
        r"gh[pousr]_[A-Za-z0-9]{8}|github_pat_[A-Za-z0-9]",
        r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{20,})",
    ),
    ("GitLab token", r"glpat-", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}"),
    ("Slack token", r"xox[abeoprs]-", r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    (
        "JSON web token",
        r"eyJ[A-Za-z0-9_-]{6,}\.",
        r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)+",
    ),
    ("Google API key", r"AIza", r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{30,}"),
    ("Google token", r"ya29\.", r"(?<![A-Za-z0-9])ya29\.[0-9A-Za-z_-]{20,}"),
    ("Hugging Face token", r"hf_[A-Za-z0-9]{8}", r"(?<![A-Za-z0-9_])hf_[A-Za-z0-9]{30,}(?![A-Za-z0-9_])"),
    (
        "API key",
        r"sk-[A-Za-z0-9_-]{8}",
        r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z0-9_-]*[0-9])(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{20,}",
    ),
)
_PEM = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY"
_USER = r":(?:/|\\/){2}[^\s/\"'@:\\]*:[^\s/\"'@]+@"
_BEARER = r"[Bb][Ee][Aa][Rr][Ee][Rr](?:\s|%20)+[A-Za-z0-9._~+/-]{16}"


def _late(pattern: str, flags: re.RegexFlag | int = 0) -> Callable[[], re.Pattern[str]]:
    """Return a function that compiles a pattern when it is first called: most commands need few of them."""
    return cache(partial(re.compile, pattern, flags))


def _any_case(pattern: str) -> str:
    """Return a pattern for letters of both cases: as classes, which RE2 compiles and runs faster than `(?i:)`."""
    parts = re.findall(r"\\.|\[[^\]]*\]|[a-z]|.", pattern)
    folded = (f"[{p}{p.upper()}]" if len(p) == 1 and p.islower() else p.replace("a-z", "a-zA-Z") for p in parts)
    return "".join(folded)


SUSPECT = "|".join(
    (
        rf"{_any_case(_WORD)}(?:\\*[\"']?\s*[:=,]|\s)",
        *(begins for _, begins, _ in _SHAPES),
        _BEARER,
        _PEM,
        _USER,
        rf"[?&]{_any_case(_QUERY)}=",
    )
)
"""The regular expression, for Python and Arrow, of each text that may have a credential: others need no second look."""

_SUSPECT = _late(SUSPECT)
_WHOLE = tuple((name, _late(whole)) for name, _, whole in _SHAPES)
_BEARER_VALUE = _late(r"(?i)(bearer(?:\s|%20)+)([A-Za-z0-9._~+/-]{16,}=*)")
_PEM_VALUE = _late(rf"{_PEM}.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_USER_VALUE = _late(r"(:(?:/|\\/){2})[^\s/\"'@:\\]*:[^\s/\"'@]+@")
_QUERY_VALUE = _late(rf"(?i)([?&])({_QUERY})=([^&\s\"'\\#<>]*[^&\s\"'\\#<>:])")
_ASSIGNED = _late(
    rf"(?i)(?P<word>{_WORD})(?P<close>\\*[\"'])?(?P<op>\s*[=:]\s*|\s*,\s*|\s+)"
    r"(?:(?P<quote>\\*[\"'])(?P<quoted>.*?)(?P=quote)"
    r"|(?P<scheme>(?:bearer|basic|token|digest|negotiate)\s+)?(?P<bare>[^\s\"';&,]+(?:[;&,](?![\w.-]+=)[^\s\"';&,]+)*))"
)
_LEFT = _late(r"[\w.-]*\Z")
_TO_LINE_END = _late(r"[^\"\\\r\n]*")
_JSON_STRING = r'"((?:[^"\\]|\\.)*)"'
_JSON_MEMBER = _late(rf"{_JSON_STRING}(?:(\s*:\s*)(?:{_JSON_STRING}|(-?\d[\d.eE+-]*)|([\[{{]))?)?")
_LISTED = _late(rf'(?i){_WORD}"\s*,')
_WORDS = _late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_ALWAYS = (
    "secret secrets password passwords passwd passwds passphrase passcode sshpass authorization authorisation cookie"
    " cookies credential credentials"
)
_ENDINGS = ("password", "passwd", "passphrase", "apikey", "secretkey", "accesskey", "authtoken", "accesstoken")
_KEY_KINDS = "api access private secret auth signing encryption account ssh subscription deploy"
_NO_TOKEN = (
    "pad eos bos unk sep mask cls special begin start end stop image audio video next previous prev first last num per"
    " new current cur prompt output input each every one word"
)
"""Words before "token" in the language of models, where a token is a piece of text."""
_NO_VALUE = frozenset(("none", "null", "nil", "true", "false", "undefined", "unset", "masked", MASK.rstrip("]")))

Found = Callable[[str], None]
"""Called with the name of each key, or kind of credential, whose value was masked."""


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Return whether a value under this key is a credential.

    >>> [is_secret_key(key) for key in ("HF_TOKEN", "accessToken", "AWS_ACCESS_KEY_ID", "x-api-key", "MYSQL_PWD")]
    [True, True, True, True, True]
    >>> [is_secret_key(key) for key in ("num_tokens", "eos_token", "cache_key", "PWD", "key_averages", "TokenEmbed")]
    [False, False, False, False, False, False]
    """
    words = [word.lower() for word in _WORDS().findall(key)]
    while words and words[-1].isdigit():
        words.pop()
    if len(words) > 1 and words[-1] == "id" and words[-2].endswith("key"):
        words.pop()
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _ALWAYS.split() or last.endswith(_ENDINGS):
        return True
    if last == "token":
        return before not in _NO_TOKEN.split()
    if last == "key":
        return before in _KEY_KINDS.split()
    return last == "pwd" and bool(before) and before != "old"


def _is_plain(value: str, key: str) -> bool:
    """Return whether a value under a secret key is none: empty, a placeholder, a number, the path of a file."""
    stripped = value.strip().rstrip(")]}>")
    if not stripped or stripped.lower() in _NO_VALUE or stripped[0] in "$%<{=:" or not stripped.strip("*.…"):
        return True
    low = key.lower()
    if "pass" not in low and "secret" not in low and stripped.replace(".", "").isdigit():
        return True
    return "credential" in low and stripped.startswith(("/", "~"))


def _named(key: str) -> str:
    """Return the name of a key for a note: a key can itself have a credential in it."""
    return masked(key[:MOST_KEY].strip("-")) or "a value"


def masked(text: str, found: Found | None = None) -> str:
    """Return a text with every credential in it masked; the same text when there is none.

    >>> masked("train.py --api-key abc123 HF_TOKEN=xyz lr=0.1")
    'train.py --api-key [masked] HF_TOKEN=[masked] lr=0.1'
    >>> masked("s3://me:pw@host/run.json?part=2&X-Amz-Signature=0a1b: HTTP 404")
    's3://masked@host/run.json?part=2&X-Amz-Signature=masked: HTTP 404'
    """
    if not _SUSPECT().search(text):
        return text
    tell: Found = found or _quiet

    def shape(name: str, by: str) -> str:
        tell(name)
        return by

    def query(m: re.Match[str]) -> str:
        if m[3].lower() == IN_URL or (m[2].lower() in ("key", "policy", "auth") and len(m[3]) < 16):
            return m[0]
        tell(m[2])
        return f"{m[1]}{m[2]}={IN_URL}"

    if "PRIVATE KEY" in text:
        text = _PEM_VALUE().sub(lambda _: shape("private key", MASK), text)
    if "@" in text:
        text = _USER_VALUE().sub(lambda m: shape("password in a URL", f"{m[1]}{IN_URL}@"), text)
    if "?" in text or "&" in text:
        text = _QUERY_VALUE().sub(query, text)
    text = _assignments_masked(text, tell)
    text = _BEARER_VALUE().sub(lambda m: f"{m[1]}{shape('bearer token', MASK)}", text)
    for name, whole in _WHOLE:
        text = whole().sub(lambda _, name=name: shape(name, MASK), text)  # type: ignore[misc]
    return text


def _quiet(_: str) -> None:
    return None


def _assignments_masked(text: str, tell: Found) -> str:
    """Return a text with the values masked that follow a secret key: KEY=VALUE, "key": "value", --key value."""
    out: list[str] = []
    at = 0
    while (m := _ASSIGNED().search(text, at)) is not None:
        left = _LEFT().search(text, max(at, m.start() - MOST_KEY), m.start())
        key = f"{left[0] if left else ''}{m['word']}"
        value = m["quoted"] if m["quote"] else m["bare"]
        if not _assigns(key, m, value) or _is_plain(value, key):
            # The value may have an assignment in it.
            out.append(text[at : m.end("op")])
            at = m.end("op")
            continue
        tell(_named(key))
        begin, end, tail = m.start("quoted" if m["quote"] else "bare"), m.end(), m["quote"] or ""
        if not m["quote"]:
            if ":" in m["op"] and key.lower().endswith(("cookie", "authorization")):
                rest = _TO_LINE_END().match(text, begin)
                end = max(end, rest.end()) if rest else end
            kept = value.rstrip(")]}>") if end == m.end() else value
            tail = value[len(kept) :] if end == m.end() else ""
        out += [text[at:begin], MASK, tail]
        at = end
    return "".join((*out, text[at:])) if out else text


def _assigns(key: str, m: re.Match[str], value: str) -> bool:
    """Return whether the text after a secret key is its value."""
    if not is_secret_key(key.lstrip("-")):
        return False
    op = m["op"]
    if "=" in op:
        return True
    if ":" in op:
        return bool(m["close"]) or not key.lower().endswith("token") or (len(value) >= 12 and not value.isalpha())
    if not key.startswith("--"):
        return False
    return not value.startswith("-") and ("," not in op or bool(m["close"]))


def masked_args(text: str, found: Found | None = None) -> str:
    """Return the text of a JSON object with every credential masked; all other characters stay as they are.

    >>> masked_args('{"n":1.50,"access_token":"a1","env":["HF_TOKEN=b2"]}')
    '{"n":1.50,"access_token":"[masked]","env":["HF_TOKEN=[masked]"]}'
    """
    if not _SUSPECT().search(text):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return masked(text, found)
    tell: Found = found or _quiet
    if _LISTED().search(text):
        return _walked(text, tell)
    told: list[str] = []
    nested = False

    def member(m: re.Match[str]) -> str:
        nonlocal nested
        key, colon, value, number, opened = m.groups()
        if colon is None:
            return f'"{masked(key, told.append)}"'
        secret = is_secret_key(key)
        nested = nested or (secret and opened is not None)
        name = f'"{masked(key, told.append)}"{colon}'
        if value is not None:
            if secret and not _is_plain(value, key):
                told.append(_named(key))
                return f'{name}"{MASK}"'
            return f'{name}"{masked(value, told.append)}"'
        if number is not None and secret and not _is_plain(number, key):
            told.append(_named(key))
            return f'{name}"{MASK}"'
        return f"{name}{number or opened or ''}"

    out = _JSON_MEMBER().sub(member, text)
    if nested:
        return _walked(text, tell)
    for each in told:
        tell(each)
    return out


def _walked(text: str, tell: Found) -> str:
    """Return a JSON text masked member by member, where a credential is deeper below its key."""
    told: list[str] = []
    try:
        value = json.loads(text)
        clean = masked_value(value, told.append)
        out = text if clean is value else json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return masked(text, tell)
    for each in told:
        tell(each)
    return out


def masked_value(value: object, found: Found | None = None, key: str = "", *, secret: bool = False) -> object:
    """Return a JSON value with every credential in it masked; the same object when there is none."""
    tell: Found = found or _quiet
    if isinstance(value, str):
        if secret and not _is_plain(value, key):
            tell(_named(key))
            return MASK
        clean = (masked_args if value.startswith(("{", "[")) else masked)(value, tell)
        return value if clean == value else clean
    if isinstance(value, dict):
        return _masked_object(value, tell, key, secret=secret)
    if isinstance(value, (list, tuple)):
        items: list[object] = []
        for item in value:
            last = items[-1] if items else None
            follows = isinstance(last, str) and last.startswith("--") and is_secret_key(last.lstrip("-"))
            of = str(last) if follows else key
            flag = isinstance(item, str) and item.startswith("-")
            items.append(masked_value(item, tell, of, secret=secret or (follows and not flag)))
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if secret and isinstance(value, (int, float)) and not isinstance(value, bool) and not _is_plain(str(value), key):
        tell(_named(key))
        return MASK
    return value


def _masked_object(members: dict[object, object], tell: Found, key: str, *, secret: bool) -> object:
    out: dict[object, object] = {}
    changed = False
    named = next((members[n] for n in ("name", "key", "Name", "Key") if isinstance(members.get(n), str)), None)
    for name, member in members.items():
        # {"name": "HF_TOKEN", "value": "..."}: a row of a table of variables.
        pair = isinstance(named, str) and name in ("value", "Value") and is_secret_key(named)
        own = str(named) if pair else str(name)
        below = pair or is_secret_key(own)
        clean = masked_value(member, tell, own if below else key or own, secret=secret or below)
        shown = masked(name, tell) if isinstance(name, str) else name
        changed = changed or clean is not member or shown != name
        out[shown] = clean
    return out if changed else members

"""Keys that have a credential, and values that are none: numbers, placeholders, paths, words."""

from __future__ import annotations

from functools import lru_cache

from tracekit.credentials.shapes import (
    ALWAYS,
    COUNTS,
    KEY_KINDS,
    MASK,
    NO_PASS,
    NO_TOKEN,
    NO_VALUE,
    PASS_OWNERS,
    PAT_OWNERS,
    PROSE,
    SUFFIXES,
    TOKEN_SUFFIXES,
    late,
)

__all__ = [
    "MOST_KEY",
    "MOST_PLAIN",
    "hides",
    "is_own_type",
    "is_plain",
    "is_prose",
    "is_secret_key",
    "is_type",
    "kind_of",
    "looks_random",
]

MOST_KEY = 60
MOST_PLAIN = 160
"""Characters of a value that is no credential, at most: a longer one is masked without a second look."""

_WORDS = late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ENDINGS = ("password", "passwd", "passphrase", "apikey", "secretkey", "accesskey", "authtoken", "accesstoken")
_OWNED = late(
    r"(?:require|db|data|user|usr|ssh|smtp|imap|pop|ftp|my|root|admin|mail|e?mail|pg|redis|mysql|mongo|ldap|proxy|auth"
    r"|login|app|key|store|sql|http|basic|web|wifi|vpn|ca|cert|pem|ssl|service|svc|account|acct)(?:pass|pwd)"
)
_ENCODED = late(r"(?i)[_-]?(?:b64|base64)\Z")

_PLACEHOLDER = late(
    r"\$\{?(?:[A-Z_][A-Z0-9_]*|[a-z_]+)\}?|\$\{?\d\}?|\$\{\{[^'\"]*\}\}|\$\(\s*[\w./ -]*\)|%[A-Z_]+%|%[sdr]"
    r"|%\([a-z_]+\)s|\{\{[\w\s.|-]*\}\}|\{[a-z_.]*\}|</?[\w .|:-]*>|<\|[\w .-]*\|>|[*.…•xX#_?-]+"
)
_NUMBER = late(r"[+-]?[0-9][0-9_,]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_PATH = late(r"(?:~|\.{1,2})?[/\\]|~$|\.$|[A-Za-z]:[/\\]|\\\\")
_IDENTIFIER = late(r"[A-Za-z]+\d{0,2}|[a-z_]+[a-z0-9_]*|[\w.]+(?:::\w+)+.*")
_CODE = late(r"(?:await |new |std::move)?\s*[A-Za-z_][\w.:]{0,80}\([\w\s.,*=\[\]():+-]*\)")
_OPENER = late(r"(?i)(?:secret|passw|token|credential|sensitive|hidden)\w*\(")
_QUALIFIED = late(r"[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)+")
_TYPE = late(
    r"(?:const |unsigned |signed |struct |class )*(?:(?:int|float|double|char|bool|void|long|short|unsigned|signed|auto"
    r"|half|__half|__nv_bfloat16|bfloat16|size_t|u?int\d{1,2}_t|str|bytes|string|object)(?![\w-])|std::\w)"
)


@lru_cache(maxsize=4096)
def kind_of(key: str) -> str:
    """Return "secret" for a key whose value is a credential, "maybe" where the value must look like one, else ""."""
    words = [word.lower() for word in _WORDS().findall(_ENCODED().sub("", key))]
    while words and words[-1].isdigit():
        words.pop()
    if len(words) > 1 and words[-1] == "id" and words[-2].endswith("key"):
        words.pop()
    if len(words) > 1 and words[-1] in SUFFIXES:
        always = words[-2] in ALWAYS or words[-2].endswith(_ENDINGS) or (words[-2] == "key" and len(words) > 2)
        if always or (words[-1] in TOKEN_SUFFIXES and words[-2] in ("token", "pass", "pwd")):
            words.pop()
    if len(words) > 2 and words[-1] in TOKEN_SUFFIXES and words[-2] == "token":
        words.pop()
    if not words:
        return ""
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in ALWAYS or last.endswith(_ENDINGS) or _OWNED().fullmatch(last):
        return "secret"
    if last == "token":
        return "" if before in NO_TOKEN else "secret"
    if last == "key":
        return "secret" if before in KEY_KINDS else ""
    if last == "pwd":
        return "" if before == "old" else "secret" if before else "path"
    if last == "pass":
        return _kind_of_pass(key, before)
    if last == "pat":
        return "secret" if before in PAT_OWNERS or "PAT" in key or key.startswith("--") else "maybe"
    if last == "auth":
        return "secret" if key in ("_auth", "REDISCLI_AUTH") or key.lower().endswith("proxy-auth") else "maybe"
    return "secret" if last == "oldpwd" and before else ""


def _kind_of_pass(key: str, before: str) -> str:
    if not before:
        return "secret" if key.startswith("-") or key.isupper() else "maybe"
    if before in NO_PASS:
        return ""
    return "secret" if before in PASS_OWNERS or key.isupper() else "maybe"


def is_secret_key(key: str) -> bool:
    """Return whether a value under this key is a credential.

    >>> [is_secret_key(key) for key in ("HF_TOKEN", "accessToken", "AWS_ACCESS_KEY_ID", "x-api-key", "MYSQL_PWD")]
    [True, True, True, True, True]
    >>> [is_secret_key(key) for key in ("num_tokens", "eos_token", "cache_key", "PWD", "key_averages", "TokenEmbed")]
    [False, False, False, False, False, False]
    >>> [is_secret_key(key) for key in ("DB_PASS", "GITHUB_PAT", "--pass", "forward_pass", "pat")]
    [True, True, True, False, False]
    """
    return kind_of(key) == "secret"


def hides(key: str, value: str, *, beside_user: bool = False) -> bool:
    """Return whether a value under a key is a credential. beside_user: the name of a user is beside it."""
    kind = kind_of(key)
    if not kind or is_plain(value, key):
        return False
    if kind == "path":  # the current folder, or a password of a connection
        return not _PATH().match(value.strip())
    return kind == "secret" or (beside_user and not key.lower().endswith("auth")) or looks_random(value)


def is_plain(value: str, key: str) -> bool:
    """Return whether a value under a secret key is none: empty, a placeholder, a number, the path of a file."""
    if len(value) > MOST_PLAIN:
        return False
    value = value.strip()
    stripped = value.rstrip(")]}>").lstrip("([{<")
    if not stripped or value == MASK or stripped.lower() in NO_VALUE:
        return True
    if _PLACEHOLDER().fullmatch(value):
        return value[0] == "$" or not any(looks_random(w) for w in _WORD_LIKE().findall(value))
    low = key.lower()
    if low == "token" and len(value) < 4 and value.isalpha():
        return True
    if _NUMBER().fullmatch(stripped):
        return _is_size(low, stripped)
    if _CODE().fullmatch(value):
        return not _OPENER().match(value) and not any(looks_random(w) for w in _WORD_LIKE().findall(value))
    return "credential" in low and bool(_PATH().match(value))


_WORD_LIKE = late(r"\w{6,}")


def _is_size(key: str, number: str) -> bool:
    """Return whether a number under a key is a size or a count, and no secret of digits."""
    if "pass" not in key and "secret" not in key and "pwd" not in key:
        return True
    words = {word.lower() for word in _WORDS().findall(key)}
    return len(number) < 4 or bool(words & COUNTS) or key.endswith("s")


def looks_random(value: str) -> bool:
    """Return whether a value looks like a secret, and not like a word, an identifier, a type, a path or a number."""
    value = value.strip().strip("'\"")
    if len(value) < 8 or _PATH().match(value) or _NUMBER().fullmatch(value) or _IDENTIFIER().fullmatch(value):
        return False
    if value.lower().startswith("0x") or not any(c.isalpha() for c in value):
        return False
    kinds = (str.isupper, str.islower, str.isdigit)
    return sum(any(map(kind, value)) for kind in kinds) >= 2 and any(c.isdigit() for c in value)


def is_type(value: str, *, qualified: bool = False) -> bool:
    """Return whether a value begins with the name of a type. qualified: any `a::b` is one, as in a C++ signature."""
    return bool(_TYPE().match(value)) or (qualified and bool(_QUALIFIED().match(value)))


def is_own_type(key: str, value: str) -> bool:
    """Return whether a value is the key itself, written as a type: `storage_key: StorageKey`."""
    return value.rstrip(",;)") == "".join(word.capitalize() for word in key.split("_")) != key


def is_prose(value: str) -> bool:
    """Return whether a word after a key is a word of a sentence."""
    return value.rstrip(".,:;!?)").lower() in PROSE

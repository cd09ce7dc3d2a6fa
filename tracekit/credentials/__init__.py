"""Credentials in texts: which values look like one, and the text without them.

A value is masked by its key (`HF_TOKEN=...`, `"password": "..."`, `--api-key ...`, `Authorization: Basic ...`), by its
shape (the prefixes that AWS, GitHub, Slack and others publish; JSON web tokens; private keys in PEM), or by its place
(a URL, a command line, a line of netrc). JSON is masked string by string, as each reads without its escapes. Only the
value is replaced, and the key stays. A text that has been masked stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from tracekit.credentials.shapes import MASK, SUSPECT, may_have_words

__all__ = ["MASK", "SUSPECT", "Found", "is_secret_key", "masked", "masked_value"]

Found = Callable[[str], None]
"""Called with the name of each key, or kind of credential, whose value was masked."""


def is_secret_key(key: str) -> bool:
    """Return whether a value under this key is a credential.

    >>> [is_secret_key(key) for key in ("HF_TOKEN", "accessToken", "AWS_ACCESS_KEY_ID", "x-api-key", "MYSQL_PWD")]
    [True, True, True, True, True]
    >>> [is_secret_key(key) for key in ("num_tokens", "eos_token", "cache_key", "PWD", "key_averages", "TokenEmbed")]
    [False, False, False, False, False, False]
    """
    from tracekit.credentials import keys

    return keys.is_secret_key(key)


def masked(text: str, found: Found | None = None) -> str:
    """Return a text with every credential in it masked; the same text when there is none.

    >>> masked("train.py --api-key abc123 HF_TOKEN=xyz lr=0.1")
    'train.py --api-key [masked] HF_TOKEN=[masked] lr=0.1'
    >>> masked("s3://me:pw@host/run.json?part=2&X-Amz-Signature=0a1b: HTTP 404")
    's3://masked@host/run.json?part=2&X-Amz-Signature=masked: HTTP 404'
    >>> masked('{"n":1.50,"access_token":"a1","env":["HF_TOKEN=b2"]}')
    '{"n":1.50,"access_token":"[masked]","env":["HF_TOKEN=[masked]"]}'
    """
    if not may_have_words(text):
        return text
    from tracekit.credentials.objects import masked_text

    return masked_text(text, found or _quiet)


def masked_value(value: object, found: Found | None = None) -> object:
    """Return a JSON value with every credential in it masked; the same object when there is none."""
    from tracekit.credentials.objects import masked_object

    return masked_object(value, found or _quiet)


def _quiet(_: str) -> None:
    return None

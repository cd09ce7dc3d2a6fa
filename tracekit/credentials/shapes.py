"""Texts that are a credential by their shape, as data; and the expression that finds each text worth a second look.

The issuers publish the shapes, so that scanners find them. Words come from the keys that people use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

__all__ = [
    "ALWAYS",
    "COUNTS",
    "HOOKS",
    "KEY_KINDS",
    "MASK",
    "NO_PASS",
    "NO_TOKEN",
    "NO_VALUE",
    "PASS_OWNERS",
    "PAT_OWNERS",
    "PEM",
    "PROSE",
    "QUERY",
    "SHAPES",
    "SUFFIXES",
    "SUSPECT",
    "TOKEN_SUFFIXES",
    "WORD",
    "late",
    "may_have_words",
]

# Words of keys, values and sentences around credentials, as data.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALWAYS = _words(
    """
    secret secrets password passwords passwd passwds passphrase passcode passkey sshpass authorization
    authorisation cookie cookies credential credentials
    """
)
"""Last words of a key that always has a credential."""

KEY_KINDS = _words(
    """
    api access private secret auth signing encryption account ssh subscription deploy master admin storage
    webhook hmac jwt license openai anthropic azure stripe sendgrid twilio datadog wandb ngc nvidia hf mistral
    cohere pinecone
    """
)
"""Words before "key" in the name of a credential."""

NO_TOKEN = _words(
    """
    pad eos bos unk sep mask cls special begin start end stop image audio video next previous prev first last
    num per new current cur prompt output input each every one word max min n total
    """
)
"""Words before "token" in the language of models, where a token is a piece of text."""

NO_PASS = _words(
    """
    forward backward fwd bwd render shadow first second third last next prev previous single two multi one each
    per this that opt optimization optimizer compiler fusion lowering graph mlir llvm xla geometry depth color
    lighting post pre sub base by low high band reduce update split final num n
    """
)
"""Words before "pass" where it is a part of a program."""

PASS_OWNERS = _words(
    """
    db database smtp imap pop mail email user admin root my mysql pg postgres postgresql redis mongo mongodb
    rabbitmq amqp ldap ftp sftp ssh svn git http https proxy basic auth login account app api registry docker
    nexus artifactory jenkins wifi vpn key keystore truststore store cert ssl tls jdbc ora oracle mssql sql sa
    service svc client server bot sudo gpg wandb elastic es kafka minio s3 aws azure web site host remote test
    kube grafana
    """
)
"""Words before "pass" where it is a password."""

PAT_OWNERS = _words(
    """
    github gitlab gh gl git ado azure devops ext user my access bitbucket jira snowflake
    """
)
"""Words before "pat" where it is a personal access token."""

SUFFIXES = _words(
    """
    value val base64 b64 raw plain plaintext prod production dev staging stage backup env
    """
)
"""Words behind the last word of a key that change nothing: PASSWORD_PROD."""

TOKEN_SUFFIXES = _words(
    """
    prod production dev staging stage read write ro rw b64 backup env
    """
)
"""The same behind "token", where more words have a meaning of their own."""

COUNTS = _words(
    """
    num max min n total count len hash bcrypt scrypt argon pbkdf md sha ntlm crypt wpa
    """
)
"""Words before "password" where a number is a size: kernels of programs that try out passwords have such names."""

NO_VALUE = _words(
    """
    none null nil true false undefined unset empty masked redacted hidden removed required optional yes no
    """
)
"""Values that are no credential."""

PROSE = _words(
    """
    the a an is are was were be been not no and or to of for in on at as by it its this that with from wrong
    invalid incorrect required missing expired must cannot can failed fails error ok try please enter your you
    reset flag option flow given found set unset used needed has have will should may does do if when which per
    one word words piece pieces too expected got field file name prompt value values
    """
)
"""Words that follow a word such as "password" in a sentence."""

MASK = "[masked]"

SHAPES: tuple[tuple[str, str, str], ...] = (
    # name of the kind, how it begins (RE2 and Python), the whole of it (Python), never after a letter or digit
    ("AWS access key", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("GitHub token", r"gh[pousr]_[A-Za-z0-9]{4}", r"gh[pousr]_[A-Za-z0-9]{30,}"),
    ("GitHub token", r"github_pat_[A-Za-z0-9]", r"github_pat_[A-Za-z0-9_]{20,}"),
    ("GitLab token", r"gl[a-z]+-[A-Za-z0-9_-]{4}", r"gl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent|oas|ffct)-[\w-]{20,}"),
    ("Slack token", r"xox[abeoprs]-", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("Slack token", r"xapp-[0-9]", r"xapp-[0-9]-[A-Za-z0-9-]{20,}"),
    ("Google API key", r"AIza", r"AIza[0-9A-Za-z_-]{30,}"),
    ("Google token", r"ya29\.", r"ya29\.[0-9A-Za-z_-]{20,}"),
    ("Google client secret", r"GOCSPX-", r"GOCSPX-[0-9A-Za-z_-]{20,}"),
    ("Hugging Face token", r"hf_[A-Za-z0-9]{4}", r"(?<!_)hf_[A-Za-z0-9]{30,}(?![A-Za-z0-9_])"),
    ("Hugging Face token", r"api_org_", r"api_org_[A-Za-z0-9]{30,}(?![A-Za-z0-9_])"),
    ("API key", r"sk-[A-Za-z0-9_-]{4}", r"(?<![_-])sk-(?=[\w-]*[0-9])(?=[\w-]*[A-Za-z])[A-Za-z0-9_-]{20,}"),
    ("NVIDIA API key", r"nvapi-", r"nvapi-[A-Za-z0-9_-]{16,}"),
    ("npm token", r"npm_[A-Za-z0-9]{4}", r"npm_[A-Za-z0-9]{30,}"),
    ("PyPI token", r"pypi-A", r"pypi-A[A-Za-z0-9_-]{32,}"),
    ("Docker token", r"dckr_[po]at_", r"dckr_[po]at_[A-Za-z0-9_-]{16,}"),
    ("Stripe key", r"[sr]k_[lpt][a-z]{3}_", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}"),
    ("webhook secret", r"whsec_", r"whsec_[A-Za-z0-9+/]{20,}={0,2}"),
    ("SendGrid key", r"SG\.[A-Za-z0-9_-]", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("Databricks token", r"dapi[0-9a-f]{4}", r"dapi[0-9a-f]{32}(?:-[0-9])?(?![A-Za-z0-9])"),
    ("Groq key", r"gsk_[A-Za-z0-9]{4}", r"gsk_[A-Za-z0-9]{40,}"),
    ("xAI key", r"xai-[A-Za-z0-9]{4}", r"xai-[A-Za-z0-9_-]{60,}"),
    ("Replicate token", r"r8_[A-Za-z0-9]{4}", r"r8_[A-Za-z0-9]{36,}(?![A-Za-z0-9_])"),
    ("Grafana token", r"gl(?:sa|c)_[A-Za-z0-9]", r"gl(?:sa|c)_[A-Za-z0-9+/_]{32,}={0,2}"),
    ("Vault token", r"hv[sbr]\.[A-Za-z0-9_-]", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    ("DigitalOcean token", r"do[opr]_v1_", r"do[opr]_v1_[0-9a-f]{32,}"),
    ("Shopify token", r"shp[a-z]{2}_", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32,}"),
    ("Atlassian token", r"ATATT3", r"ATATT3[A-Za-z0-9_=-]{40,}"),
    ("age key", r"AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{20,}"),
    ("Telegram token", r":AA[A-Za-z0-9_-]{4}", r"[0-9]{8,12}:AA[A-Za-z0-9_-]{30,}"),
    ("Alibaba access key", r"LTAI[A-Za-z0-9]", r"LTAI[A-Za-z0-9]{16,24}(?![A-Za-z0-9])"),
)
HOOKS: tuple[tuple[str, str], ...] = (
    # what comes before the secret part of the address of a webhook
    ("hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/"),
    ("webhooks/", r"discord(?:app)?\.com/api/(?:v[0-9]{1,3}/)?webhooks/"),
    ("webhook", r"[\w-]{1,80}\.webhook\.office\.com/webhookb2/|outlook\.office(?:365)?\.com/webhook/"),
    ("bot/v2/hook/", r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/"),
    ("/bot", r"api\.telegram\.org/bot"),
)

_BEFORE_KEY = "|".join(sorted(KEY_KINDS))
WORD = (
    r"(?:token|secrets?|passw(?:or)?ds?|passphrase|passcode|passkey|pass|pwd|authori[sz]ation|auth|cookies?|credentials?"
    rf"|(?:{_BEFORE_KEY})[_.-]?key(?:[_-]?id)?|pat)[0-9]*"
)
"""The last words of keys that have a credential; `keys` has the last word on each."""
_SEEN = (
    r"(?:token|secrets?|passw(?:or)?ds?|passphrase|passcode|passkey|pass|pwd|authori[sz]ation|auth|cookies?|credentials?"
    r"|[a-z][_.-]?key(?:[_-]?id)?|pat)(?:[_-][0-9a-z]+|[0-9]+)?"
)
"""What `SUSPECT` looks for instead of `WORD`: a smaller expression, which RE2 compiles for each column, and more."""
_CALLED = r"(?:secret|passw(?:or)?d)[a-z]*"
QUERY = (
    r"(?:x-(?:amz|goog|oss|cos|ms)-(?:signature|credential|security-token)|sig|signature|awsaccesskeyid|googleaccessid"
    r"|accesskeyid|ossaccesskeyid|security-token|sharedaccesssignature|(?:[a-z_-]{0,40}[_-])?token|api_?key|key"
    r"|password|passwd|pwd|pass|secret|client_secret|auth|authorization|jwt|policy|code)"
)
_SEEN_QUERY = (
    r"(?:x-[a-z-]+|sig|signature|[a-z_-]*keyid|[a-z_-]*(?:token|key|passw(?:or)?d|pwd|pass|secret)|auth[a-z]*"
    r"|jwt|policy|code)"
)
PEM = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"
_JWT = r"eyJ[A-Za-z0-9_-]{4}"
_BEARER = r"[Bb][Ee][Aa][Rr][Ee][Rr](?:[ \t:=]|%20)"
_ESCAPED = r"\\u00(?:2[DFdf]|3[0-9ADad]|40|4[1-9A-Fa-f]|5[0-9AFaf]|6[1-9A-Fa-f]|7[0-9Aa])"
_COMMANDS = "curl|sshpass|mysql[a-z]*|mariadb[a-z-]*|https?|redis-cli|ldap[a-z]*|zip|7z[ar]?|ssh-keygen|twine"


def late(pattern: str, flags: re.RegexFlag | int = 0) -> Callable[[], re.Pattern[str]]:
    """Return a function that compiles a pattern when it is first called: most commands need few of them."""
    return cache(partial(re.compile, pattern, flags))


def _any_case(pattern: str) -> str:
    """Return a pattern for letters of both cases: as classes, which RE2 compiles and runs faster than `(?i:)`."""
    parts = re.findall(r"\\.|\[[^\]]*\]|[a-z]|.", pattern)
    folded = (f"[{p}{p.upper()}]" if len(p) == 1 and p.islower() else p.replace("a-z", "a-zA-Z") for p in parts)
    return "".join(folded)


SUSPECT = "|".join(
    (
        rf"{_any_case(_SEEN)}[\"'`\\\]:=,>%&?+|! \t\r\n-]",
        rf"{_any_case(_CALLED)}\(",
        *dict.fromkeys(begins for _, begins, _ in SHAPES),
        _JWT,
        _BEARER,
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY",
        r":\\*/\\*/[^ \t\r\n]*@",
        rf"[?&]{_any_case(_SEEN_QUERY)}=",
        r"hooks?[./]|/bot",
        rf"(?:{_COMMANDS})(?:\.exe)?[ \"',\\]|login[ \"',\\]",
        _ESCAPED,
    )
)
"""The regular expression, for Python and Arrow, of each text that may have a credential: others need no second look."""

_LOWER = (
    "token", "secret", "pass", "pwd", "auth", "cookie", "credential", "key", "://", ":\\/", "hook", "/bot", "bearer",
    "\\u00", "sig", "policy", "jwt", "code=", "private", "curl", "mysql", "mariadb", "http", "redis-cli", "ldap", "zip",
    "7z", "login", "ssh-keygen", "twine",
)  # fmt: skip
_EXACT = (
    *("glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glsoat-", "glft-", "glimt-", "glagent-", "gloas-", "glffct-"),
    "AKIA",
    "ASIA",
    "ABIA",
    "ACCA",
    "eyJ",
    "AIza",
    "PAT",
    "pat",
    "Pat",
    *(
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "xox",
        "xapp-",
        "ya29.",
        "GOCSPX-",
        "hf_",
        "api_org_",
        "glsa_",
        "glc_",
        "sk-",
        "nvapi-",
    ),
    *(
        "npm_",
        "pypi-A",
        "dckr_",
        "sk_",
        "rk_",
        "whsec_",
        "SG.",
        "dapi",
        "gsk_",
        "xai-",
        "r8_",
        "hvs.",
        "hvb.",
        "hvr.",
        "_v1_",
    ),
    *("shp", "ATATT3", ":AA", "LTAI"),
)


def may_have_words(text: str) -> bool:
    """Return whether a text may match `SUSPECT`: much faster than the expression, and true for a few others."""
    low = text.lower()
    # Loops, since `any` costs twice as much for the short names of kernels.
    for word in _LOWER:
        if word in low:
            return True
    for word in _EXACT:  # noqa: SIM110
        if word in text:
            return True
    return False

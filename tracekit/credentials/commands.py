"""Passwords in command lines without a key of their own (`curl -u user:password`), and in lines of netrc."""

from __future__ import annotations

from collections.abc import Callable

from tracekit.credentials.keys import is_plain, is_prose
from tracekit.credentials.shapes import MASK, late
from tracekit.credentials.values import Scanner

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

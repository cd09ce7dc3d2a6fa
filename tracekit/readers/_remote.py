"""Why an input at a URL could not be opened, in one sentence: fsspec says "file not found" for each failure of HTTP."""

from __future__ import annotations

from tracekit.errors import InputError

_STATUS = {
    401: ("the server asks for a login", "is the login in the environment right?"),
    403: ("the server refuses access", "may this login read it?"),
    404: ("no such file on the server", "is the address right?"),
    407: ("the proxy asks for a login", "is the login of the proxy right?"),
    410: ("the file is no longer on the server", "is the address right?"),
    429: ("the server asks to wait", "try again later"),
}
_OTHER = (("the server refuses", "is the address right?"), ("the server failed", "try again later"))


def cannot_open(name: str, err: Exception) -> InputError:
    """Return the error for a URL, by the status of the server, or by what stopped the connection."""
    why, hint = _reason(err)
    return InputError(f"{name}: cannot be opened ({why})", hint=hint)


def _reason(err: Exception) -> tuple[str, str]:
    import socket
    import ssl

    causes = _causes(err)
    for cause in causes:
        status = getattr(cause, "status", None)
        if isinstance(status, int):
            why, hint = _STATUS.get(status) or _OTHER[status >= 500]
            return f"{why}: HTTP {status}", hint
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "its host has no address in the network", "is the name of the host right?"
        if isinstance(cause, ConnectionRefusedError):
            return "the host refuses the connection", "does the server run, on this port?"
        if isinstance(cause, TimeoutError):
            return "the host does not answer", "is the network up?"
        if isinstance(cause, ssl.SSLError):
            why = getattr(cause, "reason", None) or "no TLS"
            return f"no secure connection: {why}", "does the server speak https, and is its certificate known here?"
        if isinstance(cause, FileNotFoundError) and not cause.__cause__:
            return "no such file", "is the address right?"
    text = (str(err).strip().splitlines() or [""])[0] or type(err).__name__
    return text, "is the address right, and the login?"


def _causes(err: BaseException) -> list[BaseException]:
    """Return the error and what led to it; libraries keep the error of the system in `os_error` or as the cause."""
    found: list[BaseException] = []
    queue: list[object] = [err]
    while queue:
        each = queue.pop(0)
        if isinstance(each, BaseException) and each not in found:
            found.append(each)
            queue += [getattr(each, "os_error", None), each.__cause__, each.__context__]
    return found

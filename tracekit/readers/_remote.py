"""Why an input at a URL could not be opened, in one sentence: fsspec says "file not found" for each failure of HTTP."""

from __future__ import annotations

from tracekit.errors import InputError, MissingExtraError, TracekitError

_STATUS = {
    401: ("the server asks for a login", "check the login in the environment"),
    403: ("the server refuses access", "check that this login may read it"),
    404: ("no such file on the server", "check the address"),
    407: ("the proxy asks for a login", "check the login of the proxy"),
    410: ("the file is no longer on the server", "check the address"),
    429: ("the server asks to wait", "try again later"),
}
_BY_KIND = {
    "TooManyRedirects": ("the server redirects in a circle", "check the address"),
    "RedirectClientError": ("the server redirects to an address that is not of the web", "check the address"),
    "ContentLengthError": ("the connection ended before the file did", "try again"),
    "TransferEncodingError": ("the connection ended before the file did", "try again"),
    "PayloadEncodingError": ("its content is not compressed as the server says", "ask who runs the server"),
    "HttpProcessingError": ("the answer is not HTTP", "check that a web server answers on this port"),
    "ServerDisconnectedError": ("the server closed the connection without an answer", "try again"),
}
"""By the name of a class of aiohttp, special ones first: some have the status 400, which no server sent."""
_OTHER = (("the server refuses", "check the address"), ("the server failed", "try again later"))


def cannot_open(name: str, err: Exception) -> InputError:
    """Return the error for a URL, by the status of the server, or by what stopped the connection."""
    why, hint = _wrong_address(name) or _reason(name, err)
    return InputError(f"cannot be opened ({why})", path=name, hint=hint)


def needs_package(name: str, err: ImportError) -> TracekitError:
    """Return the error for a URL whose library is not installed: one of ours, or that of another store."""
    if name.startswith(("http://", "https://", "s3://")):
        return MissingExtraError(f"reading {name}", "remote")
    why = (str(err).strip().splitlines() or ["a package is missing"])[0]
    return InputError(f"cannot be opened ({why})", path=name, hint="pip install the package of this kind of store")


def _wrong_address(name: str) -> tuple[str, str] | None:
    """Return what is wrong with the text of a URL; libraries fail in odd ways there."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(name)
        web = parts.scheme in ("http", "https")
        why = "it has no host" if web and not (parts.port or parts.netloc) else ""
    except ValueError as err:  # a port beyond 65535, brackets that do not close
        why = str(err)
    return (f"the address is not valid: {why}", "check the address") if why else None


def _reason(name: str, err: Exception) -> tuple[str, str]:
    import socket
    import ssl

    causes = _causes(err)
    kinds = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    if known := next((reason for kind, reason in _BY_KIND.items() if kind in kinds), None):
        return known
    for cause in causes:
        status = getattr(cause, "status", None)
        if isinstance(status, int):
            why, hint = _STATUS.get(status) or _OTHER[status >= 500]
            return f"{why}: HTTP {status}", hint
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "its host has no address in the network", "check the name of the host"
        if isinstance(cause, ConnectionRefusedError):
            return "the host refuses the connection", "check that the server runs on this port"
        if isinstance(cause, TimeoutError):
            return "the host does not answer", "check the network"
        if isinstance(cause, ssl.SSLError):
            known_as = [getattr(each, key, "") for key in ("verify_message", "reason") for each in causes]
            why = next(filter(None, known_as), "no TLS")
            return f"no secure connection: {why}", "check that the server uses https and a certificate known here"
        if isinstance(cause, ConnectionResetError):
            return "the connection was reset", "check whether the server uses http or https on this port"
        if isinstance(cause, FileNotFoundError) and not cause.__cause__:
            return "no such file", "check the address"
    if "Protocol not known" in str(err):
        return f"no known kind of address: {name.partition(':')[0]}", "https:// and s3:// are known"
    # fsspec's own error is often the address alone.
    texts = [(str(cause).strip().splitlines() or [""])[0] for cause in causes]
    text = next((text for text in texts if text not in ("", name)), type(causes[-1]).__name__)
    return text, "check the address and the login"


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

"""The browser of this machine, if a person sits at it, and the words for those who do not."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import webbrowser
from collections.abc import Mapping

__all__ = ["has_browser", "start", "tunnel"]


def has_browser(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a browser started here is one that the user sees.

    BROWSER names one that the user wants (remote editors name a program that opens it at the other end). Without it no
    browser is looked for over SSH, nor where there is no screen: those of a terminal cannot show a trace.
    """
    if environment.get("BROWSER"):
        return True
    if any(environment.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")):
        return False
    if sys.platform in ("win32", "darwin"):
        return True
    if not environment.get("DISPLAY") and not environment.get("WAYLAND_DISPLAY"):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def start(url: str) -> bool:
    """Open an address in the browser; return whether one was started."""
    try:
        return webbrowser.open(url, new=2)
    except (webbrowser.Error, OSError):
        return False


def tunnel(port: int) -> str:
    """Return the command that makes this machine's port a port of the user's own computer."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "USER"
    return f"ssh -L {port}:127.0.0.1:{port} {user}@{socket.gethostname() or 'HOST'}"

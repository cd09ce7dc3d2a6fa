"""tracekit mcp: a server that answers agents about the profiles in folders."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from tracekit.cli._common import example

__all__ = ["mcp"]

_QUESTION_S = 120.0
"""Seconds of a question where --max-time names no others: an agent waits for the answer."""


@example("tracekit mcp runs/")
def mcp(
    folders: Annotated[list[str], typer.Argument(metavar="FOLDER...", help="Folders whose profiles can be read.")],
) -> None:
    """Answer agents about the profiles in folders.

    It speaks the Model Context Protocol on stdin and stdout. The server only reads, and nothing outside the folders.
    Agents start it: docs/agents.md has their configuration. It needs: pip install 'tracekit-gpu[mcp]'.
    """
    from tracekit.agents.folders import profile_folders
    from tracekit.agents.server import serve
    from tracekit.safety.limits import in_force

    limits = in_force()
    serve(profile_folders(folders), limits if limits.seconds else replace(limits, seconds=_QUESTION_S))

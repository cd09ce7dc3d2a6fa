"""A server for agents and the SDK's own client, which talk over stdin and stdout as an agent does."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client

PROGRAM = [sys.executable, "-c", "from tracekit.cli import main; main()"]


@dataclass(frozen=True)
class Conversation:
    """One client of one server."""

    portal: BlockingPortal
    client: Client
    server: psutil.Process

    def tools(self) -> dict[str, Any]:
        listed = self.portal.call(self.client.list_tools)
        return {tool.name: tool for tool in listed.tools}

    def call(self, tool: str, **given: object) -> Any:
        """Return the result as the SDK gives it; it checks the structured content against the output schema."""
        return self.portal.call(self.client.call_tool, tool, given)

    def answer(self, tool: str, **given: object) -> dict[str, Any]:
        """Return the answer; its text is the same JSON."""
        result = self.call(tool, **given)
        assert not result.is_error, result.content[0].text
        assert json.loads(result.content[0].text) == result.structured_content
        return dict(result.structured_content)

    def error(self, tool: str, **given: object) -> str:
        """Return the error of a call that must fail, in our words."""
        result = self.call(tool, **given)
        assert result.is_error, result.content[0].text
        text = str(result.content[0].text)
        assert text.startswith("error: ")
        assert "Traceback" not in text
        assert "tracekit failed" not in text
        return text


@contextlib.contextmanager
def talking(*words: object, log: Path, env: dict[str, str] | None = None) -> Iterator[Conversation]:
    """Start `tracekit mcp` with these words and a client. log: the file that gets the server's stderr."""
    program, *before = PROGRAM
    given = {**os.environ, **(env or {})}
    parameters = StdioServerParameters(command=program, args=[*before, "mcp", *map(str, words)], env=given)
    with log.open("w") as stderr, start_blocking_portal() as portal:
        client = Client(stdio_client(parameters, errlog=stderr))
        before_it = {child.pid for child in psutil.Process().children()}
        with portal.wrap_async_context_manager(client):
            (server,) = [child for child in psutil.Process().children() if child.pid not in before_it]
            yield Conversation(portal, client, server)

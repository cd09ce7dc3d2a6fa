"""Answers for agents over the Model Context Protocol: `tracekit mcp FOLDER...` (extra `mcp`). Guide: `docs/agents.md`.

`server` speaks the protocol and starts `worker`, a process that reads the profiles and answers. `tools` declares the
questions, `folders` finds the named files, `fence` keeps the process inside the folders, `answers` limits the size.
"""

from __future__ import annotations

__all__: list[str] = []

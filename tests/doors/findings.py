"""The order of findings: three that save more than the idle time but are below it are hard to provoke in a trace."""

from __future__ import annotations

from tracekit.views.findings._relations import with_idle_early

__all__ = ["with_idle_early"]

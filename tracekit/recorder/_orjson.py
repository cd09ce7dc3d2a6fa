"""The package orjson; None where Python cannot load it, as in subinterpreters since Python 3.12."""

from __future__ import annotations

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

__all__ = ["orjson"]

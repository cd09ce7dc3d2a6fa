"""Without Paddle these tests are skipped by name; in CI it is there."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from support import missing


@pytest.fixture(scope="session", autouse=True)
def _paddle_is_here() -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("paddlepaddle 3.3.1 has no wheel for this Python")
    if importlib.util.find_spec("paddle") is None:
        missing("paddlepaddle is not installed (pip install paddlepaddle==3.3.1)")

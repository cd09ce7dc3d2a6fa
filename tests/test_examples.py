"""The examples in docstrings show what the functions return."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tracekit

PACKAGE = Path(tracekit.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name), extraglobs={"np": np, "pa": pa})
    assert found.attempted
    assert not found.failed

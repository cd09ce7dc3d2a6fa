"""Who may import whom: the table of DESIGN's floors, held against every import of the package, lazy ones too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support import ROOT

PACKAGE = ROOT / "tracekit"

# Array types for every part; narrow calls of pyarrow and members of `args` for every part above the first floor.
SHARED = {"arrays", "arrow", "args"}

# A part is a file or folder of the package; what it may import of tracekit besides itself.
MAY: dict[str, set[str]] = {
    "errors": set(), "units": set(), "_version": set(), "analysis": {"arrays"}, "recorder": set(), "messages": set(),
    "arrays": set(), "arrow": {"arrays"}, "args": {"arrays", "arrow"},
    "display": {"errors", "units"},
    "schema": {"errors", "units"},
    "report": {"display", "errors", "units"},
    "trace": {"display", "schema", "units", "errors"},
    "selection": {"trace", "schema", "units", "errors"},
    "readers": {"trace", "schema", "units", "errors", "messages", "recorder.log_format"},
    "writers": {"trace", "schema", "analysis", "units", "errors", "messages"},
    "run": {"trace", "schema", "analysis", "errors"},
    "steps": {"trace", "schema", "analysis", "errors"},
    "inventory": {"trace", "schema", "errors"},
    "views": {"trace", "schema", "report", "analysis", "units", "errors"},
    "render": {"report", "display", "units", "errors"},
    "inputs": {"readers", "writers.base", "run", "steps", "selection", "trace", "schema", "errors"},
    "pipeline": {
        "readers", "writers", "views", "render", "inputs", "inventory", "run", "steps", "selection", "trace", "schema",
        "report", "units", "errors", "_version",
    },
    "profiler": {"recorder", "pipeline", "trace", "report", "render.base", "views.base", "units", "errors"},
    "explain": {"pipeline", "trace", "report", "views", "analysis", "units", "errors"},
    "archive": {"pipeline", "inputs", "selection", "trace", "errors"},
    "query": {
        "archive", "pipeline", "inputs", "schema", "trace", "report", "render", "writers.base", "units", "errors",
        "_version",
    },
    "batch": {
        "archive", "pipeline", "inputs", "readers.source", "writers.base", "render", "report", "trace", "units",
        "errors", "_version",
    },
    "compare": {
        "archive", "pipeline", "inputs", "trace", "schema", "report", "analysis", "views.base", "views.steps", "units",
        "errors", "_version",
    },
    "cli": {
        "compare",
        "archive", "batch", "query",
        "pipeline", "explain", "inputs", "selection", "readers", "writers", "views", "render", "report", "trace",
        "units", "errors", "_version",
    },
    "__init__": {"pipeline", "trace", "_version"},
    "__main__": {"cli"},
}  # fmt: skip


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[tuple[int, str]]:
    """Every `tracekit.x.y` that a file imports, with its line, those inside functions and TYPE_CHECKING too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return [(line, name.removeprefix("tracekit.")) for line, name in found if name.startswith("tracekit.")]


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    here = part_of(path)
    assert here in MAY, f"{here} has no place in the table"
    for line, name in imports_of(path):
        there = name.split(".")[0]
        if there == here:
            continue
        parts = MAY[here] | (SHARED if MAY[here] - SHARED else set())
        allowed = any(name == part or name.startswith(f"{part}.") for part in parts)
        assert allowed, f"{path.name}:{line} imports {name}"


def test_no_circle() -> None:
    order: list[str] = []
    rest = {part: {other.split(".")[0] for other in allowed} for part, allowed in MAY.items()}
    while rest:
        ready = [part for part, needs in rest.items() if needs <= set(order)]
        assert ready, f"a circle among {sorted(rest)}"
        order += ready
        for part in ready:
            del rest[part]


JUDGES = {"views": "findings"}
"""Of a folder the one file that may import all its neighbours: its findings quote cells of the other views."""


@pytest.mark.parametrize("folder", ["readers", "views", "writers"])
def test_neighbours_share_only_base_and_underscore_files(folder: str) -> None:
    shared = {"base", "source", "builder"}
    for path in sorted((PACKAGE / folder).glob("*.py")):
        if path.stem in {"__init__", "sniff", JUDGES.get(folder)}:
            continue
        for line, name in imports_of(path):
            parts = name.split(".")
            if parts[0] == folder and len(parts) > 1:
                assert parts[1] in shared or parts[1].startswith("_"), f"{path.name}:{line} imports {name}"


def test_an_underscore_file_is_imported_by_its_folder_only() -> None:
    for path in FILES:
        folder = path.relative_to(PACKAGE).parts[0]
        for line, name in imports_of(path):
            owner, *rest = name.split(".")
            if rest and rest[0].startswith("_") and not rest[0].startswith("__") and owner != "_version":
                assert owner == folder, f"{path.name}:{line} imports {name}"


def test_no_file_outgrows_its_room() -> None:
    for path in FILES:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= 420, f"{path.relative_to(ROOT)} has {lines} lines: split it"

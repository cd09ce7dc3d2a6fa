"""Who may import whom: DESIGN's floors and walls, held against every import of the package, lazy ones too."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from support import ROOT

pytestmark = pytest.mark.source
PACKAGE = ROOT / "tracekit"

# A part is a file or folder of the package; what it may import of tracekit besides itself.
MAY: dict[str, set[str]] = {
    "credentials": set(), "units": set(), "_version": set(), "recorder": set(), "messages": set(), "plugins": set(),
    "columns": set(),  # array types, narrow calls of pyarrow, members of `args`
    "errors": {"credentials"},
    "safety": {"columns", "trace", "errors"},  # limits on what reading costs; rows in temporary folders
    "options": {"errors"},
    "analysis": {"columns.arrays", "columns.arrow"},
    "text": {"errors", "units"},
    "schema": {"columns", "errors", "units"},
    "report": {"columns", "text.display", "errors", "units"},
    "trace": {"columns", "credentials", "text.display", "schema", "units", "errors"},
    "index": {"columns", "options", "trace", "schema", "report", "analysis", "units", "errors"},
    "readers": {
        "columns", "plugins", "trace", "schema", "units", "options", "errors", "messages", "recorder.log_format",
        "safety",
    },
    "formats": {"plugins", "readers"},  # all readers as data
    "writers": {
        "columns", "plugins", "trace", "schema", "analysis", "units", "options", "errors", "messages",
        "safety.limits", "safety.scratch", "safety.spill", "safety.unfinished",
        "text.spreadsheet",  # a cell of a name, as a form of a report has it
    },
    "views": {
        "columns", "plugins", "text.names", "index", "trace", "schema", "report", "analysis", "units",
        "options", "errors",
    },
    "render": {
        "columns", "plugins", "text", "report", "units", "errors",
        "analysis.intervals",  # pixels have exact shares
    },
    "compat": {
        "columns", "text.display", "views", "index", "trace", "schema", "report", "render.base", "render.cells",
        "messages", "analysis", "plugins", "units", "options", "errors",
    },
    "privacy": {"columns", "credentials", "trace"},
    "inputs": {
        "columns", "analysis", "text.display", "index", "formats", "readers", "writers.base", "trace", "schema",
        "options", "units", "errors", "credentials", "privacy", "safety",
    },
    "conversion": {"columns", "writers", "inputs", "trace", "privacy", "schema", "options", "errors", "_version"},
    "pipeline": {
        "columns", "conversion", "formats", "writers", "views", "compat", "index", "render", "inputs",
        "trace", "schema", "report", "units", "options", "errors", "_version",
    },
    "profiler": {
        "columns", "recorder", "pipeline", "inputs", "trace", "messages", "report", "render.base", "views.base",
        "units", "options", "safety.scratch", "text.display", "errors",
    },
    "explain": {"columns", "pipeline", "trace", "report", "views", "index", "analysis", "units", "options", "errors"},
    "archive": {"columns", "safety.scratch", "privacy", "pipeline", "inputs", "trace", "errors"},
    "doctor": {
        "columns", "analysis", "text.display", "readers", "writers.base", "inputs", "conversion", "privacy",
        "credentials",
        "trace", "schema", "units", "options", "errors", "_version",
    },
    "query": {
        "columns", "archive", "pipeline", "inputs", "schema", "trace", "report", "render", "writers.base", "units",
        "privacy", "safety", "text.spreadsheet", "errors", "_version",
        "readers.archive.check",  # archived files are read in place
    },
    "batch": {
        "columns", "analysis", "archive", "pipeline", "inputs", "readers.source", "writers.base", "render", "report",
        "privacy", "trace", "units", "credentials", "workers", "safety", "errors", "_version",
    },
    "workers": {"safety.limits", "errors"},
    "shares": {
        "columns", "analysis", "conversion", "pipeline", "inputs", "index", "views", "report", "trace", "schema",
        "workers", "options", "safety", "errors", "_version",
    },
    "show": {"plugins", "safety", "inputs", "render.page", "errors", "_version"},
    "compare": {
        "columns", "archive", "pipeline", "inputs", "index", "trace", "schema", "report", "analysis", "views.base",
        "views.steps.steps", "units", "errors", "_version",
    },
    "cli": {
        "shares",
        "compare", "archive", "batch", "query", "show", "doctor", "conversion", "pipeline", "explain", "inputs",
        "formats", "writers", "plugins", "schema", "views", "compat", "render", "report", "trace",
        "index.topology", "units", "options", "errors", "_version", "credentials", "privacy", "safety", "text.display",
    },
    "api": {
        "columns", "archive", "compare", "query", "explain", "pipeline", "inputs", "index.topology",
        "trace", "report", "privacy", "views.base", "writers.base", "render.base", "safety", "errors",
    },
    "__init__": {
        "api", "archive", "inputs", "privacy", "trace", "report", "views.base", "errors", "_version",
    },
    "__main__": {"cli"},
}  # fmt: skip

ENGINES: dict[str, set[str]] = {
    "readers": {"engine", "packets", "sqlite", "trace_event", "printed", "foreign"},
    "writers": {"tracks"},
}
"""Folders that several producers, or several targets, share; every other folder belongs to one of them."""

SHELVES: dict[str, set[str]] = {"views": set(), "compat": set(), **ENGINES}
"""Parts whose folders are rooms with walls, and which of these every room may use."""

NEIGHBOURS: dict[tuple[str, str], set[str]] = {
    ("views", "findings"): {"tables", "device", "memory", "steps", "path", "ranks"},  # it quotes their cells
    ("views", "headline"): {"device", "steps", "tables"},  # its figures are theirs
    ("views", "timeline"): set(),
}
"""Rooms that may use others of the same part, with the reason beside each."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def imports_of(path: Path) -> list[tuple[int, str]]:
    """Every `x.y` of tracekit that a file imports, with its line, those inside functions and TYPE_CHECKING too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return [(line, name.removeprefix("tracekit.")) for line, name in found if name.startswith("tracekit.")]


FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {module_of(path) or "__init__": path for path in FILES}
FOLDERS = sorted({path.parent for path in FILES})


def target_of(name: str) -> str:
    """The module that an imported name is, or is in."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or "__init__"


IMPORTS = {module: {target_of(name) for _, name in imports_of(path)} for module, path in MODULES.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert here in MAY, f"{here} has no place in the table"
    for line, name in imports_of(path):
        there = name.split(".")[0]
        if there == here:
            continue
        allowed = any(name == part or name.startswith(f"{part}.") for part in MAY[here])
        assert allowed, f"{path.name}:{line} imports {name}"


def test_no_circle_among_parts() -> None:
    no_circle({part: {other.split(".")[0] for other in allowed} for part, allowed in MAY.items()})


@pytest.mark.parametrize(
    "folder",
    FOLDERS,
    ids=lambda p: str(p.relative_to(PACKAGE.parent)),
)
def test_no_circle_inside_a_folder(folder: Path) -> None:
    inside = {module: path for module, path in MODULES.items() if path.parent == folder and path.stem != "__init__"}
    no_circle({module: (IMPORTS[module] & set(inside)) - {module} for module in inside})


def no_circle(needs: dict[str, set[str]]) -> None:
    rest, done = dict(needs), set[str]()
    while rest:
        ready = [part for part, needed in rest.items() if needed <= done]
        assert ready, f"a circle among {sorted(rest)}"
        done |= set(ready)
        for part in ready:
            del rest[part]


@pytest.mark.parametrize("part", SHELVES)
def test_no_room_enters_its_neighbour(part: str) -> None:
    for path in sorted((PACKAGE / part).glob("*/*.py")):
        room = path.parent.name
        for line, name in imports_of(path):
            owner, *rest = name.split(".")
            if owner != part or not rest or not (PACKAGE / part / rest[0]).is_dir() or rest[0] == room:
                continue
            allowed = SHELVES[part] | NEIGHBOURS.get((part, room), set())
            assert rest[0] in allowed, f"{part}/{room}/{path.name}:{line} imports {name}"


def test_what_rooms_share_does_not_know_the_rooms() -> None:
    for part in SHELVES:
        for path in sorted((PACKAGE / part).glob("*.py")):
            for line, name in imports_of(path):
                owner, *rest = name.split(".")
                inside = owner == part and rest and (PACKAGE / part / rest[0]).is_dir()
                assert not inside or rest[0] in SHELVES[part], f"{part}/{path.name}:{line} imports {name}"
    for part, engine in [(part, engine) for part, engines in ENGINES.items() for engine in sorted(engines)]:
        for path in sorted((PACKAGE / part / engine).glob("*.py")):
            for line, name in imports_of(path):
                owner, *rest = name.split(".")
                inside = owner == part and rest and (PACKAGE / part / rest[0]).is_dir()
                assert not inside or rest[0] in ENGINES[part], f"{engine}/{path.name}:{line} imports {name}"


def test_a_private_file_is_imported_by_its_folder_only() -> None:
    for path in FILES:
        for line, name in imports_of(path):
            module = MODULES.get(target_of(name))
            if module is None or not module.stem.startswith("_") or module.stem in ("__init__", "_version"):
                continue
            assert module.parent in path.parents, f"{path.relative_to(PACKAGE)}:{line} imports {name}"


def test_tests_use_private_files_through_their_doors() -> None:
    """A private file is named in one place, and each door says why tests need what is behind it."""
    tests = ROOT / "tests"
    found = {
        path
        for path in tests.rglob("*.py")
        for _, name in imports_of(path)
        if any(part.startswith("_") and not part.startswith("__") for part in name.split(".")) and name != "_version"
    }
    assert {path.relative_to(tests).as_posix() for path in found if path.parent.name != "doors"} == set()
    assert len(found) <= 10
    assert all(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in found)

"""Who may import whom: floors and walls as a table, held against every import of the package, lazy ones too."""

from __future__ import annotations

import ast
import collections
import functools
import re
from pathlib import Path

import pytest
from support import ROOT

pytestmark = pytest.mark.source
PACKAGE = ROOT / "tracekit"

# A part is a file or folder of the package; what it may import of tracekit besides itself.
MAY: dict[str, set[str]] = {
    "_version": set(), "lazy_dataclass": set(), "lazy_pattern": set(), "credentials": set(), "recorder": set(),
    "messages": set(), "plugins": set(),
    "errors": {"credentials"},
    "options": {"errors"},
    "arguments": {"errors", "options"},  # the check of what callers of public functions pass
    # What everything passes: schema, trace, report, units, Arrow, texts.
    "model": {"arguments", "credentials", "errors", "options"},
    "analysis": {"model.arrow", "model.sets"},
    "safety": {"credentials", "errors", "model"},
    "workers": {"safety.limits", "errors"},
    "index": {"options", "model", "analysis", "errors"},
    "readers": {"plugins", "model", "options", "errors", "messages", "recorder.log_format", "safety"},
    "formats": {"plugins", "readers"},  # all readers as data
    "writers": {
        "plugins", "model", "analysis", "options", "errors", "messages", "safety.limits", "safety.scratch",
        "safety.spill", "safety.unfinished",
    },
    "views": {"arguments", "plugins", "index", "model", "analysis", "options", "errors"},
    "render": {"plugins", "model", "errors", "analysis.intervals"},  # pixels have exact shares
    "compat": {
        "views", "index", "model", "render.base", "render.cells", "messages", "analysis", "plugins", "options",
        "errors",
    },
    "inputs": {
        "analysis", "index", "formats", "readers", "writers.base", "model", "options", "errors", "credentials",
        "safety",
    },
    "conversion": {"writers", "inputs", "model", "safety.anonymize", "options", "errors", "_version"},
    "pipeline": {
        "conversion", "formats", "readers", "writers", "views", "compat", "index", "render", "inputs",
        "model", "options", "errors", "_version",
    },
    "profiler": {
        "recorder", "pipeline", "inputs", "model", "messages", "render.base", "views.base", "options",
        "safety.scratch", "errors",
    },
    "explanation": {"pipeline", "views", "index", "model", "analysis", "options", "errors"},
    "archive": {"arguments", "safety", "pipeline", "inputs", "model", "errors"},
    "doctor": {
        "analysis", "formats", "readers", "writers.base", "inputs", "conversion", "safety", "credentials", "model",
        "options", "arguments", "errors", "_version",
    },
    "queries": {
        "archive", "pipeline", "inputs", "model", "render", "writers.base", "safety", "credentials", "errors",
        "_version",
        "readers.archive.check",  # archived files are read in place
    },
    "batch": {
        "analysis", "archive", "conversion", "pipeline", "inputs", "readers.source", "writers.base", "render", "model",
        "credentials", "workers", "safety", "arguments", "errors", "_version",
    },
    "rank_summaries": {
        "analysis", "conversion", "pipeline", "inputs", "index", "views", "model", "workers", "options",
        "safety", "errors", "_version",
    },
    "agents": {
        "archive", "comparison", "explanation", "formats", "inputs", "model", "pipeline", "queries", "readers.source",
        "render", "views.base", "options", "safety", "errors", "_version",
    },
    "viewer": {"plugins", "safety", "inputs", "render.page", "errors", "_version"},
    "comparison": {
        "archive", "pipeline", "inputs", "index", "model", "analysis", "views.base", "views.steps.steps", "options",
        "arguments", "errors", "_version",
    },
    "cli": {
        "agents", "rank_summaries", "comparison", "archive", "batch", "queries", "viewer", "doctor",
        "conversion", "pipeline", "explanation", "formats", "inputs", "index.topology", "readers", "writers",
        "plugins", "views",
        "compat", "render", "model", "options", "errors", "_version", "credentials", "safety",
        "recorder.launch",
    },
    "api": {
        "archive", "comparison", "conversion", "queries", "explanation", "pipeline", "inputs", "index.topology",
        "model", "views.base", "writers.base", "render.base", "safety", "arguments", "options", "errors",
    },
    "__init__": {
        "api", "archive", "batch", "comparison", "doctor", "recorder", "inputs", "model", "views.base", "safety",
        "errors", "_version",
    },
    "__main__": {"cli"},
}  # fmt: skip

EVERYWHERE = {"lazy_dataclass", "lazy_pattern"}
"""What every part may import: small things that import nothing of tracekit."""

ENGINES: dict[str, set[str]] = {
    "readers": {"engine", "packets", "sqlite", "trace_event", "printed", "foreign"},
    "writers": {"tracks"},
}
"""Folders that several producers, or several targets, share; every other folder belongs to one of them."""

SHELVES: dict[str, set[str]] = {"views": set(), "compat": set(), **ENGINES}
"""Parts whose folders are rooms with walls, and which of these every room may use."""

NEIGHBOURS: dict[tuple[str, str], set[str]] = {
    ("views", "findings"): {"tables", "device", "memory", "steps", "path", "ranks"},  # it quotes their cells
    ("views", "efficiency"): {"tables"},  # it holds the metrics against the peaks
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
        allowed = any(name == part or name.startswith(f"{part}.") for part in MAY[here] | EVERYWHERE)
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


def names_at_top(tree: ast.Module) -> set[str]:
    """Every name that a module binds at its top level, also under a condition."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        inside = isinstance(node, (ast.Module, ast.If, ast.Try))
        for each in [child for part in ("body", "orelse") for child in getattr(node, part, ())] if inside else ():
            if isinstance(each, (ast.FunctionDef, ast.ClassDef)):
                bound.add(each.name)
            elif isinstance(each, (ast.Import, ast.ImportFrom)):
                bound |= {alias.asname or alias.name for alias in each.names}
            elif isinstance(each, (ast.Assign, ast.AnnAssign)):
                bound |= {name.id for name in ast.walk(each) if isinstance(name, ast.Name)}
    return bound


def test_a_public_module_names_what_it_offers() -> None:
    """`__all__` has names that are there, each once; a name that is not in it may change without a look elsewhere."""
    for module, path in MODULES.items():
        if path.stem.startswith("_"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        offers = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ]
        assert len(offers) == 1, f"{module} has no __all__"
        assert len(offers[0]) == len(set(offers[0])), module
        assert set(offers[0]) <= names_at_top(tree), f"{module}: {set(offers[0]) - names_at_top(tree)}"


def test_no_two_classes_share_a_name() -> None:
    """A name that a search finds once needs no second look. Paddle and Mini-Caffe both call theirs `Profiler`."""
    names = collections.Counter(
        node.name
        for path in MODULES.values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == {"Profiler"}


def test_no_module_imports_a_name_that_another_package_does_not_offer() -> None:
    """What a package takes from another one is in its `__all__`, so that a look at that shows what others rely on."""
    offers = {}
    for module, path in MODULES.items():
        listed = re.search(r"^__all__ = (\[[^]]*\])", path.read_text(encoding="utf-8"), re.M)
        if listed and not path.stem.startswith("_"):
            offers[module] = set(ast.literal_eval(listed[1]))
    for module, path in MODULES.items():
        for line, name in imports_of(path):
            home, _, wanted = name.rpartition(".")
            if home in offers and home.rpartition(".")[0] != module.rpartition(".")[0]:
                assert wanted in offers[home], f"{module}:{line} imports {name}"


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


def test_no_test_is_within_another_function() -> None:
    """pytest does not see it, so that it cannot fail."""
    hidden = [
        f"{path.relative_to(ROOT)}:{inner.lineno} {inner.name}"
        for path in (ROOT / "tests").rglob("*.py")
        for outer in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(outer, ast.FunctionDef)
        for inner in ast.walk(outer)
        if inner is not outer and isinstance(inner, ast.FunctionDef) and inner.name.startswith("test_")
    ]
    assert not hidden

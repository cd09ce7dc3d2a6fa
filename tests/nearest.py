"""Which test files are nearest to a file of the package: by the words of their paths, and by what they import."""

from __future__ import annotations

import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"


def words_of(path: str) -> set[str]:
    """Return the words of a path of a module or a test, those of its folders included."""
    parts = Path(path).with_suffix("").parts[1:]
    return {word for part in parts for word in part.removeprefix("test_").split("_") if word}


@functools.cache
def test_files() -> tuple[str, ...]:
    """Return the paths of all test files, relative to the checkout."""
    return tuple(path.relative_to(ROOT).as_posix() for path in sorted(TESTS.rglob("test_*.py")))


@functools.cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def module_of(path: str) -> str:
    """Return the name by which a file is imported: `tracekit.model.units`, and `views.tables` of one below tests/."""
    return path.removesuffix(".py").removesuffix("/__init__").removeprefix("tests/").replace("/", ".")


def nearest(path: str) -> list[str]:
    """Return all test files, nearest first, for a file of the package."""
    words, module = words_of(path), module_of(path)
    folder = module.rpartition(".")[0]

    def distance(file: str) -> tuple[float, str]:
        own = words_of(file)
        imports = 2 * (module in text_of(file)) + (folder != "tracekit" and folder in text_of(file))
        return -(len(words & own) + imports + len(words & own) / len(words | own)), file

    return sorted(test_files(), key=distance)


def related(path: str, most: int) -> list[str]:
    """Return the nearest test files that share a word with a file of the package or import it or its folder."""
    words, module = words_of(path), module_of(path)
    return [
        file for file in nearest(path)[:most] if words & words_of(file) or module.rpartition(".")[0] in text_of(file)
    ]


def users(path: str) -> list[str]:
    """Return the test files that import a module of the tests, directly or through others of these."""
    helpers = [file.relative_to(ROOT).as_posix() for file in sorted(TESTS.rglob("*.py"))]
    asked, found = [path], set[str]()
    while asked:
        name = re.escape(module_of(asked.pop()))
        there = re.compile(rf"^\s*(?:from {name} import|import {name}\b)", re.M)
        new = [file for file in helpers if file not in found and there.search(text_of(file))]
        found.update(new)
        asked += [file for file in new if not Path(file).name.startswith("test_")]
    return sorted(file for file in found if Path(file).name.startswith("test_"))

"""Scripts of the pages: ES modules in `templates/scripts/`, joined when a page is written.

A part of a page (its tables, its timeline) is a module `tables.js` with the modules of the folder `tables/`. Joined,
they are one script with one scope: in the order in which ES modules run, without `import` and `export`. Names that two
modules of a part declare would collide; tests find that. What a part imports from the part `page`, which runs first,
comes from `window.tracekit`: that holds what `page.js` exports.

Pages carry what `make scripts` made of that, small, in `templates/built/`.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache
from importlib.resources.abc import Traversable
from pathlib import Path

from tracekit.lazy_dataclass import dataclass

__all__ = ["BUILT", "SHARED", "SOURCES", "JoinError", "joined", "parts", "script", "source", "source_hash"]

BUILT = "built"
"""The folder of the scripts that pages carry."""
SOURCES = "SOURCES"
"""The file there that has the hash of what they were made of."""

SHARED = "page"
"""The part that others import from."""

_FOLDER = "scripts"
_IMPORT = re.compile(r'^import (?:\{ ([^{}]*?),? \} from )?"([^"\n]+)";\n', re.MULTILINE)
_SHARING = re.compile(r"^export \{ ([^{}]*?),? \};\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const|let) )", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def script(folder: Traversable, part: str, *, is_checkout: bool) -> str:
    """Return a script as a page carries it. folder: of the templates.

    In a checkout whose sources changed since the scripts were built, it is the source: what is edited is
    what runs.
    """
    if is_checkout and isinstance(folder, Path) and not _is_built(folder):
        return source(folder, part)
    return _text(folder / BUILT / f"{part}.js")


@lru_cache(maxsize=2)
def _is_built(folder: Path) -> bool:
    return _text(folder / BUILT / SOURCES).strip() == source_hash(folder)


def parts(folder: Traversable) -> list[str]:
    """Return the names of all scripts: the parts, and the scripts of one file beside the templates."""
    files = [*folder.iterdir(), *(folder / _FOLDER).iterdir()]
    return sorted(each.name.removesuffix(".js") for each in files if each.name.endswith(".js"))


def source(folder: Traversable, part: str) -> str:
    """Return a script before it is made small. Raises: JoinError."""
    alone = folder / f"{part}.js"
    return _text(alone) if alone.is_file() else joined(folder, part)


def source_hash(folder: Traversable) -> str:
    """Return the SHA-256 of all sources of scripts, with their names."""
    digest = hashlib.sha256()
    for name, text in sorted([*_scripts(folder, ""), *_scripts(folder / _FOLDER, f"{_FOLDER}/", deep=True)]):
        digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()


def _scripts(folder: Traversable, prefix: str, *, deep: bool = False) -> Iterator[tuple[str, str]]:
    for each in folder.iterdir():
        if each.is_dir():
            if deep:
                yield from _scripts(each, f"{prefix}{each.name}/", deep=True)
        elif each.name.endswith(".js"):
            yield f"{prefix}{each.name}", _text(each)


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8").replace("\r\n", "\n")


class JoinError(ValueError):
    """A module that cannot be joined: where, and why."""


def joined(folder: Traversable, part: str) -> str:
    """Return the script of a part. folder: the folder of the templates. Raises: JoinError."""
    made = _Joining(folder, part)
    made.add(f"{part}.js")
    taken = ", ".join(name if name == here else f"{name}: {here}" for here, name in sorted(made.taken.items()))
    head = [f"const {{ {taken} }} = window.tracekit;\n"] if taken else []
    return "".join(['"use strict";\n(async () => {\n', *head, *made.texts, "})();\n"])


@dataclass(slots=True)
class _Joining:
    """One part while it is joined. taken: its own name of what it imports from the shared part -> the name there."""

    folder: Traversable
    part: str
    texts: list[str] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def add(self, path: str) -> None:
        """Add a module after all that it imports; in a circle, the module that was begun first comes last."""
        if path in self._seen:
            return
        self._seen.add(path)
        text = self._read(path)
        for names, target in _IMPORT.findall(text):
            found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            owner = found.partition("/")[0].removesuffix(".js")
            if owner == self.part:
                if " as " in names:
                    raise JoinError(f"{path}: an import of {target} has another name than there; rename one of them")
                self.add(found)
            elif owner == SHARED:
                self._take(path, names)
            else:
                raise JoinError(f"{path} imports {target}: a part imports from itself and from {SHARED} only")
        text = _EXPORT.sub("", _IMPORT.sub("", text))
        if path == f"{SHARED}.js":
            text = _SHARING.sub(r"window.tracekit = { \1 };\n", text)
        if left := _LEFT.search(text):
            raise JoinError(f"{path}: this form cannot be joined: {left[0]}")
        self.texts.append(text)

    def _take(self, path: str, names: str) -> None:
        offered = self._read(f"{SHARED}.js")
        shared = {name for match in _SHARING.findall(offered) for name in match.split(", ")}
        for each in names.split(", "):
            name, _, here = each.partition(" as ")
            if name not in shared:
                raise JoinError(f"{path} imports {name}, which {SHARED}.js does not export")
            if self.taken.setdefault(here or name, name) != name:
                raise JoinError(
                    f"{path} imports {name} as {here or name}, which is another name elsewhere in {self.part}"
                )

    def _read(self, path: str) -> str:
        return _text(self.folder.joinpath(_FOLDER, *path.split("/")))

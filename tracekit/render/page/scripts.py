"""Scripts of the pages: ES modules in `templates/scripts/`, joined when a page is written.

A part of a page (its tables, its timeline) is a module `tables.js` with the modules of the folder `tables/`. Joined,
they are one script with one scope: in the order in which ES modules run, without `import` and `export`. Names that two
modules of a part declare would collide; tests find that. What a part imports from the part `page`, which runs first,
comes from `window.tracekit`: that holds what `page.js` exports.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable

__all__ = ["SHARED", "JoinError", "joined"]

SHARED = "page"
"""The part that others import from."""

_FOLDER = "scripts"
_IMPORT = re.compile(r'^import (?:\{ ([^{}]*?),? \} from )?"([^"\n]+)";\n', re.MULTILINE)
_SHARING = re.compile(r"^export \{ ([^{}]*?),? \};\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const|let) )", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


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
        """Add a module after those that it imports; in a circle, the module that was begun first comes last."""
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
        text = self.folder.joinpath(_FOLDER, *path.split("/")).read_text(encoding="utf-8")
        return text.replace("\r\n", "\n")

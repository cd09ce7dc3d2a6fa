"""Tokens in OUT in the place of folders, files and who they name: `--anonymize` of a batch.

The plan and the work use the real names; all that is written into OUT has tokens. These follow from the key alone, so
the next batch with that key finds its runs again. The name of a run in OUT is its key.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tracekit.batch._store import (
    FileJson,
    OutputFolder,
    PathReason,
    ReasonJson,
    Result,
    RootJson,
    SourceJson,
    read_json,
)
from tracekit.errors import Option, UsageError, sentence
from tracekit.privacy.anonymous import Anonymizer


def run_key(anonymizer: Anonymizer, root: str, inside: str) -> str:
    """Return the name of a run, and of its folder in OUT. Two tokens long: a large tree has no two equal ones."""
    place = f"{root}\0{inside}"
    return anonymizer.token("run", place) + anonymizer.token("", f"{place}\0").removeprefix("-")


def mark_of(anonymizer: Anonymizer | None) -> str:
    """Return the text by which OUT knows the key of its tokens, "" without one."""
    return "" if anonymizer is None else anonymizer.token("key", "of a batch")


def own(anonymizer: Anonymizer, *known: str) -> Anonymizer:
    """Return an anonymizer for one run: runs must not depend on what others made known. known: texts to learn from."""
    made = copy.deepcopy(anonymizer)
    for text in known:
        made.learn(text)
    return made


def refuse_mixed(out: OutputFolder, anonymizer: Anonymizer | None) -> None:
    """Refuse an OUT whose results have real names, or tokens of another key: its page would show both.

    Raises: UsageError.
    """
    roots = (read_json(path, RootJson) for path in sorted(out.roots.glob("*.json")))
    marks = {result["options"].get("anonymized", "") for result in out.results().values()}
    marks |= {root.get("anonymized", "") for root in roots if root is not None}
    if marks <= {mark_of(anonymizer)}:
        return
    given, key = Option("o", str(out.path)), Option("anonymize-key")
    another = sentence("choose another folder with ", Option("o"))
    if "" in marks and anonymizer is not None:
        raise UsageError(sentence(given, ": its results are not anonymized"), hint=another)
    if anonymizer is None:
        hint = sentence("add ", Option("anonymize"), " and its ", key)
        raise UsageError(sentence(given, ": its results are anonymized"), hint=hint)
    raise UsageError(
        sentence(given, ": its results are anonymized with another key"),
        hint=sentence("repeat the ", key, " of the first batch, or ", another),
    )


def with_real_paths(result: Result, names: Iterable[str], anonymizer: Anonymizer | None) -> Result:
    """Return a result with the paths of these files in the place of their tokens: the plan compares by path."""
    if anonymizer is None:
        return result
    real = {anonymizer.file(name): name for name in names}
    return _renamed(result, lambda path: real.get(path, path))


def with_token_paths(result: Result, anonymizer: Anonymizer | None) -> Result:
    """Return a result with tokens in the place of the paths of its files."""
    return result if anonymizer is None else _renamed(result, anonymizer.file)


def _renamed(result: Result, new: Callable[[str], str]) -> Result:
    sources: list[SourceJson] = [{**each, "path": new(each["path"])} for each in result["sources"]]
    others: list[FileJson] = [{**each, "path": new(each["path"])} for each in result["others"]]
    return {**result, "sources": sources, "others": others}


def hidden_result(result: Result, folder: str, anonymizer: Anonymizer | None) -> Result:
    """Return a result as it is written into OUT. folder: the run's own, as an absolute path."""
    if anonymizer is None:
        return result
    files = [each["path"] for each in (*result["sources"], *result["others"])]
    places = {str(Path(folder, name)): anonymizer.file(name) for name in files}
    places |= {folder: result["key"], result["root"]: anonymizer.file(result["root"])}
    names = {name: anonymizer.file(name) for name in files}

    def hidden(text: str) -> str:
        for each, token in sorted(places.items(), key=lambda pair: -len(pair[0])):
            text = text.replace(each, token)
        for each, token in sorted(names.items(), key=lambda pair: -len(pair[0])):
            text = re.sub(rf"(?<![\w./-]){re.escape(each)}(?![\w/-])", token, text)
        return anonymizer.text(text)

    def reasons(found: Sequence[ReasonJson]) -> list[ReasonJson]:
        return [{"file": anonymizer.file(each["file"]), "reason": hidden(each["reason"])} for each in found]

    return {
        **with_token_paths(result, anonymizer),
        "root": anonymizer.file(result["root"]),
        "inside": result["key"],
        "reasons": reasons(result["reasons"]),
        "lost": reasons(result.get("lost", [])),
        "notes": list(map(hidden, result["notes"])),
        "incomplete": list(map(hidden, result["incomplete"])),
    }


def hidden_root(root: RootJson, anonymizer: Anonymizer) -> RootJson:
    """Return the scan of a root as it is written into OUT."""

    def places(found: Sequence[PathReason]) -> list[PathReason]:
        return [{"path": anonymizer.file(each["path"]), "reason": anonymizer.text(each["reason"])} for each in found]

    return {
        **root,
        "anonymized": mark_of(anonymizer),
        "root": anonymizer.file(root["root"]),
        "run_pattern": anonymizer.token("path", root["run_pattern"]),
        "outside": sorted(map(anonymizer.file, root["outside"])),
        "unknown": sorted(map(anonymizer.file, root["unknown"])),
        "problems": places(root["problems"]),
        "notes": places(root["notes"]),
    }

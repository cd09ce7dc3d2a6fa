"""A reminder of how the project speaks: turns of phrase that readers stumbled over do not come back.

`python tests/test_words.py tracekit/views docs` prints what it finds. A text that is right although a pattern finds it
is a reason to change the pattern: the rule is to read the text aloud.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.source
ROOT = Path(__file__).resolve().parent.parent
PATTERNS = {
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\b(can be|are|is) won\b|\bwon at most\b|\bceilings?\b(?!_)": "savings, upper bound",
    r"\b(is|are|was|were|be|been) told\b(?! to)|\btold (apart|about)\b|\btells? (apart|nothing)\b": "note, distinguish",
    r"\bnothing (is said|of)\b|\bsays? (itself|themselves)\b|\bthat I know\b": "say what the program does",
    r"\b(for|in) (want|lack) of\b|\bfor \w+['’]s? sake\b": "because, without",
    r"(?<!there )\b(is|are) no (regular|valid|number|profile|trace|text|name)\b": "is not a ...",
    r"\bstands? (in|on|at|there|beside|below|above|before|behind|twice|once)\b": "is, has",
    r"\b(is|are|was|were) left alone\b|\bleave[sd]? (it|them) alone\b": "skipped",
    r"(^|\. )Of (fewer|several|two|all|each)\b": "plain order: subject, verb, object",
    # A third reading: what a newcomer still stumbled over.
    r"\bno step is known\b(?! on)|\b(time|Findings) not known\b": "No training steps in this trace. ... unknown",
    r"\b(ms|us) the run\b|, all \d": "The run took 35.6 ms. Top kernels (8 of 13, 3.05 ms in total)",
    r"\bmore reservations?\b|\bno time of its own\b": "1 more warning. Rows are missing: ...",
    r"\bpoints? of arrows\b": "flow events",
    r"\bis the (name|address|login|port) right\b|\bsay --\w": "Check the path. Pass --to TARGET",
    r"\bis not ill\b|\bfiles? of strangers\b|\bare of strangers\b": "is not reported, untrusted files",
    r"\bcalls of the (host|runtime)\b(?! or)|\b(ranges|phases) on no thread\b": "API calls, without a thread",
    r"\bpieces? of device work\b": "device events",
    r"\b(drops?|wrongly|sum),? without a word\b|\bbrought? in line\b|\bchanges? nothing here\b": "a warning, aligned",
    r"\b(totals|durations) alone\b": "only totals",
    r"(^|[;,.] )(drawn|shown) (as \w+ |over time )?are\b": "only the first 3 of 5 are drawn",
    r"\bFORMATS\b|\b(REFERENCE|DESIGN|PERFORMANCE|TABLES|WORDS)(\.md)?,? section\b": "a public source",
}
ANY = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS))
"""Whether a text has any of them: most have none, and are searched once."""
FIRST_LINE = re.compile(r"(What|Which|Whether|Who|Whose|Where|How|Tell|Tells)\b")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file with its line: Markdown without code, docstrings, comments, texts of several words."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        prose = re.sub(r"(?ms)^```.*?^```|`[^`\n]+`", lambda m: "\n" * m[0].count("\n"), source)
        yield from enumerate(prose.split("\n"), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield from enumerate(node.value.split("\n"), node.lineno)


def first_lines(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text.split("\n")[0]


def found_in(path: Path) -> list[str]:
    """Return a line for each pattern that a file has: place, words, what to say instead."""
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    found = []
    for line, text in texts(path):
        if ANY.search(text) is None:
            continue
        for pattern, instead in PATTERNS.items():
            found += [f"{name}:{line}: {m[0].strip()!r}: {instead}" for m in re.finditer(pattern, text)]
    if path.suffix == ".py":
        asks = "a first line is an imperative or a noun phrase"
        found += [f"{name}:{line}: {text[:50]!r}: {asks}" for line, text in first_lines(path) if FIRST_LINE.match(text)]
    return found


def files_of(folder: Path) -> list[Path]:
    """Return the pages and modules of a folder alone, those of its own folders not included."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".md", ".py"))


PARTS = sorted(
    {p.parent for part in ("tracekit", "docs") for p in (ROOT / part).rglob("*") if p.suffix in (".md", ".py")}
)
FOLDERS = [".", *(folder.relative_to(ROOT).as_posix() for folder in PARTS if "__pycache__" not in folder.parts)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_turn_of_phrase_that_readers_stumbled_over(folder: str) -> None:
    assert [line for path in files_of(ROOT / folder) for line in found_in(path)] == []


if __name__ == "__main__":
    named = [Path(word).resolve() for word in sys.argv[1:] or FOLDERS]
    hits = [
        line
        for folder in named
        for path in ([folder] if folder.is_file() else files_of(folder))
        for line in found_in(path)
    ]
    print(*hits, f"{len(hits)} found", sep="\n")
    sys.exit(bool(hits))

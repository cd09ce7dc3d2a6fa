"""Lines of the text that `nsys stats` prints: titles and messages, rules of dashes, cells under them.

A line may follow output of a program, the prefix of a log ("[1,0]<stdout>:", "# ", "> ") or an indent. The prefixes of
one table have the same length, so cells stay under their dashes.
"""

from __future__ import annotations

import csv
import itertools
import re
from dataclasses import dataclass

_BEFORE = r"^(?:.{0,60}?[\s>:|#*])??"
_RULE = re.compile(_BEFORE + r"(-{2,}(?: +-{2,})+)\s*$")
REPORT = re.compile(
    _BEFORE
    + r"(?:\*\* .*\((\w+)(?::[^()]*)?\):\s*$|Processing \[[^\]]*\] with \[(?:.*[/\\])?(\w+?)(?:\.py)?(?::[^\]/\\]*)?\]"
    r"|\[\d+/\d+\] Executing '(\w+)(?::[^']*)?' stats report"
    r"|(?:Running|Exporting) \[(?:[^\]]*[/\\])?(\w+?)(?:\.py)?(?: [^\]]*)?\](?:\.\.\.| to ).*)"
)
EMPTY = re.compile(_BEFORE + r"\"?(?:SKIPPED: )?\S.* (?:does not|could not|doesn't) contain .*\bdata\b\.?\"?\s*$")
"""A report that has no rows: `SKIPPED: run.sqlite does not contain CUDA kernel data.`, before 2022 without the word."""
MESSAGE = re.compile(
    _BEFORE
    + r"(?:Generating |Generated|NOTICE|SKIPPED|WARNING|ERROR|Exporting |Exported |Processed |Processing \[|Using "
    r"|\[\d+/\d+\] |```|\.{3,}\s*$)"
)
_BOX_RULE = re.compile(r"[+|](?:[ :=-]+[+|]){2,}")
_TITLE = re.compile(
    _BEFORE + r"((?:CUDA|NVTX|Operating System|OpenGL|OpenACC|OpenMP|Vulkan|DX1[12])\b[\w &/-]*? Statistics)"
    r"(?: \((?:by )?(?:(time|size)(?: in )?)?(nanoseconds|bytes|[KMG]i?B)?\))?:?\s*$"
)
_TITLES = {
    "CUDA API Statistics": "cudaapisum",
    "CUDA Kernel Statistics": "gpukernsum",
    "CUDA Memory Operation Statistics": "gpumemtimesum",
    "CUDA Kernel & Memory Operation Statistics": "gpusum",
    "Operating System Runtime API Statistics": "osrtsum",
    "NVTX Push-Pop Range Statistics": "nvtxppsum",
    "NVTX Start-End Range Statistics": "nvtxsesum",
    "NVTX Range Statistics": "nvtxsum",
}
_UNITS = {"nanoseconds": "ns", "bytes": "B"}

CELLS = 200
"""A line with more cells is not a row of a report."""
Places = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Title:
    """A title above a table, in versions that print no names of reports: name of the report, and unit ("": none)."""

    report: str = ""
    unit: str = ""


def title(line: str) -> Title | None:
    """Return the title in a line, None for another line.

    >>> title("CUDA Memory Operation Statistics (by size in KiB):")
    Title(report='gpumemsizesum', unit='KiB')
    """
    match = _TITLE.match(line)
    if match is None:
        return None
    unit = _UNITS.get(match[3], match[3]) or ""
    name = _TITLES.get(match[1], match[1])
    if name == "gpumemtimesum" and (match[2] == "size" or unit not in ("", "ns")):
        name = "gpumemsizesum"
    return Title(name, unit)


def places(line: str) -> Places | None:
    """Return start and end of each column by the dashes of a rule, None for another line."""
    match = _RULE.match(line)
    if match is None:
        return None
    return [dashes.span() for dashes in re.compile("-+").finditer(line, match.start(1))]


def cut(line: str, columns: Places) -> list[str]:
    """Return the cells under the dashes; the last column is the rest of the line."""
    cells = [line[start:end].strip() for start, end in columns[:-1]]
    return [*cells, line[columns[-1][0] :].strip()] if columns else []


def headings(line: str, columns: Places) -> list[str]:
    """Return the cells of a header above dashes. Two blanks divide the cells of one that is shifted against them."""
    if any(line[end:start].strip() for (_, end), (start, _) in itertools.pairwise(columns)):
        titles = re.split(r"\s{2,}", line[columns[0][0] :].strip())
        if len(titles) == len(columns):
            return titles
    return cut(line, columns)


def boxed(line: str, count: int = 0) -> list[str] | None:
    """Return the cells of a line in a table with bars (--format table, Markdown), None for another line.

    [] is a rule. count: number of cells in a row; bars in the last cell, the name, belong to it.

    >>> boxed("|     76.9 |     3 | operator|(int)  |", 3)
    ['76.9', '3', 'operator|(int)']
    """
    text = line.strip()
    if len(text) < 3 or text[0] not in "+|" or text[-1] not in "+|":
        return None
    if _BOX_RULE.fullmatch(text):
        return []
    cells = text[1:-1].split("|", count - 1 if count else -1)
    return [cell.strip() for cell in cells]


def row(line: str, columns: Places, *, texts: int) -> list[str]:
    """Return the cells of a row. Blanks divide the cells of a row that is shifted against the dashes.

    texts: number of columns with text, which may have blanks. If only the last column has text, blanks divide the
    numbers before it. With more such columns a shifted row becomes one cell, so it cannot be read.
    """
    gaps = [line[end:start] for (_, end), (start, _) in itertools.pairwise(columns)]
    if not any(gap.strip() for gap in gaps):
        return cut(line, columns)
    return line.split(None, len(columns) - 1) if texts == 1 else [line]


def split(line: str, between: str = ",", count: int = 0) -> list[str]:
    """Return the cells of a line. between: a comma, a tab or a bar. count: as in `boxed`."""
    if between == "|":
        return boxed(line, count) or [line]
    if line.count(between) > CELLS:
        return [line]
    try:
        return next(csv.reader([line], delimiter=between, strict=True), [])
    except csv.Error:
        return [line]

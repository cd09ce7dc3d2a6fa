"""torch: a report made with `--compat torch`, as the text of PyTorch's `key_averages().table()`.

Sources: `_build_table` of torch/autograd/profiler_util.py; tables of PyTorch 1.0 to 2.15, held against this text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tracekit.compat.fixed_width import fixed_width
from tracekit.render.base import Renderer, RenderOptions
from tracekit.report import Cell, Report, ReportTable

_GAP = "  "
_FLOPS = re.compile(r"\d+\.\d{3}", re.ASCII)


def render(report: Report, _: RenderOptions) -> str:
    """Return the text: each table as `table()` returned it, a blank line between two."""
    tables = [table for section in report.sections if section.view == "torch" for table in section.tables]
    thirds = zip(tables[::3], tables[1::3], tables[2::3], strict=True)
    return "\n".join("".join(f"{line}\n" for line in _lines(*third)) for third in thirds)


def _lines(layout: ReportTable, around: ReportTable, rows: ReportTable) -> Iterator[str]:
    titles = [str(title) for title in layout.column("column").values]
    shape = [(str(side), int(width or 0)) for _, width, side in layout.rows()]
    # Tables of 1.1 and older have no blanks at the end of a line.
    bare = any(place == "ends" for place, _ in around.rows())
    rule = _line(["-" * width for _, width in shape], shape, bare=bare)
    above = [str(line) for place, line in around.rows() if place == "above"]
    if above:
        yield "=" * (sum(width for _, width in shape) + len(_GAP) * (len(shape) - 1))
        yield from above
    yield rule
    yield _line(titles, shape, bare=bare)
    yield rule
    stacks = rows.columns[-1].name == "stack" if rows.columns else False
    for row in rows.rows():
        cells = [_cell(cell) for cell in row]
        stack = cells.pop() if stacks else ""
        yield _line(cells, shape, bare=bare)
        if stacks:
            blanks = [""] * (len(shape) - 1)
            for frame in stack.split("\n") if stack else ():
                yield _line([*blanks, frame], shape, bare=bare)
            yield _line([*blanks, ""], shape, bare=bare)
    totals = [str(line) for place, line in around.rows() if place == "totals"]
    if totals:
        yield rule
        yield from totals


def _cell(cell: Cell) -> str:
    """Return a cell; FLOPs have eight characters at least, which shows where they are aligned to the left."""
    text = "" if cell is None else str(cell)
    return text.rjust(8) if _FLOPS.fullmatch(text) else text


def _line(cells: Sequence[str], shape: Sequence[tuple[str, int]], *, bare: bool) -> str:
    line = fixed_width(cells, [width for _, width in shape], "".join(side for side, _ in shape), _GAP)
    return line + ("" if bare else _GAP)


LAYOUT = Renderer(name="torch", suffixes=(), render=render)

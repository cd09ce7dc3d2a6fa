"""text: plain tables for a terminal or a file.

The first column of text is printed last, so that long names push nothing aside. No line is wider than the limit, which
is at least 40. To fit, a name loses what says least (`names`), columns with a high priority number are hidden (a line
below the table names them), titles take two lines, and at last each row becomes a block of lines. Without a limit
(width 0) names are whole. A column "level" indents the names instead of being shown. Views without a result come after
the others, several of them in one line. A note is printed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tracekit.model.change import Waterfall
from tracekit.model.display import UNKNOWN, cell_width, cut_middle, escape_controls, plural
from tracekit.model.ledger_lines import ledger_lines
from tracekit.model.names import short_names
from tracekit.model.report import Report, ReportTable, Section
from tracekit.render import cells as _cells
from tracekit.render import prose
from tracekit.render.base import Renderer, RenderOptions
from tracekit.render.cells import ShownCell, padded, wrapped

__all__ = ["LEAST_WIDTH", "RENDERER"]

LEAST_WIDTH = 40
_FIRST_TO_GO = 1_000
_NAME_WIDTH, _NAME_LEAST = 24, 12
_WORD_WIDTH, _WORD_LEAST = 20, 6
_BLOCK_TITLE = 12
_GAP = "  "
_HANGING = _BLOCK_TITLE + 2 * len(_GAP)

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def render(report: Report, options: RenderOptions) -> str:
    """Return the report as lines of text. Raises: UsageError for an unknown unit of time."""
    width = max(options.width, LEAST_WIDTH) if options.width > 0 else 0
    lines = [
        line for text in report.incomplete for line in _styled(wrapped(escape_controls(text), width), _BOLD, options)
    ]
    lines += [
        *_styled(wrapped(escape_controls(report.title), width), _BOLD, options),
        *_facts(report, width, exact=options.exact),
    ]
    printed: set[str] = set()
    for section in report.sections:
        if section.tables or section.figures:
            lines += ["", *_section(section, printed, width, options, alone=len(report.sections) == 1)]
    with_reason, names = prose.nothing_to_show(report.sections)
    empty = [f"{s.title}: {'; '.join(s.notes)}" for s in with_reason] + ([names] if names else [])
    if empty:
        lines.append("")
        for text in empty:
            lines += wrapped(escape_controls(text), width, indent=2)
    footer = [*report.notes, *ledger_lines(report.ledgers, quiet=options.quiet, verbose=options.verbose)]
    if footer:
        lines.append("")
        for note in footer:
            lines += _styled(wrapped(escape_controls(note), width, indent=2), _DIM, options)
    return "\n".join(lines) + "\n"


def _styled(lines: list[str], style: str, options: RenderOptions) -> list[str]:
    return [f"{style}{line}{_PLAIN}" for line in lines] if options.color else lines


def _facts(report: Report, width: int, *, exact: bool) -> Iterator[str]:
    room = min(max((cell_width(escape_controls(key)) for key, _ in report.facts), default=0), _BLOCK_TITLE)
    for key, text in report.facts:
        title = padded(cut_middle(escape_controls(key), room), room, right=False)
        shown = text if exact else prose.fact_text(key, text)
        yield from wrapped(f"{_GAP}{title}{_GAP}{escape_controls(shown)}", width, indent=room + 2 * len(_GAP))


def _section(section: Section, printed: set[str], width: int, options: RenderOptions, *, alone: bool) -> Iterator[str]:
    """Yield title, tables, findings, figures and the notes that are not in `printed` yet. alone: no other is shown."""
    yield from _styled(wrapped(escape_controls(section.title), width), _BOLD, options)
    # A change in words says it before the tables, whose columns may not fit.
    spoken = [each for each in section.figures if isinstance(each, Waterfall) and each.spoken]
    for change in spoken:
        for line in prose.figure_lines(change):
            yield from wrapped(f"{_GAP}{line}", width, indent=4)
    for number, table in enumerate(section.tables):
        if number or spoken:
            yield ""
        if table.title != section.title:
            yield from wrapped(escape_controls(table.title), width)
        yield from _table(table, width, options)
    for finding in section.findings:
        yield ""
        yield from _styled(wrapped(prose.finding_title(finding), width, indent=2), _BOLD, options)
        for word, text in prose.finding_lines(finding):
            yield from wrapped(f"{_GAP}{padded(word, _BLOCK_TITLE, right=False)}{_GAP}{text}", width, indent=_HANGING)
    if section.findings and section.notes:
        yield ""
    for figure in section.figures:
        # What was said above is not said twice.
        for line in () if isinstance(figure, Waterfall) else prose.figure_lines(figure):
            yield from wrapped(f"{_GAP}{line}", width, indent=4)
    notes = section.notes if options.verbose or alone or section.view in options.asked else prose.short_notes(section)
    for note in (n for n in notes if n not in printed):
        printed.add(note)
        yield from _styled(wrapped(f"{_GAP}{escape_controls(note)}", width, indent=4), _DIM, options)


def _table(table: ReportTable, width: int, options: RenderOptions) -> Iterator[str]:
    columns = [
        _empty_goes_first(column)
        for column in _cells.shown_columns(table, options.time_unit, exact=options.exact or table.ordered)
    ]
    # What names the rows is never hidden: it is the first text that stays.
    places = [i for i, column in enumerate(columns) if column.is_text]
    name = next((i for i in places if not columns[i].priority), places[0] if places else None)
    if name is not None and not table.ordered:
        steps = prose.levels(table)
        if any(steps):
            texts = [_GAP * step + text for step, text in zip(steps, columns[name].texts, strict=True)]
            columns[name] = replace(columns[name], texts=texts)
        columns.append(columns.pop(name))
        columns = [c for c in columns if c.key != "level" or not any(steps)]
    hidden: list[ShownCell] = []
    # The column of names, which gets the most room; it is not always the last one.
    wide = (name or 0) if table.ordered else len(columns) - 1
    layout = _layout(columns, width, wide)
    if layout is not None and _cuts_words(*layout, wide):
        # Words such as a verdict say nothing when they are cut: titles in two lines and a shorter name make room.
        narrow = [_stacked(column) for column in columns]
        if (whole := _layout(narrow, width, wide, whole_words=True)) is not None:
            columns, layout = narrow, whole
    if layout is None:
        stacked = [_stacked(column) for column in columns]
        if (layout := _layout(stacked, width, wide)) is not None:
            columns = stacked
    if layout is None:
        yield from _blocks(columns, width, ordered=table.ordered)
    else:
        kept, widths = layout
        yield from _rows(kept, widths, options)
        hidden = [c for c in columns if c not in kept]
    below = [text] if (text := prose.omitted_line(table)) else []
    if hidden:
        names = ", ".join(c.name for c in hidden)
        below.append(f"{plural(len(hidden), 'column')} hidden ({names}): widen the terminal or use --format csv")
    for text in below:
        yield from _styled(wrapped(f"{_GAP}{text}", width, indent=4), _DIM, options)


def _empty_goes_first(column: ShownCell) -> ShownCell:
    """Return a column; one that may be hidden and has no known cell is the first to be hidden."""
    is_empty = column.priority > 0 and all(text == UNKNOWN for text in column.texts)
    return replace(column, priority=_FIRST_TO_GO) if is_empty else column


def _natural(column: ShownCell) -> int:
    return max(map(cell_width, [*column.title.split("\n"), *column.texts]))


def _stacked(column: ShownCell) -> ShownCell:
    """Return a column with its title in the two narrowest lines, if that makes the column narrower."""
    title = column.title
    places = [i for i, char in enumerate(title) if char == " "]
    if not places:
        return column
    best = min(places, key=lambda i: max(cell_width(title[:i]), cell_width(title[i + 1 :])))
    made = replace(column, title=f"{title[:best]}\n{title[best + 1 :]}")
    return made if _natural(made) < _natural(column) else column


def _cuts_words(columns: list[ShownCell], widths: list[int], wide: int) -> bool:
    """Return whether a short text that is not the name is cut. wide: the number of the name's column."""
    cells = enumerate(zip(columns, widths, strict=True))
    # The name is the last of the columns that are kept where it was the last of all.
    own = min(wide, len(columns) - 1)
    short = [(_natural(column), room) for at, (column, room) in cells if at != own and column.is_text]
    return any(room < natural <= _WORD_WIDTH for natural, room in short)


def _layout(
    columns: list[ShownCell], width: int, wide: int, *, whole_words: bool = False
) -> tuple[list[ShownCell], list[int]] | None:
    """Return the columns that fit and their widths; None if the columns that may not be hidden do not fit.

    wide: the number of the column of names. whole_words: short texts are not cut; names may be.
    """
    natural = {id(c): _natural(c) for c in columns}
    if not width:
        return columns, [natural[id(c)] for c in columns]
    last = columns[wide] if columns and columns[wide].is_text else None

    def widths(kept: list[ShownCell], name: int, word: int) -> list[int]:
        return [
            min(natural[id(c)], name) if c is last else min(natural[id(c)], word) if c.is_text else natural[id(c)]
            for c in kept
        ]

    def free(kept: list[ShownCell], name: int, word: int) -> int:
        return width - sum(widths(kept, name, word)) - len(_GAP) * (len(kept) - 1)

    kept = list(columns)
    # Names distinguish rows: they get two fifths of the width before any number.
    room = max(_NAME_WIDTH, width * 2 // 5)
    while free(kept, room, _WORD_WIDTH) < 0 and (able := [c for c in kept if c.priority > 0]):
        # The highest priority number is hidden first; of equal ones the last column.
        worst = max(c.priority for c in able)
        gone = [c for c in able if c.priority == worst][-1]
        kept = [c for c in kept if c is not gone]
    least = _WORD_WIDTH if whole_words else _WORD_LEAST
    name, word = (room, _WORD_WIDTH) if free(kept, room, _WORD_WIDTH) >= 0 else (_NAME_LEAST, least)
    if (rest := free(kept, name, word)) < 0:
        return None
    # The rest of the width goes to the name first, then to the other words.
    if last is not None and any(c is last for c in kept):
        more = min(rest, max(natural[id(last)] - name, 0))
        name, rest = name + more, rest - more
    while rest > 0 and any(c.is_text and c is not last and natural[id(c)] > word for c in kept):
        word += 1
        if free(kept, name, word) < 0:
            word -= 1
            break
    return kept, widths(kept, name, word)


def _rows(columns: list[ShownCell], widths: list[int], options: RenderOptions) -> Iterator[str]:
    def line(texts: list[str]) -> str:
        cells = (padded(text, room, right=c.right) for text, c, room in zip(texts, columns, widths, strict=True))
        return _GAP.join(cells).rstrip()

    titles = [
        [cut_middle(text, room) if c.is_text else text for text in c.title.split("\n")]
        for c, room in zip(columns, widths, strict=True)
    ]
    height = max(map(len, titles), default=1)
    above = [[""] * (height - len(lines)) + lines for lines in titles]
    yield from _styled([line([lines[i] for lines in above]) for i in range(height)], _BOLD, options)
    yield _GAP.join("-" * room for room in widths)
    shown = [short_names(c.texts, room) if c.is_text else c.texts for c, room in zip(columns, widths, strict=True)]
    for row in zip(*shown, strict=True):
        yield line(list(row))


def _blocks(columns: list[ShownCell], width: int, *, ordered: bool) -> Iterator[str]:
    """Yield each row as lines "title  text", for tables whose columns do not fit side by side."""
    columns = [columns[-1], *columns[:-1]] if columns[-1].is_text and not ordered else columns
    room = min(max(cell_width(c.title) for c in columns), _BLOCK_TITLE)
    for number, row in enumerate(zip(*(c.texts for c in columns), strict=True)):
        if number:
            yield ""
        for column, text in zip(columns, row, strict=True):
            title = padded(cut_middle(column.title, room), room, right=False)
            value = short_names([text], width - room - len(_GAP))[0] if column.is_text else text
            yield from (line.rstrip() for line in wrapped(f"{title}{_GAP}{value}", width, indent=room + len(_GAP)))


RENDERER = Renderer(name="text", suffixes=(".txt",), render=render)

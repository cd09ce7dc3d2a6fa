"""The first screen of a report as text for a terminal or a file: at most LINES lines."""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.lazy_dataclass import dataclass
from tracekit.model.cuts import says_that_it_ends
from tracekit.model.display import cell_width, cut_middle, escape_controls, head, plural
from tracekit.model.ledger_lines import ledger_lines
from tracekit.model.names import short_names
from tracekit.model.report import Headline, QuotedTable, Report, ReportTable, Section, TopNames
from tracekit.render.base import RenderOptions
from tracekit.render.cells import padded, shown_columns, wrapped
from tracekit.render.screen import Screen, ScreenShare, ShareBar, screen, share_text, shown_first, span_texts, top_title

__all__ = ["LINES", "text"]

LINES = 30
"""The most lines."""
_TRIES = ((2, 2, 7, 3), (2, 1, 6, 2), (1, 1, 5, 2), (1, 1, 3, 1), (1, 0, 3, 1), (1, 0, 0, 1))
"""Lines of each claim and each fix, least lines of the names, lines of the other views: the first that fits counts."""
LEAST_WIDTH, USUAL_WIDTH, MOST_WIDTH = 40, 80, 120
_NAMES = 8
_LONG_WORD = 16

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_INK = {"compute": "\x1b[34m", "exposed_comm": "\x1b[33m", "exposed_copies": "\x1b[32m", "idle": "\x1b[2m"}
_INKS = ("\x1b[34m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[2m")
_FILLS = ("█", "▓", "▒", "▚", "░")


def text(report: Report, options: RenderOptions) -> str:
    """Return the first screen as at most LINES lines of text. The report has a headline."""
    headline = report.headline or Headline()
    width = min(max(options.width or USUAL_WIDTH, LEAST_WIDTH), MOST_WIDTH)
    it = screen(report, headline, options.time_unit)
    paint = _Paint(options.color)
    # The sentences on inputs that lost too many records are one line each in a file or a pipe.
    lost = [
        paint.bold(line)
        for each in report.incomplete
        for line in wrapped(escape_controls(each), options.width and width)
    ]
    lines: list[str] = []
    every = sum(_rows(table) + 2 for table in shown_first(headline))
    # The phases say what takes a step: all of them, or their sum means nothing.
    phases = every if headline.top is not None and headline.top.of else 0
    # Each try says less, so that names and findings both have a place.
    for claim, advice, names_wanted, more in _TRIES:
        upper = [
            *lost,
            *_opening(it, width, paint),
            *_bars(it, width, paint, drawn=options.bars),
            *_cards(it, width, paint, claim, advice),
        ]
        lower = [*_more(report, width, paint, more, options)]
        room = LINES - len(upper) - len(lower)
        names: list[str] = []
        for table in shown_first(headline):
            if isinstance(table, QuotedTable):
                names += _quoted(table, room - len(names), width, paint)
            else:
                names += _top_names(table, room - len(names), width, paint, options.time_unit)
        lines = [*upper, *names][: LINES - len(lower)] + lower
        if len(upper) + len(lower) <= LINES and len(names) >= min(max(names_wanted, phases), every):
            break
    return "\n".join(line.rstrip() for line in lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Paint:
    """Styles of a terminal, or none."""

    color: bool

    def bold(self, text: str) -> str:
        return self.styled(text, _BOLD)

    def dim(self, text: str) -> str:
        return self.styled(text, _DIM)

    def styled(self, text: str, style: str) -> str:
        return f"{style}{text}{_PLAIN}" if self.color and text else text


def _clamped(text: str, width: int, lines: int, *, indent: int = 2) -> list[str]:
    """Return text wrapped into at most that many lines; what is cut off ends in "…"."""
    space = " " * indent
    found = [f"{space}{line}" for line in wrapped(text, width - indent)]
    if len(found) <= lines:
        return found
    # The next line may begin with a long name, of which a part still fits.
    rest = " ".join([found[lines - 1], found[lines].strip()])
    return [*found[: lines - 1], _cut_at_word(rest, width)]


def _cut_at_word(text: str, width: int) -> str:
    """Return the first words of a line and "…". A long word is a name, whose first part says something too."""
    part = head(text, width - 2)
    words = part.rstrip()
    inside = len(part) < len(text) and " " not in (part[-1:], text[len(part)])
    if inside and len(words) - words.rfind(" ") > _LONG_WORD:
        return f"{words}…"
    if inside and " " in words.lstrip():
        words = words[: words.rindex(" ")].rstrip()
    return f"{words} …"


def _heading(text: str, width: int) -> list[str]:
    """Return a title in at most two lines, the second one indented."""
    first, *more = wrapped(text, width, indent=2)
    return [first, *_clamped(" ".join(line.strip() for line in more), width, 1)] if more else [first]


def _opening(it: Screen, width: int, paint: _Paint) -> Iterator[str]:
    # Half a file is said before its figures are.
    first = [text for text in it.reservations if says_that_it_ends(text)]
    for text in first:
        yield from (paint.bold(line) for line in _clamped(text, width, 2, indent=0))
    if it.sentence:
        yield from (paint.bold(line) for line in wrapped(it.sentence, width))
        yield from _clamped(it.meaning, width, 3, indent=0) if it.meaning else ()
    for text in (each for each in it.reservations if each not in first):
        yield from (paint.bold(line) for line in _clamped(text, width, 2, indent=0))
    yield ""
    yield paint.bold(cut_middle(it.title, width))
    yield from (paint.dim(line) for line in _clamped(" · ".join(it.facts), width, 2))
    figure = " ".join(filter(None, (it.before, it.value, it.unit, it.after)))
    rest = f"{'. ' if it.spread[:1].isupper() else ': '}{it.spread}"
    if it.spread and cell_width(figure + rest) <= width:
        yield f"{paint.bold(figure)}{rest}"
        return
    yield from (paint.bold(line) for line in _heading(figure, width)) if figure else ()
    yield from _clamped(it.spread, width, 2) if it.spread else ()


def _bars(it: Screen, width: int, paint: _Paint, *, drawn: bool) -> Iterator[str]:
    if it.bar_note:
        yield from (paint.dim(line) for line in _clamped(it.bar_note, width, 2))
    for bar in it.bars:
        if it.by_name and not drawn:
            continue  # the table of the names has the same figures
        yield ""
        yield from _heading(f"{bar.title}: {bar.whole}", width)
        fills = dict(zip((part.name for part in bar.parts), _fills(bar), strict=True))
        if drawn:
            yield "  " + "".join(
                paint.styled(fills[name][0] * count, fills[name][1]) for name, count in _cells(bar, width - 2)
            )
        yield from _legend(bar, fills, width, paint, drawn=drawn)
    if it.more_bars:
        yield head(f"  {it.more_bars}", width)


def _fills(bar: ShareBar) -> list[tuple[str, str]]:
    """Return the character and the style of each part."""
    last = len(_FILLS) - 1
    return [
        (_FILLS[last if part.name in ("idle", "others") else number], _INK.get(part.name, _INKS[number]))
        for number, part in enumerate(bar.parts)
    ]


def _cells(bar: ShareBar, room: int) -> list[tuple[str, int]]:
    """Return how many cells each part gets: they add up to the room, and a part that is not 0 has one at least."""
    exact = [part.width * room / 100 for part in bar.parts]
    cells = [max(int(share), 1 if share > 0 else 0) for share in exact]
    while (off := room - sum(cells)) and any(exact):
        # The part that is farthest from its share gets or gives a cell.
        place = max(
            range(len(cells)),
            key=lambda i: (exact[i] - cells[i]) * off if exact[i] and cells[i] + off > 0 else -room * room,
        )
        cells[place] += 1 if off > 0 else -1
    return list(zip((part.name for part in bar.parts), cells, strict=True))


def _legend(
    bar: ShareBar, fills: dict[str, tuple[str, str]], width: int, paint: _Paint, *, drawn: bool
) -> Iterator[str]:
    """Yield a line for each part where devices differ or names are long, else two parts a line."""

    def mark(part: ScreenShare) -> str:
        return f"{paint.styled(*fills[part.name])} " if drawn else ""

    # A part of no time says nothing, and takes a line.
    shown = [part for part in bar.parts if part.width > 0]
    if not shown:
        return
    label = max(cell_width(part.label) for part in shown)
    amount = max(len(part.amount) for part in shown)
    cells = []
    for part in shown:
        words = f"{padded(part.label, label, right=False)}  {part.percent:>5} %  {part.amount:>{amount}}"
        cells.append((mark(part), f"{words}  {part.over}" if part.over else words))
    size = max(cell_width(words) for _, words in cells) + 2 * drawn
    if any(part.over for part in shown) or 2 * size + 6 > width:
        yield from (f"  {sign}{head(words, width - 4)}" for sign, words in cells)
        return
    for first in range(0, len(cells), 2):
        yield "  " + "    ".join(f"{sign}{words}" for sign, words in cells[first : first + 2])


def _cards(it: Screen, width: int, paint: _Paint, claim: int, advice: int) -> Iterator[str]:
    """Yield the findings. claim, advice: the most lines of each."""
    yield ""
    if it.card_note:
        yield from _clamped(it.card_note, width, 3, indent=0)
        return
    yield from (paint.bold(line) for line in _heading(it.cards_title, width))
    for card in it.cards:
        gain = f"{card.saving}{f' ({card.percent})' if card.percent else ''}"
        room = max(width - len(gain) - 6 - len(str(card.number + 1)), 8)
        title = card.title if cell_width(card.title) <= room else f"{head(card.title, room - 1)}…"
        yield f"  {card.number + 1} {paint.bold(title)}" + (f": {gain}" if gain else "")
        yield from _clamped(card.claim, width, claim, indent=4)
        if advice:
            yield from (paint.dim(line) for line in _clamped(card.rest, width, advice, indent=4))


def _rows(table: QuotedTable | TopNames) -> int:
    rows = table.names if isinstance(table, TopNames) else table.columns[0].values
    return min(len(rows), _NAMES)


def _top_names(top: TopNames, room: int, width: int, paint: _Paint, unit: str) -> list[str]:
    """Return the table of the top names: time, share, calls, name."""
    height = len(_heading(top_title(top, min(len(top.names), _NAMES), unit), width))
    count = min(len(top.names), _NAMES, room - 1 - height)
    if count < 1:
        return []
    shown = top.names[:count]
    times = span_texts([each.ns for each in shown], unit)
    shares = ["-" if each.share is None else f"{share_text(each, top)} %" for each in shown]
    calls = ["-" if each.calls is None else f"{each.calls:,}" for each in shown]
    columns = [times, shares, [*calls, "calls"]]
    sizes = [max(map(len, column)) for column in columns]
    left = width - sum(sizes) - 2 * 4
    names = short_names([escape_controls(each.name) for each in shown], max(left, 8))
    lines = ["", *map(paint.bold, _heading(top_title(top, count, unit), width))]
    for row in zip(times, shares, calls, names, strict=True):
        lines.append("  " + "  ".join([*(cell.rjust(size) for cell, size in zip(row, sizes, strict=False)), row[-1]]))
    return lines


def _quoted(quoted: QuotedTable, room: int, width: int, paint: _Paint) -> list[str]:
    """Return the first rows of a table under the titles of its columns, the names last."""
    most = min(len(quoted.columns[0].values), _NAMES)

    def title(count: int) -> list[str]:
        return _heading(f"{escape_controls(quoted.title)} ({count:,} of {quoted.count:,})", width)

    count = min(most, room - 2 - len(title(most)))
    if count < 1:
        return []
    columns = shown_columns(ReportTable(quoted.table, quoted.title, quoted.columns), "", exact=False)
    sizes = [max(map(cell_width, [column.title, *column.texts[:count]])) for column in columns[:-1]]
    left = max(width - sum(sizes) - 2 * (len(columns)), 8)
    cells = [column.texts[:count] for column in columns[:-1]]
    cells.append(short_names(columns[-1].texts[:count], left))
    lines = ["", *map(paint.bold, title(count))]
    for row in zip(*([column.title, *texts] for column, texts in zip(columns, cells, strict=True)), strict=True):
        padding = zip(row, sizes, columns, strict=False)
        lines.append(
            head("  " + "  ".join([*(padded(text, size, right=c.right) for text, size, c in padding), row[-1]]), width)
        )
    return lines


def _more(report: Report, width: int, paint: _Paint, most: int, options: RenderOptions) -> Iterator[str]:
    """Yield what else there is, in at most so many lines, and what became of the records."""
    there = [_section(each) for each in report.sections if each.tables]
    yield ""
    if there:
        yield from _clamped(f"--view NAME shows {', '.join(there)}", width, most, indent=0)
        yield from _clamped(
            "--all shows all of these; `tracekit report` makes a page with the timeline", width, 1, indent=0
        )
    lines = ledger_lines(report.ledgers, quiet=options.quiet, verbose=options.verbose)[:2]
    if (count := _notes_below(report)) and lines:
        shows = f"--view {_NOTES_WITH}" if any(each.view == _NOTES_WITH for each in report.sections) else "--all"
        lines[0] += f"; {plural(count, 'note')}: {shows} shows {'it' if count == 1 else 'them'}"
    for line in lines:
        yield from (paint.dim(each) for each in _clamped(line, width, 2, indent=0))


_NOTES_WITH = "overview"
"""The view to read the notes with: every input with events has it, and it is short."""


def _notes_below(report: Report) -> int:
    """Return the number of notes on the inputs that the first screen does not have among its warnings."""
    said = " ".join((report.headline or Headline()).reservations)
    of_inputs = {text.removeprefix("dropped: ") for ledger in report.ledgers for text in _texts(ledger.get("notes"))}
    unsaid = [text for text in of_inputs if text and text not in said]
    return sum(any(text in note for text in unsaid) for note in report.notes)


def _texts(notes: object) -> Iterator[str]:
    for note in notes if isinstance(notes, list) else ():
        if isinstance(note, dict):
            yield str(note.get("text", ""))


def _section(section: Section) -> str:
    rows = sum(len(table) + table.omitted for table in section.tables)
    return f"{escape_controls(section.view)} ({rows:,})"

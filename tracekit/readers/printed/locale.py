"""Printed tables whose numbers follow another locale than the program's own, read as if the program had printed them.

nvprof, PyTorch, Paddle, Theano and others print `1234.5` in every locale. A spreadsheet, an editor or a translated
page makes `1.234,5` of it, `1'234.5`, or `1 234,5` with no-break spaces. `as_printed` looks at the rows of all tables
of a file before they are read. One convention must read each number. `1,234` alone may be 1234 or 1.234, so others of
the file decide (`0,5` and `12,34%` have a decimal comma). Where none does, and where two conventions are mixed, the
file is refused with one sentence, and `--option decimal=,` decides.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tracekit.errors import Option, ParseError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Ledger
from tracekit.readers.base import ReadOptions
from tracekit.readers.head import Head
from tracekit.readers.printed.numbers import ANY_NUMBER, BLANKS, COMMA, DECIMAL, LOCAL_NUMBER, POINT, Style
from tracekit.readers.source import LineBlock, Source

__all__ = ["NumberCells", "as_csv", "as_printed", "delimiter_of"]

_RARE = tuple(blank.encode() for blank in BLANKS if not blank.isascii())
_MOST_TOKENS = 100_000
_BLOCK_BYTES = 2 << 20
_LOOK_BYTES = 256 << 10
"""Blocks that are only looked at: so small that they stay in the processor's cache."""
_LONGEST_ROW = 1 << 14
"""No row is longer. Patterns are not tried on longer lines, where a hostile one could take its length squared."""
_DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class NumberCells:
    """The places of numbers in the tables of a format.

    row: found in each line with numbers, in any locale. opens: characters that may be before a number, besides blanks.
    padded: a number keeps its width, since columns are cut by place.
    fraction: matches at numbers that the program always prints with decimals; `1,234us` is then 1.234 us.
    """

    row: re.Pattern[str]
    opens: str = "(|"
    padded: bool = False
    fraction: re.Pattern[str] | None = None

    def pattern(self) -> re.Pattern[str]:
        """Return a pattern of a number with its separators, up to its unit."""
        before = re.escape(self.opens)
        return re.compile(
            rf"(?<![^ \t\r{before}]){LOCAL_NUMBER}(?=[%A-Za-zµμ]{{0,8}}(?:/s)?(?:[ \t\r)|;\\\]]|$))", re.ASCII
        )

    def is_row(self, line: str) -> bool:
        """Return whether a line has numbers of a table."""
        return len(line) <= _LONGEST_ROW and self.row.search(line) is not None

    def has_fraction(self, line: str, match: re.Match[str]) -> bool:
        """Return whether the number that was found in a line must have decimals."""
        return self.fraction is not None and self.fraction.match(line, match.start()) is not None


def as_printed(source: Source, options: ReadOptions, cells: NumberCells) -> Source:
    """Return the source with the numbers of its tables in the program's own style; the same one where they are.

    Raises: ParseError for numbers of two conventions, or that may mean either of two.
    """
    style = _style(source, options, _tokens(source, cells))
    return source if style is None else _Restyled(source, style, cells)


def as_csv(source: Source, options: ReadOptions) -> Source:
    """Return the source of a table of cells with commas between them and decimal points, as the program wrote it.

    Raises: as `as_printed`.
    """
    delimiter = delimiter_of(source.head().data)
    style = _style(source, options, _quoted(source, delimiter))
    return source if delimiter == "," and style is None else _Cells(source, style or POINT, delimiter)


def delimiter_of(data: bytes) -> str:
    """Return the delimiter of the first line with several cells.

    >>> delimiter_of(b"# made by Excel;;\\nmethod;gputime;cputime\\n"), delimiter_of(b"a,b\\n1,2\\n")
    (';', ',')
    """
    for line in map(bytes.strip, data.lstrip(b"\xef\xbb\xbf").splitlines()[:50]):
        if line and not line.startswith((b"#", b"=")):
            return max(_DELIMITERS, key=lambda mark: (line.count(mark.encode()), mark == ","))
    return ","


def _has_separators(data: bytes) -> bool:
    """Return whether a comma or an apostrophe is between digits, or a rare blank somewhere."""
    # Nearly every file is ASCII, which one quick look shows; each rare blank would be another one.
    if not data.isascii() and any(blank in data for blank in _RARE):
        return True
    # Key-value logs and many tables have neither of the two, which two quick looks show.
    if b"," not in data and b"'" not in data:
        return False
    raw = np.frombuffer(data, np.uint8)
    places = np.flatnonzero((raw == ord(",")) | (raw == ord("'")))
    places = places[(places > 0) & (places < len(raw) - 1)]
    before, after = raw[places - 1], raw[places + 1]
    return bool(((before >= 48) & (before <= 57) & (after >= 48) & (after <= 57)).any())


@dataclass(frozen=True, slots=True)
class _Token:
    """A number in a table. fraction: it has decimals, whatever its style."""

    text: str
    fraction: bool
    line: int

    def plain(self, style: Style) -> str | None:
        """Return the number in the program's own style, None where it cannot be of this style."""
        return _plain(style, self.text, fraction=self.fraction)


def _plain(style: Style, text: str, *, fraction: bool) -> str | None:
    plain = style.plain(text)
    return None if plain is not None and fraction and "." not in plain and "e" not in plain else plain


def _tokens(source: Source, cells: NumberCells) -> list[_Token]:
    """Return the different numbers with separators in the rows of tables, [] where there can be none but points."""
    if not _may_have_separators(source):
        return []
    pattern, found = cells.pattern(), dict[tuple[str, bool], int]()
    for block in source.line_blocks(Ledger()):
        for number, line in enumerate(block.data.decode("utf-8", "replace").split("\n"), block.line):
            if len(found) < _MOST_TOKENS and cells.is_row(line):
                for match in pattern.finditer(line):
                    if not match[0].isdecimal():
                        found.setdefault((match[0], cells.has_fraction(line, match)), number)
    return [_Token(*key, line) for key, line in found.items()]


def _may_have_separators(source: Source) -> bool:
    """Return whether numbers may have separators. A file of ASCII is looked at without cutting it into lines."""
    found = _has_separators_in_ascii(source) if type(source) is Source else None  # others change their lines
    if found is not None:
        return found
    return any(_has_separators(block.data) for block in source.line_blocks(Ledger(), _LOOK_BYTES))


def _has_separators_in_ascii(source: Source) -> bool | None:
    """Return whether a comma or an apostrophe is between digits, None where the text is not only ASCII."""
    end = b""
    for chunk in source.text_chunks(Ledger(), _LOOK_BYTES):
        if not chunk.isascii():
            return None
        if _has_separators(chunk) or _has_separators(end + chunk[:2]):
            return True
        end = (end + chunk)[-2:]
    return False


def _quoted(source: Source, delimiter: str) -> list[_Token]:
    found: dict[str, int] = {}
    for block in source.line_blocks(Ledger()):
        if delimiter == "," and not any(mark in block.data for mark in (b'"', *_RARE)) and b"'" not in block.data:
            continue
        text = block.data.decode("utf-8", "replace")
        for number, cells in enumerate(_rows(text, delimiter), block.line):
            for cell in (cell.strip(" ") for cell in cells):
                if cell and (cell[0].isdecimal() or cell[0] in "+-") and not cell.isdecimal():
                    found.setdefault(cell, number)
            if len(found) > _MOST_TOKENS:
                break
    return [_Token(text, False, line) for text, line in found.items() if ANY_NUMBER.fullmatch(text)]


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    for line in text.split("\n"):
        yield _cut(line, delimiter)


def _cut(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r")], delimiter=delimiter), [])
    except csv.Error:
        return []


def _style(source: Source, options: ReadOptions, tokens: list[_Token]) -> Style | None:
    """Return the style that all numbers have, None for the program's own. Raises: ParseError."""
    if all(POINT.plain(token.text) == token.text for token in tokens):
        return None
    decimal = options.value(DECIMAL)
    if decimal:
        return COMMA if decimal == "," else POINT
    by_point, by_comma = ([token for token in tokens if token.plain(style) is None] for style in (POINT, COMMA))
    hint = sentence(Option("option", "decimal=,"), " (or decimal=.) names the decimal separator")
    if by_point and by_comma:
        one, other = by_point[0], by_comma[0]
        first, second = sorted((one, other), key=lambda token: token.line)
        why = (
            f"the numbers follow two conventions: {first.text[:30]!r} here, {second.text[:30]!r} on line {second.line}"
        )
        raise ParseError(source.name, f"line {first.line}", why, hint=hint)
    if by_point:
        return COMMA
    if by_comma or all(t.plain(POINT) == t.plain(COMMA) for t in tokens):
        return POINT
    token = next(t for t in tokens if t.plain(POINT) != t.plain(COMMA))
    low, high = sorted((str(POINT.plain(token.text)), str(COMMA.plain(token.text))), key=float)
    why = f"{token.text[:30]!r} may be {low} or {high}, and no other number of the file shows which"
    raise ParseError(source.name, f"line {token.line}", why, hint=hint)


class _Restyled(Source):
    """A source whose rows of tables have numbers in the program's own style."""

    def __init__(self, inner: Source, style: Style, cells: NumberCells) -> None:
        super().__init__(inner.name, inner.path)
        self._inner, self._style, self._cells, self._number = inner, style, cells, cells.pattern()

    def head(self) -> Head:
        """Return the head, as it is in the file."""
        return self._inner.head()

    def share_read(self) -> float:
        """Return how much of the input is read, 0..1."""
        return self._inner.share_read()

    def line_blocks(self, ledger: Ledger, size: int = _BLOCK_BYTES) -> Iterator[LineBlock]:
        """Yield the text in blocks of whole lines."""
        note(ledger, self._style)
        for block in self._inner.line_blocks(ledger, size):
            lines = block.data.decode("utf-8", "replace").split("\n")
            yield replace(block, data="\n".join(map(self._line, lines)).encode())

    def _line(self, line: str) -> str:
        return self._number.sub(self._restyled, line) if self._cells.is_row(line) else line

    def _restyled(self, match: re.Match[str]) -> str:
        fraction = self._cells.has_fraction(match.string, match)
        plain = _plain(self._style, match[0], fraction=fraction)
        if plain is None:
            return match[0]
        return plain.rjust(len(match[0])) if self._cells.padded else plain


class _Cells(_Restyled):
    """A source of cells with commas between them and decimal points."""

    def __init__(self, inner: Source, style: Style, delimiter: str) -> None:
        super().__init__(inner, style, NumberCells(re.compile("")))
        self._delimiter = delimiter

    def _line(self, line: str) -> str:
        if line.startswith(("#", "=")):
            return line.rstrip(self._delimiter + " \r")
        if not line.strip():
            return line
        cells = _cut(line, self._delimiter)
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow([self._style.plain(cell.strip(" ")) or cell for cell in cells])
        return out.getvalue()


def note(ledger: Ledger, style: Style) -> None:
    """Note in which style the numbers of a file were read."""
    text = f"numbers are written as {style.name}, unlike the program does; they were read so"
    ledger.note("numbers-of-another-locale", text)

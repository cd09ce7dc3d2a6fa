"""Templates, styles and scripts of the pages, inside a page or linked.

A page has a content security policy that forbids every request, and every script but those whose hashes it lists. With
`assets` styles and scripts are linked, for many pages that share them; then the policy names the page's own site. A
page carries the styles and scripts of what it shows, nothing else; scripts that only some pages need are packed.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import UNKNOWN, escape_controls, is_words
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.units import Unit, format_bytes, format_rate, format_ratio, four_digits
from tracekit.render.base import RenderOptions
from tracekit.render.page.lean import lean_style, lean_template
from tracekit.render.page.scripts import script
from tracekit.render.page.tables import time_unit as time_unit_of
from tracekit.render.prose import levels

if TYPE_CHECKING:
    import jinja2

__all__ = [
    "MOST_ROWS",
    "Sheet",
    "Use",
    "asset",
    "assets",
    "filled",
    "pieces",
    "sheet",
    "templates",
    "unpacker",
    "written",
]

# Tables of a report for the templates: each cell with its text, its exact value and its tooltip.


MOST_ROWS = 2000
"""Rows of one table in a page: a browser lays them out at once. The page says how many are not shown."""
_LONG = 48


@dataclass(frozen=True, slots=True)
class PageHead:
    """Title of a column, its unit ("" for none), and whether its cells are aligned and sorted as numbers.

    name, kind: of the column: its name, and the unit of its exact values.
    """

    title: str
    unit: str
    is_number: bool
    name: str = ""
    kind: Unit = Unit.TEXT


@dataclass(frozen=True, slots=True)
class SheetCell:
    """One cell.

    text: as shown. exact: the value for sorting, "" for text. full: the tooltip, "" for none. share: percent of the
    cell's width that a bar behind a ratio takes. level: steps of indentation.
    """

    text: str
    exact: str = ""
    full: str = ""
    share: float = 0.0
    level: int = 0


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table ready for the template. row_head: the column that names the row, -1 for none. cut: rows not shown."""

    name: str
    title: str
    heads: tuple[PageHead, ...]
    rows: tuple[tuple[SheetCell, ...], ...]
    row_head: int
    cut: str


def sheet(table: ReportTable, time_unit: str = "") -> Sheet:
    """Return a table with its first MOST_ROWS rows. Raises: UsageError for an unknown unit of time."""
    unit = time_unit_of(table, time_unit)
    columns = [_column(column, unit) for column in table.columns]
    heads = tuple(
        replace(head, name=column.name, kind=column.unit)
        for (head, _), column in zip(columns, table.columns, strict=True)
    )
    named = next((i for i, c in enumerate(table.columns) if c.unit is Unit.TEXT), -1)
    if named >= 0 and any(steps := levels(table)):
        head, cells = columns[named]
        columns[named] = head, [replace(cell, level=step) for cell, step in zip(cells, steps, strict=False)]
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    return Sheet(table.name, escape_controls(table.title), heads, rows, named, _left_out(table))


def _left_out(table: ReportTable) -> str:
    if len(table) <= MOST_ROWS:
        return ""
    return f"the first {MOST_ROWS:,} of {len(table):,} rows; tracekit inspect prints them all"


def _column(column: Column, unit: str) -> tuple[PageHead, list[SheetCell]]:
    values = list(column.values[:MOST_ROWS])
    title = escape_controls(column.title)
    words = is_words(values, column.unit)
    if column.unit is Unit.NS:
        return PageHead(title, unit, is_number=True), [_time(value, unit) for value in values]
    if column.unit is Unit.RATIO:
        return PageHead(title, "%", is_number=True), [_ratio(value) for value in values]
    if words:
        return PageHead(title, "", is_number=False), [_cell_text(value) for value in values]
    return PageHead(title, "", is_number=True), [_number(value, column.unit) for value in values]


def _time(value: Cell, unit: str) -> SheetCell:
    """Return a time with four digits; the tooltip and the exact value have every ns."""
    if value is None:
        return SheetCell(UNKNOWN)
    ns = int(value)
    return SheetCell(four_digits(ns, unit), str(ns), f"{ns:,} ns")


def _ratio(value: Cell) -> SheetCell:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return SheetCell(UNKNOWN)
    return SheetCell(
        format_ratio(value), repr(float(value)), f"{100 * value:.6g} %", min(max(100 * float(value), 0.0), 100.0)
    )


def _cell_text(value: Cell) -> SheetCell:
    if value is None:
        return SheetCell(UNKNOWN)
    text = escape_controls(str(value))
    return SheetCell(text, full=text if len(text) > _LONG else "")


def _number(value: Cell, unit: Unit) -> SheetCell:
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return SheetCell(UNKNOWN)
    if unit is Unit.BYTES:
        return SheetCell(format_bytes(int(value)), str(value), f"{int(value):,} bytes")
    if unit is Unit.BYTES_PER_S:
        return SheetCell(format_rate(value), repr(value), f"{value:,.0f} bytes/s")
    if unit is Unit.ID:
        return SheetCell(str(value), str(value))
    text = f"{value:,}"
    return SheetCell(text.removesuffix(".0") if isinstance(value, float) else text, repr(value))


Use = Literal["tables", "timeline", "flame", "heat", "batch", "bare", "pictures", "steps", "change"]
"""What a page can show that has styles and scripts of its own."""

SCRIPTS: tuple[tuple[str, Use | None], ...] = (
    ("page.js", None),
    ("tables.js", "tables"),
    ("first_screen.js", "timeline"),
    ("timeline.js", "timeline"),
    ("flame.js", "flame"),
)
"""Scripts in the order in which they are loaded, each with what needs it; None: on every page. Each is a part."""

STYLES: tuple[tuple[str, Use | None], ...] = (
    ("palette.css", None),
    ("report.css", None),
    ("first_screen.css", None),
    ("bare.css", "bare"),
    ("batch.css", "batch"),
    ("change.css", "change"),
    ("heat.css", "heat"),
    ("pictures.css", "pictures"),
    ("pictures_of_steps.css", "steps"),
    ("still.css", "timeline"),
    ("tables.css", "tables"),
    ("timeline.css", "timeline"),
    ("flame.css", "flame"),
)
"""Styles in the order in which they apply, as SCRIPTS."""

SCRIPTED_STYLES = frozenset({"tables.css", "timeline.css", "flame.css"})
"""Styles of what scripts make, packed with these: without scripts they style nothing."""

# A hash cannot name a linked file on a disk. 'self' is the site only: pages opened from a disk need file: too.
_LINKED = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def written(template: str, options: RenderOptions, uses: frozenset[Use], **values: object) -> str:
    """Return a page of a template, with styles and scripts inside or linked. uses: what the page shows."""
    return "".join(pieces(template, options, uses, **values))


def pieces(template: str, options: RenderOptions, uses: frozenset[Use], **values: object) -> Iterator[str]:
    """Return a page as `written` does, piece by piece: a large one need not be in memory as a whole."""
    folder = _templates()
    page = _environment(str(folder)).get_template(template)
    if options.assets:
        styles, scripts = _used(STYLES, uses), _used(SCRIPTS, uses)
        links = [f"{options.assets}/{name}" for name in styles], [f"{options.assets}/{name}" for name in scripts]
        return page.generate(linked=True, styles=links[0], scripts=links[1], packed=None, policy=_LINKED, **values)
    style = "".join(_text(folder, name) for name in _used(STYLES, uses) if name not in SCRIPTED_STYLES)
    more = {name: _text(folder, name) for name in _used(STYLES, uses) if name in SCRIPTED_STYLES}
    scripted = {name: _text(folder, name) for name in _used(SCRIPTS, uses)}
    plain = list(scripted.values())
    if more or any(use in uses for _, use in SCRIPTS):
        plain, more = [unpacker()], more | scripted
    policy = _policy([*plain, *(text for name, text in more.items() if name.endswith(".js"))])
    packed = _packed(tuple(more), tuple(more.values())) if more else None
    return page.generate(linked=False, styles=[style], scripts=plain, packed=packed, policy=policy, **values)


def assets() -> dict[str, str]:
    """Return the files that pages with linked assets share: name -> text."""
    folder = _templates()
    return {name: _text(folder, name) for name, _ in (*STYLES, *SCRIPTS)}


def filled(template: str, **values: object) -> str:
    """Return a page of a template that brings its own styles and scripts among the values."""
    return _environment(str(_templates())).get_template(template).render(**values)


def asset(name: str) -> str:
    """Return a style or script by the name of its file."""
    return _text(_templates(), name)


def unpacker() -> str:
    """Return the script that runs those which a page carries packed: all that only some pages need."""
    return _text(_templates(), "unpack.js")


def templates() -> dict[str, str]:
    """Return the templates: name -> text. A cache of pages uses them to know when a page is out of date."""
    folder = _templates()
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".j2"))
    return {name: _text(folder, name) for name in names}


def _used(files: Sequence[tuple[str, Use | None]], uses: frozenset[Use]) -> list[str]:
    return [name for name, use in files if use is None or use in uses]


def _templates() -> Traversable:
    """Return the folder of the templates: in the wheel beside the package, else at the top of the checkout."""
    packed = importlib.resources.files("tracekit") / "_templates"
    return packed if packed.is_dir() else _CHECKOUT


_CHECKOUT = Path(__file__).resolve().parents[3] / "templates"


def _text(folder: Traversable, name: str) -> str:
    if name.endswith(".js"):
        return script(folder, name.removesuffix(".js"), is_checkout=folder == _CHECKOUT)
    text = (folder / name).read_text(encoding="utf-8").replace("\r\n", "\n")
    return lean_style(text) if name.endswith(".css") else lean_template(text)


@dataclass(frozen=True, slots=True)
class PackedScript:
    """Styles and scripts as one text: base 85 of deflate of the texts with a NUL between two, a third of their size."""

    names: tuple[str, ...]
    text: str


_SAFE = str.maketrans("<>&", ",.:")
"""Letters of base 85 that HTML would read as its own, and what is written instead: no other letter of base 85."""


@lru_cache(maxsize=16)
def _packed(names: tuple[str, ...], texts: tuple[str, ...]) -> PackedScript:
    deflated = zlib.compress("\0".join(texts).encode(), 9)
    return PackedScript(names, base64.b85encode(deflated).decode().translate(_SAFE))


@lru_cache(maxsize=2)
def _environment(place: str) -> jinja2.Environment:  # noqa: ARG001 - another place has another environment
    """Return the environment of the templates, which keeps them compiled: that takes longer than a small page."""
    import jinja2

    folder = _templates()
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _text(folder, name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False, "separators": (",", ":")}
    return environment


def _policy(scripts: Sequence[str]) -> str:
    """Return the content security policy: nothing from anywhere, and no script but these."""
    return "; ".join(_directives(scripts))


def _directives(scripts: Sequence[str]) -> Iterator[str]:
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    yield "default-src 'none'"
    yield "script-src " + " ".join(f"'sha256-{each}'" for each in hashes)
    yield "style-src 'unsafe-inline'"
    yield "img-src data:"
    yield "base-uri 'none'"
    yield "form-action 'none'"

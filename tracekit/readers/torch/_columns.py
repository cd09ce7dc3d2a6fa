"""The columns of PyTorch's tables: their heads in all versions, and the cells below them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from tracekit.units import TIME_EXPONENT, split_quantity, to_bytes, to_ns

RULE = re.compile(r"[-=]{4,}(?: {1,4}[-=]{2,})+\s*$")
"""A rule of two columns at least, at the end of a line."""
_GAP = re.compile(r"\s{2,}")
_WORD = r"[A-Za-z]\w{0,30}"
_HEADS = (
    (r"Name", "name"),
    (r"Overload Name", "overload"),
    (r"Self CPU(?: total)? %", "share"),
    (r"Self CPU(?: total)?", "self"),
    (r"CPU total %", "share"),
    (r"CPU total", "total"),
    (r"CPU time(?: avg)?", "mean"),
    (rf"Self (?P<device>{_WORD}) %", "share"),
    (rf"(?P<device>{_WORD}) total %", "share"),
    (r"CPU Mem", "memory"),
    (r"Self CPU Mem", "self_memory"),
    (rf"Self (?P<device>{_WORD}) Mem", "device_self_memory"),
    (rf"(?P<device>{_WORD}) Mem", "device_memory"),
    (rf"Self (?P<device>{_WORD})", "device_self"),
    (r"Total [KMGTP]?FLOPs", "flops"),
    (r"[KMGTP]?FLOPS", "flop_rate"),
    (rf"(?P<device>{_WORD}) total", "device_total"),
    (rf"(?P<device>{_WORD}) time(?: avg)?", "device_mean"),
    (r"# of Calls|Number of Calls|Calls", "calls"),
    (r"Node ID", "node"),
    (r"Input Shapes", "shapes"),
    (r"Source Location", "source"),
)
_PATTERNS = tuple((re.compile(pattern), role) for pattern, role in _HEADS)
_TIMES = ("self", "total", "mean", "device_self", "device_total", "device_mean")
_SIZES = ("memory", "self_memory", "device_memory", "device_self_memory")
_COUNT = re.compile(r"\d{1,18}", re.ASCII)
_SHARE = re.compile(r"-?\d{1,18}(?:\.\d{1,6})?%|NaN|nan%?|-?inf%|0", re.ASCII)
_SIZE = re.compile(r"(-?\d{1,18}(?:\.\d{1,6})?) ?([KMGT]?)[bB]", re.ASCII)
_FLOPS = re.compile(r"--|\d{1,18}(?:\.\d{1,6})?", re.ASCII)
_SCALES = {"": 0, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}


class Side(StrEnum):
    """The alignment of a column."""

    LEFT = "<"
    RIGHT = ">"


@dataclass(frozen=True, slots=True)
class Columns:
    """The head of a table. titles: as printed. roles: what each column has. spans: from its rule, () without one.

    device: PyTorch's word for the device in capital letters, "" if the table has no column of it.
    old: of PyTorch 1.5 and older, which did not mark operators with `aten::`.
    """

    titles: tuple[str, ...]
    roles: tuple[str, ...]
    device: str
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def old(self) -> bool:
        """Return whether the head is of PyTorch 1.5 or older."""
        return "Number of Calls" in self.titles or "Calls" in self.titles

    def sides(self, text: str) -> list[Side]:
        """Return the alignment of each column, from the line of the head; as most others where it does not show.

        A head may be longer than its column, as in PyTorch 1.1 to 1.5: those behind it are moved.
        """
        known: list[Side | None] = []
        moved = 0
        for (start, end), title in zip(self.spans, self.titles, strict=True):
            width, place = end - start, start + moved
            moved += max(len(title) - width, 0)
            side = Side.LEFT if text[place : place + len(title)] == title else Side.RIGHT
            known.append(None if len(title) >= width else side)
        usual = Side.LEFT if known[1:].count(Side.LEFT) > known[1:].count(Side.RIGHT) else Side.RIGHT
        sides = [usual if side is None else side for side in known]
        return [Side.LEFT if role == "source" else side for side, role in zip(sides, self.roles, strict=True)]

    def cut(self, text: str) -> list[str] | None:
        """Return the cells of a row, None for another line."""
        ways = [cells for cells in (self._by_rule(text), self._by_gaps(text)) if cells]
        return next((cells for cells in ways if self.fits(cells)), None)

    def cut_damaged(self, text: str) -> list[str] | None:
        """Return the cells of a row in which some cannot be read, None for another line.

        A row needs its total times (its self times, where the table has no others), and most of its cells.
        """
        for cells in (self._by_rule(text), self._by_gaps(text)):
            if cells and cells[0]:
                odd = self.odd(cells)
                if odd and 3 * len(odd) <= len(cells) and not any(self.roles[at] in self._needed for at in odd):
                    return cells
        return None

    @property
    def _needed(self) -> tuple[str, ...]:
        totals = tuple(role for role in ("total", "device_total") if role in self.roles)
        return totals or ("self", "device_self")

    def odd(self, cells: Sequence[str]) -> list[int]:
        """Return the places of the cells that are not what their column has."""
        named = self.named(cells)
        return [
            at
            for at, (role, cell) in enumerate(zip(self.roles, cells, strict=True))
            if not (_SHARE.fullmatch(cell) if role == "share" else _fits(role, named[role]))
        ]

    def like_a_row(self, text: str) -> bool:
        """Return whether a line has cells of a row, though they are too few or cannot be read."""
        cells = _GAP.split(text.strip())
        return 2 * len(cells) >= len(self.titles) and any(time_ns(cell) is not None for cell in cells[1:])

    def _by_rule(self, text: str) -> list[str] | None:
        if not self.spans:
            return None
        text = text.rstrip()
        ends = [end for _, end in self.spans[:-1]]
        starts = [start for start, _ in self.spans[1:]]
        if text[: self.spans[0][0]].strip() or any(text[a:b].strip() for a, b in zip(ends, starts, strict=True)):
            return None
        places = [(start, end) for start, end in self.spans[:-1]] + [(self.spans[-1][0], len(text))]
        return [text[start:end].strip() for start, end in places]

    def _by_gaps(self, text: str) -> list[str] | None:
        cells = _GAP.split(text.strip())
        return cells if len(cells) == len(self.titles) else None

    def continued(self, text: str) -> tuple[str, str] | None:
        """Return what a line adds to the name and to the stack of the row above it; None for another line."""
        if "source" not in self.roles or not self.spans or not text.strip():
            return None
        start = self.spans[-1][0]
        name = text[:start].strip()
        return None if _GAP.search(name) else (name, text[start:].strip())

    def fits(self, cells: Sequence[str]) -> bool:
        """Return whether cells are those of a row."""
        named = self.named(cells)
        return bool(named["name"]) and sum(map(bool, cells)) >= 2 and not self.odd(cells)

    def named(self, cells: Sequence[str]) -> dict[str, str]:
        """Return the cells by role. With stacks and FLOPs the head has both columns in the other order than rows."""
        named = dict(zip(self.roles, cells, strict=True))
        flops = "flops" if "flops" in named else "flop_rate"
        if flops in named and "source" in named and _FLOPS.fullmatch(named["source"]):
            named["source"], named[flops] = named[flops], named["source"]
        return named

    def flops(self, role: str, cell: str) -> int | None:
        """Return a cell of FLOPs as their number, None for none. role: `flops`, or `flop_rate` for FLOPs per second."""
        if not _FLOPS.fullmatch(cell) or cell == "--":
            return None
        title = self.titles[self.roles.index(role)].removeprefix("Total ")
        count = int(Decimal(cell).scaleb(_SCALES[title[:-5]]).to_integral_value())
        return count if count < 1 << 62 else None


def _fits(role: str, cell: str) -> bool:
    if role in _TIMES:
        return time_ns(cell) is not None
    if role in _SIZES:
        return size_bytes(cell) is not None
    if role == "calls":
        return _COUNT.fullmatch(cell) is not None
    if role in ("flops", "flop_rate"):
        return not cell or _FLOPS.fullmatch(cell) is not None
    return True


def time_ns(cell: str) -> int | None:
    """Return a time as ns, None for another text.

    >>> time_ns("13.370us"), time_ns("57.549m")
    (13370, None)
    """
    try:
        number, unit = split_quantity(cell)
        return to_ns(number, unit) if unit in TIME_EXPONENT else None
    except ValueError:
        return None


def size_bytes(cell: str) -> int | None:
    """Return a size in bytes, rounded as it was printed; None for another text.

    >>> size_bytes("-1.50 Kb")
    -1536
    """
    found = _SIZE.fullmatch(cell)
    if found is None:
        return None
    try:
        return to_bytes(found[1], f"{found[2]}B")
    except ValueError:
        return None


def columns_of(text: str, rule: str = "") -> Columns | None:
    """Return the head of a table, None for another line. rule: the line above it, if that is a rule."""
    if "Name" not in text or len(text) > 4096:
        return None
    titles = _GAP.split(text.strip())
    if len(titles) < 2 or titles[0] != "Name":
        return None
    roles, devices = [], set()
    for title in titles:
        for pattern, role in _PATTERNS:
            if found := pattern.fullmatch(title):
                roles.append(role)
                devices |= {found["device"]} if "device" in pattern.groupindex else set()
                break
        else:
            return None
    if roles[1:] == ["calls"] or len(set(roles) - {"share"}) + roles.count("share") < len(roles) or len(devices) > 1:
        return None
    spans = tuple(found.span() for found in re.finditer(r"[-=]+", rule))
    return Columns(tuple(titles), tuple(roles), "".join(devices), spans if len(spans) == len(titles) else ())

"""A file in the making: its lines, each with its class, and the figures that a correct reader must find in it."""

from __future__ import annotations

from _model import API, KERNEL, MEMCPY, MEMSET, UNIFIED

_PLURAL = {KERNEL: "kernels", MEMCPY: "copies", MEMSET: "memsets", API: "api", UNIFIED: "unified_memory"}
NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


class Sheet:
    """Collects lines. A line's class is what it is: preamble, header, units, data, output (of the program), ..."""

    def __init__(self, reader: str) -> None:
        self.reader = reader
        self.lines: list[tuple[str, str]] = []
        self._rows = dict.fromkeys(_PLURAL, 0)
        self._durations = dict.fromkeys(_PLURAL, 0)
        self._first: int | None = None
        self._last: int | None = None
        self._totals: dict[str, int] = {}

    def add(self, kind_of_line: str, *texts: str) -> None:
        self.lines.extend((kind_of_line, text) for text in texts)

    def event(self, kind: str, text: str, start: int | None, dur: int | None) -> None:
        """A data line; start and dur are ns as the line states them, after its rounding; None where it states none."""
        self.add("data", text)
        self._rows[kind] += 1
        self._durations[kind] += dur or 0
        if start is not None:
            self._first = start if self._first is None else min(self._first, start)
            end = start + (dur or 0)
            self._last = end if self._last is None else max(self._last, end)

    def total(self, text: str, section: str, *, calls: int = 0, total_ns: int = 0) -> None:
        """A line that the profiler had already summed."""
        self.add("data", text)
        for key, value in ((f"{section}_rows", 1), (f"{section}_calls", calls), (f"{section}_total_ns", total_ns)):
            self._totals[key] = self._totals.get(key, 0) + value

    def absorb(self, other: Sheet, lines: list[tuple[str, str]]) -> None:
        """Take another sheet's figures, and its lines in the order given."""
        self.lines.extend(lines)
        for kind in _PLURAL:
            self._rows[kind] += other._rows[kind]
            self._durations[kind] += other._durations[kind]
        for key, value in other._totals.items():
            self._totals[key] = self._totals.get(key, 0) + value
        self._first = min((x for x in (self._first, other._first) if x is not None), default=None)
        self._last = max((x for x in (self._last, other._last) if x is not None), default=None)

    def text(self, newline: str = "\n") -> str:
        return "".join(text + newline for _, text in self.lines)

    def figures(self) -> dict[str, object]:
        """Return the entry of the file in expected.json; times are ns, `None` where the file has no clock."""
        classes = sorted({name for name, _ in self.lines})
        lines = {name: sum(1 for other, _ in self.lines if other == name) for name in classes}
        out: dict[str, object] = {"reader": self.reader, "lines": lines, "data_rows": lines.get("data", 0)}
        out |= {plural: self._rows[kind] for kind, plural in _PLURAL.items()}
        out["sum_dur_ns"] = sum(self._durations.values())
        out["sum_dur_ns_by_kind"] = {_PLURAL[kind]: ns for kind, ns in self._durations.items() if self._rows[kind]}
        out |= {"first_start_ns": self._first, "last_end_ns": self._last}
        if self._totals:
            out["totals"] = {key: value for key, value in sorted(self._totals.items()) if value}
        return out


def fixed(ns: int, unit: str) -> tuple[str, int]:
    """A time with six decimals of the unit, and the ns that this text states (only `s` loses digits)."""
    scale = NS[unit]
    millionths = (ns * 10**6 + scale // 2) // scale
    return f"{millionths // 10**6}.{millionths % 10**6:06d}", millionths * scale // 10**6


def short(ns: int) -> tuple[str, int]:
    """A time as the text tables write it, `128.83us`: five digits, six with s; and the ns that this text states."""
    if ns < 1000:
        return f"{ns}ns", ns
    unit = "us" if ns < 10**6 else "ms" if ns < 10**9 else "s"
    whole = len(str(ns // NS[unit]))
    places = (6 if unit == "s" else 5) - whole
    step = NS[unit] // 10**places if NS[unit] >= 10**places else 1
    stated = (ns + step // 2) // step * step
    scaled = stated * 10**places // NS[unit]
    return f"{scaled // 10**places}.{scaled % 10**places:0{places}d}{unit}", stated


def short_size(size: float, suffixes: tuple[str, ...] = ("B", "KB", "MB", "GB")) -> str:
    """A size or a rate as the text tables write it: `256B`, `6.7500KB`, `9.2248GB/s`; powers of 1024."""
    power = 0
    while size >= 1024 and power < len(suffixes) - 1:
        size, power = size / 1024, power + 1
    if power == 0 and size == int(size):
        return f"{int(size)}{suffixes[0]}"
    return f"{size:.{max(5 - len(str(int(size))), 0)}f}{suffixes[power]}"

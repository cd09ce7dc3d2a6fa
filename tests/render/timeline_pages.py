"""Pages with a timeline alone, made from plain arrays: the module's input written down a second time.

`Rows` holds what a page shows; `write` makes the page. Nothing of tracekit.render is used but the scripts themselves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from support import TEMPLATES

from tracekit.render.page.scripts import joined

I64 = npt.NDArray[np.int64]
SCRIPTS = ("page", "timeline")
STYLES = ("palette.css", "report.css", "timeline.css")
CHUNK = 1 << 16
COLORS = {"kernel": "kernel", "memcpy": "memcpy", "step": "step", "operator": "op"} | {
    "runtime": "call",
    "driver": "call",
    "gemm kernel": "gemm",
    "communication": "comm",
    "communication kernel": "comm",
}


@dataclass
class Lane:
    """rows: for each row, starts, lengths and name codes; rows of a lane follow each other in `layers`, if given."""

    label: str
    rows: list[tuple[I64, I64, I64]]
    host: bool = True
    group: str = "host 1"
    layers: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class Rows:
    """A timeline. names: (name, kind). links: event -> its launch; flows: (from, to); args: key -> (place, value)."""

    lanes: list[Lane]
    names: list[tuple[str, str]]
    links: dict[int, int] = field(default_factory=dict)
    flows: list[tuple[int, int]] = field(default_factory=list)
    args: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    counters: dict[str, tuple[I64, I64]] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)

    def rows(self) -> list[tuple[I64, I64, I64]]:
        return [row for lane in self.lanes for row in lane.rows]

    def columns(self) -> tuple[I64, I64, I64, I64]:
        """Return starts, lengths, codes of all places, and the first place of each row with the end."""
        rows = self.rows()
        starts, lengths, codes = (np.concatenate([row[k] for row in rows]) for k in range(3))
        return starts, lengths, codes, np.cumsum([0, *(row[0].size for row in rows)])


def planes(values: npt.ArrayLike) -> bytes:
    wide = np.asarray(values, np.int64)
    count = 1
    while wide.size and int(wide.max()) >> (8 * count):
        count += 1
    raw = np.ascontiguousarray(wide.astype("<u8")).view(np.uint8).reshape(-1, 8)[:, :count]
    return bytes([count]) + np.ascontiguousarray(raw.T).tobytes()


def zigzag(values: npt.ArrayLike) -> I64:
    wide = np.asarray(values, np.int64)
    return np.where(wide >= 0, wide * 2, -wide * 2 - 1)


def part(name: str, raw: bytes, **data: int) -> str:
    attributes = "".join(f' data-{key}="{value}"' for key, value in data.items())
    text = base64.b64encode(zlib.compress(raw, 1)).decode()
    return f'<script type="text/plain" class="{name}"{attributes}>{text}</script>'


def steps_of(values: Sequence[int]) -> I64:
    return np.diff(np.array([0, *values], np.int64))


def head_and_parts(made: Rows) -> tuple[dict[str, Any], list[str]]:
    starts, lengths, codes, first = made.columns()
    gap = starts - np.r_[0, (starts + lengths)[:-1]]
    heads = first[:-1][np.diff(first) > 0]
    gap[heads] = starts[heads]
    parts = []
    for a in range(0, starts.size, CHUNK):
        s = slice(a, a + CHUNK)
        parts.append(part("tl-part", planes(gap[s]) + planes(lengths[s]) + planes(codes[s]), n=gap[s].size))
    event_parts = len(parts)
    if made.links:
        places = sorted(made.links)
        at = np.diff(np.array([-1, *places])) - 1
        to = zigzag(steps_of([made.links[place] for place in places]))
        parts.append(part("tl-part", planes(np.r_[at, to]), n=len(places)))
    if made.flows:
        flows = sorted(made.flows)
        both = np.r_[steps_of([a for a, _ in flows]), zigzag(steps_of([b for _, b in flows]))]
        parts.append(part("tl-flow", planes(both), n=len(flows)))
    args = []
    for key, cells in made.args.items():
        is_text = isinstance(cells[0][1], str)
        at = np.diff([cells[0][0], *(place for place, _ in cells)])
        words = sorted({value for _, value in cells}) if is_text else []
        values = planes([words.index(v) for _, v in cells]) if is_text else planes(zigzag([v for _, v in cells]))
        parts.append(part("tl-args", planes(at) + values, key=len(args), n=len(cells), at=cells[0][0]))
        if is_text:
            text = json.dumps(words).replace("<", "\\u003c")
            parts.append(f'<script type="application/json" class="tl-words" data-key="{len(args)}">{text}</script>')
        args.append({"key": key, "unit": "", "type": "text" if is_text else "int", "n": len(cells)})
    counters = []
    for label, (times, values) in made.counters.items():
        raw = planes(np.diff(np.r_[0, times])) + planes(zigzag(np.diff(np.r_[0, values])))
        parts.append(part("tl-counter", raw, key=len(counters), n=times.size))
        top = int(values.max())
        counters.append({"label": label, "unit": "", "group": -1, "n": int(times.size), "float": False, "max": top})
    kinds = sorted({kind for _, kind in made.names})
    lanes, groups = [], {}
    row = 0
    for i, lane in enumerate(made.lanes):
        facts = {"label": lane.label, "host": lane.host, "note": False, "row": row, "depth": len(lane.rows)}
        lanes.append(facts | ({"layers": lane.layers} if lane.layers else {}))
        groups.setdefault(lane.group, []).append(i)
        row += len(lane.rows)
    head = {
        "title": "made up",
        "n": int(starts.size),
        "unit": 1,
        "span": int((starts + lengths).max()) if starts.size else 0,
        "begin": "1000000",
        "first": first.tolist(),
        "lanes": lanes,
        "groups": [{"label": label, "lanes": of} for label, of in groups.items()],
        "names": [name for name, _ in made.names],
        "kindOf": [kinds.index(kind) for _, kind in made.names],
        "kinds": kinds,
        "colors": [COLORS.get(kind, "other") for kind in kinds],
        "links": len(made.links),
        "flows": len(made.flows),
        "eventParts": event_parts,
        "args": args,
        "counters": counters,
    }
    return head | made.head, parts


def write(made: Rows, target: Path, changes: Mapping[str, str] | None = None, more: str = "") -> Path:
    """Write the page. changes: text of the scripts -> what replaces it, once. more: a script that runs last."""
    head, parts = head_and_parts(made)
    scripts = [joined(TEMPLATES, part) for part in SCRIPTS]
    for before, after in (changes or {}).items():
        assert sum(script.count(before) for script in scripts) == 1, before
        scripts = [script.replace(before, after) for script in scripts]
    scripts += [more] if more else []
    style = "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in STYLES)
    policy = f"default-src 'none'; script-src {' '.join(map(_sha, scripts))}; style-src {_sha(style)}; img-src data:"
    safe = json.dumps(head, ensure_ascii=False).replace("<", "\\u003c")
    target.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><meta name="viewport" content="width=device-width, initial-scale=1"><title>made up</title>'
        f'<style>{style}</style></head><body><main><section id="timeline"><h2>Timeline</h2><div id="tl"></div>'
        f'</section></main><script type="application/json" id="tl-head">{safe}</script>{"".join(parts)}'
        + "".join(f"<script>{script}</script>" for script in scripts)
        + "</body></html>",
        encoding="utf-8",
    )
    return target


def _sha(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def random_row(
    random: np.random.Generator, n: int, codes: Sequence[int], span: int, busy: float = 0.6
) -> tuple[I64, I64, I64]:
    """Return n events that never overlap: bursts and pauses, lengths over five decades, some of length 0."""
    lengths = np.floor(10 ** random.uniform(0, 5, n)).astype(np.int64)
    lengths[random.random(n) < 0.05] = 0
    gaps = np.floor(10 ** random.uniform(0, 5, n)).astype(np.int64)
    gaps[random.random(n) < 0.4] = 0
    scale = max((lengths.sum() / busy + gaps.sum()) / span, 1e-12)
    lengths, gaps = (lengths / scale).astype(np.int64), (gaps / scale).astype(np.int64)
    starts = np.cumsum(gaps) + np.r_[0, np.cumsum(lengths)[:-1]]
    return starts, lengths, random.choice(np.array(codes), n).astype(np.int64)

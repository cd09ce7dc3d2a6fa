"""Write the samples of timemory's tables (rocprof-sys, Omnitrace). Nothing in them was measured.

    python sample_traces/_timemory.py [FOLDER]

The numbers come from a seeded generator. The layout is that of the manuals of Omnitrace and rocprof-sys.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
HEADS = ("LABEL", "COUNT", "DEPTH", "METRIC", "UNITS", "SUM", "MEAN", "MIN", "MAX", "VAR", "STDDEV", "% SELF")


@dataclass
class Node:
    """A label: how often, how many us in all, and what it called."""

    label: str
    count: int
    us: int
    below: list[Node] = field(default_factory=list)


def tree(rng: random.Random, threads: int) -> list[tuple[str, int, Node]]:
    """Return rows of (place, depth, node) of a program with some threads."""
    rows: list[tuple[str, int, Node]] = []

    def add(place: str, depth: int, node: Node) -> None:
        rows.append((place, depth, node))
        for each in node.below:
            add(place, depth + 1, each)

    for thread in range(threads):
        work = [
            Node("hipMemcpyAsync", 8, rng.randrange(200, 900)),
            Node("hipLaunchKernel", 40, rng.randrange(200, 900)),
            Node("reduce<float, add|mul> [clone .omp_fn.0]", 4, rng.randrange(900, 5_000)),
            Node("hsa_signal_wait_scacquire", 2, rng.randrange(10, 90)),
        ]
        step = Node("train::step(int)", 4, sum(n.us for n in work) + rng.randrange(1_000), work)
        names = ("main", "start_thread")
        rest = [Node("load", 1, rng.randrange(2_000_000))] if thread == 0 else []
        top = Node(names[thread > 0], 1, step.us + sum(n.us for n in rest) + rng.randrange(100_000), [*rest, step])
        add(f"|{thread:02}>>> ", 0 if thread == 0 else 1, top)
    return rows


def table(title: str, heads: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    """Return a table with rules, a title and columns as wide as their cells."""
    widths = [max(len(heads[i]), *(len(line[i]) for line in lines)) for i in range(len(heads))]

    def joined(cells: tuple[str, ...]) -> str:
        shown = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
        return "| " + " | ".join(shown) + " |"

    total = len(joined(heads)) - 2
    rule = f"|{'-' * total}|"
    middle = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    body = [joined(line) for line in lines]
    top = "| " + " | ".join(h.center(w) for h, w in zip(heads, widths, strict=True)) + " |"
    return "\n".join([rule, f"|{title.center(total)}|", rule, top, middle, *body, rule]) + "\n"


def wall_clock(rng: random.Random) -> str:
    """Return wall_clock.txt of two threads."""
    lines = []
    for place, depth, node in tree(rng, 2):
        label = place + ("  " * (depth - 1) + "|_" if depth else "") + node.label
        mean = node.us / node.count
        low, high = int(mean * 0.9), min(node.us, int(mean * 1.2) + 1)
        own = 100.0 * (node.us - sum(each.us for each in node.below)) / node.us
        seconds = [f"{us / 1e6:.6f}" for us in (node.us, mean, low if node.count > 1 else node.us, high, 0, 1)]
        lines.append((label, str(node.count), str(depth), "wall_clock", "sec", *seconds, f"{own:.1f}"))
    return table("REAL-CLOCK TIMER (I.E. WALL-CLOCK TIMER)", HEADS, lines)


def sampling(rng: random.Random) -> str:
    """Return tables of two ranks in a log: memory and time on the CPU, without VAR."""
    heads = tuple(head for head in HEADS if head != "VAR")
    out = ["[omnitrace][77][0] Finalized: 0.278750 sec wall_clock\n\n"]
    for title, metric, unit in (("MEASURES PEAK RSS", "peak_rss", "MB"), ("CPU-CLOCK TIMER", "cpu_clock", "msec")):
        lines = []
        for rank in (0, 1):
            for depth, label in enumerate(("main", "solve|2d", "exchange")):
                total = rng.randrange(1_000, 9_000) / 10
                indent = "  " * (depth - 1) + "|_" if depth else ""
                values = [f"{v:.3f}" for v in (total, total / 2, total / 4, total, 0.5)]
                lines.append((f"|{rank}|00>>> {indent}{label}", "2", str(depth), metric, unit, *values, "50.0"))
        out.append(table(title, heads, lines) + "\n[metadata]> Outputting 'metadata.json'...\n")
    return "".join(out)


def main(target: Path) -> None:
    """Write the files."""
    folder = target / "timemory"
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(11)
    (folder / "wall_clock.txt").write_text(wall_clock(rng), encoding="utf-8", newline="")
    (folder / "two-ranks.log").write_text(sampling(rng), encoding="utf-8", newline="")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

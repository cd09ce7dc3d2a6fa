"""The page of a trace against the views alone: CPU seconds, peak memory, size of each part, in one process.

    python benchmarks/page.py TRACE [--repeat N] [--page-events N] [--out PAGE.html]
    python benchmarks/page.py --kineto STEPS OUT.json     writes a realistic trace: 1,000 steps make a million events

--repeat lays N copies of the trace end to end, so that a large trace need not be parsed. Every view but the timeline is
the baseline; the timeline, the other parts of the page and its text are what the page costs besides. Peaks are those
of the whole process so far: what a phase adds is the difference to the line before.
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1]))

from tracekit import pipeline
from tracekit.inputs import USUAL
from tracekit.model import arrow
from tracekit.model.trace import Trace
from tracekit.render.base import RenderOptions
from tracekit.views import VIEWS

_PART = re.compile(r'<script type="[a-z/]+" (?:class|id)="([\w-]+)"[^>]*>([^<]*)</script>')
TARGET = 1.3
"""The most that views and page may cost, of the views alone."""


def peak_mb() -> int:
    """Return the peak RSS of this process so far."""
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit


def repeated(trace: Trace, copies: int) -> Trace:
    """Return copies of a trace end to end; ids of launches and of events stay apart."""
    span = trace.span()
    if copies == 1 or span is None:
        return trace
    tables = []
    for copy in range(copies):
        table = trace.events
        for name, step in (("ts_ns", span[1] - span[0] + 1000), ("correlation", 1 << 32), ("event_id", 1 << 32)):
            place = table.schema.get_field_index(name)
            moved = pc.add(table.column(name), pa.scalar(copy * step, pa.int64()))
            table = table.set_column(place, table.schema.field(name), moved)
        tables.append(table)
    return Trace(pa.concat_tables(tables), trace.totals, trace.run, trace.ledgers)


def measure(trace: Trace, options: RenderOptions) -> tuple[str, float]:
    """Print what each phase costs; return the page, and the ratio to the views alone."""
    print(f"{trace.events.num_rows:,} events; peak {peak_mb():,} MB after reading")
    begin = time.process_time()
    sections = {name: pipeline.view(trace, name) for name in VIEWS if name != "timeline"}
    views = time.process_time() - begin
    print(f"views alone       {views:6.2f} s CPU, peak {peak_mb():,} MB")
    begin = time.process_time()
    sections["timeline"] = pipeline.view(trace, "timeline")
    arrow.release_memory()
    timeline = time.process_time() - begin
    print(f"timeline          {timeline:6.2f} s CPU, peak {peak_mb():,} MB")
    begin = time.process_time()
    text = pipeline.render(pipeline.report_of(trace, [sections[name] for name in VIEWS]), "html", options)
    page = time.process_time() - begin
    print(f"page              {page:6.2f} s CPU, peak {peak_mb():,} MB, {len(text) / 1e6:.2f} MB")
    sizes: dict[str, int] = {}
    for word, body in _PART.findall(text):
        sizes[word] = sizes.get(word, 0) + len(body)
    print(", ".join(f"{word} {size / 1e6:.2f} MB" for word, size in sorted(sizes.items(), key=lambda each: -each[1])))
    return text, (views + timeline + page) / views


def main() -> int:
    """Run; the exit code is 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--kineto", type=int, metavar="STEPS", help="write a trace of so many steps instead")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--page-events", type=int, default=2_000_000)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.kineto:
        from benchmarks.truth import kineto
        from benchmarks.truth.machine import World
        from benchmarks.truth.training import Plan, train

        plan = Plan(steps=asked.kineto, layers=24, kernel_us=90, backward="paused", loss_every=10)
        kineto.write(train(World(7), plan)[0], asked.trace, "calls")
        return 0
    trace = repeated(pipeline.read([asked.trace], pipeline.for_report(USUAL)), asked.repeat)
    text, ratio = measure(trace, RenderOptions(page_events=asked.page_events))
    print(f"{ratio:.2f}x of the views alone, target {TARGET}x")
    if asked.out:
        asked.out.write_text(text, encoding="utf-8", errors="replace")
    return int(ratio > TARGET)


if __name__ == "__main__":
    sys.exit(main())

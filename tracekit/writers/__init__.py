"""WRITERS: every target of `convert`, as data: name, title, suffixes, what it holds, and where it is written.

To add a target: write a module here with `write`, and add a `Writer` below. `Place("module:name")` is a function whose
module is imported when it is called: to choose a target by its suffix imports none of them. The order has no meaning.
Other packages add targets by entry points (`plugins`); their `Writer` is the same.

The docstring of the module says what the file looks like; it is the page of the target.
"""

from __future__ import annotations

from tracekit.plugins import Place, Registry
from tracekit.writers.base import Writer

__all__ = ["TARGETS", "WRITERS"]

TARGETS = (
    Writer(
        name="chrome",
        title="Chrome trace (Perfetto, chrome://tracing, speedscope)",
        suffixes=(".json", ".json.gz"),
        write=Place("tracekit.writers.chrome.trace:write"),
        names_only=True,
    ),
    Writer(
        name="csv",
        title="CSV: one row for each event, or the totals of a trace without events",
        suffixes=(".csv", ".csv.gz", ".csv.zst"),
        write=Place("tracekit.writers.csv:write"),
        holds="both",
    ),
    Writer(
        name="cuda-kvp",
        title="CUDA profiler log, key-value",
        suffixes=(".kvp",),
        write=Place("tracekit.writers.cuda_profile:write_kvp"),
    ),
    Writer(
        name="cuda-csv",
        title="CUDA profiler log, CSV",
        suffixes=(),
        write=Place("tracekit.writers.cuda_profile:write_csv"),
    ),
    Writer(
        name="firefox",
        title="Firefox profile (profiler.firefox.com)",
        suffixes=(".firefox.json.gz", ".firefox.json"),
        write=Place("tracekit.writers.firefox.profile:write"),
        names_only=True,
    ),
    Writer(
        name="fluid-pb",
        title="Paddle fluid profile (protobuf)",
        suffixes=(".prof",),
        write=Place("tracekit.writers.paddle.fluid:write"),
    ),
    Writer(
        name="jsonl",
        plain=True,
        title="JSON Lines: one line for each event",
        suffixes=(".jsonl", ".jsonl.gz", ".jsonl.zst"),
        write=Place("tracekit.writers.jsonl:write"),
        holds="both",
    ),
    Writer(
        name="otf2",
        title="OTF2 archive, a folder (Vampir, Score-P's tools)",
        suffixes=(".otf2",),
        write=Place("tracekit.writers.otf2.archive:write"),
        folder=True,
    ),
    Writer(
        name="paddle-pb",
        title="Paddle protobuf trace",
        suffixes=(".paddle_trace.pb", ".pb"),
        write=Place("tracekit.writers.paddle.pb:write"),
    ),
    Writer(
        name="parquet",
        title="tracekit archive (Parquet): events, totals, facts and ledgers in one file",
        suffixes=(".parquet",),
        write=Place("tracekit.writers.parquet:write"),
        holds="both",
        fingerprint=True,
        names_only=True,
    ),
    Writer(
        name="perfetto",
        title="Perfetto trace (ui.perfetto.dev)",
        suffixes=(".pftrace", ".pftrace.gz"),
        write=Place("tracekit.writers.perfetto.trace:write"),
        names_only=True,
    ),
    Writer(
        name="speedscope",
        title="speedscope profile (speedscope.app)",
        suffixes=(".speedscope.json", ".speedscope.json.gz"),
        write=Place("tracekit.writers.speedscope:write"),
        names_only=True,
    ),
    Writer(
        name="spreadsheet",
        title="CSV for Excel, LibreOffice Calc and the like: no name in it is a formula",
        suffixes=(".spreadsheet.csv", ".spreadsheet.csv.gz", ".spreadsheet.csv.zst"),
        write=Place("tracekit.writers.csv:write_for_spreadsheet"),
        holds="both",
    ),
)
WRITERS = Registry("tracekit.writers", Writer, ready=TARGETS)
"""The writers of all targets by name: ours, and those of other packages."""

"""The files whose traces are opened in viewers."""

from __future__ import annotations

from support import SAMPLES, corpus_root

from tracekit.readers import READERS

WITH_EVENTS = sorted(
    f"{folder.name}/{path.name}"
    for folder in SAMPLES.iterdir()
    if folder.name in READERS and READERS[folder.name].gives != "totals"
    for path in folder.iterdir()
    if not path.name.startswith(("_", ".")) and not path.name.endswith(".json.figures.json")
)
REAL = sorted(
    str(path.relative_to(corpus_root()))
    for folder in ("nvprof_gputrace_csv", "cuda_cmdline_profiler", "tensorflow", "kineto")
    for path in (corpus_root() / folder).glob("*")
    if path.stat().st_size < 100_000
)

"""The way of a row is short: few functions of ours are on the stack when a reader makes a batch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import sample

MOST_FRAMES = 15

_COUNT = """
import json, sys
from pathlib import Path
import tracekit
from tracekit.cli import main
from tracekit.readers import builder
from tracekit.writers import overlapped

ROOT = str(Path(tracekit.__file__).parent)
MAKERS = {"event_batch", "totals_batch", "take"}
deepest = []
batches = 0

def look(frame, event, _):
    global deepest, batches
    if event != "call" or frame.f_code.co_filename != builder.__file__ or frame.f_code.co_name not in MAKERS:
        return
    batches += 1
    stack = []
    while (frame := frame.f_back) is not None:
        if frame.f_code.co_filename.startswith(ROOT):
            stack.append(f"{Path(frame.f_code.co_filename).relative_to(ROOT)}:{frame.f_code.co_name}")
    deepest = max(deepest, stack, key=len)

overlapped.cores = lambda: 2
sys.argv = ["tracekit", *sys.argv[1:]]
sys.setprofile(look)
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.setprofile(None)
print(json.dumps([batches, deepest]))
"""


def stack_of(*words: str | Path) -> list[str]:
    """Return the deepest stack of our functions below which a command makes a batch, the innermost first."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, *map(str, words)], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    batches, stack = json.loads(done.stdout.splitlines()[-1])
    assert batches, "no batch was seen: the hook of this test looks at the wrong functions"
    return list(stack)


@pytest.mark.parametrize("name", ["gpu-trace-20-columns.csv", "gpu-and-api-trace.csv", "appended-runs.csv"])
def test_a_row_of_nvprof_becomes_a_chrome_trace_within_few_frames(name: str, tmp_path: Path) -> None:
    stack = stack_of("convert", sample(f"nvprof-csv/{name}"), "-o", tmp_path / "out.json")
    assert len(stack) <= MOST_FRAMES, "\n".join(stack)
    assert stack[-1] == "cli/__init__.py:main"

"""Acknowledged tags that an archive loses when several processes add one run at the same moment and some are killed.

    python benchmarks/archive_writers.py --trials 200

Each trial has 2 to 8 writers, of which up to half are killed with SIGKILL at a random moment. A writer prints a tag
when its add was acknowledged. Then one more add settles the archive. Printed: tags acknowledged, lost (must be 0),
writers that ended with an error (must be 0), trials in which `verify` had a problem (must be 0), and trials in which a
kill left something that the last add removed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tracekit import archive

LOG = Path(__file__).resolve().parent.parent / "sample_traces" / "recorder-log" / "rank0.jsonl"
_WRITER = """
import sys
from tracekit import archive
archive.add(f"{sys.argv[1]}-of-{sys.argv[3]}", sys.argv[2])  # loads what an add needs: kills come in its middle
print("ready", flush=True)
sys.stdin.readline()
for number in range(4):
    archive.add(sys.argv[1], sys.argv[2], run="same", tags={f"{sys.argv[3]}-{number}": "1", "last": sys.argv[3]})
    print(f"{sys.argv[3]}-{number}", flush=True)
"""


def trial(root: Path, writers: int, kill_after_s: list[float]) -> tuple[set[str], set[str], int, int, int]:
    """Return the tags acknowledged and those found, the failed writers, and what `verify` found before and after."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(root), str(LOG), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    for process in started:
        process.stdout.readline()
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    timers = [threading.Timer(wait, process.kill) for wait, process in zip(kill_after_s, started, strict=False)]
    for timer in timers:
        timer.start()
    printed = {line for process in started for line in process.communicate()[0].split()}
    for timer in timers:
        timer.cancel()
    failed = sum(process.returncode > 0 for process in started)  # of a killed one it is negative
    before = archive.verify(root) if root.exists() else archive.Verification()
    archive.add(root, LOG, run="same", tags={"end": "1"})
    after = archive.verify(root)
    there = {tag for entry in archive.entries(root) for tag in entry.tags}
    found = [len(each.leftovers) + len(each.problems) for each in (before, after)]
    return printed, there, failed, found[0], found[1]


def main() -> None:
    """Run the trials and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    acknowledged = lost = failures = kills = left = bad = 0
    for _ in range(options.trials):
        writers = chance.randint(2, 8)
        waits = [chance.uniform(0, 1.5) for _ in range(chance.randint(0, writers // 2))]
        with tempfile.TemporaryDirectory() as folder:
            printed, there, failed, before, after = trial(Path(folder) / "archive", writers, waits)
        acknowledged += len(printed)
        lost += len(printed - there)
        failures += failed
        kills += len(waits)
        left += before > 0
        bad += after > 0
    print(f"{options.trials} trials, {kills} kills: {acknowledged} tags acknowledged, {lost} lost")
    print(f"{failures} writers ended with an error")
    print(f"a kill left something in {left} trials; after one more add, verify found something in {bad}")


if __name__ == "__main__":
    main()

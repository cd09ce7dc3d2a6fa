"""Folders of rocprof-compute (Omniperf): the tables of one run, of which one has the counters of all passes.

workloads/vcopy/MI200/pmc_perf.csv        all counters, and the times of one pass
workloads/vcopy/MI200/SQ_LEVEL_WAVES.csv  a pass of its own, with its own times
workloads/vcopy/MI200/sysinfo.csv         one row: command, machine, GPU
workloads/vcopy/MI200/roofline.csv        measured roofs
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

__all__ = ["PASSES", "ROOFS", "SYSTEM", "is_other_pass", "is_read_with_passes", "rows_of", "system_facts"]

PASSES, SYSTEM, ROOFS = "pmc_perf.csv", "sysinfo.csv", "roofline.csv"
_OTHERS = re.compile(r"(?:SQ_[A-Z_]+|pmc_perf_\d{1,3}|timestamps|pmc_dispatch_info)\.csv", re.ASCII)
_FACTS = {
    "command": "command",
    "hostname": "host",
    "gpu_model": "gpu_model",
    "gpu_arch": "gpu_arch",
    "cpu_model": "cpu",
    "linux_distro": "os",
    "rocm_version": "rocm_version",
    "version": "tool_version",
    "timestamp": "recorded",
}
"""Columns of sysinfo.csv, and the facts that they are."""
_MOST_BYTES = 1 << 20


def is_other_pass(path: Path) -> bool:
    """Return whether a file is the table of a pass whose launches are in pmc_perf.csv beside it too."""
    return _OTHERS.fullmatch(path.name) is not None and path.with_name(PASSES).is_file()


def is_read_with_passes(path: Path) -> bool:
    """Return whether a file is read with pmc_perf.csv beside it: the facts of the machine, the measured roofs."""
    return path.name in (SYSTEM, ROOFS) and path.with_name(PASSES).is_file()


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a small table by column, none where it is missing, damaged, or a link."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return []
        lines = path.read_text("utf-8", "replace").splitlines()
        header, *rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if row] or [[]]
    except (OSError, csv.Error):
        return []
    whole = len(set(header)) == len(header)
    return [dict(zip(header, row, strict=True)) for row in rows if whole and len(row) == len(header)]


def system_facts(path: Path) -> dict[str, object]:
    """Return the facts in sysinfo.csv, none where it cannot be read."""
    rows = rows_of(path)
    found = {fact: rows[0].get(column) for column, fact in _FACTS.items()} if len(rows) == 1 else {}
    return {fact: value for fact, value in found.items() if value}

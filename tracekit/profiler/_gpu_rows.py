"""A region's GPU work as a file beside the log: JSON Lines with the schema's names (tracekit's events-jsonl).

Times are ns since the Unix epoch, as in the recorder's log, so the two files share one clock.
"""

from __future__ import annotations

import heapq
import json
import os
import socket
from pathlib import Path
from typing import Final

from tracekit.profiler._cupti import Call, Collected, Work

LONGEST_MANGLED: Final = 4096
LONGEST_NAME: Final = 64 * 1024
Row = dict[str, object]


def write_rows(collected: Collected, path: Path) -> None:
    """Write the file whole. Raises: OSError."""
    # The host says beside the process id that this is the process of the log.
    facts = {"tool": "CUPTI", "host": socket.gethostname(), **({"lost": collected.lost} if collected.lost else {})}
    run = {
        "origin_ns": 0,
        "sources": [{"path": path.name, "format": "events-jsonl", "facts": facts}],
        "devices": [[0, number, name] for number, name in sorted(collected.devices.items())],
    }
    names: dict[str, str] = {}
    pid = os.getpid()
    rows = heapq.merge(
        ((work.start_ns, _work_row(work, pid, names)) for work in collected.work),
        ((call.start_ns, _call_row(call)) for call in collected.calls),
        key=lambda timed: timed[0],
    )
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(_line({"tracekit": "events-jsonl", "schema": 1, "run": run}))
        for count, (_, row) in enumerate(rows, 1):
            file.write(_line({"event_id": count - 1, "source": 0, **row}))
        file.write(_line({"tracekit": "end", "events": count, "totals": 0, "run": run, "ledger": []}))


def _line(value: Row) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True) + "\n"


def _work_row(work: Work, pid: int, names: dict[str, str]) -> Row:
    name = names.get(work.name)
    if name is None:
        name = names[work.name] = demangled(work.name)
    row: Row = {"ts_ns": work.start_ns, "dur_ns": work.end_ns - work.start_ns, "name": name}
    if name != work.name:
        row["raw_name"] = work.name
    row |= {
        "kind": work.kind,
        "pid": pid,
        "device": work.device,
        "context": work.context,
        "stream": work.stream,
        "correlation": work.correlation,
    }
    for axes, values in (("grid", work.grid), ("block", work.block)):
        if values is not None:
            row |= {f"{axes}_{axis}": value for axis, value in zip("xyz", values, strict=True)}
    optional = {
        "registers": work.registers,
        "static_smem_bytes": work.static_smem,
        "dynamic_smem_bytes": work.dynamic_smem,
        "bytes": work.size,
        "copy_kind": work.copy_kind or None,
    }
    row |= {key: value for key, value in optional.items() if value is not None}
    if work.kind != "kernel":
        args: Row = {"async": work.is_async}
        args |= {key: text for key, text in (("src", work.source_memory), ("dst", work.target_memory)) if text}
        row["args"] = args
    return row


def _call_row(call: Call) -> Row:
    return {
        "ts_ns": call.start_ns,
        "dur_ns": call.end_ns - call.start_ns,
        "name": call.name,
        "kind": call.kind,
        "pid": call.pid,
        "tid": call.tid,
        "correlation": call.correlation,
    }


def demangled(name: str) -> str:
    """Return a C++ symbol as people write it; any other text, and one that is too long, as it is.

    >>> demangled("_Z6vecaddPiS_")
    'vecadd(int*, int*)'
    """
    if not name.startswith("_Z") or len(name) > LONGEST_MANGLED:
        return name
    try:
        import cxxfilt

        readable = str(cxxfilt.demangle(name))
    except Exception:  # noqa: BLE001 - no such package (Windows), no library, no symbol
        return name
    return readable if len(readable) <= LONGEST_NAME else name

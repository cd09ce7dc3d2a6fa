"""Shared by the tests of writers: a full disk, a process whose memory is measured, files of an older schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from doors.readers import archive_conform as _conform
from hypothesis import strategies as st
from strategies import tables
from support import LONG_S, ROOT, files_limited

from tracekit.errors import OutputError
from tracekit.model import schema
from tracekit.model.trace import Run
from tracekit.readers.builder import event_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions
from tracekit.writers.tracks.texts import quoted

_CHILD = """
import resource, sys
from pathlib import Path
from writing import write
write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), crossing=sys.argv[4] == "True")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


FEW = 1000
"""Events of a file whose size does not matter."""
Columns = dict[str, pa.Array]


def newer_schema(
    monkeypatch: pytest.MonkeyPatch, version: int, upgrades: Mapping[int, Callable[[str, Columns], Columns]]
) -> None:
    """Make the package's schema a later one, with the upgrades from each version: today's files are then old ones."""
    monkeypatch.setattr(schema, "VERSION", version)
    monkeypatch.setattr(_conform, "UPGRADES", upgrades)


def write(target: Path, to: str, count: int, *, crossing: bool = False, size: int = 50_000) -> None:
    """Write that many batches of 50,000 events, or of `size` events that do not cross."""
    batches = _crossing(count) if crossing else _batches(count, size)
    WRITERS[to].write(RowStream(Run(), batches), target, WriteOptions(force=True))


def _batches(count: int, size: int) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(1)
    for i in range(count):
        ids = np.arange(i * size, (i + 1) * size)
        columns = {"ts_ns": ids * 1000, "dur_ns": rng.integers(0, 1 << 40, size), "event_id": ids}
        yield event_batch(size, {**columns, "kind": "kernel", "source": 0, "name": f"kernel {i}", "stream": ids % 4})


def _crossing(count: int) -> Iterator[pa.RecordBatch]:
    """Kernels of two streams, some of which overlap the next one of their stream."""
    for i in range(count):
        ids = np.arange(i * 50_000, (i + 1) * 50_000)
        columns = {"ts_ns": ids * 1000, "dur_ns": 1900 + ids % 7 * 50, "event_id": ids, "source": 0, "pid": 1}
        columns |= {"kind": "kernel", "device": 0, "stream": 7 + ids % 2, "correlation": ids, "name": f"k {i % 9}"}
        yield event_batch(50_000, columns)


def check_full_disk(target: Path, to: str) -> None:
    """A write that fails in the middle says so in one sentence; the old output survives, nothing else is left."""
    # Loads what is loaded on first use: Python 3.11 leaves a cut .pyc where a file may not grow.
    write(target, to, 1, size=FEW)
    target.write_bytes(b"the old output")
    for limit in (0x100, 0x8000):
        with files_limited(limit), pytest.raises(OutputError) as raised:
            write(target, to, 4)
        assert str(raised.value).startswith(str(target))
        assert target.read_bytes() == b"the old output"
        assert list(target.parent.iterdir()) == [target]


def peak_kilobytes(target: Path, to: str, *, batches: int, crossing: bool = False) -> int:
    """Return the peak memory of a process that writes that many batches of 50,000 events."""
    command = [sys.executable, "-W", "error", "-c", _CHILD, str(target), to, str(batches), str(crossing)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environ = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@st.composite
def dense_tables(draw: st.DrawFn) -> pa.Table:
    """Tables whose slices meet: short times, few lanes, so that overlaps, touching slices and arrows happen."""
    table = draw(tables("events", max_rows=14))
    count = table.num_rows
    small = st.lists(st.integers(0, 40), min_size=count, max_size=count)
    changed = {
        "ts_ns": draw(small),
        "dur_ns": draw(st.lists(st.one_of(st.none(), st.integers(0, 60)), min_size=count, max_size=count)),
        "correlation": draw(st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=count, max_size=count)),
        "source": [0] * count,
        "pid": draw(st.sampled_from([[None] * count, [7] * count])),
        "tid": draw(st.lists(st.sampled_from([None, 1, 2]), min_size=count, max_size=count)),
        "rank": [None] * count,
    }
    if draw(st.booleans()):
        kinds = st.sampled_from(["kernel", "runtime", "memcpy", "flow", "counter", "driver"])
        changed["kind"] = draw(st.lists(kinds, min_size=count, max_size=count))
        points = ['{"ph":"s"}', '{"ph":"f","bp":"e"}', '{"ph":"f"}', '{"ph":"t"}', '{"id":"0x1","k":[1,{}]}', None]
        changed["args"] = draw(st.lists(st.sampled_from(points), min_size=count, max_size=count))
    for name, values in changed.items():
        field = schema.EVENTS.field(name)
        plain = pa.string() if pa.types.is_dictionary(field.type) else field.type
        array = pa.array(values, plain)
        array = array.dictionary_encode() if pa.types.is_dictionary(field.type) else array
        table = table.set_column(table.schema.get_field_index(name), field, array)
    return table


def as_in_json(name: str) -> str:
    """Return a name as the engine shows it from JSON: it takes escapes off only where there is an escaped quote."""
    text = quoted(name.replace("\\u0000", "\0"))
    return str(json.loads(text)) if '\\"' in text else text[1:-1]

"""toy-csv: name, start and duration of each event, one a line."""

from __future__ import annotations

from pathlib import Path

from tracekit.model.schema import is_totals
from tracekit.writers.base import RowStream, WriteOptions, Writer, Written, new_file


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the events; rows without a duration have an empty last cell. Raises: OutputExistsError without `force`."""
    written = Written(target)
    # The file gets its name when it is complete: an error or a kill leaves what was there before.
    with new_file(target, force=options.force) as file:
        file.write(b"name,ts_ns,dur_ns\n")
        for batch in stream.batches:
            if is_totals(batch):  # sums that a profiler had made itself; this target has no place for them
                written.leave_out("totals", batch.num_rows)
                continue
            rows = (batch.column(name).to_pylist() for name in ("name", "ts_ns", "dur_ns"))
            for name, start, duration in zip(*rows, strict=True):
                quoted = (name or "").replace('"', '""')
                file.write(f'"{quoted}",{start},{"" if duration is None else duration}\n'.encode())
            written.events += batch.num_rows
    return written


WRITER = Writer("toy-csv", "CSV of three columns", (".toycsv",), write)

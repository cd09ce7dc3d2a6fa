"""Promises of all targets that viewers open: no output is replaced or left half-written, memory stays flat."""

from __future__ import annotations

from pathlib import Path

import pytest
from writing import check_full_disk, peak_kilobytes

from tracekit.errors import OutputError, OutputExistsError
from tracekit.model.trace import Run
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions

FILES = {"chrome": "t.json", "firefox": "t.json", "perfetto": "t.pftrace", "speedscope": "t.json"}


@pytest.mark.parametrize(
    ("target", "refusal"), [("chrome", "no viewer reads zstd"), ("perfetto", "Perfetto does not read zstd")]
)
def test_an_existing_file_needs_force_and_zstd_is_refused(tmp_path: Path, target: str, refusal: str) -> None:
    path = tmp_path / FILES[target]
    path.write_bytes(b"old")
    with pytest.raises(OutputExistsError):
        WRITERS[target].write(RowStream(Run(), iter([])), path, WriteOptions(force=False))
    with pytest.raises(OutputError, match=refusal):
        WRITERS[target].write(RowStream(Run(), iter([])), Path(f"{path}.zst"), WriteOptions(force=True))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("target", FILES)
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, target: str, suffix: str) -> None:
    check_full_disk(tmp_path / f"{FILES[target]}{suffix}", target)


@pytest.mark.parametrize("target", FILES)
def test_memory_does_not_grow_with_the_trace(tmp_path: Path, target: str) -> None:
    small, large = (
        peak_kilobytes(tmp_path / FILES[target], target, batches=batches, crossing=True) for batches in (4, 20)
    )
    assert large < 1.2 * small

"""A run that is in the base already is no baseline for itself."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from compare_runs import steps, write
from support import sample

from tracekit import archive
from tracekit.comparison import Comparison, compare
from tracekit.errors import InputError


def made(folder: Path, count: int = 4) -> list[str]:
    return [write(folder / f"r{n}.parquet", steps(8, factor=1 + 0.01 * n, noise=0.01, seed=n)) for n in range(count)]


def base_runs(found: Comparison) -> int:
    assert found.sides is not None
    return len(found.sides.base)


def left_out(found: Comparison) -> list[str]:
    return [note for note in found.notes if "left out, since NEW has the same files" in note]


@pytest.mark.parametrize("tag", ["", ":branch=main", ":branch", ":run=nightly"])
def test_an_archived_run_is_left_out_of_its_baseline_by_its_bytes(tag: str, tmp_path: Path) -> None:
    files = made(tmp_path / "made")
    for file in files:
        archive.add(tmp_path / "archive", file, run="nightly", tags={"branch": "main"})
    new = shutil.copyfile(files[3], tmp_path / "another name.parquet")
    found = compare(f"{tmp_path / 'archive'}{tag}", str(new))
    assert base_runs(found) == 3
    assert left_out(found)[0].startswith("base: 1 run left out, since NEW has the same files: nightly ")


def test_a_compressed_file_and_a_run_of_two_ranks_are_recognised_too(tmp_path: Path) -> None:
    files = made(tmp_path / "made", 2)
    for file in files:
        archive.add(tmp_path / "archive", file, run="nightly")
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(sample("kineto/gpu.pt.trace.json").read_bytes()))
    archive.add(tmp_path / "archive", packed, run="packed")
    for rank in range(2):
        write(tmp_path / "ranks" / f"rank{rank}.parquet", steps(8, rank=rank))
    archive.add(tmp_path / "archive", tmp_path / "ranks", run="two ranks")
    for new in (packed, tmp_path / "ranks"):
        found = compare(str(tmp_path / "archive"), str(new))
        assert base_runs(found) == 3
        assert len(left_out(found)) == 1


def test_the_same_file_under_another_run_is_left_out_as_well(tmp_path: Path) -> None:
    files = made(tmp_path / "made", 3)
    for file in files:
        archive.add(tmp_path / "archive", file, run="nightly")
    archive.add(tmp_path / "archive", files[0], run="again", tags={"x": "y"})
    assert base_runs(compare(str(tmp_path / "archive"), files[0])) == 2
    entry = archive.entries(tmp_path / "archive", tag="x")[0]
    assert base_runs(compare(str(tmp_path / "archive"), entry.path)) == 2


@pytest.mark.parametrize("word", ["{folder}", "{folder}/*.parquet"])
def test_a_file_of_the_folder_or_pattern_that_is_the_base_is_left_out(word: str, tmp_path: Path) -> None:
    files = made(tmp_path / "made")
    found = compare(word.format(folder=tmp_path / "made"), files[2])
    assert base_runs(found) == 3
    assert left_out(found)


def test_a_base_with_nothing_but_the_new_run_is_an_error(tmp_path: Path) -> None:
    (file,) = made(tmp_path / "made", 1)
    archive.add(tmp_path / "archive", file, run="nightly")
    with pytest.raises(InputError, match="the base has no run but the new one"):
        compare(str(tmp_path / "archive"), file)


def test_runs_that_are_named_themselves_are_compared(tmp_path: Path) -> None:
    """A run against itself is a way to try a gate."""
    (file,) = made(tmp_path / "made", 1)
    archive.add(tmp_path / "archive", file, run="nightly")
    entry = archive.entries(tmp_path / "archive")[0]
    for base, new in ((file, file), (f"{tmp_path / 'archive'}:{entry.id}", file), (str(tmp_path / "archive"),) * 2):
        found = compare(base, new)
        assert base_runs(found) == 1
        assert found.verdict == "same"


def test_other_runs_of_an_archive_stay(tmp_path: Path) -> None:
    files = made(tmp_path / "made")
    for file in files[:3]:
        archive.add(tmp_path / "archive", file, run="nightly")
    found = compare(str(tmp_path / "archive"), files[3])
    assert base_runs(found) == 3
    assert not left_out(found)

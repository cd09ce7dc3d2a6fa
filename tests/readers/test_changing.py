"""Inputs that change while they are read: a note where all of it is of one file, an error where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support import sample

from tracekit import archive, conversion, pipeline
from tracekit.errors import InputError
from tracekit.inputs import InputOptions
from tracekit.render.base import RenderOptions

RUN = sample("nvprof-csv/gpu-and-api-trace.csv").read_bytes()


def changing(path: Path, change: Callable[[Path], object]) -> InputOptions:
    """Return the options of a reading in which the file changes before the first rows are passed on."""
    path.write_bytes(RUN)
    left = [change]

    def look(_: float) -> None:
        if left:
            left.pop()(path)

    return InputOptions(progress=look)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(RUN.splitlines(keepends=True)[-1])


def shrink(path: Path) -> None:
    path.write_bytes(RUN[:-300])


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(RUN + b"\n")
    other.rename(path)


def test_a_file_that_grows_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    trace = pipeline.read(path, changing(path, grow))
    (ledger,) = trace.ledgers
    text = str(ledger.notes["input-was-written-to"])
    assert f"it had {len(RUN):,} bytes at first" in text
    assert "read it again when its program has ended" in text


@pytest.mark.parametrize(("change", "what"), [(shrink, "became smaller"), (replace, "was replaced by another file")])
def test_a_file_that_is_another_one_at_the_end_is_an_error(
    change: Callable[[Path], object], what: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "a.csv", tmp_path / "out.json"
    with pytest.raises(InputError, match=what) as caught:
        conversion.convert(path, out, changing(path, change))
    assert str(caught.value).startswith(f"{path}: ")
    assert not out.exists()


def test_an_archive_takes_no_file_whose_fingerprint_is_of_other_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with pytest.raises(InputError, match="was written to while it was read"):
        archive.add(tmp_path / "arch", path, changing(path, grow))
    assert not archive.entries(tmp_path / "arch")
    added = archive.add(tmp_path / "arch", path)
    assert added.new


def test_a_file_that_is_only_touched_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(sample("recorder-log/rank0.jsonl").read_bytes())
    before = pipeline.read(path)
    again = pipeline.read(path, InputOptions(progress=lambda _: path.touch()))
    assert again.events.equals(before.events)
    assert "input-was-written-to" in again.ledgers[0].notes
    assert "input-was-written-to" not in json.dumps([ledger.to_json() for ledger in before.ledgers])


def test_the_first_screen_says_that_a_file_grew(tmp_path: Path) -> None:
    trace = pipeline.read(tmp_path / "a.csv", changing(tmp_path / "a.csv", grow))
    text = pipeline.render(pipeline.summary(trace), "text", RenderOptions(width=100))
    assert "a.csv was written to while it was read" in text

"""Files in a zip archive are inputs like those of a folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from support import SAMPLES, run_command, sample

import tracekit
from tracekit.errors import InputError, UnknownFormatError

SOME = ("kineto/gpu.pt.trace.json", "nvprof-csv/gpu-and-api-trace.csv", "nsys-sqlite/nvtx-v2.sqlite")


def zipped(path: Path, names: tuple[str, ...] = SOME, **more: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.write(SAMPLES / name, name)
        for name, data in more.items():
            archive.writestr(name, data)
    return path


def test_a_zip_is_read_as_the_files_in_it(tmp_path: Path) -> None:
    archive = zipped(
        tmp_path / "runs.zip", **{"README.md": b"two runs", "__MACOSX/._x.csv": b"\0", ".hidden.csv": b"x"}
    )
    apart = tracekit.read(sorted(str(sample(name)) for name in SOME))
    found = tracekit.read(archive)
    assert found.events.drop_columns("args").equals(apart.events.drop_columns("args"))
    assert [ledger.kept for ledger in found.ledgers] == [ledger.kept for ledger in apart.ledgers]
    assert [ledger.path.partition("runs.zip/")[2] for ledger in found.ledgers] == sorted(SOME)


@pytest.mark.parametrize("name", SOME)
def test_one_file_of_a_zip_can_be_named(name: str, tmp_path: Path) -> None:
    archive = zipped(tmp_path / "runs.zip")
    assert tracekit.read(f"{archive}/{name}").events.equals(tracekit.read(sample(name)).events)


def test_a_zip_within_a_folder_and_a_pattern_is_read(tmp_path: Path) -> None:
    zipped(tmp_path / "a.zip", SOME[:1])
    zipped(tmp_path / "b.zip", SOME[1:2])
    for word in (tmp_path, tmp_path / "*.zip"):
        assert len(tracekit.read(str(word)).ledgers) == 2


def test_what_cannot_be_read_gets_one_sentence(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "runs.zip", SOME[:1])
    with pytest.raises(InputError, match="no such file in the zip archive"):
        tracekit.read(f"{archive}/rank7.json")
    nothing = zipped(tmp_path / "nothing.zip", (), **{"notes.txt": b"nothing"})
    with pytest.raises(UnknownFormatError, match="no file is a known profile"):
        tracekit.read(nothing)
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "damaged.zip").write_bytes(data)
    assert "cannot be unpacked" in run_command("summary", tmp_path / "damaged.zip", code=1).stderr
    (tmp_path / "cut.zip").write_bytes(data[: len(data) // 2])
    assert "zip archive" in run_command("summary", tmp_path / "cut.zip", code=1).stderr


def test_a_locked_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "runs.zip", SOME[:1])
    data = bytearray(archive.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + offset] |= 1
    archive.write_bytes(data)
    assert "is encrypted" in run_command("summary", archive, code=1).stderr


def test_a_zip_bomb_ends_at_the_limit(tmp_path: Path) -> None:
    head = sample(SOME[1]).read_bytes()
    archive = zipped(tmp_path / "bomb.zip", (), **{"run.csv": head + b"\n" * (1 << 20)})
    shown = run_command("summary", archive, "--max-read-bytes", "512KiB", code=1)
    assert "--max-read-bytes" in shown.stdout + shown.stderr

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


PACKED = {
    "stored": zipfile.ZIP_STORED,
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def _member(path: Path, method: int) -> tuple[bytearray, int, int]:
    """Return an archive of one member, and where its data and its entry in the list begin."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.write(sample(SOME[1]), "run.csv")
    data = bytearray(path.read_bytes())
    return data, 30 + len("run.csv"), data.index(b"PK\x01\x02")


def _refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    for command in ("summary", "inspect", "convert"):
        more = ("-o", path.with_suffix(".json")) if command == "convert" else ()
        shown = run_command(command, path, *more, code=1).stderr
        errors = [line for line in shown.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, shown
        assert f"{path}/run.csv: " in errors[0], shown
        assert "bug" not in shown, shown
    return shown


@pytest.mark.parametrize("name", PACKED)
def test_a_damaged_member_is_named_whatever_packed_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    data, first, listed = _member(path, PACKED[name])
    for place in (first + 14, first + 20, (first + listed) // 2, listed - 60):
        damaged = data.copy()
        damaged[place] ^= 0xFF
        assert "cannot be unpacked" in _refused(path, damaged), place
    for zeros in (slice(first, listed), slice(first + 40, listed)):
        damaged = data.copy()
        damaged[zeros] = bytes(len(damaged[zeros]))
        _refused(path, damaged)


@pytest.mark.parametrize("name", PACKED)
def test_a_wrong_check_sum_or_size_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    data, _, listed = _member(path, PACKED[name])
    damaged = data.copy()
    damaged[listed + 16] ^= 1
    assert "CRC" in _refused(path, damaged)
    for field, delta in ((20, -40), (24, -40), (42, 1 << 16), (42, 3)):  # packed size, size, place
        damaged = data.copy()
        value = int.from_bytes(damaged[listed + field : listed + field + 4], "little") + delta
        damaged[listed + field : listed + field + 4] = value.to_bytes(4, "little")
        _refused(path, damaged)


@pytest.mark.parametrize("method", [1, 6, 9, 10, 18, 19, 94, 96, 97, 98, 99, 0xFFFF])
def test_a_way_of_packing_that_python_lacks_is_named(method: int, tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    data, _, listed = _member(path, zipfile.ZIP_DEFLATED)
    data[listed + 10 : listed + 12] = method.to_bytes(2, "little")
    assert "compressed in a way that is not supported" in _refused(path, data)


@pytest.mark.parametrize("flag", [0x1, 0x41, 0x40, 0x2001])
def test_every_kind_of_encryption_is_named(flag: int, tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    data, _, listed = _member(path, zipfile.ZIP_DEFLATED)
    data[listed + 8 : listed + 10] = flag.to_bytes(2, "little")
    assert "is encrypted" in _refused(path, data)

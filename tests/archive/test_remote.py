"""An archive in an object store, against an S3 server on this machine; and in other places that fsspec knows."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_server import s3_bucket
from support import sample

import tracekit
from tracekit import archive, pipeline
from tracekit.errors import InputError, MissingExtraError, OutputError
from tracekit.queries import query

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
SUMMED = sample("paddle-summary/gpu.txt")
SQL = "SELECT run_name, kind, count(*) AS n, sum(dur_ns) AS total_ns FROM events GROUP BY ALL ORDER BY ALL"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with s3_bucket(monkeypatch) as url:
        yield url


def test_an_object_store_does_all_that_a_folder_does(bucket: str, tmp_path: Path) -> None:
    remote, local = f"{bucket}/team/profiles", tmp_path / "a"
    assert archive.entries(remote) == []
    for root in (remote, local):
        assert archive.add(root, CSV, run="night ly/1", date="2026-01-01", tags={"gpu": "H200"}).new
        assert not archive.add(root, CSV, run="night ly/1").new
        assert archive.add(root, [SUMMED, CSV], run="two", date="2026-01-02").totals == 52
    here, there = archive.entries(local), archive.entries(remote)
    assert [(e.id, e.name, e.bytes, e.tags) for e in there] == [(e.id, e.name, e.bytes, e.tags) for e in here]
    assert archive.find(remote, there[0].id[:8]).path == there[0].path == f"{remote}/{there[0].name}"
    assert archive.verify(remote) == archive.verify(local)
    texts = [pipeline.render(pipeline.report(t), "text") for t in (archive.read(there[0]), tracekit.read(CSV))]
    assert texts[0] == texts[1]
    for sql in (SQL, "SELECT run_name, section, sum(calls) AS n FROM totals GROUP BY ALL ORDER BY ALL"):
        assert query(remote, sql).equals(query(local, sql))
    assert query([there[0].path, str(local)], "SELECT count(*) AS n FROM events").to_pylist() == [{"n": 411}]
    changed = archive.add(remote, CSV, run="night ly/1", tags={"baseline": ""})
    assert (changed.changed, len(archive.entries(remote, tag="baseline"))) == (True, 1)
    assert [e.run for e in archive.prune(remote, tag="baseline").removed] == ["night ly/1"]
    assert [e.run for e in archive.entries(remote)] == ["two"]


def test_damage_in_an_object_store_is_found(bucket: str) -> None:
    import s3fs

    files = s3fs.S3FileSystem()
    done = archive.add(f"{bucket}/a", CSV, run="r")
    whole = files.cat_file(done.path)
    for damaged in (whole[:-1], whole[:700] + bytes([whole[700] ^ 4]) + whole[701:]):
        files.pipe_file(done.path, damaged)
        assert [p.code for p in archive.verify(f"{bucket}/a").problems] == ["damaged"]
    files.pipe_file(done.path, whole)
    files.pipe_file(f"{bucket}/a/events/foreign.txt", b"x")
    assert [p.code for p in archive.verify(f"{bucket}/a").problems] == ["foreign-file"]


def test_a_store_that_cannot_be_reached_is_one_sentence(
    bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no such place"):
        archive.entries("s3://missing/a")
    with pytest.raises((InputError, OutputError), match="s3://missing/a"):
        archive.add("s3://missing/a", CSV)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(InputError, match="cannot be read") as caught:
        archive.entries(f"{bucket}/a")
    assert caught.value.hint


def test_a_web_server_that_cannot_be_reached_is_no_empty_archive() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, not listening
        root = f"http://127.0.0.1:{unused.getsockname()[1]}/a"
        with pytest.raises(InputError, match="cannot be read"):
            archive.listing(root)


def test_any_file_system_of_fsspec_will_do(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    root = f"memory://{tmp_path.name}/a"
    done = archive.add(root, CSV, run="r", date="2026-01-01")
    assert done.path.startswith(root)
    assert archive.entries(root)[0].events == 137
    assert not archive.verify(root).problems
    assert archive.prune(root, run="r").kept == 0
    as_url = f"file://{tmp_path}/b"
    assert archive.add(as_url, CSV, run="r", date="2026-01-01").id == done.id
    assert len(archive.entries(tmp_path / "b")) == 1


def test_a_place_without_whole_objects_gets_its_files_by_rename(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    root = f"local://{tmp_path}/a"
    done = archive.add(root, CSV, run="r", date="2026-01-01")
    assert archive.entries(root)[0].id == done.id
    names = [path.name for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert [Path(done.path).name] == [name for name in names if name.endswith(".parquet")]
    assert not any(name.startswith(".") for name in names), "a part of a file is left"


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError) as caught:
        archive.entries("s3://bucket/a")
    assert "tracekit-gpu[remote]" in caught.value.hint


def test_a_url_of_an_unknown_kind_is_an_error() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(InputError, match="not a known kind of place"):
        archive.entries("nosuch://bucket/a")

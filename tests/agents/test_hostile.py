"""Nothing outside the folders can be read: by a name, a link, a file that names another, or SQL."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import _arrow_exports as arrow_exports
import pytest
from support import sample

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from agents.conversation import Conversation, talking

from tracekit.agents.folders import ProfileFolders, profile_folders
from tracekit.errors import TracekitError

SECRET = "only_in_the_secret_file"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and FIFOs of POSIX")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `runs` that an agent may read, beside files that it may not."""
    place = tmp_path_factory.mktemp("hostile")
    runs, secret = place / "runs", place / "secret"
    (runs / "inner").mkdir(parents=True)
    secret.mkdir()
    text = sample("nvprof-csv/gpu-and-api-trace.csv").read_text()
    (runs / "run.csv").write_text(text)
    (secret / "run.csv").write_text(text.replace("cudaLaunchKernel", SECRET))
    (place / "runs-other").mkdir()
    shutil.copy(secret / "run.csv", place / "runs-other" / "run.csv")
    (runs / "link.csv").symlink_to(secret / "run.csv")
    (runs / "relative.csv").symlink_to("../secret/run.csv")
    (runs / "chain.csv").symlink_to("link.csv")
    (runs / "circle.csv").symlink_to("circle.csv")
    (runs / "folder").symlink_to(secret)
    (runs / "devices").symlink_to("/dev")
    (runs / "process").symlink_to("/proc/self")
    (runs / "inside.csv").symlink_to("run.csv")
    (runs / "inner" / "up").symlink_to("..")
    (runs / "plain").mkdir()
    shutil.copy(runs / "run.csv", runs / "plain" / "run.csv")
    os.mkfifo(runs / "fifo.csv")
    os.mkfifo(runs / "plain" / "fifo.csv")
    return place


@pytest.fixture(scope="module")
def agent(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversation]:
    with talking(place / "runs", log=tmp_path_factory.mktemp("log") / "stderr.txt") as made:
        yield made


NAMES = [
    "../secret/run.csv",
    "runs/../../secret/run.csv",
    "runs/../../runs/run.csv",
    "..",
    "runs/..",
    "./../secret/run.csv",
    "..\\secret\\run.csv",
    "{place}/secret/run.csv",
    "{place}/runs/../secret/run.csv",
    "{place}/runs-other/run.csv",
    "../runs-other/run.csv",
    "/etc/passwd",
    "/proc/self/environ",
    "/proc/self/fd/0",
    "/dev/zero",
    "/dev/stdin",
    "//etc/passwd",
    "~",
    "~/run.csv",
    "~root/.bashrc",
    "s3://bucket/run.csv",
    "http://127.0.0.1:9/run.csv",
    "file:///etc/passwd",
    "memory://x",
    "link.csv",
    "runs/link.csv",
    "relative.csv",
    "chain.csv",
    "circle.csv",
    "folder",
    "folder/run.csv",
    "runs/folder/run.csv",
    "devices/zero",
    "process/environ",
    "fifo.csv",
    "name=/etc/passwd",
    "x={place}/secret/run.csv",
    "-",
    "*",
    "runs/*.csv",
    "run.csv\0.txt",
    "\0",
    " ",
    "a" * 5000,
    "run.csv/../../secret/run.csv",
    "\ud800",
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:40])
def test_a_name_leads_to_nothing_outside(agent: Conversation, place: Path, name: str) -> None:
    name = name.format(place=place)
    if "\ud800" in name:
        with pytest.raises(TracekitError):
            profile_folders([place / "runs"]).path_of(name)
        return
    for tool, given in {
        "summary": {"profile": name},
        "query": {"profiles": ["run.csv", name], "sql": "SELECT name FROM events"},
        "compare": {"base": "run.csv", "new": name},
        "profiles": {"folder": name},
    }.items():
        text = agent.error(tool, **given)
        assert SECRET not in text
        assert "root:" not in text


def test_the_same_sentence_whether_a_file_outside_exists_or_not(agent: Conversation, place: Path) -> None:
    there = agent.error("summary", profile=f"{place}/secret/run.csv")
    gone = agent.error("summary", profile=f"{place}/secret/nothing.csv")
    assert there == gone.replace("nothing.csv", "run.csv")


@pytest.mark.parametrize("name", ["run.csv", "runs/run.csv", "{place}/runs/run.csv", "inside.csv", "./run.csv"])
def test_a_name_inside_is_read_however_it_is_written(agent: Conversation, place: Path, name: str) -> None:
    assert agent.answer("summary", profile=name.format(place=place))["headline"]


def test_links_that_lead_out_are_not_listed(agent: Conversation) -> None:
    names = {each["name"] for each in agent.answer("profiles")["profiles"]}
    assert names >= {"runs/inside.csv", "runs/plain/run.csv", "runs/run.csv"}
    outside = ("link", "relative", "chain", "circle", "folder", "devices", "process", "fifo")
    assert [name for name in names if any(word in name for word in outside)] == []


def test_a_folder_with_a_link_that_leads_out_is_refused_as_one_profile(agent: Conversation) -> None:
    assert "is a link that leads out" in agent.error("summary", profile="runs")
    assert agent.answer("summary", profile="runs/plain")["headline"], "a FIFO in it is skipped"


def test_an_archive_that_holds_a_link_is_refused(agent: Conversation, place: Path) -> None:
    day = place / "runs" / "archive" / "events" / "date=2026-01-01"
    day.mkdir(parents=True)
    (day / "entry.parquet").symlink_to(place / "secret" / "run.csv")
    for selector in ("", ":", ":tag", ":run=x", ":../secret"):
        agent.error("compare", base=f"archive{selector}", new="run.csv")
    agent.error("query", profiles="archive", sql="SELECT * FROM events")
    shutil.rmtree(place / "runs" / "archive")


def test_a_session_that_names_a_link_does_not_open_it(agent: Conversation, place: Path) -> None:
    shutil.copy(sample("nvprof-sqlite/version-11-markers.nvprof"), place / "secret" / "other.nvprof")
    (place / "runs" / "inner" / "other.nvprof").symlink_to(place / "secret" / "other.nvprof")
    (place / "runs" / "inner" / "session.nvvp").write_text(
        '<?xml version="1.0"?><session version="2"><data path="/a/other.nvprof"/>'
        '<data path="../../secret/other.nvprof"/></session>'
    )
    agent.error("summary", profile="inner/session.nvvp")
    (place / "runs" / "inner" / "other.nvprof").unlink()


def test_an_export_with_a_table_that_is_a_link_is_refused(agent: Conversation, place: Path) -> None:
    """All tables of an export in a folder are read where one of them is named."""
    arrow_exports.folder(sample("nsys-sqlite/two-processes.sqlite"), place / "runs" / "export" / "run_pqtdir")
    name = "export/run_pqtdir/StringIds.parquet"
    agent.answer("summary", profile=name)
    table = place / "runs" / "export" / "run_pqtdir" / "NVTX_EVENTS.parquet"
    table.rename(place / "secret" / "NVTX_EVENTS.parquet")
    table.symlink_to(place / "secret" / "NVTX_EVENTS.parquet")
    assert "is a link that leads out" in agent.error("summary", profile=name)
    shutil.rmtree(place / "runs" / "export")


def test_a_database_whose_log_is_a_link_is_refused(agent: Conversation, place: Path) -> None:
    shutil.copy(sample("nsys-sqlite/two-processes.sqlite"), place / "runs" / "db.sqlite")
    (place / "secret" / "wal").write_bytes(b"x" * 100)
    for end in ("-wal", "-journal", "-shm"):
        (place / "runs" / f"db.sqlite{end}").symlink_to(place / "secret" / "wal")
        assert "is a link that leads out" in agent.error("summary", profile="db.sqlite")
        (place / "runs" / f"db.sqlite{end}").unlink()
    assert agent.answer("summary", profile="db.sqlite")["headline"]


def test_a_database_with_a_view_of_another_file_gives_nothing_of_it(agent: Conversation, place: Path) -> None:
    path = place / "runs" / "trick.sqlite"
    shutil.copy(sample("nsys-sqlite/two-processes.sqlite"), path)
    with sqlite3.connect(path) as base:
        base.execute("PRAGMA writable_schema = on")
        base.execute(
            "INSERT INTO sqlite_master VALUES ('view', 'StringIds2', 'StringIds2', 0, "
            f"'CREATE VIEW StringIds2 AS SELECT readfile(''{place}/secret/run.csv'')')"
        )
    result = agent.call("summary", profile="trick.sqlite")
    assert SECRET not in result.content[0].text
    path.unlink()


def test_an_archive_member_with_a_path_out_writes_and_reads_nothing_there(agent: Conversation, place: Path) -> None:
    with zipfile.ZipFile(place / "runs" / "packed.zip", "w") as packed:
        packed.write(place / "runs" / "run.csv", "../../secret/planted.csv")
        packed.write(place / "runs" / "run.csv", "/etc/run.csv")
    agent.call("summary", profile="packed.zip")
    assert not (place / "secret" / "planted.csv").exists()
    (place / "runs" / "packed.zip").unlink()


def test_a_bomb_is_cut_by_the_usual_limit(agent: Conversation, place: Path) -> None:
    with gzip.open(place / "runs" / "bomb.csv.gz", "wb", compresslevel=9) as file:
        file.write(sample("nvprof-csv/gpu-and-api-trace.csv").read_bytes())
        for _ in range(300):
            file.write(b"x" * (1 << 20) + b"\n")
    text = agent.call("summary", profile="bomb.csv.gz").content[0].text
    assert "max-read-bytes allows more" in text
    (place / "runs" / "bomb.csv.gz").unlink()


SQL = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_csv_auto('{file}')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_json('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM '{file}'",
    'FROM "{file}"',
    "SELECT * FROM 's3://bucket/run.parquet'",
    "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
    "SELECT * FROM sqlite_scan('{file}', 'x')",
    "SELECT * FROM query('SELECT * FROM read_csv(''{file}'')')",
    "SELECT * FROM (SELECT unnest(['{file}']) f), LATERAL (SELECT * FROM read_text(f))",
    "ATTACH '{file}' AS other",
    "ATTACH '{folder}/new.db'",
    "COPY events TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/all'",
    "IMPORT DATABASE '{folder}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{file}'",
    "FORCE INSTALL httpfs FROM community",
    "PRAGMA database_list",
    "PRAGMA enable_external_access = true",
    "SET enable_external_access = true",
    "SET temp_directory = '{folder}'",
    "RESET enable_external_access",
    "CREATE TABLE t AS SELECT 1",
    "CREATE SECRET s (TYPE s3)",
    "DROP VIEW events",
    "DELETE FROM events",
    "CALL pragma_version()",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY events TO '{folder}/out.csv'",
    "EXPLAIN ANALYZE SELECT * FROM read_csv('{file}')",
    "WITH x AS (SELECT * FROM read_csv('{file}')) SELECT * FROM x",
    "SELECT (SELECT content FROM read_text('{file}'))",
    "SELECT getenv('HOME')",
    "SELECT * FROM which_secret('s3://x', 's3')",
]


@pytest.mark.parametrize("sql", SQL, ids=lambda sql: sql[:40])
def test_sql_reads_nothing_but_the_two_views(agent: Conversation, place: Path, sql: str) -> None:
    before = sorted((place / "secret").iterdir())
    sql = sql.format(file=place / "secret" / "run.csv", folder=place / "secret")
    result = agent.call("query", profiles="run.csv", sql=sql)
    assert SECRET not in result.content[0].text.replace(sql, "")
    assert sorted((place / "secret").iterdir()) == before
    if "which_secret" not in sql:  # no file and no secret: an empty answer is right too
        assert result.is_error, result.content[0].text
        assert result.content[0].text.startswith("error: ")


def test_the_folder_is_as_it_was(agent: Conversation, place: Path) -> None:
    def state() -> list[tuple[str, int]]:
        return sorted((str(path), path.lstat().st_mtime_ns) for path in (place / "runs").rglob("*"))

    before = state()
    agent.answer("summary", profile="run.csv")
    agent.answer("query", profiles="run.csv", sql="SELECT * FROM events ORDER BY name")
    agent.answer("compare", base="run.csv", new="plain/run.csv")
    agent.answer("profiles")
    assert state() == before


def test_two_folders_of_one_name_keep_their_files_apart(tmp_path: Path) -> None:
    for parent in "ab":
        (tmp_path / parent / "runs").mkdir(parents=True)
        (tmp_path / parent / "runs" / f"{parent}.csv").write_text("x")
    folders = profile_folders([tmp_path / "a" / "runs", tmp_path / "b" / "runs", tmp_path / "a" / "runs"])
    assert list(folders.by_label) == ["runs", "runs-2"]
    assert [folders.name_of(path) for path in folders.files()] == ["runs/a.csv", "runs-2/b.csv"]
    assert folders.path_of("runs-2/b.csv") == folders.path_of("b.csv")


def test_a_folder_inside_another_is_listed_once(tmp_path: Path) -> None:
    (tmp_path / "runs" / "inner").mkdir(parents=True)
    (tmp_path / "runs" / "inner" / "a.csv").write_text("x")
    folders = profile_folders([tmp_path / "runs", tmp_path / "runs" / "inner"])
    assert isinstance(folders, ProfileFolders)
    assert len(list(folders.files())) == 1


FENCED = """
import json, os, sqlite3, socket, subprocess, sys, tempfile
from pathlib import Path
from tracekit.agents import fence
runs, scratch, secret = map(Path, sys.argv[1:4])
fence.put_up([runs], scratch)
tried = {
    "inside": lambda: (runs / "run.csv").read_text(),
    "scratch": lambda: (scratch / "new").write_text("x"),
    "a module": lambda: __import__("tracekit.views.tables.kernel"),
    "outside": lambda: (secret / "run.csv").read_text(),
    "by a link": lambda: (runs / "link.csv").read_text(),
    "bytes": lambda: open(os.fsencode(secret / "run.csv"), "rb"),
    "os.open": lambda: os.open(secret / "run.csv", os.O_RDONLY),
    "relative": lambda: (os.chdir(runs), open("../secret/run.csv")),
    "listing": lambda: os.listdir(secret),
    "scanning": lambda: list(os.scandir(secret)),
    "environment": lambda: open("/proc/self/environ"),
    "password": lambda: open("/etc/passwd"),
    "memory": lambda: open("/proc/self/mem"),
    "sqlite": lambda: sqlite3.connect(secret / "db.sqlite"),
    "sqlite by URI": lambda: sqlite3.connect(f"file://{secret}/db.sqlite?mode=ro", uri=True),
    "writing": lambda: (runs / "new").write_text("x"),
    "appending": lambda: open(runs / "run.csv", "a"),
    "removing": lambda: (runs / "run.csv").unlink(),
    "renaming": lambda: (runs / "run.csv").rename(scratch / "x"),
    "network": lambda: socket.create_connection(("127.0.0.1", 9)),
    "a program": lambda: subprocess.run(["/bin/cat", secret / "run.csv"], check=True),
    "a shell": lambda: os.system("true"),
}
found = {}
for name, work in tried.items():
    try:
        work()
        found[name] = "done"
    except PermissionError:
        found[name] = "refused"
print(json.dumps(found))
"""


def test_the_fence_refuses_what_a_library_opens_outside(place: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", FENCED, place / "runs", tmp_path, place / "secret"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    done_anyway = {name for name, what in found.items() if what == "done"}
    assert done_anyway == {"inside", "scratch", "a module"}
    assert (place / "runs" / "run.csv").exists()

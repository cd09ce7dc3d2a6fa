"""Bad input gets one sentence, a hint and exit code 1; nothing is half-written, and what was good is not lost."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from support import LONG_S, files_limited, run_command, sample, wait_until
from typer.testing import Result

GOOD = sample("nvprof-csv/gpu-trace-20-columns.csv")
HEADER = b'"Start","Duration","Grid X","Device","Context","Stream","Name"\n'


run = functools.partial(run_command, code=None)


def refused(result: Result, *fragments: str) -> None:
    lines = result.stderr.strip().splitlines()
    assert result.exit_code == 1, (result.stdout, result.stderr)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert any(line.startswith("error: ") for line in lines)
    assert any(line.startswith("hint: ") for line in lines), lines
    for fragment in fragments:
        assert fragment in result.stderr


def left(folder: Path, *names: str) -> None:
    assert sorted(p.name for p in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize(
    ("name", "data", "fragment"),
    [
        ("empty", b"", "the file is empty"),
        ("binary", bytes(range(256)) * 40, "a binary file"),
        ("x.nvvp", b'<?xml version="1.0"?>\n<session version="2">\n</session>', "Visual Profiler session in XML"),
        ("run.nsys-rep", b"\x00\x01binary", "nsys export --type sqlite"),
        ("run.qdrep", b"\x00\x01binary", "nsys export --type sqlite"),
        ("table.csv", b"a,b,c\n1,2,3\n", "text that begins with 'a,b,c'"),
        ("line100", b"x" * (100 << 20), "not a known profile format"),
        ("zip", b"PK\x03\x04aaaa", "zip archive"),
        ("no_duration.csv", b'"Start","Grid X","Device","Stream","Name"\nms,,,,\n1.0,,"GPU (0)","7","k"\n', "Duration"),
    ],
)
def test_what_is_no_trace(name: str, data: bytes, fragment: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    refused(run("convert", tmp_path / name, "-o", tmp_path / "out.json"), fragment)
    left(tmp_path, name)


@pytest.mark.parametrize("more", [b"", b"ms,us,,,,,\n", b'ms,us,,,,,\n-1.0,2.0,1,"GPU (0)","1","7","k"\n'])
def test_a_header_without_a_row_that_can_be_read(more: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(HEADER + more)
    refused(run("convert", path, "-o", tmp_path / "out.json"), "no record" if b"-1" in more else "header without rows")
    left(tmp_path, "x.csv")


def test_a_run_without_kernels_is_written_and_named(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(
        "==1== NVPROF is profiling process 1, command: x\n==1== Profiling result:\nNo kernels were profiled.\n"
    )
    result = run("convert", path, "-o", tmp_path / "out.json")
    assert result.exit_code == 1, result.stderr
    assert "error: " in result.stderr
    assert "x.log: no events in it" in result.stderr
    assert orjson.loads((tmp_path / "out.json").read_bytes())["traceEvents"] == []


def test_negative_and_absurd_times_cost_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = [
        b"1.0,2.0",
        b"-1.0,2.0",
        b"2.0,-2.0",
        b"1e30,2.0",
        b"3.0,nan",
        b"4.0,inf",
        b"5.0,99999999999999999999",
        b"6.0,1.0",
    ]
    path.write_bytes(HEADER + b"ms,us,,,,,\n" + b"".join(r + b',1,"GPU (0)","1","7","k"\n' for r in rows))
    result = run("inspect", path, "--format", "json")
    assert result.exit_code == 1, result.stderr
    assert orjson.loads(result.stdout)["incomplete"][0].startswith("INCOMPLETE: 6 of 8 records")
    found = orjson.loads(result.stdout)["inputs"][0]
    assert found["events"] == 2
    assert sum(found["ledger"]["dropped"].values()) == 6


def test_bytes_that_are_not_utf8_are_kept_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(HEADER + b'ms,us,,,,,\n1.0,2.0,1,"GPU (0)","1","7","k\xff\xfe(int)"\n')
    result = run("convert", path, "-o", tmp_path / "out.json")
    assert result.exit_code == 0, result.stderr
    assert "not UTF-8" in result.stderr
    assert "k\ufffd\ufffd(int)" in (tmp_path / "out.json").read_text(encoding="utf-8")
    refused(run("convert", path, "-o", tmp_path / "other.json", "--strict"), "not UTF-8")
    left(tmp_path, "x.csv", "out.json")


def test_an_empty_folder_and_a_pattern_without_files(tmp_path: Path) -> None:
    refused(run("summary", tmp_path), "no file in this folder")
    refused(run("summary", tmp_path / "*.csv"), "no file matches")
    refused(run("summary", tmp_path / "nothing.csv"), "no such file")


def test_one_bad_file_among_fifty(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for number in range(49):
        (folder / f"{number:02}.csv").write_bytes(GOOD.read_bytes())
    bad = folder / "bad.csv"
    bad.write_bytes(HEADER.replace(b'"Duration",', b""))
    result = run("convert", *sorted(folder.iterdir()), "-o", tmp_path / "out.json")
    refused(result, "bad.csv")
    assert f"wrote {tmp_path / 'out.json'}: {49 * 61:,} events" in result.stderr.replace("\n", "")
    refused(run("convert", *sorted(folder.iterdir()), "-o", f"{tmp_path}/each/"), "bad.csv")
    assert len(list((tmp_path / "each").iterdir())) == 49


def test_all_bad_names_each(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"")
    refused(
        run("summary", tmp_path / "a", tmp_path / "b"), f"{tmp_path / 'a'}: ", f"{tmp_path / 'b'}: ", "none of the 2"
    )


def test_an_output_that_exists_needs_force(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("precious")
    refused(run("convert", GOOD, "-o", out), "exists already", "--force")
    assert out.read_text() == "precious"
    refused(run("report", GOOD, "-o", out), "exists already")
    assert run("convert", GOOD, "-o", out, "--force").exit_code == 0
    assert out.read_bytes().startswith(b"{")


def test_no_such_output_folder(tmp_path: Path) -> None:
    refused(run("convert", GOOD, "-o", tmp_path / "no" / "out.json"), "no such folder")
    refused(run("report", GOOD, "-o", tmp_path / "no" / "out.html"), "no such folder")
    refused(
        run("convert", GOOD, "-o", "s3://bucket/a/out.json"), "s3://bucket/a/out.json: a URL, but an output is a file"
    )


def as_a_plain_user(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, in which root has no privileges over files."""

    def prepare() -> None:
        if os.geteuid() == 0:
            drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2
            for capability in (dac_override, dac_read_search):
                ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)

    command = [sys.executable, "-m", "tracekit", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, preexec_fn=prepare, check=False)


def test_no_permission(tmp_path: Path) -> None:
    path, out = tmp_path / "secret.csv", tmp_path / "out"
    path.write_bytes(GOOD.read_bytes())
    path.chmod(0)
    done = as_a_plain_user("summary", path)
    assert (done.returncode, "no permission to read" in done.stderr) == (1, True), done.stderr
    path.chmod(0o644)
    out.mkdir()
    out.chmod(0o555)
    done = as_a_plain_user("convert", path, "-o", out / "x.json")
    assert (done.returncode, "no permission to write" in done.stderr) == (1, True), done.stderr
    left(out)


@pytest.mark.parametrize("name", ["out.json", "out.json.gz", "out.parquet", "out.jsonl", "out.csv"])
def test_a_full_disk_leaves_the_old_output(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    out.write_text("precious")
    with files_limited(100):
        done = run("convert", GOOD, "-o", out, "--force")
    refused(done)
    assert done.stderr.startswith("error: ")
    assert out.read_text() == "precious"
    left(tmp_path, name)


@pytest.mark.parametrize(
    "words",
    [
        f"convert {GOOD} -o x.nonsense", f"convert {GOOD} -o x.json --to nonsense", f"convert {GOOD}",
        f"convert {GOOD} -o -", f"convert {GOOD} -o x.json --for netscape", f"summary {GOOD} --view nonsense",
        f"summary {GOOD} --unit h", f"summary {GOOD} --kind nonsense", f"summary {GOOD} --format nonsense",
        f"summary {GOOD} --from nonsense", f"summary {GOOD} --time 5", f"summary {GOOD} --sort nonsense",
        f"summary {GOOD} --time 5:6", f"summary {GOOD} --min-dur 10", f"summary {GOOD} --option osrt=yes",
        f"summary {GOOD} --option x", f"summary {GOOD} {GOOD} --option x=y", "summary", f"inspect {GOOD} --format xml",
    ],
)  # fmt: skip
def test_a_wrong_word_is_exit_code_2(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words.split())
    assert result.exit_code == 2, result.stderr
    left(tmp_path)


def test_the_wrong_reader_says_what_it_misses(tmp_path: Path) -> None:
    refused(run("summary", GOOD, "--from", "parquet"))
    refused(run("summary", GOOD, "--from", "cuda-profile"))
    refused(run("summary", GOOD, "--from", "recorder-log"))


def test_totals_alone_make_no_timeline(tmp_path: Path) -> None:
    result = run("convert", sample("nvprof-csv/summary-new.csv"), "-o", tmp_path / "x.json")
    assert result.exit_code == 2
    assert "only totals" in result.stderr
    left(tmp_path)


def test_names_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(HEADER + b'ms,us,,,,,\n1.0,2.0,1,"GPU (0)","1","7","\x1b[31mred\x07"\n')
    result = run("summary", path)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "red" in result.stdout


@pytest.mark.parametrize("command", ["convert", "report"])
def test_an_input_is_never_replaced_by_its_output(command: str, tmp_path: Path) -> None:
    path, link = tmp_path / "x.csv", tmp_path / "link"
    path.write_bytes(GOOD.read_bytes())
    link.symlink_to(path)
    more = ["--to", "csv"] if command == "convert" else []
    for source, target in ((path, path), (link, path), (path, link)):
        refused(run(command, source, "-o", target, "--force", *more), "is an input itself")
    assert path.read_bytes() == GOOD.read_bytes()


def test_only_a_regular_file_is_replaced_and_a_link_keeps_being_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(run("convert", GOOD, "-o", tmp_path / "pipe", "--to", "jsonl", "--force"), "not a regular file")
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    assert run("convert", GOOD, "-o", link, "--force").exit_code == 0
    assert link.is_symlink()
    assert real.read_bytes().startswith(b"{")


def test_empty_names_and_closed_streams_and_names_that_are_no_text(tmp_path: Path) -> None:
    assert run("inspect", "").exit_code == 2
    assert run("convert", GOOD, "-o", "").exit_code == 2
    odd = tmp_path / os.fsdecode(b"n\xff.csv")
    odd.write_bytes(GOOD.read_bytes())
    assert b"n\xef\xbf\xbd.csv" in run("inspect", odd, "--format", "json").stdout.encode()
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        line = f"{sys.executable} -m tracekit convert {GOOD} -o {tmp_path}/out.json --force {closed}"
        assert subprocess.run(["bash", "-c", line], timeout=300, check=False).returncode == 0


def test_a_filter_that_leaves_nothing_says_where_the_events_are() -> None:
    result = run("inspect", sample("cuda-profile/kvp-timestamps.log"), "--time", "0:1s")
    assert "no event passes the filter: they start at 1432748269320664143 ns" in result.stdout


def test_sigterm_leaves_nothing_half_written(tmp_path: Path) -> None:
    import signal

    big = tmp_path / "big.csv"
    text = GOOD.read_bytes()
    head = b"".join(text.splitlines(keepends=True)[:5])  # preamble, header, units
    big.write_bytes(head + text[len(head) :] * 20_000)
    child = subprocess.Popen([sys.executable, "-m", "tracekit", "convert", str(big), "-o", str(tmp_path / "out.json")])
    wait_until(lambda: child.poll() is not None or bool(list(tmp_path.glob(".out.json*"))))
    child.send_signal(signal.SIGTERM)
    assert child.wait(300) in (128 + signal.SIGTERM, 0)
    assert not list(tmp_path.glob(".out.json*"))

"""The command doctor: its exit codes, its text at 80 columns, its JSON, and the files that --fix writes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from doctor_cases import CASES
from support import run_command, sample


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace with slices that cross, in the folder where the command runs."""
    path = tmp_path / "odd.json"
    path.write_bytes(CASES["overlap.json"][0])
    monkeypatch.chdir(tmp_path)
    return path


def test_a_file_without_defects_gives_0_and_one_with_defects_3(odd: Path) -> None:
    assert "no defects" in run_command("doctor", sample("nvprof-csv/gpu-trace-17-columns.csv")).output
    assert "Slices that cross: 1" in run_command("doctor", odd, code=3).output


def test_one_unreadable_file_of_several_gives_1_and_the_others_are_looked_at(odd: Path) -> None:
    bad = odd.with_name("bad.json")
    bad.write_text("no trace", encoding="utf-8")
    result = run_command("doctor", odd, bad, code=1)
    assert "Slices that cross" in result.stdout
    assert "bad.json" in result.stderr
    assert run_command("doctor", bad, code=1).stdout == ""


@pytest.mark.parametrize("words", [["--fix"], ["-o", "x.json"], ["--fix", "-o", "x.csv"], ["--format", "csv"]])
def test_wrong_words_are_refused_with_2(odd: Path, words: list[str]) -> None:
    result = run_command("doctor", odd, *words, code=2)
    assert result.stderr.startswith("error: ")
    assert sorted(path.name for path in odd.parent.iterdir()) == ["odd.json"]


def test_an_output_is_not_replaced_unasked_and_never_an_input(odd: Path) -> None:
    out = odd.with_name("out.json")
    out.write_text("mine", encoding="utf-8")
    run_command("doctor", odd, "--fix", "-o", out, code=1)
    assert out.read_text(encoding="utf-8") == "mine"
    run_command("doctor", odd, "--fix", "-o", out, "--force")
    assert "input itself" in run_command("doctor", odd, "--fix", "-o", odd, "--force", code=1).stderr
    assert odd.read_bytes() == CASES["overlap.json"][0]


def test_the_text_fits_80_columns(
    golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    events = json.loads(CASES["overlap.json"][0])["traceEvents"]
    more = json.loads(CASES["flow_unfinished.json"][0])["traceEvents"]
    for each in more:
        each["tid"] = "stream 7"
    Path("odd.json").write_text(json.dumps({"traceEvents": [*events, *more, {}]}), encoding="utf-8")
    text = run_command("doctor", "odd.json", code=3, width=80).stdout
    assert max(map(len, text.splitlines())) <= 80
    golden("doctor/text-80.txt", text)


def test_the_json_keeps_its_shape(golden: Callable[[str, str], None], odd: Path) -> None:
    found = json.loads(run_command("doctor", "odd.json", "--format", "json", code=3).stdout)
    found["tracekit"] = "VERSION"
    golden("doctor/odd.json", json.dumps(found, indent=1) + "\n")
    fixed = json.loads(run_command("doctor", "odd.json", "--fix", "-o", "out.json.gz", "--format", "json").stdout)[
        "fixed"
    ]
    assert fixed == {
        "input": "odd.json", "output": "out.json.gz", "ledger": "out.json.gz.ledger.jsonl", "read": 2, "kept": 1,
        "changed": 1, "merged": 0, "facts": 0, "ignored": {}, "dropped": {}, "changes": {"overlapping-slices": 1},
        "written": 2, "clean": True,
    }  # fmt: skip


def test_the_ledger_has_a_line_for_each_change(odd: Path) -> None:
    run_command("doctor", odd, "--fix", "-o", "out.pftrace", "--ledger", "changes.jsonl")
    lines = [json.loads(line) for line in Path("changes.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {
        "record": "event 2", "name": "b", "defect": "overlapping-slices", "change": "moved to an extra track"
    }  # fmt: skip
    assert lines[1]["summary"]["clean"] is None
    assert len(lines) == 2


def test_totals_alone_are_not_repaired_into_a_trace() -> None:
    result = run_command("doctor", sample("nvprof-csv/summary-new.csv"), "--fix", "-o", "never.json", code=2)
    assert "only totals" in result.stderr
    assert not Path("never.json").exists()


def test_a_credential_in_a_name_is_masked_everywhere(odd: Path) -> None:
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    odd.write_bytes(odd.read_bytes().replace(b'"b"', f'"{secret}"'.encode()))
    printed = run_command("doctor", odd, "--fix", "-o", "out.json").output
    printed += run_command("doctor", odd, "--format", "json", code=3).output
    files = Path("out.json").read_text(encoding="utf-8") + Path("out.json.ledger.jsonl").read_text(encoding="utf-8")
    assert secret not in printed + files
    assert "[masked]" in printed
    assert "[masked]" in files


_SECRETS = ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH")
_EVENT: dict[str, object] = {"ph": "X", "name": "a", "ts": 1, "dur": 1, "pid": 1, "tid": 1}


@pytest.mark.parametrize("secret", _SECRETS)
@pytest.mark.parametrize(
    "place",
    [
        "name",
        "args",
        "process name",
        "metadata",
        "unread metadata",
        "escaped",
        "unread and escaped",
        "beyond a block",
        "at an edge",
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".pftrace"])
def test_a_trace_without_defects_is_not_copied_with_its_credentials(
    tmp_path: Path, secret: str, place: str, suffix: str
) -> None:
    events, top = [dict(_EVENT)], dict[str, object]()
    match place:
        case "name":
            events[0]["name"] = secret
        case "args" | "escaped":
            events[0]["args"] = {"command": f"train {secret}"}
        case "process name":
            events.append({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": f"python {secret}"}})
        case "metadata":
            top["otherData"] = {"note": secret}
        case "unread metadata" | "unread and escaped":
            top["unheard of"] = [{"deep": [secret]}]
        case "beyond a block":
            top |= {"padding": "x " * (1 << 20), "note": secret}
        case _:  # the first block of the search ends in the middle of the secret
            top |= {"padding": "x" * ((1 << 20) - 40), "note": secret}
    text = json.dumps({**top, "traceEvents": events})
    if "escaped" in place:
        text = text.replace(secret, "".join(f"\\u{ord(each):04x}" for each in secret))
    path, out = tmp_path / "trace.json", tmp_path / f"out{suffix}"
    path.write_text(text, encoding="utf-8")
    printed = run_command("doctor", path, "--fix", "-o", out).stdout
    written = out.read_bytes()
    if suffix == ".json.gz":
        written = gzip.decompress(written)
    assert secret.encode() not in written
    assert secret not in printed + out.with_name(f"{out.name}.ledger.jsonl").read_text(encoding="utf-8")
    if suffix != ".pftrace":
        said = " ".join(printed.split())
        assert "credential" in said
        assert "no copy of the input" in said


def test_a_trace_without_credentials_is_still_copied_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps({"traceEvents": [{**_EVENT, "args": {"num_tokens": 512, "eos_token": "</s>"}}]}, indent=3)
    )
    printed = run_command("doctor", path, "--fix", "-o", tmp_path / "out.json").stdout
    assert (tmp_path / "out.json").read_bytes() == path.read_bytes()
    assert "credential" not in printed


def test_a_locale_that_a_table_does_not_decide_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    rows = "1234,5;2,5;cudaFree\n1.234,5;2,5;cudaFree\n1.234;2;cudaFree\n"
    preamble = "==1== NVPROF is profiling process 1, command: ./a\n==1== Profiling result:\n"
    path.write_text(f"{preamble}Start;Duration;Name\nus;us;\n{rows}", encoding="utf-8")
    output = run_command("doctor", path, code=3).output
    assert "Numbers of an unknown locale: 1" in output


def test_what_viewers_do_with_the_text_is_said_of_json_traces_alone(tmp_path: Path) -> None:
    text = sample("nvprof-csv/gpu-and-api-trace.csv").read_bytes()
    (tmp_path / "cut.csv").write_bytes(text[: len(text) // 2])
    said = run_command("doctor", tmp_path / "cut.csv", code=3).stdout
    assert "The file was cut" in said
    assert "refuses" not in said
    (tmp_path / "cut.json").write_text('{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":1,"pid":1,"tid":1},{"ph":"X"')
    assert "refuses an unfinished object" in " ".join(
        run_command("doctor", tmp_path / "cut.json", code=3).stdout.split()
    )

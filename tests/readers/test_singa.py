"""SINGA's time profiling: the documented output, samples, ranks that mix, numbers that are none, damage."""

from __future__ import annotations

import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SAMPLES, corpus, sample

import tracekit
from tracekit.errors import ParseError, TracekitError
from tracekit.formats import READERS
from tracekit.model.trace import Trace
from tracekit.profiler import singa
from tracekit.readers.base import Confidence
from tracekit.readers.head import Head

Row = dict[str, Any]
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected_printed_profiles.json").read_text("utf-8"))
SAMPLE_NAMES = [n for n in EXPECTED if n.startswith("singa/")]


def read(path: Path, text: str | bytes, **options: Any) -> Trace:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tracekit.read(path, **options)


def rows_of(trace: Trace, section: str = "Operators") -> list[Row]:
    return [r for r in trace.totals.to_pylist() if r["section"] == section]


@pytest.mark.corpus
def test_the_documented_operators_have_their_exact_times() -> None:
    path = corpus("singa/docs_en_verbosity2.txt")
    trace = tracekit.read(path)
    rows = rows_of(trace)
    lines = [line.split(" : ") for line in path.read_text("utf-8").splitlines() if line.startswith("OP_ID")]
    printed = [Decimal(time.removesuffix(" sec")) for _, time in lines]
    assert len(rows) == 101
    assert sum(printed) == Decimal("0.02351818272")
    assert [r["avg_ns"] for r in rows] == [float(time * 10**9) for time in printed]
    assert all(abs(r["total_ns"] - time * 10**9) <= Decimal("0.5") for r, time in zip(rows, printed, strict=True))
    assert abs(sum(r["total_ns"] for r in rows) - sum(printed) * 10**9) < 20
    assert [f"OP_ID{json.loads(r['args'])['op_id']}. {r['name']}" for r in rows] == [name for name, _ in lines]
    assert {(r["kind"], r["calls"], r["run"]) for r in rows} == {("operator", 1, 0)}
    ledger = trace.ledgers[0]
    assert (ledger.read, ledger.kept, ledger.ignored) == (105, 101, {"headings": 1, "dots": 3})
    assert set(ledger.notes) == {"divided-by-all", "list-cut"}


@pytest.mark.corpus
def test_the_documented_passes_have_their_exact_times() -> None:
    trace = tracekit.read(corpus("singa/docs_en_verbosity1.txt"))
    assert [(r["name"], r["kind"], r["total_ns"], r["avg_ns"]) for r in rows_of(trace, "Propagation")] == [
        ("Forward Propagation", "forward", 40912700, 40912700.0),
        ("Backward Propagation", "backward", 114813000, 114813000.0),
    ]
    assert [r["value_text"] for r in rows_of(trace, "header")] == ["1"]
    assert not trace.ledgers[0].notes


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_sample_gives_what_was_written(name: str) -> None:
    rows = [r for r in tracekit.read(sample(name)).totals.to_pylist() if r["section"] != "header"]
    assert len(rows) == EXPECTED[name]["rows"]
    # each time was rounded to ns by the generator as well; a half may go either way
    assert abs(sum(r["total_ns"] for r in rows) - EXPECTED[name]["total_ns"]) <= 1
    assert sum(r["avg_ns"] for r in rows) == pytest.approx(EXPECTED[name]["total_ns"], abs=len(rows) / 2)


def test_two_ranks_that_alternate_are_two_runs() -> None:
    trace = tracekit.read(sample("singa/verbosity-3-two-ranks.txt"))
    rows = rows_of(trace)
    assert {(r["run"], r["rank"]) for r in rows} == {(0, 0), (1, 1)}
    assert {r["kind"] for r in rows} == {"communication"}
    assert [(r["rank"], r["value_text"]) for r in rows_of(trace, "header")] == [(0, "2 or 3"), (1, "2 or 3")]
    assert "interleaved-blocks" not in trace.ledgers[0].notes


def test_what_our_own_face_prints_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = singa.create_cpu()
    device.SetVerbosity(2)
    device.SetSkipIteration(1)
    for _ in range(3):
        with device.graph():
            for name in ("Add", "ReLU", "ReLU", "ReLUBackward"):
                with device.op(name):
                    sum(range(100))
    device.PrintTimeProfiling()
    rows = rows_of(read(tmp_path / "x", capsys.readouterr().out))
    assert [r["name"] for r in rows] == ["Add", "ReLU", "ReLU", "ReLUBackward"]
    assert all(r["total_ns"] > 0 for r in rows)


OURS = "Time Profiling:\ntracekit: 1 of 6 iterations measured, operators divided by {}\nOP_ID0. A : 0.010148 sec\n"


@pytest.mark.parametrize("divisor", [1, 6])
def test_a_profile_that_names_its_divisor_is_not_guessed_about(divisor: int, tmp_path: Path) -> None:
    trace = read(tmp_path / "x", OURS.format(divisor))
    assert not trace.ledgers[0].notes
    assert trace.ledgers[0].facts == 1
    [header] = rows_of(trace, "header")
    assert json.loads(header["args"]) == {"measured": 1, "iterations": 6, "divisor": divisor}


def test_only_the_profiles_that_do_not_name_their_divisor_are_doubted(tmp_path: Path) -> None:
    singas = "Time Profiling:\nOP_ID0. A : 0.010148 sec\n"
    trace = read(tmp_path / "x", OURS.format(1) + "epoch 2\n" + singas)
    assert trace.ledgers[0].notes["divided-by-all"].places == ["line 6"]
    assert [row["args"] is None for row in rows_of(trace, "header")] == [False, True]


@pytest.mark.parametrize("tag", ["[1,{}]<stdout>:", "{}: "])
def test_each_rank_names_its_own_divisor(tag: str, tmp_path: Path) -> None:
    lines = [tag.format(rank) + line for line in OURS.format(1).splitlines() for rank in (0, 1)]
    trace = read(tmp_path / "x", "\n".join([*lines, ""]))
    assert not trace.ledgers[0].notes
    assert [(row["rank"], json.loads(row["args"])["divisor"]) for row in rows_of(trace, "header")] == [(0, 1), (1, 1)]


def test_untagged_profiles_that_mix_keep_their_divisors(tmp_path: Path) -> None:
    lines = [line for line in OURS.format(1).splitlines() for _ in range(2)]
    trace = read(tmp_path / "x", "\n".join([*lines, ""]))
    assert [json.loads(row["args"])["divisor"] for row in rows_of(trace, "header")] == [1, 1]
    assert "divided-by-all" not in trace.ledgers[0].notes


@pytest.mark.parametrize("line", ["7 of 6 iterations measured, operators divided by 7",
                                  "0 of 6 iterations measured, operators divided by 0",
                                  "1 of 6 iterations measured, operators divided by 5",
                                  "1 of 6 iterations measured"])  # fmt: skip
def test_a_divisor_that_cannot_be_is_none(line: str, tmp_path: Path) -> None:
    trace = read(tmp_path / "x", f"Time Profiling:\ntracekit: {line}\nOP_ID0. A : 0.010148 sec\n")
    (ledger,) = trace.ledgers
    assert "divided-by-all" in ledger.notes
    assert (ledger.facts, ledger.ignored["other output"]) == (0, 1)
    assert rows_of(trace, "header")[0]["args"] is None


def test_blocks_after_one_another_are_runs_of_their_own(tmp_path: Path) -> None:
    one = "Time Profiling:\nOP_ID0. A : 1e-06 sec\nOP_ID7. B : 2e-06 sec\n"
    trace = read(tmp_path / "x", one + "epoch 2\n" + one + "OP_ID9. C : 3e-06 sec\n")
    assert [(r["run"], r["name"], r["total_ns"]) for r in rows_of(trace)] == [
        (0, "A", 1000), (0, "B", 2000), (1, "A", 1000), (1, "B", 2000), (1, "C", 3000),
    ]  # fmt: skip
    assert "interleaved-blocks" not in trace.ledgers[0].notes


def test_blocks_that_mix_are_told_apart_by_rising_numbers_with_a_note(tmp_path: Path) -> None:
    lines = [f"OP_ID{n}. A : {rank + 1}e-06 sec" for n in (0, 2, 5) for rank in (0, 1)]
    trace = read(tmp_path / "x", "\n".join(["Time Profiling:", "Time Profiling:", *lines, ""]))
    assert [(r["run"], r["total_ns"]) for r in rows_of(trace)] == [(0, 1000), (1, 2000)] * 3
    assert "interleaved-blocks" in trace.ledgers[0].notes


def test_passes_that_mix_are_two_runs(tmp_path: Path) -> None:
    lines = [f"{way} Propagation Time : 0.{rank} sec" for way in ("Forward", "Backward") for rank in (1, 2)]
    trace = read(tmp_path / "x", "\n".join(["Time Profiling:", "Time Profiling:", *lines, ""]))
    assert [(r["run"], r["total_ns"]) for r in rows_of(trace, "Propagation")] == [
        (0, 10**8), (1, 2 * 10**8), (0, 10**8), (1, 2 * 10**8),
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["inf", "-nan", "nan"])
def test_a_division_by_zero_is_no_time(word: str, tmp_path: Path) -> None:
    trace = read(tmp_path / "x", f"Time Profiling:\nForward Propagation Time : {word} sec\n")
    assert [(r["total_ns"], r["value_text"]) for r in rows_of(trace, "Propagation")] == [(None, word)]
    assert trace.ledgers[0].notes["no-iteration"].count == 1


def test_a_backward_pass_may_be_below_zero(tmp_path: Path) -> None:
    trace = read(tmp_path / "x", "Time Profiling:\nBackward Propagation Time : -1.5e-06 sec\n")
    assert rows_of(trace, "Propagation")[0]["total_ns"] == -1500


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("OP_ID1. A : 1e-06 se", "torn-row"),
        ("OP_ID1. A : 1.2.3 sec\n", "bad-row"),
        ("OP_ID1. A : 1e99 sec\n", "bad-time"),
    ],
)
def test_a_damaged_line_costs_that_line(line: str, reason: str, tmp_path: Path) -> None:
    trace = read(tmp_path / "x", "Time Profiling:\nOP_ID0. A B : 1e-06 sec\n" + line)
    assert [r["name"] for r in rows_of(trace)] == ["A B"]
    assert trace.ledgers[0].dropped == {reason: 1}


def test_a_heading_without_rows_gives_none_and_a_note(tmp_path: Path) -> None:
    trace = read(tmp_path / "x", "loss 3\n\nTime Profiling:\n")
    assert trace.totals.num_rows == 0
    assert "no-rows" in trace.ledgers[0].notes


def test_sniffing_goes_by_whole_lines() -> None:
    sniff = READERS["singa"].sniff
    assert sniff(Head("x", b"Time Profiling:\nOP_ID0. A : 1e-06 sec\n")) is Confidence.YES
    assert sniff(Head("x", b"  * `Time Profiling:`\n  * OP_ID0\n")) is Confidence.NO
    assert sniff(Head("x", b"Time Profiling:\n")) is Confidence.MAYBE
    assert sniff(Head("x.sqlite", b"Time Profiling:\n", tables=frozenset({"a"}))) is Confidence.NO


def test_other_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="Time Profiling"):
        read(tmp_path / "x", "nothing\n", format="singa")


PLAIN = "epoch 3\n\nTime Profiling:\nOP_ID0. Add : 0.5 sec\nOP_ID4. Mul : 2.5e-05 sec\n"


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("> ", None), ("I0101 12:00:00.123456  4515 scheduler.cc:123] ", None), ("[1,3]<stdout>:", 3),
        ("2020-06-02 10:11:12,123 INFO train: ", None), ("7: ", 7), ("worker_1  | ", None), ("> [1,2]<stdout>:", 2),
        ("\x1b[36mweb_1 |\x1b[0m ", None),
    ],
)  # fmt: skip
def test_what_other_tools_put_before_a_row_does_not_hinder(prefix: str, rank: int | None, tmp_path: Path) -> None:
    text = "".join(prefix + line for line in PLAIN.splitlines(keepends=True))
    assert READERS["singa"].sniff(Head("x", text.encode())) is Confidence.YES
    trace = read(tmp_path / "x", text)
    assert [(r["run"], r["name"], r["total_ns"], r["rank"]) for r in rows_of(trace)] == [
        (0, "Add", 500000000, rank), (0, "Mul", 25000, rank),
    ]  # fmt: skip
    trace.ledgers[0].check()


def test_a_line_with_two_rows_is_not_one_row_with_a_long_name(tmp_path: Path) -> None:
    trace = read(tmp_path / "x", PLAIN + "OP_ID5. A : 1 secOP_ID6. B : 2 sec\n")
    assert [r["name"] for r in rows_of(trace)] == ["Add", "Mul"]
    assert trace.ledgers[0].dropped == {"bad-row": 1}


LINES = st.sampled_from(
    [
        "Time Profiling:",
        "bar\rTime Profiling:",
        "OP_ID0. A : 1e-06 sec",
        "OP_ID3. Dist_A : 2e-06 sec",
        "OP_ID2. B : inf sec",
        "Forward Propagation Time : 1 sec",
        "Backward Propagation Time : 2 sec",
        "[1,0]<stdout>:Time Profiling:",
        ".",
        "[1,3]<stderr>:OP_ID1. C : 1 sec",
        "OP_ID99999999999999999999. A : 1 sec",
        "OP_ID1. : sec",
        "",
        "epoch 2",
    ]
)


@given(st.lists(st.one_of(LINES, st.text(max_size=20)), max_size=60), st.sampled_from(["\n", "\r\n"]))
def test_any_mixture_of_lines_is_read_or_refused_kindly(lines: list[str], end: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            trace = read(Path(folder) / "x", end.join(lines).encode("utf-8", "surrogatepass"), format="singa")
        except TracekitError:
            return
    ledger = trace.ledgers[0]
    ledger.check()
    rows = trace.totals.to_pylist()
    assert len([r for r in rows if r["section"] != "header"]) == ledger.kept
    verbose = [r["run"] for r in rows if r["section"] == "header"]
    assert sorted(verbose) == sorted({r["run"] for r in rows})

"""Theano's profiles: real ones and samples, where the tables rebuild what is printed beside them, and damage."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SAMPLES, corpus, corpus_root, sample

import tracekit
from tracekit.errors import ParseError, TracekitError, UnknownFormatError
from tracekit.formats import READERS
from tracekit.model.trace import Trace
from tracekit.readers.base import Confidence
from tracekit.readers.head import Head
from tracekit.readers.sniff import votes
from tracekit.readers.source import open_source

Row = dict[str, Any]
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected_printed_profiles.json").read_text("utf-8"))
REAL = (
    "theano/profiling_example_out.prof", "theano/pytensor_3.0.7_cvm.txt",
    "theano/pytensor_3.0.7_numba_no_thunk_times.txt", "theano/theano_1.0.5_full.txt",
    "theano/theano_pymc_1.1.2_memory.txt", "generated/theano/theano_train.txt",
    "generated/pytensor/pytensor_cvm.txt", "generated/pytensor/pytensor_py.txt",
)  # fmt: skip
TABLES = ("Class", "Ops", "Apply")
PREFIXES = ("Sum of all: ", "Scan Op: ")
BLOCK = """Function profiling
==================
  Message: f
  Time in 2 calls to Function.__call__: 2.000000e-03s
  Time in Function.fn.__call__: 1.500000e-03s (75.000%)
  Time in thunks: 1.000000e-03s (50.000%)
  Total compile time: 1.000000e+00s

Class
---
<% time> <sum %> <apply time> <time per call> <type> <#call> <#apply> <Class name>
  60.0%    60.0%       0.001s       3.00e-04s     Py       2       1   theano.tensor.blas.Gemv
   ... (remaining 1 Classes account for  40.00%(0.00s) of the runtime)
"""


def read(path: Path, text: str | bytes, **options: Any) -> Trace:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tracekit.read(path, **options)


def rows_of(trace: Trace) -> list[Row]:
    rows = trace.totals.to_pylist()
    for row in rows:
        row["args"] = json.loads(row["args"] or "{}")
    return rows


def plain(section: str) -> str:
    for prefix in PREFIXES:
        section = section.removeprefix(prefix)
    return section


def head(rows: list[Row], run: int, name: str) -> Row | None:
    return next((r for r in rows if (r["run"], r["section"], r["name"]) == (run, "header", name)), None)


def step_ns(text: str) -> Decimal:
    """Half of the last printed digit of a time in s, in ns."""
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(1).scaleb(exponent + 9) / 2


ROW = re.compile(r"^\s*[\d.]+%\s+[\d.]+%\s+([\d.]+)s\s+(\S+)s\s+(?:(?:C|Py|C Py|PyC)\s+)?(\d+)\s+\d+\s+(\S.*)$")


def printed_rows(path: Path) -> list[tuple[str, str, int]]:
    """(apply time, time per call, calls) of each row, found without the reader."""
    found = []
    for line in path.read_text("utf-8").splitlines():
        match = ROW.match(line)
        if match:
            found.append((match[1], match[2], int(match[3])))
    return found


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_every_time_of_a_real_table_rounds_to_what_is_printed(name: str) -> None:
    rows = [r for r in rows_of(tracekit.read(corpus(name))) if plain(r["section"]) in TABLES and r["calls"]]
    printed = printed_rows(corpus(name))
    assert len(rows) == len(printed)
    for row, (total, each, calls) in zip(rows, printed, strict=True):
        assert row["calls"] == calls
        assert row["avg_ns"] == float(Decimal(each) * 10**9)
        assert abs(row["total_ns"] - Decimal(total) * 10**9) <= step_ns(total)
        assert abs(row["total_ns"] - Decimal(each) * 10**9 * calls) <= step_ns(each) * calls + Decimal("0.5")


def check_tables_rebuild_the_head(rows: list[Row], path: Path) -> int:
    """Tables with their remainder sum up to `Time in thunks`, shares of it are those that are printed."""
    checked = 0
    lines = printed_rows(path)
    at = 0
    for run in sorted({r["run"] for r in rows}):
        thunks = head(rows, run, "Time in thunks")
        for table in TABLES:
            mine = [r for r in rows if r["run"] == run and plain(r["section"]) == table]
            timed = [r for r in mine if r["calls"]]
            off = sum((min(step_ns(t), step_ns(e) * c) for t, e, c in lines[at : at + len(timed)]), Decimal(len(mine)))
            at += len(timed)
            if not mine or thunks is None:
                continue
            off += Decimal("0.00005") * thunks["total_ns"] * (len(mine) > len(timed)) + 1
            assert abs(sum(r["total_ns"] for r in mine) - thunks["total_ns"]) <= off
            for row in mine:
                share = Decimal(row["total_ns"]) * 100 / thunks["total_ns"]
                digits = len(row["args"]["percent"].partition(".")[2])
                assert abs(share - Decimal(row["args"]["percent"])) <= Decimal(10) ** -digits / 2 + share / 50
            checked += 1
        fn, call = (
            head(rows, run, "Time in Function.fn.__call__"),
            head(rows, run, "Time in calls to Function.__call__"),
        )
        if fn and call:
            assert abs(Decimal(fn["total_ns"]) * 100 / call["total_ns"] - Decimal(fn["args"]["percent"])) < Decimal(
                "0.002"
            )
    return checked


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "tables"), list(zip(REAL, (3, 9, 0, 9, 6, 3, 3, 0), strict=True)), ids=[Path(n).name for n in REAL]
)
def test_the_tables_of_a_real_profile_rebuild_its_head(name: str, tables: int) -> None:
    assert check_tables_rebuild_the_head(rows_of(tracekit.read(corpus(name))), corpus(name)) == tables


@pytest.mark.corpus
def test_the_sum_of_all_is_the_sum_of_the_single_blocks_and_is_kept_apart() -> None:
    rows = rows_of(tracekit.read(corpus("theano/theano_1.0.5_full.txt")))
    assert [(r["run"], r["value_text"]) for r in rows if r["name"] == "Message"] == [
        (0, "train"), (2, "predict"), (3, "Sum of all(2) printed profiles at exit excluding Scan op profile."),
    ]  # fmt: skip
    for name in (
        "Time in calls to Function.__call__",
        "Time in thunks",
        "Optimizer time",
        "Linker time",
        "Import time",
    ):
        single = [head(rows, run, name) for run in (0, 2)]
        whole = head(rows, 3, name)
        assert whole is not None
        assert whole["args"]["sum"] is True
        # the sum is printed with 7 digits
        assert sum(r["total_ns"] for r in single if r) == pytest.approx(whole["total_ns"], rel=1e-6)
    assert {r["section"].startswith("Sum of all: ") for r in rows if r["run"] == 3 and r["section"] != "header"} == {
        True
    }
    assert not any(r["section"].startswith("Sum") for r in rows if r["run"] != 3)
    assert head(rows, 3, "Time in calls to Function.__call__")["calls"] == 201  # type: ignore[index]


@pytest.mark.corpus
def test_real_memory_profile_sums_up_to_all_bytes() -> None:
    rows = rows_of(tracekit.read(corpus("theano/theano_1.0.5_full.txt")))
    for run, want in ((0, 343656), (2, 6816), (3, 350472)):
        mine = [r for r in rows if r["run"] == run and plain(r["section"]) == "Memory Profile"]
        assert sum(r["bytes"] for r in mine) == want == mine[-1]["args"]["bytes_of_all"]
    peak = next(r for r in rows if r["name"] == "Max peak memory with current setting: CPU")
    assert (peak["bytes"], peak["args"], peak["kind"]) == (9216, {"linker_c_py_bytes": 13312}, "memory")
    assert rows[0]["bytes"] is None


@pytest.mark.corpus
def test_sizes_that_pymc_does_not_print_are_unknown_and_noted() -> None:
    trace = tracekit.read(corpus("theano/theano_pymc_1.1.2_memory.txt"))
    mine = [r for r in rows_of(trace) if r["section"] == "Memory Profile"]
    assert [r["bytes"] for r in mine] == [None] * 8 + [1256] + [None] * 2 + [416]
    assert trace.ledgers[0].notes["size-not-printed"].count == 10


@pytest.mark.corpus
def test_real_optimizer_profile_nests_as_it_is_indented() -> None:
    rows = rows_of(tracekit.read(corpus("theano/theano_1.0.5_full.txt")))
    for run in (0, 1, 2, 3):
        steps = [r for r in rows if r["run"] == run and plain(r["section"]) == "Optimizer Profile"]
        whole = head(rows, run, "Time of the optimizer's steps")
        assert whole is not None
        assert 0 <= whole["total_ns"] + 10**6 - sum(r["total_ns"] for r in steps) < whole["total_ns"] / 20 + 10**7
        blas = sum(
            r["total_ns"] for r in rows if r["run"] == run and plain(r["section"]) == "Optimizer Profile: BlasOpt"
        )
        assert 0 < blas <= next(r["total_ns"] for r in steps if r["name"] == "BlasOpt")
    first = next(r for r in rows if r["section"] == "Optimizer Profile")
    assert (first["name"], first["total_ns"]) == ("canonicalize", 1195415000)
    details = first["args"].pop("details")
    assert first["args"] == {
        "class": "EquilibriumOptimizer", "index": 7, "nodes_before": 57, "nodes_after": 34, "validate_s": "0.000",
        "s": "1.195415", "indent": 3,
    }  # fmt: skip
    assert details[:2] == ["     EquilibriumOptimizer      canonicalize", "       time 1.195s for 4 passes"]


@pytest.mark.corpus
def test_real_files_have_their_lines_counted_by_class() -> None:
    ledger = tracekit.read(corpus("theano/theano_1.0.5_full.txt")).ledgers[0]
    assert (ledger.read, ledger.kept, ledger.merged, ledger.dropped) == (2342, 440, 1744, {})
    assert (ledger.ignored["tracebacks"], ledger.ignored["warnings"]) == (43, 7)
    assert tracekit.read(corpus("theano/pytensor_3.0.7_cvm.txt")).ledgers[0].read == 214
    assert (
        tracekit.read(corpus("theano/pytensor_3.0.7_numba_no_thunk_times.txt")).ledgers[0].notes["no-node-times"].count
        == 3
    )


@pytest.mark.corpus
def test_pytensor_has_the_names_of_theano_and_its_own_words_beside() -> None:
    trace = tracekit.read(corpus("theano/pytensor_3.0.7_cvm.txt"))
    rows = rows_of(trace)
    facts = trace.run.sources[0].facts
    assert facts["tool"] == "PyTensor"
    assert [(f["run"], f["kind"], f["message"]) for f in facts["functions"]] == [
        (0, "function", "train"), (1, "function", "power"), (2, "function", "predict"),
    ]  # fmt: skip
    rewrite, fn = head(rows, 0, "Optimizer time"), head(rows, 0, "Time in Function.fn.__call__")
    assert rewrite is not None
    assert (rewrite["raw_name"], rewrite["total_ns"]) == ("PyTensor rewrite time", 2144801000)
    assert fn is not None
    assert (fn["raw_name"], fn["total_ns"]) == ("Time in Function.vm.__call__", 16713999)
    scan = [r for r in rows if r["section"].startswith("Scan overhead")]
    assert [(r["section"], r["total_ns"], r["args"]["inner_function_percent"]) for r in scan] == [
        ("Scan overhead", 0, "70.4"), ("Scan overhead: total", 0, "70.4"),
    ]  # fmt: skip


@pytest.mark.corpus
def test_the_copy_in_a_page_gives_what_the_original_gives() -> None:
    page = next((corpus_root().parent / "seeds").glob("001*"), None)
    if page is None:
        pytest.skip("the page is not here")
    drop = ("order", "source")
    strip = [[{k: v for k, v in r.items() if k not in drop} for r in rows_of(tracekit.read(p))]
             for p in (page, corpus("theano/profiling_example_out.prof"))]  # fmt: skip
    assert strip[0] == strip[1]


@pytest.mark.corpus
def test_exactly_one_reader_knows_each_file_of_the_corpus_that_is_ours(tmp_path: Path) -> None:
    folders = {"theano": "theano", "singa": "singa", "generated/theano": "theano", "generated/pytensor": "theano"}
    seen = 0
    for folder, reader in folders.items():
        for path in sorted(corpus(folder).iterdir()):
            renamed = tmp_path / "unknown"
            renamed.write_bytes(path.read_bytes())
            for one in (path, renamed):
                with open_source(str(one)) as source:
                    head = source.head()
                found = [r.name for r, vote in votes(head, READERS.values()) if vote is not Confidence.NO]
                assert found == [reader], path
            seen += 1
    assert seen >= 10


@pytest.mark.corpus
def test_no_other_file_of_the_corpus_is_taken_for_a_printed_profile() -> None:
    ours = ("theano", "singa", "pytensor")
    seen = 0
    for path in sorted(p for p in corpus(".").rglob("*") if p.is_file()):
        if path.parent.name in ours:
            continue
        with open_source(str(path)) as source:
            found = [
                n for n in ("theano", "singa", "caffe-time") if READERS[n].sniff(source.head()) is not Confidence.NO
            ]
        assert not found, path
        seen += 1
    assert seen > 100


def test_the_generator_writes_the_samples_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SAMPLES / "_printed_profiles.py"), str(tmp_path)], check=True)
    made = {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert made == {name: sample(name).read_bytes() for name in made}
    assert set(EXPECTED) == set(made) - {"expected_printed_profiles.json"}
    readme = (SAMPLES / "README.md").read_text("utf-8")
    for folder in ("theano", "singa", "caffe-time"):
        for path in sample(folder).iterdir():
            assert f"| {path.name} |" in readme
            assert path.stat().st_size < 200 * 1024


@pytest.mark.parametrize("name", [n for n in EXPECTED if n.startswith("theano/")])
def test_the_tables_of_a_sample_rebuild_what_was_measured(name: str) -> None:
    rows = rows_of(tracekit.read(sample(name)))
    check_tables_rebuild_the_head(rows, sample(name))
    for run, thunks in enumerate(EXPECTED[name]["thunks_ns"]):
        for table in TABLES:
            mine = [r for r in rows if r["run"] == run and plain(r["section"]) == table]
            # three digits of each row; a remainder has four of the whole
            assert sum(r["total_ns"] for r in mine) == pytest.approx(thunks or EXPECTED[name]["scan_ns"], rel=5e-3)
        nodes = sum(r["args"].get("remaining", 1) for r in rows if r["run"] == run and plain(r["section"]) == "Apply")
        assert nodes == EXPECTED[name]["nodes"][run]


def test_a_scan_and_the_sum_have_sections_of_their_own() -> None:
    rows = rows_of(tracekit.read(sample("theano/two-functions-scan-and-sum.txt")))
    by_run = {run: {r["section"] for r in rows if r["run"] == run} for run in range(4)}
    assert by_run[0] == {"header", "Node make_thunk", *TABLES} == by_run[2]
    assert by_run[1] == {"header", "Scan Op: Class", "Scan Op: Ops", "Scan Op: Apply"}
    assert by_run[3] == {"header", *(f"Sum of all: {t}" for t in (*TABLES, "Node make_thunk"))}
    scan = head(rows, 1, "Scan Op")
    calls = head(rows, 1, "Time in calls of the op")
    assert scan is not None
    assert calls is not None
    assert (scan["value_text"], calls["calls"], calls["args"]["steps"]) == ("scan_fn", 200, 8671)
    ops = [r["total_ns"] for r in rows if r["section"] == "Apply" and r["run"] in (0, 2)]
    everything = [r["total_ns"] for r in rows if r["section"] == "Sum of all: Apply"]
    assert sum(ops) == pytest.approx(sum(everything), rel=5e-3)


def test_shapes_and_flops_belong_to_their_node() -> None:
    rows = rows_of(tracekit.read(sample("theano/two-functions-scan-and-sum.txt")))
    first = next(r for r in rows if r["section"] == "Apply")
    assert first["args"]["inputs"] == ["dtype=float32, shape=(64, 100), strides=(4, 256)"]
    assert first["args"]["outputs"] == ["dtype=float32, shape=(64,), strides=c"]
    assert (first["args"]["mflops"], first["args"]["id"]) == ("225.0", 18)
    assert first["name"].startswith("Gemv{inplace}(AllocEmpty")
    assert all(not r["name"][0].isdigit() for r in rows)


def test_old_class_names_lose_their_brackets_and_keep_them_as_raw_name() -> None:
    rows = rows_of(tracekit.read(sample("theano/notebook-0.6.txt")))
    old = [r for r in rows if r["raw_name"] and r["section"] == "Class"]
    assert [(r["name"], r["raw_name"]) for r in old] == [
        ("theano.tensor.elemwise.Elemwise", "<class 'theano.tensor.elemwise.Elemwise'>")
    ]
    assert {r["run"] for r in rows} == {0}


def test_a_block_has_exactly_these_rows(tmp_path: Path) -> None:
    trace = read(tmp_path / "x", BLOCK)
    got = [
        (r["section"], r["name"], r["kind"], r["calls"], r["total_ns"], r["avg_ns"], r["args"]) for r in rows_of(trace)
    ]
    assert got == [
        ("header", "Message", "other", None, None, None, {}),
        ("header", "Time in calls to Function.__call__", "other", 2, 2000000, None, {"s": "2.000000e-03"}),
        ("header", "Time in Function.fn.__call__", "other", None, 1500000, None,
         {"s": "1.500000e-03", "percent": "75.000"}),
        ("header", "Time in thunks", "other", None, 1000000, None,
         {"s": "1.000000e-03", "percent": "50.000"}),
        ("header", "Total compile time", "other", None, 1000000000, None, {"s": "1.000000e+00"}),
        ("Class", "theano.tensor.blas.Gemv", "operator", 2, 600000, 300000.0,
         {"percent": "60.0", "cumulative_percent": "60.0", "s": "0.001", "implementation": "Py", "apply_nodes": 1}),
        ("Class", "(remaining 1 Classes)", "operator", None, 400000, None,
         {"remaining": 1, "percent": "40.00", "s": "0.00"}),
    ]  # fmt: skip
    ledger = trace.ledgers[0]
    assert (ledger.read, ledger.kept, ledger.ignored) == (13, 7, {"headings": 3, "rules": 2, "blank lines": 1})


@pytest.mark.parametrize(
    ("apply", "each", "calls", "want"),
    [
        ("0.012", "3.12e-05", 400, 12480000),  # the product is finer, and within the printed ms
        ("2.380", "5.95e-03", 400, 2380000000),  # the printed ms are finer
        ("1.193", "5.97e-03", 200, 1193000000),  # the product says 1.194, its digits allow 1.193
        ("8.227", "2.43e-06", 3390361, 8227000000),
        ("0.000", "2.07e-06", 3, 6210),
        ("0.002", "3.12e-06", 400, 1500000),  # contradictory: moved as near as the ms allow, and noted
    ],
)
def test_a_time_is_the_one_that_both_roundings_allow(
    apply: str, each: str, calls: int, want: int, tmp_path: Path
) -> None:
    line = f"  60.0%    60.0%       {apply}s       {each}s     Py     {calls}       1   theano.tensor.blas.Gemv"
    text = re.sub(r".*theano\.tensor\.blas\.Gemv", line, BLOCK)
    trace = read(tmp_path / "x", text)
    assert next(r["total_ns"] for r in rows_of(trace) if r["section"] == "Class") == want
    assert ("times-disagree" in trace.ledgers[0].notes) == (apply == "0.002")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("  60.0%    60.0%       0.001s       3.00e-04     Py       2       1   x", "bad-row"),
        ("  60.0%    60.0%       nans       3.00e-04s     Py       2       1   x", "bad-time"),
        ("  60.0%    60.0%       0.001s       3.00e+99s     Py       2       1   x", "bad-time"),
        ("  60.0%    60.0%       0.001s       3.00e-04s     Py       99999999999999999999       1   x", "bad-row"),
    ],
)
def test_a_bad_row_costs_that_row(line: str, reason: str, tmp_path: Path) -> None:
    trace = read(tmp_path / "x", re.sub(r".*theano\.tensor\.blas\.Gemv", line, BLOCK))
    ledger = trace.ledgers[0]
    assert ledger.dropped == {reason: 1}
    assert ledger.notes[reason].places == ["line 12"]
    assert len([r for r in rows_of(trace) if r["section"] == "Class"]) == 1


@pytest.mark.parametrize(
    "line",
    [
        "  Time in thunks: nans (nan%)", "           Node Sum(x) time infs",
        "   ... (remaining 1 Classes account for   nan%%(nans) of the runtime)",
        "Scan overhead:\n   nans    0.0s    0.0s   70.4%    0.9% Scan(x)",
        "Optimizer Profile\n   nans - ('a', 'B', 7, 57, 34) - 0.000s",
        "Optimizer Profile\n SeqOptimizer  OPT  time nans for 3/2 nodes before/after optimization",
    ],
)  # fmt: skip
def test_a_time_that_is_no_number_costs_its_line(line: str, tmp_path: Path) -> None:
    heading = "Optimizer Profile\n" if line.startswith("Optimizer") else ""
    whole = rows_of(read(tmp_path / "x", BLOCK[: BLOCK.index("Class")] + heading))
    trace = read(tmp_path / "y", BLOCK[: BLOCK.index("Class")] + line + "\n")
    assert rows_of(trace) == whole
    assert trace.ledgers[0].dropped == {"bad-time": 1}


def test_inputs_of_a_node_beyond_a_mebibyte_are_dropped(tmp_path: Path) -> None:
    table = """<% time> <sum %> <apply time> <time per call> <#call> <id> <Apply name>
  50.0%    50.0%       0.000s       3.10e-06s      1     0   Elemwise{add,no_inplace}(x, y)
"""
    inputs = [f"    input {n}: dtype=float64, shape={'1' * 300_000}, strides=c\n" for n in range(5)]
    trace = read(tmp_path / "x", BLOCK + table + "".join(inputs))
    row = next(r for r in rows_of(trace) if r["section"] == "Apply")
    assert len(row["args"]["inputs"]) == 3
    assert (trace.ledgers[0].merged, trace.ledgers[0].dropped) == (3, {"too-many-variables": 2})


def test_program_output_between_lines_is_counted_and_does_not_hinder(tmp_path: Path) -> None:
    noise = 'epoch 3\r100%|####| 5/5\nTraceback (most recent call last):\n  File "x"\nValueError: no\n  - a tip?\n'
    whole = rows_of(read(tmp_path / "x", BLOCK))
    for line in range(BLOCK.count("\n")):
        parts = BLOCK.splitlines(keepends=True)
        trace = read(tmp_path / "y", "".join([*parts[:line], noise, *parts[line:]]))
        assert rows_of(trace) == whole
        assert trace.ledgers[0].ignored["tracebacks"] == 3
        assert trace.ledgers[0].ignored["other output"] == 2


def test_what_follows_the_tips_is_another_block(tmp_path: Path) -> None:
    tips = "Here are tips to potentially make your code run faster\n  Sorry, no tip for today.\n"
    trace = read(tmp_path / "x", BLOCK + tips + BLOCK[BLOCK.index("Class") :])
    assert [(r["run"], r["section"]) for r in rows_of(trace)][-2:] == [(1, "Class")] * 2
    assert [r["value_text"] for r in rows_of(trace) if r["name"] == "Tip"] == ["Sorry, no tip for today."]
    late = read(tmp_path / "y", BLOCK + tips + "  Import time 1.0s\n")
    assert late.ledgers[0].ignored["other output"] == 1


def test_a_table_that_ends_early_is_noted(tmp_path: Path) -> None:
    trace = read(tmp_path / "x", BLOCK[: BLOCK.index("   ... (remaining")])
    assert trace.ledgers[0].notes["table-cut"].count == 1
    assert "table-cut" not in read(tmp_path / "y", BLOCK).ledgers[0].notes


def test_a_cut_last_line_is_dropped(tmp_path: Path) -> None:
    for cut in range(BLOCK.index("Class\n---") + 5, len(BLOCK)):
        trace = read(tmp_path / "x", BLOCK[:cut])
        rows = [r for r in rows_of(trace) if r["section"] == "Class"]
        assert all(r["name"] in ("theano.tensor.blas.Gemv", "(remaining 1 Classes)") for r in rows)
        assert sum(trace.ledgers[0].dropped.values()) <= 1


def test_the_optimizers_steps_without_indentation_are_noted(tmp_path: Path) -> None:
    steps = "Optimizer Profile\n0.5s - ('a', 'SeqOptimizer', 0, 3, 2) - 0.0s\n0.2s - ('b', \"it's\", 1, 3, 2) - nans\n"
    trace = read(tmp_path / "x", BLOCK + steps)
    assert [(r["section"], r["name"], r["args"]["class"]) for r in rows_of(trace)[-2:]] == [
        ("Optimizer Profile", "a", "SeqOptimizer"), ("Optimizer Profile", "b", "it's"),
    ]  # fmt: skip
    assert trace.ledgers[0].notes["nesting-lost"].count == 2


def test_memory_of_theano_0_6_and_gpu_is_read(tmp_path: Path) -> None:
    memory = """Memory Profile
(Sparse variables are ignored)
---
    Max if linker=cvm (default): unknown
    Max if no gc (allow_gc=False): 12KB
    Memory saved if gc is enabled (linker=c|py): 1KB
    Max Memory allocated on the GPU (for all functions): 7KB
    Minimum peak from all valid apply node order is 5KB(took 0.123s to compute)

    <Sum apply outputs (bytes)> <Apply outputs shape> <created/inplace/view> <Apply node>

          2559B  [None, (2, 2)] i c RandomFunction{uniform}(<RandomStateType>, TensorConstant{(2,) of 2})
       Unknown  [(3,)] c Sparse(x)
   ... (remaining 0 Apply account for    0B/2559B ((0.00%)) of the Apply with dense outputs sizes)
"""
    rows = [r for r in rows_of(read(tmp_path / "x", BLOCK + memory)) if r["section"].startswith("Memory")]
    assert [(r["name"].split("(")[0].strip(), r["bytes"], r["value_text"]) for r in rows] == [
        ("Max if linker=cvm", None, "unknown"), ("Max if no gc", 12288, None),
        ("Memory saved if gc is enabled", 1024, None),
        ("Max Memory allocated on the GPU", 7168, None), ("Minimum peak from all valid apply node order", 5120, None),
        ("RandomFunction{uniform}", 2559, None), ("Sparse", None, "Unknown"), ("", 0, None),
    ]  # fmt: skip
    assert rows[5]["args"] == {"shapes": "[None, (2, 2)]", "created_inplace_view": "i c"}


def test_memory_of_theano_0_7_has_both_linkers(tmp_path: Path) -> None:
    memory = """Memory Profile
(Sparse variables are ignored)
(For values in brackets, it's for linker = c|py
---
    Max if no gc (allow_gc=False): 24KB (25KB)
    Max if linker=cvm(default): 20KB (21KB)
    Minimum peak from all valid apply node order is 18KB
    Memory saved if views are used: 3KB (x)
"""
    trace = read(tmp_path / "x", BLOCK + memory)
    rows = [r for r in rows_of(trace) if r["section"].startswith("Memory")]
    assert [(r["name"], r["bytes"] >> 10, r["args"]) for r in rows] == [
        ("Max if no gc (allow_gc=False)", 24, {"linker_c_py_bytes": 25600}),
        ("Max if linker=cvm(default)", 20, {"linker_c_py_bytes": 21504}),
        ("Minimum peak from all valid apply node order", 18, {}),
    ]  # fmt: skip
    assert trace.ledgers[0].dropped == {"bad-row": 1}


def test_head_without_rows_gives_none_and_a_note(tmp_path: Path) -> None:
    trace = read(tmp_path / "x", "Function profiling\n==================\n")
    assert rows_of(trace) == []
    assert "no-rows" in trace.ledgers[0].notes


def test_other_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError):
        read(tmp_path / "x", "Theano is a library.\nIt has a profiler.\n")
    with pytest.raises(ParseError, match="no profile of Theano"):
        read(tmp_path / "x", "Theano is a library.\n", format="theano")


def test_warnings_of_theano_alone_are_a_maybe() -> None:
    reader = READERS["theano"]
    warning = b"/x/theano/gof/vm.py:886: UserWarning: CVM does not support memory profile, using Stack VM.\n"
    assert reader.sniff(Head("x", warning)) is Confidence.MAYBE
    assert reader.sniff(Head("x", warning + BLOCK.encode())) is Confidence.YES


def test_long_hostile_lines_take_no_long_time(tmp_path: Path) -> None:
    long = 200_000
    lines = (
        "  60.0%    60.0%       0.001s       3.00e-04s     Py       2       1   " + "x " * long, "60.0% " + " " * long,
        "(" * long, "'" * long, "[(1,)] c " * (long // 9), "1B [" + "] c c " * (long // 6),
        "1" * long, "1" * long + "s",
        "0.1s - ('" + "\\" * long + "', 'x', 1) - 0.1s", "Node " + " time 1" * (long // 7), "Message: " + "x" * long,
        "... (remaining 1 Ops account for " + " " * long, "Scan Op profiling ( " + " )" * long + "x", "-" * long + "x",
        "Warning" * (long // 7),
        "<% time> <sum %> <apply time> <time per call> " + "<Class name> " * (long // 13) + "x",
    )  # fmt: skip
    sections = ("", "Memory Profile\n", "Optimizer Profile\n", "Scan overhead:\n")
    text = BLOCK + "".join(head + "\n".join(lines) + "\n" for head in sections)
    read(tmp_path / "x", text)


PIECES = st.sampled_from(
    [*BLOCK.splitlines(), "Apply", "Optimizer Profile", "Memory Profile", "Scan overhead:", "Scan Op profiling ( a )",
     "Message: Sum of all(2) printed profiles at exit", "    input 0: dtype=float64, shape=(), strides=c",
     "<% time> <sum %> <apply time> <time per call> <#call> <id> <Mflops> <Gflops/s> <Apply name>",
     "  39.5%    39.5%       0.008s       3.83e-05s    200    13    1.5   2.5    Gemv{inplace}(w)",
     "   ... (remaining 3 Apply account for  416B/6816B ((6.10%)) of the Apply with dense outputs sizes)",
     "   ... (remaining 2 Apply instances account for 0.02%%(0.00s) of the runtime)", "        CPU: 9KB (13KB)",
     "     {node_outputs_size:9d}B  [(400,)] i Gemv(a)", "   1.19s - ('canonicalize', 'E', 7, 57, 34) - 0.000s",
     "total   0.0s    0.0s    0.0s   70.4%    0.9%", "Here are tips to potentially make your code run faster",
     "  Time in 1e9 calls to Function.__call__: 1s", "  Time in thunks: nans (nan%)", "\0\0",
     "Traceback (most recent call last):", "> Function profiling", "> Time in thunks: 1.0e-03s (1%)",
     "           Node a(TensorConstant{[[1.", " [0.]]}) time 1.0e-03s", " ]})", "ProfileMode.print_summary()",
     "  60.0%    60.0%       0.001s       3.00e-04s      2     7   a(b{["]
)  # fmt: skip


@given(st.lists(st.one_of(PIECES, st.text(max_size=30)), max_size=40), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_mixture_of_lines_is_read_or_refused_kindly(lines: list[str], end: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        try:
            trace = read(Path(folder) / "x", end.join(lines).encode("utf-8", "surrogatepass"), format="theano")
        except TracekitError:
            return
    trace.ledgers[0].check()
    assert trace.ledgers[0].totals_out == trace.totals.num_rows


@given(st.integers(0, 1 << 15), st.integers(0, 255), st.integers(0, 1 << 15), st.integers(0, 300))
def test_damaged_bytes_of_a_sample_never_raise_anything_else(place: int, byte: int, cut: int, length: int) -> None:
    import tempfile

    data = bytearray(sample("theano/two-functions-scan-and-sum.txt").read_bytes())
    data[place % len(data)] = byte
    del data[cut % len(data) : cut % len(data) + length]
    with tempfile.TemporaryDirectory() as folder:
        try:
            trace = read(Path(folder) / "x", bytes(data), format="theano")
        except TracekitError:
            return
    trace.ledgers[0].check()


SCAN = """
Scan Op profiling ( loop )
==================
  Message: None
  Time in 2 calls of the op (for a total of 8 steps) 5.000000e-03s

  Total time spent in calling the VM 4.000000e-03s (80.000%)
  Total overhead (computing slices..) 1.000000e-03s (20.000%)

Class
---
<% time> <sum %> <apply time> <time per call> <type> <#call> <#apply> <Class name>
  50.0%    50.0%       0.002s       2.50e-04s     C        8       1   theano.tensor.elemwise.Elemwise
  10.0%    60.0%       0.000s       5.00e-05s     C        8       1   theano.tensor.basic.Join
   ... (remaining 7 Classes account for  40.00%(0.00s) of the runtime)
"""
APPLY = "<% time> <sum %> <apply time> <time per call> <#call> <id> <Apply name>\n"
END = "   ... (remaining 0 Apply instances account for 0.00%(0.00s) of the runtime)\n"


@pytest.mark.parametrize(
    "prefix",
    ["> ", ">> ", "[1,0]<stderr>:", "2019-02-03 04:05:06,{number:03} INFO  run: ", "# ", "worker_1  | ", "stderr: \t"],
)
def test_what_other_tools_put_before_each_line_does_not_hinder(prefix: str, tmp_path: Path) -> None:
    text = BLOCK + SCAN
    whole = read(tmp_path / "x", text)
    logged = "".join(prefix.format(number=at) + line for at, line in enumerate(text.splitlines(keepends=True)))
    assert READERS["theano"].sniff(Head("x", logged.encode())) is Confidence.YES
    trace = read(tmp_path / "y", f"epoch 1\n{logged}")
    assert [{**row, "rank": None} for row in rows_of(trace)] == rows_of(whole)
    assert {row["rank"] for row in rows_of(trace)} == {0 if prefix.startswith("[") else None}
    assert trace.ledgers[0].kept == whole.ledgers[0].kept


def test_blocks_of_two_ranks_whose_lines_mix_are_two_runs(tmp_path: Path) -> None:
    other = BLOCK.replace("Message: f", "Message: g").replace("Gemv", "Gemm")
    mixed = "".join(
        f"[1,0]<stderr>:{one}[1,1]<stderr>:{two}"
        for one, two in zip(BLOCK.splitlines(keepends=True), other.splitlines(keepends=True), strict=True)
    )
    rows = rows_of(read(tmp_path / "x", mixed))
    for run, text in enumerate((BLOCK, other)):
        mine = [{**row, "rank": None, "run": 0, "order": 0} for row in rows if row["run"] == run]
        assert mine == [{**row, "order": 0} for row in rows_of(read(tmp_path / "y", text))]
    assert {(row["run"], row["rank"]) for row in rows} == {(0, 0), (1, 1)}


def test_colours_and_ends_of_lines_of_an_old_mac_change_nothing(tmp_path: Path) -> None:
    whole = rows_of(read(tmp_path / "x", BLOCK))
    coloured = re.sub("(?m)^(.+)$", "\x1b[36mweb_1 |\x1b[0m \x1b[1;32m\\1\x1b[0m", BLOCK)
    for text in (coloured, BLOCK.replace("\n", "\r")):
        assert READERS["theano"].sniff(Head("x", text.encode())) is Confidence.YES
        assert rows_of(read(tmp_path / "y", text)) == whole


def test_the_output_in_a_notebook_of_jupyter_is_read(tmp_path: Path) -> None:
    lines = ["\x1b[1mtraining\x1b[0m\n", *BLOCK.splitlines(keepends=True), "α\n"]
    cell = {"cell_type": "code", "outputs": [{"name": "stderr", "text": lines}], "source": ["f.profile.summary()\n"]}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}, indent=1)
    assert READERS["theano"].sniff(Head("x.ipynb", text.encode())) is Confidence.YES
    trace = read(tmp_path / "x.ipynb", text)
    assert rows_of(trace) == rows_of(read(tmp_path / "y", BLOCK))
    assert not trace.ledgers[0].dropped


def test_a_progress_bar_before_the_heading_changes_nothing(tmp_path: Path) -> None:
    trace = read(tmp_path / "x", "100%|####| 300/300 [00:10<00:00, 29.21it/s]" + BLOCK)
    assert rows_of(trace) == rows_of(read(tmp_path / "y", BLOCK))


def test_names_of_several_lines_are_put_together(tmp_path: Path) -> None:
    text = (
        f"{BLOCK.split('Class', maxsplit=1)[0].rstrip()}\n       Node make_thunk time 3.0e-03s\n"
        "           Node Dot(TensorConstant{[[1. 0.]\n [0. 2.]]}, x) time 2.0e-03s\n"
        "           Node Dot(TensorConstant{[[1. 0.]\n\nApply\n------\n"
        f"{APPLY}  90.0%    90.0%       0.001s       1.00e-03s      1    25   Dot(TensorConstant{{[[1. 0.]\n"
        " [0. 2.]]}, x)\n    input 0: dtype=float64, shape=(2, 2), strides=c\n"
        "  10.0%   100.0%       0.000s       1.00e-04s      1    26   Cut{a, (b, \n"
        f"my program says hello\n{END}\nMemory Profile\n(Sparse variables are ignored)\n---\n"
        "        64B  [(2, 2)] v Dot(TensorConstant{[[1.]\n [0.]]}, x)\n"
    )
    trace = read(tmp_path / "x", text)
    rows = rows_of(trace)
    name = "Dot(TensorConstant{[[1. 0.]\n [0. 2.]]}, x)"
    assert [(r["section"], r["name"]) for r in rows if r["section"] != "header"] == [
        ("Node make_thunk", name), ("Apply", name), ("Apply", "Cut{a, (b,"),
        ("Memory Profile", "Dot(TensorConstant{[[1.]\n [0.]]}, x)"),
    ]  # fmt: skip
    assert next(r for r in rows if r["section"] == "Apply")["args"]["inputs"] == [
        "dtype=float64, shape=(2, 2), strides=c"
    ]
    ledger = trace.ledgers[0]
    assert (ledger.merged, ledger.ignored["other output"], dict(ledger.dropped)) == (4, 1, {"bad-row": 1})
    assert ledger.notes["names-joined"].count == 3
    ledger.check()


def test_the_rest_of_a_scan_has_the_time_of_its_share(tmp_path: Path) -> None:
    rows = [r for r in rows_of(read(tmp_path / "x", SCAN)) if r["section"] == "Scan Op: Class"]
    assert [(r["name"], r["total_ns"]) for r in rows] == [
        ("theano.tensor.elemwise.Elemwise", 2000000), ("theano.tensor.basic.Join", 400000),
        ("(remaining 7 Classes)", 1600000),
    ]  # fmt: skip


def test_rows_of_a_copy_that_lost_the_header_are_rows(tmp_path: Path) -> None:
    text = (
        "  60.0%    60.0%       0.001s       3.00e-04s     Py       2       1   theano.tensor.blas.Gemv\n"
        "   ... (remaining 1 Classes account for  40.00%(0.00s) of the runtime)\n"
        "  60.0%    60.0%       0.001s       3.00e-04s     Py       2       1   Gemv{inplace}\n"
        "   ... (remaining 1 Ops account for  40.00%(0.00s) of the runtime)\n"
        "  60.0%    60.0%       0.001s       3.00e-04s      2     7   Gemv{inplace}(x, y)\n"
        f"{END}\n{BLOCK}"
    )
    trace = read(tmp_path / "x", text)
    rows = [r for r in rows_of(trace) if r["section"] in TABLES]
    assert [(r["run"], r["section"], r["name"]) for r in rows[:5]] == [
        (0, "Class", "theano.tensor.blas.Gemv"), (0, "Class", "(remaining 1 Classes)"), (0, "Ops", "Gemv{inplace}"),
        (0, "Ops", "(remaining 1 Ops)"), (0, "Apply", "Gemv{inplace}(x, y)"),
    ]  # fmt: skip
    assert [r["total_ns"] for r in rows[:2]] == [600000, 400000]
    rest = "   ... (remaining 3 Ops account for  40.00%(0.50s) of the runtime)\n"
    assert [(r["section"], r["total_ns"]) for r in rows_of(read(tmp_path / "y", rest))] == [("Ops", 500000000)]
    assert {r["run"] for r in rows[5:]} == {1}
    assert trace.ledgers[0].notes["table-without-header"].count == 3


def test_a_copy_of_the_memory_alone_is_known(tmp_path: Path) -> None:
    text = (
        "Memory Profile\n(Sparse variables are ignored)\n---\n    Max peak memory with current setting\n"
        "        CPU: 5KB (6KB)\n        GPU: 0KB (0KB)\n        CPU + GPU: 5KB (6KB)\n"
    )
    assert READERS["theano"].sniff(Head("x", text.encode())) is Confidence.YES
    assert [r["bytes"] for r in rows_of(read(tmp_path / "x", text)) if r["bytes"]] == [5120, 5120]


def test_times_of_nodes_that_were_not_taken_are_told_of_all_versions(tmp_path: Path) -> None:
    hint = "  No node time accumulated (hint: try config profiling.time_thunks=1)\n"
    trace = read(tmp_path / "x", BLOCK.split("Class", maxsplit=1)[0] + hint)
    assert "no-node-times" in trace.ledgers[0].notes


PROFILE_MODE = """
ProfileMode.print_summary()
---------------------------

Time since import 12.5s
Op-wise summary:
<% of local_time spent on this kind of Op> <cumulative %> <self seconds> <cumulative seconds> <time per call> [*]
   59.3%   59.3%  2.133s  2.133s  5.33e-05s * 40002  6 Gemv{inplace}
   ... (remaining 0 Op account for   0.00%(0.00s) of the runtime)
Here are tips to potentially make your code run faster
  Sorry, no tip for today.
"""


def test_the_profiler_before_theano_0_6_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ParseError) as caught:
        read(tmp_path / "x", PROFILE_MODE)
    assert "ProfileMode" in caught.value.hint
    trace = read(tmp_path / "y", PROFILE_MODE + BLOCK)
    assert trace.totals.num_rows == read(tmp_path / "z", BLOCK).totals.num_rows
    assert "profile-mode" in trace.ledgers[0].notes


def test_details_of_an_optimizer_beyond_what_a_row_may_hold_are_counted_as_ignored(tmp_path: Path) -> None:
    step = "Optimizer Profile\n   0.100s - ('a', 'B', 7, 57, 34) - 0.000s\n"
    details = "".join(f"     detail {n} {'y' * 900}\n" for n in range(1_500))
    before = read(tmp_path / "x", BLOCK[: BLOCK.index("Class")] + step).ledgers[0]
    ledger = read(tmp_path / "y", BLOCK[: BLOCK.index("Class")] + step + details).ledgers[0]
    ignored = ledger.ignored["optimizer details"]
    assert 0 < ignored < 1_500
    assert (ledger.kept, ledger.merged - before.merged) == (before.kept, 1_500 - ignored)

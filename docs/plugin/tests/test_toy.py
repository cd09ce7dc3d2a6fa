"""The toy's reader, view and writer, as tracekit finds and uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracekit

LOG = "#toy 1\n10 5 gemm\n20 7 copy to host\nnonsense\n40 9 gemm\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.toy"
    path.write_text(LOG)
    return path


def test_the_log_is_recognised_and_every_line_accounted_for(log: Path) -> None:
    trace = tracekit.read(log)
    ledger = trace.ledgers[0]
    assert (ledger.format, ledger.read, ledger.kept, ledger.events_out) == ("toy-log", 5, 3, 3)
    assert ledger.ignored == {"comment": 1}
    assert ledger.dropped == {"no-times": 1}
    assert trace.events.column("dur_ns").to_pylist() == [5000, 7000, 9000]


def test_a_cut_last_line_and_a_number_that_does_not_fit_cost_their_line(log: Path) -> None:
    whole = tracekit.read(log).events.to_pylist()
    for rest, code in (
        ("50 3 ge", "torn-row"),
        (f"{'9' * 23} 3 gemm\n", "no-times"),
        (f"50 {'9' * 5000} x\n", "no-times"),
    ):
        log.write_text(LOG + rest)
        trace = tracekit.read(log)
        assert trace.events.to_pylist() == whole
        assert trace.ledgers[0].dropped.get(code) == 1 + (code == "no-times")


def test_the_option_changes_the_unit(log: Path) -> None:
    assert tracekit.read(log, options={"unit": "ns"}).events.column("dur_ns").to_pylist() == [5, 7, 9]
    with pytest.raises(tracekit.errors.UsageError):
        tracekit.read(log, options={"unit": "hours"})


def test_the_view_shows_the_longest_of_each_name(log: Path) -> None:
    frame = tracekit.view(log, "slowest").to_pandas()
    assert frame["name"].tolist() == ["gemm", "copy to host"]
    assert frame["calls"].tolist() == [2, 1]
    assert frame["max"].tolist() == [9000, 7000]
    some = tracekit.view(log, "slowest", tracekit.ViewOptions(sorted_by="name", values={"at_least_ns": 6000}))
    assert some.to_pandas()["calls"].tolist() == [1, 1]
    assert some.to_pandas()["name"].tolist() == ["copy to host", "gemm"]


def test_the_target_is_chosen_by_its_suffix(log: Path, tmp_path: Path) -> None:
    done = tracekit.convert(log, tmp_path / "run.toycsv")
    assert done.written.events == 3
    assert (tmp_path / "run.toycsv").read_text().splitlines()[1:3] == ['"gemm",10000,5000', '"copy to host",20000,7000']

"""`Trace.filter`: the same rows as the filters of reading, and ledgers that still add up."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import sample

import tracekit
from tracekit.errors import TracekitError, UsageError

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
KINETO = sample("kineto/gpu.pt.trace.json")
RANKS = [sample("recorder-log/rank0.jsonl"), sample("recorder-log/rank1.jsonl")]

SAME = {
    "kind": ({"kind": "kernel"}, {"kinds": "kernel"}),
    "kinds": ({"kind": ["kernel", "memcpy"]}, {"kinds": ["kernel", "memcpy"]}),
    "name": ({"name": "gemm|conv"}, {"name": "gemm|conv"}),
    "stream": ({"stream": 7}, {"streams": 7}),
    "streams and a length": ({"stream": range(8), "min_dur": "10us"}, {"streams": range(8), "min_dur_ns": 10_000}),
    "device": ({"device": 0, "kind": "memcpy"}, {"devices": [0], "kinds": {"memcpy"}}),
}


@pytest.mark.parametrize("path", [CSV, KINETO], ids=lambda path: path.parent.name)
@pytest.mark.parametrize("case", SAME)
def test_a_filtered_trace_is_the_trace_that_was_read_with_the_filter(case: str, path: Path) -> None:
    words, fields = SAME[case]
    trace = tracekit.read(path).filter(**words)  # type: ignore[arg-type]
    read = tracekit.read(path, selection=tracekit.Selection(**fields))  # type: ignore[arg-type]
    assert trace.events.equals(read.events)
    assert trace.totals.equals(read.totals)
    # The reader may count records that it merges into events that do not pass; both accounts add up.
    for ledger in (*trace.ledgers, *read.ledgers):
        ledger.check()
    assert [ledger.events_out for ledger in trace.ledgers] == [ledger.events_out for ledger in read.ledgers]


def test_rows_of_several_inputs_are_counted_in_the_ledger_of_their_own() -> None:
    trace = tracekit.read([*RANKS, CSV])
    kept = trace.filter(rank=1)
    assert set(kept.events["source"].to_pylist()) == {1}
    for before, after in zip(trace.ledgers, kept.ledgers, strict=True):
        after.check()
        assert after.read == before.read
    assert kept.ledgers[0].kept == 0
    assert kept.ledgers[1].events_out == trace.ledgers[1].events_out
    assert trace.ledgers[0].filtered == 0, "the trace that was filtered keeps its own account"


def test_times_steps_and_lengths_are_numbers_or_the_texts_of_the_command_line() -> None:
    trace = tracekit.read(KINETO)
    first = trace.events["ts_ns"][0].as_py()
    assert len(trace.filter(time=(first, first + 200_000_000))) == len(
        trace.filter(time=f"{first}ns:{first + 200_000_000}ns")
    )
    steps = sorted({step for step in trace.events["step"].to_pylist() if step is not None})
    one = trace.filter(step=steps[0])
    assert set(one.events["step"].to_pylist()) == {steps[0]}
    assert len(one) == len(trace.filter(step=f"{steps[0]}:{steps[0] + 1}")) == len(trace.filter(step=(None, steps[1])))
    assert len(trace.filter(min_dur="1ms")) == len(trace.filter(min_dur=1_000_000)) < len(trace)


def test_filters_add_up_and_none_is_the_trace_itself() -> None:
    trace = tracekit.read(CSV)
    assert trace.filter() is trace
    kernels = tracekit.Selection(kinds="kernel")  # type: ignore[arg-type]
    assert trace.filter(kernels, name="gemm").events.equals(trace.filter(kind="kernel").filter(name="gemm").events)
    totals = tracekit.read(sample("nvprof-csv/summary-new.csv"))
    assert len(totals.filter(name="cudaLaunch").totals) < len(totals.totals)


def test_a_filter_that_leaves_nothing_says_where_the_rows_are() -> None:
    kept = tracekit.read(CSV).filter(time=(10**15, None))
    assert len(kept) == 0
    assert bool(kept)
    assert "no event passes the filter: they start at" in str(kept.ledgers[0].notes["filter-left-nothing"])


def test_a_number_that_no_column_holds_matches_nothing() -> None:
    assert len(tracekit.read(CSV).filter(device=2**70)) == 0
    assert len(tracekit.read(CSV, selection=tracekit.Selection(ranks={2**40}, streams={-(2**80)}))) == 0  # type: ignore


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"kind": "kernl"}, "kind kernl: no such kind; did you mean kernel"),
        ({"name": "("}, "not a valid regular expression"),
        ({"step": "4:2"}, "step 4:2: not a range"),
        ({"time": (3, 1)}, r"time \(3, 1\): the end is not after the first"),
        ({"min_dur": "3"}, "min_dur 3: 3 has no unit"),
        ({"min_dur": -3}, "a duration is not below zero"),
        ({"step": (4, 4)}, "the end is not after the first"),
    ],
)
def test_a_filter_that_cannot_be_is_refused(words: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        tracekit.read(CSV).filter(**words)  # type: ignore[arg-type]


def test_a_column_that_was_not_read_and_steps_that_are_not_there_are_named() -> None:
    with pytest.raises(UsageError, match="the trace was read without the column device"):
        tracekit.read(CSV, columns=["name"]).filter(device=0)
    with pytest.raises(TracekitError, match="step selects steps, and this trace has none"):
        tracekit.read(CSV).filter(step=1)


def test_an_archived_trace_has_the_filters_too(tmp_path: Path) -> None:
    from tracekit import archive

    archive.add(tmp_path, CSV)
    trace = archive.read(archive.entries(tmp_path)[0])
    kernels = trace.filter(kind="kernel")
    assert 0 < len(kernels) < len(trace)
    kernels.ledgers[0].check()

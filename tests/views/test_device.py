from __future__ import annotations

from typing import Any

from hypothesis import given
from views.tables import dicts, event_rows, on_trace, trace, union

from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

DEVICE = on_trace(VIEWS["device"])


def test_utilization_is_the_union_of_kernels_over_the_span_of_the_input() -> None:
    rows = (
        {"ts_ns": 0, "dur_ns": 1, "kind": "runtime"},
        {"ts_ns": 10, "dur_ns": 10, "device": 0, "stream": 1},
        {"ts_ns": 15, "dur_ns": 10, "device": 0, "stream": 2},
        {"ts_ns": 20, "dur_ns": 10, "kind": "memcpy", "device": 0},
        {"ts_ns": 99, "dur_ns": 1, "kind": "memset", "device": 1},
    )
    run = Run(origin_ns=0, sources=[SourceFacts("a", "f")], devices={(0, 0): "Tesla P100"})
    section = DEVICE(trace(*rows, run=run), ViewOptions())
    assert dicts(section) == [
        {"name": "GPU 0 Tesla P100", "device": 0, "utilization": 0.15, "kernel_time": 15, "busy": 0.2, "busy_time": 20,
         "span": 100, "kernels": 2, "copies": 1},
        {"name": "GPU 1", "device": 1, "utilization": 0.0, "kernel_time": 0, "busy": 0.01, "busy_time": 1,
         "span": 100, "kernels": 0, "copies": 1},
    ]  # fmt: skip


@given(rows=event_rows())
def test_every_figure_equals_that_of_plain_python(rows: list[dict[str, Any]]) -> None:
    section = DEVICE(trace(*rows), ViewOptions())
    work = [r for r in rows if r["kind"] in ("kernel", "memcpy", "memset") and r["dur_ns"] is not None]
    keys = {(r["source"], r["rank"], r["device"]) for r in work}
    found = dicts(section) if section.tables else []
    assert len(found) == len(keys)
    ranks, sources = {k[1] for k in keys}, {k[0] for k in keys}

    def range_of(row: dict[str, Any]) -> tuple[int, int]:
        return row["ts_ns"], row["ts_ns"] + max(row["dur_ns"] or 0, 0)

    for row in found:
        mine = [
            r
            for r in work
            if r["device"] == row["device"]
            and (len(ranks) == 1 or r["rank"] == row["rank"])
            and (len(sources) == 1 or row["source"] in (f"input {r['source']}", "a.csv" if r["source"] == 0 else None))
        ]
        around = [range_of(r) for r in rows if r["source"] == mine[0]["source"]]
        span = max(b for _, b in around) - min(a for a, _ in around)
        kernels = [range_of(r) for r in mine if r["kind"] == "kernel"]
        assert (row["span"], row["kernels"], row["copies"]) == (span, len(kernels), len(mine) - len(kernels))
        assert row["kernel_time"] == union(kernels)
        assert row["busy_time"] == union([range_of(r) for r in mine])
        assert row["utilization"] == (union(kernels) / span if span else None)


def test_inputs_and_ranks_stand_in_order_and_each_has_its_own_span() -> None:
    rows = [
        {"ts_ns": 0, "dur_ns": 10 * (1 + source), "device": device, "source": source, "rank": rank}
        for source, rank, device in ((1, 1, 0), (0, 0, 10), (0, 0, 2), (1, None, 0))
    ]
    run = Run(sources=[SourceFacts("x/a", "f", "base"), SourceFacts("x/b", "f")])
    found = dicts(DEVICE(trace(*rows, run=run), ViewOptions()))
    assert [(r["source"], r["rank"], r["device"], r["span"]) for r in found] == [
        ("base", 0, 2, 10),
        ("base", 0, 10, 10),
        ("b", 1, 0, 20),
        ("b", None, 0, 20),
    ]
    cut = DEVICE(trace(*rows, run=run), ViewOptions(top=1)).tables[0]
    assert (len(cut), cut.omitted) == (1, 3)


def test_a_failed_input_does_not_shift_the_labels_of_the_others() -> None:
    rows = [{"dur_ns": 1, "device": 0, "source": source} for source in (1, 3)]
    run = Run(sources=[SourceFacts("b.csv", "f"), SourceFacts("d.csv", "f")])
    ledgers = (Ledger(source=1, path="b.csv"), Ledger(source=3, path="d.csv"))
    found = dicts(DEVICE(trace(*rows, run=run, ledgers=ledgers), ViewOptions()))
    assert [r["source"] for r in found] == ["b.csv", "d.csv"]


def test_made_up_starts_give_no_utilization() -> None:
    run = Run(sources=[SourceFacts("old.log", "f", synthetic_time=True)])
    section = DEVICE(trace({"dur_ns": 5}, run=run), ViewOptions())
    (row,) = dicts(section)
    assert (row["name"], row["utilization"], row["kernel_time"], row["span"]) == ("device not named", None, None, None)
    assert (row["busy"], row["busy_time"], row["kernels"]) == (None, None, 1)
    assert "old.log: its file has no starts, so how busy the device was is unknown" in section.notes
    assert "rows that name no device are taken as those of one device" in section.notes


def test_a_span_of_zero_divides_nothing() -> None:
    (row,) = dicts(DEVICE(trace({"ts_ns": 5, "dur_ns": 0, "device": 0}), ViewOptions()))
    assert (row["utilization"], row["span"]) == (None, 0)


def test_totals_alone_cannot_say_how_busy_a_device_was() -> None:
    section = DEVICE(trace(totals=({"name": "a", "calls": 1, "total_ns": 5},)), ViewOptions())
    assert section.tables == ()
    assert section.notes[0].startswith("needs events; this trace has only totals")
    assert DEVICE(trace(), ViewOptions()).notes == ("needs kernel, memcpy or memset events; this trace has none",)


def test_columns_sort_and_unknown_ones_are_refused() -> None:
    rows = [{"dur_ns": d, "device": d} for d in (1, 3, 2)]
    assert [r["device"] for r in dicts(DEVICE(trace(*rows), ViewOptions(sorted_by="kernel_time")))] == [3, 2, 1]


def test_runs_in_one_file_have_a_row_and_a_span_each() -> None:
    several = SourceFacts("a.csv", "nvprof-csv", facts={"runs": [{"pid": 9}, {"pid": 2}]})
    rows = (
        {"ts_ns": 0, "dur_ns": 10, "pid": 9, "device": 0},
        {"ts_ns": 5, "dur_ns": 5, "pid": 2, "device": 0},
        {"ts_ns": 0, "dur_ns": 0, "pid": 2, "kind": "runtime"},
        {"ts_ns": 0, "dur_ns": 4, "pid": 7, "device": 0, "source": 1},
        {"ts_ns": 0, "dur_ns": 4, "pid": 8, "device": 0, "source": 1},
    )
    made = trace(*rows, run=Run(sources=[several, SourceFacts("b.csv", "nvprof-csv")]))
    section = DEVICE(made, ViewOptions())
    assert [(r["source"], r["pid"], r["span"], r["utilization"], r["kernels"]) for r in dicts(section)] == [
        ("a.csv", 2, 10, 0.5, 1),
        ("a.csv", 9, 10, 1.0, 1),
        ("b.csv", None, 4, 1.0, 2),
    ]
    assert "each run of a file has a clock of its own: a row and a span for each process" in section.notes

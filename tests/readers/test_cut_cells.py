"""A cell that its row can do without and that was cut in print costs that cell: in each printed format."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import sample

import tracekit
from tracekit.model.trace import Trace

OPTIONAL = {
    "nsys, sum in columns": ("nsys-stats-csv/columns.txt", "131,457", "131,4…", "min_ns"),
    "nvprof, share": ("nvprof-text/summary.txt", "25.52%  939.91us", "25.5…   939.91us", ""),
    "nvprof, share with dots": ("nvprof-text/summary.txt", "25.52%  939.91us", "25...   939.91us", ""),
    "nvprof, Min": ("nvprof-text/summary.txt", "131.46us", "131.4…us", "min_ns"),
    "MXNet, Min": ("mxnet-table/mxnet19.txt", "0.0220           0.0010", "0.0220           0.00…", "min_ns"),
    "MXNet, Count": ("mxnet-table/mxnet19.txt", " 14           0.0220", "  …           0.0220", "calls"),
    "fluid, Min.": ("fluid-report/all.txt", "0.316675", "0.3166…", "min_ns"),
    "fluid, ratio of the CPU": ("fluid-report/all.txt", "(0.197363)", "(0.1973…)", ""),
    "fluid, ratio of a copy": ("fluid-report/all.txt", "10.6866%", "10.68…%", ""),
    "Paddle, Max": ("paddle-summary/gpu.txt", "1.00 / 0.33 / 0.34", "1.00 / 0.33 / 0.3…", "max_ns"),
    "Paddle, rate": ("paddle-summary/paddle26-benchmark.txt", "9939.889", "9939.…", "value_avg"),
    "timemory, MEAN": ("timemory/two-ranks.log", "134.300 |  67.150", "134.300 |  67.1…", "avg_ns"),
    "timemory, COUNT": ("timemory/two-ranks.log", "2 |     1 | cpu_clock", "2... |     1 | cpu_clock", "calls"),
}  # fmt: skip
"""Sample, what it has, what is there instead, and the column that is not known then."""

NEEDED = {
    "a start of nvprof": ("nvprof-text/api-trace.txt", "392.84ms", "392.8…ms"),
    "a total of MXNet": ("mxnet-table/mxnet19.txt", "14           0.0220", "14           0.02…"),
    "the total of a copy": ("fluid-report/all.txt", "Calls: 9           Total: 0.6", "Calls: 9           Total: 0.…"),
    "a share of Theano": ("theano/theano-1.0.5.txt", "39.7%", "39.…"),
    "a total of timemory": ("timemory/two-ranks.log", "msec | 134.300", "msec | 134.3…"),
}  # fmt: skip


def changed(folder: Path, name: str, old: str, new: str) -> tuple[Trace, Trace]:
    """The trace of a sample, and of one with another text at the first place of a text."""
    text = sample(name).read_text(encoding="utf-8")
    assert old in text
    path = folder / Path(name).name
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    whole = tracekit.read(sample(name))
    return whole, tracekit.read(path, format=whole.run.sources[0].format)


@pytest.mark.parametrize("case", OPTIONAL)
def test_a_cut_cell_is_not_known_and_its_row_is_kept(case: str, tmp_path: Path) -> None:
    name, old, new, column = OPTIONAL[case]
    whole, cut = changed(tmp_path, name, old, new)
    assert cut.totals.num_rows == whole.totals.num_rows
    assert cut.ledgers[0].dropped == whole.ledgers[0].dropped
    assert cut.ledgers[0].notes["odd-cell"].count == 1
    assert cut.totals["total_ns"].to_pylist() == whole.totals["total_ns"].to_pylist()
    if column:
        lost = cut.totals[column].null_count - whole.totals[column].null_count
        assert lost == 1


@pytest.mark.parametrize("case", NEEDED)
def test_a_cell_that_its_row_needs_costs_the_row_with_a_word(case: str, tmp_path: Path) -> None:
    whole, cut = changed(tmp_path, *NEEDED[case])
    assert sum(cut.ledgers[0].dropped.values()) == sum(whole.ledgers[0].dropped.values()) + 1

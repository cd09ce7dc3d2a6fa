"""A report of a million events in a browser: it opens quietly, is searched, and draws what the input says.

The truth is the input, read here a second time: rows of the CSV file by device and stream, in whole ns.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv
from render.test_timeline_page import WINDOWS, differing
from support import ROOT
from viewers import PageResult, chromium_page, one_browser

from benchmarks.generate import generate

pytestmark = pytest.mark.viewer

I64 = npt.NDArray[np.int64]
EVENTS = 1_000_000
READY = """const T = await (async () => {
  for (;;) {
    if (window.tracekit?.timeline?.data?.done && document.documentElement.classList.contains("tables")) break;
    await new Promise((done) => setTimeout(done, 20));
  }
  await window.tracekit.timeline.ready;
  return window.tracekit.timeline;
})(), D = T.data;
"""


class Made(NamedTuple):
    """The page; for each stream starts, lengths, numbers of names, and whether its first row is free; the names."""

    page: Path
    lanes: list[tuple[I64, I64, I64, I64]]
    names: list[str]


def make(folder: Path) -> Made:
    trace = generate(folder, "nvprof-csv", EVENTS)
    page = folder / "page.html"
    command = [sys.executable, "-m", "tracekit", "report", str(trace), "-o", str(page)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return Made(page, *in_lanes(trace))


def in_lanes(trace: Path) -> tuple[list[tuple[I64, I64, I64, I64]], list[str]]:
    """Return of each stream starts, lengths, numbers of names, and whether the first row is free; and the names."""
    wanted = ["Start", "Duration", "Device", "Stream", "Name"]
    table = csv.read_csv(
        trace,
        read_options=csv.ReadOptions(skip_rows=3),
        parse_options=csv.ParseOptions(invalid_row_handler=lambda _: "skip"),  # warnings of the profiler
        convert_options=csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string())),
    ).slice(1)  # the row of units: ms and us
    start, length = digits(table["Start"], 6), digits(table["Duration"], 6) // 1000
    start = start - start.min()
    coded = table["Name"].combine_chunks().dictionary_encode()
    code = coded.indices.to_numpy().astype(np.int64)
    both = pc.binary_join_element_wise(table["Device"], pc.utf8_lpad(table["Stream"], 9), " ")
    stream = both.combine_chunks().dictionary_encode()
    place_of = stream.indices.to_numpy()
    lanes = []
    for place in np.argsort(stream.dictionary.to_pylist()):
        mine = np.flatnonzero(place_of == place)
        mine = mine[np.lexsort((-length[mine], start[mine]))]
        lanes.append((start[mine], length[mine], code[mine], is_free(start[mine], start[mine] + length[mine])))
    return lanes, coded.dictionary.to_pylist()


def digits(column: pa.ChunkedArray, places: int) -> I64:
    """Return decimals with so many places as whole numbers."""
    whole = pc.replace_substring(column, ".", "")
    assert pc.all(pc.equal(pc.subtract(pc.utf8_length(column), pc.find_substring(column, ".")), places + 1)).as_py()
    found: I64 = whole.cast(pa.int64()).to_numpy()
    return found


def is_free(starts: I64, ends: I64) -> I64:
    """Return for each event in order of time whether no earlier one of the same row goes on when it starts."""
    found = np.ones(starts.size, np.int64)
    until = 0
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if start < until:
            found[i] = 0
        else:
            until = end
    return found


def opened(made: Made, script: str) -> Any:
    found = chromium_page(made.page, script=f"(async () => {{ {READY} {script} }})()", height=800)
    assert quiet(found)
    return found.value


def quiet(page: PageResult) -> bool:
    return (page.console, page.page_errors, page.requests, page.overflow_px) == ([], [], [], 0)


def test_a_report_of_a_million_events_opens_quietly_and_draws_what_the_input_says(tmp_path: Path) -> None:
    # one test: tests may run in processes of their own, and the page takes as long as all that is asked of it
    made = make(tmp_path)
    with one_browser():
        look_at_the_first_screen_and_search(made)
        compare_each_pixel_column_of_50_windows(made)
        notice_a_fault_in_the_picture(made)


def look_at_the_first_screen_and_search(made: Made) -> None:
    script = """
    const box = document.querySelector(".tl-find input");
    box.value = "^volta_sgemm_160.*_7";
    box.dispatchEvent(new Event("input"));
    while (!document.querySelector("#tl-hits").textContent) await new Promise((done) => setTimeout(done, 20));
    const bottom = (e) => e.getBoundingClientRect().bottom;
    return {
      events: D.N, hits: T.marked.total, shown: document.querySelector("#tl-hits").textContent,
      big: bottom(document.querySelector("#first-screen .value")),
      cards: [...document.querySelectorAll(".card")].map(bottom),
    };
    """
    found = opened(made, script)
    pattern = re.compile("^volta_sgemm_160.*_7")
    wanted = np.array([pattern.search(name) is not None for name in made.names])
    hits = sum(int(wanted[code].sum()) for _, _, code, _ in made.lanes)
    assert hits > 0
    assert (found["events"], found["hits"]) == (EVENTS, hits)
    assert found["shown"] == f"{hits:,} hits in {wanted.sum():,} {'name' if wanted.sum() == 1 else 'names'}"
    assert 0 < max(found["big"], *found["cards"]) <= 800


def off(made: Made, seen: dict[str, Any]) -> dict[str, int]:
    """Return how many columns differ from the input, by what differs, on the first row of each stream."""
    kinds = [seen["kindOf"][seen["names"].index(name)] for name in made.names]
    none = np.zeros(0, np.int64)
    rows = [(none, none, none)] * seen["rows"]
    for row, (start, length, code, free) in zip(seen["first"], made.lanes, strict=True):
        rows[row] = tuple(column[free > 0] for column in (start, length, code))  # type: ignore[call-overload]
    starts, lengths, codes = (np.concatenate([row[k] for row in rows]) for k in range(3))
    first = np.cumsum([0, *(row[0].size for row in rows)])
    for window in seen["windows"]:
        window["rows"] = [row for row in window["rows"] if row["r"] in seen["first"]]
    return differing((starts, lengths, codes, first), np.array(kinds), max(kinds) + 1, seen)


WHAT = """
const seen = await (async () => { WINDOWS })();
const others = [];
for (const lane of T.lanes) {
  const more = [];
  for (let i = T.first[lane.row + 1]; i < T.first[lane.row + lane.depth]; i++) more.push([T.start[i], D.lengthOf(i)]);
  others.push(more.sort((a, b) => a[0] - b[0] || a[1] - b[1]));
}
return {
  ...seen, others, names: T.parts.names, kindOf: T.parts.kindOf, rows: D.ROWS, first: T.lanes.map((lane) => lane.row),
};
""".replace("WINDOWS", WINDOWS)


def compare_each_pixel_column_of_50_windows(made: Made) -> None:
    seen = opened(made, WHAT)
    found = off(made, seen)
    assert found.pop("columns") > 20_000
    assert found.pop("crowded") > 1000
    assert found == dict.fromkeys(found, 0)
    for others, (start, length, _, free) in zip(seen["others"], made.lanes, strict=True):
        assert others == sorted(map(list, zip(start[free < 1].tolist(), length[free < 1].tolist(), strict=True)))


def notice_a_fault_in_the_picture(made: Made) -> None:
    fault = """
    const scan = D.scan;
    D.scan = (r, t0, per, w) => {
      const found = scan(r, t0, per, w);
      for (let c = 0; c < w; c++) if (found.count[c] > 1) found.share[c] *= 0.99;
      return found;
    };
    """
    found = off(made, opened(made, fault + WHAT))
    assert found["share"] > 1000
    assert found["count"] == 0

"""Unified memory as nvprof --csv prints it: sizes in bytes by the row of units, totals without count or unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nvprof_cases import GPU_20, PREAMBLE, read

GPU_22 = GPU_20.replace('"Stream",', '"Stream","Unified Memory","Virtual Address",')
UNITS_22 = "s,ms,,,,,,,,B,B,MB,GB/s,,,,,,B,,,\n"
MOVED = '1.802441,0.007360,,,,,,,,,,,,,,"Tesla T4 (0)",,,{},"0x7f54d8000000","[Unified Memory Memcpy HtoD]",\n'
FAULT = '1.801239,0.276608,,,,,,,,,,,,,,"Tesla T4 (0)",,,"18","0x7f54d8800000","[Unified Memory GPU page faults]",\n'
TOTALS = (
    "\n==4242== Unified Memory profiling result:\n"
    '"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time",""\n'
)


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize(("cell", "printed"), [("65536.000000", "65536.000000B"), ('"64.000000KB"', "64.000000KB")])
def test_what_moved_is_a_size_by_the_row_of_units_or_by_its_own(
    count: int, cell: str, printed: str, tmp_path: Path
) -> None:
    got = read(tmp_path, PREAMBLE + GPU_22 + UNITS_22 + (FAULT + MOVED.format(cell)) * count)
    faults, copies = got.events[::2], got.events[1::2]
    assert {(r["kind"], r["bytes"]) for r in copies} == {("memcpy", 65536)}
    assert {(r["kind"], r["bytes"]) for r in faults} == {("overhead", None)}
    assert {json.loads(r["args"])["unified_memory"] for r in copies} == {printed}
    assert {json.loads(r["args"])["unified_memory"] for r in faults} == {"18"}


def test_totals_without_a_unit_of_time_keep_their_sizes(tmp_path: Path) -> None:
    rows = (
        '"Tesla T4 (0)",133,48.000000KB,4.000000KB,600.000000KB,6.234375MB,0.000000,"Host To Device"\n'
        '"Tesla T4 (0)",,,,,21B,0.000000,"Gpu page fault groups"\n'
        "Total CPU Page faults: 49\nTotal CPU thrashes: 32\nTotal remote mapping to CPU: 7\n"
    )
    got = read(tmp_path, PREAMBLE + TOTALS + rows)
    assert [(r["name"], r["calls"], r["total_ns"], r["bytes"], r["device"]) for r in got.totals] == [
        ("Host To Device", 133, None, 6537216, 0), ("Gpu page fault groups", 21, None, None, 0)
    ]  # fmt: skip
    assert got.totals[0]["value_max"] == 600 * 1024
    assert json.loads(got.totals[1]["args"]) == {"total_size": "21B"}
    assert got.ledger.notes["no-total-time"].count == 2
    assert not got.ledger.dropped
    assert "application-output" not in got.ledger.ignored
    (facts,) = got.run.sources[0].facts["runs"]
    assert (facts["cpu_page_faults"], facts["cpu_thrashes"], facts["remote_mapping_to_cpu"]) == (49, 32, 7)


def test_a_total_time_of_unknown_unit_stands_in_args(tmp_path: Path) -> None:
    row = '"Tesla T4 (0)",2,4.000000KB,4.000000KB,4.000000KB,8.000000KB,5.250000,"Device To Host"\n'
    got = read(tmp_path, PREAMBLE + TOTALS + row)
    assert (got.totals[0]["total_ns"], json.loads(got.totals[0]["args"])) == (None, {"total_time": "5.250000"})


def test_the_programs_own_csv_below_the_totals_is_no_row(tmp_path: Path) -> None:
    row = '"Tesla T4 (0)",2,4.000000KB,4.000000KB,4.000000KB,8.000000KB,5.250000us,"Device To Host"\n'
    got = read(tmp_path, PREAMBLE + TOTALS + row + '"a (0)",,,,,x,y,"z"\n,,,,,,,\n')
    assert [r["total_ns"] for r in got.totals] == [5250]
    assert got.ledger.ignored["application-output"] == 1

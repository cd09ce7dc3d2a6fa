"""Where the host runs ahead of the device, the step that is compared is that of the device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compare_runs import Row, write

from tracekit.comparison import FASTER, SAME, SLOWER, VIOLATED, compare

LAUNCH_NS, KERNELS = 10_000, 20


def queued(kernel_ns: int, *, count: int = 10, seed: int = 0, rank: int | None = None, warm_up: int = 0) -> list[Row]:
    """Rows of steps whose kernels wait in a queue: the host launches one every 10 us and never waits."""
    rng = np.random.default_rng(seed)
    host, device, rows = 1_000, 6_000, list[Row]()
    for step in range(count):
        begun = host
        for number in range(KERNELS):
            length = round(kernel_ns * (4 if step < warm_up else 1) * (1 + 0.003 * rng.standard_normal()))
            device = max(device, host + 5_000)
            shared: Row = {"pid": 1, "rank": rank, "correlation": step * KERNELS + number + 1}
            rows.append(
                {"ts_ns": host, "dur_ns": 4_000, "name": "cudaLaunchKernel", "kind": "runtime", "tid": 1} | shared
            )
            rows.append(
                {"ts_ns": device, "dur_ns": length, "name": f"k{number % 4}", "device": 0, "stream": 7} | shared
            )
            host, device = host + LAUNCH_NS, device + length
        named: Row = {"name": f"step {step}", "kind": "step", "step": step, "pid": 1, "tid": 1, "rank": rank}
        rows.append({"ts_ns": begun, "dur_ns": host - begun} | named)
    return rows


@pytest.mark.parametrize(("ns", "verdict"), [(115_000, SLOWER), (85_000, FASTER), (100_000, SAME)])
def test_kernels_behind_a_host_that_runs_ahead_decide_the_verdict(ns: int, verdict: str, tmp_path: Path) -> None:
    """The host ranges are equal to the ns; the steps are 15 % apart."""
    base = write(tmp_path / "base.parquet", queued(100_000))
    new = write(tmp_path / "new.parquet", queued(ns, seed=1))
    found = compare(base, new, rules=["step.p50 > 3%"])
    assert found.verdict == verdict
    assert found.main is not None
    assert found.main.ratio == pytest.approx(ns / 100_000 - 1, abs=0.01)
    assert (found.checked[0].state == VIOLATED) == (verdict == SLOWER)
    for side in ("base", "new"):
        assert any(n.startswith(f"{side}: the host runs ahead") and "takes 200 us on average" in n for n in found.notes)


def test_the_parts_of_a_step_of_the_device_add_up_to_it(tmp_path: Path) -> None:
    base = write(tmp_path / "base.parquet", queued(100_000))
    new = write(tmp_path / "new.parquet", queued(115_000, count=14))
    found = compare(base, new)
    assert found.main is not None
    step = next(t for s in found.report().sections for t in s.tables if t.name == "step_parts")
    columns = {column.name: column.values for column in step.columns}
    assert sum(columns["difference"]) == found.main.difference  # type: ignore[arg-type]
    idle = columns["name"].index("(no device work)")
    assert abs(columns["difference"][idle]) < 2_000  # type: ignore[arg-type]


def test_a_host_that_became_the_limit_is_compared_with_the_step_of_the_device(tmp_path: Path) -> None:
    """Kernels of 100 us become kernels of 5 us: the host, which took 200 us a step, is now the limit."""
    found = compare(write(tmp_path / "a.parquet", queued(100_000)), write(tmp_path / "b.parquet", queued(5_000)))
    assert found.verdict == FASTER
    assert found.main is not None
    assert (found.main.base or 0) == pytest.approx(2_000_000, rel=0.02)
    assert (found.main.new or 0) == pytest.approx(200_000, rel=0.02)
    assert [note.startswith("base: the host runs ahead") for note in found.notes].count(True) == 1
    assert not any(note.startswith("new: the host runs ahead") for note in found.notes)


def test_warm_up_and_ranks_are_those_of_the_device_too(tmp_path: Path) -> None:
    sides = []
    for side, ns in (("base", 100_000), ("new", 120_000)):
        for rank in range(2):
            write(tmp_path / side / f"rank{rank}.parquet", queued(ns, rank=rank, seed=rank, warm_up=2))
        sides.append(str(tmp_path / side))
    found = compare(*sides)
    assert found.sides is not None
    assert [run.warm_up for run in (*found.sides.base, *found.sides.new)] == [4, 4]
    assert found.verdict == SLOWER
    assert found.main is not None
    assert found.main.ratio == pytest.approx(0.2, abs=0.01)

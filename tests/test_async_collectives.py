"""Collectives of XLA in two halves: in flight from the op that starts them to the end of the one that waits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hlo_programs import Plane, message

import tracekit
from tracekit.analysis.kernel_class import KernelClass, classify

US = 1_000_000
SHAPE = "f32[5]{0:T(128)}"
START = f"%all-reduce-start.3 = ({SHAPE}, {SHAPE}) all-reduce-start({SHAPE} %x), to_apply=%add"
DONE = f"%all-reduce-done.9 = {SHAPE} all-reduce-done(({SHAPE}, {SHAPE}) %all-reduce-start.3)"
FUSED_START = f"%async-collective-start.1 = ({SHAPE}, u32[]) fusion({SHAPE} %y), kind=kCustom, calls=%all-gather"
FUSED_DONE = f"%async-collective-done.1 = {SHAPE} fusion({SHAPE} %z), kind=kCustom"
COMPUTE = f"%fusion.1 = {SHAPE} fusion({SHAPE} %all-reduce-done.9), kind=kLoop"


def parts(folder: Path, *ops: tuple[str, int, int]) -> dict[str, Any]:
    """The breakdown, ns, of a TPU that runs ops from one us to another."""
    device = Plane(1, "/device:TPU:0")
    device.line(3, "XLA Ops", 0, [device.event(name, (at + 10) * US, (end - at) * US) for name, at, end in ops])
    path = folder / "x.xplane.pb"
    path.write_bytes(message(device.data()))
    (table,) = tracekit.view(tracekit.read(path), "breakdown").tables
    values = {column.name: column.values[0] for column in table.columns}
    return {key: values[key] for key in ("span", "compute", "exposed_comm", "overlap", "communication", "idle")}


@pytest.mark.parametrize(("start", "done"), [(START, DONE), (FUSED_START, FUSED_DONE), (
    "all-gather-start.2", "all-gather-done.2"
)])  # fmt: skip
def test_compute_hides_a_collective_that_is_in_flight(tmp_path: Path, start: str, done: str) -> None:
    found = parts(tmp_path, (start, 0, 1), (COMPUTE, 1, 61), (done, 61, 71))
    # In flight for 71 us: 1 us to start it and 10 us to wait for it are exposed.
    assert found == {
        "span": 71_000, "compute": 60_000, "exposed_comm": 11_000, "overlap": 60_000, "communication": 71_000,
        "idle": 0,
    }  # fmt: skip


def test_halves_pair_within_their_own_name_and_one_without_its_other_half_is_itself(tmp_path: Path) -> None:
    other = START.replace("start.3 =", "start.4 =")
    found = parts(
        tmp_path, (START, 0, 1), (other, 1, 2), (COMPUTE, 2, 22), (DONE, 22, 23), (COMPUTE, 23, 43), (DONE, 43, 44)
    )
    # The first is in flight for 23 us; the other has no end, and the second wait no start.
    assert (found["communication"], found["overlap"], found["exposed_comm"]) == (24_000, 20_000, 4_000)


def test_a_collective_in_one_op_is_exposed(tmp_path: Path) -> None:
    whole = f"%all-reduce.1 = {SHAPE} all-reduce({SHAPE} %x)"
    found = parts(tmp_path, (whole, 0, 5), (COMPUTE, 5, 9))
    assert (found["communication"], found["overlap"]) == (5_000, 0)


@pytest.mark.parametrize(("name", "is_collective"), [
    (FUSED_START, True), (FUSED_DONE, True), (f"%all-reduce-scatter.2 = {SHAPE} fusion({SHAPE} %x)", True),
    (f"%all-gather_convolution_fusion.2 = {SHAPE} fusion({SHAPE} %x)", False), (COMPUTE, False),
    (f"%async-collective-fusion.2 = {SHAPE} fusion({SHAPE} %x)", False),
])  # fmt: skip
def test_a_fused_collective_is_known_by_the_name_of_its_op(name: str, is_collective: bool) -> None:
    assert (classify([name]) == [KernelClass.COLLECTIVE]) == is_collective


def test_names_alone_decide(tmp_path: Path) -> None:
    names: Sequence[str] = ["%copy-start.1 = f32[5] copy-start(f32[5] %x)", "plain"]
    found = parts(tmp_path, *[(name, at, at + 1) for at, name in enumerate(names)])
    assert found["communication"] == 0

"""The stages that batches pass: in order, visible as a list, and together in one loop."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support import SAMPLES, sample

from tracekit.inputs import InputOptions, Inputs
from tracekit.inputs.selection import Selection
from tracekit.inputs.stages import Stage, WholeStage, described, through

NVPROF, KINETO = "nvprof-csv/gpu-trace-20-columns.csv", "kineto/cpu.pt.trace.json"


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def numbers_of(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [n for each in batches for n in each.column("n").to_pylist()]


def lines_of(*names: str, order: bool = True, sort: bool = False, **options: object) -> list[str]:
    """Return the printed stages of a stream of samples, with the names of the inputs alone."""
    made: type[InputOptions] = InputOptions
    with Inputs([sample(name) for name in names], made(**options)) as inputs:  # type: ignore[arg-type]
        for _ in inputs.stream(order=order, sort=sort).batches:
            pass
        return inputs.described().replace(f"{SAMPLES}/", "").splitlines()


def test_batches_pass_the_stages_in_order_until_one_takes_them() -> None:
    seen: list[str] = []

    def odd(each: pa.RecordBatch) -> pa.RecordBatch | None:
        return each if each.column("n")[0].as_py() % 2 else None

    def note(each: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(str(each.column("n")[0]))
        return each

    stages = [
        Stage("odd", odd, lambda: seen.append("end of odd")),
        Stage("note", note, lambda: seen.append("end of note")),
    ]
    assert numbers_of(through([batch(1), batch(2), batch(3)], stages)) == [1, 3]
    assert seen == ["1", "3", "end of odd", "end of note"]


def test_a_whole_stage_sees_what_the_stages_before_it_pass_on() -> None:
    def reversed_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from list(batches)[::-1]

    def doubled(each: pa.RecordBatch) -> pa.RecordBatch:
        return batch(*(2 * n for n in each.column("n").to_pylist()))

    stages = [Stage("double", doubled), WholeStage("reverse", reversed_batches), Stage("double", doubled)]
    assert numbers_of(through([batch(1), batch(2)], stages)) == [8, 4]
    assert described(stages) == "double > [reverse] > double"


def test_no_end_is_called_after_a_stage_that_raised() -> None:
    ended: list[str] = []

    def refuse() -> None:
        raise ValueError("too much")

    stages = [Stage("refuse", end=refuse), Stage("later", end=lambda: ended.append("later"))]
    with pytest.raises(ValueError, match="too much"):
        list(through([batch(1)], stages))
    assert not ended


def test_stages_beside_each_other_take_one_frame() -> None:
    depths: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        frame, depth = sys._getframe(), 0
        while (back := frame.f_back) is not None:
            frame, depth = back, depth + 1
        depths.append(depth)
        yield batch(1)

    for count in (1, 20):
        list(through(batches(), [Stage("as it is", lambda each: each)] * count))
    assert depths[0] == depths[1]


def test_the_stages_of_one_input_are_listed_from_top_to_bottom() -> None:
    selected = "cut names > limits > select > mask > source unchanged > account"
    assert lines_of(NVPROF) == [f"{NVPROF}: read nvprof-csv > {selected} > check order"]
    assert lines_of(NVPROF, sort=True) == [f"{NVPROF}: read nvprof-csv > {selected} > [sort]"]
    assert lines_of(NVPROF, order=False) == [f"{NVPROF}: read nvprof-csv > work of streams > {selected}"]
    assert lines_of(KINETO) == [f"{KINETO}: read kineto > {selected} > [sort] > [steps]"]


def test_steps_are_set_before_a_filter_may_take_them_away() -> None:
    (line,) = lines_of(KINETO, selection=Selection(kinds=frozenset({"operator"})))
    assert line.startswith(f"{KINETO}: read kineto > [sort] > [steps] > cut names > limits > bounds > select > mask")


def test_several_inputs_are_brought_onto_one_clock_and_merged() -> None:
    first, second, run = lines_of(NVPROF, KINETO)
    own = "[account, or leave the input out] > clock of the run > processes twice > facts of the clock"
    assert first.endswith(f"{own} > check order")
    assert second.endswith(f"{own} > [sort] > [steps]")
    assert run == "all inputs: [merge by start] > facts of the run"


def test_an_input_that_cannot_be_read_is_listed_too(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no profile", encoding="utf-8")
    with Inputs([sample(NVPROF), tmp_path / "notes.txt"], InputOptions(partial=True)) as inputs:
        for _ in inputs.stream(order=True).batches:
            pass
        lines = inputs.described().splitlines()
    assert lines[1] == f"{tmp_path / 'notes.txt'}: cannot be read"

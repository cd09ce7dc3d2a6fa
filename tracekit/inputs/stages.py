"""Stages: what happens to the batches of an input, as a list that is read, and printed, from top to bottom.

    cut names > limits > select > mask > source unchanged > account > check order

A stage that treats each batch by itself is a `Stage`: all stages beside each other run in one loop, without a frame of
their own on the stack. A stage that needs other batches (a sort, the steps of rows) is a `WholeStage`: a generator
around the stages before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from tracekit.lazy_dataclass import dataclass

__all__ = ["AnyStage", "Stage", "WholeStage", "described", "through"]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of single batches. take: returns the batch to pass on, None for nothing. end: called after the last."""

    name: str
    take: Callable[[pa.RecordBatch], pa.RecordBatch | None] | None = None
    end: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class WholeStage:
    """A stage that sees all batches."""

    name: str
    run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


AnyStage: TypeAlias = Stage | WholeStage


def through(batches: Iterable[pa.RecordBatch], stages: Iterable[AnyStage]) -> Iterator[pa.RecordBatch]:
    """Return the batches after these stages. The ends of stages are called in order, once the batches are exhausted."""
    batches, beside = iter(batches), list[Stage]()
    for stage in stages:
        if isinstance(stage, Stage):
            beside.append(stage)
            continue
        batches = stage.run(_one_by_one(batches, beside) if beside else batches)
        beside = []
    return _one_by_one(batches, beside) if beside else batches


def _one_by_one(batches: Iterator[pa.RecordBatch], stages: Sequence[Stage]) -> Iterator[pa.RecordBatch]:
    takes = [stage.take for stage in stages if stage.take is not None]
    for batch in batches:
        passed = batch
        for take in takes:
            if (taken := take(passed)) is None:
                break
            passed = taken
        else:
            yield passed
    for stage in stages:
        if stage.end is not None:
            stage.end()


def described(stages: Iterable[AnyStage]) -> str:
    """Return the names of stages in order; those of a whole stream are in brackets.

    >>> described([Stage("select"), WholeStage("sort", iter), Stage("check order")])
    'select > [sort] > check order'
    """
    return " > ".join(stage.name if isinstance(stage, Stage) else f"[{stage.name}]" for stage in stages)

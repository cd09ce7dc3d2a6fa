"""Compat theano: profiles of Theano, Theano-PyMC and PyTensor print themselves again, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import corpus, sample

import tracekit
from tracekit.pipeline import render, summary
from tracekit.trace import Trace
from tracekit.views.base import ViewOptions

THEANO = ViewOptions(compat="theano")
REAL = (
    "theano/profiling_example_out.prof", "theano/pytensor_3.0.7_cvm.txt",
    "theano/pytensor_3.0.7_numba_no_thunk_times.txt", "theano/theano_1.0.5_full.txt",
    "theano/theano_pymc_1.1.2_memory.txt", "generated/theano/theano_train.txt",
    "generated/pytensor/pytensor_cvm.txt", "generated/pytensor/pytensor_py.txt",
)  # fmt: skip
NOISE = ("Traceback (most recent call last):", "Exception ignored in")


def printed(made: Trace, options: ViewOptions = THEANO) -> list[str]:
    text = render(summary(made, options=options), "text", compat="theano")
    return [line.rstrip() for line in text.rstrip().splitlines()]


def profile_part(text: str) -> list[str]:
    """The lines of a file from the first block to the last tip: what stands around it is no profile."""
    lines = [line.rstrip() for line in text.splitlines()]
    begin = lines.index("Function profiling")
    end = next((n for n, line in enumerate(lines) if n > begin and line.startswith(NOISE)), len(lines))
    while not lines[end - 1]:
        end -= 1
    return lines[begin:end]


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_a_real_profile_prints_itself_again(name: str) -> None:
    path = corpus(name)
    assert printed(tracekit.read(path)) == profile_part(path.read_text("utf-8"))


SAMPLES = ("theano-1.0.5.txt", "pytensor-3.0.7.txt", "pytensor-no-node-times.txt")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_prints_itself_again(name: str) -> None:
    path = sample(f"theano/{name}")
    assert printed(tracekit.read(path)) == profile_part(path.read_text("utf-8"))


@pytest.mark.parametrize("name", SAMPLES)
def test_an_archive_of_a_profile_prints_what_the_profile_prints(name: str, tmp_path: Path) -> None:
    made = tracekit.read(sample(f"theano/{name}"))
    tracekit.write(made, tmp_path / "x.parquet")
    assert printed(tracekit.read(tmp_path / "x.parquet")) == printed(made)

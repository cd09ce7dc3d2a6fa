"""Compat theano: profiles of Theano, Theano-PyMC and PyTensor print themselves again, line by line."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, sample

import tracekit
from tracekit.errors import TracekitError
from tracekit.model.trace import Trace
from tracekit.pipeline import render, summary, view
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


def test_a_copy_that_lost_its_blanks_is_printed_as_theano_prints_it() -> None:
    words = [line.split() for line in sample("theano/copied-from-a-page.txt").read_text("utf-8").splitlines()]
    lines = printed(tracekit.read(sample("theano/copied-from-a-page.txt")))
    flat = [word for line in lines for word in line.split()]
    assert flat == [word for line in words[1:] for word in line]
    assert "       Theano validate time: 2.000000e-02s" in lines


@pytest.mark.parametrize("name", ["two-functions-scan-and-sum.txt", "notebook-0.6.txt"])
def test_what_stands_around_and_between_the_blocks_is_left_out(name: str) -> None:
    lines = sample(f"theano/{name}").read_text("utf-8").splitlines()
    margin = next(len(line) - len(line.lstrip()) for line in lines if line.endswith("Function profiling"))
    wanted = profile_part("\n".join(line[margin:] for line in lines))
    assert printed(tracekit.read(sample(f"theano/{name}"))) == [w for w in wanted if w != "Skipping empty Profile"]


TAIL = """Here are tips to potentially make your code run faster
                 (if you think of new ones, suggest them on the mailing list).
                 Test them first, as they are not guaranteed to always provide a speedup.
"""
HEAD = """Function profiling
==================
  Message: two  blanks
  Time in 3 calls to Function.__call__: 0.000000e+00s
  Total compile time: 1.000000e+00s
    Number of Apply nodes: -1
    Theano Optimizer time: 1.500000e-05s
       Theano validate time: 0.000000e+00s
    Theano Linker time (includes C, CUDA code generation/compiling): 5e-05s

"""
PARTS = {
    "both kinds of a class": """Class
---
<% time> <sum %> <apply time> <time per call> <type> <#call> <#apply> <Class name>
  60.0%    60.0%      12.500s       1.25e-05s     C Py  1000000    12345   theano.tensor.elemwise.Elemwise
  30.0%    90.0%       6.250s       6.25e-06s     PyC   1000000    1234   theano.scan_module.scan_op.Scan
   ... (remaining 13 Classes account for  10.00%(2.08s) of the runtime)

""",
    "nodes left out": """Apply
------
<% time> <sum %> <apply time> <time per call> <#call> <id> <Apply name>
  50.0%    50.0%       0.000s       3.10e-06s      1     0   Elemwise{add,no_inplace}(x,  y)
   ... (remaining 7 Apply instances account for 50.00%%(0.00s) of the runtime)

""",
    "no node times": "  No execution time accumulated (hint: try config profiling.time_thunks=1)\n",
    "small outputs": """Memory Profile
(Sparse variables are ignored)
(For values in brackets, it's for linker = c|py
---
    Max peak memory with current setting
        CPU: 9KB (13KB)
        GPU: 0KB (0KB)
        CPU + GPU: 9KB (13KB)
    Max peak memory with current setting and Theano flag optimizer_excluding=inplace
        CPU: 13KB (13KB)
        GPU: 0KB (0KB)
        CPU + GPU: 13KB (13KB)
    Max peak memory if allow_gc=False (linker don't make a difference)
        CPU: 13KB
        GPU: 0KB
        CPU + GPU: 13KB
---
    Minimum peak from all valid apply node order is 5KB(took 0.123s to compute)
---

    <Sum apply outputs (bytes)> <Apply outputs shape> <created/inplace/view> <Apply node>

   ... (remaining 9 Apply account for    0B/0B (0%) of the Apply with dense outputs sizes)

    All Apply nodes have output sizes that take less than 1024B.
    <created/inplace/view> is taken from the Op's declaration.
    Apply nodes marked 'inplace' or 'view' may actually allocate memory, this is not reported here. If you use \
DebugMode, warnings will be emitted in those cases.

""",
    "no node times of 0.4": "  No node time accumulated (hint: try config profiling.time_thunks=1)\n",
    "memory of 0.7": """Memory Profile
(Sparse variables are ignored)
(For values in brackets, it's for linker = c|py
---
    Max if no gc (allow_gc=False): 24KB (25KB)
    Max if linker=cvm(default): 20KB (21KB)
    Minimum peak from all valid apply node order is 18KB
    Memory saved if gc is enabled: 7KB (8KB)
    Max Memory allocated on the GPU (for all functions): 9KB

    <Sum apply outputs (bytes)> <Apply outputs shape> <created/inplace/view> <Apply node>

          2559B  [None, (2, 2)] i c RandomFunction{uniform}(<RandomStateType>)
   ... (remaining 0 Apply account for    0B/2559B ((0.00%)) of the Apply with dense outputs sizes)

    <created/inplace/view> is taken from the Op's declaration.
    Apply nodes marked 'inplace' or 'view' may actually allocate memory, this is not reported here. If you use \
DebugMode, warnings will be emitted in those cases.

""",
    "an optimizer and scans": """Optimizer Profile
-----------------
 SeqOptimizer  None  time 1.318s for -1/-1 nodes before/after optimization
   0.019s for callback
   time      - (name, class, index) - validate time
   1.195415s - ('it\\'s', 'EquilibriumOptimizer', 7)
     EquilibriumOptimizer      canonicalize
     ---------------------
   0.000000s - (None, 'MergeOptimizer', 8, 57, 34) - nans


Scan overhead:
<Scan op time(s)> <sub scan fct time(s)> <sub scan op time(s)> <sub scan fct time(% scan op time)> \
<sub scan op time(% scan op time)> <node>
        1.5s    1.0s    0.5s   70.4%   33.3% forall_inplace,cpu,scan_fn}(x)
 The node took 0s, so we can not compute the overhead for{cpu,scan_fn}(y)
total   1.5s    1.0s    0.5s   70.4%   33.3%
""",
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_parts_that_are_rare_print_themselves_again(part: str, tmp_path: Path) -> None:
    text = HEAD + PARTS[part] + TAIL + "  Sorry, no tip for today.\n"
    (tmp_path / "x").write_text(text, "utf-8")
    made = tracekit.read(tmp_path / "x")
    assert not made.ledgers[0].dropped
    wanted = [line.rstrip() for line in text.replace("'it\\'s'", '"it\'s"').splitlines()]
    assert printed(made) == wanted


def test_global_statistics_and_all_kinds_of_tips_print_themselves_again(tmp_path: Path) -> None:
    tips = (
        "  - Replace the default random number generator by 'from theano.sandbox.rng_mrg import MRG_RandomStreams'\n"
        "     - MRG_RandomStreams is the only random number generator supported on the GPU.\n"
        "We don't know if amdlibm will accelerate this scalar op. erf\n"
        "  - You have a dot operation that has different dtype  for inputs ([a, b]). Make sure\n"
        f"{'=' * 50}\n('Global stats: ', 'Time elasped since Theano import =  1.234s,  linker =  0.1s ')\n{'=' * 50}\n"
    )
    (tmp_path / "x").write_text(HEAD + TAIL + tips, "utf-8")
    assert printed(tracekit.read(tmp_path / "x")) == [line.rstrip() for line in (HEAD + TAIL + tips).splitlines()]


LINES = st.sampled_from([line for part in (HEAD, TAIL, *PARTS.values()) for line in part.splitlines()])


@given(st.lists(st.one_of(LINES, st.text(max_size=20)), max_size=40))
def test_any_mixture_of_lines_prints_something_and_raises_nothing(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
        try:
            made = tracekit.read(path, format="theano")
        except TracekitError:
            return
    printed(made)
    printed(made, ViewOptions(compat="theano", values={"n_ops": 0, "n_apply": 1, "min_memory_size": 1 << 20}))
    view(made, "theano")

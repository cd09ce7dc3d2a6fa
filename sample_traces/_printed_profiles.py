"""Write the samples of profiles that programs print: Theano, SINGA, caffe time. Nothing in them was measured.

    python sample_traces/_printed_profiles.py [FOLDER]

The numbers come from a seeded generator and are rounded as the producers round them, so the sums before rounding are
known: they are in expected_printed_profiles.json, in ns. theano-1.0.5.txt, pytensor-3.0.7.txt and
pytensor-no-node-times.txt are not made here: they are what these programs printed for a small network.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
LAYERS = ("data", "conv1", "pool1", "conv2", "pool2", "ip1", "relu1", "ip2", "loss", "inception_3a/1x1")
OPERATORS = (
    "SetValue", "cudnnConvForward", "GpuBatchNormForwardTraining", "ReLU", "Waiting", "Add", "GpuPoolingForward",
    "SoftmaxCrossEntropyFwd", "SoftmaxCrossEntropyBwd", "GpuBatchNormBackward", "ReLUBackward", "cudnnConvBackwardW",
    "Dist_Synch", "Dist_FusedSynch_allreduce",
)  # fmt: skip
NODES = (
    ("theano.tensor.blas.Gemv", "Py", "Gemv{inplace}", "(AllocEmpty{dtype='float32'}.0, TensorConstant{1.0}, x, w, b)"),
    ("theano.tensor.elemwise.Elemwise", "C", "Elemwise{Composite{(i0 * tanh((i1 - i2)))}}[(0, 0)]", "(x, Gemv{}.0, y)"),
    ("theano.tensor.elemwise.Elemwise", "C", "Elemwise{gt,no_inplace}", "(Gemv{inplace}.0, TensorConstant{0.5})"),
    ("theano.tensor.elemwise.Sum", "C", "Sum{acc_dtype=float64}", "(Elemwise{gt,no_inplace}.0)"),
    ("theano.tensor.elemwise.DimShuffle", "C", "InplaceDimShuffle{1,0}", "(x)"),
    ("theano.compile.ops.Shape_i", "C", "Shape_i{0}", "(y)"),
)  # fmt: skip
SEED = 20


@dataclass
class Node:
    """One node of a function: what it is, how often it ran, for how many ns in all; flops where they are known."""

    cls: str
    impl: str
    op: str
    inputs: str
    calls: int
    ns: int
    number: int
    mflops: float | None = None


@dataclass
class Profile:
    """A block as Theano 1.0 prints it."""

    message: str
    calls: int
    nodes: list[Node]
    compile_ns: int
    scan: bool = False
    steps: int = 0
    lines: list[str] = field(default_factory=list)

    def thunks(self) -> int:
        return sum(node.ns for node in self.nodes)


def _nodes(seed: random.Random, calls: int, count: int) -> list[Node]:
    nodes = []
    for number in range(count):
        cls, impl, op, inputs = NODES[number % len(NODES)]
        ns = int(calls * seed.lognormvariate(9, 1.6))
        nodes.append(Node(cls, impl, op, inputs, calls, ns, number, 12.5 * number if op == "Gemv{inplace}" else None))
    return nodes


def _grouped(nodes: list[Node], key: str) -> list[tuple[int, int, int, str, str]]:
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        groups.setdefault(getattr(node, key), []).append(node)
    rows = [
        (sum(n.ns for n in some), sum(n.calls for n in some), len(some), name, some[0].impl)
        for name, some in groups.items()
    ]
    return sorted(rows, reverse=True)


def _table(
    title: str, what: str, rows: list[tuple[int, int, int, str, str]], whole: int, shown: int, *, wide: bool
) -> list[str]:  # fmt: skip
    lines = [title, "---", f"<% time> <sum %> <apply time> <time per call> <type> <#call> <#apply> <{what} name>"]
    so_far = 0
    for ns, calls, count, name, impl in rows[:shown]:
        so_far += ns
        counts = f"  {calls:4d}     {count:4d}" if wide else f"{calls:6d}    {count:4d}"
        lines.append(
            f"  {100 * ns / whole:4.1f}%   {100 * so_far / whole:5.1f}%     {ns / 1e9:7.3f}s "
            f"      {ns / calls / 1e9:8.2e}s     {impl:2s}  {counts}   {name}"
        )
    return [*lines, _rest(rows[shown:], whole, "Classes" if what == "Class" else "Ops"), ""]


def _rest(rows: list[tuple[int, int, int, str, str]], whole: int, what: str) -> str:
    left = sum(row[0] for row in rows)
    share = f"{100 * left / whole:6.2f}%({left / 1e9:.2f}s)"
    return f"   ... (remaining {len(rows)} {what} account for {share} of the runtime)"


def _apply(nodes: list[Node], whole: int, shown: int) -> list[str]:
    head = "<% time> <sum %> <apply time> <time per call> <#call> <id> <Mflops> <Gflops/s> <Apply name>"
    lines = ["Apply", "------", head]
    so_far = 0
    rows = sorted(nodes, key=lambda n: (n.ns, n.number), reverse=True)
    for node in rows[:shown]:
        so_far += node.ns
        flops = " " * 19
        if node.mflops is not None:
            flops = f"{node.mflops:8.1f} {node.mflops / 1024 / (node.ns / 1e9):10.1f}"
        lines.append(
            f"  {100 * node.ns / whole:4.1f}%   {100 * so_far / whole:5.1f}%     {node.ns / 1e9:7.3f}s "
            f"      {node.ns / node.calls / 1e9:8.2e}s  {node.calls:5d}  {node.number:4d} {flops} "
            f"{node.op}{node.inputs}"
        )
        lines.append("    input 0: dtype=float32, shape=(64, 100), strides=(4, 256)")
        lines.append("    output 0: dtype=float32, shape=(64,), strides=c")
    left = sum(node.ns for node in rows[shown:])
    share = f"{100 * left / whole:.2f}%({left / 1e9:.2f}s)"
    return [*lines, f"   ... (remaining {len(rows[shown:])} Apply instances account for {share} of the runtime)", ""]


def _block(profile: Profile, shown: int, *, wide: bool = False) -> list[str]:
    """Return the lines of a block. wide: counts of Class have the width that those of Ops have, as in Theano 0.6."""
    whole = profile.thunks()
    call, inner = int(whole * 1.4), int(whole * 1.2)
    if profile.scan:
        lines = [
            "", f"Scan Op profiling ( {profile.message} )", "==================", "  Message: None",
            f"  Time in {profile.calls} calls of the op (for a total of {profile.steps} steps) {call / 1e9:e}s", "",
            f"  Total time spent in calling the VM {inner / 1e9:e}s ({100 * inner / call:.3f}%)",
            f"  Total overhead (computing slices..) {(call - inner) / 1e9:e}s ({100 - 100 * inner / call:.3f}%)", "",
        ]  # fmt: skip
    else:
        lines = [
            "Function profiling", "==================", f"  Message: {profile.message}",
            f"  Time in {profile.calls} calls to Function.__call__: {call / 1e9:e}s",
            f"  Time in Function.fn.__call__: {inner / 1e9:e}s ({100 * inner / call:.3f}%)",
            f"  Time in thunks: {whole / 1e9:e}s ({100 * whole / call:.3f}%)",
            f"  Total compile time: {profile.compile_ns / 1e9:e}s",
            f"    Number of Apply nodes: {len(profile.nodes)}",
            f"    Theano Optimizer time: {profile.compile_ns * 0.6 / 1e9:e}s",
            f"       Theano validate time: {profile.compile_ns * 0.01 / 1e9:e}s",
            f"    Theano Linker time (includes C, CUDA code generation/compiling): {profile.compile_ns * 3e-10:e}s",
            "       Import time 0.000000e+00s", "       Node make_thunk time 1.250000e-02s",
            "           Node Sum{acc_dtype=float64}(Elemwise{gt,no_inplace}.0) time 1.000000e-02s", "",
            "Time in all call to theano.grad() 0.000000e+00s", "Time since theano import 7.125s",
        ]  # fmt: skip
    lines += _table("Class", "Class", _grouped(profile.nodes, "cls"), whole, shown, wide=wide)
    lines += _table("Ops", "Op", _grouped(profile.nodes, "op"), whole, shown, wide=True)
    lines += _apply(profile.nodes, whole, shown)
    return [
        *lines,
        "Here are tips to potentially make your code run faster",
        "                 (if you think of new ones, suggest them on the mailing list).",
        "                 Test them first, as they are not guaranteed to always provide a speedup.",
        "  - Try the Theano flag floatX=float32",
    ]


def theano(seed: random.Random) -> tuple[str, dict[str, object]]:
    """Two functions, a scan and the sum; at most 20 rows, so there are remainders; lines of the program."""
    train = Profile("train", 200, _nodes(seed, 200, 31), 9_876_543_000)
    predict = Profile("predict.py:42", 3, _nodes(seed, 3, 9), 1_234_567_000)
    scan = Profile("scan_fn", 200, _nodes(seed, 8671, 4), 0, scan=True, steps=8671)
    both = Profile(
        "Sum of all(2) printed profiles at exit excluding Scan op profile.", 203, train.nodes + predict.nodes,
        train.compile_ns + predict.compile_ns,
    )  # fmt: skip
    lines = [
        "WARNING (theano.tensor.blas): Using NumPy C-API based implementation for BLAS functions.",
        "epoch 1 loss 0.6931",
        *_block(train, 20), *_block(scan, 20), *_block(predict, 20), "Skipping empty Profile", *_block(both, 20),
        "Exception ignored in atexit callback: <function done>", "Traceback (most recent call last):",
        '  File "train.py", line 7, in done', "    close()", "ValueError: already closed",
    ]  # fmt: skip
    facts = {
        "thunks_ns": [train.thunks(), None, predict.thunks(), both.thunks()], "scan_ns": scan.thunks(),
        "nodes": [len(p.nodes) for p in (train, scan, predict, both)],
    }  # fmt: skip
    return "\n".join(lines) + "\n", facts


def theano_copied(seed: random.Random) -> tuple[str, dict[str, object]]:
    """A block as a page shows it: single blanks, no empty lines, a table's name at the end of the line before."""
    train = Profile("None", 40, _nodes(seed, 40, 12), 2_000_000_000)
    lines = [" ".join(line.split()) for line in _block(train, 20) if line.strip()]
    lines = [line for line in lines if not line.startswith(("input ", "output "))]
    joined: list[str] = ["This is what it prints:"]
    for line in lines:
        if line in ("Class", "Ops", "Apply"):
            joined[-1] += f" {line}"
        else:
            joined.append(line)
    return "\n".join(joined), {"thunks_ns": [train.thunks()], "nodes": [len(train.nodes)]}


def theano_notebook(seed: random.Random) -> tuple[str, dict[str, object]]:
    """A block of Theano 0.6 in a notebook's text: everything indented, classes in angle brackets, no tips."""
    train = Profile("None", 1, _nodes(seed, 1, 3), 3_642_474_000)
    block = _block(train, 20, wide=True)[:-4]
    kept = [line for line in block if "Import time" not in line and "Node " not in line and "Number of" not in line]
    kept = [
        line.replace("theano.tensor.elemwise.Elemwise", "<class 'theano.tensor.elemwise.Elemwise'>") for line in kept
    ]
    text = "\n".join(f"    {line}".rstrip() for line in ("In [4]:", "", *kept))
    return text + "\n", {"thunks_ns": [train.thunks()], "nodes": [len(train.nodes)]}


def _singa_operators(seed: random.Random, *, dist: bool = False) -> tuple[list[str], int]:
    lines, total = [], 0
    for number in range(3 * len(OPERATORS)):
        name = OPERATORS[number % len(OPERATORS)]
        seconds = f"{seed.lognormvariate(-9, 1.5):g}"
        if name != "Waiting" and (not dist or "Dist" in name):
            lines.append(f"OP_ID{number}. {name} : {seconds} sec")
            total += round(float(seconds) * 1e9)
    return lines, total


def singa(seed: random.Random) -> tuple[str, dict[str, object]]:
    """Verbosity 2, between the lines of the training; the heading follows a progress bar without a line end."""
    lines, total = _singa_operators(seed)
    head = ["Starting Epoch 0:", "Training loss = 812.403687, training accuracy = 0.712", ""]
    bar = "\r".join(f"{done:3d}%|{'#' * (done // 10):10s}| {done}/100" for done in range(0, 101, 10))
    return "\n".join([*head, bar + "Time Profiling:", *lines, "done"]) + "\n", {"rows": len(lines), "total_ns": total}


def singa_1(seed: random.Random) -> tuple[str, dict[str, object]]:
    """Verbosity 1."""
    forward, backward = (f"{seed.lognormvariate(-3, 0.5):g}" for _ in range(2))
    lines = ["", "Time Profiling:", f"Forward Propagation Time : {forward} sec"]
    lines += [f"Backward Propagation Time : {backward} sec"]
    total = round(float(forward) * 1e9) + round(float(backward) * 1e9)
    return "\n".join(lines) + "\n", {"rows": 2, "total_ns": total}


def singa_3(seed: random.Random) -> tuple[str, dict[str, object]]:
    """Verbosity 3 of two ranks, as `mpirun --tag-output` prints them."""
    both = [_singa_operators(seed, dist=True) for _ in range(2)]
    lines = [f"[1,{rank}]<stdout>:Time Profiling:" for rank in range(2)]
    for pair in zip(both[0][0], both[1][0], strict=True):
        lines += [f"[1,{rank}]<stdout>:{line}" for rank, line in enumerate(pair)]
    return "\n".join(lines) + "\n", {"rows": len(lines) - 2, "total_ns": both[0][1] + both[1][1]}


class Glog:
    """Lines as Google's logging library writes them, 40 us apart."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._us = 58_637_206_199

    def say(self, where: str, text: str, later_us: int = 40) -> None:
        self._us += later_us
        seconds, us = divmod(self._us, 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{us:06d}"
        self.lines.append(f"I0803 {clock}  4515 {where}] {text}")


def caffe(seed: random.Random, *, gpu: bool, iterations: int) -> tuple[str, dict[str, object]]:
    """`caffe time` of a small net, each time with six digits as C++ streams print it."""
    log = Glog()
    log.say("caffe.cpp:348", "Use GPU with device ID 0" if gpu else "Use CPU.")
    log.say("net.cpp:58", "Initializing net from parameters: ")
    log.lines += ['name: "LeNet"', "layer {", '  name: "conv1"', '  type: "Convolution"', "}"]
    for layer in LAYERS:
        log.say("layer_factory.hpp:77", f"Creating layer {layer}")
    log.say("caffe.cpp:360", "Performing Forward")
    log.say("caffe.cpp:365", "Initial loss: 2.30258")
    log.say("caffe.cpp:366", "Performing Backward")
    log.say("caffe.cpp:374", "*** Benchmark begins ***")
    log.say("caffe.cpp:375", f"Testing for {iterations} iterations.")
    times = {layer: [seed.lognormvariate(0, 2), seed.lognormvariate(0, 2)] for layer in LAYERS}
    each = sum(map(sum, times.values()))
    took = [each * seed.uniform(1.0, 1.1) for _ in range(iterations)]
    for number, ms in enumerate(took, 1):
        log.say("caffe.cpp:403", f"Iteration: {number} forward-backward time: {ms:g} ms.", int(ms * 1000))
    log.say("caffe.cpp:406", "Average time per layer: ")
    total = 0
    for layer, (forward, backward) in times.items():
        log.say("caffe.cpp:409", f"{layer:>10s}\tforward: {forward:g} ms.")
        log.say("caffe.cpp:412", f"{layer:>10s}\tbackward: {backward:g} ms.")
        total += round(float(f"{forward:g}") * 1e6) + round(float(f"{backward:g}") * 1e6)
    forwards, backwards = (sum(pair[way] for pair in times.values()) * 1.01 for way in range(2))
    log.say("caffe.cpp:417", f"Average Forward pass: {forwards:g} ms.")
    log.say("caffe.cpp:419", f"Average Backward pass: {backwards:g} ms.")
    log.say("caffe.cpp:421", f"Average Forward-Backward: {sum(took) / iterations:g} ms.")
    log.say("caffe.cpp:423", f"Total Time: {sum(took):g} ms.")
    log.say("caffe.cpp:424", "*** Benchmark ends ***")
    facts = {"layers": 2 * len(LAYERS), "layers_ns": total, "iterations": iterations, "total_ms": f"{sum(took):g}"}
    return "\n".join(log.lines) + "\n", facts


def caffe_old(seed: random.Random) -> tuple[str, dict[str, object]]:
    """The form before September 2014: sums over the iterations, first all forward passes, then all backward ones."""
    log = Glog()
    log.say("caffe.cpp:240", "*** Benchmark begins ***")
    log.say("caffe.cpp:241", "Testing for 50 iterations.")
    total = 0
    for way, layers in (("forward", LAYERS), ("backward", LAYERS[::-1])):
        spent = 0.0
        for layer in layers:
            ms = seed.lognormvariate(4, 2)
            spent += ms
            total += round(float(f"{ms:g}") * 1e6)
            log.say("caffe.cpp:258", f"{layer}\t{way}: {ms:g} milli seconds.", int(ms * 1000))
        log.say("caffe.cpp:261", f"{way.title()} pass: {spent:g} milli seconds.")
    log.say("caffe.cpp:277", "Total Time: 123456 milli seconds.")
    log.say("caffe.cpp:278", "*** Benchmark ends ***")
    return "\n".join(log.lines) + "\n", {"layers": 2 * len(LAYERS), "layers_ns": total, "iterations": 50}


def main(target: Path) -> None:
    seed = random.Random(SEED)
    made = {
        "theano/two-functions-scan-and-sum.txt": theano(seed),
        "theano/copied-from-a-page.txt": theano_copied(seed),
        "theano/notebook-0.6.txt": theano_notebook(seed),
        "singa/verbosity-1.txt": singa_1(seed),
        "singa/verbosity-2.txt": singa(seed),
        "singa/verbosity-3-two-ranks.txt": singa_3(seed),
        "caffe-time/gpu.log": caffe(seed, gpu=True, iterations=50),
        "caffe-time/cpu.log": caffe(seed, gpu=False, iterations=3),
        "caffe-time/sums-of-2014.log": caffe_old(seed),
    }
    for name, (text, _) in made.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    facts = json.dumps({name: facts for name, (_, facts) in made.items()}, indent=1)
    (target / "expected_printed_profiles.json").write_text(facts + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

"""The log of `caffe time`: forward and backward time of each layer, averaged over the iterations.

    I0803 16:17:17.206199  4515 caffe.cpp:369] *** Benchmark begins ***
    I0803 16:17:27.564402  4515 caffe.cpp:404]      conv1<TAB>forward: 0.612724 ms.
    I0803 16:17:27.564470  4515 caffe.cpp:412] Average Forward pass: 52.1178 ms.

A record is a line. Each benchmark is a run. Section `Average time per layer` has a row for each layer and pass, in the
order of the net: an average iteration, so `calls` is 1; its kind tells forward from backward, and so does `pass` in
`args`. Section `Iterations` has each `Iteration: N forward-backward time`. Section `header` has the averages of the
passes, the total time and the number of iterations; none of them is added to anything. glog's prefix may be missing, as
in excerpts, and blanks may be collapsed. `Use GPU with device ID 0` before a benchmark gives `device`. glog writes no
year, so its time stamps are not read.

Caffe before September 2014 printed `conv1<TAB>forward: 35.2 milliseconds.`, the sum over all iterations: section
`Time per layer`, where `calls` is the number of iterations. A Caffe of Intel of 2015 prints `Min time per layer` and
`Min Forward pass`: sections and names say so.

Sources: tools/caffe.cpp of BVLC/caffe, `time()`, from 2014 to 1.0, and of NVIDIA/caffe 0.16 (`Average Initialization
Forward/Backward pass`); examples/TensorRT/README.md of NVIDIA/caffe 0.17; `prefix`. Not supported: `caffe train`
and `caffe test`, which print no times of layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for a line of the benchmark, MAYBE for the log of a Caffe that has loaded a net."""
    from tracekit.readers.caffe import _time

    return _time.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals."""
    from tracekit.readers.caffe import _time

    return _time.read(source, options, ledger)

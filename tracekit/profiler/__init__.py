"""The profiling interfaces of Paddle, fluid, SINGA and Mini-Caffe over tracekit's recorder.

    import tracekit.profiler.paddle as profiler          # instead of: import paddle.profiler as profiler
    import tracekit.profiler.fluid as profiler           # instead of: import paddle.fluid.profiler as profiler
    from tracekit.profiler import singa as device        # instead of: from singa import device
    from tracekit.profiler.mini_caffe import Profiler    # instead of: from caffe import Profiler
    from tracekit.profiler.cuda import cuda_profiler     # kernels and copies of a region, as CUDA's own log

A program keeps its calls and changes an import. All of them record a log of `tracekit.recorder`; no framework is
needed. These modules run inside the program: they load no pyarrow, numpy, pandas, jinja2 or typer before a table is
printed or a trace exported.
"""

from __future__ import annotations

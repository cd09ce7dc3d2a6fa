"""The titles of our views and of the profilers of `--compat`, for the short list that `tracekit formats` prints.

Each view declares its own title and options beside its code, and to read them all means to import 250 modules and the
libraries for data: 0.15 s of CPU time for a list of names. These tables repeat what the short list shows. A test holds
them against the declarations, and prints the line that is missing here.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMPAT_TITLES", "VIEW_TITLES", "Title"]


class Title(NamedTuple):
    """The short list's entry of a view or a profiler. options: the keys of its options, or their number if many."""

    name: str
    title: str
    options: tuple[str, ...] | int = ()


VIEW_TITLES: tuple[Title, ...] = (
    Title("timeline", "Timeline"),
    Title("findings", "Findings", 37),
    Title("overview", "Overview"),
    Title("steps", "Steps"),
    Title("critical_path", "Critical path"),
    Title("ranks", "Ranks"),
    Title("device", "Devices"),
    Title("benchmark", "Perf Summary"),
    Title("model", "Model"),
    Title("modules", "Modules"),
    Title("distributed", "Communication"),
    Title("hang", "Hang"),
    Title("operator", "Operators"),
    Title("graphs", "Graphs"),
    Title("user_defined", "User ranges"),
    Title("breakdown", "Breakdown of device time"),
    Title("idle", "Idle time of devices"),
    Title("launch", "Launches"),
    Title("kernel", "Kernels"),
    Title("efficiency", "Efficiency"),
    Title("gemm", "Matrix products"),
    Title("convolution", "Convolutions"),
    Title("attention", "Attention"),
    Title("compiled", "Compiled kernels"),
    Title("samples", "Sampled functions"),
    Title("memory", "Memory"),
    Title("memory_manipulation", "Copies and memsets"),
    Title("api", "API calls"),
    Title("other", "Other calls and overhead"),
    Title("metrics", "Metrics"),
    Title("inference", "Inference"),
    Title("fluid", "Events (fluid's Profiling Report)"),
    Title("mxnet", "Statistics by category (MXNet)"),
    Title("theano", "Functions, classes, ops and nodes (Theano)", ("n_ops", "n_apply", "min_memory_size")),
    Title("singa", "Phases and operators of an iteration (SINGA)", ("verbosity", "iterations", "skip_iterations")),
    Title("torch", "PyTorch tables and snapshots"),
)
COMPAT_TITLES: tuple[Title, ...] = (
    Title("paddle", "paddle.profiler summary"),
    Title("fluid", "Paddle fluid profiler"),
    Title("mxnet", "MXNet aggregate statistics"),
    Title("theano", "Theano profile"),
    Title("singa", "SINGA time profiling"),
    Title("torch", "PyTorch's key_averages().table()"),
)

"""Thresholds of the rules of the view `findings`: its options, which `--option KEY=VALUE` sets (docs/findings.md).

Sources: data loading 5 % and 20 % are xprof's limits for moderately and highly input-bound (tb_plugin: 5 %); exposed
communication 10 % is tb_plugin's, launch latency 10 % of idle time xprof's. The others are choices of tracekit.
"""

from __future__ import annotations

import re

from tracekit.errors import Option, UsageError, sentence
from tracekit.options import OptionSpec
from tracekit.units import Unit
from tracekit.views.base import ViewOptions


def _threshold(key: str, default: float, unit: Unit, help: str) -> OptionSpec[float]:
    return OptionSpec(key, float, default, help, least=0, unit=unit)


THRESHOLDS: tuple[OptionSpec[float], ...] = (
    _threshold("least_share", 0.01, Unit.RATIO, "The smallest savings that any rule shows, as a share of the window."),
    _threshold(
        "data_loading_share",
        0.05,
        Unit.RATIO,
        "Data loading: the least time in it, as a share of the steps, and the least savings, as a share of the window.",
    ),
    _threshold(
        "data_loading_heavy",
        0.2,
        Unit.RATIO,
        "Data loading: the share from which the run is called heavily input-bound.",
    ),
    _threshold(
        "sync_share", 0.02, Unit.RATIO, "Needless synchronization: the least savings, as a share of the window."
    ),
    _threshold("pause_ns", 1_000_000, Unit.NS, "Host pauses: the shortest stretch that counts as a pause."),
    _threshold("pause_share", 0.02, Unit.RATIO, "Host pauses: the least savings, as a share of the window."),
    _threshold(
        "parallelism_share", 0.05, Unit.RATIO, "Little parallelism: the least savings, as a share of the window."
    ),
    _threshold(
        "kernel_share", 0.25, Unit.RATIO, "Expensive kernel: the least savings of one name, as a share of the window."
    ),
    _threshold(
        "fp32_share", 0.2, Unit.RATIO, "Fp32 arithmetic: the least time of fp32 kernels, as a share of all kernel time."
    ),
    _threshold(
        "launch_idle_share",
        0.1,
        Unit.RATIO,
        "Launch-bound: the least idle time by late launches, and the least savings, as a share of the window.",
    ),
    _threshold(
        "launch_short_share",
        0.5,
        Unit.RATIO,
        "Launch-bound: the least share of kernels that are shorter than the time between two launches.",
    ),
    _threshold("tiny_copy_bytes", 16_384, Unit.BYTES, "Tiny copies: the size below which a copy is tiny."),
    _threshold("tiny_copies", 20, Unit.COUNT, "Tiny copies: the least number of them."),
    _threshold(
        "copy_share", 0.02, Unit.RATIO, "Pageable copies and tiny copies: the least savings, as a share of the window."
    ),
    _threshold(
        "exposed_copies_share", 0.1, Unit.RATIO, "Exposed copies: the least time, as a share of the device's span."
    ),
    _threshold(
        "communication_share",
        0.1,
        Unit.RATIO,
        "Exposed communication: the least time, as a share of the device's span.",
    ),
    _threshold(
        "straggler_share",
        0.02,
        Unit.RATIO,
        "Straggler: the least time that others waited for it, as a share of their window.",
    ),
    _threshold(
        "warm_up_share",
        0.05,
        Unit.RATIO,
        "Warm-up: the least excess over the median of the later steps, as a share of all step time.",
    ),
    _threshold("allocation_share", 0.02, Unit.RATIO, "Device allocation: the least savings, as a share of the window."),
    _threshold("tail_share", 0.05, Unit.RATIO, "Tail effect: the least savings, as a share of the window."),
    _threshold("growth_bytes", 1 << 20, Unit.BYTES, "Memory growth: the least growth over the steps of the trace."),
    _threshold(
        "lost_share",
        0.01,
        Unit.RATIO,
        "Lost rows: the least share of kernels without launch, or of launches without kernel.",
    ),
    _threshold("shared_share", 0.1, Unit.RATIO, "Shared device: the least savings, as a share of the window."),
    _threshold("stage_share", 0.05, Unit.RATIO, "Unequal stages: the least savings, as a share of the window."),
    _threshold("start_up_share", 0.1, Unit.RATIO, "Start-up: the least savings, as a share of the window."),
)


LOADER = OptionSpec(
    "loader",
    str,
    "",
    "Data loading: a regular expression; host ranges with such a name load data, beside the known ones.",
)


def loader_pattern(options: ViewOptions) -> str:
    """Return the user's pattern of names of loaders, "" for none. Raises: UsageError for one that is not valid."""
    pattern = options.value(LOADER)
    try:
        re.compile(pattern)
    except re.error as err:
        raise UsageError(
            sentence(Option("option", f"loader={pattern}"), f": not a valid regular expression ({err})"),
            hint="such as loader=load_batch",
        ) from err
    return pattern


def chosen(options: ViewOptions) -> dict[str, float]:
    """Return all thresholds by key: those of the options, else the defaults. Raises: UsageError for a bad value."""
    return {spec.key: options.value(spec) for spec in THRESHOLDS}

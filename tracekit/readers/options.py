"""The options of single formats: `--option KEY=VALUE`. `printed.numbers` has that of all printed formats."""

from __future__ import annotations

from tracekit.options import OptionSpec

__all__ = ["MEMORY_UNIT", "OSRT", "STATE", "TIME_UNIT"]

TIME_UNIT = OptionSpec(
    "time_unit_of_file", str, "", "Unit of the numbers of ts and dur. Without it the content decides.", ("us", "ns")
)
"""Of Chrome traces."""
STATE = OptionSpec(
    "state", str, "", "State that start_profiler was called with. The report depends on it.", ("CPU", "GPU", "All")
)
"""Of fluid's profiles, which do not contain it."""
MEMORY_UNIT = OptionSpec(
    "memory_unit", str, "", "Unit of memory in MXNet's tables: kB as in 1.9, or kb as before it.", ("kB", "kb")
)
"""For `--compat mxnet`. MXNet's tables call 1000 bytes a kB from 1.9 on, and called 100 bytes a kb before."""
OSRT = OptionSpec("osrt", bool, False, "Read the calls of the OS runtime too. There are many.")
"""Of the formats of Nsight Systems."""

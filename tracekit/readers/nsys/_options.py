"""Options of the readers of Nsight Systems."""

from __future__ import annotations

from tracekit.options import OptionSpec

OSRT = OptionSpec("osrt", bool, False, "Read the calls of the OS runtime too. There are many.")

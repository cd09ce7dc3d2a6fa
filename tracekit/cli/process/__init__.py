"""The process of a command: its memory, and libraries only when they are needed."""

from __future__ import annotations


def prepare_libraries() -> None:
    """Load pyarrow for a command: with memory from the system, without pandas and the functions that are not used."""
    from tracekit.cli.process.memory import share_system_memory

    share_system_memory()  # before anything imports pyarrow, which chooses its memory then
    from tracekit.cli.process.late_functions import postpone_functions
    from tracekit.cli.process.late_pandas import postpone_pandas

    postpone_functions()
    postpone_pandas()

"""The process of a command: its memory, and libraries only when they are needed."""

from __future__ import annotations


def prepare_libraries() -> None:
    """Load pyarrow for a command: with memory from the system, and without pandas."""
    from tracekit.cli.process.memory import share_system_memory

    share_system_memory()  # before anything imports pyarrow, which chooses its memory then
    from tracekit.cli.process.startup import postpone_pandas

    postpone_pandas()

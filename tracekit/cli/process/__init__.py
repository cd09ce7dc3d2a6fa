"""The process of a command: its memory, and libraries only when they are needed."""

from __future__ import annotations


def prepare_memory() -> None:
    """Have pyarrow, should it be loaded, take memory from the system: it chooses when it is imported."""
    from tracekit.cli.process.memory import share_system_memory

    share_system_memory()


def prepare_libraries() -> None:
    """Load pyarrow for a command: with memory from the system, and without pandas."""
    prepare_memory()
    from tracekit.cli.process.startup import postpone_pandas

    postpone_pandas()

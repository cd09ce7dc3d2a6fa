"""A writer in another shape: several pieces in place of one file, or the longest events alone."""

from __future__ import annotations

from tracekit.errors import Option, UsageError, sentence
from tracekit.writers.base import Shape, Writer
from tracekit.writers.split.limit import limited
from tracekit.writers.split.pieces import pieces
from tracekit.writers.split.plan import megabytes, parse_split


def shaped(writer: Writer, shape: Shape) -> Writer:
    """Return a writer that writes in that shape. Raises: UsageError."""
    if writer.folder:
        raise UsageError(
            sentence(
                Option("split"),
                ", ",
                Option("max-events"),
                ", ",
                Option("max-mb"),
                f": not for {writer.name}, which is a folder",
            ),
            hint=sentence(
                Option("to", "perfetto"),
                " makes a file; ",
                Option("time"),
                " and ",
                Option("step"),
                " choose a part of the trace",
            ),
        )
    if shape.split and (shape.max_events or shape.max_mb):
        split, most = Option("split"), sentence(Option("max-events"), " or ", Option("max-mb"))
        raise UsageError(
            sentence(split, " with ", most, ": only one of them"), hint=sentence(split, " leaves nothing out")
        )
    if shape.split:
        return pieces(writer, parse_split(shape.split))
    if shape.max_events < 0:
        raise UsageError(sentence(Option("max-events", str(shape.max_events)), ": must be above 0"))
    try:
        most_bytes = megabytes(shape.max_mb) if shape.max_mb else 0
    except ValueError as err:
        raise UsageError(sentence(Option("max-mb", shape.max_mb), f": {err}"), hint=Option("max-mb", "100")) from err
    return limited(writer, most_events=shape.max_events, most_bytes=most_bytes)

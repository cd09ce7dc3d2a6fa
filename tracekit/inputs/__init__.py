"""From what the user typed to one stream of batches.

`paths` has the names and patterns, `plan` what several inputs have in common, `stream` the way of a row, as a list of
stages. `clocks/` brings inputs onto the clocks that they share.
"""

from __future__ import annotations

from tracekit.inputs.filtered import filtered
from tracekit.inputs.options import ALL, USUAL, InputOptions
from tracekit.inputs.paths import (
    Input,
    PathLike,
    expand,
    exported,
    names_databases,
    reader_for,
    refuse_inputs,
    stored_name,
    text_of,
    words_of,
)
from tracekit.inputs.same_work import same_work
from tracekit.inputs.stream import Inputs

__all__ = [
    "ALL",
    "USUAL",
    "Input",
    "InputOptions",
    "Inputs",
    "PathLike",
    "expand",
    "exported",
    "filtered",
    "names_databases",
    "reader_for",
    "refuse_inputs",
    "same_work",
    "stored_name",
    "text_of",
    "words_of",
]

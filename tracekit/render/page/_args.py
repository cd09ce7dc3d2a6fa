"""Columns of what else is known of events, by key: decoded when one looks at an event."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.render.page import pack
from tracekit.report.timeline import Argument, Timeline
from tracekit.text.display import visible

MOST_TEXT = 200_000
"""Characters of the words of a column of texts; one with more is left out."""


def add_args(
    parts: list[pack.DataPart], figure: Timeline, most_bytes: int
) -> tuple[list[dict[str, object]], list[str]]:
    """Add the columns that fit into so many bytes to the parts of a page.

    Return the head of each, and the keys of columns that do not fit.
    """
    heads: list[dict[str, object]] = []
    left: list[str] = []
    for argument in figure.args:
        made = _parts(argument, figure, len(heads), most_bytes)
        size = sum(len(part.text) for part in made or ())
        count = sum(number for part in made or () for word, number in part.facts if word == "n")
        if made is None:
            left.append(argument.key)
            continue
        if not count:
            continue
        most_bytes -= size
        parts += made
        kind = "text" if _is_text(argument) else "int"
        heads.append({"key": argument.key, "unit": argument.unit, "type": kind, "n": count})
    return heads, left


def _is_text(argument: Argument) -> bool:
    return pa.types.is_dictionary(argument.column.type)


def _parts(argument: Argument, figure: Timeline, number: int, most_bytes: int) -> list[pack.DataPart] | None:
    """Return the parts of a column; None where its words are too many, or its parts take more than so many bytes."""
    order = figure.events.order
    column = argument.column
    made = []
    words: list[str] = []
    if _is_text(argument):
        codes, words = _coded(argument)
        listed = json.dumps([visible(word) for word in words]).replace("<", "\\u003c").replace("&", "\\u0026")
        if len(listed) > MOST_TEXT:
            return None
        made.append(pack.DataPart("tl-words", listed, (("key", number),), is_json=True))
        most_bytes -= len(listed)
    for places in pack.chunks(order.size):
        rows = order[places]
        if words:
            values = codes[rows]
            known = np.flatnonzero(values >= 0)
            body = pack.planes(values[known])
        else:
            taken = arrow.take(column, rows)
            known = np.flatnonzero(arrow.valid(taken))
            body = pack.planes(pack.zigzag(arrow.ints(taken)[known]))
        if known.size:
            facts = (("key", number), ("n", known.size), ("at", places.start + int(known[0])))
            part = pack.DataPart("tl-args", pack.packed(pack.planes(pack.steps(known, int(known[0]))), body), facts)
            most_bytes -= len(part.text)
            made.append(part)
        if most_bytes < 0:
            return None
    return made


def _coded(argument: Argument) -> tuple[I64, list[str]]:
    """Return the code of each row of EVENTS, -1 for none, and the words."""
    chunks = [arrow.encoded(chunk) for chunk in argument.column.unify_dictionaries().chunks]
    words = arrow.texts(chunks[-1].dictionary) if chunks else []
    return np.concatenate([arrow.codes(chunk) for chunk in chunks]).astype(np.int64), words

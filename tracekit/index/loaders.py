"""Host ranges that load data: those of a framework's own loader, and others whose name says so.

A name is judged by whole words, whether they are written in camel case or with underscores: `get_image` loads,
`get_image_features` does not. A method of a loader, or a Python function of its file, is a load only if it returns
data: `__next__` is one, `__init__` and `__len__` are not. A loader's class or a producer's own mark is certain; a
habit of naming, such as `get_batch` or `tokenize`, is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

import numpy as np

from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.patterns import found_in
from tracekit.model.schema import Kind

__all__ = ["LONGEST_NAME", "certain_loaders", "find_loaders"]

LONGEST_NAME = 300
_KINDS = frozenset({Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.PYTHON_OP})


class LoaderName(IntEnum):
    """The certainty that a range of this name loads data."""

    NO, LIKELY, CERTAIN = range(3)


_CAMEL = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_FRAME = lazy_pattern(r"(?P<file>[^()]*\.pyx?)(?:\(\d+\)|:\d+)?: ?(?P<function>\D.*)")
_FRAME_LAST = lazy_pattern(r"(?P<function>\S+) \((?P<file>[^()]*\.pyx?)(?::\d+)?\)")
_LOADER_FILE = lazy_pattern(
    r"(?:^|[/\\._])data_?(?:set_?)?loaders?\.pyx?$|(?:^|[/\\])(?:webdataset|ffcv|dali|torch[/\\]utils[/\\]data)[/\\]"
)
_METHODS = lazy_pattern(
    r"_*(?:(?:get|load|read|fetch|try_get|wait)_)?(?:next|next_data|next_batch|batch|data|sample|samples|item|items)_*"
    r"|_*(?:fetch|load|get|read|run|wait|getitems?|call)_*"
)
"""Methods of a loader that return data."""
_OF_PRODUCER = lazy_pattern(r"^iterator::|^\[dali\]|(?<![a-z0-9_])iterator_get_next(?![a-z0-9_])")
_CLASS = lazy_pattern(
    r"(?<![a-z0-9_])(?P<before>\w*?)(?<![a-z0-9])"
    r"(?:data_?(?:set_?)?loaders?|dali(?![a-z0-9])|web_?(?:dataset|loader)|ffcv|tf\.data(?![a-z0-9_]))"
    r"(?P<after>\w*)(?P<rest>.*)"
)
_NOT_BEFORE = lazy_pattern(
    r"(?:^|_)(?:init|build|create|make|get|set|setup|prepare|reset|close|shutdown|start|stop|has|is|num|len|configure"
    r"|restore|save|test_of|free)_(?:\w+_)?$"
)
_ASKS = lazy_pattern(r"(?<![a-z0-9_])(?:len|iter|list|type|id|repr|str|isinstance|hasattr|getattr|del)\($")
"""Calls that ask something of a loader, such as len(loader)."""
_AFTER = lazy_pattern(
    r"(?:_(?:generic|classification|server|raised|single|multi|process|processing|iter|iterator|loader|pipeline|next"
    r"|batch|wait|waiting|time|fetch|fetching|get|load|loading|data|read|\d+))*_*"
)
"""Words that may follow in the same identifier: those of a loader's iterators, and what waits for it."""
_CALLED = lazy_pattern(r"(?:\.|::|#)(?P<method>\w+)")
_OBJECT = (
    r"(?:(?:the|next|a|one|train|training|val|eval|test|host|cpu)[ _-])*(?:mini[ _-]?)?"
    r"(?:batch(?:es)?|data|samples?|inputs?|images?)"
)
_END = r"(?:_(?:from|for|of|async|to)(?:_\w+)?)?_*(?![a-z0-9_])"
"""The end of an identifier, where it may say where the data come from."""
_BEFORE = r"(?<![a-z0-9_])_*(?:(?:train|training|val|eval|test|async|sync|my|do|host|cpu|async_)_)*"
_HABIT = lazy_pattern(
    rf"{_BEFORE}data[ _.:/-]?(?:load(?:ing)?|fetch(?:ing)?|wait(?:ing)?|time|input|pipeline|reading){_END}"
    rf"|{_BEFORE}(?:load|fetch|read|get|next|wait[ _]for)(?:[ _-]?{_OBJECT}|[ _-]next){_END}(?<!get_next)"
    r"|(?<![a-z0-9_])next\(\w*(?:batch|data|loader|iter)\w*\)"
    r"|^(?:fetch|fetching|loading|input[ _-]?pipeline|load)$"
    r"|(?<![a-z0-9])(?:data|dataset|batch|batches|(?:data_?)?(?:pre_?fetcher|pre_?fetch|loader)s?)"
    r"(?:_iter|_iterator)?\.(?:_*next_*)(?![a-z0-9_])"
    rf"|{_BEFORE}(?:\w+_)?collate(?:_fn|_batch|_function)?_*(?![a-z0-9_])"
    rf"|{_BEFORE}(?:decode_(?:jpe?g|png|webp|images?|audio|wav|flac|mp3)|(?:jpe?g|png|image)_decode|imread){_END}"
    rf"|{_BEFORE}(?:read|fetch|next)_(?:\w+_)?(?:shards?|records?|tfrecords?|examples?|parquet|csv){_END}"
    rf"|{_BEFORE}(?:pre_?)?tokeni[sz](?:e|ing|ation)(?:_(?:batch|batches|text|texts|data|function|fn|prompts?))?{_END}"
)
"""Common names of ranges in which programs load or prepare their data."""


_SOME_WORD = lazy_pattern(
    r"data|dali|web|ffcv|iterator|load|fetch|read|get|next|wait|input|collate|decode|tokeni| [^()]*\.py", re.IGNORECASE
)
"""Every name of a load has one of these words: each alternative of the patterns above has one, in one piece.

Only the blanks in the name of a file are left out, and may divide a word.
"""


@lru_cache(maxsize=4096)
def loader_name(name: str) -> LoaderName:
    """Return how sure a name is to be that of a load.

    >>> [loader_name(each).name for each in ("DataLoader", "get_batch", "get_image_features", "DataLoader.__len__")]
    ['CERTAIN', 'LIKELY', 'NO', 'NO']
    """
    name = name[:LONGEST_NAME]
    frame = _FRAME.fullmatch(name) or _FRAME_LAST.fullmatch(name)
    if frame is not None:
        method = _CAMEL.sub("_", frame["function"]).lower()
        if _LOADER_FILE.search(_CAMEL.sub("_", frame["file"]).lower().replace(" ", "")):
            called = re.split(r"\.|::", method)[-1]
            return LoaderName.CERTAIN if _METHODS.fullmatch(called) else LoaderName.NO
        return LoaderName.LIKELY if _HABIT.search(method) else LoaderName.NO
    text = _CAMEL.sub("_", name).lower()
    if _OF_PRODUCER.search(text):
        return LoaderName.CERTAIN
    of_class = _CLASS.search(text)
    if of_class is None:
        return LoaderName.LIKELY if _HABIT.search(text) else LoaderName.NO
    asked = _ASKS.search(text[: of_class.start()]) is not None or _NOT_BEFORE.search(of_class["before"]) is not None
    if asked or not _AFTER.fullmatch(of_class["after"]):
        return LoaderName.NO
    called = _CALLED.findall(of_class["rest"])
    return LoaderName.CERTAIN if not called or _METHODS.fullmatch(called[-1]) else LoaderName.NO


def may_load(names: Sequence[str]) -> Mask:
    """Return shape (n,), which names may be those of loads: the others are none, which costs little to know."""
    # Lower case may make a letter of ASCII of another one.
    return found_in(_SOME_WORD, names) | np.array([not name.isascii() for name in names], np.bool_)


@join
def find_loaders(index: TraceIndex, pattern: str = "") -> I64:
    """Return the rows of EVENTS, with a duration, that load data, in order.

    pattern: a regular expression; host ranges whose name it fits anywhere load data too.
    """
    found: I64 = np.flatnonzero(_judged(index, pattern) >= LoaderName.LIKELY)
    return found


@join
def certain_loaders(index: TraceIndex, pattern: str = "") -> I64:
    """Return those of the same rows that a loader's class, the producer or the user's pattern marks as loads."""
    found: I64 = np.flatnonzero(_judged(index, pattern) == LoaderName.CERTAIN)
    return found


def _judged(index: TraceIndex, pattern: str) -> I64:
    """Return for each row of EVENTS how sure it is to be a load."""
    codes, names = index.texts("name")
    ranges: Mask = index.kind_mask(_KINDS) & ~index.has("device")
    used = sets.unique(codes[ranges])
    own = re.compile(pattern) if pattern else None
    judged = np.zeros(len(names) + 1, np.int64)
    used = used[used >= 0]
    if own is None:
        used = used[may_load([names[code] for code in used.tolist()])]
    for code in used.tolist():
        asked_for = own is not None and own.search(names[code][:LONGEST_NAME]) is not None
        judged[code] = LoaderName.CERTAIN if asked_for else loader_name(names[code])
    found = np.where(ranges, judged[codes], LoaderName.NO)
    found = np.where(index.kind_mask({Kind.DATALOADER}), LoaderName.CERTAIN, found)
    found[~index.has("dur_ns")] = LoaderName.NO
    return found.astype(np.int64)

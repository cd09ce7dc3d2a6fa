"""Prefixes of a logged line: glog's prefix, the rank that mpirun wrote, the `>` of a quotation.

    [1,3]<stderr>:I0803 16:17:27.564402  4515 caffe.cpp:404] conv1 ...
    > I0803 16:17:27.564402  4515 caffe.cpp:404] conv1 ...

Sources: glog's LogMessage::Init in src/logging.cc (severity, date, time, thread, file:line]); --tag-output of Open MPI.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tracekit.lazy_pattern import lazy_pattern

__all__ = ["LINE_TAG", "MPIRUN_TAG", "Logged", "logged", "unquoted_line", "untagged_line", "with_any_digits"]

_MOST = 400
"""A prefix is searched in this many characters."""
_QUOTE = lazy_pattern(r"(?:> ?)+")
_JOB_AND_RANK = r"\[(?:[^\],<>\s]{0,60},)?(\d{1,9})\]"
_STREAM = r"<std(?:out|err|diag)>"
MPIRUN_TAG = rf"{_JOB_AND_RANK}{_STREAM}:"
"""The tag of `mpirun --tag-output`: the number of the job (from Open MPI 5 on a name) and the rank, its group."""
LINE_TAG = lazy_pattern(
    rf"^(?:{_JOB_AND_RANK}(?:{_STREAM})?: ?|\[(\d{{1,9}})\] |\s*(\d{{1,9}}): "
    r"|\s*(?:#+|//+|\*{1,2}|(?:> ?)*>)|[\w.-]{1,80} +\|"
    r"|(?:[^\t]{1,100}\t){0,2}\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?= ))",
    re.ASCII,
)
"""The tag before a line. The group that matches is the rank: `[1,0]<stderr>:` of Open MPI, `[0] ` of MPICH and Intel
MPI (-l), ` 0: ` of srun (-l). Tags without a rank: the mark of a comment (a report kept in source code), `gpu_1  |` of
docker compose, the time of kubectl logs, and the job and step before it in logs of GitHub's workflows."""


class TaggedLine(NamedTuple):
    """A line without the tag before it. rank: None for a tag that names none."""

    rank: int | None
    text: str


def untagged_line(line: str) -> TaggedLine | None:
    """Return a line without the tag before it, None for a line without one.

    >>> untagged_line("[1,3]<stderr>:a")
    TaggedLine(rank=3, text='a')
    >>> untagged_line("# a")
    TaggedLine(rank=None, text=' a')
    """
    tag = LINE_TAG.match(line)
    if tag is None:
        return None
    return TaggedLine(next((int(digits) for digits in tag.groups() if digits), None), line[tag.end() :])


def with_any_digits(prefix: str) -> str:
    """Return a pattern of a prefix whose digits may be others: the numbers of lines, the times of a logger.

    >>> with_any_digits("I0803 16:17] ")
    'I\\\\d++\\\\ \\\\d++:\\\\d++\\\\]\\\\ '
    """
    parts = enumerate(re.split(r"(\d+)", prefix))
    return "".join(r"\d++" if place % 2 else re.escape(part) for place, part in parts)


_TAG = lazy_pattern(rf"{MPIRUN_TAG} ?|\[(?:\d{{1,9}},)?(\d{{1,9}})\]: ?", re.ASCII)
"""A copy may have lost the part that looks like an HTML tag."""
_GLOG = lazy_pattern(
    r"(?:^|[\s>:|\]]|[IWEF])(?:\d{4}|\d{8}) \d\d:\d\d:\d\d\.\d{1,9} +(\d{1,10}) ([^\s:\]]{1,200}):\d{1,7}\] ?", re.ASCII
)
"""Anything may come before it: time stamps of other tools, a tag, output without a line end. A copy may have lost the
letter."""
_GLOG_END = lazy_pattern(r":\d{1,7}\]", re.ASCII)


class Logged(NamedTuple):
    """A line without its prefixes. file, thread: from glog's prefix, "" without one. rank: from mpirun's tag."""

    message: str
    file: str = ""
    thread: str = ""
    rank: int | None = None


def unquoted_line(text: str) -> tuple[str, int | None]:
    """Return a line without the signs of a quotation and the tag of its rank, and the rank.

    >>> unquoted_line("> [1,2]<stdout>:a")
    ('a', 2)
    >>> unquoted_line("[prterun-node1-77@1,3]<stderr>: b")
    ('b', 3)
    """
    text = text.strip()
    if quote := _QUOTE.match(text):
        text = text[quote.end() :]
    if text.startswith("[") and (tag := _TAG.match(text)):
        return text[tag.end() :].lstrip(), int(tag[1] or tag[2])
    return text, None


def logged(text: str) -> Logged:
    """Return a line without its prefix.

    >>> logged("I0803 16:17:27.564402  4515 caffe.cpp:404] Total Time: 3 ms.")
    Logged(message='Total Time: 3 ms.', file='caffe.cpp', thread='4515', rank=None)
    """
    words, rank = unquoted_line(text)
    if _GLOG_END.search(words, 0, _MOST) and (found := _GLOG.search(words, 0, _MOST)):
        return Logged(words[found.end() :].strip(), found[2], found[1], rank)
    return Logged(words.removeprefix("INFO: "), rank=rank)

"""What stands before the words of a logged line: glog's prefix, the rank that mpirun wrote, the `>` of a quotation.

`Learned` is for lines that do not tell their beginning: it is what stood before a heading.

    [1,3]<stderr>:I0803 16:17:27.564402  4515 caffe.cpp:404] conv1 ...
    > I0803 16:17:27.564402  4515 caffe.cpp:404] conv1 ...

Sources: glog's LogMessage::Init in src/logging.cc (severity, date, time, thread, file:line]); --tag-output of Open MPI.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MOST = 400
"""Characters in which a prefix is looked for."""
_QUOTE = re.compile(r"(?:> ?)+")
_TAG = re.compile(r"\[(?:\d{1,9},)?(\d{1,9})\](?:<std(?:out|err|diag)>)?: ?")
_GLOG = re.compile(
    r"(?:^|[\s>:|\]])[IWEF]?(?:\d{4}|\d{8}) \d\d:\d\d:\d\d\.\d{1,9} +(\d{1,10}) ([^\s:\]]{1,200}):\d{1,7}\] ?", re.ASCII
)
"""Whatever stands before it: time stamps of other tools, a tag. A copy may have lost the letter."""
_GLOG_END = re.compile(r":\d{1,7}\]", re.ASCII)


class Logged(NamedTuple):
    """A line's own words. file, thread: who logged it by glog's prefix, "" without one. rank: of mpirun's tag."""

    message: str
    file: str = ""
    thread: str = ""
    rank: int | None = None


class Learned:
    """What stands before the lines of a report, learned from the line of its heading; numbers in it may change."""

    def __init__(self) -> None:
        self._pattern: re.Pattern[str] | None = None

    def learn(self, before: str) -> None:
        """Take what stands before a heading: blanks are the report's own."""
        self._pattern = None
        if before.strip() and len(before) <= _MOST:
            # The report's own indentation begins behind the blanks that stood before its heading.
            words = before.rstrip()
            numbers = re.sub(r"\d+", r"\\d+", re.escape(words))
            self._pattern = re.compile(rf"{numbers}\s{{0,{len(before) - len(words)}}}", re.ASCII)

    def without(self, text: str) -> str:
        """Return a line without it."""
        if self._pattern is None or (found := self._pattern.match(text)) is None:
            return text
        return text[found.end() :]


def unquoted_line(text: str) -> tuple[str, int | None]:
    """Return a line without the signs of a quotation and the tag of its rank, and the rank.

    >>> unquoted_line("> [1,2]<stdout>:a")
    ('a', 2)
    """
    text = text.strip()
    if text.startswith(">"):
        text = text[_QUOTE.match(text).end() :]  # type: ignore[union-attr]
    if text.startswith("[") and (tag := _TAG.match(text)):
        return text[tag.end() :].lstrip(), int(tag[1])
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

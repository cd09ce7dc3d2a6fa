"""Rows of Memory Profile and of Optimizer Profile (PyTensor's Rewriter Profile)."""

from __future__ import annotations

import re

from tracekit.readers.printed.lines import TextLine, printed
from tracekit.readers.theano import _patterns as patterns
from tracekit.readers.theano._out import Block, Out
from tracekit.schema import Kind

_PEAKS = f"{patterns.MEMORY}: peaks"
_HEAD = f"{patterns.OPTIMIZER} head"


class Memory:
    """Peaks of memory under several settings, then the nodes with the largest outputs."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._setting = ""

    def line(self, block: Block, words: str, line: TextLine) -> bool:
        """Take a line of the section."""
        out = self._out
        if small := patterns.MEMORY_SMALL.fullmatch(words):
            out.header(block, "All Apply nodes have smaller outputs", bytes=int(small[1]))
            out.ledger.kept += 1
        elif words.startswith(patterns.MEMORY_TALK):
            out.ledger.ignore("explanations")
        elif found := patterns.PEAK.fullmatch(words):
            args = {"linker_c_py_bytes": int(found[3]) << 10} if found[3] else None
            name = f"{self._setting or 'Max peak memory'}: {found[1]}"
            out.row(block, _PEAKS, name, Kind.MEMORY, args, bytes=int(found[2]) << 10)
        elif found := patterns.OLD_PEAK.fullmatch(words):
            more: dict[str, object] = {"bytes": int(found[2]) << 10} if found[2] else {"value_text": found[4]}
            args = {"linker_c_py_bytes": int(found[3]) << 10} if found[3] else None
            out.row(block, _PEAKS, found[1], Kind.MEMORY, args, **more)
        elif found := patterns.MIN_PEAK.fullmatch(words):
            computed = {"computed_in_s": found[3]} if found[3] else None
            out.row(block, _PEAKS, found[1], Kind.MEMORY, computed, bytes=int(found[2]) << 10)
        elif patterns.PEAK_HEAD.match(words) and len(words) < 200:
            self._setting = words
            out.ledger.ignore("headings")
        elif patterns.MEMORY_START.match(words):
            self._node(block, line)
        elif patterns.PEAK_START.match(words):
            out.bad(line)
        else:
            return False
        return True

    def _node(self, block: Block, line: TextLine) -> None:
        out = self._out
        found = patterns.MEMORY_ROW.fullmatch(line.text.strip())
        if found is None or line.torn:
            out.bad(line)
            return
        args = {"shapes": found["shapes"], "created_inplace_view": " ".join(found["code"].split())}
        more: dict[str, object] = {"bytes": int(found["bytes"])} if found["bytes"] else {}
        if found["unknown"]:
            more["value_text"] = "Unknown"
        elif not found["bytes"]:
            why = "sizes that the profiler did not print: Theano-PyMC 1.1.2 prints a placeholder instead"
            out.ledger.note("size-not-printed", why, where=line.where)
        out.hold(block=block, section=patterns.MEMORY, name=found["name"], kind=Kind.MEMORY, args=args, **more)

    def remainder(self, block: Block, found: re.Match[str]) -> bool:
        """Take the line with the bytes of the remaining nodes and of all nodes."""
        count = int(found["count"])
        args = {"remaining": count, "percent": found["percent"], "bytes_of_all": int(found["all"])}
        name = f"(remaining {count} Apply)"
        return self._out.row(block, patterns.MEMORY, name, Kind.MEMORY, args, bytes=int(found["bytes"]))


class Optimizer:
    """Steps of the optimizer. Steps within a step are indented and have their own section."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._steps: list[tuple[int, str]] = []
        self._margin = 0

    def begin(self, heading: TextLine) -> None:
        """Begin a section. A notebook may have indented all of it, as its heading shows."""
        self._steps = []
        self._margin = _indent(heading.text)

    def is_inside(self, line: TextLine) -> bool:
        """Return whether a line is indented more than the heading."""
        return _indent(line.text) > self._margin

    def detail(self, block: Block, line: TextLine) -> bool:
        """Keep a line between the steps with the step above it; False if there is no more room."""
        text = self._text(line)
        taken = self._out.below("details", text)
        if taken is None:
            return self._out.words(block, f"{patterns.OPTIMIZER}: text", text) if text else False
        return taken

    def ends_before_blank(self) -> None:
        """Remove a blank line at the end: it belongs to the lines that follow."""
        self._out.take_back_blank("details")

    def line(self, block: Block, words: str, line: TextLine) -> bool:
        """Take a line of the section, except its details."""
        if _HEAD not in block.seen and (found := patterns.OPTIMIZER_HEAD.fullmatch(words)):
            return self._head(block, found, line)
        if not patterns.OPTIMIZER_START.match(words):
            return False
        out = self._out
        found = patterns.OPTIMIZER_ROW.fullmatch(words)
        if found is None or (line.torn and not found["validate"]):
            return out.bad(line)
        try:
            time = printed(found["time"])
        except ValueError:
            return out.bad_time(line)
        name = patterns.unquoted(found["name"]) or "None"
        parent = self._parent(name, line)
        args: dict[str, object] = {
            "class": patterns.unquoted(found["class"]),
            "index": int(found["index"]),
            "s": found["time"],
        }
        args["indent"] = max(_indent(line.text) - self._margin, 0)
        if found["before"]:
            args |= {"nodes_before": int(found["before"]), "nodes_after": int(found["after"])}
        if found["validate"]:
            args["validate_s"] = found["validate"]
        section = f"{patterns.OPTIMIZER}: {parent}" if parent else patterns.OPTIMIZER
        return out.hold(block=block, section=section, name=name, kind=Kind.OTHER, args=args, total_ns=time.rounded())

    def _parent(self, name: str, line: TextLine) -> str:
        """Return the steps around this one, by its indentation; "" for none."""
        indent = _indent(line.text)
        if not indent:
            why = "the optimizer's profile lost its indentation: steps within steps are counted beside them"
            self._out.ledger.note("nesting-lost", why, where=line.where)
        while self._steps and self._steps[-1][0] >= indent:
            self._steps.pop()
        parent = self._steps[-1][1] if self._steps else ""
        self._steps.append((indent, f"{parent} / {name}" if parent else name))
        return parent

    def _head(self, block: Block, found: re.Match[str], line: TextLine) -> bool:
        try:
            time = printed(found["time"])
        except ValueError:
            return self._out.bad_time(line)
        block.seen.add(_HEAD)
        args: dict[str, object] = {"class": found["class"], "name": found["name"]}
        if int(found["before"]) >= 0:
            # The sum of several profiles has -1 for both.
            args |= {"nodes_before": int(found["before"]), "nodes_after": int(found["after"])}
        return self._out.hold(
            block=block,
            name="Time of the optimizer's steps",
            args=args,
            total_ns=time.rounded(),
            value_text=self._text(line),
        )

    def _text(self, line: TextLine) -> str:
        text = line.text.rstrip()
        return text[min(self._margin, _indent(text)) :]


def _indent(text: str) -> int:
    text = text.expandtabs()
    return len(text) - len(text.lstrip())

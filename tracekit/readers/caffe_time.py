"""The log of `caffe time`: forward and backward time of each layer, averaged over the iterations.

    I0803 16:17:17.206199  4515 caffe.cpp:369] *** Benchmark begins ***
    I0803 16:17:27.564402  4515 caffe.cpp:404]      conv1<TAB>forward: 0.612724 ms.
    I0803 16:17:27.564470  4515 caffe.cpp:412] Average Forward pass: 52.1178 ms.

A record is a line. Each benchmark is a run. Section `Average time per layer` has a row for each layer and pass, in the
order of the net: an average iteration, so `calls` is 1; its kind tells forward from backward, and so does `pass` in
`args`. Section `Iterations` has each `Iteration: N forward-backward time`. Section `header` has the averages of the
passes, the total time and the number of iterations; none of them is added to anything. glog's prefix may be missing, as
in excerpts, and blanks may be collapsed. `Use GPU with device ID 0` before a benchmark gives `device`. glog writes no
year, so its time stamps are not read.

Caffe before September 2014 printed `conv1<TAB>forward: 35.2 milli seconds.`, the sum over all iterations: section
`Time per layer`, where `calls` is the number of iterations.

Sources: tools/caffe.cpp of BVLC/caffe, `time()`, from 2014 to 1.0; glog's format of lines. Not supported: `caffe train`
and `caffe test`, which print no times of layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.readers._text_lines import ANY_NUMBER, TextLine, TotalRows, printed, text_lines
from tracekit.readers.base import Confidence, Head, Opened, Reader, ReadOptions
from tracekit.readers.source import Source
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run, SourceFacts

_GLOG = re.compile(r"[IWEF](?:\d{4}|\d{8}) \d\d:\d\d:\d\d\.\d{1,9} +(\d{1,10}) ([^\s:\]]{1,200}):\d{1,7}\] ?", re.ASCII)
_TIME = rf"({ANY_NUMBER}) (ms|milli seconds)\."
_LAYER_END = re.compile(rf"(forward|backward): {_TIME}", re.ASCII)
_PASS = re.compile(
    rf"((?:Average )?Forward pass|(?:Average )?Backward pass|(?:Average )?Forward-Backward|Total Time): {_TIME}",
    re.ASCII,
)
_ITERATION = re.compile(rf"Iteration: (\d{{1,18}}) forward-backward time: {_TIME}", re.ASCII)
_TESTING = re.compile(r"Testing for (\d{1,18}) iterations\.", re.ASCII)
_GPU = re.compile(r"Use GPU with device ID (\d{1,9})", re.ASCII)
_GPU_NAME = re.compile(r"GPU device name: (\S.*)|GPU (\d{1,9}): (\S.*)", re.ASCII)
_BEGINS, _ENDS = re.compile(r"\*\*\* ?Benchmark begins ?\*\*\*"), re.compile(r"\*\*\* ?Benchmark ends ?\*\*\*")
_ROW_STARTS = ("Iteration: ", "Average Forward", "Average Backward", "Total Time:", "Testing for ")
_UNIT = {"ms": "ms", "milli seconds": "ms"}


def _message(text: str) -> tuple[str, str]:
    """Return a line without glog's prefix and the file that logged it ("" without a prefix)."""
    text = text.strip()
    found = _GLOG.match(text)
    return (text[found.end() :], found[2]) if found else (text, "")


def _layer(text: str, *, file: str) -> tuple[str, re.Match[str]] | None:
    """Return the name of a layer, and its pass with the time; None for other lines.

    Before the pass stands a tab. A blank, as in copies, is taken for it where the line is Caffe's own.
    """
    for word in ("forward: ", "backward: "):
        at = text.rfind(word)
        if at > 0 and (text[at - 1] == "\t" or (text[at - 1] == " " and file.startswith("caffe"))):
            found = _LAYER_END.fullmatch(" ".join(text[at:].split()))
            name = text[:at].strip()
            if found and name and name != "Iteration:":
                return name, found
    return None


def sniff(head: Head) -> Confidence:
    """Say YES to a line of the benchmark; MAYBE to the log of a Caffe that has loaded a net, which comes before it."""
    if head.tables or not head.text:
        return Confidence.NO
    net = False
    for text in head.data.decode("utf-8", "replace").split("\n"):
        message, file = _message(text[:4096])
        if "***" in message and _BEGINS.fullmatch(message) and file:
            return Confidence.YES
        if message.endswith((" ms.", " milli seconds.")):
            words = " ".join(message.split())
            if (
                _ITERATION.fullmatch(words)
                or words.startswith("Average Forward-Backward: ")
                or _layer(message, file=file)
            ):
                return Confidence.YES
        net = net or file in ("net.cpp", "caffe.cpp", "caffe.bin.cpp", "layer_factory.hpp")
    return Confidence.MAYBE if net else Confidence.NO


class _Reading:
    def __init__(self, options: ReadOptions, ledger: Ledger, run: Run) -> None:
        self.ledger, self.run = ledger, run
        self.rows = TotalRows(options.source, ledger)
        self.source = options.source
        self.number = -1
        self.found = 0
        self._iterations: int | None = None
        self._device: int | None = None
        self._ended = False
        self._handlers = (
            (_ITERATION, self._iteration),
            (_PASS, self._pass),
            (_TESTING, self._testing),
        )

    def line(self, line: TextLine) -> None:
        ledger = self.ledger
        message, file = _message(line.text)
        if not message:
            ledger.ignore("blank lines")
            return
        words = " ".join(message.split())
        if _BEGINS.fullmatch(words):
            ledger.ignore("headings")
            self._begin()
            return
        if _ENDS.fullmatch(words):
            ledger.ignore("headings")
            self._ended = True
            return
        if words == "Average time per layer:":
            ledger.ignore("headings")
            return
        for pattern, take in self._handlers:
            if (found := pattern.fullmatch(words)) and (file or self.number >= 0 or words.startswith("Average")):
                take(found, line)
                return
        if layer := _layer(message, file=file):
            self._layer(*layer, line)
        elif self._is_fact(words):
            ledger.facts += 1
        elif (
            (words.startswith(_ROW_STARTS) and self.number >= 0)
            or "\tforward: " in message
            or "\tbackward: " in message
            or (line.torn and self.number >= 0 and not self._ended)
        ):
            self._damaged(line)
        else:
            ledger.ignore("log lines" if file else "other output")

    def _damaged(self, line: TextLine) -> None:
        if line.torn:
            self.ledger.drop("torn-row", where=line.where, text="dropped: the last line was cut")
        else:
            why = "dropped: lines that begin as a row and do not end as one"
            self.ledger.drop("bad-row", where=line.where, text=why)

    def _begin(self) -> None:
        self.number += 1
        self._iterations, self._ended = None, False

    def _is_fact(self, words: str) -> bool:
        """Take what stands before a benchmark and is no row: CPU or GPU, and the GPU's name."""
        facts = self.run.sources[0].facts
        if words == "Use CPU.":
            self._device = None
            facts.setdefault("mode", "CPU")
        elif gpu := _GPU.fullmatch(words):
            self._device = int(gpu[1])
            facts.setdefault("mode", "GPU")
        elif (name := _GPU_NAME.fullmatch(words)) and len(self.run.devices) < 1 << 10:
            number = self._device if name[2] is None else int(name[2])
            if number is None or number >= 1 << 31:
                return False
            self.run.devices.setdefault((self.source, number), name[1] or name[3])
        else:
            return False
        return True

    def _add(
        self, section: str, name: str, kind: Kind, found: re.Match[str], group: int, line: TextLine,
        args: dict[str, Any] | None = None, calls: int | None = 1,
    ) -> None:  # fmt: skip
        """Add a row whose time is in groups `group` and the next."""
        if self.number < 0 or (self._ended and section != "header"):
            self._begin()
        self.found += 1
        more: dict[str, Any] = {"calls": calls, "device": self._device}
        try:
            time = printed(found[group], _UNIT[found[group + 1]])
        except ValueError:
            if found[group].lstrip("+-").lower() not in ("nan", "inf"):
                self.ledger.drop("bad-time", where=line.where, text="dropped: times beyond 146 years")
                return
            self.ledger.note("no-iteration", "times that are no numbers: no iteration was run", where=line.where)
            more["value_text"] = found[group]
        else:
            more["total_ns"] = time.rounded()
            if calls:
                more["avg_ns"] = float(time.ns / calls)
        self.ledger.kept += 1
        self.rows.add(self.number, section, name, str(kind), args, **more)

    def _layer(self, name: str, found: re.Match[str], line: TextLine) -> None:
        old = found[3] != "ms"
        kind = Kind.FORWARD if found[1] == "forward" else Kind.BACKWARD
        section, calls = ("Time per layer", self._iterations) if old else ("Average time per layer", 1)
        self._add(section, name, kind, found, 2, line, {"pass": found[1]}, calls)

    def _iteration(self, found: re.Match[str], line: TextLine) -> None:
        self._add("Iterations", "Iteration", Kind.STEP, found, 2, line, {"iteration": int(found[1])})

    def _pass(self, found: re.Match[str], line: TextLine) -> None:
        kind = Kind.FORWARD if found[1].endswith("Forward pass") else Kind.OTHER
        kind = Kind.BACKWARD if found[1].endswith("Backward pass") else kind
        calls = 1 if found[1].startswith("Average") else self._iterations
        self._add("header", found[1], kind, found, 2, line, calls=calls)

    def _testing(self, found: re.Match[str], _line: TextLine) -> None:
        if self.number < 0 or self._ended:
            self._begin()
        self._iterations = int(found[1])
        self.ledger.kept += 1
        self.rows.add(
            self.number, "header", "Iterations", str(Kind.OTHER), calls=self._iterations, device=self._device,
            value_avg=float(self._iterations), unit="iterations",
        )  # fmt: skip


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when there was no benchmark."""
    run = Run(sources=[SourceFacts(source.name, READER.name, facts={"tool": "Caffe", "command": "caffe time"})])
    return Opened(run, _batches(source, _Reading(options, ledger, run)), True, (ledger,))


def _batches(source: Source, reading: _Reading) -> Iterator[pa.RecordBatch]:
    ledger = reading.ledger
    for line in text_lines(source, ledger):
        reading.line(line)
        yield from reading.rows.take()
    yield from reading.rows.take(everything=True)
    if reading.number < 0 and not ledger.dropped:
        raise ParseError(
            source.name, "", "no benchmark of Caffe was found", hint="`caffe time` prints one; train and test do not"
        )
    if not reading.found:
        ledger.note("no-rows", "the benchmark has no times: was it ended before it was done?")


READER = Reader("caffe-time", "log of caffe time", (".log", ".txt"), sniff, read, gives="totals")

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

Caffe before September 2014 printed `conv1<TAB>forward: 35.2 milliseconds.`, the sum over all iterations: section
`Time per layer`, where `calls` is the number of iterations. A Caffe of Intel of 2015 prints `Min time per layer` and
`Min Forward pass`: sections and names say so.

Sources: tools/caffe.cpp of BVLC/caffe, `time()`, from 2014 to 1.0, and of NVIDIA/caffe 0.16 (`Average Initialization
Forward/Backward pass`); examples/TensorRT/README.md of NVIDIA/caffe 0.17; `prefix`. Not supported: `caffe train`
and `caffe test`, which print no times of layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.printed.lines import ANY_NUMBER, TextLine, TotalRows, batches_of_lines, first_lines, printed
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.prefix import Logged, logged
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

# Lines of `caffe time`: the recognition, and the batches.


_TIME = rf"({ANY_NUMBER}) (ms|milli ?seconds)\.?"
_LAYER_END = re.compile(rf"(forward|backward): {_TIME}", re.ASCII)
_PASS = re.compile(
    r"((?:[A-Z]\w{0,20} )?(?:Forward pass|Backward pass|Forward-Backward)|Total Time"
    rf"|Average Initialization Forward/Backward pass): {_TIME}",
    re.ASCII,
)
_INITIALIZATION = "Average Initialization Forward/Backward pass"
_LAYERS = re.compile(r"((?:Average|Min|Max) time per layer):")
_AVERAGE = "Average time per layer"
_ITERATION = re.compile(rf"Iteration: (\d{{1,18}}) forward-backward time: {_TIME}", re.ASCII)
_RANGE = re.compile(rf"Iterations: (\d{{1,18}})-(\d{{1,18}}) average forward-backward time: {_TIME}", re.ASCII)
_TESTING = re.compile(r"Testing for (\d{1,18}) iterations\.", re.ASCII)
_GPU = re.compile(r"Use GPU with device ID (\d{1,9})", re.ASCII)
_GPU_NAME = re.compile(r"GPU device name: (\S.*)|GPU (\d{1,9}): (\S.*)", re.ASCII)
_BEGINS, _ENDS = re.compile(r"\*\*\* ?Benchmark begins ?\*\*\*"), re.compile(r"\*\*\* ?Benchmark ends ?\*\*\*")
_ROW_STARTS = ("Iteration: ", "Average Forward", "Average Backward", "Total Time:", "Testing for ")


@dataclass(slots=True)
class _CaffeProcess:
    """A process that logs. number: its benchmark, -1: none. first: its first layer. seen: lines that come once."""

    number: int = -1
    iterations: int | None = None
    device: int | None = None
    rank: int | None = None
    ended: bool = False
    last: int = -1
    first: tuple[str, str] | None = None
    seen: set[str] = field(default_factory=set)
    section: str = _AVERAGE


_NET = frozenset(("net.cpp", "layer_factory.hpp"))
"""Source files that log the layers of the net, which is most of a log."""
_CAFFE = _NET | {"caffe.cpp", "caffe.bin.cpp", "_caffe.cpp"}
_MOST_PROCESSES = 1 << 12


def _layer(text: str, *, own: bool) -> tuple[str, re.Match[str]] | None:
    """Return the name of a layer, and its pass with the time; None for other lines.

    Before the pass is a tab. A blank, as in copies, counts as one where the line is Caffe's own.
    """
    for word in ("forward: ", "backward: "):
        at = text.rfind(word)
        if at > 0 and (text[at - 1] == "\t" or (text[at - 1] == " " and own)):
            match = _LAYER_END.fullmatch(" ".join(text[at:].split()))
            name = text[:at].strip()
            if match and name and name != "Iteration:":
                return name, match
    return None


def sniff(head: Head) -> Confidence:
    """Return YES for a line of the benchmark, MAYBE for the log of a Caffe that has loaded a net."""
    if head.tables or not head.text:
        return Confidence.NO
    net = False
    for text in first_lines(head.data):
        entry = logged(text[:4096])
        message, file = entry.message, entry.file
        if "***" in message and _BEGINS.fullmatch(message) and file:
            return Confidence.YES
        if message.rstrip(".").endswith((" ms", "seconds")):
            words = " ".join(message.split())
            if (
                _ITERATION.fullmatch(words)
                or _RANGE.fullmatch(words)
                or (words.startswith("Average ") and _PASS.fullmatch(words))
                or _layer(message, own=file.startswith("caffe"))
            ):
                return Confidence.YES
        net = net or file in _CAFFE
    return Confidence.MAYBE if net else Confidence.NO


class _CaffeReading:
    def __init__(self, options: ReadOptions, ledger: Ledger, run: Run) -> None:
        self.ledger, self.run = ledger, run
        self.rows = TotalRows(options.source, ledger)
        self.source = options.source
        self.benchmarks = 0
        self.found = 0
        self._now = _CaffeProcess()
        self._processes: dict[tuple[int | None, str], _CaffeProcess] = {(None, ""): self._now}
        self._held: tuple[Logged, TextLine] | None = None
        self._handlers = (
            (_ITERATION, self._iteration),
            (_PASS, self._pass),
            (_TESTING, self._testing),
            (_RANGE, self._range),
        )

    def line(self, line: TextLine) -> None:
        """Take one line; one of Caffe's that is nothing yet waits for the next, as a mail may have broken it."""
        entry = logged(line.text)
        if self._held is not None:
            (before, its_line), self._held = self._held, None
            if entry.message and not entry.file and self._take(f"{before.message} {entry.message}", before.file, line):
                self.ledger.merged += 1
                return
            self._leave(before, its_line)
        if not entry.message:
            self.ledger.ignore("blank lines")
            return
        if entry.thread or entry.rank is not None:
            self._turn_to(entry)
        if self._take(entry.message, entry.file, line):
            return
        if entry.file.startswith("caffe") and not line.torn:
            self._held = entry, line
        else:
            self._leave(entry, line)

    def finish(self) -> None:
        """Count the line that waits, and note benchmarks that did not end."""
        if self._held is not None:
            self._leave(*self._held)
        for process in self._processes.values():
            self._close(process)

    def _turn_to(self, entry: Logged) -> None:
        key = entry.rank, entry.thread
        if key not in self._processes and len(self._processes) >= _MOST_PROCESSES:
            self._processes.clear()
        self._now = self._processes.setdefault(key, _CaffeProcess(rank=entry.rank))

    def _take(self, message: str, file: str, line: TextLine) -> bool:
        """Take a line of a benchmark; False for others."""
        if file in _NET:
            return False
        ledger, now = self.ledger, self._now
        words = " ".join(message.split())
        if _BEGINS.fullmatch(words):
            ledger.ignore("headings")
            if now.seen != {_INITIALIZATION}:
                self._begin()
            return True
        if _ENDS.fullmatch(words):
            ledger.ignore("headings")
            now.ended = True
            return True
        if heading := _LAYERS.fullmatch(words):
            ledger.ignore("headings")
            self._once("layers")
            now.section = heading[1]
            return True
        for pattern, take in self._handlers:
            if (match := pattern.fullmatch(words)) and (file or now.number >= 0 or words.startswith("Average")):
                take(match, line)
                return True
        if layer := _layer(message, own=file.startswith("caffe") or ("layers" in now.seen and not now.ended)):
            self._layer(*layer, line)
        elif self._is_fact(words):
            ledger.facts += 1
        else:
            return False
        return True

    def _leave(self, entry: Logged, line: TextLine) -> None:
        """Count a line that is no line of a benchmark, or a damaged one."""
        message, is_open = entry.message, self._now.number >= 0 and not self._now.ended
        if (
            (is_open and (line.torn or " ".join(message.split()).startswith(_ROW_STARTS)))
            or "\tforward: " in message
            or "\tbackward: " in message
        ):
            self._damaged(line)
        else:
            self.ledger.ignore("log lines" if entry.file else "other output")

    def _damaged(self, line: TextLine) -> None:
        if line.torn:
            drop_torn(self.ledger, line.where)
        else:
            why = "dropped: lines that begin as a row and do not end as one"
            self.ledger.drop("bad-row", where=line.where, text=why)

    def _begin(self) -> None:
        now = self._now
        self._close(now)
        now.number, self.benchmarks = self.benchmarks, self.benchmarks + 1
        now.iterations, now.ended, now.last, now.first = None, False, -1, None
        now.seen.clear()
        now.section = _AVERAGE

    def _once(self, what: str) -> None:
        """Begin a benchmark where a line comes that the one before had already."""
        if what in self._now.seen or self._now.number < 0:
            self._begin()
        self._now.seen.add(what)

    def _close(self, process: _CaffeProcess) -> None:
        if process.first and "Total Time" not in process.seen and "Average Forward-Backward" not in process.seen:
            why = "benchmarks without their last lines, so that layers may be missing"
            self.ledger.note("benchmark-cut", why)

    def _is_fact(self, words: str) -> bool:
        """Take the facts before a benchmark: CPU or GPU, and the GPU's name."""
        facts = self.run.sources[0].facts
        if words == "Use CPU.":
            self._now.device = None
            facts.setdefault("mode", "CPU")
        elif gpu := _GPU.fullmatch(words):
            self._now.device = int(gpu[1])
            facts.setdefault("mode", "GPU")
        elif (name := _GPU_NAME.fullmatch(words)) and len(self.run.devices) < 1 << 10:
            number = self._now.device if name[2] is None else int(name[2])
            if number is None or number >= 1 << 31:
                return False
            self.run.devices.setdefault((self.source, number), name[1] or name[3])
        else:
            return False
        return True

    def _add(
        self,
        section: str,
        name: str,
        kind: Kind,
        match: re.Match[str],
        group: int,
        line: TextLine,
        args: Mapping[str, object] | None = None,
        calls: int | None = 1,
        *,
        average: bool = False,
    ) -> None:
        """Add a row whose time is in groups `group` and the next. average: the time of one of the calls."""
        now = self._now
        if now.number < 0 or (now.ended and section != "header"):
            self._begin()
        self.found += 1
        more: dict[str, object] = {"calls": calls, "device": now.device, "rank": now.rank}
        try:
            time = printed(match[group], "ms")
            if average:
                time = time.times(calls or 0)
        except ValueError:
            if match[group].lstrip("+-").lower() not in ("nan", "inf"):
                self.ledger.drop("bad-time", where=line.where, text="dropped: times beyond 146 years")
                return
            self.ledger.note("no-iteration", "times that are no numbers: no iteration was run", where=line.where)
            more["value_text"] = match[group]
        else:
            more["total_ns"] = time.rounded()
            if calls:
                more["avg_ns"] = float(time.ns / calls)
        self.ledger.kept += 1
        self.rows.add(now.number, section, name, str(kind), args, **more)

    def _layer(self, name: str, match: re.Match[str], line: TextLine) -> None:
        old = match[3] != "ms"
        kind = Kind.FORWARD if match[1] == "forward" else Kind.BACKWARD
        layer = name, match[1]
        if self._now.first == layer or self._now.ended:
            self._begin()
        section, calls = ("Time per layer", self._now.iterations) if old else (self._now.section, 1)
        self._add(section, name, kind, match, 2, line, {"pass": match[1]}, calls)
        self._now.first = self._now.first or layer

    def _iteration(self, match: re.Match[str], line: TextLine) -> None:
        self._count_on(int(match[1]))
        self._add("Iterations", "Iteration", Kind.STEP, match, 2, line, {"iteration": int(match[1])})

    def _range(self, match: re.Match[str], line: TextLine) -> None:
        first, last = int(match[1]), int(match[2])
        self._count_on(last)
        args = {"first": first, "last": last}
        self._add("Iterations", "Iterations", Kind.STEP, match, 3, line, args, max(last - first, 0), average=True)

    def _count_on(self, iteration: int) -> None:
        if iteration <= self._now.last or self._now.ended or self._now.number < 0:
            self._begin()
        self._now.last = iteration

    def _pass(self, match: re.Match[str], line: TextLine) -> None:
        kind = Kind.FORWARD if match[1].endswith("Forward pass") else Kind.OTHER
        kind = Kind.BACKWARD if match[1].endswith("Backward pass") and match[1] != _INITIALIZATION else kind
        self._once(match[1])
        is_sum = match[1].startswith(("Forward", "Backward", "Total"))
        calls = self._now.iterations if is_sum else 1
        self._add("header", match[1], kind, match, 2, line, calls=calls)

    def _testing(self, match: re.Match[str], _line: TextLine) -> None:
        now = self._now
        if now.ended:
            self._begin()
        self._once("Testing")
        now.iterations = int(match[1])
        self.ledger.kept += 1
        count, name, kind = now.iterations, "Iterations", str(Kind.OTHER)
        process = {"device": now.device, "rank": now.rank}
        self.rows.add(
            now.number, "header", name, kind, None, calls=count, value_avg=float(count), unit="iterations", **process
        )


_CELLS = NumberCells(re.compile(rf"[ \t]{LOCAL_NUMBER} ?(?:ms|milli ?seconds|us)\b"))


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when there was no benchmark."""
    run = Run(sources=[SourceFacts(source.name, "caffe-time", facts={"tool": "Caffe", "command": "caffe time"})])
    source = as_printed(source, options, _CELLS)
    return ReadResult(run, _batches(source, _CaffeReading(options, ledger, run)), True, (ledger,))


def _batches(source: Source, reading: _CaffeReading) -> Iterator[pa.RecordBatch]:
    ledger = reading.ledger
    yield from batches_of_lines(source, ledger, reading)
    if not reading.benchmarks and not ledger.dropped:
        raise ParseError(
            source.name, "", "no benchmark of Caffe was found", hint="`caffe time` prints one; train and test do not"
        )
    if not reading.found:
        ledger.note("no-rows", "the benchmark has no times: was it ended before it was done?")

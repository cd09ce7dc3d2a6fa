"""Rows of Class, Ops and Apply, of the remainder below them, and of the overhead of scans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.printed.lines import ANY_NUMBER, NUMBER, PrintedLines, TextLine, printed
from tracekit.readers.printed.pasted import RankRows

# Patterns for the lines of a Theano profile. `words` are the words of a line with single blanks between them.
#
# Sources: theano/compile/profiling.py of Theano 0.6 to 1.0.5, Theano-PyMC 1.1.2, Aesara 2 and PyTensor 2 to 3;
# print_profile() of theano/gof/opt.py; profile_printer() of theano/scan_module/scan_op.py.


FUNCTION, SCAN = "Function profiling", "Scan Op profiling"
CLASS, OPS, APPLY = "Class", "Ops", "Apply"
MEMORY, OPTIMIZER, OVERHEAD = "Memory Profile", "Optimizer Profile", "Scan overhead"

_TIME = rf"(?P<time>{ANY_NUMBER})s"
_PERCENT = rf"(?: \((?P<percent>{ANY_NUMBER})%\))?"
_JOINED = r"(?: (?:Class|Ops|Apply))?"
"""A copy that lost its empty lines has the name of the next table at the end of a line."""


@dataclass(frozen=True, slots=True)
class FactLine:
    """A line of a block's head. name: ours, the same for all versions; raw_name has the words of the line."""

    name: str
    pattern: re.Pattern[str]
    start: re.Pattern[str]


def _fact(name: str, start: str, rest: str) -> FactLine:
    return FactLine(name, re.compile(f"(?P<label>{start}){rest}{_JOINED}", re.ASCII), re.compile(start, re.ASCII))


FACTS: tuple[FactLine, ...] = (
    _fact(
        "Time in calls to Function.__call__", r"Time in (?P<calls>\d{1,18}) calls to Function\.__call__", f": {_TIME}"
    ),
    _fact("Time in Function.fn.__call__", r"Time in Function\.(?:fn|vm)\.__call__", f": {_TIME}{_PERCENT}"),
    _fact("Time in thunks", "Time in thunks", f": {_TIME}{_PERCENT}"),
    _fact("Total compile time", "Total compil(?:e|ation) time", f": {_TIME}"),
    _fact("Number of Apply nodes", "Number of Apply nodes", r": (?P<count>-?\d{1,18})"),
    _fact("Optimizer time", r"\w{1,40} (?:[Oo]ptimizer|rewrite) time", f": {_TIME}"),
    _fact("Validate time", r"\w{1,40} validate time", f": {_TIME}"),
    _fact("Linker time", r"\w{1,40} Linker time \(includes C, CUDA code generation/compiling\)", f": {_TIME}"),
    _fact("C-cache preloading", "C-cache preloading", f":? {_TIME}"),
    _fact("Import time", "Import time", f":? {_TIME}"),
    _fact("Node make_thunk time", "Node make_thunk time", f":? {_TIME}"),
    _fact("Time in all calls of grad()", r"Time in all call to \w{1,40}\.grad\(\)", f" {_TIME}"),
    _fact("Time since import", r"Time since \w{1,40} import", f" {_TIME}"),
    _fact(
        "Time in calls of the op",
        r"Time in (?P<calls>\d{1,18})(?:\.0)? calls of the op \(for a total of (?P<steps>\d{1,18})(?:\.0)? steps\)",
        f" {_TIME}",
    ),
    _fact("Total time spent in calling the VM", "Total time spent in calling the VM", f" {_TIME}{_PERCENT}"),
    _fact("Total overhead (computing slices..)", r"Total overhead \(computing slices ?\.\.\)", f" {_TIME}{_PERCENT}"),
)
"""The words of Aesara and PyTensor are here too; the first word of some lines names the program."""

TOOL = re.compile(r"(?:Time since (theano|aesara|pytensor) import|(Theano|Aesara|PyTensor) (?:validate|Linker) time)\b")
TOOLS = {"theano": "Theano", "aesara": "Aesara", "pytensor": "PyTensor"}
MESSAGE = re.compile(r"Message: (.*)")
SCAN_HEAD = re.compile(r"Scan Op profiling(?: \( ?(.*?) ?\))?$")
SUM = re.compile(r"Sum of all(?: ?\(\d{1,9}\))? printed profiles at exit\b")
THUNK_NODE = re.compile(rf"Node (?P<name>\S.*) time (?P<time>{ANY_NUMBER})s", re.ASCII | re.DOTALL)

TABLE = re.compile(r"<% time> <sum %> <apply time> <time per call> .*<(Class|Op|Apply) name>")
TABLE_OF = {"Class": CLASS, "Op": OPS, "Apply": APPLY}
ROW_START = re.compile(r"-?\d{1,3}(?:\.\d{1,9})?(?:%|\.?…%?|\.{2,3}%?)\s")
_SHARES = rf"(?P<percent>{NUMBER})%\s+(?P<sum>{NUMBER})%\s+(?P<time>{ANY_NUMBER})s\s+(?P<each>{ANY_NUMBER})s\s+"
GROUP_ROW = re.compile(
    rf"{_SHARES}(?:(?P<impl>C\s*Py|Py\s*C|C|Py)\s+)?(?P<calls>\d{{1,18}})\s+(?P<nodes>\d{{1,18}})\s+(?P<name>\S.*)",
    re.ASCII,
)
"""A row of Class and of Ops."""
APPLY_ROW = re.compile(rf"{_SHARES}(?P<calls>\d{{1,18}})\s+(?P<id>\d{{1,18}})\s+(?P<name>\S.*)", re.ASCII)
FLOPS = re.compile(rf"(?P<mflops>{ANY_NUMBER})\s+(?P<gflops>{ANY_NUMBER})\s+(?P<name>\S.*)", re.ASCII)
VARIABLE = re.compile(r"(input|output) (\d{1,9}): (dtype=.*)", re.ASCII)
REMAINDER = re.compile(
    r"\.\.\. ?\(remaining (?P<count>\d{1,18}) (?P<what>Classes|Ops|Apply instances) account for "
    rf"(?P<percent>{ANY_NUMBER})%{{1,2}} ?\((?P<time>{ANY_NUMBER})s\) of the runtime\){_JOINED}",
    re.ASCII,
)
REMAINDER_OF = {"Classes": CLASS, "Ops": OPS, "Apply instances": APPLY}
NO_TIME = re.compile(
    r"No (?:execution|node) time accumulated|Profile(?:Mode|Stats)\.summary_(?:class|ops|nodes): total time 0"
)

OVERHEAD_ROW = re.compile(
    rf"(?:total\s+)?(?P<time>{ANY_NUMBER})s\s+(?P<fct>{ANY_NUMBER})s\s+(?P<op>{ANY_NUMBER})s\s+"
    rf"(?P<fct_percent>{ANY_NUMBER})%\s+(?P<op_percent>{ANY_NUMBER})%(?:\s+(?P<name>\S.*))?",
    re.ASCII,
)
OVERHEAD_TALK = re.compile(
    r"(?:One|No) scan (?:node )?(?:do not )?ha(?:ve|s) its inner profile enabled|The node took 0s, so we can ?not"
)

PEAK_HEAD = re.compile(r"Max peak memory (.*)")
PEAK = re.compile(r"(CPU|GPU|CPU \+ GPU): (\d{1,15})KB(?: \((\d{1,15})KB\))?", re.ASCII)
OLD_PEAK = re.compile(
    r"((?:Max if |Memory saved if |Max Memory allocated on the GPU).{1,80}?): "
    r"(?:(\d{1,15})KB(?: \((\d{1,15})KB\))?|(unknown))",
    re.ASCII,
)
MIN_PEAK = re.compile(
    r"(Minimum peak from all valid apply node order) is (\d{1,15})KB(?: ?\(took (\S{1,40})s to compute\))?"
)
PEAK_START = re.compile(r"(?:CPU|GPU|CPU \+ GPU): \d|Max if |Max Memory allocated|Memory saved if |Minimum peak from")
MEMORY_ROW = re.compile(
    r"(?:(?P<bytes>\d{1,18})B|(?P<unknown>Unknown)|\{node_outputs_size:9d\}B)\s+"
    r"(?P<shapes>\[.*?\])\s(?P<code>[civ](?:\s[civ])*)\s+(?P<name>\S.*)",
    re.ASCII,
)
MEMORY_START = re.compile(r"(?:\d{1,18}B|Unknown|\{node_outputs_size:9d\}B)\s+\[")
MEMORY_REST = re.compile(
    r"\.\.\. ?\(remaining (?P<count>\d{1,18}) Apply account for (?P<bytes>\d{1,18})B/(?P<all>\d{1,18})B "
    r"\(\(?(?P<percent>[\d.]{1,20})%\)?\) of the Apply with dense outputs sizes\)",
    re.ASCII,
)
MEMORY_TALK = (
    "(Sparse variables are ignored",
    "(For values in brackets",
    "This list is based on all functions",
    "<Sum apply outputs (bytes)>",
    "<created/inplace/view> is taken",
    "Apply nodes marked 'inplace' or 'view'",
)
MEMORY_SMALL = re.compile(r"All Apply nodes have output sizes that take less than (\d{1,18})B\.")

_TEXT = r"""(?:'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+"|None)"""
OPTIMIZER_HEAD = re.compile(
    rf"(?P<class>\w{{1,80}})(?: (?P<name>\S{{1,200}}))? time (?P<time>{ANY_NUMBER})s for "
    r"(?P<before>-?\d{1,18})/(?P<after>-?\d{1,18}) nodes before/after (?:optimization|rewriting)",
    re.ASCII,
)
OPTIMIZER_ROW = re.compile(
    rf"(?P<time>{ANY_NUMBER})s - \((?P<name>{_TEXT}), (?P<class>{_TEXT}), (?P<index>-?\d{{1,18}})"
    rf"(?:, (?P<before>-?\d{{1,18}}), (?P<after>-?\d{{1,18}}))?\)(?: - (?P<validate>{ANY_NUMBER})s)?"
)
"""Without the last time in the sum of several profiles."""
OPTIMIZER_START = re.compile(rf"{ANY_NUMBER}s - \(['\"]")
OPTIMIZER_LEGEND = "time - (name, class, index"

TIPS = "Here are tips to potentially make your code run faster"
TIPS_TALK = ("(if you think of new ones", "Test them first")
TIP = ("- ", "Sorry, no tip for today", "Install CuDNN to do ", "We don't know if amdlibm will accelerate")
GLOBAL_STATS = re.compile(r"\(?['\"]?Global stats: |\(?['\"]?Time elasped since \w+ import = ")
MARK = re.compile(rf"(?:{FUNCTION}\s*$|{SCAN}|<% time> <sum %>)")
"""The begin of the report in a line with the heading of a block or the header of a table."""
PROFILE_MODE = re.compile(r"ProfileMode\.(?:print_(?:diff_)?summary|long_print)\(\)")
"""Theano's profiler before 0.6, of which there are many layouts."""
MODULE_PATH = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+", re.ASCII)
CLASS_NAME = re.compile(r"<class '(.+)'>")
WARNING = re.compile(r"\b\w*Warning: |^warnings\.warn\(|^WARNING\b")


def is_open(name: str) -> bool:
    """Return whether a name has open brackets, as in a constant of several lines.

    >>> is_open("Dot(TensorConstant{[[1. 0.]")
    True
    """
    return sum(map(name.count, "([{")) > sum(map(name.count, ")]}"))


def unquoted(text: str) -> str | None:
    """Return the text of a printed Python string; None for None."""
    if text == "None":
        return None
    return re.sub(r"\\(.)", r"\1", text[1:-1])


# Blocks of a Theano profile, and the rows and damaged lines of one reading.


_PREFIX = {"function": "", "sum": "Sum of all: ", "scan": "Scan Op: "}


@dataclass(slots=True)
class TheanoBlock:
    """One block of a profile.

    kind: function, sum or scan. seen: the tables so far. thunks: its `Time in thunks`. over: its tips have ended it.
    """

    number: int
    kind: str = "function"
    message: str | None = None
    thunks: PrintedLines | None = None
    seen: set[str] = field(default_factory=set)
    over: bool = False


@dataclass(slots=True)
class _WaitingRow:
    """A row that waits for the lines below it. section: None for a row of section `header`."""

    block: TheanoBlock
    section: str | None
    name: str
    kind: Kind
    args: Mapping[str, object]
    more: dict[str, object]
    below: dict[str, list[str]] = field(default_factory=dict)


MOST_LINES = 50
"""Most lines of a name."""
MOST_BELOW = 1 << 20
"""Most characters of the lines below a row (inputs, outputs, details) that are kept with it."""


class Out:
    """The rows and damaged lines of one reading. found: the number of rows with a time or size.

    A row whose `args` include the lines below it waits for them (`hold`). Methods that keep or drop a line return True,
    because the line belongs to the profile.
    """

    def __init__(self, rows: RankRows, ledger: Ledger) -> None:
        self.ledger = ledger
        self.rows = rows
        self.found = 0
        self._waiting: _WaitingRow | None = None
        self._below = 0
        self._name: list[str] = []

    def flush(self) -> None:
        """Add the waiting row. Lines that did not close its name were not part of it."""
        if self._name:
            self.ledger.ignore("other output", len(self._name))
            self._name = []
        if self._waiting is not None:
            row, self._waiting = self._waiting, None
            args = {**row.args, **row.below}
            if row.section is not None:
                self.row(row.block, row.section, row.name, row.kind, args, **row.more)
            else:
                self.header(row.block, row.name, args, **row.more)
                self.ledger.kept += 1

    def hold(
        self,
        block: TheanoBlock,
        name: str,
        args: Mapping[str, object],
        *,
        section: str | None = None,
        kind: Kind = Kind.OTHER,
        **more: object,
    ) -> bool:
        """Keep a row until the lines below it are read. Without a section it becomes a row of section `header`."""
        self.flush()
        self._waiting, self._below = _WaitingRow(block, section, name, kind, args, more), 0
        return True

    def below(self, key: str, text: str) -> bool | None:
        """Add a line to the waiting row, under a key of its `args`; None without such a row, False when it is full."""
        if self._waiting is None:
            return None
        self._below += len(text) + 1
        if self._below > MOST_BELOW:
            return False
        self._waiting.below.setdefault(key, []).append(text)
        self.ledger.merged += 1
        return True

    def continues_name(self, text: str) -> bool:
        """Add a line to the name of the waiting row while its brackets are open; return whether it was added."""
        row = self._waiting
        if row is None or row.section is None or row.below:
            return False
        whole = "\n".join([row.name, *self._name, text.rstrip()])
        if len(self._name) >= MOST_LINES or not is_open("\n".join([row.name, *self._name])):
            return False
        self._name.append(text.rstrip())
        if not is_open(whole):
            row.name = whole
            self.ledger.merged += len(self._name)
            self._name = []
            self.note_joined()
        return True

    def note_joined(self) -> None:
        """Note that a name had several lines."""
        self.ledger.note("names-joined", "names whose brackets are closed on a later line: the lines were joined")

    def take_back_blank(self, key: str) -> None:
        """Remove a blank line at the end of a key: it belongs to the lines that follow."""
        lines = self._waiting.below.get(key, []) if self._waiting is not None else []
        if lines and not lines[-1]:
            lines.pop()
            self.ledger.merged -= 1
            self.ledger.ignore("blank lines")

    def row(
        self,
        block: TheanoBlock,
        section: str,
        name: str,
        kind: Kind,
        args: Mapping[str, object] | None = None,
        **more: object,
    ) -> bool:
        """Add a row of a table; the sections of a sum and of a scan have names of their own."""
        self.flush()
        self.rows.add(block.number, _PREFIX[block.kind] + section, name, str(kind), args, **more)
        self.found += 1
        self.ledger.kept += 1
        return True

    def header(self, block: TheanoBlock, name: str, args: Mapping[str, object] | None = None, **more: object) -> None:
        """Add a row of section `header`, without counting a line."""
        self.flush()
        marked = {**(args or {}), "sum": True} if block.kind == "sum" else args
        self.rows.add(block.number, "header", name, str(Kind.OTHER), marked, **more)

    def words(self, block: TheanoBlock, name: str, text: str) -> bool:
        """Add a line of words as a row of section `header`."""
        self.header(block, name, value_text=text)
        self.ledger.kept += 1
        return True

    def torn(self, line: TextLine) -> bool:
        """Drop the last line, which was cut."""
        drop_torn(self.ledger, line.where)
        return True

    def bad(self, line: TextLine) -> bool:
        """Drop a line that begins like a row and does not end like one."""
        if line.torn:
            return self.torn(line)
        why = "dropped: lines that begin like a row and do not end like one"
        self.ledger.drop("bad-row", where=line.where, text=why)
        return True

    def bad_time(self, line: TextLine) -> bool:
        """Drop a line whose time is not a number."""
        why = "dropped: times that are not numbers, or beyond 146 years"
        self.ledger.drop("bad-time", where=line.where, text=why)
        return True


# Rows of Memory Profile and of Optimizer Profile (PyTensor's Rewriter Profile).


_PEAKS = f"{MEMORY}: peaks"
_HEAD = f"{OPTIMIZER} head"


class Memory:
    """Peaks of memory under several settings, then the nodes with the largest outputs."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._setting = ""

    def line(self, block: TheanoBlock, words: str, line: TextLine) -> bool:
        """Take a line of the section."""
        out = self._out
        if small := MEMORY_SMALL.fullmatch(words):
            out.header(block, "All Apply nodes have smaller outputs", bytes=int(small[1]))
            out.ledger.kept += 1
        elif words.startswith(MEMORY_TALK):
            out.ledger.ignore("explanations")
        elif match := PEAK.fullmatch(words):
            args = {"linker_c_py_bytes": int(match[3]) << 10} if match[3] else None
            name = f"{self._setting or 'Max peak memory'}: {match[1]}"
            out.row(block, _PEAKS, name, Kind.MEMORY, args, bytes=int(match[2]) << 10)
        elif match := OLD_PEAK.fullmatch(words):
            more: dict[str, object] = {"bytes": int(match[2]) << 10} if match[2] else {"value_text": match[4]}
            args = {"linker_c_py_bytes": int(match[3]) << 10} if match[3] else None
            out.row(block, _PEAKS, match[1], Kind.MEMORY, args, **more)
        elif match := MIN_PEAK.fullmatch(words):
            computed = {"computed_in_s": match[3]} if match[3] else None
            out.row(block, _PEAKS, match[1], Kind.MEMORY, computed, bytes=int(match[2]) << 10)
        elif PEAK_HEAD.match(words) and len(words) < 200:
            self._setting = words
            out.ledger.ignore("headings")
        elif MEMORY_START.match(words):
            self._node(block, line)
        elif PEAK_START.match(words):
            out.bad(line)
        else:
            return False
        return True

    def _node(self, block: TheanoBlock, line: TextLine) -> None:
        out = self._out
        match = MEMORY_ROW.fullmatch(line.text.strip())
        if match is None or line.torn:
            out.bad(line)
            return
        args = {"shapes": match["shapes"], "created_inplace_view": " ".join(match["code"].split())}
        more: dict[str, object] = {"bytes": int(match["bytes"])} if match["bytes"] else {}
        if match["unknown"]:
            more["value_text"] = "Unknown"
        elif not match["bytes"]:
            why = "sizes that the profiler did not print: Theano-PyMC 1.1.2 prints a placeholder instead"
            out.ledger.note("size-not-printed", why, where=line.where)
        out.hold(block=block, section=MEMORY, name=match["name"], kind=Kind.MEMORY, args=args, **more)

    def remainder(self, block: TheanoBlock, match: re.Match[str]) -> bool:
        """Take the line with the bytes of the remaining nodes and of all nodes."""
        count = int(match["count"])
        args = {"remaining": count, "percent": match["percent"], "bytes_of_all": int(match["all"])}
        name = f"(remaining {count} Apply)"
        return self._out.row(block, MEMORY, name, Kind.MEMORY, args, bytes=int(match["bytes"]))


class OptimizerProfile:
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

    def detail(self, block: TheanoBlock, line: TextLine) -> bool:
        """Keep a line between the steps with the step above it; False if there is no more room."""
        text = self._text(line)
        taken = self._out.below("details", text)
        if taken is None:
            return self._out.words(block, f"{OPTIMIZER}: text", text) if text else False
        return taken

    def ends_before_blank(self) -> None:
        """Remove a blank line at the end: it belongs to the lines that follow."""
        self._out.take_back_blank("details")

    def line(self, block: TheanoBlock, words: str, line: TextLine) -> bool:
        """Take a line of the section, except its details."""
        if _HEAD not in block.seen and (match := OPTIMIZER_HEAD.fullmatch(words)):
            return self._head(block, match, line)
        if not OPTIMIZER_START.match(words):
            return False
        out = self._out
        match = OPTIMIZER_ROW.fullmatch(words)
        if match is None or (line.torn and not match["validate"]):
            return out.bad(line)
        try:
            time = printed(match["time"])
        except ValueError:
            return out.bad_time(line)
        name = unquoted(match["name"]) or "None"
        parent = self._parent(name, line)
        args: dict[str, object] = {
            "class": unquoted(match["class"]),
            "index": int(match["index"]),
            "s": match["time"],
        }
        args["indent"] = max(_indent(line.text) - self._margin, 0)
        if match["before"]:
            args |= {"nodes_before": int(match["before"]), "nodes_after": int(match["after"])}
        if match["validate"]:
            args["validate_s"] = match["validate"]
        section = f"{OPTIMIZER}: {parent}" if parent else OPTIMIZER
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

    def _head(self, block: TheanoBlock, match: re.Match[str], line: TextLine) -> bool:
        try:
            time = printed(match["time"])
        except ValueError:
            return self._out.bad_time(line)
        block.seen.add(_HEAD)
        args: dict[str, object] = {"class": match["class"], "name": match["name"]}
        if int(match["before"]) >= 0:
            # The sum of several profiles has -1 for both.
            args |= {"nodes_before": int(match["before"]), "nodes_after": int(match["after"])}
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


_OVERHEAD_START = re.compile(r"(?:total )?-?[\d.]{1,40}s -?[\d.]{1,40}s ")


class TimeTables:
    """Class, Ops and Apply. A row of Apply waits for the lines of its inputs and outputs."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self.with_flops = False
        self._largest: tuple[PrintedLines, PrintedLines] | None = None

    def begin(self, *, with_flops: bool) -> None:
        """Begin a table."""
        self.with_flops = with_flops
        self._largest = None

    def row(self, block: TheanoBlock, table: str, line: TextLine) -> bool:
        """Take a row of a table."""
        out = self._out
        out.flush()
        # Names keep their own blanks, so the line itself is matched.
        match = (APPLY_ROW if table == APPLY else GROUP_ROW).fullmatch(line.text.strip())
        if match is None or line.torn:
            return out.bad(line)
        name = match["name"]
        args: dict[str, object] = {"percent": match["percent"], "cumulative_percent": match["sum"], "s": match["time"]}
        if table == APPLY:
            args["id"] = int(match["id"])
            if self.with_flops:
                args |= {"mflops": None, "gflops_per_s": None}
            if self.with_flops and (flops := FLOPS.fullmatch(name)):
                name = flops["name"]
                args |= {"mflops": flops["mflops"], "gflops_per_s": flops["gflops"]}
        else:
            args |= {"implementation": _implementation(match["impl"]), "apply_nodes": int(match["nodes"])}
            if args["implementation"] == "C and Py":
                args["type"] = match["impl"]
        try:
            more = self._times(match, line)
        except ValueError:
            return out.bad_time(line)
        if "rounded-times" not in out.ledger.notes:
            why = "times of tables have three digits or a thousandth of a second: sums are no more exact"
            out.ledger.note("rounded-times", why, where=line.where)
        if table == CLASS and (old := CLASS_NAME.fullmatch(name)):
            more["raw_name"], name = name, old[1]
        return out.hold(block=block, section=table, name=name, kind=Kind.OPERATOR, args=args, **more)

    def _times(self, match: re.Match[str], line: TextLine) -> dict[str, object]:
        calls = int(match["calls"])
        each, total = printed(match["each"]), printed(match["time"])
        product = each.times(calls)
        if product.apart(total):
            why = "rows whose time, time per call and number of calls do not agree"
            self._out.ledger.note("times-disagree", why, where=line.where)
        time, percent = product.narrowed(total), printed(match["percent"])
        if percent.ns > 0 and (self._largest is None or percent.ns > self._largest[0].ns):
            self._largest = percent, time
        return {"calls": calls, "total_ns": time.rounded(), "avg_ns": float(each.ns)}

    def variable(self, words: str, line: TextLine) -> bool:
        """Take a line of an input or output of the row above."""
        match = VARIABLE.fullmatch(words)
        if match is None:
            return False
        taken = None if line.torn else self._out.below(f"{match[1]}s", match[3])
        if line.torn:
            return self._out.torn(line)
        if taken is False:
            why = "dropped: inputs and outputs of a node beyond 1 MiB"
            self._out.ledger.drop("too-many-variables", where=line.where, text=why)
        return taken is not None

    def remainder(self, block: TheanoBlock, section: str, match: re.Match[str], line: TextLine) -> bool:
        """Take the last line of a table, with the rows that are not printed; for 0 rows it becomes a `header`."""
        count = int(match["count"])
        args: dict[str, object] = {"remaining": count, "percent": match["percent"], "s": match["time"]}
        if "%%" in match[0]:
            # Some versions of PyTensor print the sign twice.
            args["sign"] = "%%"
        try:
            time, share = printed(match["time"]), printed(match["percent"])
            whole = block.thunks or self._whole()
            if whole is not None:
                time = time.narrowed(_share_of(share, whole))
        except ValueError:
            return self._out.bad_time(line)
        name = f"(remaining {count} {match['what']})"
        if not count:
            self._out.header(block, name, {**args, "of": section})
            self._out.ledger.kept += 1
            return True
        return self._out.row(block, section, name, Kind.OPERATOR, args, total_ns=time.rounded())

    def _whole(self) -> PrintedLines | None:
        """Return the time of all rows, from the row with the largest share: the block of a scan does not print it."""
        if self._largest is None:
            return None
        share, time = self._largest[0].ns / 10**11, self._largest[1]
        return PrintedLines(time.ns / share, (time.off + time.ns / share * self._largest[0].off / 10**11) / share)


def overhead(block: TheanoBlock, words: str, line: TextLine, out: Out) -> bool:
    """Take a row of `Scan overhead`, whose times have one decimal of a second. Its total has its own section."""
    if OVERHEAD_TALK.match(words):
        return out.words(block, "Scan overhead: remark", line.text.strip())
    match = OVERHEAD_ROW.fullmatch(words)
    total = words.startswith("total ")
    if match is None or (not total and (match["name"] is None or line.torn)):
        return bool(_OVERHEAD_START.match(words)) and out.bad(line)
    args = {
        "s": match["time"],
        "inner_function_s": match["fct"],
        "inner_ops_s": match["op"],
        "inner_function_percent": match["fct_percent"],
        "inner_ops_percent": match["op_percent"],
    }
    try:
        time = printed(match["time"])
    except ValueError:
        return out.bad_time(line)
    section = f"{OVERHEAD}: total" if total else OVERHEAD
    name = "total" if total else match["name"]
    return out.row(block, section, name, Kind.OTHER, args, total_ns=time.rounded())


def _implementation(text: str | None) -> str | None:
    """Return C, Py, or "C and Py" for a class that has nodes of both."""
    words = "".join((text or "").split())
    return "C and Py" if len(words) > 2 else words or None


def _share_of(percent: PrintedLines, whole: PrintedLines) -> PrintedLines:
    """Return the time of a percentage. percent: read as a time in s.

    Raises: ValueError beyond 2^62 ns.
    """
    share, off = percent.ns / 10**11, percent.off / 10**11
    time = PrintedLines(share * whole.ns, off * abs(whole.ns) + abs(share) * whole.off)
    if abs(time.ns) + time.off >= MAX_NS:
        raise ValueError("a time beyond 146 years")
    return time

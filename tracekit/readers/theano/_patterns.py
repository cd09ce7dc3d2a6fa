"""Patterns for the lines of a Theano profile. `words` are the words of a line with single blanks between them.

Sources: theano/compile/profiling.py of Theano 0.6 to 1.0.5, Theano-PyMC 1.1.2, Aesara 2 and PyTensor 2 to 3;
print_profile() of theano/gof/opt.py; profile_printer() of theano/scan_module/scan_op.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracekit.readers.printed.lines import ANY_NUMBER, NUMBER

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

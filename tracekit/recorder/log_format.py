"""The log of tracekit's recorder, "tracekit-log" version 1: this text is the specification.

JSONL in UTF-8: one JSON object a line, each line ended by one newline. A process writes its own file (recommended
name STEM.rank<R>.pid<P>.jsonl). The recorder and the reader `recorder-log` share this file and nothing else. A whole
log (its header, broken here for the page, is one line):

    {"format":"tracekit-log","version":1,"tracekit":"0.1.0","pid":4242,"parent_pid":4200,"rank":0,"world_size":2,
     "host":"node7","process":"train.py","python":"/usr/bin/python3 3.11.7","command":["train.py","--lr","0.1"],
     "perf_ns":123456000000000,"epoch_ns":1767225600000000000}
    {"k":"beat","t":123456000012900,"items":9,"flushes":1,"wait":12950}
    {"k":"clock","x":[123456000000000,1767225600000000000,85]}
    {"k":"thread","t":0,"tid":4242,"name":"MainThread"}
    {"k":"name","id":1,"name":"step","kind":"step"}
    {"k":"name","id":2,"name":"forward","kind":"forward","category":"model","color":"#76B900"}
    {"k":"name","id":3,"name":"loss"}
    {"k":"s","x":[12,123456000001000,0]}
    {"k":"r","t":0,"o":123455000000000,"x":[1,1000001000,2,1000002000,-2,1000009000],"p":[[1,{"batch":32}]]}
    {"k":"c","x":[3,123456000009100,0],"v":[0.25]}
    {"k":"m","x":[3,123456000009200,0],"p":[[0,"checkpoint"]]}
    {"k":"a","x":[2,123456000009300,7,0]}
    {"k":"a","x":[-2,123456000011000,7,0]}
    {"k":"r","t":0,"x":[-1,123456000012000],"u":[0]}
    {"k":"note","code":"range_crossed","count":1}
    {"k":"end","t":123456000013000,"items":9,"how":"stop"}

**Times** are integers, ns of the process's monotonic clock (`time.perf_counter_ns`), always > 0. A line may carry an
offset `"o"`: then every time of its `x` is `o` + the number there; ids, handles, thread indices and step
numbers are never offset. This keeps the log short on hosts that have been up for weeks. In an item array the
sign of the id says what happens at the time: `+id` begins (or happens), `-id` ends.

**Lines.** The header is the line that has `"format"`; it is written with `"format"` first, so a log starts with
`HEAD_PREFIX`. Every other line has `"k"`, its kind, first. A missing optional field means unknown or nothing; a
reader ignores fields that it does not know.

header   `format`, `version` (integer; another one than `VERSION` cannot be read), `tracekit` (version of the writer),
         `pid`, `parent_pid`, `rank` and `world_size` (absent = not a distributed run), `host`, `process` (a name for
         people), `python` (executable and version), `command` (list), `perf_ns` and `epoch_ns` (the first clock
         anchor), `forked` (true: begun by os.fork in a recorded process; the parent's log goes on in its own file,
         and the ranges that were open at the fork belong to it alone: their ends are not written here). A header in
         mid-file starts a new log: names, threads, clock, handles and open ranges of the one before are forgotten. So
         `cat a.jsonl b.jsonl` is a log too; where the first one was torn, the header is found by `HEAD_PREFIX` inside
         the damaged line. The recorder itself begins so again in a log that was truncated while it was written.
clock    `x` = [perf_ns, epoch_ns, uncertainty_ns]: at perf_ns +- uncertainty_ns of the monotonic clock the wall clock
         (`time.time_ns`) showed epoch_ns. Repeated (about once in 5 s, at start and at stop), so that drift and a
         wall clock that was set are visible. Wall time of an event: interpolate, or add epoch_ns - perf_ns of the
         header.
thread   `t` thread index (counts from 0 in this file, unique where a tid is used again), `tid` (native id of the
         operating system), `name`, optional `ident` (its id in the thread library: pthread_self on Linux, by which
         nvprof names threads). A second line with the same `t` renames the thread.
name     `id` (positive integer), `name` (text), optional `kind` (a string of `schema.Kind`, or the user's own text;
         absent = user_range), `category` (text), `color` ("#RRGGBB"). Stands before the first line that uses the id.
         Several ids may have the same text: attributes differ, or the writer forgot old names to bound its memory.
         Ids are not used again.
r        nested ranges of ONE thread `t`. `x` = [id, begin | -id, end]*: 2 integers an item, in the order in which
         they happened. The lines of a thread, one after the other, are one sequence, nested unless the program
         crossed its ranges (`with` in a generator that is left half-way) or a line was lost: an end closes the
         innermost open range, and carries its id so that either is noticed.
m        marks. `x` = [id, t, thread]*: 3 integers an item.
c        counters. `x` = [id, t, thread]*, and `v`: one value an item: a JSON integer (64-bit) or float, or one of the
         strings "NaN", "Infinity", "-Infinity".
a        ranges that may overlap on a thread and may end on another one (async tasks, `start_range`/`end_range`). `x`
         = [id, begin, handle, thread | -id, end, handle, thread]*: 4 integers an item. The handle (positive, not used
         again in this log) joins a begin to its end; `thread` is where each of the two happened. A begin stands
         before its end.
s        steps. `x` = [number, t, thread]*: from t on, until the next item, the process is in step `number` (int32),
         all its threads; number -1: outside of any step. An event belongs to the step in which it starts. Items of
         different threads may stand out of order by some us: sort by t. The step's own duration is a range of kind
         `step`, which begins at the very t of its item.
note     `code`, `count`: the recorder repaired or gave up something `count` more times (add them up). Codes:
         `NOTE_CODES`.
beat     sign of life, in the reserved line: all that was recorded until `t` has been written, `items` items in all, by
         `flushes` flushes. `wait` is the longest time, in ns, from the begin of one flush until the next one was
         written: an event never waited longer. Every round of the flusher replaces it, also when there is nothing to
         write, so it has the begin of the last round.
end      the end of the recording: `t` (until then all is in the log), `items` = number of items in all r, m, c, a and s
         lines of this log, `how` it ended: a key of `ENDINGS` (absent: stop). At "stop" and "exit" it is the last line.
         For the others it replaces the beat in the reserved line, with `error` (the error's text) and `lost` (ranges,
         marks and counters that the recorder still held and could not write). Fewer items than it says: lines are
         missing.

**The reserved line** is the second one of a log: `RESERVED_BYTES` long, filled with blanks before its newline, and
written over in place. The header is filled with blanks to a multiple of `RESERVED_BYTES`, so that the line never lies
on two pages and a kill cannot tear it. Its space is there when the disk is full. All other lines are appended.

**How a log ends.** With an end line the recorder says it. A log without one was cut: its process was killed, crashed,
left by os._exit or exec, could no longer write even the reserved line (the disk was pulled), or it still runs. Then the
beat says until when the log is whole. A log without either was written by another program, or damaged.

`p` (in r, m and a lines) = [[n, payload], ...]: item number n of this line (from 0; in r and a lines a begin) has
this payload, any JSON value. An object's members become the event's args; any other value becomes the arg "payload".
`u` (in r and a lines) = [n, ...]: the items n are ends that the recorder wrote itself, because the recording stopped or
the range would have crossed the one that encloses it: such ranges are *unfinished*, their true end is unknown.

**Records, for the ledger.** A record is
- one item of an r, m, c, a or s line: a range's begin, a mark and a counter are *kept*, an end that finds its begin
  is *merged*, a step item is a *fact*. An end that finds no begin is *dropped* ("end without begin"). A payload is
  part of its item.
- one line of each other kind (header, beat, clock, thread, name, note, end): a *fact*.
- one damaged or unknown line, whatever it held: *dropped*; its reasons: "torn line" (the last one, where it has no
  newline and does not parse), "not JSON", "unknown line kind", "bad line" (fields or types that are not as above;
  also an `x` whose length is no multiple of the item's).
- a line of NUL bytes and blanks alone: *ignored* ("padding"). NULs at either end of a line are taken off before it is
  parsed. An empty line is no record.

So read = kept + merged + facts + ignored + dropped, and with the `items` of beat and end nothing is missed unseen.

**A reader repairs.** Ranges still open when the log ends: end = the last time seen in the log (of items, clock, beat,
end), unfinished. In an r line, an end whose id is not that of the innermost open range (crossed, or a line was lost):
if the id is open further out, the ones inside it are closed at this time, unfinished, and noted; else the end is
dropped. An end before its begin (a clock that went back): duration 0, noted. An id without its name line: kept, named
"name <id> (lost)", and noted.

**Safety.** A writer appends whole lines with one write call for a flush, so a cut costs the last line at most. The
definitions that a flush needs come before it in the same write. A flush that fails is taken back whole.

**Speed.** An item array is a flat list of int64 with a fixed stride: `numpy.array(x).reshape(-1, ITEM_LENGTH[k])` has
signed ids and times in its columns; begins are `id > 0`. A nested range costs about 33 bytes.

Source: our own format; the measurements behind it are in the benchmark `benchmarks/recorder_cost.py`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = [
    "ASYNC",
    "BEAT",
    "CLOCK",
    "COUNTERS",
    "DEFAULT_KIND",
    "DISK_FULL",
    "END",
    "ENDINGS",
    "EXIT",
    "FACT_KINDS",
    "FAILED",
    "FORMAT_NAME",
    "HEAD_PREFIX",
    "ITEM_LENGTH",
    "MARKS",
    "NAME",
    "NON_FINITE",
    "NOTE",
    "NOTE_CODES",
    "NO_STEP",
    "RANGES",
    "RESERVED_BYTES",
    "STEPS",
    "STOP",
    "SUFFIX",
    "THREAD",
    "VERSION",
    "WRITE_ERROR",
    "Line",
    "async_line",
    "beat_line",
    "clean_text",
    "clock_line",
    "counter_line",
    "counter_value",
    "encode",
    "end_line",
    "filled",
    "head_line",
    "mark_line",
    "name_line",
    "note_line",
    "range_line",
    "step_line",
    "thread_line",
]

FORMAT_NAME: Final = "tracekit-log"
VERSION: Final = 1
ADD_RANGES: Final = (
    "put the work into `with watch_program():` of tracekit.recorder.torch (or .paddle), "
    "recorder.step() or recorder.range()"
)
"""Advice where a log has no range: a recording has only what the program marks."""
HEAD_PREFIX: Final = b'{"format":"tracekit-log","version":'
SUFFIX: Final = ".jsonl"

CLOCK: Final = "clock"
THREAD: Final = "thread"
NAME: Final = "name"
RANGES: Final = "r"
MARKS: Final = "m"
COUNTERS: Final = "c"
ASYNC: Final = "a"
STEPS: Final = "s"
NOTE: Final = "note"
BEAT: Final = "beat"
END: Final = "end"

ITEM_LENGTH: Final[Mapping[str, int]] = {RANGES: 2, MARKS: 3, COUNTERS: 3, ASYNC: 4, STEPS: 3}
"""Integers an item of `x`, for each line kind that has items."""

FACT_KINDS: Final = frozenset({CLOCK, THREAD, NAME, NOTE, BEAT, END})
"""Line kinds that count as one fact each, beside the header."""

RESERVED_BYTES: Final = 256
"""Length of the reserved line, its newline included."""

STOP: Final = "stop"
EXIT: Final = "exit"
DISK_FULL: Final = "disk_full"
WRITE_ERROR: Final = "write_error"
FAILED: Final = "failed"

ENDINGS: Final[Mapping[str, str]] = {
    STOP: "stopped by the program",
    EXIT: "the process ended",
    DISK_FULL: "the disk was full",
    WRITE_ERROR: "the log could not be written",
    FAILED: "the recorder failed",
}
"""Meaning of each way in which a recording says that it ended."""

NO_STEP: Final = -1
DEFAULT_KIND: Final = "user_range"

NOTE_CODES: Final[Mapping[str, str]] = {
    "range_crossed": "ranges cut because they would have crossed the range around them (push and pop by name)",
    "end_without_begin": "ends of ranges that were not open",
    "clock_went_back": "flushes in which the monotonic clock was seen to go back; the times stand as read",
    "name_repaired": "names that were no text, or held lone surrogates (written as \\udXXX)",
    "color_refused": "colours that are not known, left out",
    "payload_as_text": "payloads that are not JSON, kept as their repr",
    "payload_cut": "payloads longer than the limit, cut to its first characters as text",
    "value_refused": "counter values that are no numbers, left out",
    "watcher_failed": "calls of an `on_batch` watcher that raised",
    "watch_failed": "hooks of a watched model that failed and recorded nothing",
    "nvtx_refused": "NVTX calls that failed and were left out",
}
"""Meaning of each note's code. Readers show unknown codes as they are."""

NON_FINITE: Final[Mapping[str, float]] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Counter values that JSON cannot hold, as `v` spells them."""

Line = dict[str, object]
"""A line before it is encoded. The keys' order is the order in the file."""


def encode(line: Mapping[str, object]) -> bytes:
    """Return the line as the log holds it, newline included: compact, UTF-8, keys in their order.

    Texts are cleaned as by `clean_text`.
    Raises: ValueError for what JSON cannot hold (NaN, circular), TypeError for a type it does not know.

    >>> encode(clock_line(perf_ns=5, epoch_ns=7, uncertainty_ns=1))
    b'{"k":"clock","x":[5,7,1]}\\n'
    """
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # Inside a JSON text a backslash must be doubled to be read back as one.
        return re.sub("[\ud800-\udfff]", lambda match: f"\\\\u{ord(match[0]):04x}", text).encode() + b"\n"


def clean_text(text: str) -> str:
    r"""Return the text as UTF-8 can hold it: a lone surrogate becomes six characters, \ud800 to \udfff.

    >>> clean_text("caf\udce9")
    'caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def head_line(
    *,
    tracekit: str,
    pid: int,
    perf_ns: int,
    epoch_ns: int,
    parent_pid: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    host: str | None = None,
    process: str | None = None,
    python: str | None = None,
    command: Sequence[str] | None = None,
    forked: bool = False,
) -> Line:
    """Return the header, without fields that are None or False.

    >>> encode(head_line(tracekit="0.1.0", pid=1, perf_ns=5, epoch_ns=7)).startswith(HEAD_PREFIX)
    True
    """
    line: Line = {"format": FORMAT_NAME, "version": VERSION, "tracekit": tracekit, "pid": pid}
    optional: Line = {
        "parent_pid": parent_pid,
        "rank": rank,
        "world_size": world_size,
        "host": host,
        "process": process,
        "python": python,
        "command": None if command is None else list(command),
    }
    line.update({key: value for key, value in optional.items() if value is not None})
    line.update({"perf_ns": perf_ns, "epoch_ns": epoch_ns})
    if forked:
        line["forked"] = True
    return line


def clock_line(*, perf_ns: int, epoch_ns: int, uncertainty_ns: int) -> Line:
    """Return a clock anchor."""
    return {"k": CLOCK, "x": [perf_ns, epoch_ns, uncertainty_ns]}


def thread_line(*, index: int, tid: int, name: str, ident: int | None = None) -> Line:
    """Return the index, native id and name of a thread. ident: its id in the thread library, such as `pthread_self`."""
    line: Line = {"k": THREAD, "t": index, "tid": tid, "name": name}
    if ident is not None:
        line["ident"] = ident
    return line


def name_line(
    *, name_id: int, name: str, kind: str | None = None, category: str | None = None, color: str | None = None
) -> Line:
    """Return the definition of a name. `color` is "#RRGGBB"; a kind of DEFAULT_KIND is left out."""
    line: Line = {"k": NAME, "id": name_id, "name": name}
    if kind is not None and kind != DEFAULT_KIND:
        line["kind"] = kind
    if category is not None:
        line["category"] = category
    if color is not None:
        line["color"] = color
    return line


def _with_extras(
    line: Line, items: Sequence[int], offset: int, payloads: Sequence[tuple[int, object]], unfinished: Sequence[int]
) -> Line:
    if offset:
        line["o"] = offset
    line["x"] = list(items)
    if payloads:
        line["p"] = [[number, payload] for number, payload in payloads]
    if unfinished:
        line["u"] = list(unfinished)
    return line


def range_line(
    *,
    thread: int,
    items: Sequence[int],
    offset: int = 0,
    payloads: Sequence[tuple[int, object]] = (),
    unfinished: Sequence[int] = (),
) -> Line:
    """Return a batch of nested begins and ends of one thread. items: [+-id, t]*, times less `offset`.

    >>> encode(range_line(thread=0, items=[1, 100, -1, 250]))
    b'{"k":"r","t":0,"x":[1,100,-1,250]}\\n'
    """
    return _with_extras({"k": RANGES, "t": thread}, items, offset, payloads, unfinished)


def mark_line(*, items: Sequence[int], offset: int = 0, payloads: Sequence[tuple[int, object]] = ()) -> Line:
    """Return a batch of marks. items: [id, t, thread]*."""
    return _with_extras({"k": MARKS}, items, offset, payloads, ())


def counter_line(*, items: Sequence[int], values: Sequence[float | str], offset: int = 0) -> Line:
    """Return a batch of counter values. items: [id, t, thread]*; values: as `counter_value` gives them, one an item."""
    line = _with_extras({"k": COUNTERS}, items, offset, (), ())
    line["v"] = list(values)
    return line


def async_line(
    *,
    items: Sequence[int],
    offset: int = 0,
    payloads: Sequence[tuple[int, object]] = (),
    unfinished: Sequence[int] = (),
) -> Line:
    """Return a batch of begins and ends that may overlap. items: [+-id, t, handle, thread]*."""
    return _with_extras({"k": ASYNC}, items, offset, payloads, unfinished)


def step_line(*, items: Sequence[int], offset: int = 0) -> Line:
    """Return a batch of step numbers. items: [number, t, thread]*."""
    return _with_extras({"k": STEPS}, items, offset, (), ())


def note_line(*, code: str, count: int) -> Line:
    """Return a note: `count` more cases of `code` (a key of NOTE_CODES)."""
    return {"k": NOTE, "code": code, "count": count}


def beat_line(*, perf_ns: int, items: int, flushes: int, wait_ns: int) -> Line:
    """Return the sign of life of a flush that began at `perf_ns`. wait_ns: the longest time that an event waited."""
    return {"k": BEAT, "t": perf_ns, "items": items, "flushes": flushes, "wait": wait_ns}


def end_line(*, perf_ns: int, items: int, how: str = STOP, error: str = "", lost: int = 0) -> Line:
    """Return the line of the end: all until `perf_ns` is in the log. items: number of items in the whole log.

    how: a key of ENDINGS. error: text of the error that ended it. lost: events that could not be written.
    """
    line: Line = {"k": END, "t": perf_ns, "items": items, "how": how}
    if lost:
        line["lost"] = lost
    if error:
        line["error"] = error
    return line


def filled(line: bytes) -> bytes:
    """Return an encoded line with blanks before its newline, up to a multiple of RESERVED_BYTES.

    >>> len(filled(encode(beat_line(perf_ns=5, items=0, flushes=0, wait_ns=0))))
    256
    """
    return line[:-1].ljust(-len(line) % RESERVED_BYTES + len(line) - 1) + b"\n"


def counter_value(value: float) -> float | str:
    """Return a counter's value as `v` holds it: integers of 64 bits as they are, others as floats.

    >>> [counter_value(x) for x in (3, 2.5, True, float("nan"), -float("inf"), 1 << 70)]
    [3, 2.5, 1, 'NaN', '-Infinity', 1.1805916207174113e+21]
    """
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return int(value)
    try:
        number = float(value)
    except OverflowError:
        return "Infinity" if value > 0 else "-Infinity"
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"

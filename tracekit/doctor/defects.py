"""The classes of defects: their codes, their meaning, the behaviour of each viewer, and their repair. One list.

`noted` says to which class a note of a reader belongs. Sources: the viewers' own code, and Perfetto v52's engine, tried
on the cases of tests/doctor_cases.py. catapult is the viewer behind chrome://tracing.
"""

from __future__ import annotations

from tracekit.lazy_dataclass import dataclass

__all__ = ["DEFECTS", "OF_JSON_TEXT", "Defect"]

REFUSED = "refuses the whole file"


@dataclass(frozen=True, slots=True)
class Defect:
    """One class of defects.

    meaning: one sentence. chrome, perfetto, devtools, speedscope: what that viewer does with it, "" where that is not
    known or nothing. fix: what `--fix` does, "" where nothing can bring back what is missing. remark: it is named, but
    the file is not called defective for it.
    """

    code: str
    title: str
    meaning: str
    fix: str
    chrome: str = ""
    perfetto: str = ""
    devtools: str = ""
    speedscope: str = ""
    remark: bool = False

    def viewers(self) -> dict[str, str]:
        """Return what each viewer does with it, by the viewer's name; those of which nothing is known are left out."""
        found = {
            "chrome": self.chrome,
            "perfetto": self.perfetto,
            "devtools": self.devtools,
            "speedscope": self.speedscope,
        }
        return {name: text for name, text in found.items() if text}


_EVERY = (
    # The text of the file.
    Defect(
        "torn-tail",
        "The file was cut",
        "The file ends within a record, or before the end that its format has; later records are missing.",
        "drops the cut record and writes a complete file",
        chrome="refuses an unfinished object, and reads an unfinished array",
        perfetto="refuses an unfinished object, and reads an unfinished array",
        devtools=REFUSED,
    ),
    Defect(
        "bad-json",
        "Text that is not JSON",
        "Events or members that no repair turns into JSON.",
        "drops them",
        chrome=REFUSED,
        perfetto=REFUSED,
        devtools=REFUSED,
    ),
    Defect(
        "lost-quote",
        "A quote is missing",
        "Events with a string that is never opened or never closed.",
        "drops them",
        chrome=REFUSED,
        devtools=REFUSED,
    ),
    Defect(
        "lost-bracket",
        "A brace or bracket is missing",
        "Events, or their list, with braces or brackets that are never opened or never closed.",
        "drops such events, and writes a complete list",
        chrome=REFUSED,
        devtools=REFUSED,
    ),
    Defect(
        "bad-escape",
        "Broken strings and numbers in JSON",
        "Escapes that JSON does not have, bare quotes, control characters or NaN.",
        "writes them as valid JSON",
        chrome=REFUSED,
        perfetto="refuses the file for NaN and bare quotes, and shows bad escapes as they are",
        devtools=REFUSED,
    ),
    Defect(
        "bad-encoding",
        "Text that is not plain UTF-8",
        "Bytes that are not UTF-8, UTF-16, or a byte order mark before the JSON.",
        "writes UTF-8, with U+FFFD for what cannot be read",
        chrome="shows U+FFFD",
        perfetto="refuses a byte order mark, and shows other bytes as they are",
    ),
    Defect(
        "loose-json",
        "JSON that only some viewers read",
        "A comma follows the last event of an object, or is missing or doubled between two events.",
        "writes strict JSON",
        chrome=REFUSED,
        perfetto="takes it",
        devtools=REFUSED,
    ),
    Defect(
        "text-time",
        "Times that are text",
        "The start or duration of an event is a number in quotes; rocprof and Ascend write so.",
        "writes numbers",
        perfetto="takes them",
        remark=True,
    ),
    Defect(
        "open-list",
        "A list without its end",
        "The list of events is not closed, which the format allows.",
        "closes it",
        devtools=REFUSED,
        remark=True,
    ),
    Defect(
        "second-list",
        "Text after the trace",
        "Another trace, or text, follows the list of events.",
        "skips it: split the file to read both",
        chrome=REFUSED,
        devtools=REFUSED,
    ),
    Defect(
        "bad-record",
        "Records that cannot be read",
        "Lines, rows or messages that are not what the format says, or values that do not fit their column.",
        "drops them, and skips values that do not fit",
    ),
    Defect(
        "locale-numbers",
        "Numbers of an unknown locale",
        "Numbers such as 1,234 that mean different values in different countries, where the table does not decide.",
        "drops the rows: --option decimal=, or decimal=. says how to read them",
    ),
    # Times.
    Defect(
        "no-time",
        "No time",
        "Records without a start, or with a start of 0 where the profiler measured none.",
        "drops them",
        perfetto="drops them, and counts an import error",
    ),
    Defect(
        "bad-time",
        "Impossible times",
        "Times that are not numbers, or lie more than 146 years from 0.",
        "drops them, or leaves the duration unknown",
        perfetto="drops them, and counts an import error",
    ),
    Defect(
        "null-time",
        "A time that is null",
        "The start or the duration of an event is null.",
        "skips it: a start of null drops the event, a duration of null is unknown",
        perfetto=REFUSED,
    ),
    Defect(
        "no-duration",
        "No duration",
        "A slice (phase X) or row without a duration or an end.",
        "writes a moment, which says that the duration is unknown",
        chrome="draws it as if it had no end",
        perfetto="drops it, and counts an import error",
    ),
    Defect(
        "negative-duration",
        "Negative durations",
        "Events end before they start.",
        "writes the duration 0, and the measured one into args.dur_ns",
        chrome="zooms far out",
        perfetto="keeps the slice without a warning; it lowers every sum",
    ),
    Defect(
        "zero-duration",
        "Device work that takes no time",
        "Kernels or copies with a duration of 0: their end was not measured.",
        "writes a moment, which says that the duration is unknown",
        chrome="draws a hairline",
        perfetto="draws a mark",
    ),
    Defect(
        "covered-work",
        "Device work that outlasts later work of its stream",
        "A kernel or copy overlaps whole later ones on its own stream. A stream runs one at a time: the end is wrong.",
        "writes a moment, which says that the duration is unknown",
        chrome="draws the later ones inside it",
        perfetto="draws the later ones inside it",
    ),
    Defect(
        "negative-time",
        "Times before 0",
        "Events start before 0.",
        "moves all events together so that the first one starts at 0",
        chrome="draws them",
        perfetto="drops them, and counts trace_sorter_negative_timestamp_dropped",
    ),
    Defect(
        "clock-reset",
        "A clock that jumps",
        "Groups of events lie days apart, or the clock was set or went back while it was read.",
        "moves the far groups next to the largest one, with the old start in args.ts_ns",
        chrome="draws all of it in a few pixels",
        perfetto="draws all of it in a few pixels",
    ),
    Defect(
        "clock-skew",
        "Work before its launch",
        "Device work starts before the call that launched it: the clocks of host and device differ.",
        "keeps the times, and moves the launch id of the work to args.launch_correlation",
        chrome="draws the arrow backwards",
        perfetto="draws no arrow",
    ),
    Defect(
        "clocks-differ",
        "Several clocks in one file",
        "Parts of the file were timed by clocks whose distance is unknown.",
        "nothing: the order of events of different parts is unknown",
        remark=True,
    ),
    # Structure.
    Defect(
        "overlapping-slices",
        "Slices that cross",
        "A slice starts inside another one on its track and ends after it.",
        "moves the later slice to an extra track",
        chrome="draws both wrongly, without a warning",
        perfetto="drops the later one; newer versions move it away and count an error",
    ),
    Defect(
        "coarse-times",
        "Times that viewers round",
        "Times are fractions of such large numbers that viewers round them by up to 256 ns, and slices then cross.",
        "writes times from the first event on, and the rest into baseTimeNanoseconds",
        chrome="draws both wrongly, without a warning",
        perfetto="drops the later one",
    ),
    Defect(
        "unmatched-begin",
        "Ranges without an end",
        "A range begins (B, b, push) and does not end.",
        "writes a moment, which says that the duration is unknown",
        chrome="draws it up to the end of the trace",
        perfetto="draws it up to the end of the trace, without a duration",
    ),
    Defect(
        "unmatched-end",
        "Ends without a begin",
        "A range ends (E, e, pop) that did not begin, or that began under another name.",
        "drops them",
        chrome="warns, or closes another range",
        perfetto="skips them without a warning",
    ),
    Defect(
        "unmatched-flow",
        "Arrows with one end",
        "An arrow has no start or no end: the other end has another id, category or name, or is missing.",
        "skips the flow event",
        chrome="skips the arrow",
        perfetto="skips the arrow",
    ),
    Defect(
        "flow-of-every-call",
        "Arrows of calls that start no work",
        "PyTorch writes one end of an arrow at every call of the runtime; most calls start no work for the other end.",
        "skips the flow event",
        perfetto="skips it",
        remark=True,
    ),
    Defect(
        "flow-backwards",
        "Arrows that point back in time",
        "An arrow ends before it starts.",
        "skips the arrow",
        chrome="draws it backwards",
        perfetto="skips it without a warning",
    ),
    Defect(
        "flow-without-slice",
        "Arrows that touch no slice",
        "An arrow starts or ends at a time at which its track has no slice.",
        "skips the flow event",
        chrome="skips the arrow",
        perfetto="skips it, and counts flow_no_enclosing_slice",
    ),
    Defect(
        "duplicate-id",
        "Ids that are used twice",
        "Two arrows, or two launches of one process, have the same id.",
        "numbers arrows anew; work belongs to the first launch",
        chrome="draws one of the arrows",
        perfetto="joins the wrong ends, and counts flow_duplicate_id",
    ),
    Defect(
        "wide-id",
        "Ids that viewers cut",
        "A process, thread or arrow has an id below 0, above 2^32, or beyond what a double holds (2^53).",
        "writes small unique numbers, and the real ids into the names of tracks",
        chrome="rounds ids above 2^53: threads and arrows fall together",
        perfetto="takes pids and tids outside 32 bits for others: threads fall together",
        speedscope="rounds ids above 2^53: threads fall together",
    ),
    Defect(
        "text-id",
        "Ids that are text",
        'A process or thread has a text for its id, such as "stream 7".',
        "writes numbers, and the text into the names of tracks",
        chrome="takes them",
        perfetto="makes up numbers for them",
        speedscope="folds all such threads into one",
        remark=True,
    ),
    Defect(
        "unknown-phase",
        "Unknown phases",
        "Events with a phase that the format does not have, or none.",
        "drops them",
        chrome="warns, and skips them",
        perfetto="skips them",
    ),
    Defect(
        "bad-metadata",
        "Names that are not text",
        "A process or thread has a name that is null or not text.",
        "skips the name",
        perfetto="skips it, and counts json_parser_failure",
    ),
    Defect(
        "empty-object",
        "Empty events",
        "The list has objects without members; Paddle and JAX end their lists with one.",
        "skips them",
        chrome="warns",
        perfetto="skips them, and counts json_tokenizer_failure",
        remark=True,
    ),
    Defect(
        "unknown-number",
        "Counters without a number",
        "A counter has no value that is a number.",
        "writes a mark",
        perfetto="skips it",
    ),
    # The recording.
    Defect(
        "orphan-work",
        "Device work without its launch",
        "The file has launches, but none with the id of this work.",
        "moves the launch id to args.launch_correlation, where nothing looks for a launch",
        chrome="draws no arrow",
        perfetto="draws no arrow",
    ),
    Defect(
        "orphan-launch",
        "Launches without their work",
        "The file has device work, but none with the id of this launch.",
        "moves the launch id to args.launch_correlation, where nothing looks for work",
        chrome="draws no arrow",
        perfetto="draws no arrow",
    ),
    Defect(
        "missing-table",
        "Parts of the profile are missing",
        "A table or part that the rest refers to is not in the file: kernels, names, headers.",
        "",
    ),
    Defect(
        "events-lost",
        "The profiler lost events",
        "The profiler itself says that records are missing, were dropped, or have wrong times.",
        "",
    ),
    Defect(
        "remark",
        "Remarks",
        "Other notes of the reader; nothing is wrong with the file.",
        "",
        remark=True,
    ),
)
DEFECTS = {each.code: each for each in _EVERY}

OF_JSON_TEXT = frozenset(
    {"torn-tail", "bad-json", "lost-quote", "lost-bracket", "bad-escape", "bad-encoding", "loose-json", "open-list"}
    | {"second-list", "bad-record"}
)
"""Classes about the text of a file: viewers read that of a JSON trace alone."""

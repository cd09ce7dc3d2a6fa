"""Rows of Class, Ops and Apply, of the remainder below them, and of the overhead of scans."""

from __future__ import annotations

import re

from tracekit.readers.printed.lines import Printed, TextLine, printed
from tracekit.readers.theano import _patterns as patterns
from tracekit.readers.theano._out import Block, Out
from tracekit.schema import Kind
from tracekit.units import MAX_NS

_OVERHEAD_START = re.compile(r"(?:total )?-?[\d.]{1,40}s -?[\d.]{1,40}s ")


class TimeTables:
    """Class, Ops and Apply. A row of Apply waits for the lines of its inputs and outputs."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self.with_flops = False
        self._largest: tuple[Printed, Printed] | None = None

    def begin(self, *, with_flops: bool) -> None:
        """Begin a table."""
        self.with_flops = with_flops
        self._largest = None

    def row(self, block: Block, table: str, line: TextLine) -> bool:
        """Take a row of a table."""
        out = self._out
        out.flush()
        # Names keep their own blanks, so the line itself is matched.
        found = (patterns.APPLY_ROW if table == patterns.APPLY else patterns.GROUP_ROW).fullmatch(line.text.strip())
        if found is None or line.torn:
            return out.bad(line)
        name = found["name"]
        args: dict[str, object] = {"percent": found["percent"], "cumulative_percent": found["sum"], "s": found["time"]}
        if table == patterns.APPLY:
            args["id"] = int(found["id"])
            if self.with_flops:
                args |= {"mflops": None, "gflops_per_s": None}
            if self.with_flops and (flops := patterns.FLOPS.fullmatch(name)):
                name = flops["name"]
                args |= {"mflops": flops["mflops"], "gflops_per_s": flops["gflops"]}
        else:
            args |= {"implementation": _implementation(found["impl"]), "apply_nodes": int(found["nodes"])}
            if args["implementation"] == "C and Py":
                args["type"] = found["impl"]
        try:
            more = self._times(found, line)
        except ValueError:
            return out.bad_time(line)
        if "rounded-times" not in out.ledger.notes:
            why = "times of tables have three digits or a thousandth of a second: sums are no more exact"
            out.ledger.note("rounded-times", why, where=line.where)
        if table == patterns.CLASS and (old := patterns.CLASS_NAME.fullmatch(name)):
            more["raw_name"], name = name, old[1]
        return out.hold(block=block, section=table, name=name, kind=Kind.OPERATOR, args=args, **more)

    def _times(self, found: re.Match[str], line: TextLine) -> dict[str, object]:
        calls = int(found["calls"])
        each, total = printed(found["each"]), printed(found["time"])
        product = each.times(calls)
        if product.apart(total):
            why = "rows whose time, time per call and number of calls do not agree"
            self._out.ledger.note("times-disagree", why, where=line.where)
        time, percent = product.narrowed(total), printed(found["percent"])
        if percent.ns > 0 and (self._largest is None or percent.ns > self._largest[0].ns):
            self._largest = percent, time
        return {"calls": calls, "total_ns": time.rounded(), "avg_ns": float(each.ns)}

    def variable(self, words: str, line: TextLine) -> bool:
        """Take a line of an input or output of the row above."""
        found = patterns.VARIABLE.fullmatch(words)
        if found is None:
            return False
        taken = None if line.torn else self._out.below(f"{found[1]}s", found[3])
        if line.torn:
            return self._out.torn(line)
        if taken is False:
            why = "dropped: inputs and outputs of a node beyond 1 MiB"
            self._out.ledger.drop("too-many-variables", where=line.where, text=why)
        return taken is not None

    def remainder(self, block: Block, section: str, found: re.Match[str], line: TextLine) -> bool:
        """Take the last line of a table, with the rows that are not printed; for 0 rows it becomes a `header`."""
        count = int(found["count"])
        args: dict[str, object] = {"remaining": count, "percent": found["percent"], "s": found["time"]}
        if "%%" in found[0]:
            # Some versions of PyTensor print the sign twice.
            args["sign"] = "%%"
        try:
            time, share = printed(found["time"]), printed(found["percent"])
            whole = block.thunks or self._whole()
            if whole is not None:
                time = time.narrowed(_share_of(share, whole))
        except ValueError:
            return self._out.bad_time(line)
        name = f"(remaining {count} {found['what']})"
        if not count:
            self._out.header(block, name, {**args, "of": section})
            self._out.ledger.kept += 1
            return True
        return self._out.row(block, section, name, Kind.OPERATOR, args, total_ns=time.rounded())

    def _whole(self) -> Printed | None:
        """Return the time of all rows, from the row with the largest share: the block of a scan does not print it."""
        if self._largest is None:
            return None
        share, time = self._largest[0].ns / 10**11, self._largest[1]
        return Printed(time.ns / share, (time.off + time.ns / share * self._largest[0].off / 10**11) / share)


def overhead(block: Block, words: str, line: TextLine, out: Out) -> bool:
    """Take a row of `Scan overhead`, whose times have one decimal of a second. Its total has its own section."""
    if patterns.OVERHEAD_TALK.match(words):
        return out.words(block, "Scan overhead: remark", line.text.strip())
    found = patterns.OVERHEAD_ROW.fullmatch(words)
    total = words.startswith("total ")
    if found is None or (not total and (found["name"] is None or line.torn)):
        return bool(_OVERHEAD_START.match(words)) and out.bad(line)
    args = {
        "s": found["time"],
        "inner_function_s": found["fct"],
        "inner_ops_s": found["op"],
        "inner_function_percent": found["fct_percent"],
        "inner_ops_percent": found["op_percent"],
    }
    try:
        time = printed(found["time"])
    except ValueError:
        return out.bad_time(line)
    section = f"{patterns.OVERHEAD}: total" if total else patterns.OVERHEAD
    name = "total" if total else found["name"]
    return out.row(block, section, name, Kind.OTHER, args, total_ns=time.rounded())


def _implementation(text: str | None) -> str | None:
    """Return C, Py, or "C and Py" for a class that has nodes of both."""
    words = "".join((text or "").split())
    return "C and Py" if len(words) > 2 else words or None


def _share_of(percent: Printed, whole: Printed) -> Printed:
    """Return the time of a percentage. percent: read as a time in s.

    Raises: ValueError beyond 2^62 ns.
    """
    share, off = percent.ns / 10**11, percent.off / 10**11
    time = Printed(share * whole.ns, off * abs(whole.ns) + abs(share) * whole.off)
    if abs(time.ns) + time.off >= MAX_NS:
        raise ValueError("a time beyond 146 years")
    return time

"""The sentences about a hang, for the view, the finding and the first screen alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tracekit.analysis.hangs import Cause, GroupState, HangReport, PairState, ProcessGroup, RecordedCall
from tracekit.index.flight_records import FlightRecords
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import plural

__all__ = ["HangWords", "call_words", "group_words", "hang_words", "ranks_words", "sizes_words"]

_NAMED = 4
"""The most ranks that a sentence names."""
_GLOO = "gloo"
_RANK_HINT = "Name the files after the ranks, as in rank_3, or pass --rank-from."


@dataclass(frozen=True, slots=True)
class HangWords:
    """Words about a hang: the sentence, what follows from it (meaning), how sure that is and why, and what to do.

    hangs: something is wrong for sure.
    """

    sentence: str
    meaning: str
    confidence: str = "medium"
    because: str = ""
    advice: str = ""
    hangs: bool = True


def ranks_words(ranks: Sequence[int], *, capital: bool = False) -> str:
    """Return ranks in words.

    >>> ranks_words([3]), ranks_words([0, 1, 2]), ranks_words(range(9), capital=True)
    ('rank 3', 'ranks 0, 1 and 2', '9 ranks (0, 1, 2 ...)')
    """
    if len(ranks) > _NAMED:
        first = ", ".join(str(rank) for rank in list(ranks)[:3])
        return f"{len(ranks):,} ranks ({first} ...)"
    if not ranks:
        return "No rank" if capital else "no rank"
    *before, last = [str(rank) for rank in ranks]
    text = f"ranks {', '.join(before)} and {last}" if before else f"rank {last}"
    return text[0].upper() + text[1:] if capital else text


def group_words(group: ProcessGroup) -> str:
    """Return a group for a sentence: its description, else its name."""
    if group.desc and group.desc != "undefined":
        return group.desc if group.desc == "default_pg" or not group.name else f"{group.desc} ({group.name})"
    return f"group {group.name or '(no name)'}"


def call_words(call: RecordedCall, seq: int, group: ProcessGroup | None = None) -> str:
    """Return a collective for a sentence: "all_reduce 5 of default_pg"."""
    return f"{call.name} {seq:,}" + (f" of {group_words(group)}" if group is not None else "")


def sizes_words(call: RecordedCall) -> str:
    """Return the tensors of a call: "Float 3x4", several with commas."""

    def side(sizes: Sequence[Sequence[int]], types: Sequence[str]) -> str:
        shown = [
            f"{types[min(at, len(types) - 1)] + ' ' if types else ''}{'x'.join(map(str, each)) or '1'}"
            for at, each in enumerate(sizes[:2])
        ]
        return ", ".join(shown) + (f" and {len(sizes) - 2:,} more" if len(sizes) > 2 else "")

    sent, received = side(call.in_sizes, call.in_types), side(call.out_sizes, call.out_types)
    return sent if sent == received or not received else f"{sent or '-'} -> {received}"


def _elements(call: RecordedCall) -> int:
    return sum(prod(each) for each in call.in_sizes or call.out_sizes)


def hang_words(report: HangReport, records: FlightRecords) -> HangWords:
    """Return the sentences about a report."""
    if not records.dumps:
        if records.repeated:
            several = f"Several dumps of {ranks_words(records.repeated)}: "
            if records.later:
                said = f"{several}one run was dumped more than once."
                return HangWords(said, "None is compared. Name the dumps of one time only.", hangs=False)
            return HangWords(
                f"{several}more than one run is here.", f"None is compared. {_one_run(records)}", hangs=False
            )
        return HangWords("Which rank wrote each dump is not known.", _RANK_HINT, hangs=False)
    words = replace(_words(report, records), hangs=report.hangs)
    if _uses(report, _GLOO) and words.confidence == "high":
        because = f"{words.because}; gloo records neither sends and receives nor whether a call ended well"
        return replace(words, confidence="medium", because=because)
    return words


def _one_run(records: FlightRecords) -> str:
    """Return what to name instead of several runs: a pattern for each, where the names of the files have the rank."""
    patterns: dict[str, set[int]] = {}
    for label, rank in records.inputs:
        # The number behind the word is the rank, else the last one, as for the reader.
        places = list(re.finditer(rf"(?<!\d)0*{rank}(?!\d)", label))
        named = [each for each in places if re.search(r"rank[-_]?$", label[: each.start()], re.IGNORECASE)]
        place = (named or places)[-1] if places else None
        pattern = f"{label[: place.start()]}*{label[place.end() :]}" if place is not None else label
        if rank in patterns.setdefault(pattern, set()):
            return _ONE_RUN
        patterns[pattern].add(rank)
    if len(patterns) < 2 or len(patterns) > _NAMED or len(patterns) == len(records.inputs):
        return _ONE_RUN
    *first, last = patterns
    return f"Name the dumps of one run: {', '.join(first)} or {last}."


_ONE_RUN = "Name the dumps of one run only, or give each run a folder."


def _uses(report: HangReport, backend: str) -> bool:
    state = report.group
    return state is not None and any(call.backend == backend for call in state.calls.values())


def _words(report: HangReport, records: FlightRecords) -> HangWords:
    group, pair = report.group, report.pair
    if report.cause is Cause.MISMATCH and group is not None:
        return _mismatch(group)
    if report.cause is Cause.CYCLE:
        return HangWords(
            f"{ranks_words(report.cycle, capital=True)} wait for each other.",
            "Each has called what another one has not reached yet: calls are in another order on these ranks.",
            "high",
            "the dumps show for each of them what it waits for",
            "Make the calls in one order on all ranks; send before one side receives, or use batch_isend_irecv.",
        )
    if report.cause in (Cause.NOT_ENTERED, Cause.BEHIND) and group is not None:
        return _late(group, report)
    if pair is not None:
        return _pair(pair, report.cause)
    if group is not None and group.end_unknown:
        return _end_unknown(group)
    if group is not None and group.calls:
        return _entered(group, report.cause)
    return _nothing(report, records)


def _end_unknown(group: GroupState) -> HangWords:
    call = next(iter(group.calls.values()))
    name = group_words(group.group)
    if group.absent:
        who = f"{ranks_words(group.absent, capital=True)} {'has' if len(group.absent) == 1 else 'have'} no dump"
        advice = _ADVICE_DUMP
    elif group.unknown:
        who = f"How far {ranks_words(group.unknown)} {'is' if len(group.unknown) == 1 else 'are'} is not in the dumps"
        advice = ""
    else:
        who, advice = f"The members of {name} are not in the dumps", ""
    means = f"{call.backend} notes only that nobody waits for it any more: it may have ended well or timed out."
    return HangWords(
        f"{who}; whether {call_words(call, group.seq)} ended is not known.",
        f"{means} {advice}".strip(),
        "low",
    )


def _waiting(ranks: Sequence[int]) -> str:
    """Return the ranks that wait, with the verb: "rank 3 waits", "39 ranks wait"."""
    who = ranks_words(ranks) if len(ranks) <= _NAMED else f"{len(ranks):,} ranks"
    return f"{who} {'waits' if len(ranks) == 1 else 'wait'}"


def _late(group: GroupState, report: HangReport) -> HangWords:
    free = [rank for rank in group.behind if rank not in group.blocked] or list(group.behind)
    call = next(iter(group.calls.values()))
    what = call_words(call, group.seq, group.group)
    have = "has" if len(free) == 1 else "have"
    said = f"{ranks_words(free, capital=True)} {have} not entered {what}; {_waiting(group.waiting)} in it."
    last = next((group.last[rank] for rank in free if rank in group.last), None)
    where = f" ({last.line})" if last is not None and last.line else ""
    told = f"The last call of {ranks_words(free[:1])} there: {call_words(last, last.seq)}{where}." if last else ""
    if not last:
        told = f"{ranks_words(free[:1], capital=True)} has made no call in this group."
    if report.cause is Cause.BEHIND:
        return HangWords(said, f"Nothing has timed out: whether it is slow or hangs is not known. {told}", "low")
    if len(group.waiting) <= len(group.behind):
        either = f"Or {ranks_words(group.waiting)} made a call too many. {told}"
        return HangWords(said, either, "medium", "as many ranks wait as are late", _ADVICE_LATE)
    why = "its dump shows the calls before, and that it waits for nobody"
    return HangWords(said, told, "high", why, _ADVICE_LATE)


_ADVICE_LATE = (
    "Look at what the late rank does after its last call: an exception, a loop of another length, a branch that "
    "depends on the rank, or a slow load."
)


def _mismatch(group: GroupState) -> HangWords:
    (first, most), *rest = group.sides
    other, few = rest[0]
    one, all_others = ranks_words(few, capital=True), ranks_words(most)
    name = group_words(group.group)
    if group.difference == "operation":
        said = f"{one} entered {other.name} {group.seq:,} of {name}, {all_others} {first.name}."
    elif group.difference == "datatype":
        types = ["/".join(dict.fromkeys(call.in_types or call.out_types)) for call in (other, first)]
        said = (
            f"{one} entered {call_words(other, group.seq, group.group)} with {types[0]}, {all_others} with {types[1]}."
        )
    else:
        counts = [_elements(call) for call in (other, first)]
        said = (
            f"{one} entered {call_words(other, group.seq, group.group)} with {plural(counts[0], 'element')}, "
            f"{all_others} with {counts[1]:,}."
        )
    told = "The calls are in another order on these ranks. " if group.swapped else ""
    lines = " and ".join(dict.fromkeys(call.line for call in (other, first) if call.line))
    told += f"{'Both' if ' and ' not in lines else 'They'} were made at {lines}." if lines else ""
    if len(most) <= len(few):
        said = f"{said[:-1]}: not known which is wrong."
    return HangWords(
        said, told, "high", "the dumps have both calls", "Make the same calls in the same order on all ranks."
    )


def _pair(pair: PairState, cause: Cause) -> HangWords:
    sends = pair.call.name.startswith("send")
    does = "to send to" if sends else "to receive from"
    who, peer = ranks_words([pair.waits], capital=True), ranks_words([pair.peer])
    where = f" ({pair.call.line})" if pair.call.line else ""
    if cause is Cause.MISMATCH and pair.other is not None:
        ends = sorted([(pair.waits, pair.call), (pair.peer, pair.other)], key=lambda end: end[1].name[:4] != "send")
        counts = [_elements(call) for _, call in ends]
        said = (
            f"Either rank {ends[0][0]} or rank {ends[1][0]} has the wrong size, not known which: "
            f"{plural(counts[0], 'element')} sent, {counts[1]:,} received."
        )
        return HangWords(
            said,
            f"A send and its receive need one size{where}.",
            "high",
            "the dumps have both calls",
            "Send and receive one size.",
        )
    if cause is Cause.NO_DUMP:
        return HangWords(f"{who} waits {does} {peer}, which has no dump.", _NO_DUMP, "low", _NO_DUMP_WHY, _ADVICE_DUMP)
    if cause in (Cause.NOT_ENTERED, Cause.BEHIND):
        not_made = "received" if sends else "sent"
        said = f"{who} waits {does} {peer}, which has not {not_made}."
        if cause is Cause.BEHIND:
            return HangWords(said, "Nothing has timed out: whether it is slow or hangs is not known.", "low")
        told = f"Or {ranks_words([pair.waits])} made a call too many{where}."
        return HangWords(said, told, "medium", "either side may have made a wrong number of calls", _ADVICE_LATE)
    if cause is Cause.RUNNING:
        return HangWords(f"Nothing has timed out: {ranks_words([pair.waits])} waits {does} {peer}.", "", "low")
    why = (
        "both made the call" if cause is Cause.INSIDE else "the ring of the recorder has lost the entries that show it"
    )
    return HangWords(f"{who} waits {does} {peer}; why is not known.", f"{why[0].upper()}{why[1:]}{where}.", "low", why)


_NO_DUMP = "A rank without a dump may have ended, or it may hang where no dump can be written."
_NO_DUMP_WHY = "how far the rank without a dump is, is not known"
_ADVICE_DUMP = "Look at the log of the rank without a dump first."


def _entered(group: GroupState, cause: Cause) -> HangWords:
    call = next(iter(group.calls.values()))
    what = call_words(call, group.seq, group.group)
    count = len(group.calls)
    if cause is Cause.NO_DUMP:
        verb = "has" if len(group.absent) == 1 else "have"
        said = f"{ranks_words(group.absent, capital=True)} {verb} no dump; {_waiting(group.waiting)} in {what}."
        return HangWords(said, _NO_DUMP, "low", _NO_DUMP_WHY, _ADVICE_DUMP)
    if cause is Cause.INSIDE:
        if group.group.ranks is None:
            have = "has" if count == 1 else "have"
            said = f"{plural(count, 'rank')} with a dump {have} entered {what}; it does not end."
            return HangWords(said, "Whether the group has more ranks is not in the dumps.", "low")
        said = f"All {plural(count, 'rank')} of {what} have entered it, and it does not end."
        return HangWords(
            said,
            "No rank is late: look at the network, at the GPUs, and at work that runs before it on the stream.",
            "medium",
            "all members entered the same collective",
            "Look for link or GPU errors (dmesg, nvidia-smi); record with TORCH_NCCL_ENABLE_TIMING=1 to see which "
            "rank has started it.",
        )
    if cause is Cause.RUNNING:
        return HangWords(f"Nothing has timed out: {what} was running when the dumps were made.", "", "low")
    late = [*group.unknown, *(rank for rank in group.behind if rank not in group.unknown)]
    told = f"How far {ranks_words(late)} {'is' if len(late) == 1 else 'are'} is not in the dumps." if late else ""
    waiting = _waiting(group.waiting)
    return HangWords(f"{waiting[0].upper()}{waiting[1:]} in {what}; for whom is not known.", told, "low")


def _nothing(report: HangReport, records: FlightRecords) -> HangWords:
    done = [each for each in report.groups if each.cause is Cause.IDLE]
    if report.cause is Cause.IDLE and done:
        absent = sorted({rank for each in done for rank in each.absent})
        who = "No rank with a dump waits" if absent else "No rank waits"
        means = "If the program hangs, it does so outside of the calls that were recorded."
        if absent:
            verb = "has" if len(absent) == 1 else "have"
            means = f"{ranks_words(absent, capital=True)} {verb} no dump: whether they wait is not known."
            means = means.replace("they wait", "it waits") if len(absent) == 1 else means
        elif any(
            call.retired and not call.completed
            for dump in records.dumps for calls in dump.calls.values() for call in calls[-1:]
        ):  # fmt: skip
            # gloo does not say how its last call ended.
            who, means = "No rank waits any more", f"Whether the last calls ended well is not recorded. {means}"
        return HangWords(f"{who}: every call in these dumps has ended.", means, "medium")
    if report.cause is Cause.IDLE:
        return HangWords(
            "These dumps have no calls.", "Was the recorder on? TORCH_FR_BUFFER_SIZE says how many it keeps."
        )
    return HangWords("Ranks wait; for whom is not known.", "", "low")

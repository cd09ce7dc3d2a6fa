"""flight-recorder: dumps of the Flight Recorder of torch.distributed, one file a rank (PyTorch 2.2 to 2.13).

    {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
     "pg_status": {"0": {"last_enqueued_collective": 6, "last_completed_collective": 5, ...}},
     "entries": [{"record_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 1, "p2p_seq_id": 0,
                  "profiling_name": "nccl:all_reduce", "input_sizes": [[3, 4]], "input_dtypes": ["Float"],
                  "state": "completed", "retired": true, "timeout_ms": 600000, "frames": [...], ...}, ...]}

A record is an entry, a process group or the status of a group. The file is a pickle (`nccl_trace_rank_0`, as a timeout
writes it) or JSON (`_dump_fr_trace_json`). A pickle is a program: only plain containers are built, and a file that
could run code is refused. A folder of such files is one run, and the view `hang` compares them.

The rank is the file's own `rank` where it has one, else the number in the name of the file (`rank_3`, or the last
number of up to six digits) if such a rank is a member of its groups, else the only rank that is a member of all of
its groups. `--rank-from` names another place.
All rows are TOTALS, for an entry has no duration: the recorder notes when the host put it in the queue, and when a
watchdog saw it end. `flight recorder calls` has an entry a row, in order; `flight recorder groups` and `flight recorder
status` have a group a row, and `flight recorder stacks` has each stack of Python once. Times in `args` are Unix ns, as
the file has them. The ring of the recorder (`TORCH_FR_BUFFER_SIZE`) forgets old entries; the row `dump` has the first
number that is left.
Only texts, integers and lists are taken for texts, integers and lists: a field of another type costs its entry.

Not supported: `nccl_comm_state`, which is counted as ignored.
Sources: FlightRecorder.hpp, FlightRecorderDetail.hpp and distributed/flight_recorder of PyTorch 2.13; dumps of gloo
that PyTorch 2.13 wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from tracekit.lazy_dataclass import dataclass
from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger, Run
    from tracekit.readers.printed.lines import TotalRows
    from tracekit.readers.source import Source
    from tracekit.readers.torch.memory import SnapshotStacks

__all__ = ["read", "sniff"]

_PROTOCOLS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_OF_DUMP = (b"pg_config", b"pg_status", b"entries")
_OF_ENTRY = (b"profiling_name", b"record_id", b"collective_seq_id", b"time_created_ns", b"seq_id")
_OF_LIST = (b"profiling_name", b"seq_id", b"time_created_")
_OF_TRACES = (b'"traceEvents"', b'"schemaVersion"', b'"distributedInfo"')
_LEAST_KEYS = 2

Record = dict[str, Any]
"""An object of a dump, whatever it holds."""


def sniff(head: Head) -> Confidence:
    """Return YES for a pickle or a JSON object with the keys of a dump, and with those of an entry where it has any."""
    data = head.data
    if not data.startswith(_PROTOCOLS):
        start = data.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start.startswith((b"{", b"[")) or any(key in data for key in _OF_TRACES):
            return Confidence.NO
    of_dump, of_entry = (sum(key in data for key in keys) for keys in (_OF_DUMP, _OF_ENTRY))
    # A dump of JSON has its entries before the groups: a long one shows only these in its head. The first versions
    # were a list of entries.
    if of_entry >= _LEAST_KEYS and (of_dump or all(key in data for key in _OF_LIST)):
        return Confidence.YES
    return Confidence.YES if b"pg_config" in data and b"pg_status" in data else Confidence.NO


_MOST = 1 << 62
_MOST_SHAPES, _MOST_DIMENSIONS = 4096, 64
_MOST_RANKS = 1 << 20
_INTEGERS = {
    "record_id": "record",
    "pg_id": "pg_id",
    "collective_seq_id": "seq",
    "seq_id": "seq",
    "p2p_seq_id": "p2p_seq",
    "op_id": "op",
    "time_created_ns": "created_ns",
    "time_discovered_started_ns": "started_ns",
    "time_discovered_completed_ns": "completed_ns",
    "timeout_ms": "timeout_ms",
}
_TRUTHS = {"retired": "retired", "is_p2p": "p2p"}
_SHAPES = {"input_sizes": "in", "output_sizes": "out"}
_TYPES = {"input_dtypes": "in_types", "output_dtypes": "out_types"}
_TIMES = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the rows of a dump. Raises: ParseError for anything else."""
    from tracekit.errors import ParseError
    from tracekit.model.trace import Run, SourceFacts

    dump = _opened(source)
    if isinstance(dump, list):
        dump = {"entries": dump}
    if not isinstance(dump, dict) or not isinstance(dump.get("entries", []), list):
        raise ParseError(source.name, "", "a file without entries and pg_config: not a dump of the Flight Recorder")
    run = Run(sources=[SourceFacts(source.name, "flight-recorder", facts={"tool": "Flight Recorder of PyTorch"})])
    return ReadResult(run, _Dump(dump, options, ledger, run, rank_of(dump, source.name)).rows(), True, (ledger,))


def _opened(source: Source) -> object:
    """Return the object in a file. Raises: ParseError."""
    import orjson

    from tracekit.errors import ParseError
    from tracekit.readers.torch._plain_pickle import NotPlain, load

    data = source.read_whole()
    if data.startswith(_PROTOCOLS):
        try:
            return load(data, "dump")
        except NotPlain as err:
            hint = "make it again: torch._C._distributed_c10d._dump_fr_trace()"
            raise ParseError(source.name, "", f"not read: {err}", hint=hint) from err
    try:
        found: object = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as err:
        place = f"line {err.lineno}, column {err.colno}"
        raise ParseError(source.name, place, f"not read: the JSON is damaged or cut ({err.msg})") from err
    return found


_RANK = re.compile(r"(?i)rank[_-]?([0-9]{1,6})(?![0-9])")
_LAST_NUMBER = re.compile(r"(?<![0-9])([0-9]{1,6})(?:\.[A-Za-z][A-Za-z0-9]*)*$")


def rank_of(dump: Mapping[str, object], name: str) -> int | None:
    """Return the rank of a dump: what it states, the name of its file, or the only member of all of its groups.

    None without one. A name with a rank that is not a member of the groups is a name of something else.
    """
    stated = _integer(dump.get("rank"))
    if stated is not None and 0 <= stated < _MOST_RANKS:
        return stated
    base = re.split(r"[/\\]", name)[-1]
    found = _RANK.search(base) or _LAST_NUMBER.search(base)
    members = _members_of_all(dump.get("pg_config"))
    if found and (not members or int(found[1]) in members):
        return int(found[1])
    return next(iter(members)) if len(members) == 1 else None


def _members_of_all(groups: object) -> set[int]:
    """Return the ranks that are members of all groups of a dump: its own rank is one of them."""
    if not isinstance(groups, dict):
        return set()
    known = [ranks for each in groups.values() if isinstance(each, dict) and (ranks := _ranks(each.get("ranks")))]
    return set.intersection(*map(set, known)) if known else set()


def _integer(value: object) -> int | None:
    """Return an integer, also one that JSON has as a text; None for anything else."""
    if isinstance(value, str) and len(value) < 20 and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -_MOST < value < _MOST:
        return value
    return None


def _ranks(value: object) -> list[int] | None:
    """Return the ranks of a group: a list, or its text as "[0, 1]"; None where they are not known."""
    if isinstance(value, str):
        if not re.fullmatch(r"\s*\[[0-9,\s]*\]\s*", value):
            return None
        value = [int(each) for each in re.findall(r"[0-9]{1,7}", value)]
    if not isinstance(value, list) or not value or len(value) > _MOST_RANKS:
        return None
    every = [_integer(each) for each in value]
    known = [each for each in every if each is not None and 0 <= each < _MOST_RANKS]
    return known if len(known) == len(every) == len(set(known)) else None


def _shapes(value: object) -> list[list[int]] | None:
    """Return the sizes of tensors, None where they have another type."""
    if not isinstance(value, list) or len(value) > _MOST_SHAPES:
        return None
    found = []
    for each in value:
        if not isinstance(each, list) or len(each) > _MOST_DIMENSIONS:
            return None
        sizes = [_integer(one) for one in each]
        known = [one for one in sizes if one is not None]
        if len(known) < len(sizes):
            return None
        found.append(known)
    return found


class _Fault(Exception):
    """The key of a field of another type."""


@dataclass(slots=True)
class _Dump:
    """One dump, and how its rows are made."""

    dump: Record
    options: ReadOptions
    ledger: Ledger
    run: Run
    rank: int | None
    numbers: dict[int, int] = field(default_factory=dict)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows: of the dump, its groups, their status, the entries, the stacks."""
        from tracekit.readers.printed.lines import TotalRows
        from tracekit.readers.torch.memory import SnapshotStacks, plain_text

        facts = self.run.sources[0].facts
        for key, fact in (("version", "tool_version"), ("comm_lib_version", "communication_library")):
            if isinstance(text := self.dump.get(key), str) and text:
                facts[fact] = plain_text(text)
        rows, stacks = TotalRows(self.options.source, self.ledger), SnapshotStacks()
        if self.rank is None:
            self.ledger.note(
                "rank-unknown", "the name of the file has no rank: name it as in rank_3, or pass --rank-from"
            )
        else:
            facts["rank"] = self.rank
        entries = self.dump.get("entries", [])
        self._add(rows, "flight recorder", "dump", {"entries": len(entries), **self._extent(entries)})
        self._groups(rows)
        yield from rows.take()
        for entry in entries:
            self._entry(rows, stacks, entry)
            yield from rows.take()
        if stacks.faults:
            why = "frames of stacks with other types than text and integer are not shown"
            self.ledger.note("bad-frame", why, stacks.faults)
        for number, stack in enumerate(stacks.all()):
            self._add(
                rows, "flight recorder stacks", stack.line, {"stack": number, "frames": stack.frames}, calls=stack.calls
            )
        if isinstance(state := self.dump.get("nccl_comm_state"), dict):
            self.ledger.read += len(state)
            self.ledger.ignore("state of a communicator", len(state))
        yield from rows.take(everything=True)

    def _add(self, rows: TotalRows, section: str, name: str, args: Mapping[str, object], **more: object) -> None:
        from tracekit.model.schema import Kind

        rows.add(0, section, name, str(Kind.COMMUNICATION), args, rank=self.rank, **more)

    def _extent(self, entries: list[object]) -> Record:
        """Return which entries of the ring are left: the first number, and whether any is missing after it."""
        numbers = [_integer(each.get("record_id")) for each in entries if isinstance(each, dict)]
        known = [each for each in numbers if each is not None]
        if not known:
            return {}
        return {"first_record": min(known), "without_gaps": max(known) - min(known) + 1 == len(set(known))}

    def _groups(self, rows: TotalRows) -> None:
        from tracekit.readers.torch.memory import plain_text

        for section, key in (("flight recorder groups", "pg_config"), ("flight recorder status", "pg_status")):
            groups = self.dump.get(key)
            for name, group in groups.items() if isinstance(groups, dict) else ():
                self.ledger.read += 1
                if not isinstance(group, dict) or not isinstance(name, str | int):
                    self.ledger.drop(f"bad-{key}", text=f"dropped: a group of {key} that is not one of PyTorch")
                    continue
                args: Record = {}
                if key == "pg_status":
                    args = {str(k): _integer(v) for k, v in group.items() if isinstance(k, str)}
                else:
                    desc, ranks = group.get("desc"), _ranks(group.get("ranks"))
                    args = {"desc": plain_text(desc) if isinstance(desc, str) else ""}
                    args |= {"ranks": ranks} if ranks is not None else {}
                self.ledger.kept += 1
                self._add(rows, section, plain_text(str(name)), args)

    def _entry(self, rows: TotalRows, stacks: SnapshotStacks, entry: object) -> None:
        self.ledger.read += 1
        if not isinstance(entry, dict):
            self.ledger.drop("bad-entry", text="dropped: an entry that is not one of PyTorch")
            return
        try:
            name, args = _fields(entry)
        except _Fault as fault:
            code, text = str(fault).replace("_", "-"), f"dropped: an entry whose {fault} has another type"
            self.ledger.drop(f"bad-entry-{code}", text=text)
            return
        self.ledger.kept += 1
        stack = stacks.of(entry.get("frames"))
        if stack is not None:
            stack.calls += 1
            args["line"] = stack.line
            args["stack"] = self.numbers.setdefault(id(stack), len(self.numbers))
        self._add(rows, "flight recorder calls", name, args)


def _fields(entry: Record) -> tuple[str, Record]:
    """Return the name and the fields of an entry. Raises: _Fault."""
    from tracekit.readers.torch.memory import plain_text

    title = entry.get("profiling_name")
    if not isinstance(title, str):
        raise _Fault("profiling_name")
    backend, colon, name = plain_text(title).partition(":")
    args: Record = {"backend": backend} if colon else {}
    group = entry.get("process_group", entry.get("pg_name"))
    if isinstance(group, list | tuple) and len(group) == 2 and all(isinstance(each, str) for each in group):
        args |= {"group": plain_text(group[0]), "desc": plain_text(group[1])}
    elif isinstance(group, str):
        args["group"] = plain_text(group)
    elif group is not None:
        raise _Fault("process_group")
    for key, short in _INTEGERS.items():
        value = entry.get(key)
        if value is None or (value == 0 and key in _TIMES):  # JSON has 0 for a time that is not known
            continue
        if (number := _integer(value)) is None:
            raise _Fault(key)
        args.setdefault(short, number)
    for key, short in _TRUTHS.items():
        value = entry.get(key)
        if value is None:
            continue
        if not isinstance(value, bool):
            raise _Fault(key)
        args[short] = value
    for key, short in _SHAPES.items():
        if (value := entry.get(key)) is not None:
            if (shapes := _shapes(value)) is None:
                raise _Fault(key)
            args[short] = shapes
    for key, short in _TYPES.items():
        if (value := entry.get(key)) is not None:
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value[:_MOST_SHAPES]):
                raise _Fault(key)
            args[short] = [plain_text(each) for each in value[:_MOST_SHAPES]]
    state = entry.get("state")
    if state is not None and not isinstance(state, str):
        raise _Fault("state")
    if state is not None:
        args["state"] = plain_text(state)
    took = entry.get("duration_ms")
    if isinstance(took, int | float) and not isinstance(took, bool) and 0 <= took < 1e12:
        args["took_ns"] = round(took * 1e6)
    if "group" not in args:
        args["group"] = str(args.get("pg_id", ""))
    return name if colon else backend, args

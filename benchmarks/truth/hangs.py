"""Simulated distributed programs that hang, or do not, and the dumps that their Flight Recorder writes.

    python -m benchmarks.truth.hangs [CASES]

Each rank has a host that puts collectives, sends and receives into the streams of its groups, a few ahead of what is
done. A collective ends when all members have reached it, if their calls fit together. One fault is planted in a
program, or none. The dump of a rank has what a host that hangs leaves: states, the ring, the timeout that one rank saw.

`Truth` says which causes are right, and which ranks may be accused. Everything comes from the seed.
"""

from __future__ import annotations

import itertools
import json
import pickle
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tracekit.analysis.hangs import Cause, HangReport

MS = 1_000_000
START_NS = 1_780_000_000 * 1000 * MS
TIMEOUT_MS = 600_000
NEVER = 1 << 62


@dataclass(frozen=True)
class Op:
    """A call of a program. peer: of a send or receive, as a rank of the job. waits: the host waits for its end."""

    name: str
    group: str = "0"
    sizes: tuple[int, ...] = (1024,)
    out: tuple[int, ...] = ()
    dtype: str = "Float"
    peer: int = -1
    waits: bool = False
    gap_ns: int = MS
    line: int = 10


@dataclass(eq=False)
class Issued:
    """A call that a host has put in a stream."""

    op: Op
    rank: int
    seq: int
    p2p_seq: int
    order: int
    created: int
    done: int = NEVER
    batch: int = -1
    retired: bool = False


@dataclass
class Machine:
    """Ranks, their groups and programs. dead: groups whose network does not move any more."""

    rng: random.Random
    groups: dict[str, tuple[str, tuple[int, ...]]]
    programs: dict[int, list[Op | None]]
    ahead: int = 3
    dead: set[str] = field(default_factory=set)
    issued: dict[int, list[Issued]] = field(default_factory=dict)
    stopped: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        """Run until nobody moves. A program that ends in None stops its host there."""
        self.issued = {rank: [] for rank in self.programs}
        places = dict.fromkeys(self.programs, 0)
        clock = dict.fromkeys(self.programs, START_NS)
        moved = True
        while moved:
            moved = False
            ranks = list(self.programs)
            self.rng.shuffle(ranks)
            for rank in ranks:
                moved |= self._step(rank, places, clock)
            moved |= self._complete()

    def _step(self, rank: int, places: dict[int, int], clock: dict[int, int]) -> bool:
        program, mine = self.programs[rank], self.issued[rank]
        if places[rank] >= len(program):
            return False
        op = program[places[rank]]
        if op is None:
            return False
        pending = [call for call in mine if call.done == NEVER]
        if len(pending) > self.ahead or any(call.op.waits for call in pending):
            return False
        done = [call for call in mine if call.done != NEVER]
        before = max((call.done for call in done if call.op.waits or len(mine) - call.order > self.ahead), default=0)
        clock[rank] = max(clock[rank], before) + op.gap_ns + self.rng.randrange(MS)
        p2p = op.peer >= 0
        of_group = [call for call in mine if call.op.group == op.group]
        seq = sum(call.op.peer < 0 for call in of_group) + (not p2p)
        p2p_seq = sum(call.op.peer >= 0 for call in of_group) + p2p
        mine.append(Issued(op, rank, seq, p2p_seq, len(mine), clock[rank]))
        places[rank] += 1
        return True

    def _complete(self) -> bool:
        moved = False
        for name, (_, members) in self.groups.items():
            if name in self.dead:
                continue
            lanes = {r: [c for c in self.issued.get(r, ()) if c.op.group == name and c.op.peer < 0] for r in members}
            at = min(next((i for i, c in enumerate(lane) if c.done == NEVER), len(lane)) for lane in lanes.values())
            calls = [lane[at] for lane in lanes.values() if at < len(lane)]
            if len(calls) == len(members) and all(call.done == NEVER for call in calls) and fit(calls):
                end = max(call.created for call in calls) + MS
                for call in calls:
                    call.done = end + self.rng.randrange(MS // 10)
                moved = True
            for source in members:
                for target in members:
                    moved |= self._exchange(name, source, target)
        return moved

    def _exchange(self, group: str, source: int, target: int) -> bool:
        sends = [
            c
            for c in self.issued.get(source, ())
            if c.op.group == group and c.op.name == "send" and c.op.peer == target
        ]
        receives = [
            c
            for c in self.issued.get(target, ())
            if c.op.group == group and c.op.name == "recv" and c.op.peer == source
        ]
        for sent, received in zip(sends, receives):
            if received.done != NEVER:
                continue
            if sent.op.sizes != received.op.sizes:
                return False
            received.done = max(sent.created, received.created) + MS
            sent.done = min(sent.done, received.done)
            return True
        return False


def fit(calls: list[Issued]) -> bool:
    """Return whether the calls of all members are of one collective."""
    first = calls[0].op
    return all(
        (call.op.name, call.op.dtype) == (first.name, first.dtype)
        and (call.op.name == "all_to_all_single" or call.op.sizes == first.sizes)
        for call in calls
    )


@dataclass(frozen=True)
class Truth:
    """The right answer. causes: the right ones. accused: ranks that may be accused. named: must be named late."""

    causes: frozenset[Cause]
    accused: frozenset[int] = frozenset()
    named: frozenset[int] = frozenset()


@dataclass
class Case:
    """A run that was simulated: dumps by rank, and the right answer."""

    scenario: str
    seed: int
    dumps: dict[int, dict[str, Any]]
    truth: Truth

    def write(self, folder: Path) -> None:
        """Write the dumps: pickles as PyTorch does, or JSON, by the seed."""
        for rank, dump in self.dumps.items():
            if self.seed % 3:
                (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))
            else:
                (folder / f"fr_rank{rank}.json").write_text(json.dumps(dump), encoding="utf-8")


def dump_of(machine: Machine, rank: int, *, at: int, ring: int, stated: bool = True) -> dict[str, Any]:
    """Return the dump of a rank at a time: what was issued before, the last `ring` entries of it."""
    calls = [call for call in machine.issued[rank] if call.created <= at]
    kept = calls[-ring:]
    config = {
        name: {"name": name, "desc": desc, "ranks": str(list(members))}
        for name, (desc, members) in machine.groups.items()
        if rank in members
    }
    return {
        "version": "2.10",
        "comm_lib_version": "2.28.9",
        "pg_config": config,
        "pg_status": {"0": {"last_enqueued_collective": len(calls), "last_completed_collective": 0}},
        "entries": [entry_of(machine, call, at, stated=stated) for call in kept],
    }


def entry_of(machine: Machine, call: Issued, at: int, *, stated: bool) -> dict[str, Any]:
    """Return the entry of a call."""
    desc, members = machine.groups[call.op.group]
    done = call.done <= at
    op = call.op
    title = op.name
    if op.peer >= 0:
        own, other = members.index(call.rank), members.index(op.peer)
        title = f"send {own}->{other}" if op.name == "send" else f"recv {own}<-{other}"
    sizes, out = [list(op.sizes)], [list(op.out or op.sizes)]
    if op.name == "barrier":
        sizes = out = [[1]]
    return {
        "frames": [
            {"name": op.name, "filename": "/usr/lib/torch/distributed/distributed_c10d.py", "line": 3000},
            {"name": "train", "filename": "/home/user/project/train.py", "line": op.line},
        ],
        "record_id": call.order,
        "pg_id": list(machine.groups).index(op.group),
        "process_group": (op.group, desc),
        "collective_seq_id": call.seq,
        "p2p_seq_id": call.p2p_seq,
        "op_id": call.order + 1,
        "profiling_name": f"nccl:{title}",
        "time_created_ns": call.created,
        "input_sizes": sizes,
        "input_dtypes": [op.dtype],
        "output_sizes": out,
        "output_dtypes": [op.dtype],
        "state": "completed" if done else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": call.done if done else None,
        "retired": done or call.retired,
        "timeout_ms": TIMEOUT_MS,
        "is_p2p": op.peer >= 0,
    }


def layout(rng: random.Random, world: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return groups: that of all ranks, and for an even world pairs (tp) and every second rank (dp)."""
    groups = {"0": ("default_pg", tuple(range(world)))}
    if world >= 4 and world % 2 == 0:
        for pair in range(world // 2):
            groups[str(1 + pair)] = ("tp", (2 * pair, 2 * pair + 1))
        for side in range(2):
            groups[str(1 + world // 2 + side)] = ("dp", tuple(range(side, world, 2)))
    return groups


def steps(rng: random.Random, groups: dict[str, tuple[str, tuple[int, ...]]], count: int) -> dict[int, list[Op | None]]:
    """Return the programs of a training run: the same calls on all members of a group, in one order."""
    world = len(groups["0"][1])
    programs: dict[int, list[Op | None]] = {rank: [] for rank in range(world)}
    uneven = rng.random() < 0.3

    def add(op: Op, members: tuple[int, ...]) -> None:
        for rank in members:
            own = replace(op, sizes=(op.sizes[0] + rank,)) if op.name == "all_to_all_single" and uneven else op
            programs[rank].append(own)

    for step in range(count):
        for name, (desc, members) in groups.items():
            if desc == "tp":
                add(Op("all_reduce", name, (64 + step,), line=20), members)
        for name, (desc, members) in groups.items():
            if desc == "dp":
                add(Op("_reduce_scatter_base", name, (len(members) * 128,), (128,), "BFloat16", line=30), members)
        everyone = groups["0"][1]
        for bucket in range(rng.randrange(1, 4)):
            add(Op("all_reduce", "0", (1000 + bucket,), line=40), everyone)
        extra = rng.choice(("broadcast", "_all_gather_base", "all_to_all_single", "barrier", ""))
        if extra:
            add(Op(extra, "0", (256,), (256 * world,) if extra == "_all_gather_base" else (), line=50), everyone)
        if rng.random() < 0.4:
            for source in range(world - 1):
                programs[source].append(Op("send", "0", (77,), peer=source + 1, line=60))
                programs[source + 1].append(Op("recv", "0", (77,), peer=source, line=61))
        for rank in everyone:
            if isinstance(last := programs[rank][-1], Op):
                programs[rank][-1] = replace(last, waits=True)
    return programs


def collectives(program: list[Op | None], group: str) -> list[int]:
    """Return the places of the collectives of a group."""
    return [at for at, op in enumerate(program) if op is not None and op.peer < 0 and op.group == group]


Plant = Callable[[random.Random, Machine], Truth]
NOT_ENTERED = frozenset({Cause.NOT_ENTERED})
MISMATCH = frozenset({Cause.MISMATCH})
NOTHING = frozenset({Cause.IDLE, Cause.RUNNING, Cause.BEHIND})


def _healthy(rng: random.Random, machine: Machine) -> Truth:
    return Truth(NOTHING)


def _victim(rng: random.Random, machine: Machine) -> tuple[int, int]:
    """Return a rank, and the place of one of its later collectives of all ranks."""
    rank = rng.choice(list(machine.programs))
    places = collectives(machine.programs[rank], "0")
    return rank, rng.choice(places[len(places) // 3 :])


def _missing(rng: random.Random, machine: Machine) -> Truth:
    rank, place = _victim(rng, machine)
    machine.programs[rank][place:] = [None]
    return Truth(NOT_ENTERED, frozenset({rank}), frozenset({rank}))


def _missing_in_group(rng: random.Random, machine: Machine) -> Truth:
    name = rng.choice([name for name, (desc, _) in machine.groups.items() if desc in ("tp", "dp")] or ["0"])
    rank = rng.choice(machine.groups[name][1])
    machine.programs[rank][rng.choice(collectives(machine.programs[rank], name)) :] = [None]
    return Truth(NOT_ENTERED, frozenset({rank}), frozenset({rank}))


def _two_missing(rng: random.Random, machine: Machine) -> Truth:
    rank, place = _victim(rng, machine)
    other = rng.choice([each for each in machine.programs if each != rank] or [rank])
    for each in (rank, other):
        at = collectives(machine.programs[each], "0")
        number = collectives(machine.programs[rank], "0").index(place) if each == rank else None
        if number is not None:
            keep = at[number]
        machine.programs[each][min(keep, len(machine.programs[each]) - 1) :] = [None]
    return Truth(NOT_ENTERED, frozenset({rank, other}), frozenset())


def _other_call(change: Callable[[Op], Op]) -> Plant:
    def plant(rng: random.Random, machine: Machine) -> Truth:
        rank, _ = _victim(rng, machine)
        places = [at for at in collectives(machine.programs[rank], "0") if _op(machine, rank, at).name == "all_reduce"]
        place = rng.choice(places)
        machine.programs[rank][place] = change(_op(machine, rank, place))
        majority = len(machine.programs) > 2
        return Truth(MISMATCH, frozenset({rank} if majority else ()), frozenset({rank}))

    return plant


def _op(machine: Machine, rank: int, place: int) -> Op:
    op = machine.programs[rank][place]
    assert op is not None
    return op


def _swapped(rng: random.Random, machine: Machine) -> Truth:
    rank = rng.choice(list(machine.programs))
    places = collectives(machine.programs[rank], "0")
    able = [
        (a, b) for a, b in itertools.pairwise(places)
        if {_op(machine, rank, a).name, _op(machine, rank, b).name} == {"all_reduce", "broadcast"}
    ]  # fmt: skip
    if not able:
        op = Op("broadcast", "0", (256,))
        for each in machine.programs:
            at = collectives(machine.programs[each], "0")[-1]
            machine.programs[each].insert(at, op)
        places = collectives(machine.programs[rank], "0")
        able = [(places[-2], places[-1])]
        if _op(machine, rank, places[-1]).name != "all_reduce":
            for each in machine.programs:
                machine.programs[each][collectives(machine.programs[each], "0")[-1]] = Op("all_reduce", "0", (9,))
    a, b = rng.choice(able)
    program = machine.programs[rank]
    program[a], program[b] = replace(_op(machine, rank, b), waits=False), _op(machine, rank, a)
    majority = len(machine.programs) > 2
    return Truth(MISMATCH, frozenset({rank} if majority else ()), frozenset({rank}))


def _skipped(rng: random.Random, machine: Machine) -> Truth:
    rank, place = _victim(rng, machine)
    del machine.programs[rank][place]
    majority = len(machine.programs) > 2
    # Where the skipped call is like the next one, only the last call is missing, or sends and receives wait too.
    return Truth(MISMATCH | NOT_ENTERED | {Cause.CYCLE}, frozenset({rank} if majority else ()), frozenset())


def _once_too_often(rng: random.Random, machine: Machine) -> Truth:
    rank, place = _victim(rng, machine)
    machine.programs[rank].insert(place, _op(machine, rank, place))
    majority = len(machine.programs) > 2
    return Truth(MISMATCH | NOT_ENTERED | {Cause.CYCLE}, frozenset({rank} if majority else ()))


def _both_receive(rng: random.Random, machine: Machine) -> Truth:
    one, other = rng.sample(list(machine.programs), 2)
    place = rng.randrange(2, 5)
    for rank, peer in ((one, other), (other, one)):
        call = [Op("recv", "0", (5,), peer=peer, waits=True), Op("send", "0", (5,), peer=peer)]
        at = collectives(machine.programs[rank], "0")[place]
        machine.programs[rank][at:at] = call
    return Truth(frozenset({Cause.CYCLE}))


def _never_sent(rng: random.Random, machine: Machine) -> Truth:
    one, other = rng.sample(list(machine.programs), 2)
    at = collectives(machine.programs[one], "0")[rng.randrange(2, 5)]
    machine.programs[one].insert(at, Op("recv", "0", (5,), peer=other, waits=True))
    # The sender goes on to the next collective, where it waits for the receiver: a circle.
    # Or the message meant for a later receive of another size arrives.
    return Truth(frozenset({Cause.CYCLE, Cause.NOT_ENTERED, Cause.MISMATCH}))


def _sizes_of_message(rng: random.Random, machine: Machine) -> Truth:
    one, other = rng.sample(list(machine.programs), 2)
    place = rng.randrange(2, 5)
    for rank, call in (
        (one, Op("send", "0", (5,), peer=other, waits=True)),
        (other, Op("recv", "0", (6,), peer=one, waits=True)),
    ):
        at = collectives(machine.programs[rank], "0")[place]
        machine.programs[rank].insert(at, call)
    return Truth(MISMATCH)


def _groups_in_another_order(rng: random.Random, machine: Machine) -> Truth:
    tp = machine.groups.get("1")
    if tp is None:
        return _missing(rng, machine)
    first, second = Op("all_reduce", "1", (3,), waits=True), Op("all_reduce", "0", (4,), waits=True)
    for rank in machine.programs:
        at = collectives(machine.programs[rank], "0")[3]
        both = [first, second] if rank == tp[1][0] else [second, first] if rank == tp[1][1] else [second]
        machine.programs[rank][at:at] = both
    return Truth(frozenset({Cause.CYCLE}))


def _inside(rng: random.Random, machine: Machine) -> Truth:
    machine.dead = {rng.choice(list(machine.groups))}
    return Truth(frozenset({Cause.INSIDE}))


def _shape(op: Op) -> Op:
    return replace(op, sizes=(op.sizes[0] + 1,))


def _dtype(op: Op) -> Op:
    return replace(op, dtype="BFloat16")


def _operation(op: Op) -> Op:
    return replace(op, name="broadcast")


SCENARIOS: dict[str, Plant] = {
    "healthy, at the end": _healthy,
    "healthy, in the middle": _healthy,
    "a slow rank": _healthy,
    "a rank does not come": _missing,
    "a rank of a sub-group does not come": _missing_in_group,
    "another operation": _other_call(_operation),
    "other sizes": _other_call(_shape),
    "another datatype": _other_call(_dtype),
    "calls in another order": _swapped,
    "a call is skipped": _skipped,
    "a call too many": _once_too_often,
    "two ranks receive first": _both_receive,
    "a message is never sent": _never_sent,
    "sizes of a message differ": _sizes_of_message,
    "groups in another order": _groups_in_another_order,
    "the network stops": _inside,
    "the ring forgets, a rank does not come": _missing,
    "a rank has no dump": _missing,
    "a dump is older": _missing,
    "healthy, a rank has no dump": _healthy,
}


def case_of(seed: int) -> Case:
    """Return the case of a seed."""
    rng = random.Random(seed)
    name = list(SCENARIOS)[seed % len(SCENARIOS)]
    world = rng.choice((2, 3, 4, 4, 6, 8))
    groups = layout(rng, world)
    machine = Machine(rng, groups, steps(rng, groups, rng.randrange(4, 9)), ahead=rng.randrange(0, 6))
    if name == "a slow rank":
        slow = rng.randrange(world)
        machine.programs[slow] = [op and replace(op, gap_ns=400 * MS) for op in machine.programs[slow]]
    truth = SCENARIOS[name](rng, machine)
    machine.run()
    ring = rng.choice((20, 40)) if name.startswith("the ring") else 2000
    issued = [call for calls in machine.issued.values() for call in calls]
    end = max(call.created for call in issued) + 1
    hangs = not truth.causes & NOTHING
    if hangs:
        # Some of the ranks that wait see their first open call time out, and all write their dumps.
        end += TIMEOUT_MS * MS
        waiting = [rank for rank, calls in machine.issued.items() if any(call.done == NEVER for call in calls)]
        for rank in rng.sample(waiting, rng.randrange(1, len(waiting) + 1)):
            next(call for call in machine.issued[rank] if call.done == NEVER).retired = True
    elif name != "healthy, at the end":
        end = rng.randrange(min(call.created for call in issued), end)
    else:
        end += 10 * MS
    dumps = {rank: dump_of(machine, rank, at=end, ring=ring) for rank in machine.programs}
    return _changed(rng, name, machine, dumps, replace(truth), seed)


def _changed(
    rng: random.Random, name: str, machine: Machine, dumps: dict[int, dict[str, Any]], truth: Truth, seed: int
) -> Case:
    """Return the case with the dumps that are missing or older."""
    late = next(iter(truth.named), -1)
    if name == "a rank has no dump":
        del dumps[late]
        truth = Truth(frozenset({Cause.NO_DUMP, Cause.UNKNOWN}))
    elif name == "healthy, a rank has no dump":
        del dumps[rng.choice(list(dumps))]
    elif name == "a dump is older":
        other = rng.choice([rank for rank in dumps if rank != late])
        calls = machine.issued[other]
        dumps[other] = dump_of(machine, other, at=calls[rng.randrange(len(calls))].created, ring=2000)
        truth = Truth(frozenset(Cause) - MISMATCH, frozenset({late}))
    elif name.startswith("the ring"):
        truth = Truth(NOT_ENTERED | {Cause.UNKNOWN}, truth.accused)
    if is_without_a_call(dumps):
        # Such a dump may also be one of calls that are open, of which there are none.
        truth = replace(truth, causes=truth.causes | {Cause.UNKNOWN}, named=frozenset())
    return Case(name, seed, dumps, truth)


def is_without_a_call(dumps: dict[int, dict[str, Any]]) -> bool:
    """Return whether the dump of a rank has no entry."""
    return any(not dump["entries"] for dump in dumps.values())


def verdict(case: Case, report: HangReport) -> str:
    """Return "" for a right report, else what is wrong with it: "accused" for a wrong accusation, "cause"."""
    if not set(report.accused) <= case.truth.accused:
        return "accused"
    if report.cause not in case.truth.causes:
        return "cause"
    named = set(report.accused)
    if report.group is not None:
        named |= {*report.group.behind} - {*report.group.blocked}
        named |= {
            rank
            for _, ranks in report.group.sides[len(report.group.sides) > 1 and len(case.dumps) > 2 :]
            for rank in ranks
        }
    return "" if case.truth.named <= named else "not named"


def judged(seeds: range) -> Iterator[tuple[Case, HangReport, str]]:
    """Yield each case with its report, read from files, and the verdict."""
    import tracekit
    from tracekit.index.flight_records import hang
    from tracekit.index.trace_index import index_of

    for seed in seeds:
        case = case_of(seed)
        with tempfile.TemporaryDirectory() as folder:
            case.write(Path(folder))
            trace = tracekit.read(folder)
            report = hang(index_of(trace))
        if report is None:
            raise ValueError(f"seed {seed}: no dump was read")
        yield case, report, verdict(case, report)


def main(count: int) -> int:
    """Print what is wrong, and a summary by scenario."""
    right, every = Counter[str](), Counter[str]()
    accusations = 0
    for case, report, wrong in judged(range(count)):
        every[case.scenario] += 1
        right[case.scenario] += not wrong
        accusations += wrong == "accused"
        if wrong:
            print(f"seed {case.seed}, {case.scenario}: {wrong}: {report.cause}, accused {report.accused}")
    for name in every:
        print(f"{right[name]:>4} of {every[name]:>4}  {name}")
    print(f"{right.total()} of {every.total()} right, {accusations} wrong accusations")
    return int(accusations > 0 or right.total() < 0.99 * every.total())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))

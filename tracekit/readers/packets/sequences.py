"""Packet sequences and what their packets share: defaults, interned texts, the thread of older producers.

A writer starts anew with a packet that clears the state; numbers of texts then mean other texts. From a packet that
was lost on to the next such one, packets that need the state cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from itertools import count, islice

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I32, I64, Mask
from tracekit.model.digits import signed
from tracekit.readers.engine.wire import BYTES, WireMessage, scan
from tracekit.readers.packets import fields as numbers
from tracekit.readers.packets.framing import PacketBlock
from tracekit.readers.packets.texts import NONE, PacketTexts, distinct

__all__ = ["Sequences", "Stated"]

_TEXTS = (
    numbers.CATEGORIES,
    numbers.NAMES,
    numbers.KEYS,
    numbers.STRINGS,
    numbers.CORRELATIONS,
    numbers.LOG_BODIES,
    numbers.KERNELS,
)
_RAW = (numbers.SOURCE_LOCATIONS, numbers.CONTEXTS, numbers.SPECIFICATIONS, numbers.COUNTER_DESCRIPTORS)
_MOST_IID = 1 << 14
_MOST_TOGETHER = 64
_NO_TEXTS: I32 = np.full(1, NONE, np.int32)
_CLEARED = 1
NEEDS_STATE = 2


@dataclass(slots=True, eq=False)
class InternedTexts:
    """Texts and messages that a sequence has defined since its state was cleared, by field and number (iid)."""

    texts: dict[int, dict[int, int]] = field(default_factory=dict)
    """Numbers of texts, by field, then by iid."""
    raw: dict[tuple[int, int], bytes] = field(default_factory=dict)
    _columns: dict[int, tuple[int, I32 | None]] = field(default_factory=dict)

    def column(self, kind: int) -> I32 | None:
        """Return the texts of a field by iid, and NONE behind the last iid; None where an iid is too large for that."""
        texts = self.texts.get(kind, {})
        count, column = self._columns.get(kind, (0, _NO_TEXTS))
        if column is None or count == len(texts):
            return column
        # A number keeps its first definition, so what is new are the last ones of the dictionary.
        new = np.array(list(islice(texts.items(), count, None)), np.uint64)
        if (most := int(new[:, 0].max())) >= _MOST_IID:
            column = None
        else:
            if most + 2 > len(column):
                column = np.append(column, np.full(most + 2 - len(column), NONE, np.int32))
            column[new[:, 0].view(np.int64)] = new[:, 1]
        self._columns[kind] = len(texts), column
        return column


@dataclass(frozen=True, slots=True, eq=False)
class SequenceState:
    """State of a sequence for some of its packets. valid: False where a packet was lost.

    track: uuid, None for none. thread: pid and tid that the sequence states, of older producers. reference_us: the time
    from which their events count, None where it is not said or lost; epoch: the number of that statement.
    """

    sequence: int
    interned: InternedTexts
    valid: bool = False
    clock: int = 0
    track: int | None = None
    counters: tuple[int, ...] = ()
    doubles: tuple[int, ...] = ()
    thread: tuple[int, int] | None = None
    process: int | None = None
    reference_us: int | None = None
    epoch: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Stated:
    """The states of the packets of a block. state: index of `states` of each packet. flags: their sequence_flags."""

    state: I64
    states: list[SequenceState]
    flags: I64

    def of(self, packets: I64, name: str, default: int) -> I64:
        """Return a number of the state of some packets; `default` where it has none."""
        values = [getattr(each, name) for each in self.states]
        table = np.array([default if value is None else signed(value) for value in values], np.int64)
        return table[self.state[packets]]

    def unread(self, packets: I64) -> Mask:
        """Return which packets need a state that was lost."""
        valid = np.array([each.valid for each in self.states], np.bool_)
        needed: Mask = self.flags[packets] & NEEDS_STATE != 0
        return needed & ~valid[self.state[packets]]

    def texts(self, packets: I64, kind: int, iids: I64) -> I32:
        """Return the text that a number (iid) has for each of some packets, NONE where it has none."""
        columns: list[I32] = []
        place_of: dict[int, int] = {}
        places = [place_of.setdefault(id(each.interned), len(place_of)) for each in self.states]
        if len(place_of) <= _MOST_TOGETHER:
            known_by_place = {place: each.interned for place, each in zip(places, self.states, strict=True)}
            found = [known_by_place[place].column(kind) for place in range(len(known_by_place))]
            columns = [each for each in found if each is not None]
        if not columns or len(columns) < len(place_of):
            return self._searched(packets, kind, iids)
        unsigned = iids.view(np.uint64)
        if len(columns) == 1:
            single: I32 = columns[0][np.minimum(unsigned, np.uint64(len(columns[0]) - 1)).view(np.int64)]
            return single
        sizes = np.array([len(each) for each in columns])
        own = np.array(places)[self.state[packets]]
        at = np.minimum(unsigned, (sizes - 1).astype(np.uint64)[own]).view(np.int64)
        joined: I32 = np.concatenate(columns)[(np.cumsum(sizes) - sizes)[own] + at]
        return joined

    def _searched(self, packets: I64, kind: int, iids: I64) -> I32:
        """Return texts as `texts` does, one by one: for many states, or numbers that are no small ones."""
        states, state = distinct(self.state[packets])
        names, name = distinct(iids)
        pairs, place = (np.arange(len(names)), name) if len(states) == 1 else distinct(state * len(names) + name)
        known = [self.states[at].interned.texts.get(kind, {}) for at in states.tolist()]
        iid = [each & (1 << 64) - 1 for each in names.tolist()]
        numbers_of_texts = [known[pair // len(iid)].get(iid[pair % len(iid)], NONE) for pair in pairs.tolist()]
        return np.array(numbers_of_texts, np.int32)[place] if numbers_of_texts else np.empty(0, np.int32)

    def raw(self, packet: int, kind: int, iid: int) -> bytes | None:
        """Return the message that a number has for a packet."""
        state: SequenceState = self.states[int(self.state[packet])]
        return state.interned.raw.get((kind, iid))


class Sequences:
    """The states of all sequences, block after block."""

    def __init__(self, texts: PacketTexts) -> None:
        self._texts = texts
        self._now: dict[int, SequenceState] = {}
        self._epochs = count()
        self.lost = 0
        """Packets before which others were lost."""

    def read(self, block: PacketBlock) -> Stated:
        """Return the state of each packet."""
        fields = block.fields
        sequence, _ = fields.last(numbers.SEQUENCE, 0, block.count)
        flags, _ = fields.last(numbers.FLAGS, 0, block.count)
        ids, code = distinct(sequence)
        states = [self._now.get(one) or SequenceState(one, InternedTexts()) for one in ids.tolist()]
        cleared = flags & _CLEARED != 0
        old = fields.of(numbers.CLEARED, 0)
        cleared[old.row[old.value != 0]] = True
        lost = fields.of(numbers.LOST, 0)
        changes = sets.unique(
            np.concatenate(
                (
                    np.flatnonzero(cleared),
                    lost.row[lost.value != 0],
                    *(fields.of(kind, 2).row for kind in (numbers.INTERNED, *_CHANGES)),
                )
            )
        )
        state = code.copy()
        if len(changes):
            state = self._changed(block, states, code, changes, cleared)
        for each in states:
            self._now[each.sequence] = each
        return Stated(state, states, flags)

    def _changed(self, block: PacketBlock, states: list[SequenceState], code: I64, changes: I64, cleared: Mask) -> I64:
        """Append the states that begin within a block; return the state of each packet."""
        now = list(range(len(states)))
        mark = np.full(block.count, -1, np.int64)
        messages = _Messages(block, self._epochs)
        lost = block.fields.of(numbers.LOST, 0)
        gaps = set(lost.row[lost.value != 0].tolist())
        for row in changes.tolist():
            own = now[code[row]]
            state = states[own]
            if row in gaps:
                state = replace(state, reference_us=None)
            if cleared[row]:
                # The time of the thread counts no longer: in Perfetto's engine too.
                new = replace(
                    SequenceState(state.sequence, InternedTexts(), True), thread=state.thread, process=state.process
                )
            elif row in gaps:
                self.lost += 1
                new = replace(state, valid=False)
            else:
                new = state
            new = messages.change(row, new)
            messages.intern(row, new.interned, self._texts)
            if new is not states[own]:
                now[code[row]] = mark[row] = len(states)
                states.append(new)
        order = np.argsort(code, kind="stable")
        begins = np.flatnonzero(np.diff(code[order], prepend=-1))
        filled = mark[order]
        filled[begins] = np.where(filled[begins] < 0, code[order][begins], filled[begins])
        last = np.maximum.accumulate(np.where(filled >= 0, np.arange(len(filled)), 0))
        state = np.empty(block.count, np.int64)
        state[order] = filled[last]
        return state


_CHANGES = (numbers.DEFAULTS, numbers.THREAD, numbers.PROCESS)


class _Messages:
    """The messages of a block that change states, by packet."""

    def __init__(self, block: PacketBlock, epochs: Iterator[int]) -> None:
        self._data, self._epochs = block.data, epochs
        fields = block.fields
        self._entries: dict[int, list[tuple[int, int | None, bytes | None, tuple[int, int]]]] = {}
        interned = fields.of(numbers.INTERNED, 2)
        if len(interned):
            self._take(block, interned.row, interned.at, interned.ends)
        self._changes: dict[int, list[tuple[int, bytes]]] = {}
        for kind in _CHANGES:
            picked = fields.of(kind, 2)
            for row, at, end in zip(picked.row.tolist(), picked.at.tolist(), picked.ends.tolist(), strict=True):
                self._changes.setdefault(row, []).append((kind, block.data[at:end].tobytes()))

    def _take(self, block: PacketBlock, rows: I64, starts: I64, ends: I64) -> None:
        steps = scan(block.view, starts, ends).steps
        if not steps:
            return
        tags = np.concatenate([tag for _, tag, _, _ in steps]).view(np.int64)
        wanted = np.flatnonzero((tags & 7 == BYTES) & np.isin(tags >> 3, (*_TEXTS, *_RAW)))
        begins = np.concatenate([at for _, _, _, at in steps])[wanted]
        stops = begins + np.concatenate([value for _, _, value, _ in steps])[wanted].view(np.int64)
        inner = scan(block.view, begins, stops)
        iids = inner.of(1, 0)
        numbers_: list[int | None] = [None] * len(wanted)
        for row, value in zip(iids.row.tolist(), iids.value.tolist(), strict=True):
            numbers_[row] = value
        names: list[bytes | None] = [None] * len(wanted)
        picked = inner.of(2, 2)
        for row, at, end in zip(picked.row.tolist(), picked.at.tolist(), picked.ends.tolist(), strict=True):
            names[row] = block.data[at:end].tobytes()
        kinds = (tags[wanted] >> 3).tolist()
        owners = rows[np.concatenate([message for message, _, _, _ in steps])[wanted]].tolist()
        for kind, owner, number, name, start, stop in zip(
            kinds, owners, numbers_, names, begins.tolist(), stops.tolist(), strict=True
        ):
            self._entries.setdefault(owner, []).append((kind, number, name, (start, stop)))

    def intern(self, row: int, interned: InternedTexts, texts: PacketTexts) -> None:
        """Add what a packet defines. The first definition of a number stays."""
        for kind, number, name, (start, stop) in self._entries.get(row, ()):
            if number is None:
                continue
            if kind in _RAW:
                interned.raw.setdefault((kind, number), self._data[start:stop].tobytes())
            else:
                interned.texts.setdefault(kind, {}).setdefault(number, texts.name_of(name or b""))

    def change(self, row: int, state: SequenceState) -> SequenceState:
        """Return the state after the messages of a packet."""
        for kind, data in self._changes.get(row, ()):
            message = WireMessage(data)
            if kind == numbers.DEFAULTS:
                event = WireMessage(message.bytes(11))
                state = replace(
                    state,
                    clock=message.number(58) & 0xFFFFFFFF,
                    track=event.optional(11),
                    counters=tuple(event.all(31)),
                    doubles=tuple(event.all(45)),
                )
            elif kind == numbers.THREAD:
                thread = message.number(1), message.number(2)
                state = replace(state, thread=thread, process=thread[0], reference_us=message.number(6))
                state = replace(state, epoch=next(self._epochs))
            else:
                state = replace(state, process=message.number(1))
        return state

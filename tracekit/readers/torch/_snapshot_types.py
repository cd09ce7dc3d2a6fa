"""Types of the fields in a snapshot of PyTorch's allocator: only texts and integers are taken for texts and integers.

A pickle may hold anything anywhere: a list in the place of a name, a truth value in the place of a stream, a list that
holds itself. So each field is compared with its type before anything else is done with it. `str()` of a nested object
might never end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeGuard

Record = dict[str, Any]

MOST_BYTES = 1 << 42
"""No allocation is as large."""
_MOST_US = (1 << 62) // 1000
_MOST_WORD = 1 << 64
"""Addresses, handles of streams and pools have 64 bits."""
_MOST_TEXT = 2000
_MOST_FRAMES = 200
_MOST_OF_STACK = 1 << 17
"""Characters of the frames of a stack. Those behind them are not shown."""
_OPERATORS = ("at::_ops::", "torch::autograd::generated::", "torch::autograd::")
"""Beginnings of the names of C++ functions that say what allocated, where no line of Python does."""
_UNSIGNED = {
    **dict.fromkeys(("size", "total_size", "allocated_size", "active_size", "requested_size"), MOST_BYTES),
    "time_us": _MOST_US,
    "addr": _MOST_WORD,
}
_SIGNED = ("stream", "device", "device_free")
_TEXTS = ("action", "segment_type", "state", "name", "stage")
_LISTS = ("frames", "blocks")
_EVENT = ("action", "size", "time_us", "addr", "stream", "device_free", "frames")
_SEGMENT = ("device", "total_size", "requested_size", "active_size", "allocated_size", "segment_type", "blocks")
_BLOCK = ("state", "size", "requested_size")
_ANNOTATION = ("name", "stage", "device", "time_us")


def is_integer(found: object) -> TypeGuard[int]:
    """Return whether an object is an integer; a truth value is none."""
    return isinstance(found, int) and not isinstance(found, bool)


def fits_json(found: object) -> bool:
    """Return whether an object is an integer that the writer of JSON takes."""
    return is_integer(found) and -(1 << 62) < found < 1 << 62


def whole(found: object) -> int:
    """Return an integer, 0 for anything else."""
    return found if is_integer(found) else 0


def identity(found: object) -> int | None:
    """Return the number of a device or stream, None for anything else."""
    return found if is_integer(found) and 0 <= found < 1 << 31 else None


def _fault(record: Mapping[str, object], keys: tuple[str, ...]) -> str:
    """Return the key of the first field that has not its type, "" for none. A missing field, or None, is no fault."""
    for key in keys:
        found = record.get(key)
        if found is None:
            continue
        if key in _UNSIGNED:
            good = is_integer(found) and 0 <= found < _UNSIGNED[key]
        elif key in _SIGNED:
            good = is_integer(found)
        else:
            good = isinstance(found, str if key in _TEXTS else list)
        if not good:
            return key
    return ""


def fault_of_event(record: Record) -> str:
    """Return the key of the field of an event that has not its type, "" for none."""
    return _fault(record, _EVENT)


def fault_of_segment(record: Record) -> str:
    """Return the key of the field of a segment that has not its type, "" for none."""
    return _fault(record, _SEGMENT)


def fault_of_block(record: Record) -> str:
    """Return the key of the field of a block that has not its type, "" for none."""
    return _fault(record, _BLOCK)


def fault_of_annotation(record: Record) -> str:
    """Return the key of the field of an annotation that has not its type, "" for none."""
    return _fault(record, _ANNOTATION)


def wanted(key: str) -> str:
    """Return the type of a field in words."""
    if key in _UNSIGNED or key in _SIGNED:
        return "an integer of its size" if key in _UNSIGNED else "an integer"
    return "a text" if key in _TEXTS else "a list"


def plain_text(found: str) -> str:
    """Return a text that is UTF-8: halves of characters stay as their escapes."""
    return found[:_MOST_TEXT].encode("utf-8", "backslashreplace").decode()


def text_of(record: Mapping[str, object], key: str, default: str = "") -> str:
    """Return the text of a field; the default for a missing one, or for another type."""
    found = record.get(key)
    return plain_text(found) if isinstance(found, str) else default


@dataclass(slots=True)
class SnapshotStack:
    """One stack. line: the innermost line of Python outside of PyTorch. frames: the outermost first."""

    line: str
    frames: list[str]
    calls: int = 0
    size: int = 0
    device: int = 0


@dataclass(slots=True)
class SnapshotStacks:
    """Stacks and their frames as texts. A snapshot has one list of frames at many events, one frame in many lists.

    faults: how many frames had another type than text and integer somewhere.
    """

    faults: int = 0
    _stacks: dict[tuple[str, ...], SnapshotStack] = field(default_factory=dict)
    _known: dict[int, SnapshotStack | None] = field(default_factory=dict)
    _frames: dict[tuple[str, str, int | str], str] = field(default_factory=dict)

    def all(self) -> Iterable[SnapshotStack]:
        """Return the stacks in order of their first event."""
        return self._stacks.values()

    def of(self, frames: object) -> SnapshotStack | None:
        """Return the stack of a list of frames, None without one."""
        if not isinstance(frames, list) or not frames:
            return None
        if id(frames) not in self._known:
            self._known[id(frames)] = self._made(frames[:_MOST_FRAMES])
        return self._known[id(frames)]

    def _made(self, frames: list[Any]) -> SnapshotStack | None:
        each = [frame for frame in frames if isinstance(frame, dict) and _is_frame(frame)]
        self.faults += len(frames) - len(each)
        python = [frame for frame in each if frame.get("filename", "").endswith(".py")]
        outside = [frame for frame in python if "/torch/" not in frame["filename"]]
        shown = python or each
        if not shown:
            return None
        texts = [self._text(frame) for frame in shown]
        ends = accumulate(map(len, texts))
        key = tuple(text for text, end in zip(texts, ends, strict=True) if end <= _MOST_OF_STACK)
        if key not in self._stacks:
            native = [frame for frame in each if frame.get("name", "").startswith(_OPERATORS)]
            line = self._text((outside or python or native or each)[0])
            self._stacks[key] = SnapshotStack(line, list(key[::-1]))
        return self._stacks[key]

    def _text(self, frame: Record) -> str:
        """Return a frame in one line: `model.py:12 forward`, the function alone where no file is known."""
        name, file, line = frame.get("name", "?"), frame.get("filename", "?"), frame.get("line", "?")
        known = self._frames.get((name, file, line))
        if known is None:
            function, path = plain_text(name), plain_text(file)
            known = f"{'/'.join(path.split('/')[-2:])}:{line} {function}" if path != "??" else function
            self._frames[name, file, line] = known
        return known


def _is_frame(frame: Record) -> bool:
    line = frame.get("line", 0)
    return (
        isinstance(frame.get("name", ""), str)
        and isinstance(frame.get("filename", ""), str)
        and is_integer(line)
        and -_MOST_WORD < line < _MOST_WORD
    )

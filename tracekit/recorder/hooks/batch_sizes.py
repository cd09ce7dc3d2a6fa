"""Numbers of samples of batches: from the settings of the data loader, and from the batch where its tensors agree.

A batch does not say how many samples it has: its first dimension may be a sequence, or packed samples. So the loader is
asked first. Where neither the loader nor the batch shows the number, it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

__all__ = ["BatchSizes"]

_MOST_VALUES = 64


class BatchSizes:
    """The sizes of the batches of one pass over a loader, in their order."""

    def __init__(self, loader: Any) -> None:
        batch_sampler: Any = getattr(loader, "batch_sampler", None)
        size = getattr(loader, "batch_size", None) or getattr(batch_sampler, "batch_size", None)
        self._size = size if type(size) is int and size > 0 else None
        self._left: int | None = None
        # A sampler of batches that is not the framework's own may give any number of samples.
        if self._size is not None and type(batch_sampler).__name__ == "BatchSampler":
            with suppress(Exception):  # a sampler without a length
                self._left = len(batch_sampler.sampler)
        self._is_whole = False

    def next(self, batch: object) -> int | None:
        """Return the number of samples of the next batch, None where it is not known."""
        size = self._size
        if size is not None and self._left is not None:
            number = min(size, self._left)
            self._left -= number
            return number or None
        lengths = _first_dimensions(batch)
        if len(set(lengths)) != 1:
            return None
        if size is None:
            # Several tensors that agree: one sample without a batch has an image and a label of different lengths.
            return lengths[0] if len(lengths) > 1 else None
        self._is_whole = self._is_whole or lengths[0] == size
        return lengths[0] if self._is_whole and lengths[0] <= size else None


def _first_dimensions(batch: object) -> list[int]:
    """Return the first dimension of each tensor and the length of each list of texts in a batch; 0 of a scalar."""
    lengths: list[int] = []
    todo: list[object] = [batch]
    for _ in range(_MOST_VALUES):
        if not todo:
            break
        value = todo.pop()
        shape = getattr(value, "shape", None)
        if shape is not None:
            with suppress(Exception):
                lengths.append(int(shape[0]) if len(shape) else 0)
        elif isinstance(value, Mapping):
            todo += value.values()
        elif isinstance(value, tuple | list):
            if value and all(type(each) is str for each in value):
                lengths.append(len(value))
            else:
                todo += _some(value)
    return lengths


def _some(values: Iterable[object]) -> list[object]:
    return [value for value, _ in zip(values, range(_MOST_VALUES), strict=False)]

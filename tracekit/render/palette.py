"""The colours of data in a page, by word: a kind of event, a family of kernels, a part of a bar.

A word has the same colour on every page, so that two reports can be compared. The colours themselves, for light and
dark pages, are CSS variables in `templates/palette.css`.
"""

from __future__ import annotations

from tracekit.model.timeline import KERNEL_FAMILIES, OPERATOR_FAMILIES, family_kind

__all__ = ["class_color", "color_of", "variable_of"]

_FAMILIES = {"normalization": "norm", "data movement": "movement", "optimizer": "update", "communication": "comm"}
"""The variable of a family where it is not the family's name."""
_SERIES = 4
"""Colours for what has no meaning of its own, such as the layers of a curve."""

_WORDS = {
    **dict.fromkeys(("kernel", "kernels", "compute"), "kernel"),
    **dict.fromkeys(("memcpy", "exposed copies"), "memcpy"),
    **dict.fromkeys(("memset", "exposed memsets"), "memset"),
    **dict.fromkeys(("communication", "exposed communication"), "comm"),
    **dict.fromkeys(("user_range", "user_range_native"), "range"),
    **dict.fromkeys(("operator", "operator_inner"), "op"),
    **dict.fromkeys(("runtime", "driver"), "call"),
    **dict.fromkeys(("counter", "mark", "flow", "other"), "other"),
    **{word: word for word in ("step", "forward", "backward", "optimizer", "sync", "memory", "overhead", "idle")},
    "dataloader": "loader",
    # What memory holds has the colour of the pass that makes it.
    "parameter or older": "memory",
    "optimizer state": "optimizer",
    "gradient": "backward",
    "backward intermediate": "sync",
    "activation": "forward",
    "temporary": "call",
    "not known": "other",
    "python_op": "python",
    **{family_kind(word, "kernel"): _FAMILIES.get(word, word) for word in KERNEL_FAMILIES},
    **{
        family_kind(word, kind): "comm" if word == "communication" else f"op-{_FAMILIES.get(word, word)}"
        for kind in ("operator", "operator_inner")
        for word in OPERATOR_FAMILIES
    },
}


_CLASSES = {word: _FAMILIES.get(word, word) for word in KERNEL_FAMILIES} | {
    "collective": "comm",
    **dict.fromkeys(("copy-like", "embedding/index", "sort"), "movement"),
}


def class_color(kernel_class: str) -> str:
    """Return the colour of a class of kernels, as the kernel table names it.

    >>> class_color("conv"), class_color("sort"), class_color("rng")
    ('var(--conv)', 'var(--movement)', 'var(--kernel)')
    """
    return f"var(--{_CLASSES.get(kernel_class, 'kernel')})"


def variable_of(word: str, place: int = 0) -> str:
    """Return the CSS variable of a word, without its dashes; another word gets that of its place.

    >>> variable_of("gemm kernel"), variable_of("allocated", 1)
    ('gemm', 's2')
    """
    return _WORDS.get(word, f"s{place % _SERIES + 1}")


def color_of(word: str, place: int = 0) -> str:
    """Return the colour of a word as CSS.

    >>> color_of("exposed communication")
    'var(--comm)'
    """
    return f"var(--{variable_of(word, place)})"

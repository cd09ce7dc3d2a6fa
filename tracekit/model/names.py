"""Names of kernels and other functions, shortened so that one can still tell what they are.

What says least goes first: the folders of a file, return type and arguments, namespaces, the insides of nested
templates, then template arguments from the last to the first. Only then is the function's own name cut. A form that
would leave most of the room empty gives way to the next longer one, cut in the middle. Names that would look alike show
where they differ instead, so two different names of one table never look the same. Text and page use the same function.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.display import cell_width, cut_middle, head

__all__ = ["LEAST_WIDTH", "bare_function", "short_names"]

LEAST_WIDTH = 8
"""Cells below which names are cut without regard to what they say."""
_MOST_ROUNDS = 8
"""Rounds in which names that look alike are cut elsewhere, at their next difference."""
_LONGEST = 1 << 14
"""Characters of a name that are looked at as C++."""
_RETURN_TYPE = lazy_pattern(r"\A( *)void (?=[\w({<])")
_QUALIFIERS = lazy_pattern(
    r"(?<![\w>)}])(?:(?:\w{1,64}|\(anonymous namespace\)|<unnamed>|\{anonymous\})::){1,9}(?=[\w~{])"
)
_CAST = lazy_pattern(r"(?<=[<,( ])\((?:(?:un)?signed )?[A-Za-z_][\w: ]{0,99}\)(?=[\w'-])")
"""The type of a template argument that is a number: `(int)4`, `(ggml_type)13`."""
_ARGUMENTS_END = lazy_pattern(r"\)(?: const)?(?: \[[^\[\]]{1,64}\])*\Z")
_WORD_END = lazy_pattern(r"\w*\Z")
_WORD = lazy_pattern(r"\w*")
_BRACKET = lazy_pattern(r"(?<!-)>|[<(){}\[\]]")
_COMMA = lazy_pattern(",")
_PARENTHESIS = lazy_pattern(r"[()]")
_SHARED = lazy_pattern(r"(?<=\w)[<(]")
_PAIRS = {"<": ">", "(": ")", "{": "}", "[": "]"}
_CLOSING = frozenset(_PAIRS.values())


def short_names(texts: Sequence[str], width: int) -> list[str]:
    """Return names of at most `width` cells; equal names stay equal, different ones stay different.

    A name that fits is whole. In fewer than LEAST_WIDTH cells names are cut in the middle, and may look alike.

    >>> short_names(["void cudnn::wgrad_alg0_engine<float, 128, 5, 5, false, 512>(int, int, float const*)"], 40)
    ['wgrad_alg0_engine<float, 128, 5, 5, …>']
    >>> short_names([f"void at::map<4, at::{op}Functor<float>, array<char*, 3>>(int, T2)" for op in ("Add", "Mul")], 20)
    ['map…AddFunctor<floa…', 'map…MulFunctor<floa…']
    >>> short_names(["forward (/usr/lib/python3/site-packages/torch/nn/modules/linear.py:114)"], 40)
    ['forward (linear.py:114)']
    >>> short_names(["rgb_to_grayscale_kernel(unsigned char*, unsigned cha..."], 40)
    ['rgb_to_grayscale_kernel(…']
    """
    names = list(dict.fromkeys(texts))
    if width < LEAST_WIDTH:
        return [cut_middle(text, width) for text in texts]
    cut = {name: _short(name, width) for name in names}
    for _ in range(_MOST_ROUNDS):
        groups = _alike(cut)
        if not groups:
            break
        for group in groups:
            cut.update(_cut_apart(group, width))
    taken = set(cut.values())
    for group in _alike(cut):
        # Names that differ in many places at once: their numbers in the table tell them apart.
        for number, name in enumerate((name for name in group if cell_width(name) > width), 1):
            while (shown := _numbered(cut[name], number, width)) in taken:
                number += len(group)
            taken.add(shown)
            cut[name] = shown
    return [cut[text] for text in texts]


def bare_function(name: str) -> str:
    """Return a C++ function without return type, arguments and namespaces, as tables show a name that is too wide."""
    return _bare(name) if len(name) <= _LONGEST else name


def _alike(cut: dict[str, str]) -> list[list[str]]:
    """Return the names that look the same, in groups of two at least."""
    groups: dict[str, list[str]] = {}
    for name, shown in cut.items():
        groups.setdefault(shown, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _numbered(shown: str, number: int, width: int) -> str:
    mark = f"…{number}"
    return head(shown, width - len(mark)) + mark


@lru_cache(maxsize=1 << 12)
def _short(name: str, width: int) -> str:
    """Return the form of a name that fits and says most."""
    if cell_width(name) <= width:
        return name
    last = name
    for form in _forms(name, width):
        if cell_width(form) <= width:
            # `Kernel<…>` says less than the middle of a form that does not fit.
            return form if cell_width(form) >= width // 3 or last is name else cut_middle(last, width)
        last = form
    return cut_middle(last, width)


def _forms(name: str, width: int) -> Iterator[str]:
    """Yield a long name with less and less of its noise; of forms with ever fewer arguments, those about as wide."""
    if len(name) > _LONGEST:
        return
    if frame := _frame(name):
        yield frame
    bare = _bare(name)
    yield bare
    # `reduce_kernel<(int)512, (int)1>`: the numbers tell such kernels apart, their types do not.
    if (plain := _without_casts(bare)) != bare:
        bare = plain
        yield bare
    brackets = _brackets(bare)
    if brackets is None or bare[0] in _PAIRS:
        # A name that its producer cut: what is open in it says less than what is before.
        if bare.endswith(("...", "…")) and (begin := _SHARED.search(bare)) is not None:
            yield f"{bare[: begin.end()]}…"
        return
    yield _collapsed(bare, brackets, 2)
    flat = _collapsed(bare, brackets, 1)
    yield flat
    yield from _fewer_arguments(flat, width)
    yield _collapsed(bare, brackets, 0)
    if (own := _shared_name(bare)) != bare:
        yield f"{own}…"


def _frame(name: str) -> str:
    """Return a function of a sampled stack with its file, without the folders of it; "" for another name.

    >>> _frame("step (/home/ada/train.py:12)"), _frame("Memcpy HtoD (Pageable -> Device)")
    ('step (train.py:12)', '')
    """
    function, mark, place = name[:-1].rpartition(" (")
    file = place[max(place.rfind("/"), place.rfind("\\")) + 1 :]
    is_frame = mark and function.strip() and name.endswith(")") and "(" not in place and ")" not in place
    return f"{function} ({file})" if is_frame and file != place and "." in file.strip(".") else ""


def _bare(name: str) -> str:
    """Return a C++ function without return type, arguments and namespaces; another name without its first namespaces.

    >>> _bare("void at::native::reduce<512, at::native::Op<float>>(at::native::Op<float>)")
    'reduce<512, Op<float>>'
    """
    called = _called(name)
    if "::" in called:  # the pattern costs more than all else here
        called = _QUALIFIERS.sub("", called)
    return called.replace("> >", ">>") or name


def _without_casts(name: str) -> str:
    """Return a C++ function without the types of numbers among its template arguments.

    >>> _without_casts("reduce_kernel<(int)512, (unsigned int)1, Op<(bool)1>>")
    'reduce_kernel<512, 1, Op<1>>'
    """
    return _CAST.sub("", name) if "(" in name else name


def _called(name: str) -> str:
    """Return a C++ function without return type and arguments."""
    end = _ARGUMENTS_END.search(name)
    if end is not None and (begin := _opening(name, end.start())) > 0 and not name[begin - 1].isspace():
        name = name[:begin]
    return _RETURN_TYPE.sub(r"\1", name)


def _opening(text: str, end: int) -> int:
    """Return the place of the parenthesis that the one at `end` closes, -1 for none."""
    depth = 0
    for parenthesis in reversed(list(_PARENTHESIS.finditer(text, 0, end + 1))):
        depth += 1 if parenthesis[0] == ")" else -1
        if not depth:
            return parenthesis.start()
    return -1


def _brackets(text: str) -> list[list[int]] | None:
    """Return by depth the places of the brackets there: opening, closing, opening ...; None where they do not match.

    Brackets inside of others are one deeper than these. The head of an arrow, "->", is none.
    """
    open_: list[str] = []
    by_depth: list[list[int]] = []
    for bracket in _BRACKET.finditer(text):
        char = bracket[0]
        if char in _CLOSING:
            if not open_ or open_.pop() != char:
                return None
            by_depth[len(open_)].append(bracket.start())
        else:
            if len(open_) == len(by_depth):
                by_depth.append([])
            by_depth[len(open_)].append(bracket.start())
            open_.append(_PAIRS[char])
    return None if open_ else by_depth


def _collapsed(text: str, brackets: list[list[int]], most: int) -> str:
    """Return text with "…" in place of what is in more than `most` brackets.

    >>> _collapsed("a<b<c>, d>", _brackets("a<b<c>, d>"), 1)
    'a<b<…>, d>'
    """
    if most >= len(brackets):
        return text
    parts: list[str] = []
    last = 0
    places = brackets[most]
    for begin, end in zip(places[::2], places[1::2], strict=True):
        if end > begin + 1:
            parts += text[last : begin + 1], "…"
            last = end
    parts.append(text[last:])
    return "".join(parts)


def _fewer_arguments(text: str, width: int) -> Iterator[str]:
    """Yield text with ever fewer arguments of its longest outer template: "a<b, c, …>", "a<b, …>".

    Of the forms that are wider than `width` only the narrowest: a name with hundreds of arguments has as many.
    text: collapsed, so that arguments have no commas of their own.
    """
    brackets = _brackets(text)
    if not brackets:
        return
    first, last = 0, 0
    for begin, end in zip(brackets[0][::2], brackets[0][1::2], strict=True):
        if text[begin] == "<" and end - begin > last - first:
            first, last = begin, end
    commas = [comma.start() for comma in _COMMA.finditer(text, first, last)]
    if text.replace("…", "").isascii():
        room = width - len(text) + last - len(", …")
        commas = commas[: bisect_right(commas, room) + 1]
    for comma in reversed(commas):
        yield f"{text[:comma]}, …{text[last:]}"


def _cut_apart(names: list[str], width: int) -> dict[str, str]:
    """Return names that look alike with the beginning they share, then the text at their first difference."""
    # What they differ in may be what is left out first: namespaces, then arguments, then the return type.
    for shorter in (_bare, _called, _without_type, str):
        texts = {name: shorter(name) if len(name) <= _LONGEST else name for name in names}
        if len(set(texts.values())) == len(names):
            break
    place = _first_difference(list(texts.values()))
    return {name: _cut_around(text, place, width) if cell_width(name) > width else name for name, text in texts.items()}


def _without_type(name: str) -> str:
    return _RETURN_TYPE.sub(r"\1", name)


def _first_difference(texts: list[str]) -> int:
    """Return the first place at which not all texts are the same."""
    low, high = min(texts), max(texts)  # a prefix of the first and the last in sorted order is one of all
    same = (a == b for a, b in zip(low, high, strict=False))
    return next((i for i, equal in enumerate(same) if not equal), len(low))


def _cut_around(text: str, place: int, width: int) -> str:
    """Return the start of a text, then the text at a place, from the start of the word there if that is near."""
    if cell_width(text) <= width:
        return text
    near = text[max(place - width // 3, 0) : place]
    word = _WORD_END.search(near)
    start = place - len(word[0] if word else "")
    rest = text[start:]
    shared = _shared_name(text[:start])
    # The place of the difference needs its whole word; the shared name gets what is left, and a quarter at least.
    after = _WORD.match(text, place)
    needed = min(cell_width(rest), max(cell_width(text[start : after.end() if after else place]) + 1, width // 2))
    begin = head(shared, max(width - 1 - needed, width // 4))
    room = width - cell_width(begin) - 1
    if (used := cell_width(rest)) > room:
        rest = head(rest, room - 1) + "…"
    elif used < room and text.isascii():
        rest = text[max(start - (room - used), len(begin)) :]
    return f"{begin}…{rest}"


def _shared_name(text: str) -> str:
    """Return the name of a function that a text begins with: up to its template arguments or arguments."""
    found = _SHARED.search(text)
    return text[: found.start()] if found else text

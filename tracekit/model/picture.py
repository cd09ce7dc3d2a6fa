"""Picture: which cells of a table a picture of a report is made of, and how its rows follow each other."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escape_controls

__all__ = ["Picture", "matched"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of cells of a table of the same report. It has no numbers of its own, so none can differ.

    form: how it is drawn, such as "stack" (`tracekit.render.page.pictures` has all). table: "VIEW.TABLE". values: the
    columns whose cells are drawn. names: the columns that name a row, as far as the table has them. along: the column
    along which rows follow each other, such as the number of a step. by: the column whose cells name the parts where
    each part has a row of its own; only: these cells alone, each with the words to show. groups: of each row, such as
    the class of a kernel. marks: (name of a row, remark) of rows that stand out. remark: a sentence, "" for none.
    """

    form: str
    title: str
    table: str
    values: tuple[str, ...]
    names: tuple[str, ...] = ()
    along: str = ""
    by: str = ""
    only: tuple[tuple[str, str], ...] = ()
    groups: tuple[str, ...] = ()
    marks: tuple[tuple[str, str], ...] = ()
    remark: str = ""

    def __repr__(self) -> str:
        return f"picture {escape_controls(self.title)}: {self.form} of {', '.join(self.values)} in {self.table}"


def matched(rows: Sequence[object], numbers: Sequence[object]) -> tuple[list[int], list[str]]:
    """Return the place of each entry along its row, and a label for each place.

    Equal numbers are the same place, in ascending order. Where a number is missing, or repeats in a row, entries are
    matched by their order in the row.

    >>> matched(["a", "a", "b"], [3, 4, 4])
    ([0, 1, 1], ['3', '4'])
    >>> matched(["a", "a", "b"], [3, 3, 4])
    ([0, 1, 0], ['1', '2'])
    """
    whole = [number for number in numbers if isinstance(number, int)]
    if len(whole) == len(numbers) == len(set(zip(rows, whole, strict=False))):
        known = {number: place for place, number in enumerate(sorted(set(whole)))}
        return [known[number] for number in whole], [str(number) for number in known]
    seen: dict[object, int] = {}
    places = []
    for row in rows:
        places.append(seen.get(row, 0))
        seen[row] = places[-1] + 1
    return places, [str(place + 1) for place in range(max(places, default=-1) + 1)]

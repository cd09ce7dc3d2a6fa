"""Cells of a line, CSV or text, by the column names of the CSV; checks whether a line is a row of its table."""

from __future__ import annotations

import re

from tracekit.lazy_pattern import lazy_pattern
from tracekit.readers.nvprof._lines import (
    CSV_NAMES,
    HOST_CALLS,
    NARROW,
    ORDINAL,
    SHAPES,
    NvprofHeader,
    Table,
    cut_cells,
    split_cells,
    squeezed_cells,
    units_of,
)
from tracekit.readers.nvprof._names import LAUNCH, SUFFIX
from tracekit.readers.nvprof._state import OpenTable
from tracekit.readers.printed.numbers import BLANKS

_DECIMAL = lazy_pattern(
    rf"^[+-]?(?:\d+|\d{{1,3}}(?:[.,{BLANKS}]\d{{3}})+)([.,])\d+(?:e[-+]\d+)?(?:%|[a-zA-Zµμ]+(?:/s)?)?$"
)
_NUMBER = lazy_pattern(r"^[+-]?\.?\d")
_FRACTION = lazy_pattern(r"^[+-]?\d[\d.,]*[.,]\d+(?:e[-+]\d+)?(?:%|[nmuµμ]?s)?$")
_SIX_DECIMALS = lazy_pattern(r"^\d+\.\d{6}(?!\d)")
_NEARLY = 0.5
"""The share of a row's cells from which a line that begins with nvprof's six decimals is a damaged row."""
_SIX_DIGITS = lazy_pattern(r"^\d+\.\d{6}(?:e[-+]\d+)?$")
_ONE_BLANK = lazy_pattern(r"^([^%]*\d%) \d")
"""A percentage wider than its column leaves one blank before the time."""
_BARE = lazy_pattern(r"^<?\d+\.\d+$")
_TIME_CELL = lazy_pattern(r"^-?\d[\d.]*(?:e[-+]\d+)?(?:ns|us|ms|s)$")
_CUT_TIME = lazy_pattern(r"^\d[\d.]*(?:…|\.{2,3})(?:ns|us|ms|s)?$")
_CUT_PERCENT = lazy_pattern(r"^\d[\d.]*(?:…|\.{2,3})%?$")
_SHAPE = lazy_pattern(r"^\((-?\d+) (-?\d+) (-?\d+)\)$")


def decimal_of(text: str, delimiter: str, width: int = 0) -> tuple[str, str]:
    """Return the decimal separator of the first number that clearly has a fraction, and "".

    Without one, "" and the first number that may have thousands or a fraction (`1,234`), with commas if one has; "" for
    none. width: only lines with as many cells count.
    """
    doubtful = ""
    for line in text.splitlines():
        cells = split_cells(line, delimiter)[0]
        for cell in map(str.strip, cells if width in (0, len(cells)) else ()):
            if match := _DECIMAL.match(cell):
                if not _MAY_BE_THOUSANDS.match(cell):
                    return match[1], ""
                if not doubtful or (match[1] == "," and "," not in doubtful):
                    doubtful = cell
    return "", doubtful


def _quoted_decimal(cells: dict[str, str]) -> str:
    """Return the decimal separator in a file with commas as delimiter, by the first clear number; "" while unknown."""
    for column in _NUMERIC:
        cell = cells.get(column, "")
        if (match := _DECIMAL.match(cell)) and not _MAY_BE_THOUSANDS.match(cell):
            return match[1]
    return ""


_NUMERIC = ("Start", "Duration", "Time", "Avg", "Min", "Max", "Size", "Total Time", "Avg Size", "Total")
_MAY_BE_THOUSANDS = lazy_pattern(r"^[+-]?[1-9]\d{0,2}[.,]\d{3}(?:%|[a-zA-Zµμ]+(?:/s)?)?$")


def with_rejoined_name(values: list[str], header: NvprofHeader) -> list[str] | None:
    """Return one cell a column: a name without quotes that holds delimiters is joined. None for too few cells."""
    extra = len(values) - len(header.columns)
    if extra <= 0:
        return values if not extra else None
    column = "Name" if "Name" in header.columns else "Kernel"
    if header.quoted or column not in header.columns:
        return None
    at = header.columns.index(column)
    return [*values[:at], header.delimiter.join(values[at : at + extra + 1]), *values[at + extra + 1 :]]


def csv_cells(values: list[str], text: str, table: OpenTable) -> dict[str, str] | None:
    """Return the stripped cells by column; None when the line does not look like a row of this table."""
    header = table.header
    cells: dict[str, str] = {}
    for column, value in zip(header.columns, values, strict=True):
        if column or (header.table is Table.UNIFIED and "" not in cells):
            cells[column] = value.strip()
    if not table.decimal and header.delimiter == ",":
        table.decimal = _quoted_decimal(cells)
    return cells if _is_row(cells, text, header) else None


def read_units(text: str, table: OpenTable, *, torn: bool) -> bool:
    """Read a line as the row of units of the open table or of a concurrent one; False for another line.

    If several tables wait for their units, the oldest takes them. Rows below belong to an unknown one of these tables.
    """
    waiting = [t for t in (*table.concurrent, table) if t.units is None]
    candidates = [(t, units) for t in waiting if (units := units_of(text, t.header)) is not None]
    if not candidates:
        return False
    width = len(split_cells(text, table.header.delimiter)[0])
    candidates = [pair for pair in candidates if len(pair[0].header.columns) == width] or candidates
    if torn:
        return True
    oldest, units = candidates[0]
    oldest.units = units
    if len(candidates) > 1 or oldest is not table:
        alike = [t for t in (*table.concurrent, table) if t.header.columns == oldest.header.columns]
        if len(alike) > 1:
            for one in alike:
                one.mix()
    return True


_ODD_PERCENT = lazy_pattern(r"^(?:[<>~]?[+-]?\.?\d|[+-]?(?:nan|inf|1\.#))", re.IGNORECASE)
_NO_NUMBERS = frozenset({"nan", "inf", "infinity"})


def _is_row(cells: dict[str, str], text: str, header: NvprofHeader) -> bool:
    if header.quoted and len(header.columns) < NARROW and '"' not in text:
        return False
    if header.table is Table.TRACE:
        if len(header.columns) >= NARROW:
            return True
        start, duration = cells["Start"], cells["Duration"]
        return bool(_NUMBER.match(start)) and (
            not duration or bool(_NUMBER.match(duration)) or duration.lower().lstrip("+-") in _NO_NUMBERS
        )
    if header.table is Table.SUMMARY:
        percent = cells["Time(%)"]
        return bool(_NUMBER.match(percent)) or (
            (not percent or bool(_ODD_PERCENT.match(percent)))
            and bool(
                _NUMBER.match(cells["Time"])
                and _NUMBER.match(cells.get("Calls") or cells.get(HOST_CALLS, ""))
                and cells["Name"]
            )
        )
    first = {Table.COUNTERS: "Invocations", Table.UNIFIED: "Count", Table.PER_CALL: "Device"}
    cell = cells.get(first[header.table], "")
    if header.table is Table.UNIFIED and not cell and not header.is_text:
        # Groups of page faults have no count in CSV.
        return bool(ORDINAL.match(cells.get("Device", "")) and _NUMBER.match(cells["Total Size"]))
    return bool(cell) if header.table is Table.PER_CALL else bool(_NUMBER.match(cell))


SHORT, LONG = "the row has fewer cells than its header", "the row has more cells than its header"
UNFIT = "the line begins like a row, but does not look like the rows of its table"


def drop_reason(text: str, header: NvprofHeader, *, torn: bool) -> tuple[str, str] | None:
    """Return code and text of the reason to drop a line that begins like a row; None for output of the program."""
    if header.is_text:
        begins = _begins_text(text, header, torn=torn)
        return (("torn-row", "the last line is cut") if torn else ("short-row", SHORT)) if begins else None
    values = [v.strip() for v in split_cells(text, header.delimiter)[0]]
    if torn:
        begins = bool(_NUMBER.match(values[0])) or text.lstrip().startswith('"')
        return ("torn-row", "the last line is cut") if begins else None
    if not _begins_csv(values, text, header):
        return None
    extra = len(values) - len(header.columns)
    return ("long-row", LONG) if extra > 0 else ("short-row", SHORT if extra else UNFIT)


def _begins_csv(values: list[str], text: str, header: NvprofHeader) -> bool:
    """Return whether the first cells of a line with too many or too few cells are those of a row.

    The program prints numbers too. So two numbers need another sign of a row: six decimals, a delimiter that programs
    do not use, the quotes of a table of this width, or two fractions in a line of several cells.
    """
    if len(values) < 2:
        return False
    if header.table in (Table.COUNTERS, Table.PER_CALL):
        return text.startswith('"') and bool(ORDINAL.match(values[0]))
    if _SIX_DECIMALS.match(text) and _NEARLY * len(header.columns) <= len(values) < len(header.columns):
        return True  # delimiters were damaged
    columns = {Table.SUMMARY: ("Time(%)", "Time"), Table.UNIFIED: ("Count", "Avg Size")}
    try:
        places = [header.columns.index(c) for c in columns.get(header.table, ("Start", "Duration"))]
    except ValueError:
        return False
    if max(places) >= len(values):
        return False
    first, second = (values[p] for p in places)
    if _SIX_DIGITS.match(first) and _SIX_DIGITS.match(second):
        return True
    if not (_NUMBER.match(first) and _NUMBER.match(second)) or len(values) == len(header.columns):
        return False
    if header.delimiter != ",":
        return True
    if len(values) > len(header.columns):
        return not header.quoted or '"' in text or text.startswith(("GPU ", "API "))
    quoted = not header.quoted or len(header.columns) >= NARROW or '"' in text
    return quoted and len(values) > 3 and bool(_FRACTION.match(first) and _FRACTION.match(second))


_GROUPS = ("GPU activities", "API calls", "OpenACC", "OpenMP", "Range")
_SHARE = r"-?[\d.<]*(?:nan|inf)?%?"
_BEGUN_SUMMARY = lazy_pattern(
    rf"^(?:[\w ()]++: (?: *+(?=\S){_SHARE} ++| ++)|{_SHARE} ++)\d[\d.]*(?:ns|us|ms|s)(?: |$)"
    r"|^(?:GPU activities|API calls|Open(?:ACC|MP)(?: \(\w+\))?|Range): +\d"
)
_BEGUN_COUNTER = lazy_pattern(r"^ +\d+ {2,}[a-z]\w*(?: {2,}\S| *$)")


def _begins_text(text: str, header: NvprofHeader, *, torn: bool) -> bool:
    """Return whether a line that is not a row of its text table is a row that was cut or damaged."""
    line = text.strip()
    if torn:
        group = line.split(":")[0]
        return (
            line[:1].isdigit()
            or (header.columns[0] == "Type" and any(g.startswith(group) for g in _GROUPS))
            or (header.columns[0] == "Type" and group.startswith(_GROUPS))
        )
    if header.table is Table.TRACE:
        cells = re.split(r" +" if header.squeezed else r" {2,}", line)
        if len(cells) < 2:
            return False
        begins = _TIME_CELL.match(cells[0]) or _CUT_TIME.match(cells[0])
        return bool(begins and (cells[1] == "-" or _TIME_CELL.match(cells[1]) or _CUT_TIME.match(cells[1])))
    return bool(
        (_BEGUN_SUMMARY if header.table is Table.SUMMARY else _BEGUN_COUNTER).match(
            line if header.table is Table.SUMMARY else text
        )
    )


def text_cells(text: str, header: NvprofHeader) -> dict[str, str] | None:
    """Return the cells of a text table's row under the CSV's names; None when the line is no row of this table."""
    typed = header.columns[0] == "Type"
    if header.squeezed:
        values = squeezed_cells(text, header.columns)
    else:
        values = cut_cells(text, header.ends, optional_first=typed)
    if values is None and not header.squeezed and header.table is Table.SUMMARY and (close := _ONE_BLANK.match(text)):
        values = cut_cells(f"{close[1]} {text[close.end(1) :]}", header.ends, optional_first=typed)
    if values is None:
        return None
    if typed and not values[0].startswith(_GROUPS):
        values[0] = ""  # output of the program that lacks its line end
    if header.table is Table.TRACE:
        if not _TIME_CELL.match(values[0]):
            return None
    elif header.table is Table.SUMMARY:
        # CUDA 5.0 prints the percentage without its sign.
        percent = values[header.columns.index("Time(%)")]
        time = values[header.columns.index("Time")]
        is_cut = _CUT_PERCENT.match(percent) and _TIME_CELL.match(time)
        if (
            not percent.endswith("%")
            and not is_cut
            and not (_BARE.match(percent) and (time == "0" or _TIME_CELL.match(time)))
        ):
            return None
    elif not values[header.columns.index("Context") if header.table is Table.PER_CALL else 0].isdecimal():
        return None
    cells: dict[str, str] = {}
    for column, value in zip(header.columns, values, strict=True):
        cell = "" if value == "-" else value
        if column in SHAPES:
            shape = _SHAPE.match(cell)
            if shape is None and cell and not cell.endswith(("…", "...")):
                return None
            # A shape that was cut is not a number, so its row has a note.
            for axis, part in zip("XYZ", shape.groups() if shape else (cell, "", ""), strict=True):
                cells[f"{SHAPES[column]} {axis}"] = part
        else:
            cells[CSV_NAMES.get(column, column)] = cell
    return cells


def is_row_with_prefix(text: str, header: NvprofHeader) -> bool:
    """Return whether a line is a complete CSV row with text like nvprof's own lines inside a quoted cell."""
    if header.is_text or '"' not in text or header.table is not Table.TRACE or len(header.columns) < 3:
        return False
    values, _ = split_cells(text.strip(" "), header.delimiter)
    if len(values) != len(header.columns):
        return False
    at = text.find("== ")
    times = (values[header.columns.index(c)].strip() for c in ("Start", "Duration"))
    return text.count('"', 0, at) % 2 == 1 and '"' in text[at:] and all(_NUMBER.match(t) for t in times)


def after_carriage_returns(text: str, table: OpenTable | None) -> str:
    """Return the text behind the carriage returns of a progress bar; those inside a name do not count."""
    at = text.rfind("\r")
    if at < 0:
        return text
    if table is not None and not table.header.is_text and text.count('"', 0, at) % 2:
        values, _ = split_cells(text.strip(" "), table.header.delimiter)
        if len(values) == len(table.header.columns) and "\r" not in values[0]:
            return text
    return text[at + 1 :]


def is_complete(cells: dict[str, str]) -> bool:
    """Return whether the name of a trace row is complete although its line may be cut: its last part is there."""
    name = cells["Name"]
    if name.startswith("["):
        return name.endswith("]")
    is_call = not cells.get("Device") and not cells.get("Grid X")
    return bool(LAUNCH.match(name) if is_call else SUFFIX.match(name))


def begins_row(text: str, header: NvprofHeader) -> bool:
    """Return whether a piece of a line is the beginning of a row of this table."""
    if not header.is_text:
        values = [v.strip() for v in split_cells(text, header.delimiter)[0]]
        return (len(values) > 1 and bool(_SIX_DIGITS.match(values[0]))) or text.startswith('"')
    first, *rest = re.split(r" +" if header.squeezed else r" {2,}", text.strip())
    if header.table is Table.TRACE:
        return bool(_TIME_CELL.match(first))
    return bool(rest) and (first.isdecimal() or first.endswith(("%", ":")))

"""Each printed table, written in the style of other locales, gives the same trace; mixed and unclear ones are refused.

The renderer here knows nothing of the readers: it changes numbers that stand between blanks, brackets or delimiters.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES, read_sample, run_command, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.formats import READERS
from tracekit.model.trace import Trace
from tracekit.readers.printed.numbers import DECIMAL


@dataclass(frozen=True)
class Locale:
    """decimal: its separator. group: that of thousands, "" for none. delimiter: of cells in a file with commas."""

    name: str
    decimal: str
    group: str
    delimiter: str = ","

    def number(self, text: str) -> str:
        sign, digits, rest = re.fullmatch(r"([+-]?)(\d+)(.*)", text).groups()  # type: ignore[union-attr]
        if self.group and len(digits) > 3:
            digits = f"{int(digits):,}".replace(",", self.group)
        return f"{sign}{digits}{rest.replace('.', self.decimal)}"


LOCALES = (
    Locale("de", ",", ".", ";"),
    Locale("de without groups", ",", "", ";"),
    Locale("de with tabs", ",", ".", "\t"),
    Locale("fr", ",", "\u202f", ";"),
    Locale("ru", ",", "\u00a0", ";"),
    Locale("ch", ".", "\u2019", ";"),
    Locale("ch, typed", ".", "'", ";"),
    Locale("en", ".", ","),
)
NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
UNIT = r"(?:%|us|ms|ns|s|B|KB|MB|GB|GB/s|MB/s)?"
BETWEEN_BLANKS = re.compile(rf"(?<![^ \t(|])(?<!Device )(?<!id ){NUMBER}(?={UNIT}(?:[ \t)|]|$))")


def text_table(rows: str) -> Callable[[str, Locale], str]:
    """A table between blanks. rows: found in its rows in the program's own style; other lines stay."""
    pattern = re.compile(rows)

    def render(text: str, locale: Locale) -> str:
        def line(old: str) -> str:
            if not pattern.search(old):
                return old
            return BETWEEN_BLANKS.sub(lambda match: locale.number(match[0]), old)

        return "\n".join(map(line, text.split("\n")))

    return render


def realigned(rows: str) -> Callable[[str, Locale], str]:
    """The same for columns of fixed width: blanks next to the number give way."""
    plain = re.compile(rows)
    spaced = re.compile(rf"(?P<before> *)(?<![^ \t|])(?P<number>{NUMBER})(?={UNIT}(?P<after> *)(?:[ \t)|]|$))")

    def render(text: str, locale: Locale) -> str:
        out = []
        for line in text.split("\n"):
            if plain.search(line):
                done, debt = "", 0
                at = 0
                for match in spaced.finditer(line):
                    new = locale.number(match["number"])
                    more = len(new) - len(match["number"])
                    before = match["before"]
                    taken = min(more, max(0, len(before) - 2))
                    done += line[at : match.start()] + before[taken:] + new
                    debt += more - taken
                    at = match.end()
                assert not debt, f"no room for groups in {line!r}"
                line = done + line[at:]
            out.append(line)
        return "\n".join(out)

    return render


IDS = re.compile(r"(?i)\bid\b|_id$|-id$|^[pt]id$|index|context|stream|device|corr|ctx|strm|\\")


def cells(text: str, locale: Locale) -> str:
    """A file of cells with commas between them, as a spreadsheet saves it. Ids have no groups."""
    grouped = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
    titles: list[str] = []
    whole = re.compile(rf"({NUMBER})(%|[num]?s|[KMG]?B)?", re.ASCII)
    lines = []
    for line in text.split("\n"):
        if line.startswith(("#", "=")) or not line:
            lines.append(line)
            continue
        row = next(csv.reader([line.rstrip("\r")]))
        if not titles and len(row) > 2 and not any(cell[:1].isdecimal() for cell in row):
            titles = row
        new = []
        for at, cell in enumerate(row):
            plain = cell.replace(",", "") if grouped.fullmatch(cell) else cell
            found = whole.fullmatch(plain)
            if found is None or (len(titles) == len(row) and IDS.search(titles[at])):
                new.append(cell)
            else:
                new.append(locale.number(found[1]) + (found[2] or ""))
        out = io.StringIO()
        csv.writer(out, delimiter=locale.delimiter, lineterminator="").writerow(new)
        lines.append(out.getvalue())
    return "\n".join(lines)


def key_values(text: str, locale: Locale) -> str:
    number = re.compile(rf"(?<=putime=\[ ){NUMBER}(?= \])|(?<=occupancy=\[ ){NUMBER}(?= \])")
    return number.sub(lambda match: locale.number(match[0]), text)


TABLES: dict[str, Callable[[str, Locale], str]] = {
    "torch-table/cuda.txt": realigned(r"\d(?:us|ms|%)"),
    "torch-table/pytorch-1.4.txt": text_table(r"\d(?:us|ms|%)"),
    "torch-table/bottleneck.txt": realigned(r"\d(?:us|ms|%)"),
    "paddle-summary/gpu.txt": realigned(r"^ *\S.*? {2,}\d|: \d|^\|"),
    "fluid-report/all.txt": text_table(r"\(\d\.\d+\)|Total: |time: | {2,}\d"),
    "mxnet-table/mxnet19.txt": realigned(r"\d\.\d{4} "),
    "theano/theano-1.0.5.txt": text_table(r"\d(s|%)"),
    "theano/pytensor-3.0.7.txt": text_table(r"\d(s|%)"),
    "singa/verbosity-2.txt": text_table(r": [\d.e-]+ sec"),
    "singa/verbosity-1.txt": text_table(r": [\d.e-]+ sec"),
    "caffe-time/gpu.log": text_table(r"\d ms"),
    "caffe-time/cpu.log": text_table(r"\d ms"),
    "nvprof-text/summary.txt": text_table(r"\d%|\dus "),
    "nvprof-text/gpu-trace.txt": realigned(r"^\d[\d.]*[mu]?s "),
    "nvprof-csv/summary-new.csv": cells,
    "nvprof-csv/gpu-trace-20-columns.csv": cells,
    "nvprof-csv/api-trace.csv": cells,
    "nsys-stats-csv/sums.csv": cells,
    "nsys-stats-csv/cuda_gpu_trace.csv": cells,
    "ncu/details.csv": cells,
    "ncu/summary.csv": cells,
    "cuda-profile/csv.log": cells,
    "cuda-profile/csv-timestamps.log": cells,
    "cuda-profile/kvp.log": key_values,
    "ascend-csv/task_time_20250109171300.csv": cells,
    "ascend-csv/op_statistic.csv": cells,
    "rocprof-csv/4242_kernel_trace.csv": cells,
    "rocprof-csv/4242_counter_collection.csv": cells,
    "rocprof-csv/results.csv": cells,
}


def rows_of(trace: Trace) -> list[dict[str, Any]]:
    rows = trace.events.to_pylist() + trace.totals.to_pylist()
    for row in rows:
        row.pop("args")
    return rows


@pytest.mark.parametrize("locale", LOCALES, ids=lambda locale: locale.name)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_in_any_locale_gives_the_same_trace(name: str, locale: Locale, tmp_path: Path) -> None:
    path = SAMPLES / name
    text = path.read_bytes().decode("utf-8-sig")
    made = TABLES[name](text, locale)
    if locale.decimal == ",":
        assert made != text, "the renderer changed nothing"
    written = tmp_path / "x"
    written.write_bytes(made.encode())
    assert sure_readers(written) == [name.split("/")[0]]
    assert rows_of(tracekit.read(written)) == rows_of(read_sample(name))


@pytest.mark.parametrize("name", TABLES)
def test_windows_line_ends_and_encodings_change_nothing(name: str, tmp_path: Path) -> None:
    path = SAMPLES / name
    text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    made = TABLES[name](text, LOCALES[0]).replace("\n", "\r\n")
    whole = rows_of(read_sample(name))
    for data in (
        b"\xef\xbb\xbf" + made.encode(),
        b"\xff\xfe" + made.encode("utf-16-le"),
        b"\xfe\xff" + made.encode("utf-16-be"),
    ):
        (tmp_path / "x").write_bytes(data)
        assert rows_of(tracekit.read(tmp_path / "x")) == whole
    grouped = TABLES[name](text, Locale("ru", ",", "\u00a0", ";")).replace("\n", "\r\n")
    (tmp_path / "x").write_bytes(grouped.encode("cp1252", "replace"))
    if text.isascii():
        assert rows_of(tracekit.read(tmp_path / "x")) == whole


MIXED = {
    "torch-table/cuda.txt": ("384.384us", "384,384us"),
    "theano/theano-1.0.5.txt": ("1.552105e-03s", "1,552105e-03s"),
    "singa/verbosity-2.txt": ("0.00025697 sec", "0,00025697 sec"),
    "caffe-time/gpu.log": None,
    "fluid-report/all.txt": ("0.290691", "0,290691"),
    "mxnet-table/mxnet19.txt": ("65.5360", "65,5360"),
}


@pytest.mark.parametrize("name", [name for name, pair in MIXED.items() if pair])
def test_two_conventions_in_one_file_are_refused(name: str, tmp_path: Path) -> None:
    pair = MIXED[name]
    assert pair is not None
    text = (SAMPLES / name).read_text("utf-8")
    assert pair[0] in text
    (tmp_path / "x").write_text(text.replace(pair[0], pair[1].replace("384,384", "1.384,384")), "utf-8")
    with pytest.raises(ParseError, match="the numbers follow two conventions") as caught:
        tracekit.read(tmp_path / "x")
    assert "decimal=," in caught.value.hint
    tracekit.read(tmp_path / "x", options={"decimal": "."})


UNCLEAR = (
    "Time Profiling:\nForward Propagation Time : 1,234 sec\nBackward Propagation Time : 2,345 sec\n",
    "Time Profiling:\nOP_ID3. ReLU : 1,234 sec\n",
)


@pytest.mark.parametrize("text", UNCLEAR)
def test_numbers_that_may_mean_either_are_refused_until_the_user_decides(text: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(ParseError, match=r"'1,234' may be 1\.234 or 1234, and no other number of the file shows which"):
        tracekit.read(tmp_path / "x")
    for decimal, ns in ((",", 1_234_000_000), (".", 1_234_000_000_000)):
        trace = tracekit.read(tmp_path / "x", options={"decimal": decimal})
        assert ns in [row["total_ns"] for row in trace.totals.to_pylist()]
    result = run_command("inspect", tmp_path / "x", code=1)
    assert len(result.stderr.strip().splitlines()) == 2


def test_a_style_that_is_not_the_program_s_own_is_noted(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("Time Profiling:\nForward Propagation Time : 0,5 sec\n")
    notes = tracekit.read(tmp_path / "x").ledgers[0].notes
    assert "1.234.567,8" in str(notes["numbers-of-another-locale"])


def test_other_output_of_the_program_decides_nothing(tmp_path: Path) -> None:
    """A loss of `1,5` in the log is not a number of the table."""
    text = (SAMPLES / "singa/verbosity-2.txt").read_text("utf-8")
    (tmp_path / "x").write_text(f"loss 1,5 batch 12,345\n{text}\nepoch 3,1\n")
    assert rows_of(tracekit.read(tmp_path / "x")) == rows_of(tracekit.read(SAMPLES / "singa/verbosity-2.txt"))


def test_every_reader_of_printed_tables_has_the_option() -> None:
    assert {name.split("/")[0] for name in TABLES} == {
        reader.name for reader in READERS.values() if DECIMAL in reader.options
    }

"""Numbers and texts of many cells read at once equal those that Python reads one by one."""

from __future__ import annotations

import csv
import json
import math
import random
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from doors.readers import PAD, LogCells, LogText
from doors.readers import amd_cells as amd
from doors.readers import cuda_profile_columns as kvp
from doors.readers import ncu_cells as ncu
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model import schema
from tracekit.readers.builder import RowBuilder

CELL = st.one_of(
    st.integers(0, 10**18).map(str),
    st.integers(0, 10**13).map(lambda n: f"{n // 1000}.{n % 1000:03}"),
    st.decimals(0, 10**15, places=2).map(str),
    st.integers(0, 16**17).map(lambda n: f"{n:x}"),
    st.integers(0, 16**16).map(lambda n: f"{n:X}"),
    st.text("0123456789abcdefgABFG.-+ :/@`[]é\x7f名", max_size=20),
)
LIMIT = 1 << 62


def cells_of(words: list[str]) -> LogCells:
    starts, ends, at = [], [], PAD
    for word in words:
        starts.append(at)
        ends.append(at + len(word.encode()))
        at = ends[-1] + 1
    return LogCells(LogText(",".join(words).encode()), np.array(starts, np.int64), np.array(ends, np.int64))


@given(st.lists(CELL, min_size=1, max_size=60))
def test_numbers_are_exact_or_reported_as_not_read(words: list[str]) -> None:
    check_numbers(words)


@pytest.mark.parametrize("around", [("", ""), ("", "1234567"), ("1234567", ""), ("12345678", "1234567"), ("1", "12")])
def test_every_character_is_a_digit_or_none_at_any_place(around: tuple[str, str]) -> None:
    before, after = around
    check_numbers([f"{before}{character}{after}" for character in map(chr, range(33, 256)) if character != ","])


def test_numbers_of_more_digits_than_two_words_hold_are_not_read() -> None:
    check_numbers(["1" * 16, "1" * 17, "0" * 17, "2" * 17 + ".5", "0" + "3" * 16 + ".125", "0" * 9 + "ffffffff"])


def test_times_of_2_to_the_62_ns_and_more_are_not_read() -> None:
    check_numbers(["4611686018427384.999", "4611686018427386", "4611686018427386.0", "4611686018427386.125", "9" * 16])


def check_numbers(words: list[str]) -> None:
    cells = cells_of(words)
    readings = (
        (cells.integers(), r"[0-9]{1,16}", int, LIMIT),
        (cells.thousands(), r"[0-9]{1,16}(\.[0-9]{1,3})?", lambda w: int(Decimal(w) * 1000), LIMIT - 2000),
        (cells.hexadecimal(), r"[0-9a-fA-F]{1,16}", lambda w: int(w, 16), LIMIT),
    )
    for (values, good), pattern, parse, limit in readings:
        for word, value, ok in zip(words, values.tolist(), good.tolist(), strict=True):
            readable = re.fullmatch(pattern, word) is not None and parse(word) < limit
            assert ok == readable, word
            assert not ok or value == parse(word)


@given(st.lists(CELL, min_size=1, max_size=60), st.text(max_size=20))
def test_texts_and_patterns_are_found_where_they_stand(words: list[str], pattern: str) -> None:
    cells = cells_of(words)
    assert cells.texts().to_pylist() == words
    assert [cells.one(at) for at in range(len(words))] == words
    data = ",".join(words).encode()
    for text in (pattern.encode()[:40], words[0].encode()):
        padded = data + b"\n" * PAD
        want = [padded[at - PAD :].startswith(text) for at in cells.starts.tolist()]
        if len(text) <= PAD:
            assert cells.text.same(cells.starts, text).tolist() == want


def test_some_cells_can_be_taken() -> None:
    cells = cells_of(["a", "bb", "ccc"])
    assert cells.take(np.array([2, 0])).texts().to_pylist() == ["ccc", "a"]
    assert len(cells.take(np.array([False, True, False]))) == 1


@given(st.text("ab=[ ", min_size=1, max_size=60), st.text("ab=[ ", min_size=1, max_size=40))
def test_a_text_stands_where_python_finds_it_also_at_the_end(data: str, wanted: str) -> None:
    text = LogText(data.encode())
    places = np.arange(PAD, PAD + len(data))
    assert text.same(places, wanted.encode()).tolist() == [data.startswith(wanted, at) for at in range(len(data))]


# --- rows of key-value logs ---

KEYS = (
    "gpustarttimestamp",
    "gpuendtimestamp",
    "method",
    "gputime",
    "cputime",
    "gridsizeX",
    "gridsize",
    "streamid",
    "x",
)
VALUE = CELL.filter(lambda text: not text or bool(text.strip())) | st.sampled_from(
    ["16345785d8a0110c", "2.277", "4, 2"]
)
KEY = st.sampled_from([*KEYS, "a_counter", "k" * 250])
LINE = st.tuples(st.integers(0, 2), st.lists(VALUE, min_size=6, max_size=6), st.sampled_from(["", " ", "  "]))


def block_of(lines: list[str], *, at_once: bool) -> kvp.LogBlock:
    """Return the rows of key-value lines, those of one shape together or each by itself."""
    block = kvp.LogBlock(len(lines), kvp.LogWords())
    alone = set(range(len(lines)))
    if at_once:
        data = "\n".join(lines).encode()
        ends = PAD + np.array([*(match.start() for match in re.finditer(b"\n", data)), len(data)])
        starts = np.array([PAD, *(ends[:-1] + 1)])
        for rows, cells in kvp.key_value_shapes(LogText(data, kvp.LogMemory()), starts, ends):
            alone -= set(rows.tolist())
            for column, some in cells.items():
                block.add(rows, column, some)
    for row in sorted(alone):
        for column, text in kvp.one_line(lines[row].strip(), [], comma=False).items():
            block.add_one(row, column, text)
    return block


@given(st.lists(st.lists(KEY, unique=True, min_size=1, max_size=6), min_size=3, max_size=3), st.lists(LINE, min_size=1))
def test_key_value_rows_of_one_shape_are_read_as_each_by_itself(
    shapes: list[list[str]], rows: list[tuple[int, list[str], str]]
) -> None:
    lines = [
        " ".join(f"{key}=[ {value} ]" for key, value in zip(shapes[shape], values)) + end for shape, values, end in rows
    ]
    together, alone = block_of(lines, at_once=True), block_of(lines, at_once=False)
    every = np.arange(len(lines))
    assert (together.bad, together.odd, together.rounded) == (alone.bad, alone.odd, alone.rounded)
    for column in together.values.keys() | alone.values.keys():
        (values, known), (wanted, there) = (block.number(column, every) for block in (together, alone))
        assert known.tolist() == there.tolist(), column
        assert values[known].tolist() == wanted[known].tolist(), column
    for column in together.texts.keys() | alone.texts.keys():
        assert together.text(column, every).to_pylist() == alone.text(column, every).to_pylist(), column


# --- Nsight Compute's cells, each in quotation marks ---

STRANGE = (b"\x1b", b"\0", b"==PROF== ", b"==WARNING== ", b"==ERROR== ", b"Process ID")


def quoted(rows: list[list[str]], end: str = "\n") -> bytes:
    return "".join(",".join(f'"{cell}"' for cell in row) + end for row in rows).encode()


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return the text with a few of its characters replaced or taken out, or with others between them."""
    changed = data.decode()
    for _ in range(chance.randrange(3)):
        at, size = chance.randrange(len(changed)), chance.randrange(2)
        new = chance.choice(["", '"', '""', ",", "\n", "\r", "\r\n", "0", "x", *(word.decode() for word in STRANGE)])
        changed = changed[:at] + new + changed[at + size :]
    return changed.encode()


@pytest.mark.parametrize("width", [2, 3])
def test_a_block_of_ncu_is_cut_where_all_of_it_is_certainly_rows_and_only_there(width: int) -> None:
    line = rb'"[0-9]{1,18}"' + rb',"[^"\r\n]*"' * (width - 1) + rb"\r?\n"
    texts, cut = ["", " a", "b ", "1.5", "a,b", "~", "\x7f", "é", "!", "-"], 0
    for seed in range(500):
        chance = random.Random(seed)
        rows = [
            [str(chance.randrange(10 ** chance.choice((1, 18)))), *chance.choices(texts, k=width - 1)]
            for _ in range(chance.randrange(1, 4))
        ]
        data = damaged(quoted(rows, chance.choice(("\n", "\r\n"))), chance)
        found = ncu.cells_of(data, width)
        certain = re.fullmatch(b"(?:" + line + b")+", data) is not None and not any(word in data for word in STRANGE)
        assert (found is not None) == certain, data
        if found is None:
            continue
        cut += 1
        wanted = list(csv.reader(data.decode().splitlines()))
        assert [found.row(number) for number in range(found.count)] == wanted
        assert [found.column(at).to_pylist() for at in range(width)] == [list(column) for column in zip(*wanted)]
        ends = [(cell.encode()[:1], cell.encode()[-1:]) for row in wanted for cell in row]
        visible = [all(part in (*map(bytes, zip(range(0x21, 0x7F))), b"") for part in pair) for pair in ends]
        assert [ok or cell == b"" for ok, (cell, _) in zip(found.clean.tolist(), ends)] == visible
    assert cut > 100


def test_a_first_cell_of_ncu_that_is_no_number_makes_no_row() -> None:
    for cell in ("ID", "", "1.5", "-1", "1" * 19):
        assert ncu.cells_of(quoted([["1", "x"], [cell, "x"]]), 2) is None
    assert ncu.cells_of(quoted([["1" * 18, "x"]]), 2) is not None


@pytest.mark.parametrize("alphabet", ['"",\n', '"",\r\na'])
def test_lines_with_a_quotation_mark_inside_a_text_are_set_aside(alphabet: str) -> None:
    for seed in range(400):
        chance = random.Random(seed)
        data = "".join(chance.choices(alphabet, k=chance.randrange(1, 12))).encode() + b"\n"
        aside, kept = [], b""
        for line in (
            data.splitlines(keepends=True) if b"\r" not in data else [x + b"\n" for x in data.split(b"\n")[:-1]]
        ):
            empty = {match.start() for match in re.finditer(rb'(?:(?<=,)|^)(?=""[,\r\n])', line)}
            if all(match.start() in empty for match in re.finditer(rb'(?="")', line)):
                kept += line
            else:
                aside.append(line)
        assert ncu.without_escapes(data) == (kept, aside), data
    assert ncu.without_escapes(b'"1",""') == (b"", [b'"1",""']), "the cell may have been cut"
    assert ncu.without_escapes(b'"1","a""b"') == (b"", [b'"1","a""b"'])


# --- cells of ROCm's tools ---


def test_texts_of_rocm_become_numbers_or_null() -> None:
    texts = ["12", "0", "-1", "1.5", "", "x", "9" * 18, "9" * 19, str((1 << 31) - 1), str(1 << 31), "Agent 4", "GPU 7"]
    column = pa.array(texts)
    whole = [12, 0, None, None, None, None, 10**18 - 1, None, (1 << 31) - 1, 1 << 31, None, None]
    small = [None if value is None or value >= 1 << 31 else value for value in whole]
    assert amd.integers_of(column).to_pylist() == amd.whole(column).to_pylist() == whole
    assert amd.small(column).to_pylist() == small
    assert amd.agent(column).to_pylist() == [*small[:-2], 4, 7]
    assert amd.agent(pa.array(["CPU 1", "Agent x", "Agent", "agent 4"])).to_pylist() == [1, None, None, None]
    assert amd.whole(None) is amd.small(None) is amd.agent(None) is None
    assert (amd.number("1e3"), math.isnan(amd.number("x"))) == (1000, True)


def test_cells_of_rocm_that_say_something_are_args() -> None:
    cells = {
        "vgpr": pa.array(["32", "0", "", "008"]), "name": pa.array(['a"b', "", "0", "1.5"]), "empty": pa.array([""] * 4)
    }  # fmt: skip
    texts = amd.args(cells, ["vgpr", "missing", "name", "empty"])
    assert texts is not None
    assert [text and json.loads(text) for text in texts.to_pylist()] == [
        {"vgpr": 32, "name": 'a"b'}, None, None, {"vgpr": 8, "name": "1.5"},
    ]  # fmt: skip
    assert amd.args(cells, ["empty", "missing"]) is None


def test_counters_of_rocm_add_up_by_device_counter_and_kernel() -> None:
    counters, kernels = amd.KernelCounters(), pa.array(["k", "k", "j", "k"])
    assert counters.add("WAVES", kernels, None, np.array([4.0, 6.0, 1.0, np.nan])) == 1
    assert counters.add("WAVES", kernels, None, np.array([2.0, np.inf, 3.0, 9.0])) == 1
    names, devices = pa.array(["A", "B", "A", "A"]), pa.array([0, 0, 1, 0])
    assert counters.add(names, kernels, devices, np.array([1.0, 2.0, 3.0, 5.0])) == 0
    assert len(counters) == 5
    builder = RowBuilder(schema.TOTALS)
    assert counters.rows(builder, 3) == 10
    rows = builder.take().to_pylist()
    found = {
        (row["device"], row["name"], json.loads(row["args"])["metric"]): (
            row["calls"], row["value_min"], row["value_max"], row["value_avg"], json.loads(row["args"])["total"]
        )
        for row in rows
    }  # fmt: skip
    assert found == {
        (None, "k", "WAVES"): (4, 2, 9, 5.25, 21), (None, "j", "WAVES"): (2, 1, 3, 2, 4),
        (0, "k", "A"): (2, 1, 5, 3, 6), (0, "k", "B"): (1, 2, 2, 2, 2), (1, "j", "A"): (1, 3, 3, 3, 3),
    }  # fmt: skip
    assert {(row["source"], row["run"], row["section"], row["kind"]) for row in rows} == {(3, 0, "metrics", "kernel")}
    assert [row["order"] for row in rows] == list(range(5))

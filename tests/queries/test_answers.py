"""What a query sees of its inputs, and the forms of its answer: exact."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_limits import Limit, small
from strategies import rows_of, traces
from support import sample

import tracekit
from tracekit import archive
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.inputs import InputOptions, stored_name
from tracekit.model import schema
from tracekit.model.trace import Trace
from tracekit.queries import ARCHIVE_COLUMNS, ask, query, render, write
from tracekit.readers.builder import event_batch
from tracekit.render.base import RenderOptions

CSV = sample("nvprof-csv/gpu-and-api-trace.csv")
LOG = sample("recorder-log/rank0.jsonl")
SUMMED = sample("paddle-summary/gpu.txt")


def one(inputs: object, sql: str) -> object:
    (row,) = query(inputs, sql).to_pylist()  # type: ignore[arg-type]
    (value,) = row.values()
    return value


@settings(max_examples=15)
@given(trace=traces())
def test_the_views_hold_the_rows_of_the_trace(trace: Trace, tmp_path: Path) -> None:
    tracekit.write(trace, tmp_path / "x.parquet", force=True)
    events = query(tmp_path / "x.parquet", "FROM events")
    totals = query(tmp_path / "x.parquet", "FROM totals")
    names = [*(f.name for f in ARCHIVE_COLUMNS), "file"]
    for got, want, columns in ((events, trace.events, schema.EVENTS), (totals, trace.totals, schema.TOTALS)):
        at = columns.names.index("name") + 1
        assert got.schema.names == [*columns.names[:at], "short_name", *columns.names[at:], *names]
        key = str
        assert sorted(rows_of(got.drop_columns([*names, "short_name"])), key=key) == sorted(rows_of(want), key=key)


def test_files_folders_archives_and_their_mixture(tmp_path: Path) -> None:
    done = archive.add(tmp_path / "a", CSV, run="r", date="2026-01-31")
    archive.add(tmp_path / "a", [SUMMED, LOG], run="s", date="2026-02-01")
    assert one(CSV, "SELECT count(*) FROM events") == 137
    assert one([CSV, LOG], "SELECT count(DISTINCT source) FROM events") == 2
    assert one(tmp_path / "a", "SELECT count(*) FROM events") == 175
    assert one(tmp_path / "a", "SELECT count(*) FROM totals") == 52
    assert one(done.path, "SELECT count(*) FROM events") == 137
    assert one([tmp_path / "a", str(LOG)], "SELECT count(*) FROM events WHERE entry IS NULL") == 38
    whose = query(tmp_path / "a", "SELECT DISTINCT entry, date, run_name FROM events WHERE run_name = 'r'")
    assert whose.to_pylist() == [{"entry": done.id, "date": done.date, "run_name": "r"}]
    assert (
        one([SUMMED, tmp_path / "a"], "SELECT count(*) FILTER (run_name IS NULL) || '/' || count(*) FROM totals")
        == "52/104"
    )


def test_only_the_files_that_a_filter_leaves_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.QUERY_CHECKED_ROWS, 0)
    one_, other = (archive.add(tmp_path, p, run=r, date="2026-01-01") for p, r in ((CSV, "r"), (LOG, "s")))
    path = Path(other.path)
    data = bytearray(path.read_bytes())
    data[4:400] = bytes(396)
    path.write_bytes(data)
    assert one(tmp_path, "SELECT count(name) FROM events WHERE run_name = 'r'") == 137
    assert (
        one(tmp_path, f"SELECT count(name) FROM events WHERE entry = '{one_.id}' AND date = DATE '2026-01-01'") == 137
    )
    with pytest.raises(TracekitError, match="damaged"):
        query(tmp_path, "SELECT count(name), count(ts_ns), sum(dur_ns) FROM events")


def test_filters_on_every_kind_of_column_agree_with_arithmetic() -> None:
    frame = tracekit.read(CSV).to_pandas()
    for sql, mask in (
        ("kind = 'kernel'", frame["kind"] == "kernel"),
        ("kind IN ('memcpy', 'memset')", frame["kind"].isin(["memcpy", "memset"])),
        ("name LIKE '%gemm%'", frame["name"].str.contains("gemm")),
        ("dur_ns > 1000 AND stream IS NOT NULL", (frame["dur_ns"] > 1000) & frame["stream"].notna()),
        ("copy_kind = 'HtoD' OR bytes > 100", (frame["copy_kind"] == "HtoD") | (frame["bytes"] > 100).fillna(False)),
        ("raw_name IS NULL", frame["raw_name"].isna()),
    ):
        assert one(CSV, f"SELECT count(*) FROM events WHERE {sql}") == mask.sum(), sql


def test_an_older_schema_and_a_file_written_anew_go_through_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive.add(tmp_path, CSV, run="r").path
    pq.write_table(pq.ParquetFile(path).read().slice(0, 10).drop_columns(["args"]), path)
    assert one(tmp_path, "SELECT count(*) FROM events WHERE run_name = 'r' AND args IS NULL") == 10


def answer(inputs: object, sql: str) -> tuple[list[dict[str, object]], list[str]]:
    """The rows of an answer, and the inputs that failed."""
    with ask(inputs, sql, InputOptions(partial=True)) as found:
        return found.reader.read_all().to_pylist(), [failure.name for failure in found.failures]


def test_bad_inputs_among_good_ones_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("nothing")
    assert answer([CSV, bad], "SELECT count(*) AS n FROM events") == ([{"n": 137}], [str(bad)])
    with pytest.raises(TracekitError):
        query([CSV, bad], "SELECT 1")
    with pytest.raises(InputError):
        query(tmp_path / "missing.csv", "SELECT 1")
    archive.add(tmp_path / "a", CSV, run="r")
    damaged = Path(archive.add(tmp_path / "a", LOG, run="s").path)
    damaged.write_bytes(b"PAR1")
    assert answer(tmp_path / "a", "SELECT count(*) AS n FROM events") == ([{"n": 137}], [str(damaged)])


def big(path: Path, rows: int) -> Path:
    ids = np.arange(rows)
    batch = event_batch(
        rows, {"ts_ns": ids, "dur_ns": np.full(rows, (1 << 60) + 1), "event_id": ids, "kind": "kernel", "source": 0}
    )
    tracekit.write(Trace(pa.Table.from_batches([batch])), path)
    return path


def test_sums_beyond_64_bits_are_exact(tmp_path: Path) -> None:
    path = big(tmp_path / "x.parquet", 100)
    want = 100 * ((1 << 60) + 1)
    assert int(one(path, "SELECT sum(dur_ns) FROM events")) == want  # type: ignore[call-overload]
    table = query(path, "SELECT sum(dur_ns) AS total_ns FROM events")
    assert table.schema.field("total_ns").type == pa.decimal128(38, 0)
    assert f"{want // 10**9:,}" in render(table, "text", RenderOptions(time_unit="s"))
    for form in ("csv", "json", "parquet"):
        out = io.BytesIO()
        write(table.to_reader(), form, out)
        text = pq.read_table(io.BytesIO(out.getvalue())) if form == "parquet" else out.getvalue().decode()
        assert (text.column(0).to_pylist() == [Decimal(want)]) if form == "parquet" else (str(want) in text)


def test_sums_are_plain_integers_where_they_fit() -> None:
    table = query(CSV, "SELECT sum(dur_ns) AS total_ns, kind FROM events GROUP BY kind")
    assert table.schema.field("total_ns").type == pa.int64()
    assert table.schema.field("kind").type == pa.string()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((2**63 - 2, 1), "int64"),
        ((2**63 - 1, 1), "decimal128(38, 0)"),
        ((-(2**63) + 1, -1), "int64"),
        ((-(2**63), -1), "decimal128(38, 0)"),
    ],
)
def test_a_sum_is_an_integer_up_to_64_bits_and_exact_beyond(values: tuple[int, int], kind: str) -> None:
    found = query(CSV, f"SELECT sum(v) AS s FROM (SELECT unnest([{values[0]}, {values[1]}]::BIGINT[]) AS v)")
    assert (str(found.schema.field("s").type), int(found.column("s")[0].as_py())) == (kind, sum(values))


def test_a_long_answer_streams_with_one_type(tmp_path: Path) -> None:
    """The type of a sum is settled by the first batch; a later value that does not fit is an error, not a change."""
    path = big(tmp_path / "x.parquet", 300_000)
    fits = "SELECT ts_ns, sum(ts_ns) AS s FROM events GROUP BY ts_ns"
    with ask(path, fits) as answer:
        assert answer.reader.schema.field("s").type == pa.int64()
        assert sum(batch.num_rows for batch in answer.reader) == 300_000
    grows = "SELECT sum(dur_ns) OVER (ORDER BY ts_ns) AS s FROM events ORDER BY ts_ns DESC"
    assert int(query(path, grows).column("s")[0].as_py()) == 300_000 * ((1 << 60) + 1)
    late = "SELECT CASE WHEN range < 2400000 THEN 1::HUGEINT ELSE 1::HUGEINT << 70 END AS s FROM range(2500000)"
    with pytest.raises(TracekitError, match="64 bits"):
        query(path, late)


ODD = """SELECT 1::BIGINT AS n, 1500::BIGINT AS t_ns, 2048::BIGINT AS size_bytes, 0.5::DOUBLE AS part_ratio,
    NULL AS nothing, 'a,"b"' AS text, '' AS empty, 1.25::DECIMAL(9,2) AS d, true AS yes, [1, 2] AS list,
    {'a': 1} AS struct, DATE '2026-01-31' AS day, TIMESTAMP '2026-01-31 01:02:03' AS at, 'nan'::DOUBLE AS nan,
    'x'::BLOB AS blob, INTERVAL 1 DAY AS span, 'é\x1b' AS odd"""


def test_csv_is_rfc_4180_and_exact() -> None:
    out = io.BytesIO()
    with ask(CSV, ODD) as answer:
        assert write(answer.reader, "csv", out) == 1
    header, row = csv.reader(io.StringIO(out.getvalue().decode(), newline=""))
    got = dict(zip(header, row, strict=True))
    assert got["t_ns"] == "1500"
    assert (got["text"], got["nothing"], got["nan"], got["d"], got["yes"]) == ('a,"b"', "", "NaN", "1.25", "true")
    assert (got["list"], got["day"], got["at"]) == ("[1, 2]", "2026-01-31", "2026-01-31T01:02:03")
    assert out.getvalue().count(b"\r\n") == 2
    assert b',"",' in out.getvalue()


def test_json_has_columns_units_rows_and_the_ledger() -> None:
    out = io.BytesIO()
    with ask(CSV, ODD) as answer:
        write(answer.reader, "json", out, answer.ledgers)
    got = json.loads(out.getvalue())
    assert got["tracekit"] == tracekit.__version__
    units = {c["name"]: c["unit"] for c in got["columns"]}
    assert (units["t_ns"], units["size_bytes"], units["part_ratio"], units["text"]) == ("ns", "bytes", "ratio", "text")
    row = dict(zip(units, got["rows"][0], strict=True))
    assert (row["t_ns"], row["list"], row["struct"], row["nan"], row["yes"]) == (1500, [1, 2], {"a": 1}, "NaN", True)
    assert got["ledger"][0]["path"] == stored_name(str(CSV))


FAR = """SELECT TIMESTAMP 'infinity' AS t, DATE '-infinity' AS d, DATE '294246-01-01' AS far,
    DATE '0044-03-15 (BC)' AS bc, TIMESTAMP_NS '2024-01-01 00:00:00.123456789' AS ns,
    INTERVAL '2 months 3 days 5 hours 0.5 seconds' AS span, INTERVAL 0 DAY AS none,
    [TIMESTAMP 'infinity', NULL] AS list, {'a': DATE '9999-12-31'} AS struct,
    'inf'::DOUBLE AS inf, -1e308 * 10 AS less, ['nan'::DOUBLE] AS nans, TIMESTAMPTZ '2024-01-01 00:00:00+02' AS zone,
    NULL::TIMESTAMP AS unknown, TIME '12:00:00' AS noon"""
FAR_CELLS = {
    "t": "infinity",
    "d": "-infinity",
    "far": "294246-01-01",
    "bc": "-0043-03-15",
    "ns": "2024-01-01T00:00:00.123456789",
    "span": "P2M3DT18000.5S",
    "none": "PT0S",
    "list": ["infinity", None],
    "struct": {"a": "9999-12-31"},
    "inf": "Infinity",
    "less": "-Infinity",
    "nans": ["NaN"],
    "zone": "2023-12-31T22:00:00+00:00",
    "unknown": None,
    "noon": "12:00:00",
}


def test_times_beyond_python_and_numbers_beyond_json_are_shown() -> None:
    """Python's dates end with the year 9999 and at microseconds, and JSON has no infinity: each failed or vanished."""
    out = io.BytesIO()
    with ask(CSV, FAR) as answer:
        write(answer.reader, "json", out)
    got = json.loads(out.getvalue())
    assert dict(zip((c["name"] for c in got["columns"]), got["rows"][0], strict=True)) == FAR_CELLS
    out = io.BytesIO()
    with ask(CSV, FAR) as answer:
        write(answer.reader, "csv", out)
    header, row = csv.reader(io.StringIO(out.getvalue().decode(), newline=""))
    texts = ["" if v is None else v if isinstance(v, str) else json.dumps(v) for v in FAR_CELLS.values()]
    assert dict(zip(header, row, strict=True)) == dict(zip(FAR_CELLS, texts, strict=True))
    shown = render(query(CSV, FAR), "markdown", RenderOptions())
    assert all(text in shown for text in ("294246-01-01", "-Infinity", "P2M3DT18000.5S"))


NO_EQUAL = {
    "'12:34:56+02:30'::TIMETZ": "12:34:56+02:30",
    "['12:34:56+02:30'::TIMETZ, NULL]": ["12:34:56+02:30", None],
    "'340282366920938463463374607431768211455'::UHUGEINT": "340282366920938463463374607431768211455",
    "'10110'::BIT": "10110",
    "array_value('1'::BIT, '0'::BIT)": ["1", "0"],
    """{'a "b"': '1'::BIT, 'x': 1, 'n': NULL, 'e': 'y'::ENUM('y', 'it''s')}""": {
        'a "b"': "1",
        "x": 1,
        "n": None,
        "e": "y",
    },
    "union_value(b := '1'::BIT)": "1",
    "TIME '24:00:00'": "24:00:00",
    "[TIME '12:00:00.5', NULL]": ["12:00:00.500000", None],
    "array_value(DATE '300000-01-01', DATE 'infinity')": ["300000-01-01", "infinity"],
    "NULL::DATE[2]": None,
    "union_value(d := DATE '300000-01-01')": "300000-01-01",
    "MAP {'k': 1, 'j': NULL}": {"k": 1, "j": None},
    "MAP {DATE '300000-01-01': ['nan'::DOUBLE]}": {"300000-01-01": ["NaN"]},
    "MAP {'a': MAP {1: INTERVAL '1 day'}}": {"a": {"1": "P1D"}},
    "MAP {'1'::BIT: 1::UHUGEINT}": {"1": "1"},
    "MAP {}": {},
    "NULL::MAP(INTEGER, INTEGER)": None,
}
"""Values of types that Arrow or Python lacks, and their cells."""


@pytest.mark.parametrize("sql", NO_EQUAL)
def test_every_type_of_duckdb_is_shown_as_it_is(sql: str) -> None:
    """Some failed; a TIMETZ had lost its zone, and the upper half of UHUGEINT was negative."""
    out = io.BytesIO()
    with ask(CSV, f"SELECT {sql} AS v, 1 AS v FROM range(2)") as answer:
        write(answer.reader, "json", out)
    assert json.loads(out.getvalue())["rows"] == [[NO_EQUAL[sql], 1]] * 2
    render(query(CSV, f"SELECT {sql} AS v"), "text", RenderOptions())


def test_columns_that_become_text_keep_the_order_of_the_rows() -> None:
    table = query(CSV, "SELECT i::UHUGEINT AS i, i::BIT AS b FROM range(200000) t(i) ORDER BY hash(i), i LIMIT 150000")
    plain = query(CSV, "SELECT i FROM range(200000) t(i) ORDER BY hash(i), i LIMIT 150000")
    assert table.column("i").cast(pa.int64()) == plain.column("i")


def test_what_arrow_or_parquet_cannot_hold_is_one_sentence() -> None:
    with pytest.raises(TracekitError, match="the query: "), ask(CSV, f"SELECT {'[' * 99}1{']' * 99}"):
        pass
    for sql in ("SELECT 'infinity'::TIMESTAMP_S AS t", "SELECT MAP {} AS t"):
        with ask(CSV, sql) as answer, pytest.raises(TracekitError, match="Parquet") as caught:
            write(answer.reader, "parquet", io.BytesIO())
        assert "CAST" in caught.value.hint


def test_an_answer_without_rows_has_its_columns_in_every_form() -> None:
    sql = "SELECT name, dur_ns FROM events WHERE false"
    for form in ("csv", "json", "parquet"):
        out = io.BytesIO()
        with ask(CSV, sql) as answer:
            assert write(answer.reader, form, out) == 0
        assert b"dur_ns" in out.getvalue()
    assert "0 rows" in render(query(CSV, sql), "text", RenderOptions())


def test_text_is_exact_and_as_wide_as_the_terminal() -> None:
    table = query(CSV, "SELECT name, kind, dur_ns, ts_ns, grid_x, block_x FROM events WHERE kind = 'kernel'")
    text = render(table, "text", RenderOptions(width=60))
    assert max(map(len, text.splitlines())) <= 60
    whole = render(table, "text", RenderOptions(time_unit="ns"))
    for value in table.column("dur_ns").to_pylist():
        assert f"{value:,}" in whole
    with pytest.raises(UsageError):
        render(table, "text", RenderOptions(time_unit="days"))
    odd = render(query(CSV, ODD), "text", RenderOptions())
    assert "\x1b" not in odd


@given(st.lists(st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1)), max_size=5))
def test_integers_of_a_column_come_through_every_form(values: list[int | None]) -> None:
    table = pa.table({"x_ns": pa.array(values, pa.int64())})
    out = io.BytesIO()
    write(table.to_reader(), "json", out)
    assert [row[0] for row in json.loads(out.getvalue())["rows"]] == values
    text = render(table, "text", RenderOptions(time_unit="ns"))
    assert all(f"{value:,}" in text for value in values if value is not None)


def test_two_columns_of_one_name_keep_their_types() -> None:
    sql = "SELECT 'x' AS a, sum(dur_ns) AS a, 1.5 AS a FROM events"
    table = query(CSV, sql)
    assert [str(column[0]) for column in table.columns] == ["x", str(one(CSV, "SELECT sum(dur_ns) FROM events")), "1.5"]
    with ask(CSV, sql) as answer, pytest.raises(UsageError, match="two columns of the answer have the name a"):
        write(answer.reader, "parquet", io.BytesIO())


def test_a_type_that_parquet_lacks_is_one_sentence() -> None:
    with ask(CSV, ODD) as answer, pytest.raises(UsageError, match="Parquet has no type"):
        write(answer.reader, "parquet", io.BytesIO())


def test_totals_are_there_however_they_are_named() -> None:
    rows = one(SUMMED, "SELECT count(*) FROM totals")
    assert rows
    for view in ('"ToTaLs"', "query_table('tot' || 'als')", "query('SELECT * FROM tot' || 'als')"):
        assert one(SUMMED, f"SELECT count(*) FROM {view}") == rows


def test_a_run_with_two_files_in_an_archive_counts_once_and_is_named(tmp_path: Path) -> None:
    done = archive.add(tmp_path / "a", CSV)
    copy = tmp_path / "a" / "events" / "date=2020-01-01" / "run=x" / Path(done.path).name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(done.path).read_bytes())
    found = answer(tmp_path / "a", "SELECT count(*) AS n FROM events")
    assert found == ([{"n": done.events}], [str(copy)])


def test_a_damaged_page_of_totals_is_an_error_and_never_another_figure(tmp_path: Path) -> None:
    root, sql = tmp_path / "a", "SELECT sum(total_ns) FROM totals"
    path = Path(archive.add(root, sample("nvprof-csv/summary-new.csv"), run="r").path)
    want, data = one(root, sql), path.read_bytes()
    group = pq.read_metadata(path).row_group(0)
    chunk = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "total_ns")
    outcomes = set()
    for at in range(chunk.data_page_offset - 24, chunk.data_page_offset):  # the end of the page of distinct values
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            outcomes.add(one(root, sql))
        except TracekitError:
            outcomes.add("refused")
    assert outcomes <= {want, "refused"}
    assert "refused" in outcomes


def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match="not valid UTF-8"):
        query(CSV, "SELECT '\udce6'")

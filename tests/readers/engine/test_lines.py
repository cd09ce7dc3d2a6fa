"""Lines of texts with declared tables: each is counted once, as what it is."""

from __future__ import annotations

import json
from pathlib import Path

import toy_tables as toys

TRACE = "Begin (ns),Took (ns),Size (KB),Device,Name\n"
SUMS = "Name,Sum (us),Calls,Mean (us),Share (%)\n"


def read(tmp_path: Path, text: str) -> toys.Result:
    return toys.Result(tmp_path / "toy.log", text.encode())


def test_rows_of_a_trace_become_events_with_all_that_they_say(tmp_path: Path) -> None:
    result = read(tmp_path, TRACE + "5,7,1.5,gpu 1,k\n6,8,,cpu,copy x\n")
    assert result.events == [
        {"ts_ns": 5, "dur_ns": 7, "bytes": 1500, "device": 1, "context": 1, "name": "k", "kind": "kernel",
         "event_id": 2, "source": 0},
        {"ts_ns": 6, "dur_ns": 8, "name": "x", "raw_name": "copy x", "kind": "memcpy", "event_id": 3, "source": 0,
         "args": '{"Device":"cpu","copied":true}'},
    ]  # fmt: skip
    assert result.run.devices == {(0, 1): "gpu 1"}
    assert result.codes == ["rounded"]


def test_rows_of_sums_become_totals(tmp_path: Path) -> None:
    result = read(tmp_path, f"report first\n{SUMS}k,10,4,2.5,90.5\nodd,1,1,1,9.5\n")
    sums = [(row["section"], row["name"], row["total_ns"], row["calls"], row["avg_ns"]) for row in result.totals]
    assert sums == [("first", "k", 10_000, 4, 2500.0), ("odd names", "odd", 1000, 1, 1000.0)]
    assert json.loads(result.totals[0]["args"]) == {"Share (%)": "90.5"}
    assert result.codes == ["odd-name"]


def test_a_cell_that_cannot_be_read_costs_the_cell_and_a_vital_one_the_row(tmp_path: Path) -> None:
    result = read(tmp_path, f"{SUMS}a,10,4,x…,90\nb,1x,4,2,5\nc,1,many,1,5\n")
    assert [(row["name"], row.get("calls"), row.get("avg_ns")) for row in result.totals] == [
        ("a", 4, None), ("c", None, 1000.0)
    ]  # fmt: skip
    assert result.ledger.dropped == {"bad-row": 1}
    assert result.ledger.notes["odd-cell"].places == ["line 2", "line 4"]


def test_the_sums_of_a_table_show_its_decimal_separator(tmp_path: Path) -> None:
    text = 'Name;Sum (ms);Calls;Mean (ms)\nk;"1,500";3;"0,500"\n'
    assert read(tmp_path, text).totals[0]["total_ns"] == 1_500_000
    assert read(tmp_path, text.replace('"0,500"', "500")).totals[0]["total_ns"] == 1_500_000_000


def test_numbers_that_may_mean_either_are_dropped_unless_another_table_shows_the_locale(tmp_path: Path) -> None:
    text = 'Name;Sum (ms);Calls;Mean (ms)\nk;"1,500";;\n'
    result = read(tmp_path, text)
    assert (result.totals, result.ledger.dropped) == ([], {"ambiguous-number": 1})
    assert "1,500 is 1.500 or 1500" in result.ledger.notes["ambiguous-number"].text
    both = read(tmp_path, f"{text}\nName;Sum (us);Calls\nj;0,5;2\n")
    assert [(row["name"], row["total_ns"]) for row in both.totals] == [("k", 1_500_000), ("j", 500)]


def test_lines_between_rows_are_counted_by_what_they_are(tmp_path: Path) -> None:
    text = (
        f"toy: hello\nreport first\n{TRACE}5,7,,,a\ntoy: a message\n6,7,,,b\n\nnot a table\n7,7,,,lost\n"
        "report second nothing\nreport third\nFaults (n),Other,Name\n1,2,3\n"
    )
    result = read(tmp_path, text)
    assert [row["name"] for row in result.events] == ["a", "b"]
    assert result.ledger.ignored == {
        "message": 6, "header": 1, "blank": 1, "row without a header": 1, "table third": 2,
    }  # fmt: skip
    assert result.codes == ["no-header", "unread-third"]


def test_reports_without_rows_are_noted_where_nothing_else_is_there(tmp_path: Path) -> None:
    result = read(tmp_path, "report first nothing\n")
    assert result.ledger.notes["skipped"].text == "toy skipped reports: the profile has no data for them"


def test_a_title_gives_the_unit_of_the_columns_below_it(tmp_path: Path) -> None:
    result = read(tmp_path, "times in ms\nName,Sum,Calls\nk,2,1\n")
    assert (result.totals[0]["total_ns"], result.totals[0]["section"]) == (2_000_000, "titled")


def test_a_table_under_dashes_and_a_table_with_bars_have_the_same_rows(tmp_path: Path) -> None:
    dashes = "Sum (us)  Calls  Name\n--------  -----  ----\n    10.5      2  a b\n"
    bars = "| Sum (us) | Calls | Name |\n|---|---|---|\n| 10.5 | 2 | a b |\n"
    for text in (dashes, bars):
        (row,) = read(tmp_path, text).totals
        assert (row["total_ns"], row["calls"], row["name"]) == (10_500, 2, "a b")


def test_a_quoted_name_with_line_ends_is_one_row(tmp_path: Path) -> None:
    result = read(tmp_path, f'{TRACE}5,7,,,"a\nb"\n6,7,,,c\n')
    assert [(row["name"], row["event_id"]) for row in result.events] == [("a\nb", 2), ("c", 4)]
    assert result.ledger.merged == 1


def test_a_quote_that_is_not_closed_costs_its_own_row(tmp_path: Path) -> None:
    result = read(tmp_path, f'{TRACE}5,7,,,"a\n6,7,,,b\n7,7,,,"c\n')
    assert [row["name"] for row in result.events] == ["b"]
    assert result.ledger.dropped == {"bad-row": 2}


def test_a_last_line_that_is_cut_costs_one_row_or_a_note(tmp_path: Path) -> None:
    cut = read(tmp_path, f"{TRACE}5,7,,,a\n6,7")
    assert (len(cut.events), cut.ledger.dropped) == (1, {"torn-row": 1})
    whole = read(tmp_path, f"{TRACE}5,7,,,a\n6,7,,,b")
    assert (len(whole.events), whole.codes) == (2, ["no-line-end"])
    quoted = read(tmp_path, f'{TRACE}5,7,,,a\n6,7,,,"b"')
    assert (len(quoted.events), quoted.codes) == (2, [])


def test_lines_of_several_ranks_keep_their_tables_apart(tmp_path: Path) -> None:
    lines = [f"[1,{rank}]<stdout>:{line}\n" for line in f"{TRACE}5,7,,,a\n".splitlines() for rank in (0, 1)]
    result = read(tmp_path, "".join(lines))
    assert [(row["rank"], row["name"]) for row in result.events] == [(0, "a"), (1, "a")]


def test_two_reports_of_the_same_kernels_are_noted(tmp_path: Path) -> None:
    other = TRACE.replace(",Size (KB)", "")
    result = read(tmp_path, f"{TRACE}5,7,,gpu 0,a\n\n{other}5,7,gpu 0,a\n")
    assert result.codes == ["told-twice"]


def test_a_table_under_dashes_that_nobody_reads_is_noted(tmp_path: Path) -> None:
    result = read(tmp_path, "report faults\nPages  Count\n-----  -----\n  1.5      2\n")
    assert result.codes == ["unread-faults"]
    assert result.ledger.notes["unread-faults"].text == "the report faults is not read: nobody knows it"


def test_a_line_with_very_many_commas_is_no_header_of_an_unread_table(tmp_path: Path) -> None:
    result = read(tmp_path, "Faults (n)," + "," * 50 + "\n")
    assert result.ledger.ignored == {"message": 1}
    assert read(tmp_path, "Faults (n),a,b\n").codes == ["unread-faults"]

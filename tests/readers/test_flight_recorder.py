"""Dumps of the Flight Recorder: what is read, who waits for whom, and what hostile or odd files cost."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from support import SAMPLES, run_command, sample, sure_readers

import tracekit
from tracekit.analysis.hangs import Cause, HangReport
from tracekit.errors import ParseError
from tracekit.index.flight_records import flight_records, hang
from tracekit.index.trace_index import index_of
from tracekit.readers.torch.flight_recorder import rank_of
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

FOLDER = SAMPLES / "flight-recorder"


def entry(number: int, **more: Any) -> dict[str, Any]:
    return {
        "frames": [{"name": "train", "filename": "/home/user/train.py", "line": 7}],
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_780_000_000_000_000_000 + number,
        "input_sizes": [[3, 4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[3, 4]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": 1_780_000_000_000_000_100 + number,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
    } | more


def waiting(number: int, **more: Any) -> dict[str, Any]:
    """A call that timed out."""
    return entry(number, state="scheduled", time_discovered_completed_ns=None, **more)


def dump(entries: list[dict[str, Any]], world: int, **more: Any) -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries} | more


def report_of(path: Path) -> HangReport:
    trace = tracekit.read(path)
    report = hang(index_of(trace))
    assert report is not None
    return report


def found(folder: Path, dumps: dict[int, dict[str, Any]]) -> HangReport:
    folder.mkdir(exist_ok=True)
    for rank, each in dumps.items():
        (folder / f"trace_{rank}").write_bytes(pickle.dumps(each, protocol=2))
    return report_of(folder)


# What is read


def test_pickle_and_json_of_one_dump_are_the_same_rows(tmp_path: Path) -> None:
    one = dump([entry(0), waiting(1)], 4)
    (tmp_path / "rank_3.pkl").write_bytes(pickle.dumps(one, protocol=2))
    plain = copy.deepcopy(one)
    for each in plain["entries"]:
        # JSON has 0 for a time that is not known.
        each["time_discovered_started_ns"] = 0
        each["time_discovered_completed_ns"] = each["time_discovered_completed_ns"] or 0
    (tmp_path / "rank_3.json").write_text(json.dumps(plain), encoding="utf-8")
    rows = [tracekit.read(tmp_path / name).totals.to_pylist() for name in ("rank_3.pkl", "rank_3.json")]
    assert rows[0] == rows[1]
    calls = [orjson.loads(row["args"]) for row in rows[0] if row["section"] == "flight recorder calls"]
    assert [call["seq"] for call in calls] == [1, 2]
    assert calls[0]["line"] == "user/train.py:7 train"
    assert {row["rank"] for row in rows[0]} == {3}


def test_each_protocol_of_pickle_is_read(tmp_path: Path) -> None:
    for protocol in (2, 3, 4, 5):
        path = tmp_path / "rank_0"
        path.write_bytes(pickle.dumps(dump([entry(n) for n in range(300)], 1), protocol=protocol))
        assert sure_readers(path) == ["flight-recorder"]
        assert tracekit.read(path).ledgers[0].kept == 301


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("/tmp/run/trace_3", 3),
        ("nccl_trace_rank_container-node02_5", 5),
        ("rank7.json", 7),
        ("rank_3_1712345678", 3),
        ("fr-4.pkl.gz", 4),
        ("dump", None),
        ("1712345678", None),
    ],
)
def test_the_rank_is_in_the_name_of_the_file(name: str, rank: int | None) -> None:
    assert rank_of({}, name) == rank
    assert rank_of({"rank": 9}, name) == 9


def test_a_rank_that_is_not_in_the_name_may_be_that_of_the_groups() -> None:
    groups = {"0": {"ranks": "[0, 1, 2, 3]"}, "1": {"ranks": "[2, 3]"}, "4": {"ranks": [1, 3]}, "": {"ranks": "[]"}}
    assert rank_of({"pg_config": groups}, "dump") == 3
    assert rank_of({"pg_config": groups}, "dump_7") == 3
    assert rank_of({"pg_config": {"0": groups["0"]}}, "dump") is None
    assert rank_of({"pg_config": {"0": groups["0"]}}, "dump_2") == 2


FORMS = {
    "a pickle": lambda one: pickle.dumps(one, protocol=2),
    "protocol 5": lambda one: pickle.dumps(one, protocol=5),
    "entries alone": lambda one: pickle.dumps({key: one[key] for key in ("version", "entries")}, protocol=2),
    "a list of entries": lambda one: pickle.dumps(one["entries"], protocol=4),
    "JSON": lambda one: json.dumps(one).encode(),
    "JSON with lines": lambda one: json.dumps({key: one[key] for key in ("entries", "version")}, indent=1).encode(),
    "a list in JSON": lambda one: json.dumps(one["entries"]).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_dump_is_read(form: str, tmp_path: Path) -> None:
    path = tmp_path / "rank_1"
    path.write_bytes(FORMS[form](dump([entry(0), waiting(1)], 2)))
    assert sure_readers(path) == ["flight-recorder"]
    trace = tracekit.read(path)
    assert trace.ledgers[0].kept >= 2
    records = flight_records(index_of(trace))
    assert records is not None
    assert (records.calls, records.dumps[0].rank) == (2, 1)


def test_dumps_of_2_0_have_other_keys(tmp_path: Path) -> None:
    old = {
        "version": "1.5",
        "pg_config": {},
        "pg_status": {},
        "entries": [
            {"record_id": 0, "pg_id": 0, "seq_id": 1, "profiling_name": "nccl:all_reduce", "state": "completed"},
            {"record_id": 1, "pg_id": 0, "seq_id": 2, "profiling_name": "nccl:all_reduce", "state": "scheduled"},
        ],
    }
    (tmp_path / "rank_0").write_bytes(pickle.dumps(old, protocol=2))
    trace = tracekit.read(tmp_path / "rank_0")
    assert trace.ledgers[0].kept == 2
    report = hang(index_of(trace))
    assert report is not None
    assert report.cause is Cause.RUNNING


# Who waits for whom


def test_gloo_that_timed_out_names_the_rank_that_did_not_come(tmp_path: Path) -> None:
    for path in FOLDER.glob("gloo_timeout*"):
        shutil.copy(path, tmp_path)
    report = report_of(tmp_path)
    assert (report.cause, report.accused) == (Cause.NOT_ENTERED, (1,))
    assert report.group is not None
    assert (report.group.seq, report.group.completed, report.group.waiting) == (3, 2, (0, 2))
    out = run_command("summary", tmp_path).stdout.splitlines()
    assert out[0] == "Rank 1 has not entered all_reduce 3 of default_pg; ranks 0 and 2 wait in it."


def test_gloo_with_another_call_names_both_calls() -> None:
    out = run_command("summary", *sorted(FOLDER.glob("gloo_other*"))).stdout.splitlines()
    assert out[0] == "Rank 1 entered broadcast 3 of default_pg, ranks 0 and 2 all_reduce."


def test_a_batch_of_messages_of_two_sizes() -> None:
    out = run_command("summary", *sorted(FOLDER.glob("nccl_batch*"))).stdout.splitlines()
    said = "Either rank 0 or rank 1 has the wrong size, not known which: 2,048 elements sent, 4,096 received."
    assert " ".join(out[:2]) == said


def test_one_rank_that_waits_for_one_is_a_fact_and_no_accusation(tmp_path: Path) -> None:
    report = found(tmp_path, {0: dump([entry(0), waiting(1)], 2), 1: dump([entry(0)], 2)})
    assert (report.cause, report.accused) == (Cause.NOT_ENTERED, ())
    assert report.group is not None
    assert report.group.behind == (1,)


def test_without_a_timeout_nobody_hangs(tmp_path: Path) -> None:
    still = waiting(1, retired=False)
    dumps = {rank: dump([entry(0), still], 4) for rank in range(3)} | {3: dump([entry(0)], 4)}
    report = found(tmp_path, dumps)
    assert (report.cause, report.accused, report.hangs) == (Cause.BEHIND, (), False)
    shown = run_command("summary", tmp_path).stdout
    assert "whether it is slow or hangs is not known" in " ".join(shown.split())
    assert "1 hang" not in shown


def test_a_rank_whose_ring_forgot_the_group_is_not_accused(tmp_path: Path) -> None:
    lost = dump([entry(n + 500, process_group=("1", "tp"), collective_seq_id=n + 400) for n in range(5)], 4)
    report = found(tmp_path, {rank: dump([entry(0), waiting(1)], 4) for rank in range(3)} | {3: lost})
    assert (report.cause, report.accused) == (Cause.UNKNOWN, ())


def test_a_member_without_a_dump_is_named_but_not_accused(tmp_path: Path) -> None:
    report = found(tmp_path, {rank: dump([entry(0), waiting(1)], 4) for rank in range(3)})
    assert (report.cause, report.accused) == (Cause.NO_DUMP, ())
    assert report.group is not None
    assert report.group.absent == (3,)


def test_a_dump_that_is_older_than_what_others_completed_is_not_accused(tmp_path: Path) -> None:
    dumps = {rank: dump([entry(0), entry(1), entry(2)], 4) for rank in range(3)} | {3: dump([entry(0)], 4)}
    assert found(tmp_path, dumps).cause in (Cause.IDLE, Cause.RUNNING)


def test_uneven_exchanges_and_reshaped_tensors_fit(tmp_path: Path) -> None:
    def calls(rank: int) -> list[dict[str, Any]]:
        shape = [[12]] if rank else [[3, 4]]
        return [
            entry(0, profiling_name="nccl:all_to_all_single", input_sizes=[[7 + rank]], output_sizes=[[9 - rank]]),
            entry(1, input_sizes=shape, output_sizes=shape),
            waiting(2),
        ]

    report = found(tmp_path, {rank: dump(calls(rank), 2) for rank in range(2)})
    assert report.cause is Cause.INSIDE


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"input_sizes": [[3, 5]]}, "sizes"),
        ({"input_dtypes": ["BFloat16"]}, "datatype"),
        ({"profiling_name": "nccl:reduce"}, "operation"),
    ],
)
def test_calls_that_do_not_fit(change: dict[str, Any], difference: str, tmp_path: Path) -> None:
    dumps = {rank: dump([entry(0), waiting(1, **(change if rank == 2 else {}))], 3) for rank in range(3)}
    report = found(tmp_path, dumps)
    assert (report.cause, report.accused) == (Cause.MISMATCH, (2,))
    assert report.group is not None
    assert report.group.difference == difference


def test_a_broadcast_of_other_datatypes_with_the_same_bytes_fits(tmp_path: Path) -> None:
    def call(rank: int) -> dict[str, Any]:
        types, sizes = (["Float"], [[4]]) if rank else (["Byte"], [[16]])
        both = {"input_dtypes": types, "output_dtypes": types, "input_sizes": sizes, "output_sizes": sizes}
        return waiting(1, profiling_name="nccl:broadcast", **both)

    report = found(tmp_path, {rank: dump([entry(0), call(rank)], 2) for rank in range(2)})
    assert report.cause is Cause.INSIDE


def test_ranks_of_a_sub_group_are_those_of_the_job(tmp_path: Path) -> None:
    members = [4, 6, 8]
    config = {"7": {"name": "7", "desc": "dp", "ranks": str(members)}}
    of_group = {"process_group": ("7", "dp")}
    dumps = {
        rank: dump([entry(0, **of_group), *([waiting(1, **of_group)] if rank != 8 else [])], 9, pg_config=config)
        for rank in members
    }
    report = found(tmp_path, dumps)
    assert (report.cause, report.accused) == (Cause.NOT_ENTERED, (8,))


def view_of(path: Path, *more: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the tables of the view, by table."""
    made = json.loads(run_command("summary", path, *more, "--view", "hang", "--format", "json").stdout)
    return {
        table["name"]: [
            dict(zip((column["name"] for column in table["columns"]), row, strict=True)) for row in table["rows"]
        ]
        for table in made["sections"][0]["tables"]
    }


# Several dumps of one rank


def later(entries: list[dict[str, Any]], seconds: int) -> list[dict[str, Any]]:
    """The same calls of another run."""
    return [each | {"time_created_ns": each["time_created_ns"] + seconds * 10**9} for each in entries]


def test_dumps_of_several_runs_are_named_and_none_is_compared(tmp_path: Path) -> None:
    for run, seconds in (("a", 0), ("b", 100)):
        for rank in range(2):
            calls = later([entry(0), waiting(1)][: 2 - rank], seconds)
            (tmp_path / f"{run}_rank_{rank}").write_bytes(pickle.dumps(dump(calls, 3), protocol=2))
    # This dump may be of either run.
    (tmp_path / "rank_2").write_bytes(pickle.dumps(dump([entry(0), waiting(1)], 3), protocol=2))
    trace = tracekit.read(tmp_path)
    records = flight_records(index_of(trace))
    assert records is not None
    assert (records.repeated, records.dumps, records.later) == ((0, 1), (), False)
    assert not report_of(tmp_path).hangs
    out = run_command("summary", tmp_path).stdout
    assert out.splitlines()[0] == "Several dumps of ranks 0 and 1: more than one run is here."
    assert "Name the dumps of one run: a_rank_*, b_rank_* or rank_*." in " ".join(out.split())
    assert "waits in" not in out
    shown = " ".join(run_command("summary", tmp_path, "--view", "hang").stdout.split())
    assert "not compared: a_rank_0, a_rank_1, b_rank_0, b_rank_1, rank_2" in shown
    assert view_of(tmp_path) == {}


def test_the_samples_of_three_runs_are_not_compared() -> None:
    out = run_command("summary", FOLDER).stdout
    assert out.splitlines()[0] == "Several dumps of ranks 0, 1 and 2: more than one run is here."
    assert "gloo_other_call_rank_*.json, gloo_timeout_rank_*.pkl or nccl_batch_rank_*.pkl" in " ".join(out.split())
    assert "1 hang" not in out


def test_two_dumps_of_one_run_are_not_called_two_runs(tmp_path: Path) -> None:
    for name, calls in (("first_rank_0", [entry(0)]), ("second_rank_0", [entry(0), waiting(1)])):
        (tmp_path / name).write_bytes(pickle.dumps(dump(calls, 2), protocol=2))
    out = run_command("summary", tmp_path).stdout.splitlines()
    assert out[0] == "Several dumps of rank 0: one run was dumped more than once."


def test_a_dump_as_pickle_and_as_json_counts_once(tmp_path: Path) -> None:
    for rank in range(3):
        one = dump([entry(0), *([waiting(1)] if rank != 2 else [])], 3)
        (tmp_path / f"rank_{rank}.pkl").write_bytes(pickle.dumps(one, protocol=2))
        (tmp_path / f"rank_{rank}.json").write_text(json.dumps(one), encoding="utf-8")
    report = report_of(tmp_path)
    assert (report.cause, report.accused) == (Cause.NOT_ENTERED, (2,))
    assert [row["calls"] for row in view_of(tmp_path)["ranks"]] == [2, 2, 1]
    shown = run_command("summary", tmp_path, "--view", "hang").stdout
    assert "another dump has the same calls" in " ".join(shown.split())


# Members without a dump


def gloo(number: int, **more: Any) -> dict[str, Any]:
    """A call of gloo that nobody waits for any more."""
    return waiting(number, profiling_name="gloo:all_reduce", **more)


def test_gloo_without_the_dump_of_a_rank_does_not_say_that_calls_ended() -> None:
    for ranks, said in (
        ((0, 2), "Rank 1 has no dump; whether all_reduce 3 ended is not known."),
        ((0,), "Ranks 1 and 2 have no dump; whether all_reduce 3 ended is not known."),
        # Rank 1 was the late one: its last call has ended, but its own dump cannot show it.
        ((1,), "Ranks 0 and 2 have no dump; whether all_reduce 2 ended is not known."),
    ):
        paths = [FOLDER / f"gloo_timeout_rank_{rank}.pkl" for rank in ranks]
        out = run_command("summary", *paths).stdout
        assert out.splitlines()[0] == said
        assert "1 hang" not in out, "it may have ended well"
        assert "has ended" not in out
        [row] = view_of(paths[0], *map(str, paths[1:]))["groups"]
        assert row["completed"] is None
        assert row["state"] == "no dump"


def test_gloo_whose_members_are_in_no_dump_does_not_say_that_calls_ended(tmp_path: Path) -> None:
    (tmp_path / "rank_0").write_bytes(pickle.dumps({"version": "2.10", "entries": [gloo(0)]}, protocol=2))
    out = " ".join(run_command("summary", tmp_path).stdout.split())
    assert out.startswith("The members of default_pg are not in the dumps; whether all_reduce 1 ended is not known.")


def test_a_call_of_gloo_that_may_have_ended_hides_no_group_that_timed_out(tmp_path: Path) -> None:
    config = {name: {"name": name, "desc": desc, "ranks": "[0, 1, 2]"} for name, desc in (("0", "cpu"), ("1", "dp"))}
    open_call = waiting(1, process_group=("1", "dp"), collective_seq_id=1)
    one = dump([gloo(0, process_group=("0", "cpu")), open_call], 3, pg_config=config)
    report = found(tmp_path, {0: one, 1: one})
    assert (report.cause, report.hangs) == (Cause.NO_DUMP, True)
    assert report.group is not None
    assert report.group.group.name == "1"


def test_gloo_that_ended_with_all_dumps_is_no_hang(tmp_path: Path) -> None:
    report = found(tmp_path, {rank: dump([gloo(0), gloo(1)], 2) for rank in range(2)})
    assert (report.cause, report.hangs) == (Cause.IDLE, False)
    out = run_command("summary", tmp_path).stdout
    assert out.startswith("No rank waits any more: ")
    assert "Whether the last calls ended well is not recorded." in " ".join(out.split())
    assert view_of(tmp_path)["groups"][0]["completed"] == 1, "all of them went on after the first call"


def test_a_broadcast_that_some_completed_does_not_show_that_a_member_without_a_dump_entered(tmp_path: Path) -> None:
    calls = [entry(1, profiling_name="nccl:broadcast")], [waiting(1, profiling_name="nccl:broadcast")]
    report = found(tmp_path, {rank: dump([entry(0), *calls[rank]], 3) for rank in range(2)})
    assert (report.cause, report.accused) == (Cause.NO_DUMP, ())


def test_all_ranks_of_a_group_are_not_said_to_have_entered_if_its_members_are_not_known(tmp_path: Path) -> None:
    found(tmp_path, {rank: dump([entry(0), waiting(1)], 3, pg_config={}) for rank in range(2)})
    out = " ".join(run_command("summary", tmp_path).stdout.split())
    assert out.startswith("2 ranks with a dump have entered all_reduce 2 of default_pg; it does not end.")
    assert "All 2 ranks" not in out


def test_a_member_without_a_dump_is_not_said_to_wait_for_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, {rank: dump([entry(0)], 3) for rank in range(2)}).cause is Cause.IDLE
    out = run_command("summary", tmp_path).stdout
    assert out.startswith("No rank with a dump waits: every call in these dumps has ended.")
    assert "Rank 2 has no dump: whether it waits is not known." in " ".join(out.split())
    assert view_of(tmp_path)["groups"][0]["completed"] is None


def test_completed_by_all_is_there_where_each_member_shows_it(tmp_path: Path) -> None:
    found(tmp_path, {rank: dump([entry(0), entry(1)], 2) for rank in range(2)})
    assert view_of(tmp_path)["groups"][0]["completed"] == 2


# Sends and receives


def test_a_group_whose_ranks_wait_in_messages_is_not_idle() -> None:
    first, *others = sorted(FOLDER.glob("nccl_batch*"))
    tables = view_of(first, *map(str, others))
    groups = {row["name"]: row for row in tables["groups"]}
    assert (groups["pp (7)"]["state"], groups["pp (7)"]["waiting"]) == ("mismatch", "0-1")
    assert groups["pp (7)"]["completed"] is None
    assert groups["pp (8)"]["state"] == "idle"
    assert [row["waits"] for row in tables["ranks"]][:2] == ["send to rank 1", "recv from rank 0"]


@pytest.mark.parametrize("timed_out", [True, False])
def test_groups_and_ranks_agree_on_a_receive_without_a_send(timed_out: bool, tmp_path: Path) -> None:
    receive = waiting(
        1, profiling_name="nccl:recv 0<-1", is_p2p=True, collective_seq_id=1, p2p_seq_id=1, retired=timed_out
    )
    found(tmp_path, {0: dump([entry(0), receive], 2), 1: dump([entry(0)], 2)})
    tables = view_of(tmp_path)
    [group] = tables["groups"]
    assert (group["state"], group["waiting"]) == ("not entered" if timed_out else "behind", "0")
    assert group["late"] == "1"
    assert tables["ranks"][0]["waits"] == "recv from rank 1"


def test_one_rank_against_one_is_told_as_not_known_in_the_first_sentence(tmp_path: Path) -> None:
    dumps = {rank: dump([entry(0), waiting(1, input_sizes=[[3 + rank]])], 2) for rank in range(2)}
    assert found(tmp_path, dumps).accused == ()
    out = " ".join(run_command("summary", tmp_path).stdout.split())
    assert "with 4 elements, rank 0 with 3: not known which is wrong." in out


def test_the_first_screen_of_dumps_has_no_words_on_time(tmp_path: Path) -> None:
    found(tmp_path, {rank: dump([entry(0), waiting(1)], 3) for rank in range(2)})
    out = run_command("summary", tmp_path).stdout
    assert "Time unknown" not in out
    assert "time of the run" not in out
    assert "totals" not in out
    shown = " ".join(run_command("summary", tmp_path, "--view", "hang").stdout.split())
    assert "scheduled is given to the device, retired is no longer watched" in shown
    page = tmp_path / "page.html"
    run_command("report", tmp_path / "trace_0", "-o", page)
    text = page.read_text(encoding="utf-8")
    assert "Time unknown" not in text
    assert '<p class="value" title="">' not in text


def test_the_view_has_each_column_that_it_declares(tmp_path: Path) -> None:
    """`tests/views/test_contract.py` looks at single files; most of this view needs several."""
    late = dump([entry(n + 500, process_group=("1", "tp"), collective_seq_id=n + 400) for n in range(5)], 6)
    runs = {
        "late": {rank: dump([entry(0), waiting(1)], 6) for rank in range(3)} | {3: dump([entry(0)], 6), 4: late},
        "other": {rank: dump([entry(0), waiting(1, input_sizes=[[rank // 2]])], 3) for rank in range(3)},
        "batch": {0: pickle.loads((FOLDER / "nccl_batch_rank_0.pkl").read_bytes())},
    }
    seen = set()
    for name, dumps in runs.items():
        found(tmp_path / name, dumps)
        trace = tracekit.read(tmp_path / name)
        section = VIEWS["hang"].compute(index_of(trace), ViewOptions())
        seen |= {column.name for table in section.tables for column in table.columns}
    assert seen == {spec.key for spec in VIEWS["hang"].shows}


def test_forty_dumps_are_compared_together(tmp_path: Path) -> None:
    for rank in range(40):
        calls = [entry(0), *([waiting(1)] if rank != 17 else [])]
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump(calls, 40), protocol=2))
    out = run_command("summary", tmp_path).stdout.splitlines()
    assert out[0] == "Rank 17 has not entered all_reduce 2 of default_pg; 39 ranks wait in it."


def test_traces_of_the_same_run_keep_their_clock_beside_dumps(tmp_path: Path) -> None:
    shutil.copy(sample("kineto/gpu.pt.trace.json"), tmp_path)
    alone = tracekit.read(tmp_path)
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump([entry(0), waiting(1)], 2), protocol=2))
    both = tracekit.read(tmp_path)
    assert both.run.origin_ns == alone.run.origin_ns
    assert both.events.column("ts_ns").equals(alone.events.column("ts_ns"))
    assert "share no clock" not in run_command("summary", tmp_path).output


# Hostile files and damage


class Runs:
    """An object whose pickle runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def tuples(depth: int) -> Any:
    made: Any = ("0", "x")
    for _ in range(depth):
        made = (made, made)
    return made


HOSTILE = {
    "a function is called": lambda path: pickle.dumps(dump([entry(0, frames=Runs(f"touch {path}"))], 1), 2),
    "a tuple of tuples": lambda path: pickle.dumps(dump([entry(0, process_group=tuples(40))], 1), 2),
    "a tuple that is its own key": lambda path: (
        b"\x80\x02}(X\x09\x00\x00\x00pg_configX\x09\x00\x00\x00pg_statusX\x01\x00\x00\x00aq\x00h\x00h\x00\x86q\x00h\x00h\x00\x86u."
    ),
    "no end": lambda path: pickle.dumps(dump([entry(0)], 1), 2)[:-1],
    "half": lambda path: pickle.dumps(dump([entry(0)], 1), 2)[:700],
    "half of a JSON": lambda path: json.dumps(dump([entry(0)], 1)).encode()[:400],
    "a deep JSON": lambda path: b'{"pg_config": {}, "pg_status": {}, "entries": ' + b"[" * 200_000,
    "entries are a number": lambda path: pickle.dumps({"pg_config": {}, "pg_status": {}, "entries": 3}, 2),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_or_damaged_dump_gets_one_sentence(name: str, tmp_path: Path) -> None:
    witness, path = tmp_path / "witness", tmp_path / "rank_0"
    path.write_bytes(HOSTILE[name](witness))
    with pytest.raises(ParseError) as caught:
        tracekit.read(path, format="flight-recorder")
    assert "\n" not in str(caught.value)
    assert not witness.exists()


ODD: dict[str, Any] = {
    "nothing": None, "truth": True, "fraction": 1.5, "text": "x", "list": [], "dict": {}, "pair": (1, 2),
    "huge": 1 << 70, "below zero": -1, "lists": [["x"]], "a list of nothing": [None],
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_a_value_of_another_type_costs_its_entry_at_most(odd: str, tmp_path: Path) -> None:
    """The pipeline raises an error where a ledger does not add up."""
    for key in entry(0):
        changed = entry(1) | {key: ODD[odd]}
        (tmp_path / "rank_0").write_bytes(pickle.dumps(dump([entry(0), changed, entry(2)], 1), protocol=2))
        trace = tracekit.read(tmp_path / "rank_0")
        assert sum(trace.ledgers[0].dropped.values()) <= 1
        assert hang(index_of(trace)) is not None
    for key in ("version", "pg_config", "pg_status", "comm_lib_version", "nccl_comm_state", "rank"):
        (tmp_path / "rank_0").write_bytes(pickle.dumps(dump([entry(0)], 1) | {key: ODD[odd]}, protocol=2))
        trace = tracekit.read(tmp_path / "rank_0", format="flight-recorder")
        assert hang(index_of(trace)) is not None


def test_groups_of_ranks_do_not_take_the_view_apart() -> None:
    """A dump alone shows no hang: `--by` leaves the view whole, which names ranks itself."""
    paths = sorted(FOLDER.glob("gloo_timeout*"))
    whole = run_command("summary", *paths, "--view", "hang", "--format", "json").stdout
    for more in (("--by", "rank"), ("--by", "rank", "--each")):
        made = json.loads(run_command("summary", *paths, "--view", "hang", "--format", "json", *more).stdout)
        assert made["sections"] == json.loads(whole)["sections"]

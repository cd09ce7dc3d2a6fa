"""The recorder's log: every item accounted for, ranges paired across lines and blocks, damage told."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small
from strategies import rows_of

import tracekit
from tracekit.errors import ParseError, UnsupportedVersionError
from tracekit.model.trace import Trace
from tracekit.readers import source
from tracekit.readers.base import Confidence
from tracekit.readers.head import Head
from tracekit.readers.recorder_log.reader import sniff
from tracekit.recorder import log_format as log

EPOCH = 1_767_225_600_000_000_000
PERF = 123_456_000_000_000


def head(**changes: Any) -> dict[str, object]:
    base: dict[str, Any] = {
        "tracekit": "0.1.0", "pid": 4242, "rank": 3, "world_size": 8, "process": "train.py", "host": "node7",
        "command": ["train.py", "--lr", "0.1 x"], "perf_ns": PERF, "epoch_ns": EPOCH,
    }  # fmt: skip
    return log.head_line(**(base | changes))


THREAD = log.thread_line(index=0, tid=4242, name="MainThread")
NAMES = [
    log.name_line(name_id=1, name="step", kind="step"),
    log.name_line(name_id=2, name="forward", kind="forward", category="model", color="#76B900"),
    log.name_line(name_id=3, name="loss"),
    log.name_line(name_id=4, name="mine", kind="my own kind"),
]


def data_of(*lines: object) -> bytes:
    return b"".join(line if isinstance(line, bytes) else log.encode(line) for line in lines)  # type: ignore[arg-type]


def read(path: Path, *lines: object, begin: bool = True) -> Trace:
    first = [head(), THREAD, *NAMES] if begin else []
    path.write_bytes(data_of(*first, *lines))
    return tracekit.read(path, format="recorder-log")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.rank3.jsonl"


def end(items: int, at: int = PERF + 10**6) -> dict[str, object]:
    return log.end_line(perf_ns=at, items=items)


def rows(trace: Trace, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in trace.events.to_pylist()]


def notes(trace: Trace) -> dict[str, int]:
    return {code: note.count for code, note in trace.ledgers[0].notes.items()}


def test_the_example_of_the_specification(file: Path) -> None:
    example = [line.strip() for line in (log.__doc__ or "").split("\n") if line.startswith(("    {", "     "))]
    text = "\n".join(example).replace('"world_size":2,\n', '"world_size":2,').replace('"0.1"],\n', '"0.1"],')
    file.write_text(text[: text.index('{"k":"end"')] + '{"k":"end","t":123456000013000,"items":9,"how":"stop"}\n')
    trace = tracekit.read(file)
    assert rows(trace, "ts_ns", "dur_ns", "name", "kind", "step", "value", "args") == [
        (PERF + 1000, 11000, "step", "step", 12, None, '{"unfinished":true}'),
        (PERF + 2000, 7000, "forward", "forward", 12, None, '{"batch":32,"category":"model","color":"#76B900"}'),
        (PERF + 9100, None, "loss", "counter", 12, 0.25, None),
        (PERF + 9200, None, "loss", "mark", 12, None, '{"payload":"checkpoint"}'),
        (PERF + 9300, 1700, "forward", "forward", 12, None,
         '{"category":"model","color":"#76B900","id":7,"tid":4242}'),
    ]  # fmt: skip
    ledger = trace.ledgers[0]
    assert (ledger.kept, ledger.merged, ledger.facts, ledger.dropped) == (5, 3, 10, {})
    assert trace.events.column("tid").to_pylist() == [4242, 4242, 4242, 4242, None]


def test_facts_of_the_process(file: Path) -> None:
    trace = read(
        file,
        {"k": "clock", "x": [PERF + 5 * 10**9, EPOCH + 5 * 10**9 + 700, 85]},
        log.mark_line(items=[3, PERF + 5, 0]),
        end(1),
    )
    run = trace.run
    assert (run.origin_ns, trace.events.column("ts_ns").to_pylist()) == (EPOCH - PERF, [PERF + 5])
    assert run.processes == {(0, 4242): "train.py"}
    assert run.threads == {(0, 4242, 4242): "MainThread"}
    facts = run.sources[0].facts
    assert facts["command"] == "train.py --lr '0.1 x'"
    assert (facts["rank"], facts["world_size"], facts["host"], facts["clean_stop"]) == (3, 8, "node7", True)
    assert (facts["clock_anchors"], facts["clock_drift_ns"], facts["clock_uncertainty_ns"]) == (2, 700, 85)
    assert rows(trace, "rank", "pid", "tid", "source") == [(3, 4242, 4242, 0)]
    assert not trace.ledgers[0].notes


def test_a_wall_clock_that_was_set_is_told(file: Path) -> None:
    trace = read(file, {"k": "clock", "x": [PERF + 10**9, EPOCH + 61 * 10**9, 85]}, end(0, PERF + 10**9))
    assert "+60.000 s" in trace.ledgers[0].notes["wall-clock-set"].text
    assert trace.run.sources[0].facts["clock_drift_ns"] == 60 * 10**9


def test_ranges_go_on_from_line_to_line_and_block_to_block(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source.Source.line_blocks, "__defaults__", (64,))
    depth = 60
    lines: list[object] = []
    for n in range(depth):
        lines.append(log.range_line(thread=0, items=[1, n + 1], offset=PERF, payloads=[(0, {"n": n})]))
    for n in range(depth):
        lines.append(log.range_line(thread=0, items=[-1, 1000 + n], offset=PERF))
    trace = read(file, *lines, end(2 * depth))
    found = rows(trace, "ts_ns", "dur_ns", "args")
    assert found == [(PERF + n + 1, 1000 + depth - 1 - n - n - 1, f'{{"n":{n}}}') for n in range(depth)]
    assert not notes(trace)


def test_outer_of_two_ranges_with_the_same_times_stays_the_outer(file: Path) -> None:
    trace = read(file, log.range_line(thread=0, items=[1, 5, 2, 5, -2, 9, -1, 9]), end(4))
    assert [name for (name,) in rows(trace, "name")] == ["step", "forward"]


def test_kinds_categories_and_colours(file: Path) -> None:
    trace = read(
        file,
        log.range_line(thread=0, items=[4, 5, -4, 9]),
        log.mark_line(items=[2, 11, 0, 3, 12, 0]),
        log.counter_line(items=[1, 13, 0], values=[1]),
        end(5),
    )
    assert rows(trace, "name", "kind", "args") == [
        ("mine", "user_range", '{"kind":"my own kind"}'),
        ("forward", "mark", '{"kind":"forward","category":"model","color":"#76B900"}'),
        ("loss", "mark", None),
        ("step", "counter", '{"kind":"step"}'),
    ]


def test_payloads_of_any_value_become_args_unchanged(file: Path) -> None:
    values = ['{"big":12345678901234567890123,"é":[1.0e2]}', "[1,2]", "null", '"text"', '{"color":1}', '{"a\\u0062":1}']
    items = [n for i in range(len(values)) for n in (2, 10 + i, 0)]
    payloads = ",".join(f"[{i},{value}]" for i, value in enumerate(values))
    line = f'{{"k":"m","x":{json.dumps(items)},"p":[{payloads}]}}\n'.encode()
    args = [text for (text,) in rows(read(file, line, end(6)), "args")]
    mine = '"kind":"forward","category":"model","color":"#76B900"}'
    assert args[:4] == [
        '{"big":12345678901234567890123,"é":[1.0e2],' + mine,
        '{"payload":[1,2],' + mine,
        '{"payload":null,' + mine,
        '{"payload":"text",' + mine,
    ]
    assert args[4] == '{"color":1,"kind":"forward","category":"model","recorder_color":"#76B900"}'
    assert args[5] == '{"a\\u0062":1,' + mine


def test_counters_keep_integers_and_what_is_no_number(file: Path) -> None:
    values = [3, 2.5, "NaN", "-Infinity", (1 << 62) + 1, -0.0]
    items = [n for i in range(len(values)) for n in (3, 10 + i, 0)]
    trace = read(file, log.counter_line(items=items, values=values), end(6))
    found = rows_of(trace.events)
    assert [row["value"] for row in found] == ["3.0", "2.5", "nan", "-inf", repr(float(1 << 62)), "-0.0"]
    assert [row["args"] for row in found] == [None, None, None, None, f'{{"value":{(1 << 62) + 1}}}', None]


def test_async_ranges_join_by_handle_across_threads(file: Path) -> None:
    trace = read(
        file,
        log.thread_line(index=1, tid=99, name="worker"),
        log.async_line(items=[3, 10, 7, 0, 3, 11, 8, 0], payloads=[(1, {"id": 5})]),
        log.async_line(items=[-3, 20, 8, 1, -3, 30, 7, 0]),
        log.async_line(items=[3, 40, 9, 1]),
        log.async_line(items=[-3, 50, 9, 1], unfinished=[0]),
        end(6),
    )
    assert rows(trace, "ts_ns", "dur_ns", "tid", "args") == [
        (10, 20, None, '{"id":7,"tid":4242}'),
        (11, 9, None, '{"id":5,"recorder_id":8,"tid":4242,"end_tid":99}'),
        (40, 10, None, '{"id":9,"tid":99,"unfinished":true}'),
    ]
    assert notes(trace) == {"unfinished-range": 1}


def test_steps_count_for_all_threads_also_when_they_stand_late(file: Path) -> None:
    trace = read(
        file,
        log.mark_line(items=[3, 5, 0, 3, 10, 0, 3, 25, 0, 3, 45, 0]),
        log.range_line(thread=0, items=[3, 12, -3, 50]),
        log.step_line(items=[1, 20, 0, 0, 10, 0]),
        log.step_line(items=[-1, 40], offset=0) | {"x": [-1, 30, 0], "o": 10},
        end(9),
    )
    assert rows(trace, "ts_ns", "step") == [(5, None), (10, 0), (12, 0), (25, 1), (45, None)]
    assert trace.ledgers[0].facts == 1 + 1 + 4 + 1 + 3


# --- what goes wrong in real logs


def test_a_payload_at_an_end_is_told(file: Path) -> None:
    line = log.range_line(thread=0, items=[1, 5, -1, 9, 1, 11], payloads=[(1, {"a": 1}), (2, {"b": 2})])
    trace = read(file, line, log.range_line(thread=0, items=[-1, 20]), end(4))
    assert rows(trace, "ts_ns", "args") == [(5, None), (11, '{"b":2}')]
    assert notes(trace) == {"payload-at-end": 1}


def test_open_ranges_end_at_the_last_known_time(file: Path) -> None:
    trace = read(file, log.range_line(thread=0, items=[1, 100, 2, 200]), log.async_line(items=[3, 300, 1, 0]))
    assert rows(trace, "ts_ns", "dur_ns", "name") == [
        (100, PERF - 100, "step"), (200, PERF - 200, "forward"), (300, PERF - 300, "loss"),
    ]  # fmt: skip
    assert all(json.loads(str(args))["unfinished"] for (args,) in rows(trace, "args"))
    assert notes(trace) == {"log-cut": 1, "unfinished-range": 3}


def test_crossing_ranges_close_what_is_inside(file: Path) -> None:
    trace = read(file, log.range_line(thread=0, items=[1, 10, 2, 20, 3, 30, -1, 40, -3, 50, 2, 60, -2, 70]), end(7))
    found = rows(trace, "ts_ns", "dur_ns", "name", "args")
    assert [row[:3] for row in found] == [(10, 30, "step"), (20, 20, "forward"), (30, 10, "loss"), (60, 10, "forward")]
    assert ["unfinished" in str(row[3]) for row in found] == [False, True, True, False]
    assert notes(trace) == {"range-crossed": 2, "unfinished-range": 2, "end-without-begin": 1}
    ledger = trace.ledgers[0]
    assert (ledger.kept, ledger.merged, ledger.dropped) == (4, 2, {"end-without-begin": 1})


def test_an_end_of_a_range_that_was_not_open_is_dropped_and_costs_no_other(file: Path) -> None:
    trace = read(file, log.range_line(thread=0, items=[-2, 10, 1, 20, 2, 30, -2, 40, -1, 50]), end(5))
    assert rows(trace, "ts_ns", "dur_ns", "name") == [(20, 30, "step"), (30, 10, "forward")]
    ledger = trace.ledgers[0]
    assert (ledger.kept, ledger.merged, ledger.dropped) == (2, 2, {"end-without-begin": 1})


def test_an_end_before_its_begin_has_duration_0(file: Path) -> None:
    trace = read(file, log.range_line(thread=0, items=[1, 100, -1, 90]), end(2))
    assert rows(trace, "ts_ns", "dur_ns") == [(100, 0)]
    assert notes(trace) == {"clock-went-back": 1}


def test_names_and_threads_that_are_lost_are_named_by_their_number(file: Path) -> None:
    trace = read(file, log.mark_line(items=[77, 5, 0, 3, 6, 12]), end(2))
    assert rows(trace, "name") == [("name 77 (lost)",), ("loss",)]
    lost = trace.events.column("tid").to_pylist()[1]
    assert trace.run.ids == {("tid", 0, lost): "thread 12 (lost)"}
    assert notes(trace) == {"name-lost": 1, "thread-lost": 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"garbage\n", "not-json"),
        (b'{"k":"r","t":0,"x":[1,2\n', "not-json"),
        (b"[" * 3000 + b"\n", "not-json"),
        (b'{"k":"zebra"}\n', "unknown-line-kind"),
        (b'{"a":1}\n', "unknown-line-kind"),
        (b'{"format":"else","version":1}\n', "unknown-line-kind"),
        (b'{"format":"tracekit-log","version":"one"}\n', "bad-line"),
        (b'{"k":"r","t":0,"x":[1,2,3]}\n', "bad-line"),
        (b'{"k":"r","t":0,"x":[1,2.5]}\n', "bad-line"),
        (b'{"k":"r","t":0,"x":[1,true]}\n', "bad-line"),
        (b'{"k":"r","t":0,"x":[1,99999999999999999999]}\n', "bad-line"),
        (b'{"k":"r","t":0,"x":[1,2],"p":[[1,5]]}\n', "bad-line"),
        (b'{"k":"r","t":0,"x":[1,2],"u":[-1]}\n', "bad-line"),
        (b'{"k":"c","x":[1,2,0],"v":[]}\n', "bad-line"),
        (b'{"k":"c","x":[1,2,0],"v":["much"]}\n', "bad-line"),
        (b'{"k":"c","x":[1,2,0],"v":[1' + b"0" * 309 + b"]}\n", "bad-line"),
        (b'{"k":["r"],"t":0}\n', "unknown-line-kind"),
        (b'{"k":"name","id":0,"name":"x"}\n', "bad-line"),
        (b'{"k":"clock","x":[1]}\n', "bad-line"),
    ],
)
def test_a_bad_line_costs_that_line(file: Path, line: bytes, reason: str) -> None:
    trace = read(file, log.mark_line(items=[3, 5, 0]), line, log.mark_line(items=[3, 6, 0]), end(2))
    assert trace.events.num_rows == 2
    assert trace.ledgers[0].dropped == {reason: 1}
    assert trace.ledgers[0].notes[reason].places == ["line 8"]


def test_items_without_time_or_name_cost_themselves(file: Path) -> None:
    trace = read(
        file,
        log.mark_line(items=[3, 0, 0, 3, 7, 0, 0, 8, 0], payloads=[(0, 1), (1, 2)]),
        log.range_line(thread=0, items=[1, -5, 1, 6, -1, 9]),
        log.counter_line(items=[3, 0, 0, 3, 20, 0], values=[1, 2]),
        end(8),
    )
    assert rows(trace, "ts_ns", "dur_ns", "value") == [(6, 3, None), (7, None, None), (20, None, 2.0)]
    assert trace.ledgers[0].dropped == {"bad-item": 4}


def test_padding_and_nuls_at_line_ends_do_no_harm(file: Path) -> None:
    mark = log.encode(log.mark_line(items=[3, 5, 0]))
    trace = read(file, b"\0" * 5000 + b"\n", b"\0\0" + mark, mark[:-1] + b"\0\0\n", b"\n", mark[:-1] + b"\r\n", end(3))
    assert trace.events.num_rows == 3
    assert trace.ledgers[0].ignored == {"padding": 1}
    assert not notes(trace)


def test_a_cut_at_any_byte_costs_one_line_at_most(file: Path) -> None:
    lines = [log.range_line(thread=0, items=[1, 10 * i, -1, 10 * i + 5]) for i in range(1, 12)]
    whole = data_of(head(), THREAD, *NAMES, *lines, end(22))
    first = len(data_of(head()))
    for cut in range(first, len(whole), 3):
        file.write_bytes(whole[:cut])
        trace = tracekit.read(file)
        complete = sum(1 for line in whole[:cut].split(b"\n") if line.startswith(b'{"k":"r"') and line.endswith(b"}"))
        assert trace.events.num_rows == complete
        assert sum(trace.ledgers[0].dropped.values()) == trace.ledgers[0].dropped.get("torn-row", 0) <= 1
        assert "log-cut" in notes(trace) or cut >= len(whole) - 1


def test_lost_lines_show_in_the_count_of_the_end_line(file: Path) -> None:
    trace = read(file, log.mark_line(items=[3, 5, 0]), end(4))
    assert trace.ledgers[0].notes["items-missing"].text == "3 of the 4 items that were written are not in the log"
    (sentence,) = trace.incomplete
    assert sentence.startswith("INCOMPLETE: run.rank3.jsonl has lost 3 of the 4 items that were written to it")


def test_one_line_lost_among_many_is_a_note(file: Path) -> None:
    marks = [log.mark_line(items=[3, 5 + n, 0]) for n in range(100)]
    trace = read(file, *marks, end(101))
    assert notes(trace) == {"items-missing": 1}
    assert not trace.incomplete


def beat(items: int, **changes: int) -> dict[str, object]:
    return log.beat_line(
        **({"perf_ns": PERF + 2_000_900_000, "items": items, "flushes": 10, "wait_ns": 23_010_000} | changes)
    )


CUT = "the log has no end: its process was killed, crashed, was left by os._exit, could write no more, or still runs. "


def test_a_log_without_an_end_says_until_when_it_is_whole(file: Path) -> None:
    trace = read(file, beat(1), log.range_line(thread=0, items=[1, PERF + 5]))
    assert trace.ledgers[0].notes["log-cut"].text == CUT + (
        "Nothing of its first 2 s is missing; what came later may be: usually at most 47 ms, twice the longest time "
        "that events had waited to be written"
    )
    assert rows(trace, "dur_ns") == [(2_000_900_000 - 5,)], "the beat saw it open"
    facts = trace.run.sources[0].facts
    assert (facts["clean_stop"], facts["ended"]) == (False, "not known: the log has no end")
    assert (facts["whole_for_ns"], facts["flushes"], facts["longest_wait_ns"]) == (2_000_900_000, 10, 23_010_000)
    assert facts["loss_bound_ns"] == 46_020_000
    assert not trace.incomplete, "what came before the cut is whole"


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "It does not say until when it is whole: how much is missing is not known"),
        (
            [beat(0, flushes=9)],
            (
                "Nothing of its first 2 s is missing; how much came later is not known, "
                "since it was flushed fewer than 10 times"
            ),
        ),
    ],
)
def test_a_log_that_was_hardly_flushed_states_no_bound(file: Path, lines: list[object], text: str) -> None:
    assert read(file, *lines).ledgers[0].notes["log-cut"].text == CUT + text


def test_a_copy_that_lacks_what_was_written_is_incomplete(file: Path) -> None:
    trace = read(file, beat(50), *[log.mark_line(items=[3, 5 + n, 0]) for n in range(40)])
    assert notes(trace) == {"log-cut": 1, "items-missing": 1}
    assert "has lost 10 of the 50 items that were written to it" in trace.incomplete[0]


@pytest.mark.parametrize(
    ("how", "error", "cause"),
    [
        (log.DISK_FULL, "[Errno 28] No space left on device", "a full disk"),
        (log.WRITE_ERROR, "[Errno 27] File too large", "a write error ([Errno 27] File too large)"),
        (log.FAILED, "division by zero", "an error of the recorder (division by zero)"),
        ("abducted", "", "abducted"),
    ],
)
def test_a_log_that_ended_early_is_no_whole_result(file: Path, how: str, error: str, cause: str) -> None:
    last = log.end_line(perf_ns=PERF + 900, items=5, how=how, error=error, lost=60_000)
    trace = read(file, last, log.range_line(thread=0, items=[1, PERF + 5, -1, PERF + 9, 2, PERF + 11]),
                 log.mark_line(items=[3, PERF + 12, 0]), log.step_line(items=[1, PERF + 12, 0]))  # fmt: skip
    said = f"ended by {cause} after 3 of at least 60,003 events; what came later is missing"
    assert trace.ledgers[0].notes["ended-early"].text == said
    assert trace.incomplete == (f"INCOMPLETE: run.rank3.jsonl {said}, so shares are unknown",)
    assert trace.run.sources[0].facts["ended"] == f"ended by {cause}"
    assert rows(trace, "dur_ns") == [(4,), (889,), (None,)]
    assert tracekit.summary(file).incomplete == trace.incomplete


def test_logs_in_one_file_that_ended_early_are_named_once_each(file: Path) -> None:
    last = log.end_line(perf_ns=PERF + 900, items=0, how=log.DISK_FULL, lost=7)
    trace = read(file, *[line for n in range(9) for line in (head(pid=n), last)], begin=False)
    (sentence,) = trace.incomplete
    assert 1 < sentence.count("ended by a full disk after 0 of at least 7 events") < 9


@pytest.mark.parametrize(("how", "said"), [(log.STOP, "program"), (log.EXIT, "process ended")])
def test_a_stop_and_an_exit_are_clean(file: Path, how: str, said: str) -> None:
    trace = read(file, beat(0), log.end_line(perf_ns=PERF + 5, items=0, how=how))
    facts = trace.run.sources[0].facts
    assert facts["clean_stop"] is True
    assert said in str(facts["ended"])
    assert not notes(trace)


def test_notes_of_the_recorder_are_passed_on_and_added_up(file: Path) -> None:
    trace = read(
        file,
        *[log.note_line(code="value_refused", count=n) for n in (2, 3)],
        log.note_line(code="new", count=1),
        end(0),
    )
    assert notes(trace) == {"value-refused": 5, "new": 1}
    assert trace.ledgers[0].notes["value-refused"].text == f"the recorder: {log.NOTE_CODES['value_refused']}"


def test_two_logs_in_one_file_are_two_logs(file: Path) -> None:
    one = [head(), THREAD, *NAMES, log.range_line(thread=0, items=[1, PERF + 5])]
    two = [
        head(pid=77, rank=4, perf_ns=10**6, epoch_ns=EPOCH + 10**6), log.thread_line(index=0, tid=1, name="other"),
        log.name_line(name_id=1, name="second"), log.range_line(thread=0, items=[1, 10**6 + 5, -1, 10**6 + 9]),
        log.step_line(items=[8, 10**6 + 1, 0]), end(3, 10**6 + 20),
    ]  # fmt: skip
    for torn in (b"", b'{"k":"r","t":0,"x":[1,12'):
        trace = read(file, *one, torn, *two, begin=False)
        origin = EPOCH - PERF
        assert [
            (row[0] + origin, *row[1:]) for row in rows(trace, "ts_ns", "dur_ns", "name", "pid", "rank", "step")
        ] == [
            (EPOCH + 5, 0, "step", 4242, 3, None),
            (EPOCH + 10**6 + 5, 4, "second", 77, 4, 8),
        ]
        assert trace.run.sources[0].facts["logs"][0]["pid"] == 77
        assert trace.run.threads == {(0, 4242, 4242): "MainThread", (0, 77, 1): "other"}
        assert trace.ledgers[0].dropped == ({"not-json": 1} if torn else {})


def test_a_log_without_its_header_is_read(file: Path) -> None:
    trace = read(file, THREAD, *NAMES, log.mark_line(items=[3, 5, 0]), begin=False)
    assert rows(trace, "ts_ns", "name", "pid", "tid") == [(5, "loss", None, 4242)]
    assert trace.run.origin_ns is None


def test_a_header_alone_is_a_log_without_events(file: Path) -> None:
    assert read(file, head(), begin=False).events.num_rows == 0


def test_another_version_is_refused(file: Path) -> None:
    with pytest.raises(UnsupportedVersionError, match="version 2"):
        read(file, head() | {"version": 2}, begin=False)


@pytest.mark.parametrize("data", [b"", b"hello\n", b'{"ts_ns":1,"kind":"mark"}\n', b"\0" * 99])
def test_what_is_no_log_is_refused(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with pytest.raises(ParseError) as error:
        tracekit.read(file, format="recorder-log")
    assert str(error.value) == f"{file}: no line of a recorder's log was found"


def test_sniffer() -> None:
    yes = [
        data_of(head()),
        b"junk\n" + data_of(head()),
        b"\0\0\n" + data_of(head()),
        b'{"format": "tracekit-log", "version": 1}',
    ]
    no = [b'{"tracekit":"events-jsonl"}', b'{"format":"else"}', b'{"ts_ns":1,"kind":"mark"}', b"", b"a,b\n"]
    assert {sniff(Head("a", data)) for data in yes} == {Confidence.YES}
    assert {sniff(Head("a.jsonl", data)) for data in no} == {Confidence.NO}
    assert sniff(Head("a", b'{"k":"r","x":[1,2' + data_of(head()))) is Confidence.MAYBE


def test_too_many_open_ranges_are_closed_and_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.LOG_OPEN_RANGES, 10)
    trace = read(
        file,
        log.range_line(thread=0, items=[n for i in range(30) for n in (1, i + 1)]),
        log.async_line(items=[n for i in range(12) for n in (3, i + 1, i + 1, 0)]),
        end(42),
    )
    assert trace.events.num_rows == 42
    assert notes(trace)["too-many-open"] == 42


def test_threads_beyond_the_limit_are_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.LOG_THREADS, 3)
    trace = read(file, *[log.range_line(thread=n, items=[1, 5, -1, 6]) for n in range(8)], end(16))
    assert trace.ledgers[0].dropped == {"too-many-threads": 8}
    assert trace.events.num_rows == 4


def test_a_tid_that_is_used_again_has_both_names(file: Path) -> None:
    threads = [log.thread_line(index=i, tid=9, name=f"worker {i}") for i in (1, 2)]
    trace = read(file, *threads, log.mark_line(items=[3, 5, 1, 3, 6, 2]), end(2))
    assert trace.run.threads[(0, 4242, 9)] == "worker 1, worker 2"


# --- any program's log


class Program:
    """A random program, and what it did by plain bookkeeping."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.now, self.want = rng, PERF + 1, []
        self.lines: list[object] = [head(), *NAMES]
        self.items = 0
        self.steps: list[tuple[int, int]] = []
        self.ranges: dict[int, list[tuple[int, int, object]]] = {0: [], 1: [], 2: []}
        self.tasks: dict[int, tuple[int, int]] = {}

    def tick(self) -> int:
        self.now += self.rng.choice([0, 0, 1, 7, 10**6])
        return self.now

    def row(self, kind: str, begin: int, finish: int | None, name: int) -> None:
        self.want.append((begin, None if finish is None else finish - begin, NAMES[name - 1]["name"], kind))

    def range_line(self) -> None:
        thread, items, payloads = self.rng.choice([0, 1, 2]), [], []
        stack = self.ranges[thread]
        offset = self.rng.choice([0, PERF])
        for n in range(self.rng.randrange(1, 9)):
            if stack and self.rng.random() < 0.5:
                name, begin, _ = stack.pop()
                items += [-name, self.tick() - offset]
                self.row("range", begin, self.now, name)
            else:
                stack.append((self.rng.choice([1, 2, 3]), self.tick(), None))
                items += [stack[-1][0], self.now - offset]
                if self.rng.random() < 0.2:
                    payloads.append((n, {"n": n}))
        self.lines.append(log.range_line(thread=thread, items=items, offset=offset, payloads=payloads))
        self.items += len(items) // 2

    def task_line(self) -> None:
        if self.tasks and self.rng.random() < 0.6:
            handle = self.rng.choice(sorted(self.tasks))
            name, begin = self.tasks.pop(handle)
            items = [-name, self.tick(), handle, self.rng.choice([0, 1])]
            self.row("range", begin, self.now, name)
        else:
            handle = self.items + 1
            self.tasks[handle] = (self.rng.choice([1, 3]), self.tick())
            items = [self.tasks[handle][0], self.now, handle, 0]
        self.lines.append(log.async_line(items=items))
        self.items += 1

    def point_line(self) -> None:
        if self.rng.random() < 0.5:
            self.lines.append(log.mark_line(items=[3, self.tick(), 0]))
            self.row("mark", self.now, None, 3)
        else:
            self.lines.append(log.counter_line(items=[3, self.tick(), 1], values=[self.items]))
            self.row("counter", self.now, None, 3)
        self.items += 1

    def step_line(self) -> None:
        self.steps.append((self.tick(), len(self.steps)))
        self.lines.append(log.step_line(items=[self.steps[-1][1], self.now, 0]))
        self.items += 1

    def finish(self) -> list[tuple[object, ...]]:
        self.lines.append(end(self.items, self.tick()))
        for name, begin in [o[:2] for stack in self.ranges.values() for o in stack] + list(self.tasks.values()):
            self.row("range", begin, self.now, name)
        return sorted(((*row, self.step_of(row[0])) for row in self.want), key=repr)

    def step_of(self, time: int) -> int | None:
        return max((n for at, n in self.steps if at <= time), default=None)


@given(rng=st.randoms(use_true_random=False), length=st.integers(1, 40), block=st.sampled_from([80, 300, 1 << 20]))
def test_any_program_is_read_as_it_ran(rng: random.Random, length: int, block: int, tmp_path: Path) -> None:
    program = Program(rng)
    actions = [program.range_line, program.range_line, program.task_line, program.point_line, program.step_line]
    for _ in range(length):
        rng.choice(actions)()
    want = program.finish()
    path = tmp_path / "a.jsonl"
    path.write_bytes(data_of(*program.lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source.Source.line_blocks, "__defaults__", (block,))
        trace = tracekit.read(path)
    kinds = {"mark": "mark", "counter": "counter"}
    found = [
        (row["ts_ns"], row["dur_ns"], row["name"], kinds.get(str(row["kind"]), "range"), row["step"])
        for row in trace.events.to_pylist()
    ]
    assert sorted(found, key=repr) == want
    payloads = sum(len(line.get("p", ())) for line in program.lines if isinstance(line, dict))
    assert sum('"n":' in (text or "") for text in trace.events.column("args").to_pylist()) == payloads
    assert set(notes(trace)) <= {"unfinished-range", "thread-lost"}
    ids = trace.events.column("event_id").to_pylist()
    assert len(set(ids)) == len(ids)


@given(junk=st.binary(max_size=400), at=st.integers(0, 2000))
def test_any_bytes_in_the_middle_do_no_harm(junk: bytes, at: int, tmp_path: Path) -> None:
    whole = data_of(head(), THREAD, *NAMES, *[log.range_line(thread=0, items=[1, i, -1, i + 5]) for i in range(1, 40)])
    (tmp_path / "a").write_bytes(whole[:at] + junk + whole[at:])
    try:
        trace = tracekit.read(tmp_path / "a", format="recorder-log")
    except (ParseError, UnsupportedVersionError):
        return
    trace.ledgers[0].check()


def test_a_log_goes_through_parquet_and_jsonl_and_back_unchanged(tmp_path: Path) -> None:
    program = Program(random.Random(5))
    for n in range(400):
        [program.range_line, program.task_line, program.point_line, program.step_line][n % 4]()
    program.finish()
    first = tmp_path / "a.jsonl"
    first.write_bytes(data_of(*program.lines))
    want = rows_of(tracekit.read(first).events)
    path = first
    for name in ("b.parquet", "c.jsonl.gz", "d.parquet"):
        done = tracekit.convert(path, tmp_path / name)
        assert done.written.events == len(want)
        path = tmp_path / name
        assert rows_of(tracekit.read(path).events) == want
    facts = tracekit.read(path).run.sources[0].facts
    assert [ledger["format"] for ledger in facts["archived_ledgers"]] == ["recorder-log", "parquet", "events-jsonl"]
    assert facts["command"] == "train.py --lr '0.1 x'"


def test_ranks_in_two_files_stand_side_by_side(tmp_path: Path) -> None:
    for rank in (0, 1):
        lines = [
            head(rank=rank, perf_ns=PERF * (rank + 1), epoch_ns=EPOCH), *NAMES,
            log.mark_line(items=[3, PERF * (rank + 1) + 50 + rank, 0]),
        ]  # fmt: skip
        (tmp_path / f"run.rank{rank}.jsonl").write_bytes(data_of(*lines))
    trace = tracekit.read(tmp_path)
    assert [
        (ts + trace.run.origin_ns - EPOCH, rank, source) for ts, rank, source in rows(trace, "ts_ns", "rank", "source")
    ] == [
        (50, 0, 0),
        (51, 1, 1),
    ]


def test_steps_of_a_watched_loop_belong_to_the_thread_that_runs_it(file: Path) -> None:
    trace = read(
        file,
        log.thread_line(index=1, tid=99, name="worker"),
        log.name_line(name_id=8, name="step", kind="step"),
        log.async_line(items=[8, 10, 1, 0, -8, 20, 1, 0, 8, 20, 2, 0, -8, 30, 2, 0]),
        log.async_line(items=[8, 5, 3, 1, -8, 40, 3, 1, 8, 50, 4, 1, -8, 60, 4, 0]),
        end(8),
    )
    assert rows(trace, "ts_ns", "tid", "args") == [
        (5, 99, '{"id":3}'),
        (10, 4242, '{"id":1}'),
        (20, 4242, '{"id":2}'),
        (50, None, '{"id":4,"tid":99,"end_tid":4242}'),  # ended by another thread
    ]


def test_steps_of_tasks_that_overlap_on_one_thread_have_no_thread_of_their_own(file: Path) -> None:
    trace = read(
        file,
        log.name_line(name_id=8, name="step", kind="step"),
        log.async_line(items=[8, 10, 1, 0, 8, 15, 2, 0, -8, 20, 1, 0, -8, 30, 2, 0]),
        end(4),
    )
    assert rows(trace, "ts_ns", "tid") == [(10, 4242), (15, None)]

"""Small traces with one oddity each, as viewers meet them, and the defects and remarks that the doctor names.

Perfetto's engine looks at each of them in the tests, before and after the repair.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

Event = dict[str, Any]


def x(name: str, ts: object, dur: object, pid: object = 1, tid: object = 1, **more: object) -> Event:
    """Return a slice."""
    return {"ph": "X", "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, **more}


def at(ph: str, ts: object, **more: object) -> Event:
    """Return an event of another phase on thread 1 of process 1."""
    return {"ph": ph, "name": "f", "ts": ts, "pid": 1, "tid": 1} | more


def flow(ph: str, ts: object, **more: object) -> Event:
    """Return one end of an arrow."""
    return at(ph, ts, id=1, cat="c", **({"bp": "e"} if ph == "f" else {})) | more


def meta(name: str, /, **args: object) -> Event:
    """Return a metadata event of process 1."""
    return {"ph": "M", "name": name, "pid": 1, "args": args}


A, B = x("a", 0, 10), x("b", 20, 5, tid=2)
EVENTS: dict[str, tuple[list[Event], str]] = {
    "overlap": ([x("a", 0, 10), x("b", 5, 10)], "overlapping-slices"),
    "overlap_1ns": ([x("a", 0, 10.001), x("b", 10, 5)], "overlapping-slices"),
    "neg_dur": ([x("a", 0, -5)], "negative-duration"),
    "no_dur": ([{"ph": "X", "name": "a", "ts": 1, "pid": 1, "tid": 1}], "no-duration"),
    "null_dur": ([x("a", 1, None)], "null-time no-duration"),
    "string_ts": ([x("a", "10", "5")], "~text-time"),
    "string_tid": ([x("a", 10, 5, tid="stream 7")], "~text-id"),
    "string_pid": ([x("a", 10, 5, pid="GPU 0")], "~text-id"),
    "no_ts": ([{"ph": "X", "name": "a", "dur": 1, "pid": 1, "tid": 1}], "no-time"),
    "no_pid": ([{"ph": "X", "name": "a", "ts": 1, "dur": 1}], ""),
    "no_name": ([{"ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1}], ""),
    "BE_unmatched_B": ([at("B", 1)], "unmatched-begin"),
    "BE_unmatched_E": ([at("E", 1)], "unmatched-end"),
    "BE_mismatched_name": ([at("B", 1), at("E", 4, name="zzz")], "unmatched-begin unmatched-end"),
    "async_be": ([at("b", 1, cat="c", id=1), at("e", 5, cat="c", id=1)], ""),
    "async_nestable_hexid": ([at("b", 1, cat="c", id="0x1"), at("e", 5, cat="c", id="0x1")], ""),
    "async_SF_old": ([at("S", 1, cat="c", id=1), at("F", 5, cat="c", id=1)], ""),
    "instant_t": ([at("i", 1, s="t")], ""),
    "instant_p": ([at("i", 1, s="p")], ""),
    "instant_g": ([at("i", 1, s="g")], ""),
    "instant_I_nos": ([at("I", 1)], ""),
    "flow_no_slice": ([flow("s", 1), flow("f", 5, tid=2)], "flow-without-slice"),
    "flow_unfinished": ([A, flow("s", 1)], "unmatched-flow"),
    "flow_end_without_bp": ([A, B, flow("s", 1), at("f", 15, id=1, cat="c", tid=2)], ""),
    "flow_backwards": ([x("a", 20, 10), x("b", 0, 5, tid=2), flow("s", 20), flow("f", 0, tid=2)], "flow-backwards"),
    "flow_end_listed_first": ([x("a", 0, 5), x("b", 5, 5, tid=2), flow("f", 5, tid=2), flow("s", 5)], "flow-backwards"),
    "flow_same_ts_edge": ([A, x("b", 10, 5, tid=2), flow("s", 10), flow("f", 10, tid=2)], ""),
    "flow_cat_differs": ([A, B, flow("s", 1), flow("f", 20, tid=2, cat="d")], "unmatched-flow"),
    "flow_twice": ([A, B, flow("s", 1), flow("s", 2), flow("f", 21, tid=2)], "duplicate-id"),
    "counter_string": ([at("C", 1, args={"v": "12"})], ""),
    "counter_multi": ([at("C", 1, args={"a": 1, "b": 2})], ""),
    "counter_id": ([at("C", 1, id="3", args={"a": 1})], ""),
    "counter_word": ([at("C", 1, args={"a": "much"})], "unknown-number"),
    "unknown_ph": ([at("q", 1)], "unknown-phase"),
    "no_ph": ([{"name": "a", "ts": 1, "pid": 1, "tid": 1}], "unknown-phase"),
    "mark_R": ([at("R", 1)], ""),
    "object_N_O_D": ([at("N", 1, id="1"), at("O", 2, id="1", args={"snapshot": {}}), at("D", 3, id="1")], ""),
    "big_ts": ([x("a", 1.7e15, 5), x("b", 1.7e15 + 0.001, 2)], ""),
    "coarse_ts": ([x("a", 1700000000000000.8, 10.2), x("b", 1700000000000001.2, 9.8)], "coarse-times"),
    "negative_ts": ([x("a", -100, 5)], "negative-time"),
    "zero_dur_nest": ([A, x("z", 10, 0), x("b", 10, 5)], ""),
    "equal_start": ([x("inner", 0, 5), x("outer", 0, 10)], ""),
    "identical": ([A, A], ""),
    "sorted_names": ([meta("process_sort_index", sort_index=3), meta("process_name", name="p"), A], ""),
    "meta_null_name": ([meta("process_name", name=None), A], "bad-metadata"),
    "sub_ns": ([x("a", 0.0001, 0.0004)], ""),
    "unicode": ([x("名前 \u2603 \U0001f600", 0, 1)], ""),
    "tids_of_64_bits": ([x("a", 0, 10, tid=140035203209024), x("b", 5, 10, tid=140035203209280)], "wide-id"),
    "one_tid_of_64_bits": ([x("a", 0, 10, tid=140035203209024)], ""),
    "tids_beyond_int64": ([x("a", 0, 9, tid=13774319520209737161), x("b", 5, 9, tid=13774319520209737162)], "wide-id"),
    "tid_below_0": ([x("a", 0, 10, tid=-1), x("b", 5, 10, tid=0)], "wide-id"),
    "crossing_pairs": (
        [at("B", 0), at("B", 5, name="g"), at("E", 8), at("E", 12, name="g")], "overlapping-slices"
    ),
    "far_apart": ([x("a", 0, 1), *(x("b", 1.7e15 + n, 0.5) for n in range(5))], "clock-reset"),
    "empty_event": ([A, {}], "~empty-object"),
}  # fmt: skip
"""Events of an object, and the codes; "~" marks a remark."""

_ONE = json.dumps(A)
TEXTS: dict[str, tuple[bytes, str]] = {
    "bare_array.json": (f"[{_ONE}]".encode(), ""),
    "unterminated_array.json": (f"[\n{_ONE},\n".encode(), "~open-list"),
    "truncated_object.json": (f'{{"traceEvents":[{_ONE},{{"ph":"X","na'.encode(), "torn-tail"),
    "no_end.json": (f'{{"traceEvents":[{_ONE},'.encode(), "torn-tail"),
    "nan.json": (
        _ONE.replace("10", "NaN").join(('{"traceEvents":[', "]}")).encode(), "bad-escape no-duration bad-time"
    ),
    "infinity.json": (_ONE.replace("}", ',"args":{"x":Infinity}}').join(("[", "]")).encode(), "bad-escape"),
    "trailing_comma.json": (f'{{"traceEvents":[{_ONE},]}}'.encode(), "loose-json"),
    "byte_order_mark.json": (b"\xef\xbb\xbf" + f'{{"traceEvents":[{_ONE}]}}'.encode(), "bad-encoding"),
    "empty.json": (b'{"traceEvents":[]}', ""),
    "newline_in_string.json": (_ONE.replace('"a"', '"a\nb"').join(("[", "]")).encode(), "bad-escape"),
    "windows_path.json": (_ONE.replace('"a"', '"C:\\Users"').join(("[", "]")).encode(), "bad-escape"),
    "inner_quote.json": (_ONE.replace('"a"', '"a"b"').join(("[", "]")).encode(), "bad-escape"),
    "no_json.json": (f'[{_ONE},{{"ph":"X",,,"ts":1}},{_ONE}]'.encode(), "bad-json"),
    "lost_quote.json": (_ONE.replace('"ph', "ph").join((f"[{_ONE},", f",{_ONE}]")).encode(), "lost-quote"),
    "lost_last_quote.json": (_ONE.replace('"ph": "X"', '"ph": "X').join((f"[{_ONE},", "]")).encode(), "lost-quote"),
    "lost_brace.json": (f'[{_ONE},{_ONE[:-1]},{_ONE}]'.encode(), "lost-bracket"),
    "lost_list_begin.json": (f'{{"traceEvents":{_ONE},{_ONE}]}}'.encode(), "lost-bracket"),
    "lost_list_end.json": (f'{{"traceEvents":[{_ONE},{_ONE},"a":1}}'.encode(), "lost-bracket"),
    "lost_comma.json": (f'[{_ONE}{_ONE},{_ONE}]'.encode(), "loose-json"),
    "doubled_comma.json": (f'[{_ONE},,{_ONE}]'.encode(), "loose-json"),
    "lines.json": (f'{_ONE}\n{_ONE}\n'.encode(), "~open-list"),
    "zeros.json": (f'[{_ONE},'.encode() + bytes(64) + f"{_ONE}]".encode(), "bad-json"),
    "two_traces.json": (f'{{"traceEvents":[{_ONE}]}}\n{{"traceEvents":[{_ONE}]}}'.encode(), "second-list"),
    "other_keys_first.json": (f'{{"otherData":{{"a":[1,{{"x":3}}]}},"traceEvents":[{_ONE}]}}'.encode(), ""),
    "packed.json.gz": (gzip.compress(f'{{"traceEvents":[{_ONE}]}}'.encode(), mtime=0), ""),
    "packed_cut.json.gz": (gzip.compress(b"[" + f"{_ONE},\n".encode() * 500, mtime=0)[:-20], "torn-tail"),
    "no_utf8.json": (_ONE.replace('"a"', '"a\xff"').join(("[", "]")).encode("latin-1"), "bad-encoding"),
    "double_key.json": (_ONE.replace('"name"', '"name": "b", "name"').join(("[", "]")).encode(), ""),
}  # fmt: skip

CASES: dict[str, tuple[bytes, str]] = TEXTS | {
    f"{name}.json": (json.dumps({"traceEvents": events}, ensure_ascii=False).encode(), codes)
    for name, (events, codes) in EVENTS.items()
}

"""Snapshots of PyTorch's allocator: real ones, ours, hostile pickles, damage."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import SAMPLES, corpus_next, run_command, sample, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.model.trace import Trace

MIB = 1 << 20


class Independent(pickle.Unpickler):
    """Reads a file of the corpus, of which nothing but containers is expected."""

    def find_class(self, module: str, name: str) -> object:
        raise AssertionError(f"{module}.{name}")


def opened(path: Path) -> Any:
    data = path.read_bytes()
    return Independent(io.BytesIO(gzip.decompress(data) if path.suffix == ".gz" else data)).load()


def args_of(trace: Trace) -> list[dict[str, Any]]:
    return [json.loads(text or "{}") for text in trace.events["args"].to_pylist()]


REAL = {
    "cs336_bcrafton": (96, 4_238_344_192, 550, 2162, 11_680_970_248, 2162, 11_680_970_248),
    "cs336_inference128": (98, 1_763_704_832, 230, 1280, 2_851_305_568, 1280, 2_851_305_568),
    "cs336_training128": (377, 7_235_174_400, 918, 6526, 34_448_091_337, 6305, 32_734_877_893),
}
"""Segments, their bytes, blocks, allocations, their bytes, frees, their bytes (SOURCES.md of the corpus)."""


@pytest.mark.corpus
@pytest.mark.parametrize("name", REAL)
def test_real_snapshots_have_the_counts_and_bytes_that_were_counted_apart(name: str) -> None:
    path = corpus_next(f"torch_memory/{name}.pickle.gz")
    trace = tracekit.read(path)
    segments, segment_bytes, blocks, allocs, alloc_bytes, frees, free_bytes = REAL[name]
    sizes = [
        n for n, kind in zip(*(trace.events[c].to_pylist() for c in ("bytes", "kind")), strict=True) if kind == "memory"
    ]
    assert sure_readers(path) == ["torch-memory"]
    assert (sum(n > 0 for n in sizes), sum(n for n in sizes if n > 0)) == (allocs, alloc_bytes)
    assert (sum(n < 0 for n in sizes), -sum(n for n in sizes if n < 0)) == (frees, free_bytes)
    totals = [row for row in trace.totals.to_pylist() if row["section"] in ("segments", "blocks")]
    found = Counter[str]()
    for row in totals:
        found[row["section"]] += row["calls"]
        found[f"{row['section']} bytes"] += row["bytes"]
    assert (found["segments"], found["segments bytes"], found["blocks"]) == (segments, segment_bytes, blocks)
    ledger = trace.ledgers[0]
    assert ledger.dropped == {}
    assert ledger.merged == frees + sum(kind == "user_range" for kind in trace.events["kind"].to_pylist())


@pytest.mark.corpus
def test_times_and_what_is_held_are_those_of_an_independent_walk() -> None:
    path = corpus_next("torch_memory/cs336_training128.pickle.gz")
    snapshot, trace = opened(path), tracekit.read(path)
    held = sum(segment["requested_size"] for segment in snapshot["segments"])
    want = []
    for event in reversed(snapshot["device_traces"][0]):
        if event["action"] in ("alloc", "free_completed"):
            want.append((event["time_us"], held))
            held -= event["size"] if event["action"] == "alloc" else -event["size"]
    kinds = trace.events["kind"].to_pylist()
    times = [(trace.run.origin_ns or 0) // 1000 + ns // 1000 for ns in trace.events["ts_ns"].to_pylist()]
    got = [
        (time, args["current_allocated"])
        for time, args, kind in zip(times, args_of(trace), kinds, strict=True)
        if kind == "memory"
    ]
    assert Counter(got) == Counter(want)
    assert [n for _, n in got[-5:]] == [n for _, n in want[:5][::-1]]


@pytest.mark.corpus
def test_bytes_by_line_of_python_are_those_of_the_stacks() -> None:
    path = corpus_next("torch_memory/cs336_bcrafton.pickle.gz")
    want: Counter[str] = Counter()
    for event in opened(path)["device_traces"][0]:
        if event["action"] == "alloc":
            python = [f for f in event["frames"] if f["filename"].endswith(".py")]
            first = next((f for f in python if "/torch/" not in f["filename"]), None)
            if first:
                want[f"{'/'.join(first['filename'].split('/')[-2:])}:{first['line']} {first['name']}"] += event["size"]
    assert {name: size for name, size in _holders(path).items() if name in want} == dict(want)


def _holders(path: Path) -> dict[str, int]:
    found = json.loads(run_command("summary", path, "--view", "memory", "--format", "json").stdout)
    table = next(t for t in found["sections"][0]["tables"] if t["name"] == "holders")
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    return {row["name"]: row["allocated"] for row in rows}


# Ours


def test_memory_from_before_the_trace_is_in_what_is_held() -> None:
    trace = tracekit.read(sample("torch-memory/two-gpus.pickle"))
    first = [a["current_allocated"] for a in args_of(trace) if "current_allocated" in a][:2]
    assert first == [9 * MIB, 9 * MIB], "5 MiB of weights on each GPU, and the first activation"
    assert set(trace.events["device"].to_pylist()) == {0, 1, None}
    assert "frees-not-completed" in trace.ledgers[0].notes


def test_a_free_is_one_row_and_belongs_to_the_line_that_allocated() -> None:
    trace = tracekit.read(sample("torch-memory/two-gpus.pickle"))
    rows = list(zip(trace.events["bytes"].to_pylist(), args_of(trace), strict=True))
    frees = [args for size, args in rows if size is not None and size < 0]
    assert all("requested_us" in args and "alloc_in" in args for args in frees)
    assert frees[0]["alloc_in"] == "project/model.py:13 forward"


def test_frees_without_completion_count_when_they_are_requested() -> None:
    trace = tracekit.read(sample("torch-memory/frees-requested-only.pickle"))
    assert sum(size < 0 for size in trace.events["bytes"].to_pylist() if size is not None) == 6
    assert "frees-not-completed" not in trace.ledgers[0].notes


def test_the_view_torch_shows_segments_blocks_and_stacks() -> None:
    out = run_command("summary", sample("torch-memory/two-gpus.pickle"), "--view", "torch", "--format", "json").stdout
    assert "large segments" in out
    assert "project/model.py:12 forward < project/train.py:40 train" in out


def test_the_generator_writes_the_committed_files_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(SAMPLES / "_torch_memory.py"), str(tmp_path)], check=True)
    for path in (tmp_path / "torch-memory").iterdir():
        assert opened(path) == opened(sample(f"torch-memory/{path.name}"))


# Hostile files and damage


class Runs:
    """An object whose pickle runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def nested(depth: int) -> bytes:
    """A pickle whose key is a tuple in a tuple in a tuple ...: its hash would end the interpreter."""
    return b"\x80\x04}\x94(\x8c\x08segments]\x8c\x0btotal_size0K\x01" + b"\x85" * depth + b"K\x01u."


HOSTILE = {
    "a function is called": lambda path: pickle.dumps({"segments": [Runs(f"touch {path}")], "device_traces": []}),
    "a class by its name": lambda path: b"\x80\x02}(X\x08\x00\x00\x00segmentscos\nsystem\nX\x07\x00\x00\x00time_usu.",
    "an extension": lambda path: b"\x80\x04}(\x8c\x08segments\x82\x01\x8c\x07time_usK\x01u.",
    "a nested tuple": lambda path: nested(1_000_000),
    "a list of four billion": lambda path: b"\x80\x04}(\x8c\x08segments]r\xff\xff\xff\xff\x8c\x07time_usK\x01u.",
    "a text of 4 EiB": lambda path: b"\x80\x04}(\x8c\x08segments]\x8c\x07time_us\x8d\xff\xff\xff\xff\xff\xff\xff\x3fu.",
    "an unknown object": lambda path: b"\x80\x04}(\x8c\x08segments]\x8c\x07time_ush\x63u.",
    "a number that is huge": lambda path: b"\x80\x04}(\x8c\x08segments\x8b\xff\xff\xff\x7f\x8c\x07time_usK\x01u.",
    "no end": lambda path: b"\x80\x04}(\x8c\x08segments]\x8c\x07time_usK\x01u",
    "a list as a key": lambda path: b"\x80\x04}(]\x8c\x08segments\x8c\x07time_usK\x01u.",
    "other contents": lambda path: pickle.dumps({"segments": 7, "time_us": 3}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_or_damaged_pickle_gets_one_sentence(name: str, tmp_path: Path) -> None:
    witness, path = tmp_path / "witness", tmp_path / "x.pickle"
    path.write_bytes(HOSTILE[name](witness))
    with pytest.raises(ParseError) as caught:
        tracekit.read(path, format="torch-memory")
    assert "\n" not in str(caught.value)
    assert not witness.exists()
    done = run_command("summary", path, code=1)
    assert done.output.startswith("error: ")
    assert "Traceback" not in done.output


def test_odd_values_cost_their_record_alone(tmp_path: Path) -> None:
    good = {"action": "alloc", "addr": 512, "size": 512, "stream": 0, "time_us": 1000, "frames": [{"name": "\ud800"}]}
    bad = [
        7, {}, good | {"size": -1}, good | {"size": 1 << 70}, good | {"time_us": "now"}, good | {"action": None},
        good | {"time_us": 1 << 70},
    ]  # fmt: skip
    odd = [
        good | {"action": "dance"},
        good | {"action": "oom", "device_free": 7},
        good | {"stream": 1 << 70},
    ]
    found = {
        "segments": [3, {"device": 1 << 70, "total_size": "x", "blocks": [None, {}]}],
        "device_traces": [[good, *bad, *odd], None],
        "external_annotations": [4, {"stage": "END", "name": "a", "device": 0, "time_us": 5}],
    }
    path = tmp_path / "x.pickle"
    path.write_bytes(pickle.dumps(found))
    trace = tracekit.read(path)
    assert len(trace.events) == 1 + len(odd)
    assert trace.ledgers[0].dropped == {
        "bad-event": 3, "bad-event-size": 2, "bad-event-time-us": 2, "bad-segment": 1, "bad-segment-total-size": 1,
        "bad-block": 1, "bad-annotation": 1, "annotation-without-start": 1,
    }  # fmt: skip
    assert "unknown-action" in trace.ledgers[0].notes


# Types


_ALLOC = {
    "action": "alloc", "addr": 512, "size": 512, "stream": 0, "time_us": 1000,
    "frames": [{"name": "f", "filename": "a/b.py", "line": 3}],
}  # fmt: skip
_WHOLE: dict[str, Any] = {
    "segments": [
        {
            "device": 0, "address": 512, "total_size": 2048, "allocated_size": 512, "active_size": 512,
            "requested_size": 512, "stream": 0, "segment_type": "small",
            "blocks": [{"address": 512, "size": 512, "requested_size": 512, "state": "active_allocated"}],
        }
    ],
    "device_traces": [
        [
            _ALLOC,
            _ALLOC | {"action": "free_requested", "time_us": 1001},
            _ALLOC | {"action": "free_completed", "time_us": 1002},
            _ALLOC | {"action": "oom", "device_free": 7, "time_us": 1003},
        ]
    ],
    "external_annotations": [
        {"stage": "START", "name": "a", "device": 0, "time_us": 1000},
        {"stage": "END", "name": "a", "device": 0, "time_us": 1001},
    ],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "x"},
}  # fmt: skip


def shared(depth: int = 40) -> list[Any]:
    """A list whose text has 2^40 characters: each level holds the one below it twice."""
    found: list[Any] = ["a"]
    for _ in range(depth):
        found = [found, found]
    return found


def cyclic() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def cyclic_dict() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["blocks"] = found["frames"] = [found]
    return found


_ODD: dict[str, Any] = {
    "nothing": None, "truth": True, "fraction": 1.5, "not a number": float("nan"), "text": "x", "bytes": b"x",
    "list": [], "dict": {}, "pair": (1, 2), "shared": shared(), "cyclic": cyclic(), "cyclic dict": cyclic_dict(),
    "below zero": -1, "huge": 1 << 63, "beyond": 1 << 70,
}  # fmt: skip


def paths(found: Any) -> list[tuple[Any, ...]]:
    """The place of each value in a nest of containers."""
    inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [path for key, value in inner for path in ((key,), *((key, *rest) for rest in paths(value)))]


def planted(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found = copy.deepcopy(_WHOLE)
    place: Any = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return found


def read_pickle(folder: Path, found: Any) -> Trace:
    path = folder / "x.pickle"
    path.write_bytes(pickle.dumps(found, protocol=4))
    return tracekit.read(path, format="torch-memory")


@pytest.mark.parametrize("odd", _ODD)
def test_a_value_of_another_type_costs_its_record_at_most(odd: str, tmp_path: Path) -> None:
    """The pipeline raises an error where a ledger does not add up."""
    read = 0
    for path in paths(_WHOLE):
        try:
            trace = read_pickle(tmp_path, planted(path, _ODD[odd]))
        except ParseError:
            continue
        read += 1
        # Two: a pair in the place of a list, and the end of an annotation whose start is dropped.
        assert len(path) < 3 or sum(trace.ledgers[0].dropped.values()) <= 2, path
        json.dumps([args_of(trace), trace.totals.to_pylist(), trace.run.to_json()])
        assert all(type(size) in (int, type(None)) for size in trace.events["bytes"].to_pylist())
    assert read > len(paths(_WHOLE)) / 2 or odd in ("pair", "cyclic dict")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("addr", {}), ("addr", []), ("addr", "x"), ("addr", True), ("addr", 1 << 64), ("stream", True), ("stream", "0"),
        ("size", {}), ("size", True), ("size", 1.5), ("time_us", False), ("frames", {}), ("device_free", "x"),
    ],
)  # fmt: skip
def test_a_field_of_another_type_costs_its_event_with_the_reason(key: str, value: Any, tmp_path: Path) -> None:
    trace = read_pickle(tmp_path, {"segments": [], "device_traces": [[_ALLOC, _ALLOC | {key: value}]]})
    code = f"bad-event-{key.replace('_', '-')}"
    assert (len(trace.events), trace.ledgers[0].dropped) == (1, {code: 1})
    assert f"whose {key} is not" in trace.ledgers[0].notes[code].text


@pytest.mark.parametrize("odd", ["shared", "cyclic", "truth", "bytes", "fraction"])
@pytest.mark.parametrize("key", ["name", "filename", "line"])
def test_a_frame_of_another_type_is_not_shown(key: str, odd: str, tmp_path: Path) -> None:
    good = {"name": "f", "filename": "a/b.py", "line": 3}
    event = _ALLOC | {"frames": [good | {key: _ODD[odd]}, good | {"name": "g"}]}
    trace = read_pickle(tmp_path, {"segments": [], "device_traces": [[event]]})
    (stack,) = (row for row in trace.totals.to_pylist() if row["section"] == "allocations by stack")
    assert (stack["name"], trace.ledgers[0].dropped) == ("a/b.py:3 g", {})
    assert trace.ledgers[0].notes["bad-frame"].count == 1


def test_lists_that_many_places_share_are_read_once(tmp_path: Path) -> None:
    """2,000 devices with one list of 2,000 events, and as many segments with one list of blocks: 8 million rows."""
    events, block = [dict(_ALLOC) for _ in range(2_000)], {"size": 1, "state": "inactive"}
    blocks = [dict(block) for _ in range(2_000)]
    segments = [{"device": 0, "total_size": 1, "blocks": blocks} for _ in range(2_000)]
    trace = read_pickle(tmp_path, {"segments": segments, "device_traces": [events] * 2_000})
    assert (len(trace.events), trace.ledgers[0].read) == (2_000, 6_000)
    assert trace.ledgers[0].notes["shared-list"].count == 2 * 1_999


def test_long_frames_that_many_stacks_share_take_their_room_once(tmp_path: Path) -> None:
    text = "n" * 5_000
    frames = [{"name": f"{n}{text}", "filename": "a.py", "line": n} for n in range(200)]
    stacks = [[{"name": "f", "filename": "b.py", "line": n}, *frames] for n in range(200)]
    trace = read_pickle(tmp_path, {"segments": [], "device_traces": [[_ALLOC | {"frames": each} for each in stacks]]})
    rows = [row for row in trace.totals.to_pylist() if row["section"] == "allocations by stack"]
    assert len(rows) == 200
    assert max(len(row["args"]) for row in rows) < 200_000


# Snapshots without times (up to PyTorch 2.1)


def untimed(*events: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [{"action": action, "addr": addr, "size": size, "stream": 0, "frames": []} for action, addr, size in events]


_UNTIMED = (
    ("alloc", 1, 100), ("alloc", 2, 50), ("free_requested", 1, 100), ("free_completed", 1, 100), ("alloc", 3, 20),
)  # fmt: skip


def test_events_without_times_keep_their_order_and_their_peak(tmp_path: Path) -> None:
    segment = {"device": 0, "total_size": 500, "requested_size": 70, "blocks": []}
    trace = read_pickle(tmp_path, {"segments": [segment], "device_traces": [untimed(*_UNTIMED)]})
    assert trace.events["bytes"].to_pylist() == [100, 50, -100, 20]
    assert [args["current_allocated"] for args in args_of(trace)] == [100, 150, 50, 70]
    assert not any("requested_us" in args for args in args_of(trace))
    assert (trace.ledgers[0].dropped, trace.ledgers[0].merged) == ({}, 1)
    assert set(trace.events["ts_ns"].to_pylist()) == {0}
    assert (trace.run.origin_ns, trace.run.sources[0].synthetic_time) == (None, True)
    assert "when they happened is not known" in trace.ledgers[0].notes["no-times"].text
    place = tracekit.view(trace, "memory").tables[0]
    assert next(column.values for column in place.columns if column.name == "peak") == [150]
    out = run_command("summary", tmp_path / "x.pickle").stdout
    assert "The time of the run is unknown" in out
    entry = json.loads(run_command("inspect", tmp_path / "x.pickle", "--format", "json").stdout)["inputs"][0]
    assert (entry["first_ns"], entry["last_ns"], entry["events"]) == (None, None, 4)


def test_segments_that_hold_less_than_the_trace_give_no_memory_below_zero(tmp_path: Path) -> None:
    segment = {"device": 0, "total_size": 500, "requested_size": 0, "blocks": []}
    trace = read_pickle(tmp_path, {"segments": [segment], "device_traces": [untimed(*_UNTIMED)]})
    assert [args["current_allocated"] for args in args_of(trace)] == [100, 150, 50, 70]
    assert "as a lower bound" in trace.ledgers[0].notes["held-unknown"].text


def test_one_event_without_a_time_among_others_is_dropped(tmp_path: Path) -> None:
    late = {key: value for key, value in _ALLOC.items() if key != "time_us"}
    trace = read_pickle(tmp_path, {"segments": [], "device_traces": [[_ALLOC, late]]})
    assert (len(trace.events), trace.ledgers[0].dropped) == (1, {"bad-event-time-us": 1})
    assert trace.run.sources[0].synthetic_time is False


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        (
            [("site-packages/torch/nn/modules/linear.py", "forward"), ("x/torch/nn/modules/module.py", "_call_impl")],
            "forward",
        ),
        ([("model.py", "forward")], None),
        ([("x/torch/optim/adam.py", "step"), ("x/torch/nn/modules/module.py", "_call_impl")], "optimizer"),
        ([("my/optimizer.py", "step"), ("C:\\x\\torch\\optim\\optimizer.py", "wrapper")], "optimizer"),
        (
            [("??", "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::ReadyQueue> const&)")],
            "backward",
        ),
        ([("x/torch/autograd/graph.py", "_engine_run_backward"), ("x/torch/_tensor.py", "backward")], "backward"),
        (
            [
                ("x/torch/nn/modules/module.py", "_call_impl"),
                ("x/torch/utils/checkpoint.py", "recompute_fn"),
                ("??", "torch::autograd::Engine::evaluate_function(...)"),
            ],
            "recompute",
        ),
        (
            [("x/torch/nn/modules/module.py", "_call_impl"), ("x/torch/utils/checkpoint.py", "checkpoint")],
            "forward",
        ),
    ],
)
def test_an_allocation_has_the_phase_that_its_stack_shows(
    tmp_path: Path, frames: list[tuple[str, str]], phase: str | None
) -> None:
    stack = [{"filename": file, "name": name, "line": 3} for file, name in frames]
    event = {
        "action": "alloc",
        "addr": 4096,
        "size": 512,
        "stream": 0,
        "time_us": 1_700_000_000_000_000,
        "frames": stack,
    }
    segment = {"device": 0, "address": 4096, "total_size": 2 * MIB, "allocated_size": 512, "active_size": 512,
               "requested_size": 512, "stream": 0, "segment_type": "small", "blocks": []}  # fmt: skip
    path = tmp_path / "one.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[event]], "allocator_settings": {}}))
    (args,) = args_of(tracekit.read(path))
    assert args.get("phase") == phase

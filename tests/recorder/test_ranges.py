"""What a program records, as its log tells it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

import numpy as np
import pytest
from doors.recorder import recorder_jsonl as _jsonl
from doors.recorder import recorder_session as _session
from hypothesis import example, given
from hypothesis import strategies as st
from recorder.reading import Log, Seen, read_log
from small_limits import Limit, small

from tracekit import recorder

Finish = Callable[[], Log]


def only(found: list[Seen]) -> Seen:
    (one,) = found
    return one


def test_ranges_nest_as_the_program_does(recorded: Finish) -> None:
    with recorder.range("outer"):
        for _ in range(3):
            with recorder.range("inner"):
                pass
    log = recorded()
    assert log.calls() == {"outer": 1, "inner": 3}
    outer = log.ranges[0]
    assert all(seen.parent is outer for seen in log.ranges[1:])
    assert all(outer.begin <= seen.begin <= seen.end <= outer.end for seen in log.ranges[1:])
    assert log.threads[0]["name"] == threading.current_thread().name


def test_an_exception_passes_through_and_the_range_ends(recorded: Finish) -> None:
    with pytest.raises(ZeroDivisionError), recorder.range("fails"):
        raise ZeroDivisionError
    assert only(recorded().ranges).unfinished is False


def test_attributes_are_recorded_and_make_names_of_their_own(recorded: Finish) -> None:
    class Kind(StrEnum):
        FORWARD = "forward"

    with recorder.range("x", kind=Kind.FORWARD, category="model", color="#76b900"):
        pass
    with recorder.range("x"):
        pass
    with recorder.range("x", kind="my own", color=0xFF00FF00):
        pass
    log = recorded()
    assert [dict(line, id=0) for line in log.names.values()] == [
        {"k": "name", "id": 0, "name": "x", "kind": "forward", "category": "model", "color": "#76B900"},
        {"k": "name", "id": 0, "name": "x"},
        {"k": "name", "id": 0, "name": "x", "kind": "my own", "color": "#00FF00"},
    ]


@given(st.lists(st.text(st.sampled_from('",\\ab[]\n'), max_size=8), min_size=1, max_size=5))
@example(['say "x",', "b"])
def test_names_of_one_flush_stay_apart_whatever_they_hold(names: list[str]) -> None:
    lines = _jsonl.name_lines([part for pair in enumerate(names) for part in pair])
    assert [json.loads(line) for line in lines.splitlines()] == [
        {"k": "name", "id": number, "name": name} for number, name in enumerate(names)
    ]


def test_payloads_stay_with_their_ranges_and_are_taken_at_the_call(recorded: Finish) -> None:
    changing = {"n": 0}
    for n in range(5):
        changing["n"] = n
        with recorder.range("with", payload=changing), recorder.range("without"):
            pass
        recorder.mark("mark", payload=[n, None])
    log = recorded()
    assert [seen.payload for seen in log.ranges if seen.name == "with"] == [{"n": n} for n in range(5)]
    assert {seen.payload for seen in log.ranges if seen.name == "without"} == {None}
    assert [seen.payload for seen in log.marks] == [[n, None] for n in range(5)]


def test_decorated_functions_keep_their_face_and_are_timed_each_run(recorded: Finish) -> None:
    @recorder.traced(kind="forward")
    def named(a: int, *, b: int = 2) -> int:
        """Doc."""
        return a + b

    @recorder.range("by range")
    def plain() -> str:
        return "x"

    assert (named(1, b=3), named(2), plain()) == (4, 4, "x")
    assert (named.__name__, named.__doc__) == ("named", "Doc.")
    qualified = "test_decorated_functions_keep_their_face_and_are_timed_each_run.<locals>.named"
    assert recorded().calls() == {qualified: 2, "by range": 1}


def test_a_decorated_generator_may_be_left_half_way_without_crossing(recorded: Finish) -> None:
    @recorder.traced(name="generator")
    def numbers() -> object:
        got = yield 1
        yield got
        return "end"

    first, second = numbers(), numbers()
    assert next(first) == 1
    with recorder.range("around"):
        assert next(second) == 1
    assert first.send("sent") == "sent"
    with pytest.raises(StopIteration) as stopped:
        next(first)
    assert stopped.value.value == "end"
    second.close()
    log = recorded()
    assert log.calls() == {"generator": 2, "around": 1}
    assert not any(seen.unfinished for seen in log.ranges + log.overlapping)
    assert "(reader) crossed" not in log.notes


def test_decorated_coroutines_and_async_generators_are_timed(recorded: Finish) -> None:
    @recorder.traced(name="coroutine")
    async def work(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @recorder.traced(name="stream")
    async def stream() -> object:
        try:
            got = yield 1
        except KeyError:
            got = "caught"
        yield got

    async def main() -> list[object]:
        results: list[object] = list(await asyncio.gather(*(work(n) for n in range(4))))
        items = stream()
        results.append(await anext(items))
        results.append(await items.athrow(KeyError()))
        with pytest.raises(StopAsyncIteration):
            await anext(items)
        results += [item async for item in stream()]
        return results

    assert asyncio.run(main()) == [0, 1, 2, 3, 1, "caught", 1, None]
    log = recorded()
    assert log.calls() == {"coroutine": 4, "stream": 2}
    assert not any(seen.unfinished for seen in log.overlapping)


def test_a_thousand_tasks_lose_and_cross_nothing(recorded: Finish) -> None:
    kept = recorder.range("kept")

    async def work(n: int) -> None:
        with recorder.range("task"):
            await asyncio.sleep(0.001 * (n % 7))
            with kept:
                await asyncio.sleep(0)
            recorder.push(f"pushed {n % 3}")
            await asyncio.sleep(0.001 * (n % 5))
            recorder.pop()

    async def main() -> None:
        await asyncio.gather(*(work(n) for n in range(1000)))

    with recorder.range("loop"), kept:
        asyncio.run(main())
    log = recorded()
    assert log.calls()["task"] == 1000
    assert log.calls()["kept"] == 1001
    assert sum(count for name, count in log.calls().items() if name.startswith("pushed")) == 1000
    assert not any(seen.unfinished for seen in log.ranges + log.overlapping)
    assert not log.notes
    slowest = max((seen for seen in log.overlapping if seen.name == "task"), key=lambda seen: seen.end - seen.begin)
    assert slowest.end - slowest.begin >= 10_000_000
    assert all(seen.end - seen.begin < 5_000_000_000 for seen in log.overlapping)
    assert not recorder.range("kept").elsewhere


def test_a_callback_of_the_loop_nests_on_its_thread(recorded: Finish) -> None:
    async def main() -> None:
        done = asyncio.get_running_loop().create_future()

        def callback() -> None:
            with recorder.range("callback"):
                done.set_result(None)

        asyncio.get_running_loop().call_soon(callback)
        await done

    asyncio.run(main())
    assert only(recorded().ranges).name == "callback"


def test_eight_threads_times_25k_ranges_lose_and_cross_nothing(recorded: Finish) -> None:
    shared = recorder.range("shared")
    barrier = threading.Barrier(8)

    def work(n: int) -> None:
        barrier.wait()
        for _ in range(12_499):
            with recorder.range(f"own {n}"), recorder.range("common"):
                pass
        with shared, recorder.range("common"):
            pass

    threads = [threading.Thread(target=work, args=(n,), name=f"worker {n}") for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.flush()
    here = threading.get_ident()
    assert [state.ident for state in _session.SESSION.states] == [here], "threads that are over are let go"
    log = recorded()
    expected = Counter({f"own {n}": 12_499 for n in range(8)})
    expected.update({"common": 8 * 12_500, "shared": 8})
    assert log.calls() == expected
    assert {line["name"] for line in log.threads.values()} == {
        threading.current_thread().name, *(f"worker {n}" for n in range(8)),
    }  # fmt: skip
    by_thread = Counter(seen.thread for seen in log.ranges)
    assert set(by_thread.values()) == {25_000}
    assert all((seen.parent is None) == (seen.name != "common") for seen in log.ranges)
    assert not log.notes
    assert log.size / len(log.ranges) <= 40


def test_a_kept_range_records_on_the_thread_that_uses_it(recorded: Finish) -> None:
    kept = recorder.range("kept")

    def work(_: int) -> None:
        for _ in range(200):
            with kept, kept:
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
    with kept:
        pass
    log = recorded()
    assert log.calls() == {"kept": 8 * 400 + 1}
    assert len([seen for seen in log.ranges if seen.thread == min(log.threads)]) >= 1
    assert not any(seen.unfinished for seen in log.ranges)
    assert not kept.elsewhere


def test_a_range_kept_from_before_the_start_or_an_earlier_recording_works(recorded: Finish, tmp_path) -> None:
    kept = recorder.range("kept")
    with kept:
        pass
    first = recorded()
    with kept:
        pass
    before = recorder.range("made while off")
    second_path = recorder.start(tmp_path / "second.jsonl", nvtx=False)
    with kept, before, recorder.range("kept"):
        pass
    recorder.stop()
    assert first.calls() == {"kept": 1}
    assert read_log(second_path).calls() == {"kept": 2, "made while off": 1}


def test_start_and_end_may_be_on_different_threads(recorded: Finish) -> None:
    opened = recorder.start_range("request", category="net", payload=7)
    other = recorder.start_range("request")
    thread = threading.Thread(target=recorder.end_range, args=(opened,))
    thread.start()
    thread.join()
    recorder.end_range(other)
    recorder.end_range(other)
    log = recorded()
    first, second = log.overlapping
    assert (first.payload, second.payload) == (7, None)
    assert first.thread != first.end_thread
    assert second.thread == second.end_thread
    assert log.notes == {"end_without_begin": 1}


def test_a_task_ends_no_range_that_another_task_began(recorded: Finish) -> None:
    kept = recorder.range("kept")

    async def begin_and_end() -> None:
        with kept:
            await asyncio.create_task(end_alone())

    async def end_alone() -> None:
        kept.__exit__(None, None, None)

    asyncio.run(begin_and_end())
    log = recorded()
    assert log.calls() == {"kept": 1}
    assert not log.overlapping[0].unfinished
    assert log.notes == {"end_without_begin": 1}


def test_pop_ends_the_last_push_and_by_name_repairs_and_counts_a_crossing(recorded: Finish) -> None:
    for name in ("a", "b", "c"):
        recorder.push(name, payload=name)
    recorder.pop("a")
    recorder.pop("b")
    recorder.push("d")
    recorder.pop()
    recorder.pop()
    log = recorded()
    assert {seen.name: seen.unfinished for seen in log.ranges} == {"a": False, "b": True, "c": True, "d": False}
    assert [seen.payload for seen in log.ranges] == ["a", "b", "c", None]
    assert log.notes == {"range_crossed": 2, "end_without_begin": 2}
    a = log.ranges[0]
    assert all(a.begin <= seen.begin <= seen.end <= a.end for seen in log.ranges[1:3])


def test_pop_by_name_cuts_pushed_payloads_of_a_task_too(recorded: Finish) -> None:
    async def main() -> None:
        recorder.push("outer")
        recorder.push("inner", payload=1)
        await asyncio.sleep(0)
        recorder.pop("outer")

    asyncio.run(main())
    log = recorded()
    assert {seen.name: (seen.payload, seen.unfinished) for seen in log.overlapping} == {
        "outer": (None, False),
        "inner": (1, True),
    }
    assert log.notes == {"range_crossed": 1}


def test_strict_pop_raises_and_changes_nothing(recorded: Finish) -> None:
    with pytest.raises(recorder.CrossedRangeError, match="no open range"):
        recorder.pop(strict=True)
    recorder.push("outer")
    recorder.push("inner")
    with pytest.raises(recorder.CrossedRangeError, match="'outer' is closed while 'inner'"):
        recorder.pop("outer", strict=True)
    recorder.pop("inner", strict=True)
    recorder.pop("outer", strict=True)
    log = recorded()
    assert not any(seen.unfinished for seen in log.ranges)
    assert not log.notes


def test_a_generator_that_crosses_ranges_is_seen_in_the_log(recorded: Finish) -> None:
    def crossing() -> object:
        with recorder.range("in generator"):
            yield

    generator = crossing()
    next(generator)
    recorder.push("later")
    generator.close()
    recorder.pop()
    path = recorder.stop()
    log = read_log(path, clean=False)
    assert log.notes["(reader) crossed"] == 1
    assert (log.kept, log.merged, log.dropped) == (2, 1, 1)


def test_what_is_pushed_at_the_stop_is_unfinished(recorded: Finish) -> None:
    recorder.push("pushed")
    opened = recorder.range("entered").__enter__()
    started = recorder.start_range("started")
    path = recorder.stop()
    opened.__exit__(None, None, None)
    recorder.end_range(started)
    recorder.pop()
    log = read_log(path)
    assert {seen.name: seen.unfinished for seen in log.ranges + log.overlapping} == {
        "pushed": True, "entered": True, "started": True,
    }  # fmt: skip


def test_counters_keep_their_type_and_odd_values(recorded: Finish) -> None:
    class Tensor:
        def __float__(self) -> float:
            return 0.125

    values = [1, 2.5, (1 << 62) + 1, float("nan"), float("-inf"), True, Tensor(), "no number", None]
    for value in values:
        recorder.counter("loss", value)
    log = recorded()
    assert [value for _, _, _, value in log.counters] == [1, 2.5, (1 << 62) + 1, "NaN", "-Infinity", 1, 0.125]
    assert log.notes == {"value_refused": 2}


def test_steps_number_what_starts_in_them(recorded: Finish) -> None:
    with recorder.step():
        pass
    with recorder.step(41), recorder.range("work"):
        pass
    with recorder.step():
        pass
    recorder.set_step(7)
    with recorder.step("nonsense"):  # type: ignore[arg-type]
        pass
    log = recorded()
    assert [number for number, _, _ in log.steps] == [0, -1, 41, -1, 42, -1, 7, 8, -1]
    ranges = [seen for seen in log.ranges if seen.name == "step"]
    begins = [t for number, t, _ in log.steps if number not in (-1, 7)]
    ends = [t for number, t, _ in log.steps if number == -1]
    assert [seen.begin for seen in ranges] == begins
    assert [seen.end for seen in ranges] == ends
    assert {line["kind"] for line in log.names.values() if line["name"] == "step"} == {"step"}
    assert log.notes == {"value_refused": 1}


def test_a_watched_loader_is_the_loader_with_its_reads_timed(recorded: Finish) -> None:
    class Loader(list):
        batch_size = 4

    loader = recorder.watch_loader(Loader([1, 2, 3]))
    assert (len(loader), loader.batch_size, list(loader), list(loader)) == (3, 4, [1, 2, 3], [1, 2, 3])
    log = recorded()
    assert log.calls() == {"dataloader": 8, "dataloader (start)": 2}
    assert {line["kind"] for line in log.names.values()} == {"dataloader"}


def test_a_watcher_hears_of_each_batch_whether_or_not_it_is_recorded(recorded: Finish) -> None:
    heard: list[tuple[object, int]] = []
    numbers = [1, 2, 3]

    def watcher(loader: object, begin: int, end: int) -> None:
        heard.append((loader, end - begin))

    remove = recorder.on_batch(watcher)
    recorder.on_batch(watcher)
    remove_broken = recorder.on_batch(lambda *_: 1 / 0)
    assert list(recorder.watch_loader(numbers)) == numbers
    assert recorded().notes == {"watcher_failed": 3}
    assert list(recorder.watch_loader(numbers)) == numbers
    remove_broken()
    remove()
    assert list(recorder.watch_loader(numbers)) == numbers
    assert len(heard) == 6
    assert all(loader is numbers and took >= 0 for loader, took in heard)


def test_a_range_that_somebody_has_is_not_used_for_another_name(recorded: Finish) -> None:
    """Ranges of names that come once are used again under other names, when nobody has them."""
    kept = [recorder.range(f"kept {n}") for n in range(200)]
    ends = []
    for n in range(200):
        entered = recorder.range(f"entered {n}")
        entered.__enter__()
        ends.append(entered.__exit__)
    del entered
    with contextlib.ExitStack() as stack:
        for n in range(200):
            stack.enter_context(recorder.range(f"open {n}"))
    payloads = [recorder.range(f"payload {n}", payload=n) for n in range(200)]
    for n in range(200):
        with recorder.range(f"once {n}"), kept[n], payloads[n]:
            pass
    for end in reversed(ends):
        end(None, None, None)
    assert [each.name for each in kept] == [f"kept {n}" for n in range(200)]
    assert len({id(each) for each in kept}) == 200
    log = recorded()
    kinds = ("kept", "entered", "open", "once", "payload")
    assert log.calls() == Counter({f"{kind} {n}": 1 for kind in kinds for n in range(200)})
    assert all(seen.name == f"payload {seen.payload}" for seen in log.ranges if seen.payload is not None)
    assert not any(seen.unfinished for seen in log.ranges)


def test_forgotten_names_get_new_ids_and_kept_ranges_go_on(recorded: Finish, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.RECORDED_NAMES, 10)
    kept = recorder.range("kept")
    with kept:
        for n in range(35):
            with recorder.range(f"name {n}"), kept:
                pass
    log = recorded()
    assert log.calls() == Counter({f"name {n}": 1 for n in range(35)} | {"kept": 36})
    assert len(log.names) > 36
    assert not any(seen.unfinished for seen in log.ranges)


def test_with_recording_off_nothing_is_kept_and_nothing_fails() -> None:
    recorder.stop()
    assert not recorder.is_recording()
    assert recorder.log_path() is None
    with recorder.range("x", payload={"a": 1}), recorder.step(), recorder.range("y", kind="forward"):
        recorder.mark("m")
        recorder.counter("c", 1)
        recorder.push("p")
        recorder.pop()
        recorder.pop("q")
        recorder.end_range(recorder.start_range("r"))
    recorder.flush()
    assert _session.SESSION.events == []
    assert _session.SESSION.new_names == []
    assert _session.SESSION.states == []
    assert type(recorder.range("x")) is recorder.Range


@pytest.mark.parametrize("base", [10**13, 10**16 + 1, 2 * 10**17, 123_999_999_999_000_000])
def test_an_offset_shortens_long_times_and_changes_none(base: int) -> None:
    import orjson

    items = [value for n in range(2000) for value in (1_234 + n % 7, base + 500_017 * n)]
    extras = [(items[20], items[21], '{"a":1}'), (9, 5, "1")]
    (line,) = _jsonl.range_lines(3, items, extras)
    row = orjson.loads(line)
    assert row["t"] == 3
    assert [value + (row.get("o", 0) if n % 2 else 0) for n, value in enumerate(row["x"])] == items
    assert row["p"] == [[10, {"a": 1}]]
    assert extras == [(9, 5, "1")]
    same_second = base // 10**9 == items[-1] // 10**9
    assert ("o" in row) == (base > 10**14 and same_second)


def test_a_batch_longer_than_a_line_is_cut_into_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    import orjson

    small(monkeypatch, Limit.LOG_ITEMS_A_LINE, 10)
    items = [value for n in range(25) for value in (1, 1000 + n)]
    extras = [(1, 1003, "3"), (1, 1014, None), (1, 1024, "24")]
    rows = [orjson.loads(line) for line in _jsonl.range_lines(0, items, extras)]
    assert [value for row in rows for value in row["x"]] == items
    assert [(row.get("p"), row.get("u")) for row in rows] == [([[3, 3]], None), (None, [4]), ([[4, 24]], None)]
    assert extras == []


@pytest.mark.parametrize("locked", [True, False])
def test_no_two_threads_get_the_same_number(locked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, threads and overlapping ranges are numbered; without the interpreter lock, too, each has its own."""
    monkeypatch.setattr(_session.sys, "_is_gil_enabled", lambda: locked, raising=False)
    numbers = _session.numbers_from(1)
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: [next(numbers) for _ in range(2000)], range(8)))
    assert sorted(number for part in taken for number in part) == list(range(1, 16_001))


def test_faults_that_threads_count_together_are_all_counted(recorded: Finish) -> None:
    def work(_: int) -> None:
        for _ in range(500):
            recorder.counter("loss", "no number")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert recorded().notes == {"value_refused": 4000}


def test_a_step_has_the_samples_that_the_program_counts(recorded: Finish) -> None:
    with recorder.step(samples=32), recorder.step(name="inner", samples="many"):  # type: ignore[arg-type]
        pass

    async def later() -> None:
        with recorder.step(samples=np.int64(16)):  # type: ignore[arg-type]
            pass

    asyncio.run(later())
    log = recorded()
    payloads = {(seen.name, str(seen.payload)) for seen in log.ranges + log.overlapping}
    assert payloads == {("step", "{'num_samples': 32}"), ("inner", "None"), ("step", "{'num_samples': 16}")}
    assert log.notes == {"value_refused": 1}

"""Copies and pickles of what the recorder hands out: each records like the original, in whatever process it is used."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from recorder.programs import logs, run
from recorder.reading import Log, read_log
from support import missing

from tracekit import recorder

Finish = Callable[[], Log]


def through_pickle(protocol: int) -> Callable[[Any], Any]:
    return lambda value: pickle.loads(pickle.dumps(value, protocol))


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "in a list": lambda value: copy.deepcopy([value])[0],
    **{f"pickle {protocol}": through_pickle(protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)},
}


@pytest.fixture(params=list(COPIES))
def copied(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return COPIES[request.param]


def use(range_: recorder.Range, times: int) -> None:
    for _ in range(times):
        with range_:
            pass


def test_a_copy_of_a_range_records_like_any_other(recorded: Finish, copied: Callable[[Any], Any]) -> None:
    kept = recorder.range("kept", kind="forward", category="model", color="#76b900")
    use(kept, 1)
    use(copied(kept), 1000)
    log = recorded()
    assert log.calls() == {"kept": 1001}
    assert not any(seen.unfinished for seen in log.ranges)
    (line,) = log.names.values()
    assert (line["kind"], line["category"], line["color"]) == ("forward", "model", "#76B900")


def test_a_copy_of_a_range_with_a_payload_has_a_payload_of_its_own(
    recorded: Finish, copied: Callable[[Any], Any]
) -> None:
    payload = {"batch": [1]}
    made = recorder.range("save", category="io", payload=payload)
    other = copied(made)
    use(made, 2)
    use(other, 3)
    log = recorded()
    assert [seen.payload for seen in log.ranges] == [payload] * 5
    assert not log.notes


def test_a_copy_of_an_open_range_is_not_open(recorded: Finish, copied: Callable[[Any], Any]) -> None:
    kept = recorder.range("kept")
    with kept, recorder.range("payload", payload=1) as open_range, recorder.step(4) as step:
        with copied(kept), copied(open_range):
            pass
        with copied(step):
            pass
    log = recorded()
    assert log.calls() == {"kept": 2, "payload": 2, "step": 2}
    assert not any(seen.unfinished for seen in log.ranges)
    assert not log.notes


def test_a_range_copied_while_off_or_in_an_earlier_recording_records_in_the_next(
    recorded: Finish, copied: Callable[[Any], Any], tmp_path: Path
) -> None:
    early = copied(recorder.range("early"))
    recorded()
    while_off = copied(recorder.range("while off", payload=[1]))
    path = recorder.start(tmp_path / "second.jsonl", nvtx=False)
    use(early, 2)
    use(while_off, 3)
    recorder.stop()
    assert path is not None
    assert read_log(path).calls() == {"early": 2, "while off": 3}


def test_a_range_that_may_overlap_has_one_end_however_often_it_is_copied(
    recorded: Finish, copied: Callable[[Any], Any]
) -> None:
    opened = recorder.start_range("request")
    other = copied(opened)
    recorder.end_range(opened)
    recorder.end_range(other)
    log = recorded()
    assert [(seen.name, seen.unfinished) for seen in log.overlapping] == [("request", False)]
    assert log.notes == {"end_without_begin": 1}


class Guarded:
    """A loader with special methods of its own, which a wrapper must not take for its own."""

    batch_size = 4

    def __init__(self, items: Iterable[int]) -> None:
        self.items = list(items)

    def __iter__(self) -> Iterator[int]:
        return iter(self.items)

    def __deepcopy__(self, memo: dict[int, object]) -> Guarded:
        return Guarded(self.items)

    def __reduce_ex__(self, protocol: object) -> tuple[type[Guarded], tuple[list[int]]]:
        return Guarded, (self.items,)

    def __setstate__(self, state: object) -> None:
        raise AssertionError("the state of another object")


@pytest.mark.parametrize("loader", [[1, 2, 3], range(1, 4), Guarded([1, 2, 3])], ids=["list", "range", "guarded"])
def test_a_copy_of_a_watched_loader_is_watched(
    recorded: Finish, copied: Callable[[Any], Any], loader: Iterable[int]
) -> None:
    watched = recorder.watch_loader(loader, name="batches")
    other = copied(watched)
    assert type(other) is type(watched)
    assert list(other) == [1, 2, 3]
    assert getattr(other, "batch_size", None) == getattr(loader, "batch_size", None)
    assert recorded().calls() == {"batches (start)": 1, "batches": 4}


def test_a_copy_of_a_watched_iterator_goes_on_where_the_original_is(
    recorded: Finish, copied: Callable[[Any], Any]
) -> None:
    found = iter(recorder.watch_loader([1, 2, 3]))
    assert next(found) == 1
    assert list(copied(found)) == [2, 3]
    assert recorded().calls() == {"dataloader (start)": 1, "dataloader": 4}


def test_what_the_inner_loader_cannot_do_stays_its_own_error(recorded: Finish) -> None:
    with pytest.raises(TypeError, match="generator"):
        pickle.dumps(recorder.watch_loader(n for n in range(3)))
    with pytest.raises(AttributeError, match="'range' object has no attribute 'nothing'"):
        _ = recorder.watch_loader(range(3)).nothing
    recorded()


def test_a_payload_range_shared_by_threads_loses_nothing(recorded: Finish) -> None:
    from concurrent.futures import ThreadPoolExecutor

    shared = recorder.range("shared", payload={"n": 1})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: use(shared, 300), range(8)))
    use(shared, 100)
    with shared, shared:
        pass
    log = recorded()
    assert log.calls() == {"shared": 2502}
    assert not any(seen.unfinished for seen in log.ranges)
    assert Counter(seen.payload["n"] for seen in log.ranges) == {1: 2502}


def test_a_payload_range_entered_in_one_recording_ends_in_no_other(recorded: Finish, tmp_path: Path) -> None:
    made = recorder.range("x", payload=1)
    made.__enter__()
    path = recorder.stop()
    while_off = recorder.range("y", payload=2)
    while_off.__enter__()
    second = recorder.start(tmp_path / "second.jsonl", nvtx=False)
    made.__exit__(None, None, None)
    while_off.__exit__(None, None, None)
    recorder.stop()
    assert [seen.unfinished for seen in read_log(path).ranges] == [True]
    log = read_log(second)
    assert (log.ranges, log.dropped) == ([], 0)


@pytest.mark.parametrize("size", [10, 20_000, 70_000])
@pytest.mark.parametrize("letter", ["a", "\u00e4", "\U0001f600"])
def test_a_long_payload_is_kept_up_to_its_bytes(recorded: Finish, letter: str, size: int) -> None:
    with recorder.range("x", payload=letter * size):
        pass
    log = recorded()
    whole = len(letter.encode()) * size + 2 <= 64 * 1024
    assert (log.ranges[0].payload == letter * size) == whole
    assert log.notes == ({} if whole else {"payload_cut": 1})


# Other processes


WORKER = """
import multiprocessing, sys
from tracekit import recorder as r

def work(kept, saving, loader):
    for _ in range(10):
        with kept: pass
    with saving: pass
    assert list(loader) == [1, 2]

if __name__ == "__main__":
    r.start("run.jsonl", nvtx=False)
    kept, saving = r.range("kept", kind="forward"), r.range("save", payload={"n": 1})
    loader = r.watch_loader([1, 2])
    with kept:
        worker = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(kept, saving, loader), name="it")
        worker.start()
        worker.join()
    assert worker.exitcode == 0
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_get_ranges_and_watched_loaders(tmp_path: Path, method: str) -> None:
    done = run(tmp_path, WORKER.replace("sys.argv[1]", repr(method)))
    assert (done.returncode, done.stderr) == (0, "")
    by_name = {log.head["process"]: log for log in logs(tmp_path, clean=False).values() if log.names}
    assert by_name["program.py"].calls() == {"kept": 1}
    worker = by_name["it"]
    assert worker.calls() == {"kept": 10, "save": 1, "dataloader (start)": 1, "dataloader": 3}
    assert [seen.payload for seen in worker.ranges if seen.name == "save"] == [{"n": 1}]
    assert {line["name"]: line.get("kind") for line in worker.names.values()}["kept"] == "forward"
    assert worker.ended


@pytest.fixture
def torch() -> Any:
    if find_spec("torch") is None:
        missing("torch is not installed (pip install torch==2.13.0)")
    import torch

    return torch


def test_a_deep_copy_and_a_saved_copy_of_a_model_that_holds_ranges(recorded: Finish, torch: Any) -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.timed = recorder.range("block", kind="forward")
            self.noted = recorder.range("noted", payload=[1])

        def forward(self, x: Any) -> Any:
            with self.timed, self.noted:
                return self.linear(x)

    globals()["Block"] = Block  # pickle finds classes by their names
    Block.__qualname__ = "Block"
    model = torch.nn.Sequential(Block(), Block())
    average = torch.optim.swa_utils.AveragedModel(model)  # it copies the model deeply
    saved = io.BytesIO()
    torch.save(model, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=False)
    for each in (model, copy.deepcopy(model), average, loaded):
        each(torch.ones(2, 4))
    del globals()["Block"]
    log = recorded()
    assert log.calls() == {"block": 8, "noted": 8}
    assert not log.notes


def test_a_copy_of_a_loader_that_makes_steps_makes_its_own(
    recorded: Finish, torch: Any, copied: Callable[[Any], Any]
) -> None:
    from tracekit.recorder.torch import watch

    with watch(torch.nn.Linear(1, 1), dataloader=[1, 2]) as watching:
        found = iter(watching.dataloader)
        assert next(found) == 1
        assert list(copied(found)) == [2]
        del found
        assert list(copied(watching.dataloader)) == [1, 2]
    log = recorded()
    assert log.calls() == {"dataloader (start)": 2, "dataloader": 6, "step": 4}
    assert not any(seen.unfinished for seen in log.overlapping)
    assert not log.notes


def test_copies_are_let_go(recorded: Finish) -> None:
    """A copy is a range of its name, so that a loop that copies does not make the recorder remember more."""
    kept = recorder.range("kept")
    assert len({id(copy.deepcopy(kept)) for _ in range(100)}) == 1
    gc.collect()
    recorded()

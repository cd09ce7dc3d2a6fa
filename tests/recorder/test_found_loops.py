"""Loops whose loader, model and optimizer nobody named: what is a step, what is none, and how many samples it has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorder.reading import Log
from support import missing

from tracekit import recorder
from tracekit.recorder.hooks.batch_sizes import BatchSizes
from tracekit.recorder.torch import watch, watch_program

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

Finish = Callable[[], Log]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    if torch is None:
        missing("torch is not installed (pip install torch==2.13.0)")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    places = (torch.utils.data.DataLoader, iterator, torch.autograd)
    before = [dict(vars(place)) for place in places]
    yield
    torch.set_num_threads(threads)
    assert [dict(vars(place)) for place in places] == before, "a watch left something"


class Rows:
    """A data set of rows that counts its length."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> Any:
        if not 0 <= place < self.count:
            raise IndexError
        return torch.full((4,), float(place))


def loader(count: int = 20, size: int = 8, **options: Any) -> Any:
    return torch.utils.data.DataLoader(Rows(count), batch_size=size, **options)


def model_and_optimizer() -> tuple[Any, Any]:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    return net, torch.optim.SGD(net.parameters(), lr=0.01)


def train_on(net: Any, optimizer: Any, batch: Any) -> None:
    optimizer.zero_grad()
    net(batch).square().mean().backward()
    optimizer.step()


def steps(log: Log) -> list[Any]:
    return sorted((seen for seen in log.overlapping if seen.name == "step"), key=lambda seen: seen.begin)


def samples(log: Log, name: str = "step") -> list[int | None]:
    seen = sorted((seen for seen in log.overlapping if seen.name == name), key=lambda seen: seen.begin)
    return [(each.payload or {}).get("num_samples") for each in seen]


# watch without a loader


def test_a_watch_finds_the_loader(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    with watch(net, optimizer=optimizer):
        for _ in range(2):
            for batch in loader():
                train_on(net, optimizer, batch)
    log = recorded()
    assert log.calls() == {
        "step": 6, "dataloader": 8, "dataloader (start)": 2, "forward": 6, "backward": 6, "optimizer": 6,
    }  # fmt: skip
    assert samples(log) == [8, 8, 4] * 2
    assert [number for number, *_ in sorted(log.steps, key=lambda item: item[1])] == [
        0, -1, 1, -1, 2, -1, 3, -1, 4, -1, 5, -1,
    ]  # fmt: skip
    fetched = [seen for seen in log.ranges if seen.name == "dataloader"]
    for step in steps(log):
        assert any(step.begin <= seen.begin and seen.end <= step.end for seen in fetched), (
            "a step begins with its batch"
        )
    assert not log.notes


def test_a_watch_that_makes_no_steps_finds_the_loader_too(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    with watch(net, optimizer=optimizer, steps=False):
        for batch in loader():
            with recorder.step():
                train_on(net, optimizer, batch)
    calls = recorded().calls()
    assert (calls["step"], calls["dataloader"], calls["batch"]) == (3, 4, 0)


def test_a_watch_with_its_loader_says_the_samples_as_well(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    given = loader()
    with watch(net, optimizer=optimizer, dataloader=given):
        for batch in given:
            train_on(net, optimizer, batch)
    assert samples(recorded()) == [8, 8, 4]


# The program as a whole


def test_batches_that_are_not_trained_on_are_no_steps(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    with watch_program():
        for _ in range(2):  # the try before the training, which trainers do
            with torch.no_grad():
                for batch in loader(16):
                    net(batch)
        for batch in loader():
            train_on(net, optimizer, batch)
        with torch.no_grad():
            for batch in loader():
                net(batch)
    log = recorded()
    assert (log.calls()["step"], log.calls()["batch"]) == (3, 7)
    assert samples(log) == [8, 8, 4]


@pytest.mark.parametrize("count", [5, 80])
def test_batches_of_a_program_that_never_trains_are_its_steps(recorded: Finish, count: int) -> None:
    net, _ = model_and_optimizer()
    with watch_program(), torch.inference_mode():
        for batch in loader(count, 1):
            net(batch)
    log = recorded()
    assert (log.calls()["step"], log.calls()["batch"], log.calls()["forward"]) == (count, 0, count)
    assert samples(log) == [1] * count


def test_a_loader_inside_the_step_of_another_one_makes_no_step(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    with watch_program():
        for batch in loader():
            train_on(net, optimizer, batch)
            with torch.no_grad():
                for held_out in loader(8, 4):
                    net(held_out)
        for one, _ in zip(loader(), loader(), strict=True):
            train_on(net, optimizer, one)
    log = recorded()
    assert (log.calls()["step"], log.calls()["batch"]) == (6, 0)
    assert log.calls()["dataloader"] == 4 + 3 * 3 + 8


def test_a_loop_that_is_left_ends_its_step_there(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    with watch_program():
        for batch in loader():
            train_on(net, optimizer, batch)
            break
        time.sleep(0.05)
        for batch in loader():
            train_on(net, optimizer, batch)
    log = recorded()
    assert len(steps(log)) == 4
    assert steps(log)[0].end - steps(log)[0].begin < 45_000_000


def test_several_batches_for_one_optimizer_step_are_a_step_each(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    with watch_program():
        for number, batch in enumerate(loader(32)):
            net(batch).mean().backward()
            if number % 2:
                optimizer.step()
    assert recorded().calls()["step"] == 4


def test_optimizers_that_take_turns_make_one_step(recorded: Finish) -> None:
    (one, first), (two, second) = model_and_optimizer(), model_and_optimizer()
    batch = torch.randn(8, 4)
    with watch_program():
        for _ in range(3):
            train_on(one, first, batch)
            train_on(two, second, batch)
    log = recorded()
    assert (log.calls()["step"], log.calls()["optimizer"]) == (3, 6)
    optimizers = [seen for seen in log.ranges if seen.name == "optimizer"]
    for number, step in enumerate(steps(log)):
        assert step.begin <= optimizers[2 * number].begin < optimizers[2 * number + 1].end <= step.end
    assert samples(log) == [None] * 3, "without a loader nobody says how many"


def test_steps_that_the_program_numbers_itself_stay_alone(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    with watch_program():
        for batch in loader():
            with recorder.step():
                train_on(net, optimizer, batch)
    assert recorded().calls()["step"] == 3


def test_a_watch_of_the_program_inside_of_it_records_once(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    given = loader()
    with watch_program(), watch(net, optimizer=optimizer, dataloader=given):
        for batch in given:
            train_on(net, optimizer, batch)
    log = recorded()
    expected = {"step": 3, "dataloader": 4, "dataloader (start)": 1, "forward": 3, "backward": 3, "optimizer": 3}
    assert log.calls() == expected


def test_losses_transforms_and_parts_are_no_models(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    whiten = nn.BatchNorm1d(4)

    class Transformed(Rows):
        def __getitem__(self, place: int) -> Any:
            return whiten.eval()(super().__getitem__(place)[None])[0].detach()

    with watch_program():
        for batch in torch.utils.data.DataLoader(Transformed(16), batch_size=8):
            optimizer.zero_grad()
            nn.MSELoss()(net(batch), torch.zeros(8, 1)).backward()
            optimizer.step()
    log = recorded()
    assert (log.calls()["forward"], log.calls()["loss"]) == (2, 2)
    assert {name["category"] for name in log.names.values() if name["name"] == "forward"} == {"Sequential"}


def test_verbosity_2_has_the_modules_of_every_model(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    with watch_program(verbosity=2):
        train_on(net, optimizer, torch.randn(8, 4))
    log = recorded()
    assert {"0.forward", "2.forward", "0.backward", "2.backward"} <= {*log.calls()}
    assert not log.notes


def test_models_are_freed_as_ever(recorded: Finish) -> None:
    import gc
    import weakref

    with watch_program(verbosity=2):
        net, optimizer = model_and_optimizer()
        train_on(net, optimizer, torch.randn(8, 4))
        gone = weakref.ref(net)
        del net, optimizer
        gc.collect()
        assert gone() is None
        for _ in range(50):  # the dict of a module that is gone may have the id of another one
            nn.MSELoss()(torch.zeros(2), torch.zeros(2))
    calls = recorded().calls()
    assert (calls["forward"], calls["loss"]) == (1, 50)


def test_workers_that_persist_begin_a_pass_each_time(recorded: Finish) -> None:
    net, optimizer = model_and_optimizer()
    given = loader(num_workers=1, persistent_workers=True)
    with watch_program():
        for _ in range(2):
            for batch in given:
                train_on(net, optimizer, batch)
    log = recorded()
    assert samples(log) == [8, 8, 4] * 2
    assert log.calls()["dataloader (start)"] == 1


def test_errors_of_a_loader_reach_the_program(recorded: Finish) -> None:
    class Bad(Rows):
        def __getitem__(self, place: int) -> Any:
            if place == 9:
                raise RuntimeError("bad row")
            return super().__getitem__(place)

    net, optimizer = model_and_optimizer()
    with watch_program():
        batches = iter(torch.utils.data.DataLoader(Bad(20), batch_size=8))
        train_on(net, optimizer, next(batches))
        with pytest.raises(RuntimeError, match="bad row"):
            next(batches)
    log = recorded()
    assert log.calls()["step"] == 1
    assert not [seen for seen in log.ranges + log.overlapping if seen.unfinished]


# Samples


def sizes(given: Any, batches: list[Any]) -> list[int | None]:
    counted = BatchSizes(given)
    return [counted.next(batch) for batch in batches]


def tensor(*shape: int) -> SimpleNamespace:
    return SimpleNamespace(shape=shape)


def test_a_loader_with_a_sampler_knows_its_samples_whatever_its_batches_are_like() -> None:
    assert sizes(loader(20, 8), [tensor(1, 99)] * 3) == [8, 8, 4], "packed sequences"
    assert sizes(loader(20, 8, drop_last=True), [None] * 2) == [8, 8]


def test_a_stream_shows_its_samples_where_its_tensors_agree() -> None:
    stream = SimpleNamespace(batch_size=8, batch_sampler=None)
    assert sizes(stream, [(tensor(8, 4), tensor(8)), (tensor(3, 4), tensor(3))]) == [8, 3]
    assert sizes(stream, [{"x": tensor(8, 4), "names": ["a"] * 8}]) == [8]
    assert sizes(stream, [tensor(1, 700), tensor(1, 800)]) == [None, None], "packed: one row has all samples"
    assert sizes(stream, [tensor(8, 4), tensor(800, 4)]) == [8, None], "flattened"


def test_a_loader_that_makes_no_batches_is_believed_where_several_tensors_agree() -> None:
    single = SimpleNamespace(batch_size=None, batch_sampler=None)
    assert sizes(single, [(tensor(16, 3, 8, 8), tensor(16))]) == [16], "the data set gives whole batches"
    assert sizes(single, [(tensor(3, 8, 8), tensor())]) == [None], "one image and its label"
    assert sizes(single, [tensor(3, 8, 8), 7, object(), None, []]) == [None] * 5


def test_a_batch_sampler_of_ones_own_is_not_believed() -> None:
    class Buckets:
        batch_size, sampler = 8, range(20)

    own = SimpleNamespace(batch_size=None, batch_sampler=Buckets())
    assert sizes(own, [(tensor(5, 2), tensor(5))]) == [None]
    assert sizes(own, [(tensor(8, 2), tensor(8)), (tensor(5, 2), tensor(5))]) == [8, 5]


def test_the_view_has_the_samples_of_a_second(recorded: Finish, tmp_path: Path) -> None:
    from tracekit import pipeline

    net, optimizer = model_and_optimizer()
    with watch_program():
        for batch in loader(160):
            train_on(net, optimizer, batch)
            time.sleep(0.01)
    recorded()
    (path,) = tmp_path.glob("run*")
    report = pipeline.summary(pipeline.read(str(path)), views=["benchmark"])
    (speed,) = [table for table in report.sections[0].tables if table.name == "ips"]
    row = {column.name: column.values[0] for column in speed.columns}
    assert row["unit"] == "samples/s"
    assert 100 < row["avg"] < 8 / 0.01

"""Watched torch loops on the CPU: what is counted, how it nests, what it leaves alone. torch.profiler is the oracle."""

from __future__ import annotations

import copy
import gc
import io
import json
import pickle
import re
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from doors.recorder import torch_module_calls as _module_calls
from recorder.reading import Log, Seen
from support import missing

from tracekit import pipeline, recorder
from tracekit.recorder.torch import watch

try:
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint
except ImportError:
    torch = None
    nn = None

Finish = Callable[[], Log]
BATCHES, EPOCHS = 3, 2
STEPS = BATCHES * EPOCHS
KINDS = ("step", "dataloader", "forward", "backward", "optimizer")


@pytest.fixture(autouse=True)
def torch_is_here() -> Iterator[None]:
    if torch is None:
        missing("torch is not installed (pip install torch==2.13.0)")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    before = hooks_of_torch()
    yield
    torch.set_num_threads(threads)
    assert hooks_of_torch() == before, "a watch left something"


def hooks_of_torch() -> list[object]:
    modules = torch.nn.modules.module
    tables = [modules._global_forward_pre_hooks, modules._global_forward_hooks, modules._global_backward_hooks]
    functions = [torch.autograd.backward, torch.Tensor.backward, torch.utils.data.DataLoader.__iter__]
    ours = re.escape(_module_calls.COMPILED)
    filters = [entry for entry in warnings.filters if getattr(entry[1], "pattern", None) == ours]
    return [*map(dict, tables), *functions, filters, nn.Module.__call__]


def block(width: int) -> Any:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.norm = nn.Linear(width, width), nn.BatchNorm1d(width)
            self.relu, self.b, self.same = nn.ReLU(inplace=True), nn.Linear(width, width), nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.same(self.b(self.relu(self.norm(self.a(x))))) + x

    return Block()


def network(again: str = "no") -> Any:
    """A net with in-place layers, a shared layer, nested containers, two results; again: gradient checkpointing."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 8)
            self.blocks = nn.ModuleList([block(8), block(8)])
            self.shared = nn.Linear(8, 8)
            self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Sequential(nn.Linear(8, 2)))

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for each in self.blocks:
                x = each(x) if again == "no" else checkpoint(each, x, use_reentrant=again == "reentrant")
            x = self.shared(torch.relu(self.shared(x)))
            return {"logits": self.head(x), "features": (x,)}

    return Net()


def batches(cls: Any = None) -> Any:
    data = torch.utils.data.TensorDataset(torch.randn(8 * BATCHES, 4), torch.randint(0, 2, (8 * BATCHES,)))
    return (cls or torch.utils.data.DataLoader)(data, batch_size=8)


def loss_of(net: Any, x: Any, target: Any) -> Any:
    found = net(x)
    return nn.functional.cross_entropy(found["logits"], target) + found["features"][0].square().mean()


def train(net: Any, optimizer: Any, loader: Any, *, after: Callable[[], object] = lambda: None) -> None:
    for _ in range(EPOCHS):
        for x, target in loader:
            optimizer.zero_grad()
            loss_of(net, x, target).backward()
            optimizer.step()
            after()


def sgd(net: Any) -> Any:
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def within(seen: Seen) -> list[str]:
    """The names of what a range lies in, the innermost first."""
    found, around = [], seen.parent
    while around is not None:
        found.append(around.name)
        around = around.parent
    return found


def unfinished(log: Log) -> list[str]:
    return [seen.name for seen in log.ranges + log.overlapping if seen.unfinished]


def steps_with(events: list[dict[str, Any]], name: str) -> set[str]:
    """The steps of torch's profiler in which an event of that name lies."""
    times = [event["ts"] for event in events if event.get("name") == name]
    return {
        event["name"]
        for event in events
        if event.get("name", "").startswith("ProfilerStep#")
        and any(event["ts"] <= time < event["ts"] + event["dur"] for time in times)
    }


# What is counted


def test_calls_equal_those_that_torch_counts_for_the_same_loop(recorded: Finish, tmp_path: Path) -> None:
    net, loader = network(), batches()
    optimizer = sgd(net)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    always = torch.profiler.ProfilerAction.RECORD
    with (
        torch.profiler.profile(activities=cpu, schedule=lambda _: always, with_stack=True) as profiler,
        watch(net, optimizer=optimizer, dataloader=loader, verbosity=2),
    ):
        train(net, optimizer, loader, after=profiler.step)
    profiler.export_chrome_trace(str(tmp_path / "torch.json"))
    path = recorder.log_path()
    log = recorded()
    events = json.loads((tmp_path / "torch.json").read_text(encoding="utf-8"))["traceEvents"]
    torchs = Counter(event["name"] for event in events if event.get("ph") == "X")
    ours = log.calls()

    assert path is not None
    report = pipeline.summary(pipeline.read([path]), views=["overview"])
    table = report.sections[0].tables[0]
    columns = {column.name: column.values for column in table.columns}
    summary = dict(zip(columns["kind"], columns["calls"], strict=True))
    assert summary["forward"] == torchs["nn.Module: Net_0"] == STEPS
    assert summary["backward"] == torchs["autograd::engine::evaluate_function: NllLossBackward0"] == STEPS
    assert summary["optimizer"] == torchs["Optimizer.step#SGD.step"] == STEPS
    # The last call of profiler.step() begins one more, in which nothing is trained.
    assert summary["step"] == profiler.step_num == len(steps_with(events, "Optimizer.step#SGD.step")) == STEPS
    fetched = torchs["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"]
    assert ours["dataloader"] == fetched == STEPS + EPOCHS

    names = {name: type(module).__name__ for name, module in net.named_modules() if name}
    forward, backward = Counter(), Counter()
    for name, kind in names.items():
        forward[kind] += ours[f"{name}.forward"]
        backward[kind] += ours[f"{name}.backward"]
    for kind in ("Linear", "BatchNorm1d", "ReLU", "Tanh", "Identity", "Sequential", "Block"):
        of_torch = sum(count for name, count in torchs.items() if name.startswith(f"nn.Module: {kind}_"))
        assert forward[kind] == of_torch > 0, kind
    nodes = {"Linear": "AddmmBackward0", "BatchNorm1d": "NativeBatchNormBackward0", "Tanh": "TanhBackward0"}
    for kind, node in nodes.items():
        assert backward[kind] == torchs[f"autograd::engine::evaluate_function: {node}"] > 0, kind
    assert backward["Identity"] == 0
    assert ours["Net.backward"] == ours["head.backward"] == ours["blocks.0.backward"] == STEPS
    assert not unfinished(log)
    assert not log.notes


def test_verbosity_1_is_the_phases_alone(recorded: Finish) -> None:
    net, loader = network(), batches()
    optimizer = sgd(net)
    with watch(net, optimizer=optimizer, dataloader=loader):
        train(net, optimizer, loader)
    log = recorded()
    assert {name["kind"] for name in log.names.values()} == set(KINDS)
    assert log.calls() == {
        "step": STEPS, "forward": STEPS, "backward": STEPS, "optimizer": STEPS, "dataloader": STEPS + EPOCHS,
        "dataloader (start)": EPOCHS,
    }  # fmt: skip


def test_nothing_is_recorded_before_or_after_or_while_the_recorder_is_off(recorded: Finish, tmp_path: Path) -> None:
    net, loader = network(), batches()
    optimizer = sgd(net)
    train(net, optimizer, loader)
    before = hooks_of_torch()
    watching = watch(net, optimizer=optimizer, dataloader=loader, verbosity=2)
    assert watching.active
    changed = [now != then for now, then in zip(hooks_of_torch(), before, strict=True)]
    assert changed == [True, True, False, True, False, True, True, False], "or the fixture looks at the wrong things"
    kept = loss_of(net, torch.randn(8, 4), torch.zeros(8, dtype=torch.long))
    watching.remove()
    watching.remove()
    assert not watching.active
    kept.backward()  # its graph still has the hooks
    train(net, optimizer, loader)
    calls = recorded().calls()
    assert calls["forward"] == 1
    assert not [name for name in calls if name.endswith("backward") or name in ("dataloader", "optimizer", "step")]
    with watch(net, optimizer=optimizer, dataloader=loader, verbosity=2):
        train(net, optimizer, loader)
        recorder.start(tmp_path / "later.jsonl", nvtx=False)
        train(net, optimizer, loader)
    later = recorded_at(recorder.stop())
    assert later.calls()["first.backward"] == STEPS
    assert later.notes == {}


def recorded_at(path: Path | None) -> Log:
    from recorder.reading import read_log

    assert path is not None
    return read_log(path)


# Nesting


@pytest.mark.parametrize("again", ["no", "reentrant", "non-reentrant"])
def test_modules_nest_as_they_are_built(recorded: Finish, again: str) -> None:
    net, loader = network(again), batches()
    optimizer = sgd(net)
    with watch(net, optimizer=optimizer, dataloader=loader, verbosity=2):
        train(net, optimizer, loader)
    log = recorded()
    assert not unfinished(log)
    assert not log.notes
    for seen in log.ranges:
        path, _, phase = seen.name.rpartition(".")
        if phase not in ("forward", "backward") or not path:
            continue
        holder = path.rpartition(".")[0]
        holder = "" if holder == "blocks" else holder  # a ModuleList is not called
        around = within(seen)
        if phase == "backward":
            expected = "backward" if path == "Net" else f"{holder or 'Net'}.backward"
            assert around[0] == expected, (seen.name, around)
            assert around[-1] == "backward"
        elif holder:
            assert around[0] == f"{holder}.forward"
        else:
            assert around[0] == "forward" or (path.startswith("blocks") and "Net.backward" in around)
    computed = 1 if again == "no" else 2
    calls = log.calls()
    assert calls["blocks.0.a.forward"] == computed * STEPS
    assert calls["blocks.0.a.backward"] == calls["blocks.1.b.backward"] == STEPS
    assert calls["backward"] == STEPS  # the inner ones of checkpointing are part of it
    assert calls["shared.backward"] == 2 * STEPS
    for step in (seen for seen in log.overlapping if seen.name == "step"):
        inside = [seen.name for seen in log.ranges if step.begin <= seen.begin < step.end and seen.parent is None]
        assert [name for name in inside if "(" not in name] == ["dataloader", "forward", "backward", "optimizer"]


def test_a_backward_takes_its_own_time_and_not_its_neighbours(recorded: Finish) -> None:
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            threading.Event().wait(0.05)
            return grad

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Any) -> Any:
            x = self.a(x)
            slow = Slow.apply(x)  # runs behind c's and b's, before a's backward
            return slow + self.c(self.b(x))

    net = Net()
    with watch(net, verbosity=2):
        net(torch.randn(2, 4)).sum().backward()
    log = recorded()
    took = {seen.name: seen.end - seen.begin for seen in log.ranges}
    assert took["Net.backward"] > 50_000_000
    assert max(took[f"{name}.backward"] for name in "abc") < 40_000_000
    order = [seen.name for seen in log.ranges if seen.name.endswith(".backward")]
    assert order == ["Net.backward", "c.backward", "b.backward", "a.backward"]


def test_graphs_run_twice_and_gradients_by_autograd_grad(recorded: Finish) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    with watch(net, verbosity=2):
        result = net(torch.randn(2, 4)).sum()
        result.backward(retain_graph=True)
        result.backward()
        torch.autograd.grad(net(torch.randn(2, 4)).sum(), net[0].weight)
    log = recorded()
    calls = log.calls()
    assert calls["backward"] == 2
    assert calls["0.backward"] == calls["1.backward"] == calls["Sequential.backward"] == 3
    assert not unfinished(log)


def test_a_model_that_runs_again_within_a_gradient_leaves_the_backward_around_it_open(recorded: Finish) -> None:
    """`torch.autograd.grad` has no range of its own: the backward of modules is then the outermost range."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    x = torch.randn(2, 4)
    with watch(net, verbosity=2):
        torch.autograd.grad(net(checkpoint(net, x, use_reentrant=False)).sum(), tuple(net.parameters()))
    log = recorded()
    assert log.calls()["forward"] == 3
    assert not unfinished(log)
    again = [seen for seen in log.ranges if seen.name == "forward"][-1]
    assert within(again)[-1] == "Sequential.backward"


def test_evaluation_has_no_backward_and_no_step(recorded: Finish) -> None:
    net = network()
    optimizer = sgd(net)
    x, target = torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
    with watch(net, optimizer=optimizer, verbosity=2):
        for _ in range(3):
            loss_of(net, x, target).backward()
            optimizer.step()
            with torch.no_grad():
                net(x)
            with torch.inference_mode():
                net(x)
    log = recorded()
    calls = log.calls()
    assert (calls["forward"], calls["backward"], calls["step"]) == (9, 3, 3)
    steps = sorted(log.steps, key=lambda item: item[1])
    assert [number for number, _, _ in steps] == [0, -1, 1, -1, 2, -1]


def test_an_optimizer_that_calls_the_model(recorded: Finish) -> None:
    net = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    x = torch.randn(8, 4)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    with watch(net, optimizer=optimizer):
        optimizer.step(closure)
        optimizer.step(closure)
    log = recorded()
    assert log.calls()["optimizer"] == 2
    assert log.calls()["forward"] == log.calls()["backward"] >= 4
    assert all(within(seen) == ["optimizer"] for seen in log.ranges if seen.name != "optimizer")
    assert not unfinished(log)


def test_two_watches_of_one_process(recorded: Finish) -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 1)
    both = nn.Sequential(first, second)
    one = watch(both, verbosity=2)
    two = watch(second, verbosity=2)
    both(torch.randn(2, 4)).sum().backward()
    one.remove()
    second(torch.randn(2, 4)).sum().backward()
    two.remove()
    calls = recorded().calls()
    assert calls["forward"] == calls["backward"] == 2
    assert calls["0.backward"] == calls["1.backward"] == calls["1.forward"] == calls["Linear.backward"] == 1


# A guest


@pytest.mark.parametrize("again", ["no", "non-reentrant"])
def test_numbers_and_model_stay_what_they_are(recorded: Finish, again: str) -> None:
    def result(verbosity: int | None) -> tuple[dict[str, Any], list[str]]:
        torch.manual_seed(1)
        net, loader = network(again), batches()
        optimizer = sgd(net)
        before = sorted(vars(net.head[0])), sorted(vars(optimizer)), type(loader)
        watching = watch(net, optimizer=optimizer, dataloader=loader, verbosity=verbosity) if verbosity else None
        train(net, optimizer, loader)
        if watching:
            watching.remove()
        assert (sorted(vars(net.head[0])), sorted(vars(optimizer)), type(loader)) == before
        assert not optimizer._optimizer_step_pre_hooks
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
        return net.state_dict(), list(loader.__dict__)

    plain, attributes = result(None)
    for verbosity in (1, 2):
        state, same = result(verbosity)
        assert same == attributes
        assert all(torch.equal(plain[name], state[name]) for name in plain)


def test_copies_pickles_and_replicas(recorded: Finish) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
    x = torch.randn(2, 4)
    with watch(net, verbosity=2):
        file = io.BytesIO()
        torch.save(net, file)
        file.seek(0)
        for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), torch.load(file, weights_only=False)):
            assert b"tracekit" not in pickle.dumps(other)
            other(x).sum().backward()
        replicas = [net._replicate_for_data_parallel() for _ in range(2)]
        for replica in replicas:
            replica._modules = dict(net._modules)
        threads = [threading.Thread(target=lambda each=each: each(x).sum().backward()) for each in replicas]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    log = recorded()
    calls = log.calls()
    assert calls["forward"] == calls["0.forward"] == calls["2.backward"] == calls["Sequential.backward"] == 2
    assert calls["backward"] == 5
    assert {seen.thread for seen in log.ranges if seen.name.startswith("0.")} == {
        seen.thread for seen in log.ranges if seen.name == "forward"
    }
    assert not unfinished(log)


def test_graphs_and_models_are_freed_as_ever(recorded: Finish) -> None:
    net = network()
    watching = watch(net, verbosity=2)
    gc.collect()
    gc.disable()
    try:
        loss = loss_of(net, torch.randn(8, 4), torch.zeros(8, dtype=torch.long))
        node = loss.grad_fn.next_functions[0][0]
        graph = [weakref.ref(found) for found in _tensors_of(net, loss)]
        del loss, node
        assert all(found() is None for found in graph)
    finally:
        gc.enable()
    model = weakref.ref(net)
    watching.remove()
    del net, watching
    gc.collect()
    assert model() is None
    assert not _module_calls.CALLS._watched
    recorded()


def _tensors_of(net: Any, loss: Any) -> list[Any]:
    result = net(torch.randn(2, 4))
    return [loss, result["logits"], result["features"][0]]


def test_exceptions_reach_the_program_and_close_what_they_leave(recorded: Finish) -> None:
    class Raises(nn.Module):
        error: BaseException | None = None

        def forward(self, x: Any) -> Any:
            if self.error is not None:
                raise self.error
            return x * 2

    bad = Raises()
    net = nn.Sequential(nn.Linear(4, 4), bad)
    optimizer = sgd(net)
    x = torch.randn(2, 4)

    def refuse(_: Any) -> None:
        raise ArithmeticError

    with watch(net, optimizer=optimizer, verbosity=2):
        for error in (ValueError("of the model"), KeyboardInterrupt()):
            bad.error = error
            with pytest.raises(type(error)) as caught:
                net(x)
            assert caught.value is error
        bad.error = None
        loss = net(x).sum()
        handle = net[0].weight.register_hook(refuse)
        with pytest.raises(ArithmeticError):
            loss.backward()
        handle.remove()
        with pytest.raises(ZeroDivisionError):
            optimizer.step(lambda: 1 // 0)
        net(x).sum().backward()
        optimizer.step()
    log = recorded()
    calls = log.calls()
    assert (calls["forward"], calls["1.forward"], calls["backward"], calls["optimizer"]) == (4, 4, 2, 2)
    # A KeyboardInterrupt passes hooks by, and there is no hook behind a step that raises: those are cut.
    assert sorted(unfinished(log)) == ["1.forward", "forward", "optimizer"]
    assert log.notes == {"range_crossed": 3}
    assert all(within(seen) in ([], ["optimizer"]) for seen in log.ranges if seen.name == "forward")


def test_a_fault_of_the_watch_is_counted_and_not_raised(recorded: Finish, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("ours")

    net = nn.Linear(4, 1)
    with watch(net, verbosity=2):
        monkeypatch.setattr(_module_calls, "nodes_of", fail)
        net(torch.randn(2, 4)).sum().backward()
    log = recorded()
    assert log.notes == {"watch_failed": 1}
    assert log.calls()["forward"] == log.calls()["backward"] == 1


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_models_are_seen_as_a_whole(recorded: Finish, fullgraph: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x).relu())

    net = Net()
    x = torch.randn(2, 4)
    compiled = torch.compile(net, backend="eager", fullgraph=fullgraph)
    with watch(compiled, verbosity=2):
        assert torch.equal(compiled(x), compiled(x))
        compiled(x).sum().backward()
    itself = Net()
    itself.compile(backend="eager", fullgraph=fullgraph)
    with watch(itself, verbosity=2):
        itself(x).sum().backward()
    itself(x)
    log = recorded()
    calls = log.calls()
    assert (calls["forward"], calls["backward"]) == (4, 2)
    assert not [name for name in calls if name.startswith(("a.", "b."))]
    assert not log.notes


# Loaders and arguments


def test_a_loop_that_is_left_and_a_range_of_the_users_around(recorded: Finish) -> None:
    net, loader = nn.Linear(4, 1), batches()
    optimizer = sgd(net)
    with watch(net, optimizer=optimizer, dataloader=loader):
        for _ in range(2):
            with recorder.range("epoch"):
                for number, (x, _target) in enumerate(loader):
                    net(x).sum().backward()
                    if number == 1:
                        break
        found = iter(loader)
        assert len(found) == BATCHES
        next(found)
    log = recorded()
    assert log.calls()["step"] == 5
    assert not unfinished(log)
    assert not log.notes
    steps = [seen for seen in log.overlapping if seen.name == "step"]
    epochs = [seen for seen in log.ranges if seen.name == "epoch"]
    assert all(steps[2 * number + 1].end <= epochs[number].end for number in range(2))


def test_a_loader_of_a_class_of_ones_own(recorded: Finish) -> None:
    class Mine(torch.utils.data.DataLoader):
        def __iter__(self) -> Iterator[Any]:
            yield from super().__iter__()

    net, mine, plain = nn.Linear(4, 1), batches(Mine), batches()
    one = watch(net, dataloader=mine)
    with watch(nn.Linear(4, 1), dataloader=plain), one:
        assert len(list(mine)) == len(list(plain)) == BATCHES
        assert len(list(batches())) == BATCHES  # another loader of a watched class
    log = recorded()
    assert log.calls()["dataloader"] == 2 * (BATCHES + 1)
    assert log.calls()["step"] == 2 * BATCHES


def test_a_loader_that_cannot_be_watched_in_its_place(recorded: Finish, capfd: pytest.CaptureFixture[str]) -> None:
    net = nn.Linear(4, 1)
    with watch(net, dataloader=[torch.randn(2, 4)] * 3) as watching:
        assert len(watching.dataloader) == 3
        for x in watching.dataloader:
            net(x)
    log = recorded()
    assert capfd.readouterr().err.count("a list cannot be watched in its place") == 1
    assert (log.calls()["dataloader"], log.calls()["step"], log.calls()["forward"]) == (4, 3, 3)


def test_a_loader_that_the_program_wrapped_itself_is_timed_once(recorded: Finish) -> None:
    loader = recorder.watch_loader(batches())
    with watch(nn.Linear(4, 1), dataloader=loader, steps=False) as watching:
        assert watching.dataloader is loader
        assert len(list(loader)) == BATCHES
    assert recorded().calls() == {"dataloader": BATCHES + 1, "dataloader (start)": 1}


def test_wrong_arguments_are_refused_and_leave_nothing(recorded: Finish) -> None:
    net = nn.Linear(4, 1)
    loader = batches()
    wrong: list[tuple[type[Exception], Any, dict[str, Any]]] = [
        (TypeError, lambda x: x, {}),
        (ValueError, net, {"verbosity": 3}),
        (TypeError, net, {"optimizer": net}),
        (TypeError, net, {"dataloader": 7}),
    ]
    for error, model, options in wrong:
        with pytest.raises(error):
            watch(model, **options)
    with watch(net, dataloader=loader), pytest.raises(ValueError, match="watched already"):
        watch(net, dataloader=loader)
    recorded()


def test_the_recorder_does_not_import_torch() -> None:
    import subprocess
    import sys

    code = "import sys; from tracekit import recorder; recorder.torch.watch; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

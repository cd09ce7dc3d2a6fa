"""Watched Paddle loops; each function records a log of its own. Prints JSON: what each found beside its log.

python watched.py FOLDER
"""

from __future__ import annotations

import copy
import gc
import json
import pickle
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
import numpy as np  # noqa: E402
import paddle  # noqa: E402

from tracekit import recorder  # noqa: E402
from tracekit.recorder.paddle import watch  # noqa: E402

F = paddle.nn.functional
FOLDER = Path(sys.argv[1])


class Points(paddle.io.Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, at: int) -> tuple[Any, Any]:
        return np.full([4], at, "float32"), np.array(at % 3, "int64")


class Net(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = paddle.nn.Linear(4, 8), paddle.nn.ReLU()
        self.last = paddle.nn.Sequential(paddle.nn.Linear(8, 3))

    def forward(self, x: Any) -> Any:
        return self.last(self.act(self.first(x)))


class Twice(paddle.optimizer.SGD):
    """An optimizer whose step calls that of its parent."""

    def step(self) -> None:
        super().step()


def parts(optimizer: type = paddle.optimizer.Adam) -> tuple[Any, Any, Any]:
    paddle.seed(3)
    net = Net()
    return net, optimizer(learning_rate=1e-2, parameters=net.parameters()), paddle.io.DataLoader(Points(), batch_size=4)


def train(net: Any, optimizer: Any, batches: Any) -> list[float]:
    losses = []
    for data, label in batches:
        loss = F.cross_entropy(net(data), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses


def weights(net: Any) -> list[list[float]]:
    return [parameter.flatten().tolist() for parameter in net.parameters()]


def plain() -> object:
    net, optimizer, loader = parts()
    with watch(net, optimizer=optimizer, dataloader=loader):
        train(net, optimizer, loader())
        train(net, optimizer, loader)


def layers() -> object:
    net, optimizer, loader = parts()
    watched, unwatched = [], []
    with watch(net, optimizer=optimizer, dataloader=loader, verbosity=2):
        watched = [train(net, optimizer, loader()), weights(net)]
    recorder.stop()
    other, optimizer, loader = parts()
    unwatched = [train(other, optimizer, loader()), weights(other)]
    return {"same results": watched == unwatched}


def without_loader() -> object:
    net, optimizer, loader = parts()
    with watch(net, optimizer=optimizer):
        train(net, optimizer, loader())
        with paddle.no_grad():
            net(paddle.ones([1, 4]))


def two_optimizers() -> object:
    net, first, loader = parts(Twice)
    second = paddle.optimizer.Momentum(parameters=net.last.parameters())
    with watch(net, optimizer=[first, second]):
        for data, label in loader():
            loss = F.cross_entropy(net(data), label)
            loss.backward()
            first.step()
            second.minimize(loss)


def errors() -> object:
    net, optimizer, _ = parts()
    seen = []
    with watch(net, optimizer=optimizer, verbosity=2):
        for call in (lambda: net(paddle.ones([1, 5])), lambda: paddle.ones([1]).backward("no tensor")):
            try:
                call()
            except Exception as error:  # noqa: BLE001
                seen.append(type(error).__name__)
        net(paddle.ones([1, 4])).sum().backward()
    return {"raised": len(seen)}


def nested_backward() -> object:
    net, _, _ = parts()

    class Again(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            [x] = ctx.saved_tensor()
            inner = x.detach()
            inner.stop_gradient = False
            with paddle.enable_grad():
                y = inner * 2
            paddle.autograd.backward([y], [grad])
            return inner.grad

    with watch(net):
        x = net(paddle.ones([2, 4]))
        Again.apply(x).sum().backward()
        paddle.autograd.backward([net(paddle.ones([2, 4])).sum()])


def copies() -> object:
    net, optimizer, loader = parts()
    before = set(vars(net)), set(vars(optimizer)), set(vars(loader))
    with watch(net, optimizer=optimizer, dataloader=loader, verbosity=2):
        same = (set(vars(net)), set(vars(optimizer)), set(vars(loader))) == before
        copied = copy.deepcopy(net)
        copied(paddle.ones([1, 4]))
        pickle.loads(pickle.dumps(net.state_dict()))
        other, optimizer_2, loader_2 = parts()
        train(other, optimizer_2, loader_2())
    return {"nothing put in": same}


def removed() -> object:
    net, optimizer, loader = parts()
    functions = lambda: [  # noqa: E731
        vars(paddle.nn.Layer)["__call__"], paddle.Tensor.backward, paddle.autograd.backward,
        type(optimizer).step, paddle.optimizer.Optimizer.minimize, paddle.io.DataLoader.__iter__,
    ]  # fmt: skip
    before = functions()
    watching = watch(net, optimizer=optimizer, dataloader=loader)
    during = functions()
    watching.remove()
    watching.remove()
    train(net, optimizer, loader())
    again = watch(net, optimizer=optimizer, dataloader=loader)
    again.remove()
    del net
    gc.collect()
    return {
        "replaced": sum(a is not b for a, b in zip(before, during, strict=True)),
        "restored": functions() == before,
        "active": watching.active,
    }


def by_profiler() -> object:
    """The timer of the face sees a batch once, whoever else watches the loader."""
    import tracekit.profiler.paddle as profiler

    net, optimizer, loader = parts()
    prof = profiler.Profiler(timer_only=True, compat="paddle")
    prof.start()
    with watch(net, optimizer=optimizer, dataloader=loader):
        for data, _ in recorder.watch_loader(loader):
            net(data)
            prof.step(num_samples=4)
    info = prof.step_info()
    reads = prof._timing.reader_ns
    prof.stop()
    return {"info": info, "reads": sum(ns > 0 for ns in reads)}


def compiled() -> object:
    net, _, _ = parts()
    static = paddle.jit.to_static(net)
    expected = static(paddle.ones([2, 4])).numpy().tolist()
    with watch(static, verbosity=2):
        found = static(paddle.ones([2, 4])).numpy().tolist()
    return {"same": found == expected}


def traced_during_the_watch() -> object:
    net, _, _ = parts()
    expected = net(paddle.ones([2, 4])).numpy()
    static = paddle.jit.to_static(net)
    with watch(net, verbosity=2):
        found = static(paddle.ones([2, 4])).numpy()
    return {"close": bool(np.allclose(found, expected))}


def threads() -> object:
    net, _, _ = parts()

    def work() -> None:
        for _ in range(5):
            net(paddle.ones([1, 4])).sum().backward()

    with watch(net, verbosity=2):
        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def wrong_arguments() -> object:
    net, optimizer, _ = parts()
    said = []
    for options in (
        {"model": "net"}, {"model": net, "verbosity": 3}, {"model": net, "optimizer": 3},
        {"model": net, "dataloader": 3}, {"model": net, "optimizer": [optimizer, "x"]},
    ):  # fmt: skip
        try:
            watch(**options)
        except (TypeError, ValueError) as error:
            said.append(str(error))
    return {"said": said, "left": "__wrapped__" in vars(vars(paddle.nn.Layer)["__call__"])}


def main() -> None:
    told = {}
    for scene in (
        plain, layers, without_loader, two_optimizers, errors, nested_backward, copies, removed, by_profiler, compiled,
        traced_during_the_watch, threads, wrong_arguments,
    ):  # fmt: skip
        recorder.start(FOLDER / f"{scene.__name__}.jsonl", nvtx=False)
        told[scene.__name__] = scene()
        recorder.stop()
    (FOLDER / "told.json").write_text(json.dumps(told), encoding="utf-8")


main()

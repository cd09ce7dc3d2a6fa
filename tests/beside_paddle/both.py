"""A program that runs examples under Paddle's own profiler and under tracekit's, in turn, and writes what each did.

    python both.py EXAMPLES.json RESULTS.json        EXAMPLES: a list of the examples of Paddle's documents

Only the import differs between the two. What the documents leave to the reader (data, learning rate) is here.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import sys
import types
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")  # Paddle warns of a missing ccache, and of targets that a CPU build has not
import numpy as np  # noqa: E402
import paddle  # noqa: E402
import paddle.nn.functional as F  # noqa: E402
import paddle.profiler  # noqa: E402

import tracekit.profiler.paddle  # noqa: E402

FACES = {"paddle": paddle.profiler, "tracekit": tracekit.profiler.paddle}
ROUNDS = 5
BY_HAND, BENCHMARK, CASE_STUDY = 3, 7, 8
"""Numbers of examples: start and stop by hand, the timer alone, the whole training with two loaders."""

MEMORY = """
model = paddle.nn.Sequential(paddle.nn.Linear(13, 20), paddle.nn.ReLU(), paddle.nn.Linear(20, 5))
adam = paddle.optimizer.Adam(learning_rate=1e-3, parameters=model.parameters())
with profiler.Profiler(
    targets=[profiler.ProfilerTarget.CPU], scheduler=(2, 6), profile_memory=True, on_trace_ready=lambda _: None
) as prof:
    for data, label in paddle.io.DataLoader(cifar10_test, batch_size=4):
        with profiler.RecordEvent("flatten"):
            data = paddle.reshape(data, [4, -1])[:, :13]
        F.cross_entropy(model(data), label).backward()
        adam.step()
        adam.clear_grad()
        prof.step()
prof.summary()
"""


class Images(paddle.io.Dataset):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> tuple[Any, Any]:
        return np.full([3, 8, 8], at, "float32"), np.array(at % 5, "int64")


def names(face: Any) -> dict[str, Any]:
    """What the examples use without defining it."""
    return {
        "paddle": paddle, "profiler": face, "F": F, "np": np, "ProfilerTarget": face.ProfilerTarget,
        "my_on_trace_ready": lambda prof: None, "learning_rate": 1e-3, "batch_size": 4, "epoch_num": 1,
        "cifar10_train": Images(64), "cifar10_test": Images(32), "val_acc_history": [], "val_loss_history": [],
    }  # fmt: skip


def printed(function: Any, *args: Any, **options: Any) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        function(*args, **options)
    return text.getvalue()


def run(code: str, side: str, scope: dict[str, Any] | None = None) -> tuple[dict[str, Any], str]:
    """Run an example with its import changed for one side; return its names and what it printed."""
    code = code.replace("make_scheduelr", "make_scheduler")  # a slip of the document
    if side != "paddle":
        code = code.replace("import paddle.profiler as profiler", "import tracekit.profiler.paddle as profiler")
    scope = names(FACES[side]) if scope is None else scope
    paddle.seed(1)
    return scope, printed(exec, compile(code, "<example>", "exec"), scope)


def shapes(root: Any) -> Counter[str]:
    """How often each path of types and names is in a tree of nodes."""
    found: Counter[str] = Counter()

    def walk(node: Any, path: str) -> None:
        for child in node.children_node:
            # Paddle cannot load this type from its own files, so that our writer writes the other one.
            kind = child.type.name.replace("DygraphKernelLaunch", "OperatorInner")
            inside = f"{path}/{kind} {child.name}"
            found[inside] += 1
            walk(child, inside)

    walk(root, "")
    return found


def facts_of(prof: Any, side: str) -> dict[str, Any]:
    """Tables and result of a profiler after its run."""
    result = prof.profiler_result
    told: dict[str, Any] = {"summary": printed(prof.summary, time_unit="ns")}
    if side == "tracekit":
        prof.compat = "paddle"
        told["compat"] = printed(prof.summary, time_unit="ns")
        rows = prof.windows[-1].read().events.select(["kind", "step"]).to_pylist()
        told["steps"] = sorted({row["step"] for row in rows if row["kind"] == "operator"})
    if result is not None:
        trees = result.get_data()
        told["trees"] = dict(sum((shapes(root) for root in trees.values()), Counter[str]()))
        told["threads"] = sorted(map(int, trees))
        told["version"], told["span"] = result.get_version(), result.get_span_index()
        told["extra"] = sorted(result.get_extra_info())
    return told


def in_turn(code: str, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Run an example under both profilers, one after the other."""
    told: dict[str, list[dict[str, Any]]] = {side: [] for side in FACES}
    for _ in range(rounds):
        for side in FACES:
            scope, text = run(code, side)
            if "train" in scope:
                text += printed(scope["train"], network())
            told[side].append({"printed": text, **(facts_of(scope["prof"], side) if "prof" in scope else {})})
            scope.clear()
            gc.collect()  # Paddle has one tracer, which its profiler holds until it is deleted
    return told


def network() -> Any:
    return paddle.nn.Sequential(paddle.nn.Flatten(), paddle.nn.Linear(3 * 8 * 8, 10), paddle.nn.ReLU())


def same_steps(code: str, compat: str) -> dict[str, Any]:
    """Run an example of the timer under both profilers at once: what they time is the same."""
    outputs: dict[str, str] = {}

    class Both:
        def __init__(self, **options: Any) -> None:
            self.both = {
                "paddle": paddle.profiler.Profiler(**options),
                "tracekit": tracekit.profiler.paddle.Profiler(**options, compat=compat),
            }

        def start(self) -> None:
            for one in self.both.values():
                one.start()

        def step(self, **options: Any) -> None:
            for one in self.both.values():
                one.step(**options)

        def step_info(self, **options: Any) -> str:
            return " and ".join(one.step_info(**options) for one in self.both.values())

        def stop(self) -> None:
            for side, one in self.both.items():
                outputs[side] = printed(one.stop)

    face = types.SimpleNamespace(Profiler=Both, ProfilerTarget=None)
    code = code.replace("import paddle.profiler as profiler", "")
    run(code, "paddle", {**names(face), "profiler": face})
    gc.collect()
    return outputs


def loaded_by_each(prof: Any) -> dict[str, Any]:
    """Return what Paddle and tracekit read of a file that tracekit has exported."""
    prof.export("ours.pb", "pb")
    results = {side: face.load_profiler_result("ours.pb") for side, face in FACES.items()}
    return {
        side: dict(sum(map(shapes, result.get_data().values()), Counter[str]())) for side, result in results.items()
    }


def a_tracer_in_use() -> dict[str, Any]:
    """Return what is said where Paddle's own profiler holds the tracer."""
    holding = paddle.profiler.Profiler(on_trace_ready=lambda _: None)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        for _ in range(2):
            with tracekit.profiler.paddle.Profiler(on_trace_ready=lambda _: None) as prof:
                paddle.ones([2])
                prof.step()
    text = printed(prof.summary)
    del holding
    gc.collect()
    return {"stderr": said.getvalue(), "summary": text}


def main() -> None:
    examples = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    told: dict[str, Any] = {"examples": {}}
    for number, code in enumerate(examples):
        told["examples"][number] = in_turn(code, ROUNDS if number == BY_HAND else 1)
    told["memory"] = in_turn(MEMORY, 1)
    told["timer"] = {
        compat: [same_steps(examples[BENCHMARK], compat) for _ in range(ROUNDS)] for compat in ("", "paddle")
    }
    scope, _ = run(examples[BY_HAND], "tracekit")
    told["loaded"] = loaded_by_each(scope["prof"])
    told["compat timer"] = run(
        examples[BENCHMARK].replace("timer_only=True", "timer_only=True, compat='paddle'"), "tracekit"
    )[1]
    told["in use"] = a_tracer_in_use()
    told["left"] = {
        "on": paddle.profiler.utils.in_profiler_mode(),
        "hooks": list(paddle.profiler.timer.benchmark().hooks),
        "own": sorted(vars(paddle.profiler.timer.benchmark())),
    }
    Path(sys.argv[2]).write_text(json.dumps(told), encoding="utf-8")


main()

"""Categories of memory: lifetimes of known meaning, and PyTorch's own timeline of the same run."""

from __future__ import annotations

import bisect
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from views.hosts import Row, op
from views.tables import dicts
from views.test_modules import module
from views.test_training_phases import forward, index_of_rows, node

from tracekit.api import read
from tracekit.index.memory_blocks import CATEGORIES, memory_blocks
from tracekit.index.trace_index import TraceIndex
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

STEP = [
    op("ProfilerStep#1", 0, 200, "step"),
    forward("addmm", 10, 30, 1),
    forward("relu", 31, 39, 2),
    *node("Relu", 50, 60, 2),
    *node("Addmm", 62, 80, 1),
    forward("mm", 63, 79, tid=9),
    op("Optimizer.step#Adam.step", 90, 110, "optimizer"),
    forward("sqrt", 95, 100),
    forward("addmm", 130, 140, 3),
    *node("Addmm", 150, 160, 3),
]


def row(address: int, at: int, size: int, total: int | None = None, tid: int = 7, **more: Any) -> Row:
    """A row of the allocator: an allocation, or a free for a size below zero."""
    told: dict[str, int] = {"Addr": address} | ({} if total is None else {"Total Allocated": total})
    return {"name": "[memory]", "kind": "memory", "pid": 1, "tid": tid, "device": 0, "ts_ns": at, "bytes": size,
            "args": json.dumps(told), **more}  # fmt: skip


@pytest.mark.parametrize(
    ("begin", "end", "tid", "category"),
    [
        (12, 20, 7, "temporary"),  # in its operator
        (12, 35, 7, "temporary"),  # in its forward pass
        (12, 70, 7, "activation"),
        (12, 85, 7, "not known"),  # between the passes, by whatever held it
        (12, 105, 7, "not known"),
        (12, None, 7, "not known"),
        (64, 70, 9, "temporary"),
        (51, 70, 9, "backward intermediate"),
        (51, 105, 9, "gradient"),
        (51, None, 9, "gradient"),
        (51, 120, 9, "gradient"),
        (92, 103, 7, "temporary"),
        (92, 135, 7, "optimizer state"),
        (92, None, 7, "optimizer state"),
        (5, None, 7, "parameter or older"),
        (5, 70, 7, "not known"),
        (155, None, 9, "gradient"),  # the trace ends with this pass
    ],
)
def test_a_lifetime_decides_the_category(begin: int, end: int | None, tid: int, category: str) -> None:
    rows = [row(77, begin, 100, tid=tid), *([row(77, end, -100, tid=tid)] if end is not None else [])]
    blocks = memory_blocks(index_of_rows(*STEP, *rows))
    assert blocks is not None
    assert [CATEGORIES[number] for number in blocks.categories.tolist()] == [category]


def test_what_a_checkpoint_computes_again_is_an_activation() -> None:
    again = [forward("addmm", 64, 70, 9, tid=9), forward("t", 77, 78, tid=9)]
    rows = [row for row in STEP if row["name"] != "aten::mm"]
    blocks = memory_blocks(index_of_rows(*rows, *again, row(1, 65, 10, tid=9), row(1, 79, -10, tid=9)))
    assert blocks is not None
    assert CATEGORIES[blocks.categories[0]] == "activation"


def test_an_address_that_is_used_again_is_another_block() -> None:
    rows = [row(1, 12, 100), row(1, 20, -100), row(1, 22, 50), row(1, 70, -50)]
    blocks = memory_blocks(index_of_rows(*STEP, *rows))
    assert blocks is not None
    assert [(int(size), CATEGORIES[c]) for size, c in zip(blocks.sizes, blocks.categories, strict=True)] == [
        (100, "temporary"),
        (50, "activation"),
    ]


def test_stacks_of_a_snapshot_show_the_passes() -> None:
    """Forward at 10 and 20, backward at 30 and 40, the optimizer at 50; the next batch at 55 has no stack to go by."""

    def held(address: int, at: int, size: int, phase: str = "") -> Row:
        told = {"addr": address} | ({"phase": phase} if phase else {})
        return {**row(address, at, size), "args": json.dumps(told)}

    blocks = memory_blocks(
        index_of_rows(
            *(held(1, 10, 1, "forward"), held(2, 20, 2, "forward"), held(3, 30, 3, "backward")),
            *(held(1, 31, -1), held(2, 35, -2), held(4, 40, 4, "backward"), held(4, 41, -4)),
            *(held(5, 50, 5, "optimizer"), held(6, 51, 6, "optimizer"), held(6, 53, -6), held(7, 55, 7)),
            held(8, 60, 8, "forward"),
        )
    )
    assert blocks is not None
    assert [(int(size), CATEGORIES[c]) for size, c in zip(blocks.sizes, blocks.categories, strict=True)] == [
        (1, "activation"),
        (2, "activation"),
        (3, "gradient"),
        (4, "backward intermediate"),
        (5, "optimizer state"),
        (6, "temporary"),
        (7, "not known"),
        (8, "not known"),
    ]


def test_what_the_peak_holds_adds_up_to_the_total_of_the_file() -> None:
    rows = [
        row(1, 12, 100, 1100),
        row(2, 32, 50, 1150),
        row(1, 55, -100, 1050, 9),
        row(3, 56, 400, 1450, 9),
        row(2, 65, -50, 1400, 9),
    ]
    net = [module("Net_0", 9, 40, 1), module("Linear_0", 10, 30, 2, 1), module("ReLU_0", 31, 39, 3, 1)]
    section = VIEWS["memory"].compute(index_of_rows(*STEP, *net, *rows), ViewOptions())
    tables = {table.name: dicts(table) for table in section.tables}
    held = {(row["name"], row["rule"].split()[0]): row["held"] for row in tables["categories"]}
    assert held == {
        ("parameter or older", "held"): 1000,
        ("gradient", "allocated"): 400,
        ("activation", "allocated"): 50,
    }
    assert sum(held.values()) == 1450
    by_module = {(row["name"], row["category"]): row["held"] for row in tables["peak_modules"]}
    assert by_module == {("ReLU_0", "gradient"): 400, ("ReLU_0", "activation"): 50}


def test_traces_without_passes_have_no_categories() -> None:
    assert memory_blocks(index_of_rows(forward("mm", 0, 9), row(1, 3, 10), row(1, 5, -10))) is None


def test_rows_without_addresses_have_no_categories() -> None:
    bare = {**row(1, 12, 100), "args": "{}"}
    assert memory_blocks(index_of_rows(*STEP, bare)) is None


SAME = {
    "GRADIENT": {"gradient"},
    "OPTIMIZER_STATE": {"optimizer state"},
    "AUTOGRAD_DETAIL": {"backward intermediate"},
    "TEMPORARY": {"temporary"},
    # Python keeps the loss; what the optimizer frees at once is temporary here, and anything there.
    "ACTIVATION": {"activation", "temporary", "not known"},
}


@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_categories_agree_with_the_timeline_of_pytorch(tmp_path: Path, optimizer: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.profiler._memory_profiler")
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)) for _ in range(2)]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(32, 5))
    more = {"momentum": 0.9} if optimizer == "SGD" else {}
    steps = getattr(torch.optim, optimizer)(net.parameters(), lr=0.01, **more)

    def step() -> None:
        inputs, target = torch.randn(8, 32), torch.randint(0, 5, (8,))
        steps.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), target).backward()
        steps.step()

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, with_stack=True, profile_memory=True
    ) as profiler:
        for _ in range(2):
            step()
    profiler.export_chrome_trace(str(tmp_path / "run.json"))
    timeline = profiler._memory_profile()
    created: dict[int, list[tuple[int, str]]] = {}
    for at, action, (key, version), _ in timeline.timeline:
        category = timeline._categories.get(key, version)
        if action.name == "CREATE" and category is not None:
            created.setdefault(key.storage.ptr, []).append((at, category.name))
    made = read(tmp_path / "run.json")
    blocks = memory_blocks(index := TraceIndex(made))
    assert blocks is not None
    seen: Counter[tuple[str, str]] = Counter()
    for number, event in enumerate(blocks.rows.tolist()):
        address = json.loads(made.events.column("args")[event].as_py())["Addr"]
        at = int(index.starts[event]) + made.run.origin_ns
        events = sorted(created.get(int(address), []))
        place = bisect.bisect(events, (at + 1000, ""))
        if place and abs(events[place - 1][0] - at) < 50_000:
            seen[events[place - 1][1], CATEGORIES[blocks.categories[number]]] += 1
    for theirs, ours in SAME.items():
        assert {b for a, b in seen if a == theirs} <= ours, seen
    assert seen["GRADIENT", "gradient"] == 2 * 10
    assert seen["AUTOGRAD_DETAIL", "backward intermediate"] > 10
    assert seen["ACTIVATION", "activation"] > 10
    if optimizer == "Adam":
        assert seen["OPTIMIZER_STATE", "optimizer state"] == 3 * 10

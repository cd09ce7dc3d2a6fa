"""Modules: gradients that are added up, and what data parallelism launches in the backward pass."""

from __future__ import annotations

from typing import Any

from views.hosts import Row, op
from views.test_modules import module, modules
from views.test_training_phases import EVALUATE, forward, kernel, node


def gradient(start: int, end: int, *inside: Row, tid: int = 9) -> list[Row]:
    """The function that adds up a gradient, and what runs in it."""
    where = {"tid": tid, "args": "{}"}
    return [
        op(f"{EVALUATE}torch::autograd::AccumulateGrad", start, end, **where),
        op("torch::autograd::AccumulateGrad", start, end - 1, **where),
        *inside,
    ]


def bucket(start: int, end: int, number: int, tid: int = 9) -> list[Row]:
    """A collective that a hook launches."""
    names = ("c10d::allreduce_", "record_param_comms", "nccl:all_reduce")
    return [op(name, start, end, tid=tid, args="{}") for name in names] + kernel(number, start, end + 3, 100, tid)


def reducer(start: int, end: int, tid: int = 9) -> Row:
    return op("torch::distributed::reducer::mul_out", start, end, tid=tid, args="{}")


FORWARD = [
    module("DistributedDataParallel_0", 5, 40, 1),
    module("Net_0", 6, 39, 2, 1),
    module("Linear_0", 10, 20, 3, 2),
    forward("addmm", 11, 19, 1),
    module("Linear_1", 21, 30, 4, 2),
    forward("addmm", 22, 29, 2),
]
BACK = [
    *node("Addmm", 50, 54, 2),
    *gradient(55, 60, reducer(56, 57), *kernel(1, 56, 60, 3, 9)),
    *gradient(61, 66, reducer(62, 63), *kernel(2, 62, 66, 4, 9), *bucket(64, 65, 3)),
    *node("Addmm", 70, 74, 1),
    *gradient(75, 80, reducer(76, 77), *kernel(4, 76, 80, 5, 9)),
    op("torch.distributed.ddp.reducer::copy_bucket_to_grad", 90, 95, tid=9, args="{}"),
    *kernel(5, 91, 96, 7, 9),
]


def own(rows: list[Row]) -> dict[str, int]:
    return {row["name"]: row["device_self"] for row in rows if row["device_self"]}


def test_a_gradient_belongs_to_the_module_of_its_operator_and_collectives_to_the_data_parallel_module() -> None:
    rows, _ = modules(*FORWARD, *BACK)
    assert own(rows) == {"DistributedDataParallel_0": 107, "Linear_1": 7, "Linear_0": 5}
    (data_parallel,) = (row for row in rows if row["name"] == "DistributedDataParallel_0")
    assert data_parallel["device_backward"] == data_parallel["device_total"] == 119


def test_collectives_of_hooks_have_a_row_of_their_own_where_two_modules_are_data_parallel() -> None:
    other = [module("DistributedDataParallel_1", 41, 45, 9)]
    rows, _ = modules(*FORWARD, *other, *BACK)
    assert own(rows) == {"(collectives of the backward pass, module not known)": 107, "Linear_1": 7, "Linear_0": 5}


def test_collectives_of_hooks_of_a_program_without_a_reducer_are_of_no_module() -> None:
    without = [row for row in BACK if "reducer" not in row["name"]]
    rows, _ = modules(*FORWARD, *without)
    assert own(rows)["(collectives of the backward pass, module not known)"] == 100
    assert "DistributedDataParallel_0" not in own(rows)


def test_a_gradient_before_every_node_of_its_thread_has_an_unknown_module() -> None:
    early = gradient(46, 49, *kernel(8, 47, 50, 9, 9))
    rows, _ = modules(*FORWARD, *early, *BACK)
    assert own(rows)["(gradients, module not known)"] == 9


def test_a_node_of_another_thread_that_ended_in_between_makes_the_module_unknown() -> None:
    """On two threads of autograd either node may have made the gradient."""
    beside = node("Mul", 51, 54, 7, tid=11)
    rows, _ = modules(*FORWARD, *beside, *BACK)
    assert own(rows)["(gradients, module not known)"] == 7
    assert own(rows)["Linear_0"] == 5
    earlier = node("Mul", 46, 49, 7, tid=11)
    rows, _ = modules(*FORWARD, *earlier, *BACK)
    assert own(rows) == {"DistributedDataParallel_0": 107, "Linear_1": 7, "Linear_0": 5}


def test_gradients_of_a_pass_within_a_node_are_of_the_nodes_of_that_pass() -> None:
    inner: list[Row] = [
        *node("CheckpointFunction", 50, 90, 1),
        *node("Addmm", 60, 64, 2),
        *gradient(65, 70, *kernel(1, 66, 70, 3, 9)),
    ]
    rows, _ = modules(*FORWARD, *inner, *gradient(91, 95, *kernel(2, 92, 96, 4, 9)))
    assert own(rows) == {"Linear_1": 3, "Linear_0": 4}


def test_backward_work_of_an_operator_outside_of_modules_is_known_to_be_in_none() -> None:
    loss: list[Any] = [forward("mse_loss", 42, 44, 5), *node("MseLoss", 46, 49, 5), *kernel(9, 47, 50, 6, 9)]
    rows, _ = modules(*FORWARD, *loss, *BACK)
    assert own(rows)["(backward, in no module)"] == 6


def test_what_the_reducer_does_in_the_forward_pass_stays_with_the_module_around_it() -> None:
    search = op("torch::distributed::reducer::search_unused_parameters", 7, 9, args="{}")
    rows, _ = modules(*FORWARD, search, *kernel(9, 8, 12, 6), *BACK)
    (net,) = (row for row in rows if row["name"] == "Net_0")
    assert (net["device_self"], net["device_forward"]) == (6, 6)


def shard(name: str, start: int, end: int, number: int, tid: int = 7, label: str = "all_gather") -> list[Row]:
    """A collective of fully_shard, in its range for a module of the model."""
    where: dict[str, Any] = {"tid": tid, "args": "{}"}
    return [
        op(f"FSDP::{label} ({name})", start, end, "user_range", **where),
        op("c10d::_allgather_base_", start, end, **where),
        *kernel(number, start + 1, end + 3, 100, tid),
    ]


def sharded(first: str, second: str) -> list[Row]:
    """Two layers of fully_shard: each gathers the parameters of the next one too, and reduces its own gradients."""
    return [
        module("Net_0", 5, 60, 1),
        module("Linear_0", 10, 25, 2, 1),
        op(f"FSDP::pre_forward ({first})", 11, 18, "user_range", args="{}"),
        *shard(first, 12, 14, 1),
        *shard(second, 15, 17, 2),  # the next layer's, ahead of time
        forward("addmm", 20, 24, 1),
        module("Linear_1", 30, 45, 3, 1),
        op(f"FSDP::pre_forward ({second})", 31, 34, "user_range", args="{}"),
        forward("addmm", 36, 44, 2),
        *node("Addmm", 70, 74, 2),
        *shard(second, 75, 77, 3, 9, "post_backward_reduce"),
        *node("Addmm", 80, 84, 1),
        *gradient(85, 90, *shard(first, 86, 88, 4, 9, "post_backward_reduce")),
    ]


def test_collectives_of_sharded_modules_belong_to_the_module_that_their_range_names() -> None:
    rows, _ = modules(*sharded("layers.0", "layers.1"))
    assert own(rows) == {"Linear_0": 200, "Linear_1": 200}


def test_a_sharded_name_that_two_modules_carry_joins_nothing() -> None:
    rows, _ = modules(*sharded("layers.0", "layers.0"))
    assert own(rows)["Linear_0"] == 200  # what was launched in its call
    assert "Linear_1" not in own(rows)
    assert sum(own(rows).values()) == 400


def test_a_sharded_name_without_a_forward_pass_joins_nothing() -> None:
    rows, _ = modules(*[row for row in sharded("a", "b") if "pre_forward" not in row["name"]])
    assert own(rows)["Linear_0"] == 200
    assert "Linear_1" not in own(rows)
    assert sum(own(rows).values()) == 400

"""Write the samples of snapshots of PyTorch's allocator. Nothing in them was measured.

    python sample_traces/_torch_memory.py [FOLDER]

A small model is "trained": weights that were there before, activations of two layers, gradients, an optimizer.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
START_US = 1_780_000_000_000_000
MIB = 1 << 20


def frame(name: str, file: str, line: int) -> dict[str, Any]:
    return {"name": name, "filename": file, "line": line}


TORCH = "/usr/lib/python3/site-packages/torch/nn/modules"
NATIVE = [frame("torch::unwind::unwind()", "??", 0), frame("at::_ops::addmm::call(at::Tensor const&)", "??", 0)]
TRAIN = [frame("train", "/home/user/project/train.py", 40), frame("<module>", "/home/user/project/train.py", 60)]
LINEAR = [frame("forward", f"{TORCH}/linear.py", 125), frame("_call_impl", f"{TORCH}/module.py", 1773)]
STACKS = {
    "layer 1": [*NATIVE, *LINEAR, frame("forward", "/home/user/project/model.py", 12), *TRAIN],
    "layer 2": [*NATIVE, *LINEAR, frame("forward", "/home/user/project/model.py", 13), *TRAIN],
    "backward": [*NATIVE, frame("torch::autograd::Engine::thread_main()", "??", 0)],
    "optimizer": [*NATIVE, frame("step", "/home/user/project/optimizer.py", 74), *TRAIN],
}


class Allocator:
    """Hands out addresses, one after another, and writes what PyTorch's trace would hold."""

    def __init__(self, device: int, step_us: int) -> None:
        self.device, self.step_us = device, step_us
        self.events: list[dict[str, Any]] = []
        self.now = START_US + device
        self.next = 0x7F00_0000_0000 + (device << 36)
        self.live: dict[int, tuple[int, list[dict[str, Any]]]] = {}

    def event(self, action: str, addr: int, size: int, frames: list[dict[str, Any]], **more: Any) -> None:
        self.now += self.step_us
        common = {"addr": addr, "size": size, "stream": 0, "time_us": self.now, "frames": frames}
        self.events.append({"action": action} | common | more)

    def alloc(self, size: int, stack: str) -> int:
        address, self.next = self.next, self.next + (size + 511) // 512 * 512
        self.live[address] = size, STACKS[stack]
        self.event("alloc", address, size, STACKS[stack], compile_context="N/A", user_metadata="")
        return address

    def free(self, address: int, *, completed: bool = True) -> None:
        size, stack = self.live[address]
        self.event("free_requested", address, size, stack)
        if completed:
            del self.live[address]
            self.event("free_completed", address, size, stack)


def train(device: int, *, old: bool = False) -> Allocator:
    """Return the trace of two steps. old: without completions, as a trace that skips these."""
    it = Allocator(device, 7)
    it.event("segment_alloc", it.next, 20 * MIB, STACKS["layer 1"])
    for step in range(2):
        one, two = it.alloc(4 * MIB, "layer 1"), it.alloc(2 * MIB - 100, "layer 2")
        gradient = it.alloc(4 * MIB, "backward")
        it.free(two, completed=not old)
        it.free(one, completed=not old)
        if not step:
            it.alloc(3 * MIB, "optimizer")
        it.free(gradient, completed=not old and not step)
    return it


def snapshot(traces: list[Allocator]) -> dict[str, Any]:
    segments = []
    for it in traces:
        weights = 5 * MIB
        held = [(weights, []), *it.live.values()]
        blocks, address = [], 0x7F00_0000_0000 + (it.device << 36)
        for size, frames in held:
            blocks.append(
                {
                    "address": address,
                    "size": (size + 511) // 512 * 512,
                    "requested_size": size,
                    "state": "active_allocated",
                    "frames": frames,
                }
            )
            address += (size + 511) // 512 * 512
        used = sum(block["size"] for block in blocks)
        blocks.append(
            {"address": address, "size": 40 * MIB - used, "requested_size": 0, "state": "inactive", "frames": []}
        )
        segments.append({
            "device": it.device, "address": 0x7F00_0000_0000 + (it.device << 36),
            "total_size": 40 * MIB, "allocated_size": used,
            "active_size": used, "requested_size": sum(size for size, _ in held), "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks,
        })  # fmt: skip
    ranges = [
        {"stage": stage, "name": "Optimizer.step#SGD.step", "device": 0, "time_us": START_US + at}
        for stage, at in (("START", 30), ("END", 80))
    ]
    return {
        "segments": segments,
        "device_traces": [it.events for it in traces],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False},
        "external_annotations": ranges,
    }


def main(target: Path) -> None:
    """Write the files."""
    folder = target / "torch-memory"
    folder.mkdir(parents=True, exist_ok=True)
    for name, found in {
        "two-gpus.pickle": snapshot([train(0), train(1)]),
        "frees-requested-only.pickle": snapshot([train(0, old=True)]),
    }.items():
        (folder / name).write_bytes(pickle.dumps(found, protocol=4))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

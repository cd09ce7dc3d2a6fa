"""A training program that imports a face must not pay for what reads and prints."""

from __future__ import annotations

import pytest
from test_import_time import HEAVY as LIBRARIES
from test_import_time import loaded_after

HEAVY = {*LIBRARIES, "nvtx", "cupti", "torch"}
FACES = ["paddle", "fluid", "singa", "mini_caffe", "cuda"]


def test_the_package_loads_nothing_heavy() -> None:
    assert not loaded_after("import tracekit.profiler") & HEAVY


@pytest.mark.parametrize("face", FACES)
def test_each_face_loads_nothing_heavy(face: str) -> None:
    loaded = loaded_after(f"import tracekit.profiler.{face}")
    assert f"tracekit.profiler.{face}" in loaded
    assert not loaded & (HEAVY | {"tracekit.pipeline"})


def test_recording_a_window_loads_nothing_heavy_either() -> None:
    statement = (
        "sys.modules['nvtx'] = None  # that package brings numpy\n"
        "import tracekit.profiler.paddle as p\n"
        "with p.Profiler(on_trace_ready=lambda prof: None, targets=[p.ProfilerTarget.CPU]) as prof:\n"
        "    with p.RecordEvent('x'):\n        prof.step()\n"
        "assert prof.windows"
    )
    assert not (loaded_after(statement) - {"nvtx"}) & HEAVY

"""What the first screen advises to record, where a trace does not show why a device waits."""

from __future__ import annotations

import pytest
from views.hosts import op, work
from views.tables import trace
from views.test_findings import US, step

import tracekit


@pytest.mark.parametrize(
    ("shift", "advice"),
    [(0, "Record host operators too."), (20_000 * US, "Record host operators and API calls too, or put ranges around")],
)
def test_what_a_trace_has_of_the_host_is_asked_of_the_steps(shift: int, advice: str) -> None:
    """Calls and ranges behind the steps do not say why the device waits in them."""
    rows = [work("gemm", i, at, at + 400 * US) for i, at in enumerate(range(0, 10_000 * US, 1000 * US))]
    rows += [step(i, i * 1000 * US, (i + 1) * 1000 * US) for i in range(10)]
    for i in range(10):
        at = shift + i * 1000 * US
        rows.append(op("cuKernelGetName", at + 50 * US, at + 60 * US, "driver", correlation=900 + i))
        rows.append(op("mine", at + 70 * US, at + 80 * US, "user_range"))
    found = tracekit.summary(trace(*rows)).headline
    assert found is not None
    assert found.opening is not None
    assert found.opening.sentence.endswith("and the trace does not show why.")
    assert advice in found.opening.meaning

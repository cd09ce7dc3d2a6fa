"""Profiles that JAX, TensorFlow and py-spy recorded, against figures that their own tools made of them.

`tests/real_profiles.py` wrote profiles and figures into `goldens/profiles`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import pytest
from support import GOLDENS, sure_readers

import tracekit

FOLDER = GOLDENS / "profiles"
XPLANES = sorted(path.name for path in FOLDER.glob("*.xplane.pb"))


def figures(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.figures.json").read_bytes())
    return found


def test_both_producers_of_xplanes_are_here() -> None:
    assert [name.split("-")[0] for name in XPLANES] == ["jax", "tensorflow"]


@pytest.mark.parametrize("name", XPLANES)
def test_each_thread_has_the_events_and_times_of_profile_data(name: str) -> None:
    assert sure_readers(FOLDER / name) == ["xplane"]
    trace = tracekit.read(FOLDER / name)
    found: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for row in trace.events.to_pylist():
        ps = row["dur_ns"] * 1000 + json.loads(row["args"] or "{}").get("dur_ps", 0)
        names = found[trace.run.threads[0, None, row["tid"]]]
        count, total = names.get(row["raw_name"] or row["name"], [0, 0.0])
        names[row["raw_name"] or row["name"]] = [count + 1, total + ps / 1000]
    assert found == {line["line"]: line["names"] for line in figures(name)["lines"]}
    assert trace.ledgers[0].kept == trace.ledgers[0].read == sum(line["events"] for line in figures(name)["lines"])


def test_operators_of_tensorflow_are_those_of_xprof() -> None:
    """Types like `_MklMatMul`, which TensorFlow puts in itself, are of operators, too."""
    (name,) = (name for name in XPLANES if name.startswith("tensorflow"))
    want = {row["operation"]: row for row in figures(name)["operators"] if row["operation"] != "IDLE"}
    table = tracekit.view(FOLDER / name, "operator").to_pandas()
    assert {text.rpartition(":")[0] for text in table["name"]} == set(want)
    for _, row in table.iterrows():
        expected = want[row["name"].rpartition(":")[0]]
        assert row["calls"] == expected["occurrences"]
        assert row["total"] == round(expected["total_time"] * 1000)
        assert row["self"] == round(expected["total_self_time"] * 1000)


def test_operators_of_jax_on_a_cpu_are_those_that_name_an_op() -> None:
    (name,) = (name for name in XPLANES if name.startswith("jax"))
    rows = tracekit.read(FOLDER / name).events.to_pylist()
    found = Counter(row["name"] for row in rows if row["kind"] == "operator")
    assert found == {"ynn_fusion": 3, "multiply_add_fusion": 3, "dot": 3, "multiply_subtract_fusion": 3}
    assert sum(row["kind"] == "step" for row in rows) == 3


def test_samples_of_py_spy_are_as_many_as_it_says_and_shares_are_those_of_the_clock() -> None:
    path = FOLDER / "py-spy.folded"
    want = figures(path.name)
    assert sure_readers(path) == ["folded"]
    table = tracekit.view(path, "samples").to_pandas()
    assert table["self_samples"].sum() == want["samples"]
    inside: Counter[str] = Counter()
    for line in path.read_text("utf-8").splitlines():
        stack, _, count = line.rpartition(" ")
        inside.update(dict.fromkeys({frame.split(" ")[0] for frame in stack.split(";")}, int(count)))
    for part, seconds in want["seconds"].items():
        found = table[table["name"].str.startswith(part)]["total_samples"].sum()
        assert found == inside[part]
        assert found / want["samples"] == pytest.approx(seconds / sum(want["seconds"].values()), abs=0.05)

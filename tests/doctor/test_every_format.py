"""Each class of defects, made on purpose in samples of the formats where it can occur: named, and then repaired."""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support import sample
from viewers import perfetto

from tracekit.doctor import Diagnosis, diagnose, repair

Damage = Callable[[bytes, random.Random], bytes]


def cut(data: bytes, rng: random.Random) -> bytes:
    """Cut before the last third, inside a line."""
    at = rng.randrange(len(data) // 2, len(data) * 2 // 3)
    while data[at - 1 : at] in b"\r\n},{" or data[at : at + 1] in b"\r\n":
        at -= 1
    return data[:at]


def not_utf8(data: bytes, rng: random.Random) -> bytes:
    """Put a byte that is not UTF-8 into a word."""
    places = [match.start() + 2 for match in re.finditer(rb"[a-z]{5,}", data)]
    at = places[rng.randrange(len(places) // 2, len(places))]
    return data[:at] + b"\xff" + data[at:]


def changed(pattern: bytes, to: bytes | Callable[[re.Match[bytes]], bytes], count: int = 1) -> Damage:
    """Return the damage that changes some places where a pattern matches."""

    def damage(data: bytes, rng: random.Random) -> bytes:
        found = list(re.finditer(pattern, data))
        assert found
        for match in sorted(rng.sample(found, min(count, len(found))), key=lambda m: -m.start()):
            new = to if isinstance(to, bytes) else to(match)
            data = data[: match.start()] + new + data[match.end() :]
        return data

    return damage


def events(change: Callable[[list[dict[str, object]], random.Random], None]) -> Damage:
    """Return the damage that changes the events of a JSON trace."""

    def damage(data: bytes, rng: random.Random) -> bytes:
        whole = json.loads(data)
        change(whole["traceEvents"] if isinstance(whole, dict) else whole, rng)
        return json.dumps(whole, ensure_ascii=False).encode()

    return damage


def _slices(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return [each for each in found if each.get("ph") == "X"]


def crossing(found: list[dict[str, object]], rng: random.Random) -> None:
    one = max(_slices(found), key=lambda each: float(str(each["dur"])))
    half = float(str(one["dur"])) / 2
    found.append(one | {"name": "crossing", "ts": float(str(one["ts"])) + half, "dur": half * 4})


def negative(found: list[dict[str, object]], rng: random.Random) -> None:
    rng.choice(_slices(found))["dur"] = -7


def timeless(found: list[dict[str, object]], rng: random.Random) -> None:
    del rng.choice(_slices(found))["ts"]


def strange_phase(found: list[dict[str, object]], rng: random.Random) -> None:
    rng.choice(_slices(found))["ph"] = "q"


def arrow_without_end(found: list[dict[str, object]], rng: random.Random) -> None:
    one = _slices(found)[3]
    found.append({"ph": "s", "id": 10**6, "name": "lonely", "cat": "x"} | {k: one[k] for k in ("pid", "tid", "ts")})


def far_away(found: list[dict[str, object]], rng: random.Random) -> None:
    one = rng.choice(_slices(found))
    found.append(one | {"name": "far", "ts": float(str(one["ts"])) + 4e12})


JSON_SAMPLES = (
    "kineto/gpu.pt.trace.json", "kineto/cpu.pt.trace.json", "chrome-trace/viztracer.json",
    "paddle-json/paddle26.paddle_trace.json",
)  # fmt: skip
LINES = (
    "nvprof-csv/gpu-and-api-trace.csv", "nvprof-text/gpu-trace.txt", "nsys-stats-csv/cuda_gpu_trace.csv",
    "nsys-jsonl/texts-first.jsonl", "recorder-log/rank0.jsonl", "cuda-profile/csv-timestamps.log",
    "caffe-time/gpu.log", "mxnet-table/mxnet19.txt", "theano/theano-1.0.5.txt", "singa/verbosity-2.txt",
    "paddle-summary/gpu.txt", "fluid-report/all.txt",
)  # fmt: skip
NVPROF = "nvprof-csv/gpu-trace-17-columns.csv"
CASES: list[tuple[str, str, Damage]] = [
    *((name, "torn-tail", cut) for name in (*JSON_SAMPLES[:2], JSON_SAMPLES[3], "chrome-trace/jax.json", *LINES[:6])),
    *((name, "torn-tail", cut) for name in ("fluid-pb/gpu.prof", "paddle-pb/gpu.paddle_trace.pb")),
    ("mini-caffe/three-steps.json", "torn-tail", cut),
    ("mxnet/mxnet-1.9.1.json", "torn-tail", cut),
    *((name, "bad-encoding", not_utf8) for name in (*JSON_SAMPLES, *LINES)),
    *((name, "overlapping-slices", events(crossing)) for name in JSON_SAMPLES),
    *((name, "negative-duration", events(negative)) for name in JSON_SAMPLES[:3]),
    *((name, "no-time", events(timeless)) for name in JSON_SAMPLES),
    *((name, "unknown-phase", events(strange_phase)) for name in JSON_SAMPLES),
    *((name, "unmatched-flow", events(arrow_without_end)) for name in JSON_SAMPLES),
    *((name, "clock-reset", events(far_away)) for name in JSON_SAMPLES[:3]),
    *((name, "bad-escape", changed(rb'"name": ?"', b'"name":"\\q')) for name in JSON_SAMPLES),
    ("mini-caffe/three-steps.json", "unmatched-begin", changed(rb'"ph": ?"E"', b'"ph":"B"')),
    ("mxnet/mxnet-1.9.1.json", "unmatched-end", changed(rb'"ph": ?"B"', b'"ph":"E"')),
    (NVPROF, "events-lost", lambda data, _: b"==1== Warning: 12 records were dropped\n" + data),
    (NVPROF, "bad-time", changed(rb"\n[\d.]+,([\d.]+),", lambda m: b"\n1.5.2,%s," % m[1], 2)),
]  # fmt: skip


def orphan(found: list[dict[str, object]], rng: random.Random) -> None:
    work = [each for each in _slices(found) if each.get("cat") == "kernel"]
    args = rng.choice(work[2:-2])["args"]
    assert isinstance(args, dict)
    args["correlation"] = 987654


def early(found: list[dict[str, object]], rng: random.Random) -> None:
    work = [each for each in _slices(found) if each.get("cat") == "kernel"]
    one = work[len(work) // 2]
    one["ts"] = float(str(work[0]["ts"])) - 5000


CASES += [
    ("kineto/gpu.pt.trace.json", "orphan-work", events(orphan)),
    ("kineto/gpu.pt.trace.json", "orphan-launch", events(orphan)),
    ("kineto/gpu.pt.trace.json", "clock-skew", events(early)),
]


def damaged(name: str, damage: Damage, folder: Path, seed: int) -> Path:
    path = folder / Path(name).name
    path.write_bytes(damage(sample(name).read_bytes(), random.Random(seed)))
    return path


def named(path: Path) -> set[str]:
    return {each.defect.code for each in diagnose(str(path)).findings}


def check_repair(path: Path, folder: Path, before: Diagnosis | None = None) -> None:
    """Repair a file that has events, and look at it with Perfetto's engine too."""
    before = before or diagnose(str(path))
    done = repair(str(path), folder / "repaired.json.gz")
    assert done.after is not None
    assert [each.defect.code for each in done.after.findings] == []
    parts = done.kept + done.changed + done.merged + done.facts + sum(done.ignored.values())
    assert done.read == before.ledger["read"] == parts + sum(done.dropped.values())
    seen = perfetto(folder / "repaired.json.gz")
    assert (seen["accepted"], seen["errors"]) == (True, {})


@pytest.mark.viewer
@pytest.mark.parametrize(
    ("name", "code", "damage"),
    CASES,
    ids=[f"{code}-{name.partition('/')[0]}-{n}" for n, (name, code, _) in enumerate(CASES)],
)
def test_a_defect_is_named_and_repaired(name: str, code: str, damage: Damage, tmp_path: Path) -> None:
    for seed in range(2):
        path = damaged(name, damage, tmp_path, seed)
        found = diagnose(str(path))
        assert code in {each.defect.code for each in found.findings}
        assert all(each.count > 0 for each in found.findings)
        if found.events:
            (tmp_path / f"{seed}").mkdir()
            check_repair(path, tmp_path / f"{seed}", found)


ONE = "WHERE rowid = (SELECT rowid FROM {kernel} LIMIT 1 OFFSET 5)"
SQL = {
    "orphan-work": "UPDATE {kernel} SET correlationId = 987654 " + ONE,
    "clock-skew": "UPDATE {kernel} SET start = start - 900000000, end = end - 900000000 " + ONE,
    "negative-duration": "UPDATE {kernel} SET end = start - 5 " + ONE,
    "zero-duration": "UPDATE {kernel} SET end = start " + ONE,
    "overlapping-slices": "UPDATE {kernel} SET end = end + 400000 "
    "WHERE rowid IN (SELECT rowid FROM {kernel} LIMIT 4 OFFSET 5)",
    "duplicate-id": "UPDATE {runtime} SET correlationId = (SELECT correlationId FROM {kernel} LIMIT 1 OFFSET 9) "
    "WHERE correlationId = (SELECT correlationId FROM {kernel} LIMIT 1 OFFSET 5)",
}
KERNELS = {"nvprof-sqlite/version-8.nvvp": "CONCURRENT_KERNEL", "nsys-sqlite/schema-of-2021.sqlite": "KERNEL"}


def edited(name: str, statements: list[str], folder: Path) -> Path:
    path = folder / Path(name).name
    shutil.copy(sample(name), path)
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            kernel, runtime = f"CUPTI_ACTIVITY_KIND_{KERNELS[name]}", "CUPTI_ACTIVITY_KIND_RUNTIME"
            db.execute(statement.format(kernel=kernel, runtime=runtime))
        db.commit()
    return path


@pytest.mark.viewer
@pytest.mark.parametrize("code", SQL)
@pytest.mark.parametrize("name", KERNELS)
def test_a_defect_of_a_database_is_named_and_repaired(name: str, code: str, tmp_path: Path) -> None:
    path = edited(name, [SQL[code]], tmp_path)
    assert code in named(path)
    check_repair(path, tmp_path)


@pytest.mark.parametrize("name", KERNELS)
def test_launches_without_any_work_are_a_missing_table(name: str, tmp_path: Path) -> None:
    tables = ("KERNEL", "CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "MEMCPY2", "SYNCHRONIZATION")
    drops = [f"DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_{table}" for table in tables]
    path = edited(name, drops, tmp_path)
    assert "missing-table" in named(path)
    check_repair(path, tmp_path)


def test_calls_alone_are_no_defect_of_a_list_of_calls() -> None:
    assert named(sample("nvprof-csv/api-trace.csv")) == set()


def test_rounded_times_do_not_cross() -> None:
    """A text table prints five digits: kernels of a stream seem to start before the one before has ended."""
    assert named(sample("nvprof-text/gpu-trace.txt")) == set()


def test_copies_of_0_whole_microseconds_are_no_defect() -> None:
    assert named(sample("kineto/gpu-torch-1.8.json")) == set()

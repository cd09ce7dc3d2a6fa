"""NVTX really arrives: an injection library sees each call, and they match the log of the same run one to one."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from recorder.programs import run
from recorder.reading import Log, read_log

pytest.importorskip("nvtx", reason="the package nvtx has no wheel here")
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def injection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc, which builds the NVTX injection library, is missing")
    library = tmp_path_factory.mktemp("nvtx") / "libnvtxlog.so"
    source = HERE / "nvtx_log.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source, "-lpthread"], check=True)
    return library


def run_with_tool(injection: Path, folder: Path, program: str) -> tuple[Log, list[dict]]:
    """Run a program that records to run.jsonl; give its log and the calls that the tool saw."""
    done = run(folder, program, NVTX_INJECTION64_PATH=str(injection), NVTX_LOG=str(folder / "nvtx.log"))
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = folder.glob("run.*.jsonl")
    seen = [json.loads(line) for line in (folder / "nvtx.log").read_text(encoding="utf-8").splitlines()]
    return read_log(path, clean=False), seen


def test_each_call_arrives_and_matches_the_log_one_to_one(injection: Path, tmp_path: Path) -> None:
    log, calls = run_with_tool(
        injection,
        tmp_path,
        """
        import asyncio, threading
        from tracekit import recorder as r

        r.start("run.jsonl")
        kept = r.range("kept", category="held", color="red")

        def work():
            for n in range(50):
                with r.range("plain"), r.range("forward", kind="forward"), kept:
                    r.mark("mark \\u540d", payload=n)
                with r.range("number", payload=n), r.range("real", payload=n / 8):
                    pass
                with r.range("object", payload={"n": n, "text": "\\u2603"}):
                    r.counter("loss", n / 3)
                    r.counter("items", 2**53 + 1)
                r.push("pushed")
                r.pop()
                r.end_range(r.start_range("request", category="net", payload=-n, color="#123456"))

        threads = [threading.Thread(target=work) for _ in range(3)]
        [t.start() for t in threads]
        work()
        [t.join() for t in threads]

        async def task(n):
            with r.range("task", kind="communication"):
                await asyncio.sleep(0.001)

        async def main():
            await asyncio.gather(*(task(n) for n in range(30)))

        asyncio.run(main())
        with r.step(5):
            pass
        r.stop()
        with r.range("after the stop"):
            pass
        """,
    )
    ours = [call for call in calls if call["domain"] == "tracekit"]
    categories = {call["category"]: call["name"] for call in ours if call["op"] == "category"}
    tids = {line["tid"]: index for index, line in log.threads.items()}
    attributes = {line["name"]: line for line in log.names.values()}

    def described(name: str, payload: object) -> tuple:
        line = attributes[name]
        color = int(line["color"][1:], 16) if "color" in line else 0x0000FF  # nvtx's own default: blue
        return (name, line.get("category") or line.get("kind"), color, value(payload))

    def value(payload: object) -> object:
        return payload if isinstance(payload, int | float | None) else json.dumps(payload)

    def payload_of(call: dict) -> object:
        return json.loads(bytes.fromhex(call["bytes"]).rstrip(b"\0")) if "bytes" in call else call.get("payload")

    def tool(op: str) -> Counter:
        found = [call for call in ours if call["op"] == op]
        return Counter(
            (
                tids[call["tid"]],
                call["message"],
                categories.get(call["category"]),
                call["color"],
                value(payload_of(call)),
            )
            for call in found
        )

    def logged(found: list) -> Counter:
        return Counter((seen.thread, *described(seen.name, seen.payload)) for seen in found)

    for seen in log.ranges:
        if seen.name == "step":
            seen.payload = 5  # in the log the number stands in the step's own line
    assert tool("push") == logged(log.ranges)
    assert tool("mark") == logged(log.marks)
    assert tool("start") == logged(log.overlapping)
    assert len(log.ranges) == 4 * 50 * 7 + 1
    assert len(log.overlapping) == 4 * 50 + 30
    assert sorted(c["id"] for c in ours if c["op"] == "end") == sorted(c["id"] for c in ours if c["op"] == "start")

    counters = {call["id"]: call["name"] for call in ours if call["op"] == "counter"}
    samples = Counter((counters[call["id"]], call["value"]) for call in ours if call["op"] == "sample")
    assert samples == Counter((name, value) for name, _, _, value in log.counters)

    # thread by thread the pushes and pops nest in the same order as the log's begins and ends
    for tid, index in tids.items():
        stack, closed = [], []
        for call in (call for call in ours if call["tid"] == tid):
            if call["op"] == "push":
                stack.append(call["message"])
            elif call["op"] == "pop":
                closed.append(stack.pop())
        assert stack == []
        ended = sorted((seen for seen in log.ranges if seen.thread == index), key=lambda seen: seen.end)
        assert closed == [seen.name for seen in ended]
    assert (log.dropped, log.torn, dict(log.notes)) == (0, 0, {})


def test_hard_names_reach_the_tool_without_harm(injection: Path, tmp_path: Path) -> None:
    log, calls = run_with_tool(
        injection,
        tmp_path,
        """
        from tracekit import recorder as r

        r.start("run.jsonl")
        for name in ("a\\0b", "\\ud800 lone", "x" * 1_000_000, "", 7, b"bytes"):
            with r.range(name, category="c\\0d", color="no colour"):
                r.mark(name, payload="\\udfff")
        with r.range("big", payload=1 << 70), r.range("list", payload=[float("nan")]):
            pass
        r.stop()
        """,
    )
    names = ["a\0b", "\\ud800 lone", "x" * 1_000_000, "", "7", "b'bytes'", "big", "list"]
    assert [seen.name for seen in log.ranges] == names
    pushed = [call["message"] for call in calls if call["op"] == "push"]
    assert pushed == ["a\u2400b", "\\ud800 lone", "x" * 4096, "", "7", "b'bytes'", "big", "list"]
    assert [seen.payload for seen in log.ranges[-2:]] == [1 << 70, ["NaN"]]
    assert log.notes["color_refused"] == 6
    assert "nvtx_refused" not in log.notes


def test_nvtx_alone_needs_no_log_and_off_is_off(injection: Path, tmp_path: Path) -> None:
    log, calls = run_with_tool(
        injection,
        tmp_path,
        """
        from tracekit import recorder as r

        assert r.start(None) is None and r.is_recording() and r.log_path() is None
        kept = r.range("nvtx only")
        with kept, r.range("payload", payload=3):
            r.mark("m")
            r.push("p"); r.pop()
            r.end_range(r.start_range("s"))
        with r.step(1): pass
        r.counter("c", 1)
        r.stop()
        with kept: pass
        r.start("run.jsonl", nvtx=False)
        with kept, r.range("log only"): pass
        r.stop()
        """,
    )
    assert Counter(call["op"] for call in calls if call["domain"] == "tracekit") == {
        "domain": 1, "push": 4, "pop": 4, "mark": 1, "start": 1, "end": 1, "counter": 1, "sample": 1,
        "category": 1,
    }  # fmt: skip
    assert log.calls() == {"nvtx only": 1, "log only": 1}


def test_a_forked_child_neither_ends_the_parents_range_in_the_tool(injection: Path, tmp_path: Path) -> None:
    (tmp_path / "child").mkdir()
    log, calls = run_with_tool(
        injection,
        tmp_path,
        """
        import os
        from tracekit import recorder as r

        r.start("run.jsonl")
        with r.range("parent's"):
            child = os.fork()
            if child == 0:
                pass
            else:
                os.waitpid(child, 0)
        if child == 0:
            os._exit(0)
        r.stop()
        """,
    )
    assert log.calls() == {"parent's": 1}
    ops = Counter((call["pid"] == log.head["pid"], call["op"]) for call in calls)
    assert ops == {(True, "domain"): 1, (True, "push"): 1, (True, "pop"): 1}

"""The oracles themselves: they see what is right, and they do not miss what is wrong."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import viewers
from support import wait_until
from viewers import chromium_page, one_browser, perfetto

pytestmark = pytest.mark.viewer


def slice_(name: str, ts: float, dur: float, tid: int = 7, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, **more}


GOOD: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "GPU 0"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 7, "args": {"name": "stream 7"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 14, "args": {"name": "stream 14"}},
    slice_("void gemm<int=4, (anonymous namespace)::名>(float*)", 0.001, 10.25),
    slice_("relu", 2.0, 1.004, args={"grid": [1, 2, 3]}),
    slice_("relu", 20.0, 0.0),
    slice_("[CUDA memcpy HtoD]", 5.5, 30.125, tid=14),
    {"ph": "i", "name": "mark", "pid": 1, "tid": 14, "ts": 36.0, "s": "t"},
    {"ph": "s", "id": 9, "cat": "launch", "name": "launch", "pid": 1, "tid": 7, "ts": 2.5},
    {"ph": "f", "id": 9, "cat": "launch", "name": "launch", "pid": 1, "tid": 14, "ts": 6.0, "bp": "e"},
    {"ph": "C", "name": "memory", "pid": 1, "ts": 1.0, "args": {"bytes": 512}},
]


def written(path: Path, events: list[dict[str, Any]]) -> Path:
    data = json.dumps({"traceEvents": events}, ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["good.json", "good.json.gz"])
def test_perfetto_sees_every_part_of_a_good_trace(tmp_path: Path, name: str) -> None:
    seen = perfetto(written(tmp_path / name, GOOD), ["select dur from slice where name = 'relu' order by ts"])
    assert seen["accepted"]
    assert seen["errors"] == {}
    assert (seen["slices"], seen["instants"], seen["unfinished"]) == (5, 2, 0)
    assert seen["sum_dur_ns"] == 10250 + 1004 + 30125
    assert (seen["first_ts_ns"], seen["end_ts_ns"]) == (1, 36000)
    assert seen["names"] == {
        "[CUDA memcpy HtoD]": {"count": 1, "sum_dur_ns": 30125},
        "mark": {"count": 1, "sum_dur_ns": 0},
        "relu": {"count": 2, "sum_dur_ns": 1004},
        "void gemm<int=4, (anonymous namespace)::名>(float*)": {"count": 1, "sum_dur_ns": 10250},
    }
    assert seen["processes"] == [{"pid": 1, "name": "GPU 0"}]
    assert [(row["tid"], row["name"], row["slices"]) for row in seen["threads"]] == [
        (7, "stream 7", 3),
        (14, "stream 14", 2),
    ]
    assert (seen["flows"], seen["counters"], seen["max_depth"]) == (1, 1, 1)
    assert seen["counter_tracks"] == [{"name": "memory bytes", "count": 1, "total": 512}]
    assert seen["sql"] == [[{"dur": 1004}, {"dur": 0}]]


def test_perfetto_says_that_it_dropped_a_slice_which_overlaps_by_one_nanosecond(tmp_path: Path) -> None:
    events = [slice_("first", 0.0, 10.001), slice_("second", 10.0, 10.0), slice_("third", 20.0, 1.0)]
    seen = perfetto(written(tmp_path / "overlap.json", events))
    assert seen["errors"] == {"slice_drop_overlapping_complete_event": 1}
    assert seen["slices"] == 2
    assert "second" not in seen["names"]


def test_perfetto_keeps_the_nanoseconds_of_long_traces(tmp_path: Path) -> None:
    month = 30 * 24 * 3600 * 10**6
    event = json.dumps(slice_("late", 0, 0)).replace('"ts": 0, "dur": 0', f'"ts": {month}.001, "dur": {month}.003')
    path = tmp_path / "long.json"
    path.write_text(f'{{"traceEvents": [{event}]}}', encoding="utf-8")
    seen = perfetto(path)
    assert (seen["first_ts_ns"], seen["sum_dur_ns"]) == (month * 1000 + 1, month * 1000 + 3)


@pytest.mark.parametrize(
    "text", ["not a trace", '{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":null,"pid":1,"tid":1}]}']
)
def test_perfetto_says_that_it_refuses_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    seen = perfetto(path)
    assert not seen["accepted"] or seen["errors"]


def test_perfetto_reports_a_wrong_statement(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no such table: nowhere"):
        perfetto(written(tmp_path / "good.json", GOOD), ["select * from nowhere"])


PAGE = """<!DOCTYPE html><html><head><meta charset="utf-8"><title>Report – 表</title></head><body>
<table><thead><tr><th id="ns">ns</th></tr></thead>
<tbody><tr><td>3</td></tr><tr><td>1</td></tr><tr><td>2</td></tr></tbody></table>
<script>
document.getElementById("ns").onclick = () => {
  const body = document.querySelector("tbody");
  [...body.rows].sort((a, b) => a.innerText - b.innerText).forEach((row) => body.append(row));
};
document.body.dataset.ready = "yes";
</script></body></html>"""


def page(tmp_path: Path, html: str) -> Path:
    path = tmp_path / "page with blanks.html"
    path.write_text(html, encoding="utf-8")
    return path


def test_chromium_finds_nothing_to_say_about_a_good_page(tmp_path: Path) -> None:
    shot = tmp_path / "page.png"
    order = "[...document.querySelectorAll('td')].map((cell) => cell.innerText)"
    click = f"(document.getElementById('ns').click(), new Promise((done) => setTimeout(() => done({order}), 50)))"
    result = chromium_page(page(tmp_path, PAGE), script=click, screenshot=shot)
    assert (result.console, result.page_errors, result.requests) == ([], [], [])
    assert result.title == "Report – 表"
    assert result.overflow_px == 0
    assert 'data-ready="yes"' in result.html
    assert result.html.index("<td>3") < result.html.index("<td>1")
    assert result.value == ["1", "2", "3"]
    data = shot.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 1300


def test_chromium_reports_console_errors_and_uncaught_exceptions(tmp_path: Path) -> None:
    script = (
        "console.error('no data', {a: 1}); console.warn('slow'); console.log('fine'); setTimeout(() => nothing(), 50)"
    )
    result = chromium_page(page(tmp_path, f"<!DOCTYPE html><title>x</title><script>{script}</script>"))
    assert result.console[0].startswith("error: no data")
    assert result.console[1] == "warning: slow"
    assert len(result.console) == 2
    assert len(result.page_errors) == 1
    assert "nothing is not defined" in result.page_errors[0]


OUTSIDE = """<!DOCTYPE html><title>x</title>
<link rel="stylesheet" href="https://fonts.example.org/font.css">
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><img src="http://198.51.100.7/pixel.gif">
<iframe srcdoc="<script src='https://frame.example.org/a.js'></script>"></iframe>
<script>
fetch("https://late.example.org/data.json").catch(() => {});
new WebSocket("wss://socket.example.org/live");
const code = new Blob(["fetch('https://worker.example.org/x').catch(() => {})"]);
new Worker(URL.createObjectURL(code));
</script>"""


def test_chromium_names_every_outside_request_and_lets_none_out(tmp_path: Path) -> None:
    result = chromium_page(page(tmp_path, OUTSIDE))
    assert sorted(result.requests) == [
        "http://198.51.100.7/pixel.gif",
        "https://fonts.example.org/font.css",
        "https://frame.example.org/a.js",
        "https://late.example.org/data.json",
        "https://worker.example.org/x",
        "wss://socket.example.org/live",
    ]
    assert any("ERR_PROXY_CONNECTION_FAILED" in line for line in result.console)


def test_chromium_measures_how_far_a_page_is_too_wide(tmp_path: Path) -> None:
    wide = page(tmp_path, "<!DOCTYPE html><body style='margin:0'><div style='width:900px'>wide</div></body>")
    assert chromium_page(wide, width=1000, settle=0.1).overflow_px == 0
    assert chromium_page(wide, width=700, settle=0.1).overflow_px == 200


def test_chromium_reports_a_script_that_throws_and_a_page_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the script failed: Error: no table"):
        chromium_page(page(tmp_path, PAGE), script="(() => { throw new Error('no table') })()", settle=0.1)
    with pytest.raises(RuntimeError, match="ERR_FILE_NOT_FOUND"):
        chromium_page(tmp_path / "nowhere.html")


def test_chromium_gives_up_on_a_page_that_never_ends(tmp_path: Path) -> None:
    endless = page(tmp_path, "<!DOCTYPE html><script>for (;;) {}</script>")
    with pytest.raises(TimeoutError):
        chromium_page(endless, timeout=5)


def processes() -> dict[int, tuple[int, str]]:
    """Parent and name of each running process; those that have ended and wait for their parent are left out."""
    command = ["ps", "-eo", "pid=,ppid=,stat=,comm="]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=3) for line in listing.splitlines()]
    return {int(pid): (int(parent), name) for pid, parent, state, name in rows if not state.startswith("Z")}


def test_no_browser_process_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family: set[int] = set()
    before = set(processes())  # other tests of this process may have children that stay, such as multiprocessing's
    wait_quiet = viewers._DevTools.wait_quiet

    def looking(devtools: Any, seconds: float) -> None:
        wait_quiet(devtools, seconds)
        running = {pid: found for pid, found in processes().items() if pid not in before}
        family.update(pid for pid, (parent, name) in running.items() if parent == os.getpid() and name != "ps")
        while more := {pid for pid, (parent, _) in running.items() if parent in family} - family:
            family.update(more)

    monkeypatch.setattr(viewers._DevTools, "wait_quiet", looking)
    chromium_page(page(tmp_path, PAGE), settle=0.1, alone=True)
    assert len(family) >= 3  # the browser, and at least a zygote and a renderer
    wait_until(lambda: not family & processes().keys())  # a child needs a moment to see that the browser is gone


def test_a_file_finds_nothing_that_another_page_stored(tmp_path: Path) -> None:
    seen = "[localStorage.length, sessionStorage.length, name, (await indexedDB.databases()).length, history.length]"
    store = """
        localStorage.a = sessionStorage.a = name = "1";
        await new Promise((done) => { indexedDB.open("a", 1).onsuccess = done; });
        history.pushState(null, "", "#2");
    """
    path = page(tmp_path, PAGE)
    first = chromium_page(path, script=f"(async () => {{ {store} return {seen}; }})()", settle=0.1)
    assert first.value == [1, 1, "1", 1, 3]
    assert chromium_page(path, script=f"(async () => {seen})()", settle=0.1).value == [0, 0, "", 0, 2]


def test_pages_that_share_a_browser_share_nothing_else_and_it_ends_with_them(tmp_path: Path) -> None:
    bad = (
        "<!DOCTYPE html><title>x</title><script>console.error('a'); document.cookie = 'a=1'; throw Error('b')</script>"
    )

    def ours() -> set[int]:
        return {pid for pid, (parent, name) in processes().items() if parent == os.getpid() and name != "ps"}

    before = ours()
    with one_browser():
        first = chromium_page(page(tmp_path, bad), settle=0.1)
        assert len(ours() - before) == 1
        assert (len(first.console), len(first.page_errors)) == (1, 1)
        good = chromium_page(page(tmp_path, PAGE), settle=0.1, width=700, script="[innerWidth, document.cookie]")
        assert (good.console, good.page_errors, good.value) == ([], [], [700, ""])
        with pytest.raises(RuntimeError, match="no table"):
            chromium_page(page(tmp_path, PAGE), script="(() => { throw new Error('no table') })()", settle=0.1)
        assert chromium_page(page(tmp_path, PAGE), settle=0.1).title == "Report – 表"
    wait_until(lambda: not ours() - before)


@pytest.mark.parametrize("tool", ["perfetto", "chromium"])
def test_a_missing_viewer_skips_by_name_and_fails_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    def use() -> None:
        if tool == "perfetto":
            perfetto(tmp_path / "x.json")
        else:
            chromium_page(tmp_path / "x.html")

    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match=r"needs (node|chromium), which is not installed"):
        use()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"needs (node|chromium), which is not installed"):
        use()

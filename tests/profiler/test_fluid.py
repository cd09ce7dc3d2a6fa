"""fluid's face: errors and silence as upstream, the report held against reports that Paddle printed."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from doors.profiler import report_text
from profiler.fake_cupti import FakeCupti, install
from support import corpus
from views.tables import trace

import tracekit
import tracekit.profiler.fluid as profiler
from tracekit import recorder
from tracekit.model.trace import Trace
from tracekit.writers import WRITERS


@pytest.fixture(autouse=True)
def stopped(capsys: pytest.CaptureFixture[str]):
    yield
    profiler.stop_profiler()
    capsys.readouterr()


def work(times: int = 3) -> None:
    for _ in range(times):
        with recorder.range("conv2d"):
            with recorder.range("conv2d/compute"):
                pass
            with recorder.range("conv2d/infer_shape"):
                pass
        with recorder.range("relu"):
            pass


def table(text: str) -> dict[str, list[str]]:
    """The rows of the last report, by name. A cell of 6 digits may fill its column, so that one blank is left."""
    head, *lines = [line for line in text.rpartition("Event Summary")[2].splitlines()[1:] if line.strip()]
    rows = [re.findall(r"[\d.e-]+ \([\d.e-]+\)|\S+", line) for line in lines]
    return {"Event": re.split(r"\s{2,}", head.strip())[1:]} | {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("state", ["cpu", "", "ALL", None])
def test_other_states_are_refused(state) -> None:
    with pytest.raises(ValueError, match=r"^The state must be 'CPU' or 'GPU' or 'All'\.$"):
        profiler.start_profiler(state)
    assert not recorder.is_recording()


def test_other_options_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^tracer option must be 'Default', 'OpDetail', 'AllOpDetail'\.$"):
        profiler.start_profiler("CPU", "All")
    assert not recorder.is_recording()


def test_a_second_start_and_a_stop_of_nothing_are_silent_before_any_check(capsys: pytest.CaptureFixture[str]) -> None:
    profiler.stop_profiler("nonsense")
    profiler.start_profiler("CPU")
    profiler.start_profiler("nonsense", "nonsense")
    assert capsys.readouterr() == ("", "")


def test_another_key_is_refused_and_the_profiler_goes_on() -> None:
    profiler.start_profiler("CPU")
    with pytest.raises(
        ValueError, match=r"^The sorted_key must be None or in 'calls', 'total', 'max', 'min' and 'ave'$"
    ):
        profiler.stop_profiler("call")
    assert recorder.is_recording()


@pytest.mark.parametrize("option", ["Default", "OpDetail", "AllOpDetail"])
def test_the_report_of_a_run(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with profiler.profiler("CPU", "total", "unused", option):
        work(7)
    assert not recorder.is_recording()
    said = capsys.readouterr().out
    assert "Place: CPU\nTime unit: ms\nSorted by total time in descending order in the same thread\n" in said
    rows = table(said)
    assert set(rows) == {"Event", "thread0::conv2d", "thread0::relu"} | (
        set() if option == "Default" else {"thread0::conv2d/compute", "thread0::conv2d/infer_shape"}
    )
    assert rows["Event"] == ["Calls", "Total", "Min.", "Max.", "Ave.", "Ratio."]
    calls, total, low, high, ave, ratio = map(float, rows["thread0::conv2d"])
    assert calls == 7
    assert low <= ave <= high
    assert total == pytest.approx(7 * ave, rel=1e-5)
    assert ratio + float(rows["thread0::relu"][5]) == pytest.approx(1, abs=1e-5)
    assert Path("unused").exists() is False, "the state All alone writes the proto"


def test_reset_forgets_what_was_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    with profiler.profiler("CPU"):
        for i in range(10):
            if i == 2:
                profiler.reset_profiler()
            work(1)
    assert table(capsys.readouterr().out)["thread0::relu"][0] == "8"
    profiler.reset_profiler()
    assert not recorder.is_recording()


def test_an_exception_in_the_block_is_reported_and_passes(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with profiler.profiler("CPU"):
            work(1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert table(capsys.readouterr().out)["thread0::relu"][0] == "1"


def test_several_threads_have_a_merged_report_and_one_each(capsys: pytest.CaptureFixture[str]) -> None:
    with profiler.profiler("CPU", "calls"):
        work(2)
        threads = [threading.Thread(target=work, args=(3,)) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join()
    merged, single = capsys.readouterr().out.split("Profiling Report")[1:]
    assert "Note! This Report merge all thread info into one." in merged
    assert "Total time: " in merged
    assert table("Event Summary" + merged.partition("Event Summary")[2])["relu"][0] == "8"
    assert "Note!" not in single
    assert "Total time: " not in single
    rows = table("Event Summary" + single.partition("Event Summary")[2])
    assert [rows[f"thread{k}::relu"][0] for k in range(3)] == ["2", "3", "3"]


def test_what_has_no_end_is_counted_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    profiler.start_profiler("CPU")
    opened = recorder.range("endless")
    opened.__enter__()
    work(1)
    profiler.stop_profiler()
    opened.__exit__(None, None, None)
    said = capsys.readouterr()
    assert "thread0::endless" not in said.out
    assert "ranges without an end, left out of the report: 1" in said.err


def test_nothing_recorded_gives_an_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    with profiler.profiler("CPU", "ave"):
        pass
    assert list(table(capsys.readouterr().out)) == ["Event"]


@pytest.mark.filterwarnings("ignore:Profiling")
def test_gpu_time_is_of_the_ranges_around_the_launch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gpu = install(monkeypatch, FakeCupti())
    with profiler.profiler("All", None, str(tmp_path / "profile"), "OpDetail"):
        for _ in range(2):
            with recorder.range("conv2d"):
                with recorder.range("conv2d/compute"):
                    gpu.kernel(ns=2_000_000)
                gpu.copy(ns=1_000_000)
        with recorder.range("relu"):
            pass
    rows = table(capsys.readouterr().out)
    assert rows["Event"][2:4] == ["CPU Time (Ratio)", "GPU Time (Ratio)"]
    assert rows["thread0::conv2d"][3].startswith("6.000000 (")
    assert rows["thread0::conv2d/compute"][3].startswith("4.000000 (")
    assert rows["thread0::relu"][3] == "0.000000 (0.000000)"
    cpu = float(rows["thread0::conv2d"][2].split()[0])
    assert float(rows["thread0::conv2d"][1]) == pytest.approx(6 + cpu, rel=1e-5)

    with profiler.profiler("GPU"), recorder.range("conv2d"):
        gpu.kernel(ns=2_000_000)
    said = capsys.readouterr().out
    assert "Place: CUDA" in said
    assert table(said)["thread0::conv2d"][:4] == ["1", "2", "2", "2"]


def test_state_all_without_a_gpu_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    install(monkeypatch, FakeCupti(), driver=False)
    with profiler.profiler("All", None, str(tmp_path / "profile")):
        work(2)
    said = capsys.readouterr()
    assert "no GPU work is recorded: there is no CUDA driver" in said.err
    assert table(said.out)["thread0::relu"][3] == "0.000000 (0.000000)"


def test_state_all_writes_the_profile_proto(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if "fluid-pb" not in WRITERS:
        pytest.skip("this checkout has no writer fluid-pb yet")
    install(monkeypatch, FakeCupti(), driver=False)
    for _ in range(2):
        with profiler.profiler("All", None, str(tmp_path / "profile")):
            work(4)
    trace = tracekit.read(tmp_path / "profile", format="fluid-pb")
    names = trace.events.column("name").to_pylist()
    assert (names.count("conv2d"), names.count("relu")) == (4, 4)


def test_a_proto_that_cannot_be_written_costs_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    install(monkeypatch, FakeCupti(), driver=False)
    (tmp_path / "file").write_text("")
    with profiler.profiler("All", None, str(tmp_path / "file" / "profile")):
        work(1)
    said = capsys.readouterr()
    assert "thread0::relu" in said.out
    assert said.err.count("tracekit.profiler: ") == 2


def printed_rows(lines: list[str]) -> list[tuple[str, int, list[float]]]:
    start = next(i for i, line in enumerate(lines) if line.startswith("Event ")) + 1
    found = []
    for line in lines[start:]:
        cells = re.split(r"\s{2,}", line.strip())
        found.append((cells[0].partition("::")[2], int(cells[1]), [float(cell) for cell in cells[2:]]))
    return found


def ended(calls: list[tuple[int, str, int]]) -> Trace:
    """A trace of ranges (thread, name, ns) that end one after another."""
    rows = [
        {"ts_ns": 10**9 * at - ns, "dur_ns": ns, "name": name, "kind": "operator", "pid": 1, "tid": thread}
        for at, (thread, name, ns) in enumerate(calls, 1)
    ]
    return trace(*rows)


@pytest.mark.corpus
def test_a_report_of_paddle_comes_out_of_its_own_rows() -> None:
    """Calls that have the printed count, sum, minimum and maximum give Paddle's text again, character by character."""
    lines = corpus("generated/paddle18_fluid/cpu_calls_opdetail.txt").read_text(encoding="utf-8").splitlines()
    while not lines[-1].strip():
        lines.pop()
    calls = []
    for name, count, (total, low, high, *_) in printed_rows(lines):
        ns = [round(value * 1e6) for value in (total, low, high)]
        middle = ns[0] - (ns[1] + ns[2] if count > 1 else 0)
        spread = [middle // max(count - 2, 1)] * max(count - 2, 0)
        if spread:
            spread[-1] += middle - sum(spread)
        calls += [(0, name, one) for one in ([ns[0]] if count == 1 else [ns[1], ns[2], *spread])]
    made = report_text(ended(calls), state="CPU", sorted_key="calls", tracer_option="OpDetail").splitlines()
    assert made == lines


@pytest.mark.corpus
def test_the_columns_of_the_state_all_are_paddles() -> None:
    text = corpus("paddle_fluid/fluid_report_all_default.txt").read_text(encoding="utf-8")
    head = next(line for line in text.splitlines() if line.startswith("Event "))
    made = report_text(
        ended([(0, "a" * 15, 1)]), state="All", sorted_key="default", tracer_option="Default"
    ).splitlines()
    [ours] = [line for line in made if line.startswith("Event ")]
    assert ours.split("Calls")[1] == head.split("Calls")[1]
    assert made[-1].endswith(
        "0.000001 (1.000000)     0.000000 (0.000000)     1e-06       1e-06       1e-06       1           "
    )


def test_copies_are_shown_by_default_below_their_operator() -> None:
    rows = [(0, "mul", 100), (0, "mul/prepare_data", 40), (0, "mul/prepare_data/GpuMemcpySync", 30), (0, "adam", 50)]
    made = report_text(ended(rows), state="CPU", sorted_key="default", tracer_option="Default")
    shown = [line.rstrip().partition("   ")[0] for line in made.partition("Event Summary")[2].splitlines()[3:]]
    assert shown == ["thread0::mul", "  GpuMemcpySync", "thread0::adam"]
    assert "GpuMemcpy                Calls: 1           Total: 3e-05       Ratio: 20%" in made
    assert "  GpuMemcpySync          Calls: 1 " in made


def test_ranges_that_overlap_on_their_thread_are_in_the_table(tmp_path: Path) -> None:
    path = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    opened = recorder.start_range("request")
    with recorder.range("mine"):
        recorder.end_range(opened)
    recorder.stop()
    rows = table(report_text(tracekit.read(path), state="CPU", sorted_key="default", tracer_option="Default"))
    assert set(rows) == {"Event", "thread0::mine", "thread0::request"}

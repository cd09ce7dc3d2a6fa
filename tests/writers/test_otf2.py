"""The OTF2 archive: OTF2's own reader finds every slice and counter that was given, and the rest is counted."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import profiles
import pyarrow as pa
import pytest
from hypothesis import given
from lanes import in_time_order, is_counter, is_writable, lane_of, rows
from strategies import rows_of, tables
from support import files_limited, need_otf2, run_command, sample
from viewed import EVERY_FILE, file_named, read_once
from writing import FEW, dense_tables, peak_kilobytes, write

import tracekit
from tracekit.errors import MissingExtraError, OutputError, OutputExistsError, UsageError
from tracekit.model.trace import Run, SourceFacts
from tracekit.writers import WRITERS
from tracekit.writers.base import OutputSubset, RowStream, WriteOptions, Written
from tracekit.writers.split.limit import shaped

RUN = "recorder-log/rank0.jsonl"


@pytest.fixture(autouse=True)
def _otf2_is_here(request: pytest.FixtureRequest) -> None:
    if "without_otf2" not in request.fixturenames:
        need_otf2()


@pytest.fixture
def without_otf2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_otf2", None)


def written(path: Path, *batches: pa.RecordBatch, run: Run | None = None) -> Written:
    return WRITERS["otf2"].write(RowStream(run or Run(), iter(batches)), path, WriteOptions(force=True, version="9.9"))


def held(name: str | None) -> str:
    return (name or "").replace("\0", "\\0")


def check_rows(path: Path, batches: list[pa.RecordBatch], made: Written) -> None:
    given_rows: list[dict[str, Any]] = [r for batch in batches for r in rows_of(pa.Table.from_batches([batch]))]
    first = min((row["ts_ns"] for row in given_rows), default=0)
    kept = [row for row in given_rows if is_writable(row, first)]
    slices = [row for row in kept if row["dur_ns"] is not None and not is_counter(row)]
    counters = [row for row in kept if is_counter(row)]
    seen = profiles.otf2_archive(path)
    assert Counter(row[:5] for row in seen.slices) == Counter(
        (lane_of(row), row["ts_ns"] - first, max(row["dur_ns"], 0), held(row["name"]), row["kind"]) for row in slices
    )
    assert Counter(seen.counters) == Counter(
        (held(row["name"]), row["ts_ns"] - first, float(row["value"])) for row in counters
    )
    assert made.events == len(slices) + len(counters)
    lost = sum(made.left_out.get(f"{what}-that-otf2-cannot-hold", 0) for what in ("marks", "points-of-arrows"))
    assert lost == len(kept) - len(slices) - len(counters)


@given(table=tables("events", max_rows=12))
def test_every_slice_and_counter_is_in_the_archive(tmp_path: Path, table: pa.Table) -> None:
    batches = in_time_order(table)
    check_rows(tmp_path / "t.otf2", batches, written(tmp_path / "t.otf2", *batches))


@given(table=dense_tables())
def test_slices_that_meet_or_overlap_enter_and_leave_in_order(tmp_path: Path, table: pa.Table) -> None:
    batches = in_time_order(table)
    check_rows(tmp_path / "t.otf2", batches, written(tmp_path / "t.otf2", *batches))


def check_same(source: Path, folder: Path) -> None:
    trace = read_once(source)
    if not trace.events.num_rows:
        return
    for name in ("x.json", "x.firefox.json", "x.otf2"):
        tracekit.write(trace, folder / name)
    made = profiles.otf2_archive(folder / "x.otf2")
    assert made.timed() == profiles.chrome(folder / "x.json")
    assert Counter(made.counters) == Counter(profiles.firefox(folder / "x.firefox.json").counters)


@EVERY_FILE
def test_a_file_has_the_slices_of_its_chrome_trace(name: str, tmp_path: Path) -> None:
    check_same(file_named(name), tmp_path)


def test_places_have_their_types_names_and_parents(tmp_path: Path) -> None:
    import otf2

    run = Run(sources=[SourceFacts("runs/a.csv", "test", facts={"host": "node7"})])
    run.devices[0, 0] = "Tesla P4"
    kernels = rows(2, ts_ns=np.array([0, 10]), dur_ns=np.array([15, 15]), device=0, stream=7, pid=5, name="k")
    call = rows(1, ts_ns=np.array([20]), dur_ns=np.array([5]), kind="runtime", pid=5, tid=3, name="hipLaunch")
    counter = rows(1, ts_ns=np.array([30]), kind="counter", name="memory", value=np.array([0.1]), pid=5)
    written(tmp_path / "t.otf2", kernels, call, counter, run=run)
    with otf2.reader.open(str(tmp_path / "t.otf2" / "traces.otf2")) as trace:
        known = trace.definitions
        assert [(each.name, each.class_name) for each in known.system_tree_nodes] == [
            ("a.csv", "machine"), ("node7", "node"),
        ]  # fmt: skip
        host, device = known.location_groups
        assert (host.name, host.location_group_type) == ("process 5", otf2.LocationGroupType.PROCESS)
        assert (device.name, device.creating_location_group) == ("GPU 0 Tesla P4 (process 5)", host)
        assert device.location_group_type == otf2.LocationGroupType.ACCELERATOR
        assert {each.system_tree_parent.name for each in (host, device)} == {"node7"}
        kinds = otf2.LocationType
        assert [(each.name, each.type, each.group) for each in known.locations] == [
            ("thread 3", kinds.CPU_THREAD, host), ("counters", kinds.METRIC, host),
            ("stream 7", kinds.ACCELERATOR_STREAM, device), ("stream 7 (2)", kinds.ACCELERATOR_STREAM, device),
        ]  # fmt: skip
        kernel, launch = known.regions
        assert (kernel.name, kernel.paradigm, kernel.region_role) == (
            "k", otf2.Paradigm.CUDA, otf2.RegionRole.KERNEL,
        )  # fmt: skip
        assert (launch.name, launch.paradigm, launch.description) == ("hipLaunch", otf2.Paradigm.HIP, "runtime")
        assert [(each.name, list(each.members)) for each in known.groups] == [
            ("kernel", [kernel]),
            ("runtime", [launch]),
        ]


def test_the_clock_has_the_unix_time_of_the_first_event(tmp_path: Path) -> None:
    import otf2

    starts = np.array([0, 1, 86_400_000_000_007, 5 * 10**17])
    batch = rows(4, ts_ns=starts + 500, dur_ns=np.full(4, 123_456_789))
    for origin, expected in ((1_700_000_000_123_456_789, 1_700_000_000_123_457_289), (None, (1 << 64) - 1)):
        written(tmp_path / "t.otf2", batch, run=Run(origin_ns=origin))
        made = profiles.otf2_archive(tmp_path / "t.otf2")
        assert sorted(row[1:3] for row in made.slices) == [(at, 123_456_789) for at in starts.tolist()]
        assert made.facts["base_ns"] == (origin or 0) + 500
        with otf2.reader.open(str(tmp_path / "t.otf2" / "traces.otf2")) as trace:
            assert trace.definitions.clock_properties.realtime_timestamp == expected


def test_what_is_not_written_is_noted(tmp_path: Path) -> None:
    slices = rows(2, ts_ns=np.array([0, 1]), dur_ns=np.array([0, -5]), name="k", args=pa.array(['{"a":1}', None]))
    values = np.array([1.0, 2.0, np.inf])
    others = rows(3, ts_ns=np.array([2, 3, 4]), kind=pa.array(["mark", "flow", "counter"]), value=values)
    made = written(tmp_path / "t.otf2", slices, others)
    assert made.notes == [
        "1 slices have a negative duration: written as 0",
        "1 slices have args, which are not written",
        "1 marks were skipped: OTF2 has no event for them",
        "1 flow events were skipped: OTF2 has no event for them",
        "1 counter values were not written: they are not finite",
    ]
    assert json.loads((tmp_path / "t.otf2" / "tracekit.json").read_text())["left_out"] == made.left_out


def test_an_empty_trace_is_an_archive_with_an_empty_location(tmp_path: Path) -> None:
    assert written(tmp_path / "t.otf2").events == 0
    assert profiles.otf2_archive(tmp_path / "t.otf2").slices == []


def test_the_command_replaces_its_own_archive_with_force_alone(tmp_path: Path) -> None:
    target = tmp_path / "run.otf2"
    said = run_command("convert", sample(RUN), "-o", f"{target}/").output
    size = sum(each.stat().st_size for each in target.rglob("*") if each.is_file())
    assert f"{size:,} bytes" in said
    before = {each: each.read_bytes() for each in target.rglob("*.evt")}
    assert before
    assert "exists already" in run_command("convert", sample(RUN), "-o", target, code=1).output
    (target / "tracekit.json").unlink()
    run_command("convert", sample(RUN), "-o", target, "--force")
    assert (target / "tracekit.json").exists()
    assert {each: each.read_bytes() for each in target.rglob("*.evt")} == before
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("other", ["results.txt", "traces/notes.txt"])
def test_force_keeps_what_is_not_an_archive_of_ours(tmp_path: Path, other: str) -> None:
    target = tmp_path / "run.otf2"
    write(target, "otf2", 1, size=FEW)
    (target / other).write_text("mine")
    with pytest.raises(OutputError, match="not an OTF2 archive of tracekit"):
        write(target, "otf2", 1, size=FEW)
    assert (target / other).read_text() == "mine"
    assert list(tmp_path.iterdir()) == [target]


def test_force_keeps_files_and_the_archives_of_others(tmp_path: Path) -> None:
    import otf2

    file, theirs = tmp_path / "file.otf2", tmp_path / "theirs.otf2"
    file.write_text("mine")
    with otf2.writer.open(str(theirs)):
        pass
    for target in (file, theirs):
        with pytest.raises(OutputError, match="not an OTF2 archive of tracekit"):
            write(target, "otf2", 1, size=FEW)
    assert file.read_text() == "mine"


def test_an_archive_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "run.otf2"

    def batches() -> Any:
        yield rows(1, ts_ns=np.array([1]), dur_ns=np.array([1]))
        write(target, "otf2", 1, size=FEW)

    before = list(tmp_path.iterdir())
    with pytest.raises(OutputExistsError):
        WRITERS["otf2"].write(RowStream(Run(), batches()), target, WriteOptions())
    assert before == []
    assert list(tmp_path.iterdir()) == [target]
    assert len(profiles.otf2_archive(target).slices) == FEW


def test_a_full_disk_leaves_the_old_archive(tmp_path: Path) -> None:
    target = tmp_path / "run.otf2"
    write(target, "otf2", 1, size=FEW)
    before = {each: each.read_bytes() for each in target.rglob("*") if each.is_file()}
    for limit in (0x100, 0x8000, 0x400000):
        with files_limited(limit), pytest.raises(OutputError) as raised:
            write(target, "otf2", 4)
        assert str(raised.value).startswith(str(target))
        assert {each: each.read_bytes() for each in target.rglob("*") if each.is_file()} == before
        assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("call", ["EvtWriter_Leave", "Archive_CloseEvtWriter", "GlobalDefWriter_WriteRegion"])
def test_an_error_of_the_library_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    import _otf2

    def failing(*_: object) -> None:
        raise _otf2.Error(_otf2.ErrorCode(36))

    monkeypatch.setattr(_otf2, call, failing)
    with pytest.raises(OutputError, match=r"run\.otf2: the archive cannot be written: "):
        write(tmp_path / "run.otf2", "otf2", 1, size=FEW)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no such folder"):
        write(tmp_path / "none" / "run.otf2", "otf2", 1, size=FEW)


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    small, large = (peak_kilobytes(tmp_path / "t.otf2", "otf2", batches=batches, crossing=True) for batches in (4, 20))
    assert large < 1.2 * small


def test_stdout_and_pieces_are_refused() -> None:
    said = run_command("convert", sample(RUN), "-o", "-", "--to", "otf2", code=2).output
    assert "otf2 is a folder, and stdout takes one file" in said
    for shape in (OutputSubset(split="step"), OutputSubset(max_events=3), OutputSubset(max_mb="1")):
        with pytest.raises(UsageError, match="not for otf2, which is a folder"):
            shaped(WRITERS["otf2"], shape)


@pytest.mark.usefixtures("without_otf2")
def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match="to otf2 needs packages") as raised:
        write(tmp_path / "t.otf2", "otf2", 1, size=FEW)
    assert raised.value.hint == "pip install 'tracekit-gpu[otf2]'"
    assert list(tmp_path.iterdir()) == []

"""The archive's bytes: what stands in the file, and what happens when it cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_limits import Limit, small
from writing import check_full_disk, peak_kilobytes

from tracekit.errors import OutputError, OutputExistsError
from tracekit.model import schema
from tracekit.model.trace import Ledger, Run, SourceFacts, concat
from tracekit.readers.builder import event_batch, totals_batch
from tracekit.writers import WRITERS
from tracekit.writers.base import RowStream, WriteOptions


def events(rows: int, start: int = 0, name: str = "gemm") -> pa.RecordBatch:
    ids = np.arange(start, start + rows)
    return event_batch(
        rows, {"ts_ns": ids * 1000, "dur_ns": 10, "event_id": ids, "name": name, "kind": "kernel", "source": 0}
    )


def write(target: Path, *batches: pa.RecordBatch, run: Run | None = None, ledgers: tuple[Ledger, ...] = ()) -> Path:
    WRITERS["parquet"].write(RowStream(run or Run(), iter(batches), ledgers), target, WriteOptions(version="1.2.3"))
    return target


def test_metadata_says_what_the_file_is(tmp_path: Path) -> None:
    run = Run(origin_ns=5, sources=[SourceFacts("x.csv", "nvprof-csv", sha256="ab", facts={"tool": "nvprof"})])
    run.threads[(0, 1, 2)] = "main \udcff thread"
    ledger = Ledger(path="x.csv", read=3, kept=2, facts=1)
    path = write(tmp_path / "a.parquet", events(2), run=run, ledgers=(ledger,))
    meta = {k.decode(): v for k, v in pq.read_metadata(path).metadata.items()}
    assert meta["tracekit.schema"] == str(schema.VERSION).encode()
    assert (meta["tracekit.table"], meta["tracekit.version"]) == (b"events", b"1.2.3")
    assert json.loads(meta["tracekit.run"]) == run.to_json()
    assert json.loads(meta["tracekit.ledger"]) == [ledger.to_json()]
    assert "tracekit.totals" not in meta


def test_facts_are_taken_when_the_batches_are_exhausted(tmp_path: Path) -> None:
    run, ledger = Run(), Ledger()

    def batches():  # type: ignore[no-untyped-def]
        yield events(1)
        run.devices[(0, 0)] = "late"
        ledger.read = ledger.kept = 1

    WRITERS["parquet"].write(RowStream(run, batches(), (ledger,)), tmp_path / "a.parquet", WriteOptions())
    meta = pq.read_metadata(tmp_path / "a.parquet").metadata
    assert json.loads(meta[b"tracekit.run"])["devices"] == [[0, 0, "late"]]
    assert json.loads(meta[b"tracekit.ledger"])[0]["kept"] == 1


def test_other_tools_see_a_plain_table(tmp_path: Path) -> None:
    frame = pq.read_table(write(tmp_path / "a.parquet", events(3))).to_pandas()
    assert list(frame.columns) == schema.EVENTS.names
    assert list(frame["name"]) == ["gemm"] * 3


def test_totals_alone_are_the_table_of_the_file(tmp_path: Path) -> None:
    batch = totals_batch(1, {"source": 0, "run": 0, "section": "kernels", "order": 0, "calls": 7})
    path = write(tmp_path / "a.parquet", batch)
    assert pq.read_metadata(path).metadata[b"tracekit.table"] == b"totals"
    assert pq.read_table(path).column("calls").to_pylist() == [7]


def test_totals_too_large_for_the_footer_are_counted_and_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.PARQUET_TOTALS_TEXT, 100)
    batch = totals_batch(3, {"source": 0, "run": 0, "section": "kernels", "order": np.arange(3)})
    done = WRITERS["parquet"].write(RowStream(Run(), iter([batch, events(1)])), tmp_path / "a.parquet", WriteOptions())
    assert (done.events, done.totals, done.left_out) == (1, 0, {"totals-too-large": 3})
    assert "3 rows of totals" in done.notes[0]


def test_facts_that_json_lacks_are_texts(tmp_path: Path) -> None:
    facts = {"nan": float("nan"), "set": {1}, "big": 1 << 80}
    path = write(tmp_path / "a.parquet", events(1), run=Run(sources=[SourceFacts("x", "y", facts=facts)]))
    stored = json.loads(pq.read_metadata(path).metadata[b"tracekit.run"])["sources"][0]["facts"]
    assert stored == {"nan": "nan", "set": "{1}", "big": 1 << 80}


def test_same_rows_give_the_same_bytes_however_they_were_cut(tmp_path: Path) -> None:
    whole = [event_batch(6, {"ts_ns": np.arange(6), "event_id": np.arange(6), "kind": "mark", "source": 0,
                             "name": pa.array(["c", "a", None, "a", "b", "c"])})]  # fmt: skip
    cut = [whole[0].slice(0, 1), whole[0].slice(1, 4), whole[0].slice(5)]
    one, two = write(tmp_path / "1.parquet", *whole), write(tmp_path / "2.parquet", *cut)
    assert one.read_bytes() == two.read_bytes()


def names_by_group(path: Path) -> list[list[str]]:
    """Return the dictionary of the column name in each row group."""
    file = pq.ParquetFile(path, read_dictionary=["name"])
    groups = [file.read_row_group(number, columns=["name"]) for number in range(file.num_row_groups)]
    return [group.column("name").chunk(0).dictionary.to_pylist() for group in groups]


def test_row_groups_have_a_fixed_size_and_their_own_dictionaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, Limit.PARQUET_ROWS_PER_GROUP, 131_072)
    path = write(tmp_path / "a.parquet", *(events(70_000, i * 70_000, f"k{i}") for i in range(4)))
    facts = pq.read_metadata(path)
    assert [facts.row_group(i).num_rows for i in range(facts.num_row_groups)] == [131_072, 131_072, 17_856]
    assert names_by_group(path) == [["k0", "k1"], ["k1", "k2", "k3"], ["k3"]]
    assert pq.read_table(path).column("ts_ns").to_pylist()[-1] == 279_999_000


@pytest.mark.parametrize("text", ["", "a", "gemm é"])
def test_a_text_that_only_other_rows_use_is_not_written(tmp_path: Path, text: str) -> None:
    both = events(2, name=text + "x"), events(1, 5, name=text)
    (last,) = concat(both, schema.EVENTS).slice(2).to_batches()
    assert names_by_group(write(tmp_path / "a.parquet", last)) == [[text]]


def test_an_event_of_nvprof_takes_at_most_10_bytes(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(7), 200_000
    names = np.minimum(rng.zipf(1.4, rows), 200).astype(np.int32) - 1
    start = np.cumsum(rng.integers(800, 9000, rows))
    grid = (np.array([1, 16, 64, 256, 1024])[names % 5]).astype(np.int32)
    batch = event_batch(
        rows,
        {
            "ts_ns": start, "dur_ns": (names + 1) * 900 + rng.integers(0, 700, rows), "event_id": np.arange(rows),
            "name": pa.DictionaryArray.from_arrays(
                pa.array(names), [f"void kernel_{i}<float>(float const*, int)" for i in range(200)]
            ),
            "kind": "kernel", "source": 0, "pid": 4242, "device": 0, "context": 1, "stream": names % 3 + 7,
            "correlation": np.cumsum(rng.integers(1, 5, rows)), "grid_x": grid, "grid_y": 1, "grid_z": 1,
            "block_x": 128, "block_y": 1, "block_z": 1, "registers": names % 7 * 8 + 16, "static_smem_bytes": 0,
            "dynamic_smem_bytes": 1024,
        },
    )  # fmt: skip
    path = write(tmp_path / "a.parquet", batch)
    assert path.stat().st_size / rows <= 10


def test_an_existing_file_stays_without_force(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("old")
    with pytest.raises(OutputExistsError):
        write(tmp_path / "a.parquet", events(1))
    assert (tmp_path / "a.parquet").read_text() == "old"


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    check_full_disk(tmp_path / "a.parquet", "parquet")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(OutputError, match="the disk is full"):
        write(tmp_path / "a.parquet", events(1))
    assert not list(tmp_path.iterdir())


def test_memory_stays_flat(tmp_path: Path) -> None:
    peaks = [peak_kilobytes(tmp_path / f"{n}.parquet", "parquet", batches=n) for n in (40, 72)]
    assert peaks[1] < 1.15 * peaks[0]

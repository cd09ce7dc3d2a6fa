"""A run whose files changed has two versions in an archive: queries and comparisons count the newest one."""

from __future__ import annotations

from pathlib import Path

import pytest
from batch_trees import Here
from compare_runs import steps, write
from support import run_command

import tracekit
from tracekit import archive, batch
from tracekit.comparison import compare

SQL = "SELECT count(DISTINCT entry) AS entries, count(*) AS n FROM events"


def counted(place: Path | str, *, all_versions: bool = False) -> tuple[int, int]:
    (row,) = tracekit.query(str(place), SQL, all_versions=all_versions).to_pylist()
    return row["entries"], row["n"]


def made_of(path: Path, count: int) -> str:
    path.unlink(missing_ok=True)
    return write(path, steps(count))


def run_of(tree: Path, count: int) -> None:
    """Write the only file of a run; its size depends on the number of steps."""
    made = Path(made_of(tree.parent / "made.parquet", count)).read_bytes()
    (tree / "night").mkdir(parents=True, exist_ok=True)
    (tree / "night" / "run.parquet").write_bytes(made)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LocalEngine", Here)


def test_a_query_counts_the_newest_version_of_a_run_that_a_batch_archived_again(tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    rows = []
    # The file changes, changes again, and is put back as it was at first.
    for number, count in enumerate((5, 7, 9, 5)):
        run_of(tree, count)
        assert batch.run([tree], out, jobs=1).is_whole
        rows.append(len(steps(count)))
        assert counted(out / "archive") == (1, rows[-1])
        versions = len(set(rows))
        assert counted(out / "archive", all_versions=True) == (versions, sum(set(rows)))
        assert len(archive.entries(out / "archive")) == versions
        assert number == 0 or len(archive.entries(out / "archive", newest=True)) == 1
    said = run_command("query", out / "archive", SQL).stderr
    assert said == "note: 2 older versions of changed runs left out; --all-versions counts them too\n"
    assert run_command("query", out / "archive", SQL, "--all-versions").stderr == ""
    assert not archive.verify(out / "archive").problems


def test_a_comparison_uses_the_newest_version(tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    for count in (5, 7):
        run_of(tree, count)
        batch.run([tree], out, jobs=1)
    found = compare(str(out / "archive"), made_of(tmp_path / "other.parquet", 11))
    assert found.sides is not None
    assert [run.step_count for run in found.sides.base] == [7]


def test_runs_of_one_name_that_nothing_replaces_all_count(tmp_path: Path) -> None:
    for count in (5, 7):
        archive.add(tmp_path / "a", made_of(tmp_path / "run.parquet", count), run="night")
    assert counted(tmp_path / "a") == (2, len(steps(5)) + len(steps(7)))


def test_an_older_version_that_was_replaced_stays_hidden_after_the_one_between_is_pruned(tmp_path: Path) -> None:
    ids: list[str] = []
    for count in (5, 7, 9):
        made = made_of(tmp_path / "run.parquet", count)
        ids.append(archive.add(tmp_path / "a", made, run="night", replaces=ids[-1:]).id)
    (between,) = [entry for entry in archive.entries(tmp_path / "a") if entry.id == ids[1]]
    Path(between.path).unlink()
    assert counted(tmp_path / "a") == (1, len(steps(9)))
    again = archive.add(tmp_path / "a", made_of(tmp_path / "run.parquet", 9), run="night", replaces=ids[:1])
    assert (again.new, again.changed) == (False, False)

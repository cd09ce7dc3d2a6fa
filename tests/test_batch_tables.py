"""Tables of batches that are not kept are those of a whole trace: figures, order, ties, facts and ledgers."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from support import SAMPLES, run_command, sample

import tracekit
from tracekit import batch_tables, pipeline
from tracekit.inputs import USUAL
from tracekit.inputs.paths import expand
from tracekit.model.schema import Kind
from tracekit.views.base import ViewOptions

VIEWS = ("kernel", "api")
NAMES = [str(path.relative_to(SAMPLES)) for path in sorted(SAMPLES.rglob("*")) if path.is_file()]
MADE_OF_BATCHES = (
    "nvprof-csv/gpu-trace-22-columns.csv",
    "nsys-sqlite/two-processes.sqlite",
    "nvprof-sqlite/version-8.nvvp",
)


def whole(path: Path, shown: ViewOptions) -> str:
    trace = pipeline.read(path, pipeline.for_summary(USUAL, "", VIEWS))
    return pipeline.render(pipeline.summary(trace, views=VIEWS, options=shown), "json")


def same(path: Path, shown: ViewOptions) -> bool:
    """Hold both ways against each other. Return whether the tables could be made of batches."""
    try:
        wanted = whole(path, shown)
    except tracekit.TracekitError:  # a file beside the profiles
        with pytest.raises(tracekit.TracekitError):
            batch_tables.summary(path, USUAL, VIEWS, shown)
        return False
    made = batch_tables.summary(path, USUAL, VIEWS, shown)
    if made is None:
        return False
    assert pipeline.render(made.report, "json") == wanted
    return True


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in NAMES if "/" in name}))
def test_samples_have_the_same_tables_both_ways(folder: str) -> None:
    of_folder = [name for name in NAMES if name.startswith(f"{folder}/")]
    found = [name for name in of_folder if same(sample(name), ViewOptions(sorted_by="-name"))]
    assert [name for name in MADE_OF_BATCHES if name.startswith(f"{folder}/") and name not in found] == []


def shuffled(folder: Path, seed: int) -> Path:
    """Write events in any order: few names, starts and lengths, so that most rows have one like them."""
    draw = random.Random(seed)
    rows = [
        {
            "ts_ns": draw.randrange(-4, 4),
            "dur_ns": draw.choice([None, -3, 0, 1, 1, 2, 1 << 33]),
            "event_id": number,
            "name": draw.choice([None, "", "a", "b", "c", "gemm"]),
            "kind": draw.choice([str(kind) for kind in (Kind.KERNEL, Kind.RUNTIME, Kind.DRIVER, Kind.SYNC, Kind.MARK)]),
            "source": 0,
        }
        for number in range(draw.randrange(40))
    ]
    path = folder / f"{seed}.jsonl"
    tracekit.write(tracekit.read(sample("recorder-log/rank0.jsonl")).filter(kind="mark"), path)
    head, *_, end = path.read_text().splitlines()
    end = json.dumps({**json.loads(end), "events": len(rows)})
    lines = [json.dumps({key: value for key, value in row.items() if value is not None}) for row in rows]
    path.write_text("\n".join([head, *lines, end]) + "\n")
    return path


def test_rows_in_any_order_have_the_tables_of_a_sorted_trace(tmp_path: Path) -> None:
    paths = [shuffled(tmp_path, seed) for seed in range(60)]
    assert sum(same(path, ViewOptions()) for path in paths) > 50


@pytest.mark.parametrize("options", [["--thread-sep"], ["--by", "rank"], ["--sort", "-avg"], ["--top", "2"]])
def test_options_mean_the_same_both_ways(options: list[str]) -> None:
    path = sample("nsys-sqlite/two-processes.sqlite")
    shown = run_command("summary", path, "--view", "kernel", *options).stdout
    trace = tracekit.read(path)
    how = {"--thread-sep": ViewOptions(thread_sep=True), "--by": ViewOptions(by="rank")}
    how |= {"--sort": ViewOptions(sorted_by="-avg"), "--top": ViewOptions(top=2)}
    made = tracekit.summary(trace, views=["kernel"], options=how[options[0]])
    rows = next((line for line in pipeline.render(made).splitlines() if "gemm" in line or "wgrad" in line), "")
    assert rows.split()[-1] in shown


def test_several_inputs_and_stdin_are_read_as_a_whole() -> None:
    one = expand(sample("nsys-sqlite/two-processes.sqlite"))
    assert batch_tables.fits(one, ["kernel"], ViewOptions())
    assert not batch_tables.fits([*one, *one], ["kernel"], ViewOptions())
    assert not batch_tables.fits(expand("-"), ["kernel"], ViewOptions())
    assert not batch_tables.fits(one, ["kernel", "steps"], ViewOptions())
    assert not batch_tables.fits(one, [], ViewOptions())

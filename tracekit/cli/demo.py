"""tracekit demo: the main job on sample traces."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import typer

from tracekit.cli._common import example, render_options, say
from tracekit.cli.process.terminal import output_width, show
from tracekit.errors import InputError, OutputExistsError

__all__ = ["SAMPLES", "demo"]

SAMPLES = {
    "run.csv": "nvprof-csv/gpu-and-api-trace.csv",
    "cuda_profile_0.log": "cuda-profile/kvp-timestamps.log",
    "rank0.jsonl": "recorder-log/rank0.jsonl",
    "rank1.jsonl": "recorder-log/rank1.jsonl",
    "trace.json": "kineto/gpu.pt.trace.json",
    "profile.pb": "paddle-pb/paddle26.paddle_trace.pb",
    "fluid.pb": "fluid-pb/paddle18-alloc.pb",
    "mxnet.json": "mxnet/mxnet-1.9.1.json",
    "theano.txt": "theano/theano-1.0.5.txt",
    "singa.txt": "singa/verbosity-1.txt",
    "torch.txt": "torch-table/cpu-row-limit.txt",
}
"""The samples under the names that the documentation uses, so that its commands run in the demo's folder."""
USUAL_WIDTH = 80
"""Columns of the tables where stdout is no terminal."""
CONVERTED = ("run.csv", "trace.json", "rank0.jsonl")


@example("tracekit demo -o demo-out")
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the results go.")] = Path(
        "tracekit-demo"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Copy sample profiles into a folder; convert and report some of them."""
    from tracekit import pipeline
    from tracekit.views.base import ViewOptions
    from tracekit.writers.base import cannot_write, new_file

    if output.exists() and any(output.iterdir()) and not force:
        raise OutputExistsError(str(output))
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise cannot_write(output, err) from err
    made: list[Path] = []
    with as_file(_samples()) as folder:
        for name, source in SAMPLES.items():
            with new_file(output / name, force=True) as copy:
                copy.write((folder / source).read_bytes())
    for name in CONVERTED:
        sample = output / name
        for suffix in (".chrome.json.gz", ".parquet"):
            made.append(sample.with_suffix(suffix))
            pipeline.convert(str(sample), made[-1], force=True)
        trace = pipeline.read(str(sample))
        made.append(sample.with_suffix(".html"))
        pipeline.write_report(trace, made[-1], force=True)
        if name == CONVERTED[0]:
            report = pipeline.summary(trace, views=["kernel"], options=ViewOptions(top=5))
            report = replace(report, facts=())  # the demo is one screen
            show(pipeline.render(report, "text", render_options(width=output_width() or USUAL_WIDTH)), pager=False)
            sys.stdout.flush()
    say("")
    for text in (
        f"{len(SAMPLES)} sample profiles are in {output}/: {', '.join(SAMPLES)}",
        f"Made from three of them: {', '.join(path.name for path in made)}",
    ):
        for line in wrap(text, output_width() or USUAL_WIDTH, subsequent_indent="  ", break_on_hyphens=False):
            say(line)
    say("")
    say("Try next:")
    say(f"  tracekit {output / CONVERTED[0]}")
    say(f"  tracekit open {made[2]}")
    say(f"  {made[0]}: open it in https://ui.perfetto.dev")


def _samples() -> Path:
    """Return the sample folder: inside the wheel, else beside the package in a checkout."""
    inside = files("tracekit") / "_sample_traces"
    if inside.is_dir():
        return inside  # type: ignore[return-value]
    beside = Path(__file__).resolve().parents[2] / "sample_traces"
    if not beside.is_dir():
        raise InputError("the sample traces are not installed", hint="pip install --force-reinstall tracekit-gpu")
    return beside

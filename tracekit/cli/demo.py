"""tracekit demo: the main job on sample traces."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli._common import example, say
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
    from tracekit.render.base import RenderOptions
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
            report = pipeline.summary(trace, views=["device", "kernel"], options=ViewOptions(top=8))
            print(pipeline.render(report, "text", RenderOptions(width=100)))
    say(f"copied {len(SAMPLES)} sample profiles to {output}/: {', '.join(SAMPLES)}")
    say("made from them:")
    for path in made:
        say(f"  {path}")
    say(f"the report: {made[2].resolve()}")
    say("open the .chrome.json.gz files in https://ui.perfetto.dev or chrome://tracing")


def _samples() -> Path:
    """Return the sample folder: inside the wheel, else beside the package in a checkout."""
    inside = files("tracekit") / "_sample_traces"
    if inside.is_dir():
        return inside  # type: ignore[return-value]
    beside = Path(__file__).resolve().parents[2] / "sample_traces"
    if not beside.is_dir():
        raise InputError("the sample traces are not installed", hint="pip install --force-reinstall tracekit-gpu")
    return beside

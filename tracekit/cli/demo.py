"""tracekit demo: the main job on sample traces."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli._common import example, say
from tracekit.errors import InputError, OutputExistsError

SAMPLES = ("nvprof-csv/gpu-and-api-trace.csv", "cuda-profile/kvp-timestamps.log", "recorder-log/rank0.jsonl")


@example("tracekit demo -o demo-out")
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the results go.")] = Path(
        "tracekit-demo"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Convert, summarise and report the sample traces that come with tracekit."""
    from tracekit import pipeline
    from tracekit.render.base import RenderOptions

    if output.exists() and any(output.iterdir()) and not force:
        raise OutputExistsError(str(output))
    output.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    with as_file(_samples()) as folder:
        for name in SAMPLES:
            source = folder / name
            stem = name.split("/")[0]
            for suffix in (".trace.json.gz", ".parquet"):
                target = output / f"{stem}{suffix}"
                pipeline.convert(str(source), target, force=True)
                made.append(target)
            trace = pipeline.read(str(source))
            page = output / f"{stem}.html"
            pipeline.write_report(trace, page, force=True)
            made.append(page)
            if name == SAMPLES[0]:
                from tracekit.views.base import ViewOptions

                report = pipeline.summary(trace, views=["device", "kernel"], options=ViewOptions(top=8))
                print(pipeline.render(report, "text", RenderOptions(width=100)))
    say("made:")
    for path in made:
        say(f"  {path}")
    say(
        f"\nthe report: {made[2].resolve()}\nopen the .trace.json.gz files in https://ui.perfetto.dev or chrome://tracing"
    )


def _samples() -> Path:
    """Return the sample folder: inside the wheel, else beside the package in a checkout."""
    inside = files("tracekit") / "_sample_traces"
    if inside.is_dir():
        return inside  # type: ignore[return-value]
    beside = Path(__file__).resolve().parents[2] / "sample_traces"
    if not beside.is_dir():
        raise InputError("the sample traces are not installed", hint="pip install --force-reinstall tracekit-gpu")
    return beside

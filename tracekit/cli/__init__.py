"""The command line: one line a command. Heavy imports wait inside the commands, so that --help is quick."""

from __future__ import annotations

import typer

from tracekit.cli import archive, batch, compare, convert, demo, explain, formats, inspect, query, report, summary
from tracekit.cli._common import guarded, prepare_process, version_option

app = typer.Typer(
    name="tracekit",
    help="Reads the profiles of GPU and deep-learning programs, exactly; writes traces, tables, reports and archives.",
    epilog="Start with: tracekit demo    or: tracekit summary YOUR_FILE",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.callback()(version_option)

for _command in (
    convert.convert, summary.summary, report.report, inspect.inspect, explain.explain, query.query,
    compare.compare, batch.batch, formats.formats, demo.demo,
):  # fmt: skip
    app.command(epilog=getattr(_command, "example", None))(guarded(_command))
app.add_typer(archive.archive)


def main() -> None:
    """Run the command line; what `tracekit` and `python -m tracekit` call."""
    prepare_process()
    app(prog_name="tracekit")

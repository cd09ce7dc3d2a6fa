"""tracekit open: one step from a file to its picture in the browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli._common import EmptyInput, ReadArguments, empty_inputs, example, finish, ledger_lines, progress, say
from tracekit.errors import TracekitError, UsageError

if TYPE_CHECKING:
    from tracekit.errors import Failure
    from tracekit.inputs import Input
    from tracekit.model.trace import Ledger
    from tracekit.viewer.cache import Made
    from tracekit.viewer.inputs import Kind, Ready
    from tracekit.viewer.site import Site

__all__ = ["open"]

_NOT_ABOUT_CONTENT = frozenset({"inputs", "debug", "anonymize", "anonymize_names", "anonymize_key"})


@example("tracekit open run.csv", "tracekit open run.csv --trace")
def open(
    reading: ReadArguments,
    trace: Annotated[
        bool | None,
        typer.Option("--trace/--page", help="Show the trace in Perfetto, or (by default) the page of the report."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Start the browser, or only print the address.")] = True,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Use this port of 127.0.0.1; 0 means any free one.")
    ] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Serve until Ctrl-C, also after the page was closed.")] = False,
) -> None:
    """Show the page of a report, or a trace in Perfetto, in the browser.

    The result is kept in your cache folder. With tracekit-gpu[ui] Perfetto works without a network.
    """
    from tracekit.inputs import expand
    from tracekit.safety.guard import costs_end
    from tracekit.viewer import inputs as shown
    from tracekit.viewer import site as sites

    items = expand(shown.pages_for_folders(reading.inputs))
    ready = shown.ready(items)
    kind: Kind = "trace" if trace or (trace is None and ready is not None and ready.kind == "trace") else "page"
    if ready is not None:
        _refuse_options(reading, ready, kind)
        name = shown.name_of(items, kind, anonymous=False)
        costs_end()
        site = sites.batch(ready.batch, ready.path) if ready.batch else _site(ready.path, name, kind, ours=False)
        _serve(site, browser=browser, port=port, keep=keep)
        return
    with _made(reading, items, kind) as (page_or_trace, unread):
        for line in page_or_trace.said:
            say(line)
        if unread.nothing_else:  # there is nothing to look at
            finish(unread.failures, unread.lost, unread.empty)
        costs_end()
        _serve(
            _site(page_or_trace.path, page_or_trace.path.name, kind, ours=True), browser=browser, port=port, keep=keep
        )
        finish(unread.failures, unread.lost, unread.empty)


def _refuse_options(reading: ReadArguments, ready: Ready, kind: Kind) -> None:
    """Refuse what needs the events of a file that is shown as it is. Raises: UsageError."""
    what = "a page of tracekit" if ready.kind == "page" else "a Perfetto trace"
    if ready.kind != kind:
        raise UsageError(f"--{kind}: {reading.inputs[0]} is {what}", hint="name the profile that it was made of")
    for option_of, default in zip(fields(reading), fields(ReadArguments), strict=True):
        given = getattr(reading, option_of.name)
        if option_of.name not in ("inputs", "debug") and given != default.default and given not in (None, []):
            option = "from" if option_of.name == "format" else option_of.name.replace("_", "-")
            raise UsageError(
                f"--{option}: {reading.inputs[0]} is {what}, which is shown as it is",
                hint="name the profile that it was made of",
            )


@dataclass
class _Unread:
    """The inputs that a new file lacks: that failed, sentences on incomplete ones, names of those without events."""

    failures: list[Failure] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    empty: list[EmptyInput] = field(default_factory=list)
    nothing_else: bool = False

    def add(self, failures: Sequence[Failure], lost: Sequence[str], ledgers: Sequence[Ledger]) -> None:
        self.failures += failures
        self.lost += lost
        self.empty += empty_inputs(ledgers)
        self.nothing_else = len(self.empty) == len(ledgers)


@contextmanager
def _made(reading: ReadArguments, items: list[Input], kind: Kind) -> Iterator[tuple[Made, _Unread]]:
    """Give the file that is made of the inputs, or was before, and what it lacks of them."""
    from tracekit.viewer import cache
    from tracekit.viewer import inputs as shown

    anonymous = reading.anonymize or reading.anonymize_names
    options = {f.name: getattr(reading, f.name) for f in fields(reading) if f.name not in _NOT_ABOUT_CONTENT}
    before = shown.state(items)
    # The tokens of an anonymous file are new in each run, unless there is a key, which no hash on a disk should have.
    key = "" if anonymous else shown.key_of(items, kind, options)
    unread = _Unread()

    def make(target: Path) -> Made:
        made_file = cache.Made(target)
        make_it = _make_page if kind == "page" else _make_trace
        make_it(reading, made_file, unread)
        # A file that somebody still writes to is shown as it was read, and read again the next time.
        made_file.keep = not (unread.failures or unread.lost or unread.empty) and shown.state(items) == before
        return made_file

    name = shown.name_of(items, kind, anonymous=anonymous)
    with cache.entry(cache.cache_folder(), key, name, make) as made_file:
        yield made_file, unread


def _make_page(reading: ReadArguments, page: Made, unread: _Unread) -> None:
    from tracekit import pipeline

    with progress(f"reading {reading.inputs[0]}") as update:
        trace = pipeline.read(reading.inputs, pipeline.for_report(reading.input_options(update)))
    pipeline.write_report(trace, page.path)
    unread.add(trace.failures, trace.incomplete, trace.ledgers)
    page.said += [*trace.incomplete, *ledger_lines(trace.ledgers)]


def _make_trace(reading: ReadArguments, trace_file: Made, unread: _Unread) -> None:
    from tracekit import conversion
    from tracekit.model.trace import incomplete

    with progress(f"converting {reading.inputs[0]}") as update:
        done = conversion.convert(reading.inputs, trace_file.path, reading.input_options(update), to="perfetto")
    unread.add(done.failures, incomplete(done.ledgers, done.run), done.ledgers)
    trace_file.said += unread.lost
    for reason, count in done.written.unexplained():
        trace_file.said.append(f"note: {count:,} {'row' if count == 1 else 'rows'} skipped: {reason}")
    trace_file.said += [*(f"note: {note}" for note in done.written.notes), *ledger_lines(done.ledgers)]


def _site(path: Path, name: str, kind: Kind, *, ours: bool) -> Site:
    from tracekit.viewer import perfetto, site

    if kind == "page":
        return site.page(path, name)
    folder = perfetto.bundled()
    if folder is not None:
        return perfetto.offline(folder, path, name, ours=ours)
    say(f"Perfetto comes from {perfetto.ONLINE}; the trace stays in your browser")
    say("hint: pip install 'tracekit-gpu[ui]' shows it without a network")
    return perfetto.online(path, name, ours=ours)


def _serve(site: Site, *, browser: bool, port: int, keep: bool) -> None:
    """Serve a site until it is no longer needed. Raises: TracekitError where nobody came."""
    from tracekit.viewer import browser as browsers
    from tracekit.viewer.server import Server, ServerEnded

    server = Server(site, port=port)
    try:
        end = f"it ends {'' if keep else f'{site.ends}, and '}with Ctrl-C"
        if browser and browsers.has_browser() and browsers.start(server.url_once):
            say(f"shown in your browser, from port {server.port} of 127.0.0.1; {end}")
        else:
            say("open the address below in a browser of this machine; on another computer, run this there first:")
            say(f"    {browsers.tunnel(server.port)}")
            say(end)
            print(server.url, flush=True)  # to stdout alone: it has the secret
        ended = server.wait(keep=keep)
    except KeyboardInterrupt:
        say("ended")
        return
    finally:
        server.close()
    if ended is ServerEnded.UNUSED:
        raise TracekitError("nobody opened the address in time", hint="run the command again, or add --keep")
    say(f"{ended.value}: the server has ended")

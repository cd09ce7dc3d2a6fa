"""tracekit config: the defaults of this project, and where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli._common import example
from tracekit.cli.process.settings import NO_CONFIG, SETTINGS, ConfigFile, config_file
from tracekit.cli.process.terminal import show
from tracekit.errors import UsageError
from tracekit.model.display import escape_controls

if TYPE_CHECKING:
    from tracekit.cli.process.settings import SettingValue

__all__ = ["config"]


@example("tracekit config --format json")
def config(
    format_: Annotated[str, typer.Option("--format", metavar="FORM", help="Print text or json.")] = "text",
    no_config: Annotated[bool, typer.Option(NO_CONFIG, help="Show the defaults without the file.")] = False,
) -> None:
    """Show the defaults of the project, and where each value comes from.

    They are in tracekit.toml, or in [tool.tracekit] of pyproject.toml. The nearest file counts, from this folder
    upwards. The command line wins.
    """
    if format_ not in ("text", "json"):
        raise UsageError(f"--format {format_}: no such form", hint="one of: text, json")
    found = None if no_config else config_file()
    if found is not None:
        _check_rules(found)
    if format_ == "json":
        _print_json(found)
    else:
        _print_text(found)


def _check_rules(found: ConfigFile) -> None:
    """Raise UsageError for a rule, budget or unit in the file that its command would refuse."""
    from tracekit.batch.index import parse
    from tracekit.comparison import parse_rule

    for name, check in (("compare.fail-on", parse_rule), ("batch.budget", parse)):
        texts = found.values.get(name)
        for text in texts if isinstance(texts, list) else ():
            check(text)
    if (unit := found.values.get("unit", "")) not in ("", "s", "ms", "us", "ns"):
        raise UsageError(f"{found.path}: unit = {unit!r}: not a unit", hint="one of: s, ms, us, ns")


def _print_text(found: ConfigFile | None) -> None:
    values = found.values if found is not None else {}
    if found is not None:
        head = f"Defaults, with those of {found.path}. The command line wins."
    else:
        head = "Defaults. No tracekit.toml and no [tool.tracekit] from this folder upwards."
    lines = [escape_controls(head), ""]
    rows = [(setting.name, _texts(values.get(setting.name, setting.default))) for setting in SETTINGS]
    wide = max(len(text) for _, texts in rows for text in texts)
    for name, texts in rows:
        origin = found.path.name if found is not None and name in values else "default"
        lines += [
            f"{name if not number else '':<20}  {text:<{min(wide, 40)}}  {origin if not number else ''}".rstrip()
            for number, text in enumerate(texts)
        ]
    show("\n".join(lines) + "\n")


def _texts(value: SettingValue | None) -> list[str]:
    """Return a value as the lines of its cell."""
    match value:
        case None | "" | []:
            return ["-"]
        case bool():
            return ["true" if value else "false"]
        case list():
            return [escape_controls(text) for text in value]
        case int():
            return [f"{value:,}"]
        case _:
            return [escape_controls(str(value))]


def _print_json(found: ConfigFile | None) -> None:
    import orjson

    from tracekit._version import __version__

    values = found.values if found is not None else {}
    settings = [
        {
            "key": each.name,
            "value": values.get(each.name, each.default),
            "from": str(found.path) if found is not None and each.name in values else "default",
            "meaning": each.meaning,
        }
        for each in SETTINGS
    ]
    data = {"tracekit": __version__, "file": str(found.path) if found is not None else None, "settings": settings}
    show(f"{orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()}\n", pager=False, form="json")

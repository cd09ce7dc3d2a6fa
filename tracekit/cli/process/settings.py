"""Defaults of a project: `tracekit.toml`, or `[tool.tracekit]` of `pyproject.toml`, in this folder or above it.

The nearest file counts, and no other. The search ends at the root of a repository (a folder with `.git`). No key names
a file, a folder or an address: a file of a stranger cannot make a command read or write anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tracekit.errors import UsageError
from tracekit.lazy_dataclass import dataclass

__all__ = [
    "NO_CONFIG",
    "SETTINGS",
    "ConfigFile",
    "Setting",
    "SettingValue",
    "config_file",
    "default_map",
    "in_force",
    "told",
]

NO_CONFIG = "--no-config"
_FILE, _PROJECT = "tracekit.toml", "pyproject.toml"
_MOST_BYTES = 1 << 20
"""A file that is larger is no configuration."""
SettingValue: TypeAlias = "str | bool | int | float | list[str]"
_Kind: TypeAlias = Literal["text", "texts", "flag", "count", "number"]
_WANTED: dict[_Kind, str] = {
    "text": "a text",
    "texts": "a text, or a list of texts",
    "flag": "true or false",
    "count": "a whole number",
    "number": "a number",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of the file. table: the command, "" for a key at the top, which is for all commands that have the option.

    key: the option without its dashes. default: that of the option; None where the command decides.
    """

    table: str
    key: str
    kind: _Kind
    default: SettingValue | None
    meaning: str

    @property
    def name(self) -> str:
        """Return the key with its table, such as "compare.fail-on"."""
        return f"{self.table}.{self.key}" if self.table else self.key

    @property
    def parameter(self) -> str:
        """Return the name of the option's parameter."""
        return self.key.replace("-", "_")


def _page(table: str) -> tuple[Setting, ...]:
    return (
        Setting(table, "page-events", "count", 2_000_000, "The most events of a page's timeline."),
        Setting(table, "page-mb", "number", 32, "The most MB of these events."),
        Setting(table, "page-args-mb", "number", 8, "The most MB of their arguments."),
    )


SETTINGS: tuple[Setting, ...] = (
    Setting("", "anonymize", "flag", False, "Replace private texts by tokens."),
    Setting("", "anonymize-names", "flag", False, "Replace names of events too."),
    Setting("", "demangle", "flag", True, "Make C++ names readable."),
    Setting("", "option", "texts", None, "Options of formats and views, KEY=VALUE."),
    Setting("", "rank-from", "text", "", "The rank in the name of an input."),
    Setting("", "unit", "text", "", "The unit of times in text."),
    Setting("batch", "budget", "texts", None, "Limits for key figures."),
    Setting("batch", "jobs", "count", 0, "Processes; 0 is one for each CPU."),
    *_page("batch"),
    Setting("batch", "run-pattern", "text", "", "Each match is a run."),
    Setting("batch", "strict", "flag", False, "Fail a file on its first note."),
    Setting("batch", "to", "texts", None, "Targets to convert each run to."),
    Setting("compare", "by", "text", "", "Divide the change by these."),
    Setting("compare", "fail-on", "texts", None, "Limits for changes."),
    Setting("compare", "min-effect", "text", "1%", "Ignore smaller changes."),
    Setting("compare", "one-run", "flag", False, "Read a folder as one run."),
    Setting("compare", "same-within", "text", "3%", 'The verdict is "same" within this.'),
    Setting("compare", "strict", "flag", False, "Fail a rule that is not decided."),
    Setting("compare", "top", "count", None, "Names in each table; 0 for all."),
    *_page("report"),
    Setting("summary", "top", "count", None, "Rows of each table; 0 for all."),
)
"""Every key, in the order of `tracekit config`."""
_GROUPS = {"archive": ("add", "export")}
"""Commands that are groups, and their commands that read inputs."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The file that counts, and its values by the name of the setting."""

    path: Path
    values: Mapping[str, SettingValue]


def config_file(folder: Path | None = None) -> ConfigFile | None:
    """Return the nearest file, from a folder upwards; None where there is none. Raises: UsageError for a bad one."""
    start = folder or Path.cwd()
    for place in (start, *start.parents):
        for name in (_FILE, _PROJECT):
            path = place / name
            if (text := _text_of(path)) is not None and (table := _table_of(path, text)) is not None:
                return ConfigFile(path, _checked(path, table))
        if (place / ".git").exists():
            return None
    return None


_IN_FORCE: list[tuple[ConfigFile, str]] = []
"""The file that this command line has its defaults from, and the command; none or one."""


def in_force(key: str) -> SettingValue | None:
    """Return the value of a key of the file for this command, None where it has none."""
    return next((found.values.get(f"{command}.{key}") for found, command in _IN_FORCE), None)


def told() -> str:
    """Return a sentence on the defaults that this command has from a file, "" for none."""
    for found, command in _IN_FORCE:
        names = [s.name for s in SETTINGS if s.name in found.values and s.table in ("", command)]
        return f"{found.path} gives defaults: {', '.join(names)}; `tracekit {NO_CONFIG} {command}` ignores them"
    return ""


def default_map(words: Sequence[str]) -> dict[str, Any]:
    """Return the defaults of click for a command line, as it is typed. Raises: UsageError.

    A line that asks for help or has `--no-config` has none, so that a bad file is never in the way.
    """
    _IN_FORCE.clear()
    command = next((word for word in words if not word.startswith("-")), "")
    if not command or {"--help", "-h", NO_CONFIG} & set(words) or (found := config_file()) is None:
        return {}
    if values := _values(found, command):
        _IN_FORCE.append((found, command))
    # A word that is no command may be an input of `summary`.
    made = {name: _values(found, name) for name in (command, "summary")}
    return {name: dict.fromkeys(_GROUPS[name], values) if name in _GROUPS else made[name] for name in made}


def _values(found: ConfigFile, command: str) -> dict[str, SettingValue]:
    """Return the values for a command by the name of the parameter; a key of its own wins over one for all."""
    return {
        setting.parameter: found.values[setting.name]
        for setting in SETTINGS
        if setting.name in found.values and setting.table in ("", command)
    }


def _text_of(path: Path) -> str | None:
    """Return the text of a file, None where there is none that can be read."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def _table_of(path: Path, text: str) -> dict[str, object] | None:
    """Return the keys of a file, None for a `pyproject.toml` that has no table of tracekit."""
    if path.name == _PROJECT and "tracekit" not in text:
        return None
    import tomllib

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        if path.name == _PROJECT and "tool.tracekit" not in text:
            return None  # a broken file of another tool
        raise UsageError(f"{path}: not valid TOML ({err})", hint=f"fix it, or add {NO_CONFIG}") from err
    if path.name == _FILE:
        return data
    tool = data.get("tool")
    table = tool.get("tracekit") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _checked(path: Path, table: Mapping[str, object]) -> dict[str, SettingValue]:
    from tracekit.model.display import escape_controls
    from tracekit.options import did_you_mean

    by_name = {setting.name: setting for setting in SETTINGS}
    tables = {setting.table for setting in SETTINGS if setting.table}
    values: dict[str, SettingValue] = {}
    for key, value in table.items():
        if key in tables and isinstance(value, dict):
            inside = {f"{key}.{name}": each for name, each in value.items()}
        else:
            inside = {key: value}
        for name, each in inside.items():
            if name not in by_name:
                shown = escape_controls(name)
                near = _of_command_line(name) or did_you_mean(name, [*by_name, *tables]) or _in_table(name)
                raise UsageError(
                    f"{path}: {shown}: no such key{near}", hint="`tracekit config --no-config` lists the keys"
                )
            values[name] = _typed(path, by_name[name], each)
    return values


def _in_table(name: str) -> str:
    """Return the question for a key that is known in another table."""
    last = name.rpartition(".")[2].replace("_", "-")
    names = [setting.name for setting in SETTINGS if setting.key == last]
    return f"; did you mean {' or '.join(names)}?" if names else ""


_COMMAND_LINE_ONLY = ("format", "from", "output", "view", "sort", "force", "all", "fix")
"""Options that belong to one command line: a default of the project would change what scripts read."""


def _of_command_line(name: str) -> str:
    """Return the words on a key that is an option, but one of the command line alone."""
    last = name.rpartition(".")[2].replace("_", "-")
    return f"; --{last} belongs to the command line" if last in _COMMAND_LINE_ONLY else ""


def _typed(path: Path, setting: Setting, value: object) -> SettingValue:
    """Return a value of the type of its setting. Raises: UsageError for another one."""
    from tracekit.model.display import escape_controls

    number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    match setting.kind:
        case "text" if isinstance(value, str):
            return value
        case "texts" if isinstance(value, str):
            return [value]
        case "texts" if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return value
        case "flag" if isinstance(value, bool):
            return value
        case "count" if number and isinstance(value, int):
            return value
        case "number" if number and isinstance(value, int | float):
            return value
    shown = escape_controls(repr(value))
    raise UsageError(f"{path}: {setting.name} = {shown}: not {_WANTED[setting.kind]}", hint=setting.meaning)

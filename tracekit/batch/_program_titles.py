"""Titles of the programs of a batch: the command that ran, else the folders and file names that its runs share."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence

from tracekit.batch._store import RunResult
from tracekit.model.display import cut_middle

__all__ = ["program_titles"]

_WIDTH = 48
_GENERAL = frozenset(
    (
        *("run", "runs", "job", "jobs", "trial", "exp", "experiment", "session", "test", "rank", "step", "data"),
        *("trace", "traces", "profile", "profiles", "prof", "profiler", "report", "log", "logs", "pt", "json"),
        *("out", "output", "result", "results", "tmp", "events"),
    )
)
"""Words of paths that say nothing about the program."""
_INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|node|bash|sh)[\d.]*(?:\.exe)?", re.IGNORECASE)
_NUMBERS = re.compile(r"[\d#]+(?:[-_.:T][\d#]+)*")


def program_titles(programs: Mapping[str, Sequence[RunResult]]) -> dict[str, str]:
    """Return a title for each program by its label, unlike all others of its formats. Runs are in order of time."""
    titles = {label: cut_middle(_title(runs), _WIDTH) for label, runs in programs.items()}
    formats = {label: label.partition(" · ")[2] for label in programs}
    for label, title in list(titles.items()):
        alike = [each for each in titles if titles[each] == title and formats[each] == formats[label]]
        if len(alike) < 2:
            continue
        for each in alike:
            titles[each] = f"{title} ({_span(programs[each])})"
    return titles


def _title(runs: Sequence[RunResult]) -> str:
    done = [run for run in runs if run["status"] != "failed"] or runs
    commands = list(dict.fromkeys(run["facts"].get("command", "") for run in done))
    if all(commands):
        words = [_words(command) for command in commands]
        if len(commands) == 1:
            return " ".join(words[0])
        if len({each[0] for each in words}) == 1:
            return f"{words[0][0]} …"
    if len(runs) == 1:
        return runs[0]["run"]
    return _shared(runs) or _file(runs) or _span(runs)


def _words(command: str) -> list[str]:
    """Return the words of a command from its program on, without its folder and the interpreter before a script.

    >>> _words("/usr/bin/python3 -u src/train.py --lr 0.1"), _words("./a.out 6 0")
    (['train.py', '--lr', '0.1'], ['a.out', '6', '0'])
    """
    try:
        words = shlex.split(command)
    except ValueError:  # a quote without its end
        words = command.split()
    if not words:
        return [command]
    if _INTERPRETER.fullmatch(posixpath.basename(words[0])):
        script = next((at for at, word in enumerate(words[1:], 1) if not word.startswith("-")), 0)
        words = words[script:]
    return [posixpath.basename(words[0].rstrip("/")) or words[0], *words[1:]]


def _shared(runs: Sequence[RunResult]) -> str:
    """Return the folders of all runs, and the words of folders that differ in numbers; "" where none says more."""
    paths = [run["run"].split("/") for run in runs]
    if len({len(path) for path in paths}) > 1:
        return ""
    kept = []
    for parts in zip(*paths, strict=True):
        alike = len(set(parts)) == 1
        word = parts[0] if alike else _NUMBERS.sub("…", parts[0])
        if _says_something(word):
            kept.append(word)
    return "/".join(kept)


def _says_something(word: str) -> bool:
    return any(each.lower() not in _GENERAL for each in re.findall(r"[^\W\d_]+", word))


def _file(runs: Sequence[RunResult]) -> str:
    """Return the name of the file that all runs have, "" where it says nothing."""
    names = {posixpath.basename(source["path"]) for run in runs for source in run["sources"]}
    name = names.pop() if len(names) == 1 else ""
    return name if _says_something(name.partition(".")[0]) else ""


def _span(runs: Sequence[RunResult]) -> str:
    first, last = runs[0]["run"], runs[-1]["run"]
    return first if first == last else f"{first} to {last}"

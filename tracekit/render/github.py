"""GitHub Actions: checks as annotations (workflow commands in the log), and as a job summary in Markdown.

A command is `::error file=F,line=N,title=T::TEXT`. In TEXT, "%", CR and LF are escaped; in the values of properties
":" and "," too (`core/src/command.ts` of actions/toolkit). GitHub shows ten annotations of a level for a step, and no
summary of a step that is larger than 1 MiB: what does not fit into a summary is counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tracekit.model.checks import Check, CheckList, CheckState
from tracekit.model.display import escape_controls, plural, shortened
from tracekit.render.markdown import code, plain

__all__ = ["MOST_SUMMARY_BYTES", "commands", "summary"]

MOST_SUMMARY_BYTES = 1_000_000
"""GitHub's limit is 1 MiB for a step."""
_LEVELS = {CheckState.ERROR: "error", CheckState.FAILED: "error", CheckState.UNDECIDED: "warning"}
_LONGEST_TITLE, _LONGEST_TEXT = 200, 2_000
_MOST_PASSED = 50
"""Passed checks in a summary; the others are counted."""


def commands(listed: CheckList, workspace: Path) -> str:
    """Return a workflow command for each check that did not pass, then the verdict as a notice.

    workspace: the folder of the checkout; only a file inside it can carry an annotation.
    """
    lines = [_command(_LEVELS[each.state], listed, each, workspace) for each in _not_passed(listed)]
    if listed.verdict:
        lines.append(_line("notice", {"title": f"tracekit {listed.command}"}, listed.verdict))
    lines += [_line("notice", {"title": f"tracekit {listed.command}"}, note) for note in listed.notes]
    return "".join(f"{line}\n" for line in lines)


def _not_passed(listed: CheckList) -> list[Check]:
    return [check for check in listed.gravest_first() if check.state is not CheckState.PASSED]


def _command(level: str, listed: CheckList, check: Check, workspace: Path) -> str:
    properties: dict[str, str] = {}
    if file := _inside(check.file, workspace):
        properties["file"] = file
        if check.line:
            properties["line"] = str(check.line)
    properties["title"] = f"tracekit {listed.command}: {shortened(escape_controls(check.name), _LONGEST_TITLE)}"
    return _line(level, properties, f"{check.word}: {check.text}" if check.text else check.word)


def _inside(file: str, workspace: Path) -> str:
    """Return the path of a file relative to the workspace, "" where it is not a file in there."""
    if not file or "://" in file or file == "-":
        return ""
    path = os.path.relpath(os.path.abspath(file), workspace)  # noqa: PTH100 - links stay as the user wrote them
    return "" if path.startswith("..") or os.path.isabs(path) or not (workspace / path).is_file() else path  # noqa: PTH117


def _line(level: str, properties: dict[str, str], text: str) -> str:
    # A name in a profile may be anything; with its controls escaped it stays in this one line.
    shown = _data(shortened(escape_controls(text), _LONGEST_TEXT))
    given = ",".join(f"{key}={_property(escape_controls(value))}" for key, value in properties.items())
    return f"::{level} {given}::{shown}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(listed: CheckList, details: str = "", most: int = MOST_SUMMARY_BYTES) -> str:
    """Return the job summary in Markdown. details: more Markdown, folded. most: bytes that it may take."""
    lines = [f"## tracekit {listed.command}: {_counts(listed)}", ""]
    if listed.verdict:
        lines += [plain(listed.verdict), ""]
    used = len("\n".join(lines).encode("utf-8", "replace"))
    rows, left_out = [], 0
    if listed.checks:
        rows = ["| State | Check | Result |", "| --- | --- | --- |"]
        # The end of a summary must fit too: the sentences on what is left out, and the notes.
        room = most - used - 2_000 - sum(len(note.encode("utf-8", "replace")) * 2 for note in listed.notes)
        passed = 0
        for check in listed.gravest_first():
            passed += check.state is CheckState.PASSED
            row = _row(check)
            room -= len(row.encode("utf-8", "replace")) + 1
            if room < 0 or passed > _MOST_PASSED:
                left_out += 1
            else:
                rows.append(row)
    lines += rows
    if left_out:
        lines += ["", f"{plural(left_out, 'more check')} not shown here."]
    if listed.notes:
        lines += ["", *(f"- {plain(note)}" for note in listed.notes)]
    text = "\n".join(lines) + "\n"
    folded = "".join(_folded(details))
    if len((text + folded).encode("utf-8", "replace")) <= most:
        return text + folded
    return text + "\nThe tables are too large for a job summary.\n"


def _row(check: Check) -> str:
    word = plain(check.word)
    word = word if check.state is CheckState.PASSED else f"**{word}**"
    name = code(shortened(escape_controls(check.name), _LONGEST_TITLE))
    return f"| {word} | {name} | {plain(shortened(escape_controls(check.text), _LONGEST_TEXT))} |"


def _folded(details: str) -> Iterator[str]:
    if details:
        yield "\n<details><summary>All tables</summary>\n\n"
        # Titles of the tables stay below that of the summary.
        yield "\n".join(f"##{line}" if line.startswith("#") else line for line in details.rstrip("\n").split("\n"))
        yield "\n\n</details>\n"


def _counts(listed: CheckList) -> str:
    bad = listed.count(CheckState.FAILED, CheckState.ERROR)
    undecided = listed.count(CheckState.UNDECIDED)
    if not listed.checks:
        return "nothing to check"
    text = f"{bad:,} of {plural(len(listed.checks), 'check')} failed" if bad else "no check failed"
    return f"{text}, {undecided:,} undecided" if undecided else text

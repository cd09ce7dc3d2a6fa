"""The forms for CI systems: `--format github` and `--format junit` of compare, doctor and batch."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tracekit.cli.process.terminal import show
from tracekit.credentials import masked
from tracekit.errors import OutputExistsError
from tracekit.model.checks import CheckList

__all__ = ["FORMS", "publish", "refuse_existing"]

FORMS = ("github", "junit")


def refuse_existing(output: str, *, force: bool) -> None:
    """Raise OutputExistsError for an output that exists, before any work is done for it."""
    if output not in ("", "-") and Path(output).exists() and not force:
        raise OutputExistsError(output)


def publish(form: str, listed: CheckList, *, details: str = "", output: str = "-", force: bool = False) -> None:
    """Print the checks of a command for a CI system.

    junit: XML to output. github: workflow commands to stdout; the job summary to output, else appended to the file that
    GitHub names in GITHUB_STEP_SUMMARY, else printed. details: Markdown, folded in the summary.
    """
    listed = _without_credentials(listed)
    if form == "junit":
        from tracekit.render import junit

        _put(junit.document(listed), output, form="xml", force=force)
        return
    from tracekit.render import github

    show(github.commands(listed, Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())), pager=False, form="commands")
    target = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if output != "-" or not target:
        _put(github.summary(listed, details), output, form="markdown", force=force)
        return
    with Path(target).open("a", encoding="utf-8", errors="replace") as file:
        # All commands of a step share this file, and GitHub drops the whole of it beyond its limit.
        room = github.MOST_SUMMARY_BYTES - file.tell()
        text = github.summary(listed, details, room)
        if len(text.encode("utf-8", "replace")) <= room:
            file.write(text)


def _put(text: str, output: str, *, form: str, force: bool) -> None:
    from tracekit.writers.base import new_file

    if output == "-":
        show(text, pager=False, form=form)
    else:
        with new_file(Path(output), force=force) as file:
            file.write(text.encode("utf-8", "replace"))


def _without_credentials(listed: CheckList) -> CheckList:
    """Return the checks with credentials masked: logs of CI are read by many."""
    checks = tuple(
        replace(check, name=masked(check.name), text=masked(check.text), file=masked(check.file))
        for check in listed.checks
    )
    notes = tuple(map(masked, listed.notes))
    return replace(listed, title=masked(listed.title), checks=checks, verdict=masked(listed.verdict), notes=notes)

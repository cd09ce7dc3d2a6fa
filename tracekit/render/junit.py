"""JUnit XML, as the reporters of GitLab, Jenkins and GitHub read it: one test case a check.

There is no official schema. These files follow `junit-10.xsd` of Jenkins' xUnit plugin, and GitLab's list of
elements: GitLab shows the content of `failure`, and keeps the first of two cases with one name. `time` is 0, since some
reporters for GitHub need a number, and the same inputs must give the same bytes. The file is ASCII, so that no encoding
of a terminal or a pipe can break it.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tracekit.model.checks import Check, CheckList, CheckState
from tracekit.model.display import escape_controls, shortened

__all__ = ["document"]

_LONGEST_NAME = 300
_CHILD = {CheckState.FAILED: "failure", CheckState.ERROR: "error", CheckState.UNDECIDED: "skipped"}


def document(listed: CheckList) -> str:
    """Return the checks of a command as an XML document."""
    failures, errors = listed.count(CheckState.FAILED), listed.count(CheckState.ERROR)
    counts = {"tests": f"{len(listed.checks)}", "failures": f"{failures}", "errors": f"{errors}"}
    root = Element("testsuites", {"name": "tracekit", **counts, "time": "0"})
    skipped = {"skipped": f"{listed.count(CheckState.UNDECIDED)}"}
    suite = SubElement(root, "testsuite", {"name": f"tracekit {listed.command}", **counts, **skipped, "time": "0"})
    # The suite's own output would come after the cases; as a property it is read before them.
    facts = [("checked", listed.title), ("verdict", listed.verdict), *(("note", note) for note in listed.notes)]
    properties = SubElement(suite, "properties")
    for key, text in facts:
        if text:
            SubElement(properties, "property", {"name": key, "value": _legal(text)})
    for check, name in zip(listed.checks, listed.unique_names(), strict=True):
        _add_case(suite, listed.command, check, name)
    indent(root)
    xml: bytes = tostring(root, encoding="us-ascii")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml.decode("ascii")}\n'


def _add_case(suite: Element, command: str, check: Check, name: str) -> None:
    shown = shortened(_legal(name), _LONGEST_NAME)
    case = SubElement(suite, "testcase", {"classname": f"tracekit.{command}", "name": shown, "time": "0"})
    text = _legal(check.text) or check.word
    tag = _CHILD.get(check.state)
    if tag is None:
        SubElement(case, "system-out").text = text
        return
    child = SubElement(case, tag, {"type": check.word, "message": text})
    # GitLab shows the content alone, and no name of the input.
    place = f"\n{_legal(check.file)}{f', line {check.line}' if check.line else ''}" if check.file else ""
    child.text = f"{text}{place}"


def _legal(text: str) -> str:
    r"""Return text in one line that XML 1.0 can hold: other characters are escapes, as \x1b."""
    shown = escape_controls(text)
    # Printable for Python, but no character of XML 1.0: the two noncharacters at the end of the first plane.
    return "".join(c if c not in "\ufffe\uffff" else c.encode("unicode_escape").decode("ascii") for c in shown)

"""What CI systems read, by their own rules: workflow commands as GitHub's runner does, JUnit XML by a schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element


@dataclass(frozen=True)
class Command:
    level: str
    properties: dict[str, str]
    text: str


def commands(output: str) -> list[Command]:
    """The workflow commands in a log: the lines that begin with "::". The next "::" ends the head of one."""
    return [parsed(line) for line in output.split("\n") if line.strip().startswith("::")]


def parsed(line: str) -> Command:
    head, separator, text = line.strip()[2:].partition("::")
    assert separator, line
    name, _, given = head.partition(" ")
    pairs = [pair.partition("=") for pair in given.split(",") if pair]
    assert all(equals for _, equals, _ in pairs), line
    properties = {key.strip(): unescaped(value, {"%3A": ":", "%2C": ","}) for key, _, value in pairs}
    return Command(name, properties, unescaped(text, {}))


def unescaped(text: str, more: dict[str, str]) -> str:
    """The runner replaces the escapes one after the other, that of the percent sign at last."""
    for escape, char in ({"%0D": "\r", "%0A": "\n"} | more | {"%25": "%"}).items():
        text = text.replace(escape, char)
    return text


CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testsuite", "properties", "testcase", "system-out", "system-err"},
    "properties": {"property"},
    "testcase": {"skipped", "error", "failure", "system-out", "system-err"},
}
NEEDED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name"},
    "property": {"name", "value"},
}
ALLOWED = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id",
                  "package", "file", "log", "url"},
    "testcase": {"name", "time", "classname", "group"},
    "property": {"name", "value"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
}  # fmt: skip
"""junit-10.xsd of Jenkins' xUnit plugin, without reruns."""
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(text: str) -> Element:
    """The document, after a check against the schema and against what readers do with two equal names."""
    assert text.isascii()
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set()), element.tag
        assert set(element.attrib) <= ALLOWED.get(element.tag, set()), (element.tag, element.attrib)
        assert set(element.attrib) >= NEEDED.get(element.tag, set())
        if element.tag in CHILDREN:
            assert not (element.text or "").strip(), "text between elements"
        for value in (*element.attrib.values(), element.text or ""):
            assert not NOT_XML.search(value)
        if "time" in element.attrib:
            assert re.fullmatch(r"\d+(\.\d*)?", element.attrib["time"])
    for suite in root.iter("testsuite"):
        cases = list(suite.iter("testcase"))
        names = [(case.get("classname"), case.get("name")) for case in cases]
        assert len(set(names)) == len(names), "GitLab keeps one of two cases of one name"
        counts = {tag: sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error", "skipped")}
        shown = {"failure": suite.get("failures"), "error": suite.get("errors"), "skipped": suite.get("skipped")}
        assert {tag: str(count) for tag, count in counts.items()} == shown
        assert suite.get("tests") == str(len(cases))
        assert cases, "a report without a test is an error for some readers"
    return root


def states(root: Element) -> dict[str, str]:
    """The state of each test case, by name."""
    return {
        case.get("name", ""): next((child.tag for child in case if child.tag != "system-out"), "passed")
        for case in root.iter("testcase")
    }

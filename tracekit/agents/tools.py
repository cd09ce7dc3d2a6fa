"""The tools that an agent can call: names, parameters and answers as data. `questions` has what each of them does.

Nothing heavy is imported here: the server lists the tools before any profile is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tracekit.errors import UsageError
from tracekit.lazy_dataclass import dataclass
from tracekit.options import no_such

__all__ = ["TOOLS", "AgentTool", "ToolParameter", "checked"]

JsonSchema = dict[str, Any]
_TEXT: JsonSchema = {"type": "string"}
_OBJECT: JsonSchema = {"type": "object"}
_TEXTS: JsonSchema = {"type": "array", "items": _TEXT}
_NEXT: JsonSchema = {"type": ["integer", "null"], "description": "Pass it as `skip` for the next page; null: no more."}
_TABLE: JsonSchema = {
    "type": "object",
    "required": ["name", "columns", "rows", "rows_total", "next_skip"],
    "properties": {
        "name": _TEXT,
        "columns": {"type": "array", "items": {"type": "object", "required": ["name", "unit"]}},
        "rows": {"type": "array", "items": {"type": "array"}},
        "rows_total": {"type": "integer"},
        "next_skip": _NEXT,
    },
}
_SECTIONS: JsonSchema = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["view", "notes", "tables"],
        "properties": {"view": _TEXT, "notes": _TEXTS, "tables": {"type": "array", "items": _TABLE}},
    },
}
_FINDINGS: JsonSchema = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["rule", "claim", "confidence", "saving_ns", "share", "because", "advice"],
    },
}


_MOST = 10**9


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """One parameter of a tool. kind: a text, a whole number, or one or several texts; least, most: of a number."""

    name: str
    kind: Literal["text", "number", "texts"]
    help: str
    required: bool = False
    default: str | int | tuple[str, ...] = ""
    least: int = 0
    most: int = 0

    def schema(self) -> JsonSchema:
        """Return the JSON schema of the parameter."""
        shape: JsonSchema
        if self.kind == "number":
            shape = {"type": "integer", "minimum": self.least, "maximum": self.most, "default": self.default}
        elif self.kind == "texts":
            shape = {"anyOf": [_TEXT, _TEXTS]}
        else:
            shape = dict(_TEXT)
        return {**shape, "description": self.help}

    def checked(self, value: object) -> object:
        """Return the value as its type: texts become a list. Raises: UsageError."""
        if self.kind == "number":
            if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
                raise UsageError(f"{self.name}: not a whole number from {self.least} to {self.most:,}", hint=self.help)
            return value
        if self.kind == "text":
            if not isinstance(value, str):
                raise UsageError(f"{self.name}: not a text", hint=self.help)
            return value
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UsageError(f"{self.name}: not a text or a list of texts", hint=self.help)
        return list(words)


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One tool. answer: the properties of its answer that are always there, as JSON schemas."""

    name: str
    title: str
    description: str
    parameters: tuple[ToolParameter, ...]
    answer: Mapping[str, JsonSchema]

    def input_schema(self) -> JsonSchema:
        """Return the JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {each.name: each.schema() for each in self.parameters},
            "required": [each.name for each in self.parameters if each.required],
            "additionalProperties": False,
        }

    def output_schema(self) -> JsonSchema:
        """Return the JSON schema of the answer."""
        answer = {"tracekit": _TEXT, "untrusted": _TEXT, **self.answer}
        return {"type": "object", "properties": answer, "required": list(answer)}


_PROFILE = ToolParameter(
    "profile",
    "text",
    "Name of a profile as `profiles` lists it: a file, or a folder with the files of all ranks of one run.",
    required=True,
)
_SKIP = ToolParameter("skip", "number", "Rows to pass over: `next_skip` of the page before.", default=0, most=_MOST)
_COLUMNS = ToolParameter("columns", "texts", "Only these columns, by name. All by default.", default=())


def _top(default: int, what: str = "Rows of each table.") -> ToolParameter:
    return ToolParameter("top", "number", what, default=default, least=1, most=500)


def _side(name: str, words: str) -> ToolParameter:
    return ToolParameter(
        name, "texts", f"{words}: one or several profiles, a folder of repeats, or ARCHIVE:TAG.", required=True
    )


TOOLS: tuple[AgentTool, ...] = (
    AgentTool(
        "profiles",
        "List profiles",
        "List the profiles in the folders, with format, size and time of change. Begin here: the other tools take "
        "these names. A folder is also a profile: its files are joined as the ranks of one run.",
        (
            ToolParameter("folder", "text", "Only the profiles in this folder."),
            _top(50, "Profiles in one answer."),
            ToolParameter(
                "skip", "number", "Files to pass over: `next_skip` of the page before.", default=0, most=_MOST
            ),
        ),
        {"folders": _TEXTS, "profiles": {"type": "array", "items": _OBJECT}, "next_skip": _NEXT},
    ),
    AgentTool(
        "summary",
        "Summarise a profile",
        "Answer first where the time of a run goes: opening sentence, time of a step, device time in parts, best "
        "findings, top kernels, warnings. `views` lists the tables that `view` can show. Times are integer ns, shares "
        "are from 0 to 1, null is not known.",
        (_PROFILE,),
        {"headline": {"type": ["object", "null"]}, "views": {"type": "array", "items": _OBJECT}, "notes": _TEXTS},
    ),
    AgentTool(
        "findings",
        "Explain what is slow",
        "List what could be faster, largest saving first: claim, evidence, upper bound of the saving in ns, share of "
        "the window, confidence, reason, advice, and how to check it. Savings overlap: do not add them up. `notes` "
        "says which rules were checked without a finding, and which could not be checked and what they need.",
        (_PROFILE, _top(10, "Findings in one answer."), _SKIP),
        {"findings": _FINDINGS, "findings_total": {"type": "integer"}, "next_skip": _NEXT, "notes": _TEXTS},
    ),
    AgentTool(
        "view",
        "Show a table",
        "Show one view, such as kernel, operator, idle, steps, device, memory, distributed or critical_path. `summary` "
        "lists the views of a profile. Use `top`, `skip` and `columns` to keep the answer small.",
        (
            _PROFILE,
            ToolParameter("view", "text", "Name of the view.", required=True),
            ToolParameter("table", "text", "Only the table of this name, where the view has several."),
            ToolParameter("sort", "text", "Column to sort by, largest first; -COLUMN sorts smallest first."),
            _COLUMNS,
            _top(20),
            _SKIP,
        ),
        {"sections": _SECTIONS},
    ),
    AgentTool(
        "query",
        "Query events in SQL",
        'Run one SELECT of DuckDB over the views `events` and `totals` of profiles or archives. "DESCRIBE events" '
        "lists the columns. ts_ns and dur_ns are integer ns; kind is kernel, memcpy, operator, step and others. The "
        "query can read these two views and nothing else.",
        (
            ToolParameter("profiles", "texts", "One or several profiles by name.", required=True),
            ToolParameter("sql", "text", "One SELECT. Use ORDER BY and LIMIT.", required=True),
            _top(100, "Rows in one answer."),
            _SKIP,
        ),
        {"columns": {"type": "array"}, "rows": {"type": "array"}, "next_skip": _NEXT},
    ),
    AgentTool(
        "compare",
        "Compare two runs",
        "Compare two runs or two sets of repeats: verdict (faster, slower, same, or not known), interval of the "
        "change, and the parts of the change, which add up exactly. One run on each side does not show the noise "
        "between runs.",
        (
            _side("base", "The side before"),
            _side("new", "The side after"),
            ToolParameter("rules", "texts", "Limits to check, such as 'step.p50 > 3%'.", default=()),
            ToolParameter("by", "text", "`module` or `operator`: divide the change of the device time by these."),
            _COLUMNS,
            _top(10),
            _SKIP,
        ),
        {"sections": _SECTIONS, "rules": {"type": "array", "items": _OBJECT}},
    ),
    AgentTool(
        "explain",
        "Explain why two numbers differ",
        "Explain the difference of two cells in steps that add up exactly. A cell is VIEW.COLUMN or VIEW.ROW.COLUMN, "
        "such as kernel.total and device.kernel_time.",
        (
            _PROFILE,
            ToolParameter("left", "text", "The first cell, such as kernel.total.", required=True),
            ToolParameter("right", "text", "The second cell, such as device.kernel_time.", required=True),
            _top(20),
        ),
        {"sections": _SECTIONS},
    ),
)


def checked(name: str, given: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments of a tool, checked, with defaults. Raises: UsageError."""
    tool = next((each for each in TOOLS if each.name == name), None)
    if tool is None:
        raise no_such("tool", name, "tool", [each.name for each in TOOLS])
    known = {each.name: each for each in tool.parameters}
    for word in given:
        if word not in known:
            raise no_such("argument", word, f"argument of {name}", known)
    for each in tool.parameters:
        if each.required and each.name not in given:
            raise UsageError(f"{name} needs the argument {each.name}", hint=each.help)
    return {
        each.name: each.checked(given[each.name])
        if given.get(each.name) is not None
        else list(each.default)
        if isinstance(each.default, tuple)
        else each.default
        for each in tool.parameters
    }

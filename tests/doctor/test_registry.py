"""The list of classes is whole: its notes exist, each reason to drop records has a class, each class is documented."""

from __future__ import annotations

import ast
import re

from support import PACKAGE, ROOT

from tracekit.doctor.defects import DEFECTS
from tracekit.doctor.note_classes import NOTED, ROWS, class_of_note


def codes(method: str) -> set[str]:
    """Return the codes that readers give to `ledger.note` or `ledger.drop` as they are."""
    found = set()
    for path in (PACKAGE / "readers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", str(first.value)):
                    found.add(str(first.value))
    return found


def test_notes_that_the_classes_name_are_notes_of_readers() -> None:
    """A note that gets another name would become a remark, silently. A part of the codes is made while reading."""
    own = {"null-time", "text-time", "text-id", "bad-metadata", "byte-order-mark", "trailing-comma", "open-list"}
    own |= {"lost-comma", "doubled-comma"}
    files = sorted((PACKAGE / "readers").rglob("*.py"))
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    assert [code for code in NOTED if code not in own and f'"{code}"' not in text] == []


def test_each_reason_to_drop_records_is_a_defect() -> None:
    for code in codes("drop"):
        found = class_of_note(code, "", dropped=True)
        assert found is None or not found.remark, code
    other = class_of_note("of-a-plugin", "", dropped=True)
    assert other is not None
    assert other.code == "bad-record"


def test_each_class_of_a_note_exists() -> None:
    assert set(NOTED.values()) - {ROWS} <= set(DEFECTS)


def test_each_class_says_what_it_means_and_what_the_repair_does() -> None:
    for each in DEFECTS.values():
        assert each.meaning.endswith("."), each.code
        assert each.code == "remark" or each.fix or each.code in ("missing-table", "events-lost"), each.code
        assert each.remark or each.viewers() or each.code in (
            "bad-record", "locale-numbers", "missing-table", "events-lost", "bad-time", "unknown-number", "null-time",
        ), each.code  # fmt: skip


def test_the_page_has_every_class() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    for each in DEFECTS.values():
        if each.code != "remark":
            assert f"| `{each.code}` | {each.meaning} | {each.fix or 'they cannot be restored'} |" in page


def test_a_warning_of_the_profiler_is_a_defect_where_events_were_lost() -> None:
    def code(text: str) -> str:
        found = class_of_note("profiler-warning-1", text)
        assert found is not None
        return found.code

    assert code("Not all CUDA events might have been collected.") == "events-lost"
    assert code("Not all NVTX events might have been collected.") == "remark"
    assert code("CUDA device 0: Unified Memory cannot be traced, records are missing") == "remark"
    assert code("12 records have invalid timestamps due to insufficient device buffer space") == "events-lost"
    assert code("CPU context switches were not traced: perf_event_paranoid is 3") == "remark"
    assert code("Auto boost is enabled") == "remark"

"""Records of what the commands print are compared, whatever the inputs are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from outputs import RECORD, S, cases, compare, places

TREE = Path(__file__).resolve().parent.parent


def recorded(folder: Path, records: dict[str, str]) -> Path:
    for name, text in records.items():
        path = folder / f"{name}{RECORD}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize("sample", ["train.log", "table.txt", "many.txt.txt"])
def test_records_of_a_sample_of_any_name_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sample: str
) -> None:
    records = {f"theano/{sample}/summary": "exit 0\nfirst\n", f"theano/{sample}/inspect": "exit 0\n"}
    before, same = recorded(tmp_path / "before", records), recorded(tmp_path / "same", records)
    other = recorded(tmp_path / "other", records | {f"theano/{sample}/summary": "exit 0\nsecond\n"})
    assert compare(before, same, "") == 0
    assert capsys.readouterr().out == "2 of 2 cases are equal\n"
    assert compare(before, other, "") == 1
    shown = f"--- theano/{sample}/summary{RECORD}\n    - first\n    + second\n1 of 2 cases are equal\n"
    assert capsys.readouterr().out == shown


def test_a_record_on_one_side_alone_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded(tmp_path / "before", {"theano/table.txt/summary": "exit 0\n"})
    (tmp_path / "after").mkdir()
    assert compare(before, tmp_path / "after", "summary") == 1
    assert f"only in {before}" in capsys.readouterr().out


def test_a_folder_and_a_file_of_it_with_the_name_of_a_command_have_records_of_their_own(tmp_path: Path) -> None:
    both = dict.fromkeys((f"{S}/nvprof-text/summary", f"{S}/nvprof-text/summary.txt/summary"), "exit 0\n")
    names = {each.name for each in cases(places(TREE, corpus=False), "nvprof-text/summary")}
    assert both.keys() <= names
    assert compare(recorded(tmp_path / "a", both), recorded(tmp_path / "b", both), "") == 0

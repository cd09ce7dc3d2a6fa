"""A user's own rules for classes of kernels: a file that an environment variable names."""

from __future__ import annotations

from pathlib import Path

import pytest
from views.tables import dicts, on_trace, trace
from views.test_breakdown import work

from tracekit.errors import UsageError
from tracekit.index.kernel_classes import VARIABLE
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions


def exposed() -> int:
    made = trace(work(0, 10), work(10, 30, name="my_ring_exchange(float*)"))
    return int(dicts(on_trace(VIEWS["breakdown"])(made, ViewOptions()))[0]["exposed_comm"])


def test_without_a_file_the_packages_table_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert exposed() == 0
    monkeypatch.setenv(VARIABLE, "")
    assert exposed() == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rules.toml", '# ours\ncollective = ["^MY_ring_"]\n'),
        ("rules.json", '{"collective": "my_ring"}'),
        ("RULES.JSON", '\ufeff{"collective": "my_ring"}'),
    ],
)
def test_a_file_of_rules_makes_a_kernel_communicate(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(path))
    assert exposed() == 30


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.toml", b"collective = [", "at line 1|Invalid|Unclosed|Unexpected"),
        ("a.json", b"[]", "a table of classes"),
        ("a.json", b"[" * 100_000, "nested|recursion|Expecting"),
        ("a.toml", b'nonsense = "x"', "nonsense: no such class"),
        ("a.toml", b"\xff\xfe", "utf-8|UTF-8"),
        ("a.toml", b"#" * ((1 << 20) + 1), "more than 1,048,576 bytes"),
    ],
)
def test_a_file_without_rules_is_an_error_with_the_files_name(
    name: str, data: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(UsageError, match=words) as error:
        exposed()
    assert str(path) in str(error.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match="No such file"):
        exposed()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(UsageError, match="directory"):
        exposed()

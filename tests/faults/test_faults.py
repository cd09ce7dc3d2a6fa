"""The fault matrix: commands x faults x moments, from one table. Nothing is lost, half-written, or a traceback.

CI tries each fault once with each command, at the first, the middle or the last of the calls that it may hit.
`python tests/faults/print_table.py` tries all three and prints a table; with --every it tries each call.
"""

from __future__ import annotations

import importlib.metadata
import random
import shutil
import sys
from collections.abc import Iterator

import pytest
from faults.matrix import Judge, Matrix, Server, build
from faults.table import COMMANDS, READS, Command
from support import SHARE, missing, need_otf2

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD")


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    if shutil.which("gcc") is None:
        missing("gcc, which builds the faults of the system, is missing")
    folder = tmp_path_factory.mktemp("faults")
    with Server(build(folder)) as server:
        yield Matrix(folder, server)


@pytest.mark.parametrize("command", [*COMMANDS, *READS], ids=lambda command: command.words.replace("|", " "))
def test_nothing_is_lost_and_every_error_names_its_cause(command: Command, matrix: Matrix) -> None:
    if "otf2" in command.words:
        need_otf2()
    judge = Judge(matrix, command)
    faults = [fault for fault in command.faults() if SHARE == 1 or not random.randrange(SHARE)]
    wrong = [cell for cell in judge.cells(faults, "one") if cell.wrong]
    assert not wrong, "\n".join(map(str, wrong))


def test_rows_that_a_query_cannot_read_back_are_no_damaged_archive(matrix: Matrix) -> None:
    command = next(each for each in COMMANDS if each.words.startswith("query in/a.csv"))
    faults = [fault for fault in command.faults() if fault.name == "TMPDIR: EIO at read"]
    cells = list(Judge(matrix, command).cells(faults, "every"))
    if not cells and importlib.metadata.version("duckdb").startswith("1."):
        pytest.skip("DuckDB 1 read nothing back in this run")
    assert cells
    assert [cell for cell in cells if cell.wrong] == []


_IN_PLACE = """
import sys
try:
    text = open("in/a.csv").read()
    with open("out/a.txt", "w") as file:
        file.write(text[:5000])
        file.flush()
        file.write(text[5000:])
except OSError as err:
    sys.exit(f"error: {err}")
"""


def test_a_command_that_writes_in_place_is_caught(matrix: Matrix) -> None:
    command = Command("control", script=_IN_PLACE)
    wrong = [str(cell) for cell in Judge(matrix, command).cells(command.faults(), "first, middle, last") if cell.wrong]
    assert [text for text in wrong if "ENOSPC" in text and "outputs: a.txt" in text]
    assert [text for text in wrong if "SIGKILL writing" in text and "outputs: a.txt" in text]
    assert [text for text in wrong if "EIO at read" in text and "the place is not named" in text]

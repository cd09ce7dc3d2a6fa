"""Other profilers' tables: loaded when they are requested, and from packages too."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import sample

from tracekit import compat
from tracekit.compat.base import Compat
from tracekit.errors import UsageError

TOY = Compat("toy", "Toy profiler", (), compat.load("singa").layout)


def test_every_profiler_has_its_name_and_views_of_its_name() -> None:
    for name, formats in compat.COMPATS.items():
        found = compat.load(name)
        assert found.name == name
        assert (name in [view.name for view in found.views]) == bool(formats)


def test_an_unknown_profiler_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="compat padle: no such profiler; did you mean paddle"):
        compat.load("padle")


def test_a_package_adds_a_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "_others", lambda: {"toy": TOY})
    assert compat.names() == (*compat.COMPATS, "toy")
    assert compat.load("toy") is TOY


COMMANDS = {
    "summary": "summary",
    "summary with all views": "summary --view all",
    "report": "report -o {out}",
    "formats that are read": "inspect",
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_who_never_asks_for_a_profiler_does_not_load_it(words: str, tmp_path: object) -> None:
    command = [*words.format(out=f"{tmp_path}/r.html").split(), str(sample("nvprof-csv/gpu-and-api-trace.csv"))]
    code = (
        "import contextlib, io, sys\nfrom tracekit.cli import app\n"
        f"with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    app({command!r})\n"
        "print('\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    loaded = set(done.stdout.split("\n"))
    assert "tracekit.readers.nvprof.csv" in loaded
    assert not {f"tracekit.compat.{name}" for name in compat.COMPATS} & loaded


def test_an_input_of_its_own_format_loads_that_profiler_alone() -> None:
    path = sample("theano/theano-1.0.5.txt")
    code = (
        "import contextlib, io, sys\nfrom tracekit.cli import app\n"
        f"with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    app(['summary', {str(path)!r}])\nprint('\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    loaded = set(done.stdout.split("\n"))
    assert {name for name in compat.COMPATS if f"tracekit.compat.{name}" in loaded} == {"theano"}

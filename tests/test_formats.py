"""All formats are declared as data: what the declarations name exists, and is loaded for files that need it alone."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
from support import sample

from tracekit.formats import FORMATS, READERS
from tracekit.plugins import home_of
from tracekit.readers.base import Place, Reader


@pytest.mark.parametrize("reader", FORMATS, ids=lambda reader: reader.name)
def test_the_functions_that_a_format_names_exist(reader: Reader) -> None:
    marks = [mark.found for mark in reader.marks.json]
    places = [each for each in (reader.sniff, reader.read, *marks) if isinstance(each, Place)]
    assert isinstance(reader.read, Place)
    for place in places:
        assert callable(getattr(import_module(place.module), place.name)), place


def test_the_page_of_a_format_is_the_docstring_of_the_module_that_reads_it() -> None:
    pages = {reader.name: import_module(home_of(reader.read)).__doc__ or "" for reader in FORMATS}
    assert [name for name, text in pages.items() if len(text.splitlines()) < 5] == []
    assert len(set(pages.values())) == len(FORMATS)


def test_names_are_those_of_the_registry() -> None:
    assert {reader.name for reader in FORMATS} <= set(READERS)
    assert all(READERS[reader.name] is reader for reader in FORMATS)


def test_a_file_loads_the_readers_that_it_may_need_alone() -> None:
    code = (
        "import sys\nfrom tracekit.cli import app\n"
        f"try:\n    app(['inspect', {str(sample('nvprof-csv/gpu-trace-20-columns.csv'))!r}])\n"
        "except SystemExit:\n    pass\nprint('\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    loaded = set(done.stdout.split("\n"))
    assert "tracekit.readers.nvprof.csv" in loaded
    others = {"kineto.reader", "paddle.pb", "theano.reader", "xplane.reader", "amd.rocpd", "torch.memory", "ncu.reader"}
    assert not {f"tracekit.readers.{name}" for name in others} & loaded

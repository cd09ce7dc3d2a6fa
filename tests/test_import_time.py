"""A program that records must not pay for the tool that reads: what is loaded when."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from support import SAMPLES

CSV = SAMPLES / "nvprof-csv" / "gpu-and-api-trace.csv"
DECLARED = (
    "from tracekit.formats import READERS\nfrom tracekit.writers import WRITERS\n"
    "list(READERS.values()), list(WRITERS.values())"
)
HEAVY = ("pyarrow", "numpy", "pandas", "jinja2", "typer", "rich", "google.protobuf")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return set(done.stdout.split("\n"))


@pytest.mark.parametrize("statement", ["import tracekit", "import tracekit.recorder", "import tracekit.errors"])
def test_importing_loads_nothing_heavy(statement: str) -> None:
    assert not loaded_after(statement) & set(HEAVY)


def loaded_by(*words: str) -> set[str]:
    """Return the modules that a command has loaded."""
    statement = (
        "import contextlib, io\nfrom tracekit.cli import app\n"
        f"with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    app({list(words)!r})"
    )
    return loaded_after(statement)


def imported_by(*words: str) -> set[str]:
    """Return the modules that a command imports, as a process of its own without a configuration."""
    command = [sys.executable, "-X", "importtime", "-m", "tracekit", "--no-config", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return {line.rpartition("|")[2].strip() for line in done.stderr.split("\n") if line.startswith("import time:")}


def parts(loaded: set[str], *packages: str) -> set[str]:
    """Return the loaded modules that are one of these packages or inside one."""
    return {name for name in loaded if any(f"{name}.".startswith(f"tracekit.{part}.") for part in packages)}


def test_convert_loads_no_view_and_no_other_target(tmp_path: Path) -> None:
    loaded = loaded_by("convert", str(CSV), "-o", str(tmp_path / "run.json"))
    assert (tmp_path / "run.json").exists()
    assert not loaded & {"pandas", "jinja2", "ssl", "sqlite3", "importlib.metadata", "tracekit.pipeline"}
    assert not parts(loaded, "views", "render", "compat", "index", "model.report")


def test_a_view_loads_no_other_views_and_no_upstream() -> None:
    loaded = loaded_by("summary", str(CSV), "--view", "kernel")
    assert "tracekit.views.tables.kernel" in loaded
    assert not parts(loaded, "views.findings", "views.timeline", "views.path", "views.memory", "render.page.html")
    assert parts(loaded, "compat") <= {"tracekit.compat", "tracekit.compat.base"}
    assert not loaded & {"pandas", "jinja2"}


def test_a_command_runs_without_pydantic_and_the_modules_of_other_commands(tmp_path: Path) -> None:
    words = ["tracekit", "convert", str(CSV), "-o", str(tmp_path / "run.json"), "--rank", "0", "--name", "gemm"]
    loaded = loaded_after(
        f"import sys\nsys.argv = {words!r}\nfrom tracekit.cli import main\ntry: main()\nexcept SystemExit: pass"
    )
    assert "tracekit.conversion" in loaded
    assert not loaded & {"pydantic", "rich", "tracekit.cli.summary", "tracekit.cli.batch"}


def test_convert_loads_the_reader_of_its_input_alone(tmp_path: Path) -> None:
    loaded = loaded_by("convert", str(CSV), "-o", str(tmp_path / "run.json"))
    reading = {name for name in parts(loaded - loaded_after(DECLARED), "readers") if name.count(".") > 2}
    assert "tracekit.readers.nvprof._read" in reading
    # A text may be folded stacks whatever its words are, and the marks of JSON traces are compared for each file.
    recognition = {"tracekit.readers.samples.recognition", "tracekit.readers.trace_event.marks"}
    assert reading - recognition <= parts(loaded, "readers.nvprof", "readers.printed", "readers.engine")


def test_declarations_of_formats_and_targets_load_no_data_library() -> None:
    loaded = loaded_after(DECLARED)
    assert not loaded & {*HEAVY, "orjson", "msgspec", "sqlite3", "tracekit.model.schema", "tracekit.model.trace"}


def test_help_loads_no_data_library() -> None:
    statement = (
        "import contextlib, io\nfrom tracekit.cli import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    app(['--help'])"
    )
    assert not loaded_after(statement) & {"pyarrow", "numpy", "pandas", "jinja2", "tracekit.pipeline"}


@pytest.mark.parametrize("words", [("--help",), ("mcp", "--help"), ("formats",), ("summary", str(CSV))])
def test_no_command_but_the_server_for_agents_loads_its_library(words: tuple[str, ...]) -> None:
    assert not {name.partition(".")[0] for name in loaded_by(*words)} & {"mcp", "mcp_types", "anyio", "pydantic"}


def test_the_version_loads_one_command() -> None:
    loaded = loaded_after(
        "import sys\nsys.argv = ['tracekit', '--version']\nfrom tracekit.cli import main\n"
        "try: main()\nexcept SystemExit: pass"
    )
    assert not loaded & {"pyarrow", "numpy", "concurrent.futures", "tracekit.cli.summary", "tracekit.cli.batch"}


def test_the_short_list_of_formats_loads_no_data_library_and_no_view() -> None:
    loaded = loaded_by("formats")
    assert not loaded & {*HEAVY[:4], "msgspec", "sqlite3", "tracekit.pipeline", "tracekit.conversion"}
    assert not parts(loaded, "views", "index", "analysis", "inputs", "render", "model.schema", "model.trace")


def test_declarations_load_no_functions_of_arrow() -> None:
    assert not loaded_by("formats", "-v") & {"pyarrow.compute", "pandas"}


def test_one_input_without_args_loads_no_parser_of_json_and_no_hashes() -> None:
    words = ["tracekit", "inspect", str(CSV)]
    loaded = loaded_after(
        f"import sys, os\nsys.argv, sys.stdout = {words!r}, open(os.devnull, 'w')\nfrom tracekit.cli import main\n"
        "try: main()\nexcept SystemExit: sys.stdout = sys.__stdout__"
    )
    assert "tracekit.readers.nvprof._read" in loaded
    assert not loaded & {"msgspec", "hashlib", "tracekit.model.args_parser"}
    assert not parts(loaded, "views", "render", "compat", "pipeline", "model.report")


SMALL = {
    "nvprof CSV": CSV,
    "nvprof SQLite": SAMPLES / "nvprof-sqlite" / "version-8.nvvp",
    "Nsight Systems SQLite": SAMPLES / "nsys-sqlite" / "two-processes.sqlite",
    "PyTorch": SAMPLES / "kineto" / "gpu.pt.trace.json",
    "Chrome JSON": SAMPLES / "chrome-trace" / "viztracer.json",
    "log of the recorder": SAMPLES / "recorder-log" / "rank0.jsonl",
    "CUDA profiler log": SAMPLES / "cuda-profile" / "kvp.log",
}
"""A small file of each of the usual producers."""
SLOW = {"pyarrow.compute", "numpy.ma", "pandas.core", "jinja2", "rich", "pydantic", "duckdb"}
"""Libraries, or parts of them, that take 7 ms of CPU time and more, and that a command on a usual file needs not."""
RARE = {"html.entities", "tomllib", "hashlib"}
"""Modules of 1 to 3 ms: for pages, configurations and checksums."""


@pytest.mark.parametrize("command", ["inspect", "summary", ""])
@pytest.mark.parametrize("producer", SMALL)
def test_a_command_on_a_usual_file_loads_no_slow_library(producer: str, command: str) -> None:
    loaded = imported_by(*filter(None, (command, str(SMALL[producer]))))
    assert "tracekit.inputs.stream" in loaded
    assert not loaded & (SLOW | RARE)
    if producer == "Chrome JSON":  # the libraries that demangle names and read SQLite import these themselves
        assert not loaded & {"random", "tempfile", "importlib.resources"}


@pytest.mark.parametrize("producer", SMALL)
def test_convert_loads_no_slow_library(producer: str, tmp_path: Path) -> None:
    loaded = imported_by("convert", str(SMALL[producer]), "-o", str(tmp_path / "run.json"))
    assert (tmp_path / "run.json").exists()
    assert not loaded & SLOW


def test_a_summary_of_a_file_without_args_decodes_no_json_of_operands() -> None:
    loaded = loaded_by("summary", str(CSV))
    assert "tracekit.index.work_units" in loaded
    assert not loaded & {"msgspec", "tracekit.index.operands"}


def test_a_summary_compiles_few_of_the_patterns_that_it_imports() -> None:
    statement = (
        "import contextlib, io, re\nfrom tracekit import lazy_pattern\nmade = []\n"
        "class Seen(lazy_pattern.LazyPattern):\n"
        "    def __init__(self, *given):\n        super().__init__(*given)\n        made.append(self)\n"
        "lazy_pattern.LazyPattern = Seen\nfrom tracekit.cli import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    app(['summary', {str(CSV)!r}])\n"
        "used = sum('search' in vars(each) for each in made)\n"
        "assert len(made) > 150, len(made)\nassert 3 * used < len(made), (used, len(made))"
    )
    loaded_after(statement)


def test_one_input_loads_nothing_that_aligns_the_clocks_of_several() -> None:
    assert "tracekit.analysis.clocks.matched_collectives" not in loaded_by("inspect", str(CSV))


@pytest.mark.parametrize("words", [("formats", "-v"), ("formats", "--format", "json"), ("inspect", str(CSV))])
def test_a_command_loads_no_pandas(words: tuple[str, ...]) -> None:
    loaded = loaded_by(*words)
    assert "pyarrow" in loaded
    assert "pandas" not in loaded


_MEMORY = {"ARROW_DEFAULT_MEMORY_POOL", "GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}


@pytest.mark.parametrize("named", ["", "mimalloc"])
def test_a_command_takes_the_memory_of_arrow_from_the_system_unless_it_is_told_otherwise(named: str) -> None:
    code = (
        "import contextlib, io\nfrom tracekit.cli import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    app(['formats'])\n"
        "import pyarrow as pa\nprint(pa.default_memory_pool().backend_name)"
    )
    env = {key: value for key, value in os.environ.items() if key != "ARROW_DEFAULT_MEMORY_POOL"}
    env |= {"ARROW_DEFAULT_MEMORY_POOL": named} if named else {}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True, timeout=300
    )
    elsewhere = set() if sys.platform.startswith("linux") else {"jemalloc", "mimalloc"}
    assert done.stdout.strip() in ({named} if named else {"system"} | elsewhere)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="files of Linux and glibc say what is heap")
def test_blocks_of_input_come_from_memory_that_was_used_before() -> None:
    code = (
        "import sys, contextlib, io\nfrom tracekit.cli import main\nsys.argv = ['tracekit', 'formats']\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    main()\n"
        "import numpy as np\nfrom pathlib import Path\n"
        "at = [np.empty(n, np.uint8).__array_interface__['data'][0] for n in (2_000_000, 64_000_000)]\n"
        "heap = [line.split()[0].split('-') for line in Path('/proc/self/maps').open() if line.endswith('[heap]\\n')]\n"
        "print([any(int(a, 16) <= place < int(b, 16) for a, b in heap) for place in at])"
    )
    env = {key: value for key, value in os.environ.items() if key not in _MEMORY}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True, timeout=300
    )
    assert done.stdout.strip() == "[True, False]"


@pytest.mark.parametrize("earlier", ["", "pa.table({'a': [1]}).to_pandas()", "import pandas"])
def test_pandas_works_after_it_was_postponed(earlier: str) -> None:
    statement = (
        f"import pyarrow as pa\nfrom tracekit.cli.process.startup import postpone_pandas\n{earlier}\n"
        "postpone_pandas()\npa.array([1])\n"
        "import pandas as pd\nassert pa.array(pd.Series([1.0, float('nan')])).null_count == 1\n"
        "assert pa.table({'a': [1, None]}).to_pandas()['a'].sum() == 1"
    )
    assert "pandas.core.frame" in loaded_after(statement)


def test_unknown_name_is_an_attribute_error() -> None:
    import tracekit

    with pytest.raises(AttributeError, match="no_such_name"):
        tracekit.no_such_name  # noqa: B018
    assert set(tracekit.__all__) <= set(dir(tracekit))


@pytest.mark.parametrize(
    "another",
    [
        "lambda *a, **k: usual(*a, **k)",  # does not look for pandas
        "lambda *a, **k: usual(*a, **k) if a[0] else __import__('pandas') and None",  # insists on it
    ],
)
def test_a_pyarrow_that_looks_for_pandas_in_another_way_works_as_usual(another: str) -> None:
    statement = (
        "import pyarrow as pa\nfrom tracekit.cli.process.startup import postpone_pandas\n"
        f"usual = pa.array\npa.array = {another}\npostpone_pandas()\npa.array = usual\n"
        "import pandas as pd\nassert pa.array(pd.Series([1.0, float('nan')])).null_count == 1\n"
        "assert pa.table({'a': [1, None]}).to_pandas()['a'].sum() == 1"
    )
    assert "pandas.core.frame" in loaded_after(statement)


@pytest.mark.parametrize("lacks", ["get_runtime_param", "type_descriptor"])
def test_a_typer_with_other_parameters_converts_them_itself(lacks: str) -> None:
    parts = {"get_runtime_param": "lambda self: self.usual", "type_descriptor": "None"} | {lacks: "None"}
    statement = (
        "from tracekit.cli.process import startup\n"
        "class Usual:\n    def coerce(self, value, param, ctx): return 'converted by typer'\n"
        f"class Parameter:\n    usual = Usual()\n    multiple, nargs = False, 1\n"
        f"    get_runtime_param = {parts['get_runtime_param']}\n    type_descriptor = {parts['type_descriptor']}\n"
        f"del Parameter.{lacks}\none = Parameter()\nstartup._convert_plainly([one, object()])\n"
        "assert vars(one) == {}"
    )
    loaded_after(statement)


def test_a_typer_that_describes_parameters_in_another_way_converts_them_itself() -> None:
    statement = (
        "from tracekit.cli.process import startup\n"
        "class Usual:\n    def coerce(self, value, param, ctx): return 'converted by typer'\n"
        "class Parameter:\n    multiple, nargs, type_descriptor = False, 1, object()\n"
        "    def get_runtime_param(self): return Usual()\n"
        "one = Parameter()\nstartup._convert_plainly([one])\n"
        "assert one.get_runtime_param().coerce('a', param=one, ctx=None) == 'converted by typer'"
    )
    loaded_after(statement)

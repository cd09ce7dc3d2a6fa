"""Fixtures and options for all tests."""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forked import end_forks
from hypothesis import HealthCheck, settings
from support import GOLDENS, ROOT, SHARE
from viewers import end_viewers

# CI tries the same examples each time: what fails there is what a commit changed. A developer's run tries others.
settings.register_profile(
    "tracekit",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    max_examples=60 // SHARE,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("tracekit")

# A shell that starts a job in the background lets it ignore Ctrl-C, and every process that a test starts would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The tests start tracekit more than a hundred times: without compiled files, each start compiles the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# pytest imports readline, whose C library sets these for children: their messages would be broken at 80 columns.
for name in ("COLUMNS", "LINES"):
    if name not in os.environ:
        os.unsetenv(name)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write what was computed into tests/goldens")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of a device, package or source that is not here; draw one share of examples in every test."""
    needs = (_has_device, _has_cupti, _has_source)
    if left_out := [item for item in items if any(not is_here(item) for is_here in needs)]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for test in {getattr(item, "function", None) for item in items}:
        wanted = getattr(test, "_hypothesis_internal_use_settings", None)
        if isinstance(wanted, settings) and wanted is not settings.default:
            test._hypothesis_internal_use_settings = settings(wanted, max_examples=-(-wanted.max_examples // SHARE))


def pytest_collection(session: pytest.Session) -> None:
    gc.disable()  # what is collected stays: it is no garbage


def pytest_collection_finish(session: pytest.Session) -> None:
    """Search for garbage less often, and not among the tests: that was a tenth of the CPU time of the tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20)
    gc.enable()


def _has_device(item: pytest.Item) -> bool:
    """Return whether a test needs no CUDA device, or one is here with the package that reads it."""
    here = any(Path(name).exists() for name in ("/dev/nvidiactl", "/dev/dxg")) and importlib.util.find_spec("cupti")
    return item.get_closest_marker("device") is None or bool(here)


def _has_source(item: pytest.Item) -> bool:
    """Return whether a test does not read the source of the package, or that is here."""
    return item.get_closest_marker("source") is None or (ROOT / "tracekit").is_dir()


def _has_cupti(item: pytest.Item) -> bool:
    """Return whether a test needs no cupti-python, or one is here that takes records which no device made."""
    if item.get_closest_marker("cupti") is None:
        return True
    try:
        version = importlib.metadata.version("cupti-python")
    except importlib.metadata.PackageNotFoundError:
        return False
    return tuple(map(int, version.split(".")[:2])) >= (13, 2)  # older ones crash on them


@pytest.fixture(scope="session", autouse=True)
def processes_of_the_session() -> Iterator[None]:
    yield
    end_viewers()
    end_forks()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("view/case.txt", text)` compares with the stored text, or stores it with --update-goldens."""

    def compare(name: str, text: str) -> None:
        path = GOLDENS / name
        if request.config.getoption("--update-goldens"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.exists(), f"no golden {name}; run with --update-goldens and read the diff"
        assert text == path.read_text(encoding="utf-8")

    return compare

"""C++ names: as c++filt prints them, once each, and never at the price of memory or time."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small
from support import corpus, missing, sample

from tracekit.errors import TracekitError
from tracekit.model.trace import Ledger
from tracekit.readers import names as _names
from tracekit.readers.names import Demangler, is_mangled, provably_small

if sys.platform == "win32":
    pytest.skip("no C++ demangler on Windows: names stay raw there", allow_module_level=True)

BASE36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def substitution(index: int) -> str:
    """S_, S0_, S1_ ...: the reference to part number `index` of a name."""
    if index == 0:
        return "S_"
    digits, rest = "", index - 1
    while True:
        digits, rest = BASE36[rest % 36] + digits, rest // 36
        if not rest:
            return f"S{digits}_"


def doubling(times: int) -> str:
    """f(pair<int, int>, pair<that, that>, ...): each argument is twice the one before."""
    args = [f"S_I{substitution(k)}{substitution(k)}E" for k in range(1, times + 1)]
    return "_Z1fSt4pairIiiE" + "".join(args)


def by_template(depth: int) -> str:
    """void f<X>(pair<T, T>, ...) whose argument X doubles by itself, so that T_ multiplies what S_ has doubled."""
    return "_Z1fI" + doubling(depth)[4:].replace("St4pairIiiE", "St4pairIiiE", 1) + "EvT_T0_T1_"


@pytest.fixture
def demangler():
    made = Demangler(Ledger())
    yield made
    made.close()


def filt(names: list[str]) -> list[str]:
    if shutil.which("c++filt") is None:
        missing("c++filt of binutils")
    done = subprocess.run(["c++filt"], input="\n".join(names) + "\n", capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_kernels_of_a_real_log_read_as_cxxfilt_prints_them(demangler: Demangler) -> None:
    text = corpus("cuda_cmdline_profiler/matrixpowers_csv.log").read_text("utf-8")
    names = re.findall(r"(?m)^(_Z[^,]+),", text)
    assert len(set(names)) == 6
    column, raw = demangler.columns(pa.array(names))
    assert column.to_pylist() == filt(names)
    assert raw is not None
    assert raw.to_pylist() == names


@pytest.mark.parametrize("name", ["tf_mnist_titanx.nvvp"])
def test_kernels_of_a_real_database_read_as_cxxfilt_prints_them(demangler: Demangler, name: str) -> None:
    path = corpus(f"nvprof_sqlite/{name}")
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        names = [row[0] for row in db.execute("select value from StringTable where value like '!_Z%' escape '!'")]
    assert names
    assert [demangler.one(n)[0] for n in names] == filt(names)


def test_kernels_of_our_samples_read_as_cxxfilt_prints_them(demangler: Demangler) -> None:
    names = sorted(set(re.findall(r"method=\[ (\S+) \]", sample("cuda-profile/kvp.log").read_text("utf-8"))))
    column, raw = demangler.columns(pa.array(names))
    assert column.to_pylist() == filt(names)
    assert raw is not None
    assert raw.to_pylist() == [n if n.startswith("_Z") else None for n in names]


def test_plain_names_come_back_as_the_same_array_without_raw_names(demangler: Demangler) -> None:
    names = pa.array(["volta_sgemm", None, "[CUDA memcpy HtoD]", "volta_sgemm"])
    column, raw = demangler.columns(names)
    assert column.type == pa.dictionary(pa.int32(), pa.string())
    assert column.to_pylist() == names.to_pylist()
    assert raw is None


def test_names_that_demangle_alike_share_one_entry_and_keep_their_own_spelling(demangler: Demangler) -> None:
    names = pa.array(["_ZN1AC1Ev", "_ZN1AC2Ev", "x", None, "_ZN1AC1Ev"])
    column, raw = demangler.columns(names)
    assert column.to_pylist() == ["A::A()", "A::A()", "x", None, "A::A()"]
    assert len(column.dictionary) == 2
    assert raw is not None
    assert raw.to_pylist() == ["_ZN1AC1Ev", "_ZN1AC2Ev", None, None, "_ZN1AC1Ev"]


def test_dictionary_columns_with_wide_indices_are_taken(demangler: Demangler) -> None:
    names = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int64()), pa.array(["_Z1fv", "g"]))
    column, _ = demangler.columns(names)
    assert column.to_pylist() == ["g", "f()", "g"]
    assert column.type == pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [
        ("_Z6kernelPm", "kernel(unsigned long*)"),
        ("__Z6kernelPm", "kernel(unsigned long*)"),
        ("_Z3fooi.isra.0", "foo(int) [clone .isra.0]"),
        ("_ZN12_GLOBAL__N_11kEv", "(anonymous namespace)::k()"),
    ],
)
def test_spellings_of_systems_and_compilers(demangler: Demangler, mangled: str, readable: str) -> None:
    assert demangler.one(mangled) == (readable, mangled)


@pytest.mark.parametrize("text", ["_Z", "_Zebra", "_ZN", "__ZZ", "_Z6kern", "_Z1fv\0", "_Zé", "_Z\ud800", "_x", ""])
def test_what_is_no_mangled_name_stays_as_it_is(demangler: Demangler, text: str) -> None:
    assert demangler.one(text) == (text, None)


def test_off_means_off() -> None:
    column, raw = Demangler(Ledger(), enabled=False).columns(pa.array(["_Z1fv"]))
    assert column.to_pylist() == ["_Z1fv"]
    assert raw is None


def test_each_distinct_name_is_demangled_once(demangler: Demangler, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(_names, "_default_demangler", lambda: lambda name: asked.append(name) or f"<{name}>")
    for _ in range(3):
        demangler.columns(pa.array(["_Z1fv", "_Z1gv"] * 5))
    assert asked == ["_Z1fv", "_Z1gv"]


def test_a_name_that_demangles_to_138_mb_stays_raw_with_a_note_and_costs_neither_memory_nor_time() -> None:
    """In a process of its own: what this process had before does not matter there."""
    script = textwrap.dedent(
        f"""
        import os, resource
        from tracekit.readers.names import Demangler
        from tracekit.model.trace import Ledger
        names = {[doubling(21), doubling(29), doubling(300), by_template(20)]!r}
        ledger = Ledger()
        demangler = Demangler(ledger)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = sum(os.times()[:4])  # CPU time, of children too: a busy machine does not stretch it
        assert [demangler.one(name) for name in names] == [(name, None) for name in names]
        demangler.close()
        took = sum(os.times()[:4]) - start
        grew = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(ledger.notes["name-too-long"].count, took, grew // 1024, child // 1024)
        """
    )
    assert len(doubling(21)) == 225
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    count, took, grew, child = done.stdout.split()
    assert int(count) == 4
    assert float(took) < 5
    assert int(grew) < 32
    # Between fork and exec the child counts the pages of its parent, which has pyarrow loaded.
    assert int(child) < 230


def test_a_long_but_honest_name_is_demangled_by_the_child(demangler: Demangler) -> None:
    name = doubling(9)
    assert not provably_small(name)
    readable, raw = demangler.one(name)
    assert 20_000 < len(readable) <= 64 << 10
    assert readable == filt([name])[0]
    assert raw == name


def test_many_hostile_names_cost_no_more_than_a_few() -> None:
    ledger = Ledger()
    demangler = Demangler(ledger)
    start = sum(os.times()[:4])  # CPU time, of children too
    names = [doubling(21 + k % 3) + "i" * k for k in range(400)]
    column, raw = demangler.columns(pa.array(names))
    demangler.close()
    assert sum(os.times()[:4]) - start < 10
    assert column.to_pylist() == names
    assert raw is None
    assert ledger.notes["name-too-long"].count == 400


def test_a_batch_of_distinct_large_names_stays_within_its_budget(
    demangler: Demangler, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, Limit.DEMANGLED_BATCH_BYTES, 1000)
    names = [f"_ZN{k}{'x' * k}1fEv" for k in range(100, 120)]
    column, raw = demangler.columns(pa.array(names))
    assert sum(len(n) for n in column.to_pylist() if not n.startswith("_Z")) <= 1000
    assert raw is not None
    assert raw.null_count == 20 - sum(not n.startswith("_Z") for n in column.to_pylist())


def test_a_full_cache_changes_nothing(demangler: Demangler, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.CACHED_NAMES, 3)
    names = [f"_Z1{chr(97 + k)}v" for k in range(20)] * 2
    column, _ = demangler.columns(pa.array(names))
    assert column.to_pylist() == [f"{n[3]}()" for n in names]


def test_a_child_that_dies_is_replaced_a_few_times_and_then_names_stay_raw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []
    start_child = _names._start_child

    def start_and_kill():
        starts.append(1)
        child = start_child()
        assert child is not None
        child._process.kill()
        child._process.wait()
        return child

    monkeypatch.setattr(_names, "_start_child", start_and_kill)
    ledger = Ledger()
    demangler = Demangler(ledger)
    names = [doubling(9) + "i" * k for k in range(12)]
    assert [demangler.one(n)[1] for n in names] == [None] * 12
    demangler.close()
    assert len(starts) == _names.CHILD_STARTS
    assert ledger.notes["name-too-long"].count == 12
    assert demangler.one("_Z1fv")[0] == "f()"


@pytest.mark.parametrize("lacking", ["_start_child", "executable"])
def test_without_limits_a_name_of_unknown_size_stays_raw(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    if lacking == "executable":
        monkeypatch.setattr(sys, "executable", "")
    else:
        monkeypatch.setattr(_names, "_start_child", lambda: None)
    ledger = Ledger()
    demangler = Demangler(ledger)
    assert demangler.one(doubling(9)) == (doubling(9), None)
    assert ledger.notes["name-too-long"].count == 1
    assert demangler.one("_Z1fv") == ("f()", "_Z1fv")


def test_without_a_demangler_names_stay_raw_and_one_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_names, "_default_demangler", lambda: None)
    ledger = Ledger()
    assert Demangler(ledger).columns(pa.array(["_Z1fv", "g"]))[0].to_pylist() == ["_Z1fv", "g"]
    assert list(ledger.notes) == ["names-not-demangled"]


def test_strict_makes_a_refused_name_an_error() -> None:
    demangler = Demangler(Ledger(strict=True))
    with pytest.raises(TracekitError, match="left as it is"):
        demangler.one(doubling(25))
    demangler.close()


PARTS = st.sampled_from(
    ["N", "E", "I", "3foo", "1a", "i", "o", "P", "R", "K", "S_", "S0_", "S1_", "S2_", "T_", "T0_", "T1_", "Ss", "St",
     "Sa", "F", "v", "Z", "J", "C1", "D2", "cv", "Ul", "vE_", "L", "Li4E", "X", "s_", "4pair", "M", "A4_", "Dn",
     "St4pairI"]
)  # fmt: skip


@given(st.lists(PARTS, min_size=1, max_size=60).map("".join))
def test_names_that_are_called_small_are_small(parts: str) -> None:
    name = "_Z1f" + parts
    if provably_small(name):
        found = _names._default_demangler()
        assert found is not None
        assert len(found(name) or "") <= 256 << 10


@given(st.text(max_size=40) | st.text("_ZNST0I1fE", max_size=40).map("_Z".__add__))
def test_any_text_comes_back_as_itself_or_demangled_with_its_spelling(text: str) -> None:
    demangler = Demangler(Ledger())
    name, raw = demangler.one(text)
    demangler.close()
    assert (name == text) if raw is None else (raw == text and is_mangled(text) and name)

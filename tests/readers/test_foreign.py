"""Formats of other programs are named by their content, with the command that makes a readable file."""

from __future__ import annotations

import cProfile
import io
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support import ROOT, SAMPLE_FILES, corpus_next, run_command

import tracekit
from tracekit.errors import UnknownFormatError
from tracekit.readers import READERS
from tracekit.readers.base import Confidence, Head
from tracekit.readers.foreign import FOREIGN, foreign_format
from tracekit.readers.sniff import votes

XML = b'<?xml version="1.0" encoding="UTF-8"?>\n'
BY_SUFFIX = {"nsys-rep", "qdstrm", "nsight-cuprof-report", "xplane-torn"}
"""No mark in the content of these is known."""


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, "data")
    return out.getvalue()


def tarred(name: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = 4
        archive.addfile(info, io.BytesIO(b"<x/>"))
    return out.getvalue()


def words(*numbers: int, size: str = "<Q") -> bytes:
    return b"".join(struct.pack(size, n) for n in numbers)


def etl() -> bytes:
    """The header of a buffer (72 bytes), then the first event: version 2, 64-bit system header."""
    buffer_header = struct.pack("<IIII", 0x10000, 0x500, 0x500, 0) + bytes(56)
    return buffer_header + struct.pack("<HBB", 2, 2, 0xC0) + bytes(100)


def tfevents() -> bytes:
    event = b"\x09" + struct.pack("<d", 1.7e9) + b"\x1a\x0dbrain.Event:2"
    return struct.pack("<Q", len(event)) + b"\x12\x34\x56\x78" + event + b"\x9a\xbc\xde\xf0"


HEADS: dict[str, list[bytes]] = {
    "git-lfs": [b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"],
    "roctracer-text": [b'ROCTracer (pid=880592): input from "input.xml"\n    HIP-trace()\n hipFree\n'],
    "rocprofv3-agents": [b'"Node_Id","Logical_Node_Id","Agent_Type","Cpu_Cores_Count"\n0,0,"CPU",96\n'],
    "rocprof-sys-sums": [b'{\n "timemory": {\n  "wall_clock": {\n   "properties": {}, "type": "wall_clock"'],
    "ncu-rep": [b"NVR\0\x04\0\0\0\x08\x01\x12\x02\x08\xff", b"NVP\0\x04\0\0\0\x08\x01\x12\x02\x08\xff"],
    "nvvp-session": [XML + b'<session version="2"><executable path="a.out"/></session>'],
    "hdf5": [b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0"],
    "arrow": [b"ARROW1\0\0\xff\xff\xff\xff"],
    "tfevents": [tfevents()],
    "torch-checkpoint": [zipped("archive/data.pkl", "archive/data/0"), zipped("model/data.pkl")],
    "perf-data": [b"PERFILE2" + words(104, 136), b"2ELIFREP" + words(104, 136, size=">Q"), b"PERFILE2" + words(16)],
    "perf-script": [
        b"python 1234 [003] 198791.127353: cycles:u: \n\t    7f1e5c0 _PyEval_Eval (/usr/bin/python3)\n\n",
        b"# captured on: today\n#\nmy prog  9/10     198.127353:  2500 cpu-clock:\n     400580 main (/tmp/a.out)\n",
    ],
    "simpleperf-proto": [b"SIMPLEPERF\x01\0\x10\0\0\0"],
    "gperftools-cpu": [
        words(0, 3, 0, 10000, 0, 1, 1, 4198400),
        words(0, 3, 0, 10000, 0, 1, 1, 4198400, size="<I"),
        words(0, 3, 0, 10000, 0, 1, 1, 4198400, size=">Q"),
    ],
    "gperftools-heap": [
        b"heap profile:      1:     1024 [     1:     1024] @ heapprofile\n", b"heap_v2/524288\n  t*: 1: 8 [0: 0]\n",
        b"--- heapz 1 ---\n",
    ],
    "gperftools-contention": [b"--- contentionz 1 ---\ncycles/second = 3201000000\n", b"--- mutex:\n"],
    "memray": [
        b"memray\0\x0d\0\0\0\xf0\x0f\x0b\x03\0\0",
        b"\x04\x22\x4d\x18\x40\x40\xc0\x54\x37\0\0\xfa\x04memray\0\x0d\0\0",
    ],
    "austin-mojo": [b"MOJ\x03\x01mode\0wall\0"],
    "pyinstrument": [b'{"start_time": 1795.2, "duration": 0.6, "sample_count": 1, "frame_records": [[["a"], 0.1]]}'],
    "line-profiler": [b"Timer unit: 1e-09 s\n\nTotal time: 8.59e-07 s\nFile: a.py\n"],
    "pickle": [b"\x80\x05\x95\x7a\0\0\0\0\0\0\0\x8c\x1bline_profiler.line_profiler\x94"],
    "jfr": [b"FLR\0\0\x02\0\x01" + bytes(60)],
    "cpuprofile": [b'{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}}],"startTime":1,"samples":[1]}'],
    "heapsnapshot": [b'{"snapshot":{"meta":{"node_fields":["type","name"]}},"nodes":[]}'],
    "heaptrack": [b"v 10500 3\nX ./a.out\nI 1000 200\n"],
    "flame-graph": [XML + b'<svg version="1.1" width="1200"><text>Flame Graph</text></svg>'],
    "callgrind": [b"# callgrind format\nversion: 1\ncreator: callgrind-3\n", b"version: 1\ncreator: callgrind-3.1\n"],
    "massif": [b"desc: --time-unit=B\ncmd: ./a.out\ntime_unit: B\n#-----------\nsnapshot=0\n"],
    "bpftrace": [b"Attaching 1 probe...\n\n\n@[\n    main+12\n\n]: 17\n", b"@us[python3]: 12\n@us[nvcc]: 3\n"],
    "trace-dat": [b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0"],
    "ftrace": [b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 1/1\n"],
    "systrace": [
        b'<!DOCTYPE html>\n<html>\n<title>Android System Trace</title>\n<script class="trace-data"># tracer: nop\n'
    ],
    "fuchsia": [b"\x10\0\x04FxT\x16\0" + bytes(16)],
    "etl": [etl()],
    "instruments": [b"bplist00\xd4\x01\x02$archiver com.apple.xray.template"],
    "ctf": [b"/* CTF 1.8 */\n\ntypealias integer { size = 8; } := uint8_t;\n", b"\xc1\x1f\xfc\xc1" + bytes(20)],
    "cube": [tarred("anchor.xml"), XML + b'<cube version="4.3">\n'],
    "tau": [b"9 templated_functions_MULTI_TIME\n# Name Calls Subrs Excl Incl ProfileCalls #\n"],
    "hpctoolkit": [b"HPCRUN-profile____04.00b", b"HPCTOOLKITmeta\x04\0" + bytes(40)],
    "paraver": [b"#Paraver (12/05/2020 at 10:15):1000_ns:1(4):1:4(1:1)\n"],
    "vtune": [XML + b'<bag xmlns:boost="x"><amplxe>hotspots</amplxe></bag>'],
    "tracy": [b"tlZ\x04\x10\0\0\0", b"tZst\x10\0\0\0", b"tr\xfdP\x01\x04\0\0"],
    "renderdoc": [b"RDOC\0\0\0\0\x02\x01\0\0"],
    "tracekit-page": [b'<!doctype html>\n<html lang="en"><meta name="generator" content="tracekit 0.1.0">'],
    "html": [b"<!DOCTYPE html><html><body>404</body></html>", b"\n<html>"],
    "xlsx": [zipped("[Content_Types].xml", "xl/workbook.xml")],
    "picture": [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\xff\xd8\xff\xe0\0\x10JFIF"],
    "pdf": [b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"],
    "zip": [zipped("run.csv")],
    "tar": [tarred("run.csv")],
    "7z": [b"7z\xbc\xaf\x27\x1c\0\x04", b"\xfd7zXZ\0\0\x04", b"BZh91AY&SY"],
    "program": [b"\x7fELF\x02\x01\x01" + bytes(9), b"MZ\x90\0\x03\0\0\0"],
}  # fmt: skip
"""Small heads of each format, as its writer writes them; those of cProfile and OTF2 are made by the writers below."""


@pytest.mark.parametrize(("key", "number"), [(key, n) for key, heads in HEADS.items() for n in range(len(heads))])
def test_a_foreign_format_is_named_by_its_content_with_advice(key: str, number: int, tmp_path: Path) -> None:
    wanted = next(each for each in FOREIGN if each.key == key)
    path = tmp_path / "unknown name"
    path.write_bytes(HEADS[key][number])
    with pytest.raises(UnknownFormatError) as caught:
        tracekit.read(path)
    assert f"({wanted.title})" in str(caught.value)
    assert caught.value.hint == wanted.hint(str(path))
    assert "{" not in caught.value.hint


def cprofile(path: Path) -> None:
    profile = cProfile.Profile()
    profile.runcall(sum, [1])
    profile.dump_stats(path)


@pytest.mark.parametrize(("key", "write"), [("cprofile", cprofile)])
def test_what_a_writer_of_a_foreign_format_writes_is_known(
    key: str, write: Callable[[Path], None], tmp_path: Path
) -> None:
    write(tmp_path / "x")
    head = Head("x", (tmp_path / "x").read_bytes(), text=False)
    found = foreign_format(head)
    assert found is not None
    assert found.key == key


def test_both_parts_of_an_otf2_archive_of_ours_are_known(tmp_path: Path) -> None:
    pytest.importorskip("otf2")
    sample = ROOT / "sample_traces" / "kineto" / "gpu.pt.trace.json"
    run_command("convert", sample, "-o", tmp_path / "run.otf2")
    for name in ("traces.otf2", "traces.def"):
        head = Head(name, (tmp_path / "run.otf2" / name).read_bytes(), text=False)
        found = foreign_format(head)
        assert found is not None
        assert found.key == "otf2"


def test_each_foreign_format_has_a_head_here() -> None:
    assert set(HEADS) | BY_SUFFIX | {"cprofile", "otf2"} == {each.key for each in FOREIGN}
    assert len({each.key for each in FOREIGN}) == len(FOREIGN)


def test_a_name_counts_only_where_the_content_may_be_binary(tmp_path: Path) -> None:
    for suffix in (suffix for each in FOREIGN for suffix in each.suffixes):
        (tmp_path / f"run{suffix}").write_bytes(b"import torch\nprint(1)\n")
        with pytest.raises(UnknownFormatError, match="text that begins with 'import torch'"):
            tracekit.read(tmp_path / f"run{suffix}")
        (tmp_path / f"run{suffix}").write_bytes(b"\x01\x02\x03\x04" * 40)
        with pytest.raises(UnknownFormatError) as caught:
            tracekit.read(tmp_path / f"run{suffix}")
        assert re.search("export|import|copy", caught.value.hint)


def test_no_sample_of_ours_looks_foreign() -> None:
    """A pattern that matches a readable file would name it wrongly when it is damaged."""
    for path in SAMPLE_FILES:
        data = path.read_bytes()[:65536]
        found = foreign_format(Head("unknown", data, text=b"\0" not in data))
        allowed = {"torch-memory": "pickle", "firefox": None}.get(path.parent.name)
        assert (found.key if found else None) in (None, allowed), path


def test_patterns_take_no_long_time_on_hostile_heads() -> None:
    """Each pattern is tried on heads that make careless ones try exponentially many ways; a hang fails the suite."""
    unit = (
        b"\n",
        b" ",
        b"#\n",
        b"a ",
        b"@a[",
        b"\0",
        b"<!doctype html",
        b'{"nodes":[',
        b"1 2/3 4.567890: ",
        b"PK\x03\x04",
    )
    for piece in unit:
        head = Head("unknown", (piece * 65536)[:65536], text=True)
        foreign_format(head)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("samples/gperftools_legacy_cpu.prof", "gperftools-cpu"),
        ("samples/gperftools_contention.txt", "gperftools-contention"),
        ("samples/perf_script_pid.txt", "perf-script"),
    ],
)
def test_real_foreign_files_are_named(name: str, key: str) -> None:
    path = corpus_next(name)
    with pytest.raises(UnknownFormatError) as caught:
        tracekit.read(path)
    wanted = next(each for each in FOREIGN if each.key == key)
    assert wanted.title in str(caught.value)
    assert caught.value.hint == wanted.hint(str(path))


def test_the_page_of_formats_lists_them_as_they_are(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "formats.md"
    text = page.read_text(encoding="utf-8")
    rows = [
        f"| {each.title} | {each.advice.format(file='FILE', stem='run')} |".replace(" | stack", " \\| stack")
        for each in FOREIGN
    ]
    table = "| the file is | what to do |\n|---|---|\n" + "\n".join(rows) + "\n"
    pattern = re.compile(r"\| the file is \| what to do \|\n(?:\|.*\n)+")
    if request.config.getoption("--update-goldens"):
        page.write_text(pattern.sub(lambda _: table, text), encoding="utf-8")
        text = page.read_text(encoding="utf-8")
    found = pattern.search(text)
    assert found is not None
    assert found[0] == table, "run with --update-goldens"


def test_no_reader_is_sure_of_a_foreign_format() -> None:
    for heads in HEADS.values():
        for data in heads:
            head = Head("x", data, text=b"\0" not in data)
            assert Confidence.YES not in [answer for _, answer in votes(head, READERS.values())]

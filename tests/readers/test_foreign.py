"""Formats of other programs are named by their content, with the command that makes a readable file."""

from __future__ import annotations

import cProfile
import io
import pickle
import re
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support import ROOT, SAMPLE_FILES, corpus_next, run_command

import tracekit
from tracekit.errors import TracekitError, UnknownFormatError
from tracekit.formats import READERS
from tracekit.readers.base import Confidence
from tracekit.readers.foreign import FOREIGN, foreign_format
from tracekit.readers.head import Head
from tracekit.readers.sniff import votes

XML = b'<?xml version="1.0" encoding="UTF-8"?>\n'
BY_SUFFIX = {"nsys-rep", "qdstrm", "nsight-cuprof-report", "xplane-torn", "msprof-raw"}
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


def database(*tables: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as db:
        for table in tables:
            kind = "VIEW" if table.startswith("view_") else "TABLE"
            db.execute(f"CREATE {kind} {table} {'AS SELECT 1 AS a' if kind == 'VIEW' else '(a)'}")
        db.commit()
        return db.serialize()


HEADS: dict[str, list[bytes]] = {
    "git-lfs": [b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"],
    "roctracer-text": [b'ROCTracer (pid=880592): input from "input.xml"\n    HIP-trace()\n hipFree\n'],
    "rocprofv3-agents": [b'"Node_Id","Logical_Node_Id","Agent_Type","Cpu_Cores_Count"\n0,0,"CPU",96\n'],
    "rocprof-sys-sums": [b'{\n "timemory": {\n  "wall_clock": {\n   "properties": {}, "type": "wall_clock"'],
    "torch-memory-picture": [
        b'<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>\n<body>\n  <img src=',
    ],
    "op-profile": [
        b'{"byCategory":{"name":"by_category","metrics":{"rawTime":1.5,"occurrences":3}},"deviceType":"TPU"}',
        b'{"byProgram": {"name": "p", "metrics": {}}, "byProgramExcludeIdle": {}}',
    ],
    "msprof": [
        b"Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us)\n",
        b"Device_id,Model Name,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Start Time(us)\n",
        b"Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us)\n",
        b"Name,Size(KB),Allocation Time(us),Release Time(us),Duration(us)\n",
        b"Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type\nPTA,1.5,2,3,NPU:0\n",
        b'{"step1": {"collective": {"hcom_allReduce__1": {"Communication Time Info": {"Elapse Time(ms)": 0.5}}}}}',
    ],
    "msprof-db": [database("STRING_IDS", "TASK"), database("STRING_IDS", "PYTORCH_API", "CONNECTION_IDS")],
    "dlprof": [
        database("aggregations", "view_op_nodes", "view_system_config"),
        b"[DLProf-04:35:49] Aggregating profile data\n",
        b"Expert Systems Feedback: 6 issues detected. Note that expert systems is still experimental\n",
        b"Op ID,Op Name,Direction,Op Type,Calls,TC Eligible,Using TC,Total CPU Time (ns),Total GPU Time (ns)\n",
    ],
    "tracekit-csv": [
        b"ts_ns,dur_ns,event_id,name,raw_name,kind,source,rank,pid,tid\n0,5,1,gemm,,kernel,0,,,\n",
        b"\xef\xbb\xbfts_ns,dur_ns,event_id,name,raw_name,kind,source,rank,pid,tid\n",
        b"source,rank,run,section,order,name,raw_name,kind,calls\n0,,0,GPU activities,0,gemm,,kernel,48\n",
    ],
    "unitrace": [
        b"\n=== Device Timing Summary ===\n\n        Total Execution Time (ns):   1008344251\n",
        b"step 1\n=== API Timing Summary ===\n\n  Total API Time for L0 backend (ns): 100\n== L0 Backend ==\n",
        b"=== Device #0 Metrics ===\n\nKernel, GlobalInstanceId, GpuTime[ns], XVE_ACTIVE[%]\n",
    ],
    "vtune-csv": [
        b"Function,CPU Time,CPU Time:Effective Time,CPU Time:Spin Time,Module,Function (Full)\n",
        b"Computing Task\tWork Size:Global\tWork Size:Local\tComputing Task:Total Time\n",
        b'"Function";"CPU Time";"Module";"Function (Full)";"Source File"\n',
        b"Module,Hardware Event Count:INST_RETIRED.ANY,Hardware Event Count:CPU_CLK_UNHALTED.THREAD\na.out,1,2\n",
        b"Hierarchy Level,Metric Name,Metric Value\n",
    ],
    "scalene": [
        b'{"alloc_samples": 0, "args": ["a.py"], "elapsed_time_sec": 1.5, "files": {"a.py": {"lines": []}}}',
        b'{"files": {"a.py": {"lines": [{"lineno": 1, "n_cpu_percent_c": 1.0, "n_cpu_percent_python": 60.0}]}}}',
        b'{\n "elapsed_time_sec": 1.2,\n "max_footprint_mb": 12.5,\n "max_footprint_python_fraction": 0.7\n}',
    ],
    "pyinstrument-json": [
        (b'{"start_time": 1795.2, "duration": 0.6, "sample_count": 1, "target_description": "a.py", "cpu_time": 0.5,'
        b' "root_frame": {"function": "<module>", "time": 0.6, "is_application_code": true, "children": []}}'),
        b'{"session": {"start_time": 1.5, "sample_count": 3}, "frame_tree": {"identifier": "main", "time": 1.5}}',
    ],
    "gprof": [
        b"Flat profile:\n\nEach sample counts as 0.01 seconds.\n  %   cumulative   self\n",
        b"\t\t     Call graph (explanation follows)\n\n\ngranularity: each sample hit covers 4 byte(s)\n",
        b"gmon\x01\0\0\0" + bytes(12),
    ],
    "tracy-csv": [
        b"name,src_file,src_line,total_ns,total_perc,counts,mean_ns,min_ns,max_ns,std_ns\nmain,a.cpp,3,10,1.5,2,5,4,6,1\n",
        b"name;src_file;src_line;ns_since_start;exec_time_ns;thread\n",
        b"name,src_file,Time from start of program,GPU execution time\n",
    ],
    "go-trace": [b"go 1.22 trace\0\0\0\x01\x02", b"go 1.5 trace\0\0\0\0", b"go 1.26 trace\0\0\0\x01"],
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


NEAR = {
    "a graph with a schema": b'{"schema": "1.0", "nodes": [{"id": 1, "name": "a"}]}',
    "a list of entries": b'{"version": 1, "entries": [{"name": "nccl:all_reduce", "seq_id": 3}]}',
    "the settings of a database": b'{"pg_config": {"max_connections": 5}, "entries": []}',
    "counts by name": b'[{"count": 3, "name": "a", "averageMs": 1.5}]',
    "layers of a drawing": b'{"Layers": [{"Name": "a", "Opacity": 1}]}',
    "names of layers": b'{"Layers": ["a", "b"], "Width": 3}',
    "a tree of another hatchet": b'[{"frame": {"name": "a"}, "metrics": {"time (inc)": 3.5}, "children": []}]',
    "the word of the profiler": b"we used the DeepSpeed Flops Profiler --- it prints a table\n",
    "spending": b'{"byCategory": {"food": 3}, "metrics": {"total": 3}}',
    "sensors": b"Device_id,Timestamp,temperature\n1,2026-01-01,3\n",
    "prices": b"Device_id,Name,Price (us)\n1,a,3\n",
    "a list of names": b"Name,Type,Size\na,b,3\n",
    "another summary": b"=== Device Timing Summary ===\nratio_denominator=3 ms\n",
    "a table of functions": b"Function,CPU Time,Calls\nmain,1.5,3\n",
    "times of another unit": b"Function,CPU Time (ms),Module\nmain,1.5,a.out\n",
    "a load test": b'{"elapsed_time_sec": 1.5, "growth_rate": 2, "requests": 3}',
    "frames of a page": b'{"root_frame": {"url": "http://a"}, "identifier": 3}',
    "prose of gprof": b"Flat profile: a word of gprof\n",
    "a table of sources": b"name,src_file,src_line,comment\nmain,a.c,3,b\n",
    "prose of Go": b"go 1.22 trace is a command\n",
    "tasks of another program": database("TASK", "USERS"),
    "another stream of messages": b"\x07\x0a\x05a.b.c\x0f\x08\x01\x12\x09aten::mul\x18\x04",
    "a pickle of entries": pickle.dumps({"version": 1, "entries": [1, 2]}),
}
"""What none of these formats is, though it has a word of one."""


@pytest.mark.parametrize("case", NEAR)
def test_what_only_looks_like_one_keeps_its_sentence(case: str, tmp_path: Path) -> None:
    path = tmp_path / "unknown name"
    path.write_bytes(NEAR[case])
    with pytest.raises(TracekitError) as caught:
        tracekit.read(path)
    usual = "text that begins with", "a binary file", "without the tables of", "a pickle of Python", "is not a"
    assert any(words in str(caught.value) for words in usual), str(caught.value)


@pytest.mark.parametrize("key", ["unitrace"])
def test_what_is_printed_at_the_end_of_a_long_log_is_named(key: str, tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    path.write_bytes(b"loss 0.5 and more of it\n" * 9000 + HEADS[key][0])
    with pytest.raises(UnknownFormatError) as caught:
        tracekit.read(path)
    wanted = next(each for each in FOREIGN if each.key == key)
    assert f"(at its end {wanted.title})" in str(caught.value)
    assert caught.value.hint == wanted.hint(str(path))


def test_a_folder_of_such_files_is_named_too(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    for rank in range(3):
        (folder / f"pipeline_{rank}.json").write_bytes(HEADS["op-profile"][0])
    (folder / "notes.txt").write_text("words\n")
    with pytest.raises(TracekitError) as caught:
        tracekit.read(folder)
    wanted = next(each for each in FOREIGN if each.key == "op-profile")
    assert str(caught.value).endswith(f"is a known profile format (3 of 4 files: {wanted.title})")
    assert caught.value.hint == wanted.hint(str(folder / "pipeline_0.json"))


@pytest.mark.parametrize("name", ["PROF_000001_20260102030405678_ABCDEFGH", "host_1_20260102030405_ascend_pt"])
@pytest.mark.parametrize("below", [False, True])
def test_raw_data_of_msprof_is_named_by_its_folder(name: str, below: bool, tmp_path: Path) -> None:
    """msprof's raw files have no mark of their own."""
    data = tmp_path / name / "device_0" / "data"
    data.mkdir(parents=True)
    (data / "stars_soc.data.0.slice_0").write_bytes(b"\x01\x02\x03\x04" * 9)
    folder = tmp_path if below else tmp_path / name
    with pytest.raises(TracekitError, match="raw data of msprof") as caught:
        tracekit.read(folder)
    assert "msprof --export=on" in caught.value.hint


def test_a_folder_of_pictures_keeps_its_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(HEADS["picture"][0])
    with pytest.raises(TracekitError) as caught:
        tracekit.read(tmp_path)
    assert str(caught.value).endswith("no file in this folder is a known profile format")


def test_damaged_heads_raise_nothing() -> None:
    for heads in HEADS.values():
        for data in heads:
            for at in range(0, min(len(data), 600), 7):
                for damaged in (data[:at], data[at:], data[:at] + b"\xff\0" + data[at + 1 :], data * 2):
                    foreign_format(Head("unknown", damaged, text=b"\0" not in damaged))


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
        assert re.search("export|import|copy|give", caught.value.hint)


def test_no_sample_of_ours_looks_foreign() -> None:
    """A pattern that matches a readable file would name it wrongly when it is damaged."""
    for path in SAMPLE_FILES:
        data = path.read_bytes()[:65536]
        found = foreign_format(Head("unknown", data, text=b"\0" not in data))
        allowed = {"torch-memory": "pickle", "flight-recorder": "pickle", "firefox": None}.get(path.parent.name)
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
        b"-",
        b"\n=== ",
        b" \n",
        b'{"pg_config":',
        b'[{"frame":{',
        b"\x80\x02}X",
        b",CPU Time",
        b"\x07\n\x050.0.4",
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

"""Every format that tracekit reads, as data: name, title, suffixes, marks, options, and where it is read.

To add a format: write a module in `readers/` with `read`, and `sniff` where its marks alone do not recognise it, and
add a `Reader` here. `Place("module:name")` is a function whose module is imported when it is called. So recognition
imports the modules of those formats alone whose marks a file has, and no command pays for a format that it does not
meet. The order has no meaning. Other packages add formats by entry points (`plugins`); their `Reader` is the same.

`Marks` says how files are recognised, the docstring of the module what they look like; both are on the format's page.
"""

from __future__ import annotations

from tracekit.plugins import Registry
from tracekit.readers.base import Mark, Marks, Place, Reader, Strength
from tracekit.readers.chrome.marks import LATE as CHROME_LATE
from tracekit.readers.chrome.marks import OURS as CHROME_OURS
from tracekit.readers.mxnet.table import LATE as MXNET_TABLE_LATE
from tracekit.readers.nsys.stats_csv import LATE as NSYS_STATS_LATE
from tracekit.readers.nvprof.csv import LATE as NVPROF_LATE
from tracekit.readers.nvprof.csv import WORDS as NVPROF_WORDS
from tracekit.readers.options import MEMORY_UNIT, OSRT, STATE, TIME_UNIT
from tracekit.readers.printed.numbers import DECIMAL

__all__ = ["FORMATS", "READERS", "page_module"]

_KINETO_LATE = (
    rb'"(?:cuda_runtime|cuda_driver|cuda_sync|gpu_memcpy|gpu_memset|gpu_user_annotation|ac2g)"',
    rb'"(?:External id|Ev Idx|Python id|Record function id)"',
)
_MXNET_JSON = tuple(f'"{name}"{colon}{{' for name in ("time", "memory") for colon in (":", ": ", " :", " : "))
_MXNET_WORDS = rb'"args"\s*:\s*\{\s*"name"\s*:\s*"(?:cpu|gpu)/[0-9]+"|"cat"\s*:\s*"MXNET_C_API"'
_MXNET_PAIRS = (
    rb'"cat"\s*:\s*"operator"\s*,\s*"ph"\s*:\s*"[BE]"\s*,\s*"ts"\s*:\s*[0-9]+\s*,\s*"pid"\s*:\s*[0-9]+\s*,'
    rb'\s*"tid"\s*:\s*[0-9]+\s*\}'
)
"""Operators as MXNet writes them: all that a piece of a trace without its beginning has."""

FORMATS = (
    Reader(
        name="rocpd",
        title="rocprofv3 and rocprof-sys database (rocpd, SQLite)",
        suffixes=(".db", ".rocpd"),
        marks=Marks(tables=True),
        gives="both",
        record="row",
        sniff=Place("tracekit.readers.amd.rocpd:sniff"),
        read=Place("tracekit.readers.amd.rocpd:read"),
    ),
    Reader(
        name="rocprof-csv",
        title="rocprof, rocprofv2 and rocprofv3 tables (CSV)",
        suffixes=(".csv",),
        marks=Marks(
            words=(
                "start_timestamp",
                "counter_value",
                "kernelname",
                "totaldurationns",
                "roctx_id",
                "exec_mask",
                "gpu_id",
            )
        ),
        options=(DECIMAL,),
        gives="both",
        record="row",
        sniff=Place("tracekit.readers.amd.rocprof_csv:sniff"),
        read=Place("tracekit.readers.amd.rocprof_csv:read"),
    ),
    Reader(
        name="rocprof-db",
        title="rocprof database (results.db, SQLite)",
        suffixes=(".db",),
        marks=Marks(tables=True),
        gives="both",
        record="row",
        sniff=Place("tracekit.readers.amd.rocprof_db:sniff"),
        read=Place("tracekit.readers.amd.rocprof_db:read"),
    ),
    Reader(
        name="rocprof-json",
        title="rocprofv3 JSON",
        suffixes=(".json",),
        marks=Marks(words=("rocprofiler-sdk-tool",)),
        gives="both",
        record="record",
        sniff=Place("tracekit.readers.amd.rocprof_json:sniff"),
        read=Place("tracekit.readers.amd.rocprof_json:read"),
    ),
    Reader(
        name="rpd",
        title="rocmProfileData database (SQLite)",
        suffixes=(".rpd",),
        marks=Marks(tables=True),
        gives="both",
        record="row",
        sniff=Place("tracekit.readers.amd.rpd:sniff"),
        read=Place("tracekit.readers.amd.rpd:read"),
    ),
    Reader(
        name="events-jsonl",
        title="JSON Lines with tracekit's column names",
        suffixes=(".jsonl", ".jsonl.gz", ".jsonl.zst"),
        marks=Marks(
            # The rest of the line may hold words of any other producer.
            json=(Mark(rb'\A\{"(?:tracekit|ts_ns)"\s*:', Strength.FIRST_BYTES),),
            words=('"ts_ns"', '"events-jsonl"'),
        ),
        gives="both",
        record="line",
        sniff=Place("tracekit.readers.archive.events_jsonl:sniff"),
        read=Place("tracekit.readers.archive.events_jsonl:read"),
    ),
    Reader(
        name="parquet",
        title="tracekit archive (Parquet)",
        suffixes=(".parquet",),
        marks=Marks(words=("par1",)),
        gives="both",
        sniff=Place("tracekit.readers.archive.parquet:sniff"),
        read=Place("tracekit.readers.archive.parquet:read"),
    ),
    Reader(
        name="mini-caffe",
        title="Mini-Caffe profiler trace",
        suffixes=(".json", ".json.gz"),
        marks=Marks(json=(Mark(Place("tracekit.readers.caffe.mini:has_only_pairs"), Strength.HABIT),)),
        record="event",
        trace_events=True,
        sniff=None,
        read=Place("tracekit.readers.caffe.mini:read"),
    ),
    Reader(
        name="caffe-time",
        title="log of caffe time",
        suffixes=(".log", ".txt"),
        marks=Marks(
            in_logs=True,
            words=(
                "forward: ",
                "backward: ",
                "forward-backward",
                "average forward",
                "average backward",
                "average initialization",
                "benchmark begins",
                "net.cpp",
                "layer_factory.hpp",
                "caffe.cpp",
                "caffe.bin.cpp",
            ),
            late=(
                rb"(?:[Ff]orward|[Bb]ackward)(?: pass)?: +[0-9.]",
                rb"forward-backward time: ",
                rb"Benchmark begins",
                rb"Average (?:Forward|Backward|Initialization)",
            ),
        ),
        options=(DECIMAL,),
        gives="totals",
        sniff=Place("tracekit.readers.caffe.time:sniff"),
        read=Place("tracekit.readers.caffe.time:read"),
    ),
    Reader(
        name="chrome-trace",
        title="Chrome trace (Trace Event format) of any producer",
        suffixes=(".json", ".json.gz", ".trace"),
        marks=Marks(
            json=(Mark(CHROME_OURS, Strength.FIRST_BYTES), Mark(lambda _: True, Strength.GRAMMAR)), late=CHROME_LATE
        ),
        options=(TIME_UNIT,),
        record="event",
        trace_events=True,
        sniff=None,
        read=Place("tracekit.readers.chrome.trace:read"),
    ),
    Reader(
        name="cuda-profile",
        title="CUDA and OpenCL command line profiler log (key-value, CSV)",
        suffixes=(".log", ".kvp"),
        marks=Marks(words=("_profile_log_version", "gputime", "gpustarttimestamp")),
        options=(DECIMAL,),
        record="line",
        sniff=Place("tracekit.readers.cuda_profile.reader:sniff"),
        read=Place("tracekit.readers.cuda_profile.reader:read"),
    ),
    Reader(
        name="fluid-pb",
        title="Paddle fluid profile (protobuf)",
        suffixes=(".pb", ".prof"),
        marks=Marks(begins=(b"\x0a", b"\x10", b"\x22")),
        options=(STATE,),
        sniff=Place("tracekit.readers.fluid.pb:sniff"),
        read=Place("tracekit.readers.fluid.pb:read"),
    ),
    Reader(
        name="fluid-report",
        title="Paddle fluid profiling report",
        suffixes=(".txt", ".log"),
        marks=Marks(
            in_logs=True,
            words=(
                "profiling report",
                "overhead summary",
                "gpumemcpy summary",
                "event summary",
                "event calls total",
                "alloc calls",
            ),
            late=(rb"Profiling Report", rb"(?:Overhead|GpuMemCpy|Event) Summary", rb"Event +(?:Calls|Alloc Calls) "),
        ),
        options=(DECIMAL,),
        gives="totals",
        sniff=Place("tracekit.readers.fluid.report:sniff"),
        read=Place("tracekit.readers.fluid.report:read"),
    ),
    Reader(
        name="kineto",
        title="PyTorch profiler (Kineto) trace",
        suffixes=(".pt.trace.json", ".pt.trace.json.gz", ".json", ".json.gz"),
        marks=Marks(
            json=(
                Mark(Place("tracekit.readers.kineto:has_header"), Strength.HEADER),
                Mark(Place("tracekit.readers.kineto:has_events")),
            ),
            late=_KINETO_LATE,
            phases="XiICMstf",
        ),
        steps=True,
        record="event",
        trace_events=True,
        sniff=None,
        read=Place("tracekit.readers.kineto:read"),
    ),
    Reader(
        name="mxnet-table",
        title="MXNet profile statistics",
        suffixes=(".txt", ".json"),
        marks=Marks(
            in_logs=True,
            words=("total count", "profile statistics", *_MXNET_JSON),
            late=MXNET_TABLE_LATE,
        ),
        options=(DECIMAL,),
        gives="totals",
        sniff=Place("tracekit.readers.mxnet.table:sniff"),
        read=Place("tracekit.readers.mxnet.table:read"),
    ),
    Reader(
        name="mxnet",
        title="MXNet profiler trace",
        suffixes=(".json", ".json.gz"),
        marks=Marks(
            json=(Mark(_MXNET_WORDS), Mark(_MXNET_PAIRS, Strength.HABIT)),
            late=(rb'"MXNET_C_API"', rb'"(?:cpu|gpu)/[0-9]'),
        ),
        options=(MEMORY_UNIT,),
        record="event",
        trace_events=True,
        sniff=None,
        read=Place("tracekit.readers.mxnet.trace:read"),
    ),
    Reader(
        name="ncu",
        title="Nsight Compute",
        suffixes=(".csv", ".txt", ".log"),
        marks=Marks(
            in_logs=True,
            words=("==prof==", "kernel name", ", stream ", ", device "),
            late=(rb"==PROF==", rb"Kernel Name", rb", Stream [0-9]"),
        ),
        options=(DECIMAL,),
        gives="totals",
        record="line",
        sniff=Place("tracekit.readers.ncu.reader:sniff"),
        read=Place("tracekit.readers.ncu.reader:read"),
    ),
    Reader(
        name="nsys-jsonl",
        title="Nsight Systems export (JSON lines)",
        suffixes=(".json", ".jsonl"),
        marks=Marks(words=('processevent"', 'cudaapievent"', 'cudaevent"', 'nvtxevent"', '"data"', '"string"')),
        options=(OSRT,),
        record="line",
        sniff=Place("tracekit.readers.nsys.jsonl:sniff"),
        read=Place("tracekit.readers.nsys.jsonl:read"),
    ),
    Reader(
        name="nsys-report",
        title="Nsight Systems report",
        suffixes=(".nsys-rep", ".qdrep"),
        marks=Marks(words=("nvidia tegra profiler report",)),
        options=(OSRT,),
        record="row",
        sniff=Place("tracekit.readers.nsys.report.reader:sniff"),
        read=Place("tracekit.readers.nsys.report.reader:read"),
    ),
    Reader(
        name="nsys-sqlite",
        title="Nsight Systems export (SQLite)",
        suffixes=(".sqlite", ".db"),
        marks=Marks(tables=True),
        options=(OSRT,),
        record="row",
        sniff=Place("tracekit.readers.nsys.sqlite:sniff"),
        read=Place("tracekit.readers.nsys.sqlite:read"),
    ),
    Reader(
        name="nsys-stats-csv",
        title="nsys stats reports (CSV, columns)",
        suffixes=(".csv", ".txt"),
        marks=Marks(
            in_logs=True,
            words=(
                "start (",
                "start(",
                "total (",
                "total(",
                "total time",
                "statistics (",
                "processing [",
                "executing '",
                "running [",
                "exporting [",
                " contain ",
                "tavg (",
                "migration size",
                "cpu instruction",
            ),
            late=NSYS_STATS_LATE,
        ),
        options=(DECIMAL,),
        gives="both",
        record="line",
        sniff=Place("tracekit.readers.nsys.stats_csv:sniff"),
        read=Place("tracekit.readers.nsys.stats_csv:read"),
    ),
    Reader(
        name="nvprof-csv",
        title="nvprof CSV",
        suffixes=(".csv", ".log"),
        marks=Marks(in_logs=True, words=NVPROF_WORDS, late=NVPROF_LATE),
        options=(DECIMAL,),
        gives="both",
        record="line",
        sniff=Place("tracekit.readers.nvprof.csv:sniff"),
        read=Place("tracekit.readers.nvprof.csv:read"),
    ),
    Reader(
        name="nvprof-sqlite",
        title="nvprof and Visual Profiler database (SQLite)",
        suffixes=(".nvprof", ".nvvp", ".sqlite"),
        marks=Marks(tables=True),
        gives="both",
        record="row",
        sniff=Place("tracekit.readers.nvprof.sqlite:sniff"),
        read=Place("tracekit.readers.nvprof.sqlite:read"),
    ),
    Reader(
        name="nvprof-text",
        title="nvprof text",
        suffixes=(".txt", ".log", ".out"),
        marks=Marks(in_logs=True, words=NVPROF_WORDS, late=NVPROF_LATE),
        options=(DECIMAL,),
        gives="both",
        record="line",
        sniff=Place("tracekit.readers.nvprof.text:sniff"),
        read=Place("tracekit.readers.nvprof.text:read"),
    ),
    Reader(
        name="paddle-json",
        title="Paddle profiler trace (export_chrome_tracing)",
        suffixes=(".paddle_trace.json", ".json", ".json.gz"),
        marks=Marks(json=(Mark(Place("tracekit.readers.paddle.json:has_header"), Strength.HEADER),)),
        steps=True,
        record="event",
        trace_events=True,
        sniff=None,
        read=Place("tracekit.readers.paddle.json:read"),
    ),
    Reader(
        name="paddle-pb",
        title="Paddle protobuf trace",
        suffixes=(".pb",),
        marks=Marks(begins=(b"\x0a",)),
        steps=True,
        sniff=Place("tracekit.readers.paddle.pb:sniff"),
        read=Place("tracekit.readers.paddle.pb:read"),
    ),
    Reader(
        name="paddle-summary",
        title="Paddle profiler summary",
        suffixes=(".txt", ".log"),
        marks=Marks(
            in_logs=True,
            words=(" summary", "flops profiler", "batch_cost: "),
            late=(rb"-{3}[A-Z][A-Za-z/ ]* Summary", rb"={3}Perf Summary=", rb"-{3} Flops Profiler ", rb"batch_cost: "),
        ),
        options=(DECIMAL,),
        gives="totals",
        sniff=Place("tracekit.readers.paddle.summary:sniff"),
        read=Place("tracekit.readers.paddle.summary:read"),
    ),
    Reader(
        name="perfetto",
        title="Perfetto trace",
        suffixes=(".pftrace", ".perfetto-trace", ".pftrace.gz"),
        marks=Marks(begins=(b"\x0a",)),
        record="packet",
        sniff=Place("tracekit.readers.perfetto.reader:sniff"),
        read=Place("tracekit.readers.perfetto.reader:read"),
    ),
    Reader(
        name="recorder-log",
        title="log of tracekit's recorder (JSON Lines)",
        suffixes=(".jsonl", ".jsonl.gz", ".jsonl.zst"),
        marks=Marks(
            json=(Mark(rb'\A\{"format"\s*:\s*"tracekit-log"', Strength.FIRST_BYTES),),
            words=("tracekit-log",),
        ),
        sniff=Place("tracekit.readers.recorder_log.reader:sniff"),
        read=Place("tracekit.readers.recorder_log.reader:read"),
    ),
    Reader(
        name="firefox",
        title="Firefox Profiler profile",
        suffixes=(".json.gz", ".json"),
        marks=Marks(words=('"preprocessedprofileversion"', '"stacktable"', '"markers":[')),
        gives="totals",
        sniff=Place("tracekit.readers.samples.firefox:sniff"),
        read=Place("tracekit.readers.samples.firefox:read"),
    ),
    Reader(
        name="folded",
        title="Folded stacks",
        suffixes=(".folded", ".collapsed", ".txt"),
        gives="totals",
        sniff=Place("tracekit.readers.samples.folded:sniff"),
        read=Place("tracekit.readers.samples.folded:read"),
    ),
    Reader(
        name="pprof",
        title="pprof profile",
        suffixes=(".pb.gz", ".pprof", ".prof"),
        marks=Marks(
            begins=(b"\x0a", b"\x12", b"\x1a", b"\x22", b"\x2a", b"\x32", b"\x48", b"\x50", b"\x5a", b"\x60", b"\x70")
        ),
        gives="totals",
        sniff=Place("tracekit.readers.samples.pprof:sniff"),
        read=Place("tracekit.readers.samples.pprof:read"),
    ),
    Reader(
        name="speedscope",
        title="speedscope file",
        suffixes=(".speedscope.json", ".json"),
        marks=Marks(words=("speedscope.app/file-format-schema",)),
        gives="totals",
        sniff=Place("tracekit.readers.samples.speedscope:sniff"),
        read=Place("tracekit.readers.samples.speedscope:read"),
    ),
    Reader(
        name="singa",
        title="Apache SINGA time profiling",
        suffixes=(".txt", ".log", ".out"),
        marks=Marks(
            in_logs=True,
            words=("op_id", "propagation time", "time profiling:"),
            late=(rb"OP_ID[0-9]", rb"(?:Forward|Backward) Propagation Time"),
        ),
        options=(DECIMAL,),
        gives="totals",
        sniff=Place("tracekit.readers.singa:sniff"),
        read=Place("tracekit.readers.singa:read"),
    ),
    Reader(
        name="theano",
        title="profile of Theano, Aesara or PyTensor",
        suffixes=(".txt", ".log", ".prof"),
        marks=Marks(
            in_logs=True,
            words=(
                "function profiling",
                "scan op profiling",
                "<apply time>",
                "max peak memory",
                "<sum apply",
                "(remaining ",
                "profilemode.",
                "theano",
                "pytensor",
                "aesara",
            ),
            late=(
                rb"(?:Function|Scan Op) profiling",
                rb"<apply time>",
                rb"Max peak memory",
                rb"<Sum apply",
                rb"\(remaining [0-9]",
                rb"ProfileMode\.",
            ),
        ),
        options=(DECIMAL,),
        gives="totals",
        sniff=Place("tracekit.readers.theano.reader:sniff"),
        read=Place("tracekit.readers.theano.reader:read"),
    ),
    Reader(
        name="timemory",
        title="tables of rocprof-sys, Omnitrace and timemory",
        suffixes=(".txt",),
        marks=Marks(in_logs=True, words=("| depth",), late=(rb"\|\s*DEPTH",)),
        gives="totals",
        record="line",
        sniff=Place("tracekit.readers.timemory:sniff"),
        read=Place("tracekit.readers.timemory:read"),
    ),
    Reader(
        name="torch-memory",
        title="PyTorch memory snapshot",
        suffixes=(".pickle", ".pkl"),
        marks=Marks(begins=(b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")),
        gives="both",
        sniff=Place("tracekit.readers.torch.memory:sniff"),
        read=Place("tracekit.readers.torch.memory:read"),
    ),
    Reader(
        name="torch-table",
        title="PyTorch profiler table",
        suffixes=(".txt", ".log", ".md"),
        marks=Marks(in_logs=True, words=("name ",), late=(rb"Name .*(?:CPU|Self [A-Z]|total|avg)",)),
        options=(DECIMAL,),
        gives="totals",
        sniff=Place("tracekit.readers.torch.table:sniff"),
        read=Place("tracekit.readers.torch.table:read"),
    ),
    Reader(
        name="xplane",
        title="XPlane profile (TensorFlow, JAX, PyTorch/XLA)",
        suffixes=(".xplane.pb", ".xplane.pb.gz"),
        marks=Marks(begins=(b"\x0a",)),
        gives="both",
        steps=True,
        record="event",
        sniff=Place("tracekit.readers.xplane.reader:sniff"),
        read=Place("tracekit.readers.xplane.reader:read"),
    ),
)

READERS = Registry("tracekit.readers", Reader, ready=FORMATS)
"""The readers of all formats by name: ours, and those of other packages."""


def page_module(reader: Reader) -> str:
    """Return the module whose docstring is the page of a format: that of its function `read`."""
    return reader.read.module if isinstance(reader.read, Place) else reader.read.__module__

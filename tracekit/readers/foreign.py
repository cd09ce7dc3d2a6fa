"""Formats of other programs that tracekit does not read: how each is recognised, and how to get a file that it reads.

`FOREIGN` is data: a new format is one more entry. A format is recognised by its content. A suffix counts only where the
content of the format has no mark that is known, or where the beginning of the file is missing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from tracekit.lazy_dataclass import dataclass
from tracekit.readers.head import Head

__all__ = ["FOREIGN", "foreign_end", "foreign_folder", "foreign_format"]

# The form in which a format that is not read is described.


@dataclass(frozen=True, slots=True)
class Foreign:
    """A format that is refused with advice.

    title: what the file is, for the sentence. advice: what to do; {file} and {stem} become the name of the file and
    the name without its last suffix, as a shell needs them. found: a regular expression that the
    beginning of the file has, None for none. suffixes: names that count where nothing else is found, in lower case.
    tables: sets of names; an SQLite database of the format has all those of a set. in_logs: programs print it, so the
    end of a long text is searched too.
    """

    key: str
    title: str
    advice: str
    found: bytes | None = None
    suffixes: tuple[str, ...] = ()
    tables: tuple[frozenset[str], ...] = ()
    in_logs: bool = False

    def fits(self, head: Head) -> bool:
        """Return whether the content is of this format."""
        if any(each <= head.tables for each in self.tables):
            return True
        return self.found is not None and re.match(self.found, head.data, re.DOTALL) is not None

    def hint(self, path: str) -> str:
        """Return the advice for a file of that name."""
        name = "FILE" if path == "stdin" else path
        return self.advice.format(file=shlex.quote(name), stem=shlex.quote(name.rsplit(".", 1)[0]))


# Formats of profilers of programs that tracekit does not read, where their tools can write another that it reads.
#
# Sources: unitrace of intel/pti-gpu (its printed summaries), the manual of VTune's command line, Scalene's
# scalene_json.py, pyinstrument's JSON renderer, gprof's manual and gmon_out.h, csvexport.cpp of Tracy, Go's
# runtime/trace.


_PY_SPY = "record with py-spy instead: py-spy record -f raw -o {stem}.folded -- python PROGRAM"
_TOOL_CELL = rb'"?[,;\t|]"?'

TOOLS: tuple[Foreign, ...] = (
    Foreign(
        "unitrace",
        "metrics of Intel's unitrace, or a summary of it without a table",
        "record the timeline: unitrace --chrome-kernel-logging --chrome-call-logging PROGRAM writes JSON",
        rb"(?:\A|.*?\n)[ \t]{0,20}=== (?:(?:API|Device|CCL|Kernel Submission|OpenCL|Level Zero)[^=\n]{0,40} Summary"
        rb"|Device #\d+ Metrics) ===\s"
        rb"(?!.*?Calls[ ]{0,200},[ ]{0,200}(?:Time|Append) ?\(ns\))"
        rb"(?=.*?(?:Total (?:Execution|Device|API) Time|Time \(ns\)|GlobalInstanceId|IP\[Address\]))",
        in_logs=True,
    ),
    Foreign(
        "vtune-csv",
        "a table of Intel VTune without times, or without rows",
        "write one with times: vtune -report hotspots -format csv -r RESULT > {stem}.csv",
        # With times and rows it is read. Without rows only the header is here.
        rb"\A(?:\xef\xbb\xbf)?(?:Hierarchy Level" + _TOOL_CELL + rb"Metric Name" + _TOOL_CELL + rb"Metric Value\s?\Z"
        rb"|(?=[^\n]{1,4000}\n?\Z|(?![^\n]{0,4000}(?:CPU|Total) Time))"
        rb"[^\n]{1,4000}?[,;\t|]\"?(?:CPU Time:(?:Effective|Spin|Overhead|Self|Total|Idle)|Computing Task:(?:Total|"
        rb"Average|Instance|SIMD)|Work Size:(?:Global|Local)|Hardware Event Count:[A-Z]|Function \(Full\)))",
    ),
    Foreign(
        "scalene",
        "a profile of Scalene: shares of lines, no stacks and no kernels",
        _PY_SPY,
        rb'\A\s*\{(?=.*?"(?:n_cpu_percent_python|max_footprint_python_fraction|alloc_samples)"\s*:)'
        rb'(?=.*?"(?:elapsed_time_sec|n_cpu_percent_c|n_gpu_percent|growth_rate|max_footprint_mb)"\s*:)',
    ),
    Foreign(
        "pyinstrument-json",
        "a profile of pyinstrument in JSON",
        "render it as speedscope: pyinstrument -r speedscope -o {stem}.speedscope.json PROGRAM",
        rb'\A\s*\{(?:(?=.*?"root_frame"\s*:\s*\{)(?=.*?"(?:is_application_code|sample_count|file_path_short)"\s*:)'
        rb'|(?=.*?"frame_tree"\s*:\s*\{)(?=.*?"(?:sample_count|frame_records)"\s*:))',
    ),
    Foreign(
        "gprof",
        "a profile of gprof",
        "sample with perf instead, and fold the stacks: perf script | stackcollapse-perf.pl > {stem}.folded",
        rb"\A(?:gmon\x01\0\0\0|gmon\0\0\0\x01|\s*(?:Flat profile:\s+Each sample counts as |"
        rb"Call graph(?: \(explanation follows\))?\s+granularity: each sample hit covers ))",
    ),
    Foreign(
        "tracy-csv",
        "a table of tracy-csvexport: zones of the host",
        "no export of Tracy can be read; for GPU work: nsys profile -o run PROGRAM",
        rb'\A(?:\xef\xbb\xbf)?"?name' + _TOOL_CELL + rb"src_file" + _TOOL_CELL + rb"(?:src_line" + _TOOL_CELL
        + rb"(?:total_ns|ns_since_start|exec_time_ns|total_time|zone_)|Time from start of program)",
    ),
    Foreign(
        "go-trace",
        "an execution trace of Go",
        "`go tool trace {file}` shows it; its waits as pprof: go tool trace -pprof=sync {file} > {stem}.pprof",
        rb"\Ago 1\.\d{1,3} trace\0",
    ),
)  # fmt: skip
"""In order: the first that fits is named."""

# Formats of TensorFlow, Ascend and DLProf that tracekit does not read.
#
# Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp, op_profile.proto of XProf, the manuals of msprof and of
# torch_npu's profiler (names of files, columns and tables), the manual of DLProf.


_CELL = rb'"?[,;\t]"?'

FRAMEWORKS: tuple[Foreign, ...] = (
    Foreign(
        "op-profile",
        "an op profile of TensorBoard (XProf): shares of operations, no timeline",
        "give the *.xplane.pb or *.trace.json.gz of the same run: plugins/profile/*/ has them",
        rb'\A\s*\{(?:(?=.*?"by(?:Category|Program)ExcludeIdle"\s*:)|(?=.*?"by(?:Category|Program)"\s*:\s*\{)'
        rb'(?=.*?"(?:rawTime|rawFlops|occurrences|bandwidthUtils|numChildren)"\s*:))',
        (".op_profile.pb", ".op_stats.pb", ".overview_page.pb", ".input_pipeline.pb", ".kernel_stats.pb"),
    ),
    Foreign(
        "msprof",
        "a table of Ascend's profiler (msprof, torch_npu) that is not read",
        "give kernel_details.csv, op_summary_*.csv, trace_view.json or msprof_*.json: `msprof --export=on` writes them",
        # Tables that are read have these columns.
        rb'\A(?!(?:\xef\xbb\xbf)?[^\n]{0,8000}?(?:Task Duration|task_stop|Accelerator Core[^\n]{0,8000}?Duration'
        rb'|API Name|Count[^\n]{0,8000}?Total Time|Communication\(Not Overlapped\)|Host Total Duration))'
        rb'(?:\xef\xbb\xbf)?"?(?:Step Id' + _CELL + rb')?(?:'
        rb"Device_id" + _CELL + rb"(?:Model (?:ID|Name)|OP Type|Level|kernel_name|Step|event|Name|Task ID|Mode|"
        rb"Timestamp)\b[^\n]{0,8000}?(?:(?:[Tt]ime|[Dd]uration|Avg|start|stop|stamp)\(us\))"
        rb"|Name" + _CELL + rb"(?:Type" + _CELL + rb"[^\n]{0,200}?Accelerator Core|Input Shapes" + _CELL
        + rb"Call Stack" + _CELL + rb"Host Self Duration\(us\)|Size\(KB\)" + _CELL + rb"Allocation Time\(us\))"
        rb"|Component" + _CELL + rb"Timestamp\(us\)" + _CELL + rb"Total Allocated\(MB\))"
        rb'|\A\s*\{(?=.*?"Communication Time Info"\s*:\s*\{)(?=.*?"(?:Elapse Time|Transit Time)\(ms\)"\s*:)',
    ),
    Foreign(
        "msprof-db",
        "a database of Ascend's profiler (msprof, torch_npu)",
        "give the timeline instead, msprof_*.json or trace_view.json: `msprof --export=on` writes it",
        tables=tuple(frozenset({"STRING_IDS", each}) for each in ("TASK", "CANN_API", "PYTORCH_API", "MSTX_EVENTS")),
    ),
    Foreign(
        "msprof-raw",
        "raw data of Ascend's profiler (msprof)",
        "export it with `msprof --export=on`, and give msprof_*.json",
        suffixes=tuple(f".slice_{n}" for n in range(10)),
    ),
    Foreign(
        "dlprof",
        "a database or a report of DLProf",
        "give nsys_profile.sqlite or nsys_profile.qdrep beside it",
        rb"\A(?:\[DLProf-\d\d:\d\d:\d\d\] |Expert Systems Feedback: \d"
        rb"|[^\n]{0,400}?\bTC Eligible\b[^\n]{0,400}?\bUsing TC\b[^\n]{0,2000}?\((?:ns|us|ms)\))",
        tables=(frozenset({"view_op_nodes", "view_system_config"}),),
    ),
)  # fmt: skip
"""In order: the first that fits is named."""

# Formats that tracekit does not read, of NVIDIA, AMD, samplers of the CPU, whole systems and HPC; and no profiles.
#
# Sources: the formats' own documents and writers: tools/perf/util/header.c (PERFILE2), gperftools' profiledata.cc and
# google/pprof's legacy_profile.go, TAU's TauCollate.cpp, HPCToolkit's fmt/ (hpcrun, meta.db, profile.db), OTF2 (written
# here), memray's records.h, austin's mojo.h, TensorBoard's record_writer and event.proto, trace-cmd.dat(5), valgrind's
# manual (callgrind, massif), the Java Flight Recorder ("FLR\0"), V8's heap snapshot and CPU profile, Tracy's
# TracyFileHeader.hpp, RenderDoc's serialiser ("RDOC"), ntwmi.h (SYSTEM_TRACE_HEADER of an ETL file), the Fuchsia trace
# format, CTF 1.8, Paraver's trace format, roctracer's tool and generateCSV.cpp of rocprofiler-sdk.


_FOLD = "fold its stacks: "
_PPROF = "convert it: pprof -proto -output={stem}.pb.gz PROGRAM {file}"
_NO_GPU = "it has no GPU work; "
_TRACECONV = "convert it with Perfetto's traceconv: traceconv json {file} {stem}.json"
_SAVE_TEXT = "give the text or the file that it was made from"

GENERAL: tuple[Foreign, ...] = (
    # NVIDIA
    Foreign(
        "git-lfs",
        "a Git LFS pointer: the file itself was not fetched",
        "fetch it: git lfs pull --include {file}",
        rb"\Aversion https://git-lfs\.github\.com/spec/",
    ),
    Foreign(
        "nsys-rep",
        "it has the name of a Nsight Systems report, but not its first line",
        "copy it again, or export it where nsys is installed: nsys export --type sqlite -o {stem}.sqlite {file}",
        suffixes=(".nsys-rep", ".qdrep"),
    ),
    Foreign(
        "qdstrm",
        "Nsight Systems' raw stream, not yet a report",
        "import it: QdstrmImporter --input-file {file}; tracekit reads the .nsys-rep that it writes",
        suffixes=(".qdstrm",),
    ),
    Foreign(
        "nsight-cuprof-report",
        "Nsight Compute's closed binary report: counters of single kernels, no timeline",
        "export it: nv-nsight-cu-cli --import {file} --csv --page raw > {stem}.csv",
        suffixes=(".nsight-cuprof-report",),
    ),
    Foreign(
        "ncu-rep",
        "Nsight Compute's closed binary report: counters of single kernels, no timeline",
        "export it: ncu --import {file} --csv --page raw > {stem}.csv",
        rb"\ANV[RP]\0",
        (".ncu-rep",),
    ),
    Foreign(
        "nvvp-session",
        "a Visual Profiler session in XML: settings without a timeline",
        "give the database that it was made from, or make one: nvprof -o run.nvprof PROGRAM",
        rb"\A\s*<\?xml[^>]*>\s*(?:<!--.*?-->\s*)?<session\b[^>]*\bversion=",
    ),
    Foreign(
        "hdf5",
        "an HDF5 file",
        "if Nsight Systems exported it, give the report (.nsys-rep), or export it with --type sqlite or parquetdir",
        rb"\A\x89HDF\r\n\x1a\n",
    ),
    Foreign(
        "arrow",
        "an Arrow file",
        "if Nsight Systems exported it, give the folder with all of its tables, or the report (.nsys-rep)",
        rb"\AARROW1\0\0",
    ),
    # AMD
    Foreign(
        "roctracer-text",
        "what roctracer's tool printed between the output of the program: no file of results",
        "profile again: rocprofv3 --sys-trace --output-format rocpd -d OUT -- PROGRAM",
        rb"\AROC-?[tT]racer \(pid=\d+\)",
    ),
    Foreign(
        "rocprofv3-agents",
        "rocprofv3's list of the machine's agents: no events",
        "give the *_trace.csv files beside it",
        rb'\A"?Node_Id"?,"?Logical_Node_Id"?,',
    ),
    Foreign(
        "rocprof-sys-sums",
        "sums of rocprof-sys, Omnitrace or timemory in JSON",
        "give the text beside it (wall_clock.txt), or the database that ROCPROFSYS_USE_ROCPD=ON makes it write",
        rb'\A\s*\{\s*"(?:timemory|omnitrace|rocprofiler-systems)"\s*:\s*\{',
    ),
    # TensorFlow, JAX, PyTorch
    Foreign(
        "tfevents",
        "an event file of TensorBoard: scalars and graphs, no profile",
        "profiles of the same run are in plugins/profile/*/ beside it: *.xplane.pb or *.trace.json.gz",
        rb"\A.{12}\x09.{8}(?:\x10.{1,10}?)?\x1a.brain\.Event:",
    ),
    Foreign(
        "torch-checkpoint",
        "a checkpoint of PyTorch: weights, no profile",
        "give the trace: prof.export_chrome_trace({stem}.json) in the program writes it",
        rb"\APK\x03\x04.{26}[^\0]{0,200}(?:data\.pkl|\.format_version|byteorder)",
    ),
    Foreign(
        "xplane-torn",
        "an .xplane.pb file that does not begin with a plane",
        "copy it again, whole and in binary mode; a trace.json.gz of the same run may lie beside it",
        suffixes=(".xplane.pb",),
    ),
    # Samples of the CPU
    Foreign(
        "perf-data",
        "a recording of Linux perf",
        f"{_FOLD}perf script -i {{file}} | stackcollapse-perf.pl > {{stem}}.folded",
        rb"\A(?:PERFILE2|2ELIFREP|PERFFILE)",
    ),
    Foreign(
        "perf-script",
        "the text of perf script: samples that are not folded",
        f"{_FOLD}stackcollapse-perf.pl {{file}} > {{stem}}.folded",
        rb"\A(?:#[^\n]*\n|[ \t\r]*\n){0,200}[^\n]{0,200}?\s\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?\d+\.\d{6,9}:\s[^\n]*:[^\n]*\n"
        rb"\s+[0-9a-f]{2,16} \S",
    ),
    Foreign(
        "simpleperf-proto",
        "a recording of Android's simpleperf, in its protobuf",
        f"{_FOLD}stackcollapse.py -i perf.data > {{stem}}.folded (a script of simpleperf; it reads perf.data)",
        rb"\ASIMPLEPERF",
    ),
    Foreign(
        "gperftools-cpu",
        "a CPU profile of gperftools in its old binary format",
        _PPROF,
        rb"\A(?:\0{8}\x03\0{7}\0{8}.{8}\0{8}|\0{4}\x03\0{3}\0{4}.{4}\0{4}"
        rb"|\0{8}\0{7}\x03\0{8}.{8}\0{8}|\0{4}\0{3}\x03\0{4}.{4}\0{4})",
    ),
    Foreign(
        "gperftools-heap",
        "a heap profile of gperftools or jemalloc in text",
        _PPROF,
        rb"\A(?:heap profile:|heap_v2/|--- (?:heap|growth)z? )",
    ),
    Foreign(
        "gperftools-contention",
        "a contention profile of gperftools in text",
        _PPROF,
        rb"\A--- (?:contentionz |contention:|mutex:)",
    ),
    Foreign(
        "cprofile",
        "statistics of Python's cProfile: functions without stacks or times of their own",
        _PY_SPY,
        rb"\A[\x7b\xfb](?:[\x29\xa9]\x03|[\x28\xa8]\x03\0\0\0)[zZ\xfa\xda\x75\xf5\x61\xe1\x41\xc1\x73]",
    ),
    Foreign(
        "memray",
        "a recording of memray: allocations of Python on the host",
        "`memray table {file}` shows it; for the memory of a GPU give torch.cuda.memory._dump_snapshot()",
        rb"\A(?:memray\0|\x04\x22\x4d\x18.{3,30}memray)",
    ),
    Foreign(
        "austin-mojo",
        "samples of austin in its binary MOJO format",
        "convert it: mojo2austin {file} {stem}.austin && austin2speedscope {stem}.austin {stem}.speedscope.json",
        rb"\AMOJ[\x01-\x0f]",
    ),
    Foreign(
        "pyinstrument",
        "a session of pyinstrument",
        "convert it: pyinstrument --load {file} -r speedscope -o {stem}.speedscope.json",
        rb"\A\s*\{(?=.*?\"frame_records\")(?=.*?\"(?:sample_count|program)\")",
    ),
    Foreign(
        "line-profiler",
        "line times of Python's line_profiler",
        _NO_GPU + _PY_SPY,
        rb"\A(?:Wrote profile[^\n]*\n)?\s*Timer unit: [\d.e+-]+ s\s",
    ),
    Foreign(
        "pickle",
        "a pickle of Python that is neither a memory snapshot nor a Flight Recorder dump of PyTorch",
        "export the profile as text or JSON from the program that wrote it: pickles can run code and are not opened",
        rb"\A\x80[\x02-\x05](?:\x95.{8})?[\x8c}\]cX(K\x94]",
    ),
    Foreign(
        "torch-memory-picture",
        "a memory timeline of PyTorch as a picture (PNG in HTML), without numbers",
        "export it again with the suffix .json or .raw.json.gz: prof.export_memory_timeline('memory.raw.json.gz')",
        rb"\A\s*<html>\s*<head>.{0,200}<title>GPU Memory Timeline HTML</title>",
    ),
    Foreign(
        "jfr",
        "a recording of the Java Flight Recorder",
        "fold its stacks with async-profiler: jfrconv -o collapsed {file} {stem}.folded",
        rb"\AFLR\0",
    ),
    Foreign(
        "cpuprofile",
        "a CPU profile of V8 (Chrome, Node)",
        "open it in https://www.speedscope.app and export it from there: that file is read",
        rb'\A\s*\{(?=.{0,2000}?"callFrame")(?=.{0,2000}?"nodes"\s*:\s*\[)',
    ),
    Foreign(
        "heapsnapshot",
        "a heap snapshot of V8 (Chrome, Node): objects of JavaScript, no times",
        _NO_GPU + "record a performance profile instead, and save it as JSON",
        rb'\A\s*\{\s*"snapshot"\s*:\s*\{\s*"meta"\s*:',
    ),
    Foreign(
        "heaptrack",
        "a recording of heaptrack: allocations on the host",
        "fold its stacks: heaptrack_print --print-flamegraph {stem}.folded {file}",
        rb"\Av [0-9a-f]+ [0-9a-f]+\nX ",
    ),
    Foreign(
        "flame-graph",
        "a flame graph, drawn as SVG",
        "give the folded stacks that it was made from",
        rb"(?i)\A\s*<\?xml[^>]*>\s*(?:<!DOCTYPE svg[^>]*>\s*)?<svg\b.{0,4000}?(?:flame ?graph|search_click|func_g)",
    ),
    Foreign(
        "callgrind",
        "counts of valgrind's callgrind or cachegrind",
        _NO_GPU + "`callgrind_annotate {file}` prints it",
        rb"\A(?:# callgrind format\s|version: \d+\s*\ncreator: callgrind|desc: I1 cache:)",
    ),
    Foreign(
        "massif",
        "a heap profile of valgrind's massif",
        _NO_GPU + "`ms_print {file}` prints it",
        rb"\Adesc: [^\n]*\ncmd: [^\n]*\ntime_unit: ",
    ),
    Foreign(
        "bpftrace",
        "maps that bpftrace printed",
        "if they are stacks, fold them: stackcollapse-bpftrace.pl {file} > {stem}.folded",
        rb"\AAttach(?:ing|ed) \d+ probes?|\A\s*@[A-Za-z_0-9]*\[[^\n]*(?:\n[^\n]*){0,200}?\]: \d+",
    ),
    # Traces of whole systems
    Foreign(
        "trace-dat",
        "a recording of trace-cmd (ftrace): scheduling and kernel functions",
        _NO_GPU + "`trace-cmd report -i {file}` prints it",
        rb"\A\x17\x08\x44tracing",
    ),
    Foreign("ftrace", "the text of ftrace", _TRACECONV, rb"\A\s*# tracer: \w+"),
    Foreign(
        "tracekit-page",
        "a page of tracekit: tables, no events",
        "`tracekit summary {file}` prints its tables",
        rb'(?i)\A\s*<(?:!doctype )?html.*?name="generator" content="tracekit ',
    ),
    Foreign(
        "systrace",
        "a page of Android's systrace",
        _TRACECONV,
        rb"(?i)\A\s*<!doctype html.{0,6000}?(?:class=.trace-data|<title>android system trace|catapult trace|systrace)",
    ),
    Foreign("fuchsia", "a trace of Fuchsia", _TRACECONV, rb"\A\x10\0\x04FxT\x16\0"),
    Foreign(
        "etl",
        "a Windows event trace (ETL)",
        "samply can import it: samply import {file} --save-only -o {stem}.json.gz",
        rb"\A.{72}[\x01\x02]\0[\x01\x02]\xc0",
    ),
    Foreign(
        "instruments",
        "a part of a recording of Apple's Instruments",
        "record with samply instead: samply record --save-only -o {stem}.json.gz PROGRAM",
        rb"\Abplist00(?=.*(?:com\.apple\.xray|XRTrace|com\.apple\.dt\.instruments))",
    ),
    Foreign(
        "ctf",
        "a trace in the Common Trace Format (LTTng)",
        "`babeltrace2` prints the folder that it is in; no export of it can be read",
        rb"\A(?:/\* CTF 1\.|\xc1\x1f\xfc\xc1|\xc1\xfc\x1f\xc1|\x57\x1d\xd1\x75|\x75\xd1\x1d\x57)",
    ),
    # High-performance computing
    Foreign(
        "otf2",
        "a part of an OTF2 archive (Score-P, Vampir)",
        "Vampir and `otf2-print` show it; tracekit writes OTF2 and does not read it: give the profile it was made from",
        rb"\A\x03[BL](?:OTF2|\x01\0{8})",
    ),
    Foreign(
        "cube",
        "a profile of Score-P or Scalasca (CUBE)",
        "`cube_dump {file}` prints it; for GPU work: nsys profile -o run PROGRAM",
        rb"\Aanchor\.xml\0|\A\s*<\?xml[^>]*>\s*<cube ",
    ),
    Foreign(
        "tau",
        "a profile of TAU",
        "trace the program with TAU_TRACE=1, then: tau_treemerge.pl && "
        "tau_trace2json tau.trc tau.edf -chrome -ignoreatomic -o tau.json",
        rb"\A\d+ templated_functions",
    ),
    Foreign(
        "hpctoolkit",
        "measurements of HPCToolkit",
        "`hpcviewer` shows them; no export of them can be read; for GPU work: nsys profile -o run PROGRAM",
        rb"\A(?:HPCRUN-|HPCTOOLKIT|hpctrace|<\?xml[^>]*>\s*(?:<!DOCTYPE HPCToolkit|<HPCToolkit))",
    ),
    Foreign(
        "paraver",
        "a trace of Paraver (Extrae)",
        "no export of it can be read; for GPU work: nsys profile -o run PROGRAM",
        rb"\A#Paraver \(",
    ),
    Foreign(
        "vtune",
        "a result of Intel VTune",
        "export a table: vtune -report hotspots -format csv -r RESULT > run.csv; "
        "for the timeline of an Intel GPU: unitrace --chrome-kernel-logging PROGRAM writes JSON",
        rb"\A\s*<\?xml[^>]*>\s*<bag\b.{0,3000}?(?:vtune|amplxe|collector)",
        (".vtune", ".amplxe", ".tb6", ".tb7"),
    ),
    # Graphics and games
    Foreign(
        "tracy",
        "a recording of Tracy",
        "no export of it can be read: `tracy-csvexport {file}` prints sums of its zones",
        rb"\A(?:tlZ\x04|tZst|tr\xfdP)",
    ),
    Foreign(
        "renderdoc",
        "a capture of RenderDoc",
        "convert it (times of calls on the CPU): renderdoccmd convert -f {file} -o {stem}.json -c chrome.json",
        rb"\ARDOC",
    ),
    # No profiles
    Foreign(
        "html",
        "an HTML page",
        "give the trace that it was made from; `tracekit summary` reads only pages of tracekit",
        rb"(?i)\A\s*<(?:!doctype )?html",
    ),
    Foreign(
        "xlsx",
        "an Excel workbook",
        "save the sheet as CSV, and give that",
        rb"\APK\x03\x04.{26}(?:\[Content_Types\]\.xml|_rels/)(?=.*xl/)",
    ),
    Foreign("picture", "a picture", _SAVE_TEXT, rb"\A(?:\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP)"),
    Foreign("pdf", "a PDF document", _SAVE_TEXT, rb"\A%PDF-"),
    Foreign("zip", "a zip archive in which no file is a known profile", _SAVE_TEXT, rb"\APK\x03\x04"),
    Foreign("tar", "a tar archive", "unpack it first", rb"\A.{257}ustar"),
    Foreign("7z", "an archive of 7-Zip, xz or bzip2", "unpack it first", rb"\A(?:7z\xbc\xaf|\xfd7zXZ\0|BZh[1-9]1AY)"),
    Foreign(
        "program",
        "a program or a library, no profile",
        "profile it first: nsys profile -o run PROGRAM; tracekit summary run.nsys-rep",
        rb"\A(?:\x7fELF|MZ\x90\0|\xcf\xfa\xed\xfe|\xca\xfe\xba\xbe)",
    ),
)  # fmt: skip

_ORIGINAL = "read the file that it was made from; .parquet, .jsonl.gz and .pftrace are outputs that can be read again"
OWN: tuple[Foreign, ...] = (
    Foreign(
        "tracekit-csv",
        "a CSV that tracekit wrote: a table for other programs, without the facts of the run",
        _ORIGINAL,
        rb"(?:\xef\xbb\xbf)?(?:ts_ns,dur_ns,event_id,name,raw_name,kind,|source,rank,run,section,order,name,)",
    ),
)
"""Targets of `tracekit convert` that are not read back."""


FOREIGN: tuple[Foreign, ...] = (*OWN, *FRAMEWORKS, *TOOLS, *GENERAL)
"""In order: the first that fits is named."""
NO_PROFILES = frozenset({"html", "xlsx", "picture", "pdf", "zip", "tar", "7z", "program", "hdf5", "arrow", "pickle"})
"""Formats of files of all sorts: a folder is not named after them."""
_MSPROF = re.compile(r"(?:^|/)(?:PROF_[0-9]+_[0-9]{8,20}(?:_[A-Za-z0-9]+)?|[^/]+_ascend_(?:pt|ms))(?:/|$)", re.ASCII)
_RAW = "raw data of msprof (Ascend) that was not exported"


def foreign_format(head: Head) -> Foreign | None:
    """Return the format that a file without a reader has, None for one that is not in the list."""
    for each in FOREIGN:
        if each.fits(head):
            return each
    name = head.name.lower()
    if not _is_plain_text(head):
        return next((each for each in FOREIGN if each.suffixes and name.endswith(each.suffixes)), None)
    return None


def foreign_end(end: Head) -> Foreign | None:
    """Return the format that is printed at the end of a long text, None for one that is not in the list."""
    return next((each for each in FOREIGN if each.in_logs and each.fits(end)), None)


def foreign_folder(folder: str, heads: Sequence[tuple[str, Head]]) -> tuple[str, str] | None:
    """Return what a folder without a profile holds, and what to do; None where nothing is known of it.

    folder: as the user named it. heads: the names of files there, and their beginnings.
    """
    found = [(name, kind) for name, head in heads if (kind := foreign_format(head)) and kind.key not in NO_PROFILES]
    if any(_MSPROF.search(name) for name in (folder, *(name for name, _ in heads))):
        advice = "export it with `msprof --export=on`, then give the folder again: msprof_*.json in it is read"
        return _RAW, Foreign("", _RAW, advice).hint(folder)
    if not found:
        return None
    kinds = [kind for _, kind in found]
    most = max(dict.fromkeys(kinds), key=kinds.count)
    first = next(name for name, kind in found if kind is most)
    count = kinds.count(most)
    return f"{count} of {len(heads)} file{'' if len(heads) == 1 else 's'}: {most.title}", most.hint(first)


def _is_plain_text(head: Head) -> bool:
    """Return whether a head has text and no control characters: a binary format in name only."""
    return head.text and not re.search(rb"[\0-\x08\x0e-\x1a\x7f]", head.data[:4096])

"""Formats that tracekit does not read, of NVIDIA, AMD, samplers of the CPU, whole systems and HPC; and no profiles.

Sources: the formats' own documents and writers: tools/perf/util/header.c (PERFILE2), gperftools' profiledata.cc and
google/pprof's legacy_profile.go, TAU's TauCollate.cpp, HPCToolkit's fmt/ (hpcrun, meta.db, profile.db), OTF2 (written
here), memray's records.h, austin's mojo.h, TensorBoard's record_writer and event.proto, trace-cmd.dat(5), valgrind's
manual (callgrind, massif), the Java Flight Recorder ("FLR\\0"), V8's heap snapshot and CPU profile, Tracy's
TracyFileHeader.hpp, RenderDoc's serialiser ("RDOC"), ntwmi.h (SYSTEM_TRACE_HEADER of an ETL file), the Fuchsia trace
format, CTF 1.8, Paraver's trace format, roctracer's tool and generateCSV.cpp of rocprofiler-sdk.
"""

from __future__ import annotations

from tracekit.readers.foreign.form import Foreign

_FOLD = "fold its stacks: "
_PPROF = "convert it: pprof -proto -output={stem}.pb.gz PROGRAM {file}"
_NO_GPU = "it has no GPU work; "
_TRACECONV = "convert it with Perfetto's traceconv: traceconv json {file} {stem}.json"
_PY_SPY = "record with py-spy instead: py-spy record -f raw -o {stem}.folded -- python PROGRAM"
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
        "if Nsight Systems exported it, give the report (.nsys-rep) that it was made from",
        rb"\A\x89HDF\r\n\x1a\n",
    ),
    Foreign(
        "arrow",
        "an Arrow file",
        "if Nsight Systems exported it, give the report (.nsys-rep) that it was made from",
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
        "a pickle of Python that is no snapshot of PyTorch's memory",
        "export the profile as text or JSON from the program that wrote it: pickles can run code and are not opened",
        rb"\A\x80[\x02-\x05](?:\x95.{8})?[\x8c}\]cX(K\x94]",
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
        "no export of it can be read; for Intel GPUs: unitrace --chrome-kernel-logging PROGRAM writes JSON",
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

"""Formats of PyTorch, TensorFlow, TensorRT, Triton, DeepSpeed, Ascend and DLProf that tracekit does not read.

Sources: torch/csrc/profiler/standalone/execution_trace_observer.cpp, et_def.proto and protolib.py of MLCommons'
Chakra, torch/csrc/distributed/c10d/FlightRecorder.hpp, sampleReporting.cpp of TensorRT's trtexec, hatchet's literal
form as Triton's Proton writes it, DeepSpeed's flops_profiler/profiler.py, op_profile.proto of XProf, the manuals of
msprof and of torch_npu's profiler (names of files, columns and tables), the manual of DLProf.
"""

from __future__ import annotations

from tracekit.readers.foreign.form import Foreign

_KINETO = "record the same steps with torch.profiler, and give what prof.export_chrome_trace({stem}.json) writes"
_CELL = rb'"?[,;\t]"?'
_VARINT = rb"(?:[\x80-\xff]{0,4}[\x00-\x7f])"

FRAMEWORKS: tuple[Foreign, ...] = (
    Foreign(
        "torch-execution-trace",
        "an execution trace of PyTorch (ET, Chakra): operators and their inputs, no times of the GPU",
        _KINETO,
        rb'\A\s*\{(?=.*?"nodes"\s*:\s*\[)(?=.*?"schema"\s*:\s*"\d+\.\d+|.*?"ctrl_deps"\s*:)'
        rb'(?=.*?"(?:ctrl_deps|rf_id|fw_parent|op_schema)"\s*[:,])',
    ),
    Foreign(
        "chakra",
        "an execution trace of Chakra in its protobuf: operators and what they depend on, no timeline",
        "give the Kineto trace that it was made from: prof.export_chrome_trace({stem}.json) writes one",
        # A message of metadata with a version, then the first node: its id, its name.
        rb"\A(?:[\x07-\x7f]|[\x80-\xff]{1,2}[\x01-\x7f])\x0a[\x05-\x0f]\d{1,3}\.\d{1,3}\.\d{1,3}(?:[-.+a-z0-9]{0,20})"
        rb"(?:\Z|" + _VARINT + rb"(?:\x08" + _VARINT + rb")?\x12[\x01-\x7f][\x20-\x7e]|\x12)",
        (".et",),
    ),
    Foreign(
        "flight-recorder",
        "a dump of PyTorch's Flight Recorder: the last collectives of a rank, no timeline",
        "`torchfrtrace FOLDER` finds the rank that hangs; for times " + _KINETO,
        rb"\A(?:\x80[\x02-\x05](?:\x95.{8})?[}\](](?:(?=.*?pg_config)(?=.*?(?:pg_status|ranks|profiling_name))"
        rb"|(?=.*?profiling_name)(?=.*?seq_id)(?=.*?time_created_))"
        rb'|\s*[\[{](?!.*?"(?:traceEvents|schemaVersion|distributedInfo)")(?:(?=.*?"pg_config"\s*:)(?=.*?"(?:pg_status|ranks|profiling_name)"\s*:)'
        rb'|(?=.*?"profiling_name"\s*:)(?=.*?"(?:collective_)?seq_id"\s*:)(?=.*?"time_created_[nu]s"\s*:)))',
    ),
    Foreign(
        "tensorrt-times",
        "times or layers that TensorRT's trtexec wrote: no timeline",
        "trace the run instead: nsys profile -o run trtexec ...; tracekit summary run.nsys-rep",
        rb'\A\s*(?:\[\s*\{\s*"count"\s*:\s*\d+\s*\}\s*,\s*\{(?=.*?"(?:averageMs|timeMs)"\s*:)'
        rb'|\[\s*\{(?=.{0,2000}?"startComputeMs"\s*:)(?=.{0,2000}?"endComputeMs"\s*:)'
        rb'|\{\s*"Layers"\s*:\s*\[\s*(?:\{(?=.*?"LayerType"\s*:)|"(?=.*?"Bindings"\s*:\s*\[)))',
    ),
    Foreign(
        "proton",
        "a profile of Triton's Proton: sums of kernels, no timeline",
        'record the timeline instead: proton.start("NAME", data="trace") writes a Chrome trace',
        rb'\A\s*\[\s*\{(?=.*?"frame"\s*:\s*\{)(?=.*?"metrics"\s*:\s*\{)'
        rb'(?=.*?"(?:time \(ns\)|device_type|device_id|num_sms|flops(?:8|16|32|64)|cycles)"\s*:)',
    ),
    Foreign(
        "deepspeed-flops",
        "a table of DeepSpeed's flops profiler: parameters and operations of modules, no kernels",
        _KINETO,
        rb"(?:\A|.*?[^-])-{10,60} ?DeepSpeed Flops Profiler ?-{10,60}",
        in_logs=True,
    ),
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
        "a table of Ascend's profiler (msprof, torch_npu)",
        "give the timeline beside it, trace_view.json or msprof_*.json: `msprof --export=on` writes it",
        rb'\A(?:\xef\xbb\xbf)?"?(?:Step Id' + _CELL + rb')?(?:'
        rb"Device_id" + _CELL + rb"(?:Model (?:ID|Name)|OP Type|Level|kernel_name|Step|event|Name|Task ID|Mode|"
        rb"Timestamp)\b[^\n]{0,8000}?(?:(?:[Tt]ime|[Dd]uration|Avg|start|stop|stamp)\(us\)"
        rb"|Communication\(Not Overlapped\))"
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

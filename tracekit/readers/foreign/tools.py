"""Formats of profilers of programs that tracekit does not read, where their tools can write another that it reads.

Sources: unitrace of intel/pti-gpu (its printed summaries), the manual of VTune's command line, Scalene's
scalene_json.py, pyinstrument's JSON renderer, gprof's manual and gmon_out.h, csvexport.cpp of Tracy, Go's
runtime/trace.
"""

from __future__ import annotations

from tracekit.readers.foreign.form import Foreign

_PY_SPY = "record with py-spy instead: py-spy record -f raw -o {stem}.folded -- python PROGRAM"
_CELL = rb'"?[,;\t|]"?'

TOOLS: tuple[Foreign, ...] = (
    Foreign(
        "unitrace",
        "tables of Intel's unitrace: sums of kernels and calls, no timeline",
        "record the timeline: unitrace --chrome-kernel-logging --chrome-call-logging PROGRAM writes JSON",
        rb"(?:\A|.*?\n)[ \t]{0,20}=== (?:(?:API|Device|CCL|Kernel Submission|OpenCL|Level Zero)[^=\n]{0,40} Summary"
        rb"|Device #\d+ Metrics) ===\s"
        rb"(?=.*?(?:Total (?:Execution|Device|API) Time|Time \(ns\)|GlobalInstanceId|IP\[Address\]))",
        in_logs=True,
    ),
    Foreign(
        "vtune-csv",
        "a table that Intel VTune printed: sums, no timeline",
        "for the timeline of an Intel GPU: unitrace --chrome-kernel-logging PROGRAM writes JSON",
        rb"\A(?:\xef\xbb\xbf)?(?:Hierarchy Level" + _CELL + rb"Metric Name" + _CELL + rb"Metric Value"
        rb"|[^\n]{1,4000}?[,;\t|]\"?(?:CPU Time:(?:Effective|Spin|Overhead|Self|Total|Idle)|Computing Task:(?:Total|"
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
        rb'\A(?:\xef\xbb\xbf)?"?name' + _CELL + rb"src_file" + _CELL + rb"(?:src_line" + _CELL
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

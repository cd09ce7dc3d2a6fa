"""Write the samples of AMD's other formats: the run of rocpd/4242_results.db again. Nothing in them was measured.

    python sample_traces/_rocm.py [FOLDER]

Tables and columns are those of tblextr.py and sqlitedb.py (rocprof), file.cpp (rocprofv2), tableSchema.cmd
(rocmProfileData) and generateJSON.cpp (rocprofv3). Another release of SQLite writes other bytes of the same rows.
"""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Row = dict[str, Any]
EVENT = "join rocpd_event e on e.id = r.event_id"
COUNTERS = ("SQ_WAVES", "FETCH_SIZE")
BEFORE, AFTER = 900, 300
"""ns from the dispatch to the kernel's begin, and from its end to completion."""


class Source:
    """The run of rocprofv3's database."""

    def __init__(self, database: Path) -> None:
        with closing(sqlite3.connect(database)) as db:
            db.row_factory = sqlite3.Row

            def rows(query: str) -> list[Row]:
                return [dict(row) for row in db.execute(query)]

            self.calls = rows(
                "select c.string category, n.string name, json_extract(e.extdata, '$.message') message, r.pid, r.tid, "
                f"stack_id id, start, end from rocpd_region r {EVENT} join rocpd_string n on n.id = name_id "
                "join rocpd_string c on c.id = category_id order by start"
            )
            self.marks = rows(
                "select json_extract(e.extdata, '$.message') message, t.pid, t.tid, stack_id id, timestamp start "
                f"from rocpd_sample r {EVENT} join rocpd_track t on t.id = track_id where e.extdata like '%message%'"
            )
            self.copies = rows(
                "select r.*, n.string name, stack_id corr, src_agent_id src, dst_agent_id dst "
                f"from rocpd_memory_copy r {EVENT} join rocpd_string n on n.id = name_id order by start"
            )
            self.kernels = rows(
                "select r.*, s.*, r.group_segment_size used, s.group_segment_size static, stack_id corr, "
                f"r.event_id event from rocpd_kernel_dispatch r {EVENT} "
                "join rocpd_info_kernel_symbol s on s.id = kernel_id order by start"
            )
            self.memory = rows(f"select r.*, stack_id corr from rocpd_memory_allocate r {EVENT} order by start")
            self.values = rows(
                "select p.event_id, p.value, p.pmc_id, i.name from rocpd_pmc_event p "
                "join rocpd_info_pmc i on i.id = pmc_id"
            )
            self.agents = rows("select * from rocpd_info_agent")
            self.symbols = rows("select * from rocpd_info_kernel_symbol")
        self.hip = [call for call in self.calls if call["category"].startswith("HIP")]
        self.hsa = [call for call in self.calls if call["category"].startswith("HSA")]
        self.ranges = [call for call in self.calls if call["message"]]

    def counters(self, kernel: Row) -> dict[str, float]:
        """Return the counters of a launch, their instances added up."""
        mine = [value for value in self.values if value["event_id"] == kernel["event"]]
        return {name: sum(v["value"] for v in mine if v["name"] == name) for name in COUNTERS}

    def arguments(self, call: Row) -> str:
        """Return the arguments of a call as rocprof writes them."""
        for copy in self.copies:
            if copy["corr"] == call["id"]:
                kind = {(0, 1): 1, (1, 0): 2}.get((min(copy["src"], 1), min(copy["dst"], 1)), 3)
                return f"( dst(0x7f0000000000) src(0x7fff0000) sizeBytes({copy['size']}) kind({kind}) stream(1))"
        for kernel in self.kernels:
            if kernel["corr"] == call["id"]:
                return f"( kernel({kernel['display_name']}) function_address(0x41) sharedMemBytes(0) stream(1))"
        return "( ))"


def create(db: sqlite3.Connection, table: str, columns: str, rows: Iterable[Sequence[object]]) -> None:
    """Create a table of rocprof with typed columns, and add its rows."""
    names = columns.split(",")
    texts = {"Name", "args", "Data", "KernelName", "roctx-range"}
    types = ", ".join(f'"{name}" {"TEXT" if name in texts else "INTEGER"}' for name in names)
    db.execute(f"create table {table} ({types})")
    db.executemany(f"insert into {table} values ({', '.join('?' * len(names))})", rows)


def rocprof_traces(source: Source, path: Path, *, old: bool) -> None:
    """Write results.db of `rocprof --hip-trace --hsa-trace --roctx-trace`, of ROCm 4 or 6."""
    with closing(new(path)) as db:
        section = "" if old else ",__section,__lane"
        copied = {copy["corr"] for copy in source.copies}

        def row(first: Sequence[object], lane: int, number: int) -> tuple[object, ...]:
            return tuple(first) if old else (*first, number, lane)

        def pid(call: Row, number: int) -> object:
            return number if old else call["pid"]

        for table, calls, number in (("HSA", source.hsa, 3), ("HIP", source.hip, 2)):
            create(
                db, table, f"BeginNs,EndNs,pid,tid,Name,args,Index,Data{section},DurationNs",
                [
                    (*row((c["start"], c["end"], pid(c, number), c["tid"], c["name"], source.arguments(c), c["id"], ""),
                          c["tid"], number), c["end"] - c["start"])
                    for c in calls
                ],
            )  # fmt: skip
        words = {"HOST": "Host", "DEVICE": "Device"}
        work = []
        for each in [*source.kernels, *source.copies]:
            is_copy = "src" in each
            if is_copy:
                parts = each["name"].removeprefix("MEMORY_COPY_").split("_TO_")
                name = "Copy" + "To".join(words[part] for part in parts)
            else:
                name = each["display_name"]
            device = (each["dst"] or each["src"]) - 1 if is_copy else each["agent_id"] - 1
            span = (each["start"], each["end"], device, 0, name)
            lane = 1 if is_copy else 6 + device
            if old:
                cells: tuple[object, ...] = (*span, lane, each["stream_id"], each["corr"], each["pid"], "")
            else:
                cells = (
                    *span,
                    each["pid"],
                    each["tid"],
                    "",
                    each["stream_id"],
                    each["corr"],
                    "",
                    lane,
                    each["stream_id"],
                )
            work.append((is_copy, (*cells, each["end"] - each["start"])))
        columns = "BeginNs,EndNs,dev-id,queue-id,Name,pid,tid,"
        columns += "Index,proc-id,Data" if old else f"roctx-range,stream-id,Index,Data{section}"
        create(db, "OPS", f"{columns},DurationNs", [cells for is_copy, cells in work if not is_copy])
        create(db, "COPY", f"{columns},DurationNs", [cells for is_copy, cells in work if is_copy])
        marks = [mark | {"end": mark["start"] + 1} for mark in source.marks]
        said = [
            row((c["start"], c["end"], pid(c, 0), c["tid"], f'"{c["message"]}"', at), c["tid"], 0)
            for at, c in enumerate([*source.ranges, *marks])
        ]
        create(db, "rocTX", f"BeginNs,EndNs,pid,tid,Name,Index{section}", said)
        create(db, "A" if old else "KERN", "Index,KernelName", [])
        assert copied


def kernel_rows(source: Source, counters: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the rows of KERN and results.csv."""
    return [
        (
            at, f'"{k["display_name"]} [clone .kd]"', k["agent_id"], k["queue_id"] - 1, at, k["pid"], k["tid"],
            k["grid_size_x"] * k["grid_size_y"], k["workgroup_size_x"] * k["workgroup_size_y"], k["used"], 0,
            k["arch_vgpr_count"], k["accum_vgpr_count"], k["sgpr_count"], 64, "0x0", "0x7f00",
            *(source.counters(k)[name] for name in counters),
            k["start"] - BEFORE, k["start"], k["end"], k["end"] + AFTER, k["end"] - k["start"],
        )
        for at, k in enumerate(source.kernels)
    ]  # fmt: skip


KERN = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj"
)
TIMES = "DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs"


def rocprof_kernels(source: Source, path: Path) -> None:
    """Write results.db of `rocprof -i counters.txt --timestamp on`."""
    with closing(new(path)) as db:
        create(db, "KERN", f"{KERN},{','.join(COUNTERS)},{TIMES}", kernel_rows(source, COUNTERS))


def new(path: Path) -> sqlite3.Connection:
    """Return a new database with small pages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript("pragma page_size = 512; pragma journal_mode = off;")
    return db


# rocmProfileData

RPD = {
    "metadata": "tag,value", "string": "string", "ustring": "string",
    "copyapi": "api_ptr_id,stream,size,width,height,kind",
    "api": "pid,tid,start,end,apiName_id,category_id,domain_id,args_id", "api_ops": "api_id,op_id",
    "op": "gpuId,queueId,sequenceId,start,end,description_id,opType_id", "counter": "value,op_id,name_id",
    "kernelapi": "api_ptr_id,stream,gridX,gridY,gridZ,workgroupX,workgroupY,workgroupZ,groupSegmentSize,"
    "privateSegmentSize,kernelName_id",
    "monitor": "deviceType,deviceId,monitorType,start,end,value",
}  # fmt: skip


TEXTS = {"string", "tag", "value", "deviceType", "monitorType", "stream"}


class Rpd:
    """A database of rocmProfileData, schema version 2 or 3."""

    def __init__(self, db: sqlite3.Connection, version: int) -> None:
        self.db, self.version = db, version
        self.texts: dict[tuple[str, str], int] = {}
        for name, columns in RPD.items():
            if version == 2 and name in ("ustring", "counter"):
                continue
            own = "" if name in ("copyapi", "kernelapi") else '"id" integer not null primary key autoincrement, '
            cells = [c for c in columns.split(",") if version == 3 or c not in ("category_id", "domain_id")]
            types = ", ".join(
                f'"{c}" {"varchar(255)" if c in TEXTS and name != "counter" else "integer"}' for c in cells
            )
            db.execute(f'create table "rocpd_{name}" ({own}{types})')
        self.add("metadata", tag="schema_version", value=str(version))
        self.text("")

    def add(self, table: str, /, **cells: object) -> int:
        """Add a row; return its number."""
        names = ", ".join(f'"{c}"' for c in cells)
        query = f'insert into "rocpd_{table}" ({names}) values ({", ".join("?" * len(cells))})'
        return self.db.execute(query, tuple(cells.values())).lastrowid or 0

    def text(self, text: str, table: str = "string") -> int:
        """Return the number of a text."""
        key = (table, text)
        if key not in self.texts:
            self.texts[key] = self.add(table, string=text)
        return self.texts[key]

    def call(self, call: Row, name: str, said: str, domain: str) -> int:
        """Add a call; return its number."""
        cells: Row = {key: call[key] for key in ("pid", "tid", "start", "end")}
        cells |= {
            "apiName_id": self.text(name),
            "args_id": self.text(said, "ustring" if self.version == 3 else "string"),
        }
        if self.version == 3:
            cells |= {"category_id": self.text(""), "domain_id": self.text(domain)}
        return self.add("api", id=call["id"] + (1 << 32), **cells)

    def op(self, work: Row, device: int, name: str, kind: str, sequence: int) -> int:
        """Add work, and its join with the call."""
        number = self.add(
            "op", gpuId=device, queueId=work["stream_id"], sequenceId=sequence, start=work["start"], end=work["end"],
            description_id=self.text(name), opType_id=self.text(kind),
        )  # fmt: skip
        self.add("api_ops", api_id=work["corr"] + (1 << 32), op_id=number)
        return number


def rpd(source: Source, path: Path, version: int) -> None:
    """Write a database of roctracer's time (2), or of rocprofiler-sdk (3), which counts grids in work items."""
    with closing(new(path)) as db:
        out = Rpd(db, version)
        for call in [*source.hip, *source.hsa]:
            said = "ptr=0x7f0000000000 | size=0x400000" if call["name"] == "hipMalloc" else ""
            out.call(call, call["name"], said, "hip" if call in source.hip else "hsa")
        for call in [*source.ranges, *(mark | {"end": mark["start"]} for mark in source.marks)]:
            name, said = ("UserMarker", call["message"]) if version == 2 else (call["message"], "")
            out.call(call | {"id": call["id"] + (1 << 31)}, name, said, "roctx")
        start, end = source.calls[0]["start"], source.calls[-1]["end"]
        if version == 2:  # its work was not delivered; its one block shows what grids count
            lost = {"pid": 4242, "tid": 4243, "start": end, "end": end + 900, "id": 90}
            out.call(lost, "hipLaunchKernel", "", "hip")
            shape = {f"{what}{axis}": 1 for what in ("grid", "workgroup") for axis in "XYZ"} | {"workgroupX": 64}
            more = {"groupSegmentSize": 0, "privateSegmentSize": 0, "kernelName_id": out.text("tiny(int)")}
            out.add("kernelapi", api_ptr_id=90 + (1 << 32), stream="0x0", **shape, **more)
        overhead = {"pid": 4242, "tid": 4250, "start": start, "end": end, "id": 1 << 30}
        out.call(overhead, "OpTable::writeRows", "count=15 | remaining=0", "")
        for each in source.kernels:
            number = out.op(each, each["agent_id"] - 1, each["display_name"], "KernelExecution", 0)
            axes = {
                f"{to}{axis.upper()}": each[f"{what}_{axis}"]
                for axis in "xyz" for to, what in (("grid", "grid_size"), ("workgroup", "workgroup_size"))
            }  # fmt: skip
            if version == 2:
                axes |= {f"grid{axis}": axes[f"grid{axis}"] // axes[f"workgroup{axis}"] for axis in "XYZ"}
            out.add(
                "kernelapi", api_ptr_id=each["corr"] + (1 << 32), stream="0x0", **axes,
                groupSegmentSize=each["used"] - each["static"] if version == 2 else each["used"],
                privateSegmentSize=0, kernelName_id=out.text(each["display_name"]),
            )  # fmt: skip
            for name, value in source.counters(each).items() if version == 3 else ():
                out.add("counter", value=value, op_id=number, name_id=out.text(name))
        for each in source.copies:
            parts = each["name"].removeprefix("MEMORY_COPY_").split("_TO_")
            kind = each["name"] if version == 3 else "Copy" + "To".join(part.title() for part in parts)
            out.op(each, (each["dst"] or each["src"]) - 1, "", kind, 0)
            size: Row = {"size": each["size"], "width": "", "height": ""}
            if each is source.copies[-1]:
                size = {"size": "", "width": each["size"] // 512, "height": 512}
            out.add("copyapi", api_ptr_id=each["corr"] + (1 << 32), stream="0x0", kind=1, **size)
        for device in (0, 1):
            for at, value in enumerate(("134", "2100")):
                span = {"start": start + 1000 * at, "end": start + 1000 * (at + 1)}
                out.add("monitor", deviceType="gpu", deviceId=device, monitorType="sclk", **span, value=value)


# rocprofv2 and CSV of rocprof


def tables(source: Source, folder: Path) -> None:
    """Write the tables of rocprofv2, results.csv without times, and samples of instructions."""
    folder.mkdir(parents=True, exist_ok=True)
    names = (
        "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    )
    names += "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,XCC_Index," + ",".join(
        COUNTERS
    )
    lines = [names, ""]
    for at, k in enumerate(source.kernels):
        for die in (0, 1):
            values = ",".join(f"{value / 2:.6f}" for value in source.counters(k).values())
            cells = (
                at, k["agent_id"], k["queue_id"], k["pid"], k["tid"], k["grid_size_x"] * k["grid_size_y"],
                k["workgroup_size_x"] * k["workgroup_size_y"], k["used"], 0, k["arch_vgpr_count"],
                k["accum_vgpr_count"], k["sgpr_count"], 64, f'"{k["display_name"]}"', k["start"], k["end"], k["corr"],
                die,
            )  # fmt: skip
            lines.append(",".join(map(str, cells)) + "," + values)
    (folder / "results_4242.csv").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    lines = ["Domain,Function,Start_Timestamp,End_Timestamp,Correlation_ID", ""]
    lines += [f'HIP_API_DOMAIN,"{c["name"]}",{c["start"]},{c["end"]},{c["id"]}' for c in source.hip]
    (folder / "hip_api_trace_4242.csv").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    lines = ["Domain,Operation,Kernel_Name,Start_Timestamp,Stop_Timestamp,Correlation_ID", ""]
    for each in sorted([*source.kernels, *source.copies], key=lambda row: row["start"]):
        name = f'"{each["display_name"]}"' if "display_name" in each else ""
        kind = "KernelDispatch" if name else "CopyHostToDevice" if each["src"] == 0 else "CopyDeviceToHost"
        lines.append(f'HIP_OPS_DOMAIN,"{kind}",{name},{each["start"]},{each["end"]},{each["corr"]}')
    (folder / "hcc_ops_trace_4242.csv").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    lines = ["Domain,ROCTX_ID,Message,Timestamp", ""]
    lines += [f'ROCTX_DOMAIN,0,"{c["message"]}",{c["start"]}\nROCTX_DOMAIN,0,,{c["end"]}' for c in source.ranges]
    (folder / "roctx_trace_4242.csv").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    with (folder / "counters.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONE, quotechar=None, escapechar="\\", lineterminator="\n")
        writer.writerow([*KERN.split(","), *COUNTERS])
        rows = ((*row[:17], f"{row[17]:.0f}", f"{row[18]:.10f}") for row in kernel_rows(source, COUNTERS))
        file.writelines(",".join(map(str, row)) + "\n" for row in rows)
    lines = ['"Sample_Timestamp","Exec_Mask","Dispatch_Id","Instruction","Instruction_Comment","Correlation_Id"']
    for at in range(20):
        instruction = ("v_fma_f32 v1, v2, v3, v1", "s_waitcnt vmcnt(0)", "s_endpgm")[at * at % 3]
        place = "/home/user/project/gemm.hip:12" if at % 5 else ""
        lines.append(f'{source.kernels[0]["start"] + 100 * at},65535,1,"{instruction}","{place}",7')
    (folder / "pc_sampling_host_trap.csv").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")


# rocprofv3's JSON

KINDS = (
    ("NONE", ()), ("HSA_CORE_API", ("hsa_signal_create",)),
    ("HIP_RUNTIME_API_EXT", ("hipMalloc", "hipFree", "hipMemcpyAsync", "hipLaunchKernel")),
    ("HIP_COMPILER_API_EXT", ("__hipRegisterFatBinary",)), ("MARKER_CORE_RANGE_API", ("roctxThreadRangeA",)),
    ("MARKER_CORE_API", ("roctxMarkA",)), ("RCCL_API", ("ncclAllReduce",)),
    ("MEMORY_COPY", ("MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST",
                     "MEMORY_COPY_DEVICE_TO_DEVICE")),
    ("MEMORY_ALLOCATION", ("MEMORY_ALLOCATION_NONE", "MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE")),
    ("SCRATCH_MEMORY", ("SCRATCH_MEMORY_NONE", "SCRATCH_MEMORY_ALLOC")), ("KERNEL_DISPATCH", ("NONE", "COMPLETE")),
)  # fmt: skip


def record(kind: str, operation: str, row: Row, **more: object) -> Row:
    """Return a record of buffer_records."""
    at, names = next((at, names) for at, (name, names) in enumerate(KINDS) if name == kind)
    ids = {"internal": row.get("corr", row["id"]), "external": 0, "ancestor": 0}
    span = {"start_timestamp": row["start"], "end_timestamp": row.get("end", row["start"])}
    own = {"size": 72, "kind": at, "operation": names.index(operation), "thread_id": row["tid"], "correlation_id": ids}
    return {**own, **span, **more}


def handle(number: int) -> Row:
    """Return a number as rocprofiler-sdk writes handles."""
    return {"handle": number}


def agent(number: int) -> Row:
    """Return the handle of an agent."""
    return handle(7000 + number)


def dispatch(kernel: Row) -> Row:
    """Return the launch of a kernel."""
    sizes = {
        key: {axis: kernel[f"{key}_{axis}"] for axis in "xyz"} for key in ("workgroup_size", "grid_size")
    }  # fmt: skip
    return {
        "size": 80, "agent_id": agent(kernel["agent_id"]), "queue_id": handle(kernel["queue_id"]),
        "kernel_id": kernel["kernel_id"], "dispatch_id": kernel["dispatch_id"], "private_segment_size": 0,
        "group_segment_size": kernel["used"], **sizes,
    }  # fmt: skip


def rocprofv3_json(source: Source, path: Path) -> None:
    """Write *_results.json."""
    path.parent.mkdir(parents=True, exist_ok=True)
    by_kind: dict[str, list[Row]] = {"hip_api": [], "hsa_api": [], "marker_api": [], "rccl_api": []}
    for call in source.calls:
        key = next(name for name in by_kind if name.startswith(call["category"].split("_")[0].lower()))
        by_kind[key].append(record(call["category"], call["name"], call))
    by_kind["marker_api"] += [record("MARKER_CORE_API", "roctxMarkA", mark) for mark in source.marks]
    stream = {"stream_id": handle(1)}
    memory, scratch = [], []
    for each in source.memory:
        if each["level"] == "SCRATCH":
            scratch.append(record("SCRATCH_MEMORY", "SCRATCH_MEMORY_ALLOC", each, agent_id=agent(each["agent_id"])))
            continue
        name = f"MEMORY_ALLOCATION_{each['type'].replace('ALLOC', 'ALLOCATE')}"
        more = {"agent_id": agent(each["agent_id"]), "address": hex(each["address"]), "allocation_size": each["size"]}
        memory.append(record("MEMORY_ALLOCATION", name, each, **more))
    counters = [(30 + at, name) for at, name in enumerate(COUNTERS)]
    instances = {
        kernel["event"]: [
            {"counter_id": handle(number), "value": v["value"]}
            for number, name in counters
            for v in source.values
            if v["event_id"] == kernel["event"] and v["name"] == name
        ]
        for kernel in source.kernels
    }
    process = {
        "metadata": {
            "node": {"id": 77, "hostname": "mi300"}, "pid": 4242, "init_time": source.calls[0]["start"] - 1000,
            "fini_time": source.calls[-1]["end"] + 1000, "command": ["./multiply", "--rank", "0"],
        },
        "agents": [
            {
                "size": 300, "id": agent(each["absolute_index"]), "type": 2 if each["type"] == "GPU" else 1,
                "node_id": each["absolute_index"], "logical_node_id": each["logical_index"],
                "logical_node_type_id": each["type_index"], "name": each["name"], "product_name": each["product_name"],
            }
            for each in source.agents
        ],
        "counters": [{"agent_id": agent(1), "id": handle(n), "name": name, "is_derived": 0} for n, name in counters],
        "strings": {
            "callback_records": [],
            "buffer_records": [{"kind": name, "operations": names} for name, names in KINDS],
            "marker_api": [{"key": c["id"], "value": c["message"]} for c in [*source.ranges, *source.marks]],
            "correlation_id": {"external": []},
        },
        "code_objects": [],
        "kernel_symbols": [
            {
                "size": 96, "kernel_id": s["id"], "code_object_id": 1, "kernel_name": s["kernel_name"],
                "group_segment_size": s["group_segment_size"], "sgpr_count": s["sgpr_count"],
                "arch_vgpr_count": s["arch_vgpr_count"], "accum_vgpr_count": s["accum_vgpr_count"],
                "formatted_kernel_name": s["display_name"], "demangled_kernel_name": s["display_name"],
            }
            for s in source.symbols
        ],
        "host_functions": [],
        "summary": [{"domain": "KERNEL_DISPATCH", "stats": {"count": len(source.kernels)}}],
        "callback_records": {
            "counter_collection": [
                {
                    "thread_id": k["tid"], "dispatch_data": {"dispatch_info": dispatch(k)},
                    "records": instances[k["event"]],
                }
                for k in source.kernels
            ],
        },
        "buffer_records": {
            "kernel_dispatch": [
                record("KERNEL_DISPATCH", "COMPLETE", k, dispatch_info=dispatch(k), **stream) for k in source.kernels
            ],
            **by_kind,
            "memory_copy": [
                record(
                    "MEMORY_COPY", c["name"], c, dst_agent_id=agent(c["dst"]), src_agent_id=agent(c["src"]),
                    bytes=c["size"], **stream,
                )
                for c in source.copies
            ],
            "memory_allocation": memory,
            "scratch_memory": scratch,
            "pc_sample_host_trap": [],
        },
    }  # fmt: skip
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}) + "\n", encoding="utf-8", newline="")


def main(target: Path) -> None:
    """Write the files."""
    source = Source((target if (target / "rocpd").exists() else HERE) / "rocpd" / "4242_results.db")
    rocprof_traces(source, target / "rocprof-db" / "results.db", old=False)
    rocprof_traces(source, target / "rocprof-db" / "rocm-4.db", old=True)
    rocprof_kernels(source, target / "rocprof-db" / "kernels.db")
    rpd(source, target / "rpd" / "trace.rpd", 2)
    rpd(source, target / "rpd" / "version-3.rpd", 3)
    tables(source, target / "rocprof-csv")
    rocprofv3_json(source, target / "rocprof-json" / "4242_results.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

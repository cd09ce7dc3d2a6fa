"""Write the samples of AMD's profilers. Nothing in them was measured.

    python sample_traces/_amd.py [FOLDER]

A program multiplies and adds on two GPUs. Tables and columns are those of rocprofv3 (rocpd_tables.sql); another release
of SQLite writes other bytes of the same rows.
"""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
BOOT_NS = 7_200_000_000_000
GEMM = ("gemm_f32(float const*, float const*, float*, int)", "_Z8gemm_f32PKfS0_Pfi.kd", 48, 2048)
ADD = ("add_f32(float*, float const*, int)", "_Z7add_f32PfPKfi.kd", 16, 0)

ID = '"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "guid" TEXT NOT NULL'
WHERE = '"nid" INTEGER NOT NULL, "pid" INTEGER NOT NULL, "tid" INTEGER'
SPAN = '"start" BIGINT NOT NULL, "end" BIGINT NOT NULL'
EXTRA = """ "extdata" JSONB DEFAULT '{}' NOT NULL"""
TABLES = {
    "metadata": '"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "tag" TEXT NOT NULL, "value" TEXT NOT NULL',
    "string": f'{ID}, "string" TEXT NOT NULL UNIQUE ON CONFLICT ABORT',
    "info_node": f'{ID}, "hash" BIGINT NOT NULL, "machine_id" TEXT NOT NULL, "hostname" TEXT',
    "info_process": f'{ID}, "nid" INTEGER, "ppid" INTEGER, "pid" INTEGER, "init" BIGINT, "fini" BIGINT, '
    f'"command" TEXT, "environment" JSONB, {EXTRA}',
    "info_thread": f'{ID}, "nid" INTEGER, "pid" INTEGER, "tid" INTEGER, "name" TEXT',
    "info_agent": f'{ID}, "nid" INTEGER, "pid" INTEGER, "type" TEXT, "absolute_index" INTEGER, '
    '"logical_index" INTEGER, "type_index" INTEGER, "name" TEXT, "product_name" TEXT',
    "info_queue": f'{ID}, "nid" INTEGER, "pid" INTEGER, "name" TEXT',
    "info_stream": f'{ID}, "nid" INTEGER, "pid" INTEGER, "name" TEXT',
    "info_pmc": f'{ID}, "nid" INTEGER, "pid" INTEGER, "agent_id" INTEGER, "name" TEXT NOT NULL, "description" TEXT',
    "info_code_object": f'{ID}, "nid" INTEGER, "pid" INTEGER, "agent_id" INTEGER, "uri" TEXT',
    "info_kernel_symbol": f'{ID}, "nid" INTEGER, "pid" INTEGER, "code_object_id" INTEGER, "kernel_name" TEXT, '
    '"display_name" TEXT, "group_segment_size" INTEGER, "private_segment_size" INTEGER, "sgpr_count" INTEGER, '
    '"arch_vgpr_count" INTEGER, "accum_vgpr_count" INTEGER',
    "track": f'{ID}, "nid" INTEGER, "pid" INTEGER, "tid" INTEGER, "name_id" INTEGER, {EXTRA}',
    "event": f'{ID}, "category_id" INTEGER, "stack_id" INTEGER, "parent_stack_id" INTEGER, "correlation_id" INTEGER, '
    f'"call_stack" JSONB, "line_info" JSONB, {EXTRA}',
    "arg": f'{ID}, "event_id" INTEGER, "position" INTEGER, "type" TEXT, "name" TEXT, "value" TEXT, {EXTRA}',
    "pmc_event": f'{ID}, "event_id" INTEGER, "pmc_id" INTEGER NOT NULL, "value" REAL DEFAULT 0.0, {EXTRA}',
    "region": f'{ID}, {WHERE}, {SPAN}, "name_id" INTEGER NOT NULL, "event_id" INTEGER, {EXTRA}',
    "sample": f'{ID}, "track_id" INTEGER NOT NULL, "timestamp" BIGINT NOT NULL, "event_id" INTEGER, {EXTRA}',
    "kernel_dispatch": f'{ID}, {WHERE}, "agent_id" INTEGER NOT NULL, "kernel_id" INTEGER NOT NULL, '
    f'"dispatch_id" INTEGER NOT NULL, "queue_id" INTEGER NOT NULL, "stream_id" INTEGER NOT NULL, {SPAN}, '
    '"private_segment_size" INTEGER, "group_segment_size" INTEGER, "workgroup_size_x" INTEGER, '
    '"workgroup_size_y" INTEGER, "workgroup_size_z" INTEGER, "grid_size_x" INTEGER, "grid_size_y" INTEGER, '
    f'"grid_size_z" INTEGER, "region_name_id" INTEGER, "event_id" INTEGER, {EXTRA}',
    "memory_copy": f'{ID}, {WHERE}, {SPAN}, "name_id" INTEGER NOT NULL, "dst_agent_id" INTEGER, "dst_address" INTEGER, '
    '"src_agent_id" INTEGER, "src_address" INTEGER, "size" INTEGER NOT NULL, "queue_id" INTEGER, '
    f'"stream_id" INTEGER, "region_name_id" INTEGER, "event_id" INTEGER, {EXTRA}',
    "memory_allocate": f'{ID}, {WHERE}, "agent_id" INTEGER, "type" TEXT, "level" TEXT, {SPAN}, "address" INTEGER, '
    f'"size" INTEGER NOT NULL, "queue_id" INTEGER, "stream_id" INTEGER, "event_id" INTEGER, {EXTRA}',
}  # fmt: skip


class Process:
    """The tables of one process in a database."""

    def __init__(self, db: sqlite3.Connection, pid: int) -> None:
        self.db, self.pid, self.time, self.correlation = db, pid, BOOT_NS + pid, 0
        self.guid = f"00000001-0000-7000-8000-{pid:012d}"
        self.ending = "_" + self.guid.replace("-", "_")
        self.texts: dict[str, int] = {}
        self.where = {"nid": 77, "pid": pid, "tid": pid + 1}
        for name, columns in TABLES.items():
            db.execute(f'create table "rocpd_{name}{self.ending}" ({columns})')
        for tag, value in (("schema_version", "3"), ("uuid", self.ending), ("guid", self.guid)):
            db.execute(f'insert into "rocpd_metadata{self.ending}" (tag, value) values (?, ?)', (tag, value))
        self.text("")
        self.facts()

    def add(self, table: str, /, **cells: object) -> int:
        cells = {"guid": self.guid} | cells
        names = ", ".join(f'"{c}"' for c in cells)
        marks = ", ".join("?" * len(cells))
        query = f'insert into "rocpd_{table}{self.ending}" ({names}) values ({marks})'
        return self.db.execute(query, tuple(cells.values())).lastrowid or 0

    def text(self, text: str) -> int:
        if text not in self.texts:
            self.texts[text] = self.add("string", string=text)
        return self.texts[text]

    def facts(self) -> None:
        """Add the tables that name things."""
        own = {"nid": 77, "pid": self.pid}
        self.add("info_node", id=77, hash=123, machine_id="0123", hostname="mi300")
        self.add(
            "info_process", id=self.pid, nid=77, ppid=1, pid=self.pid, init=BOOT_NS, fini=BOOT_NS + 10**9,
            command=f"./multiply --rank {self.pid % 2}", environment="{}",
        )  # fmt: skip
        self.add("info_thread", id=self.pid + 1, **own, tid=self.pid + 1, name="worker")
        for place, (kind, index) in enumerate((("CPU", 0), ("GPU", 0), ("GPU", 1))):
            name = "AMD EPYC 9654" if kind == "CPU" else "gfx942"
            product = name if kind == "CPU" else "AMD Instinct MI300X"
            self.add(
                "info_agent", id=place, **own, type=kind, absolute_index=place, logical_index=place, type_index=index,
                name=name, product_name=product,
            )  # fmt: skip
        for number, name in enumerate(("Default", "0")):
            self.add("info_queue", id=number, **own, name=f"{name} Queue")
            self.add("info_stream", id=number, **own, name=f"{name} Stream")
        self.add("info_code_object", id=1, **own, agent_id=1, uri="file:///home/user/project/multiply")
        for number, (shown, raw, registers, lds) in enumerate((GEMM, ADD), 1):
            self.add(
                "info_kernel_symbol", id=number, **own, code_object_id=1, kernel_name=raw, display_name=shown,
                group_segment_size=lds, private_segment_size=0, sgpr_count=96, arch_vgpr_count=registers,
                accum_vgpr_count=4,
            )  # fmt: skip
        for number, name in enumerate(("SQ_WAVES", "FETCH_SIZE", "device_temp"), 1):
            self.add("info_pmc", id=number, **own, agent_id=1, name=name, description=f"what {name} counts")

    def event(self, category: str, correlation: int, **cells: object) -> int:
        return self.add(
            "event", category_id=self.text(category), stack_id=correlation, parent_stack_id=correlation,
            correlation_id=0, call_stack="{}", line_info="{}", **cells,
        )  # fmt: skip

    def call(self, category: str, name: str, duration: int, message: str = "") -> int:
        """Add a call; return its correlation."""
        self.correlation += 1
        extra = {"extdata": json.dumps({"message": message})} if message else {}
        event = self.event(category, self.correlation, **extra)
        if duration:
            span = {"start": self.time, "end": self.time + duration}
            self.add("region", **self.where, **span, name_id=self.text(name), event_id=event)
            if "Malloc" in name:
                self.add("arg", event_id=event, position=0, type="size_t", name="sizeBytes", value="4194304")
        else:
            where = {key: self.where[key] for key in ("nid", "pid", "tid")}
            track = self.add("track", **where, name_id=self.text(category))
            self.add("sample", track_id=track, timestamp=self.time, event_id=event)
        self.time += 1_000
        return self.correlation

    def copy(self, source: int, target: int, size: int) -> None:
        words = ["HOST" if agent == 0 else "DEVICE" for agent in (source, target)]
        correlation = self.call("HIP_RUNTIME_API_EXT", "hipMemcpyAsync", 3_000)
        event = self.event("MEMORY_COPY", correlation)
        self.add(
            "memory_copy", **self.where, start=self.time, end=self.time + size // 40,
            name_id=self.text(f"MEMORY_COPY_{words[0]}_TO_{words[1]}"), dst_agent_id=target, src_agent_id=source,
            size=size, stream_id=1, region_name_id=1, event_id=event,
        )  # fmt: skip
        self.time += size // 40

    def kernel(self, number: int, agent: int, duration: int, groups: tuple[int, int, int]) -> None:
        correlation = self.call("HIP_RUNTIME_API_EXT", "hipLaunchKernel", 2_000)
        event = self.event("KERNEL_DISPATCH", correlation)
        threads = (256, 1, 1) if number == 2 else (16, 16, 1)
        sizes = {f"workgroup_size_{axis}": n for axis, n in zip("xyz", threads, strict=True)}
        sizes |= {f"grid_size_{axis}": n * m for axis, n, m in zip("xyz", threads, groups, strict=True)}
        lds = 4096 if number == 1 else 0
        self.add(
            "kernel_dispatch", **self.where, agent_id=agent, kernel_id=number, dispatch_id=correlation, queue_id=1,
            stream_id=1, start=self.time, end=self.time + duration, private_segment_size=0, group_segment_size=lds,
            **sizes, region_name_id=1, event_id=event,
        )  # fmt: skip
        for engine in range(4):
            self.add("pmc_event", event_id=event, pmc_id=1, value=float(duration // 100 + engine))
        self.add("pmc_event", event_id=event, pmc_id=2, value=duration / 8)
        self.time += duration + 500

    def memory(self, kind: str, address: int, size: int, level: str = "REAL") -> None:
        self.call("HIP_RUNTIME_API_EXT", "hipMalloc" if kind == "ALLOC" else "hipFree", 4_000)
        event = self.event("MEMORY_ALLOCATION", self.correlation)
        self.add(
            "memory_allocate", **self.where, agent_id=1, type=kind, level=level, start=self.time, end=self.time + 900,
            address=address, size=size, queue_id=0, stream_id=0, event_id=event,
        )  # fmt: skip
        self.time += 5_000

    def temperature(self, value: float) -> None:
        where = {key: self.where[key] for key in ("nid", "pid", "tid")}
        track = self.add("track", **where, name_id=self.text("device_temp"))
        event = self.event("rocm_smi", 0)
        self.add("sample", track_id=track, timestamp=self.time, event_id=event)
        self.add("pmc_event", event_id=event, pmc_id=3, value=value)


def run(process: Process) -> Iterator[None]:
    """Add what the program does."""
    process.memory("ALLOC", 0x7F00_0000_0000, 4 << 20)
    process.memory("ALLOC", 0x7F00_0100_0000, 65_536, "SCRATCH")
    process.call("HIP_COMPILER_API_EXT", "__hipRegisterFatBinary", 900)
    process.call("HSA_CORE_API", "hsa_signal_create", 700)
    yield
    for step in range(3):
        process.call("MARKER_CORE_RANGE_API", "roctxThreadRangeA", 72_000, f"step {step}")
        process.copy(0, 1, 1 << 20)
        process.kernel(1, 1, 20_000 + 1_000 * step, (16, 16, 1))
        process.kernel(2, 2, 5_000, (1024, 1, 1))
        process.copy(1, 2, 1 << 18)
        process.call("RCCL_API", "ncclAllReduce", 6_000)
        process.temperature(51.5 + step)
        process.copy(2, 0, 1 << 18)
        yield
    process.call("MARKER_CORE_RANGE_API", "roctxMarkA", 0, "the end")
    process.memory("FREE", 0x7F00_0000_0000, 0)
    process.memory("FREE", 0x7F00_0900_0000, 0)


def write(path: Path, pids: list[int]) -> None:
    """Write a database of these processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript("pragma page_size = 512; pragma journal_mode = off;")
    for pid in pids:
        process = Process(db, pid)
        for _ in run(process):
            pass
        if len(pids) == 1:
            for name in TABLES:
                db.execute(f'create view "rocpd_{name}" as select * from "rocpd_{name}{process.ending}"')
    db.commit()
    db.execute("vacuum")
    db.close()


KERNELS = """select 'KERNEL_DISPATCH', 'Agent ' || k.agent_id, queue_id, stream_id, k.tid, dispatch_id, kernel_id,
display_name, stack_id, start, end, k.group_segment_size, k.private_segment_size, arch_vgpr_count, accum_vgpr_count,
sgpr_count, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z
from rocpd_kernel_dispatch k join rocpd_info_kernel_symbol s on s.id = kernel_id
join rocpd_event e on e.id = event_id"""
CALLS = """select category.string, coalesce(json_extract(e.extdata, '$.message'), name.string), r.pid, r.tid, stack_id,
start, end from rocpd_region r join rocpd_event e on e.id = event_id join rocpd_string name on name.id = name_id
join rocpd_string category on category.id = category_id order by end"""
COPIES = """select 'MEMORY_COPY', string, stream_id, 'Agent ' || src_agent_id, 'Agent ' || dst_agent_id, stack_id,
start, end from rocpd_memory_copy join rocpd_event e on e.id = event_id join rocpd_string s on s.id = name_id"""
MEMORY = """select 'MEMORY_ALLOCATION', 'MEMORY_ALLOCATION_' || replace(type, 'ALLOC', 'ALLOCATE'),
'Agent ' || agent_id, size, printf('0x%x', address), stack_id, start, end from rocpd_memory_allocate
join rocpd_event e on e.id = event_id"""
COUNTERS = """select stack_id, dispatch_id, 'Agent ' || k.agent_id, queue_id, k.pid, k.tid, grid_size_x * grid_size_y,
kernel_id, display_name, workgroup_size_x * workgroup_size_y, k.group_segment_size, 0, arch_vgpr_count, sgpr_count,
i.name, printf('%.6f', sum(value)), start, end from rocpd_pmc_event p join rocpd_info_pmc i on i.id = pmc_id
join rocpd_kernel_dispatch k on k.event_id = p.event_id join rocpd_info_kernel_symbol s on s.id = kernel_id
join rocpd_event e on e.id = k.event_id group by dispatch_id, i.name"""
STATS = """select display_name, count(*), sum(end - start), sum(end - start) / count(*),
100.0 * sum(end - start) / (select sum(end - start) from rocpd_kernel_dispatch)
from rocpd_kernel_dispatch k join rocpd_info_kernel_symbol s on s.id = kernel_id group by 1 order by 3 desc"""
RESULTS = """select dispatch_id - 1, display_name || ' [clone .kd]', agent_id, queue_id - 1, dispatch_id - 1, k.pid,
k.tid, grid_size_x * grid_size_y, workgroup_size_x * workgroup_size_y, k.group_segment_size, 0, arch_vgpr_count,
accum_vgpr_count, sgpr_count, 64, '0x0', '0x7f00', start - 900, start, end, end + 300, end - start
from rocpd_kernel_dispatch k join rocpd_info_kernel_symbol s on s.id = kernel_id"""
CSV = {
    "4242_kernel_trace.csv": (
        KERNELS,
        (
            "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,"
            "End_Timestamp,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Workgroup_Size_X,"
            "Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z"
        ),
    ),
    "4242_hip_api_trace.csv": (
        CALLS, "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp"
    ),
    "4242_memory_copy_trace.csv": (
        COPIES,
        "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp",
    ),
    "4242_memory_allocation_trace.csv": (
        MEMORY, "Kind,Operation,Agent_Id,Allocation_Size,Address,Correlation_Id,Start_Timestamp,End_Timestamp"
    ),
    "4242_counter_collection.csv": (
        COUNTERS,
        (
            "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,"
            "Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,SGPR_Count,Counter_Name,Counter_Value,Start_Timestamp,"
            "End_Timestamp"
        ),
    ),
    "results.csv": (
        RESULTS,
        (
            "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,"
            "obj,DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs"
        ),
    ),
    "results.stats.csv": (STATS, "Name,Calls,TotalDurationNs,AverageNs,Percentage"),
}  # fmt: skip


def tables(database: Path, folder: Path) -> None:
    """Write the tables that rocprof and rocprofv3 write of the run in a database."""
    folder.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(database)
    for name, (query, columns) in CSV.items():
        quoting = csv.QUOTE_NONE if name.endswith("stats.csv") else csv.QUOTE_NONNUMERIC
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            if quoting == csv.QUOTE_NONE:  # as in ROCm 4: names have commas
                rows = [columns, *(",".join(str(cell) for cell in row) for row in db.execute(query))]
                file.write("\n".join(rows) + "\n")
            else:
                writer = csv.writer(file, quoting=quoting, lineterminator="\n")
                writer.writerows([columns.split(","), *db.execute(query)])
    db.close()


def main(target: Path) -> None:
    """Write the files."""
    write(target / "rocpd" / "4242_results.db", [4242])
    write(target / "rocpd" / "merged.db", [4300, 4301])
    tables(target / "rocpd" / "4242_results.db", target / "rocprof-csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

"""Write the samples of the profilers of Ascend NPUs. Nothing in them was measured.

    python sample_traces/_ascend.py [FOLDER]

Two training steps of a small transformer on one NPU: products, attention, additions, a random mask, an operator on an
AI CPU, and a collective. Columns, quotation marks, tabs and line ends are those of msprof and torch_npu; another
release of SQLite writes other bytes of the same rows.
"""

from __future__ import annotations

import csv
import io
import random
import sqlite3
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
START_NS = 1_736_413_971_558_972_912
STEP_NS = 4_000_000
NO_MODEL = 4294967295


@dataclass(frozen=True)
class Task:
    """One task of the NPU. shapes: of the inputs, and of the output."""

    step: int
    number: int
    stream: int | None
    name: str
    op: str
    core: str
    start: int
    end: int
    blocks: int
    inputs: str = "N/A"
    output: str = "N/A"
    dtype: str = "N/A"


KINDS = (
    ("aclnnMatmul_MatMulV3Common_MatMulV3", "MatMulV3", "AI_CORE", 24, "1024,4096;4096,4096", "1024,4096", "DT_BF16"),
    (
        "aclnnFlashAttentionScore_FlashAttentionScore_FlashAttentionScore",
        "FlashAttentionScore",
        "MIX_AIC",
        24,
        "1024,2,512;1024,2,512;1024,2,512;;;;1024,1024;",
        "1024,2,512",
        "DT_BF16",
    ),
    ("aclnnAdd_AddAiCore_Add", "Add", "AI_VECTOR_CORE", 48, "1024,4096;1024,4096", "1024,4096", "DT_BF16"),
    ("aclnnDropoutGenMask_DSARandomUniform", "DSARandomUniform", "DSA_SQE", 0, ";;;;", "524288", "UINT8"),
    ("aclnnUniqueConsecutive_UniqueConsecutiveAiCpu", "UniqueConsecutive", "AI_CPU", 1, "1024", "1024", "INT64"),
)  # fmt: skip


def tasks() -> list[Task]:
    """Return the tasks of both steps in order of start."""
    chance = random.Random(910)
    made: list[Task] = []
    for step in (1, 2):
        at = START_NS + (step - 1) * STEP_NS
        for layer in range(4):
            for name, op, core, blocks, inputs, output, dtype in KINDS:
                length = chance.randrange(1_480, 260_000)
                at += chance.randrange(20, 9_000)
                made.append(
                    Task(step, len(made) + 7, 2, name, op, core, at, at + length, blocks, inputs, output, dtype)
                )
                at += length
            if layer % 2:
                name = f"hcom_allReduce__445_{len(made)}_1"
                start = at - chance.randrange(40_000)
                made.append(Task(step, len(made) + 7, None, name, "hcom_allReduce_", "HCCL", start, start + 180_020, 0))
    return sorted(made, key=lambda task: task.start)


def us(ns: int) -> str:
    """Return ns as us with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


DETAILS = [
    *("Step Id", "Device_id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core"),
    *("Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim", "Mix Block Dim", "HF32 Eligible"),
    *("Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats"),
    *("Context ID", "aicore_time(us)", "aic_total_cycles", "aic_mac_ratio", "aiv_time(us)", "aiv_total_cycles"),
    *("aiv_vec_ratio", "cube_utilization(%)"),
]


def details(task: Task, wait: int) -> list[object]:
    """Return a row of kernel_details.csv."""
    hccl = task.core == "HCCL"
    cube, vector = task.core in ("AI_CORE", "MIX_AIC"), task.core in ("AI_VECTOR_CORE", "MIX_AIC")
    inputs = len(task.inputs.split(";"))
    length = task.end - task.start
    shown = [
        task.step, 0, NO_MODEL, "N/A" if hccl else task.number, "N/A" if hccl else task.stream, task.name, task.op,
        "N/A" if hccl else "dynamic", task.core, us(task.start) + "\t", us(length), us(wait), task.blocks,
        2 * task.blocks if task.core == "MIX_AIC" else 0, "N/A" if hccl else "NO",
    ]  # fmt: skip
    if hccl:
        return [*shown, *["N/A"] * (len(DETAILS) - len(shown))]
    formats = ";".join(["ND"] * inputs)
    return [
        *shown, f'"{task.inputs}"', ";".join([task.dtype] * inputs), formats,
        f'"{task.output}"', task.dtype, "ND", "N/A",
        us(length * 9 // 10) if cube else 0, length * 18 // 10 if cube else 0, 0.824 if cube else 0,
        us(length * 8 // 10) if vector else 0, length * 16 // 10 if vector else 0, 0.25 if vector else 0,
        79.295 if cube else 0,
    ]  # fmt: skip


def waits(made: list[Task]) -> list[int]:
    """Return the ns between each task and the one before it."""
    return [0, *(max(task.start - before.end, 0) for before, task in pairwise(made))]


def table(rows: list[list[object]], ends: str = "\r\n") -> str:
    """Return a table as torch_npu writes it; msprof ends lines with a line feed alone."""
    text = io.StringIO()
    csv.writer(text, lineterminator=ends).writerows(rows)
    return text.getvalue()


SUMMARY = {"Name": "Op Name", "Type": "OP Type", "Accelerator Core": "Task Type", "Start Time(us)":
           "Task Start Time(us)", "Duration(us)": "Task Duration(us)", "Wait Time(us)": "Task Wait Time(us)",
           "Block Dim": "Block Num", "Mix Block Dim": "Mix Block Num"}  # fmt: skip


def files() -> dict[str, str]:
    """Return the texts by name."""
    made = tasks()
    rows = [details(task, wait) for task, wait in zip(made, waits(made), strict=True)]
    kernels = [task for task in made if task.core != "HCCL"]
    summary = [[SUMMARY.get(name, name) for name in DETAILS[1:]], *(row[1:] for row in rows)]
    old = [["Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim"]]
    for task, wait in zip(made, waits(made), strict=True):
        # Level 0 knows no type and no accelerator; starts were rounded to a tenth of a us.
        start = f"{round(task.start / 100) / 10:.1f}".removesuffix(".0")
        old.append([task.name, "N/A", "N/A", start, us(task.end - task.start), us(wait), "0"])
    return {
        "kernel_details.csv": table([DETAILS, *rows]),
        "kernel_details_level0.csv": table(old),
        "op_summary_20250109171300.csv": table(summary, "\n"),
        "task_time_20250109171300.csv": table(task_time(made), "\n"),
        "op_statistic.csv": table(op_statistic(kernels)),
        "communication_statistic_20250109171300.csv": table(
            op_statistic([task for task in made if task.core == "HCCL"], core=False), "\n"
        ),
        "api_statistic_20250109171300.csv": table(api_statistic(made), "\n"),
        "step_trace_time.csv": table(step_trace(made)),
        "operator_details.csv": table(operator_details(made)),
    }


def task_time(made: list[Task]) -> list[list[object]]:
    """Return the tasks that are no operators, too."""
    head = [
        "Device_id",
        "kernel_name",
        "kernel_type",
        "stream_id",
        "task_id",
        "task_time(us)",
        "task_start(us)",
        "task_stop(us)",
    ]
    rows: list[list[object]] = [head]
    first, last = made[0].start, made[-1].end
    others = [
        ("PROFILING_ENABLE", first - 90_020, first - 90_000),
        ("MEMCPY_ASYNC", first - 60_000, first - 12_500),
        ("EVENT_RECORD", first - 9_000, first - 9_000),
        ("EVENT_WAIT", first - 8_000, first - 500),
        ("PROFILING_DISABLE", last + 5_000, last + 5_000),
    ]
    listed = [("N/A", kind, start, end, 1) for kind, start, end in others]
    types = {"AI_CORE": "KERNEL_AICORE", "AI_VECTOR_CORE": "KERNEL_AIVEC", "AI_CPU": "KERNEL_AICPU"}
    listed += [(t.name, types.get(t.core, t.core), t.start, t.end, t.number) for t in made if t.core != "HCCL"]
    for name, kind, start, end, number in sorted(listed, key=lambda each: each[2]):
        rows.append([0, name, kind, 2, number, us(end - start), us(start) + "\t", us(end) + "\t"])
    return rows


def op_statistic(made: list[Task], *, core: bool = True) -> list[list[object]]:
    """Return the sums by type of operator."""
    head: list[object] = ["Device_id", "OP Type", *(["Core Type"] if core else []), "Count", "Total Time(us)"]
    rows: list[list[object]] = [[*head, "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)"]]
    whole = sum(task.end - task.start for task in made)
    groups: dict[tuple[str, str], list[int]] = {}
    for task in made:
        groups.setdefault((task.op, task.core), []).append(task.end - task.start)
    for (op, kind), spans in sorted(groups.items(), key=lambda each: -sum(each[1])):
        figures = [len(spans), us(sum(spans)), us(min(spans)), f"{sum(spans) / len(spans) / 1000:.3f}", us(max(spans))]
        rows.append([0, op, *([kind] if core else []), *figures, f"{100 * sum(spans) / whole:.3f}"])
    return rows


def api_statistic(made: list[Task]) -> list[list[object]]:
    """Return the sums of calls."""
    count = len(made)
    return [
        ["Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"],
        ["host", "AscendCL", "aclnnMatmul", us(812_340), 8, "101.543", "88.120", "140.020", "210.5"],
        ["host", "AscendCL", "aclrtSynchronizeStream", us(3_902_110), 2, "1951.055", "1900.000", "2002.110", "2606.6"],
        ["host", "Runtime", "KernelLaunch", us(402_330), count, f"{402.33 / count:.3f}", "4.010", "21.500", "9.25"],
        ["host", "Node", "launch", us(611_000), count, f"{611 / count:.3f}", "7.000", "30.125", "12"],
        ["host", "Communication", "hcom_allReduce_", us(140_000), 4, "35.000", "30.000", "41.500", "17.5"],
    ]


def step_trace(made: list[Task]) -> list[list[object]]:
    """Return the parts of the steps, with the noise of floats that torch_npu leaves in."""
    head = (
        "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
        "Communication(Not Overlapped and Exclude Receive),Preparing"
    )
    rows: list[list[object]] = [head.split(",")]
    for step in (1, 2):
        own = [task for task in made if task.step == step]
        computing = sum(task.end - task.start for task in own if task.core != "HCCL") / 1000
        talking = sum(task.end - task.start for task in own if task.core == "HCCL") / 1000
        whole = (max(task.end for task in own) - own[0].start) / 1000
        hidden = sum(
            max(min(task.end, other.end) - max(task.start, other.start), 0)
            for task in own if task.core == "HCCL"
            for other in own if other.core != "HCCL"
        ) / 1000  # fmt: skip
        exposed = talking - hidden
        free = whole - computing - exposed
        rows.append([0, step, computing, exposed, hidden, talking, free, whole, 0, exposed, 12.5 + 0.1 + 0.2])
    return rows


def operator_details(made: list[Task]) -> list[list[object]]:
    """Return the calls of operators, with stacks of several lines."""
    head = (
        "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us),"
        "Device Total Duration(us),Device Self Duration With AICore(us),Device Total Duration With AICore(us)"
    )
    rows: list[list[object]] = [head.split(",")]
    stack = "train.py(31): step;\r\ntrain.py(12): <module>"
    for at, task in enumerate(made):
        if task.op not in ("MatMulV3", "Add"):
            continue
        length = (task.end - task.start) / 1000
        name = {"MatMulV3": "aten::linear", "Add": "aten::add"}[task.op]
        rows.append([name, task.inputs, stack, 12.5 + at / 8, 30.25 + at / 8, 0, length, 0, length])
        if task.op == "MatMulV3":
            rows.append(["aten::mm", task.inputs, stack, 17.75, 17.75, length, length, length, length])
    return rows


SPAN = "startNs INTEGER, endNs INTEGER"
SCHEMA = {
    "META_DATA": "name TEXT, value TEXT",
    "SESSION_TIME_INFO": SPAN.replace("Ns", "TimeNs"),
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "NPU_INFO": "id INTEGER, name TEXT",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "ENUM_API_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_DATA_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_MEMCPY_OPERATION": "id INTEGER PRIMARY KEY, name TEXT",
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "TASK": f"{SPAN}, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, globalPid INTEGER, "
    "taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER",
    "COMPUTE_TASK_INFO": "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER, "
    "taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, "
    "outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER",
    "COMMUNICATION_TASK_INFO": "name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, "
    "groupName INTEGER, notifyId INTEGER, rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER, "
    "size INTEGER, dataType INTEGER, linkType INTEGER, opId INTEGER",
    "COMMUNICATION_OP": f"opName INTEGER, {SPAN}, connectionId INTEGER, groupName INTEGER, opId INTEGER, "
    "relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, count NUMERIC, opType INTEGER",
    "MEMCPY_INFO": "globalTaskId NUMERIC, size NUMERIC, memcpyOperation NUMERIC",
    "CANN_API": f"{SPAN}, type INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER",
    "AICORE_FREQ": "deviceId INTEGER, timestampNs NUMERIC, freq INTEGER",
    "PYTORCH_API": "startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, "
    "sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, "
    "type INTEGER",
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "STEP_TIME": f"id INTEGER, {SPAN}",
    "MSTX_EVENTS": f"{SPAN}, eventType INTEGER, rangeId INTEGER, category INTEGER, message INTEGER, "
    "globalTid INTEGER, endGlobalTid INTEGER, domainId INTEGER, connectionId INTEGER",
}
PID = 4242
MAIN, QUEUE = (PID << 32) | PID, (PID << 32) | (PID + 7)
ENUMS = {
    "ENUM_API_TYPE": {20000: "acl", 15000: "model", 10000: "node", 5500: "communication", 5000: "runtime",
                      50001: "op", 50002: "queue", 50003: "trace", 50004: "mstx"},
    "ENUM_HCCL_DATA_TYPE": {3: "FP16", 4: "FP32", 11: "BFP16"},
    "ENUM_MEMCPY_OPERATION": {0: "host to host", 1: "host to device", 2: "device to host", 3: "device to device"},
}  # fmt: skip


class Base:
    """A database, and the numbers of its texts."""

    def __init__(self, path: Path, left_out: tuple[str, ...] = ()) -> None:
        path.unlink(missing_ok=True)
        self.db, self.texts = sqlite3.connect(path), dict[str, int]()
        self.left_out, self.task = left_out, 0
        for name, columns in SCHEMA.items():
            if name not in left_out:
                self.db.execute(f'create table "{name}" ({columns})')
        for name, rows in ENUMS.items():
            self.db.executemany(f'insert into "{name}" values (?, ?)', sorted(rows.items()))

    def text(self, text: str) -> int:
        """Return the number of a text."""
        if text not in self.texts:
            self.texts[text] = len(self.texts)
            self.add("STRING_IDS", id=self.texts[text], value=text)
        return self.texts[text]

    def add(self, table: str, /, **cells: object) -> None:
        """Add a row; texts become numbers where the column is one of them."""
        if table in self.left_out:
            return
        names, marks = ", ".join(cells), ", ".join("?" * len(cells))
        self.db.execute(f'insert into "{table}" ({names}) values ({marks})', tuple(cells.values()))

    def add_task(self, kind: str, start: int, end: int, stream: int, number: int, connection: int) -> int:
        """Add a task and return its number."""
        self.task += 1
        self.add(
            "TASK", startNs=start, endNs=end, deviceId=0, connectionId=connection, globalTaskId=self.task,
            globalPid=PID, taskType=self.text(kind), contextId=NO_MODEL, streamId=stream, taskId=number,
            modelId=NO_MODEL,
        )  # fmt: skip
        return self.task


def database(path: Path, *, torch: bool) -> None:
    """Write the run as a database: of torch_npu, or of msprof, which knows nothing of PyTorch but ranges of mstx."""
    beyond = ("MSTX_EVENTS",) if torch else ("PYTORCH_API", "CONNECTION_IDS", "STEP_TIME", "RANK_DEVICE_MAP")
    base, made = Base(path, beyond), tasks()
    first, last = made[0].start, max(task.end for task in made)
    base.add("META_DATA", name="SCHEMA_VERSION", value="1.1.0")
    base.add("SESSION_TIME_INFO", startTimeNs=first - 10**6, endTimeNs=last + 10**6)
    base.add("HOST_INFO", hostUid="1", hostName="npu-node")
    for number in range(2):
        base.add("NPU_INFO", id=number, name="Ascend910B")
    base.add("RANK_DEVICE_MAP", rankId=3, deviceId=0)
    base.add("AICORE_FREQ", deviceId=0, timestampNs=first, freq=1800)
    base.add_task("PROFILING_ENABLE", first - 90_020, first - 90_000, 0, 1, 1)
    copy = base.add_task("MEMCPY_ASYNC", first - 60_000, first - 12_500, 2, 2, 2)
    base.add("MEMCPY_INFO", globalTaskId=copy, size=1 << 20, memcpyOperation=1)
    call(base, "acl", "aclrtMemcpyAsync", first - 70_000, first - 61_000, 2)
    base.add_task("EVENT_RECORD", first - 9_000, first - 9_000, 2, 3, 3)
    types = {"AI_CORE": "KERNEL_AICORE", "AI_VECTOR_CORE": "KERNEL_AIVEC", "AI_CPU": "KERNEL_AICPU",
             "DSA_SQE": "STARS_COMMON", "MIX_AIC": "MIX_AIC"}  # fmt: skip
    for task in made:
        connection = 100 + task.number
        call(base, "acl", task.name.partition("_")[0], task.start - 40_000, task.start - 11_000, 0)
        call(base, "node", "launch", task.start - 30_000, task.start - 12_000, connection)
        if task.core == "HCCL":
            collective(base, task, connection)
            continue
        number = base.add_task(types[task.core], task.start, task.end, task.stream or 0, task.number, connection)
        inputs = len(task.inputs.split(";"))
        base.add(
            "COMPUTE_TASK_INFO", name=base.text(task.name), globalTaskId=number, blockDim=task.blocks, mixBlockDim=0,
            taskType=base.text(task.core), opType=base.text(task.op), inputFormats=base.text(";".join(["ND"] * inputs)),
            inputDataTypes=base.text(";".join([task.dtype] * inputs)), inputShapes=base.text(f'"{task.inputs}"'),
            outputFormats=base.text("ND"), outputDataTypes=base.text(task.dtype),
            outputShapes=base.text(f'"{task.output}"'), attrInfo=base.text("N/A"),
        )  # fmt: skip
        if task.core == "MIX_AIC":  # a mixed kernel lies within a task without a name
            base.add_task("KERNEL_AICORE", task.start - 1_000, task.end + 500, 2, task.number, connection)
        operator(base, task)
    for step in (1, 2):
        own = [task for task in made if task.step == step]
        base.add("STEP_TIME", id=step, startNs=own[0].start - 100_000, endNs=own[-1].end + 5_000)
        base.add(
            "MSTX_EVENTS", startNs=own[0].start - 80_000, endNs=own[-1].end, eventType=2, rangeId=step,
            category=NO_MODEL, message=base.text(f"step {step}"), globalTid=MAIN, endGlobalTid=MAIN,
            domainId=base.text("default"), connectionId=NO_MODEL,
        )  # fmt: skip
    base.add(
        "MSTX_EVENTS", startNs=last, endNs=last, eventType=0, rangeId=NO_MODEL, category=NO_MODEL,
        message=base.text("done"), globalTid=MAIN, endGlobalTid=MAIN, domainId=base.text("default"),
        connectionId=NO_MODEL,
    )  # fmt: skip
    base.db.commit()
    base.db.execute("vacuum")
    base.db.close()


def call(base: Base, level: str, name: str, start: int, end: int, connection: int) -> None:
    """Add a call of CANN."""
    numbers = {text: number for number, text in ENUMS["ENUM_API_TYPE"].items()}
    base.add(
        "CANN_API", startNs=start, endNs=end, type=numbers[level], globalTid=QUEUE, connectionId=connection,
        name=base.text(name),
    )  # fmt: skip


def collective(base: Base, task: Task, connection: int) -> None:
    """Add a communication operator, with the tasks that it consists of."""
    group = base.text("10.0.0.1%eth0_60000_0_1736407029972691")
    base.add(
        "COMMUNICATION_OP", opName=base.text(task.name), startNs=task.start, endNs=task.end, connectionId=connection,
        groupName=group, opId=task.number, relay=0, retry=0, dataType=4, algType=base.text("MESH-RING"),
        count=4_097_000, opType=base.text(task.op),
    )  # fmt: skip
    base.add_task("AI_CORE", task.start - 500, task.end + 500, 4, task.number, connection)
    middle = (task.start + task.end) // 2
    for kind, shown, start, end in (
        ("Notify Wait", "Notify_Wait", task.start, middle), ("SDMA", "Memcpy", middle, task.end)
    ):  # fmt: skip
        number = base.add_task(kind, start, end, 5, task.number, connection)
        base.add(
            "COMMUNICATION_TASK_INFO", name=base.text(task.name), globalTaskId=number, taskType=base.text(shown),
            planeId=0, groupName=group, notifyId=0, rdmaType=65535, srcRank=3, dstRank=0, transportType=0,
            size=16_388_000 if kind == "SDMA" else 0, dataType=4, linkType=1, opId=task.number,
        )  # fmt: skip


def operator(base: Base, task: Task) -> None:
    """Add an operator of PyTorch around the call of a task."""
    if task.op not in ("MatMulV3", "Add"):
        return
    name, shapes = {
        "MatMulV3": ("aten::mm", "1024,4096;\r\n4096,4096"), "Add": ("aten::add", "1024,4096;\r\n1024,4096;\r\n")
    }[task.op]  # fmt: skip
    types = ";\r\n".join(["c10::BFloat16"] * 2 + ["Scalar"] * (task.op == "Add"))
    base.add(
        "PYTORCH_API", startNs=str(task.start - 60_000), endNs=str(task.start - 45_000), globalTid=MAIN,
        connectionId=task.number, name=base.text(name), sequenceNumber=task.number, fwdThreadId=0,
        inputDtypes=base.text(types), inputShapes=base.text(shapes), type=50001,
    )  # fmt: skip
    base.add("CONNECTION_IDS", id=task.number, connectionId=100 + task.number)
    base.add(
        "PYTORCH_API", startNs=str(task.start - 50_000), endNs=str(task.start - 46_000), globalTid=MAIN,
        connectionId=0, name=base.text("Enqueue"), type=50002,
    )  # fmt: skip


def main(folder: Path) -> None:
    """Write the files."""
    out = folder / "ascend-csv"
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (out / name).write_bytes(text.encode())
    out = folder / "ascend-db"
    out.mkdir(parents=True, exist_ok=True)
    database(out / "ascend_pytorch_profiler_3.db", torch=True)
    database(out / "msprof_20250109171300.db", torch=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

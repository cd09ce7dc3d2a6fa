"""Write the samples of Nsight Compute's output. Nothing in them was measured.

    python sample_traces/_ncu.py [FOLDER]

Every file has the same launches. Heads, units and roundings are ncu's.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ADVICE = 'This kernel\'s theoretical occupancy (75.0%) is limited by the number of required "registers".'


class Launch(NamedTuple):
    """One launch. Shares are in percent."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    duration_ns: int
    dram_bytes: int
    cycles: int
    occupancy: str
    compute: str
    memory: str
    registers: int


GEMM = "void gemm<float, (int)4>(const float *, const float *, float *, int)"
LAUNCHES = (
    Launch(GEMM, (64, 64, 1), (32, 32, 1), 9_589_248, 80_808_960, 24_512_896, "66.61", "97.32", "41.50", 38),
    Launch(
        "softmax(float *, int)", (1823, 1, 1), (128, 1, 1), 10_848, 1_310_720, 11_618, "58.78", "10.24", "34.72", 18
    ),
    Launch(GEMM, (64, 64, 1), (32, 32, 1), 9_601_024, 80_809_472, 24_543_104, "66.59", "97.18", "41.46", 38),
)
PLACE = {"Process ID": "4242", "Process Name": "train", "Host Name": "127.0.0.1"}
CONNECTED = "==PROF== Connected to process 4242 (/opt/train/bin/train)\n"
BEFORE = CONNECTED + "".join(
    f'==PROF== Profiling "{launch.name[:12]}" - {at}: 0%....50%....100% - 10 passes\n'
    for at, launch in enumerate(LAUNCHES)
)
DISCONNECTED = "loss 0.25\n==PROF== Disconnected from process 4242\n"
SPEED, SHAPE, OCCUPANCY = "GPU Speed Of Light Throughput", "Launch Statistics", "Occupancy"
Row = tuple[str, str, str, str]
"""Section, metric, unit and value."""


def product(dimensions: tuple[int, int, int]) -> int:
    x, y, z = dimensions
    return x * y * z


def scaled(value: int, units: tuple[str, ...]) -> tuple[str, str]:
    """Return the unit in which a value is below 1000, and the value with two digits."""
    number, left = Decimal(value), list(units)
    while number >= 1000 and len(left) > 1:
        number, left = number / 1000, left[1:]
    return left[0], f"{number:.2f}" if left[0] != units[0] else str(value)


def details(launch: Launch) -> list[Row]:
    """Return the metrics of the details page, with units as they fit."""
    time = scaled(launch.duration_ns, ("ns", "us", "ms"))
    size = scaled(launch.dram_bytes, ("byte", "Kbyte", "Mbyte"))
    return [
        (SPEED, "SM Frequency", "Ghz", "2.56"),
        (SPEED, "Elapsed Cycles", "cycle", f"{launch.cycles:,}"),
        (SPEED, "Memory Throughput", "%", launch.memory),
        (SPEED, "Duration", *time),
        (SPEED, "Compute (SM) Throughput", "%", launch.compute),
        ("Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "8.43"),
        ("Memory Workload Analysis", "DRAM Bytes", *size),
        (SHAPE, "Block Size", "", f"{product(launch.block):,}"),
        (SHAPE, "Function Cache Configuration", "", "CachePreferNone"),
        (SHAPE, "Grid Size", "", f"{product(launch.grid):,}"),
        (SHAPE, "Registers Per Thread", "register/thread", str(launch.registers)),
        (OCCUPANCY, "Theoretical Occupancy", "%", "100"),
        (OCCUPANCY, "Achieved Occupancy", "%", launch.occupancy),
    ]


def identity(number: int, launch: Launch) -> dict[str, str]:
    return {
        "ID": str(number), **PLACE, "Kernel Name": launch.name, "Context": "1", "Stream": "7",
        "Block Size": str(launch.block), "Grid Size": str(launch.grid), "Device": "0", "CC": "12.0",
    }  # fmt: skip


def quoted(rows: Iterable[Iterable[str]], **form: object) -> str:
    out = io.StringIO()
    csv.writer(out, **{"quoting": csv.QUOTE_ALL, "lineterminator": "\n", **form}).writerows(rows)  # type: ignore[arg-type]
    return out.getvalue()


def details_csv() -> str:
    """Return the details page with the advice of a rule, which has no metric."""
    heads = (*identity(0, LAUNCHES[0]), "Section Name", "Metric Name", "Metric Unit", "Metric Value")
    rules = ("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup")
    rows: list[Iterable[str]] = [(*heads, *rules)]
    for number, launch in enumerate(LAUNCHES):
        own = tuple(identity(number, launch).values())
        rows += [(*own, *row, *[""] * len(rules)) for row in details(launch)]
        rows.append((*own, OCCUPANCY, "", "", "", "TheoreticalOccupancy", "OPT", ADVICE, "global", "25.00"))
    return BEFORE + DISCONNECTED + quoted(rows)


def raw_csv() -> str:
    """Return the raw page in base units: units in the second line, a column for ranges of NVTX."""
    nvtx = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    units = {
        "device__attribute_display_name": "", "device__attribute_multiprocessor_count": "",
        "dram__bytes.sum": "byte", "gpu__time_duration.sum": "ns", "launch__grid_size": "",
        "launch__registers_per_thread": "register/thread", "sm__cycles_elapsed.max": "cycle",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
        "sm__warps_active.avg.pct_of_peak_sustained_active": "%",
    }  # fmt: skip
    head = (*identity(0, LAUNCHES[0]), nvtx)
    rows: list[Iterable[str]] = [(*head, *units), (*[""] * len(head), *units.values())]
    for number, launch in enumerate(LAUNCHES):
        values = (
            "NVIDIA GeForce RTX 5070", "48", launch.dram_bytes, launch.duration_ns, product(launch.grid),
            launch.registers, launch.cycles, launch.compute, launch.occupancy,
        )  # fmt: skip
        rows.append((*identity(number, launch).values(), "<default domain>:train", *map(str, values)))
    return CONNECTED + DISCONNECTED + quoted(rows)


def summary_csv() -> str:
    """Return --print-summary per-kernel: a line for each metric of each kernel."""
    rows: list[Iterable[str]] = []
    for name in dict.fromkeys(launch.name for launch in LAUNCHES):
        mine = [launch for launch in LAUNCHES if launch.name == name]
        own = identity(0, mine[0])
        del own["ID"]
        rows = rows or [
            (*own, "Invocations", "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average")
        ]
        times = [launch.duration_ns for launch in mine]
        shares = [Decimal(launch.occupancy) for launch in mine]
        for metric, unit, values in (("Duration", "ns", times), ("Achieved Occupancy", "%", shares)):
            mean = sum(values, Decimal(0)) / len(values)
            figures = (f"{min(values):,}", f"{max(values):,}", f"{mean:,.2f}")
            rows.append((*own.values(), str(len(mine)), SPEED, metric, unit, *figures))
    return CONNECTED + quoted(rows)


def excel_csv() -> str:
    """Return a table of --metrics as Excel saves it again where numbers have decimal commas."""
    heads = (*identity(0, LAUNCHES[0]), "Section Name", "Metric Name", "Metric Unit", "Metric Value")
    rows: list[Iterable[str]] = [heads]
    for number, launch in enumerate(LAUNCHES):
        for metric, unit, value in (
            ("gpu__time_duration.sum", "us", f"{Decimal(launch.duration_ns) / 1000:.3f}"),
            ("sm__warps_active.avg.pct_of_peak_sustained_active", "%", launch.occupancy),
        ):
            section = "Command line profiler metrics"
            rows.append((*identity(number, launch).values(), section, metric, unit, value.replace(".", ",")))
    return quoted(rows, delimiter=";", quoting=csv.QUOTE_MINIMAL, lineterminator="\r\n")


def table(rows: Iterable[Row]) -> str:
    """Return the table of a section as text."""
    cells = [("Metric Name", "Metric Unit", "Metric Value"), *(row[1:] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(3)]
    rule = "    " + " ".join("-" * width for width in widths)
    lines = [f"    {name:<{widths[0]}} {unit:>{widths[1]}} {value:>{widths[2]}}" for name, unit, value in cells]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])


def details_text() -> str:
    """Return the details page as text."""
    parts = [BEFORE, DISCONNECTED, "[4242] train@127.0.0.1\n"]
    for launch in LAUNCHES:
        parts.append(f"  {launch.name} {launch.grid}x{launch.block}, Context 1, Stream 7, Device 0, CC 12.0\n")
        rows = details(launch)
        for section in dict.fromkeys(row[0] for row in rows):
            parts.append(f"    Section: {section}\n" + table(row for row in rows if row[0] == section) + "\n")
        parts.append(f"    OPT   Est. Speedup: 25%\n          {ADVICE}\n\n")
    return "".join(parts)


FILES = {
    "details.csv": details_csv, "raw.csv": raw_csv, "summary.csv": summary_csv, "excel.csv": excel_csv,
    "details.txt": details_text,
}  # fmt: skip


def main(folder: Path) -> None:
    (folder / "ncu").mkdir(parents=True, exist_ok=True)
    for name, made in FILES.items():
        (folder / "ncu" / name).write_bytes(made().encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

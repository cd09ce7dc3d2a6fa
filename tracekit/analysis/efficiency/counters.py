"""Work as a profiler counted it: FLOPs and bytes of device memory of a launch, from the metrics of its kernel.

What was counted is what a kernel did, not the least that it had to do: it gives a rate and a share of the peak, and no
floor. Bytes are those between the last cache and the device memory.

Nsight Compute: `dram__bytes*.sum`; FLOPs of threads by kind of instruction (a fused one is 2), those of tensor cores by
path (`sm__ops_path_tensor_src_*.sum`), since an instruction of a tensor core has no fixed number of FLOPs.
nvprof: `dram_read_transactions` of 32 bytes, `flop_count_sp` and the like, in which a fused operation is 2 already.
rocprof: FETCH_SIZE and WRITE_SIZE, in KiB, or the requests that they are made of (TCC_EA_RDREQ_sum and others, as
ROCm's metrics.xml multiplies them); SQ_INSTS_VALU_MFMA_MOPS_*, in 512 FLOPs of matrix cores. Its instructions of vector
units count lanes that are switched off too, so they are no FLOPs.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern

__all__ = ["CountedBytes", "CountedFlops", "Counters", "counted_bytes", "counted_flops", "counted_time"]

Counters = Mapping[str, float]
"""The mean of each metric of a kernel."""

_TIMES = ("gpu__time_duration.sum", "Duration")
_READ = (
    ("dram__bytes_read.sum", 1),
    ("dram__bytes_op_read.sum", 1),
    ("dram_read_bytes", 1),
    ("dram_read_transactions", 32),
    ("FETCH_SIZE", 1024),
)
_WRITTEN = (
    ("dram__bytes_write.sum", 1),
    ("dram__bytes_op_write.sum", 1),
    ("dram_write_bytes", 1),
    ("dram_write_transactions", 32),
    ("WRITE_SIZE", 1024),
)
_BOTH = "dram__bytes.sum"
_CACHES = ("TCC_EA", "TCC_EA0")
"""Names of the port to the memory: of MI200 and before, of MI300."""

_THREADS = (("fp32", "f"), ("fp64", "d"), ("fp16", "h"))
_UNITS = ("smsp__", "sm__")
_STATED_FLOPS = (("fp32", "flop_count_sp"), ("fp64", "flop_count_dp"), ("fp16", "flop_count_hp"))
_TENSOR = lazy_pattern(r"sm__ops_path_tensor_src_(bf16|fp16|tf32|fp64|fp8|fp4|int8)(?:_dst_([a-z0-9]+))?\.sum")
"""Counts with sparsity on or off are parts of these."""
_MATRIX = lazy_pattern(r"SQ_INSTS_VALU_MFMA_MOPS_(F16|BF16|F32|F64|F8|I8)")
_MATRIX_RATES = {
    "F16": ("fp16", "fp16"), "BF16": ("bf16", "bf16"), "F32": ("fp32", "fp32_matrix"), "F64": ("fp64", "fp64_matrix"),
    "F8": ("fp8", "fp8"), "I8": ("int8", "int8"),
}  # fmt: skip
"""The precision, and the rate of `devices.tsv`, of each."""


@dataclass(frozen=True, slots=True)
class CountedBytes:
    """Bytes of a launch from and to device memory; None where they were not counted."""

    read: float | None
    written: float | None
    moved: float | None


@dataclass(frozen=True, slots=True)
class CountedFlops:
    """FLOPs of a launch in one precision. rate: a rate of `devices.tsv`, "" where no peak is of these units.

    shorter: products of fp16 that are summed in fp16, which some devices do faster.
    """

    units: str
    flops: float
    rate: str
    shorter: bool = False


def counted_time(counters: Counters) -> float | None:
    """Return the ns of a launch, None where they were not measured."""
    return next((counters[name] for name in _TIMES if counters.get(name)), None)


def counted_bytes(counters: Counters) -> CountedBytes:
    """Return the bytes of a launch.

    >>> counted_bytes({"dram_read_transactions": 10, "dram_write_transactions": 2}).moved
    384
    """
    read, written = (
        next((counters[name] * scale for name, scale in names if name in counters), None) for names in (_READ, _WRITTEN)
    )
    read = _read_by_requests(counters) if read is None else read
    written = _written_by_requests(counters) if written is None else written
    moved = counters.get(_BOTH)
    if moved is None and read is not None and written is not None:
        moved = read + written
    return CountedBytes(read, written, moved)


def _read_by_requests(counters: Counters) -> float | None:
    """Return the bytes that AMD's L2 cache read: requests of 64 bytes, but for those of 32, and of 128 on MI300."""
    for cache in _CACHES:
        names = [f"{cache}_RDREQ_sum", f"{cache}_RDREQ_32B_sum"]
        if counters.keys() >= set(names):
            every, short = (counters[name] for name in names)
            return 64 * every - 32 * short + 64 * counters.get("TCC_BUBBLE_sum", 0)
    return None


def _written_by_requests(counters: Counters) -> float | None:
    """Return the bytes that AMD's L2 cache wrote: requests of 32 bytes, but for those of 64."""
    for cache in _CACHES:
        names = [f"{cache}_WRREQ_sum", f"{cache}_WRREQ_64B_sum"]
        if counters.keys() >= set(names):
            every, long = (counters[name] for name in names)
            return 32 * every + 32 * long
    return None


def counted_flops(counters: Counters) -> list[CountedFlops]:
    """Return the FLOPs of a launch by precision and units, without precisions of which it has none.

    >>> [(each.units, each.flops) for each in counted_flops({"flop_count_sp": 8, "flop_count_dp": 0})]
    [('fp32', 8)]
    """
    found: dict[str, CountedFlops] = {}
    for precision, letter in _THREADS:
        for unit in _UNITS:
            names = [f"{unit}sass_thread_inst_executed_op_{letter}{each}_pred_on.sum" for each in ("add", "mul", "fma")]
            if precision not in found and counters.keys() >= set(names):
                add, multiply, fused = (counters[name] for name in names)
                found[precision] = CountedFlops(precision, add + multiply + 2 * fused, _peak_of(precision))
    for precision, name in _STATED_FLOPS:
        if precision not in found and name in counters:
            found[precision] = CountedFlops(precision, counters[name], _peak_of(precision))
    for name, value in counters.items():
        if match := _TENSOR.fullmatch(name):
            source, into = match[1], match[2] or ""
            units = f"{source} to {into}, tensor cores" if into else f"{source}, tensor cores"
            rate = "fp64_matrix" if source == "fp64" else source
            found[units] = CountedFlops(units, value, rate, shorter=source == into == "fp16")
        if match := _MATRIX.fullmatch(name):
            precision, rate = _MATRIX_RATES[match[1]]
            units = f"{precision}, matrix cores"
            found[units] = CountedFlops(units, 512 * value, rate)
    return [each for each in found.values() if each.flops > 0]


def _peak_of(precision: str) -> str:
    # The peak of fp16 in the table is that of tensor cores.
    return "" if precision == "fp16" else precision

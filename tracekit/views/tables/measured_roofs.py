"""Roofs that rocprof-compute measured on the machine of a run (`roofline.csv`), as the peaks of its devices.

They are what benchmarks reached, so a share of them is higher than one of the data sheet. The counters number devices
by node, and the roofs by their order among the GPUs: of several measured devices the highest roofs count.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tracekit.analysis.efficiency.devices import DevicePeaks, RatedDevice
from tracekit.index.trace_index import TraceIndex, join
from tracekit.model.schema import Kind
from tracekit.views.totals import totals_rows

__all__ = ["ROOFS", "measured_roofs"]

ROOFS = "roofs"
"""The section of TOTALS that has them."""
_BANDWIDTH = "HBMBw"
_RATES: Mapping[str, str] = MappingProxyType(
    {
        "FP64Flops": "fp64", "FP32Flops": "fp32", "MFMAF64Flops": "fp64_matrix", "MFMAF32Flops": "fp32_matrix",
        "MFMAF16Flops": "fp16", "MFMABF16Flops": "bf16", "MFMAF8Flops": "fp8", "MFMAI8Ops": "int8",
    }
)  # fmt: skip
"""Columns of roofline.csv, in 10^9 a second, and the rates of `devices.tsv` that they are."""


@join
def measured_roofs(index: TraceIndex) -> dict[int, RatedDevice]:
    """Return the device with its measured roofs for each input that has them."""
    highest: dict[int, dict[str, float]] = {}
    devices: dict[int, set[object]] = {}
    for row in totals_rows(index, {Kind.OTHER}):
        metric, value = row["args"].get("metric"), row["value_avg"]
        if row["section"] != ROOFS or not isinstance(metric, str) or value is None or not 0 < value < float("inf"):
            continue
        roofs = highest.setdefault(row["source"], {})
        roofs[metric] = max(roofs.get(metric, 0.0), value)
        devices.setdefault(row["source"], set()).add(row["device"])
    found = {}
    for source, roofs in highest.items():
        if _BANDWIDTH not in roofs:
            continue
        rates = {rate: roofs[name] / 1e3 for name, rate in _RATES.items() if name in roofs}
        count = len(devices[source])
        which = f"the highest of {count} devices, as the counters do not say which of them ran" if count > 1 else ""
        name = str(index.run.sources[source].facts.get("gpu_model") or "GPU")
        peaks = DevicePeaks(
            name, "", 0, "", (), rates, 1.0, roofs[_BANDWIDTH], None, 0, {}, "measured", "roofline.csv", ""
        )
        note = f"the peaks are the roofs that rocprof-compute measured (roofline.csv){', ' if which else ''}{which}"
        found[source] = RatedDevice(name, peaks, note)
    return found

"""perfetto: Perfetto's own traces (`.pftrace`, `.perfetto-trace`: the messages of trace_packet.proto).

    packet: {timestamp: 131542961211562, trusted_packet_sequence_id: 2, track_event: {type: TYPE_SLICE_BEGIN,
             name_iid: 76, category_iids: 3, track_uuid: 17228401478048177274, flow_ids: 14124986797177178909}}
    packet: {timestamp: 131542961223002, trusted_packet_sequence_id: 2, track_event: {type: TYPE_SLICE_END}}

A record is a packet; compressed packets are records of their own, beside the packet that holds them. Kept: begins of
slices, moments, counters. Merged: ends. Facts: descriptors, clock snapshots, packets with interned texts alone. Packets
of other types are ignored and counted by type; a note names the types that hold measurements.

Times are ns of the trace's own clock (BOOTTIME, if no snapshot says otherwise). Times of other clocks are converted by
the clock snapshots before them; packets whose clock no snapshot has named yet wait for the end of the file.
`Run.origin_ns` comes from REALTIME in the snapshots. Without a snapshot times are as they are, Unix time from 2001 on.

Slices are user_range, moments mark, counters counter, ids of arrows rows of kind flow, with their phase in `args`.
Categories of rocprofv3 decide the kind: hip_api runtime, hsa_api driver, rccl_api communication; kernel_dispatch
kernel, memory_copy memcpy, with device, stream and correlation. The category is `cat` in `args`, beside the debug
annotations, source location and log message. A thread is a lane by pid and tid; each other track has a `tid` of its
own, which its name stands for. Values of counters are in the unit of their descriptor.

Stages of a GPU (gpu_render_stage_event) are kernel, with device, stream (the hardware queue) and the process of their
context; ids, launch shape and extra data are in `args`. gpu_counter_event and gpu_mem_total_event are counters.

An end closes the innermost open slice of its track with its name and category; one without them, or with an empty
name, closes the innermost one. Slices within a slice that ends, end with it. Chrome's phases B, E, X, b, e, S, F are
slices, C counters, s, t, f arrows, M names; all others are moments. Asynchronous ones (b, e, n, S, T, p, F) have no
tid, and their id in `args`.

A trace that tracekit wrote comes back with its lanes, kinds, columns and clock. No field of Perfetto holds the thread
of a counter; empty lists, empty objects and whole numbers beyond int64 within `args` come back as text.

Unlike Perfetto's engine (v52): N, O and D of objects are moments; an end with an empty name (Chrome's navigations) does
end a slice; a value of a GPU's counter has the time at which it was read, not that of the value before it.
Not supported: ftrace, samples, and all else; vulkan_api_event, graphics_frame_event.
Sources: protos/perfetto/trace and src/trace_processor/importers/proto of google/perfetto; files of rocprofv3, Chrome
and the Rust crate tracing-perfetto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES if the file begins with packets whose fields are those of TracePacket."""
    if head.data[:1] != b"\x0a":
        return Confidence.NO
    from tracekit.readers.perfetto import _sniff

    return _sniff.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events. Raises: ParseError for a file that begins with no packet."""
    from tracekit.readers.perfetto import _reading

    return _reading.read(source, options, ledger)

"""Numbers of fields, from protos/perfetto/trace/trace_packet.proto and its imports (Perfetto 59)."""

from __future__ import annotations

__all__ = [
    "BESIDE",
    "BOOTTIME",
    "CATEGORIES",
    "CHROME_EVENTS",
    "CLEARED",
    "CLOCK",
    "COMPRESSED",
    "CONTEXTS",
    "CORRELATIONS",
    "COUNTER_DESCRIPTORS",
    "DEFAULTS",
    "DESCRIPTOR",
    "EVENT_TYPES",
    "FACTS",
    "FIRST_LOCAL_CLOCK",
    "FLAGS",
    "GPU_COUNTER",
    "GPU_MEMORY",
    "GPU_STAGE",
    "INTERNED",
    "KERNELS",
    "KEYS",
    "LAST_LOCAL_CLOCK",
    "LOG_BODIES",
    "LOST",
    "NAMES",
    "PROCESS",
    "PROCESS_TREE",
    "REALTIME",
    "SEQUENCE",
    "SNAPSHOT",
    "SOURCE_LOCATIONS",
    "SPECIFICATIONS",
    "STRINGS",
    "THREAD",
    "TIMESTAMP",
    "TRACK_EVENT",
    "TYPES",
    "ZSTD_COMPRESSED",
]

TIMESTAMP, SEQUENCE, FLAGS, CLOCK, CLEARED, LOST = 8, 10, 13, 58, 41, 42
TRACK_EVENT, INTERNED, DEFAULTS, SNAPSHOT, DESCRIPTOR = 11, 12, 59, 6, 60
PROCESS, THREAD, PROCESS_TREE, CHROME_EVENTS = 43, 44, 2, 5
COMPRESSED, ZSTD_COMPRESSED = 50, 133
GPU_COUNTER, GPU_STAGE, GPU_MEMORY, GPU_INFO = 52, 53, 71, 128
SYSTEM, UUID, CONFIG = 45, 89, 33

BESIDE = frozenset({3, 8, 10, 12, 13, 41, 42, 58, 59, 79, 87, 98})
"""Fields that a packet of any type may have."""

FACTS = frozenset({PROCESS, THREAD, PROCESS_TREE, SNAPSHOT, DESCRIPTOR, SYSTEM, UUID, CONFIG, GPU_INFO})
"""Types of packets that become facts of the run."""

TYPES = {
    1: "ftrace_events",
    4: "inode_file_map",
    5: "chrome_events",
    7: "sys_stats",
    9: "process_stats",
    34: "ftrace_stats",
    35: "trace_stats",
    36: "synchronization_marker",
    37: "profile_packet",
    38: "battery",
    39: "android_log",
    40: "power_rails",
    46: "trigger",
    47: "packages_list",
    48: "chrome_benchmark_metadata",
    49: "perfetto_metatrace",
    51: "chrome_metadata",
    54: "streaming_profile_packet",
    57: "graphics_frame_event",
    61: "module_symbols",
    62: "vulkan_memory_event",
    63: "gpu_log",
    64: "deobfuscation_mapping",
    65: "vulkan_api_event",
    66: "perf_sample",
    67: "cpu_info",
    68: "smaps_packet",
    69: "service_event",
    70: "initial_display_state",
    72: "extension_descriptor",
    73: "memory_tracker_snapshot",
    74: "streaming_allocation",
    75: "streaming_free",
    77: "android_energy_estimation_breakdown",
    78: "ui_state",
    82: "translation_table",
    83: "android_game_intervention_list",
    84: "statsd_atom",
    86: "android_system_property",
    90: "track_event_range_of_interest",
    91: "entity_state_residency",
    95: "etw_events",
    99: "v8_js_code",
    100: "v8_internal_code",
    101: "v8_wasm_code",
    102: "v8_reg_exp_code",
    103: "v8_code_move",
    107: "remote_clock_sync",
    109: "chrome_trigger",
    110: "pixel_modem_events",
    111: "pixel_modem_token_database",
    113: "clone_snapshot_trigger",
    115: "kernel_wakelock_data",
    117: "generic_kernel_task_state_event",
    118: "generic_kernel_cpu_freq_event",
    119: "cpu_per_uid_data",
    120: "generic_kernel_task_rename_event",
    122: "generic_kernel_process_tree",
    123: "user_list",
    124: "trace_provenance",
    125: "protovms",
    126: "trace_attributes",
    127: "android_aflags",
    129: "generic_gpu_frequency_event",
    130: "interrupt_info",
    131: "art_process_metadata",
    132: "journald_event",
    134: "concurrent_session_event",
    135: "stack_sample",
    138: "recovered_trace_info",
    900: "for_testing",
}
"""Types of packets that hold no rows for us."""

EVENT_TYPES = frozenset({1, 5, 7, 9, 37, 38, 39, 40, 54, 57, 62, 63, 65, 66, 68, 73, 74, 75, 84, 91, 95, 110, 135})
"""Those among them that hold measurements: a note says that they were not read."""

CATEGORIES, NAMES, KEYS, SOURCE_LOCATIONS, LOG_BODIES, STRINGS, CORRELATIONS = 1, 2, 3, 4, 20, 29, 43
CONTEXTS, SPECIFICATIONS, COUNTER_DESCRIPTORS, KERNELS = 23, 24, 47, 26
"""Fields of InternedData."""

REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6
FIRST_LOCAL_CLOCK, LAST_LOCAL_CLOCK = 64, 127
